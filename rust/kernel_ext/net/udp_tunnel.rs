// SPDX-License-Identifier: GPL-2.0

//! Kernel UDP sockets that pass each packet to a callback (UDP tunnels).
//!
//! C header: `include/net/udp_tunnel.h`.

use super::{
    device::NetDevice,
    ns::{self, NetNamespace, PernetRegistration},
    skb::SkBuff,
    socket::{Socket, Sockets},
};
use crate::{bindings, context::MaySleep, error::ENOTSOCK};
use core::{mem::MaybeUninit, ptr::NonNull};
use kernel::{
    error::to_result,
    ffi::{c_int, c_void},
    prelude::*,
    sync::Arc,
    types::ForeignOwnable,
};

/// The receiver of a [`UdpSocket`]'s packets.
pub trait Receive: Send + Sync + 'static {
    /// Receives a packet. Softirq context, must not sleep.
    ///
    /// The packet begins with its UDP header; `device` is its ingress device. Its UDP checksum was verified.
    fn receive(this: &Self, packet: SkBuff, device: &NetDevice);
}

/// The IP version of a [`UdpSocket`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpVersion {
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}

/// Closes the [`UdpSocket`]s of a namespace that is deleted. A module makes one before it opens the first socket, and
/// drops it after the last. Not to be made or dropped under RTNL.
pub struct Registration(
    #[expect(dead_code, reason = "it is to be dropped")] PernetRegistration<Sockets>,
);

impl Registration {
    /// Enables the module to open sockets.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the module has a registration already, `ENOMEM`.
    pub fn new(may_sleep: &MaySleep) -> Result<Self> {
        PernetRegistration::new(may_sleep).map(Self)
    }
}

/// An open UDP port in a namespace, on all addresses of one IP version.
///
/// Dropping it, or [`UdpSocket::close`], closes the port, and waits for packets in the receive path: it may sleep.
/// After that the receiver is not called any more.
///
/// The socket does not keep its namespace alive: when that is deleted, the [`Registration`] closes the port, and the
/// handle has no port any more.
///
/// # Invariants
///
/// `foreign` is a reference to the receiver from [`ForeignOwnable::into_foreign`], which `self` owns. `sock` is in `sockets`
/// unless it has been closed.
pub struct UdpSocket<T: Receive> {
    sock: NonNull<bindings::sock>,
    sockets: Arc<Sockets>,
    foreign: NonNull<c_void>,
    receiver: Arc<T>,
}

// SAFETY: Sockets may be used and closed on any thread.
unsafe impl<T: Receive> Send for UdpSocket<T> {}
// SAFETY: A shared reference gives access to the receiver alone, which is `Sync`.
unsafe impl<T: Receive> Sync for UdpSocket<T> {}

impl<T: Receive> UdpSocket<T> {
    /// Opens a port; from now on `receiver` gets its packets.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE` if the port is in use, `EAFNOSUPPORT` without IPv6, `ENODEV` without a [`Registration`] or while
    /// the namespace is being deleted, `ENOMEM` and others.
    pub fn open(
        net: &NetNamespace,
        version: IpVersion,
        port: u16,
        receiver: Arc<T>,
        may_sleep: &MaySleep,
    ) -> Result<Self> {
        let sockets = ns::of::<Sockets>(net).ok_or(ENODEV)?;
        let foreign = receiver.clone().into_foreign();
        let opened = sockets.add(may_sleep, || {
            // SAFETY: The list prevents the teardown of the namespace during the call. The receiver is released a grace period
            // after the socket was closed, or below if there is no socket.
            unsafe { Self::open_raw(net, version, port, foreign) }
        });
        let sock = opened.inspect_err(|_| {
            // SAFETY: The token proves that the context may sleep. If there was a socket, it is closed again, as in `drop`; the
            // reference is from `into_foreign`.
            unsafe {
                bindings::synchronize_net();
                drop(Arc::<T>::from_foreign(foreign));
            }
        })?;
        // INVARIANT: This function owns the reference, and the socket is in the list.
        Ok(Self {
            sock,
            sockets,
            // SAFETY: `into_foreign` does not return null.
            foreign: unsafe { NonNull::new_unchecked(foreign) },
            receiver,
        })
    }

    /// Opens the port.
    ///
    /// # Safety
    ///
    /// `net` is not taken down during the call. `foreign` is a receiver from `into_foreign` that is valid until a grace period
    /// after the socket was closed.
    unsafe fn open_raw(
        net: &NetNamespace,
        version: IpVersion,
        port: u16,
        foreign: *mut c_void,
    ) -> Result<Socket> {
        // SAFETY: All zeros are a valid configuration: any address and port.
        let mut config: bindings::udp_port_cfg = unsafe { MaybeUninit::zeroed().assume_init() };
        config.local_udp_port = port.to_be();
        let mut socket = core::ptr::null_mut();
        // SAFETY: The namespace, the configuration and the result are valid; sockets are opened in process context.
        to_result(unsafe {
            match version {
                IpVersion::V4 => {
                    config.family = bindings::AF_INET as u8;
                    bindings::udp_sock_create4(net.as_raw(), &mut config, &mut socket)
                }
                IpVersion::V6 => {
                    config.family = bindings::AF_INET6 as u8;
                    config.set_ipv6_v6only(1);
                    bindings::udp_sock_create6(net.as_raw(), &mut config, &mut socket)
                }
            }
        })?;
        // SAFETY: The socket was just created, so that it has a `sock`.
        let sock = unsafe { NonNull::new((*socket).sk.cast()).ok_or(ENOTSOCK)? };
        let mut tunnel = bindings::udp_tunnel_sock_cfg {
            // The kernel keeps flags in the three low bits; they are 0, since the receiver is an allocation.
            sk_user_data: foreign,
            // Any value other than 0 enables the callback.
            encap_type: 1,
            encap_rcv: Some(Self::encap_rcv),
            ..pin_init::zeroed()
        };
        // SAFETY: This function owns the socket; by the safety requirements the receiver is valid long enough.
        unsafe {
            bindings::setup_udp_tunnel_sock(net.as_raw(), sock.as_ptr(), &mut tunnel);
            Ok(Socket::from_raw(sock, bindings::udp_tunnel_sock_release))
        }
    }

    /// Closes the port; see [`UdpSocket`].
    pub fn close(self, _may_sleep: &MaySleep) {}

    /// Returns the receiver.
    pub fn receiver(&self) -> &Arc<T> {
        &self.receiver
    }

    /// # Safety
    ///
    /// The kernel calls it, for a socket that `open_raw` set up, and hands the packet over.
    unsafe extern "C" fn encap_rcv(
        sock: *mut bindings::sock,
        skb: *mut bindings::sk_buff,
    ) -> c_int {
        let Some(packet) = NonNull::new(skb) else {
            return 0;
        };
        // SAFETY: The kernel hands the packet over. Its ingress device is valid during the call only, and so is its route; they
        // are removed from the packet, which may be kept longer.
        let (packet, device) = unsafe {
            let place = &raw mut (*skb)
                .__bindgen_anon_1
                .__bindgen_anon_1
                .__bindgen_anon_1
                .dev;
            let device = NetDevice::from_raw(place.replace(core::ptr::null_mut()).cast());
            bindings::skb_dst_drop(skb);
            (SkBuff::from_raw(packet), device)
        };
        // SAFETY: The kernel calls within an RCU read-side critical section.
        let receiver = unsafe { bindings::rcu_dereference_sk_user_data(sock) };
        if receiver.is_null() {
            // The socket is being closed; the packet is dropped.
            return 0;
        }
        // SAFETY: `open` has set the receiver, and it is released a grace period after the socket was closed.
        let receiver = unsafe { Arc::<T>::borrow(receiver) };
        T::receive(&receiver, packet, device);
        0
    }
}

impl<T: Receive> Drop for UdpSocket<T> {
    fn drop(&mut self) {
        self.sockets.close(self.sock);
        // The kernel looks up sockets, and calls their callbacks, within RCU read-side critical sections; closing removes
        // the socket from lookups, but does not wait for running ones.
        // SAFETY: The type is dropped in process context, as its documentation demands.
        unsafe { bindings::synchronize_net() };
        // SAFETY: By the type invariants `self` owns the reference; all its RCU readers have left.
        drop(unsafe { Arc::<T>::from_foreign(self.foreign.as_ptr()) });
    }
}
