// SPDX-License-Identifier: GPL-2.0

//! Who is told of the events of an identifier: what its handlers know, its multicast groups, and events on their way.
//!
//! C header: `include/uapi/rdma/rdma_user_cm.h`.
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `GROUPS` | the multicast groups by number | process context | the allocator |
//! | `Recipient::home` | which file an identifier belongs to; it changes with `CONTEXTS` held, and while no handler runs | process context | nothing |
//! | `Recipient::groups` | the multicast groups of an identifier | process context | the allocator |

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use kernel::{
    list::ListArc,
    prelude::*,
    sync::{new_mutex, Arc, Mutex},
};
use kernel_ext::static_lock::static_lock;
use rdma_user_cm::{Response, SocketAddress};

use crate::{
    numbers::{Number, Numbered, Numbers},
    queue::{Item, Queue},
};

static_lock! {
    static GROUPS: Mutex<Option<Numbers<Group>>> = None;
}

/// A file with events of identifiers.
pub(crate) type Channel = Queue<Pending>;

/// The number of events that a program has read.
pub(crate) struct Reported(AtomicU32);

impl Reported {
    const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// The number.
    pub(crate) fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Who is told of the events of an identifier.
#[pin_data]
pub(crate) struct Recipient {
    number: u32,
    uid: AtomicU64,
    /// How many events of it were read.
    pub(crate) reported: Reported,
    /// How many more requests for connections may wait.
    backlog: AtomicU32,
    #[pin]
    home: Mutex<Arc<Channel>>,
    #[pin]
    groups: Mutex<KVec<Arc<Group>>>,
}

impl Recipient {
    /// The recipient of the identifier with a number, which a program calls `uid`. With 0 it is not told of events.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(number: u32, uid: u64, home: Arc<Channel>) -> Result<Arc<Self>> {
        let init = pin_init!(Self {
            number,
            uid: AtomicU64::new(uid),
            reported: Reported::new(),
            backlog: AtomicU32::new(0),
            home <- new_mutex!(home, "Recipient::home"),
            groups <- new_mutex!(KVec::new(), "Recipient::groups"),
        });
        Arc::pin_init(init, GFP_KERNEL)
    }

    /// The number of the identifier.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// What the program calls the identifier; `None` if it has not said that.
    pub(crate) fn uid(&self) -> Option<u64> {
        let uid = self.uid.load(Ordering::Relaxed);
        (uid != 0).then_some(uid)
    }

    /// Sets what the program calls the identifier.
    pub(crate) fn set_uid(&self, uid: u64) {
        self.uid.store(uid, Ordering::Relaxed);
    }

    /// The file that it belongs to.
    pub(crate) fn home(&self) -> Arc<Channel> {
        self.home.lock().clone()
    }

    /// Whether it belongs to a file.
    pub(crate) fn is_in(&self, channel: &Arc<Channel>) -> bool {
        Arc::ptr_eq(&self.home.lock(), channel)
    }

    /// Moves it to another file, whose events it has from now on. Returns the file that it belonged to.
    pub(crate) fn move_to(&self, channel: Arc<Channel>) -> Arc<Channel> {
        core::mem::replace(&mut *self.home.lock(), channel)
    }

    /// Lets so many requests wait.
    pub(crate) fn set_backlog(&self, backlog: u32) {
        self.backlog.store(backlog, Ordering::Relaxed);
    }

    /// Takes a place for a request that waits.
    pub(crate) fn take_backlog(&self) -> bool {
        let less = |backlog: u32| backlog.checked_sub(1);
        let order = Ordering::Relaxed;
        self.backlog.fetch_update(order, order, less).is_ok()
    }

    /// Gives the place back.
    pub(crate) fn give_backlog(&self) {
        self.backlog.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds a group, which events may be about from now on.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn add_group(&self, group: Arc<Group>) -> Result {
        Ok(self.groups.lock().push(group, GFP_KERNEL)?)
    }

    /// The group with a number.
    pub(crate) fn group(&self, number: u32) -> Option<Arc<Group>> {
        let groups = self.groups.lock();
        groups
            .iter()
            .find(|group| group.number() == number)
            .cloned()
    }

    /// Removes a group.
    pub(crate) fn remove_group(&self, group: &Arc<Group>) {
        self.groups
            .lock()
            .retain(|other| !Arc::ptr_eq(other, group));
    }

    /// Removes all groups.
    pub(crate) fn take_groups(&self) -> KVec<Arc<Group>> {
        core::mem::take(&mut *self.groups.lock())
    }
}

/// A multicast group that an identifier has joined.
pub(crate) struct Group {
    /// Its number.
    pub(crate) own: Number<Group>,
    /// The number of the identifier.
    pub(crate) member: u32,
    /// What the program calls it.
    pub(crate) uid: u64,
    /// Its address.
    pub(crate) address: SocketAddress,
    /// How many events of it were read.
    pub(crate) reported: Reported,
}

impl Group {
    /// The group with a number, which an identifier joins.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        own: Number<Group>,
        member: u32,
        uid: u64,
        address: SocketAddress,
    ) -> Result<Arc<Self>> {
        let group = Self {
            own,
            member,
            uid,
            address,
            reported: Reported::new(),
        };
        Ok(Arc::new(group, GFP_KERNEL)?)
    }

    /// Its number.
    pub(crate) fn number(&self) -> u32 {
        self.own.get()
    }
}

impl Numbered for Group {
    fn with<R>(f: impl FnOnce(&mut Numbers<Self>) -> R) -> Option<R> {
        GROUPS.lock().as_mut().map(f)
    }
}

/// The table of groups is there. Dropping this frees it.
pub(crate) struct Groups(());

impl Groups {
    /// Makes the table.
    pub(crate) fn new() -> Self {
        *GROUPS.lock() = Some(Numbers::new());
        Self(())
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        let table = GROUPS.lock().take();
        drop(table);
    }
}

/// What an event is about, besides its identifier.
pub(crate) enum About {
    /// The identifier itself.
    Id,
    /// A multicast group of it.
    Group(Arc<Group>),
    /// A request for a connection, with a new identifier.
    Request(Arc<Recipient>),
}

/// An event that the program has not read.
pub(crate) struct Pending {
    recipient: Arc<Recipient>,
    about: About,
    response: Response,
}

impl Pending {
    /// An event, which `tell` fills in; it tells the numbers of what it is about.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        recipient: Arc<Recipient>,
        about: About,
        tell: impl FnOnce(&mut Response),
    ) -> Result<ListArc<Item<Self>>> {
        let uid = recipient.uid().unwrap_or(0);
        let (id, uid) = match &about {
            About::Id => (recipient.number(), uid),
            About::Group(group) => (group.number(), group.uid),
            About::Request(new) => (new.number(), uid),
        };
        // In its place: it is large.
        let response = pin_init::init_zeroed::<Response>().chain(|response| {
            tell(response);
            response.set_recipient(id, uid);
            Ok(())
        });
        Item::new(init!(Self {
            recipient,
            about,
            response <- response,
        }))
    }

    /// Whether it is for a recipient.
    pub(crate) fn is_for(&self, recipient: &Arc<Recipient>) -> bool {
        Arc::ptr_eq(&self.recipient, recipient)
    }

    /// Whether it is about a group.
    pub(crate) fn is_about(&self, group: &Arc<Group>) -> bool {
        matches!(&self.about, About::Group(other) if Arc::ptr_eq(other, group))
    }

    /// The identifier that a request has come with.
    pub(crate) fn requested(&self) -> Option<&Arc<Recipient>> {
        match &self.about {
            About::Request(new) => Some(new),
            _ => None,
        }
    }

    /// What the program reads.
    pub(crate) fn response(&self) -> &Response {
        &self.response
    }

    /// The program has read it.
    pub(crate) fn count(&self) {
        self.recipient.reported.count();
        match &self.about {
            About::Id => {}
            About::Group(group) => group.reported.count(),
            About::Request(_) => self.recipient.give_backlog(),
        }
    }
}
