// SPDX-License-Identifier: GPL-2.0

//! Events, as the connection manager tells them and as a program reads them.
//!
//! C headers: `include/rdma/rdma_cm.h`, `include/uapi/rdma/rdma_user_cm.h`.

use core::ptr::{null_mut, NonNull};

use kernel::{prelude::*, transmute::AsBytes};
use rdma::{
    bindings::{
        self, rdma_cm_event, rdma_cm_id, rdma_conn_param, rdma_ucm_conn_param, rdma_ucm_event_resp,
        rdma_ucm_ud_param, rdma_ud_param,
    },
    core::Device,
};

use crate::live::Live;

/// The private data of an event.
type PrivateData = [u8; bindings::RDMA_MAX_PRIVATE_DATA as usize];

/// An event of an identifier.
pub struct Event<'a> {
    id: Live<'a>,
    event: &'a rdma_cm_event,
}

impl<'a> Event<'a> {
    /// # Safety
    ///
    /// The connection manager has called a handler with the identifier and the event: the parameters are those of its type and of the
    /// identifier's queue pair.
    pub(crate) unsafe fn new(id: NonNull<rdma_cm_id>, event: &'a rdma_cm_event) -> Self {
        // SAFETY: The identifier is not destroyed while its handler runs.
        let id = unsafe { Live::new(id) };
        Self { id, event }
    }

    /// The type, `enum rdma_cm_event_type`.
    pub fn kind(&self) -> u32 {
        self.event.event
    }

    /// The token of the multicast group that it is about.
    pub fn group(&self) -> Option<u32> {
        let is_about_one = matches!(
            self.kind(),
            bindings::RDMA_CM_EVENT_MULTICAST_JOIN | bindings::RDMA_CM_EVENT_MULTICAST_ERROR
        );
        // SAFETY: Such an event has the parameters of datagrams, and in the place of private data what the group was joined with.
        let context = unsafe { self.event.param.ud.private_data };
        is_about_one.then(|| u32::try_from(context.addr()).ok())?
    }

    /// Fills in what the program reads, but for `uid` and `id`.
    pub fn tell(&self, response: &mut Response) {
        let raw = &mut response.0;
        raw.event = self.kind();
        raw.status = self.event.status as u32;
        raw.ece = self.event.ece;
        if self.kind() == bindings::RDMA_CM_EVENT_ADDRINFO_RESOLVED {
            return;
        }
        // SAFETY: The type of an identifier is constant, and the parameters are those of it. Any bytes are parameters of a program.
        unsafe {
            match (*self.id.raw()).qp_type {
                bindings::IB_QPT_UD => self.ud(&self.event.param.ud, &mut raw.param.ud),
                _ => conn(&self.event.param.conn, &mut raw.param.conn),
            }
        }
    }

    /// # Safety
    ///
    /// The parameters are those of the event.
    unsafe fn ud(&self, from: &rdma_ud_param, to: &mut rdma_ucm_ud_param) {
        let mut ah_attr = from.ah_attr;
        to.private_data_len = from.private_data_len;
        to.qp_num = from.qp_num;
        to.qkey = from.qkey;
        let device = self.id.device().map_or(null_mut(), Device::as_raw);
        // SAFETY: By the safety requirements. The device is that of the attributes, which are copied.
        unsafe {
            copy_private_data(
                &mut to.private_data,
                from.private_data.cast(),
                from.private_data_len,
            );
            bindings::ib_copy_ah_attr_to_user(device, &mut to.ah_attr, &mut ah_attr);
        }
    }
}

/// # Safety
///
/// The parameters are those of an event.
unsafe fn conn(from: &rdma_conn_param, to: &mut rdma_ucm_conn_param) {
    // SAFETY: By the safety requirements.
    unsafe {
        copy_private_data(
            &mut to.private_data,
            from.private_data.cast(),
            from.private_data_len,
        )
    };
    to.private_data_len = from.private_data_len;
    to.responder_resources = from.responder_resources;
    to.initiator_depth = from.initiator_depth;
    to.flow_control = from.flow_control;
    to.retry_count = from.retry_count;
    to.rnr_retry_count = from.rnr_retry_count;
    to.srq = from.srq;
    to.qp_num = from.qp_num;
}

/// # Safety
///
/// `from` is valid for reads of `length` bytes, or null.
unsafe fn copy_private_data(to: &mut PrivateData, from: *const u8, length: u8) {
    const { assert!(size_of::<PrivateData>() > u8::MAX as usize) };
    if !from.is_null() {
        // SAFETY: By the safety requirements; there is room for any length.
        unsafe { core::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), length.into()) };
    }
}

/// An event as a program reads it: `struct rdma_ucm_event_resp`. It begins as zeros.
#[derive(Zeroable)]
pub struct Response(rdma_ucm_event_resp);

impl Response {
    /// Sets the type of an event that no handler has told.
    pub fn set_kind(&mut self, kind: u32) {
        self.0.event = kind;
    }

    /// Makes it the event that a program writes for itself, with a number as its parameter.
    pub fn set_by_program(&mut self, kind: u32, status: u32, argument: u64) {
        self.set_kind(kind);
        self.0.status = status;
        let [a, b, c, d, e, f, g, h] = argument.to_ne_bytes();
        self.0.param.arg32 = [
            u32::from_ne_bytes([a, b, c, d]),
            u32::from_ne_bytes([e, f, g, h]),
        ];
    }

    /// Sets whom it is for: the number of the identifier or group, and what the program calls it.
    pub fn set_recipient(&mut self, id: u32, uid: u64) {
        self.0.id = id;
        self.0.uid = uid;
    }

    /// The type.
    pub fn kind(&self) -> u32 {
        self.0.event
    }
}

// SAFETY: The structure was zeroed, and has no padding: what was written to it since then are integers and arrays, and structures of
// these without padding. Nothing in it changes through a shared reference.
unsafe impl AsBytes for Response {}

/// Whether the current process has the credentials that the file was opened with, and the access is not the kernel's. Commands by
/// `write()` require that.
pub fn is_safe_access(file: &kernel::fs::File) -> bool {
    // SAFETY: The file is valid.
    unsafe { bindings::ib_safe_file_access(file.as_ptr()) }
}
