// SPDX-License-Identifier: GPL-2.0

//! Devices in the driver model: `/sys/class/infiniband`, and adding devices to it.
//!
//! C headers: `include/linux/device.h`, `include/rdma/ib_verbs.h`.

use core::{marker::PhantomData, ptr::NonNull};

use kernel::{error::to_result, ffi::c_int, prelude::*, types::Opaque};
use kernel_ext::net::ns::NetNamespace;
use rdma_bindings as bindings;

use super::{
    device::{self, Private},
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
    /// reference that this leaves to the caller.
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

    /// Gives the device another name in the driver model.
    pub fn rename_in_model(&self, name: &CStr, _sleep: &MaySleep) -> Result {
        // SAFETY: The device is in the driver model; the name is copied.
        to_result(unsafe { bindings::device_rename(self.as_dev(), name.as_char_ptr()) })
    }
}

impl Device {
    /// How the device is seen in its own namespace.
    #[inline]
    pub fn core_device(&self) -> &CoreDevice {
        // SAFETY: The member is inside of the device; a view is a transparent wrapper.
        unsafe { &*(&raw const (*self.as_raw()).__bindgen_anon_1.coredev).cast::<CoreDevice>() }
    }

    /// Gives a device that is not in the driver model yet its name there.
    pub fn set_name_in_model(&self, name: &CStr, _sleep: &MaySleep) -> Result {
        // SAFETY: The device is being registered; the name is copied.
        to_result(unsafe {
            bindings::dev_set_name(self.as_dev(), c"%s".as_char_ptr(), name.as_char_ptr())
        })
    }

    /// Puts the device into the driver model: it is in sysfs from now on. User space is told later, by
    /// [`announce`](Self::announce).
    pub fn add_to_model(&self, _sleep: &MaySleep) -> Result {
        // SAFETY: The device is initialised and has a name; what fails here leaves it as it was.
        unsafe {
            bindings::dev_set_uevent_suppress(self.as_dev(), 1);
            to_result(bindings::device_add(self.as_dev())).inspect_err(|_| {
                bindings::dev_set_uevent_suppress(self.as_dev(), 0);
            })
        }
    }

    /// Takes the device out of the driver model; user space is told, if it was told of the device.
    pub fn remove_from_model(&self, _sleep: &MaySleep) {
        // SAFETY: The device is in the driver model.
        unsafe {
            bindings::device_del(self.as_dev());
            bindings::dev_set_uevent_suppress(self.as_dev(), 0);
        }
    }

    /// Tells user space that the device has come (`KOBJ_ADD`).
    pub fn announce(&self, _sleep: &MaySleep) {
        // SAFETY: The device is in the driver model. What does not reach user space is no error here.
        unsafe {
            bindings::dev_set_uevent_suppress(self.as_dev(), 0);
            bindings::kobject_uevent(
                &raw mut (*self.as_dev()).kobj,
                bindings::kobject_action_KOBJ_ADD,
            );
        }
    }

    /// Tells user space that the device goes (`KOBJ_REMOVE`), though it stays in the driver model.
    pub fn announce_leaving(&self, _sleep: &MaySleep) {
        // SAFETY: The device is in the driver model. What does not reach user space is no error here.
        unsafe {
            let action = bindings::kobject_action_KOBJ_REMOVE;
            bindings::kobject_uevent(&raw mut (*self.as_dev()).kobj, action);
        }
    }

    /// Moves the device to another namespace, for sysfs after the next renaming; returns the old one. For the core, while
    /// nobody has the device registered.
    pub fn set_net(&self, net: &NetNamespace) -> OldNet {
        let old = OldNet(NonNull::from(self.net()));
        // SAFETY: The namespace is one.
        unsafe {
            bindings::ib_core_device_set_net(self.core_device().as_raw(), net.as_raw().cast())
        };
        old
    }

    /// Moves the device back.
    pub fn restore_net(&self, old: OldNet) {
        // SAFETY: The namespace was the device's, and whoever moves the device holds it up while it goes.
        unsafe {
            let net = old.0.as_ref().as_raw();
            bindings::ib_core_device_set_net(self.core_device().as_raw(), net.cast());
        }
    }
}

/// The namespace that a device was in.
pub struct OldNet(NonNull<NetNamespace>);
