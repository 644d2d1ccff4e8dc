// SPDX-License-Identifier: GPL-2.0

//! The texts of reasons to refuse a peer.
//!
//! C headers: `include/rdma/ib_cm.h`, `include/rdma/iw_cm.h`.

use kernel::{
    ffi::{c_char, c_int},
    prelude::*,
};
use rdma::bindings;

/// The text of a reason to refuse: that of `ib_cm` (`true`), of `iw_cm`, or of nobody.
pub fn text(by_ib: Option<bool>, reason: c_int) -> *const c_char {
    // SAFETY: The functions may be called with any reason, in any context.
    unsafe {
        match by_ib {
            Some(true) => bindings::ibcm_reject_msg(reason),
            Some(false) => bindings::iwcm_reject_msg(reason),
            None => c"unrecognized transport".as_char_ptr(),
        }
    }
}
