// SPDX-License-Identifier: GPL-2.0

//! Work requests, parsed once: those of user space, `<rdma/rdma_user_rxe.h>`, and those of kernel consumers.
//!
//! User space writes its work requests as `struct rxe_send_wqe` and `struct rxe_recv_wqe` to rings that it shares with
//! the kernel, and may change them at any time. So each is copied to kernel memory once, and validated there; all code
//! here works on the copies. Requests of a kernel consumer are converted to the same types.
//!
//! Redundant fields of a user request are ignored. Lengths are summed over the scatter/gather list, because
//! `dma.length` is wrong in libraries before rdma-core 64; inline data has no list, so its length is the field's. The
//! fields in which the C driver keeps its progress are ignored.

mod cmd_post;
mod inbox;
mod kernel_wr;
mod list;
mod operation;
mod slots;
mod types;
mod user;

pub(crate) use cmd_post::{post_recv, post_send};
pub(crate) use inbox::Inbox;
pub(crate) use kernel_wr::{from_kernel, recv_from_kernel};
pub(crate) use list::{list_length, parts};
pub(crate) use slots::Slots;
pub(crate) use types::{Data, Limits, Local, Objects, RecvWqe, SendWqe};
pub(crate) use user::{parse_av, take_recv, UserSend};
