// SPDX-License-Identifier: GPL-2.0

//! The receive queue of a queue pair and the peer's access to memory, as the responder sees them.

use super::send::wc_status;
use super::{Port, Qp};
use crate::limits;
use crate::mr::{MrError, Region};
use crate::ring::Consumer;
use crate::rx::Payload;
use crate::tx;
use crate::wqe::{self, RecvWqe};
use core::sync::atomic::Ordering;
use kernel::prelude::*;
use rdma::wc::{Wc, WcExtra, WcFlags};
use roce::memory::{AtomicOp, NextRecv, RecvPort, RegionPart, RemoteFault, RespondError};
use roce::state::{Access, Counter, QpEvent, RecvCompletion, RecvOpcode, Service, State, WcStatus};
use roce::wire::Headers;

/// The longest list of a receive request.
const MAX_LIST: usize = limits::MAX_SGE as usize * limits::SGE;

/// Where receives come from, and the current one. Guarded by the engine's lock.
pub(crate) struct RecvQueue {
    /// The ring that a program posts to.
    ring: Option<Consumer>,
    max_sge: u32,
    current: Option<Current>,
    /// The list of the current receive.
    list: KBox<[u8; MAX_LIST]>,
}

/// The receive that the responder works on.
#[derive(Clone, Copy)]
struct Current {
    wr_id: u64,
    num_sge: u32,
}

impl RecvQueue {
    /// Makes a queue for the requests of `ring`, or for those of a kernel consumer. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(ring: Option<Consumer>, max_sge: u32) -> Result<Self> {
        let list = KBox::new([0; MAX_LIST], GFP_KERNEL)?;
        Ok(Self {
            ring,
            max_sge,
            current: None,
            list,
        })
    }

    /// Forgets all requests.
    pub(crate) fn reset(&mut self) {
        self.current = None;
        if let Some(ring) = &mut self.ring {
            ring.clear();
        }
    }

    /// Takes the next request, its list beside it.
    fn take(&mut self, qp: &Qp) -> Option<RecvWqe> {
        let Some(ring) = &mut self.ring else {
            let wqe = qp.posted_recvs.lock().take(&mut *self.list)?;
            qp.outstanding_recvs.fetch_sub(1, Ordering::AcqRel);
            return Some(wqe);
        };
        if ring.available() == 0 {
            return None;
        }
        let mut fixed = [0; limits::RECV_WQE];
        ring.read(0, 0, &mut fixed);
        let wqe = wqe::parse_recv(&fixed, self.max_sge);
        let len = wqe.num_sge.unwrap_or(0) as usize * limits::SGE;
        if let Some(list) = self.list.get_mut(..len) {
            ring.read(0, limits::RECV_WQE, list);
        }
        ring.advance(1);
        Some(wqe)
    }
}

impl Port<'_> {
    /// Puts a payload at `offset` of the current receive.
    fn recv_put(&self, offset: u32, payload: &Payload<'_>) -> Result<(), WcStatus> {
        let recv = &self.queues.recv;
        let current = recv.current.ok_or(WcStatus::LocQpOpErr)?;
        self.scatter_list(&*recv.list, current.num_sge, offset, payload)
    }

    /// Puts the network header in front of a datagram (IBTA volume 1, section 11.4.1.2).
    fn put_grh(&self) -> Result<(), WcStatus> {
        match self.incoming {
            Some(incoming) => self.recv_put(0, &Payload::Bytes(&incoming.grh())),
            None => Ok(()),
        }
    }

    /// What a successful receive tells besides its data.
    fn describe(&self, wc: &mut Wc, completion: &RecvCompletion) {
        wc.byte_len = completion.byte_len;
        wc.port_num = 1;
        wc.flags = WcFlags::GRH;
        wc.ex = match (completion.imm, completion.invalidated_rkey) {
            (Some(imm), _) => WcExtra::Imm(imm.to_be_bytes()),
            (None, Some(rkey)) => WcExtra::Invalidated(rkey),
            (None, None) => WcExtra::None,
        };
        if self.qp.service == Service::Ud {
            wc.src_qp = completion.src_qpn.get();
        }
        let Some(incoming) = self.incoming else {
            return;
        };
        if self.qp.user {
            return;
        }
        wc.flags |= WcFlags::WITH_NETWORK_HDR_TYPE;
        wc.network_hdr_type = incoming.network_type();
        if let Some(vlan_id) = incoming.vlan_id() {
            wc.flags |= WcFlags::WITH_VLAN;
            wc.vlan_id = vlan_id;
        }
    }
}

impl<'p> RecvPort for Port<'p> {
    type Payload = Payload<'p>;
    type Region = Region;

    fn next_recv(&mut self) -> NextRecv {
        let recv = &mut self.queues.recv;
        let Some(wqe) = recv.take(self.qp) else {
            return NextRecv::Empty;
        };
        let num_sge = wqe.num_sge.unwrap_or(0);
        recv.current = Some(Current {
            wr_id: wqe.wr_id,
            num_sge,
        });
        if let Err(status) = wqe.num_sge {
            return NextRecv::Invalid(status);
        }
        let length = wqe::list_length(&*recv.list, num_sge);
        NextRecv::Ready {
            length: u32::try_from(length).unwrap_or(u32::MAX),
        }
    }

    fn recv_scatter(&mut self, offset: u32, payload: &Self::Payload) -> Result<(), WcStatus> {
        self.recv_put(offset, payload)
    }

    fn complete_recv(&mut self, completion: RecvCompletion) {
        let Some(current) = self.queues.recv.current else {
            return;
        };
        let mut status = completion.status;
        if status == WcStatus::Success && self.qp.service == Service::Ud {
            status = self.put_grh().err().unwrap_or(status);
        }
        self.queues.recv.current = None;
        let opcode = match completion.opcode {
            RecvOpcode::Recv => rdma::WcOpcode::Recv,
            RecvOpcode::RecvRdmaWithImm => rdma::WcOpcode::RecvRdmaWithImm,
        };
        let mut wc = Wc::new(self.qp.id, current.wr_id, wc_status(status), opcode);
        let failed = status != WcStatus::Success;
        if !failed {
            self.describe(&mut wc, &completion);
        }
        if self
            .qp
            .recv_cq
            .push(&wc, completion.solicited || failed)
            .is_err()
        {
            self.queues.overflowed = true;
        }
    }

    fn remote(
        &mut self,
        rkey: u32,
        va: u64,
        len: u32,
        access: Access,
    ) -> Result<Region, RemoteFault> {
        let needed = match access {
            Access::Write => rdma::Access::REMOTE_WRITE,
            Access::Read => rdma::Access::REMOTE_READ,
            Access::Atomic => rdma::Access::REMOTE_ATOMIC,
        };
        self.qp
            .rxe
            .mrs
            .check(rkey, self.qp.pd, needed, va, len)
            .map_err(|_| RemoteFault::Access)
    }

    fn write(
        &mut self,
        region: &Region,
        offset: u32,
        payload: &Self::Payload,
    ) -> Result<(), RemoteFault> {
        payload
            .copy(0, payload.len(), |at, bytes| {
                region.copy_in(offset.saturating_add(at), bytes).is_ok()
            })
            .map_err(|_| RemoteFault::Access)
    }

    fn atomic(&mut self, region: &Region, op: AtomicOp) -> Result<u64, RemoteFault> {
        match op {
            AtomicOp::CmpSwap { compare, swap } => region.compare_swap(0, compare, swap),
            AtomicOp::FetchAdd { add } => region.fetch_add(0, add),
        }
        .map_err(|error| match error {
            MrError::Misaligned => RemoteFault::InvalidRequest,
            _ => RemoteFault::Access,
        })
    }

    fn invalidate(&mut self, rkey: u32) -> Result<(), RemoteFault> {
        self.qp
            .rxe
            .mrs
            .invalidate(rkey, self.qp.pd)
            .map_err(|_| RemoteFault::Access)
    }

    fn respond(
        &mut self,
        headers: &Headers,
        data: Option<RegionPart<'_, Region>>,
    ) -> Result<(), RespondError> {
        if !self.qp.flight.has_room() {
            return Err(RespondError::Busy);
        }
        let len = data.as_ref().map_or(0, |part| part.len);
        let packet = tx::Packet::build(headers, len, |to| match &data {
            Some(part) => part.region.copy_out(part.offset, to),
            None => Ok(()),
        })
        .map_err(|_| RespondError::Nak(RemoteFault::Access))?;
        self.send(packet, None);
        Ok(())
    }

    fn moved(&mut self, state: State) {
        self.queues.moved = Some(state);
    }

    fn event(&mut self, event: QpEvent) {
        self.qp.raise(event);
    }

    fn count(&mut self, counter: Counter) {
        self.qp.count(counter);
    }
}
