// SPDX-License-Identifier: GPL-2.0

//! RoCE over a bond: the port of the bond that transmits the packets of a flow.
//!
//! The bond is queried with an skb that has the headers of the flow.
//!
//! C header: `include/rdma/lag.h`.

use kernel::{prelude::*, sync::aref::ARef, sync::rcu};
use kernel_ext::{
    bindings as c,
    gfp::Gfp,
    net::{device::NetDevice, skb::SkBuff},
};
use rdma::{
    core::{ah_attr::AhVector, gid::GidEntry, Device},
    Gid, GidType, MaySleep,
};

use crate::gid;

/// The UDP port of RoCE v2.
const ROCE_V2_PORT: u16 = 4791;

/// The UDP source port of a flow: the flow label folded into 14 bits.
fn source_port(flow_label: u32) -> u16 {
    let folded = (flow_label & 0x3fff) ^ ((flow_label >> 14) & 0x3f);
    folded as u16 | 0xc000
}

/// The network header of a UDP packet without payload.
fn network_header(source: Gid, destination: Gid, flow_label: u32) -> Result<KVec<u8>> {
    let mut bytes = KVec::with_capacity(40, GFP_ATOMIC)?;
    match (source.ipv4(), destination.ipv4()) {
        (Some(source), Some(destination)) => {
            let fixed = [0x45, 0, 0, 28, 0, 0, 0, 0, 0, c::IPPROTO_UDP as u8, 0, 0];
            bytes.extend_from_slice(&fixed, GFP_ATOMIC)?;
            bytes.extend_from_slice(&source, GFP_ATOMIC)?;
            bytes.extend_from_slice(&destination, GFP_ATOMIC)?;
        }
        _ => {
            let [_, a, b, c_] = (flow_label & 0xf_ffff).to_be_bytes();
            let fixed = [0x60, a, b, c_, 0, 8, c::IPPROTO_UDP as u8, 0];
            bytes.extend_from_slice(&fixed, GFP_ATOMIC)?;
            bytes.extend_from_slice(&source.0, GFP_ATOMIC)?;
            bytes.extend_from_slice(&destination.0, GFP_ATOMIC)?;
        }
    }
    Ok(bytes)
}

/// An skb of a flow, from the Ethernet to the UDP header.
fn packet(source: &GidEntry, vector: &AhVector, gfp: Gfp<'_>) -> Result<SkBuff> {
    let flow_label = vector.raw().grh.flow_label;
    let network = network_header(source.gid(), vector.dgid(), flow_label)?;
    let is_ipv4 = network.len() == 20;
    let ether_type: u16 = if is_ipv4 { 0x0800 } else { 0x86dd };
    let mut skb = SkBuff::alloc(0, network.len().saturating_add(14 + 8), gfp)?;
    let fields = gid::l2_fields(source)?;
    let destination = vector.dmac().ok_or(EINVAL)?;
    let parts: [&[u8]; 7] = [
        &destination,
        &fields.source,
        &ether_type.to_be_bytes(),
        &network,
        &source_port(flow_label).to_be_bytes(),
        &ROCE_V2_PORT.to_be_bytes(),
        &[0, 8, 0, 0],
    ];
    for part in parts {
        skb.put_slice(part).ok_or(ENOMEM)?;
    }
    Ok(skb)
}

/// The net device of a source entry, if it is a bond.
fn bond_of(source: &GidEntry) -> Result<Option<ARef<NetDevice>>> {
    let guard = rcu::read_lock();
    if !source.is_valid() {
        return Err(EINVAL);
    }
    let ndev = source.ndev(&guard).ok_or(ENODEV)?;
    Ok(ndev.is_bond().then(|| ndev.into()))
}

/// The port of the bond that transmits packets of an address vector. `None` if the source is not on a bond, or any port
/// may transmit. Any context; does not sleep without `sleep`.
///
/// # Errors
///
/// `EINVAL` for a deleted source entry, `ENODEV` for one without a net device, `ENOMEM`.
pub(crate) fn slave_for(
    device: &Device,
    vector: &AhVector,
    sleep: Option<&MaySleep>,
) -> Result<Option<ARef<NetDevice>>> {
    let Some(source) = vector.sgid() else {
        return Ok(None);
    };
    let raw = vector.raw();
    let is_flow = raw.type_ == c::RDMA_AH_ATTR_TYPE_ROCE
        && source.gid_type() == GidType::RoceV2
        && raw.grh.flow_label != 0;
    if !is_flow {
        return Ok(None);
    }
    let Some(bond) = bond_of(source.entry())? else {
        return Ok(None);
    };
    let gfp = sleep.map_or(Gfp::ATOMIC, Gfp::kernel);
    let skb = packet(source.entry(), vector, gfp)?;
    Ok(device.slave_of_bond(&bond, skb))
}

#[kernel::prelude::kunit_tests(ib_core_flows)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_dynamic_ones() {
        for label in 0..=0xf_ffff {
            assert!(source_port(label) >= 0xc000);
        }
        assert_eq!(source_port(0), 0xc000);
        assert_eq!(source_port(0xf_ffff), 0xffc0);
        // Excess bits of the label are ignored.
        assert_eq!(source_port(u32::MAX), source_port(0xf_ffff));
    }

    #[test]
    fn headers_are_of_the_version_of_their_addresses() -> Result {
        let v4 = Gid::from_ipv4([10, 0, 0, 1]);
        let v6 = Gid([0xfd; 16]);
        let header = network_header(v4, v4, u32::MAX)?;
        assert_eq!(header.len(), 20);
        assert_eq!(header.first(), Some(&0x45));
        let header = network_header(v6, v4, 0x1_2345)?;
        assert_eq!(header.len(), 40);
        assert_eq!(header.get(..4), Some(&[0x60, 0x01, 0x23, 0x45][..]));
        Ok(())
    }
}
