// SPDX-License-Identifier: GPL-2.0

//! Character devices: device numbers, classes and device nodes.
//!
//! C headers: `include/linux/fs.h`, `include/linux/cdev.h`, `include/linux/device/class.h`.

use core::{
    marker::PhantomData,
    sync::atomic::{AtomicBool, Ordering},
};

use kernel::{
    error::to_result,
    ffi::{c_char, c_uint},
    prelude::*,
    types::Opaque,
};

use crate::{bindings, context::MaySleep, entry::view_of};

view_of! {
    /// A character device: `struct cdev`, a member of another structure.
    pub struct Cdev(bindings::cdev);
}

/// A structure with a [`Cdev`] as a member.
///
/// # Safety
///
/// The type is the structure, or a transparent wrapper of it, with a `struct cdev` at the offset.
pub unsafe trait CdevOwner {
    /// The offset of the character device in the structure.
    const OFFSET: usize;
}

// SAFETY: The type is a transparent wrapper of a `struct cdev`.
unsafe impl CdevOwner for Cdev {
    const OFFSET: usize = 0;
}

/// Number of minor bits of a device number (`MINORBITS`).
const MINOR_BITS: u32 = 20;

/// A range of device numbers with one major number. Dropping it releases the numbers.
pub struct Numbers {
    first: bindings::dev_t,
    count: c_uint,
}

impl Numbers {
    /// Allocates `count` device numbers from `major`, `minor` on; `name` appears in `/proc/devices`.
    ///
    /// # Errors
    ///
    /// `EBUSY` if one of them is in use, `ENOMEM`, `EINVAL`.
    pub fn fixed(
        major: u32,
        minor: u32,
        count: u32,
        name: &'static CStr,
        _sleep: &MaySleep,
    ) -> Result<Self> {
        let first = (major << MINOR_BITS) | minor;
        // SAFETY: The name is `'static`.
        to_result(unsafe { bindings::register_chrdev_region(first, count, name.as_char_ptr()) })?;
        Ok(Self { first, count })
    }

    /// Allocates `count` device numbers of an unused major number, from minor 0 on.
    ///
    /// # Errors
    ///
    /// `EBUSY` if all major numbers are in use, `ENOMEM`.
    pub fn dynamic(count: u32, name: &'static CStr, _sleep: &MaySleep) -> Result<Self> {
        let mut first = 0;
        // SAFETY: The name is `'static`.
        to_result(unsafe {
            bindings::alloc_chrdev_region(&mut first, 0, count, name.as_char_ptr())
        })?;
        Ok(Self { first, count })
    }

    /// The `nth` number, as `dev_t`.
    pub fn nth(&self, nth: u32) -> Option<u32> {
        (nth < self.count).then(|| self.first.saturating_add(nth))
    }

    /// Number of device numbers.
    pub fn count(&self) -> u32 {
        self.count
    }
}

impl Drop for Numbers {
    fn drop(&mut self) {
        // SAFETY: `self` owns the numbers.
        unsafe { bindings::unregister_chrdev_region(self.first, self.count) };
    }
}

/// Path and mode of a class's device nodes in `/dev`.
pub trait Nodes: 'static {
    /// The path, in which `%s` is replaced by the name of the device.
    const PATH: &'static CStr;
    /// The mode.
    const MODE: u16;
}

/// A device class with nodes: a `static`.
pub struct NodeClass<T> {
    raw: Opaque<bindings::class>,
    /// Whether there is a [`ClassRegistration`].
    registered: AtomicBool,
    _nodes: PhantomData<fn() -> T>,
}

// SAFETY: The driver model synchronises access to a class.
unsafe impl<T> Sync for NodeClass<T> {}

impl<T: Nodes> NodeClass<T> {
    /// A class with this name.
    pub const fn new(name: &'static CStr) -> Self {
        Self {
            raw: Opaque::new(bindings::class {
                name: kernel::str::as_char_ptr_in_const_context(name),
                devnode: Some(Self::devnode),
                ..pin_init::zeroed()
            }),
            registered: AtomicBool::new(false),
            _nodes: PhantomData,
        }
    }

    /// The C structure.
    pub fn as_raw(&'static self) -> *const bindings::class {
        self.raw.get()
    }

    /// Registers the class.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the class is registered; errors of the driver core.
    pub fn register_bare(&'static self, _sleep: &MaySleep) -> Result<ClassRegistration<T>> {
        if self.registered.swap(true, Ordering::Acquire) {
            return Err(EBUSY);
        }
        // SAFETY: The class is a static, and the flag has shown that it is not registered.
        let registered = to_result(unsafe { bindings::class_register(self.as_raw()) });
        if let Err(error) = registered {
            self.registered.store(false, Ordering::Release);
            return Err(error);
        }
        // INVARIANT: The class was just registered.
        Ok(ClassRegistration(self))
    }

    /// Registers the class, with an attribute file that contains `text`.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the class is registered; errors of the driver core.
    pub fn register(
        &'static self,
        text: &'static ClassText,
        sleep: &MaySleep,
    ) -> Result<ClassRegistration<T>> {
        let registration = self.register_bare(sleep)?;
        // SAFETY: The class is registered; the file is a static, and is removed with the class.
        to_result(unsafe {
            let file = &raw const (*text.0.get()).attr;
            bindings::class_create_file_ns(self.as_raw(), file, core::ptr::null())
        })?;
        Ok(registration)
    }

    /// # Safety
    ///
    /// The driver model calls it with a device of the class, and frees what it returns.
    unsafe extern "C" fn devnode(
        dev: *const bindings::device,
        mode: *mut bindings::umode_t,
    ) -> *mut c_char {
        // SAFETY: `mode` is null or valid for writes; the device has a name.
        unsafe {
            if let Some(mode) = mode.as_mut() {
                *mode = T::MODE;
            }
            let name = kernel::device::Device::<kernel::device::Normal>::from_raw(dev.cast_mut())
                .name()
                .as_char_ptr();
            bindings::kasprintf(bindings::GFP_KERNEL, T::PATH.as_char_ptr(), name)
        }
    }
}

/// Keeps the class registered until it is dropped.
///
/// # Invariants
///
/// The class is registered, and there is no other registration of it.
pub struct ClassRegistration<T: 'static>(&'static NodeClass<T>);

impl<T> Drop for ClassRegistration<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the class is registered.
        unsafe { bindings::class_unregister(self.0.raw.get()) };
        self.0.registered.store(false, Ordering::Release);
    }
}

/// A class attribute with constant content.
pub struct ClassText(Opaque<bindings::class_attribute_string>);

// SAFETY: The file is constant.
unsafe impl Sync for ClassText {}

impl ClassText {
    /// A world-readable attribute.
    pub const fn new(name: &'static CStr, text: &'static CStr) -> Self {
        let mut file: bindings::class_attribute_string = pin_init::zeroed();
        file.attr.attr.name = kernel::str::as_char_ptr_in_const_context(name);
        file.attr.attr.mode = 0o444;
        file.attr.show = Some(bindings::show_class_attr_string);
        file.str_ = kernel::str::as_char_ptr_in_const_context(text).cast_mut();
        Self(Opaque::new(file))
    }
}
