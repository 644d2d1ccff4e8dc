// SPDX-License-Identifier: GPL-2.0

//! The rule of partition membership.

use proptest::prelude::*;
use roce::pkey::Pkey;

fn admits(own: u16, other: u16) -> bool {
    Pkey::new(own).admits(Pkey::new(other))
}

#[test]
fn at_least_one_is_a_full_member() {
    assert!(admits(0xffff, 0xffff));
    assert!(admits(0xffff, 0x7fff));
    assert!(admits(0x7fff, 0xffff));
    assert!(!admits(0x7fff, 0x7fff));
    assert!(admits(0x8001, 0x0001));
    assert!(!admits(0x0001, 0x0001));
}

#[test]
fn other_partitions_and_none_are_not_admitted() {
    assert!(!admits(0xffff, 0xfffe));
    assert!(!admits(0x8001, 0x8002));
    for none in [0, 0x8000] {
        for other in [0, 0x8000, 0xffff, 0x8001] {
            assert!(!admits(none, other) && !admits(other, none));
        }
    }
}

#[test]
fn parts_of_a_key() {
    assert_eq!(Pkey::DEFAULT.get(), 0xffff);
    assert!(Pkey::DEFAULT.is_full());
    assert_eq!(Pkey::new(0x1234).partition(), Pkey::new(0x9234).partition());
    assert!(!Pkey::new(0x1234).is_full());
    assert_eq!(Pkey::NONE, Pkey::default());
}

proptest! {
    #[test]
    fn the_rule_is_symmetric_and_as_specified(a in any::<u16>(), b in any::<u16>(), same in any::<bool>()) {
        let b = if same { a & 0x7fff | b & 0x8000 } else { b };
        let wanted = a % 0x8000 == b % 0x8000 && a % 0x8000 != 0 && (a >= 0x8000 || b >= 0x8000);
        prop_assert_eq!(admits(a, b), wanted);
        prop_assert_eq!(admits(b, a), wanted);
    }
}
