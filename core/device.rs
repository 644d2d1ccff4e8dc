// SPDX-License-Identifier: GPL-2.0

//! Devices: allocation, registration, renaming, unregistration.
//!
//! States of a device:
//!
//! | state | entered by | properties |
//! |---|---|---|
//! | allocated | `_ib_alloc_device` | memory, `Private` |
//! | named | `ib_register_device` | a name and an index; it is in the registry |
//! | set up | | ports, attributes, the steps of `stages` |
//! | enabled | | registered: `try_get` succeeds; clients are added; namespaces see it |
//! | disabled | `ib_unregister_device` | clients are removed; no registration references are left |
//! | taken down | | the steps are undone |
//! | deallocated | `ib_dealloc_device` | the driver's part is freed; out of the registry |
//!
//! A device may be unregistered from several contexts at once, by any of the functions; each returns when it is
//! unregistered.
//!
//! Files by level; a file imports only from those below it:
//!
//! | file | what |
//! |---|---|
//! | [`namespace`] | moving devices between network namespaces |
//! | this one | registration, unregistration, names |
//! | [`stages`] | the steps of registration, in order |
//! | [`compat`] | compat devices of other network namespaces |
//! | [`port_event`] | port events by net device events |
//! | [`dispatch`] | dispatching events: from any context to process context, in order, after the caches are updated |
//! | [`subdevice`], [`link`] | sub-devices; link types |
//! | [`cgroup`], [`queue`], [`rdma_netdev`] | accounting; the workqueue; net devices created by drivers |
//! | [`state`] | data of a device |
//!
//! Locks
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `Lifecycle::change` | transitions between enabled and taken down, and between namespaces | process context | all of the core's but `SubDevices::list` |
//! | `Lifecycle::model` | the device's place in the driver model | process context | locks of the driver model |
//! | `Lifecycle::own` | the core's own registration reference | process context | nothing |
//! | `Lifecycle::cgroup` | the device's registration with the cgroup controller | process context | nothing |
//! | `Unregister::device` | the device to be unregistered | any context | nothing |
//!
//! C header: `include/rdma/ib_verbs.h`.

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
};
use kernel_ext::{
    bindings,
    entry::Input,
    export::export,
    net::ns::NetNamespace,
    sleepable::{self, SleepableWork},
    work::{GlobalQueue, InstalledQueue, OwnedQueue, QueueFlags},
};
use rdma::{
    core::{
        class::{ModelEntry, Registering},
        device::{allocate, NewlyRegistered, Registered},
        Device, DeviceMemory,
    },
    MaySleep,
};

use crate::{
    private::{DeviceExt, Private},
    registry::{
        self, client, netdev, netns,
        notify::{self, NotifyEvent},
        DeviceFilter, Names, CLASS,
    },
    restrack::leaks,
};
use state::Unregister;

/// The workqueue of asynchronous unregistration.
static UNREGISTER_QUEUE: GlobalQueue = GlobalQueue::new();

/// Creates the workqueue of asynchronous unregistration.
pub(crate) fn init_queue(sleep: &MaySleep) -> Result<InstalledQueue> {
    let queue = OwnedQueue::new(c"ib-unreg-wq", QueueFlags::UNBOUND, 0, sleep)?;
    Ok(UNREGISTER_QUEUE.install(queue))
}

impl SleepableWork for Unregister {
    fn run(this: Arc<Self>, sleep: &MaySleep) {
        let device = this.device.lock().take();
        if let Some(device) = device {
            unregister(&device, sleep);
        }
    }
}

/// Allocates a device of `size` bytes, including the driver's part.
///
/// # Safety
///
/// The namespace is not deleted before the device is registered, or deallocated.
unsafe fn alloc(size: usize, net: &NetNamespace, _sleep: &MaySleep) -> Result<NonNull<Device>> {
    let raw = allocate::<Private, _>(size, Private::new())?;
    let net = if netns::is_shared() {
        NetNamespace::init()
    } else {
        net
    };
    // SAFETY: The device was just allocated for the class; the rest is by the safety requirements.
    unsafe {
        CLASS.initialize(raw.as_ref(), net);
        raw.as_ref().set_default_commands();
    }
    Ok(raw)
}

/// Releases a device that is not registered.
///
/// # Safety
///
/// The caller owns the reference that [`alloc`] made, and gives it up. The device may outlive the call if there are other
/// references.
unsafe fn dealloc(device: &Device, sleep: &MaySleep) {
    // SAFETY: By the safety requirements the device is not registered, and this gives up the reference that it was made with.
    unsafe { device.driver_dealloc(sleep) };
    leaks::report(device);
    // Until here `ib_unregister_driver` finds the device and waits for the driver's call above.
    registry::remove(device);
    netdev::forget_all(device);
    // SAFETY: By the safety requirements.
    drop(unsafe { ARef::from_raw(NonNull::from(&**device)) });
}

/// Reads the properties of a device: methods, ports, attributes.
///
/// # Safety
///
/// The device is being registered, by this thread alone.
unsafe fn describe(
    device: &Device,
    dma_device: Option<&kernel::device::Device>,
    sleep: &MaySleep,
) -> Result {
    // SAFETY: By the safety requirements; the reference to the DMA device goes with the device's memory, or when it is replaced.
    unsafe {
        device.set_dma_device(dma_device);
        let former = core::mem::replace(
            &mut *device.core().lifecycle.dma_device.lock(),
            dma_device.map(ARef::from),
        );
        drop(former);
        device.check_mandatory_ops();
        device.make_ports(sleep)?;
        device.fill_immutables(sleep)?;
        device.fill_attrs(sleep)
    }
}

/// Enables a device for its driver, for clients and for namespaces.
///
/// On failure the device is still marked as registered, but some clients or namespaces may not have it. Registration then
/// disables the device; a move between namespaces leaves it enabled.
pub(crate) fn enable(device: &Registered, begins: NewlyRegistered<'_>, sleep: &MaySleep) -> Result {
    registry::mark_registered(device, true);
    begins.driver_enable(sleep)?;
    client::open(device);
    client::add_all(device, sleep)?;
    compat::show(device, sleep)
}

/// Removes a device from clients and namespaces, and waits for its registration references.
pub(crate) fn disable(device: &Device, sleep: &MaySleep) {
    registry::mark_registered(device, false);
    client::remove_all(device, sleep);
    for end in stages::QUIESCE {
        end(device, sleep);
    }
    let own = device.core().lifecycle.own.lock().take();
    drop(own);
    device.core().lifecycle.unused.wait(sleep);
    compat::hide(device, sleep);
}

/// Takes the two initial registration references: the core's own, which [`disable`] drops, and the caller's.
pub(crate) fn begin_registered(device: &Device) -> Option<(Registered, NewlyRegistered<'_>)> {
    let mut own = device.core().lifecycle.own.lock();
    let (first, begins) = device.first_registered()?;
    let callers = first.again();
    *own = Some(first);
    Some((callers, begins))
}

/// Registers a device: see [`ib_register_device`].
fn register(
    mut device: Registering<'_>,
    name: &CStr,
    dma_device: Option<&kernel::device::Device>,
    sleep: &MaySleep,
) -> Result {
    Names::lock(sleep).assign(&mut device, name, sleep)?;
    // SAFETY: By its invariants this thread alone registers the device. There is no registration reference to the device yet, and
    // clients and user space reach it only by one.
    unsafe { describe(&device, dma_device, sleep)? };
    stages::set_up(&mut device, sleep)?;
    let device = device.into_device();
    let (registered, begins) = begin_registered(device).ok_or(EINVAL)?;
    if let Err(error) = enable(&registered, begins, sleep) {
        // Another thread may unregister the device concurrently: it waits for our reference, and then reads `failing`.
        let failing = &device.core().lifecycle.failing;
        failing.store(true, Ordering::Release);
        drop(registered);
        take_down(device, sleep);
        failing.store(false, Ordering::Release);
        return Err(error);
    }
    in_model(device, |entry| entry.announce(sleep));
    notify::notify(device, NotifyEvent::Registered, sleep);
    for port in device.ports() {
        if netdev::of(device, port).is_some() {
            notify::notify(device, NotifyEvent::NetdevAttached(port), sleep);
        }
    }
    Ok(())
}

/// Unregisters a device and its sub-devices, unless it is not registered.
fn unregister(device: &DeviceMemory, sleep: &MaySleep) {
    subdevice::remove_all(device, sleep);
    take_down(device, sleep);
}

fn take_down(device: &DeviceMemory, sleep: &MaySleep) {
    let held = device.hold();
    with_registered(&held, |device| {
        disable(device, sleep);
        notify::notify(device, NotifyEvent::Unregistered, sleep);
        netdev::forget_all(device);
        stages::clean_up(device, sleep);
        let failing = device.core().lifecycle.failing.load(Ordering::Acquire);
        if !failing && device.has_dealloc_driver() {
            // SAFETY: A driver with `dealloc_driver` leaves the reference of the allocation to the core. It is given up once: under
            // the lock the device was registered until now. `held` is another reference.
            unsafe { dealloc(device, sleep) };
        }
    });
}

/// Runs `f` while the device is not being enabled or disabled. `None` if it is not registered.
pub(crate) fn with_registered<R>(device: &DeviceMemory, f: impl FnOnce(&Device) -> R) -> Option<R> {
    let _change = device.core().lifecycle.change.lock();
    if !device.is_registered() {
        return None;
    }
    // SAFETY: The device is registered. Its driver waits for `take_down`, which takes the lock before it ends the registration.
    Some(f(unsafe { device.with_driver() }))
}

/// Runs `f` with the device's place in the driver model. `None` if it has none.
fn in_model<R>(device: &Device, f: impl FnOnce(&mut ModelEntry) -> R) -> Option<R> {
    let mut model = device.core().lifecycle.model.lock();
    (*model).as_mut().map(f)
}

/// Renames a registered device.
///
/// # Errors
///
/// `EEXIST` where the name is in use in its namespace, and errors of the driver core.
pub(crate) fn rename(device: &Registered, name: &CStr, sleep: &MaySleep) -> Result {
    let names = Names::lock(sleep);
    if *device.name() == *name {
        return Ok(());
    }
    if names.is_taken(name, device, device.with_namespace(NetNamespace::cookie)) {
        return Err(EEXIST);
    }
    in_model(device, |entry| entry.rename(name, sleep)).ok_or(ENODEV)??;
    device.set_name_field(name);
    compat::renamed(device, sleep);
    drop(names);
    client::renamed(device, sleep);
    notify::notify(device, NotifyEvent::Renamed, sleep);
    Ok(())
}

/// The registered device with this index, if it is accessible from `net`.
pub(crate) fn get_by_index(net: &NetNamespace, index: u32) -> Option<Registered> {
    let device = registry::find(index)?;
    if !netns::may_access(&device, net) {
        return None;
    }
    device.try_get()
}

/// Allocates a zeroed driver structure of `size` bytes, which begins with `struct ib_device`, in the namespace `net`
/// unless namespaces share devices. Null where memory is short. Process context.
///
/// C header: `include/rdma/ib_verbs.h`.
#[export]
fn _ib_alloc_device(size: usize, net: &NetNamespace, sleep: &MaySleep) -> *mut bindings::ib_device {
    // SAFETY: The header says that the namespace exists until the driver has registered the device, or deallocated it.
    match unsafe { alloc(size, net, sleep) } {
        Ok(device) => device.as_ptr().cast(),
        Err(_) => core::ptr::null_mut(),
    }
}

/// Deallocates an unregistered device. Process context.
#[export]
fn ib_dealloc_device(device: &Device, sleep: &MaySleep) {
    // SAFETY: The header says that the driver gives up the device, which it has from `_ib_alloc_device`; it is not looked at
    // after this.
    unsafe { dealloc(device, sleep) };
}

/// Sets device operations that are not set already. Before registration.
#[export]
fn ib_set_device_ops(device: &Device, ops: Input<'_, bindings::ib_device_ops>) {
    // SAFETY: A driver prepares its device from one thread.
    unsafe { device.merge_ops(&ops) };
}

/// Registers a device under `name`, in which `%d` stands for an unused number. Process context.
///
/// `dma_device` performs the DMA; null: DMA addresses are kernel addresses.
///
/// # Errors
///
/// `ENFILE` where the name is in use, `EINVAL`, `ENOMEM`, and errors of the driver. The driver must then deallocate the
/// device.
#[export]
fn ib_register_device(
    device: Registering<'_>,
    name: &CStr,
    dma_device: Option<&kernel::device::Device>,
    sleep: &MaySleep,
) -> Result {
    register(device, name, dma_device, sleep)
}

/// Unregisters a device. When this returns, it has no users; where the driver has `dealloc_driver`, it is deallocated.
/// Process context.
#[export]
fn ib_unregister_device(device: &Device, sleep: &MaySleep) {
    unregister(device, sleep);
}

/// Unregisters a device and drops the caller's registration reference. It may be called concurrently; each call returns
/// when the device is unregistered. Process context.
#[export]
fn ib_unregister_device_and_put(device: Registered, sleep: &MaySleep) {
    unregister_and_put(device, sleep);
}

/// As `ib_unregister_device_and_put`, for the core.
pub(crate) fn unregister_and_put(device: Registered, sleep: &MaySleep) {
    let held = device.hold();
    drop(device);
    unregister(&held, sleep);
}

/// Unregisters a device asynchronously. The caller has a registration reference, or excludes concurrent unregistration
/// otherwise. `ib_unregister_driver` waits for it.
#[export]
fn ib_unregister_device_queued(device: &Device) {
    let unregister = &device.core().lifecycle.unregister;
    let old = unregister.device.lock().replace(device.hold());
    UNREGISTER_QUEUE.with(|workers| sleepable::enqueue(workers, unregister));
    drop(old);
}

/// Unregisters all devices of a driver, and waits for pending unregistrations of others. Process context.
#[export]
fn ib_unregister_driver(driver_id: bindings::rdma_driver_id, sleep: &MaySleep) {
    for device in registry::devices(DeviceFilter::All) {
        if device.driver_id() == driver_id {
            unregister(&device, sleep);
        }
    }
}

/// Drops a registration reference. Any context.
#[export]
fn ib_device_put(device: Registered) {
    device.put(|device| device.core().lifecycle.unused.complete());
}
