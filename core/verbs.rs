// SPDX-License-Identifier: GPL-2.0

//! The verbs: protection domains, address handles, queue pairs, shared receive queues, memory regions, multicast.
//!
//! Each verb checks what the header asks for, lets the driver do it, and keeps the account: which object uses which
//! (`usecnt`, an object in use is not destroyed) and what resource tracking knows ([`track`](crate::restrack::track)).
//!
//! Verbs run in process context and may sleep, but for those of address handles, mapping and polling. The core takes no lock
//! around a method of a driver, but for an XRC domain's semaphore while a handle of a target queue pair is opened or closed.
//!
//! From the roof down:
//!
//! | file | what |
//! |---|---|
//! | [`drain`] | waiting until a queue pair has no work left |
//! | [`path`] | from paths through the fabric, and multicast groups, to address vectors |
//! | [`qp`], [`srq`], [`wq`], [`xrcd`], [`mcast`], [`vf`] | queue pairs, and what they are attached to; virtual functions |
//! | [`rw`], [`mr_pool`] | RDMA READ and WRITE for clients, and the regions for it |
//! | [`mr`], [`pd`], [`ah`] | memory regions, protection domains, address handles |
//! | [`lag`] | address handles over a bond |
//! | [`qp_state`], [`ah_attr`], [`rate`] | the state machine of queue pairs; address vectors; rates, speeds, names of numbers |
//! | [`ud_header`], [`pack`] | the headers of UD packets; packed fields |
//!
//! C header: `include/rdma/ib_verbs.h`.
//!
//! # Locks
//!
//! | lock | protects | context | taken inside |
//! |---|---|---|---|
//! | `ib_xrcd::tgt_qps_rwsem` | that a target queue pair that is found is there | process | `qp_open_list_lock` |
//! | `ib_device::qp_open_list_lock` | the handles of shared queue pairs | any, interrupts off | what event handlers take |
//! | `ib_qp::mr_lock` | the pools of regions of a queue pair | any, interrupts off | nothing |

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
