// SPDX-License-Identifier: GPL-2.0

//! Queries for MCMemberRecords, which join and leave a multicast group (IBTA specification, volume 1, section
//! 15.2.5.17), and the comparison of a group with a member's request.

use kernel::{prelude::*, sync::Arc};
use kernel_ext::bindings::{self as c, ib_sa_mcmember_rec};
use rdma::{
    core::mad::{recv::RecvMad, send::SendFlags},
    Gid,
};

use super::{
    query::{self, attribute, record_of, SaRequest, SA_DATA},
    record::MCMEMBER,
    state::{self, QueryHandler},
};
use rdma::core::Device;

/// Length of a packed MCMemberRecord, in bytes.
const MEMBER_BYTES: usize = 52;

/// Bits of the record's component mask.
pub(super) mod bit {
    pub(in super::super) const MGID: u32 = 0;
    pub(in super::super) const PORT_GID: u32 = 1;
    pub(super) const QKEY: u32 = 2;
    pub(super) const MLID: u32 = 3;
    pub(super) const MTU_SELECTOR: u32 = 4;
    pub(super) const MTU: u32 = 5;
    pub(super) const TRAFFIC_CLASS: u32 = 6;
    pub(super) const PKEY: u32 = 7;
    pub(super) const RATE_SELECTOR: u32 = 8;
    pub(super) const RATE: u32 = 9;
    pub(super) const LIFE_TIME_SELECTOR: u32 = 10;
    pub(super) const LIFE_TIME: u32 = 11;
    pub(super) const SL: u32 = 12;
    pub(super) const FLOW_LABEL: u32 = 13;
    pub(super) const HOP_LIMIT: u32 = 14;
    pub(super) const SCOPE: u32 = 15;
    pub(in super::super) const JOIN_STATE: u32 = 16;
}

/// A component mask (big endian) with these bits.
pub(super) fn mask_of(bits: &[u32]) -> u64 {
    bits.iter().fold(0u64, |mask, bit| mask | 1 << bit).to_be()
}

/// The record in a response.
pub(super) fn record(answer: &RecvMad) -> ib_sa_mcmember_rec {
    let mut record: ib_sa_mcmember_rec = pin_init::zeroed();
    // The buffer has the record's length.
    let _ = MCMEMBER.unpack(&mut record_of::<MEMBER_BYTES>(answer), &mut record);
    record
}

/// Sends a query for a membership with a method.
///
/// # Errors
///
/// As for `ib_sa_path_rec_get`.
pub(super) fn query(
    (device, port_num): (&Device, u32),
    how: u8,
    (member, mask): (&ib_sa_mcmember_rec, u64),
    timeout_ms: usize,
    handler: KBox<dyn QueryHandler>,
    flags: &SendFlags<'_>,
) -> Result {
    let mut packed = [0; SA_DATA];
    MCMEMBER.pack(member, &mut packed)?;
    let request = SaRequest {
        port: state::find_port(device, port_num).ok_or(ENODEV)?,
        is_opa: false,
        method: how,
        attribute: attribute::MC_MEMBER,
        mask,
        record: &packed,
        timeout_ms,
        handler,
    };
    let query: Arc<_> = query::new(request, flags)?;
    query::send(&query)
}

/// Whether a value matches the requested one by its selector.
fn is_selected(selector: u8, value: u8, wanted: u8) -> bool {
    match u32::from(selector) {
        c::IB_SA_GT => value > wanted,
        c::IB_SA_LT => value < wanted,
        c::IB_SA_EQ => value == wanted,
        _ => true,
    }
}

/// Whether a group matches a member's request in the components of its mask. The group's GID is the same.
pub(super) fn matches(group: &ib_sa_mcmember_rec, wanted: &ib_sa_mcmember_rec, mask: u64) -> bool {
    let mask = u64::from_be(mask);
    let has = |bit: u32| mask >> bit & 1 != 0;
    let same = [
        (bit::PORT_GID, gid(&group.port_gid) == gid(&wanted.port_gid)),
        (bit::QKEY, group.qkey == wanted.qkey),
        (bit::MLID, group.mlid == wanted.mlid),
        (
            bit::TRAFFIC_CLASS,
            group.traffic_class == wanted.traffic_class,
        ),
        (bit::PKEY, group.pkey == wanted.pkey),
        (bit::SL, group.sl == wanted.sl),
        (bit::FLOW_LABEL, group.flow_label == wanted.flow_label),
        (bit::HOP_LIMIT, group.hop_limit == wanted.hop_limit),
        (bit::SCOPE, group.scope == wanted.scope),
    ];
    let selected = [
        (
            (bit::MTU_SELECTOR, bit::MTU),
            is_selected(wanted.mtu_selector, group.mtu, wanted.mtu),
        ),
        (
            (bit::RATE_SELECTOR, bit::RATE),
            is_selected(wanted.rate_selector, group.rate, wanted.rate),
        ),
        (
            (bit::LIFE_TIME_SELECTOR, bit::LIFE_TIME),
            is_selected(
                wanted.packet_life_time_selector,
                group.packet_life_time,
                wanted.packet_life_time,
            ),
        ),
    ];
    same.iter().all(|&(bit, same)| same || !has(bit))
        && selected
            .iter()
            .all(|&((selector, value), fits)| fits || !has(selector) || !has(value))
}

/// Converts a GID from C.
pub(super) fn gid(raw: &c::ib_gid) -> Gid {
    Gid::from_raw(raw)
}

#[kernel::prelude::kunit_tests(ib_core_mcmember)]
mod tests {
    use super::*;

    fn group() -> ib_sa_mcmember_rec {
        let mut group: ib_sa_mcmember_rec = pin_init::zeroed();
        group.qkey = 1;
        group.mtu = 4;
        group.rate = 7;
        group
    }

    #[test]
    fn only_what_the_mask_has_must_be_the_same() {
        let mut wanted = group();
        wanted.qkey = 2;
        assert!(matches(&group(), &wanted, 0));
        assert!(matches(&group(), &wanted, mask_of(&[bit::MLID, bit::SL])));
        assert!(!matches(&group(), &wanted, mask_of(&[bit::QKEY])));
    }

    #[test]
    fn a_selector_and_its_value_count_together() {
        let mut wanted = group();
        wanted.mtu_selector = c::IB_SA_GT as u8;
        assert!(matches(&group(), &wanted, mask_of(&[bit::MTU])));
        assert!(matches(&group(), &wanted, mask_of(&[bit::MTU_SELECTOR])));
        let both = mask_of(&[bit::MTU, bit::MTU_SELECTOR]);
        assert!(!matches(&group(), &wanted, both));
        wanted.mtu = 3;
        assert!(matches(&group(), &wanted, both));
        wanted.mtu_selector = c::IB_SA_LT as u8;
        assert!(!matches(&group(), &wanted, both));
        wanted.mtu_selector = c::IB_SA_EQ as u8;
        assert!(!matches(&group(), &wanted, both));
        wanted.mtu = 4;
        assert!(matches(&group(), &wanted, both));
    }
}
