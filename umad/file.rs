// SPDX-License-Identifier: GPL-2.0

//! The file operations of `/dev/infiniband/umadN`.
//!
//! A file has agents, which send what is written, and an inbox of what is read. When the device goes the agents go; reading and writing
//! fail with `EIO` from then on.
//!
//! C headers: `include/linux/fs.h`, `include/uapi/rdma/ib_user_mad.h`.
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `Files::list` | the open files of a node; held while one is opened | process context | `Port::device`, the allocator |

use kernel::{
    ffi::c_long,
    fs,
    prelude::*,
    sync::{aref::ARef, new_mutex, poll::PollTable, Arc, Mutex},
    uaccess::{UserPtr, UserSlice},
};
use kernel_ext::{
    bindings::O_NONBLOCK,
    char_node::{CharNode, NodeAttribute, NodeFiles, NodeOps},
    file_ops::FileOps,
};
use rdma::{
    client::{attachment::Attached, registration::Counted},
    MaySleep,
};

use crate::{
    agents::{self, Agents},
    port::Port,
    post, sysfs,
};

/// An open file.
#[pin_data]
pub(crate) struct File {
    port: Arc<Port>,
    /// The open files of its node.
    files: Arc<Files>,
    #[pin]
    agents: Agents,
}

impl File {
    /// Ends reading and writing, and unregisters the agents. Later calls do nothing.
    fn end(&self, sleep: &MaySleep) {
        // A program that sees the end can write no more: so this comes first.
        let agents = self.agents.take_all(sleep);
        self.agents.shared().inbox.close();
        drop(agents);
    }
}

/// The open files of a node.
#[pin_data]
pub(crate) struct Files {
    port: Arc<Port>,
    #[pin]
    list: Mutex<KVVec<Arc<File>>>,
}

impl Files {
    /// The files of a port's node, of which there are none.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(device: &Attached, number: u32) -> Result<Arc<Self>> {
        let port = Arc::pin_init(Port::new(device, number), GFP_KERNEL)?;
        let init = pin_init!(Self {
            port,
            list <- new_mutex!(KVVec::new(), "Files::list"),
        });
        Arc::pin_init(init, GFP_KERNEL)
    }

    /// Opens a file.
    fn open(self: &Arc<Self>, sleep: &MaySleep) -> Result<ARef<Counted<Arc<File>>>> {
        let mut list = self.list.lock();
        drop(self.port.enter(sleep)?);
        let init = try_pin_init!(File {
            port: self.port.clone(),
            files: self.clone(),
            agents <- Agents::new(),
        }? Error);
        let file = Arc::pin_init(init, GFP_KERNEL)?;
        let opened = Counted::new(file.clone())?;
        list.push(file, GFP_KERNEL)?;
        Ok(opened)
    }

    fn forget(&self, file: &Arc<File>) {
        self.list.lock().retain(|other| !Arc::ptr_eq(other, file));
    }

    /// The device goes: no file can be opened any more, and those that are open end.
    pub(crate) fn end(&self, sleep: &MaySleep) {
        self.port.leave();
        let files = core::mem::take(&mut *self.list.lock());
        for file in files.iter() {
            file.end(sleep);
        }
    }
}

/// The data of a node.
pub(crate) struct Mads(pub(crate) Arc<Files>);

impl AsRef<Port> for Mads {
    fn as_ref(&self) -> &Port {
        &self.0.port
    }
}

/// The operations of `umadN`.
pub(crate) struct UmadFile;

#[vtable]
impl FileOps for UmadFile {
    type Private = Counted<Arc<File>>;
    type Node = CharNode<Mads>;

    fn open(node: &Self::Node, _file: &fs::File, sleep: &MaySleep) -> Result<ARef<Self::Private>> {
        node.data().0.open(sleep)
    }

    fn release(file: ARef<Self::Private>, sleep: &MaySleep) {
        file.files.forget(&file);
        file.end(sleep);
    }

    fn read(
        this: &Self::Private,
        file: &fs::File,
        to: UserPtr,
        len: usize,
        sleep: &MaySleep,
    ) -> Result<usize> {
        let inbox = &this.agents.shared().inbox;
        let layout = inbox.layout();
        if len < layout.size() {
            return Err(EINVAL);
        }
        let packet = inbox.take(file.flags() & O_NONBLOCK == 0, sleep)?;
        let copied = packet.copy(&mut UserSlice::new(to, len).writer(), layout);
        match copied {
            Err(_) => inbox.put_back(packet),
            Ok(_) => packet.trace(&this.port),
        }
        copied
    }

    fn write(
        this: &Self::Private,
        _file: &fs::File,
        from: UserPtr,
        len: usize,
        sleep: &MaySleep,
    ) -> Result<usize> {
        post::write(
            &this.port,
            &this.agents,
            UserSlice::new(from, len).reader(),
            sleep,
        )?;
        Ok(len)
    }

    fn poll(this: &Self::Private, file: &fs::File, table: PollTable<'_>) -> u32 {
        this.agents.shared().inbox.poll(file, table)
    }

    fn ioctl(
        this: &Self::Private,
        _file: &fs::File,
        command: u32,
        argument: usize,
        sleep: &MaySleep,
    ) -> Result<c_long> {
        let call = agents::Call {
            port: &this.port,
            agents: &this.agents,
            argument: UserPtr::from_addr(argument),
            sleep,
        };
        agents::ioctl(command, &call)?;
        Ok(0)
    }
}

/// The table of operations.
pub(crate) static OPERATIONS: NodeOps<UmadFile> = NodeOps::new(&crate::THIS_MODULE);

static IB_DEV: NodeAttribute<Mads> = NodeAttribute::new::<sysfs::IbDev>();
static PORT: NodeAttribute<Mads> = NodeAttribute::new::<sysfs::PortNumber>();

/// The files of a node in sysfs.
pub(crate) static FILES: NodeFiles<Mads> = NodeFiles::new(&LIST);
static LIST: [Option<&'static NodeAttribute<Mads>>; 3] = [Some(&IB_DEV), Some(&PORT), None];
