// SPDX-License-Identifier: GPL-2.0

//! Where identifiers are found: by their number, by the service that they listen for, by their peer.
//!
//! C header: `include/rdma/ib_cm.h`.
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `TABLES` | all tables of identifiers and those that wait in TIMEWAIT | process context | the allocator, the work queue's |

use ib_cm_protocol::{
    remote::{admit, Admission, Remote, Remotes, SidrKey},
    service::{Assigned, ServiceId, Wish},
};
use kernel::{
    impl_has_delayed_work,
    prelude::*,
    rbtree::{Entry, OccupiedEntry, RBTree, RBTreeNodeReservation},
    sync::Arc,
    workqueue::DelayedWork,
};
use kernel_ext::{random, sleepable::Sleepable, static_lock::static_lock};
use rdma::core::Device;

use crate::id::CmId;

static_lock! {
    /// The tables, while the module is loaded.
    static TABLES: Mutex<Option<Tables>> = None;
}

/// What orders the two tables of peers.
type PeerKey = (u32, u64);

/// A listener, and how many clients share it.
struct Listener {
    id: Arc<CmId>,
    clients: u32,
}

/// The peer of a connection that has ended.
#[pin_data]
pub(crate) struct Waiting {
    pub(crate) serial: u64,
    /// The identifier's number, by which it is found if it is there still.
    pub(crate) number: u32,
    /// The peer, if it was in the tables.
    pub(crate) remote: Option<Remote>,
    #[pin]
    pub(crate) work: DelayedWork<Sleepable<Waiting>>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Sleepable<Self>> for Waiting { self.work }
}

impl Waiting {
    /// Which of all it is.
    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }
}

/// The tables.
pub(crate) struct Tables {
    ids: RBTree<u32, Option<Arc<CmId>>>,
    next: u32,
    operand: u32,
    listeners: RBTree<(usize, ServiceId), Listener>,
    assigned: Assigned,
    by_id: RBTree<PeerKey, u32>,
    by_qp: RBTree<PeerKey, u32>,
    sidr: RBTree<SidrKey, u32>,
    waiting: RBTree<u64, Arc<Waiting>>,
    next_waiting: u64,
    is_ending: bool,
}

/// The tables, until the module goes.
pub(crate) struct Installed(());

/// Makes the tables. Numbers of identifiers begin at random.
pub(crate) fn install() -> Installed {
    *TABLES.lock() = Some(Tables {
        ids: RBTree::new(),
        next: 0,
        operand: random::number(),
        listeners: RBTree::new(),
        assigned: Assigned::new(),
        by_id: RBTree::new(),
        by_qp: RBTree::new(),
        sidr: RBTree::new(),
        waiting: RBTree::new(),
        next_waiting: 0,
        is_ending: false,
    });
    Installed(())
}

impl Drop for Installed {
    fn drop(&mut self) {
        let tables = TABLES.lock().take();
        drop(tables);
    }
}

/// Locks the tables.
///
/// # Errors
///
/// `ENODEV` while the module is not there, and those of `f`.
pub(crate) fn with<R>(f: impl FnOnce(&mut Tables) -> Result<R>) -> Result<R> {
    f(TABLES.lock().as_mut().ok_or(ENODEV)?)
}

/// Changes the tables. Nothing is done while the module is not there.
pub(crate) fn change(f: impl FnOnce(&mut Tables)) {
    if let Some(tables) = TABLES.lock().as_mut() {
        f(tables);
    }
}

/// The place of a listener.
fn service_of(device: &Device, service: ServiceId) -> (usize, ServiceId) {
    (core::ptr::from_ref(device) as usize, service)
}

/// What became of the wish to listen.
pub(crate) enum Listening {
    /// The identifier listens.
    Alone,
    /// Another one does, which the client may share.
    Shared(Arc<CmId>),
}

impl Tables {
    /// Takes a number that no identifier has; nobody finds it yet.
    pub(crate) fn take_number(&mut self) -> Result<u32> {
        let place = RBTreeNodeReservation::new(GFP_KERNEL)?;
        loop {
            let number = self.next ^ self.operand;
            self.next = self.next.wrapping_add(1);
            // 0 is no number of a peer.
            if number == 0 {
                continue;
            }
            if let Entry::Vacant(free) = self.ids.entry(number) {
                free.insert(None, place);
                return Ok(number);
            }
        }
    }

    /// Lets an identifier be found by its number.
    pub(crate) fn publish(&mut self, number: u32, id: &Arc<CmId>) {
        if let Some(place) = self.ids.get_mut(&number) {
            *place = Some(id.clone());
        }
    }

    /// Frees a number. The identifier is not found any more.
    pub(crate) fn free_number(&mut self, number: u32) -> Option<Arc<CmId>> {
        self.ids.remove(&number).flatten()
    }

    /// The identifier with this number.
    pub(crate) fn by_number(&self, number: u32) -> Option<Arc<CmId>> {
        self.ids.get(&number)?.clone()
    }

    /// The identifier with this number whose peer has that one.
    pub(crate) fn find(&self, local: u32, remote: u32) -> Option<Arc<CmId>> {
        self.by_number(local).filter(|id| id.remote_id() == remote)
    }

    /// The identifier whose peer is this.
    pub(crate) fn of_peer(&self, ca_guid: u64, comm_id: u32) -> Option<Arc<CmId>> {
        let number = *self.by_id.get(&(comm_id, ca_guid))?;
        self.find(number, comm_id)
    }

    /// Listens for a service. The service is told.
    ///
    /// # Errors
    ///
    /// `EBUSY` if another identifier does, which `may_share` does not want; `ENOMEM`.
    pub(crate) fn listen(
        &mut self,
        id: &Arc<CmId>,
        wish: Wish,
        may_share: impl FnOnce(&CmId) -> bool,
    ) -> Result<(ServiceId, Listening)> {
        let service = match wish {
            Wish::This(service) => service,
            Wish::Any => self.assigned.take(),
        };
        let key = service_of(id.body.device(), service);
        if let Some(listener) = self.listeners.get_mut(&key) {
            if !may_share(&listener.id) {
                return Err(EBUSY);
            }
            listener.clients = listener.clients.checked_add(1).ok_or(EBUSY)?;
            return Ok((service, Listening::Shared(listener.id.clone())));
        }
        let listener = Listener {
            id: id.clone(),
            clients: 1,
        };
        self.listeners
            .try_create_and_insert(key, listener, GFP_KERNEL)?;
        Ok((service, Listening::Alone))
    }

    /// A client gives a listener up. Whether it was the last one, and the listener is not found any more.
    pub(crate) fn unlisten(&mut self, device: &Device, service: ServiceId) -> bool {
        let key = service_of(device, service);
        match self.listeners.get_mut(&key) {
            Some(listener) if listener.clients > 1 => {
                listener.clients = listener.clients.wrapping_sub(1);
                false
            }
            _ => {
                drop(self.listeners.remove(&key));
                true
            }
        }
    }

    /// The listener for a service.
    pub(crate) fn listener(&self, device: &Device, service: ServiceId) -> Option<Arc<CmId>> {
        let listener = self.listeners.get(&service_of(device, service));
        listener.map(|listener| listener.id.clone())
    }

    /// Puts a peer of the identifier with this number into the tables.
    pub(crate) fn admit(&mut self, number: u32, remote: &Remote) -> Result<Admission<u32>> {
        let mut places = Places {
            id: Some(RBTreeNodeReservation::new(GFP_KERNEL)?),
            qp: Some(RBTreeNodeReservation::new(GFP_KERNEL)?),
            number,
            tables: self,
        };
        Ok(admit(&mut places, remote))
    }

    /// Takes a peer out of the tables.
    pub(crate) fn forget(&mut self, number: u32, remote: &Remote) {
        remove(&mut self.by_id, &remote.id_key(), number);
        remove(&mut self.by_qp, &remote.qp_key(), number);
    }

    /// Notes a SIDR_REQ. `false` if it has come before.
    pub(crate) fn note_sidr(&mut self, key: SidrKey, number: u32) -> Result<bool> {
        if self.sidr.get(&key).is_some() {
            return Ok(false);
        }
        self.sidr.try_create_and_insert(key, number, GFP_KERNEL)?;
        Ok(true)
    }

    /// Forgets a SIDR_REQ.
    pub(crate) fn forget_sidr(&mut self, key: &SidrKey) {
        self.sidr.remove(key);
    }

    /// Nothing waits from now on.
    pub(crate) fn end_waiting(&mut self) {
        self.is_ending = true;
    }

    /// Notes what waits.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENODEV` when the module goes.
    pub(crate) fn wait(&mut self, waiting: &Arc<Waiting>) -> Result {
        if self.is_ending {
            return Err(ENODEV);
        }
        self.waiting
            .try_create_and_insert(waiting.serial(), waiting.clone(), GFP_KERNEL)?;
        Ok(())
    }

    /// A number for what is going to wait.
    pub(crate) fn next_waiting(&mut self) -> u64 {
        self.next_waiting = self.next_waiting.wrapping_add(1);
        self.next_waiting
    }

    /// Forgets what has waited.
    pub(crate) fn end_wait(&mut self, serial: u64) -> Option<Arc<Waiting>> {
        self.waiting.remove(&serial)
    }

    /// Something that waits.
    pub(crate) fn any_waiting(&self) -> Option<Arc<Waiting>> {
        self.waiting
            .iter()
            .next()
            .map(|(_, waiting)| waiting.clone())
    }
}

/// The tables of peers, with memory for one more.
struct Places<'a> {
    tables: &'a mut Tables,
    number: u32,
    id: Option<RBTreeNodeReservation<PeerKey, u32>>,
    qp: Option<RBTreeNodeReservation<PeerKey, u32>>,
}

fn insert(
    table: &mut RBTree<PeerKey, u32>,
    place: Option<RBTreeNodeReservation<PeerKey, u32>>,
    key: PeerKey,
    number: u32,
) -> Option<u32> {
    match (table.entry(key), place) {
        (Entry::Occupied(there), _) => Some(*there.get()),
        (Entry::Vacant(free), Some(place)) => {
            free.insert(number, place);
            None
        }
        (Entry::Vacant(_), None) => None,
    }
}

/// Takes a peer out, if it is that of the identifier with this number.
fn remove(table: &mut RBTree<PeerKey, u32>, key: &PeerKey, number: u32) {
    let there = table.find_mut(key).filter(|there| *there.get() == number);
    there.map(OccupiedEntry::remove);
}

impl Remotes for Places<'_> {
    type Owner = u32;

    fn insert_id(&mut self, remote: &Remote) -> Option<u32> {
        insert(
            &mut self.tables.by_id,
            self.id.take(),
            remote.id_key(),
            self.number,
        )
    }

    fn insert_qp(&mut self, remote: &Remote) -> Option<u32> {
        insert(
            &mut self.tables.by_qp,
            self.qp.take(),
            remote.qp_key(),
            self.number,
        )
    }

    fn remove_id(&mut self, remote: &Remote) {
        self.tables.by_id.remove(&remote.id_key());
    }
}
