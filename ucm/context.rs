// SPDX-License-Identifier: GPL-2.0

//! The identifiers of programs by number, and their end.
//!
//! C header: `include/uapi/rdma/rdma_user_cm.h`.
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `CONTEXTS` | the identifiers by number | process context | `Recipient::home`, the allocator |

use kernel::{list::List, prelude::*, sync::Arc};
use kernel_ext::static_lock::static_lock;
use rdma::MaySleep;
use rdma_user_cm::{Entered, Id};

use crate::{
    numbers::{Number, Numbered, Numbers},
    queue::Item,
    recipient::{Channel, Group, Pending, Recipient},
};

static_lock! {
    static CONTEXTS: Mutex<Option<Numbers<Context>>> = None;
}

/// An identifier of a program.
pub(crate) struct Context {
    id: Id<Recipient>,
    recipient: Arc<Recipient>,
    _number: Number<Context>,
}

impl Numbered for Context {
    fn with<R>(f: impl FnOnce(&mut Numbers<Self>) -> R) -> Option<R> {
        CONTEXTS.lock().as_mut().map(f)
    }
}

/// The table of identifiers is there. Dropping this frees it.
pub(crate) struct Contexts(());

impl Contexts {
    /// Makes the table.
    pub(crate) fn new() -> Self {
        *CONTEXTS.lock() = Some(Numbers::new());
        Self(())
    }
}

impl Drop for Contexts {
    fn drop(&mut self) {
        let table = CONTEXTS.lock().take();
        drop(table);
    }
}

impl Context {
    /// The identifier of a recipient.
    ///
    /// # Errors
    ///
    /// `ENOMEM`: a work item destroys the identifier.
    pub(crate) fn new(
        id: Id<Recipient>,
        recipient: Arc<Recipient>,
        number: Number<Context>,
    ) -> Result<Arc<Self>> {
        let context = Self {
            id,
            recipient,
            _number: number,
        };
        Ok(Arc::new(context, GFP_KERNEL)?)
    }

    /// Who is told of its events.
    pub(crate) fn recipient(&self) -> &Arc<Recipient> {
        &self.recipient
    }

    /// Uses the identifier.
    ///
    /// # Errors
    ///
    /// `ENXIO` if it is destroyed, since its device is gone.
    pub(crate) fn enter(&self) -> Result<Entered<'_>> {
        self.id.enter().ok_or(ENXIO)
    }

    /// Its device goes: a work item destroys what the connection manager has of it. Its number stays until the program destroys it.
    pub(crate) fn close_later(&self) {
        self.id.close_later();
    }

    /// Destroys an identifier that is not published, and so has no events.
    pub(crate) fn discard(&self, sleep: &MaySleep) {
        self.id.close(sleep);
    }

    /// Moves the identifier from a file to another, unless somebody is destroying it.
    ///
    /// # Errors
    ///
    /// `ENOENT` if it is not there any more.
    pub(crate) fn move_to(&self, from: &Arc<Channel>, to: &Arc<Channel>) -> Result {
        let is_there =
            |context: &&Arc<Self>| core::ptr::eq(&***context, self) && self.recipient.is_in(from);
        let left = Self::with(|table| {
            table
                .get(self.recipient.number())
                .filter(is_there)
                .ok_or(ENOENT)?;
            Ok(self.recipient.move_to(to.clone()))
        });
        left.ok_or(ENOENT)?.map(drop)
    }
}

/// The identifier with a number in a file.
///
/// # Errors
///
/// `ENOENT` if there is none, `EINVAL` if it belongs to another file.
pub(crate) fn find(channel: &Arc<Channel>, number: u32) -> Result<Arc<Context>> {
    let found = Context::with(|table| lookup(table, channel, number).cloned());
    found.ok_or(ENOENT)?
}

fn lookup<'a>(
    table: &'a Numbers<Context>,
    channel: &Arc<Channel>,
    number: u32,
) -> Result<&'a Arc<Context>> {
    let context = table.get(number).ok_or(ENOENT)?;
    match context.recipient.is_in(channel) {
        true => Ok(context),
        false => Err(EINVAL),
    }
}

/// The identifier of a recipient, unless somebody is destroying it.
pub(crate) fn of(recipient: &Arc<Recipient>) -> Option<Arc<Context>> {
    let its = |context: &&Arc<Context>| Arc::ptr_eq(&context.recipient, recipient);
    Context::with(|table| table.get(recipient.number()).filter(its).cloned())?
}

/// As [`find`], and takes it out: it is found no more.
///
/// # Errors
///
/// Those of [`find`].
pub(crate) fn take(channel: &Arc<Channel>, number: u32) -> Result<Arc<Context>> {
    let taken = Context::with(|table| {
        lookup(table, channel, number)?;
        table.take(number).ok_or(ENOENT)
    });
    taken.ok_or(ENOENT)?
}

/// Takes the identifier of a recipient out, unless somebody has done that.
fn take_of(recipient: &Arc<Recipient>) -> Option<Arc<Context>> {
    let its = |context: &&Arc<Context>| Arc::ptr_eq(&context.recipient, recipient);
    Context::with(|table| {
        table.get(recipient.number()).filter(its)?;
        table.take(recipient.number())
    })?
}

/// Destroys an identifier that was taken out, and those of requests that nobody has read. Returns how many of its events were read.
pub(crate) fn destroy(context: Arc<Context>, sleep: &MaySleep) -> u32 {
    let (mut events, reported) = end(&context, sleep);
    drop(context);
    while let Some(event) = events.pop_front() {
        if let Some(context) = event.event().requested().and_then(take_of) {
            let (mut more, _) = end(&context, sleep);
            events.push_all_back(&mut more);
        }
    }
    reported
}

/// Destroys an identifier with its groups. Returns the events that nobody has read.
fn end(context: &Context, sleep: &MaySleep) -> (List<Item<Pending>>, u32) {
    let recipient = &context.recipient;
    // No handler runs after this.
    context.id.close(sleep);
    let is_its = |event: &Pending| event.is_for(recipient);
    let read = || recipient.reported.get();
    let (left, reported) = recipient.home().dismiss(recipient.number(), is_its, read);
    for group in recipient.take_groups() {
        let published = Group::with(|table| table.take(group.number()));
        drop(published);
    }
    (left.events, reported)
}
