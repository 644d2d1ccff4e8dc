// SPDX-License-Identifier: GPL-2.0

//! Messages: the tables are those of the kernel's header, and no bytes are too strange.
//!
//! concerns rows 6.031

use ib_cm_protocol::{
    field::{Data, Field, Gid, Room, TooLong, DATA_SIZE},
    messages::*,
    reject::{self, Reason},
    remote::addressee,
};
use proptest::prelude::*;

/// Written by `vectors/make` with the kernel's macros.
const HEADER: &str = include_str!("vectors/header.tsv");

/// The bytes that IBA_GET() has read there.
fn data() -> Data {
    let mut word = 1_u32;
    std::array::from_fn(|_| {
        word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (word >> 24) as u8
    })
}

fn fields(message: &str) -> &'static [(&'static str, Field)] {
    match message {
        "req" => Req::FIELDS,
        "mra" => Mra::FIELDS,
        "rej" => Rej::FIELDS,
        "rep" => Rep::FIELDS,
        "rtu" => Rtu::FIELDS,
        "dreq" => Dreq::FIELDS,
        "drep" => Drep::FIELDS,
        "lap" => Lap::FIELDS,
        "apr" => Apr::FIELDS,
        "sidr_req" => SidrReq::FIELDS,
        "sidr_rep" => SidrRep::FIELDS,
        other => panic!("{other}"),
    }
}

fn room(message: &str, field: &str) -> Room {
    match (message, field) {
        ("req", "private_data") => Req::PRIVATE_DATA,
        ("mra", "private_data") => Mra::PRIVATE_DATA,
        ("rej", "private_data") => Rej::PRIVATE_DATA,
        ("rej", "ari") => Rej::ARI,
        ("rep", "private_data") => Rep::PRIVATE_DATA,
        ("rtu", "private_data") => Rtu::PRIVATE_DATA,
        ("dreq", "private_data") => Dreq::PRIVATE_DATA,
        ("drep", "private_data") => Drep::PRIVATE_DATA,
        ("lap", "private_data") => Lap::PRIVATE_DATA,
        ("apr", "private_data") => Apr::PRIVATE_DATA,
        ("apr", "additional_information") => Apr::ADDITIONAL_INFORMATION,
        ("sidr_req", "private_data") => SidrReq::PRIVATE_DATA,
        ("sidr_rep", "private_data") => SidrRep::PRIVATE_DATA,
        ("sidr_rep", "additional_information") => SidrRep::ADDITIONAL_INFORMATION,
        other => panic!("{other:?}"),
    }
}

/// Every field of the header is in the tables, at its place; and no other one.
#[test]
fn fields_are_those_of_the_header() {
    let mut seen = std::collections::HashMap::<&str, usize>::new();
    for line in HEADER.lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        let [message, name] = columns[..2] else {
            panic!("{line}")
        };
        let listed = fields(message)
            .iter()
            .find(|field| field.0 == name)
            .map(|field| field.1);
        if let [start, size] = columns[2..] {
            let (start, size): (usize, usize) = (start.parse().unwrap(), size.parse().unwrap());
            match listed {
                Some(gid) => assert_eq!(
                    (gid.byte(), gid.bit(), gid.width()),
                    (start, 0, size as u8 * 8),
                    "{line}"
                ),
                None => assert_eq!(
                    (room(message, name).start(), room(message, name).size()),
                    (start, size),
                    "{line}"
                ),
            }
            *seen.entry(message).or_default() += usize::from(listed.is_some());
            continue;
        }
        let [got, first, bytes] = columns[2..] else {
            panic!("{line}")
        };
        let field = listed.unwrap_or_else(|| panic!("{line}"));
        assert_eq!(
            field.get(&data()),
            u64::from_str_radix(got, 16).unwrap(),
            "{line}"
        );
        let mut set = [0; DATA_SIZE];
        field.set(&mut set, u64::MAX);
        let mut expected = [0; DATA_SIZE];
        let first: usize = first.parse().unwrap();
        for (at, pair) in bytes.as_bytes().chunks(2).enumerate() {
            expected[first + at] =
                u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        }
        assert_eq!(set, expected, "{line}");
        *seen.entry(message).or_default() += 1;
    }
    assert_eq!(seen.len(), Attribute::ALL.len());
    for (message, count) in seen {
        assert_eq!(fields(message).len(), count, "{message}");
    }
}

/// Fields and rooms of a message do not overlap.
#[test]
fn fields_are_apart() {
    for line in HEADER.lines() {
        let message = line.split('\t').next().unwrap();
        let mut taken = [0_u8; DATA_SIZE];
        for (name, field) in fields(message) {
            let mut bits = [0; DATA_SIZE];
            match field.width() {
                128 => bits[field.byte()..][..16].fill(0xff),
                _ => field.set(&mut bits, u64::MAX),
            }
            for (taken, bits) in taken.iter_mut().zip(bits) {
                assert_eq!(*taken & bits, 0, "{message} {name}");
                *taken |= bits;
            }
        }
    }
}

#[test]
fn attributes() {
    for (index, attribute) in Attribute::ALL.into_iter().enumerate() {
        assert_eq!(
            (attribute.index(), usize::from(attribute.id())),
            (index, index + 0x10)
        );
        assert_eq!(Attribute::from_id(attribute.id()), Some(attribute));
    }
    assert_eq!(
        (Attribute::from_id(0xf), Attribute::from_id(0x1b)),
        (None, None)
    );
    assert_eq!(
        (
            About::from_bits(1),
            About::from_bits(2),
            About::from_bits(3)
        ),
        (Some(About::Rep), Some(About::Other), None)
    );
}

#[test]
fn rooms() {
    let mut data = [0xff; DATA_SIZE];
    assert_eq!(Rej::ARI.set(&mut data, &[1; 73]), Err(TooLong));
    assert_eq!(data, [0xff; DATA_SIZE]);
    assert_eq!(Rej::ARI.set(&mut data, &[1; 8]), Ok(()));
    assert_eq!(
        (data[11], data[12], data[19], data[20], data[83], data[84]),
        (0xff, 1, 1, 0, 0, 0xff)
    );
    assert_eq!(Rej::ARI.get(&data).len(), 72);
}

/// Numbers and texts are those of `ibcm_reject_msg()`; 0, 34 and what comes after are none.
#[test]
fn reasons() {
    let numbers: Vec<u16> = Reason::ALL.iter().map(|reason| *reason as u16).collect();
    assert_eq!(numbers, (1..34).chain([35]).collect::<Vec<_>>());
    for number in numbers {
        let reason = Reason::from_number(number).unwrap();
        assert_eq!(reason as u16, number);
        assert_eq!(reject::text(number.into()), reason.text());
    }
    assert_eq!(reject::text(10), c"stale conn");
    for none in [-1, 0, 34, 36, 65536 + 10, i32::MAX, i32::MIN] {
        assert_eq!(reject::text(none), c"unrecognized reason");
    }
}

#[test]
fn vendors_of_a_rep() {
    let mut rep = Rep::default();
    rep.set_vendor_id(0xff12_3456);
    assert_eq!(
        (
            rep.vendor_id_h,
            rep.vendor_id_m,
            rep.vendor_id_l,
            rep.vendor_id()
        ),
        (0x12, 0x34, 0x56, 0x12_3456)
    );
}

/// The alternate path of a REQ: a LID, or a GID of OmniPath.
#[test]
fn alternate_paths() {
    let mut req = Req::default();
    assert!(!req.has_alternate());
    req.primary_local_port_lid = 1;
    assert!(!req.has_alternate());
    req.alternate_local_port_lid = 1;
    assert!(req.has_alternate());
    req.alternate_local_port_lid = 0;
    req.alternate_local_port_gid = Gid([
        0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x00, 0x06, 0x6a, 1, 2, 3, 4, 5,
    ]);
    assert!(req.has_alternate());
    req.alternate_local_port_gid.0[10] = 0x6b;
    assert!(!req.has_alternate());
}

/// A path from another subnet: what its sender does not know is that of the datagram.
#[test]
fn routed_paths() {
    let told = Path {
        local_lid: PERMISSIVE,
        remote_lid: PERMISSIVE,
        sl: 1,
        ..Path::default()
    };
    let routed = Path {
        local_lid: 7,
        remote_lid: 3,
        sl: 2,
        ..told
    };
    assert_eq!(told.routed(7, 2, 3), routed);
    let local = Path {
        is_subnet_local: true,
        ..told
    };
    assert_eq!(local.routed(7, 2, 3), local);
    let known = Path {
        local_lid: 5,
        remote_lid: 6,
        ..told
    };
    assert_eq!(known.routed(7, 2, 3), known);
}

fn any_data() -> impl Strategy<Value = Data> {
    proptest::collection::vec(any::<u8>(), DATA_SIZE).prop_map(|bytes| bytes.try_into().unwrap())
}

/// Whether all of a message survives reading and writing.
macro_rules! survives {
    ($data:expr, $($message:ident)*) => { $( {
        let read = $message::read(&$data);
        let mut written = $data;
        read.write(&mut written);
        prop_assert_eq!(written, $data);
        let mut new = [0; DATA_SIZE];
        read.write(&mut new);
        prop_assert_eq!($message::read(&new), read);
    } )* };
}

proptest! {
    #[test]
    fn any_bytes_are_a_message(data in any_data()) {
        survives!(data, Req Mra Rej Rep Rtu Dreq Drep Lap Apr SidrReq SidrRep);
        for message in Attribute::ALL {
            addressee(message, &data);
        }
        let req = Req::read(&data);
        let mut copy = Req::default();
        copy.set_primary(&req.primary());
        copy.set_alternate(&req.alternate());
        prop_assert_eq!((copy.primary(), copy.alternate()), (req.primary(), req.alternate()));
        let lap = Lap::read(&data);
        let mut copy = Lap::default();
        copy.set_path(&lap.path());
        prop_assert_eq!(copy.path(), lap.path());
    }

    #[test]
    fn a_field_changes_alone(data in any_data(), value: u64, nth in 0..Req::FIELDS.len()) {
        let (_, field) = Req::FIELDS[nth];
        prop_assume!(field.width() <= 64);
        let mut changed = data;
        field.set(&mut changed, value);
        prop_assert_eq!(field.get(&changed), value & (u64::MAX >> (64 - field.width())));
        for (other, (_, field)) in Req::FIELDS.iter().enumerate() {
            prop_assert!(other == nth || field.width() > 64 || field.get(&changed) == field.get(&data));
        }
    }
}
