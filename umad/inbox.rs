// SPDX-License-Identifier: GPL-2.0

//! What a file has for its reader: received MADs, and requests that have timed out.
//!
//! C header: `include/uapi/rdma/ib_user_mad.h`.
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `Inbox::state` | the packets of a file, the agents that may add some, and whether the device is there | process context | nothing |

use core::sync::atomic::{AtomicBool, Ordering};

use kernel::{
    error::code::ERESTARTSYS,
    fs::File,
    list::{impl_list_arc_safe, impl_list_item, List, ListArc, ListLinks},
    new_poll_condvar,
    prelude::*,
    sync::{
        new_mutex,
        poll::{PollCondVar, PollTable},
        Mutex,
    },
    uaccess::UserSliceWriter,
};
use kernel_ext::bindings;
use rdma::{
    client::mad::{
        self,
        trace::{self, At},
        Received, HEADER,
    },
    MaySleep,
};

use crate::{
    bytes::part,
    header::{Header, Layout},
    port::Port,
};

/// The largest number of packets that wait when one more is received.
const LIMIT: usize = 200_000;

/// What a packet is about.
pub(crate) enum Content {
    /// A MAD that was received.
    Received(Received),
    /// The header of a request that was sent, and is not answered.
    Unanswered([u8; HEADER]),
}

/// A packet for the reader.
#[pin_data]
pub(crate) struct Packet {
    header: Header,
    content: Content,
    #[pin]
    links: ListLinks,
}

impl_list_arc_safe! {
    impl ListArcSafe<0> for Packet { untracked; }
}
impl_list_item! {
    impl ListItem<0> for Packet { using ListLinks { self.links }; }
}

impl Packet {
    /// Makes a packet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(header: Header, content: Content) -> Result<ListArc<Self>> {
        let init = try_pin_init!(Self {
            header,
            content,
            links <- ListLinks::new(),
        }? Error);
        ListArc::pin_init(init, GFP_KERNEL)
    }

    /// Fires the tracepoint of a packet that was read.
    pub(crate) fn trace(&self, port: &Port) {
        let Some(device) = port.device() else {
            return;
        };
        let at = At {
            device: &device,
            port: port.number(),
        };
        let header = self.header.all();
        match &self.content {
            Content::Unanswered(mad) => trace::ib_umad_read_send(&at, header, mad),
            Content::Received(message) => {
                let first = message.segments().next().unwrap_or(&[]);
                trace::ib_umad_read_recv(&at, header, &part(first, 0));
            }
        }
    }

    /// Copies the packet to its reader, who has room for `room` bytes. Returns the number of bytes.
    ///
    /// # Errors
    ///
    /// `EFAULT`; `EINVAL` if not even the first segment has room; `ENOSPC` if that has, and the message has not. It is copied then: it
    /// tells the length of the message.
    pub(crate) fn copy(&self, to: &mut UserSliceWriter, layout: Layout) -> Result<usize> {
        let (header, room) = (self.header.bytes(layout), to.len());
        let content = match &self.content {
            Content::Received(message) => message.length(),
            Content::Unanswered(mad) => mad.len(),
        };
        let whole = header.len().saturating_add(content);
        match &self.content {
            Content::Unanswered(_) if room < whole => return Err(EINVAL),
            Content::Unanswered(mad) => {
                to.write_slice(header)?;
                to.write_slice(mad)?;
            }
            Content::Received(message) => {
                let first = content.min(message.segment_size());
                if room < header.len().saturating_add(first) {
                    return Err(EINVAL);
                }
                to.write_slice(header)?;
                copy_message(message, to, room >= whole)?;
            }
        }
        Ok(whole)
    }
}

/// Copies a message: the first segment whole, of the others the data. With `has_room` unset the first one alone.
fn copy_message(message: &Received, to: &mut UserSliceWriter, has_room: bool) -> Result {
    let mut left = message.length();
    let mut offset = 0;
    for segment in message.segments() {
        let data = segment.get(offset..).unwrap_or(&[]);
        let part = data.get(..left.min(data.len())).unwrap_or(data);
        to.write_slice(part)?;
        left = left.saturating_sub(part.len());
        if left == 0 {
            return Ok(());
        }
        if !has_room {
            return Err(ENOSPC);
        }
        if offset == 0 {
            offset = mad::data_offset(segment.get(1).copied().unwrap_or(0));
        }
    }
    Ok(())
}

struct State {
    /// The agents that may add packets, one bit each.
    agents: u32,
    /// Whether the device is gone, or the file: nothing is read any more.
    is_closed: bool,
    packets: List<Packet>,
    count: usize,
}

/// The packets of a file.
#[pin_data]
pub(crate) struct Inbox {
    #[pin]
    state: Mutex<State>,
    #[pin]
    readers: PollCondVar,
    has_pkey: AtomicBool,
}

impl Inbox {
    /// An initialiser without packets, in the old layout.
    pub(crate) fn new() -> impl PinInit<Self> {
        let state = State {
            agents: 0,
            is_closed: false,
            packets: List::new(),
            count: 0,
        };
        pin_init!(Self {
            state <- new_mutex!(state, "Inbox::state"),
            readers <- new_poll_condvar!("Inbox::readers"),
            has_pkey: AtomicBool::new(false),
        })
    }

    /// The layout of headers.
    pub(crate) fn layout(&self) -> Layout {
        match self.has_pkey.load(Ordering::Relaxed) {
            true => Layout::WithPkey,
            false => Layout::Old,
        }
    }

    /// Changes to the layout with the index of the P_Key.
    pub(crate) fn enable_pkey(&self) {
        self.has_pkey.store(true, Ordering::Relaxed);
    }

    /// Admits packets of the agent `id`.
    pub(crate) fn admit(&self, id: u32) {
        self.state.lock().agents |= bit(id);
    }

    /// Admits no more packets of the agent `id`. Those that wait stay.
    pub(crate) fn refuse(&self, id: u32) {
        self.state.lock().agents &= !bit(id);
    }

    /// Adds a packet of the agent `id`, and wakes readers. It is dropped if the agent is not admitted, or if it was received and too
    /// many wait.
    pub(crate) fn add(&self, id: u32, packet: ListArc<Packet>) {
        let mut state = self.state.lock();
        let is_received = matches!(packet.content, Content::Received(_));
        let is_full = is_received && state.count > LIMIT;
        if state.is_closed || state.agents & bit(id) == 0 || is_full {
            drop(state);
            return;
        }
        state.packets.push_back(packet);
        state.count = state.count.saturating_add(1);
        drop(state);
        self.readers.notify_all();
    }

    /// Takes the oldest packet. With `waits` set, sleeps until there is one.
    ///
    /// # Errors
    ///
    /// `EIO` if the device is gone, `EAGAIN` if there is none, `ERESTARTSYS` for a signal.
    pub(crate) fn take(&self, waits: bool, _sleep: &MaySleep) -> Result<ListArc<Packet>> {
        let mut state = self.state.lock();
        let mut is_interrupted = false;
        loop {
            if state.is_closed {
                return Err(EIO);
            }
            if let Some(packet) = state.packets.pop_front() {
                state.count = state.count.saturating_sub(1);
                return Ok(packet);
            }
            if !waits {
                return Err(EAGAIN);
            }
            if is_interrupted {
                return Err(ERESTARTSYS);
            }
            is_interrupted = self.readers.wait_interruptible(&mut state);
        }
    }

    /// Puts a packet back to the front, since its reader could not have it.
    pub(crate) fn put_back(&self, packet: ListArc<Packet>) {
        let mut state = self.state.lock();
        state.packets.push_front(packet);
        state.count = state.count.saturating_add(1);
        drop(state);
        self.readers.notify_all();
    }

    /// The mask of `poll`: always writable, readable if a packet waits; an error if the device is gone.
    pub(crate) fn poll(&self, file: &File, table: PollTable<'_>) -> u32 {
        table.register_wait(file, &self.readers);
        let state = self.state.lock();
        if state.is_closed {
            return bindings::POLLERR;
        }
        let readable = match state.packets.is_empty() {
            true => 0,
            false => bindings::POLLIN | bindings::POLLRDNORM,
        };
        readable | bindings::POLLOUT | bindings::POLLWRNORM
    }

    /// Ends reading: readers that wait get `EIO`.
    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.readers.notify_all();
    }
}

/// The bit of an agent.
fn bit(id: u32) -> u32 {
    1u32.checked_shl(id).unwrap_or(0)
}
