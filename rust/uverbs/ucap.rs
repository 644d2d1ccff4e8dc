// SPDX-License-Identifier: GPL-2.0

//! Character devices of user capabilities (ucaps): a process that can open one has the capability.
//!
//! C headers: `include/rdma/ib_ucaps.h`, `include/linux/cdev.h`.

use core::ptr::NonNull;

use kernel::{error::to_result, prelude::*};
use kernel_ext::{
    chrdev::{NodeClass, Nodes},
    entry::FromC,
};
use rdma::MaySleep;
use rdma_bindings::{self as bindings, cdev, device, file_operations};

/// The file operations of such a device, which can only be opened.
pub struct Files(file_operations);

// SAFETY: The table is constant.
unsafe impl Sync for Files {}

impl Files {
    /// Creates the table, for a `static` of a module that is loaded while a node is open.
    pub const fn new(module: &'static ThisModule) -> Self {
        Self(file_operations {
            owner: module.as_ptr(),
            open: Some(bindings::simple_open),
            ..pin_init::zeroed()
        })
    }

    /// The minor number of the device that a file descriptor of the current process has open.
    ///
    /// # Errors
    ///
    /// `EBADF` for any other descriptor.
    pub fn number_of(&'static self, descriptor: i32) -> Result<u32> {
        // SAFETY: The function takes any number.
        let file = NonNull::new(unsafe { bindings::fget(descriptor as u32) }).ok_or(EBADF)?;
        // SAFETY: The reference keeps the file; its members and the number of the node are constant.
        unsafe {
            let file = file.as_ptr();
            let ours = core::ptr::eq((*file).f_op, &self.0);
            let number = (*(*file).f_inode).i_rdev;
            bindings::fput(file);
            ours.then_some(number).ok_or(EBADF)
        }
    }
}

/// The C structures of a device.
#[repr(C)]
#[derive(Zeroable)]
struct RawNode {
    cdev: cdev,
    dev: device,
}

/// The reference to a device that is not in the driver model yet.
struct NewNode(NonNull<RawNode>);

impl Drop for NewNode {
    fn drop(&mut self) {
        // SAFETY: `self` owns the reference.
        unsafe { bindings::put_device(&raw mut (*self.0.as_ptr()).dev) };
    }
}

/// # Safety
///
/// The driver model calls it with a device that has no reference left.
unsafe extern "C" fn release(dev: *mut device) {
    let offset = core::mem::offset_of!(RawNode, dev);
    // SAFETY: By the safety requirements; `Node::new` has leaked the box.
    drop(unsafe { KBox::from_raw(dev.byte_sub(offset).cast::<RawNode>()) });
}

/// A device. Dropping it removes the device from `/dev`; open files stay open.
pub struct Node(NewNode);

// SAFETY: The driver model synchronises access to the node.
unsafe impl Send for Node {}

impl Node {
    /// Creates a device of a class.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of the driver model.
    pub fn new<T: Nodes>(
        class: &'static NodeClass<T>,
        number: u32,
        name: &CStr,
        files: &'static Files,
        _sleep: &MaySleep,
    ) -> Result<Self> {
        let zeroed = KBox::<RawNode>::init(pin_init::init_zeroed(), GFP_KERNEL)?;
        let raw = KBox::into_raw(zeroed);
        // SAFETY: The structures are new, zeroed, and not moved. From the initialisation on the last reference, which
        // this function owns, frees them. The name is copied.
        unsafe {
            let dev = &raw mut (*raw).dev;
            bindings::device_initialize(dev);
            (*dev).class = class.as_raw();
            (*dev).devt = number;
            (*dev).release = Some(release);
            let new = NewNode(NonNull::new_unchecked(raw));
            let format = c"%s".as_char_ptr();
            to_result(bindings::dev_set_name(dev, format, name.as_char_ptr()))?;
            bindings::cdev_init(&raw mut (*raw).cdev, &files.0);
            (*raw).cdev.owner = files.0.owner;
            to_result(bindings::cdev_device_add(&raw mut (*raw).cdev, dev))?;
            Ok(Self(new))
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let raw = self.0 .0.as_ptr();
        // SAFETY: The node is in the driver model; its reference is dropped after this.
        unsafe { bindings::cdev_device_del(&raw mut (*raw).cdev, &raw mut (*raw).dev) };
    }
}

/// A capability: `enum rdma_user_cap`.
pub struct Capability(pub usize);

// SAFETY: `Raw` is the enumeration in the header; any number is valid, and its users check it.
unsafe impl FromC for Capability {
    type Raw = bindings::rdma_user_cap;

    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw as usize)
    }
}
