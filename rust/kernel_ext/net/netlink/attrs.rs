// SPDX-License-Identifier: GPL-2.0

//! Attributes of netlink messages: their policies, and reading them.
//!
//! C header: `include/net/netlink.h`.

use crate::bindings;
use core::marker::PhantomData;
use kernel::prelude::*;

/// Policy of an attribute: `struct nla_policy`.
#[repr(transparent)]
pub struct Policy(bindings::nla_policy);

// SAFETY: A policy is constant.
unsafe impl Sync for Policy {}

impl Policy {
    /// No policy. Strict validation rejects the attribute.
    pub const NONE: Self = Self::new(bindings::NLA_UNSPEC, 0);

    /// A type, `NLA_*`, and the length, whose meaning depends on the type.
    pub const fn new(kind: u32, len: u16) -> Self {
        // SAFETY: Zeros are a valid value.
        let mut policy: bindings::nla_policy = unsafe { core::mem::zeroed() };
        policy.type_ = kind as u8;
        policy.len = len;
        Self(policy)
    }
}

/// The attributes of a message by type, the last one of each; `N` is the first unknown type.
pub struct Attrs<'a, const N: usize> {
    pub(super) table: KBox<[*mut bindings::nlattr; N]>,
    pub(super) _message: PhantomData<&'a ()>,
}

impl<'a, const N: usize> Attrs<'a, N> {
    /// The payload of an attribute. `None` if it is missing.
    fn bytes(&self, attr: u32) -> Option<&'a [u8]> {
        let raw = *self.table.get(attr as usize)?;
        let header = core::mem::size_of::<bindings::nlattr>();
        // SAFETY: The kernel has found the attribute in the message, which is valid for `'a`.
        unsafe {
            let length = usize::from(raw.as_ref()?.nla_len).saturating_sub(header);
            let data = raw.cast::<u8>().add(header);
            Some(core::slice::from_raw_parts(data, length))
        }
    }

    /// Whether an attribute is present.
    pub fn has(&self, attr: u32) -> bool {
        self.bytes(attr).is_some()
    }

    /// An 8-bit number.
    pub fn u8(&self, attr: u32) -> Option<u8> {
        self.bytes(attr)?.first().copied()
    }

    /// A 16-bit number.
    pub fn u16(&self, attr: u32) -> Option<u16> {
        self.array(attr).map(u16::from_ne_bytes)
    }

    /// A 32-bit number.
    pub fn u32(&self, attr: u32) -> Option<u32> {
        let bytes = self.bytes(attr)?.first_chunk()?;
        Some(u32::from_ne_bytes(*bytes))
    }

    /// The first `L` bytes. `None` if it is shorter.
    pub fn array<const L: usize>(&self, attr: u32) -> Option<[u8; L]> {
        self.bytes(attr)?.first_chunk().copied()
    }

    /// A 64-bit number.
    pub fn u64(&self, attr: u32) -> Option<u64> {
        self.array(attr).map(u64::from_ne_bytes)
    }

    /// The payloads of the attributes nested in one.
    pub fn each_in(&self, attr: u32) -> Option<NestedAttrs<'a>> {
        self.bytes(attr).map(NestedAttrs)
    }

    /// A string, truncated to `L` bytes including the NUL.
    pub fn text<const L: usize>(&self, attr: u32) -> Option<Text<L>> {
        let bytes = self.bytes(attr)?;
        let mut text = [0; L];
        let bytes = bytes.iter().take_while(|&&byte| byte != 0);
        for (to, from) in text.iter_mut().take(L.saturating_sub(1)).zip(bytes) {
            *to = *from;
        }
        Some(Text(text))
    }
}

/// Iterator over the payloads of nested attributes. It ends before a truncated one.
pub struct NestedAttrs<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for NestedAttrs<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (length, _) = self.0.split_first_chunk()?;
        let length = usize::from(u16::from_ne_bytes(*length));
        let header = core::mem::size_of::<bindings::nlattr>();
        let data = self.0.get(header..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some(data)
    }
}

/// A short NUL-terminated string.
pub struct Text<const L: usize>([u8; L]);

impl<const L: usize> core::ops::Deref for Text<L> {
    type Target = CStr;

    fn deref(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or(c"")
    }
}
