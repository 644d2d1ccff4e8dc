// SPDX-License-Identifier: GPL-2.0

//! Multicast groups that ports have joined, and their members.
//!
//! | mode of a group | as in C | meaning |
//! |---|---|---|
//! | [`Mode::Idle`] | `MCAST_IDLE` | nothing to do |
//! | [`Mode::Busy`] | `MCAST_BUSY` | its work runs, or waits for the SA |
//! | [`Mode::Failed`] | `MCAST_GROUP_ERROR` | the port has lost the membership: all members fail |
//! | [`Mode::PkeyChanged`] | `MCAST_PKEY_EVENT` | the same, if the index of the group's P_Key has changed |
//!
//! Locks
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `PORTS` | the ports | any context | nothing |
//! | `McastPort::groups` | the groups of a port, and who uses them | any context | `Group::state`, the work queue |
//! | `Group::state` | a group and its members | any context | the work queue |
//!
//! C header: `include/rdma/ib_sa.h`.

use kernel::{impl_has_work, prelude::*, sync::Arc, workqueue::Work};
use kernel_ext::{
    bindings::ib_sa_mcmember_rec,
    sleepable::{self, Sleepable},
    static_lock::static_lock,
    static_vec::StaticVec,
    sync::SpinLockIrq,
    uses::{Use, Used, Uses},
    work::GlobalQueue,
};
use rdma::{
    core::{
        device::Registered,
        sa::{MulticastBody, MulticastMember, SaClientUse},
        Device,
    },
    embeds, Gid,
};

use super::super::mcmember;

/// Number of join states: full, non, and two kinds of send-only members.
const KINDS: usize = 4;

/// Number of retries of a leave.
pub(super) const LEAVE_RETRIES: u32 = 3;

/// The ordered workqueue of all groups.
pub(super) static WORKERS: GlobalQueue = GlobalQueue::new();

/// Mode of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Idle,
    Busy,
    Failed,
    PkeyChanged,
}

/// State of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemberState {
    Joining,
    Joined,
    Lost,
}

/// State of a group.
pub(super) struct State {
    pub(super) record: ib_sa_mcmember_rec,
    pub(super) mode: Mode,
    /// Members waiting to join, in order.
    pub(super) pending: KVec<Arc<Member>>,
    /// Members that have joined.
    pub(super) active: KVec<Arc<Member>>,
    /// Number of members by join state.
    counts: [u32; KINDS],
    /// The join states that are being left.
    pub(super) leaving: u8,
    pub(super) retries: u32,
    /// The index of the group's P_Key.
    pub(super) pkey_index: Option<u16>,
}

impl State {
    /// A group without members.
    pub(super) fn new(mgid: &kernel_ext::bindings::ib_gid) -> Self {
        let mut record: ib_sa_mcmember_rec = pin_init::zeroed();
        record.mgid = *mgid;
        Self {
            record,
            mode: Mode::Idle,
            pending: KVec::new(),
            active: KVec::new(),
            counts: [0; KINDS],
            leaving: 0,
            retries: LEAVE_RETRIES,
            pkey_index: None,
        }
    }

    /// Changes the member counts of some join states.
    pub(super) fn count(&mut self, ways: u8, change: impl Fn(u32) -> u32) {
        for (bit, count) in self.counts.iter_mut().enumerate() {
            if ways >> bit & 1 != 0 {
                *count = change(*count);
            }
        }
    }

    /// The join states of the port that no member has.
    pub(super) fn unused_join_states(&self) -> u8 {
        let unused_bit = |(bit, count): (usize, &u32)| match count {
            0 => 1u8 << bit,
            _ => 0,
        };
        let unused = self.counts.iter().enumerate().map(unused_bit);
        unused.fold(0, |states, state| states | state) & self.record.join_state
    }

    /// Whether a member is the next one to join.
    pub(super) fn is_first(&self, member: &Arc<Member>) -> bool {
        let first = self.pending.first();
        first.is_some_and(|first| Arc::ptr_eq(first, member))
    }

    /// Removes a member from its list.
    pub(super) fn take_out(&mut self, member: &Arc<Member>) -> Option<Arc<Member>> {
        for list in [&mut self.pending, &mut self.active] {
            let place = list.iter().position(|one| Arc::ptr_eq(one, member));
            if let Some(nth) = place {
                return list.remove(nth).ok();
            }
        }
        None
    }
}

/// A group that a port has joined or is joining.
#[pin_data]
pub(super) struct Group {
    pub(super) port: Arc<McastPort>,
    #[pin]
    pub(super) state: SpinLockIrq<State>,
    #[pin]
    pub(super) work: Work<Sleepable<Group>>,
}

impl_has_work! {
    impl HasWork<Sleepable<Self>> for Group { self.work }
}

impl Group {
    /// Queues the group's work. The caller has set the group busy or added a request, and passes one use of the group
    /// to the work.
    pub(super) fn run_later(self: &Arc<Self>) {
        WORKERS.with(|workers| sleepable::enqueue(workers, self));
    }
}

/// A member of a group.
#[pin_data]
pub(crate) struct Member {
    pub(super) body: MulticastBody,
    pub(super) group: Arc<Group>,
    pub(super) _client: SaClientUse,
    /// Users: running callbacks.
    #[pin]
    pub(super) uses: Uses,
    #[pin]
    pub(super) state: SpinLockIrq<MemberState>,
}

embeds! {
    // SAFETY: No other type of this module has a `MulticastBody`.
    unsafe impl Embeds for Member { body: MulticastBody }
}

// SAFETY: The count is a member.
unsafe impl Used for Member {
    fn uses(&self) -> &Uses {
        &self.uses
    }
}

// SAFETY: `leave`, by which a client releases its member, waits in `Uses::end` until there is no use.
unsafe impl MulticastMember for Member {}

/// A group in its port's list.
pub(super) struct Listed {
    pub(super) group: Arc<Group>,
    _port: Use<McastPort>,
    /// Number of users: members and the queued work.
    users: u32,
}

/// A port with multicast groups.
#[pin_data]
pub(super) struct McastPort {
    /// It stays registered until `remove` has closed the port.
    pub(super) device: Registered,
    pub(super) port_num: u32,
    #[pin]
    pub(super) groups: SpinLockIrq<KVec<Listed>>,
    /// Users: its groups.
    #[pin]
    pub(super) uses: Uses,
}

// SAFETY: The count is a member.
unsafe impl Used for McastPort {
    fn uses(&self) -> &Uses {
        &self.uses
    }
}

impl McastPort {
    /// The group with a GID, with one more user.
    fn find(&self, mgid: Gid) -> Option<Arc<Group>> {
        let mut groups = self.groups.lock();
        let is = |one: &&mut Listed| mcmember::gid(&one.group.state.lock().record.mgid) == mgid;
        let listed = groups.iter_mut().find(is)?;
        listed.users = listed.users.saturating_add(1);
        Some(listed.group.clone())
    }

    /// The record of the group with a GID.
    pub(super) fn record_of(&self, mgid: Gid) -> Option<ib_sa_mcmember_rec> {
        let groups = self.groups.lock();
        let mut records = groups.iter().map(|one| one.group.state.lock().record);
        records.find(|record| mcmember::gid(&record.mgid) == mgid)
    }

    /// The group with a GID, or a new one, with one more user. The zero GID always makes a new group: the SA chooses
    /// its GID.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENODEV` while the port closes.
    pub(super) fn acquire(
        self: &Arc<Self>,
        mgid: Gid,
        new: impl FnOnce() -> Result<Arc<Group>>,
    ) -> Result<Arc<Group>> {
        if !mgid.is_zero() {
            if let Some(found) = self.find(mgid) {
                return Ok(found);
            }
        }
        let group = new()?;
        let listed = Listed {
            group: group.clone(),
            _port: Use::new(self).ok_or(ENODEV)?,
            users: 1,
        };
        self.groups.lock().push(listed, GFP_ATOMIC)?;
        Ok(group)
    }

    /// Adds a user of a group.
    pub(super) fn hold(&self, group: &Arc<Group>) {
        let mut groups = self.groups.lock();
        if let Some(one) = groups.iter_mut().find(|one| Arc::ptr_eq(&one.group, group)) {
            one.users = one.users.saturating_add(1);
        }
    }

    /// Removes a user of a group, and the group with its last user.
    pub(super) fn release(&self, group: &Arc<Group>) {
        let mut groups = self.groups.lock();
        let Some(nth) = groups.iter().position(|one| Arc::ptr_eq(&one.group, group)) else {
            return;
        };
        if let Some(one) = groups.get_mut(nth) {
            one.users = one.users.saturating_sub(1);
            if one.users != 0 {
                return;
            }
        }
        let taken = groups.remove(nth).ok();
        drop(groups);
        drop(taken);
    }

    /// Sets the mode of all groups of the port on an event.
    pub(super) fn set_mode(&self, mode: Mode) {
        let mut groups = self.groups.lock();
        for one in &mut *groups {
            let mut state = one.group.state.lock();
            if state.mode == Mode::Idle {
                one.users = one.users.saturating_add(1);
                one.group.run_later();
            }
            if state.mode != Mode::Failed {
                state.mode = mode;
            }
        }
    }
}

static_lock! {
    pub(super) static PORTS: SpinLockIrq<StaticVec<Arc<McastPort>>> = StaticVec::new();
}

/// The open port of a device, if it has multicast groups. Any context.
pub(super) fn find_port(device: &Device, port_num: u32) -> Option<Arc<McastPort>> {
    let ports = PORTS.lock();
    let is =
        |port: &&Arc<McastPort>| port.port_num == port_num && core::ptr::eq(&*port.device, device);
    ports.iter().find(is).cloned()
}
