// SPDX-License-Identifier: GPL-2.0

//! Multicast groups that ports have joined, and their members here.
//!
//! | mode of a group | meaning |
//! |---|---|
//! | [`Mode::Idle`] | nothing is to be done |
//! | [`Mode::Busy`] | its work runs, or waits for the administrator |
//! | [`Mode::Failed`] | the port has lost its membership: all members are told |
//! | [`Mode::PkeyChanged`] | so it has, if the P_Key of the group is at another place now |
//!
//! Locks
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `PORTS` | the ports | any context | nothing |
//! | `McastPort::groups` | the groups of a port, and who uses them | any context | `Group::state`, the work queue |
//! | `Group::state` | a group and its members | any context | the work queue |

use kernel::{
    impl_has_work,
    prelude::*,
    sync::{aref::ARef, Arc, LockClassKey},
    workqueue::Work,
};
use kernel_ext::{
    bindings::ib_sa_mcmember_rec,
    sync::{IrqBackend, SpinLockIrq},
    uses::Uses,
    work::{self, GlobalQueue},
};
use rdma::{
    core::{
        sa::{MulticastBody, SaClientUse},
        Device,
    },
    embeds, Gid,
};

use super::super::mcmember;

/// How many kinds of membership there are: full, none, and two that only send.
const KINDS: usize = 4;

/// How often a departure is told of that the administrator does not acknowledge.
pub(super) const LEAVE_RETRIES: u32 = 3;

/// The queue of the groups' work: one at a time.
pub(super) static WORKERS: GlobalQueue = GlobalQueue::new();

/// What is done with a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Idle,
    Busy,
    Failed,
    PkeyChanged,
}

/// How far a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemberState {
    Joining,
    Joined,
    Lost,
}

/// What is known of a group.
pub(super) struct State {
    pub(super) record: ib_sa_mcmember_rec,
    pub(super) mode: Mode,
    /// Members that want to join, in their order.
    pub(super) pending: KVec<Arc<Member>>,
    /// Members that have joined.
    pub(super) active: KVec<Arc<Member>>,
    /// The member for which the administrator was asked.
    pub(super) asked_for: Option<Arc<Member>>,
    /// How many members have joined in which way.
    counts: [u32; KINDS],
    /// The ways that are being left.
    pub(super) leaving: u8,
    pub(super) retries: u32,
    /// Where the P_Key of the group is.
    pub(super) pkey_index: Option<u16>,
}

impl State {
    /// A group that nobody has joined.
    pub(super) fn new(mgid: &kernel_ext::bindings::ib_gid) -> Self {
        let mut record: ib_sa_mcmember_rec = pin_init::zeroed();
        record.mgid = *mgid;
        Self {
            record,
            mode: Mode::Idle,
            pending: KVec::new(),
            active: KVec::new(),
            asked_for: None,
            counts: [0; KINDS],
            leaving: 0,
            retries: LEAVE_RETRIES,
            pkey_index: None,
        }
    }

    /// Members join, or one leaves, in some ways.
    pub(super) fn count(&mut self, ways: u8, change: impl Fn(u32) -> u32) {
        for (bit, count) in self.counts.iter_mut().enumerate() {
            if ways >> bit & 1 != 0 {
                *count = change(*count);
            }
        }
    }

    /// The ways in which the port is a member, though nobody here is.
    pub(super) fn ways_to_leave(&self) -> u8 {
        let nobody = |(bit, count): (usize, &u32)| match count {
            0 => 1u8 << bit,
            _ => 0,
        };
        let unused = self.counts.iter().enumerate().map(nobody);
        unused.fold(0, |ways, way| ways | way) & self.record.join_state
    }

    /// Takes a member out of the list that it is in.
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

/// A group that a port has joined, or is about to.
#[pin_data]
pub(super) struct Group {
    pub(super) port: Arc<McastPort>,
    #[pin]
    pub(super) state: SpinLockIrq<State>,
    #[pin]
    pub(super) work: Work<Group>,
}

impl_has_work! {
    impl HasWork<Self> for Group { self.work }
}

impl Group {
    /// Lets the group's work run. Who calls this has made the group busy, or given it another thing to do, and counts as a
    /// user of it until the work is done.
    pub(super) fn run_later(self: &Arc<Self>) {
        if let Some(workers) = WORKERS.get() {
            work::enqueue(workers, self);
        }
    }
}

/// A member of a group.
#[pin_data]
pub(crate) struct Member {
    pub(super) body: MulticastBody,
    pub(super) group: Arc<Group>,
    pub(super) _client: SaClientUse,
    /// Calls of its callback.
    #[pin]
    pub(super) uses: Uses,
    #[pin]
    pub(super) state: SpinLockIrq<MemberState>,
}

embeds!(Member {
    body: MulticastBody
});

/// A group in the list of its port.
pub(super) struct Listed {
    pub(super) group: Arc<Group>,
    /// Members, and its work.
    users: u32,
}

/// A port whose groups are administered.
#[pin_data]
pub(super) struct McastPort {
    pub(super) device: ARef<Device>,
    pub(super) port_num: u32,
    #[pin]
    pub(super) groups: SpinLockIrq<KVec<Listed>>,
    /// Its groups.
    #[pin]
    pub(super) uses: Uses,
}

impl McastPort {
    /// The group of a GID, with one more user.
    fn find(&self, mgid: Gid) -> Option<Arc<Group>> {
        let mut groups = self.groups.lock();
        let is = |one: &&mut Listed| mcmember::gid(&one.group.state.lock().record.mgid) == mgid;
        let listed = groups.iter_mut().find(is)?;
        listed.users = listed.users.saturating_add(1);
        Some(listed.group.clone())
    }

    /// What is known of the group of a GID.
    pub(super) fn record_of(&self, mgid: Gid) -> Option<ib_sa_mcmember_rec> {
        let groups = self.groups.lock();
        let mut records = groups.iter().map(|one| one.group.state.lock().record);
        records.find(|record| mcmember::gid(&record.mgid) == mgid)
    }

    /// The group of a GID, or a new one, with one more user. A GID that is zero is always that of a new one: the
    /// administrator chooses it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENODEV` where the port goes.
    pub(super) fn acquire(
        &self,
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
            users: 1,
        };
        if !self.uses.get() {
            return Err(ENODEV);
        }
        let pushed = self.groups.lock().push(listed, GFP_ATOMIC);
        pushed.inspect_err(|_| self.uses.put())?;
        Ok(group)
    }

    /// One more user of a group.
    pub(super) fn hold(&self, group: &Arc<Group>) {
        let mut groups = self.groups.lock();
        if let Some(one) = groups.iter_mut().find(|one| Arc::ptr_eq(&one.group, group)) {
            one.users = one.users.saturating_add(1);
        }
    }

    /// One user of a group less: without any the port forgets it.
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
        self.uses.put();
    }

    /// Something has happened to all groups of the port.
    pub(super) fn happened(&self, mode: Mode) {
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

/// Marks the lock of the ports.
pub(super) enum PortsLock {}

impl kernel::sync::lock::GlobalLockBackend for PortsLock {
    const NAME: &'static CStr = c"ib_core::multicast::PORTS";
    type Item = KVec<Arc<McastPort>>;
    type Backend = IrqBackend;

    fn get_lock_class() -> Pin<&'static LockClassKey> {
        kernel::static_lock_class!()
    }
}

// SAFETY: `init` is called before the module does anything else, and there is one static of this type.
pub(super) static PORTS: kernel::sync::lock::GlobalLock<PortsLock> =
    unsafe { kernel::sync::lock::GlobalLock::new(KVec::new()) };

/// Makes the lock. The module's initialisation calls it, once, before all else.
pub(super) fn init() {
    // SAFETY: Called once, before there are ports.
    unsafe { PORTS.init() };
}

/// The port of a device, if its groups are administered. Any context.
pub(super) fn find_port(device: &Device, port_num: u32) -> Option<Arc<McastPort>> {
    let ports = PORTS.lock();
    let is =
        |port: &&Arc<McastPort>| port.port_num == port_num && core::ptr::eq(&*port.device, device);
    ports.iter().find(is).cloned()
}
