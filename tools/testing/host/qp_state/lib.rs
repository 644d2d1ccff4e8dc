// SPDX-License-Identifier: GPL-2.0

//! The core's table of queue pair states, as `core/verbs/qp_state.rs` has it.

#[path = "../../../../core/verbs/qp_state.rs"]
mod table;

/// Whether a queue pair of a type may go from a state to another one, with a set of attributes: as our core says.
pub fn ours(from: u32, to: u32, kind: u32, mask: u32) -> bool {
    table::is_ok(from, to, kind, mask)
}

extern "C" {
    fn stock_is_ok(from: u32, to: u32, kind: u32, mask: u32) -> bool;
}

/// As [`ours`]; as the C kernel says. States and types must be in its table.
pub fn stock(from: u32, to: u32, kind: u32, mask: u32) -> bool {
    assert!(
        from < 7 && to < 7 && kind < 11,
        "the C table has no such entry"
    );
    // SAFETY: The indices are within the table.
    unsafe { stock_is_ok(from, to, kind, mask) }
}
