// SPDX-License-Identifier: GPL-2.0

//! The verbs: protection domains, address handles, queue pairs, shared receive queues, memory regions, multicast.
//!
//! Each verb validates its arguments, calls the driver, and updates use counts (`usecnt`: an object in use is not
//! destroyed) and resource tracking ([`track`](crate::restrack::track)).
//!
//! Verbs run in process context and may sleep, except for those of address handles, mapping and polling. The core calls
//! driver methods without a lock, except for an XRC domain's semaphore while a handle of a target queue pair is opened
//! or closed.
//!
//! Files by level; a file imports only from those below it:
//!
//! | file | what |
//! |---|---|
//! | [`drain`] | draining queue pairs |
//! | [`path`] | address vectors from path records and multicast members |
//! | [`qp`], [`srq`], [`wq`], [`xrcd`], [`mcast`], [`vf`] | queue pairs, and related objects; virtual functions |
//! | [`rw`], [`mr_pool`] | the RW API for RDMA READ and WRITE, and its memory regions |
//! | [`mr`], [`pd`], [`ah`] | memory regions, protection domains, address handles |
//! | [`lag`] | address handles on a bond |
//! | [`qp_state`], [`ah_attr`], [`rate`] | the state machine of queue pairs; address vectors; rates, speeds, names of constants |
//! | [`ud_header`], [`pack`] | headers of UD packets; packed fields |
//!
//! C header: `include/rdma/ib_verbs.h`.
//!
//! # Locks
//!
//! | lock | protects | context | taken inside |
//! |---|---|---|---|
//! | `ib_xrcd::tgt_qps_rwsem` | the lifetime of target queue pairs that are looked up | process | `qp_open_list_lock` |
//! | `ib_device::qp_open_list_lock` | the handles of shared queue pairs | any, interrupts off | what event handlers take |
//! | `ib_qp::mr_lock` | the memory region pools of a queue pair | any, interrupts off | nothing |

pub(crate) mod ah;
pub(crate) mod ah_attr;
mod drain;
mod lag;
mod mcast;
mod mr;
mod mr_pool;
mod pack;
mod path;
mod pd;
pub(crate) mod qp;
mod qp_state;
pub(crate) mod rate;
mod rw;
mod srq;
mod ud_header;
mod vf;
mod wq;
mod xrcd;
