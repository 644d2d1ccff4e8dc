// SPDX-License-Identifier: GPL-2.0

//! The verbs: protection domains, address handles, queues, queue pairs, memory regions, multicast.
//!
//! Each verb checks what the header asks for, lets the driver do it, and keeps the account: which object uses which
//! (`usecnt`, an object in use is not destroyed) and what resource tracking knows ([`track`]).
//!
//! Verbs run in process context and may sleep, but for those of address handles, mapping and polling. The core takes no lock
//! around a method of a driver, but for an XRC domain's semaphore while a handle of a target queue pair is opened or closed.
//!
//! C header: `include/rdma/ib_verbs.h`.
//!
//! # Locks
//!
//! | lock | protects | context | taken inside |
//! |---|---|---|---|
//! | `ib_xrcd::tgt_qps_rwsem` | that a target queue pair that is found is there | process | `qp_open_list_lock` |
//! | `ib_device::qp_open_list_lock` | the handles of shared queue pairs | any, interrupts off | what event handlers take |
//! | `ib_device::cq_pools_lock` | the shared completion queues, and who has claimed what of them | process | nothing |
//! | `ib_qp::mr_lock` | the pools of regions of a queue pair | any, interrupts off | nothing |

pub(crate) mod ah;
pub(crate) mod cq;
mod mcast;
pub(crate) mod mr;
mod pd;
pub(crate) mod qp;
mod srq;
pub(crate) mod track;
mod vf;
mod wq;
mod xrcd;
