// SPDX-License-Identifier: GPL-2.0

//! All states x states x types x attributes, ours against the C kernel's.

use qp_state::{ours, stock};

const STATES: u32 = 7;
const TYPES: u32 = 11;

/// The attributes that the table knows are among these bits.
const KNOWN_BITS: u32 = 21;

/// All sets of the attributes that there are.
#[test]
fn all_masks() {
    for from in 0..STATES {
        for to in 0..STATES {
            for kind in 0..TYPES {
                let differs = (0..1 << KNOWN_BITS)
                    .find(|&mask| ours(from, to, kind, mask) != stock(from, to, kind, mask));
                assert_eq!(differs, None, "{from} -> {to}, type {kind}");
            }
        }
    }
}

/// What other bits add to a set that was right: reserved ones, the rate limit, and those that have no meaning.
#[test]
fn other_bits() {
    for from in 0..STATES {
        for to in 0..STATES {
            for kind in 0..TYPES {
                let right = (0..1 << KNOWN_BITS).find(|&mask| ours(from, to, kind, mask));
                for bit in KNOWN_BITS..32 {
                    let mask = right.unwrap_or(0) | 1 << bit;
                    let (ours, stock) = (ours(from, to, kind, mask), stock(from, to, kind, mask));
                    assert_eq!(ours, stock, "{from} -> {to}, type {kind}, mask {mask:#x}");
                }
            }
        }
    }
}

/// States and types that are none are refused, or have no attributes, where C would read past its table.
#[test]
fn out_of_range() {
    for state in [7, 8, 255, u32::MAX] {
        assert!(!ours(state, 0, 2, 1));
        assert!(!ours(0, state, 2, 1));
    }
    for kind in [11, 0xff, 0x1000, u32::MAX] {
        assert!(ours(0, 1, kind, 1));
        assert!(!ours(0, 1, kind, 1 | 1 << 5));
    }
}
