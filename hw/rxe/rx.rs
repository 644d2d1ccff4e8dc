// SPDX-License-Identifier: GPL-2.0

//! Receiving packets: from UDP to the destination queue pair or multicast group (IBTA volume 1, section 9.6; annex
//! A17).
//!
//! Here only the QP number of a packet from the UDP socket of a namespace is read. The packet is added to the
//! [backlog](crate::backlog) of that QP, which [validates](crate::check) it on its own processor. A packet for a multicast group
//! is validated once, and a clone of it added to the backlog of each member.

use crate::backlog::{Origin, Waiting};
use crate::buffer;
use crate::check::{accept_for_group, ignore};
use crate::device::Rxe;
use crate::ids::place;
use crate::link::Links;
use crate::port_id::Ingress;
use crate::qp::Qp;
use kernel::prelude::*;
use kernel::sync::rcu;
use kernel_ext::gfp::Gfp;
use kernel_ext::net::device::NetDevice;
use kernel_ext::net::header::UdpHeader;
use kernel_ext::net::skb::SkBuff;
use kernel_ext::net::udp_tunnel::Receive;
use roce::congestion::is_notification;
use roce::wire::{Bth, Qpn};

impl Receive for Links {
    fn receive(this: &Self, packet: SkBuff, device: &NetDevice) {
        let vlan_id = device.vlan_id();
        let found = match vlan_id {
            Some(_) => this.by_ifindex(device.index()).or_else(|| {
                device
                    .vlan_real_device()
                    .and_then(|real| this.by_ifindex(real.index()))
            }),
            None => this.by_ifindex(device.index()),
        };
        if let Some((rxe, port)) = found {
            receive(&rxe, packet, Ingress { port, vlan_id });
        }
    }

    fn takes_whole(_this: &Self, packet: &SkBuff, payload: usize) -> bool {
        packet
            .segment_size()
            .is_some_and(|size| buffer::is_for_one(packet, payload, size))
    }
}

/// Handles a packet that begins with its UDP header. Softirq context.
fn receive(rxe: &Rxe<Qp>, skb: SkBuff, at: Ingress) {
    const UDP: usize = size_of::<UdpHeader>();
    let Ok(bth) = skb.copy_array::<{ Bth::LEN }>(UDP) else {
        return;
    };
    match Bth::peek_dest_qpn(&bth) {
        Some(Qpn::MULTICAST) => receive_for_group(rxe, skb, at),
        Some(qpn) => {
            let guard = rcu::read_lock();
            if let Some(qp) = rxe.qps.get(place(qpn.get(), at.port), &guard) {
                let origin = Origin::Wire(at);
                Qp::receive(qp, Waiting { skb, origin });
            } else if is_notification(&bth, skb.len().saturating_sub(UDP)) {
                ignore(rxe, skb, at);
            }
        }
        None => {}
    }
}

fn receive_for_group(rxe: &Rxe<Qp>, skb: SkBuff, at: Ingress) {
    let Ok(whole) = skb.try_clone(Gfp::ATOMIC) else {
        return;
    };
    let Some(incoming) = accept_for_group(rxe, whole, at) else {
        return;
    };
    let groups = &rxe.port(at.port).groups;
    groups.deliver(incoming.addresses().destination_gid(), || {
        let skb = skb.try_clone(Gfp::ATOMIC).ok()?;
        let origin = Origin::Group(at);
        Some(Waiting { skb, origin })
    });
    skb.consume();
}
