// SPDX-License-Identifier: GPL-2.0

//! Adding headers and attributes to a netlink message that is under construction.
//!
//! C header: `include/net/netlink.h`.

use crate::{bindings, entry::FromC, error::EMSGSIZE};
use core::{marker::PhantomData, ptr::NonNull};
use kernel::{
    error::to_result,
    ffi::{c_int, c_void},
    prelude::*,
};

/// Whether a nested attribute has the flag `NLA_F_NESTED`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Nested {
    /// With the flag.
    Flagged,
    /// Without the flag, as in older messages.
    Plain,
}

/// Adds attributes to a message.
pub struct Writer<'a> {
    skb: *mut bindings::sk_buff,
    _message: PhantomData<&'a mut ()>,
}

// SAFETY: `Raw` is the pointer type in the header, of a message under construction.
unsafe impl FromC for Writer<'_> {
    type Raw = *mut bindings::sk_buff;

    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self {
            skb: raw,
            _message: PhantomData,
        }
    }
}

impl Writer<'_> {
    /// The packet, for C functions that add attributes.
    pub fn as_raw(&mut self) -> *mut bindings::sk_buff {
        self.skb
    }

    /// Adds a header that precedes the attributes.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if the message is full.
    pub fn header(&mut self, bytes: &[u8]) -> Result {
        let length = u32::try_from(bytes.len()).map_err(|_| EMSGSIZE)?;
        // SAFETY: The message is under construction, and the tailroom was checked.
        unsafe {
            let place: *mut u8 = bindings::nlmsg_append(self.skb, length).cast();
            let place = NonNull::new(place).ok_or(EMSGSIZE)?;
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), place.as_ptr(), bytes.len());
        }
        Ok(())
    }

    /// Adds an attribute.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if the message is full, as for all following functions.
    pub fn bytes(&mut self, attr: u32, bytes: &[u8]) -> Result {
        let length = c_int::try_from(bytes.len()).map_err(|_| EMSGSIZE)?;
        let data: *const c_void = bytes.as_ptr().cast();
        // SAFETY: The message is under construction; `data` is valid for reads of `length` bytes.
        to_result(unsafe { bindings::nla_put(self.skb, attr as c_int, length, data) })
    }

    /// Adds an 8-bit number.
    pub fn u8(&mut self, attr: u32, value: u8) -> Result {
        self.bytes(attr, &[value])
    }

    /// Adds a 16-bit number.
    pub fn u16(&mut self, attr: u32, value: u16) -> Result {
        self.bytes(attr, &value.to_ne_bytes())
    }

    /// Adds a 32-bit number.
    pub fn u32(&mut self, attr: u32, value: u32) -> Result {
        self.bytes(attr, &value.to_ne_bytes())
    }

    /// Adds a 64-bit number, aligned by a padding attribute `pad` if necessary.
    pub fn u64(&mut self, attr: u32, value: u64, pad: u32) -> Result {
        let data: *const c_void = (&raw const value).cast();
        // SAFETY: The message is under construction; the value has 8 bytes.
        to_result(unsafe {
            bindings::nla_put_64bit(self.skb, attr as c_int, 8, data, pad as c_int)
        })
    }

    /// Adds a string with its NUL.
    pub fn text(&mut self, attr: u32, text: &CStr) -> Result {
        self.bytes(attr, text.to_bytes_with_nul())
    }

    /// Adds an attribute with the nested ones that `fill` adds. If that fails, nothing is added.
    pub fn nest<R>(
        &mut self,
        attr: u32,
        flag: Nested,
        fill: impl FnOnce(&mut Self) -> Result<R>,
    ) -> Result<R> {
        let flag = flag == Nested::Flagged;
        // SAFETY: The message is under construction.
        let start = unsafe { bindings::nla_nest_start_flagged(self.skb, attr as c_int, flag) };
        if start.is_null() {
            return Err(EMSGSIZE);
        }
        let filled = fill(self);
        match filled {
            // SAFETY: The attribute was begun above.
            Ok(_) => unsafe { bindings::nla_nest_end(self.skb, start) },
            // SAFETY: The attribute was begun above.
            Err(_) => unsafe { bindings::nla_nest_cancel(self.skb, start) },
        }
        filled
    }

    /// Adds a message with a header and the attributes that `fill` adds. If that fails, nothing is added.
    pub(super) fn message<R>(
        &mut self,
        to: Header,
        fill: impl FnOnce(&mut Self) -> Result<R>,
    ) -> Result<R> {
        // SAFETY: The message is under construction.
        let header = unsafe {
            bindings::nlmsg_put(
                self.skb,
                to.portid,
                to.seq,
                to.kind as c_int,
                0,
                to.flags as c_int,
            )
        };
        if header.is_null() {
            return Err(EMSGSIZE);
        }
        let filled = fill(self);
        match filled {
            // SAFETY: The message was begun above.
            Ok(_) => unsafe { bindings::nlmsg_end(self.skb, header) },
            // SAFETY: The message was begun above.
            Err(_) => unsafe { bindings::nlmsg_cancel(self.skb, header) },
        }
        filled
    }
}

/// The header of a message.
#[derive(Clone, Copy, Default)]
pub(super) struct Header {
    pub(super) portid: u32,
    pub(super) seq: u32,
    pub(super) kind: u32,
    pub(super) flags: u32,
}
