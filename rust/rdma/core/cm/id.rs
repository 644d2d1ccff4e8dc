// SPDX-License-Identifier: GPL-2.0

//! Identifiers of connections as clients see them: `struct ib_cm_id`.
//!
//! C header: `include/rdma/ib_cm.h`.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use kernel::{ffi::c_void, types::Opaque};
use rdma_bindings::{ib_cm_handler, ib_cm_id};

use crate::core::{
    callback::{Callback, Context, Handler},
    mad::Body,
    Device,
};

/// The C structure of an identifier.
///
/// Its client owns a reference to it, which comes back as [`OwnedArg`](crate::core::mad::OwnedArg), or as the result of [`tell`](super::handler::tell). A listener that several clients
/// share has a reference for each.
///
/// # Invariants
///
/// The device is there as long as the client has the identifier, and as long as the module's object around this keeps it.
/// While `has_client` is set, the client owns a reference that has not come back, unless it has destroyed the identifier.
#[repr(C)]
pub struct IdBody {
    raw: Opaque<ib_cm_id>,
    has_client: AtomicBool,
}

// SAFETY: Members that change are accessed as atomic numbers, or belong to C alone.
unsafe impl Send for IdBody {}
// SAFETY: Members that change are accessed as atomic numbers, or belong to C alone.
unsafe impl Sync for IdBody {}

// SAFETY: The structure begins with an `ib_cm_id`.
unsafe impl Body for IdBody {
    type C = ib_cm_id;
}

/// The client's handler of events, and the context that it finds in the identifier.
pub struct Client(Callback<ib_cm_handler>);

impl Client {
    /// The handler and the context of one call of C.
    pub fn new<'a>(handler: Handler<'a, ib_cm_handler>, context: Context<'a>) -> Self {
        Self(handler.with(context))
    }

    /// The handler of a call of C that has no context.
    pub fn without_context(handler: Handler<'_, ib_cm_handler>) -> Self {
        Self(handler.alone())
    }
}

/// The numbers of an identifier that C reads. [`IdBody::numbers`] has them.
pub struct Numbers<'a> {
    /// `enum ib_cm_state`.
    pub state: &'a AtomicU32,
    /// `enum ib_cm_lap_state`.
    pub lap_state: &'a AtomicU32,
    /// The peer's number of the connection, in network byte order.
    pub remote_id: &'a AtomicU32,
}

impl IdBody {
    /// An identifier for a device, with its number in network byte order.
    pub fn new(device: &Device, client: &Client, local_id: u32) -> Self {
        let (handler, context) = client.0.parts();
        Self::make(device, handler, context, local_id, true)
    }

    /// An identifier for a request of a peer to the listener `self`, with the handler of that. It has no client until it is offered.
    pub fn for_request(&self, local_id: u32) -> Self {
        let raw = self.raw.get();
        // SAFETY: The client sets its handler and context before it listens, and does not change them while it does.
        let (handler, context) = unsafe { ((*raw).cm_handler, (*raw).context) };
        Self::make(self.device(), handler, context, local_id, false)
    }

    /// An identifier without a client, for a request that nobody listens for.
    pub fn unclaimed(device: &Device, local_id: u32) -> Self {
        Self::make(device, None, core::ptr::null_mut(), local_id, false)
    }

    fn make(
        device: &Device,
        handler: ib_cm_handler,
        context: *mut c_void,
        local_id: u32,
        has_client: bool,
    ) -> Self {
        let mut raw: ib_cm_id = pin_init::zeroed();
        raw.cm_handler = handler;
        raw.context = context;
        raw.device = device.as_raw();
        raw.local_id = local_id;
        raw.remote_cm_qpn = 1;
        // INVARIANT: By the header a client destroys its identifiers before the device goes; the object of `ib_cm` has a use of it.
        // INVARIANT: Who creates an identifier for a client returns a reference to it.
        Self {
            raw: Opaque::new(raw),
            has_client: AtomicBool::new(has_client),
        }
    }

    /// The C structure.
    pub(super) fn as_raw(&self) -> *mut ib_cm_id {
        self.raw.get()
    }

    /// The client gets a reference: the caller has just given one up for it.
    pub(super) fn set_client(&self) {
        self.has_client.store(true, Ordering::Release);
    }

    /// Whether the client has a reference.
    pub(super) fn has_client(&self) -> bool {
        self.has_client.load(Ordering::Acquire)
    }

    /// The client has given its reference up. `false` if it had none.
    pub(super) fn take_client(&self) -> bool {
        self.has_client.swap(false, Ordering::AcqRel)
    }

    /// The device. See the type's invariants.
    #[inline]
    pub fn device(&self) -> &Device {
        // SAFETY: By the type invariants; the member is constant.
        unsafe { Device::from_raw((*self.raw.get()).device) }
    }

    /// The identifier's number, in network byte order. Constant.
    #[inline]
    pub fn local_id(&self) -> u32 {
        // SAFETY: The member is constant.
        unsafe { (*self.raw.get()).local_id }
    }

    /// The number of the peer's queue pair for messages.
    #[inline]
    pub fn remote_cm_qpn(&self) -> u32 {
        // SAFETY: The member is valid; a client that is redirected sets it before it asks.
        unsafe { (*self.raw.get()).remote_cm_qpn }
    }

    /// The numbers that change.
    pub fn numbers(&self) -> Numbers<'_> {
        let raw = self.raw.get();
        // SAFETY: The members are valid as long as `self`, and aligned; C only reads them.
        unsafe {
            Numbers {
                state: AtomicU32::from_ptr(&raw mut (*raw).state),
                lap_state: AtomicU32::from_ptr(&raw mut (*raw).lap_state),
                remote_id: AtomicU32::from_ptr(&raw mut (*raw).remote_id),
            }
        }
    }

    /// Sets the service, in network byte order, that the identifier listens for or asks for.
    pub fn set_service_id(&self, service_id: u64) {
        // SAFETY: The member is valid, and aligned; C only reads it.
        let member = unsafe {
            core::sync::atomic::AtomicU64::from_ptr(&raw mut (*self.raw.get()).service_id)
        };
        member.store(service_id, Ordering::Relaxed);
    }

    /// Whether the listener is one that clients with this handler share: without a context.
    pub fn is_shared_by(&self, client: &Client) -> bool {
        let raw = self.raw.get();
        let (handler, _) = client.0.parts();
        // SAFETY: The client sets its handler and context before it listens, and does not change them while it does.
        let (own, context) = unsafe { ((*raw).cm_handler, (*raw).context) };
        let same = own.map(|own| own as usize) == handler.map(|other| other as usize);
        same && own.is_some() && context.is_null()
    }
}
