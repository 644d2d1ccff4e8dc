// SPDX-License-Identifier: GPL-2.0

//! Tracepoints of MADs in user space: `ib_umad:*`.
//!
//! A disabled tracepoint costs a test of its static key. The definitions are in `umad/trace.c`, so that only `ib_umad` can use this
//! module, and all of it is inline.
//!
//! C header: `include/trace/events/ib_umad.h`.

use core::ptr::from_mut;

use rdma_bindings::{ib_mad_hdr, ib_umad_file, ib_umad_port, ib_user_mad_hdr};

use super::class::HEADER;
use crate::{client::attachment::Attached, core::trace::tracepoints};

/// The length of the header of user space in bytes.
const USER_HEADER: usize = size_of::<ib_user_mad_hdr>();

/// The port of a file.
pub struct At<'a> {
    /// The device.
    pub device: &'a Attached,
    /// The port.
    pub port: u32,
}

impl At<'_> {
    #[inline(always)]
    fn port(&self) -> ib_umad_port {
        ib_umad_port {
            ib_dev: self.device.as_raw(),
            port_num: self.port,
        }
    }
}

#[inline(always)]
fn header(bytes: &[u8; USER_HEADER]) -> ib_user_mad_hdr {
    // SAFETY: The structure has this length, and consists of numbers.
    unsafe { bytes.as_ptr().cast::<ib_user_mad_hdr>().read_unaligned() }
}

#[inline(always)]
fn mad(bytes: &[u8; HEADER]) -> ib_mad_hdr {
    const { assert!(size_of::<ib_mad_hdr>() == HEADER) };
    // SAFETY: The structure has this length, and consists of numbers.
    unsafe { bytes.as_ptr().cast::<ib_mad_hdr>().read_unaligned() }
}

tracepoints! {
    /// A MAD is written to a file.
    ib_umad_write(at: &At<'_> => from_mut(&mut ib_umad_file { port: from_mut(&mut at.port()) }), *mut ib_umad_file;
        user: &[u8; USER_HEADER] => from_mut(&mut header(user)), *mut ib_user_mad_hdr;
        sent: &[u8; HEADER] => from_mut(&mut mad(sent)), *mut ib_mad_hdr);
    /// A received MAD was read.
    ib_umad_read_recv(at: &At<'_> => from_mut(&mut ib_umad_file { port: from_mut(&mut at.port()) }), *mut ib_umad_file;
        user: &[u8; USER_HEADER] => from_mut(&mut header(user)), *mut ib_user_mad_hdr;
        received: &[u8; HEADER] => from_mut(&mut mad(received)), *mut ib_mad_hdr);
    /// A request that has timed out was read.
    ib_umad_read_send(at: &At<'_> => from_mut(&mut ib_umad_file { port: from_mut(&mut at.port()) }), *mut ib_umad_file;
        user: &[u8; USER_HEADER] => from_mut(&mut header(user)), *mut ib_user_mad_hdr;
        sent: &[u8; HEADER] => from_mut(&mut mad(sent)), *mut ib_mad_hdr);
}
