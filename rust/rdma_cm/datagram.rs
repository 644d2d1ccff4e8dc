// SPDX-License-Identifier: GPL-2.0

//! Datagrams (UD): the UDP port space, and multicast groups.
//!
//! | who looks a service up | who has it |
//! |---|---|
//! | [`Route::resolve`] an address, on a device | [`Listener::new`] on an address of a device |
//! | [`Route::connect`]: an [`Endpoint`], and the [`Remote`] to send to | [`Listener::next`]: a [`Request`] |
//! | | [`Request::accept`] with a queue pair; or [`Request::reject`] |
//!
//! [`Endpoint::bind`] is for who needs no peer, but a queue pair for multicast groups: [`Endpoint::join`]. Whose events are handled
//! ([`handler`](crate::handler)) has [`Attached`] for that.
//!
//! ```
//! use kernel::prelude::*;
//! use kernel_ext::net::ns::NetNamespace;
//! use rdma::{
//!     client::{
//!         op::UdOp,
//!         qp::{Reset, Ud},
//!         work::Handler,
//!         Device, Qp, Work,
//!     },
//!     MaySleep,
//! };
//! use rdma_cm::{
//!     datagram::{Endpoint, Membership},
//!     Address, Options,
//! };
//!
//! /// Sends a message to the group 239.1.2.3.
//! fn tell<'d, H: Handler<'d>>(
//!     device: &Device<'d>,
//!     (own, qp): ([u8; 4], Qp<'d, Ud, Reset>),
//!     message: Pin<KBox<Work<'d, H>>>,
//!     sleep: &MaySleep,
//! ) -> Result<Endpoint<'d>> {
//!     let (net, options, own) = (NetNamespace::init(), Options::default(), Address::V4(own, 0));
//!     let mut endpoint = Endpoint::bind(device, net, &options, (&own, qp), sleep)?;
//!     let group = endpoint.join(&Address::V4([239, 1, 2, 3], 0), Membership::Full, sleep)?;
//!     let ah = group.ah(endpoint.pd(), sleep)?;
//!     let (qp_num, qkey) = (group.qp_num, group.qkey);
//!     let immediate = None;
//!     endpoint.post_send(message, UdOp { ah: &ah, qp_num, qkey, immediate })?;
//!     Ok(endpoint)
//! }
//! ```
//!
//! C header: `include/rdma/rdma_cm.h`.

use core::ops::Deref;

use kernel::prelude::*;
use kernel_ext::net::ns::NetNamespace;
use rdma::{
    abi::gid::Gid,
    bindings::rdma_conn_param,
    client::{
        qp::{Init, Qp, QpRef, Reset, Rts, State, Ud, UdSending},
        Device, Pd,
    },
    MaySleep,
};

use crate::{
    calls::{Asked, Calls},
    id::Id,
    membership::{attach, detach, gid_of},
    space::Udp,
    Address, Ece, Event, Options, Reason, Remote, Unreachable, TIMEOUT_MS,
};

pub use crate::membership::{Attached, Membership};

/// The parameters of a lookup, or of its answer.
pub(crate) fn params(private_data: &[u8], qp_num: u32) -> Result<Asked> {
    let mut param: rdma_conn_param = pin_init::zeroed();
    param.private_data = private_data.as_ptr().cast();
    param.private_data_len = u8::try_from(private_data.len()).map_err(|_| EINVAL)?;
    param.qp_num = qp_num;
    let ece = Ece::NONE;
    Ok(Asked { param, ece })
}

/// Makes a queue pair ready to send, with the Q_Key of the connection manager.
pub(crate) fn ready<'d>(
    id: &Calls<'d, Udp>,
    qp: Qp<'d, Ud, Reset>,
    sleep: &MaySleep,
) -> Result<Qp<'d, Ud, Rts>> {
    let qp: Qp<'d, Ud, Init> = id.modify(qp, sleep)?;
    Ok(qp
        .into_rtr(&(), sleep)?
        .into_rts(&UdSending { psn: 0 }, sleep)?)
}

/// A route from a device to a peer.
pub struct Route<'d> {
    id: Id<'d, Udp>,
}

impl<'d> Route<'d> {
    /// Resolves an address, and the route to it, from a source to a destination in a network namespace.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the route does not begin at this device, `ETIMEDOUT`, and those of the connection manager.
    pub fn resolve(
        device: &Device<'d>,
        net: &NetNamespace,
        options: &Options,
        ends: (Option<&Address>, &Address),
        sleep: &MaySleep,
    ) -> Result<Self> {
        let id = Id::new(device, net, options, sleep)?;
        id.resolve(ends, TIMEOUT_MS, sleep)?;
        Ok(Self { id })
    }

    /// Looks the queue pair of the peer up: see [`Self::begin`] and [`Lookup::finish`].
    ///
    /// # Errors
    ///
    /// The errors of these two.
    pub fn connect(
        self,
        qp: Qp<'d, Ud, Reset>,
        private_data: &[u8],
        sleep: &MaySleep,
    ) -> Result<Found<'d>> {
        self.begin(qp, private_data, sleep)?.finish(sleep)
    }

    /// Asks for the queue pair of the peer (SIDR), with private data of up to 180 bytes, and makes the own one ready.
    ///
    /// # Errors
    ///
    /// `EINVAL` for too much private data, and those of the connection manager and of the driver.
    pub fn begin(
        self,
        qp: Qp<'d, Ud, Reset>,
        private_data: &[u8],
        sleep: &MaySleep,
    ) -> Result<Lookup<'d>> {
        let qp = ready(&self.id, qp, sleep)?;
        self.id.connect(params(private_data, qp.number())?)?;
        Ok(Lookup { qp, id: self.id })
    }
}

/// A lookup that waits for the answer of the peer.
pub struct Lookup<'d> {
    /// The queue pair, which is dropped before the identifier.
    qp: Qp<'d, Ud, Rts>,
    id: Id<'d, Udp>,
}

impl<'d> Lookup<'d> {
    /// Waits for the answer. Returns where to send to, and the private data of the peer.
    ///
    /// # Errors
    ///
    /// `ECONNREFUSED` if the peer refuses, `ETIMEDOUT`, and those of the connection manager.
    pub fn finish(self, sleep: &MaySleep) -> Result<Found<'d>> {
        self.answer(sleep)?.map_err(|why| match why {
            Unreachable::Error(error) => error,
            Unreachable::Refused(..) => crate::event::refused(),
        })
    }

    /// As [`Self::finish`], with why there is no queue pair.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT`, and those of the connection manager.
    pub fn answer(self, sleep: &MaySleep) -> Result<Result<Found<'d>, Unreachable>> {
        let (answer, _) = self.id.expect(TIMEOUT_MS, sleep, |event| match event {
            Event::Found(remote, told) => Ok(Ok((remote, told))),
            Event::Unreachable(why) => Ok(Err(why)),
            other => Err(other),
        })?;
        let Self { qp, id } = self;
        let groups = KVec::new();
        Ok(answer.map(|(remote, told)| (Endpoint { groups, qp, id }, remote, told)))
    }
}

/// What a lookup has found: an endpoint, where to send to, and the private data of the peer.
pub type Found<'d> = (Endpoint<'d>, Remote, KVec<u8>);

/// A group that an endpoint has joined.
struct Group {
    address: Address,
    gid: Gid,
    is_attached: bool,
}

/// A queue pair for datagrams, with its identifier and its groups. Dropping it leaves them, and waits until the handlers of all posted
/// requests have run.
pub struct Endpoint<'d> {
    groups: KVec<Group>,
    /// The queue pair, which is dropped before the identifier.
    qp: Qp<'d, Ud, Rts>,
    id: Id<'d, Udp>,
}

impl<'d> Deref for Endpoint<'d> {
    type Target = QpRef<'d, Ud, Rts>;

    fn deref(&self) -> &QpRef<'d, Ud, Rts> {
        &self.qp
    }
}

impl<'d> Endpoint<'d> {
    /// Binds to an address of a device, in a network namespace, and makes a queue pair ready.
    ///
    /// # Errors
    ///
    /// `ENODEV` for an address of another device, `EADDRINUSE`, and those of the connection manager and of the driver.
    pub fn bind(
        device: &Device<'d>,
        net: &NetNamespace,
        options: &Options,
        (address, qp): (&Address, Qp<'d, Ud, Reset>),
        sleep: &MaySleep,
    ) -> Result<Self> {
        let id = Id::bound(device, net, options, address, sleep)?;
        let qp = ready(&id, qp, sleep)?;
        let groups = KVec::new();
        Ok(Self { groups, qp, id })
    }

    /// The protection domain of the queue pair.
    pub fn pd(&self) -> &Pd<'d> {
        self.qp.pd()
    }

    /// Joins the multicast group of an address, and tells where to send to. A full member receives the datagrams of the group.
    ///
    /// # Errors
    ///
    /// `EEXIST` for a group that is joined already, `ETIMEDOUT`, and those of the connection manager and of the driver.
    pub fn join(
        &mut self,
        address: &Address,
        membership: Membership,
        sleep: &MaySleep,
    ) -> Result<Remote> {
        if self.groups.iter().any(|group| group.address == *address) {
            return Err(EEXIST);
        }
        self.groups.reserve(1, GFP_KERNEL)?;
        self.id.join(address, membership, 0)?;
        match self.joined(address, membership, sleep) {
            Ok((remote, group)) => {
                self.groups.push(group, GFP_KERNEL)?;
                Ok(remote)
            }
            Err(error) => {
                self.id.leave(address);
                Err(error)
            }
        }
    }

    /// Waits until a group is joined, and attaches the queue pair of a full member.
    fn joined(
        &self,
        address: &Address,
        membership: Membership,
        sleep: &MaySleep,
    ) -> Result<(Remote, Group)> {
        let (remote, _) = self.id.expect(TIMEOUT_MS, sleep, |event| match event {
            Event::MulticastJoin(remote, _) => Ok(remote),
            other => Err(other),
        })?;
        let group = Group {
            address: *address,
            gid: gid_of(&remote)?,
            is_attached: membership == Membership::Full,
        };
        if group.is_attached {
            attach(&self.qp, group.gid)?;
        }
        Ok((remote, group))
    }

    /// Leaves a group.
    ///
    /// # Errors
    ///
    /// `ENOENT` for a group that is not joined, and those of the driver. Then the group is left all the same.
    pub fn leave(&mut self, address: &Address, sleep: &MaySleep) -> Result {
        sleep.check();
        let mut groups = self.groups.iter();
        let index = groups.position(|group| group.address == *address);
        let group = self
            .groups
            .remove(index.ok_or(ENOENT)?)
            .map_err(|_| ENOENT)?;
        self.end(&group)
    }

    fn end(&self, group: &Group) -> Result {
        let detached = match group.is_attached {
            true => detach(&self.qp, group.gid),
            false => Ok(()),
        };
        self.id.leave(&group.address);
        detached
    }

    /// Waits for the next event, of any type: such as [`Event::AddrChange`] and [`Event::MulticastError`].
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` if there is none within `timeout_ms` milliseconds.
    pub fn next_event(&self, timeout_ms: u32, sleep: &MaySleep) -> Result<Event> {
        self.id.next(timeout_ms, sleep).map(|(event, _)| event)
    }
}

impl Drop for Endpoint<'_> {
    fn drop(&mut self) {
        for group in &self.groups {
            // The driver cannot refuse what it has attached; if it does, the queue pair is destroyed later.
            let _ = self.end(group);
        }
    }
}

/// A listener for lookups, on an address of a device.
pub struct Listener<'d> {
    id: Id<'d, Udp>,
}

impl<'d> Listener<'d> {
    /// Starts listening, in a network namespace; with an address, and the maximum number of pending requests.
    ///
    /// # Errors
    ///
    /// `ENODEV` for an address of another device, `EADDRINUSE`, and those of the connection manager.
    pub fn new(
        device: &Device<'d>,
        net: &NetNamespace,
        options: &Options,
        (address, backlog): (&Address, u16),
        sleep: &MaySleep,
    ) -> Result<Self> {
        let id = Id::listening(device, net, options, (address, backlog), sleep)?;
        Ok(Self { id })
    }

    /// The local port. If the address had port 0, this is the port that was chosen.
    pub fn port(&self) -> u16 {
        self.id.source_port()
    }

    /// Makes a queue pair ready for the datagrams of those who look it up.
    ///
    /// # Errors
    ///
    /// Those of the connection manager and of the driver.
    pub fn ready(&self, qp: Qp<'d, Ud, Reset>, sleep: &MaySleep) -> Result<Qp<'d, Ud, Rts>> {
        ready(&self.id, qp, sleep)
    }

    /// Waits for the next request.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` if there is none within `timeout_ms` milliseconds.
    pub fn next(&self, timeout_ms: u32, sleep: &MaySleep) -> Result<Request<'d>> {
        let (private_data, id) = self.id.expect(timeout_ms, sleep, |event| match event {
            Event::Lookup(private_data) => Ok(private_data),
            other => Err(other),
        })?;
        let id = id.ok_or(EIO)?;
        Ok(Request { id, private_data })
    }
}

/// A request for a queue pair to send to. Dropping it rejects the request.
pub struct Request<'d> {
    id: Id<'d, Udp>,
    private_data: KVec<u8>,
}

impl<'d> Request<'d> {
    /// The private data of the peer: 180 bytes, padded at the end.
    pub fn private_data(&self) -> &[u8] {
        &self.private_data
    }

    /// Tells the peer a queue pair, with private data of up to 136 bytes.
    ///
    /// # Errors
    ///
    /// `EINVAL` for too much private data, and those of the connection manager.
    pub fn accept<S: State>(
        self,
        qp: &Qp<'d, Ud, S>,
        private_data: &[u8],
        sleep: &MaySleep,
    ) -> Result {
        sleep.check();
        self.id.accept(Some(params(private_data, qp.number())?))
    }

    /// Rejects the request, with private data of up to 136 bytes.
    ///
    /// # Errors
    ///
    /// Those of the connection manager.
    pub fn reject(self, why: &[u8], sleep: &MaySleep) -> Result {
        sleep.check();
        self.id.reject(Reason::CONSUMER_DEFINED, why)
    }
}
