// SPDX-License-Identifier: GPL-2.0

//! Joining and leaving multicast groups.
//!
//! The port is a member once for all members here: the administrator is asked when the first one joins in a way, and when the
//! last one leaves. Requests for a group are carried out one after the other, by the group's work.
//!
//! IBTA specification, volume 1, sections 15.2.5.17 and 10.5.2.

mod device;
mod group;

use kernel::{ffi::c_void, new_work, prelude::*, sync::Arc, workqueue::WorkItem};
use kernel_ext::{
    bindings::{self as c, ib_sa_mcmember_rec},
    door::IntoC,
    error::EADDRNOTAVAIL,
    sync::new_spinlock_irq,
    uses::Uses,
};
use rdma::{
    core::{
        cq::Handler,
        mad::{recv::RecvMad, send::SendFlags, MadeForC},
        sa::{tell_member, MulticastBody, MulticastFn, SaClient},
        Device,
    },
    Gid, MaySleep,
};

use super::{
    mcmember::{self, bit},
    state::{OnAnswer, Query},
};
use crate::{gid::cache, mad::header::method};
pub(crate) use device::{start, Started};
pub(crate) use group::Member;
use group::{Group, McastPort, MemberState, Mode, State};

/// How long the administrator's answer is awaited, in milliseconds.
const TIMEOUT_MS: usize = 3000;

/// Makes the lock. The module's initialisation calls it, once, before all else.
pub(super) fn init() {
    group::init();
}

/// The address of a membership was taken away: `ENETRESET`.
fn reset() -> Error {
    Error::from_errno(-(c::ENETRESET as i32))
}

/// The place of a group's P_Key.
fn pkey_index(port: &McastPort, record: &ib_sa_mcmember_rec) -> Option<u16> {
    let known = cache::of(&port.device, port.port_num)?;
    let pkey = u16::from_be(record.pkey);
    known.known.with(|known| known.find_pkey(pkey)).flatten()
}

/// What a client wants to join.
pub(super) struct Join<'a> {
    pub(super) record: &'a ib_sa_mcmember_rec,
    pub(super) mask: u64,
    pub(super) callback: Handler<MulticastFn>,
    pub(super) context: *mut c_void,
}

/// Begins to join a group: the callback is told of the end.
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
    // The callback may be told, and the member freed, before this returns.
    let raw = MadeForC(Ok(member.clone())).into_c();
    let mut state = group.state.lock();
    // There is room for it.
    let _ = state.pending.push_within_capacity(member);
    if state.mode == Mode::Idle {
        state.mode = Mode::Busy;
        drop(state);
        port.hold(&group);
        group.run_later();
    }
    Ok(raw)
}

/// Makes room for one more member, in both lists.
fn reserve(group: &Group) -> Result {
    let mut state = group.state.lock();
    let all = state.pending.len().saturating_add(state.active.len());
    let more = |list: &KVec<Arc<Member>>| all.saturating_add(1).saturating_sub(list.len());
    let (pending, active) = (more(&state.pending), more(&state.active));
    state.pending.reserve(pending, GFP_ATOMIC)?;
    state.active.reserve(active, GFP_ATOMIC)?;
    Ok(())
}

/// Leaves a group. When this returns the member's callback does not run any more. Not from the callback.
pub(super) fn leave(member: Arc<Member>, sleep: &MaySleep) {
    let group = &member.group;
    let taken = {
        let mut state = group.state.lock();
        let joined = *member.state.lock() == MemberState::Joined;
        if joined {
            let ways = member.body.record().join_state;
            state.count(ways, |count| count.saturating_sub(1));
        }
        let taken = state.take_out(&member);
        if state.mode == Mode::Idle {
            state.mode = Mode::Busy;
            drop(state);
            // The member's use of the group is the work's from now on.
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

/// Tells a member; the client may not want it any more.
fn tell(member: &Arc<Member>, status: Result, sleep: &MaySleep) {
    let given_up = tell_member(&**member, status, sleep);
    member.uses.put();
    if let Some(given_up) = given_up {
        leave(given_up.0, sleep);
    }
}

/// Takes a member out and tells it that it has not joined.
fn fail(group: &Group, member: &Arc<Member>, error: Error, sleep: &MaySleep) {
    let taken = {
        let mut state = group.state.lock();
        // A member that leaves at the same time is in no list any more.
        let used = member.uses.get();
        let taken = state.take_out(member);
        if !used {
            return;
        }
        taken
    };
    drop(taken);
    tell(member, Err(error), sleep);
}

/// A member joins a group of which the port is a member already.
fn join_here(state: &mut State, member: &Arc<Member>, ways: u8) {
    *member.state.lock() = MemberState::Joined;
    state.count(ways, |count| count.saturating_add(1));
    let mut record = state.record;
    record.join_state = ways;
    member.body.set_record(&record);
    if let Some(member) = state.take_out(member) {
        // There is room: it was made when the member came.
        let _ = state.active.push_within_capacity(member);
    }
}

/// All members are told that the membership is lost.
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
            let ways = member.body.record().join_state;
            state.count(ways, |count| count.saturating_sub(1));
            *member.state.lock() = MemberState::Lost;
            if !member.uses.get() {
                continue;
            }
            member
        };
        tell(&member, Err(reset()), sleep);
    }
}

/// The next thing to do for a group.
enum Next {
    /// The membership may be lost.
    Lose,
    /// A member has joined, or cannot: it is told.
    Tell(Arc<Member>, Result),
    /// The administrator is asked, for a member.
    Ask(Arc<Member>),
    /// The port leaves in some ways.
    Leave(u8),
    /// Nothing.
    Done,
}

fn next(group: &Group) -> Next {
    let mut state = group.state.lock();
    if state.mode != Mode::Busy {
        return Next::Lose;
    }
    if let Some(member) = state.pending.first().cloned() {
        let wanted = member.body.record();
        let ways = wanted.join_state;
        if !member.uses.get() {
            // It leaves at this moment, and takes itself out.
            let taken = state.take_out(&member);
            drop(state);
            drop(taken);
            return next(group);
        }
        if state.record.join_state & ways != ways {
            return Next::Ask(member);
        }
        if mcmember::matches(&state.record, &wanted, member.body.mask()) {
            join_here(&mut state, &member, ways);
            return Next::Tell(member, Ok(()));
        }
        let taken = state.take_out(&member);
        drop(state);
        drop(taken);
        return Next::Tell(member, Err(EINVAL));
    }
    match state.ways_to_leave() {
        0 => {
            state.mode = Mode::Idle;
            Next::Done
        }
        ways => {
            state.record.join_state &= !ways;
            Next::Leave(ways)
        }
    }
}

/// Does what is to be done for a group, until the administrator is asked or nothing is left.
fn run(group: &Arc<Group>, sleep: &MaySleep) {
    loop {
        match next(group) {
            Next::Lose => lose(group, sleep),
            Next::Tell(member, status) => tell(&member, status, sleep),
            Next::Ask(member) => {
                let asked = send_join(group, &member, sleep);
                member.uses.put();
                match asked {
                    Ok(()) => return,
                    Err(error) => fail(group, &member, error, sleep),
                }
            }
            Next::Leave(ways) => {
                if send_leave(group, ways, sleep).is_ok() {
                    return;
                }
            }
            Next::Done => return group.port.release(group),
        }
    }
}

impl WorkItem for Group {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        // SAFETY: Works of the queue run in process context.
        run(&this, &unsafe { MaySleep::assume() });
    }
}

/// Asks the administrator to let the port join, as a member wants it.
fn send_join(group: &Arc<Group>, member: &Arc<Member>, sleep: &MaySleep) -> Result {
    let old = group.state.lock().asked_for.replace(member.clone());
    drop(old);
    let answer = KBox::new(Joined(group.clone()), GFP_KERNEL)?;
    let record = member.body.record();
    let what = (&record, member.body.mask());
    query(group, method::SET, what, answer, sleep)
}

/// Tells the administrator that the port leaves in some ways.
fn send_leave(group: &Arc<Group>, ways: u8, sleep: &MaySleep) -> Result {
    let record = {
        let mut state = group.state.lock();
        state.leaving = ways;
        let mut record = state.record;
        record.join_state = ways;
        record
    };
    let mask = mcmember::mask_of(&[bit::MGID, bit::PORT_GID, bit::JOIN_STATE]);
    let answer = KBox::new(Left(group.clone()), GFP_KERNEL)?;
    query(group, method::DELETE, (&record, mask), answer, sleep)
}

fn query(
    group: &Group,
    how: u8,
    what: (&ib_sa_mcmember_rec, u64),
    on_answer: KBox<dyn OnAnswer>,
    sleep: &MaySleep,
) -> Result {
    let at = (&*group.port.device, group.port.port_num);
    let flags = SendFlags::Borrowed(sleep);
    mcmember::query(at, how, what, TIMEOUT_MS, on_answer, &flags)
}

/// What follows when the administrator has been asked to let the port join.
struct Joined(Arc<Group>);

impl OnAnswer for Joined {
    fn answered(&self, _query: &Query, status: Result, answer: Option<&RecvMad>, sleep: &MaySleep) {
        let group = &self.0;
        let asked_for = group.state.lock().asked_for.take();
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
                let is_first = |member: &Arc<Member>| {
                    let state = group.state.lock();
                    let first = state.pending.first();
                    first.is_some_and(|first| Arc::ptr_eq(first, member))
                };
                // A member that has left meanwhile is not told.
                if let Some(member) = asked_for.as_ref().filter(|member| is_first(member)) {
                    fail(group, member, error, sleep);
                }
            }
        }
        drop(asked_for);
        run(group, sleep);
    }
}

/// What follows when the administrator was told that the port leaves.
struct Left(Arc<Group>);

impl OnAnswer for Left {
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
        if again.is_some_and(|ways| send_leave(group, ways, sleep).is_ok()) {
            return;
        }
        run(group, sleep);
    }
}

/// What is known of a group that a port has joined.
///
/// # Errors
///
/// As for `ib_sa_get_mcmember_rec`.
pub(super) fn find(device: &Device, port_num: u32, mgid: Gid) -> Result<ib_sa_mcmember_rec> {
    let port = group::find_port(device, port_num).ok_or(ENODEV)?;
    port.record_of(mgid).ok_or(EADDRNOTAVAIL)
}
