// SPDX-License-Identifier: GPL-2.0

//! Options of an identifier, which are set before it has an address.
//!
//! C header: `include/rdma/rdma_cm.h`.

use core::ptr::NonNull;

use kernel::{error::to_result, prelude::*};
use rdma::bindings::{self, rdma_cm_id};

/// The options of an identifier. The default is that of the connection manager.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The type of service, a differentiated services field (RFC 2474), as `IP_TOS`.
    pub service_type: Option<u8>,
    /// The ACK timeout of a connection's queue pair: 4.096 µs * 2^n, n up to 31. Connections only.
    pub ack_timeout: Option<u8>,
    /// The minimum RNR timer that a connection's queue pair asks for, a code up to 31. Connections only.
    pub min_rnr_timer: Option<u8>,
    /// Whether the address may be in use by others that have this option too.
    pub reuse_address: bool,
    /// Whether a listener on the IPv6 wildcard takes no requests by IPv4.
    pub family_only: bool,
}

impl Options {
    /// # Errors
    ///
    /// `EINVAL` for a value that is out of range, or does not suit the identifier.
    ///
    /// # Safety
    ///
    /// The identifier is valid.
    pub(crate) unsafe fn apply(&self, id: NonNull<rdma_cm_id>) -> Result {
        let id = id.as_ptr();
        // SAFETY: By the safety requirements; the functions check the values and the state.
        unsafe {
            if let Some(tos) = self.service_type {
                bindings::rdma_set_service_type(id, tos.into());
            }
            if let Some(timeout) = self.ack_timeout {
                if timeout > 31 {
                    return Err(EINVAL);
                }
                to_result(bindings::rdma_set_ack_timeout(id, timeout))?;
            }
            if let Some(timer) = self.min_rnr_timer {
                to_result(bindings::rdma_set_min_rnr_timer(id, timer))?;
            }
            if self.reuse_address {
                to_result(bindings::rdma_set_reuseaddr(id, 1))?;
            }
            if self.family_only {
                to_result(bindings::rdma_set_afonly(id, 1))?;
            }
        }
        Ok(())
    }
}
