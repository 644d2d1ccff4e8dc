// SPDX-License-Identifier: GPL-2.0

//! Properties of headers, ports and listeners, for addresses at random.

use cm_rules::address::{Address, Family, Ib, Ip4, Ip6};
use cm_rules::binding::{default_family_only, Ephemeral, Owner};
use cm_rules::listener::Listener;
use cm_rules::path::{flow_label, mtu};
use cm_rules::port_space::{port_of, service_id, PortSpace};
use cm_rules::private_data::{self, Header, Parsed, HEADER_SIZE};
use proptest::prelude::*;

/// Few addresses, so that some are the same.
fn ip() -> impl Strategy<Value = Address> {
    let v4 = prop::sample::select(vec![
        [0, 0, 0, 0],
        [127, 0, 0, 1],
        [10, 0, 0, 1],
        [10, 0, 0, 2],
    ]);
    let v6 = prop::sample::select(vec![
        0u128,
        1,
        (0xfe80 << 112) | 1,
        (0xfd00 << 112) | 1,
        (0xfd00 << 112) | 2,
    ]);
    prop_oneof![
        (v4, any::<u16>()).prop_map(|(addr, port)| Address::Ip4(Ip4 { addr, port })),
        (v6, any::<u16>(), 0u32..2).prop_map(|(addr, port, scope_id)| Address::Ip6(Ip6 {
            addr: addr.to_be_bytes(),
            port,
            flow_info: 0,
            scope_id,
        })),
    ]
}

fn address() -> impl Strategy<Value = Address> {
    let ib = (any::<[u8; 16]>(), any::<u64>(), any::<u64>());
    prop_oneof![
        3 => ip(),
        1 => ib.prop_map(|(addr, sid, sid_mask)| Address::Ib(Ib {
            addr,
            pkey: 0xffff,
            flow_info: 0,
            sid,
            sid_mask,
            scope_id: 0,
        })),
    ]
}

fn owner() -> impl Strategy<Value = Owner> {
    (ip(), any::<bool>(), any::<bool>()).prop_map(|(src, reuse, v6_only)| Owner {
        src,
        dst: Address::any(src.family()),
        reuse,
        family_only: default_family_only(src.family(), v6_only),
    })
}

proptest! {
    #[test]
    fn headers_say_what_was_written(src in ip(), dst in ip(), port: u16) {
        prop_assume!(src.family() == dst.family());
        let header = Header::new(&src, &dst).unwrap();
        let Ok(Parsed::Ip(read)) = Header::parse(&header.to_bytes()) else { panic!() };
        prop_assert_eq!(read, header);
        let ends = read.ends(port);
        prop_assert_eq!(ends.local.ip(), dst.ip());
        prop_assert_eq!((ends.remote.ip(), ends.remote.port()), (src.ip(), src.port()));
        prop_assert_eq!(ends.local.port(), port);
    }

    #[test]
    fn bytes_at_random_are_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        match Header::parse(&bytes) {
            Ok(Parsed::Ip(header)) => {
                // The low half of the second byte means nothing.
                let mut same = header.to_bytes();
                same[1] |= bytes[1] & 0x0f;
                if bytes[1] >> 4 == 6 {
                    prop_assert_eq!(&same[..], &bytes[..HEADER_SIZE]);
                }
            }
            Ok(Parsed::NotIp) => prop_assert!(bytes[1] >> 4 != 4 && bytes[1] >> 4 != 6),
            Err(_) => prop_assert!(bytes.len() < HEADER_SIZE || bytes[0] != 0),
        }
    }

    #[test]
    fn writing_touches_the_header_alone(src in address(), dst in address(), mut bytes in prop::collection::vec(any::<u8>(), 0..92)) {
        let before = bytes.clone();
        private_data::write(&mut bytes, &src, &dst);
        let written = if Header::new(&src, &dst).is_some() { HEADER_SIZE } else { 1 };
        prop_assert_eq!(bytes.iter().skip(written).collect::<Vec<_>>(), before.iter().skip(written).collect::<Vec<_>>());
    }

    #[test]
    fn sharing_is_mutual(a in owner(), b in owner()) {
        prop_assert_eq!(a.may_share_with(&b), b.may_share_with(&a));
        prop_assert_eq!(a.differs_from(&b), b.differs_from(&a));
    }

    #[test]
    fn no_request_is_for_two_listeners(a in owner(), b in owner(), to in ip()) {
        prop_assume!(a.may_listen_beside(&b).is_ok());
        // A header has no scope: which of two links is meant, the net device says.
        prop_assume!(!(a.src.is_link_local() && b.src.is_link_local()));
        let header = Parsed::Ip(Header::new(&to, &to).unwrap());
        let takes = |owner: &Owner| Listener { address: owner.src, family_only: owner.family_only }.takes(&header);
        prop_assert!(!(takes(&a) && takes(&b)));
    }

    #[test]
    fn a_listener_takes_its_own_address(a in owner()) {
        let header = Parsed::Ip(Header::new(&a.src, &a.src).unwrap());
        let listener = Listener { address: a.src, family_only: a.family_only };
        prop_assert!(listener.takes(&header));
    }

    #[test]
    fn a_bound_address_has_the_port_and_a_whole_service_id(space in 0..4usize, address in address(), port: u16) {
        let raw = PortSpace::ALL[space] as u32;
        let Ok((chosen, selected)) = PortSpace::select(raw, address) else {
            prop_assert_eq!(address.family(), Family::Ib);
            return Ok(());
        };
        prop_assert_eq!(selected.port(), address.port());
        // A port that is named stays; otherwise one is chosen.
        let port = if selected.port() == 0 { port } else { selected.port() };
        let bound = selected.with_port(port);
        prop_assert_eq!(bound.port(), port);
        let id = service_id(raw, &bound);
        prop_assert_eq!(port_of(id), port);
        prop_assert_eq!(PortSpace::from_service_id(id), Some(chosen));
    }

    #[test]
    fn ephemeral_ports_are_of_the_range_once_each(low: u16, size in 0u16..300, random: u32, last: u16) {
        let high = low.saturating_add(size);
        let mut tried: Vec<u16> = Ephemeral::new(low, high, random, Some(last)).collect();
        tried.sort_unstable();
        let wanted: Vec<u16> = (low..=high).filter(|port| *port != last).collect();
        prop_assert_eq!(tried, wanted);
    }

    #[test]
    fn a_packet_fits_its_net_device(device: u32) {
        if let Some(code) = mtu(device) {
            prop_assert!((128u32 << code) + 96 <= device);
            prop_assert!(code == 5 || (256u32 << code) + 96 > device);
        }
    }

    #[test]
    fn flow_labels_have_20_bits(src in address(), dst in address()) {
        prop_assert!(flow_label(&src, &dst) < 1 << 20);
    }
}
