// SPDX-License-Identifier: GPL-2.0

//! Kernel UDP sockets that pass each packet to a callback (UDP tunnels).
//!
//! C header: `include/net/udp_tunnel.h`.

use super::{
    device::NetDevice,
    header::{IpHeader, Ipv4Header, Ipv6Header, UdpHeader, IPPROTO_UDP},
    ns::{self, NetNamespace, PernetRegistration},
    skb::SkBuff,
    socket::{Socket, Sockets},
};
use crate::{bindings, context::MaySleep, error::ENOTSOCK};
use core::{
    cell::UnsafeCell,
    mem::{ManuallyDrop, MaybeUninit},
    ptr::NonNull,
};
use kernel::{
    error::to_result,
    ffi::{c_int, c_void},
    prelude::*,
    sync::Arc,
    transmute::AsBytes,
    types::ForeignOwnable,
};

/// The receiver of a [`UdpSocket`]'s packets.
pub trait Receive: Send + Sync + 'static {
    /// Receives a packet. Softirq context, must not sleep.
    ///
    /// The packet begins with its UDP header; `device` is its ingress device. Its UDP checksum was verified.
    fn receive(this: &Self, packet: SkBuff, device: &NetDevice);

    /// Whether [`receive`](Self::receive) takes several datagrams in [one packet](super::segments), whose payload begins at an offset
    /// of it. If not, it gets them one by one. Softirq context, must not sleep.
    fn takes_whole(this: &Self, packet: &SkBuff, payload: usize) -> bool;
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

/// A netfilter hook.
struct Hook(UnsafeCell<bindings::nf_hook_ops>);

// SAFETY: Only the kernel accesses what is inside, under locks of its own.
unsafe impl Send for Hook {}
// SAFETY: As above.
unsafe impl Sync for Hook {}

impl Hook {
    /// A hook for packets to this host, after all filters.
    fn new(version: IpVersion) -> Self {
        let protocol = match version {
            IpVersion::V4 => bindings::NFPROTO_IPV4,
            IpVersion::V6 => bindings::NFPROTO_IPV6,
        };
        Self(UnsafeCell::new(bindings::nf_hook_ops {
            pf: protocol as u8,
            hooknum: bindings::NF_INET_LOCAL_IN,
            // After all others: `NF_IP_PRI_LAST`.
            priority: c_int::MAX,
            ..pin_init::zeroed()
        }))
    }
}

/// Checks that a packet, which begins with its IP header, is an unfragmented UDP packet for this port. Returns the offset of its
/// UDP header.
fn udp_at(packet: &mut SkBuff, port: u16) -> Option<usize> {
    let (ip, protocol) = match packet.ip_header()? {
        IpHeader::V4(ip) if ip.version_ihl == Ipv4Header::VERSION_IHL => {
            (size_of::<Ipv4Header>(), ip.protocol)
        }
        IpHeader::V4(_) => return None,
        IpHeader::V6(ip) => (size_of::<Ipv6Header>(), ip.next_header),
    };
    packet
        .ensure_linear(ip.checked_add(size_of::<UdpHeader>())?)
        .ok()?;
    // The transport header is set where the IP layer has found it.
    let udp = packet.udp_header()?;
    let behind_ip = packet.data().get(ip..)?.starts_with(udp.as_bytes());
    let whole = packet.len().checked_sub(ip) == Some(udp.length.get().into());
    (protocol == IPPROTO_UDP && behind_ip && whole && udp.destination.get() == port).then_some(ip)
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
    #[expect(dead_code, reason = "the kernel uses it until the socket is closed")]
    hook: Pin<KBox<Hook>>,
    sockets: Arc<Sockets>,
    foreign: NonNull<c_void>,
    receiver: Arc<T>,
}

// SAFETY: Sockets may be used and closed on any thread.
unsafe impl<T: Receive> Send for UdpSocket<T> {}
// SAFETY: A shared reference gives access to the receiver alone, which is `Sync`.
unsafe impl<T: Receive> Sync for UdpSocket<T> {}

impl<T: Receive> UdpSocket<T> {
    /// Opens a port, whose packets are passed to `receiver` from now on. With `whole`, it takes several datagrams in one packet.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE` if the port is in use, `EAFNOSUPPORT` without IPv6, `ENODEV` without a [`Registration`] or while
    /// the namespace is being deleted, `ENOMEM` and others.
    pub fn open(
        net: &NetNamespace,
        version: IpVersion,
        port: u16,
        whole: bool,
        receiver: Arc<T>,
        may_sleep: &MaySleep,
    ) -> Result<Self> {
        let sockets = ns::of::<Sockets>(net).ok_or(ENODEV)?;
        let hook = KBox::pin(Hook::new(version), GFP_KERNEL)?;
        let foreign = receiver.clone().into_foreign();
        let opened = sockets.add(may_sleep, || {
            // SAFETY: The list prevents the teardown of the namespace during the call. The receiver is released a grace period
            // after the socket was closed, or below if there is no socket.
            let socket = unsafe { Self::open_raw(net, version, port, foreign) }?;
            if whole {
                // SAFETY: The hook is in a pinned allocation, which is released a grace period after the socket was closed.
                unsafe { socket.register(hook.0.get(), Some(Self::local_in)) }
            } else {
                Ok(socket)
            }
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
            hook,
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

    /// Makes the UDP layer pass on a packet of several datagrams in one piece. By default it segments such a packet for a socket with
    /// a callback (`udp_unexpected_gso()`).
    ///
    /// # Safety
    ///
    /// The kernel calls it at `NF_INET_LOCAL_IN`, within an RCU read-side critical section, with the only reference to a packet whose
    /// IP header is valid; `sock` is a socket that `open_raw` set up, which may be closed.
    unsafe extern "C" fn local_in(
        sock: *mut c_void,
        skb: *mut bindings::sk_buff,
        _state: *const bindings::nf_hook_state,
    ) -> u32 {
        // SAFETY: By the safety requirements.
        unsafe {
            if Self::takes(sock.cast(), skb).is_some() {
                bindings::skb_keep_segments(skb);
            }
        }
        bindings::NF_ACCEPT
    }

    /// `Some` if the receiver of the socket takes all datagrams of a packet in one piece.
    ///
    /// # Safety
    ///
    /// As for [`Self::local_in`].
    #[inline]
    unsafe fn takes(sock: *mut bindings::sock, skb: *mut bindings::sk_buff) -> Option<()> {
        // SAFETY: The packet is valid, and is not freed here.
        let mut packet = unsafe { ManuallyDrop::new(SkBuff::from_raw(NonNull::new(skb)?)) };
        packet.segment_size()?;
        // SAFETY: The socket is released a grace period after it was closed at the earliest.
        let port = unsafe {
            (*sock)
                .__sk_common
                .__bindgen_anon_3
                .__bindgen_anon_1
                .skc_num
        };
        let ip = udp_at(&mut packet, port)?;
        // SAFETY: As above; the receiver is released a grace period after the socket was closed.
        let receiver = unsafe {
            let receiver = bindings::rcu_dereference_sk_user_data(sock);
            (!receiver.is_null()).then(|| Arc::<T>::borrow(receiver))?
        };
        let payload = ip.checked_add(size_of::<UdpHeader>())?;
        T::takes_whole(&receiver, &packet, payload).then_some(())
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
        // SAFETY: The kernel hands the packet over. Its ingress device, which is valid during the call only, and its route are removed
        // from it.
        let (packet, device) = unsafe {
            let place = &raw mut (*skb)
                .__bindgen_anon_1
                .__bindgen_anon_1
                .__bindgen_anon_1
                .dev;
            let device = place.replace(core::ptr::null_mut());
            bindings::skb_dst_drop(skb);
            (SkBuff::from_raw(packet), NetDevice::from_raw(device.cast()))
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
