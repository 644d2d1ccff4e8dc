// SPDX-License-Identifier: GPL-2.0

//! The packets that wait for a queue pair: from the network, and from other queue pairs of its device.
//!
//! Whoever has a packet for a queue pair adds it here, without the queue pair's own locks, and the queue pair's work item takes
//! them all. So packets are handled on the queue pair's processor, many together, and never from within the transmit path.

use kernel::prelude::*;
use kernel_ext::net::skb::SkBuff;
use kernel_ext::net::skb_list::SkbList;
use kernel_ext::sync::{new_spinlock_bh, SpinLockBh};

/// Where a packet comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// The network. It begins with its UDP header.
    Wire {
        /// The VLAN that it came through.
        vlan_id: Option<u16>,
    },
    /// The network, for a multicast group: it was validated and counted.
    Group {
        /// The VLAN that it came through.
        vlan_id: Option<u16>,
    },
    /// This device. It begins with its IP header, and has no ICRC.
    Own,
}

const OWN: u32 = 1 << 31;
const GROUP: u32 = 1 << 30;
const TAGGED: u32 = 1 << 16;

impl Origin {
    fn to_note(self) -> u32 {
        let vlan = |id: Option<u16>| id.map_or(0, |id| TAGGED | u32::from(id));
        match self {
            Self::Wire { vlan_id } => vlan(vlan_id),
            Self::Group { vlan_id } => GROUP | vlan(vlan_id),
            Self::Own => OWN,
        }
    }

    fn from_note(note: u32) -> Self {
        let vlan_id = (note & TAGGED != 0).then_some(note as u16);
        match (note & OWN, note & GROUP) {
            (0, 0) => Self::Wire { vlan_id },
            (0, _) => Self::Group { vlan_id },
            _ => Self::Own,
        }
    }
}

/// A packet that waits.
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

    /// Whether there are none.
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
        let origin = Origin::from_note(skb.note());
        Some(Waiting { skb, origin })
    }
}

/// The queue pair that a processor handles next: one that was given a packet by the one that it handles now.
#[derive(Default)]
pub(crate) struct Next(Option<u32>);

impl Next {
    /// Makes it the queue pair with this number, if it is none yet; returns whether it did.
    #[inline]
    pub(crate) fn claim(&mut self, qpn: u32) -> bool {
        let free = self.0.is_none();
        if free {
            self.0 = Some(qpn);
        }
        free
    }

    /// Takes the number out.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<u32> {
        self.0.take()
    }
}

struct State {
    packets: SkbList,
    /// The queue pair takes packets.
    open: bool,
}

/// The packets that wait for a queue pair.
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
            open: true,
        };
        pin_init!(Self {
            state <- new_spinlock_bh!(state, "rxe_qp::backlog"),
        })
    }

    /// Adds a packet, and calls `wake` if it is the only one; returns how many there are. A packet for a closed backlog is
    /// dropped. Softirq or process context.
    #[inline]
    pub(crate) fn push(&self, packet: Waiting, wake: impl FnOnce()) -> usize {
        let Waiting { mut skb, origin } = packet;
        skb.set_note(origin.to_note());
        let mut state = self.state.lock();
        if !state.open {
            drop(state);
            drop(skb);
            return 0;
        }
        state.packets.push_back(skb);
        let len = state.packets.len();
        if len == 1 {
            // With the lock held: once it is closed, nobody is woken.
            wake();
        }
        len
    }

    /// Calls `wake`, unless it is closed.
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
        Taken(core::mem::take(&mut self.state.lock().packets))
    }

    /// The oldest packet: of those that were taken before, and else of all that wait now.
    #[inline]
    pub(crate) fn next(&self, taken: &mut Taken) -> Option<Waiting> {
        if taken.is_empty() {
            *taken = self.take();
        }
        taken.next()
    }

    /// Drops all packets, now and from now on.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.open = false;
        let packets = core::mem::take(&mut state.packets);
        drop(state);
        drop(packets);
    }
}
