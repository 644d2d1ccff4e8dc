// SPDX-License-Identifier: GPL-2.0

//! Joining and leaving multicast groups.
//!
//! The port joins a group once for all its members: the SA is called when the first member joins with a join state, and
//! when the last one leaves. Requests for a group are serialized by its work.
//!
//! IBTA specification, volume 1, sections 15.2.5.17 and 10.5.2.

mod device;
mod group;

use kernel::{new_work, prelude::*, sync::Arc};
use kernel_ext::{
    bindings::{self as c, ib_sa_mcmember_rec},
    error::EADDRNOTAVAIL,
    sleepable::SleepableWork,
    sync::new_spinlock_irq,
    uses::{Use, Uses},
};
use rdma::{
    core::{
        callback::{Context, Handler},
        mad::{recv::RecvMad, send::SendFlags},
        sa::{hand_over, tell_member, MulticastBody, MulticastFn, SaClient},
        Device,
    },
    Gid, MaySleep,
};

use super::{
    mcmember::{self, bit},
    state::{Query, QueryHandler},
};
use crate::{gid::cache, mad::header::method};
pub(crate) use device::{start, Started};
pub(crate) use group::Member;
use group::{Group, McastPort, MemberState, Mode, State};

/// Timeout of an SA query, in milliseconds.
const TIMEOUT_MS: usize = 3000;

/// `ENETRESET`: the membership is lost.
fn reset() -> Error {
    Error::from_errno(-(c::ENETRESET as i32))
}

/// The index of a group's P_Key.
fn pkey_index(port: &McastPort, record: &ib_sa_mcmember_rec) -> Option<u16> {
    let known = cache::of(&port.device, port.port_num)?;
    let pkey = u16::from_be(record.pkey);
    known.known.with(|known| known.find_pkey(pkey)).flatten()
}

/// A client's request to join.
pub(super) struct Join<'a> {
    pub(super) record: &'a ib_sa_mcmember_rec,
    pub(super) mask: u64,
    pub(super) callback: Handler<'a, MulticastFn>,
    pub(super) context: Context<'a>,
}

/// Starts joining a group; the callback gets the result.
///
/// # Errors
///
/// As for `ib_sa_join_multicast`.
pub(super) fn join(
    client: &SaClient,
    (device, port_num): (&Device, u32),
    join: Join<'_>,
    flags: &SendFlags<'_>,
) -> Result<*mut c::ib_sa_multicast> {
    let port = group::find_port(device, port_num).ok_or(ENODEV)?;
    let new = || {
        let port = port.clone();
        Arc::pin_init(
            pin_init!(Group {
                port,
                state <- new_spinlock_irq!(State::new(&join.record.mgid), "Group::state"),
                work <- new_work!("Group::work"),
            }),
            flags.get(),
        )
    };
    let group = port.acquire(mcmember::gid(&join.record.mgid), new)?;
    let body = MulticastBody::new(join.record, join.mask, join.callback, join.context);
    let own = group.clone();
    let member = Arc::pin_init(
        pin_init!(Member {
            body,
            group: own,
            _client: client.hold(),
            uses <- Uses::new(),
            state <- new_spinlock_irq!(MemberState::Joining, "Member::state"),
        }),
        flags.get(),
    );
    let member = member.inspect_err(|_| port.release(&group))?;
    let room = reserve(&group);
    room.inspect_err(|_| port.release(&group))?;
    // The callback may run, and the member be freed, before this returns.
    let raw = hand_over(&member);
    let mut state = group.state.lock();
    // Capacity was reserved.
    let _ = state.pending.push_within_capacity(member);
    if state.mode == Mode::Idle {
        state.mode = Mode::Busy;
        drop(state);
        port.hold(&group);
        group.run_later();
    }
    Ok(raw)
}

/// Reserves capacity for one more member in both lists.
fn reserve(group: &Group) -> Result {
    let mut state = group.state.lock();
    let all = state.pending.len().saturating_add(state.active.len());
    let more = |list: &KVec<Arc<Member>>| all.saturating_add(1).saturating_sub(list.len());
    let (pending, active) = (more(&state.pending), more(&state.active));
    state.pending.reserve(pending, GFP_ATOMIC)?;
    state.active.reserve(active, GFP_ATOMIC)?;
    Ok(())
}

/// Leaves a group. When this returns, the member's callback is not called any more. Not from the callback.
pub(super) fn leave(member: Arc<Member>, sleep: &MaySleep) {
    let group = &member.group;
    let taken = {
        let mut state = group.state.lock();
        let joined = *member.state.lock() == MemberState::Joined;
        if joined {
            let join_states = member.body.wanted().join_state;
            state.count(join_states, |count| count.saturating_sub(1));
        }
        let taken = state.take_out(&member);
        if state.mode == Mode::Idle {
            state.mode = Mode::Busy;
            drop(state);
            // The member's use of the group is passed to the work.
            group.run_later();
        } else {
            drop(state);
            group.port.release(group);
        }
        taken
    };
    drop(taken);
    member.uses.end(sleep);
}

/// Calls a member's callback; if it fails, the member leaves.
fn notify(member: Use<Member>, status: Result, sleep: &MaySleep) {
    let given_up = tell_member(&member, status, sleep);
    drop(member);
    if let Some(given_up) = given_up {
        leave(given_up.0, sleep);
    }
}

/// Removes a member, and calls its callback with the error.
fn fail(group: &Group, member: &Arc<Member>, error: Error, sleep: &MaySleep) {
    let (used, taken) = {
        let mut state = group.state.lock();
        // A member that leaves at the same time is in no list any more.
        let used = Use::new(member);
        (used, state.take_out(member))
    };
    drop(taken);
    if let Some(used) = used {
        notify(used, Err(error), sleep);
    }
}

/// Adds a member to a group that the port has joined in these join states already.
fn join_here(state: &mut State, member: &Arc<Member>, join_states: u8) {
    *member.state.lock() = MemberState::Joined;
    state.count(join_states, |count| count.saturating_add(1));
    let mut record = state.record;
    record.join_state = join_states;
    member.body.set_joined(&record);
    if let Some(member) = state.take_out(member) {
        // Capacity was reserved when the member was added.
        let _ = state.active.push_within_capacity(member);
    }
}

/// Fails all members: the membership is lost.
fn lose(group: &Arc<Group>, sleep: &MaySleep) {
    let (mode, record, place) = {
        let state = group.state.lock();
        (state.mode, state.record, state.pkey_index)
    };
    let stays = mode == Mode::PkeyChanged && {
        let now = pkey_index(&group.port, &record);
        now.is_some() && now == place
    };
    if !stays {
        lose_members(group, sleep);
    }
    group.state.lock().mode = Mode::Busy;
}

fn lose_members(group: &Arc<Group>, sleep: &MaySleep) {
    loop {
        let member = {
            let mut state = group.state.lock();
            let Some(member) = state.active.pop() else {
                state.record.join_state = 0;
                return;
            };
            let join_states = member.body.wanted().join_state;
            state.count(join_states, |count| count.saturating_sub(1));
            *member.state.lock() = MemberState::Lost;
            Use::new(&member)
        };
        if let Some(member) = member {
            notify(member, Err(reset()), sleep);
        }
    }
}

/// The next step for a group.
enum Action {
    /// Handle a lost membership or a changed P_Key.
    Lose,
    /// A member's join has completed: call its callback.
    Notify(Use<Member>, Result),
    /// Send a join to the SA for a member.
    Join(Use<Member>),
    /// Send a leave to the SA for join states.
    Leave(u8),
    /// Nothing to do.
    Done,
}

fn next(group: &Group) -> Action {
    let mut state = group.state.lock();
    if state.mode != Mode::Busy {
        return Action::Lose;
    }
    if let Some(member) = state.pending.first().cloned() {
        let wanted = *member.body.wanted();
        let join_states = wanted.join_state;
        let Some(used) = Use::new(&member) else {
            // It is leaving, and removes itself.
            let taken = state.take_out(&member);
            drop(state);
            drop(taken);
            return next(group);
        };
        if state.record.join_state & join_states != join_states {
            return Action::Join(used);
        }
        if mcmember::matches(&state.record, &wanted, member.body.mask()) {
            join_here(&mut state, &member, join_states);
            return Action::Notify(used, Ok(()));
        }
        let taken = state.take_out(&member);
        drop(state);
        drop(taken);
        return Action::Notify(used, Err(EINVAL));
    }
    match state.unused_join_states() {
        0 => {
            state.mode = Mode::Idle;
            Action::Done
        }
        join_states => {
            state.record.join_state &= !join_states;
            Action::Leave(join_states)
        }
    }
}

/// Runs the steps of a group, until a query to the SA is pending or nothing is left to do.
fn run(group: &Arc<Group>, sleep: &MaySleep) {
    loop {
        match next(group) {
            Action::Lose => lose(group, sleep),
            Action::Notify(member, status) => notify(member, status, sleep),
            Action::Join(member) => {
                let sent = send_join(group, &member, sleep);
                let left = Arc::clone(&member);
                drop(member);
                match sent {
                    Ok(()) => return,
                    Err(error) => fail(group, &left, error, sleep),
                }
            }
            Action::Leave(join_states) => {
                if send_leave(group, join_states, sleep).is_ok() {
                    return;
                }
            }
            Action::Done => return group.port.release(group),
        }
    }
}

impl SleepableWork for Group {
    fn run(this: Arc<Self>, sleep: &MaySleep) {
        run(&this, sleep);
    }
}

/// Sends a join to the SA.
fn send_join(group: &Arc<Group>, member: &Arc<Member>, sleep: &MaySleep) -> Result {
    let handler = JoinHandler {
        group: group.clone(),
        member: member.clone(),
    };
    let handler = KBox::new(handler, GFP_KERNEL)?;
    let what = (member.body.wanted(), member.body.mask());
    query(group, method::SET, what, handler, sleep)
}

/// Sends a leave to the SA.
fn send_leave(group: &Arc<Group>, join_states: u8, sleep: &MaySleep) -> Result {
    let record = {
        let mut state = group.state.lock();
        state.leaving = join_states;
        let mut record = state.record;
        record.join_state = join_states;
        record
    };
    let mask = mcmember::mask_of(&[bit::MGID, bit::PORT_GID, bit::JOIN_STATE]);
    let answer = KBox::new(LeaveHandler(group.clone()), GFP_KERNEL)?;
    query(group, method::DELETE, (&record, mask), answer, sleep)
}

fn query(
    group: &Group,
    how: u8,
    what: (&ib_sa_mcmember_rec, u64),
    handler: KBox<dyn QueryHandler>,
    sleep: &MaySleep,
) -> Result {
    let at = (&*group.port.device, group.port.port_num);
    let flags = SendFlags::Borrowed(sleep);
    mcmember::query(at, how, what, TIMEOUT_MS, handler, &flags)
}

/// Completion of a join.
struct JoinHandler {
    group: Arc<Group>,
    /// The member for which the port joins.
    member: Arc<Member>,
}

impl QueryHandler for JoinHandler {
    fn answered(&self, _query: &Query, status: Result, answer: Option<&RecvMad>, sleep: &MaySleep) {
        let Self { group, member } = self;
        match (status, answer) {
            (Ok(()), Some(answer)) => {
                let record = mcmember::record(answer);
                let place = pkey_index(&group.port, &record);
                let mut state = group.state.lock();
                if state.mode == Mode::Busy && state.pkey_index.is_none() {
                    state.pkey_index = place;
                }
                state.record = record;
            }
            (status, _) => {
                let error = status.err().unwrap_or(EIO);
                // A member that has left meanwhile is not called.
                if group.state.lock().is_first(member) {
                    fail(group, member, error, sleep);
                }
            }
        }
        run(group, sleep);
    }
}

/// Completion of a leave.
struct LeaveHandler(Arc<Group>);

impl QueryHandler for LeaveHandler {
    fn answered(
        &self,
        _query: &Query,
        status: Result,
        _answer: Option<&RecvMad>,
        sleep: &MaySleep,
    ) {
        let group = &self.0;
        let again = {
            let mut state = group.state.lock();
            let again = status.is_err() && state.retries > 0;
            if again {
                state.retries = state.retries.saturating_sub(1);
            }
            again.then_some(state.leaving)
        };
        if again.is_some_and(|join_states| send_leave(group, join_states, sleep).is_ok()) {
            return;
        }
        run(group, sleep);
    }
}

/// The record of a group that a port has joined.
///
/// # Errors
///
/// As for `ib_sa_get_mcmember_rec`.
pub(super) fn find(device: &Device, port_num: u32, mgid: Gid) -> Result<ib_sa_mcmember_rec> {
    let port = group::find_port(device, port_num).ok_or(ENODEV)?;
    port.record_of(mgid).ok_or(EADDRNOTAVAIL)
}
