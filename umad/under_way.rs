// SPDX-License-Identifier: GPL-2.0

//! The messages of a file that have been sent and have not ended, by which a duplicate is recognised.
//!
//! Answers find their request by its transaction ID. So a second request with the ID of one that is under way is refused, and so is a
//! second answer to the same node.
//!
//! C header: `include/uapi/rdma/ib_user_mad.h`.
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `UnderWay::state` | the messages of a file that have not ended | process context | the allocator |

use core::mem::offset_of;

use kernel::{
    prelude::*,
    sync::{new_mutex, Mutex},
};
use kernel_ext::bindings::ib_mad_hdr;
use rdma::client::mad::{self, HEADER};

use crate::{bytes::part, header::Header};

/// What tells a message from others.
struct Entry {
    serial: u64,
    tid: [u8; 8],
    class: u8,
    is_response: bool,
    lid: u16,
    gid: Option<rdma::Gid>,
}

impl Entry {
    fn new(serial: u64, header: &Header, mad: &[u8; HEADER]) -> Self {
        let [class] = part(mad, offset_of!(ib_mad_hdr, mgmt_class));
        Self {
            serial,
            tid: part(mad, offset_of!(ib_mad_hdr, tid)),
            class,
            is_response: mad::is_response(mad),
            lid: header.lid(),
            gid: header.gid(),
        }
    }

    fn same_destination(&self, other: &Self) -> bool {
        match (self.gid, other.gid) {
            (None, None) => self.lid == other.lid,
            (one, two) => one == two,
        }
    }

    fn is_duplicate_of(&self, other: &Self) -> bool {
        self.tid == other.tid
            && self.class == other.class
            && self.is_response == other.is_response
            && (!self.is_response || self.same_destination(other))
    }
}

struct State {
    entries: KVVec<Entry>,
    next: u64,
}

/// The messages under way.
#[pin_data]
pub(crate) struct UnderWay {
    #[pin]
    state: Mutex<State>,
}

impl UnderWay {
    /// An initialiser without messages.
    pub(crate) fn new() -> impl PinInit<Self> {
        let state = State {
            entries: KVVec::new(),
            next: 0,
        };
        pin_init!(Self {
            state <- new_mutex!(state, "UnderWay::state"),
        })
    }

    /// Adds a message. Returns its serial number.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a duplicate, unless duplicates are allowed; `ENOMEM`.
    pub(crate) fn begin(
        &self,
        header: &Header,
        mad: &[u8; HEADER],
        allows_duplicates: bool,
    ) -> Result<u64> {
        let mut state = self.state.lock();
        let serial = state.next;
        let entry = Entry::new(serial, header, mad);
        let is_duplicate = |other: &Entry| entry.is_duplicate_of(other);
        if !allows_duplicates && state.entries.iter().any(is_duplicate) {
            return Err(EINVAL);
        }
        state.entries.push(entry, GFP_KERNEL)?;
        state.next = serial.wrapping_add(1);
        Ok(serial)
    }

    /// Removes a message that has ended.
    pub(crate) fn end(&self, serial: u64) {
        let mut state = self.state.lock();
        let at = state
            .entries
            .iter()
            .position(|entry| entry.serial == serial);
        if let Some(at) = at {
            // The index is that of an entry.
            let _ = state.entries.remove(at);
        }
    }
}
