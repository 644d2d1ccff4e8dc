// SPDX-License-Identifier: GPL-2.0

//! What there is of subnet administration: ports that have an administrator (SA), and the questions that it was asked.
//!
//! Locks
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `ADMINISTRATION` | the ports, the questions by number, and those that user space was asked | any context | the work queue |
//! | `SaPort::address` | where the administrator is | any context | nothing |
//! | `SaPort::abilities` | what it can do | any context | nothing |
//! | `Query::state` | how far a question is | any context | nothing |

use kernel::{
    impl_has_delayed_work, impl_has_work,
    prelude::*,
    sync::{aref::ARef, Arc, LockClassKey},
    workqueue::{DelayedWork, Work},
};
use kernel_ext::{
    bindings::sa_path_rec,
    random,
    sync::{IrqBackend, SpinLockIrq},
    work::OwnedQueue,
};
use rdma::{
    core::{
        mad::{recv::RecvMad, send::OwnAh},
        sa::SaClientUse,
        Device,
    },
    MaySleep,
};

use super::record::ClassPortInfo;
use crate::mad::state::{Agent, SendMad};

/// Where the administrator of a subnet is.
pub(super) struct Address {
    pub(super) ah: Arc<OwnAh>,
    pub(super) pkey_index: u16,
    /// It can be reached: its LID is one of a port.
    pub(super) is_valid: bool,
}

/// What the administrator can do.
#[derive(Default)]
pub(super) struct Abilities {
    /// `None`: it has not said it.
    pub(super) known: Option<ClassPortInfo>,
    /// How often it was asked in vain.
    pub(super) retries: u32,
}

/// A port of a subnet that has an administrator.
#[pin_data]
pub(super) struct SaPort {
    pub(super) device: ARef<Device>,
    pub(super) port_num: u32,
    pub(super) is_opa: bool,
    pub(super) agent: Arc<Agent>,
    #[pin]
    pub(super) address: SpinLockIrq<Option<Arc<Address>>>,
    #[pin]
    pub(super) abilities: SpinLockIrq<Abilities>,
    /// Finds the administrator.
    #[pin]
    pub(super) update: Work<SaPort, 1>,
    /// Asks what it can do.
    #[pin]
    pub(super) ask: DelayedWork<SaPort, 2>,
}

impl_has_work! {
    impl HasWork<Self, 1> for SaPort { self.update }
}
impl_has_delayed_work! {
    impl HasDelayedWork<Self, 2> for SaPort { self.ask }
}

/// Who waits for an answer.
pub(super) trait OnAnswer: Send + Sync {
    /// The answer has come, `Err` where its status is not good; or there is none: `ETIMEDOUT`, `EINTR` where the question
    /// was canceled, `EIO`.
    fn answered(&self, query: &Query, status: Result, answer: Option<&RecvMad>, sleep: &MaySleep);

    /// User space has answered with paths. Without an answer in that form: what [`Self::answered`] does for an error.
    fn resolved(&self, query: &Query, _paths: &mut [sa_path_rec], sleep: &MaySleep) {
        self.answered(query, Err(EIO), None, sleep);
    }
}

/// A question.
#[pin_data]
pub(super) struct Query {
    /// Its number, which is in the transaction ID.
    pub(super) id: u32,
    pub(super) port: Arc<SaPort>,
    /// The one asked is an administrator of Omni-Path.
    pub(super) is_opa: bool,
    pub(super) on_answer: KBox<dyn OnAnswer>,
    pub(super) send: Arc<SendMad>,
    /// Where it goes.
    pub(super) _address: Arc<Address>,
    /// Who has asked does not go before the answer.
    pub(super) _client: Option<SaClientUse>,
    #[pin]
    pub(super) state: SpinLockIrq<QueryState>,
}

/// How far a question is.
#[derive(Default)]
pub(super) struct QueryState {
    /// Its answer was told of.
    pub(super) answered: bool,
    pub(super) canceled: bool,
    /// How the path is used, as user space was told.
    pub(super) path_use: u8,
}

/// A question that user space was asked.
pub(super) struct Asked {
    pub(super) query: Arc<Query>,
    pub(super) seq: u32,
    /// Until when an answer is awaited, in nanoseconds.
    pub(super) until: u64,
}

/// What waits for the answers of user space.
#[pin_data]
pub(super) struct Service {
    pub(super) queue: OwnedQueue,
    #[pin]
    pub(super) work: DelayedWork<Service>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Service { self.work }
}

/// The ports, and the questions.
pub(super) struct Administration {
    pub(super) ports: KVec<Arc<SaPort>>,
    queries: KVec<Arc<Query>>,
    next_id: Option<u32>,
    /// In the order of their time limits.
    pub(super) asked: KVec<Asked>,
    pub(super) next_seq: u32,
    /// What waits for user space; there as long as the module.
    pub(super) service: Option<Arc<Service>>,
}

/// Marks the lock.
pub(super) enum AdministrationLock {}

impl kernel::sync::lock::GlobalLockBackend for AdministrationLock {
    const NAME: &'static CStr = c"ib_core::sa::ADMINISTRATION";
    type Item = Administration;
    type Backend = IrqBackend;

    fn get_lock_class() -> Pin<&'static LockClassKey> {
        kernel::static_lock_class!()
    }
}

// SAFETY: `init` is called before the module does anything else, and there is one static of this type.
pub(super) static ADMINISTRATION: kernel::sync::lock::GlobalLock<AdministrationLock> = unsafe {
    kernel::sync::lock::GlobalLock::new(Administration {
        ports: KVec::new(),
        queries: KVec::new(),
        next_id: None,
        asked: KVec::new(),
        next_seq: 0,
        service: None,
    })
};

/// Makes the lock. The module's initialisation calls it, once, before all else.
pub(super) fn init() {
    // SAFETY: Called once, before there are ports.
    unsafe { ADMINISTRATION.init() };
}

/// The port of a device, if its subnet has an administrator. Any context.
pub(super) fn find_port(device: &Device, port_num: u32) -> Option<Arc<SaPort>> {
    let all = ADMINISTRATION.lock();
    let is =
        |port: &&Arc<SaPort>| port.port_num == port_num && core::ptr::eq(&*port.device, device);
    all.ports.iter().find(is).cloned()
}

/// Numbers are below: C takes a negative one for an error.
const MAX_ID: u32 = i32::MAX as u32;

impl Administration {
    fn place(&self, id: u32) -> core::result::Result<usize, usize> {
        self.queries.binary_search_by_key(&id, |query| query.id)
    }

    /// A number that no question has.
    pub(super) fn new_id(&mut self) -> u32 {
        let mut id = match self.next_id {
            Some(id) => id,
            // Answers to questions of an earlier life of the module are nobody's.
            None => {
                let mut bytes = [0; 4];
                random::fill(&mut bytes);
                u32::from_ne_bytes(bytes) & MAX_ID
            }
        };
        while id == 0 || self.place(id).is_ok() {
            id = id.wrapping_add(1) & MAX_ID;
        }
        self.next_id = Some(id.wrapping_add(1) & MAX_ID);
        id
    }

    /// Lets a question be found.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn add(&mut self, query: &Arc<Query>) -> Result {
        self.queries.reserve(1, GFP_ATOMIC)?;
        if let Err(place) = self.place(query.id) {
            // There is room for it.
            let _ = self.queries.insert_within_capacity(place, query.clone());
        }
        Ok(())
    }

    /// The question of a number.
    pub(super) fn find(&self, id: u32) -> Option<Arc<Query>> {
        self.queries.get(self.place(id).ok()?).cloned()
    }

    /// Takes a question out.
    pub(super) fn remove(&mut self, id: u32) -> Option<Arc<Query>> {
        let place = self.place(id).ok()?;
        self.queries.remove(place).ok()
    }

    /// Takes a question out of those that user space was asked.
    pub(super) fn take_asked(&mut self, wanted: impl Fn(&Asked) -> bool) -> Option<Asked> {
        let place = self.asked.iter().position(wanted)?;
        self.asked.remove(place).ok()
    }
}
