// SPDX-License-Identifier: GPL-2.0

//! Objects that report asynchronous events (`struct ib_uevent_object`), and the event handlers of their driver objects.
//!
//! C header: `include/rdma/uverbs_std_types.h`.

use kernel::{ffi::c_void, sync::aref::ARef, types::Opaque};
use rdma::core::Uobject;
use rdma_bindings::{ib_event, ib_uobject};

use crate::event::{AsyncFile, Report, Source};

/// An object that reports asynchronous events: the first member of the memory of such objects.
#[repr(C)]
pub struct EventObject {
    uobject: Opaque<ib_uobject>,
    events: Source,
}

// SAFETY: `events` may be used from any thread, and so may the object through its view.
unsafe impl Send for EventObject {}
// SAFETY: `events` may be used from any thread, and so may the object through its view.
unsafe impl Sync for EventObject {}

impl EventObject {
    /// The common part of all objects.
    #[inline]
    pub fn uobject(&self) -> &Uobject {
        // SAFETY: A view is a transparent wrapper.
        unsafe { &*self.uobject.get().cast() }
    }

    /// Starts reporting events to a file; without one, no events are reported.
    pub(crate) fn open(&self, file: Option<ARef<AsyncFile>>) {
        self.events.open(file.map(|file| ARef::from(&**file)));
    }

    /// Stops reporting, and drops the events that were not read.
    pub(crate) fn close(&self) {
        self.events.close();
    }

    /// The number of events that user space has read.
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

/// Implements `Deref` to [`EventObject`] for the types that begin with one.
macro_rules! event_object {
    ($ty:ident) => {
        impl core::ops::Deref for $ty {
            type Target = $crate::uevent::EventObject;

            #[inline]
            fn deref(&self) -> &$crate::uevent::EventObject {
                &self.event
            }
        }
    };
}
pub(crate) use event_object;

macro_rules! event_handlers {
    ($($(#[$attr:meta])* $name:ident: $member:ident;)*) => {$(
        $(#[$attr])*
        ///
        /// # Safety
        ///
        /// The event is one of such an object, which is valid during the call. Any context.
        pub(crate) unsafe extern "C" fn $name(event: *mut ib_event, _context: *mut c_void) {
            // SAFETY: By the safety requirements; a user object is valid as long as the driver's object.
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
    /// The event handler of completion queues.
    on_cq_event: cq;
    /// The event handler of queue pairs. An XRC target queue pair may have no object any more.
    on_qp_event: qp;
    /// The event handler of shared receive queues.
    on_srq_event: srq;
    /// The event handler of work queues.
    on_wq_event: wq;
}
