// SPDX-License-Identifier: GPL-2.0

//! A management datagram (MAD) and the result of `process_mad`: `struct ib_mad`, `enum ib_mad_result`.
//!
//! C headers: `include/rdma/ib_mad.h`, `include/rdma/ib_verbs.h`.

use rdma_bindings::{self as bindings, ib_mad};

c_flags! {
    /// The result of `process_mad`: `enum ib_mad_result`.
    pub struct MadResult(u32) {
        /// It was processed.
        SUCCESS = bindings::IB_MAD_RESULT_SUCCESS;
        /// The output is a response to be sent.
        REPLY = bindings::IB_MAD_RESULT_REPLY;
        /// It needs no further processing.
        CONSUMED = bindings::IB_MAD_RESULT_CONSUMED;
    }
}

/// How a MAD was received.
#[derive(Clone, Copy, Debug)]
pub struct MadInfo {
    /// The port.
    pub port_num: u32,
    /// `enum ib_process_mad_flags`.
    pub flags: u32,
}

/// A MAD of 256 bytes: the common header of 24 and the data of its class.
#[repr(transparent)]
pub struct Mad(ib_mad);

impl Mad {
    /// Borrows a C structure.
    #[inline]
    pub(crate) fn from_raw(raw: &ib_mad) -> &Self {
        // SAFETY: `Self` is a transparent wrapper.
        unsafe { &*core::ptr::from_ref(raw).cast() }
    }

    /// Borrows a C structure for writing.
    #[inline]
    pub(crate) fn from_raw_mut(raw: &mut ib_mad) -> &mut Self {
        // SAFETY: `Self` is a transparent wrapper.
        unsafe { &mut *core::ptr::from_mut(raw).cast() }
    }

    /// The bytes of the MAD.
    #[inline]
    pub fn bytes(&self) -> &[u8; 256] {
        const { assert!(size_of::<ib_mad>() == 256) };
        // SAFETY: The structure consists of numbers without padding.
        unsafe { &*core::ptr::from_ref(self).cast() }
    }

    /// The bytes of the MAD, for writing.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8; 256] {
        // SAFETY: The structure consists of numbers without padding, and any bytes are valid.
        unsafe { &mut *core::ptr::from_mut(self).cast() }
    }

    /// The management class.
    #[inline]
    pub fn mgmt_class(&self) -> u8 {
        self.0.mad_hdr.mgmt_class
    }

    /// The method.
    #[inline]
    pub fn method(&self) -> u8 {
        self.0.mad_hdr.method
    }

    /// The attribute ID, in CPU byte order.
    #[inline]
    pub fn attr_id(&self) -> u16 {
        u16::from_be(self.0.mad_hdr.attr_id)
    }

    /// Sets the header of a response without an error: that of the request with another method.
    #[inline]
    pub fn set_answer_to(&mut self, request: &Self, method: u8) {
        self.0.mad_hdr = request.0.mad_hdr;
        self.0.mad_hdr.method = method;
        self.set_status(0);
    }

    /// Sets the status, in CPU byte order.
    #[inline]
    pub fn set_status(&mut self, status: u16) {
        self.0.mad_hdr.status = status.to_be();
    }
}
