// SPDX-License-Identifier: GPL-2.0

//! [`SendOps`] of a queue pair: the requester's access to the send queue, memory and the network.

use super::direct;
use super::ops::{direct_path, QpOps, Queues};
use super::Qp;
use crate::counters;
use crate::ids::PdId;
use crate::mr::MrError;
use crate::packet::Payload;
use crate::segments;
use crate::source::Source;
use crate::wqe::{self, Data, Local, SendWqe};
use kernel::sync::rcu;
use kernel_ext::room::Room;
use rdma::provider::extent::Extent;
use rdma::{Access, Wc};
use roce::memory::{SendOp, SendOps, SendWr, TransmitError};
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

impl QpOps<'_> {
    /// Copies `len` bytes from `offset` of a request's data to `to`.
    fn gather(
        &self,
        wqe: &SendWqe,
        data: &[u8],
        (offset, len): (u32, u32),
        to: &mut Room<'_>,
    ) -> Result<(), WcStatus> {
        match wqe.data {
            Data::Inline => {
                let from = data
                    .get(offset as usize..)
                    .and_then(|rest| rest.get(..len as usize))
                    .ok_or(WcStatus::LocProtErr)?;
                to.write(from).map_err(|_| WcStatus::LocProtErr)
            }
            Data::List(count) => self.gather_list(data, count, (offset, len), to),
        }
    }

    fn gather_list(
        &self,
        list: &[u8],
        count: u32,
        (offset, len): (u32, u32),
        to: &mut Room<'_>,
    ) -> Result<(), WcStatus> {
        let mut left = len;
        for sge in wqe::parts(list, count, offset, len) {
            left = left.checked_sub(sge.length).ok_or(WcStatus::LocProtErr)?;
            self.qp
                .rxe
                .mrs
                .check(sge.lkey, self.qp.pd, Access::empty(), sge.addr, sge.length)
                .and_then(|region| region.copy_out(0, sge.length, to))
                .map_err(|_| WcStatus::LocProtErr)?;
        }
        if left == 0 {
            Ok(())
        } else {
            Err(WcStatus::LocProtErr)
        }
    }

    /// Sends a run of packets whose data is from `offset` on in that of request `index`.
    fn send_request(
        &mut self,
        index: u32,
        run: &PacketRun,
        offset: u32,
    ) -> Result<(), TransmitError> {
        let mut next = 0u32;
        while next < run.count() {
            let Queues { send, path, .. } = &*self.queues;
            let wqe = send.get(index).ok_or(TransmitError::Dropped)?;
            let fill = |at: u32, len: u32, to: &mut Room<'_>| {
                let part = (offset.saturating_add(at), len);
                self.gather(wqe, send.data(index), part, to)
            };
            let built = segments::build(path.as_ref(), run, next, fill);
            let (packet, count) = built.map_err(TransmitError::Fault)?;
            let av = wqe.av.clone();
            self.send(packet, av);
            next = next.saturating_add(count);
        }
        Ok(())
    }

    /// Copies a request with its data to the memory of a peer on the same device; returns whether it did.
    fn copy_request(
        &mut self,
        index: u32,
        run: &PacketRun,
        offset: u32,
    ) -> Result<bool, TransmitError> {
        let qp = self.qp;
        let Queues {
            send, path, next, ..
        } = &mut *self.queues;
        let Some(path) = direct_path(path.as_ref()) else {
            return Ok(false);
        };
        let wqe = send.get(index).ok_or(TransmitError::Dropped)?;
        let guard = rcu::read_lock();
        let part = (offset, run.payload_len());
        let source = source_of(qp, wqe, send.data(index), part, &guard);
        match source.map_err(TransmitError::Fault)? {
            Some(source) => Ok(direct::hand_over(qp, path, run, &source, next)),
            None => Ok(false),
        }
    }

    /// Copies a payload to local memory of `pd`, from `offset` of a scatter list on.
    pub(super) fn scatter_list(
        &self,
        pd: PdId,
        (list, count): (&[u8], u32),
        offset: u32,
        payload: &Payload<'_>,
    ) -> Result<(), WcStatus> {
        let mut done = 0u32;
        for sge in wqe::parts(list, count, offset, payload.len()) {
            let region = self
                .qp
                .rxe
                .mrs
                .check(sge.lkey, pd, Access::LOCAL_WRITE, sge.addr, sge.length)
                .map_err(|_| WcStatus::LocProtErr)?;
            payload
                .copy_to(done, sge.length, &region, 0)
                .map_err(|_| WcStatus::LocProtErr)?;
            done = done.saturating_add(sge.length);
        }
        if done == payload.len() {
            Ok(())
        } else {
            Err(WcStatus::LocProtErr)
        }
    }

    /// Copies a part of the response to a READ or ATOMIC to the list of request `index`.
    fn store(&self, index: u32, offset: u32, payload: &Payload<'_>) -> Result<(), WcStatus> {
        let send = &self.queues.send;
        let wqe = send.get(index).ok_or(WcStatus::LocQpOpErr)?;
        let Data::List(count) = wqe.data else {
            return Err(WcStatus::LocProtErr);
        };
        self.scatter_list(self.qp.pd, (send.data(index), count), offset, payload)
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

/// The memory of `len` bytes at `offset` of a request's data. `None` where some of it can only be accessed with a lock held, or it
/// has too many pieces.
fn source_of<'a>(
    qp: &'a Qp,
    wqe: &SendWqe,
    data: &'a [u8],
    (offset, len): (u32, u32),
    guard: &'a rcu::Guard,
) -> Result<Option<Source<'a>>, WcStatus> {
    let mut source = Source::new();
    let Data::List(count) = wqe.data else {
        let inline = data
            .get(offset as usize..)
            .and_then(|rest| rest.get(..len as usize))
            .ok_or(WcStatus::LocProtErr)?;
        return Ok(source.push(Extent::of_bytes(inline)).map(|()| source));
    };
    let mut left = len;
    for sge in wqe::parts(data, count, offset, len) {
        left = left.checked_sub(sge.length).ok_or(WcStatus::LocProtErr)?;
        let memory = qp
            .rxe
            .mrs
            .extent(sge.lkey, qp.pd, sge.addr, sge.length, guard)
            .map_err(|_| WcStatus::LocProtErr)?;
        if memory.and_then(|memory| source.push(memory)).is_none() {
            return Ok(None);
        }
    }
    if left == 0 {
        Ok(Some(source))
    } else {
        Err(WcStatus::LocProtErr)
    }
}

impl<'p> SendOps for QpOps<'p> {
    type Payload = Payload<'p>;

    #[inline]
    fn wr(&mut self, index: u32) -> Option<SendWr> {
        self.queues.send.look(self.qp, index).map(|wqe| wqe.wr)
    }

    #[inline]
    fn longest_run(&mut self, mtu: Mtu) -> u32 {
        self.longest(mtu)
    }

    fn transmit(&mut self, index: u32, run: &PacketRun, offset: u32) -> Result<(), TransmitError> {
        let wqe = self.queues.send.get(index).ok_or(TransmitError::Dropped)?;
        if matches!(wqe.wr.op, SendOp::Read { .. } | SendOp::Atomic { .. }) {
            let data = self.queues.send.data(index);
            self.check_answer(wqe, data).map_err(TransmitError::Fault)?;
        }
        if self.copy_request(index, run, offset)? {
            return Ok(());
        }
        if !self.qp.flight.has_room() {
            return Err(TransmitError::QueueFull);
        }
        self.send_request(index, run, offset)
    }

    fn scatter(
        &mut self,
        index: u32,
        offset: u32,
        payload: &Self::Payload,
    ) -> Result<(), WcStatus> {
        self.store(index, offset, payload)
    }

    fn scatter_atomic(&mut self, index: u32, value: u64) -> Result<(), WcStatus> {
        let bytes = value.to_ne_bytes();
        self.store(index, 0, &Payload::Bytes(&bytes))
    }

    fn local(&mut self, index: u32) -> Result<(), WcStatus> {
        let wqe = self.queues.send.get(index).ok_or(WcStatus::LocQpOpErr)?;
        let (qp, pd) = (self.qp, self.qp.pd);
        match &wqe.local {
            Local::None => Ok(()),
            Local::Invalidate(key) => qp.invalidate(*key),
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
        let Some(wqe) = self.queues.send.retire(self.qp, index) else {
            return;
        };
        if !completion.report {
            return;
        }
        let status = wc_status(completion.status);
        let mut wc = Wc::new(self.qp.id, wqe.wr_id, status, wc_opcode(completion.opcode));
        wc.byte_len = completion.byte_len;
        let failed = completion.status != WcStatus::Success;
        if self.qp.send_cq.push(&wc, failed).is_err() {
            self.queues.overflowed = true;
        }
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

impl Qp {
    /// Invalidates a local or remote key.
    pub(super) fn invalidate(&self, key: u32) -> Result<(), MrError> {
        let window = self.rxe.mws.invalidate(key, self.pd, self.binder);
        window.unwrap_or_else(|| self.rxe.mrs.invalidate(key, self.pd))
    }

    /// Updates the hardware counters.
    pub(super) fn count(&self, counter: Counter) {
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
            Counter::QkeyViolation => return self.rxe.count_qkey_violation(),
        };
        self.rxe.counters.add(counter, 1);
    }
}
