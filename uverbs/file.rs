// SPDX-License-Identifier: GPL-2.0

//! The file operations of `/dev/infiniband/uverbsN`.
//!
//! A file has at most one context, which a command creates, and the objects in it. They are destroyed when the file is closed, or
//! when the device is removed; after that commands fail with `EIO`.
//!
//! C headers: `include/linux/fs.h`, `include/rdma/uverbs_types.h`.

use kernel::{
    ffi::c_long, mm::virt::VmaNew, pr_err_once, prelude::*, sync::aref::ARef, uaccess::UserPtr,
};
use kernel_ext::{
    bindings::file_operations,
    export::Exported,
    file_ops::{self, FileOps},
};
use rdma::{
    core::{uobject::RemoveReason, Device},
    MaySleep,
};
use rdma_uverbs::{
    close,
    file::{File, FileRef},
    node::{self, Node},
    umap,
};

use crate::{ioctl, write};

/// The operations of device files.
struct DeviceFile;

#[vtable]
impl FileOps for DeviceFile {
    type Private = File;
    type Node = Node;

    fn open(node: &Node, _file: &kernel::fs::File, sleep: &MaySleep) -> Result<FileRef> {
        node.open(|device| may_open(device, sleep), sleep)
    }

    fn release(file: FileRef, sleep: &MaySleep) {
        destroy_hw(&file, RemoveReason::Close, sleep);
        Node::forget_file(&file, sleep);
    }

    fn write(
        this: &File,
        file: &kernel::fs::File,
        from: UserPtr,
        len: usize,
        sleep: &MaySleep,
    ) -> Result<usize> {
        if !node::is_safe(file) {
            pr_err_once!("write: a process has other credentials than when it opened the file\n");
            return Err(EACCES);
        }
        write::write(this, from, len, sleep)
    }

    fn ioctl(
        this: &File,
        _file: &kernel::fs::File,
        command: u32,
        argument: usize,
        sleep: &MaySleep,
    ) -> Result<c_long> {
        ioctl::ioctl(this, command, argument, sleep)
    }

    fn mmap(this: &File, _file: &kernel::fs::File, area: &VmaNew, sleep: &MaySleep) -> Result {
        umap::map(this, area, sleep)
    }
}

/// The table of operations.
// SAFETY: The table is for nodes; no other C code opens files with it.
const OPERATIONS: Exported<file_operations> =
    unsafe { file_ops::table::<DeviceFile>(&crate::THIS_MODULE, None) };

/// For devices whose driver has `mmap`.
static WITH_MMAP: Exported<file_operations> = OPERATIONS;

/// For devices without `mmap`.
static WITHOUT_MMAP: Exported<file_operations> = Exported(file_operations {
    mmap: None,
    ..OPERATIONS.0
});

/// The operations of a device's node.
pub(crate) fn operations(device: &Device) -> &'static Exported<file_operations> {
    if device.ops().mmap.is_some() {
        &WITH_MMAP
    } else {
        &WITHOUT_MMAP
    }
}

/// Checks that the current process may open a device: one of its network namespace, or any in shared mode.
fn may_open(device: &Device, sleep: &MaySleep) -> Result {
    device.is_accessible(sleep).then_some(()).ok_or(EPERM)
}

/// Destroys the objects and the context of a file (`uverbs_destroy_ufile_hw`). Further and concurrent calls do nothing.
pub(crate) fn destroy_hw(file: &ARef<File>, why: RemoveReason, sleep: &MaySleep) {
    let file = file.lock_hw_destroy(sleep);
    if file.ucontext().is_null() {
        return;
    }
    // Objects that others use are destroyed in a later round.
    while file.has_objects() && file.destroy_objects(why, sleep).is_ok() {}
    if file.has_objects() {
        pr_warn!("a driver does not destroy its objects\n");
        // It cannot fail: there is a context, and the driver is not called.
        let _ = file.destroy_objects(RemoveReason::DriverFailure, sleep);
    }
    close::destroy_context(&file, why, sleep);
}
