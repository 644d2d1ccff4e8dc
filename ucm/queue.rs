// SPDX-License-Identifier: GPL-2.0

//! An open file: the events that its reader has not taken, and the numbers of its identifiers.
//!
//! C header: `include/uapi/rdma/rdma_user_cm.h`.
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `Queue::state` | the events and the identifiers of a file; held while an event is copied to its reader | process context | `CONTEXTS`, faults of the reader's memory |

use kernel::{
    error::code::ERESTARTSYS,
    fs::File,
    list::{impl_list_arc_safe, impl_list_item, List, ListArc, ListLinks},
    new_poll_condvar,
    prelude::*,
    rbtree::{RBTree, RBTreeNode},
    sync::{
        new_mutex,
        poll::{PollCondVar, PollTable},
        Mutex,
    },
};
use kernel_ext::bindings::{POLLIN, POLLRDNORM};
use rdma::MaySleep;

/// An event in a list.
#[pin_data]
pub(crate) struct Item<E> {
    event: E,
    #[pin]
    links: ListLinks,
}

impl_list_arc_safe! {
    impl{E} ListArcSafe<0> for Item<E> { untracked; }
}
impl_list_item! {
    impl{E} ListItem<0> for Item<E> { using ListLinks { self.links }; }
}

impl<E> Item<E> {
    /// Makes an event ready to be added.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(event: impl Init<E>) -> Result<ListArc<Self>> {
        let init = try_pin_init!(Self {
            event <- event,
            links <- ListLinks::new(),
        }? Error);
        ListArc::pin_init(init, GFP_KERNEL)
    }

    /// The event.
    pub(crate) fn event(&self) -> &E {
        &self.event
    }
}

/// An identifier that belongs to a file, or is on its way to another.
pub(crate) struct Member(RBTreeNode<u32, ()>);

impl Member {
    /// The identifier with a number.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(number: u32) -> Result<Self> {
        Ok(Self(RBTreeNode::new(number, (), GFP_KERNEL)?))
    }
}

/// What an identifier takes along when it leaves a file.
pub(crate) struct Belongings<E> {
    member: Option<Member>,
    /// Its events.
    pub(crate) events: List<Item<E>>,
}

struct State<E> {
    events: List<Item<E>>,
    members: RBTree<u32, ()>,
}

/// The events and identifiers of a file.
#[pin_data]
pub(crate) struct Queue<E> {
    #[pin]
    state: Mutex<State<E>>,
    #[pin]
    readers: PollCondVar,
}

impl<E> Queue<E> {
    /// An initialiser without events and identifiers.
    pub(crate) fn new() -> impl PinInit<Self> {
        let state = State {
            events: List::new(),
            members: RBTree::new(),
        };
        pin_init!(Self {
            state <- new_mutex!(state, "Queue::state"),
            readers <- new_poll_condvar!("Queue::readers"),
        })
    }

    /// Adds an event, and wakes readers.
    pub(crate) fn add(&self, event: ListArc<Item<E>>) {
        self.state.lock().events.push_back(event);
        self.readers.notify_all();
    }

    /// Adds a new identifier, and an event that tells it if there is one. `publish` makes it known to programs.
    pub(crate) fn admit(
        &self,
        member: Member,
        event: Option<ListArc<Item<E>>>,
        publish: impl FnOnce(),
    ) {
        let mut state = self.state.lock();
        state.members.insert(member.0);
        publish();
        let Some(event) = event else { return };
        state.events.push_back(event);
        drop(state);
        self.readers.notify_all();
    }

    /// An identifier leaves with its events. `then` runs before others come or go.
    pub(crate) fn dismiss<R>(
        &self,
        number: u32,
        is_its: impl Fn(&E) -> bool,
        then: impl FnOnce() -> R,
    ) -> (Belongings<E>, R) {
        let mut state = self.state.lock();
        let member = state.members.remove_node(&number).map(Member);
        let events = extract(&mut state.events, is_its);
        (Belongings { member, events }, then())
    }

    /// An identifier comes from another file.
    pub(crate) fn welcome(&self, mut belongings: Belongings<E>) {
        let mut state = self.state.lock();
        if let Some(member) = belongings.member {
            state.members.insert(member.0);
        }
        state.events.push_all_back(&mut belongings.events);
        drop(state);
        self.readers.notify_all();
    }

    /// Takes events out.
    pub(crate) fn extract(&self, is_one: impl Fn(&E) -> bool) -> List<Item<E>> {
        extract(&mut self.state.lock().events, is_one)
    }

    /// The identifier with the lowest number.
    pub(crate) fn first_member(&self) -> Option<u32> {
        self.state.lock().members.keys().next().copied()
    }

    /// Hands the oldest event to its reader: it stays if that fails. With `waits` set, sleeps until there is one.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if there is none, `ERESTARTSYS` for a signal, and those of `hand_over`.
    pub(crate) fn take(
        &self,
        waits: bool,
        hand_over: impl FnOnce(&E) -> Result,
        _sleep: &MaySleep,
    ) -> Result {
        let mut state = self.state.lock();
        let mut is_interrupted = false;
        while state.events.is_empty() {
            if !waits {
                return Err(EAGAIN);
            }
            if is_interrupted {
                return Err(ERESTARTSYS);
            }
            is_interrupted = self.readers.wait_interruptible(&mut state);
        }
        if let Some(item) = state.events.iter().next() {
            hand_over(item.event())?;
        }
        let taken = state.events.pop_front();
        // It is dropped without the lock.
        drop(state);
        drop(taken);
        Ok(())
    }

    /// The mask of `poll`: readable if there is an event.
    pub(crate) fn poll(&self, file: &File, table: PollTable<'_>) -> u32 {
        table.register_wait(file, &self.readers);
        match self.state.lock().events.is_empty() {
            true => 0,
            false => POLLIN | POLLRDNORM,
        }
    }
}

fn extract<E>(events: &mut List<Item<E>>, is_one: impl Fn(&E) -> bool) -> List<Item<E>> {
    let mut extracted = List::new();
    let mut cursor = events.cursor_front();
    while let Some(next) = cursor.peek_next() {
        if is_one(next.event()) {
            extracted.push_back(next.remove());
        } else {
            cursor.move_next();
        }
    }
    extracted
}
