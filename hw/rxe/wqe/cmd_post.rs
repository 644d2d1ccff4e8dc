// SPDX-License-Identifier: GPL-2.0

//! Requests that user space posts by a uverbs command (`ibv_cmd_post_send`): they are written to its ring, and
//! validated when they are read from it.
//!
//! The ring is still shared with user space, which may overwrite them as it may its own requests.

use super::kernel_wr::kernel_request;
use super::list::put_sge;
use super::operation::code;
use super::types::{Limits, Objects};
use super::user::send_layout as at;
use crate::limits;
use crate::ring::Consumer;
use core::mem::offset_of;
use kernel::prelude::*;
use kernel_ext::bindings as c;
use rdma::provider::wr::RecvWr;
use rdma::{SendWr, Sge};

/// Maximum size of a list.
const MAX_LIST: usize = limits::MAX_SGE as usize * limits::SGE;

/// Writes a field of a request. The offsets are constants within it.
fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    if let Some(place) = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *place = value;
    }
}

/// A list in the format of a ring.
struct List {
    bytes: [u8; MAX_LIST],
    count: u32,
}

impl List {
    /// # Errors
    ///
    /// `EINVAL` for more than `max_sge` elements.
    fn new(sges: &[Sge], max_sge: u32) -> Result<Self> {
        let count = u32::try_from(sges.len()).map_err(|_| EINVAL)?;
        if count > max_sge.min(limits::MAX_SGE) {
            return Err(EINVAL);
        }
        let mut bytes = [0; MAX_LIST];
        for (nth, sge) in sges.iter().enumerate() {
            put_sge(&mut bytes, nth as u32, sge);
        }
        Ok(Self { bytes, count })
    }

    fn bytes(&self) -> &[u8] {
        let length = self.count as usize * limits::SGE;
        self.bytes.get(..length).unwrap_or(&[])
    }
}

/// Writes a send request to a user ring.
///
/// # Errors
///
/// `EINVAL` for an unsupported operation, inline data, and a list that is too long, and for XRC, because the command has no field for
/// the shared receive queue; `ENOMEM` when the ring is full.
pub(crate) fn post_send<P: Objects>(
    wr: &SendWr<'_, P>,
    limits: &Limits,
    ring: &mut Consumer,
) -> Result {
    let request = kernel_request(wr)?;
    if request.flags & code::INLINE != 0 || limits.service.is_xrc() {
        return Err(EINVAL);
    }
    let list = List::new(wr.sg_list(), limits.max_sge)?;
    let mut fixed = [0; limits::SEND_WQE];
    put(&mut fixed, at::WR_ID, wr.wr_id().to_ne_bytes());
    put(&mut fixed, at::OPCODE, request.opcode.to_ne_bytes());
    put(&mut fixed, at::FLAGS, request.flags.to_ne_bytes());
    put(&mut fixed, at::NUM_SGE, list.count.to_ne_bytes());
    let extra = match request.opcode {
        code::SEND_INV => request.invalidate_rkey.to_ne_bytes(),
        _ => request.imm.to_be_bytes(),
    };
    put(&mut fixed, at::EX, extra);
    match (wr.ud(), request.opcode) {
        (Some(ud), _) => {
            // A handle has no number if it was created by an old library.
            let number = ud.ah.number();
            if number == 0 {
                return Err(EINVAL);
            }
            put(&mut fixed, at::AH_NUM, number.to_ne_bytes());
            put(&mut fixed, at::REMOTE_QPN, ud.remote_qpn.to_ne_bytes());
            put(&mut fixed, at::REMOTE_QKEY, ud.remote_qkey.to_ne_bytes());
        }
        (None, opcode) => {
            let remote_addr = request.remote_addr.to_ne_bytes();
            put(&mut fixed, at::REMOTE_ADDR, remote_addr);
            if matches!(opcode, code::CMP_SWAP | code::FETCH_ADD) {
                let compare_add = request.compare_add.to_ne_bytes();
                put(&mut fixed, at::COMPARE_ADD, compare_add);
                put(&mut fixed, at::SWAP, request.swap.to_ne_bytes());
                put(&mut fixed, at::ATOMIC_RKEY, request.rkey.to_ne_bytes());
            } else {
                put(&mut fixed, at::RKEY, request.rkey.to_ne_bytes());
            }
        }
    }
    ring.post(&fixed, list.bytes()).map_err(|_| ENOMEM)
}

/// Writes a receive request to a user ring.
///
/// # Errors
///
/// `EINVAL` for a list that is too long, `ENOMEM` when the ring is full.
pub(crate) fn post_recv(wr: &RecvWr<'_>, max_sge: u32, ring: &mut Consumer) -> Result {
    const DMA: usize = offset_of!(c::rxe_recv_wqe, dma);
    const NUM_SGE: usize = DMA + offset_of!(c::rxe_dma_info, num_sge);
    let list = List::new(wr.sg_list(), max_sge)?;
    let mut fixed = [0; limits::RECV_WQE];
    let id = offset_of!(c::rxe_recv_wqe, wr_id);
    put(&mut fixed, id, wr.wr_id().to_ne_bytes());
    put(&mut fixed, NUM_SGE, list.count.to_ne_bytes());
    ring.post(&fixed, list.bytes()).map_err(|_| ENOMEM)
}
