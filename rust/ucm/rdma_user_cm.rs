// SPDX-License-Identifier: GPL-2.0

//! Identifiers of the RDMA connection manager that belong to programs: `rdma_create_user_id()` of `<rdma/rdma_cm.h>`.
//!
//! The rules of the connection manager are types here:
//!
//! | rule | how |
//! |---|---|
//! | a handler that returns non-zero destroys its identifier | [`Handler::event`] returns nothing; a [`Request`] that is not adopted is refused, and the connection manager destroys its identifier |
//! | nobody destroys an identifier in its handler | [`Id::close`] takes a token for sleeping, and a handler has none; [`Id::close_later`] and dropping an [`Id`] leave it to a work item |
//! | an identifier is not used once it is destroyed | calls are methods of [`Entered`], for which closing waits |
//! | the calls of a program come one at a time | they are methods of the lock's guard, [`Calls`] |
//! | no handler runs while an answer is given, or an identifier moves to another file | [`Quiet`] |
//! | an identifier without a device knows none of its calls | these return `EINVAL` |
//!
//! A module that uses the crate keeps [`closing_queue`]'s result until it is unloaded.
//!
//! C headers: `include/rdma/rdma_cm.h`, `include/uapi/rdma/rdma_user_cm.h`.

mod address;
mod event;
mod id;
mod live;
mod params;
mod query;

pub use address::SocketAddress;
pub use event::{is_safe_access, Event, Response};
pub use id::{closing_queue, Calls, Entered, Handler, Id, Request};
pub use live::Quiet;
pub use params::{ConnParam, Ece, IbService, Setting};
pub use query::{Answer, Route, PATH_RECORD, PATH_SIZE, SERVICE_SIZE};

/// The prefix of log messages.
const __LOG_PREFIX: &[u8] = b"rdma_user_cm\0";
