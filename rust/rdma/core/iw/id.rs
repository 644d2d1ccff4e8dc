// SPDX-License-Identifier: GPL-2.0

//! Identifiers of iWARP connections as clients and drivers see them: `struct iw_cm_id`.
//!
//! C header: `include/rdma/iw_cm.h`.

use core::{
    mem::forget,
    sync::atomic::{AtomicU8, Ordering},
};

use kernel::{
    ffi::{c_int, c_void},
    prelude::*,
    sync::Arc,
    types::Opaque,
};
use kernel_ext::entry::FromC;
use rdma_bindings::{iw_cm_event, iw_cm_handler, iw_cm_id};

use super::{
    address::SockAddr,
    event::{Event, EventArg, ProviderData},
};
use crate::{
    core::{
        callback::{Callback, Context, Handler},
        mad::{c_pointer, Body, Borrowed, Embeds, OwnedArg},
        Device,
    },
    MaySleep,
};

/// The bit of `mapped` in the flags of an identifier, behind `tos_set`.
const MAPPED: u8 = 1 << 1;

/// The C structure of an identifier.
///
/// Its client owns a reference to it, which comes back as [`OwnedArg`], or as the result of [`tell`]. The driver counts more.
///
/// # Invariants
///
/// The device is there as long as the client has the identifier.
#[repr(transparent)]
pub struct IdBody(Opaque<iw_cm_id>);

// SAFETY: Members that change are accessed as atomic bytes, or belong to C alone.
unsafe impl Send for IdBody {}
// SAFETY: Members that change are accessed as atomic bytes, or belong to C alone.
unsafe impl Sync for IdBody {}

// SAFETY: The structure is an `iw_cm_id`.
unsafe impl Body for IdBody {
    type C = iw_cm_id;
}

/// An identifier, to which a driver tells events.
pub trait Receiver: Embeds<Body = IdBody> {
    /// An event of a driver. Any context.
    ///
    /// # Errors
    ///
    /// The driver has to do without: it refuses a peer that wants to connect.
    fn event(this: &Arc<Self>, event: &EventArg<'_>) -> Result;
}

/// The client's handler of events, and the context that it finds in the identifier.
pub struct Client(Callback<iw_cm_handler>);

impl Client {
    /// The handler and the context of one call of C.
    pub fn new<'a>(handler: Handler<'a, iw_cm_handler>, context: Context<'a>) -> Self {
        Self(handler.with(context))
    }
}

impl IdBody {
    /// An identifier for a device. `T` has it.
    pub fn new<T: Receiver>(device: &Device, client: &Client) -> Self {
        let (handler, context) = client.0.parts();
        Self::make::<T>(device, handler, context)
    }

    /// An identifier for a request of a peer to a listener, with the client of the listener.
    pub fn for_request<T: Receiver>(&self, provider_data: ProviderData) -> Self {
        let raw = self.0.get();
        // SAFETY: The client sets its handler and context before it listens.
        let (handler, context) = unsafe { ((*raw).cm_handler, (*raw).context) };
        let made = Self::make::<T>(self.device(), handler, context);
        // SAFETY: The structure is a member of a value of this function.
        unsafe { (*made.0.get()).provider_data = provider_data.0 };
        made
    }

    fn make<T: Receiver>(device: &Device, handler: iw_cm_handler, context: *mut c_void) -> Self {
        let mut raw: iw_cm_id = pin_init::zeroed();
        raw.cm_handler = handler;
        raw.context = context;
        raw.device = device.as_raw();
        raw.event_handler = Some(on_event::<T>);
        raw.add_ref = Some(add_ref::<T>);
        raw.rem_ref = Some(rem_ref::<T>);
        // INVARIANT: By the header a client destroys its identifiers before the device goes.
        Self(Opaque::new(raw))
    }

    /// The device. Only as long as the client has the identifier.
    #[inline]
    pub fn device(&self) -> &Device {
        // SAFETY: By the type invariants; the member is constant.
        unsafe { Device::from_raw((*self.0.get()).device) }
    }

    /// The name of the device's net device, and whether the driver wants its own ports (`IW_F_NO_PORT_MAP`).
    pub fn interface(&self) -> ([u8; IFNAME_SIZE], bool) {
        let device = self.device().as_raw();
        // SAFETY: The device is valid, and its members are constant from registration on.
        let (name, flags) = unsafe { ((*device).iw_ifname, (*device).iw_driver_flags) };
        let unmapped = flags & rdma_bindings::IW_F_NO_PORT_MAP != 0;
        (name, unmapped)
    }

    /// The local end, and that of the peer, as the client knows them.
    pub fn ends(&self) -> (SockAddr, SockAddr) {
        let raw = self.0.get();
        // SAFETY: The structure is valid, and Rust writes to it by `store` alone.
        unsafe {
            (
                SockAddr::load(&raw const (*raw).local_addr),
                SockAddr::load(&raw const (*raw).remote_addr),
            )
        }
    }

    /// Sets both ends as the client knows them.
    pub fn set_ends(&self, local: &SockAddr, remote: &SockAddr) {
        let raw = self.0.get();
        // SAFETY: The structure is valid, and Rust accesses it by `load` and `store` alone.
        unsafe {
            local.store(&raw mut (*raw).local_addr);
            remote.store(&raw mut (*raw).remote_addr);
        }
    }

    /// The local end as the port mapper has mapped it.
    pub fn mapped_local(&self) -> SockAddr {
        // SAFETY: The structure is valid, and Rust writes to it by `store` alone.
        unsafe { SockAddr::load(&raw const (*self.0.get()).m_local_addr) }
    }

    /// Sets both ends as they are on the wire.
    pub fn set_mapped_ends(&self, local: &SockAddr, remote: &SockAddr) {
        let raw = self.0.get();
        // SAFETY: The structure is valid, and Rust accesses it by `load` and `store` alone.
        unsafe {
            local.store(&raw mut (*raw).m_local_addr);
            remote.store(&raw mut (*raw).m_remote_addr);
        }
    }

    /// Marks the identifier as one that the port mapper knows.
    pub fn set_mapped(&self) {
        // SAFETY: The structure is valid; Rust accesses the byte of flags here alone.
        let flags = unsafe { AtomicU8::from_ptr((&raw mut (*self.0.get())._bitfield_1).cast()) };
        flags.fetch_or(MAPPED, Ordering::Relaxed);
    }
}

/// The size of the name of a net device in bytes.
pub const IFNAME_SIZE: usize = rdma_bindings::IWPM_IFNAME_SIZE as usize;

/// Tells an event to the client of an identifier. If its handler returns an error it gives the identifier up: the result is the
/// reference that it has had.
#[must_use]
pub fn tell<T: Receiver>(this: &Arc<T>, event: &mut Event, _sleep: &MaySleep) -> Option<Arc<T>> {
    let raw = c_pointer(this);
    let ret = event.with_raw(|event| {
        // SAFETY: The structure is valid. The client may change its handler in a handler, and does not while events wait.
        let handler = unsafe { (*raw).cm_handler }?;
        // SAFETY: By the header the client's handler is called so, in process context.
        Some(unsafe { handler(raw, event) })
    });
    // SAFETY: By the header a client whose handler returns an error does not use the identifier any more, so that the reference that it
    // has had from `offer` or from the exported function is given up here, once.
    (ret.unwrap_or(0) != 0).then(|| unsafe { OwnedArg::from_c(raw) }.0)
}

/// Tells an event to the client of an identifier that it does not know yet, and gives it a reference. The rest is as for [`tell`].
#[must_use]
pub fn offer<T: Receiver>(this: &Arc<T>, event: &mut Event, sleep: &MaySleep) -> Option<Arc<T>> {
    // The client has it, until it comes back.
    forget(this.clone());
    tell(this, event, sleep)
}

/// Counts a reference of the driver.
///
/// # Safety
///
/// A driver calls it with an identifier of a `T` to which a reference is counted.
unsafe extern "C" fn add_ref<T: Receiver>(id: *mut iw_cm_id) {
    // SAFETY: By the safety requirements.
    forget(unsafe { Borrowed::<T>::from_c(id) }.hold());
}

/// Gives up a reference of the driver.
///
/// # Safety
///
/// A driver calls it with an identifier of a `T` to which it has counted a reference.
unsafe extern "C" fn rem_ref<T: Receiver>(id: *mut iw_cm_id) {
    // SAFETY: By the safety requirements.
    drop(unsafe { OwnedArg::<T>::from_c(id) }.0);
}

/// Takes an event of the driver.
///
/// # Safety
///
/// A driver calls it with an identifier of a `T` to which a reference is counted, and an event.
unsafe extern "C" fn on_event<T: Receiver>(id: *mut iw_cm_id, event: *mut iw_cm_event) -> c_int {
    // SAFETY: By the safety requirements.
    let (this, event) = unsafe { (Borrowed::<T>::from_c(id).hold(), EventArg::from_raw(event)) };
    match T::event(&this, &event) {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}
