// SPDX-License-Identifier: GPL-2.0

//! The backlog of a queue pair: received packets from the network and from other queue pairs of its device.
//!
//! Packets are added without the QP's engine lock; the QP's work item takes them in a batch. So they are handled on the QP's CPU,
//! and never within the transmit path.
//!
//! | lock | protects | taken in | inside |
//! |---|---|---|---|
//! | `Backlog::state` | the packets that wait for a queue pair | process, softirq; softirqs off | the work queue's |

use kernel::prelude::*;
use kernel_ext::net::skb::SkBuff;
use kernel_ext::net::skb_list::SkbList;
use kernel_ext::sync::{new_spinlock_bh, SpinLockBh};

use crate::port_id::{Ingress, PortId};

/// The maximum number of packets in the backlog while the engine waits for a page fault.
const MAX_WAITING: usize = 4096;

/// The origin of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// The network. It begins with its UDP header.
    Wire(Ingress),
    /// The network, for a multicast group. The packet was validated and counted.
    Group(Ingress),
    /// This device, within a port. It begins with its IP header, and has no ICRC.
    Own(PortId),
}

const OWN: u32 = 1 << 31;
const GROUP: u32 = 1 << 30;
const SECOND: u32 = 1 << 29;
const TAGGED: u32 = 1 << 16;

impl Origin {
    fn to_cb_word(self) -> u32 {
        let port = |port| match port {
            PortId::First => 0,
            PortId::Second => SECOND,
        };
        let ingress = |at: Ingress| {
            let vlan = at.vlan_id.map_or(0, |id| TAGGED | u32::from(id));
            port(at.port) | vlan
        };
        match self {
            Self::Wire(at) => ingress(at),
            Self::Group(at) => GROUP | ingress(at),
            Self::Own(at) => OWN | port(at),
        }
    }

    fn from_cb_word(word: u32) -> Self {
        let port = match word & SECOND {
            0 => PortId::First,
            _ => PortId::Second,
        };
        let vlan_id = (word & TAGGED != 0).then_some(word as u16);
        let at = Ingress { port, vlan_id };
        match (word & OWN, word & GROUP) {
            (0, 0) => Self::Wire(at),
            (0, _) => Self::Group(at),
            _ => Self::Own(port),
        }
    }
}

/// A packet in the backlog.
pub(crate) struct Waiting {
    pub(crate) skb: SkBuff,
    pub(crate) origin: Origin,
}

/// Packets that were taken from a [`Backlog`], in their order.
pub(crate) struct Taken(SkbList);

impl Taken {
    /// No packets.
    pub(crate) const fn none() -> Self {
        Self(SkbList::new())
    }

    /// Whether there are no packets.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Iterator for Taken {
    type Item = Waiting;

    #[inline]
    fn next(&mut self) -> Option<Waiting> {
        let skb = self.0.pop_front()?;
        let origin = Origin::from_cb_word(skb.cb_word());
        Some(Waiting { skb, origin })
    }
}

/// The queue pair whose engine this thread runs next: one to whose backlog the current one has added a packet.
#[derive(Default)]
pub(crate) struct Next(Option<u32>);

impl Next {
    /// Sets the next queue pair, if none is set; returns whether it is `qpn`.
    #[inline]
    pub(crate) fn claim(&mut self, qpn: u32) -> bool {
        *self.0.get_or_insert(qpn) == qpn
    }

    /// Takes the number of the next queue pair.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<u32> {
        self.0.take()
    }
}

struct State {
    packets: SkbList,
    /// Packets in the list; a GRO buffer has several.
    count: usize,
    /// Whether packets are accepted.
    open: bool,
}

/// The backlog of a queue pair.
#[pin_data]
pub(crate) struct Backlog {
    #[pin]
    state: SpinLockBh<State>,
}

impl Backlog {
    /// An empty backlog.
    pub(crate) fn new() -> impl PinInit<Self> {
        let state = State {
            packets: SkbList::new(),
            count: 0,
            open: true,
        };
        pin_init!(Self {
            state <- new_spinlock_bh!(state, "rxe_qp::backlog"),
        })
    }

    /// Adds a packet, or several in a GRO buffer, and calls `wake` if there are no others; returns the number of packets. Those for a
    /// closed backlog are dropped. Softirq or process context.
    #[inline]
    pub(crate) fn push(&self, packet: Waiting, wake: impl FnOnce()) -> usize {
        let Waiting { mut skb, origin } = packet;
        skb.set_cb_word(origin.to_cb_word());
        let count = skb.segments();
        let mut state = self.state.lock();
        if !state.open {
            drop(state);
            drop(skb);
            return 0;
        }
        let first = state.packets.is_empty();
        state.packets.push_back(skb);
        state.count = state.count.saturating_add(count);
        if first {
            // With the lock held, so that `wake` is not called after the backlog is closed.
            wake();
        }
        state.count
    }

    /// Drops all packets if there are too many: those that wait for a fault of memory may be sent faster than it is resolved.
    #[cold]
    pub(crate) fn limit(&self) {
        let mut state = self.state.lock();
        if state.count > MAX_WAITING {
            state.count = 0;
            let packets = core::mem::take(&mut state.packets);
            drop(state);
            drop(packets);
        }
    }

    /// Calls `wake`, unless the backlog is closed.
    pub(crate) fn wake(&self, wake: impl FnOnce()) {
        let state = self.state.lock();
        if state.open {
            wake();
        }
        drop(state);
    }

    /// Takes all packets.
    #[inline]
    fn take(&self) -> Taken {
        let mut state = self.state.lock();
        state.count = 0;
        Taken(core::mem::take(&mut state.packets))
    }

    /// The oldest packet: from `taken` if that is not empty, otherwise after taking all packets of the backlog.
    #[inline]
    pub(crate) fn next(&self, taken: &mut Taken) -> Option<Waiting> {
        if taken.is_empty() {
            *taken = self.take();
        }
        taken.next()
    }

    /// Closes the backlog: drops its packets, and all that are added later.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.open = false;
        let packets = core::mem::take(&mut state.packets);
        drop(state);
        drop(packets);
    }
}
