// SPDX-License-Identifier: GPL-2.0

//! RDMA devices in the driver model: the class `/sys/class/infiniband`, and adding devices to it.
//!
//! C headers: `include/linux/device.h`, `include/rdma/ib_verbs.h`.

use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ops::Deref,
    ptr::NonNull,
    sync::atomic::{AtomicBool, Ordering},
};

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
    CoreDevice, Device, DeviceMemory,
};
use crate::MaySleep;

/// The class of RDMA devices, `/sys/class/infiniband`: a `static` of the core, whose devices have private data of the type `P`.
///
/// Each device has one entry in the class for each network namespace that sees it. It is freed with its last reference.
pub struct Class<P> {
    raw: Opaque<bindings::class>,
    /// Whether there is a [`ClassRegistration`].
    registered: AtomicBool,
    _private: PhantomData<fn() -> P>,
}

// SAFETY: The driver model synchronises access to a class.
unsafe impl<P> Sync for Class<P> {}

impl<P: Private> Class<P> {
    /// Creates the class, which is not registered yet.
    #[expect(clippy::new_without_default, reason = "it is for statics")]
    pub const fn new() -> Self {
        Self {
            raw: Opaque::new(bindings::class {
                name: kernel::str::as_char_ptr_in_const_context(c"infiniband"),
                dev_release: Some(Self::release),
                dev_uevent: Some(Self::uevent),
                ns_type: &raw const bindings::net_ns_type_operations,
                namespace: Some(Self::namespace),
                ..pin_init::zeroed()
            }),
            registered: AtomicBool::new(false),
            _private: PhantomData,
        }
    }

    /// Registers the class.
    ///
    /// # Errors
    ///
    /// `EBUSY` if it is registered; those of the driver model.
    pub fn register(&'static self, _sleep: &MaySleep) -> Result<ClassRegistration<P>> {
        if self.registered.swap(true, Ordering::Acquire) {
            return Err(EBUSY);
        }
        // SAFETY: The class is a static, and the flag has shown that it is not registered.
        let registered = to_result(unsafe { bindings::class_register(self.raw.get()) });
        if let Err(error) = registered {
            self.registered.store(false, Ordering::Release);
            return Err(error);
        }
        // INVARIANT: The class was just registered.
        Ok(ClassRegistration(self))
    }

    /// Initialises the reference count of a new device of the class, in the namespace `net` (`device_initialize`).
    ///
    /// # Safety
    ///
    /// The device is from [`device::allocate`] for `P`, and no other thread refers to it yet. After the call the caller owns one
    /// reference; the device is freed by `put_device` alone. The namespace is not deleted before the device is in the driver model,
    /// or freed.
    pub unsafe fn initialize(&'static self, device: &Device, net: &NetNamespace) {
        // SAFETY: By the safety requirements the device is new; `net` is a valid namespace.
        unsafe {
            bindings::ib_device_init_members(device.as_raw(), net.as_raw().cast());
            let dev = device.as_dev();
            (*dev).class = self.raw.get();
            (*dev).groups = (&raw mut (*device.as_raw()).groups).cast();
            bindings::device_initialize(dev);
        }
    }

    /// # Safety
    ///
    /// The driver model calls it with a device of the class that has no reference left.
    unsafe extern "C" fn release(dev: *mut bindings::device) {
        // SAFETY: The device is the member of an `ib_device` that `initialize` was called for, and that has no reference left.
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
        // SAFETY: The driver model passes a device of the class and the uevent's environment, both valid during the call.
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

    /// Adds the entry by which another namespace sees `owner`, with the same name and parent.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of `device_add`.
    ///
    /// # Safety
    ///
    /// The result is dropped before `ib_unregister_device` returns to the driver of `owner`: files of the entry call the driver.
    pub unsafe fn add_compat(
        &'static self,
        owner: &Device,
        net: &NetNamespace,
        _sleep: &MaySleep,
    ) -> Result<CompatDevice> {
        let zeroed = KBox::<Compat>::init(pin_init::init_zeroed(), GFP_KERNEL)?;
        let raw = KBox::into_raw(zeroed);
        // SAFETY: The structure is a new heap allocation, which does not move; the parent of a device outlives it. From here on
        // `release_compat` frees the structure with the last reference, of which there is one.
        let new = unsafe {
            (*raw).groups = compat_groups(owner);
            let core = &raw mut (*raw).core;
            (*core).owner = owner.as_raw();
            (*core).dev.class = self.raw.get();
            (*core).dev.release = Some(release_compat);
            (*core).dev.groups = (&raw mut (*raw).groups).cast();
            (*core).dev.parent = (*owner.as_dev()).parent;
            bindings::INIT_LIST_HEAD(&raw mut (*core).port_list);
            bindings::ib_core_device_set_net(core, net.as_raw().cast());
            bindings::device_initialize(&raw mut (*core).dev);
            NewCompat(NonNull::new_unchecked(core.cast()))
        };
        let name = owner.name();
        // SAFETY: The name is copied; this function owns the device's only reference.
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
        // INVARIANT: The device was added, and the result takes over its reference.
        Ok(CompatDevice(core))
    }
}

/// The registration of a class; dropping it unregisters the class.
///
/// # Invariants
///
/// The class is registered, and there is no other registration of it.
pub struct ClassRegistration<P: 'static>(&'static Class<P>);

impl<P> Drop for ClassRegistration<P> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the class is registered.
        unsafe { bindings::class_unregister(self.0.raw.get()) };
        self.0.registered.store(false, Ordering::Release);
    }
}

/// The entry of a device in another namespace, and its attribute groups: up to two, then null.
#[repr(C)]
#[derive(Zeroable)]
struct Compat {
    core: bindings::ib_core_device,
    groups: [*const bindings::attribute_group; 3],
}

/// The attribute groups of the core and of the driver, without the hardware counters, which only the device's own namespace sees.
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

/// The reference to an entry that is not added yet.
struct NewCompat(NonNull<CoreDevice>);

impl Drop for NewCompat {
    fn drop(&mut self) {
        // SAFETY: `self` owns the reference.
        unsafe { bindings::put_device(self.0.as_ref().as_dev()) };
    }
}

/// # Safety
///
/// The driver model calls it with a device that [`Class::add_compat`] made and that has no reference left.
unsafe extern "C" fn release_compat(dev: *mut bindings::device) {
    // SAFETY: The device is the first member of a `Compat`, whose box `add_compat` has leaked.
    drop(unsafe { KBox::from_raw(dev.cast::<Compat>()) });
}

/// The entry by which a namespace sees a device of another namespace. Dropping it removes it from sysfs.
///
/// # Invariants
///
/// The device is in the driver model, and `self` owns one reference to it.
pub struct CompatDevice(NonNull<CoreDevice>);

// SAFETY: Devices of the driver model may be used from any thread.
unsafe impl Send for CompatDevice {}
// SAFETY: Devices of the driver model may be used from any thread.
unsafe impl Sync for CompatDevice {}

impl core::ops::Deref for CompatDevice {
    type Target = CoreDevice;

    fn deref(&self) -> &CoreDevice {
        // SAFETY: By the type invariants.
        unsafe { self.0.as_ref() }
    }
}

impl CompatDevice {
    /// Renames the entry.
    ///
    /// # Errors
    ///
    /// Those of the driver model.
    pub fn rename(&mut self, name: &CStr, _sleep: &MaySleep) -> Result {
        // SAFETY: By the type invariants the device is in the driver model; `&mut self` excludes another renaming; the name is
        // copied.
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
        // SAFETY: The member lies in the structure, which is valid as `self` is.
        unsafe { &raw mut (*self.as_raw()).dev }
    }

    /// The device itself.
    #[inline]
    pub fn owner(&self) -> &DeviceMemory {
        // SAFETY: The field is constant after the structure is made, and the owner outlives the structure.
        unsafe { DeviceMemory::from_raw((*self.as_raw()).owner) }
    }

    /// Whether this is the entry of the device in its own namespace.
    #[inline]
    pub fn is_own(&self) -> bool {
        self.owner().as_dev() == self.as_dev()
    }
}

impl DeviceMemory {
    /// The entry of the device in its own namespace.
    #[inline]
    pub fn core_device(&self) -> &CoreDevice {
        // SAFETY: The member lies in the device; a view is a transparent wrapper.
        unsafe { &*(&raw const (*self.as_raw()).__bindgen_anon_1.coredev).cast::<CoreDevice>() }
    }
}

/// A device that its driver is registering.
///
/// # Invariants
///
/// The device is registered in this call, by this thread alone. Before the call it was neither in the driver model nor registered
/// with the cgroup controller. Through this value it is added to each at most once, as `in_model` and `in_cgroup` record.
pub struct Registering<'a> {
    device: &'a Device,
    files: Option<DeviceFiles>,
    in_model: bool,
    pub(super) in_cgroup: bool,
}

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for Registering<'_> {
    type Raw = *mut bindings::ib_device;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // INVARIANT: By the header a driver registers its device once, from one thread.
        Self {
            // SAFETY: By the safety requirements the device is valid.
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
    /// Ends this stage of the registration, and returns the device.
    #[inline]
    pub fn into_device(self) -> &'a Device {
        self.device
    }

    /// Sets the name of the device in the driver model, before it is added there.
    ///
    /// # Errors
    ///
    /// `EEXIST` if the device was added; `ENOMEM`.
    pub fn set_name_in_model(&mut self, name: &CStr, _sleep: &MaySleep) -> Result {
        if self.in_model {
            return Err(EEXIST);
        }
        // SAFETY: By the type invariants only this thread uses the name before the device is added; the new name is copied.
        to_result(unsafe {
            bindings::dev_set_name(self.as_dev(), c"%s".as_char_ptr(), name.as_char_ptr())
        })
    }

    /// Sets the attribute groups of the device in sysfs: `own`, then those of the driver, then `counters`.
    ///
    /// # Errors
    ///
    /// `EEXIST` if they were set before.
    pub fn set_files(&mut self, own: DeviceGroup, counters: Option<DeviceGroup>) -> Result {
        if self.in_model || self.files.is_some() {
            return Err(EEXIST);
        }
        // SAFETY: By the type invariants the device is not in the driver model. The files are dropped after it was removed from
        // there, or if it was not added.
        self.files = Some(unsafe { DeviceFiles::publish(self, own, counters) });
        Ok(())
    }

    /// Adds the device to the driver model, and so to sysfs. The uevent `KOBJ_ADD` is sent later, by [`ModelEntry::announce`].
    ///
    /// # Errors
    ///
    /// `EEXIST` if it was added before; those of `device_add`, which leave the device as it was.
    ///
    /// # Safety
    ///
    /// The entry is removed before `ib_unregister_device`, or this registration if it fails, returns to the driver: files of the
    /// device call the driver.
    pub unsafe fn add_to_model(&mut self, _sleep: &MaySleep) -> Result<ModelEntry> {
        if self.in_model {
            return Err(EEXIST);
        }
        // SAFETY: By the type invariants the device is not in the driver model; `Class::initialize` was called when it was
        // allocated. `device_add` refuses a device without a name.
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

/// A device in the driver model, with its attribute groups.
struct Added {
    device: ARef<DeviceMemory>,
    _files: Option<DeviceFiles>,
}

/// The entry of a device in the driver model. If it is dropped instead of [removed](Self::remove), the device stays there for
/// good.
///
/// # Invariants
///
/// The device is in the driver model as long as this value exists, and only this value changes that.
#[must_use = "it is removed, or stays for good"]
pub struct ModelEntry(ManuallyDrop<Added>);

impl ModelEntry {
    fn device(&self) -> &DeviceMemory {
        &self.0.device
    }

    /// Renames the device in the driver model.
    ///
    /// # Errors
    ///
    /// Those of the driver model.
    pub fn rename(&mut self, name: &CStr, _sleep: &MaySleep) -> Result {
        let dev = self.device().as_dev();
        // SAFETY: By the type invariants the device is in the driver model; `&mut self` excludes another renaming; the name is
        // copied.
        to_result(unsafe { bindings::device_rename(dev, name.as_char_ptr()) })
    }

    /// Moves the device to another namespace, where it has this name. If its entry cannot be moved there, the device returns to `back`;
    /// with `None` it belongs to the other namespace all the same, and may be missing in sysfs.
    ///
    /// # Errors
    ///
    /// Those of the driver model.
    pub fn move_to(
        &mut self,
        (net, name): (&NetRef, &CStr),
        back: Option<&NetRef>,
        sleep: &MaySleep,
    ) -> Result {
        self.set_net(net, sleep);
        // The driver model reads the namespace of a device again when the device is renamed.
        let renamed = self.rename(name, sleep);
        match (&renamed, back) {
            (Ok(()), _) => self.device().set_name_field(name),
            (Err(_), Some(back)) => self.set_net(back, sleep),
            (Err(_), None) => {}
        }
        renamed
    }

    /// Puts the device into another namespace, and waits for the RCU readers that have read the former one.
    fn set_net(&mut self, net: &NetNamespace, sleep: &MaySleep) {
        if self.device().is_in(net) {
            return;
        }
        let core = self.device().core_device().as_raw();
        // SAFETY: The pointer is written by a single store. Before a namespace is freed, the core moves all devices in the driver model
        // out of it.
        unsafe { bindings::ib_core_device_set_net(core, net.as_raw().cast()) };
        rcu::synchronize(sleep);
    }

    /// Sends the uevent `KOBJ_ADD` of the device.
    pub fn announce(&mut self, _sleep: &MaySleep) {
        let dev = self.device().as_dev();
        // SAFETY: By the type invariants the device is in the driver model; `&mut self` excludes other changes. A uevent that is
        // lost is no error.
        unsafe {
            bindings::dev_set_uevent_suppress(dev, 0);
            bindings::kobject_uevent(&raw mut (*dev).kobj, bindings::kobject_action_KOBJ_ADD);
        }
    }

    /// Sends the uevent `KOBJ_REMOVE` of the device, which stays in the driver model.
    pub fn announce_leaving(&mut self, _sleep: &MaySleep) {
        let dev = self.device().as_dev();
        let action = bindings::kobject_action_KOBJ_REMOVE;
        // SAFETY: By the type invariants the device is in the driver model; `&mut self` excludes other changes. A uevent that is
        // lost is no error.
        unsafe { bindings::kobject_uevent(&raw mut (*dev).kobj, action) };
    }

    /// Removes the device from the driver model. The uevent `KOBJ_REMOVE` is sent if `KOBJ_ADD` was. The device is then in the
    /// initial namespace, because a namespace that is deleted does not wait for it any more.
    pub fn remove(mut self, sleep: &MaySleep) {
        let dev = self.device().as_dev();
        // SAFETY: By the type invariants the device is in the driver model; the entry is consumed, so it is removed once.
        unsafe {
            bindings::device_del(dev);
            bindings::dev_set_uevent_suppress(dev, 0);
        }
        self.set_net(NetNamespace::init(), sleep);
        drop(ManuallyDrop::into_inner(self.0));
    }
}
