// SPDX-License-Identifier: GPL-2.0

//! The file operations of `/dev/infiniband/rdma_cm`.
//!
//! C headers: `include/linux/fs.h`, `include/uapi/rdma/rdma_user_cm.h`.

use kernel::{
    fs, pr_err_once,
    prelude::*,
    sync::{aref::ARef, poll::PollTable, Arc},
    uaccess::UserPtr,
};
use kernel_ext::{
    bindings::O_NONBLOCK,
    chrdev::Cdev,
    file_ops::FileOps,
    misc::{DeviceText, MiscDevice, MiscOps, MiscOptions},
};
use rdma::{client::registration::Counted, MaySleep};

use crate::{
    commands, context,
    recipient::{Channel, Pending},
};

/// The operations.
pub(crate) struct UcmFile;

#[vtable]
impl FileOps for UcmFile {
    type Private = Counted<Arc<Channel>>;
    type Node = Cdev;

    fn open(_node: &Cdev, _file: &fs::File, _sleep: &MaySleep) -> Result<ARef<Self::Private>> {
        Counted::new(Arc::pin_init(Channel::new(), GFP_KERNEL)?)
    }

    fn release(channel: ARef<Self::Private>, sleep: &MaySleep) {
        // Requests may add some until the identifiers that listen are destroyed.
        while let Some(number) = channel.first_member() {
            match context::take(&channel, number) {
                Ok(context) => drop(context::destroy(context, sleep)),
                // Who listens was moved to another file, and destroys it with its request.
                Err(_) => drop(channel.dismiss(number, |_: &Pending| false, || ())),
            }
        }
        drop(channel.extract(|_| true));
    }

    fn write(
        channel: &Self::Private,
        file: &fs::File,
        from: UserPtr,
        len: usize,
        sleep: &MaySleep,
    ) -> Result<usize> {
        if !rdma_user_cm::is_safe_access(file) {
            pr_err_once!("a command was written with other credentials than those of open\n");
            return Err(EACCES);
        }
        let waits = file.flags() & O_NONBLOCK == 0;
        commands::execute(channel, waits, (from, len), by_descriptor, sleep)?;
        Ok(len)
    }

    fn poll(channel: &Self::Private, file: &fs::File, table: PollTable<'_>) -> u32 {
        channel.poll(file, table)
    }
}

/// Calls a function with the file that has a descriptor.
fn by_descriptor(fd: u32, with: &mut dyn FnMut(&Arc<Channel>) -> Result) -> Result {
    let file = OPERATIONS.of_fd(fd).map_err(|_| ENOENT)?.ok_or(EINVAL)?;
    with(&file)
}

static OPERATIONS: MiscOps<UcmFile> = MiscOps::new(&crate::THIS_MODULE);

static ABI_VERSION: DeviceText = DeviceText::new(c"abi_version", c"4");

const _: () = assert!(kernel_ext::bindings::RDMA_USER_CM_ABI_VERSION == 4);

/// The device.
pub(crate) static DEVICE: MiscDevice = MiscDevice::new(
    MiscOptions {
        name: c"rdma_cm",
        path: c"infiniband/rdma_cm",
        mode: 0o666,
        text: &ABI_VERSION,
    },
    &OPERATIONS,
);
