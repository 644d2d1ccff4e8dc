// SPDX-License-Identifier: GPL-2.0

//! Packing and unpacking of structures, by field tables of drivers and clients.
//!
//! C header: `include/rdma/ib_pack.h`.

use kernel::{
    ffi::{c_int, c_void},
    prelude::*,
};
use kernel_ext::{bindings::ib_field, export::export};
use rdma::abi::pack::{pack_field, unpack_field, Field};

/// The fields of a C table. Invalid ones are skipped.
///
/// # Safety
///
/// `table` points to `len` entries, which are valid and constant for `'a`.
unsafe fn fields<'a>(
    table: *const ib_field,
    len: c_int,
) -> impl Iterator<Item = Field> + Clone + 'a {
    let len = usize::try_from(len).unwrap_or(0);
    let raw: &'a [ib_field] = match len {
        0 => &[],
        // SAFETY: By the safety requirements.
        _ => unsafe { core::slice::from_raw_parts(table, len) },
    };
    raw.iter().filter_map(|raw| {
        let field = Field::from_c(raw);
        if field.is_none() {
            pr_warn!("a field of {} bits cannot be packed\n", raw.size_bits);
        }
        field
    })
}

/// The buffer for a table's fields.
///
/// # Safety
///
/// `packed` points to a buffer that has all fields, and only the result accesses it for `'a`.
unsafe fn packed<'a>(fields: impl Iterator<Item = Field>, packed: *mut c_void) -> &'a mut [u8] {
    match fields.map(|field| field.end()).max() {
        // SAFETY: By the safety requirements.
        Some(len) => unsafe { core::slice::from_raw_parts_mut(packed.cast(), len) },
        None => &mut [],
    }
}

/// Packs the members of a structure by a table of fields; reserved fields are zeroed, bits outside of fields are left
/// unchanged. Any context.
///
/// # Safety
///
/// `desc` points to `desc_len` fields, `structure` to a structure with their members, and `buf` to a buffer with room
/// for them.
#[export]
unsafe extern "C" fn ib_pack(
    desc: *const ib_field,
    desc_len: c_int,
    structure: *mut c_void,
    buf: *mut c_void,
) {
    // SAFETY: By the safety requirements; invalid fields are skipped.
    unsafe {
        let fields = fields(desc, desc_len);
        let packed = packed(fields.clone(), buf);
        for field in fields {
            pack_field(&field, structure.cast(), packed);
        }
    }
}

/// Unpacks the members of a structure by a table of fields. Any context.
///
/// # Safety
///
/// As for `ib_pack`.
#[export]
unsafe extern "C" fn ib_unpack(
    desc: *const ib_field,
    desc_len: c_int,
    buf: *mut c_void,
    structure: *mut c_void,
) {
    // SAFETY: By the safety requirements; invalid fields are skipped.
    unsafe {
        let fields = fields(desc, desc_len);
        let packed = packed(fields.clone(), buf);
        for field in fields {
            unpack_field(&field, packed, structure.cast());
        }
    }
}
