// SPDX-License-Identifier: GPL-2.0

//! Netlink messages from user space, and the packets of a dump that answers one.
//!
//! C headers: `include/net/netlink.h`, `include/linux/netlink.h`.

use super::{
    attrs::{Attrs, NestedAttrs, Policy},
    writer::{Header, Writer},
};
use crate::{bindings, context::MaySleep, entry::FromC, net::ns::NetNamespace};
use core::marker::PhantomData;
use kernel::{error::to_result, ffi::c_int, prelude::*};

/// A message from user space.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    pub(super) skb: *mut bindings::sk_buff,
    pub(super) header: *mut bindings::nlmsghdr,
    pub(super) extack: *mut bindings::netlink_ext_ack,
    pub(super) _message: PhantomData<&'a ()>,
}

impl<'a> Request<'a> {
    fn header(&self) -> &bindings::nlmsghdr {
        // SAFETY: The message is valid for `'a`.
        unsafe { &*self.header }
    }

    /// The message type.
    pub fn kind(&self) -> u32 {
        self.header().nlmsg_type.into()
    }

    /// The sequence number.
    pub fn seq(&self) -> u32 {
        self.header().nlmsg_seq
    }

    /// `NLM_F_*`.
    pub fn flags(&self) -> u32 {
        self.header().nlmsg_flags.into()
    }

    /// The sender's network namespace.
    pub fn net(&self) -> &'a NetNamespace {
        // SAFETY: The packet has the socket that it was sent to, which has the sender's namespace.
        unsafe { NetNamespace::from_raw(bindings::netlink_skb_net(self.skb)) }
    }

    /// The sender's port ID.
    pub fn portid(&self) -> u32 {
        // SAFETY: The packet is valid.
        unsafe { bindings::netlink_portid(self.skb) }
    }

    /// Whether both the sender and the opener of the socket have CAP_NET_ADMIN in the initial user namespace.
    pub fn may_admin(&self) -> bool {
        // SAFETY: The packet is valid.
        unsafe { bindings::netlink_capable(self.skb, bindings::CAP_NET_ADMIN as c_int) }
    }

    /// As [`Self::may_admin`], in the user namespace of a network namespace.
    pub fn may_admin_net(&self, net: &NetNamespace) -> bool {
        // SAFETY: The packet and the namespace are valid.
        unsafe { bindings::netlink_may_admin_net(self.skb, net.as_raw()) }
    }

    /// Iterator over all attributes: type and payload. It ends before a truncated one.
    pub fn each(&self) -> impl Iterator<Item = (u32, &'a [u8])> {
        let header = core::mem::size_of::<bindings::nlmsghdr>();
        // SAFETY: `receive` has checked that the message, which is valid for `'a`, has this length.
        let bytes: &'a [u8] = unsafe {
            let length = ((*self.header).nlmsg_len as usize).saturating_sub(header);
            core::slice::from_raw_parts(self.header.cast::<u8>().add(header), length)
        };
        let mut rest = NestedAttrs(bytes);
        core::iter::from_fn(move || {
            let kind = rest.0.get(2..)?.first_chunk()?;
            Some((u16::from_ne_bytes(*kind).into(), rest.next()?))
        })
    }

    /// The validated attributes. `strict` rejects unknown ones and wrong lengths.
    ///
    /// # Errors
    ///
    /// Errors of validation, which are reported to user space as extended acks. `ENOMEM`.
    pub fn attrs<const N: usize>(
        &self,
        policy: &'static [Policy; N],
        strict: bool,
    ) -> Result<Attrs<'a, N>> {
        let mut table = KBox::new([core::ptr::null_mut(); N], GFP_KERNEL)?;
        // SAFETY: The table has an entry for each number up to the last one that the policy has, and a policy is a
        // transparent wrapper.
        to_result(unsafe {
            bindings::nlmsg_parse_attrs(
                self.header,
                table.as_mut_ptr(),
                N as c_int - 1,
                policy.as_ptr().cast(),
                strict,
                self.extack,
            )
        })?;
        Ok(Attrs {
            table,
            _message: PhantomData,
        })
    }

    /// The attributes nested in one, strictly validated. `None` if it is missing.
    ///
    /// # Errors
    ///
    /// Errors of validation, which are reported to user space as extended acks. `ENOMEM`.
    pub fn attrs_in<const N: usize>(
        &self,
        attrs: &Attrs<'a, N>,
        attr: u32,
        policy: &'static [Policy; N],
    ) -> Result<Option<Attrs<'a, N>>> {
        let Some(&raw) = attrs.table.get(attr as usize).filter(|raw| !raw.is_null()) else {
            return Ok(None);
        };
        let mut table = KBox::new([core::ptr::null_mut(); N], GFP_KERNEL)?;
        // SAFETY: The kernel has found the attribute in the message. The rest is as for `attrs`.
        to_result(unsafe {
            bindings::nla_parse_nested_attrs(
                raw,
                table.as_mut_ptr(),
                N as c_int - 1,
                policy.as_ptr().cast(),
                self.extack,
            )
        })?;
        Ok(Some(Attrs {
            table,
            _message: PhantomData,
        }))
    }

    /// Sets the message of the extended ack.
    pub fn set_extack_msg(&self, why: &'static CStr) {
        // SAFETY: The extended ack is null, or valid as long as the request.
        if let Some(extack) = unsafe { self.extack.as_mut() } {
            extack._msg = why.as_char_ptr();
        }
    }

    /// Starts a dump: `D` fills packets until it adds no more messages.
    pub fn start_dump_by<D: Dumper>(&self, sleep: &MaySleep) -> Result {
        // SAFETY: `fill_dump` is a function for such dumps, in the module of the request's handler.
        unsafe { self.start_dump(fill_dump::<D>, sleep) }
    }

    /// Starts a dump: `dump` is called until it adds no more messages.
    ///
    /// # Safety
    ///
    /// `dump` is a function for such dumps, and its module is loaded as long as the socket is open.
    pub unsafe fn start_dump(&self, dump: DumpFn, _sleep: &MaySleep) -> Result {
        // SAFETY: The message is valid; the rest is by the safety requirements.
        to_result(unsafe { bindings::netlink_dump(self.skb, self.header, Some(dump)) })
    }

    /// Calls a C handler.
    ///
    /// # Safety
    ///
    /// `handler` is a handler of such messages, and its module is loaded.
    pub unsafe fn call(&self, handler: DoFn, _sleep: &MaySleep) -> Result {
        // SAFETY: By the safety requirements.
        to_result(unsafe { handler(self.skb, self.header, self.extack) })
    }
}

/// A C handler of messages.
pub type DoFn = unsafe extern "C" fn(
    *mut bindings::sk_buff,
    *mut bindings::nlmsghdr,
    *mut bindings::netlink_ext_ack,
) -> c_int;

/// A C function that fills the packets of a dump.
pub type DumpFn =
    unsafe extern "C" fn(*mut bindings::sk_buff, *mut bindings::netlink_callback) -> c_int;

/// The C function of a [`Dumper`], for a table of commands.
#[derive(Clone, Copy)]
pub struct DumpEntry(DumpFn);

impl DumpEntry {
    /// That of `D`.
    pub const fn of<D: Dumper>() -> Self {
        Self(fill_dump::<D>)
    }

    /// The function, for a structure of C.
    pub const fn as_raw(&self) -> DumpFn {
        self.0
    }
}

/// The source of a dump's packets.
pub trait Dumper {
    /// Fills the next packet, in the context of its reader. The dump is over when it adds no message.
    ///
    /// # Errors
    ///
    /// The dump ends; the reader gets the error.
    fn fill(dump: &mut Dump<'_>, sleep: &MaySleep) -> Result;
}

/// A packet of a dump, with as many messages as fit.
pub struct Dump<'a> {
    skb: *mut bindings::sk_buff,
    callback: *mut bindings::netlink_callback,
    _message: PhantomData<&'a mut ()>,
}

impl<'a> Dump<'a> {
    /// A packet of a dump.
    ///
    /// # Safety
    ///
    /// The arguments are those of the kernel's call of a [`DumpFn`], and valid for `'a`.
    unsafe fn new(skb: *mut bindings::sk_buff, callback: *mut bindings::netlink_callback) -> Self {
        Self {
            skb,
            callback,
            _message: PhantomData,
        }
    }

    /// The request for the dump.
    pub fn request(&self) -> Request<'a> {
        // SAFETY: The kernel keeps the request until the dump is over.
        let (skb, header) = unsafe { ((*self.callback).skb, (*self.callback).nlh) };
        Request {
            skb,
            header: header.cast_mut(),
            extack: core::ptr::null_mut(),
            _message: PhantomData,
        }
    }

    /// The requester's network namespace.
    pub fn net(&self) -> &'a NetNamespace {
        // SAFETY: The packet has the socket that it is sent to.
        unsafe { NetNamespace::from_raw(bindings::netlink_skb_net(self.skb)) }
    }

    /// The position at the end of the last packet, initially 0.
    pub fn position(&self) -> u64 {
        // SAFETY: The callback is valid, and its words belong to the dump.
        unsafe { (*self.callback).__bindgen_anon_1.args[0] as u64 }
    }

    /// Sets the position for the next packet.
    pub fn set_position(&mut self, position: u64) {
        // SAFETY: The callback is valid, and its words belong to the dump.
        unsafe { (*self.callback).__bindgen_anon_1.args[0] = position as kernel::ffi::c_long };
    }

    /// The length of the packet, in bytes. An empty packet ends the dump.
    fn length(&self) -> c_int {
        // SAFETY: The packet is valid.
        unsafe { (*self.skb).len as c_int }
    }

    /// Adds a message with the type `kind`.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if the packet is full, and errors of `fill`. On an error no message is added.
    pub fn message<R>(
        &mut self,
        kind: u32,
        fill: impl FnOnce(&mut Writer<'_>) -> Result<R>,
    ) -> Result<R> {
        let request = self.request();
        let to = Header {
            portid: request.portid(),
            seq: request.header().nlmsg_seq,
            kind,
            flags: bindings::NLM_F_MULTI,
        };
        // SAFETY: The packet is a message under construction, and `self` is borrowed mutably.
        let mut writer = unsafe { Writer::from_c(self.skb) };
        writer.message(to, fill)
    }
}

/// Fills the next packet of a dump: returns its length, or a negative errno.
///
/// # Safety
///
/// The kernel calls it for a dump of [`Request::start_dump_by`].
unsafe extern "C" fn fill_dump<D: Dumper>(
    skb: *mut bindings::sk_buff,
    callback: *mut bindings::netlink_callback,
) -> c_int {
    // SAFETY: By the safety requirements; a dump continues in the process context of its reader, under a mutex.
    let (mut dump, sleep) = unsafe { (Dump::new(skb, callback), MaySleep::assume()) };
    match D::fill(&mut dump, &sleep) {
        Ok(()) => dump.length(),
        Err(error) => error.to_errno(),
    }
}
