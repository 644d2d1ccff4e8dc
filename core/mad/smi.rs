// SPDX-License-Identifier: GPL-2.0

//! The subnet management interface (SMI): hop pointer and next hop of directed-route SMPs.
//!
//! A directed route is a list of ports: the initial path, and the return path back. The hop pointer is the position of
//! the packet. The parts before and after it may be routed by LID; without such a part, the LID is permissive.
//!
//! IBTA specification, volume 1, section 14.2.2: C14-6, C14-9 for requests, C14-13 for responses.

/// Limit of the hop count.
const MAX_HOPS: u8 = 64;

/// Offset of the direction bit: in the status.
const DIRECTION_AT: usize = 4;
const DIRECTION: u8 = 0x80;
pub(super) const HOP_POINTER_AT: usize = 6;
const HOP_COUNT_AT: usize = 7;

/// Offsets of the route's fields in an SMP.
pub(super) struct Layout {
    /// The source and destination LID (DrSLID, DrDLID), of `lid_bytes` bytes.
    slid: usize,
    dlid: usize,
    lid_bytes: usize,
    initial_path: usize,
    return_path: usize,
}

/// InfiniBand (figure 165 of the specification).
pub(super) const IB: Layout = Layout {
    slid: 32,
    dlid: 34,
    lid_bytes: 2,
    initial_path: 128,
    return_path: 192,
};

/// Omni-Path: `include/rdma/opa_smi.h`.
pub(super) const OPA: Layout = Layout {
    slid: 32,
    dlid: 36,
    lid_bytes: 4,
    initial_path: 40,
    return_path: 104,
};

/// What to do with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Discard,
    Handle,
}

/// Next hop of a received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forward {
    /// The subnet management agent of this node.
    Local,
    /// It is sent on by LID.
    Send,
    /// It is forwarded on the directed route, through a switch.
    Onward,
}

/// The node that handles a packet.
#[derive(Clone, Copy)]
pub(super) struct Node {
    pub(super) is_switch: bool,
    pub(super) port: u32,
    /// Number of its ports.
    pub(super) ports: u32,
}

/// A directed-route SMP.
pub(super) struct Smp<'a> {
    bytes: &'a mut [u8],
    layout: &'static Layout,
}

fn handle_if(condition: bool) -> Action {
    match condition {
        true => Action::Handle,
        false => Action::Discard,
    }
}

impl<'a> Smp<'a> {
    /// The SMP in a buffer.
    pub(super) fn new(bytes: &'a mut [u8], layout: &'static Layout) -> Self {
        Self { bytes, layout }
    }

    fn byte(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(0)
    }

    /// Whether the packet is a response, on the return path.
    pub(super) fn is_returning(&self) -> bool {
        self.byte(DIRECTION_AT) & DIRECTION != 0
    }

    /// The hop pointer.
    pub(super) fn hop_pointer(&self) -> u8 {
        self.byte(HOP_POINTER_AT)
    }

    fn hop_count(&self) -> u8 {
        self.byte(HOP_COUNT_AT)
    }

    fn set_hop_pointer(&mut self, pointer: u8) {
        if let Some(place) = self.bytes.get_mut(HOP_POINTER_AT) {
            *place = pointer;
        }
    }

    fn lid(&self, at: usize) -> &[u8] {
        let end = at.saturating_add(self.layout.lid_bytes);
        self.bytes.get(at..end).unwrap_or(&[])
    }

    fn is_permissive(&self, at: usize) -> bool {
        self.lid(at).iter().all(|&byte| byte == 0xff)
    }

    /// Whether the destination LID is permissive: no LID-routed part follows.
    fn ends_here(&self) -> bool {
        self.is_permissive(self.layout.dlid)
    }

    /// Whether the source LID is permissive: no LID-routed part precedes.
    fn begins_here(&self) -> bool {
        self.is_permissive(self.layout.slid)
    }

    /// Whether no LID-routed part precedes the directed route, in the packet's direction.
    pub(super) fn is_at_its_end(&self) -> bool {
        match self.is_returning() {
            true => self.ends_here(),
            false => self.begins_here(),
        }
    }

    /// The source LID.
    pub(super) fn slid(&self) -> u32 {
        let number = |number: u32, &byte: &u8| number << 8 | u32::from(byte);
        self.lid(self.layout.slid).iter().fold(0, number)
    }

    fn initial(&self, hop: u8) -> u32 {
        self.byte(self.layout.initial_path.saturating_add(hop.into()))
            .into()
    }

    fn back(&self, hop: u8) -> u32 {
        self.byte(self.layout.return_path.saturating_add(hop.into()))
            .into()
    }

    /// Updates the hop pointer of a packet that a port is about to send.
    pub(super) fn prepare_send(&mut self, node: Node) -> Action {
        let (pointer, count) = (self.hop_pointer(), self.hop_count());
        // C14-6
        if count >= MAX_HOPS {
            return Action::Discard;
        }
        if self.is_returning() {
            return self.prepare_return(node, pointer, count);
        }
        let next = pointer.wrapping_add(1);
        // C14-9:1, C14-9:2: from the second hop on only switches forward, by the port in the path.
        if count != 0 && pointer < count {
            if pointer != 0 && !node.is_switch {
                return Action::Discard;
            }
            self.set_hop_pointer(next);
            return handle_if(self.initial(next) == node.port);
        }
        // C14-9:3: the end of the route.
        if pointer == count {
            self.set_hop_pointer(next);
            return handle_if(node.is_switch || self.ends_here());
        }
        // C14-9:4, C14-9:5
        handle_if(pointer == count.wrapping_add(1))
    }

    fn prepare_return(&mut self, node: Node, pointer: u8, count: u8) -> Action {
        let next = pointer.wrapping_sub(1);
        // C14-13:1, C14-13:2
        let begins = count != 0 && pointer == count.wrapping_add(1);
        if begins || (2..=count).contains(&pointer) {
            if !begins && !node.is_switch {
                return Action::Discard;
            }
            self.set_hop_pointer(next);
            return handle_if(self.back(next) == node.port);
        }
        match pointer {
            // C14-13:3: the end of the route.
            1 => {
                self.set_hop_pointer(next);
                handle_if(node.is_switch || self.begins_here())
            }
            // C14-13:4
            0 => Action::Handle,
            // C14-13:5
            _ => Action::Discard,
        }
    }

    /// Checks a received packet, and records the port in the return path.
    pub(super) fn take_received(&mut self, node: Node) -> Action {
        let (pointer, count) = (self.hop_pointer(), self.hop_count());
        // C14-6
        if count >= MAX_HOPS {
            return Action::Discard;
        }
        if self.is_returning() {
            return self.take_returning(node, pointer, count);
        }
        // C14-9:1: the sender has incremented the hop pointer.
        if count != 0 && pointer == 0 {
            return Action::Discard;
        }
        // C14-9:2: an intermediate hop.
        if pointer != 0 && pointer < count {
            if !node.is_switch {
                return Action::Discard;
            }
            self.note_port(node, pointer);
            return handle_if(self.initial(pointer.wrapping_add(1)) <= node.ports);
        }
        // C14-9:3: the end of the route.
        if pointer == count {
            if count != 0 {
                self.note_port(node, pointer);
            }
            return handle_if(node.is_switch || self.ends_here());
        }
        // C14-9:4, C14-9:5
        handle_if(pointer == count.wrapping_add(1))
    }

    fn note_port(&mut self, node: Node, pointer: u8) {
        let at = self.layout.return_path.saturating_add(pointer.into());
        if let Some(place) = self.bytes.get_mut(at) {
            // Ports have 8 bits in a route.
            *place = node.port as u8;
        }
    }

    fn take_returning(&mut self, node: Node, pointer: u8, count: u8) -> Action {
        let next = pointer.wrapping_sub(1);
        // C14-13:1
        if count != 0 && pointer == count.wrapping_add(1) {
            self.set_hop_pointer(next);
            return handle_if(self.back(next) == node.port);
        }
        // C14-13:2: an intermediate hop.
        if (2..=count).contains(&pointer) {
            return handle_if(node.is_switch && self.back(next) <= node.ports);
        }
        match pointer {
            // C14-13:3: the end of the route; the packet is for the subnet manager, or is sent on by LID.
            1 if self.begins_here() => {
                self.set_hop_pointer(next);
                Action::Handle
            }
            1 => handle_if(node.is_switch),
            // C14-13:4, C14-13:5
            _ => handle_if(pointer == 0),
        }
    }

    /// The next hop of a received packet.
    pub(super) fn forward(&self) -> Forward {
        let (pointer, count) = (self.hop_pointer(), self.hop_count());
        if self.is_returning() {
            return match pointer {
                // C14-13:2
                2.. if pointer <= count => Forward::Onward,
                // C14-13:3
                1 if !self.begins_here() => Forward::Send,
                _ => Forward::Local,
            };
        }
        // C14-9:2
        if pointer != 0 && pointer < count {
            return Forward::Onward;
        }
        // C14-9:3, C14-9:4
        let is_last = pointer == count && self.ends_here();
        match is_last || pointer == count.wrapping_add(1) {
            true => Forward::Send,
            false => Forward::Local,
        }
    }

    /// The egress port of the packet.
    pub(super) fn forward_port(&self) -> u32 {
        let pointer = self.hop_pointer();
        match self.is_returning() {
            true => self.back(pointer.wrapping_sub(1)),
            false => self.initial(pointer.wrapping_add(1)),
        }
    }

    /// Whether a request is for this node (C14-9:3, C14-9:4).
    pub(super) fn is_for_here(&self) -> bool {
        !self.is_returning() && self.hop_pointer() == self.hop_count().wrapping_add(1)
    }

    /// Whether a response is for this node (C14-13:3, C14-13:4).
    pub(super) fn has_returned(&self) -> bool {
        self.is_returning() && self.hop_pointer() == 0
    }
}

#[kernel::prelude::kunit_tests(ib_core_smi)]
mod tests {
    use super::*;

    const HOST: Node = Node {
        is_switch: false,
        port: 1,
        ports: 2,
    };
    const SWITCH: Node = Node {
        is_switch: true,
        port: 1,
        ports: 2,
    };

    /// An SMP with port 1 at each hop and permissive LIDs.
    fn smp(returning: bool, pointer: u8, count: u8) -> [u8; 256] {
        let mut bytes = [0; 256];
        bytes[DIRECTION_AT] = if returning { DIRECTION } else { 0 };
        bytes[HOP_POINTER_AT] = pointer;
        bytes[HOP_COUNT_AT] = count;
        bytes[32..36].fill(0xff);
        bytes[128..].fill(1);
        bytes
    }

    fn sent(node: Node, returning: bool, pointer: u8, count: u8) -> (Action, u8) {
        let mut bytes = smp(returning, pointer, count);
        let action = Smp::new(&mut bytes, &IB).prepare_send(node);
        (action, bytes[HOP_POINTER_AT])
    }

    fn received(node: Node, returning: bool, pointer: u8, count: u8) -> (Action, u8) {
        let mut bytes = smp(returning, pointer, count);
        let action = Smp::new(&mut bytes, &IB).take_received(node);
        (action, bytes[HOP_POINTER_AT])
    }

    #[test]
    fn a_request_moves_forward_when_it_is_sent() {
        assert_eq!(sent(HOST, false, 0, 2), (Action::Handle, 1));
        assert_eq!(sent(HOST, false, 1, 2), (Action::Discard, 1));
        assert_eq!(sent(SWITCH, false, 1, 2), (Action::Handle, 2));
        assert_eq!(sent(HOST, false, 0, 0), (Action::Handle, 1));
        assert_eq!(sent(HOST, false, 3, 2), (Action::Handle, 3));
        assert_eq!(sent(HOST, false, 4, 2), (Action::Discard, 4));
        assert_eq!(sent(HOST, false, 0, MAX_HOPS).0, Action::Discard);
    }

    #[test]
    fn a_response_moves_back_when_it_is_sent() {
        assert_eq!(sent(HOST, true, 3, 2), (Action::Handle, 2));
        assert_eq!(sent(HOST, true, 2, 2), (Action::Discard, 2));
        assert_eq!(sent(SWITCH, true, 2, 2), (Action::Handle, 1));
        assert_eq!(sent(HOST, true, 1, 2), (Action::Handle, 0));
        assert_eq!(sent(HOST, true, 0, 2), (Action::Handle, 0));
        assert_eq!(sent(HOST, true, 9, 2), (Action::Discard, 9));
    }

    #[test]
    fn a_receiver_takes_what_the_sender_has_moved() {
        assert_eq!(received(HOST, false, 0, 2).0, Action::Discard);
        assert_eq!(received(HOST, false, 1, 2).0, Action::Discard);
        assert_eq!(received(SWITCH, false, 1, 2).0, Action::Handle);
        assert_eq!(received(HOST, false, 2, 2), (Action::Handle, 2));
        assert_eq!(received(HOST, false, 3, 2).0, Action::Handle);
        assert_eq!(received(HOST, false, 4, 2).0, Action::Discard);
        assert_eq!(received(HOST, true, 1, 2), (Action::Handle, 0));
        assert_eq!(received(HOST, true, 0, 2).0, Action::Handle);
        assert_eq!(received(HOST, true, 2, 2).0, Action::Discard);
        assert_eq!(received(HOST, true, 9, 2).0, Action::Discard);
    }

    #[test]
    fn every_pointer_and_count_leaves_the_bytes_alone_but_for_the_route() {
        for pointer in 0..=u8::MAX {
            for count in 0..=u8::MAX {
                for returning in [false, true] {
                    let mut bytes = smp(returning, pointer, count);
                    let before = bytes;
                    let mut smp = Smp::new(&mut bytes, &IB);
                    let _ = smp.take_received(SWITCH);
                    let _ = (smp.forward(), smp.forward_port(), smp.prepare_send(SWITCH));
                    assert_eq!(bytes[HOP_COUNT_AT..128], before[HOP_COUNT_AT..128]);
                    assert_eq!(bytes[..HOP_POINTER_AT], before[..HOP_POINTER_AT]);
                }
            }
        }
    }
}
