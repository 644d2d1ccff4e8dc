// SPDX-License-Identifier: GPL-2.0

//! Messages of a port that wait until the address of their sender is found, which takes up to a second.
//!
//! Some senders are looked for beside each other. Of one sender the messages come one after the other, in order.
//!
//! C header: `include/rdma/ib_cm.h`.

use ib_cm_protocol::messages::Attribute;
use kernel::prelude::*;
use rdma::client::mad::Origin;

/// Messages of a port that may wait: as many as the receive queue of its MADs has by default. Further ones are dropped: peers repeat them.
const MAX_REQUESTS: usize = 512;

/// Senders that are looked for at the same time.
const MAX_SEARCHES: usize = 32;

/// What tells messages apart that wait: one that its sender repeats has the same.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    // In the order in which they are compared: of one sender many may wait.
    pub(crate) transaction: u64,
    /// The sender's number of the connection.
    pub(crate) comm_id: u32,
    pub(crate) attribute: Attribute,
    pub(crate) origin: Origin,
}

/// A search, and the message whose sender it looks for.
struct Place<S, M> {
    search: S,
    mark: Mark,
    /// The message, until the search begins.
    message: Option<M>,
    is_found: bool,
}

/// What becomes of a message that arrives.
pub(crate) enum Arrival<S, M> {
    /// This search begins for it.
    Begins(S),
    /// It waits.
    Waits,
    /// The same one waits already.
    Repeated(M),
    /// There is no room for it.
    Refused(M),
}

/// The messages, an `M` each, oldest first, and who looks for their senders, an `S` each.
pub(crate) struct Requests<S, M> {
    waiting: KVec<(Mark, M)>,
    searches: KVec<Place<S, M>>,
    /// The port has gone.
    is_closed: bool,
}

impl<S, M> Requests<S, M> {
    /// None, with room for all searches.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            waiting: KVec::new(),
            searches: KVec::with_capacity(MAX_SEARCHES, GFP_KERNEL)?,
            is_closed: false,
        })
    }

    /// Takes a message of a sender whose address is to be found: a search begins for it if it may and if `make` can, else the message
    /// waits for those that there are.
    pub(crate) fn arrive(
        &mut self,
        mark: Mark,
        message: M,
        make: impl FnOnce() -> Option<S>,
    ) -> Arrival<S, M>
    where
        S: Clone,
    {
        if self.has(&mark) {
            return Arrival::Repeated(message);
        }
        if self.is_full() {
            return Arrival::Refused(message);
        }
        let made = self.may_search(&mark.origin).then(make).flatten();
        let refused = match &made {
            Some(search) => self.search(search.clone(), mark, message),
            None => self.put(mark, message),
        };
        match (refused, made) {
            (Some(message), _) => Arrival::Refused(message),
            (None, Some(search)) => Arrival::Begins(search),
            (None, None) => Arrival::Waits,
        }
    }

    /// Whether a message waits.
    fn has(&self, mark: &Mark) -> bool {
        let is_sought = |place: &Place<S, M>| !place.is_found && place.mark == *mark;
        self.waiting.iter().any(|(other, _)| other == mark) || self.searches.iter().any(is_sought)
    }

    /// Whether messages of a sender wait, or one of them is being taken.
    pub(crate) fn has_any_of(&self, origin: &Origin) -> bool {
        let waits = self.waiting.iter().any(|(mark, _)| mark.origin == *origin);
        waits || self.is_sought(origin)
    }

    fn is_sought(&self, origin: &Origin) -> bool {
        let mut searches = self.searches.iter();
        searches.any(|place| place.mark.origin == *origin)
    }

    /// Whether no further message has room.
    fn is_full(&self) -> bool {
        let count = self.waiting.len().saturating_add(self.searches.len());
        self.is_closed || count >= MAX_REQUESTS
    }

    /// Whether a search may begin for a message of this sender.
    fn may_search(&self, origin: &Origin) -> bool {
        self.searches.len() < MAX_SEARCHES && !self.is_sought(origin)
    }

    /// Begins a search, if it may; gives back what has no room.
    fn search(&mut self, search: S, mark: Mark, message: M) -> Option<M> {
        let place = Place {
            search,
            mark,
            message: Some(message),
            is_found: false,
        };
        let refused = self.searches.push_within_capacity(place).err();
        refused.and_then(|error| error.0.message)
    }

    /// Lets a message wait for the searches; gives back what has no room, or no search that will take it.
    fn put(&mut self, mark: Mark, message: M) -> Option<M> {
        if self.searches.is_empty() || self.waiting.reserve(1, GFP_KERNEL).is_err() {
            return Some(message);
        }
        let refused = self.waiting.push_within_capacity((mark, message)).err();
        refused.map(|error| error.0 .1)
    }

    /// The next message for the search that `is_it` tells: its first one, then the oldest of a sender that no other search looks for.
    /// Without one the search ends.
    pub(crate) fn next(&mut self, is_it: impl Fn(&S) -> bool) -> Option<M> {
        let at = self
            .searches
            .iter()
            .position(|place| is_it(&place.search))?;
        if let Some(first) = self.searches.get_mut(at)?.message.take() {
            return Some(first);
        }
        let ended = self.searches.remove(at).ok()?;
        let free = |(mark, _): &(Mark, M)| !self.is_sought(&mark.origin);
        let found = self.waiting.iter().position(free)?;
        let (mark, message) = self.waiting.remove(found).ok()?;
        let place = Place {
            mark,
            is_found: false,
            ..ended
        };
        // It has just had this place.
        let _ = self.searches.push_within_capacity(place);
        Some(message)
    }

    /// The sender of the message that a search has taken is found, or is not there.
    pub(crate) fn end_search(&mut self, is_it: impl Fn(&S) -> bool) {
        let mut searches = self.searches.iter_mut();
        if let Some(place) = searches.find(|place| is_it(&place.search)) {
            place.is_found = true;
        }
    }

    /// No message waits from now on. The result has those that did, and the searches that have not ended.
    pub(crate) fn close(&mut self) -> (KVec<(Mark, M)>, impl Iterator<Item = S>) {
        self.is_closed = true;
        let waiting = core::mem::replace(&mut self.waiting, KVec::new());
        let searches = core::mem::replace(&mut self.searches, KVec::new());
        let searches = searches.into_iter().map(|place| place.search);
        (waiting, searches)
    }
}

#[kernel::prelude::kunit_tests(ib_cm_requests)]
mod tests {
    use super::*;

    fn mark(sender: u32, number: u32) -> Mark {
        Mark {
            origin: Origin {
                gid: None,
                lid: sender,
            },
            attribute: Attribute::Req,
            transaction: 7,
            comm_id: number,
        }
    }

    /// The message `number` of a sender arrives. `true` if a search begins.
    fn arrive(requests: &mut Requests<u32, u32>, sender: u32, number: u32) -> bool {
        let arrival = requests.arrive(mark(sender, number), number, || Some(sender));
        matches!(arrival, Arrival::Begins(_))
    }

    #[test]
    fn messages_of_a_sender_come_in_order() -> Result {
        let mut requests = Requests::new()?;
        assert!(arrive(&mut requests, 1, 10));
        assert!(!arrive(&mut requests, 1, 11));
        assert!(arrive(&mut requests, 2, 20));
        assert!(!arrive(&mut requests, 1, 12));
        assert_eq!(requests.next(|&search| search == 1), Some(10));
        assert_eq!(requests.next(|&search| search == 2), Some(20));
        // The messages that wait are of a sender that another one looks for.
        assert_eq!(requests.next(|&search| search == 2), None);
        assert!(requests.has_any_of(&mark(1, 0).origin));
        assert!(!requests.has_any_of(&mark(2, 0).origin));
        assert_eq!(requests.next(|&search| search == 1), Some(11));
        assert_eq!(requests.next(|&search| search == 1), Some(12));
        assert_eq!(requests.next(|&search| search == 1), None);
        assert!(!requests.has_any_of(&mark(1, 0).origin));
        Ok(())
    }

    #[test]
    fn a_message_that_is_repeated_waits_once() -> Result {
        let mut requests = Requests::new()?;
        arrive(&mut requests, 1, 10);
        arrive(&mut requests, 1, 11);
        assert!(requests.has(&mark(1, 10)));
        assert!(requests.has(&mark(1, 11)));
        assert!(!requests.has(&mark(2, 10)));
        assert_eq!(requests.next(|&search| search == 1), Some(10));
        assert!(requests.has(&mark(1, 10)));
        // Its sender is found: it is answered, and the same message is a new one.
        requests.end_search(|&search| search == 1);
        assert!(!requests.has(&mark(1, 10)));
        assert!(requests.has(&mark(1, 11)));
        assert_eq!(requests.next(|&search| search == 1), Some(11));
        assert!(requests.has(&mark(1, 11)));
        Ok(())
    }

    #[test]
    fn there_are_bounds() -> Result {
        let mut requests = Requests::new()?;
        let senders = 0..MAX_REQUESTS as u32;
        let searches = senders.filter(|&sender| arrive(&mut requests, sender, sender));
        assert_eq!(searches.count(), MAX_SEARCHES);
        assert!(requests.is_full());
        assert!(!arrive(&mut requests, u32::MAX, 0));
        assert!(!requests.has_any_of(&mark(u32::MAX, 0).origin));
        // One that ends makes room.
        assert_eq!(requests.next(|&search| search == 0), Some(0));
        assert_eq!(
            requests.next(|&search| search == 0),
            Some(MAX_SEARCHES as u32)
        );
        assert!(!requests.is_full());
        Ok(())
    }

    #[test]
    fn nothing_waits_after_the_end() -> Result {
        let mut requests = Requests::new()?;
        arrive(&mut requests, 1, 10);
        arrive(&mut requests, 1, 11);
        let (waiting, searches) = requests.close();
        assert_eq!(waiting.len(), 1);
        assert_eq!(searches.count(), 1);
        assert!(requests.is_full());
        assert_eq!(requests.next(|&search| search == 1), None);
        Ok(())
    }
}
