// SPDX-License-Identifier: GPL-2.0

//! Misc devices: character devices with a minor number of the kernel's choice, of which a module has one.
//!
//! 1. Implement [`FileOps`] with [`Cdev`] as the node.
//! 2. Define a `static` [`MiscOps`] of it, and a `static` [`MiscDevice`].
//! 3. Keep its [`MiscRegistration`] in the module.
//!
//! C header: `include/linux/miscdevice.h`.

use core::{
    marker::PhantomData,
    mem::offset_of,
    ops::Deref,
    ptr,
    sync::atomic::{AtomicBool, Ordering},
};

use kernel::{
    device,
    error::to_result,
    fs::{file::BadFdError, LocalFile},
    prelude::*,
    sync::aref::ARef,
    types::Opaque,
};

use crate::{
    bindings,
    chrdev::Cdev,
    context::MaySleep,
    export::Exported,
    file_ops::{self, FileOps},
};

/// The operations of a misc device's files: a `static`.
#[repr(transparent)]
pub struct MiscOps<O>(Exported<bindings::file_operations>, PhantomData<fn() -> O>);

impl<O: FileOps<Node = Cdev>> MiscOps<O> {
    /// The table of `O`, whose code is in the module `owner`.
    pub const fn new(owner: &ThisModule) -> Self {
        const { assert!(O::HAS_OPEN && O::HAS_RELEASE) };
        // SAFETY: `O` opens and releases the files itself. The table is private, and only a misc device uses it; a file of that is
        // opened by the character device of all misc devices, which is a `Cdev`.
        Self(unsafe { file_ops::table::<O>(owner, None) }, PhantomData)
    }

    /// The file with a descriptor of the current process; `None` if it has other operations.
    ///
    /// # Errors
    ///
    /// [`BadFdError`] if there is no such descriptor.
    pub fn of_fd(&'static self, fd: u32) -> Result<Option<MiscFile<O>>, BadFdError> {
        let file = LocalFile::fget(fd)?;
        // SAFETY: The file is valid, and its operations are constant once it has a descriptor.
        let is_ours = unsafe { ptr::eq((*file.as_ptr()).f_op, &raw const self.0 .0) };
        // INVARIANT: The file has this table, and it was opened before it got a descriptor.
        Ok(is_ours.then_some(MiscFile(file, PhantomData)))
    }
}

/// A file of a misc device, with a reference to it.
///
/// # Invariants
///
/// The file is open, and owns a reference to an `O::Private` as its private data.
pub struct MiscFile<O>(ARef<LocalFile>, PhantomData<fn() -> O>);

impl<O: FileOps> Deref for MiscFile<O> {
    type Target = O::Private;

    fn deref(&self) -> &O::Private {
        // SAFETY: By the type invariants; `self` keeps the file open, and the private data of an open file is constant.
        unsafe { &*(*self.0.as_ptr()).private_data.cast() }
    }
}

/// A file in the folder of a device with constant content, which all users may read.
pub struct DeviceText(bindings::dev_ext_attribute);

// SAFETY: The file is constant.
unsafe impl Sync for DeviceText {}

impl DeviceText {
    /// A file with this name. The kernel adds the end of the line.
    pub const fn new(name: &'static CStr, text: &'static CStr) -> Self {
        const { assert!(offset_of!(bindings::dev_ext_attribute, attr) == 0) };
        let mut file: bindings::dev_ext_attribute = pin_init::zeroed();
        file.attr.attr.name = kernel::str::as_char_ptr_in_const_context(name);
        file.attr.attr.mode = 0o444;
        file.attr.__bindgen_anon_1.show = Some(bindings::device_show_string);
        file.var = kernel::str::as_char_ptr_in_const_context(text)
            .cast_mut()
            .cast();
        Self(file)
    }

    fn as_raw(&'static self) -> *const bindings::device_attribute {
        &raw const self.0.attr
    }
}

/// What a misc device is called.
pub struct MiscOptions {
    /// Its name, in `/sys/class/misc`.
    pub name: &'static CStr,
    /// The path of its node below `/dev`.
    pub path: &'static CStr,
    /// The mode of the node.
    pub mode: u16,
    /// A file in its folder in sysfs.
    pub text: &'static DeviceText,
}

/// A misc device: a `static`.
pub struct MiscDevice {
    raw: Opaque<bindings::miscdevice>,
    text: &'static DeviceText,
    /// Whether there is a [`MiscRegistration`].
    registered: AtomicBool,
}

// SAFETY: The driver model synchronises access to the structure; `registered` is atomic.
unsafe impl Sync for MiscDevice {}

impl MiscDevice {
    /// A device that is not registered yet.
    pub const fn new<O: FileOps<Node = Cdev>>(
        options: MiscOptions,
        operations: &'static MiscOps<O>,
    ) -> Self {
        let mut raw: bindings::miscdevice = pin_init::zeroed();
        raw.minor = bindings::MISC_DYNAMIC_MINOR as i32;
        raw.name = kernel::str::as_char_ptr_in_const_context(options.name);
        raw.nodename = kernel::str::as_char_ptr_in_const_context(options.path);
        raw.mode = options.mode;
        raw.fops = &raw const operations.0 .0;
        Self {
            raw: Opaque::new(raw),
            text: options.text,
            registered: AtomicBool::new(false),
        }
    }

    /// Registers the device: from now on its files may be opened.
    ///
    /// # Errors
    ///
    /// `EBUSY` if it is registered, `ENOMEM`, and those of the driver model.
    pub fn register(&'static self, _sleep: &MaySleep) -> Result<MiscRegistration> {
        if self.registered.swap(true, Ordering::Acquire) {
            return Err(EBUSY);
        }
        // SAFETY: The structure is a static, and the flag has shown that it is not registered.
        if let Err(error) = to_result(unsafe { bindings::misc_register(self.raw.get()) }) {
            self.registered.store(false, Ordering::Release);
            return Err(error);
        }
        // INVARIANT: The device was just registered.
        let mut registration = MiscRegistration {
            device: self,
            has_text: false,
        };
        // SAFETY: The device is registered; the file is a static, and is removed before the device is.
        to_result(unsafe {
            bindings::device_create_file((*self.raw.get()).this_device, self.text.as_raw())
        })?;
        registration.has_text = true;
        Ok(registration)
    }
}

/// Keeps a misc device registered. Dropping it, in process context, removes the device; files that are open stay so, and keep the
/// module.
///
/// # Invariants
///
/// The device is registered, and there is no other registration of it.
pub struct MiscRegistration {
    device: &'static MiscDevice,
    has_text: bool,
}

impl MiscRegistration {
    /// The device in the driver model.
    pub fn dev(&self) -> ARef<device::Device> {
        // SAFETY: By the type invariants the device is registered, and has a `struct device`.
        unsafe { device::Device::get_device((*self.device.raw.get()).this_device) }
    }
}

impl Drop for MiscRegistration {
    fn drop(&mut self) {
        let raw = self.device.raw.get();
        // SAFETY: By the type invariants; the file was made if the flag says so.
        unsafe {
            if self.has_text {
                bindings::device_remove_file((*raw).this_device, self.device.text.as_raw());
            }
            bindings::misc_deregister(raw);
        }
        self.device.registered.store(false, Ordering::Release);
    }
}
