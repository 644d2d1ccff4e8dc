// SPDX-License-Identifier: GPL-2.0

//! Devices: how they come, change their names, and go.
//!
//! A device's life:
//!
//! | state | from | what there is |
//! |---|---|---|
//! | made | `_ib_alloc_device` | memory, `Private` |
//! | named | `ib_register_device` | a name and a number; it is in the registry |
//! | set up | | ports, attributes, the steps of `stages` |
//! | enabled | | registered: `try_get` succeeds, clients have it, namespaces see it |
//! | disabled | `ib_unregister_device` | no client has it, nobody keeps it registered |
//! | taken down | | the steps are undone |
//! | dealloc'd | `ib_dealloc_device` | the driver's part is gone; out of the registry |
//!
//! Unregistering may be asked for by several at once, in several ways; whoever asks returns when it is done.
//!
//! From the roof down; an import goes down only:
//!
//! | file | what |
//! |---|---|
//! | [`namespace`] | devices move between network namespaces |
//! | this one | registration and unregistration, names |
//! | [`stages`] | in which order the areas take part in a device's life |
//! | [`compat`] | how the namespaces see a device that they are not in |
//! | [`port_event`] | what happens to net devices happens to ports |
//! | [`dispatch`] | events on their way: from any context to process context, in order, after the caches |
//! | [`subdevice`], [`link`] | devices of devices; kinds of links |
//! | [`cgroup`], [`queue`], [`rdma_netdev`] | accounting; the work queue; net devices that drivers have a hand in |
//! | [`state`] | what is kept of a device |
//!
//! Locks
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `Lifecycle::change` | from enabled to taken down, and changes of the namespace | process context | all of the core's but `SubDevices::list` |
//! | `Unregister::device` | which device is to be unregistered | any context | nothing |

pub(crate) mod cgroup;
pub(crate) mod compat;
pub(crate) mod dispatch;
pub(crate) mod link;
pub(crate) mod namespace;
pub(crate) mod port_event;
pub(crate) mod queue;
mod rdma_netdev;
pub(crate) mod stages;
pub(crate) mod state;
pub(crate) mod subdevice;

use core::{ptr::NonNull, sync::atomic::Ordering};

use kernel::{
    prelude::*,
    sync::{aref::ARef, Arc},
    workqueue::WorkItem,
};
use kernel_ext::{
    bindings,
    door::Input,
    export::export,
    net::ns::NetNamespace,
    work::{self, GlobalQueue, InstalledQueue, OwnedQueue, QueueFlags},
};
use rdma::{
    view::{device::allocate, Device, Registered},
    MaySleep,
};

use crate::{
    private::{DeviceExt, Private},
    registry::{
        self, client, netdev, netns,
        notify::{self, NotifyEvent},
        DeviceFilter, Names, CLASS,
    },
};
use state::Unregister;

/// Where devices are unregistered that were asked to go.
static UNREGISTER_QUEUE: GlobalQueue = GlobalQueue::new();

/// Makes the queue in which devices are unregistered.
pub(crate) fn init_queue(sleep: &MaySleep) -> Result<InstalledQueue> {
    let queue = OwnedQueue::new(c"ib-unreg-wq", QueueFlags::UNBOUND, 0, sleep)?;
    Ok(UNREGISTER_QUEUE.install(queue))
}

impl WorkItem for Unregister {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        // SAFETY: The queue's work runs in process context.
        let sleep = &unsafe { MaySleep::assume() };
        let device = this.device.lock().take();
        if let Some(device) = device {
            unregister(&device, sleep);
        }
    }
}

/// Allocates a device of `size` bytes, the driver's part included.
fn alloc(size: usize, net: &NetNamespace, _sleep: &MaySleep) -> Result<NonNull<Device>> {
    let raw = allocate::<Private, _>(size, Private::new())?;
    let net = if netns::is_shared() {
        NetNamespace::init()
    } else {
        net
    };
    // SAFETY: The device was just allocated for the class.
    unsafe {
        CLASS.initialize(raw.as_ref(), net);
        raw.as_ref().set_default_commands();
    }
    Ok(raw)
}

/// Lets go of a device that is not registered, or not any more.
///
/// # Safety
///
/// The device has the reference that [`alloc`] made, which is given up here, and nobody else lets go of it so. It is still
/// there when this returns if somebody else has a reference.
unsafe fn dealloc(device: &Device, sleep: &MaySleep) {
    device.driver_dealloc(sleep);
    // Until here `ib_unregister_driver` finds the device, and waits for the call of the driver above.
    registry::remove(device);
    netdev::forget_all(device);
    // SAFETY: By the safety requirements.
    drop(unsafe { ARef::from_raw(NonNull::from(device)) });
}

/// Finds out what the device is: methods, ports, attributes.
///
/// # Safety
///
/// The device is being registered, by this thread alone, and `dma_device` outlives it.
unsafe fn describe(
    device: &Device,
    dma_device: Option<&kernel::device::Device>,
    sleep: &MaySleep,
) -> Result {
    // SAFETY: By the safety requirements.
    unsafe {
        device.set_dma_device(dma_device);
        device.check_mandatory_ops();
        device.make_ports(sleep)?;
        device.fill_immutables(sleep)?;
        device.fill_attrs(sleep)
    }
}

/// Makes a device visible: to its driver, to clients and to namespaces.
///
/// Where this fails the device is to be disabled.
pub(crate) fn enable(device: &Registered, sleep: &MaySleep) -> Result {
    registry::mark_registered(device, true);
    device.driver_enable(sleep)?;
    client::open(device);
    client::add_all(device, sleep)?;
    compat::show(device, sleep)
}

/// Takes the device from everybody, and waits until nobody keeps it registered.
pub(crate) fn disable(device: &Device, sleep: &MaySleep) {
    registry::mark_registered(device, false);
    client::remove_all(device, sleep);
    for end in stages::QUIESCE {
        end(device, sleep);
    }
    put(device);
    device.core().lifecycle.unused.wait(sleep);
    compat::hide(device, sleep);
}

/// Counts the two references that a device is registered with: the core's own, which [`disable`] gives up, and the caller's.
pub(crate) fn begin_registered(device: &Device) -> Option<Registered> {
    let own = device.first_registered();
    let callers = device.try_get();
    core::mem::forget(own);
    callers
}

/// Gives up a registration reference.
fn put(device: &Device) {
    if device.put_registered() {
        device.core().lifecycle.unused.complete();
    }
}

/// Registers a device: see [`ib_register_device`].
fn register(
    device: &Device,
    name: &CStr,
    dma_device: Option<&kernel::device::Device>,
    sleep: &MaySleep,
) -> Result {
    Names::lock(sleep).assign(device, name, sleep)?;
    // SAFETY: A driver registers its device from one thread, and the header says that the DMA device is the device's parent or
    // its equal. Nobody keeps the device registered yet, and clients and user space come to it by such references alone.
    unsafe { describe(device, dma_device, sleep)? };
    stages::set_up(device, sleep)?;
    let registered = begin_registered(device).ok_or(EINVAL)?;
    if let Err(error) = enable(&registered, sleep) {
        // Somebody else may take the device down at this moment: that waits for our reference, and then looks here.
        let failing = &device.core().lifecycle.failing;
        failing.store(true, Ordering::Release);
        drop(registered);
        take_down(device, sleep);
        failing.store(false, Ordering::Release);
        return Err(error);
    }
    device.announce(sleep);
    notify::notify(device, NotifyEvent::Registered, sleep);
    for port in device.ports() {
        if netdev::of(device, port).is_some() {
            notify::notify(device, NotifyEvent::NetdevAttached(port), sleep);
        }
    }
    Ok(())
}

/// Unregisters a device, with its sub-devices, unless it is not registered any more. It keeps a reference meanwhile.
fn unregister(device: &Device, sleep: &MaySleep) {
    let _held = device.hold();
    subdevice::remove_all(device, sleep);
    take_down(device, sleep);
}

fn take_down(device: &Device, sleep: &MaySleep) {
    let lifecycle = &device.core().lifecycle;
    let _change = lifecycle.change.lock();
    if !device.is_registered() {
        return;
    }
    disable(device, sleep);
    notify::notify(device, NotifyEvent::Unregistered, sleep);
    netdev::forget_all(device);
    stages::clean_up(device, sleep);
    if !lifecycle.failing.load(Ordering::Acquire) && device.has_dealloc_driver() {
        // SAFETY: A driver with `dealloc_driver` leaves this to the core. A device is taken down once: under the lock it was
        // registered until now. Whoever has it unregistered keeps a reference.
        unsafe { dealloc(device, sleep) };
    }
}

/// Runs `f` while the device neither comes nor goes.
pub(crate) fn with_change_lock<R>(device: &Device, f: impl FnOnce() -> R) -> R {
    let _guard = device.core().lifecycle.change.lock();
    f()
}

/// Gives a registered device another name.
///
/// # Errors
///
/// `EEXIST` where the name is taken, and what the driver model says.
pub(crate) fn rename(device: &Registered, name: &CStr, sleep: &MaySleep) -> Result {
    let names = Names::lock(sleep);
    if *device.name() == *name {
        return Ok(());
    }
    if names.is_taken(name) {
        return Err(EEXIST);
    }
    device.core_device().rename_in_model(name, sleep)?;
    device.set_name_field(name);
    compat::renamed(device, sleep);
    drop(names);
    client::renamed(device, sleep);
    notify::notify(device, NotifyEvent::Renamed, sleep);
    Ok(())
}

/// The registered device of this number, if it may be seen from `net`.
pub(crate) fn get_by_index(net: &NetNamespace, index: u32) -> Option<Registered> {
    let device = registry::find(index)?;
    if !netns::may_access(&device, net) {
        return None;
    }
    device.try_get()
}

/// Allocates a device of a driver: `size` bytes, which begin with `struct ib_device` and are zeroed, in the namespace
/// `net` where namespaces do not share devices. Null where there is no memory. Process context.
///
/// C header: `include/rdma/ib_verbs.h`.
#[export]
fn _ib_alloc_device(size: usize, net: &NetNamespace, sleep: &MaySleep) -> *mut bindings::ib_device {
    match alloc(size, net, sleep) {
        Ok(device) => device.as_ptr().cast(),
        Err(_) => core::ptr::null_mut(),
    }
}

/// Deallocates a device that is not registered. Process context.
#[export]
fn ib_dealloc_device(device: &Device, sleep: &MaySleep) {
    // SAFETY: The header says that the driver gives up the device, which it has from `_ib_alloc_device`; it is not looked at
    // after this.
    unsafe { dealloc(device, sleep) };
}

/// Adds methods to those that a device has; what it has already stays. Before registration.
#[export]
fn ib_set_device_ops(device: &Device, ops: Input<'_, bindings::ib_device_ops>) {
    // SAFETY: A driver prepares its device from one thread.
    unsafe { device.merge_ops(&ops) };
}

/// Registers a device under `name`, in which `%d` stands for a free number. Process context.
///
/// `dma_device` does the DMA; null: the CPU does.
///
/// # Errors
///
/// `ENFILE` where the name is taken, `EINVAL`, `ENOMEM`, and what the driver's methods say. The device is still the
/// driver's then, to be deallocated.
#[export]
fn ib_register_device(
    device: &Device,
    name: &CStr,
    dma_device: Option<&kernel::device::Device>,
    sleep: &MaySleep,
) -> Result {
    register(device, name, dma_device, sleep)
}

/// Unregisters a device. When this returns, nobody uses it; where the driver has `dealloc_driver`, it is deallocated.
/// Process context.
#[export]
fn ib_unregister_device(device: &Device, sleep: &MaySleep) {
    unregister(device, sleep);
}

/// Unregisters a device that the caller keeps registered: this gives up that reference. Several may do so at once; the
/// device is unregistered when any returns. Process context.
#[export]
fn ib_unregister_device_and_put(device: &Device, sleep: &MaySleep) {
    let _held = device.hold();
    put(device);
    unregister(device, sleep);
}

/// The same, for the core.
pub(crate) fn unregister_and_put(device: Registered, sleep: &MaySleep) {
    let held = device.hold();
    drop(device);
    unregister(&held, sleep);
}

/// Unregisters a device from a work queue. The caller keeps it registered, or sees to it that nobody unregisters it
/// meanwhile. `ib_unregister_driver` waits for it.
#[export]
fn ib_unregister_device_queued(device: &Device) {
    let Some(workers) = UNREGISTER_QUEUE.get() else {
        return;
    };
    let unregister = &device.core().lifecycle.unregister;
    let old = unregister.device.lock().replace(device.hold());
    work::enqueue(workers, unregister);
    drop(old);
}

/// Unregisters all devices of a driver, and waits until those that others unregister are, too. Process context.
#[export]
fn ib_unregister_driver(driver_id: bindings::rdma_driver_id, sleep: &MaySleep) {
    for device in registry::devices(DeviceFilter::All) {
        if device.driver_id() == driver_id {
            unregister(&device, sleep);
        }
    }
}

/// Gives up a reference that keeps a device registered. Any context.
#[export]
fn ib_device_put(device: &Device) {
    put(device);
}
