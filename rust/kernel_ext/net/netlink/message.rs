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
        // SAFETY: The function allocates a packet; by their type the flags fit the context.
        let skb = unsafe { bindings::nlmsg_new_default(flags.as_raw()) };
        // INVARIANT: The packet was just allocated.
        let reply = Self(NonNull::new(skb).ok_or(ENOMEM)?);
        // SAFETY: The packet was just allocated for a message.
        let mut writer = unsafe { Writer::from_c(skb) };
        writer.message(to, fill)?;
        Ok(reply)
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

    /// Passes the packet to C.
    pub(super) fn into_raw(self) -> *mut bindings::sk_buff {
        let raw = self.0.as_ptr();
        core::mem::forget(self);
        raw
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
