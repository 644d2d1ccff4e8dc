// SPDX-License-Identifier: GPL-2.0

//! Clients of the subnet administrator (SA): `struct ib_sa_client`, how they are answered, and members of multicast groups,
//! `struct ib_sa_multicast`.
//!
//! C header: `include/rdma/ib_sa.h`.

use core::{
    ptr::{null_mut, NonNull},
    sync::atomic::{AtomicI32, Ordering},
};

use kernel::{
    ffi::{c_int, c_uint, c_void},
    prelude::*,
    sync::Arc,
    types::Opaque,
};
use kernel_ext::{
    entry::{view_of, FromC},
    sync::Completion,
};
use rdma_bindings::{
    ib_sa_client, ib_sa_guidinfo_rec, ib_sa_mcmember_rec, ib_sa_multicast, ib_sa_query,
    sa_path_rec, sa_service_rec,
};

use super::{
    cq::Handler,
    mad::{c_pointer, Body, Embeds, Given},
    object::Owned,
};
use crate::MaySleep;

view_of! {
    /// Someone who asks the subnet administrator.
    ///
    /// # Invariants
    ///
    /// The client has come, and its owner alone says that it goes.
    pub struct SaClient(ib_sa_client);
}

/// Room for a client that is to come, as C passes it.
pub struct NewSaClient<'a>(&'a mut ib_sa_client);

// SAFETY: The type is the same on both sides.
unsafe impl FromC for NewSaClient<'_> {
    type Raw = *mut ib_sa_client;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the structure is there. The header says that the client is new, or has gone: nobody
        // uses it.
        Self(unsafe { &mut *raw })
    }
}

impl NewSaClient<'_> {
    /// The client comes: sets the structure up.
    pub fn begin(self) {
        let raw: *mut ib_sa_client = self.0;
        // SAFETY: The structure is ours; C uses the number atomically.
        unsafe {
            AtomicI32::from_ptr((&raw mut (*raw).users).cast()).store(1, Ordering::Relaxed);
            rdma_bindings::init_completion(&raw mut (*raw).comp);
        }
    }
}

impl SaClient {
    fn users(&self) -> &AtomicI32 {
        // SAFETY: The member is there as long as the client; C uses it atomically too.
        unsafe { AtomicI32::from_ptr((&raw mut (*self.as_raw()).users).cast()) }
    }

    fn gone(&self) -> &Completion {
        // SAFETY: By the type invariants the member is set up; the wrapper is transparent.
        unsafe { &*(&raw const (*self.as_raw()).comp).cast() }
    }

    fn put(&self) {
        if self.users().fetch_sub(1, Ordering::AcqRel) == 1 {
            self.gone().complete();
        }
    }

    /// The client asks something: it does not go before the result is dropped.
    pub fn hold(&self) -> SaClientUse {
        self.users().fetch_add(1, Ordering::Relaxed);
        // INVARIANT: It is counted.
        SaClientUse(NonNull::from(self))
    }
}

impl Owned<SaClient> {
    /// The client goes: waits until it has all its answers.
    pub fn end(self, sleep: &MaySleep) {
        self.put();
        self.gone().wait(sleep);
    }
}

/// A client that waits for an answer.
///
/// # Invariants
///
/// The client counts it, and is there until it is dropped.
pub struct SaClientUse(NonNull<SaClient>);

// SAFETY: Clients may be used from any thread.
unsafe impl Send for SaClientUse {}
// SAFETY: As above.
unsafe impl Sync for SaClientUse {}

impl Drop for SaClientUse {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { self.0.as_ref() }.put();
    }
}

/// A record that has an answer of C's form: how many there may be is a part of it, or not.
macro_rules! callbacks {
    ($($(#[$doc:meta])* $name:ident($record:ty $(, $count:ident)?);)*) => {$(
        $(#[$doc])*
        pub struct $name {
            call: Option<callbacks!(@type $record $(, $count)?)>,
            context: *mut c_void,
        }

        // SAFETY: Callbacks may be called on any thread.
        unsafe impl Send for $name {}
        // SAFETY: As above.
        unsafe impl Sync for $name {}

        // SAFETY: The type is the same on both sides.
        unsafe impl FromC for Handler<Option<callbacks!(@type $record $(, $count)?)>> {
            type Raw = Option<callbacks!(@type $record $(, $count)?)>;

            #[inline]
            unsafe fn from_c(raw: Self::Raw) -> Self {
                Self(raw)
            }
        }

        impl $name {
            /// A callback of C, or none, and what it gets.
            pub fn new(
                call: Handler<Option<callbacks!(@type $record $(, $count)?)>>,
                context: *mut c_void,
            ) -> Self {
                Self { call: call.0, context }
            }

            /// Answers: with a status, and records if there are any.
            pub fn answer(&self, status: Result, records: &mut [$record], _sleep: &MaySleep) {
                let status = status.map_or_else(Error::to_errno, |()| 0);
                let first = match records.is_empty() {
                    true => null_mut(),
                    false => records.as_mut_ptr(),
                };
                let _count = records.len() as c_uint;
                // SAFETY: The client counts its question, so its callback is there; the records are there during the call.
                unsafe {
                    if let Some(call) = self.call {
                        callbacks!(@call call, status, first, _count, self.context $(, $count)?);
                    }
                }
            }
        }
    )*};
    (@type $record:ty, counted) => { unsafe extern "C" fn(c_int, *mut $record, c_uint, *mut c_void) };
    (@type $record:ty) => { unsafe extern "C" fn(c_int, *mut $record, *mut c_void) };
    (@call $call:ident, $status:ident, $first:ident, $n:ident, $context:expr, counted) => {
        $call($status, $first, $n, $context)
    };
    (@call $call:ident, $status:ident, $first:ident, $n:ident, $context:expr) => {
        $call($status, $first, $context)
    };
}

callbacks! {
    /// Who is told of paths.
    PathCallback(sa_path_rec, counted);
    /// Who is told of services.
    ServiceCallback(sa_service_rec, counted);
    /// Who is told of GUIDs.
    GuidInfoCallback(ib_sa_guidinfo_rec);
}

/// The type of a callback in the header.
pub type PathHandler =
    Handler<Option<unsafe extern "C" fn(c_int, *mut sa_path_rec, c_uint, *mut c_void)>>;
/// The type of a callback in the header.
pub type ServiceHandler =
    Handler<Option<unsafe extern "C" fn(c_int, *mut sa_service_rec, c_uint, *mut c_void)>>;
/// The type of a callback in the header.
pub type GuidInfoHandler =
    Handler<Option<unsafe extern "C" fn(c_int, *mut ib_sa_guidinfo_rec, *mut c_void)>>;

/// Where C wants the name of its question to be put.
pub struct SaQueryOut<'a>(&'a mut *mut ib_sa_query);

// SAFETY: The header has a pointer to a place.
unsafe impl FromC for SaQueryOut<'_> {
    type Raw = *mut *mut ib_sa_query;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements.
        Self(unsafe { &mut *raw })
    }
}

impl SaQueryOut<'_> {
    /// Puts a name there, which C only hands back; 0: none.
    pub fn set(&mut self, name: usize) {
        *self.0 = core::ptr::without_provenance_mut(name);
    }
}

/// A member of a multicast group, as C knows it.
#[repr(transparent)]
pub struct MulticastBody(Opaque<ib_sa_multicast>);

// SAFETY: What changes is changed by who joins the group for the member, one at a time.
unsafe impl Send for MulticastBody {}
// SAFETY: As above.
unsafe impl Sync for MulticastBody {}

// SAFETY: A transparent wrapper.
unsafe impl Body for MulticastBody {
    type C = ib_sa_multicast;
}

/// The type of a member's callback in the header.
pub type MulticastFn = Option<unsafe extern "C" fn(c_int, *mut ib_sa_multicast) -> c_int>;

// SAFETY: The type is the same on both sides.
unsafe impl FromC for Handler<MulticastFn> {
    type Raw = MulticastFn;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw)
    }
}

impl MulticastBody {
    /// A member that wants to join.
    pub fn new(
        record: &ib_sa_mcmember_rec,
        mask: u64,
        callback: Handler<MulticastFn>,
        context: *mut c_void,
    ) -> Self {
        let mut raw: ib_sa_multicast = pin_init::zeroed();
        raw.rec = *record;
        raw.comp_mask = mask;
        raw.callback = callback.0;
        raw.context = context;
        Self(Opaque::new(raw))
    }

    /// What the member wants, or has joined.
    pub fn record(&self) -> ib_sa_mcmember_rec {
        // SAFETY: Who joins the group for the member calls it, one at a time.
        unsafe { (*self.0.get()).rec }
    }

    /// Says what the member has joined.
    pub fn set_record(&self, record: &ib_sa_mcmember_rec) {
        // SAFETY: As above; the client reads it when it is told.
        unsafe { (*self.0.get()).rec = *record };
    }

    /// Which members of the record the member wants, in the order of the wire.
    pub fn mask(&self) -> u64 {
        // SAFETY: The member is constant.
        unsafe { (*self.0.get()).comp_mask }
    }
}

/// Tells the client of a member what became of it. Returns the client's reference to the member if it gives that up.
pub fn tell_member<T: Embeds<Body = MulticastBody>>(
    member: &Arc<T>,
    status: Result,
    _sleep: &MaySleep,
) -> Option<Given<T>> {
    let status = status.map_or_else(Error::to_errno, |()| 0);
    let raw = c_pointer(member);
    // SAFETY: The client is there as long as its member, whose end waits for this call. By its answer it gives its reference
    // up, which it has from when the member was made.
    unsafe {
        let gives_up = (*raw)
            .callback
            .is_some_and(|callback| callback(status, raw) != 0);
        gives_up.then(|| Given::from_c(raw))
    }
}
