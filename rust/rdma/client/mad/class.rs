// SPDX-License-Identifier: GPL-2.0

//! The headers of MADs, which depend on the management class.
//!
//! C header: `include/rdma/ib_mad.h`.

use rdma_bindings::{self as bindings, ib_mad_hdr};

/// The length of the common MAD header in bytes: `IB_MGMT_MAD_HDR`.
pub const HEADER: usize = bindings::IB_MGMT_MAD_HDR as usize;

/// The length of the common MAD header and the RMPP header in bytes: `IB_MGMT_RMPP_HDR`.
pub const RMPP_HEADER: usize = bindings::IB_MGMT_RMPP_HDR as usize;

/// The number of bytes before the data in a MAD of a management class. It is at least [`HEADER`].
pub fn data_offset(class: u8) -> usize {
    // SAFETY: The function looks at the number alone.
    let offset = unsafe { bindings::ib_get_mad_data_offset(class) };
    usize::try_from(offset).map_or(HEADER, |offset| offset.max(HEADER))
}

/// Whether MADs of a management class have an RMPP header.
pub fn has_rmpp(class: u8) -> bool {
    // SAFETY: The function looks at the number alone.
    unsafe { bindings::ib_is_mad_class_rmpp(class) != 0 }
}

/// Whether a MAD with this header answers another one: a response, or the repression of a trap.
pub fn is_response(header: &[u8; HEADER]) -> bool {
    const { assert!(size_of::<ib_mad_hdr>() == HEADER) };
    // SAFETY: The structure has the length of the header, and consists of numbers.
    unsafe {
        let header: ib_mad_hdr = header.as_ptr().cast::<ib_mad_hdr>().read_unaligned();
        bindings::ib_response_mad(&header) != 0
    }
}
