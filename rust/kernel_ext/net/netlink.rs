// SPDX-License-Identifier: GPL-2.0

//! Netlink: messages with attributes between user space and the kernel.
//!
//! | type | meaning |
//! |---|---|
//! | [`KernelSocket`] | the kernel's socket in a network namespace |
//! | [`Request`] | a message from user space; [`Attrs`]: its attributes, validated by a table of [`Policy`] |
//! | [`Writer`] | adds attributes; [`Message`]: a message of the kernel; [`Dump`]: a packet of a dump |
//!
//! C headers: `include/net/netlink.h`, `include/linux/netlink.h`.

use super::ns::NetNamespace;
use crate::{bindings, context::MaySleep, entry::FromC, error::EMSGSIZE, gfp::Gfp};
use core::{marker::PhantomData, ptr::NonNull};
use kernel::{
    error::to_result,
    ffi::{c_int, c_void},
    prelude::*,
};

/// The kernel's socket of a protocol in a network namespace. Dropping it closes it, and may sleep.
///
/// # Invariants
///
/// The socket is open, and `self` owns it.
pub struct KernelSocket(NonNull<bindings::sock>);

// SAFETY: Sockets may be used from any thread.
unsafe impl Send for KernelSocket {}
// SAFETY: Sockets may be used from any thread.
unsafe impl Sync for KernelSocket {}

/// The handler of a [`KernelSocket`]'s messages from user space.
pub trait Receiver {
    /// Whether messages of type `kind` that are not requests (`NLM_F_REQUEST`) are handled, too.
    fn wants(kind: u32) -> bool;

    /// Handles a message, in the sender's context.
    ///
    /// # Errors
    ///
    /// The sender gets them as an acknowledgement, except for `EINTR`.
    fn handle(request: &Request<'_>, sleep: &MaySleep) -> Result;
}

/// Handles a packet.
///
/// # Safety
///
/// The kernel calls it with a packet from user space, for a socket of [`KernelSocket::open`].
unsafe extern "C" fn input<R: Receiver>(skb: *mut bindings::sk_buff) {
    // SAFETY: The kernel calls this in the process context of the sender, without spinlocks.
    let sleep = &unsafe { MaySleep::assume() };
    // SAFETY: By the safety requirements.
    unsafe { receive(skb, R::wants, |request| R::handle(request, sleep)) };
}

impl KernelSocket {
    /// Opens a socket whose messages `R` handles. Any user may send to it. Sending blocks for at most `send_timeout`
    /// jiffies.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also if the socket exists already.
    ///
    /// # Safety
    ///
    /// The socket is dropped before the namespace is taken down, and the module of `R` is loaded until then.
    pub unsafe fn open<R: Receiver>(
        net: &NetNamespace,
        protocol: u32,
        send_timeout: usize,
        _sleep: &MaySleep,
    ) -> Result<Self> {
        // SAFETY: By the safety requirements.
        let sock = unsafe {
            bindings::netlink_kernel_open(
                net.as_raw(),
                protocol as c_int,
                send_timeout,
                Some(input::<R>),
            )
        };
        // INVARIANT: The socket was just opened.
        NonNull::new(sock).map(Self).ok_or(ENOMEM)
    }

    /// Whether a group has listeners. Any context.
    pub fn has_listeners(&self, group: u32) -> bool {
        // SAFETY: The socket is open.
        unsafe { bindings::netlink_has_listeners(self.0.as_ptr(), group) != 0 }
    }

    /// Sends a message to a port; with `wait`, waits for room in its socket.
    ///
    /// # Errors
    ///
    /// `ECONNREFUSED` where the port does not exist, `EAGAIN` where its socket is full.
    pub fn unicast(&self, message: Message, portid: u32, wait: Option<&MaySleep>) -> Result {
        let (skb, nonblock) = (message.into_raw(), wait.is_none().into());
        // SAFETY: The socket is open; the function takes over the packet, and without a token it does not wait.
        let sent = unsafe { bindings::netlink_unicast(self.0.as_ptr(), skb, portid, nonblock) };
        to_result(sent.min(0))
    }

    /// Sends a message to all listeners of a group.
    ///
    /// # Errors
    ///
    /// `ESRCH` without listeners, `ENOBUFS` where a listener's socket is full.
    pub fn multicast(&self, message: Message, group: u32, flags: Gfp<'_>) -> Result {
        let (skb, flags) = (message.into_raw(), flags.as_raw());
        // SAFETY: The socket is open; the function takes over the packet; by their type the flags fit the context.
        to_result(unsafe { bindings::nlmsg_multicast(self.0.as_ptr(), skb, 0, group, flags) })
    }
}

impl Drop for KernelSocket {
    fn drop(&mut self) {
        // SAFETY: By the type invariants `self` owns the open socket.
        unsafe { bindings::netlink_kernel_release(self.0.as_ptr()) };
    }
}

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
    table: KBox<[*mut bindings::nlattr; N]>,
    _message: PhantomData<&'a ()>,
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
pub struct NestedAttrs<'a>(&'a [u8]);

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

/// A message from user space.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    skb: *mut bindings::sk_buff,
    header: *mut bindings::nlmsghdr,
    extack: *mut bindings::netlink_ext_ack,
    _message: PhantomData<&'a ()>,
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

/// The source of a dump's packets.
pub trait Dumper {
    /// Fills the next packet, in the context of its reader. The dump is over when it adds no message.
    ///
    /// # Errors
    ///
    /// The dump ends; the reader gets the error.
    fn fill(dump: &mut Dump<'_>, sleep: &MaySleep) -> Result;
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

/// Handles the messages of a packet: all requests, and others for which `wanted` returns true. A message is
/// acknowledged if the sender asks for it or if it fails; not if `handle` fails with `EINTR`.
///
/// # Safety
///
/// The kernel calls [`input`] with this packet.
unsafe fn receive(
    skb: *mut bindings::sk_buff,
    wanted: impl Fn(u32) -> bool,
    mut handle: impl FnMut(&Request<'_>) -> Result,
) {
    let header_size = core::mem::size_of::<bindings::nlmsghdr>();
    loop {
        // SAFETY: By the safety requirements this call has exclusive access to the packet; its data begins with a
        // header if it is long enough.
        let (left, header) = unsafe {
            (
                (*skb).len as usize,
                (*skb).data.cast::<bindings::nlmsghdr>(),
            )
        };
        if left < header_size {
            return;
        }
        // SAFETY: By the safety requirements this call has exclusive access to the packet; its data begins with a
        // header if it is long enough.
        let length = unsafe { (*header).nlmsg_len } as usize;
        if length < header_size || left < length {
            return;
        }
        let mut extack: bindings::netlink_ext_ack = pin_init::zeroed();
        let request = Request {
            skb,
            header,
            extack: &mut extack,
            _message: PhantomData,
        };
        let is_request = request.flags() & bindings::NLM_F_REQUEST != 0;
        let is_control = request.kind() < bindings::NLMSG_MIN_TYPE;
        let result = if !is_control && (is_request || wanted(request.kind())) {
            handle(&request)
        } else {
            Ok(())
        };
        let acknowledge = request.flags() & bindings::NLM_F_ACK != 0;
        match result {
            Err(EINTR) => {}
            Ok(()) if !acknowledge => {}
            result => {
                let error = result.err().map_or(0, Error::to_errno);
                // SAFETY: The packet and the message are valid.
                unsafe { bindings::netlink_ack(skb, header, error, &extack) };
            }
        }
        // SAFETY: The packet has at least `left` bytes.
        unsafe { bindings::skb_pull(skb, length.next_multiple_of(4).min(left) as u32) };
    }
}

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
    fn message<R>(&mut self, to: Header, fill: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
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
struct Header {
    portid: u32,
    seq: u32,
    kind: u32,
    flags: u32,
}

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
        let mut writer = Writer {
            skb,
            _message: PhantomData,
        };
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
    fn into_raw(self) -> *mut bindings::sk_buff {
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
        let mut writer = Writer {
            skb: self.skb,
            _message: PhantomData,
        };
        writer.message(to, fill)
    }
}
