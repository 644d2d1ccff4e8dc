// SPDX-License-Identifier: GPL-2.0

//! Objects and commands of user space, for ib_uverbs and ib_uverbs_support.
//!
//! | file | what |
//! |---|---|
//! | [`class`] | the kinds of objects: which number, which memory, which object of the driver |
//! | [`new`] | objects that are being made: [`NewObject`](new::NewObject) |
//! | [`held`] | objects that were looked up: [`Held`](lookup::ReadLocked), [`Removed`](lookup::Removed) |
//! | [`mod@file`] | open device files: [`FileRef`](file::FileRef) |
//! | [`table`] | tables of objects, methods and attributes, as constants |
//! | [`definition`] | reading of such tables, ours and those of C drivers |
//! | [`event`] | files of events, and the objects that report them |
//! | [`api`] | what a device offers user space |
//! | [`attrs`] | the attributes of a command, as its handler reads and fills them |
//! | [`bundle`] | a command of ioctl: its structures, and the objects that it has |
//! | [`life`] | how ib_uverbs_support makes, finds and destroys objects |
//! | [`context`] | making the context of an open device file |
//! | [`inode`] | references to inodes |
//! | `kunit` | a device file for tests |
//! | [`post`] | chains of requests that user space posts through the kernel |
//! | [`request`] | requests and responses of `write()`: typed commands |
//! | [`verbs`] | the verbs of ib_core for user space |
//! | [`mod@write`] | a command of `write()`: where its request and its response are |
//! | [`close`] | the end of a file's context |
//! | [`node`] | the character device |
//! | [`umap`] | mappings of device memory |
//! | [`handles`], [`fd`] | their numbers; their file descriptors |
//! | [`list`] | the objects of a file |
//! | [`flow`] | what flow steering rules use |
//! | [`ucap`] | capabilities as nodes in `/dev` |
//! | [`records`] | local identifiers in address vectors and path records |
//! | [`uevent`] | what ib_uverbs keeps of an object beside the handle: events, the XRC domain, multicast groups |
//! | [`cq`], [`qp`], [`srq`], [`wq`], [`mr`], [`dm`], [`counters`] | how the driver's objects are made, for both doors |
//! | [`dmabuf`] | memory of devices as DMA buffers |
//! | [`destroy`] | how the driver's objects are destroyed |
//!
//! The legal sequences of calls are types: an object is begun, and then it is complete or gone; what was looked up
//! is put back when it goes out of scope.
//!
//! It links to the exports of ib_uverbs_support: only that and ib_uverbs may have it in.
//!
//! C headers: `include/rdma/uverbs_types.h`, `include/rdma/uverbs_std_types.h`.

pub mod api;
pub mod attrs;
pub mod bundle;
pub mod class;
pub mod close;
pub mod context;
pub mod counters;
pub mod cq;
pub mod definition;
pub mod destroy;
pub mod dm;
pub mod dmabuf;
pub mod event;
pub mod fd;
pub mod file;
pub mod flow;
pub mod handles;
pub mod init_once;
pub mod inode;
#[cfg(CONFIG_KUNIT = "y")]
pub mod kunit;
pub mod life;
pub mod list;
pub mod lookup;
pub mod mr;
pub mod new;
pub mod node;
pub mod post;
pub mod qp;
pub mod query;
pub mod records;
pub mod request;
pub mod srq;
pub mod table;
pub mod ucap;
pub mod uevent;
pub mod umap;
pub mod verbs;
pub mod wq;
pub mod write;
pub mod xrcd;

/// Prefix of this crate's own messages.
const __LOG_PREFIX: &[u8] = b"rdma_uverbs\0";
