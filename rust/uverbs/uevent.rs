// SPDX-License-Identifier: GPL-2.0

//! What ib_uverbs keeps of objects of user space beside `struct ib_uobject`: which events they have reported, and what of other
//! objects they use.
//!
//! All of it is in the memory of the object, which comes zeroed. What is opened when the object is made is closed when it is
//! destroyed; the counts of events are read after that.
//!
//! | lock | protects |
//! |---|---|
//! | [`QpObject`]: the groups' mutex | the multicast groups that the queue pair has joined. Process context; drivers are called inside |

use core::{
    ptr::null_mut,
    sync::atomic::{AtomicI32, AtomicPtr, Ordering},
};

use kernel::{
    ffi::c_void,
    prelude::*,
    sync::{aref::ARef, Mutex},
    types::Opaque,
};
use kernel_ext::sync::new_mutex;
use rdma::{
    core::{Qp, Uobject},
    Gid, MaySleep,
};
use rdma_bindings::{ib_cq, ib_event, ib_uobject};

use crate::event::{AsyncFile, EventFile, Report, Source};

/// An object that reports asynchronous events.
#[repr(C)]
pub struct EventObject {
    uobject: Opaque<ib_uobject>,
    events: Source,
}

impl EventObject {
    /// What every object has.
    #[inline]
    pub fn uobject(&self) -> &Uobject {
        // SAFETY: A view is a transparent wrapper.
        unsafe { &*self.uobject.get().cast() }
    }

    /// Reports events to a file from now on; to none: never. For who makes the object.
    pub fn open(&self, file: Option<ARef<AsyncFile>>) {
        self.events.open(file.map(|file| ARef::from(&**file)));
    }

    /// Reports no more events, and takes back those that were not read. For who destroys the object.
    pub fn close(&self) {
        self.events.close();
    }

    /// How many events were read.
    #[inline]
    pub fn events_reported(&self) -> u32 {
        self.events.reported()
    }

    /// Reports an event, of `enum ib_event_type`. Any context.
    fn report(&self, kind: u32) {
        self.events.report(Report::Async {
            element: self.uobject().user_handle(),
            kind,
        });
    }
}

/// Objects may be used from any thread.
macro_rules! shared {
    ($($ty:ident)*) => {$(
        // SAFETY: The members are guarded; those of the object are as in its view.
        unsafe impl Send for $ty {}
        // SAFETY: As above.
        unsafe impl Sync for $ty {}
    )*};
}
shared! { EventObject CqObject QpObject SrqObject WqObject XrcdObject }

/// A completion queue of user space: `struct ib_ucq_object`.
#[repr(C)]
pub struct CqObject {
    event: EventObject,
    completions: Source,
}

impl CqObject {
    /// Reports events and completions from now on. For who makes the object.
    pub fn open(&self, channel: Option<ARef<EventFile>>, file: Option<ARef<AsyncFile>>) {
        self.completions.open(channel);
        self.event.open(file);
    }

    /// Reports nothing any more. For who destroys the object.
    pub fn close(&self) {
        self.completions.close();
        self.event.close();
    }

    /// How many completion events were read.
    #[inline]
    pub fn completions_reported(&self) -> u32 {
        self.completions.reported()
    }
}

/// A queue pair of user space: `struct ib_uqp_object`.
#[repr(C)]
pub struct QpObject {
    event: EventObject,
    xrcd: XrcdLink,
    /// From [`Self::open`] to [`Self::close`].
    groups: Opaque<Mutex<Groups>>,
}

/// A multicast group and the LID that it was joined with.
pub type Group = (Gid, u16);

/// The multicast groups that a queue pair has joined.
pub type Groups = KVec<Group>;

impl QpObject {
    /// Reports events from now on; there are no groups yet.
    ///
    /// # Safety
    ///
    /// The object is being made, by this thread alone, and is not open. It is not moved, and closed before its memory goes.
    pub unsafe fn open(&self, file: Option<ARef<AsyncFile>>) {
        let slot = self.groups.get();
        let init = new_mutex!(Groups::new(), "QpObject::groups");
        // SAFETY: By the safety requirements; `close` drops the mutex.
        let Ok(()) = unsafe { init.__pinned_init(slot) };
        self.event.open(file);
    }

    /// Reports nothing any more.
    ///
    /// # Safety
    ///
    /// The object is open, and destroyed by this thread, which alone has it.
    pub unsafe fn close(&self) {
        self.xrcd.clear();
        // SAFETY: By the safety requirements; `open` has made the mutex.
        unsafe { core::ptr::drop_in_place(self.groups.get()) };
        self.event.close();
    }

    /// Calls `f` with the groups, which nobody else changes meanwhile. For who has looked the object up.
    pub fn with_groups<R>(&self, _sleep: &MaySleep, f: impl FnOnce(&mut Groups) -> R) -> R {
        // SAFETY: An object that was looked up is open.
        f(&mut unsafe { &*self.groups.get() }.lock())
    }

    /// Leaves all groups. For who destroys the object.
    pub fn leave_groups(&self, qp: &Qp, sleep: &MaySleep) {
        let groups = self.with_groups(sleep, core::mem::take);
        for (gid, lid) in groups {
            // The groups go with the queue pair if the driver does not know them.
            let _ = crate::verbs::detach_mcast(qp, gid, lid, sleep);
        }
    }

    /// Keeps an XRC domain as long as this is open.
    pub fn use_xrcd(&self, xrcd: &XrcdObject) {
        self.xrcd.set(xrcd);
    }
}

/// A shared receive queue of user space: `struct ib_usrq_object`.
#[repr(C)]
pub struct SrqObject {
    event: EventObject,
    xrcd: XrcdLink,
}

impl SrqObject {
    /// Reports events from now on. For who makes the object.
    pub fn open(&self, file: Option<ARef<AsyncFile>>) {
        self.event.open(file);
    }

    /// Reports nothing any more. For who destroys the object.
    pub fn close(&self) {
        self.xrcd.clear();
        self.event.close();
    }

    /// Keeps an XRC domain as long as this is open.
    pub fn use_xrcd(&self, xrcd: &XrcdObject) {
        self.xrcd.set(xrcd);
    }
}

/// A work queue of user space: `struct ib_uwq_object`.
#[repr(C)]
pub struct WqObject {
    event: EventObject,
}

impl WqObject {
    /// Reports events from now on. For who makes the object.
    pub fn open(&self, file: Option<ARef<AsyncFile>>) {
        self.event.open(file);
    }

    /// Reports nothing any more. For who destroys the object.
    pub fn close(&self) {
        self.event.close();
    }
}

macro_rules! event_objects {
    ($($ty:ident)*) => {$(
        impl core::ops::Deref for $ty {
            type Target = EventObject;

            #[inline]
            fn deref(&self) -> &EventObject {
                &self.event
            }
        }
    )*};
}
event_objects! { CqObject QpObject SrqObject WqObject }

/// An XRC domain of user space: `struct ib_uxrcd_object`.
#[repr(C)]
pub struct XrcdObject {
    uobject: Opaque<ib_uobject>,
    uses: AtomicI32,
}

impl XrcdObject {
    /// What every object has.
    #[inline]
    pub fn uobject(&self) -> &Uobject {
        // SAFETY: A view is a transparent wrapper.
        unsafe { &*self.uobject.get().cast() }
    }

    /// Whether objects of the file use it.
    #[inline]
    pub fn is_used(&self) -> bool {
        self.uses.load(Ordering::Relaxed) != 0
    }
}

/// The XRC domain that an object uses, if any: it is not destroyed meanwhile.
#[repr(transparent)]
struct XrcdLink(AtomicPtr<XrcdObject>);

impl XrcdLink {
    fn set(&self, xrcd: &XrcdObject) {
        self.clear();
        xrcd.uses.fetch_add(1, Ordering::Relaxed);
        let xrcd = core::ptr::from_ref(xrcd).cast_mut();
        self.0.store(xrcd, Ordering::Relaxed);
    }

    fn clear(&self) {
        let xrcd = self.0.swap(null_mut(), Ordering::Relaxed);
        // SAFETY: `set` has counted this as a user of the domain, which therefore was not destroyed.
        if let Some(xrcd) = unsafe { xrcd.as_ref() } {
            xrcd.uses.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// For drivers: says that a completion queue has completions.
///
/// # Safety
///
/// The queue is one of user space, and there. Any context.
pub(crate) unsafe extern "C" fn on_completion(cq: *mut ib_cq, _context: *mut c_void) {
    // SAFETY: By the safety requirements; the object stays as long as the queue.
    let object = unsafe { &*(*cq).uobject.cast::<CqObject>() };
    let handle = object.uobject().user_handle();
    object.completions.report(Report::Completion(handle));
}

macro_rules! event_handlers {
    ($($(#[$attr:meta])* $name:ident: $member:ident;)*) => {$(
        $(#[$attr])*
        ///
        /// # Safety
        ///
        /// The event is about such an object, which is there. Any context.
        pub(crate) unsafe extern "C" fn $name(event: *mut ib_event, _context: *mut c_void) {
            // SAFETY: By the safety requirements; an object of user space stays as long as the driver's.
            unsafe {
                let object = (*(*event).element.$member).uobject.cast::<EventObject>();
                if let Some(object) = object.as_ref() {
                    object.report((*event).event);
                }
            }
        }
    )*};
}
event_handlers! {
    /// For drivers: an event of a completion queue.
    on_cq_event: cq;
    /// For drivers: an event of a queue pair. A target queue pair may have lost its object.
    on_qp_event: qp;
    /// For drivers: an event of a shared receive queue.
    on_srq_event: srq;
    /// For drivers: an event of a work queue.
    on_wq_event: wq;
}
