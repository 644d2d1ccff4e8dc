// SPDX-License-Identifier: GPL-2.0

//! Devices in the driver model: `/sys/class/infiniband`, and adding devices to it.
//!
//! C headers: `include/linux/device.h`, `include/rdma/ib_verbs.h`.

use core::{marker::PhantomData, mem::ManuallyDrop, ops::Deref, ptr::NonNull};

use kernel::{error::to_result, ffi::c_int, prelude::*, sync::aref::ARef, types::Opaque};
use kernel_ext::{
    entry::FromC,
    net::ns::{NetNamespace, NetRef},
    sync::rcu,
};
use rdma_bindings as bindings;

use super::{
    device::{self, Private},
    sysfs::{DeviceFiles, DeviceGroup},
    CoreDevice, Device,
};
use crate::MaySleep;

/// The class of RDMA devices, `/sys/class/infiniband`: a `static` of the core, whose devices have a `P`.
///
/// Each device is in the class once for each namespace that sees it. A device is freed with the last reference.
pub struct Class<P>(Opaque<bindings::class>, PhantomData<fn() -> P>);

// SAFETY: The driver model guards the class.
unsafe impl<P> Sync for Class<P> {}

impl<P: Private> Class<P> {
    /// The class.
    #[expect(clippy::new_without_default, reason = "it is for statics")]
    pub const fn new() -> Self {
        Self(
            Opaque::new(bindings::class {
                name: kernel::str::as_char_ptr_in_const_context(c"infiniband"),
                dev_release: Some(Self::release),
                dev_uevent: Some(Self::uevent),
                ns_type: &raw const bindings::net_ns_type_operations,
                namespace: Some(Self::namespace),
                ..pin_init::zeroed()
            }),
            PhantomData,
        )
    }

    /// Makes the class known.
    pub fn register(&'static self, _sleep: &MaySleep) -> Result<ClassRegistration<P>> {
        // SAFETY: The class is a static, and is registered once at a time: by the module's initialisation.
        to_result(unsafe { bindings::class_register(self.0.get()) })?;
        Ok(ClassRegistration(self))
    }

    /// Lets the driver model count the references of a new device of the class, in the namespace `net`.
    ///
    /// # Safety
    ///
    /// The device is from [`device::allocate`] for `P`, and nobody has it yet. From now on it is freed by giving up the
    /// reference that this leaves to the caller. The namespace is not deleted before the device is in the driver model, or gone.
    pub unsafe fn initialize(&'static self, device: &Device, net: &NetNamespace) {
        // SAFETY: By the safety requirements; the namespace is one.
        unsafe {
            bindings::ib_device_init_members(device.as_raw(), net.as_raw().cast());
            let dev = device.as_dev();
            (*dev).class = self.0.get();
            (*dev).groups = (&raw mut (*device.as_raw()).groups).cast();
            bindings::device_initialize(dev);
        }
    }

    /// # Safety
    ///
    /// The driver model calls it with a device of the class that has no reference left.
    unsafe extern "C" fn release(dev: *mut bindings::device) {
        // SAFETY: The device is the member of an `ib_device`, which `initialize` was called for.
        unsafe {
            let offset = core::mem::offset_of!(bindings::ib_device, __bindgen_anon_1);
            let device = dev.byte_sub(offset).cast::<Device>();
            device::free::<P>(NonNull::new_unchecked(device));
        }
    }

    /// # Safety
    ///
    /// The driver model calls it with a device of the class.
    unsafe extern "C" fn uevent(
        dev: *const bindings::device,
        env: *mut bindings::kobj_uevent_env,
    ) -> c_int {
        // SAFETY: Both are there during the call.
        let ret = unsafe {
            let dev: &kernel::device::Device = kernel::device::Device::from_raw(dev.cast_mut());
            let name = dev.name();
            bindings::add_uevent_var(env, c"NAME=%s".as_char_ptr(), name.as_char_ptr())
        };
        if ret == 0 {
            0
        } else {
            ENOMEM.to_errno()
        }
    }

    /// # Safety
    ///
    /// The driver model calls it with a device of the class.
    unsafe extern "C" fn namespace(dev: *const bindings::device) -> *const bindings::ns_common {
        // SAFETY: A device of the class is the first member of an `ib_core_device`.
        unsafe { bindings::ib_core_device_ns(dev) }
    }

    /// Makes the device that another namespace sees of `owner`, with the same name and parent.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and what the driver model says.
    pub fn add_compat(
        &'static self,
        owner: &Device,
        net: &NetNamespace,
        _sleep: &MaySleep,
    ) -> Result<CompatDevice> {
        let zeroed = KBox::<Compat>::init(pin_init::init_zeroed(), GFP_KERNEL)?;
        let raw = KBox::into_raw(zeroed);
        // SAFETY: The structure is ours, and stays in its place; the parent of a device outlives it. From here on
        // `release_compat` frees the structure with the last reference, of which there is one.
        let new = unsafe {
            (*raw).groups = compat_groups(owner);
            let core = &raw mut (*raw).core;
            (*core).owner = owner.as_raw();
            (*core).dev.class = self.0.get();
            (*core).dev.release = Some(release_compat);
            (*core).dev.groups = (&raw mut (*raw).groups).cast();
            (*core).dev.parent = (*owner.as_dev()).parent;
            bindings::INIT_LIST_HEAD(&raw mut (*core).port_list);
            bindings::ib_core_device_set_net(core, net.as_raw().cast());
            bindings::device_initialize(&raw mut (*core).dev);
            NewCompat(NonNull::new_unchecked(core.cast()))
        };
        let name = owner.name();
        // SAFETY: The name is copied; the device is ours.
        unsafe {
            to_result(bindings::dev_set_name(
                new.0.as_ref().as_dev(),
                c"%s".as_char_ptr(),
                name.as_char_ptr(),
            ))?;
            to_result(bindings::device_add(new.0.as_ref().as_dev()))?;
        }
        let core = new.0;
        core::mem::forget(new);
        // INVARIANT: The device was added, and the reference is ours.
        Ok(CompatDevice(core))
    }
}

/// The class is registered while this is there.
pub struct ClassRegistration<P: 'static>(&'static Class<P>);

impl<P> Drop for ClassRegistration<P> {
    fn drop(&mut self) {
        // SAFETY: The class was registered.
        unsafe { bindings::class_unregister(self.0 .0.get()) };
    }
}

/// A device as another namespace sees it, and its attributes: up to two groups, then null.
#[repr(C)]
#[derive(Zeroable)]
struct Compat {
    core: bindings::ib_core_device,
    groups: [*const bindings::attribute_group; 3],
}

/// The attributes of the core and of the driver, without the hardware counters: these are for the own namespace.
fn compat_groups(owner: &Device) -> [*const bindings::attribute_group; 3] {
    // SAFETY: Both are constant from registration on.
    let (groups, counters) = unsafe {
        let raw = owner.as_raw();
        ((*raw).groups, usize::from((*raw).hw_stats_attr_index))
    };
    let mut shown = groups
        .into_iter()
        .enumerate()
        .filter(|&(nth, group)| !group.is_null() && (counters == 0 || nth != counters))
        .map(|(_, group)| group);
    let mut next = || shown.next().unwrap_or(core::ptr::null());
    [next(), next(), core::ptr::null()]
}

/// A device that is not added yet: its reference.
struct NewCompat(NonNull<CoreDevice>);

impl Drop for NewCompat {
    fn drop(&mut self) {
        // SAFETY: The reference is ours.
        unsafe { bindings::put_device(self.0.as_ref().as_dev()) };
    }
}

/// # Safety
///
/// The driver model calls it with a device that [`Class::add_compat`] made and that has no reference left.
unsafe extern "C" fn release_compat(dev: *mut bindings::device) {
    // SAFETY: The device is the first member of the structure, whose box was given up.
    drop(unsafe { KBox::from_raw(dev.cast::<Compat>()) });
}

/// What a namespace sees of a device that is in another one. Dropping it takes it out of sysfs.
///
/// # Invariants
///
/// The device is in the driver model, and one reference is ours.
pub struct CompatDevice(NonNull<CoreDevice>);

// SAFETY: The driver model's devices may be used from any thread.
unsafe impl Send for CompatDevice {}
// SAFETY: As above.
unsafe impl Sync for CompatDevice {}

impl core::ops::Deref for CompatDevice {
    type Target = CoreDevice;

    fn deref(&self) -> &CoreDevice {
        // SAFETY: By the type invariants.
        unsafe { self.0.as_ref() }
    }
}

impl CompatDevice {
    /// Gives it another name.
    ///
    /// # Errors
    ///
    /// Those of the driver model.
    pub fn rename(&mut self, name: &CStr, _sleep: &MaySleep) -> Result {
        // SAFETY: By the type invariants, and it is borrowed alone; the name is copied.
        to_result(unsafe { bindings::device_rename(self.as_dev(), name.as_char_ptr()) })
    }
}

impl Drop for CompatDevice {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe {
            bindings::device_del(self.as_dev());
            bindings::put_device(self.as_dev());
        }
    }
}

impl CoreDevice {
    /// The device in the driver model.
    #[inline]
    pub fn as_dev(&self) -> *mut bindings::device {
        // SAFETY: The member is inside of the structure.
        unsafe { &raw mut (*self.as_raw()).dev }
    }

    /// The device itself.
    #[inline]
    pub fn owner(&self) -> &Device {
        // SAFETY: The field is set when the structure is made, and the owner outlives it.
        unsafe { Device::from_raw((*self.as_raw()).owner) }
    }

    /// Whether this is how the device is seen in its own namespace.
    #[inline]
    pub fn is_own(&self) -> bool {
        self.owner().as_dev() == self.as_dev()
    }
}

impl Device {
    /// How the device is seen in its own namespace.
    #[inline]
    pub fn core_device(&self) -> &CoreDevice {
        // SAFETY: The member is inside of the device; a view is a transparent wrapper.
        unsafe { &*(&raw const (*self.as_raw()).__bindgen_anon_1.coredev).cast::<CoreDevice>() }
    }
}

/// A device that its driver registers.
///
/// # Invariants
///
/// The device is registered in this call, by this thread alone. Before, it was neither in the driver model nor registered with the
/// cgroup controller; by this value it gets there once at most, which `in_model` and `in_cgroup` say.
pub struct Registering<'a> {
    device: &'a Device,
    files: Option<DeviceFiles>,
    in_model: bool,
    pub(super) in_cgroup: bool,
}

// SAFETY: As for a reference.
unsafe impl FromC for Registering<'_> {
    type Raw = *mut bindings::ib_device;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // INVARIANT: By the header a driver registers its device once, from one thread.
        Self {
            // SAFETY: By the safety requirements the device is there.
            device: unsafe { Device::from_raw(raw) },
            files: None,
            in_model: false,
            in_cgroup: false,
        }
    }
}

impl Deref for Registering<'_> {
    type Target = Device;

    #[inline]
    fn deref(&self) -> &Device {
        self.device
    }
}

impl<'a> Registering<'a> {
    /// The device, once it has got all that comes by this.
    #[inline]
    pub fn into_device(self) -> &'a Device {
        self.device
    }

    /// Gives the device its name in the driver model, before it is there.
    ///
    /// # Errors
    ///
    /// `EEXIST` afterwards; `ENOMEM`.
    pub fn set_name_in_model(&mut self, name: &CStr, _sleep: &MaySleep) -> Result {
        if self.in_model {
            return Err(EEXIST);
        }
        // SAFETY: By the type invariants nobody knows the device's name; the new one is copied.
        to_result(unsafe {
            bindings::dev_set_name(self.as_dev(), c"%s".as_char_ptr(), name.as_char_ptr())
        })
    }

    /// Says which files the device will have in sysfs: `own`, then those of the driver, then counters.
    ///
    /// # Errors
    ///
    /// `EEXIST` where that was said before.
    pub fn set_files(&mut self, own: DeviceGroup, counters: Option<DeviceGroup>) -> Result {
        if self.in_model || self.files.is_some() {
            return Err(EEXIST);
        }
        // SAFETY: By the type invariants the device is not in the driver model. The files are dropped when it is out of it, or
        // when it did not get there.
        self.files = Some(unsafe { DeviceFiles::publish(self, own, counters) });
        Ok(())
    }

    /// Puts the device into the driver model: it is in sysfs from now on. User space is told later, by
    /// [`ModelEntry::announce`].
    ///
    /// # Errors
    ///
    /// `EEXIST` if it was put there before; those of the driver model, which leave the device as it was.
    pub fn add_to_model(&mut self, _sleep: &MaySleep) -> Result<ModelEntry> {
        if self.in_model {
            return Err(EEXIST);
        }
        // SAFETY: By the type invariants the device is not in the driver model; who allocates it initialises it. The driver model
        // refuses a device without a name.
        unsafe {
            bindings::dev_set_uevent_suppress(self.as_dev(), 1);
            to_result(bindings::device_add(self.as_dev())).inspect_err(|_| {
                bindings::dev_set_uevent_suppress(self.as_dev(), 0);
            })?;
        }
        self.in_model = true;
        // INVARIANT: The device was just added.
        Ok(ModelEntry(ManuallyDrop::new(Added {
            device: self.hold(),
            _files: self.files.take(),
        })))
    }
}

/// A device that is in the driver model, and its files there.
struct Added {
    device: ARef<Device>,
    _files: Option<DeviceFiles>,
}

/// The place of a device in the driver model. Where it is lost instead of [removed](Self::remove), the device stays there for
/// good.
///
/// # Invariants
///
/// The device is in the driver model, as long as this is there, and nobody else changes that.
#[must_use = "it is removed, or stays for good"]
pub struct ModelEntry(ManuallyDrop<Added>);

impl ModelEntry {
    fn device(&self) -> &Device {
        &self.0.device
    }

    /// Gives the device another name.
    ///
    /// # Errors
    ///
    /// Those of the driver model.
    pub fn rename(&mut self, name: &CStr, _sleep: &MaySleep) -> Result {
        let dev = self.device().as_dev();
        // SAFETY: By the type invariants, and the entry is borrowed alone; the name is copied.
        to_result(unsafe { bindings::device_rename(dev, name.as_char_ptr()) })
    }

    /// Moves the device to another namespace. If it cannot be renamed there, it goes `back`; with `None` it is in the other
    /// namespace all the same, and maybe not in sysfs.
    ///
    /// # Errors
    ///
    /// Those of the driver model.
    pub fn move_to(&mut self, net: &NetRef, back: Option<&NetRef>, sleep: &MaySleep) -> Result {
        self.set_net(net, sleep);
        // This is how the driver model looks at the namespace again.
        let name = self.device().name();
        self.rename(&name, sleep).inspect_err(|_| {
            if let Some(back) = back {
                self.set_net(back, sleep);
            }
        })
    }

    /// Puts the device into another namespace. When it returns, nobody has the former one from the device any more.
    fn set_net(&mut self, net: &NetNamespace, sleep: &MaySleep) {
        if self.device().is_in(net) {
            return;
        }
        let core = self.device().core_device().as_raw();
        // SAFETY: The pointer is written whole. Before a namespace is deleted, the core moves all devices in the driver model out of it.
        unsafe { bindings::ib_core_device_set_net(core, net.as_raw().cast()) };
        rcu::synchronize(sleep);
    }

    /// Tells user space that the device has come (`KOBJ_ADD`).
    pub fn announce(&mut self, _sleep: &MaySleep) {
        let dev = self.device().as_dev();
        // SAFETY: By the type invariants, and the entry is borrowed alone. What does not reach user space is no error here.
        unsafe {
            bindings::dev_set_uevent_suppress(dev, 0);
            bindings::kobject_uevent(&raw mut (*dev).kobj, bindings::kobject_action_KOBJ_ADD);
        }
    }

    /// Tells user space that the device goes (`KOBJ_REMOVE`), though it stays in the driver model.
    pub fn announce_leaving(&mut self, _sleep: &MaySleep) {
        let dev = self.device().as_dev();
        let action = bindings::kobject_action_KOBJ_REMOVE;
        // SAFETY: By the type invariants, and the entry is borrowed alone. What does not reach user space is no error here.
        unsafe { bindings::kobject_uevent(&raw mut (*dev).kobj, action) };
    }

    /// Takes the device out of the driver model; user space is told, if it was told of the device. From then on the device is in
    /// the initial namespace, because its own one does not wait for it any more.
    pub fn remove(mut self, sleep: &MaySleep) {
        let dev = self.device().as_dev();
        // SAFETY: By the type invariants, and the entry is given up.
        unsafe {
            bindings::device_del(dev);
            bindings::dev_set_uevent_suppress(dev, 0);
        }
        self.set_net(NetNamespace::init(), sleep);
        drop(ManuallyDrop::into_inner(self.0));
    }
}
