// SPDX-License-Identifier: GPL-2.0

//! Parsing user requests: `struct rxe_send_wqe` and `struct rxe_recv_wqe`.

use super::list::{list_length, Raw};
use super::operation::{
    check_length, code, local_part, may_inline, operation, send_wr, srqn, Request,
};
use super::types::{Data, Limits, RecvWqe, SendWqe};
use crate::ah::Av;
use crate::limits;
use crate::mw::BindInfo;
use crate::ring::Consumer;
use core::mem::{offset_of, size_of};
use kernel::sync::Arc;
use kernel_ext::bindings;
use rdma::abi::ah::{AhFields, GlobalRoute};
use rdma::Gid;
use roce::memory::{SendOp, SendWr};
use roce::state::WcStatus;
use roce::wire::Feth;

/// Offsets of the fields of `struct rxe_send_wqe`.
pub(super) mod send_layout {
    use super::{bindings as c, offset_of};
    type Wr = c::rxe_send_wr;
    pub(in crate::wqe) type Flush = c::rxe_send_wr__bindgen_ty_2__bindgen_ty_1;
    type Rdma = c::rxe_send_wr__bindgen_ty_2__bindgen_ty_2;
    type Atomic = c::rxe_send_wr__bindgen_ty_2__bindgen_ty_3;
    type Ud = c::rxe_send_wr__bindgen_ty_2__bindgen_ty_4;

    pub(in crate::wqe) const WR_ID: usize = offset_of!(Wr, wr_id);
    /// The number of the SRQ that a request of XRC is for. The kernel's header has no name for it; the change that was proposed to
    /// rdma-core's provider has the number here, too, and the present provider writes 0.
    pub(in crate::wqe) const SRQ_NUM: usize = offset_of!(Wr, reserved);
    pub(in crate::wqe) const OPCODE: usize = offset_of!(Wr, opcode);
    pub(in crate::wqe) const FLAGS: usize = offset_of!(Wr, send_flags);
    pub(in crate::wqe) const EX: usize = offset_of!(Wr, ex);
    const UNION: usize = offset_of!(Wr, wr);
    pub(in crate::wqe) const REMOTE_ADDR: usize = UNION + offset_of!(Rdma, remote_addr);
    pub(in crate::wqe) const RKEY: usize = UNION + offset_of!(Rdma, rkey);
    pub(in crate::wqe) const COMPARE_ADD: usize = UNION + offset_of!(Atomic, compare_add);
    pub(in crate::wqe) const SWAP: usize = UNION + offset_of!(Atomic, swap);
    pub(in crate::wqe) const ATOMIC_RKEY: usize = UNION + offset_of!(Atomic, rkey);
    pub(in crate::wqe) const REMOTE_QPN: usize = UNION + offset_of!(Ud, remote_qpn);
    pub(in crate::wqe) const REMOTE_QKEY: usize = UNION + offset_of!(Ud, remote_qkey);
    pub(in crate::wqe) const MW: usize = UNION;
    pub(in crate::wqe) const FLUSH: usize = UNION;
    pub(in crate::wqe) const FLUSH_RKEY: usize = UNION + offset_of!(Flush, rkey);
    pub(in crate::wqe) const AH_NUM: usize = UNION + offset_of!(Ud, ah_num);
    pub(in crate::wqe) const AV: usize = UNION + offset_of!(Ud, av);
    const DMA: usize = offset_of!(c::rxe_send_wqe, dma);
    pub(in crate::wqe) const LENGTH: usize = DMA + offset_of!(c::rxe_dma_info, length);
    pub(in crate::wqe) const NUM_SGE: usize = DMA + offset_of!(c::rxe_dma_info, num_sge);
    // The data follows immediately.
    const _: () = assert!(DMA + core::mem::size_of::<c::rxe_dma_info>() == crate::limits::SEND_WQE);
}

/// A user send request as copied from its ring, without its data.
pub(crate) struct UserSend {
    wr_id: u64,
    request: Request,
    ah_num: u32,
    /// Length of inline data, and of the range of a flush, in bytes.
    length: u32,
    num_sge: u32,
}

impl UserSend {
    /// Parses the fixed part of a request.
    pub(crate) fn parse(bytes: &[u8; limits::SEND_WQE]) -> Self {
        use send_layout as at;
        let raw = Raw(bytes);
        let opcode = raw.u32(at::OPCODE);
        let rkey_at = match opcode {
            code::CMP_SWAP | code::FETCH_ADD => at::ATOMIC_RKEY,
            code::FLUSH => at::FLUSH_RKEY,
            _ => at::RKEY,
        };
        Self {
            wr_id: raw.u64(at::WR_ID),
            request: Request {
                opcode,
                flags: raw.u32(at::FLAGS),
                imm: u32::from_be_bytes(raw.array(at::EX)),
                invalidate_rkey: raw.u32(at::EX),
                remote_addr: raw.u64(at::REMOTE_ADDR),
                rkey: raw.u32(rkey_at),
                compare_add: raw.u64(at::COMPARE_ADD),
                swap: raw.u64(at::SWAP),
                remote_qpn: raw.u32(at::REMOTE_QPN),
                remote_qkey: raw.u32(at::REMOTE_QKEY),
                bind: parse_bind(&raw),
                flush: parse_flush(&raw),
                srq_num: raw.u32(at::SRQ_NUM),
            },
            ah_num: raw.u32(at::AH_NUM),
            length: raw.u32(at::LENGTH),
            num_sge: raw.u32(at::NUM_SGE),
        }
    }

    /// Whether the data is inline: always for an atomic write, regardless of the flag.
    fn is_inline(&self) -> bool {
        self.request.flags & code::INLINE != 0 || self.request.opcode == code::ATOMIC_WRITE
    }

    /// The ID in its completion.
    pub(crate) fn wr_id(&self) -> u64 {
        self.wr_id
    }

    /// Number of bytes of data after the fixed part.
    ///
    /// # Errors
    ///
    /// The status that the request fails with, if that exceeds `limits`.
    pub(crate) fn data_len(&self, limits: &Limits) -> Result<usize, WcStatus> {
        if self.is_inline() {
            if self.length > limits.max_inline {
                return Err(WcStatus::LocLenErr);
            }
            return Ok(self.length as usize);
        }
        if self.num_sge > limits.max_sge {
            return Err(WcStatus::LocQpOpErr);
        }
        Ok(self.num_sge as usize * limits::SGE)
    }

    /// Makes the request from the fixed part and its data. `find_ah` gives the address vector of an address handle, or,
    /// for the number 0, of the request itself.
    ///
    /// # Errors
    ///
    /// The status that the request fails with.
    pub(crate) fn build(
        self,
        limits: &Limits,
        data: &[u8],
        find_ah: impl FnOnce(u32) -> Option<Arc<Av>>,
    ) -> Result<SendWqe, WcStatus> {
        let request = &self.request;
        let op = operation(limits.service, request)?;
        let srqn = srqn(limits.service, request)?;
        let inline = self.is_inline();
        if inline && !may_inline(&op) {
            return Err(WcStatus::LocQpOpErr);
        }
        let (place, length) = if inline {
            (Data::Inline, self.length.into())
        } else {
            (Data::List(self.num_sge), list_length(data, self.num_sge))
        };
        let length = match op {
            SendOp::Local { .. } => 0,
            SendOp::Flush { .. } => self.length,
            _ => check_length(&op, length)?,
        };
        let av = match op {
            SendOp::SendUd { .. } => Some(find_ah(self.ah_num).ok_or(WcStatus::LocQpOpErr)?),
            _ => None,
        };
        Ok(SendWqe {
            wr_id: self.wr_id,
            wr: SendWr {
                srqn,
                ..send_wr(op, length, request.flags)
            },
            data: place,
            av,
            local: local_part(&op, request),
        })
    }
}

/// Parses the address vector in a datagram's request, `struct rxe_av`: libraries before rdma-core 36 give no number of
/// an address handle. The source is the GID index; the IP addresses repeat what the GIDs say.
pub(crate) fn parse_av(bytes: &[u8; limits::SEND_WQE]) -> AhFields {
    use bindings::{rxe_av as Av, rxe_global_route as Route};
    const GRH: usize = send_layout::AV + offset_of!(Av, grh);
    let raw = Raw(bytes);
    let byte = |at| raw.array::<1>(at)[0];
    AhFields {
        grh: Some(GlobalRoute {
            dgid: Gid(raw.array(GRH + offset_of!(Route, dgid))),
            flow_label: raw.u32(GRH + offset_of!(Route, flow_label)),
            sgid_index: byte(GRH + offset_of!(Route, sgid_index)),
            hop_limit: byte(GRH + offset_of!(Route, hop_limit)),
            traffic_class: byte(GRH + offset_of!(Route, traffic_class)),
        }),
        sl: 0,
        static_rate: 0,
        port_num: byte(send_layout::AV + offset_of!(Av, port_num)).into(),
        dmac: raw.array(send_layout::AV + offset_of!(Av, dmac)),
    }
}

/// Parses the fields of a flush.
fn parse_flush(raw: &Raw<'_>) -> Feth {
    use send_layout::{Flush, FLUSH};
    let [placement] = raw.array(FLUSH + offset_of!(Flush, type_));
    let [selectivity] = raw.array(FLUSH + offset_of!(Flush, level));
    Feth {
        placement,
        selectivity,
    }
}

/// Parses the fields of a memory window bind.
fn parse_bind(raw: &Raw<'_>) -> BindInfo {
    type Mw = bindings::rxe_send_wr__bindgen_ty_2__bindgen_ty_5;
    let at = |field| send_layout::MW + field;
    BindInfo {
        mw_rkey: raw.u32(at(offset_of!(Mw, mw_rkey))),
        rkey: raw.u32(at(offset_of!(Mw, rkey))),
        mr_lkey: raw.u32(at(offset_of!(Mw, mr_lkey))),
        access: raw.u32(at(offset_of!(Mw, access))),
        addr: raw.u64(at(offset_of!(Mw, addr))),
        length: raw.u64(at(offset_of!(Mw, length))),
    }
}

/// Parses the fixed part of a user receive request.
fn parse_recv(bytes: &[u8; limits::RECV_WQE], max_sge: u32) -> RecvWqe {
    const DMA: usize = offset_of!(bindings::rxe_recv_wqe, dma);
    const NUM_SGE: usize = DMA + offset_of!(bindings::rxe_dma_info, num_sge);
    // The list follows immediately.
    const _: () = assert!(DMA + size_of::<bindings::rxe_dma_info>() == limits::RECV_WQE);

    let raw = Raw(bytes);
    let num_sge = raw.u32(NUM_SGE);
    RecvWqe {
        wr_id: raw.u64(offset_of!(bindings::rxe_recv_wqe, wr_id)),
        num_sge: if num_sge <= max_sge {
            Ok(num_sge)
        } else {
            Err(WcStatus::LocQpOpErr)
        },
    }
}

/// Takes the next request from a user receive queue, and copies its list to the start of `list`.
pub(crate) fn take_recv(ring: &mut Consumer, max_sge: u32, list: &mut [u8]) -> Option<RecvWqe> {
    if ring.available() == 0 {
        return None;
    }
    let mut fixed = [0; limits::RECV_WQE];
    ring.read(0, 0, &mut fixed);
    let wqe = parse_recv(&fixed, max_sge);
    let len = wqe.num_sge.unwrap_or(0) as usize * limits::SGE;
    if let Some(list) = list.get_mut(..len) {
        ring.read(0, limits::RECV_WQE, list);
    }
    ring.advance(1);
    Some(wqe)
}
