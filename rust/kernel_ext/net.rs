// SPDX-License-Identifier: GPL-2.0

//! The network stack: net devices, namespaces, packets, routes, UDP tunnel sockets. Each file names its C header.

pub mod address;
pub mod chain;
pub mod device;
pub mod header;
pub mod netlink;
pub mod notifier;
pub mod ns;
pub mod packet_pages;
pub mod resolve;
pub mod route;
pub mod segments;
pub mod skb;
pub mod skb_list;
mod socket;
pub mod udp_tunnel;
pub mod upper;
pub mod xmit;
