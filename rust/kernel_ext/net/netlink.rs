// SPDX-License-Identifier: GPL-2.0

//! Netlink: messages with attributes between user space and the kernel.
//!
//! | type | meaning |
//! |---|---|
//! | [`KernelSocket`] | the kernel's socket in a network namespace |
//! | [`Request`] | a message from user space; [`Attrs`]: its attributes, validated by a table of [`Policy`] |
//! | [`Writer`] | adds attributes; [`Message`]: a message of the kernel, [`Series`]: several ones; [`Dump`]: a packet of a dump |
//!
//! C headers: `include/net/netlink.h`, `include/linux/netlink.h`.

mod attrs;
mod message;
mod request;
mod writer;

pub use attrs::{Attrs, NestedAttrs, Policy, Text};
pub use message::{Message, Series};
pub use request::{DoFn, Dump, DumpEntry, DumpFn, Dumper, Request};
pub use writer::{Nested, Writer};

use super::ns::NetNamespace;
use crate::{bindings, context::MaySleep, gfp::Gfp};
use core::{marker::PhantomData, ptr::NonNull};
use kernel::{error::to_result, ffi::c_int, prelude::*};

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
