// SPDX-License-Identifier: GPL-2.0

//! Netlink messages of the kernel: replies, notifications and requests to user space.
//!
//! C header: `include/net/netlink.h`.

use super::{
    request::Request,
    writer::{Header, Writer},
};
use crate::{bindings, context::MaySleep, entry::FromC, gfp::Gfp};
use core::ptr::NonNull;
use kernel::prelude::*;

/// A complete message of the kernel, which is not sent yet.
///
/// # Invariants
///
/// `self` owns the packet.
pub struct Message(NonNull<bindings::sk_buff>);

impl Message {
    fn write(
        to: Header,
        flags: Gfp<'_>,
        fill: impl FnOnce(&mut Writer<'_>) -> Result,
    ) -> Result<Self> {
        let reply = Self::empty(flags)?;
        // SAFETY: The packet was just allocated for a message.
        let mut writer = unsafe { Writer::from_c(reply.0.as_ptr()) };
        writer.message(to, fill)?;
        Ok(reply)
    }

    fn empty(flags: Gfp<'_>) -> Result<Self> {
        // SAFETY: The function allocates a packet; by their type the flags fit the context.
        let skb = unsafe { bindings::nlmsg_new_default(flags.as_raw()) };
        // INVARIANT: The packet was just allocated.
        NonNull::new(skb).map(Self).ok_or(ENOMEM)
    }

    /// Makes the reply to a request, with the message type `kind`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EMSGSIZE`, and errors of `fill`.
    pub fn to(
        request: &Request<'_>,
        kind: u32,
        sleep: &MaySleep,
        fill: impl FnOnce(&mut Writer<'_>) -> Result,
    ) -> Result<Self> {
        let to = Header {
            portid: request.portid(),
            seq: request.seq(),
            kind,
            flags: 0,
        };
        Self::write(to, Gfp::kernel(sleep), fill)
    }

    /// Makes a notification.
    ///
    /// # Errors
    ///
    /// As for [`Self::to`].
    pub fn notification(
        kind: u32,
        sleep: &MaySleep,
        fill: impl FnOnce(&mut Writer<'_>) -> Result,
    ) -> Result<Self> {
        let to = Header {
            kind,
            ..Header::default()
        };
        Self::write(to, Gfp::kernel(sleep), fill)
    }

    /// Makes a request to user space; `seq` identifies its response.
    ///
    /// # Errors
    ///
    /// As for [`Self::to`].
    pub fn request(
        kind: u32,
        seq: u32,
        flags: Gfp<'_>,
        fill: impl FnOnce(&mut Writer<'_>) -> Result,
    ) -> Result<Self> {
        let to = Header {
            portid: 0,
            seq,
            kind,
            flags: bindings::NLM_F_REQUEST,
        };
        Self::write(to, flags, fill)
    }

    /// Passes the packet to a C function that takes it over.
    pub fn into_raw(self) -> *mut bindings::sk_buff {
        let raw = self.0.as_ptr();
        core::mem::forget(self);
        raw
    }
}

/// A packet with several messages, which is not complete yet.
pub struct Series(Message);

impl Series {
    /// A packet without messages.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(flags: Gfp<'_>) -> Result<Self> {
        Message::empty(flags).map(Self)
    }

    /// Adds a message.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if the packet is full, and errors of `fill`. On an error no message is added.
    pub fn add(&mut self, kind: u32, fill: impl FnOnce(&mut Writer<'_>) -> Result) -> Result {
        let to = Header {
            kind,
            flags: bindings::NLM_F_MULTI,
            ..Header::default()
        };
        // SAFETY: By the type invariants the packet is our own, and borrowed mutably.
        unsafe { Writer::from_c(self.0 .0.as_ptr()) }.message(to, fill)
    }

    /// Adds the message that ends the series: `NLMSG_DONE`.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if the packet is full.
    pub fn end(mut self) -> Result<Message> {
        self.add(bindings::NLMSG_DONE, |_| Ok(()))?;
        Ok(self.0)
    }
}

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for Message {
    type Raw = *mut bindings::sk_buff;

    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the packet is valid.
        // INVARIANT: By the header C gives up the packet.
        Self(unsafe { NonNull::new_unchecked(raw) })
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        // SAFETY: By the type invariants `self` owns the packet.
        unsafe { bindings::nlmsg_free(self.0.as_ptr()) };
    }
}
