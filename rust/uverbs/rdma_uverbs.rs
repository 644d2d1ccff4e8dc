// SPDX-License-Identifier: GPL-2.0

//! User-space objects, commands and device files: the library of `ib_uverbs` and `ib_uverbs_support`.
//!
//! | file | contents |
//! |---|---|
//! | [`class`] | object classes: ID, memory, driver's object |
//! | [`new`] | objects that a command creates: [`NewObject`](new::NewObject) |
//! | [`lookup`] | objects that a command looks up: [`ReadLocked`](lookup::ReadLocked), [`WriteLocked`](lookup::WriteLocked), [`Destroyed`](lookup::Destroyed) |
//! | [`life`] | the states of an object, for ib_uverbs_support |
//! | [`handles`], [`fd`], [`list`] | the handles, file descriptors and list of a file's objects |
//! | [`destroy`] | the `destroy_object` functions of classes without memory of their own |
//! | [`cq`], [`qp`], [`srq`], [`wq`], [`xrcd`], [`flow`], [`dmabuf`] | classes with memory of their own: creating and destroying their objects |
//! | [`mr`], [`dm`], [`counters`] | creating objects of other classes |
//! | [`event`], [`uevent`] | completion channels and async event files; objects that report to them |
//! | [`init_once`] | values in the memory of an object |
//! | [`node`] | the character device |
//! | [`mod@file`] | open device files |
//! | [`context`], [`close`] | creating and destroying the context of a file |
//! | [`umap`] | mappings of device memory |
//! | [`table`], [`definition`] | definitions of objects, methods and attributes: as constants, and reading them |
//! | [`api`] | the uverbs API of a device, built from definitions |
//! | [`bundle`], [`attrs`] | ioctl commands, and their attributes |
//! | [`mod@write`], [`request`] | write commands, and their requests and responses |
//! | [`verbs`], [`query`] | functions of ib_core and ib_verbs that commands call |
//! | [`post`] | chains of work requests |
//! | [`records`] | local identifiers of address vectors and path records |
//! | [`inode`] | references to inodes |
//! | [`ucap`] | character devices that stand for a capability |
//! | `kunit` | a device file for tests |
//!
//! Types enforce the legal sequences of calls: an object is begun, then completed or aborted; an object that was looked up is put
//! back when it goes out of scope.
//!
//! The crate uses symbols of ib_uverbs_support, so that only this module and ib_uverbs may link it.
//!
//! C headers: `include/rdma/uverbs_types.h`, `include/rdma/uverbs_std_types.h`.

pub mod api;
pub mod attrs;
pub mod bundle;
pub mod class;
pub mod close;
#[cfg(has_comp_cntr)]
pub mod comp_cntr;
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
