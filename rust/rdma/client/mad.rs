// SPDX-License-Identifier: GPL-2.0

//! Management datagrams (MADs) for clients: agents, messages that are sent, and messages that are received.
//!
//! | type | is | ends |
//! |---|---|---|
//! | [`Agent`] | a registration with a port's layer of MADs: `struct ib_mad_agent` | dropping it unregisters it, and waits |
//! | [`AgentAh`] | the address of a message | with the message |
//! | [`Message`] | a message to be sent: `struct ib_mad_send_buf` | by [`post`](Message::post), or dropped |
//! | [`Sent`] | a message that was posted, and has ended | dropped |
//! | [`Received`] | a message that was received, of one or more segments: `struct ib_mad_recv_wc` | dropped |
//!
//! A client implements [`Handlers`]. The layer calls them in process context, never from the call chain of a function of the
//! client other than the drop of its agent, and not after that has returned. A posted message owns a value of the client, its
//! [`Token`](Handlers::Token), which comes back once, when the message has ended: sent, answered, timed out or cancelled.
//!
//! The drop of an agent cancels its messages, and waits until the client has no [`Message`] of it: one that a handler of the agent,
//! or the thread that drops the agent, has stored elsewhere, lets it wait for ever.
//!
//! The types use the exported C functions alone, so they work on any `ib_core`.
//!
//! C header: `include/rdma/ib_mad.h`.

use super::device::DropsAnywhere;

mod agent;
mod class;
mod message;
mod received;
pub mod trace;
mod view;

pub use agent::{Agent, Handlers, Registration, Requests, SpecialQp};
pub use class::{data_offset, has_rmpp, is_response, HEADER, RMPP_HEADER};
pub use message::{Layout, Message, Pending, Sent, Token};
pub use received::{Completion, Origin, Received, Source};
pub use view::{Address, AgentAh, AgentRef};

// They wait, or sleep, when they are dropped.
impl<H: Handlers> !DropsAnywhere for Agent<H> {}
impl<T> !DropsAnywhere for AgentAh<'_, T> {}
impl<T: Token> !DropsAnywhere for Message<T> {}
