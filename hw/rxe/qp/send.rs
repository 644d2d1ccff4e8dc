// SPDX-License-Identifier: GPL-2.0

//! [`SendOps`] of a queue pair: the requester's access to the send queue, memory and the network.

use super::direct;
use super::ops::{path_to, QpOps};
use super::send_queue::SendQueue;
use super::types::{Qp, Queues};
use crate::ah::Av;
use crate::counters;
use crate::cq::{Cq, Overflow};
use crate::ids::PdId;
use crate::limits;
use crate::mr::MrError;
use crate::packet::Payload;
use crate::port_id::PortId;
use crate::source::Source;
use crate::wqe::{self, Data, Local, SendWqe};
use kernel::sync::{rcu, Arc};
use kernel_ext::room::Room;
use rdma::provider::extent::Extent;
use rdma::{Access, QpState, Wc};
use roce::memory::{AccessError, SendOp, SendOps, SendWr, TransmitError};
use roce::migration::PathAttr;
use roce::mtu::Mtu;
use roce::run::PacketRun;
use roce::state::{Completion, Counter, QpEvent, State, WcOpcode, WcStatus};

/// The `enum ib_wc_opcode` of a completion.
fn wc_opcode(opcode: Option<WcOpcode>) -> rdma::WcOpcode {
    match opcode {
        Some(WcOpcode::Send) | None => rdma::WcOpcode::Send,
        Some(WcOpcode::RdmaWrite) => rdma::WcOpcode::RdmaWrite,
        Some(WcOpcode::RdmaRead) => rdma::WcOpcode::RdmaRead,
        Some(WcOpcode::CompSwap) => rdma::WcOpcode::CompSwap,
        Some(WcOpcode::FetchAdd) => rdma::WcOpcode::FetchAdd,
        Some(WcOpcode::AtomicWrite) => rdma::WcOpcode::AtomicWrite,
        Some(WcOpcode::Flush) => rdma::WcOpcode::Flush,
        Some(WcOpcode::BindMw) => rdma::WcOpcode::BindMw,
        Some(WcOpcode::LocalInv) => rdma::WcOpcode::LocalInv,
        Some(WcOpcode::RegMr) => rdma::WcOpcode::RegMr,
    }
}

/// The `enum ib_wc_status` of a completion.
pub(crate) fn wc_status(status: WcStatus) -> rdma::WcStatus {
    rdma::WcStatus::try_from(status.to_ib()).unwrap_or(rdma::WcStatus::GeneralErr)
}

/// The `len` bytes at `offset` of inline data.
#[inline]
fn inline_part(data: &[u8], offset: u32, len: u32) -> Result<&[u8], WcStatus> {
    data.get(offset as usize..)
        .and_then(|rest| rest.get(..len as usize))
        .ok_or(WcStatus::LocProtErr)
}

/// Copies `len` bytes from `offset` of a request's data to `to`.
fn gather(
    qp: &Qp,
    wqe: &SendWqe,
    data: &[u8],
    (offset, len): (u32, u32),
    to: &mut Room<'_>,
) -> Result<(), AccessError<WcStatus>> {
    let Data::List(count) = wqe.data else {
        let from = inline_part(data, offset, len)?;
        return to.write(from).map_err(|_| WcStatus::LocProtErr.into());
    };
    let mut left = len;
    for sge in wqe::parts(data, count, offset, len) {
        left = left.checked_sub(sge.length).ok_or(WcStatus::LocProtErr)?;
        let region = qp
            .rxe
            .mrs
            .check(sge.lkey, qp.pd, Access::empty(), sge.addr, sge.length)
            .map_err(|_| WcStatus::LocProtErr)?;
        region.copy_out(0, sge.length, to).map_err(|error| {
            let done = len.saturating_sub(left).saturating_sub(sge.length);
            let ahead = rest_of_element(data, count, offset.saturating_add(done));
            let fault = || region.fault_ahead(ahead, false);
            qp.faults.explain(error, fault, WcStatus::LocProtErr)
        })?;
    }
    if left == 0 {
        Ok(())
    } else {
        Err(WcStatus::LocProtErr.into())
    }
}

impl QpOps<'_> {
    /// Sends a run of packets; their payload is the data of request `index` from `offset` on.
    fn send_request(
        &mut self,
        index: u32,
        run: &PacketRun,
        offset: u32,
        more: bool,
    ) -> Result<(), TransmitError> {
        let qp = self.qp;
        let wqe = self.queues.send.get(index).ok_or(TransmitError::Dropped)?;
        let av = wqe.av.clone();
        let guard = rcu::read_lock();
        // The keys of a run are looked up once.
        let mut source = Source::new();
        let is_whole = match wqe.data {
            Data::List(count) => {
                let list = (self.queues.send.data(index), count);
                let part = (offset, run.payload_len());
                let added = add_list(&mut source, qp, list, part, &guard);
                added.map_err(TransmitError::Fault)?
            }
            Data::Inline => false,
        };
        let fill = |send: &SendQueue, at: u32, len: u32, to: &mut Room<'_>| {
            if is_whole {
                let copied = source.copy_out(at, len, to);
                return copied.map_err(|_| WcStatus::LocProtErr.into());
            }
            let wqe = send.get(index).ok_or(WcStatus::LocQpOpErr)?;
            let part = (offset.saturating_add(at), len);
            gather(qp, wqe, send.data(index), part, to)
        };
        Ok(self.send_run(run, av, more, fill)?)
    }

    /// Copies a request with its data to the memory of a peer on the same device; returns whether it did.
    fn copy_request(
        &mut self,
        index: u32,
        run: &PacketRun,
        offset: u32,
    ) -> Result<bool, TransmitError> {
        let qp = self.qp;
        if !self.queues.may_copy() {
            return Ok(false);
        }
        let Queues {
            send,
            path,
            datagram_path,
            next,
            counters,
            ..
        } = &mut *self.queues;
        let wqe = send.get(index).ok_or(TransmitError::Dropped)?;
        let path = path_to(qp, (path, datagram_path), wqe.av.as_ref());
        let Some(path) = path.filter(|path| path.loops_back()) else {
            return Ok(false);
        };
        let guard = rcu::read_lock();
        let part = (offset, run.payload_len());
        let mut source = Source::new();
        let added = add_data(&mut source, qp, wqe, send.data(index), part, &guard);
        let is_whole = added.map_err(TransmitError::Fault)?;
        Ok(is_whole && direct::hand_over(qp, (path, counters), run, &source, next))
    }

    /// Copies a payload to local memory of `pd`, from `offset` of a scatter list on. `ahead` bytes of the list will probably be
    /// written to soon.
    pub(super) fn scatter_list(
        &self,
        pd: PdId,
        (list, count): (&[u8], u32),
        offset: u32,
        ahead: u32,
        payload: &Payload<'_>,
    ) -> Result<(), AccessError<WcStatus>> {
        let mut done = 0u32;
        for sge in wqe::parts(list, count, offset, payload.len()) {
            let region = self
                .qp
                .rxe
                .mrs
                .check(sge.lkey, pd, Access::LOCAL_WRITE, sge.addr, sge.length)
                .map_err(|_| WcStatus::LocProtErr)?;
            let copied = payload.copy_to(done, sge.length, &region, 0);
            copied.map_err(|error| {
                let left = rest_of_element(list, count, offset.saturating_add(done));
                let fault = || region.fault_ahead(left.min(ahead), true);
                let faults = &self.qp.faults;
                faults.explain(error, fault, WcStatus::LocProtErr)
            })?;
            done = done.saturating_add(sge.length);
        }
        if done == payload.len() {
            Ok(())
        } else {
            Err(WcStatus::LocProtErr.into())
        }
    }

    /// Copies a part of the response to a READ or ATOMIC to the list of request `index`.
    fn store(
        &self,
        index: u32,
        offset: u32,
        payload: &Payload<'_>,
    ) -> Result<(), AccessError<WcStatus>> {
        let send = &self.queues.send;
        let wqe = send.get(index).ok_or(WcStatus::LocQpOpErr)?;
        let Data::List(count) = wqe.data else {
            return Err(WcStatus::LocProtErr.into());
        };
        let list = (send.data(index), count);
        self.scatter_list(self.qp.pd, list, offset, u32::MAX, payload)
    }

    /// Checks whether the list for the response to a READ or ATOMIC is accessible.
    fn check_answer(&self, wqe: &SendWqe, data: &[u8]) -> Result<(), WcStatus> {
        let Data::List(count) = wqe.data else {
            return Err(WcStatus::LocProtErr);
        };
        for sge in wqe::parts(data, count, 0, wqe.wr.length) {
            self.qp
                .rxe
                .mrs
                .check(
                    sge.lkey,
                    self.qp.pd,
                    Access::LOCAL_WRITE,
                    sge.addr,
                    sge.length,
                )
                .map_err(|_| WcStatus::LocProtErr)?;
        }
        Ok(())
    }
}

/// The number of bytes from `offset` of a list to the end of the element there.
#[cold]
fn rest_of_element(list: &[u8], count: u32, offset: u32) -> u32 {
    let mut rest = wqe::parts(list, count, offset, u32::MAX);
    rest.next().map_or(0, |element| element.length)
}

/// Adds the memory of `len` bytes at `offset` of a request's data to a list. Returns false if some of it can only be accessed with a
/// lock held, or if it consists of too many pieces.
fn add_data<'a>(
    source: &mut Source<'a>,
    qp: &'a Qp,
    wqe: &SendWqe,
    data: &'a [u8],
    (offset, len): (u32, u32),
    guard: &'a rcu::Guard,
) -> Result<bool, WcStatus> {
    let Data::List(count) = wqe.data else {
        let inline = inline_part(data, offset, len)?;
        return Ok(source.push(Extent::of_bytes(inline)).is_some());
    };
    add_list(source, qp, (data, count), (offset, len), guard)
}

/// Adds the memory of `len` bytes at `offset` of a gather list, as [`add_data`].
fn add_list<'a>(
    source: &mut Source<'a>,
    qp: &'a Qp,
    (list, count): (&[u8], u32),
    (offset, len): (u32, u32),
    guard: &'a rcu::Guard,
) -> Result<bool, WcStatus> {
    let mut left = len;
    for sge in wqe::parts(list, count, offset, len) {
        left = left.checked_sub(sge.length).ok_or(WcStatus::LocProtErr)?;
        let memory = qp
            .rxe
            .mrs
            .extent(sge.lkey, qp.pd, sge.addr, sge.length, guard)
            .map_err(|_| WcStatus::LocProtErr)?;
        if memory.and_then(|memory| source.push(memory)).is_none() {
            return Ok(false);
        }
    }
    if left == 0 {
        Ok(true)
    } else {
        Err(WcStatus::LocProtErr)
    }
}

impl<'p> SendOps for QpOps<'p> {
    type Payload = Payload<'p>;

    #[inline]
    fn wr(&mut self, index: u32) -> Option<SendWr> {
        let qp = self.qp;
        let Queues {
            send,
            partition,
            moved,
            ..
        } = &mut *self.queues;
        let port = partition.port();
        let find_ah = |number, request: &_| qp.find_ah(number, request, port);
        let inject = || match qp.rxe.fault_inject.is_armed() {
            true => qp.take_fault(*moved),
            false => None,
        };
        let wqe = send.look(index, &qp.posted_sends, find_ah, inject);
        wqe.map(|wqe| wqe.wr)
    }

    #[inline]
    fn longest_run(&mut self, mtu: Mtu) -> u32 {
        self.longest(mtu)
    }

    fn transmit(
        &mut self,
        index: u32,
        run: &PacketRun,
        offset: u32,
        more: bool,
    ) -> Result<(), TransmitError> {
        let wqe = self.queues.send.get(index).ok_or(TransmitError::Dropped)?;
        if matches!(wqe.wr.op, SendOp::Read { .. } | SendOp::Atomic { .. }) {
            let data = self.queues.send.data(index);
            self.check_answer(wqe, data).map_err(TransmitError::Fault)?;
        }
        if self.copy_request(index, run, offset)? {
            return Ok(());
        }
        if !self.queues.may_send() || !self.qp.flight.has_room() {
            return Err(TransmitError::QueueFull);
        }
        if self.qp.faults.is_pending() {
            return Err(TransmitError::Absent);
        }
        self.send_request(index, run, offset, more)?;
        self.queues.note_sent(run);
        Ok(())
    }

    fn scatter(
        &mut self,
        index: u32,
        offset: u32,
        payload: &Self::Payload,
    ) -> Result<(), AccessError<WcStatus>> {
        self.store(index, offset, payload)
    }

    fn scatter_atomic(&mut self, index: u32, value: u64) -> Result<(), AccessError<WcStatus>> {
        let bytes = value.to_ne_bytes();
        self.store(index, 0, &Payload::Bytes(&bytes))
    }

    fn local(&mut self, index: u32) -> Result<(), WcStatus> {
        let wqe = self.queues.send.get(index).ok_or(WcStatus::LocQpOpErr)?;
        let (qp, pd) = (self.qp, self.qp.pd);
        match &wqe.local {
            Local::None => Ok(()),
            Local::Invalidate(key) => qp.invalidate(*key, pd),
            Local::Bind(bind) => {
                let (mrs, mws) = (&qp.rxe.mrs, &qp.rxe.mws);
                let bound = mws.bind(mrs, bind, pd, qp.binder);
                return bound.map_err(|_| WcStatus::MwBindErr);
            }
            Local::Register {
                mr,
                key,
                access,
                iova,
            } => mr.register(pd, *key, *access, *iova),
        }
        .map_err(|_| WcStatus::LocQpOpErr)
    }

    fn complete(&mut self, index: u32, completion: Completion) {
        let outstanding = &self.qp.outstanding_sends;
        let Some(wqe) = self.queues.send.retire(index, outstanding) else {
            return;
        };
        if !completion.report {
            return;
        }
        let status = wc_status(completion.status);
        let mut wc = Wc::new(self.qp.id, wqe.wr_id, status, wc_opcode(completion.opcode));
        wc.byte_len = completion.byte_len;
        let failed = completion.status != WcStatus::Success;
        let qp = self.qp;
        let Some(cq) = &qp.send_cq else {
            return;
        };
        if let Err(overflow) = cq.push(&wc, failed) {
            self.queues.lost(qp, cq, overflow);
        }
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

    fn migrate(&mut self) -> Option<PathAttr> {
        if !self.queues.migration.retries_exhausted() {
            return None;
        }
        // The headers of its packets are those of the old path.
        self.flush();
        self.queues.take_alternate(self.qp)
    }

    fn count(&mut self, counter: Counter) {
        self.queues.count(self.qp, counter);
    }
}

impl Qp {
    /// The address vector of an address handle of user space, or, for the number 0, of the request itself. `None` for one of another
    /// port than the queue pair's: `IB_DEVICE_UD_AV_PORT_ENFORCE`.
    fn find_ah(
        &self,
        number: u32,
        request: &[u8; limits::SEND_WQE],
        port: PortId,
    ) -> Option<Arc<Av>> {
        let av = match number {
            0 => self.rxe.av(wqe::parse_av(request)),
            number => self.rxe.ahs.find(number, self.pd),
        };
        av.filter(|av| av.port() == port)
    }

    /// The status that a request fails with which is read now, if the armed fault is for it; `moved` is the state that the engine has
    /// changed to in this run.
    #[cold]
    fn take_fault(&self, moved: Option<State>) -> Option<WcStatus> {
        // Requests that are read to be flushed are none that begin.
        if moved.is_some() || self.state() != QpState::Rts {
            return None;
        }
        self.rxe.fault_inject.take(self.number())
    }

    /// Invalidates a local or remote key of a protection domain.
    pub(super) fn invalidate(&self, key: u32, pd: PdId) -> Result<(), MrError> {
        let window = self.rxe.mws.invalidate(key, pd, self.binder);
        window.unwrap_or_else(|| self.rxe.mrs.invalidate(key, pd))
    }
}

impl Queues {
    /// Notes that a completion is lost.
    #[cold]
    pub(super) fn lost(&mut self, qp: &Qp, cq: &Arc<Cq>, overflow: Overflow) {
        self.overflowed = true;
        if overflow.first {
            qp.fail_users_of(cq);
        }
    }

    /// Updates the hardware counters.
    pub(super) fn count(&self, qp: &Qp, counter: Counter) {
        use counters::Counter as C;
        let counter = match counter {
            Counter::DuplicateRequest => C::DuplicateRequest,
            Counter::OutOfSeqRequest => C::OutOfSequenceRequest,
            Counter::RcvdRnr => C::ReceivedRnr,
            Counter::SentRnr => C::SentRnr,
            Counter::RcvdSeqErr => C::ReceivedSequenceError,
            Counter::RetryExceeded => C::RetryExceeded,
            Counter::RnrRetryExceeded => C::RnrRetryExceeded,
            Counter::CompleterRetry => C::CompleterRetry,
            Counter::SendErr => C::SendError,
            Counter::RdmaSend => C::RdmaSends,
            Counter::RdmaRecv => C::RdmaReceives,
            Counter::QkeyViolation => {
                let port = qp.rxe.port(self.partition.port());
                return port.count_qkey_violation();
            }
        };
        self.counters.add(counter, 1);
    }
}
