// SPDX-License-Identifier: GPL-2.0

//! Clients of the subnet administrator (SA), `struct ib_sa_client`, their callbacks, and multicast group members, `struct
//! ib_sa_multicast`.
//!
//! C header: `include/rdma/ib_sa.h`.

use core::{
    ptr::{null_mut, NonNull},
    sync::atomic::{AtomicBool, AtomicI32, AtomicU8, Ordering},
};

use kernel::{
    ffi::{c_int, c_uint, c_void},
    prelude::*,
    sync::Arc,
    types::Opaque,
};
use kernel_ext::{
    entry::{view_of, FromC, IntoC},
    sync::Completion,
    uses::{Use, Used},
};
use rdma_bindings::{
    ib_sa_client, ib_sa_guidinfo_rec, ib_sa_mcmember_rec, ib_sa_multicast, ib_sa_query,
    sa_path_rec, sa_service_rec,
};

use super::{
    callback::{Callback, Context, Handler},
    mad::{c_pointer, ArcOrErr, Body, Embeds, OwnedArg},
    object::Owned,
};
use crate::MaySleep;

view_of! {
    /// A client of the subnet administrator.
    ///
    /// # Invariants
    ///
    /// The client is registered, and only its owner unregisters it.
    pub struct SaClient(ib_sa_client);
}

/// The memory of a client that is being registered.
pub struct NewSaClient<'a>(&'a mut ib_sa_client);

// SAFETY: `Raw` is the type in the header.
unsafe impl FromC for NewSaClient<'_> {
    type Raw = *mut ib_sa_client;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the structure is valid. By the header the client is new or was unregistered, so
        // that the structure is unused.
        Self(unsafe { &mut *raw })
    }
}

impl NewSaClient<'_> {
    /// Registers the client: initialises the structure.
    pub fn begin(self) {
        let raw: *mut ib_sa_client = self.0;
        // SAFETY: The structure is lent exclusively.
        unsafe {
            AtomicI32::from_ptr((&raw mut (*raw).users).cast()).store(1, Ordering::Relaxed);
            rdma_bindings::init_completion(&raw mut (*raw).comp);
        }
    }
}

impl SaClient {
    fn users(&self) -> &AtomicI32 {
        // SAFETY: The member is valid as long as the client; C accesses it atomically too.
        unsafe { AtomicI32::from_ptr((&raw mut (*self.as_raw()).users).cast()) }
    }

    fn gone(&self) -> &Completion {
        // SAFETY: By the type invariants the member is initialised; the wrapper is transparent.
        unsafe { &*(&raw const (*self.as_raw()).comp).cast() }
    }

    fn put(&self) {
        if self.users().fetch_sub(1, Ordering::AcqRel) == 1 {
            self.gone().complete();
        }
    }

    /// Counts a query of the client, which is not unregistered before the result is dropped.
    pub fn hold(&self) -> SaClientUse {
        self.users().fetch_add(1, Ordering::Relaxed);
        // INVARIANT: The query was just counted.
        SaClientUse(NonNull::from(self))
    }
}

impl Owned<SaClient> {
    /// Unregisters the client: waits until all its queries are answered.
    pub fn end(self, sleep: &MaySleep) {
        self.put();
        self.gone().wait(sleep);
    }
}

/// A counted query of a client.
///
/// # Invariants
///
/// The client counts this value, and is valid until it is dropped.
pub struct SaClientUse(NonNull<SaClient>);

// SAFETY: Clients may be used from any thread.
unsafe impl Send for SaClientUse {}
// SAFETY: Clients may be used from any thread.
unsafe impl Sync for SaClientUse {}

impl Drop for SaClientUse {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the client is valid.
        unsafe { self.0.as_ref() }.put();
    }
}

/// Defines the callback type of a record. A `counted` callback gets the number of records.
///
/// By the header the client keeps the callback and its context until it was called, or until the client is unregistered.
macro_rules! callbacks {
    ($($(#[$doc:meta])* $name:ident($record:ty $(, $count:ident)?);)*) => {$(
        $(#[$doc])*
        pub struct $name {
            callback: Callback<Option<callbacks!(@type $record $(, $count)?)>>,
            was_called: AtomicBool,
            /// The client is not unregistered before.
            _client: SaClientUse,
        }

        impl $name {
            /// Creates a callback of a client from a C function, which may be null, and its context.
            pub fn new<'a>(
                client: &SaClient,
                call: Handler<'a, Option<callbacks!(@type $record $(, $count)?)>>,
                context: Context<'a>,
            ) -> Self {
                Self {
                    callback: call.with(context),
                    was_called: AtomicBool::new(false),
                    _client: client.hold(),
                }
            }

            /// Calls the callback with a status and the records, the first time.
            pub fn answer(&self, status: Result, records: &mut [$record], _sleep: &MaySleep) {
                if self.was_called.swap(true, Ordering::Relaxed) {
                    return;
                }
                let status = status.map_or_else(Error::to_errno, |()| 0);
                let first = match records.is_empty() {
                    true => null_mut(),
                    false => records.as_mut_ptr(),
                };
                let _count = records.len() as c_uint;
                let (call, context) = self.callback.parts();
                // SAFETY: The callback was not called, and `self` holds the client, so that it is valid by the invariants of
                // `Callback`; the records are valid during the call.
                unsafe {
                    if let Some(call) = call {
                        callbacks!(@call call, status, first, _count, context $(, $count)?);
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
    /// The callback of a path query.
    PathCallback(sa_path_rec, counted);
    /// The callback of a service query.
    ServiceCallback(sa_service_rec, counted);
    /// The callback of a GUID query.
    GuidInfoCallback(ib_sa_guidinfo_rec);
}

/// The C type of the callback.
pub type PathHandler<'a> =
    Handler<'a, Option<unsafe extern "C" fn(c_int, *mut sa_path_rec, c_uint, *mut c_void)>>;
/// The C type of the callback.
pub type ServiceHandler<'a> =
    Handler<'a, Option<unsafe extern "C" fn(c_int, *mut sa_service_rec, c_uint, *mut c_void)>>;
/// The C type of the callback.
pub type GuidInfoHandler<'a> =
    Handler<'a, Option<unsafe extern "C" fn(c_int, *mut ib_sa_guidinfo_rec, *mut c_void)>>;

/// The output argument for the handle of a query.
pub struct SaQueryOut<'a>(&'a mut *mut ib_sa_query);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for SaQueryOut<'_> {
    type Raw = *mut *mut ib_sa_query;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the pointer is valid for writes.
        Self(unsafe { &mut *raw })
    }
}

impl SaQueryOut<'_> {
    /// Writes the handle of the query, which is opaque to C; 0 for none.
    pub fn set(&mut self, name: usize) {
        *self.0 = core::ptr::without_provenance_mut(name);
    }
}

/// A member of a multicast group: `struct ib_sa_multicast`.
///
/// # Invariants
///
/// The members of `raw` are constant, except for `rec`, which is written once: while `joined` is [`JOINING`].
#[repr(C)]
pub struct MulticastBody {
    raw: Opaque<ib_sa_multicast>,
    wanted: ib_sa_mcmember_rec,
    joined: AtomicU8,
    /// Whether the client has the reference that [`hand_over`] has given it.
    is_with_client: AtomicBool,
}

/// The member has not joined.
const WAITING: u8 = 0;
/// The record that the member joins with is being written.
const JOINING: u8 = 1;
/// The member has joined with the record.
const JOINED: u8 = 2;

// SAFETY: By the type invariants one thread alone changes the structure.
unsafe impl Send for MulticastBody {}
// SAFETY: By the type invariants one thread alone changes the structure.
unsafe impl Sync for MulticastBody {}

// SAFETY: The type begins with an `ib_sa_multicast`.
unsafe impl Body for MulticastBody {
    type C = ib_sa_multicast;
}

/// The C type of a member's callback.
pub type MulticastFn = Option<unsafe extern "C" fn(c_int, *mut ib_sa_multicast) -> c_int>;

impl MulticastBody {
    /// Creates a member that is to join.
    pub fn new<'a>(
        record: &ib_sa_mcmember_rec,
        mask: u64,
        callback: Handler<'a, MulticastFn>,
        context: Context<'a>,
    ) -> Self {
        let (callback, context) = callback.with(context).parts();
        let mut raw: ib_sa_multicast = pin_init::zeroed();
        raw.rec = *record;
        raw.comp_mask = mask;
        raw.callback = callback;
        raw.context = context;
        Self {
            raw: Opaque::new(raw),
            wanted: *record,
            joined: AtomicU8::new(WAITING),
            is_with_client: AtomicBool::new(false),
        }
    }

    /// The record that the member requests.
    pub fn wanted(&self) -> &ib_sa_mcmember_rec {
        &self.wanted
    }

    /// Sets the record that the member has joined with, the first time, before the client's callback is called.
    pub fn set_joined(&self, record: &ib_sa_mcmember_rec) {
        let first =
            self.joined
                .compare_exchange(WAITING, JOINING, Ordering::Relaxed, Ordering::Relaxed);
        if first.is_err() {
            return;
        }
        // SAFETY: The exchange succeeds once. By the header the client reads the record when its callback has reported the join,
        // which `tell_member` does only after the store below.
        unsafe { (*self.raw.get()).rec = *record };
        self.joined.store(JOINED, Ordering::Release);
    }

    /// The component mask of the request, big endian.
    pub fn mask(&self) -> u64 {
        // SAFETY: By the type invariants the member is constant.
        unsafe { (*self.raw.get()).comp_mask }
    }
}

/// A member of a multicast group, of which callbacks that are running are uses.
///
/// # Safety
///
/// When `ib_sa_free_multicast` has returned for the member, or the member was given up and dropped, there is no use of it.
pub unsafe trait MulticastMember: Embeds<Body = MulticastBody> + Used {}

/// Gives the client its reference to a member, by the pointer that `ib_sa_free_multicast` takes back.
pub fn hand_over<T: MulticastMember>(member: &Arc<T>) -> *mut ib_sa_multicast {
    if member.body().is_with_client.swap(true, Ordering::Relaxed) {
        return c_pointer(member);
    }
    ArcOrErr(Ok(member.clone())).into_c()
}

/// Calls the callback of a member that its client has: with success only if it has joined, else with `EINVAL`. Returns the
/// client's reference to the member if the client gives it up.
pub fn tell_member<T: MulticastMember>(
    member: &Use<T>,
    status: Result,
    _sleep: &MaySleep,
) -> Option<OwnedArg<T>> {
    if !member.body().is_with_client.load(Ordering::Relaxed) {
        return None;
    }
    let has_joined = member.body().joined.load(Ordering::Acquire) == JOINED;
    let status = status.and(has_joined.then_some(()).ok_or(EINVAL));
    let status = status.map_or_else(Error::to_errno, |()| 0);
    let raw = c_pointer(member);
    // SAFETY: By the safety requirements of `MulticastMember` the client has not released the member, and so keeps its callback. A
    // return value other than 0 gives up the client's reference, which it has once.
    unsafe {
        let gives_up = (*raw)
            .callback
            .is_some_and(|callback| callback(status, raw) != 0)
            && member.body().is_with_client.swap(false, Ordering::Relaxed);
        gives_up.then(|| OwnedArg::from_c(raw))
    }
}
