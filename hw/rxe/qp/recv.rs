// SPDX-License-Identifier: GPL-2.0

//! [`RecvOps`] of a queue pair: the responder's access to the receive queue, the memory of remote requests, and the
//! network.

use super::direct;
use super::ops::{flow_control, QpOps};
use super::recv_queue::{Current, Unknown};
use super::send::wc_status;
use super::send_queue::SendQueue;
use super::types::Queues;
use crate::mr::{MrError, Region};
use crate::packet::Payload;
use crate::segments;
use crate::source::Source;
use crate::srq::Broken;
use crate::wqe;
use core::sync::atomic::{fence, Ordering};
use kernel::sync::rcu;
use kernel_ext::room::Room;
use rdma::{
    abi::wc::WcFlags,
    provider::wc::{Wc, WcExtra},
    QpType,
};
use roce::memory::{
    AccessError, AtomicOp, NextRecv, RecvOps, RegionPart, RemoteFault, RespondError,
};
use roce::mtu::Mtu;
use roce::run::PacketRun;
use roce::state::{Access, Counter, QpEvent, RecvCompletion, RecvOpcode, Service, State, WcStatus};
use roce::wire::{Feth, Reth, Srqn};

/// The maximum number of bytes of a receive that are faulted in ahead of the payload: messages may be shorter than receives.
const RECEIVE_AHEAD: u32 = 1 << 14;

impl QpOps<'_> {
    /// Copies a payload to `offset` of the current receive.
    fn recv_put(&self, offset: u32, payload: &Payload<'_>) -> Result<(), AccessError<WcStatus>> {
        let recv = &self.queues.recv;
        let current = recv.current.ok_or(WcStatus::LocQpOpErr)?;
        let list: (&[u8], u32) = (&*recv.list, current.num_sge);
        self.scatter_list(recv.pd, list, offset, RECEIVE_AHEAD, payload)
    }

    /// Copies the network header in front of a datagram (IBTA volume 1, section 11.4.1.2).
    fn put_grh(&self) -> Result<(), AccessError<WcStatus>> {
        match self.arrival.and_then(|arrival| arrival.grh()) {
            Some(grh) => self.recv_put(0, &Payload::Bytes(grh.as_bytes())),
            None => Ok(()),
        }
    }

    /// The error of a failed atomic operation at the start of a region; if the memory is absent, requests a fault.
    fn explain_atomic(&self, error: MrError, region: &Region) -> AccessError<RemoteFault> {
        let fault = || region.fault(0, ATOMIC_LEN, true);
        let faults = &self.qp.faults;
        faults.explain(error, fault, remote_fault(error))
    }

    /// Copies a response to the memory of a peer on the same device; returns whether it did.
    fn copy_response(&mut self, run: &PacketRun, data: Option<&RegionPart<'_, Region>>) -> bool {
        let copies = self.queues.copies();
        let Queues {
            path,
            next,
            counters,
            ..
        } = &mut *self.queues;
        let Some(path) = path.as_ref().filter(|_| copies) else {
            return false;
        };
        let guard = rcu::read_lock();
        let mut source = Source::new();
        if let Some(RegionPart { region, offset }) = data {
            let memory = region.extent(*offset, run.payload_len(), &guard);
            if memory.and_then(|memory| source.push(memory)).is_none() {
                return false;
            }
        }
        direct::hand_over(self.qp, (path, counters), run, &source, next)
    }

    /// The memory range of a remote request, if access to it is allowed.
    fn region(
        &self,
        rkey: u32,
        needed: rdma::Access,
        va: u64,
        len: u32,
    ) -> Result<Region, RemoteFault> {
        let (qp, pd) = (self.qp, self.queues.recv.remote_pd);
        let window = qp.rxe.mws.check(rkey, (pd, qp.binder), needed, va, len);
        window
            .unwrap_or_else(|| qp.rxe.mrs.check(rkey, pd, needed, va, len))
            .map_err(|_| RemoteFault::Access)
    }

    /// Fills in the fields of a successful receive completion.
    fn describe(&self, wc: &mut Wc, completion: &RecvCompletion) {
        wc.byte_len = completion.byte_len;
        let port = self.queues.partition.port();
        wc.port_num = port.number();
        wc.flags = WcFlags::GRH;
        wc.ex = match (completion.imm, completion.invalidated_rkey) {
            (Some(imm), _) => WcExtra::Imm(imm.to_be_bytes()),
            (None, Some(rkey)) => WcExtra::Invalidated(rkey),
            (None, None) => WcExtra::None,
        };
        if matches!(self.qp.service, Service::Ud | Service::XrcTgt) {
            wc.src_qp = completion.src_qpn.get();
        }
        let Some(arrival) = self.arrival else {
            return;
        };
        let named = self.queues.recv.named();
        if named.map_or(self.qp.user, |srq| srq.is_user()) {
            if self.qp.service == Service::Ud {
                wc.sl = arrival.service_level();
            }
            return;
        }
        if let (QpType::Gsi, Some(pkey)) = (self.qp.qp_type, arrival.pkey()) {
            let pkeys = &self.qp.rxe.port(port).pkeys;
            wc.pkey_index = pkeys.index_of(pkey).unwrap_or(0);
        }
        wc.flags |= WcFlags::WITH_NETWORK_HDR_TYPE;
        wc.network_hdr_type = arrival.network_type();
        if let Some(vlan_id) = arrival.vlan_id() {
            wc.flags |= WcFlags::WITH_VLAN;
            wc.vlan_id = vlan_id;
        }
    }
}

/// Selectivity of a flush: the whole memory region (`IB_FLUSH_MR`).
const FLUSH_MR: u8 = 1;

/// Access flags required for a flush; `None` for invalid fields (IBTA annex A19).
fn flush_access(feth: Feth) -> Option<rdma::Access> {
    use rdma::Access as A;
    let needed = match feth.placement {
        1 => A::FLUSH_GLOBAL,
        2 => A::FLUSH_PERSISTENT,
        3 => A::FLUSH_GLOBAL.with(A::FLUSH_PERSISTENT),
        _ => return None,
    };
    (feth.selectivity <= FLUSH_MR).then_some(needed)
}

/// The length of an atomic operation.
const ATOMIC_LEN: u32 = 8;

/// The NAK for memory that an atomic operation cannot access.
fn remote_fault(error: MrError) -> RemoteFault {
    match error {
        MrError::Misaligned => RemoteFault::InvalidRequest,
        _ => RemoteFault::Access,
    }
}

impl<'p> RecvOps for QpOps<'p> {
    type Payload = Payload<'p>;
    type Region = Region;

    fn name_srq(&mut self, srqn: Srqn) -> Result<(), RemoteFault> {
        let srqs = &self.qp.rxe.srqs;
        let named = self.queues.recv.name(srqs, srqn.get());
        named.map_err(|Unknown| RemoteFault::Access)
    }

    fn next_recv(&mut self) -> NextRecv {
        let (qp, recv) = (self.qp, &mut self.queues.recv);
        let wqe = match recv.take(&qp.posted_recvs, &qp.outstanding_recvs) {
            Ok(Some(wqe)) => wqe,
            Ok(None) => return NextRecv::Empty,
            Err(Broken) => {
                qp.events.raise(rdma::QpEvent::Fatal);
                qp.run_sharing();
                return NextRecv::Invalid(WcStatus::LocQpOpErr);
            }
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

    #[inline]
    fn receives(&mut self) -> Option<u32> {
        if !flow_control() {
            return None;
        }
        self.queues.recv.posted(&self.qp.outstanding_recvs)
    }

    fn recv_scatter(
        &mut self,
        offset: u32,
        payload: &Self::Payload,
    ) -> Result<(), AccessError<WcStatus>> {
        self.recv_put(offset, payload)
    }

    fn recv_header(&mut self) -> Result<(), AccessError<WcStatus>> {
        self.put_grh()
    }

    fn complete_recv(&mut self, completion: RecvCompletion) {
        let Some(current) = self.queues.recv.current else {
            return;
        };
        let status = completion.status;
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
        let qp = self.qp;
        let named = self.queues.recv.named();
        let Some(cq) = named.map_or(qp.recv_cq.as_ref(), |srq| srq.cq()) else {
            return;
        };
        if let Err(overflow) = cq.push(&wc, completion.solicited || failed) {
            let cq = cq.clone();
            self.queues.lost(qp, &cq, overflow);
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
        self.region(rkey, needed, va, len)
    }

    fn write(
        &mut self,
        region: &Region,
        offset: u32,
        payload: &Self::Payload,
    ) -> Result<(), AccessError<RemoteFault>> {
        let len = payload.len();
        payload.copy_to(0, len, region, offset).map_err(|error| {
            let fault = || region.fault(offset, len, true);
            self.qp.faults.explain(error, fault, RemoteFault::Access)
        })
    }

    fn atomic(&mut self, region: &Region, op: AtomicOp) -> Result<u64, AccessError<RemoteFault>> {
        match op {
            AtomicOp::CmpSwap { compare, swap } => region.compare_swap(0, compare, swap),
            AtomicOp::FetchAdd { add } => region.fetch_add(0, add),
        }
        .map_err(|error| self.explain_atomic(error, region))
    }

    fn atomic_write(
        &mut self,
        region: &Region,
        payload: &Self::Payload,
    ) -> Result<(), AccessError<RemoteFault>> {
        let mut value = [0; ATOMIC_LEN as usize];
        payload
            .read(&mut value)
            .map_err(|_| RemoteFault::InvalidRequest)?;
        region
            .store(0, u64::from_ne_bytes(value))
            .map_err(|error| self.explain_atomic(error, region))
    }

    /// WRITEs are visible to all processors once copied; a barrier orders them, and what the processors write back, before the
    /// response.
    fn flush(&mut self, feth: Feth, reth: Reth) -> Result<(), RemoteFault> {
        let needed = flush_access(feth).ok_or(RemoteFault::InvalidRequest)?;
        if !self.queues.access.contains(needed) {
            return Err(RemoteFault::InvalidRequest);
        }
        let qp = self.qp;
        if feth.selectivity == FLUSH_MR {
            let pd = self.queues.recv.remote_pd;
            let flushed = qp.rxe.mrs.flush_whole(reth.rkey, pd, needed);
            flushed.map_err(|_| RemoteFault::Access)?;
        } else {
            let region = self.region(reth.rkey, needed, reth.va, reth.length)?;
            if needed.contains(rdma::Access::FLUSH_PERSISTENT) {
                region.write_back().map_err(|_| RemoteFault::Access)?;
            }
        }
        fence(Ordering::SeqCst);
        Ok(())
    }

    fn invalidate(&mut self, rkey: u32) -> Result<(), RemoteFault> {
        let pd = self.queues.recv.remote_pd;
        self.qp
            .invalidate(rkey, pd)
            .map_err(|_| RemoteFault::Access)
    }

    #[inline]
    fn longest_run(&mut self, mtu: Mtu) -> u32 {
        self.longest(mtu)
    }

    fn respond(
        &mut self,
        run: &PacketRun,
        data: Option<RegionPart<'_, Region>>,
    ) -> Result<(), RespondError> {
        if self.copy_response(run, data.as_ref()) {
            return Ok(());
        }
        let in_time = data.is_none() || self.queues.may_send();
        if !in_time || !self.qp.flight.has_room() {
            return Err(RespondError::QueueFull);
        }
        if data.is_some() && self.qp.faults.is_pending() {
            return Err(RespondError::Absent);
        }
        let qp = self.qp;
        // The last packet of a READ's response is as long as the first one of the next response: they are sent together.
        let more = data.is_some() && run.payload_len() >= segments::LONG;
        let guard = rcu::read_lock();
        // The memory of a run is looked up once.
        let memory = data
            .as_ref()
            .and_then(|part| part.region.extent(part.offset, run.payload_len(), &guard));
        let fill = |_: &SendQueue, at: u32, len: u32, to: &mut Room<'_>| match (&data, &memory) {
            (Some(_), Some(memory)) => {
                let copied = memory.copy_out(at as usize, len as usize, to);
                copied.map_err(|_| RemoteFault::Access.into())
            }
            (Some(RegionPart { region, offset }), None) => {
                let offset = offset.saturating_add(at);
                region.copy_out(offset, len, to).map_err(|error| {
                    let fault = || region.fault(offset, len, false);
                    qp.faults.explain(error, fault, RemoteFault::Access)
                })
            }
            (None, _) => Ok(()),
        };
        self.send_run(run, None, more, fill)?;
        if data.is_some() {
            self.queues.note_sent(run);
        }
        Ok(())
    }

    fn moved(&mut self, state: State) {
        self.queues.moved = Some(state);
    }

    fn event(&mut self, event: QpEvent) {
        self.qp.raise(event);
    }

    #[inline]
    fn has_migrated(&self) -> bool {
        self.queues.migration.has_migrated()
    }

    fn count(&mut self, counter: Counter) {
        self.queues.count(self.qp, counter);
    }
}
