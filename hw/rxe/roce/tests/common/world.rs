// SPDX-License-Identifier: GPL-2.0

//! The driver of one queue pair in tests: `SendOps` and `RecvOps` over plain vectors, which record all calls.

use std::collections::VecDeque;

use roce::congestion::Congestion;
use roce::memory::{
    AccessError, AtomicOp, NextRecv, RecvOps, RegionPart, RemoteFault, RespondError, SendOp,
    SendOps, SendWr, TransmitError,
};
use roce::migration::{Migration, Origin, PathAttr, Verdict, Wanted};
use roce::mtu::Mtu;
use roce::responder::Slot;
use roce::run::PacketRun;
use roce::state::{Access, Completion, Counter, QpEvent, RecvCompletion, State, WcStatus};
use roce::wire::{Feth, Headers, Reth, Srqn};

use super::Rng;

/// The key of the memory.
pub const RKEY: u32 = 0x1234;
/// The address of the memory.
pub const BASE: u64 = 0x10_0000;

/// A work request with its data (sent or read).
#[derive(Clone, Debug)]
pub struct Work {
    pub wr: SendWr,
    pub data: Vec<u8>,
}

/// A packet as it left an engine.
#[derive(Clone, Debug)]
pub struct Sent {
    pub headers: Headers,
    pub payload: Vec<u8>,
    /// The path that it takes.
    pub path: usize,
    /// Whether the packet before it belongs to the same run.
    pub follows: bool,
}

/// A receive that completed.
#[derive(Clone, Debug)]
pub struct Received {
    pub completion: RecvCompletion,
    pub data: Vec<u8>,
    /// The shared receive queue that the request has named, if it was taken from one.
    pub srqn: Option<Srqn>,
}

/// A shared receive queue for extended reliable connections.
#[derive(Clone, Debug)]
pub struct Srq {
    pub number: Srqn,
    /// Whether it is of the domain of the queue pair.
    pub in_domain: bool,
    /// The key of the memory for requests that name it.
    pub rkey: u32,
    pub receives: VecDeque<Vec<u8>>,
}

/// A range of the memory.
#[derive(Clone, Debug)]
pub struct Region {
    start: usize,
    len: usize,
    access: Access,
}

/// Room for `count` READs and ATOMICs.
pub fn slots(count: usize) -> Vec<Slot<Region>> {
    (0..count).map(|_| Slot::new()).collect()
}

/// Path migration, over paths that have numbers.
#[derive(Debug, Default)]
pub struct Paths {
    pub migration: Migration,
    /// The path that packets take.
    pub current: usize,
    pub alternate: Option<(usize, PathAttr)>,
}

impl Paths {
    /// Loads an alternate path.
    pub fn load(&mut self, path: usize, attr: PathAttr) {
        self.alternate = Some((path, attr));
        assert!(!self.migration.ask(Wanted::Rearm));
    }
}

#[derive(Debug)]
pub struct World {
    // Send side.
    pub queue: Vec<Work>,
    pub completions: Vec<Completion>,
    pub locals: Vec<u32>,
    /// The result of local operations.
    pub local_result: Result<(), WcStatus>,
    /// So many transmissions go well before those errors.
    pub good_transmits: usize,
    /// What each transmitted run was told of others that follow.
    pub more: Vec<bool>,
    /// The results of the next transmissions.
    pub transmit_errors: VecDeque<TransmitError>,
    pub scatter_result: Result<(), WcStatus>,
    // Receive side.
    pub receives: VecDeque<Vec<u8>>,
    /// Whether the peer is told of their number.
    pub tells_receives: bool,
    pub current: Option<Vec<u8>>,
    /// Shared receive queues that requests may name.
    pub srqs: Vec<Srq>,
    /// The one that the request names.
    pub named: Option<Srqn>,
    /// The one of the current receive.
    pub taken_from: Option<Srqn>,
    /// Per thousand: there is no receive now, but later.
    pub late: u32,
    pub received: Vec<Received>,
    pub invalid_receive: Option<WcStatus>,
    pub recv_result: Result<(), WcStatus>,
    pub memory: Vec<u8>,
    pub rkey: u32,
    pub invalidated: Vec<u32>,
    pub atomics: u32,
    pub respond_errors: VecDeque<RespondError>,
    // Both.
    pub paths: Paths,
    pub sent: VecDeque<Sent>,
    pub events: Vec<QpEvent>,
    pub moved: Vec<State>,
    pub counts: Vec<Counter>,
    /// Per thousand packets: send queue full, and dropped.
    pub busy: u32,
    pub dropped: u32,
    /// Per thousand accesses: the memory is not present.
    pub absent: u32,
    /// The longest run of packets that is sent at once.
    pub longest_run: u32,
    /// Runs are as long as they may be; otherwise each of a random length.
    pub exact_runs: bool,
    /// Congestion control, which delays packets with data.
    pub congestion: Option<Congestion>,
    rng: Rng,
}

impl World {
    pub fn new(memory: usize, seed: u64) -> Self {
        Self {
            queue: Vec::new(),
            completions: Vec::new(),
            locals: Vec::new(),
            local_result: Ok(()),
            good_transmits: 0,
            more: Vec::new(),
            transmit_errors: VecDeque::new(),
            scatter_result: Ok(()),
            receives: VecDeque::new(),
            tells_receives: false,
            current: None,
            srqs: Vec::new(),
            named: None,
            taken_from: None,
            late: 0,
            received: Vec::new(),
            invalid_receive: None,
            recv_result: Ok(()),
            memory: vec![0; memory],
            rkey: RKEY,
            invalidated: Vec::new(),
            atomics: 0,
            respond_errors: VecDeque::new(),
            paths: Paths::default(),
            sent: VecDeque::new(),
            events: Vec::new(),
            moved: Vec::new(),
            counts: Vec::new(),
            busy: 0,
            dropped: 0,
            absent: 0,
            longest_run: 1,
            exact_runs: false,
            congestion: None,
            rng: Rng::new(seed),
        }
    }

    /// Posts a work request over `data`; returns its index.
    pub fn post(&mut self, op: SendOp, data: Vec<u8>) -> u32 {
        self.post_wr(
            SendWr {
                op,
                length: data.len() as u32,
                signaled: true,
                solicited: false,
                fence: false,
                srqn: Srqn::default(),
            },
            data,
        )
    }

    pub fn post_wr(&mut self, wr: SendWr, data: Vec<u8>) -> u32 {
        self.queue.push(Work { wr, data });
        self.queue.len() as u32 - 1
    }

    /// Adds a shared receive queue with its number as the key.
    pub fn add_srq(&mut self, number: u32, in_domain: bool) {
        self.srqs.push(Srq {
            number: Srqn::new(number),
            in_domain,
            rkey: number,
            receives: VecDeque::new(),
        });
    }

    /// Posts a receive to a shared receive queue.
    pub fn post_srq_recv(&mut self, number: u32, len: usize) {
        let srq = self.srqs.iter_mut().find(|srq| srq.number.get() == number);
        srq.expect("there is such a queue")
            .receives
            .push_back(vec![0; len]);
    }

    /// The shared receive queue that the request names.
    fn named_srq(&mut self) -> Option<&mut Srq> {
        let named = self.named?;
        self.srqs.iter_mut().find(|srq| srq.number == named)
    }

    pub fn post_recv(&mut self, len: usize) {
        self.receives.push_back(vec![0; len]);
    }

    pub fn statuses(&self) -> Vec<WcStatus> {
        self.completions.iter().map(|c| c.status).collect()
    }

    pub fn count(&self, counter: Counter) -> usize {
        self.counts.iter().filter(|c| **c == counter).count()
    }

    /// The packets that left since the last call.
    pub fn take_sent(&mut self) -> Vec<Sent> {
        self.sent.drain(..).collect()
    }

    /// Records the packets of a run.
    fn send(&mut self, run: &PacketRun, data: &[u8]) {
        assert_eq!(data.len(), run.payload_len() as usize);
        assert!(run.count() <= self.longest_run, "a run is too long");
        let mut at = 0;
        for slice in run.packets() {
            assert_eq!(slice.offset, at, "a gap in a run");
            at += slice.len;
            self.sent.push_back(Sent {
                headers: slice.headers,
                payload: data[slice.offset as usize..][..slice.len as usize].to_vec(),
                path: self.paths.current,
                follows: slice.offset > 0,
            });
        }
        assert_eq!(at, run.payload_len());
    }

    /// Packets take the alternate path.
    pub fn take_alternate(&mut self) -> PathAttr {
        let (path, attr) = self.paths.alternate.expect("an alternate path");
        self.paths.current = path;
        self.events.push(QpEvent::PathMigrated);
        attr
    }

    /// Whether a packet that has come on a path is taken, and the attributes of the path that it makes this end take.
    pub fn judge(&mut self, path: usize, migrated: bool) -> (bool, Option<PathAttr>) {
        let paths = &mut self.paths;
        let origin = Origin {
            primary: path == paths.current,
            alternate: paths.alternate.is_some_and(|(other, _)| other == path),
        };
        match paths.migration.judge(origin, migrated) {
            Verdict::Take => (true, None),
            Verdict::Drop => (false, None),
            Verdict::Follow => (true, Some(self.take_alternate())),
            Verdict::Refuse => {
                self.events.push(QpEvent::PathMigrationErr);
                (false, None)
            }
        }
    }

    /// Whether congestion control lets a run of packets be sent now.
    fn in_time(&mut self) -> bool {
        self.congestion.as_mut().is_none_or(Congestion::may_send)
    }

    /// Tells congestion control of a run of packets.
    fn note_sent(&mut self, run: &PacketRun) {
        if let Some(congestion) = &mut self.congestion {
            congestion.sent(run.packet().udp_payload_len() as u64);
        }
    }

    /// The longest run that may be sent now.
    fn run_limit(&mut self, mtu: Mtu) -> u32 {
        if let Some(congestion) = &self.congestion {
            return congestion.longest_run(mtu, self.longest_run);
        }
        if self.exact_runs {
            return self.longest_run;
        }
        1 + self.rng.below(u64::from(self.longest_run)) as u32
    }

    fn present<E>(&mut self) -> Result<(), AccessError<E>> {
        match self.rng.hits(self.absent) {
            true => Err(AccessError::Absent),
            false => Ok(()),
        }
    }

    fn range(&mut self, region: &Region, offset: u32, len: usize) -> &mut [u8] {
        let offset = offset as usize;
        assert!(offset + len <= region.len, "outside of the region");
        &mut self.memory[region.start + offset..][..len]
    }
}

impl SendOps for World {
    type Payload = [u8];

    fn wr(&mut self, index: u32) -> Option<SendWr> {
        assert!(
            index as usize >= self.completions.len(),
            "work request {index} was done already"
        );
        self.queue.get(index as usize).map(|work| work.wr)
    }

    fn longest_run(&mut self, mtu: Mtu) -> u32 {
        self.run_limit(mtu)
    }

    fn transmit(
        &mut self,
        index: u32,
        run: &PacketRun,
        offset: u32,
        more: bool,
    ) -> Result<(), TransmitError> {
        if let Some(left) = self.good_transmits.checked_sub(1) {
            self.good_transmits = left;
        } else if let Some(error) = self.transmit_errors.pop_front() {
            return Err(error);
        }
        if !self.in_time() || self.rng.hits(self.busy) {
            return Err(TransmitError::QueueFull);
        }
        if self.rng.hits(self.absent) {
            return Err(TransmitError::Absent);
        }
        if self.rng.hits(self.dropped) {
            return Err(TransmitError::Dropped);
        }
        let data = &self.queue[index as usize].data;
        let data = data[offset as usize..][..run.payload_len() as usize].to_vec();
        self.send(run, &data);
        self.note_sent(run);
        self.more.push(more);
        Ok(())
    }

    fn scatter(
        &mut self,
        index: u32,
        offset: u32,
        payload: &[u8],
    ) -> Result<(), AccessError<WcStatus>> {
        self.present()?;
        self.scatter_result?;
        let data = &mut self.queue[index as usize].data;
        data[offset as usize..][..payload.len()].copy_from_slice(payload);
        Ok(())
    }

    fn scatter_atomic(&mut self, index: u32, value: u64) -> Result<(), AccessError<WcStatus>> {
        self.present()?;
        self.scatter_result?;
        self.queue[index as usize].data[..8].copy_from_slice(&value.to_ne_bytes());
        Ok(())
    }

    fn local(&mut self, index: u32) -> Result<(), WcStatus> {
        assert!(!self.locals.contains(&index), "executed twice");
        self.locals.push(index);
        self.local_result
    }

    fn complete(&mut self, index: u32, completion: Completion) {
        assert_eq!(index as usize, self.completions.len(), "out of order");
        self.completions.push(completion);
    }

    fn moved(&mut self, state: State) {
        self.moved.push(state);
    }

    fn event(&mut self, event: QpEvent) {
        self.events.push(event);
    }

    fn has_migrated(&self) -> bool {
        self.paths.migration.has_migrated()
    }

    fn migrate(&mut self) -> Option<PathAttr> {
        let migrates = self.paths.migration.retries_exhausted();
        migrates.then(|| self.take_alternate())
    }

    fn count(&mut self, counter: Counter) {
        self.counts.push(counter);
    }
}

impl RecvOps for World {
    type Payload = [u8];
    type Region = Region;

    fn name_srq(&mut self, srqn: Srqn) -> Result<(), RemoteFault> {
        let known = |srq: &Srq| srq.number == srqn && srq.in_domain;
        if !self.srqs.iter().any(known) {
            return Err(RemoteFault::Access);
        }
        self.named = Some(srqn);
        Ok(())
    }

    fn next_recv(&mut self) -> NextRecv {
        assert!(self.current.is_none(), "one is current already");
        if self.rng.hits(self.late) {
            return NextRecv::Empty;
        }
        let buffer = match self.named_srq() {
            Some(srq) => srq.receives.pop_front(),
            None => self.receives.pop_front(),
        };
        let Some(buffer) = buffer else {
            return NextRecv::Empty;
        };
        self.taken_from = self.named;
        let length = buffer.len() as u32;
        self.current = Some(buffer);
        match self.invalid_receive.take() {
            Some(status) => NextRecv::Invalid(status),
            None => NextRecv::Ready { length },
        }
    }

    fn receives(&mut self) -> Option<u32> {
        self.tells_receives.then_some(self.receives.len() as u32)
    }

    fn recv_scatter(&mut self, offset: u32, payload: &[u8]) -> Result<(), AccessError<WcStatus>> {
        self.present()?;
        self.recv_result?;
        let buffer = self.current.as_mut().expect("no current receive");
        buffer[offset as usize..][..payload.len()].copy_from_slice(payload);
        Ok(())
    }

    fn complete_recv(&mut self, completion: RecvCompletion) {
        let data = self.current.take().expect("no current receive");
        let srqn = self.taken_from.take();
        self.received.push(Received {
            completion,
            data,
            srqn,
        });
    }

    fn remote(
        &mut self,
        rkey: u32,
        va: u64,
        len: u32,
        access: Access,
    ) -> Result<Region, RemoteFault> {
        assert_ne!(len, 0);
        let start = va.checked_sub(BASE).ok_or(RemoteFault::Access)? as usize;
        let end = start.checked_add(len as usize).ok_or(RemoteFault::Access)?;
        let key = self.named_srq().map(|srq| srq.rkey).unwrap_or(self.rkey);
        if rkey != key || end > self.memory.len() {
            return Err(RemoteFault::Access);
        }
        Ok(Region {
            start,
            len: len as usize,
            access,
        })
    }

    fn write(
        &mut self,
        region: &Region,
        offset: u32,
        payload: &[u8],
    ) -> Result<(), AccessError<RemoteFault>> {
        self.present()?;
        assert_eq!(region.access, Access::Write);
        self.range(region, offset, payload.len())
            .copy_from_slice(payload);
        Ok(())
    }

    fn atomic(&mut self, region: &Region, op: AtomicOp) -> Result<u64, AccessError<RemoteFault>> {
        self.present()?;
        assert_eq!(region.access, Access::Atomic);
        self.atomics += 1;
        let bytes = self.range(region, 0, 8);
        let old = u64::from_ne_bytes((&*bytes).try_into().expect("8 bytes"));
        bytes.copy_from_slice(&op.apply(old).to_ne_bytes());
        Ok(old)
    }

    fn atomic_write(
        &mut self,
        region: &Region,
        payload: &[u8],
    ) -> Result<(), AccessError<RemoteFault>> {
        self.present()?;
        self.atomics += 1;
        self.range(region, 0, 8).copy_from_slice(payload);
        Ok(())
    }

    fn flush(&mut self, _feth: Feth, reth: Reth) -> Result<(), RemoteFault> {
        match reth.rkey == self.rkey {
            true => Ok(()),
            false => Err(RemoteFault::Access),
        }
    }

    fn invalidate(&mut self, rkey: u32) -> Result<(), RemoteFault> {
        if rkey == 0 {
            return Err(RemoteFault::Access);
        }
        self.invalidated.push(rkey);
        Ok(())
    }

    fn longest_run(&mut self, mtu: Mtu) -> u32 {
        self.run_limit(mtu)
    }

    fn respond(
        &mut self,
        run: &PacketRun,
        data: Option<RegionPart<'_, Region>>,
    ) -> Result<(), RespondError> {
        if let Some(error) = self.respond_errors.pop_front() {
            return Err(error);
        }
        if (data.is_some() && !self.in_time()) || self.rng.hits(self.busy) {
            return Err(RespondError::QueueFull);
        }
        if self.rng.hits(self.absent) {
            return Err(RespondError::Absent);
        }
        if self.rng.hits(self.dropped) {
            return Err(RespondError::Dropped);
        }
        let payload = match data {
            None => Vec::new(),
            Some(part) => {
                assert_eq!(part.region.access, Access::Read);
                let len = run.payload_len() as usize;
                self.range(part.region, part.offset, len).to_vec()
            }
        };
        self.send(run, &payload);
        if !payload.is_empty() {
            self.note_sent(run);
        }
        Ok(())
    }

    fn moved(&mut self, state: State) {
        self.moved.push(state);
    }

    fn event(&mut self, event: QpEvent) {
        self.events.push(event);
    }

    fn has_migrated(&self) -> bool {
        self.paths.migration.has_migrated()
    }

    fn count(&mut self, counter: Counter) {
        self.counts.push(counter);
    }
}
