// SPDX-License-Identifier: GPL-2.0

//! Tracepoints of the RDMA connection manager: `rdma_cma:*`. Any context.
//!
//! A disabled tracepoint costs a test of its static key. The definitions are in `rdmacm/rdma_cma.h`, so that only `rdma_cm` can use this
//! module, and all of it is inline.

use kernel::{error::Error, ffi::c_int};
use rdma_bindings::{ib_device, ib_pd, ib_qp_init_attr, rdma_cm_event, rdma_id_private};

use super::{event::Event, id::IdBody};
use crate::core::{qp::QpInitMut, trace::tracepoints, Device, Pd};

/// Declares the tracepoints that tell an identifier alone.
macro_rules! of_ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        tracepoints! {$(
            $(#[$doc])*
            $name(id: &IdBody => id.as_raw(), *const rdma_id_private);
        )*}
    };
}

of_ids! {
    /// `ib_cm` is asked to send a REQ.
    cm_send_req;
    /// `ib_cm` is asked to send a REP.
    cm_send_rep;
    /// `ib_cm` is asked to send an RTU.
    cm_send_rtu;
    /// `ib_cm` is asked to send a REJ.
    cm_send_rej;
    /// `ib_cm` is told that the client takes its time.
    cm_prepare_mra;
    /// `ib_cm` is asked to send a SIDR_REQ.
    cm_send_sidr_req;
    /// `ib_cm` is asked to send a SIDR_REP.
    cm_send_sidr_rep;
    /// The client disconnects, or agrees to that.
    cm_disconnect;
    /// A DREP was sent.
    cm_sent_drep;
    /// A DREQ was sent.
    cm_sent_dreq;
    /// The identifier ends.
    cm_id_destroy;
    /// Its queue pair is destroyed.
    cm_qp_destroy;
}

/// The argument of C for what has become of a call: 0, or an errno.
#[inline(always)]
fn code(result: &Result<(), Error>) -> c_int {
    result.as_ref().err().map_or(0, |error| error.to_errno())
}

tracepoints! {
    /// The identifier gets a device.
    cm_id_attach(id: &IdBody => id.as_raw(), *const rdma_id_private; device: &Device => device.as_raw(), *const ib_device);
    /// Its queue pair was created, or that has failed.
    cm_qp_create(id: &IdBody => id.as_raw(), *const rdma_id_private; pd: &Pd => pd.as_raw(), *const ib_pd;
        init: &QpInitMut<'_> => init.as_raw(), *const ib_qp_init_attr; result: &Result<(), Error> => code(result), c_int);
    /// A peer asks a listener: `enum ib_cm_event_type`.
    cm_req_handler(id: &IdBody => id.as_raw(), *const rdma_id_private; event: u32 => event as c_int, c_int);
    /// The client is told an event.
    cm_event_handler(id: &IdBody => id.as_raw(), *const rdma_id_private; event: &mut Event<'_> => event.as_raw(), *const rdma_cm_event);
    /// The client's handler has returned.
    cm_event_done(id: &IdBody => id.as_raw(), *const rdma_id_private; event: &mut Event<'_> => event.as_raw(), *const rdma_cm_event;
        result: c_int => result, c_int);
    /// A device has come.
    cm_add_one(device: &Device => device.as_raw(), *const ib_device);
    /// A device goes.
    cm_remove_one(device: &Device => device.as_raw(), *const ib_device);
}
