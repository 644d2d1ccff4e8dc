// SPDX-License-Identifier: GPL-2.0

//! Messages of a port that wait until the address of their sender is found, which takes up to a second.
//!
//! Some senders are looked for beside each other. Of one sender the messages come one after the other, in order. A sender whose address
//! was found lately takes no time: it has room and searches of its own, so that it waits behind no sender that is silent.
//!
//! C header: `include/rdma/ib_cm.h`.

use ib_cm_protocol::messages::Attribute;
use kernel::prelude::*;
use rdma::client::mad::Origin;

/// Messages of a port that may wait, of known senders and of others: as many as the receive queue of its MADs has by default. Further
/// ones are dropped: peers repeat them.
const MAX_REQUESTS: usize = 512;

/// Senders that are looked for at the same time: known ones, and others.
const MAX_SEARCHES: usize = 32;

/// Senders that are known.
const MAX_KNOWN: usize = 64;

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

/// The senders whose addresses were found lately, the newest one last.
struct Known(KVec<Origin>);

impl Known {
    /// None, with room for all.
    fn new() -> Result<Self> {
        Ok(Self(KVec::with_capacity(MAX_KNOWN, GFP_KERNEL)?))
    }

    fn has(&self, origin: &Origin) -> bool {
        self.0.iter().rev().any(|known| known == origin)
    }

    /// A sender is found. `false` if it is known already.
    fn note(&mut self, origin: Origin) -> bool {
        if self.0.last() == Some(&origin) {
            return false;
        }
        let is_new = !self.forget(&origin);
        if self.0.len() >= MAX_KNOWN {
            let _ = self.0.remove(0);
        }
        // There is room for it.
        let _ = self.0.push_within_capacity(origin);
        is_new
    }

    /// A sender is not there. `false` if it was not known.
    fn forget(&mut self, origin: &Origin) -> bool {
        let mut known = self.0.iter();
        let at = known.position(|known| known == origin);
        at.is_some_and(|at| self.0.remove(at).is_ok())
    }
}

/// A message that waits.
pub(crate) struct Waiting<M> {
    mark: Mark,
    message: M,
    is_known: bool,
}

/// A search, and the message whose sender it looks for.
struct Place<S, M> {
    search: S,
    mark: Mark,
    is_known: bool,
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
    known: Known,
    waiting: KVec<Waiting<M>>,
    searches: KVec<Place<S, M>>,
    /// The port has gone.
    is_closed: bool,
}

impl<S, M> Requests<S, M> {
    /// None, with room for all searches.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            known: Known::new()?,
            waiting: KVec::new(),
            searches: KVec::with_capacity(2 * MAX_SEARCHES, GFP_KERNEL)?,
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
        let is_known = self.known.has(&mark.origin);
        if self.is_full(is_known) {
            return Arrival::Refused(message);
        }
        let may_search = self.has_search(is_known) && !self.is_sought(&mark.origin);
        let made = may_search.then(make).flatten();
        let waiting = Waiting {
            mark,
            message,
            is_known,
        };
        let refused = match &made {
            Some(search) => self.search(search.clone(), waiting),
            None => self.put(waiting),
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
        self.waiting.iter().any(|other| other.mark == *mark) || self.searches.iter().any(is_sought)
    }

    /// Whether messages of a sender wait, or one of them is being taken.
    pub(crate) fn has_any_of(&self, origin: &Origin) -> bool {
        let waits = self
            .waiting
            .iter()
            .any(|other| other.mark.origin == *origin);
        waits || self.is_sought(origin)
    }

    fn is_sought(&self, origin: &Origin) -> bool {
        let mut searches = self.searches.iter();
        searches.any(|place| place.mark.origin == *origin)
    }

    /// Whether no further message of a known sender, or of another one, has room.
    fn is_full(&self, is_known: bool) -> bool {
        let waiting = self.waiting.iter();
        let waiting = waiting.filter(|other| other.is_known == is_known).count();
        self.is_closed || waiting.saturating_add(self.searches_for(is_known)) >= MAX_REQUESTS
    }

    /// How many known senders, or others, are looked for.
    fn searches_for(&self, is_known: bool) -> usize {
        let searches = self.searches.iter();
        searches.filter(|place| place.is_known == is_known).count()
    }

    /// Whether one more may be looked for.
    fn has_search(&self, is_known: bool) -> bool {
        self.searches_for(is_known) < MAX_SEARCHES
    }

    /// Begins a search, if it may; gives back what has no room.
    fn search(&mut self, search: S, waiting: Waiting<M>) -> Option<M> {
        let place = Place {
            search,
            mark: waiting.mark,
            is_known: waiting.is_known,
            message: Some(waiting.message),
            is_found: false,
        };
        let refused = self.searches.push_within_capacity(place).err();
        refused.and_then(|error| error.0.message)
    }

    /// Lets a message wait for the searches; gives back what has no room, or no search that will take it.
    fn put(&mut self, waiting: Waiting<M>) -> Option<M> {
        if self.searches.is_empty() || self.waiting.reserve(1, GFP_KERNEL).is_err() {
            return Some(waiting.message);
        }
        let refused = self.waiting.push_within_capacity(waiting).err();
        refused.map(|error| error.0.message)
    }

    /// The next message for the search that `is_it` tells: its first one, then the oldest of a known sender that no other search looks
    /// for, then the oldest of another one, if there are not as many searches for these. Without one the search ends.
    pub(crate) fn next(&mut self, is_it: impl Fn(&S) -> bool) -> Option<M> {
        let at = self
            .searches
            .iter()
            .position(|place| is_it(&place.search))?;
        if let Some(first) = self.searches.get_mut(at)?.message.take() {
            return Some(first);
        }
        let ended = self.searches.remove(at).ok()?;
        let found = self.oldest(true).or_else(|| self.oldest(false))?;
        let next = self.waiting.remove(found).ok()?;
        let place = Place {
            mark: next.mark,
            is_known: next.is_known,
            is_found: false,
            ..ended
        };
        // It has just had this place.
        let _ = self.searches.push_within_capacity(place);
        Some(next.message)
    }

    /// Which of the messages is the oldest of a known sender, or another one, that may be looked for.
    fn oldest(&self, is_known: bool) -> Option<usize> {
        if !self.has_search(is_known) {
            return None;
        }
        let is_free =
            |other: &Waiting<M>| other.is_known == is_known && !self.is_sought(&other.mark.origin);
        self.waiting.iter().position(is_free)
    }

    /// The sender of the message that a search has taken is found, or is not there.
    pub(crate) fn end_search(&mut self, is_it: impl Fn(&S) -> bool, is_there: bool) {
        let mut searches = self.searches.iter_mut();
        let Some(place) = searches.find(|place| is_it(&place.search)) else {
            return;
        };
        place.is_found = true;
        let origin = place.mark.origin;
        self.know(origin, is_there);
    }

    /// The address of a sender is known from now on, or it is not there.
    pub(crate) fn know(&mut self, origin: Origin, is_there: bool) {
        let has_changed = match is_there {
            true => self.known.note(origin),
            false => self.known.forget(&origin),
        };
        if has_changed {
            let waiting = self.waiting.iter_mut();
            let of_it = waiting.filter(|other| other.mark.origin == origin);
            of_it.for_each(|other| other.is_known = is_there);
        }
    }

    /// No message waits from now on. The result has those that did, and the searches that have not ended.
    pub(crate) fn close(&mut self) -> (KVec<Waiting<M>>, impl Iterator<Item = S>) {
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
        requests.end_search(|&search| search == 1, true);
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
        assert!(requests.is_full(false));
        assert!(!arrive(&mut requests, u32::MAX, 0));
        assert!(!requests.has_any_of(&mark(u32::MAX, 0).origin));
        // One that ends makes room.
        assert_eq!(requests.next(|&search| search == 0), Some(0));
        assert_eq!(
            requests.next(|&search| search == 0),
            Some(MAX_SEARCHES as u32)
        );
        assert!(!requests.is_full(false));
        Ok(())
    }

    /// The search of a sender ends.
    fn end(requests: &mut Requests<u32, u32>, sender: u32, is_there: bool) {
        requests.end_search(|&search| search == sender, is_there);
    }

    #[test]
    fn who_is_known_waits_behind_nobody_who_is_silent() -> Result {
        let mut requests = Requests::new()?;
        arrive(&mut requests, 1, 10);
        assert_eq!(requests.next(|&search| search == 1), Some(10));
        end(&mut requests, 1, true);
        assert_eq!(requests.next(|&search| search == 1), None);
        requests.know(mark(2, 0).origin, true);
        for silent in 100..100 + MAX_REQUESTS as u32 {
            arrive(&mut requests, silent, silent);
        }
        assert!(requests.is_full(false) && !requests.is_full(true));
        // Each has a search at once, and its own messages come in order.
        assert!(arrive(&mut requests, 1, 11));
        assert!(!arrive(&mut requests, 1, 12));
        assert!(arrive(&mut requests, 2, 20));
        assert_eq!(requests.next(|&search| search == 1), Some(11));
        assert_eq!(requests.next(|&search| search == 2), Some(20));
        // Who is not there any more waits like others. As many are looked for as may be.
        end(&mut requests, 1, false);
        assert_eq!(requests.next(|&search| search == 1), None);
        end(&mut requests, 100, false);
        assert_eq!(requests.next(|&search| search == 100), Some(100));
        let next = requests.next(|&search| search == 100);
        assert_eq!(next, Some(100 + MAX_SEARCHES as u32));
        Ok(())
    }

    #[test]
    fn who_is_found_is_known_while_its_messages_wait() -> Result {
        let mut requests = Requests::new()?;
        for sender in 0..MAX_SEARCHES as u32 {
            arrive(&mut requests, sender, sender);
        }
        arrive(&mut requests, 50, 50);
        arrive(&mut requests, 0, 1000);
        assert_eq!(requests.next(|&search| search == 0), Some(0));
        end(&mut requests, 0, true);
        // Its own message is later, but takes no time.
        assert_eq!(requests.next(|&search| search == 0), Some(1000));
        end(&mut requests, 0, true);
        assert_eq!(requests.next(|&search| search == 0), Some(50));
        Ok(())
    }

    #[test]
    fn the_oldest_that_is_known_is_forgotten() -> Result {
        let mut known = Known::new()?;
        let origin = |sender| mark(sender, 0).origin;
        for sender in 0..MAX_KNOWN as u32 {
            assert!(known.note(origin(sender)));
        }
        assert!(!known.note(origin(0)));
        assert!(known.note(origin(1000)));
        assert!(known.has(&origin(0)) && known.has(&origin(1000)) && !known.has(&origin(1)));
        assert!(known.forget(&origin(0)) && !known.forget(&origin(0)));
        assert!(!known.has(&origin(0)));
        assert!(known.0.len() < MAX_KNOWN);
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
        assert!(requests.is_full(false) && requests.is_full(true));
        assert_eq!(requests.next(|&search| search == 1), None);
        Ok(())
    }
}
