// SPDX-License-Identifier: GPL-2.0

//! A queue pair with nothing in it but what decides who handles its packets and requests.
//!
//! It calls the driver's files as `hw/rxe/qp.rs`, `hw/rxe/qp/engine.rs` and `hw/rxe/qp/post.rs` do.

#[path = "../../../../hw/rxe/qp/wakeup.rs"]
mod wakeup;

use crate::backlog::{Backlog, Next, Origin, Taken, Waiting};
use crate::doorbell::{Deferred, Doorbell, Doorbells};
use crate::net::skb::SkBuff;
use crate::port_id::PortId;
use crate::prelude::{PinInit, GFP_KERNEL_ACCOUNT};
use crate::sync::{Arc, SpinLockBh, SpinLockBhGuard, SpinLockIrq};
use crate::{Inbox, Slots};
use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use loom::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use wakeup::{NextStep, Scheduled};

/// Packets that a run handles, at most.
const BUDGET: u32 = 2;

/// Requests that an inbox has room for.
pub(crate) const CAPACITY: u32 = 2;

/// The number of a QP.
pub(crate) type Qpn = usize;

/// All QPs of a device.
pub(crate) type Table = Arc<Mutex<Vec<Arc<Qp>>>>;

pub(crate) struct Engine {
    taken: Taken,
    dead: bool,
    next: Next,
    slots: Slots<u32>,
    /// Index of the next request.
    request: u32,
    /// Packets that it has handled: from whom, and their numbers.
    pub(crate) packets: Vec<(u32, u32)>,
    /// Requests that it has handled.
    pub(crate) requests: Vec<u32>,
    /// The last request of user space that it has seen.
    pub(crate) rung: u32,
}

/// A queue pair.
pub(crate) struct Qp {
    number: Qpn,
    pub(crate) backlog: Backlog,
    pub(crate) engine: SpinLockBh<Engine>,
    scheduled: Scheduled,
    deferred_doorbell: Deferred,
    pub(crate) doorbells: Arc<Doorbells>,
    posted: SpinLockIrq<Inbox<u32>>,
    outstanding: AtomicU32,
    /// The number of requests in a user ring. Only the flags order its reads and writes.
    pub(crate) ring: AtomicU32,
    /// The work item is queued: the kernel's flag.
    pending: Mutex<bool>,
    armed: AtomicBool,
    /// The number of the QP that gets a packet for each of this one's.
    peer: Option<Qpn>,
    alive: Arc<AtomicUsize>,
}

impl Doorbell for Qp {
    fn run_engine(self: Arc<Self>) {
        self.deferred_doorbell.run(|| self.drive());
    }
}

impl Engine {
    /// An engine that has nothing.
    pub(crate) fn none() -> Self {
        Self {
            taken: Taken::none(),
            dead: false,
            next: Next::default(),
            slots: Slots::new(CAPACITY, 1, GFP_KERNEL_ACCOUNT).unwrap(),
            request: 0,
            packets: Vec::new(),
            requests: Vec::new(),
            rung: 0,
        }
    }
}

impl Qp {
    pub(crate) fn new(number: Qpn, peer: Option<Qpn>, alive: &Arc<AtomicUsize>) -> Arc<Self> {
        Arc::new(Self {
            number,
            backlog: Backlog::new().make(),
            engine: SpinLockBh::new(Engine::none()),
            scheduled: Scheduled::new(),
            deferred_doorbell: Deferred::new(),
            doorbells: Arc::new(Doorbells::new().make()),
            posted: SpinLockIrq::new(Inbox::new(CAPACITY, 1).unwrap()),
            outstanding: AtomicU32::new(0),
            ring: AtomicU32::new(0),
            pending: Mutex::new(false),
            armed: AtomicBool::new(false),
            peer,
            alive: alive.clone(),
        })
    }

    /// A QP without peer.
    pub(crate) fn alone() -> Arc<Self> {
        Self::new(0, None, &Arc::default())
    }

    pub(crate) fn packet(&self, from: u32, number: u32) -> Waiting {
        Waiting {
            skb: SkBuff::new(from, number, &self.alive),
            origin: Origin::Own(PortId::First),
        }
    }

    /// Packets that were neither handled nor dropped.
    pub(crate) fn packets_alive(&self) -> usize {
        self.alive.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// `Qp::receive`, where the QP may run on this processor, or not.
    pub(crate) fn receive(&self, packet: Waiting, here: bool) {
        match wakeup::enqueue(&self.backlog, packet, here, || self.schedule()) {
            NextStep::TryToDrive => self.drive_or_schedule(),
            NextStep::Drive => self.drive(),
            NextStep::Nothing => {}
        }
    }

    /// `Qp::enqueue`.
    fn enqueue(&self, packet: Waiting, next: &mut Next) {
        self.backlog.push(packet, || {
            if !next.claim(self.number as u32) {
                self.schedule();
            }
        });
    }

    pub(crate) fn schedule(&self) {
        self.scheduled.schedule(|| {
            let was_queued = core::mem::replace(&mut *self.pending.lock().unwrap(), true);
            assert!(!was_queued, "queued twice");
        });
    }

    /// The kernel runs the work item, if it is queued; returns whether it was.
    pub(crate) fn work(&self) -> bool {
        let queued = core::mem::take(&mut *self.pending.lock().unwrap());
        if queued {
            self.scheduled.run(|| self.drive());
        }
        queued
    }

    pub(crate) fn is_queued(&self) -> bool {
        *self.pending.lock().unwrap()
    }

    pub(crate) fn drive(&self) {
        let _ = self.drive_locked(self.engine.lock());
    }

    /// `Qp::drive_or_schedule`, without other QPs.
    pub(crate) fn drive_or_schedule(&self) {
        let schedule = || self.schedule();
        if let Some(engine) = wakeup::lock_or_schedule(&self.engine, &self.backlog, schedule) {
            let _ = self.drive_locked(engine);
        }
    }

    /// The work item of a QP whose peer is `other`: `Qp::drive` and `Qp::drive_next`.
    pub(crate) fn work_with(&self, other: &Qp) {
        if core::mem::take(&mut *self.pending.lock().unwrap()) {
            self.scheduled.run(|| {
                let mut engine = self.engine.lock();
                let next = self.drive_with(&mut engine, Some(other));
                drop(engine);
                if next.is_some() {
                    other.drive();
                }
            });
        }
    }

    fn drive_locked(&self, mut engine: SpinLockBhGuard<'_, Engine>) -> Option<u32> {
        self.drive_with(&mut engine, None)
    }

    /// `Qp::drive_locked` and `Engine::receive_all`.
    fn drive_with(&self, engine: &mut Engine, other: Option<&Qp>) -> Option<u32> {
        if engine.dead {
            return None;
        }
        let mut more = true;
        for _ in 0..BUDGET {
            let Some(packet) = self.backlog.next(&mut engine.taken) else {
                more = false;
                break;
            };
            let (from, number) = (packet.skb.from, packet.skb.number);
            engine.packets.push((from, number));
            if let Some(other) = other {
                other.enqueue(other.packet(from, number), &mut engine.next);
            }
        }
        while self
            .posted
            .lock()
            .move_to(&mut engine.slots, engine.request)
        {
            let index = engine.request;
            let data = engine.slots.data(index)[0];
            let request = engine.slots.take(index).unwrap();
            assert_eq!(u32::from(data), request, "the data of another request");
            engine.requests.push(request);
            engine.request = index.wrapping_add(1);
            self.outstanding.fetch_sub(1, Ordering::AcqRel);
        }
        engine.rung = self.ring.load(Ordering::Relaxed);
        if more {
            self.schedule();
        }
        engine.next.take()
    }

    /// `Qp::copy_sends` and the doorbell of a kernel consumer.
    pub(crate) fn post(&self, request: u32) -> bool {
        let mut inbox = self.posted.lock();
        if self.outstanding.load(Ordering::Acquire) >= CAPACITY {
            return false;
        }
        let pushed = inbox.push(|place, data| {
            assert!(place.is_none(), "a request is overwritten");
            *place = Some(request);
            data[0] = request as u8;
            Ok(())
        });
        assert!(pushed.is_ok());
        self.outstanding.fetch_add(1, Ordering::AcqRel);
        drop(inbox);
        self.schedule();
        true
    }

    /// `Qp::ring` for a program that does not poll: its doorbell waits, or the work item is queued.
    pub(crate) fn ring(self: &Arc<Self>, request: u32) {
        self.ring.fetch_max(request, Ordering::Relaxed);
        let arm = || self.armed.store(true, Ordering::SeqCst);
        if !self.deferred_doorbell.defer(self, &self.doorbells, arm) {
            self.schedule();
        }
    }

    /// The timer expires, if it is armed: `Qp::expired`; returns whether it was.
    pub(crate) fn expire(&self) -> bool {
        let armed = self.armed.swap(false, Ordering::SeqCst);
        if armed {
            self.deferred_doorbell.cancel(self, &self.doorbells);
            self.schedule();
        }
        armed
    }

    /// `Qp::destroy`: afterwards nobody may queue the work item.
    pub(crate) fn destroy(&self) {
        self.engine.lock().dead = true;
        self.deferred_doorbell.destroy(self, &self.doorbells);
        self.backlog.close();
        // `Timer::shut_down` and `work::cancel_sync`.
        self.armed.store(false, Ordering::SeqCst);
        *self.pending.lock().unwrap() = false;
    }
}
