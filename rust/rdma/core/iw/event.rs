// SPDX-License-Identifier: GPL-2.0

//! Events of iWARP connections: `struct iw_cm_event`.
//!
//! C header: `include/rdma/iw_cm.h`.

use core::{marker::PhantomData, ptr::null_mut};

use kernel::{
    ffi::{c_int, c_void},
    prelude::*,
};
use rdma_bindings::{self as bindings, iw_cm_event};

use super::address::SockAddr;

/// What has happened: `enum iw_cm_event_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A peer wants to connect.
    ConnectRequest,
    /// A peer has answered a request.
    ConnectReply,
    /// An accepted connection is there.
    Established,
    /// The peer disconnects.
    Disconnect,
    /// The connection has ended.
    Close,
}

impl Kind {
    fn from_raw(raw: bindings::iw_cm_event_type) -> Option<Self> {
        Some(match raw {
            bindings::IW_CM_EVENT_CONNECT_REQUEST => Self::ConnectRequest,
            bindings::IW_CM_EVENT_CONNECT_REPLY => Self::ConnectReply,
            bindings::IW_CM_EVENT_ESTABLISHED => Self::Established,
            bindings::IW_CM_EVENT_DISCONNECT => Self::Disconnect,
            bindings::IW_CM_EVENT_CLOSE => Self::Close,
            _ => return None,
        })
    }

    fn to_raw(self) -> bindings::iw_cm_event_type {
        match self {
            Self::ConnectRequest => bindings::IW_CM_EVENT_CONNECT_REQUEST,
            Self::ConnectReply => bindings::IW_CM_EVENT_CONNECT_REPLY,
            Self::Established => bindings::IW_CM_EVENT_ESTABLISHED,
            Self::Disconnect => bindings::IW_CM_EVENT_DISCONNECT,
            Self::Close => bindings::IW_CM_EVENT_CLOSE,
        }
    }

    /// Whether the event brings private data of the peer.
    fn has_private_data(self) -> bool {
        matches!(self, Self::ConnectRequest | Self::ConnectReply)
    }
}

/// What a driver has for a request to connect, which it gets back with the identifier of the connection.
#[derive(Clone, Copy)]
pub struct ProviderData(pub(super) *mut c_void);

// SAFETY: Nobody but the driver looks into it.
unsafe impl Send for ProviderData {}
// SAFETY: Nobody but the driver looks into it.
unsafe impl Sync for ProviderData {}

/// An event of our own, which can wait.
pub struct Event {
    /// What has happened.
    pub kind: Kind,
    /// 0, or the negative errno with which a request has failed.
    pub status: c_int,
    /// The local end of the connection.
    pub local: SockAddr,
    /// The end of the peer.
    pub remote: SockAddr,
    /// The private data of the peer; at most 255 bytes.
    pub private_data: KVec<u8>,
    /// What the driver has for a request.
    pub provider_data: ProviderData,
    /// The number of outstanding READs that are received.
    pub ird: u8,
    /// The number of outstanding READs that are sent.
    pub ord: u8,
}

impl Event {
    /// Calls `f` with the event for C.
    pub(super) fn with_raw<R>(&mut self, f: impl FnOnce(&mut iw_cm_event) -> R) -> R {
        let mut raw: iw_cm_event = pin_init::zeroed();
        raw.event = self.kind.to_raw();
        raw.status = self.status;
        raw.local_addr = self.local.to_raw();
        raw.remote_addr = self.remote.to_raw();
        raw.provider_data = self.provider_data.0;
        raw.private_data_len = u8::try_from(self.private_data.len()).unwrap_or(u8::MAX);
        raw.private_data = match self.private_data.is_empty() {
            true => null_mut(),
            false => self.private_data.as_mut_ptr().cast(),
        };
        raw.ird = self.ird;
        raw.ord = self.ord;
        f(&mut raw)
    }
}

/// An event that a driver lends for a call.
///
/// # Invariants
///
/// The event is filled in, and has so much private data.
pub struct EventArg<'a>(*const iw_cm_event, PhantomData<&'a iw_cm_event>);

impl EventArg<'_> {
    /// An event of a driver.
    ///
    /// # Safety
    ///
    /// `raw` is what a driver passes to its `event_handler`, and valid as long as the value.
    pub(super) unsafe fn from_raw(raw: *const iw_cm_event) -> Self {
        // INVARIANT: By the header the event is filled in.
        Self(raw, PhantomData)
    }

    /// What has happened. `None` for what the header does not name.
    pub fn kind(&self) -> Option<Kind> {
        // SAFETY: By the type invariants.
        Kind::from_raw(unsafe { (*self.0).event })
    }

    /// Copies the event. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an event that the header does not name, `ENOMEM`.
    pub fn to_event(&self) -> Result<Event> {
        let kind = self.kind().ok_or(EINVAL)?;
        // SAFETY: By the type invariants; nobody writes to the event during the call.
        let raw = unsafe { &*self.0 };
        let mut private_data = KVec::new();
        if kind.has_private_data() && raw.private_data_len != 0 && !raw.private_data.is_null() {
            let length = usize::from(raw.private_data_len);
            // SAFETY: By the type invariants there are so many bytes.
            let bytes: &[u8] =
                unsafe { core::slice::from_raw_parts(raw.private_data.cast(), length) };
            private_data.extend_from_slice(bytes, GFP_ATOMIC)?;
        }
        // SAFETY: By the type invariants; nobody writes to the addresses.
        let (local, remote) = unsafe {
            (
                SockAddr::load(&raw const (*self.0).local_addr),
                SockAddr::load(&raw const (*self.0).remote_addr),
            )
        };
        Ok(Event {
            kind,
            status: raw.status,
            local,
            remote,
            private_data,
            provider_data: ProviderData(raw.provider_data),
            ird: raw.ird,
            ord: raw.ord,
        })
    }
}
