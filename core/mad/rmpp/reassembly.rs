// SPDX-License-Identifier: GPL-2.0

//! Receiving a message of RMPP: its segments are put in their order, and acknowledged.
//!
//! A message that is complete is remembered for a while, so that segments which come again are acknowledged again.
//!
//! IBTA specification, volume 1, section 13.6.4.

use core::sync::atomic::Ordering;

use kernel::{
    new_delayed_work,
    prelude::*,
    sync::{Arc, SetOnce},
    workqueue::WorkItem,
};
use kernel_ext::{delayed, sync::new_spinlock_irq};
use rdma::{core::mad::recv::RecvMad, MaySleep};

use super::{
    super::{
        depths,
        header::{
            data_offset, rmpp_flag, rmpp_status, Header, Rmpp, BASE_VERSION, MAD_HEADER, MAD_SIZE,
            OPA_MAD_SIZE, RMPP_AT, RMPP_HEADER,
        },
        state::{Agent, Reassembly, Received, Transaction},
    },
    reply::{self, MAX_HEADER},
    turn::find,
};

/// How long a message may take.
const MESSAGE_TIMEOUT_MS: u32 = 40_000;
/// How long a message is remembered that is complete.
const REMEMBERED_MS: u32 = 10_000;
/// How many messages of an agent may be incomplete or remembered: the first segment of each may be forged.
const MAX_MESSAGES: usize = 1024;
/// How many segments of an agent's incomplete messages are kept.
const MAX_SEGMENTS: u32 = 1 << 16;
/// How many segments the window of a sender has: an eighth of what the queue pair can receive at once.
fn window() -> u32 {
    (depths::get().recv / 8).max(1)
}

fn header_of(mad: &RecvMad) -> Header {
    Header::parse(&mad.bytes::<MAD_HEADER>(0))
}

fn rmpp_of(mad: &RecvMad) -> Rmpp {
    Rmpp::parse(&mad.bytes(RMPP_AT))
}

fn forget(agent: &Agent, this: &Arc<Reassembly>) {
    let mut table = agent.table.lock();
    let place = table
        .reassemblies
        .iter()
        .position(|one| Arc::ptr_eq(one, this));
    let taken = place.and_then(|nth| table.reassemblies.remove(nth).ok());
    drop(table);
    drop(taken);
}

fn start_timer(this: &Arc<Reassembly>, milliseconds: u32) {
    let delay = kernel::time::msecs_to_jiffies(milliseconds);
    delayed::enqueue(&this.agent.port.workers, this, delay);
}

/// Makes room for one more message; says whether there is. Messages of which no more has come than their first segment make
/// room, the oldest first: so a flood of such does not keep out those that go on.
fn make_room(agent: &Arc<Agent>, sleep: &MaySleep) -> bool {
    let mut table = agent.table.lock();
    if table.reassemblies.len() < MAX_MESSAGES {
        return true;
    }
    let mut all = table.reassemblies.iter();
    let place = all.position(|one| one.received.lock().has_only_begun());
    let taken = place.and_then(|nth| table.reassemblies.remove(nth).ok());
    drop(table);
    let Some(stopped) = taken else {
        return false;
    };
    delayed::cancel_sync(&stopped, sleep);
    let segments = stopped.received.lock().close();
    if let Some(first) = segments.first() {
        reply::stop(agent, first, Some(&stopped), sleep);
    }
    true
}

/// The first segment of a message has come. Returns the message if it has no other.
pub(super) fn begin(agent: &Arc<Agent>, mad: RecvMad, sleep: &MaySleep) -> Option<RecvMad> {
    let transaction = Transaction::of(agent, &header_of(&mad), &mad);
    let known = find(&agent.table.lock(), &transaction);
    if known.is_some() {
        let rmpp = rmpp_of(&mad);
        return go_on(agent, mad, &rmpp, sleep);
    }
    if !make_room(agent, sleep) {
        reply::stop(agent, &mad, None, sleep);
        return None;
    }
    let is_whole = rmpp_of(&mad).has(rmpp_flag::LAST);
    let this = new(agent, transaction, is_whole).ok()?;
    {
        let mut table = agent.table.lock();
        if table.closed || table.reassemblies.push(this.clone(), GFP_ATOMIC).is_err() {
            return None;
        }
    }
    start_timer(
        &this,
        if is_whole {
            REMEMBERED_MS
        } else {
            MESSAGE_TIMEOUT_MS
        },
    );
    acknowledge(&this, &mad, sleep);
    if is_whole {
        return Some(finish(agent, KVec::new(), mad));
    }
    let mut received = this.received.lock();
    // What there is no memory for comes again.
    let _ = received.segments.push(mad, GFP_ATOMIC);
    None
}

fn new(agent: &Arc<Agent>, transaction: Transaction, is_whole: bool) -> Result<Arc<Reassembly>> {
    let received = Received {
        segments: KVec::with_capacity(if is_whole { 0 } else { 4 }, GFP_KERNEL)?,
        segment: 1,
        last_ack: 1,
        window: if is_whole {
            1
        } else {
            window().saturating_add(1)
        },
        answer_window: 1,
        complete: is_whole,
    };
    Arc::pin_init(
        pin_init!(Reassembly {
            agent: agent.clone(),
            transaction,
            ah: SetOnce::new(),
            received <- new_spinlock_irq!(received, "Reassembly::received"),
            timer <- new_delayed_work!("Reassembly"),
        }? Error),
        GFP_KERNEL,
    )
}

/// Acknowledges what is there.
fn acknowledge(this: &Arc<Reassembly>, mad: &RecvMad, sleep: &MaySleep) {
    let state = {
        let mut received = this.received.lock();
        received.last_ack = received.segment;
        (received.segment, received.window)
    };
    reply::acknowledge(this, mad, state, sleep);
}

/// What becomes of a segment.
enum Taken {
    /// It is dropped, or kept.
    Silently,
    /// It is acknowledged.
    Acknowledged,
    /// It was the last one that was missing.
    Complete(KVec<RecvMad>),
}

impl Received {
    /// Whether nothing has come after the first segment.
    fn has_only_begun(&self) -> bool {
        !self.complete && self.segments.len() <= 1
    }

    /// Takes no more segments; returns those that are there.
    fn close(&mut self) -> KVec<RecvMad> {
        self.complete = true;
        core::mem::take(&mut self.segments)
    }

    /// Counts the segments that are there without a gap.
    fn count(&mut self) {
        for mad in &self.segments {
            if rmpp_of(mad).segment == self.segment.wrapping_add(1) {
                self.segment = self.segment.wrapping_add(1);
            }
        }
    }

    /// Takes a segment in.
    fn take_in(&mut self, nth: u32, mad: &mut Option<RecvMad>) -> Taken {
        if nth > self.window {
            return Taken::Silently;
        }
        if nth <= self.last_ack || self.complete {
            return Taken::Acknowledged;
        }
        let search = |known: &RecvMad| rmpp_of(known).segment;
        let Err(place) = self.segments.binary_search_by_key(&nth, search) else {
            return Taken::Silently;
        };
        let Some(new) = mad.take() else {
            return Taken::Silently;
        };
        if self.segments.reserve(1, GFP_ATOMIC).is_err() {
            return Taken::Silently;
        }
        // There is room for it.
        let _ = self.segments.insert_within_capacity(place, new);
        self.count();
        let last = self.segments.get(self.segment.wrapping_sub(1) as usize);
        if last.is_some_and(|last| rmpp_of(last).has(rmpp_flag::LAST)) {
            self.complete = true;
            // What is behind the last one is nobody's.
            self.segments.truncate(self.segment as usize);
            return Taken::Complete(core::mem::take(&mut self.segments));
        }
        if self.segment == self.window {
            self.window = self.window.saturating_add(window());
            return Taken::Acknowledged;
        }
        Taken::Silently
    }
}

/// Another segment of a message has come. Returns the message if it is complete.
pub(super) fn go_on(
    agent: &Arc<Agent>,
    mad: RecvMad,
    rmpp: &Rmpp,
    sleep: &MaySleep,
) -> Option<RecvMad> {
    let transaction = Transaction::of(agent, &header_of(&mad), &mad);
    let this = find(&agent.table.lock(), &transaction)?;
    if agent.held.load(Ordering::Relaxed) >= MAX_SEGMENTS {
        reply::stop(agent, &mad, Some(&this), sleep);
        return None;
    }
    // For the acknowledgement; the segment itself may be kept.
    let headers = mad.copy_of_start(MAX_HEADER, GFP_KERNEL).ok()?;
    let mut mad = Some(mad);
    let taken = this.received.lock().take_in(rmpp.segment, &mut mad);
    if mad.take().is_none() {
        agent.held.fetch_add(1, Ordering::Relaxed);
    }
    match taken {
        Taken::Silently => None,
        Taken::Acknowledged => {
            acknowledge(&this, &headers, sleep);
            None
        }
        Taken::Complete(segments) => {
            let_go(agent, &segments);
            acknowledge(&this, &headers, sleep);
            start_timer(&this, REMEMBERED_MS);
            Some(finish(agent, segments, headers))
        }
    }
}

/// The segments of a message are not kept any more; the first one never counted.
fn let_go(agent: &Agent, segments: &KVec<RecvMad>) {
    let counted = segments.len().saturating_sub(1) as u32;
    agent.held.fetch_sub(counted, Ordering::Relaxed);
}

/// The length of a message, by its last segment, in which the header of RMPP says how much of it is payload.
fn message_length(agent: &Agent, last: &RecvMad, count: u32) -> usize {
    let header = header_of(last);
    let is_opa = agent.port.is_opa && header.base_version != BASE_VERSION;
    let whole = match is_opa {
        true => OPA_MAD_SIZE,
        false => MAD_SIZE,
    };
    let room = whole.saturating_sub(RMPP_HEADER);
    let used = rmpp_of(last).length_or_window as usize;
    // A length that cannot be is none.
    let padding = room.saturating_sub(used);
    let offset = data_offset(header.mgmt_class);
    let data = whole.saturating_sub(offset).saturating_mul(count as usize);
    offset.saturating_add(data).saturating_sub(padding)
}

/// Makes one message of segments; of `alone` if there are none.
fn finish(agent: &Agent, segments: KVec<RecvMad>, alone: RecvMad) -> RecvMad {
    let count = segments.len().max(1) as u32;
    let length = message_length(agent, segments.last().unwrap_or(&alone), count);
    let mut segments = segments.into_iter();
    let mut first = segments.next().unwrap_or(alone);
    let segment = first.segment_size();
    for next in segments {
        first.append(next);
    }
    first.set_length(length, segment);
    first
}

impl WorkItem for Reassembly {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        // SAFETY: Works of the queue run in process context.
        let sleep = &unsafe { MaySleep::assume() };
        forget(&this.agent, &this);
        let segments = this.received.lock().close();
        let_go(&this.agent, &segments);
        if let Some(first) = segments.first() {
            reply::abort(&this.agent, first, rmpp_status::T2L, sleep);
        }
    }
}

/// Forgets all messages of an agent that goes.
pub(in super::super) fn forget_all(agent: &Agent, sleep: &MaySleep) {
    let all = core::mem::take(&mut agent.table.lock().reassemblies);
    for one in &all {
        delayed::cancel_sync(one, sleep);
    }
}
