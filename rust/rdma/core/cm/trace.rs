// SPDX-License-Identifier: GPL-2.0

//! Tracepoints of connections: `ib_cma:*`. Any context.
//!
//! A disabled tracepoint costs a test of its static key. The definitions are in `ibcm/ib_cma.h`, so that only `ib_cm` can use this module,
//! and all of it is inline.

use kernel::ffi::c_uint;
use rdma_bindings::{ib_cm_id, ib_wc_status};

use super::id::IdBody;
use crate::core::trace::tracepoints;

/// Declares the tracepoints that tell an identifier, and its state: `enum ib_cm_state`.
macro_rules! of_ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        tracepoints! {$(
            $(#[$doc])*
            $name(id: &IdBody => id.as_raw(), *const ib_cm_id; state: u32 => state, u32);
        )*}
    };
}

of_ids! {
    /// A REQ is sent.
    icm_send_req;
    /// A REP is sent.
    icm_send_rep;
    /// A REQ that has come again is answered.
    icm_send_dup_req;
    /// A REP that has come again is answered.
    icm_send_dup_rep;
    /// An RTU is sent.
    icm_send_rtu;
    /// A SIDR_REQ is sent.
    icm_send_sidr_req;
    /// A SIDR_REP is sent.
    icm_send_sidr_rep;
    /// A DREQ is sent.
    icm_send_dreq;
    /// A DREP is sent.
    icm_send_drep;
    /// The state has no RTU.
    icm_send_cm_rtu_err;
    /// The state does not become that of a connection by the client's word.
    icm_establish_err;
    /// Nobody listens for the service of a REQ.
    icm_no_listener_err;
    /// The state has no DREP.
    icm_send_drep_err;
    /// The state expects no DREQ.
    icm_dreq_unknown_err;
    /// The state has no REJ.
    icm_send_unknown_rej_err;
    /// The state expects no REJ.
    icm_rej_unknown_err;
    /// The state has no MRA.
    icm_prepare_mra_unknown_err;
    /// The state expects no MRA.
    icm_mra_unknown_err;
    /// The state has no attributes for INIT.
    icm_qp_init_err;
    /// The state has no attributes for RTR.
    icm_qp_rtr_err;
    /// The state has no attributes for RTS.
    icm_qp_rts_err;
    /// The state has no DREQ.
    icm_dreq_skipped;
}

tracepoints! {
    /// A REJ is sent, for this reason.
    icm_send_rej(id: &IdBody => id.as_raw(), *const ib_cm_id; state: u32 => state, u32; reason: u32 => reason, u32);
    /// A message with these two numbers first is refused, for which there is no identifier.
    icm_issue_rej(local_id: u32 => local_id, c_uint; remote_id: u32 => remote_id, c_uint);
    /// A DREQ with these numbers is answered, for which there is no identifier.
    icm_issue_drep(local_id: u32 => local_id, c_uint; remote_id: u32 => remote_id, c_uint);
    /// A DREQ with these numbers is for no identifier.
    icm_no_priv_err(local_id: u32 => local_id, c_uint; remote_id: u32 => remote_id, c_uint);
    /// The queue pair of a REP's sender is of another connection.
    icm_staleconn_err(local_id: u32 => local_id, c_uint; remote_id: u32 => remote_id, c_uint);
    /// A REP for this number is for no identifier.
    icm_remote_no_priv_err(remote_id: u32 => remote_id, u32);
    /// The sender of a REP for this number is one that is known.
    icm_insert_failed_err(remote_id: u32 => remote_id, u32);
    /// The state of the identifier with this number, in network byte order, has no REP.
    icm_send_rep_err(local_id: u32 => local_id, u32; state: u32 => state, u32);
    /// The state of an identifier expects no REP.
    icm_rep_unknown_err(local_id: u32 => local_id, c_uint; remote_id: u32 => remote_id, c_uint; state: u32 => state, u32);
    /// The message of this state was not answered, or could not be sent.
    icm_mad_send_err(state: u32 => state, u32; status: u32 => status, ib_wc_status);
}
