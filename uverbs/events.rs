// SPDX-License-Identifier: GPL-2.0

//! The file operations of completion channels and async event files.
//!
//! When the device is removed, reading a completion channel fails with `EIO` at once; an async event file still has its pending
//! events, with `IB_EVENT_DEVICE_FATAL` at the end.
//!
//! C header: `include/uapi/rdma/ib_user_verbs.h`.

use core::marker::PhantomData;

use kernel::{
    bindings::O_NONBLOCK,
    fs::File,
    prelude::*,
    sync::{aref::AlwaysRefCounted, poll::PollTable},
    uaccess::{UserPtr, UserSlice},
};
use kernel_ext::{bindings, chrdev::Cdev, fasync::Fasync, file_ops::FileOps};
use rdma::{core::uobject::RemoveReason, MaySleep};
use rdma_uverbs::{
    event::{AsyncEvents, AsyncFile, CompletionChannel, EventFile, Report},
    table::ObjectFileOps,
};

/// The operations of the files of a class.
struct Channel<T>(PhantomData<T>);

#[vtable]
impl<T> FileOps for Channel<T>
where
    T: AlwaysRefCounted + AsRef<EventFile> + Sync + 'static,
{
    type Private = T;
    type Node = Cdev;

    fn read(channel: &T, file: &File, to: UserPtr, len: usize, sleep: &MaySleep) -> Result<usize> {
        let wait = file.flags() & O_NONBLOCK == 0;
        let report = channel.as_ref().take(wait, len, sleep)?;
        let size = report.size();
        let bytes = report.bytes();
        let bytes = bytes.get(..size).ok_or(EINVAL)?;
        UserSlice::new(to, size).writer().write_slice(bytes)?;
        Ok(size)
    }

    fn poll(channel: &T, file: &File, table: PollTable<'_>) -> u32 {
        channel.as_ref().poll(file, table)
    }

    fn fasync(channel: &T) -> Option<&Fasync> {
        channel.as_ref().fasync()
    }
}

/// The operations of completion channels.
pub(crate) static CHANNEL_OPS: ObjectFileOps<CompletionChannel> =
    ObjectFileOps::new::<Channel<EventFile>>(&crate::THIS_MODULE);

/// The operations of async event files.
pub(crate) static ASYNC_OPS: ObjectFileOps<AsyncEvents> =
    ObjectFileOps::new::<Channel<AsyncFile>>(&crate::THIS_MODULE);

/// A completion channel is closed, or its device is removed.
pub(crate) fn detach_channel(channel: &EventFile, _why: RemoveReason, _sleep: &MaySleep) {
    channel.close();
}

/// An async event file is closed, or its device is removed, which it reports.
pub(crate) fn detach_async(file: &AsyncFile, why: RemoveReason, _sleep: &MaySleep) {
    if why == RemoveReason::DriverRemove {
        file.push(Report::Async {
            element: 0,
            kind: bindings::IB_EVENT_DEVICE_FATAL,
        });
    }
}

/// An async event file is released.
pub(crate) fn release_async(file: &AsyncFile, _sleep: &MaySleep) {
    file.close();
}
