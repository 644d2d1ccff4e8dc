// SPDX-License-Identifier: GPL-2.0

//! Netlink: messages with attributes between user space and the kernel.
//!
//! | type | is |
//! |---|---|
//! | [`KernelSocket`] | the kernel's end in a namespace |
//! | [`Request`] | a message of user space; [`Attrs`]: what is in it, checked by a table of [`Policy`] |
//! | [`Writer`] | where attributes are put; [`Reply`]: a message of our own; [`Dump`]: one of many messages |
//!
//! C headers: `include/net/netlink.h`, `include/linux/netlink.h`.

use super::ns::NetNamespace;
use crate::{bindings, context::MaySleep, door::FromC, error::EMSGSIZE, gfp::Gfp};
use core::{marker::PhantomData, ptr::NonNull};
use kernel::{
    error::to_result,
    ffi::{c_int, c_void},
    prelude::*,
};

/// The kernel's socket of a protocol in a namespace. Dropping it closes it, and may sleep.
///
/// # Invariants
///
/// The socket is open, and ours.
pub struct KernelSocket(NonNull<bindings::sock>);

// SAFETY: Sockets may be used from any thread.
unsafe impl Send for KernelSocket {}
// SAFETY: As above.
unsafe impl Sync for KernelSocket {}

/// What is called with each packet that user space sends, in its context.
pub type Input = unsafe extern "C" fn(*mut bindings::sk_buff);

impl KernelSocket {
    /// Opens the socket. Any user may send to it. Whoever sends waits for `send_timeout` jiffies at most.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also where there is one already.
    ///
    /// # Safety
    ///
    /// The socket is dropped before the namespace is taken down, and `input` may be called until then.
    pub unsafe fn open(
        net: &NetNamespace,
        protocol: u32,
        send_timeout: usize,
        input: Input,
        _sleep: &MaySleep,
    ) -> Result<Self> {
        // SAFETY: By the safety requirements.
        let sock = unsafe {
            bindings::netlink_kernel_open(
                net.as_raw(),
                protocol as c_int,
                send_timeout,
                Some(input),
            )
        };
        // INVARIANT: It was just opened.
        NonNull::new(sock).map(Self).ok_or(ENOMEM)
    }

    /// Whether anybody listens to a group. Any context.
    pub fn has_listeners(&self, group: u32) -> bool {
        // SAFETY: The socket is open.
        unsafe { bindings::netlink_has_listeners(self.0.as_ptr(), group) != 0 }
    }

    /// Sends a message to a port; `wait` for room there, or not.
    ///
    /// # Errors
    ///
    /// `ECONNREFUSED` where there is no such port, `EAGAIN` where there is no room.
    ///
    /// # Safety
    ///
    /// `skb` is a message that is handed over.
    pub unsafe fn unicast(&self, skb: *mut bindings::sk_buff, portid: u32, wait: bool) -> Result {
        // SAFETY: By the safety requirements.
        let sent =
            unsafe { bindings::netlink_unicast(self.0.as_ptr(), skb, portid, (!wait).into()) };
        to_result(sent.min(0))
    }

    /// Sends a message to all who listen to a group.
    ///
    /// # Errors
    ///
    /// `ESRCH` where nobody listens, `ENOBUFS` where somebody has no room.
    ///
    /// # Safety
    ///
    /// `skb` is a message that is handed over.
    pub unsafe fn multicast(
        &self,
        skb: *mut bindings::sk_buff,
        group: u32,
        flags: bindings::gfp_t,
    ) -> Result {
        // SAFETY: By the safety requirements.
        to_result(unsafe { bindings::nlmsg_multicast(self.0.as_ptr(), skb, 0, group, flags) })
    }
}

impl Drop for KernelSocket {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::netlink_kernel_release(self.0.as_ptr()) };
    }
}

/// What an attribute may be.
#[repr(transparent)]
pub struct Policy(bindings::nla_policy);

// SAFETY: A policy is constant.
unsafe impl Sync for Policy {}

impl Policy {
    /// Anything. Strict checking takes it for an attribute that nobody sends.
    pub const NONE: Self = Self::new(bindings::NLA_UNSPEC, 0);

    /// A kind, `NLA_*`, and what the kernel makes of the length for it.
    pub const fn new(kind: u32, len: u16) -> Self {
        // SAFETY: Zeros are a valid value.
        let mut policy: bindings::nla_policy = unsafe { core::mem::zeroed() };
        policy.type_ = kind as u8;
        policy.len = len;
        Self(policy)
    }
}

/// The attributes of a message by number, the last of each; `N` is the first number that is not known.
pub struct Attrs<'a, const N: usize> {
    table: KBox<[*mut bindings::nlattr; N]>,
    _message: PhantomData<&'a ()>,
}

impl<'a, const N: usize> Attrs<'a, N> {
    /// The bytes of an attribute. `None` where it is not there.
    fn bytes(&self, attr: u32) -> Option<&'a [u8]> {
        let raw = *self.table.get(attr as usize)?;
        let header = core::mem::size_of::<bindings::nlattr>();
        // SAFETY: The kernel has found the attribute in the message, which is there for `'a`.
        unsafe {
            let length = usize::from(raw.as_ref()?.nla_len).saturating_sub(header);
            let data = raw.cast::<u8>().add(header);
            Some(core::slice::from_raw_parts(data, length))
        }
    }

    /// Whether it is there.
    pub fn has(&self, attr: u32) -> bool {
        self.bytes(attr).is_some()
    }

    /// A number of 8 bits.
    pub fn u8(&self, attr: u32) -> Option<u8> {
        self.bytes(attr)?.first().copied()
    }

    /// A number of 32 bits.
    pub fn u32(&self, attr: u32) -> Option<u32> {
        let bytes = self.bytes(attr)?.first_chunk()?;
        Some(u32::from_ne_bytes(*bytes))
    }

    /// The first `L` bytes. `None` where there are fewer.
    pub fn array<const L: usize>(&self, attr: u32) -> Option<[u8; L]> {
        self.bytes(attr)?.first_chunk().copied()
    }

    /// A number of 64 bits.
    pub fn u64(&self, attr: u32) -> Option<u64> {
        self.array(attr).map(u64::from_ne_bytes)
    }

    /// What is in each of the attributes inside of one.
    pub fn each_in(&self, attr: u32) -> Option<Inside<'a>> {
        self.bytes(attr).map(Inside)
    }

    /// A string, cut off so that `L` bytes have room for it and its NUL.
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

/// The attributes inside of another one, one after the other. It ends before the first that is cut off.
pub struct Inside<'a>(&'a [u8]);

impl<'a> Iterator for Inside<'a> {
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

/// A short string: it ends with a NUL.
pub struct Text<const L: usize>([u8; L]);

impl<const L: usize> core::ops::Deref for Text<L> {
    type Target = CStr;

    fn deref(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or(c"")
    }
}

/// A message that user space has sent.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    skb: *mut bindings::sk_buff,
    header: *mut bindings::nlmsghdr,
    extack: *mut bindings::netlink_ext_ack,
    _message: PhantomData<&'a ()>,
}

impl<'a> Request<'a> {
    fn header(&self) -> &bindings::nlmsghdr {
        // SAFETY: The message is there for `'a`.
        unsafe { &*self.header }
    }

    /// The number of the message's kind.
    pub fn kind(&self) -> u32 {
        self.header().nlmsg_type.into()
    }

    /// Which of the sender's messages it is, or is the answer to.
    pub fn seq(&self) -> u32 {
        self.header().nlmsg_seq
    }

    /// `NLM_F_*`.
    pub fn flags(&self) -> u32 {
        self.header().nlmsg_flags.into()
    }

    /// The namespace of the sender.
    pub fn net(&self) -> &'a NetNamespace {
        // SAFETY: The packet has the socket that it was sent to, which has the sender's namespace.
        unsafe { NetNamespace::from_raw(bindings::netlink_skb_net(self.skb)) }
    }

    /// Who has sent it.
    pub fn portid(&self) -> u32 {
        // SAFETY: The packet is there.
        unsafe { bindings::netlink_portid(self.skb) }
    }

    /// Whether both the sender and who has opened the socket may administrate networks of the whole machine.
    pub fn may_admin(&self) -> bool {
        // SAFETY: The packet is there.
        unsafe { bindings::netlink_capable(self.skb, bindings::CAP_NET_ADMIN as c_int) }
    }

    /// As [`Self::may_admin`], for one namespace.
    pub fn may_admin_net(&self, net: &NetNamespace) -> bool {
        // SAFETY: The packet and the namespace are there.
        unsafe { bindings::netlink_may_admin_net(self.skb, net.as_raw()) }
    }

    /// All attributes, one after the other: the number and the bytes of each. It ends before the first that is cut off.
    pub fn each(&self) -> impl Iterator<Item = (u32, &'a [u8])> {
        let header = core::mem::size_of::<bindings::nlmsghdr>();
        // SAFETY: The kernel has checked that the message, which is there for `'a`, has so many bytes.
        let bytes: &'a [u8] = unsafe {
            let length = ((*self.header).nlmsg_len as usize).saturating_sub(header);
            core::slice::from_raw_parts(self.header.cast::<u8>().add(header), length)
        };
        let mut rest = Inside(bytes);
        core::iter::from_fn(move || {
            let kind = rest.0.get(2..)?.first_chunk()?;
            Some((u16::from_ne_bytes(*kind).into(), rest.next()?))
        })
    }

    /// The attributes, checked. `strict` takes none that are not known, or longer than they should be.
    ///
    /// # Errors
    ///
    /// What is wrong with them; user space is told which one. `ENOMEM`.
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

    /// The attributes inside of one, checked strictly. `None` where it is not there.
    ///
    /// # Errors
    ///
    /// What is wrong with them; user space is told which one. `ENOMEM`.
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

    /// Tells user space in words why the request fails.
    pub fn explain(&self, why: &'static CStr) {
        // SAFETY: The place for the words is null, or there as long as the request.
        if let Some(extack) = unsafe { self.extack.as_mut() } {
            extack._msg = why.as_char_ptr();
        }
    }

    /// Answers with many messages: `dump` is called as long as there are more.
    pub fn start_dump(&self, dump: DumpFn, _sleep: &MaySleep) -> Result {
        // SAFETY: The message is there; the callback is a function of this module, which the socket keeps.
        to_result(unsafe { bindings::netlink_dump(self.skb, self.header, Some(dump)) })
    }

    /// Calls a handler of C.
    ///
    /// # Safety
    ///
    /// It is a handler of such messages, and its module is there.
    pub unsafe fn call(&self, handler: DoFn, _sleep: &MaySleep) -> Result {
        // SAFETY: By the safety requirements.
        to_result(unsafe { handler(self.skb, self.header, self.extack) })
    }
}

/// A handler of messages, of C.
pub type DoFn = unsafe extern "C" fn(
    *mut bindings::sk_buff,
    *mut bindings::nlmsghdr,
    *mut bindings::netlink_ext_ack,
) -> c_int;

/// What makes the messages of a dump, of C.
pub type DumpFn =
    unsafe extern "C" fn(*mut bindings::sk_buff, *mut bindings::netlink_callback) -> c_int;

/// Goes through the messages of a packet: each that is a request, or that `wanted` wants though it is none, is handled, and
/// acknowledged if the sender asks for it or it fails. Where `handle` fails with `EINTR`, nothing is told.
///
/// # Safety
///
/// The kernel calls [`Input`] with this packet.
pub unsafe fn receive(
    skb: *mut bindings::sk_buff,
    wanted: impl Fn(u32) -> bool,
    mut handle: impl FnMut(&Request<'_>) -> Result,
) {
    let header_size = core::mem::size_of::<bindings::nlmsghdr>();
    loop {
        // SAFETY: The packet is ours during the call; its data begins with a header if it is long enough.
        let (left, header) = unsafe {
            (
                (*skb).len as usize,
                (*skb).data.cast::<bindings::nlmsghdr>(),
            )
        };
        if left < header_size {
            return;
        }
        // SAFETY: As above.
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
                // SAFETY: The packet and the message are there.
                unsafe { bindings::netlink_ack(skb, header, error, &extack) };
            }
        }
        // SAFETY: The packet has so many bytes.
        unsafe { bindings::skb_pull(skb, length.next_multiple_of(4).min(left) as u32) };
    }
}

/// The flag that says that an attribute has others in it: `NLA_F_NESTED`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Nested {
    /// It is set.
    Flagged,
    /// It is not, as in messages that are older than the flag.
    Plain,
}

/// Where attributes are put.
pub struct Writer<'a> {
    skb: *mut bindings::sk_buff,
    _message: PhantomData<&'a mut ()>,
}

// SAFETY: C passes a message that is being written.
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
    /// The packet, for calls into C that put attributes.
    pub fn as_raw(&mut self) -> *mut bindings::sk_buff {
        self.skb
    }

    /// Puts bytes that are no attribute: what stands in front of the attributes.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` where there is no room.
    pub fn header(&mut self, bytes: &[u8]) -> Result {
        let length = u32::try_from(bytes.len()).map_err(|_| EMSGSIZE)?;
        // SAFETY: The packet is being written; there is as much room as was asked for.
        unsafe {
            let place: *mut u8 = bindings::nlmsg_append(self.skb, length).cast();
            let place = NonNull::new(place).ok_or(EMSGSIZE)?;
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), place.as_ptr(), bytes.len());
        }
        Ok(())
    }

    /// Puts bytes.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` where there is no room, as for all that follow.
    pub fn bytes(&mut self, attr: u32, bytes: &[u8]) -> Result {
        let length = c_int::try_from(bytes.len()).map_err(|_| EMSGSIZE)?;
        let data: *const c_void = bytes.as_ptr().cast();
        // SAFETY: The packet is being written; there are so many bytes.
        to_result(unsafe { bindings::nla_put(self.skb, attr as c_int, length, data) })
    }

    /// Puts a number of 8 bits.
    pub fn u8(&mut self, attr: u32, value: u8) -> Result {
        self.bytes(attr, &[value])
    }

    /// Puts a number of 32 bits.
    pub fn u32(&mut self, attr: u32, value: u32) -> Result {
        self.bytes(attr, &value.to_ne_bytes())
    }

    /// Puts a number of 64 bits, aligned to as many by an attribute `pad` in front if need be.
    pub fn u64(&mut self, attr: u32, value: u64, pad: u32) -> Result {
        let data: *const c_void = (&raw const value).cast();
        // SAFETY: The packet is being written; there are 8 bytes.
        to_result(unsafe {
            bindings::nla_put_64bit(self.skb, attr as c_int, 8, data, pad as c_int)
        })
    }

    /// Puts a string and its NUL.
    pub fn text(&mut self, attr: u32, text: &CStr) -> Result {
        self.bytes(attr, text.to_bytes_with_nul())
    }

    /// Puts an attribute that has others in it: those that `fill` puts. Where that fails, there is none.
    pub fn nest<R>(
        &mut self,
        attr: u32,
        flag: Nested,
        fill: impl FnOnce(&mut Self) -> Result<R>,
    ) -> Result<R> {
        let flag = flag == Nested::Flagged;
        // SAFETY: The packet is being written.
        let start = unsafe { bindings::nla_nest_start_flagged(self.skb, attr as c_int, flag) };
        if start.is_null() {
            return Err(EMSGSIZE);
        }
        let filled = fill(self);
        match filled {
            // SAFETY: The attribute was begun above.
            Ok(_) => unsafe { bindings::nla_nest_end(self.skb, start) },
            // SAFETY: As above.
            Err(_) => unsafe { bindings::nla_nest_cancel(self.skb, start) },
        }
        filled
    }

    /// Writes a message into the packet: a header, and what `fill` puts. Where that fails, there is none.
    fn message<R>(&mut self, to: Header, fill: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        // SAFETY: The packet is being written.
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
            // SAFETY: As above.
            Err(_) => unsafe { bindings::nlmsg_cancel(self.skb, header) },
        }
        filled
    }
}

/// What stands in front of a message.
#[derive(Clone, Copy, Default)]
struct Header {
    portid: u32,
    seq: u32,
    kind: u32,
    flags: u32,
}

/// A message of our own.
///
/// # Invariants
///
/// The packet is ours.
pub struct Reply(NonNull<bindings::sk_buff>);

impl Reply {
    fn write(
        to: Header,
        flags: Gfp<'_>,
        fill: impl FnOnce(&mut Writer<'_>) -> Result,
    ) -> Result<Self> {
        // SAFETY: Allocates a packet; the flags know the context.
        let skb = unsafe { bindings::nlmsg_new_default(flags.as_raw()) };
        // INVARIANT: It was just allocated.
        let reply = Self(NonNull::new(skb).ok_or(ENOMEM)?);
        let mut writer = Writer {
            skb,
            _message: PhantomData,
        };
        writer.message(to, fill)?;
        Ok(reply)
    }

    /// Writes the answer to a request: a message of the kind `kind`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EMSGSIZE`, and what `fill` fails with.
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

    /// Writes a message that nobody has asked for.
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

    /// Writes a question to user space, whose answer has the number `seq` too.
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

    /// Hands the packet over.
    pub fn into_raw(self) -> *mut bindings::sk_buff {
        let raw = self.0.as_ptr();
        core::mem::forget(self);
        raw
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::nlmsg_free(self.0.as_ptr()) };
    }
}

/// A packet of a dump, which has as many messages as there is room for.
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
    /// The kernel calls a [`DumpFn`] with these.
    pub unsafe fn new(
        skb: *mut bindings::sk_buff,
        callback: *mut bindings::netlink_callback,
    ) -> Self {
        Self {
            skb,
            callback,
            _message: PhantomData,
        }
    }

    /// What was asked for.
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

    /// The namespace of who asks.
    pub fn net(&self) -> &'a NetNamespace {
        // SAFETY: The packet has the socket that it goes to.
        unsafe { NetNamespace::from_raw(bindings::netlink_skb_net(self.skb)) }
    }

    /// Where the last packet ended: 0 at first.
    pub fn position(&self) -> u64 {
        // SAFETY: The words of the callback are the dump's own.
        unsafe { (*self.callback).__bindgen_anon_1.args[0] as u64 }
    }

    /// Says where the next packet begins.
    pub fn set_position(&mut self, position: u64) {
        // SAFETY: As above.
        unsafe { (*self.callback).__bindgen_anon_1.args[0] = position as kernel::ffi::c_long };
    }

    /// How many bytes the packet has. With none, the dump is over.
    pub fn length(&self) -> c_int {
        // SAFETY: The packet is there.
        unsafe { (*self.skb).len as c_int }
    }

    /// Writes a message of the kind `kind`.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` where there is no room any more, and what `fill` fails with: there is no message then.
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
