// SPDX-License-Identifier: GPL-2.0

//! Write commands of the data path through the kernel: posting requests and polling completions. A driver with queues mapped into
//! user space gets empty chains, as a doorbell.
//!
//! C header: `include/uapi/rdma/ib_user_verbs.h`.

use core::ops::Range;

use kernel::prelude::*;
use kernel_ext::bindings as c;
use rdma::core::{driver::user::PolledWc, Ah, Cq, Device, Qp, Srq};
use rdma_uverbs::{
    lookup::ReadLocked,
    post::{self, NotPosted, RecvChain, Send, SendChain, SendKind},
    request::{zeroed, Bytes, Call, Record, Tail},
};

use super::device::short_lid;

/// The largest size of a request in bytes: that of an allocation.
const LONGEST: usize = 4 << 20;

/// The requests of a command, and their SGEs.
struct Posted<'a> {
    records: Bytes<'a>,
    size: usize,
    count: u32,
    sges: Bytes<'a>,
}

impl<'a> Posted<'a> {
    /// Finds the arrays that follow a command: `count` requests of `size` bytes each, and `sges` SGEs.
    fn find(mut tail: Tail<'a>, count: u32, size: u32, sges: u32) -> Result<Self> {
        let size = size as usize;
        let records = tail.take_records(count, size)?;
        let sges = tail.take_records(sges, size_of::<c::ib_sge>())?;
        tail.finish()?;
        if size > LONGEST {
            return Err(ENOMEM);
        }
        Ok(Self {
            records,
            size,
            count,
            sges,
        })
    }

    /// Reads a request.
    fn record<T: Record>(&self, nth: u32) -> Result<T> {
        let offset = (nth as usize).checked_mul(self.size).ok_or(EINVAL)?;
        self.records.get(offset)
    }

    /// Reads the SGEs, for a chain.
    fn read_sges(&self) -> Result<KVec<c::ib_sge>> {
        self.sges.read_array()
    }
}

/// Assigns the SGEs to the requests, in order.
struct Pieces {
    next: usize,
    all: usize,
}

impl Pieces {
    fn of(sges: &[c::ib_sge]) -> Self {
        Self {
            next: 0,
            all: sges.len(),
        }
    }

    fn take(&mut self, count: u32) -> Result<Range<usize>> {
        let end = self.next.checked_add(count as usize).ok_or(EINVAL)?;
        if end > self.all {
            return Err(EINVAL);
        }
        let range = self.next..end;
        self.next = end;
        Ok(range)
    }
}

/// The members of a send request that depend on its opcode.
///
/// # Errors
///
/// `EINVAL` for an opcode that the type of the queue pair does not have, or that a write command cannot post; those of
/// [`ReadLocked::get`].
fn send_kind<'a>(
    call: &Call<'a>,
    qp_kind: u32,
    request: &c::ib_uverbs_send_wr,
) -> Result<SendKind<'a>> {
    Ok(match request.opcode {
        c::IB_WR_SEND | c::IB_WR_SEND_WITH_IMM if qp_kind == c::IB_QPT_UD => {
            let (ah, remote_qpn, remote_qkey) = post::datagram(request);
            SendKind::Datagram {
                ah: ReadLocked::<Ah>::get(call.command, ah, call.sleep)?,
                remote_qpn,
                remote_qkey,
            }
        }
        _ if qp_kind == c::IB_QPT_UD => return Err(EINVAL),
        c::IB_WR_RDMA_WRITE_WITH_IMM | c::IB_WR_RDMA_WRITE | c::IB_WR_RDMA_READ => {
            post::rdma(request)
        }
        c::IB_WR_ATOMIC_CMP_AND_SWP | c::IB_WR_ATOMIC_FETCH_AND_ADD => post::atomic(request),
        c::IB_WR_SEND | c::IB_WR_SEND_WITH_IMM | c::IB_WR_SEND_WITH_INV => SendKind::Send,
        _ => return Err(EINVAL),
    })
}

/// Whether requests with an opcode have immediate data, or a key to be invalidated.
fn has_extra(opcode: u32) -> bool {
    matches!(
        opcode,
        c::IB_WR_SEND_WITH_IMM | c::IB_WR_RDMA_WRITE_WITH_IMM | c::IB_WR_SEND_WITH_INV
    )
}

fn send_chain<'a>(call: &Call<'a>, qp: &Qp, posted: &Posted<'a>) -> Result<SendChain<'a>> {
    let sges = posted.read_sges()?;
    let mut pieces = Pieces::of(&sges);
    let mut chain = SendChain::new(posted.count as usize, sges)?;
    for nth in 0..posted.count {
        let request: c::ib_uverbs_send_wr = posted.record(nth)?;
        let sges = pieces.take(request.num_sge)?;
        chain.push(Send {
            wr_id: request.wr_id,
            opcode: request.opcode,
            flags: request.send_flags,
            extra: if has_extra(request.opcode) {
                post::extra(&request)
            } else {
                0
            },
            sges,
            kind: send_kind(call, qp.kind(), &request)?,
        })?;
    }
    Ok(chain)
}

/// The response for a chain: the position from 1 of the first request that was not posted, or 0; and the error.
fn outcome(posted: Result<(), NotPosted>) -> (u32, Result) {
    match posted {
        Ok(()) => (0, Ok(())),
        Err(failed) => (failed.nth, Err(failed.error)),
    }
}

/// `IB_USER_VERBS_CMD_POST_SEND`.
///
/// # Errors
///
/// `ENOSPC` for a command that is too short, `EOPNOTSUPP` for one that is too long; `EINVAL` for requests that are too short or have
/// more SGEs than the command, or an unknown opcode; `ENOMEM`, also for requests that are too long; those of the driver, for
/// which the response has the position of the first request that was not posted.
pub(super) fn post_send(call: &Call<'_>) -> Result {
    let (request, tail) = call.head::<c::ib_uverbs_post_send>()?;
    let posted = Posted::find(tail, request.wr_count, request.wqe_size, request.sge_count)?;
    if posted.size < size_of::<c::ib_uverbs_send_wr>() {
        return Err(EINVAL);
    }
    let qp = ReadLocked::<Qp>::get(call.command, request.qp_handle, call.sleep)?;
    let (bad_wr, result) = outcome(if posted.count == 0 {
        post::ring_doorbell(&qp)
    } else {
        send_chain(call, &qp, &posted)?.post(&qp)
    });
    call.respond(&c::ib_uverbs_post_send_resp { bad_wr })?;
    result
}

fn recv_chain(tail: Tail<'_>, count: u32, size: u32, sges: u32) -> Result<RecvChain> {
    if (size as usize) < size_of::<c::ib_uverbs_recv_wr>() {
        return Err(EINVAL);
    }
    let posted = Posted::find(tail, count, size, sges)?;
    let sges = posted.read_sges()?;
    let mut pieces = Pieces::of(&sges);
    let mut chain = RecvChain::new(count as usize, sges)?;
    for nth in 0..count {
        let request: c::ib_uverbs_recv_wr = posted.record(nth)?;
        chain.push(request.wr_id, pieces.take(request.num_sge)?)?;
    }
    Ok(chain)
}

/// `IB_USER_VERBS_CMD_POST_RECV`.
///
/// # Errors
///
/// As for [`post_send`].
pub(super) fn post_recv(call: &Call<'_>) -> Result {
    let (request, tail) = call.head::<c::ib_uverbs_post_recv>()?;
    let (count, size) = (request.wr_count, request.wqe_size);
    let chain = recv_chain(tail, count, size, request.sge_count)?;
    let (bad_wr, result) = {
        let qp = ReadLocked::<Qp>::get(call.command, request.qp_handle, call.sleep)?;
        outcome(chain.post(&qp))
    };
    call.respond(&c::ib_uverbs_post_recv_resp { bad_wr })?;
    result
}

/// `IB_USER_VERBS_CMD_POST_SRQ_RECV`.
///
/// # Errors
///
/// As for [`post_send`].
pub(super) fn post_srq_recv(call: &Call<'_>) -> Result {
    let (request, tail) = call.head::<c::ib_uverbs_post_srq_recv>()?;
    let (count, size) = (request.wr_count, request.wqe_size);
    let chain = recv_chain(tail, count, size, request.sge_count)?;
    let (bad_wr, result) = {
        let srq = ReadLocked::<Srq>::get(call.command, request.srq_handle, call.sleep)?;
        outcome(chain.post_srq(&srq))
    };
    call.respond(&c::ib_uverbs_post_srq_recv_resp { bad_wr })?;
    result
}

/// A completion for user space.
fn completion(device: &Device, polled: &PolledWc) -> c::ib_uverbs_wc {
    let wc = polled.wc();
    let long_lids = device.has_opa_addresses(wc.port_num);
    let mut user: c::ib_uverbs_wc = zeroed();
    user.status = wc.status;
    user.opcode = wc.opcode;
    user.vendor_err = wc.vendor_err;
    user.byte_len = wc.byte_len;
    user.src_qp = wc.src_qp;
    user.wc_flags = wc.wc_flags as u32;
    user.pkey_index = wc.pkey_index;
    user.slid = short_lid(wc.slid, long_lids);
    user.sl = wc.sl;
    user.dlid_path_bits = wc.dlid_path_bits;
    user.port_num = wc.port_num as u8;
    post::fill_wc(&mut user, polled);
    user
}

/// `IB_USER_VERBS_CMD_POLL_CQ`: the completions follow the response.
///
/// # Errors
///
/// `EFAULT`, and those of the driver: then the completions that were polled are lost.
pub(super) fn poll_cq(call: &Call<'_>) -> Result {
    let request: c::ib_uverbs_poll_cq = call.request()?;
    let cq = ReadLocked::<Cq>::get(call.command, request.cq_handle, call.sleep)?;
    let mut response: c::ib_uverbs_poll_cq_resp = zeroed();
    let mut offset = size_of_val(&response);
    while response.count < request.ne {
        let Some(wc) = cq.driver_poll_one()? else {
            break;
        };
        call.put(offset, &completion(cq.device(), &wc))?;
        offset += size_of::<c::ib_uverbs_wc>();
        response.count += 1;
    }
    call.put(0, &response)?;
    call.responded()
}
