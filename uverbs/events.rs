// SPDX-License-Identifier: GPL-2.0

//! Completion channels and asynchronous events: the files that user space reads them from.
//!
//! When the device goes, a completion channel says `EIO` at once; from an async event file user space still reads what
//! has happened, and `IB_EVENT_DEVICE_FATAL` at the end.

use kernel::{
    bindings::O_NONBLOCK,
    fs::File,
    prelude::*,
    sync::poll::PollTable,
    uaccess::{UserPtr, UserSlice},
};
use kernel_ext::{
    bindings::{self, file_operations},
    export::Exported,
    fasync::Fasync,
    file_ops::{self, FileOps},
};
use rdma::{core::uobject::RemoveReason, MaySleep};
use rdma_uverbs::event::{AsyncFile, EventFile, Report};

/// What is done with the files of events.
struct Channel;

#[vtable]
impl FileOps for Channel {
    type Private = EventFile;

    fn read(
        channel: &EventFile,
        file: &File,
        to: UserPtr,
        len: usize,
        sleep: &MaySleep,
    ) -> Result<usize> {
        let wait = file.flags() & O_NONBLOCK == 0;
        let report = channel.take(wait, len, sleep)?;
        let size = report.size();
        let bytes = report.bytes();
        let bytes = bytes.get(..size).ok_or(EINVAL)?;
        UserSlice::new(to, size).writer().write_slice(bytes)?;
        Ok(size)
    }

    fn poll(channel: &EventFile, file: &File, table: PollTable<'_>) -> u32 {
        channel.poll(file, table)
    }

    fn fasync(channel: &EventFile) -> Option<&Fasync> {
        channel.fasync()
    }
}

/// The operations of completion channels.
// SAFETY: ib_uverbs_support sets the private data to the object, with the reference that `uverbs_uobject_fd_release`
// drops; the objects of these files are what begins with an `EventFile`.
pub(crate) static CHANNEL_OPS: Exported<file_operations> = unsafe {
    file_ops::table::<Channel>(
        &crate::THIS_MODULE,
        Some(bindings::uverbs_uobject_fd_release),
    )
};

/// The operations of async event files: another table, for it tells the kinds of files apart.
// SAFETY: As above.
pub(crate) static ASYNC_OPS: Exported<file_operations> = unsafe {
    file_ops::table::<Channel>(
        &crate::THIS_MODULE,
        Some(bindings::uverbs_uobject_fd_release),
    )
};

/// A completion channel goes: its file is closed, or its device has gone.
pub(crate) fn detach_channel(channel: &EventFile, _why: RemoveReason, _sleep: &MaySleep) {
    channel.close();
}

/// An async event file hears no more of its device; if that has gone, says so.
pub(crate) fn detach_async(file: &AsyncFile, why: RemoveReason, sleep: &MaySleep) {
    file.stop(sleep);
    if why == RemoveReason::DriverRemove {
        file.push(Report::Async {
            element: 0,
            kind: bindings::IB_EVENT_DEVICE_FATAL,
        });
    }
}

/// An async event file is closed.
pub(crate) fn release_async(file: &AsyncFile, _sleep: &MaySleep) {
    file.close();
}
