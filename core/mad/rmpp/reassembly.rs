// SPDX-License-Identifier: GPL-2.0

//! Receiving an RMPP message: its segments are sorted and acknowledged.
//!
//! A complete message is remembered for a while, so that repeated segments are acknowledged again.
//!
//! IBTA specification, volume 1, section 13.6.4.

use core::sync::atomic::Ordering;

use kernel::{
    new_delayed_work,
    prelude::*,
    sync::{Arc, SetOnce},
};
use kernel_ext::{delayed, sleepable::SleepableWork, sync::new_spinlock_irq};
use rdma::{core::mad::recv::RecvMad, MaySleep};

use super::{
    super::{
        depths,
        double_sided::find,
        header::{
            data_offset, rmpp_flag, rmpp_status, Header, Rmpp, BASE_VERSION, MAD_HEADER, MAD_SIZE,
            OPA_MAD_SIZE, RMPP_AT, RMPP_HEADER,
        },
        state::{Agent, Reassembly, Received, Transaction},
    },
    reply::{self, MAX_HEADER},
};

/// Timeout of a message that is being received.
const MESSAGE_TIMEOUT_MS: u32 = 40_000;
/// How long a complete message is remembered.
const REMEMBERED_MS: u32 = 10_000;
/// Maximum number of incomplete or remembered messages of an agent: first segments may be forged.
const MAX_MESSAGES: usize = 1024;
/// Maximum number of segments of an agent's incomplete messages.
const MAX_SEGMENTS: u32 = 1 << 16;
/// The receive window in segments: an eighth of the receive queue.
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

/// Makes room for one more message, and returns whether there is room. The oldest messages with only a first segment
/// are dropped, so that a flood of first segments does not displace messages in progress.
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

/// Handles the first segment of a message. Returns the message if it has only one.
pub(super) fn first_segment(agent: &Arc<Agent>, mad: RecvMad, sleep: &MaySleep) -> Option<RecvMad> {
    let transaction = Transaction::of(agent, &header_of(&mad), &mad);
    let known = find(&agent.table.lock(), &transaction);
    if known.is_some() {
        let rmpp = rmpp_of(&mad);
        return next_segment(agent, mad, &rmpp, sleep);
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
    // A segment that is lost for lack of memory is repeated by the sender.
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

/// Acknowledges the segments received in order.
fn acknowledge(this: &Arc<Reassembly>, mad: &RecvMad, sleep: &MaySleep) {
    let state = {
        let mut received = this.received.lock();
        received.last_ack = received.segment;
        (received.segment, received.window)
    };
    reply::acknowledge(this, mad, state, sleep);
}

/// Result of adding a segment.
enum Accepted {
    /// It was stored or dropped, without an ACK.
    Silently,
    /// It is acknowledged.
    Acknowledged,
    /// The message is complete.
    Complete(KVec<RecvMad>),
}

impl Received {
    /// Whether only the first segment has arrived.
    fn has_only_begun(&self) -> bool {
        !self.complete && self.segments.len() <= 1
    }

    /// Takes the segments out; no more are added.
    fn close(&mut self) -> KVec<RecvMad> {
        self.complete = true;
        core::mem::take(&mut self.segments)
    }

    /// Updates the number of segments received in order.
    fn count(&mut self) {
        for mad in &self.segments {
            if rmpp_of(mad).segment == self.segment.wrapping_add(1) {
                self.segment = self.segment.wrapping_add(1);
            }
        }
    }

    /// Adds a segment.
    fn add_segment(&mut self, nth: u32, mad: &mut Option<RecvMad>) -> Accepted {
        if nth > self.window {
            return Accepted::Silently;
        }
        if nth <= self.last_ack || self.complete {
            return Accepted::Acknowledged;
        }
        let search = |known: &RecvMad| rmpp_of(known).segment;
        let Err(place) = self.segments.binary_search_by_key(&nth, search) else {
            return Accepted::Silently;
        };
        let Some(new) = mad.take() else {
            return Accepted::Silently;
        };
        if self.segments.reserve(1, GFP_ATOMIC).is_err() {
            return Accepted::Silently;
        }
        // Capacity was reserved.
        let _ = self.segments.insert_within_capacity(place, new);
        self.count();
        let last = self.segments.get(self.segment.wrapping_sub(1) as usize);
        if last.is_some_and(|last| rmpp_of(last).has(rmpp_flag::LAST)) {
            self.complete = true;
            // Segments after the last one are invalid.
            self.segments.truncate(self.segment as usize);
            return Accepted::Complete(core::mem::take(&mut self.segments));
        }
        if self.segment == self.window {
            self.window = self.window.saturating_add(window());
            return Accepted::Acknowledged;
        }
        Accepted::Silently
    }
}

/// Handles a further segment of a message. Returns the message if it is complete.
pub(super) fn next_segment(
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
    // For the ACK; the segment itself may be stored.
    let headers = mad.copy_of_start(MAX_HEADER, GFP_KERNEL).ok()?;
    let mut mad = Some(mad);
    let taken = this.received.lock().add_segment(rmpp.segment, &mut mad);
    if mad.take().is_none() {
        agent.held.fetch_add(1, Ordering::Relaxed);
    }
    match taken {
        Accepted::Silently => None,
        Accepted::Acknowledged => {
            acknowledge(&this, &headers, sleep);
            None
        }
        Accepted::Complete(segments) => {
            release_quota(agent, &segments);
            acknowledge(&this, &headers, sleep);
            start_timer(&this, REMEMBERED_MS);
            Some(finish(agent, segments, headers))
        }
    }
}

/// Returns the quota of dropped segments; the first one does not count.
fn release_quota(agent: &Agent, segments: &KVec<RecvMad>) {
    let counted = segments.len().saturating_sub(1) as u32;
    agent.held.fetch_sub(counted, Ordering::Relaxed);
}

/// Length of a message, from the payload length of its last segment.
fn message_length(agent: &Agent, last: &RecvMad, count: u32) -> usize {
    let header = header_of(last);
    let is_opa = agent.port.is_opa && header.base_version != BASE_VERSION;
    let whole = match is_opa {
        true => OPA_MAD_SIZE,
        false => MAD_SIZE,
    };
    let room = whole.saturating_sub(RMPP_HEADER);
    let used = rmpp_of(last).length_or_window as usize;
    // An invalid length counts as no padding.
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

impl SleepableWork for Reassembly {
    fn run(this: Arc<Self>, sleep: &MaySleep) {
        forget(&this.agent, &this);
        let segments = this.received.lock().close();
        release_quota(&this.agent, &segments);
        if let Some(first) = segments.first() {
            reply::abort(&this.agent, first, rmpp_status::T2L, sleep);
        }
    }
}

/// Drops all messages of an agent that was removed from dispatch. When this returns, no timeout of a message is pending or
/// running. Each timeout holds a reference to the port, whose last one must not be dropped by a work item of the port's own
/// workqueue.
pub(in super::super) fn end(agent: &Agent, sleep: &MaySleep) {
    let all = core::mem::take(&mut agent.table.lock().reassemblies);
    for one in &all {
        delayed::cancel_sync(one, sleep);
    }
    // A timeout that is running has taken its message out of the table.
    agent.port.workers.flush(sleep);
}
