// SPDX-License-Identifier: GPL-2.0

//! Completion channels and async event files: the queues of events that user space reads, and the objects that report events.
//!
//! A completion channel is an [`EventFile`], an async event file an [`AsyncFile`]. Both are the memory of an `ib_uobject`: zeroed
//! at first, counted by its reference count, and freed by RCU without being dropped. They only own pending events, which are
//! freed when the file is closed.
//!
//! An object that reports events has a [`Source`] for each file that it reports to. When the object is destroyed, its pending
//! events are freed; the number of those that were read is the response, for which libibverbs waits until they are acknowledged.
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `Queue::state` | the pending events of a file, in its own list and in those of their sources; whether it is closed | any context | the lock of the wait queue |
//!
//! C headers: `include/uapi/rdma/ib_user_verbs.h`, `include/rdma/uverbs_types.h`.

use core::{
    cell::UnsafeCell,
    mem::offset_of,
    pin::Pin,
    ptr::{self, NonNull},
    sync::atomic::{AtomicPtr, AtomicU32, Ordering},
};

use kernel::{
    error::code::ERESTARTSYS,
    fs::File,
    new_poll_condvar,
    prelude::*,
    sync::{
        aref::{ARef, AlwaysRefCounted},
        poll::{PollCondVar, PollTable},
        rcu,
    },
};
use kernel_ext::{
    entry::view_of,
    fasync::Fasync,
    new_spinlock_irq,
    sync::{SpinLockIrq, SpinLockIrqGuard},
};
use rdma::{
    core::{command::UverbsFile, list, uobject::RemoveReason, Uobject},
    MaySleep,
};
use rdma_bindings::{
    self as bindings, ib_uobject, ib_uverbs_async_event_desc, ib_uverbs_comp_event_desc, list_head,
};

use crate::{
    class::{Class, Destroying},
    init_once::InitOnce,
    new::NewObject,
};

/// An event as user space reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Report {
    /// A completion queue has completions: user space's identifier of the queue.
    Completion(u64),
    /// An asynchronous event of an object, a port or the device.
    Async {
        /// User space's identifier of the object, or the port number; 0 for the device.
        element: u64,
        /// `IB_EVENT_*`.
        kind: u32,
    },
}

impl Report {
    /// The length of what user space reads, in bytes: `struct ib_uverbs_comp_event_desc`, `struct ib_uverbs_async_event_desc`.
    pub fn size(&self) -> usize {
        match self {
            Self::Completion(_) => size_of::<ib_uverbs_comp_event_desc>(),
            Self::Async { .. } => size_of::<ib_uverbs_async_event_desc>(),
        }
    }

    /// What user space reads: the first [`size`](Self::size) bytes.
    pub fn bytes(&self) -> [u8; size_of::<ib_uverbs_async_event_desc>()] {
        let (element, kind) = match *self {
            Self::Completion(handle) => (handle, 0),
            Self::Async { element, kind } => (element, kind),
        };
        let mut bytes = [0; size_of::<ib_uverbs_async_event_desc>()];
        if let Some(to) = bytes.first_chunk_mut() {
            *to = element.to_ne_bytes();
        }
        let kind_at = offset_of!(ib_uverbs_async_event_desc, event_type);
        for (to, from) in bytes.iter_mut().skip(kind_at).zip(kind.to_ne_bytes()) {
            *to = from;
        }
        bytes
    }
}

/// A pending event.
///
/// # Invariants
///
/// `in_file` is in the list of a file's events. `source` is null, or an open source of that file, and `in_source` is in the
/// list of its events.
struct Event {
    in_file: list_head,
    in_source: list_head,
    source: *const Source,
    report: Report,
}

impl Event {
    /// Removes an event from its lists.
    ///
    /// # Safety
    ///
    /// `event` is in the lists of a file whose lock is held; the caller removes it with this call alone.
    unsafe fn unlink(event: *mut Self) -> KBox<Self> {
        // SAFETY: By the safety requirements and the type invariants; an event in the lists was leaked from a box.
        unsafe {
            list::remove(&raw mut (*event).in_file);
            if !(*event).source.is_null() {
                list::remove(&raw mut (*event).in_source);
            }
            KBox::from_raw(event)
        }
    }
}

/// The state of a queue.
struct State {
    /// Whether the file is closed: no event is added or awaited any more.
    closed: bool,
    /// The pending events, oldest first. The list is initialised in place.
    events: list_head,
}

// SAFETY: Events may be used from any thread.
unsafe impl Send for State {}

impl State {
    fn events(&mut self) -> *mut list_head {
        &raw mut self.events
    }

    /// The oldest event.
    fn first(&mut self) -> Option<NonNull<Event>> {
        // SAFETY: The state is locked, and its list is one of events.
        let link = unsafe { list::first(self.events()) }?;
        NonNull::new(
            link.cast::<u8>()
                .wrapping_sub(offset_of!(Event, in_file))
                .cast(),
        )
    }

    /// Removes the oldest event.
    fn pop(&mut self) -> Option<KBox<Event>> {
        let event = self.first()?;
        // SAFETY: The event is in the list, which is locked.
        Some(unsafe { Event::unlink(event.as_ptr()) })
    }
}

/// The events of a file, and the tasks that wait for them.
#[pin_data]
struct Queue {
    #[pin]
    state: SpinLockIrq<State>,
    #[pin]
    wait: PollCondVar,
    fasync: Fasync,
}

impl Queue {
    fn new() -> impl PinInit<Self> {
        let state = State {
            closed: false,
            events: pin_init::zeroed(),
        };
        pin_init!(Self {
            state <- new_spinlock_irq!(state, "Queue::state"),
            wait <- new_poll_condvar!("Queue::wait"),
            fasync: Fasync::new(),
        })
    }

    /// Wakes up all waiters.
    fn notify(&self) {
        self.wait.notify_all();
        self.fasync.notify();
    }
}

/// The memory of an [`EventFile`].
#[repr(C)]
pub struct RawEventFile {
    uobject: ib_uobject,
    queue: InitOnce<Queue>,
}

view_of! {
    /// A file of events: a completion channel, `struct ib_uverbs_completion_event_file`.
    pub struct EventFile(RawEventFile);
}

// SAFETY: The reference count is that of the `ib_uobject`.
unsafe impl AlwaysRefCounted for EventFile {
    fn inc_ref(&self) {
        self.uobject().inc_ref();
    }

    unsafe fn dec_ref(file: NonNull<Self>) {
        // SAFETY: By the safety requirements; the file begins with the object.
        unsafe { Uobject::dec_ref(file.cast()) };
    }
}

impl EventFile {
    /// The common part of all objects.
    #[inline]
    pub fn uobject(&self) -> &Uobject {
        // SAFETY: The file begins with the object.
        unsafe { &*self.as_raw().cast() }
    }

    /// The queue, once it is initialised.
    fn queue(&self) -> Option<Pin<&Queue>> {
        self.queue_member().get()
    }

    fn queue_member(&self) -> &InitOnce<Queue> {
        // SAFETY: The member may be shared from the beginning: zeros are a valid `InitOnce`.
        unsafe { &(*self.as_raw()).queue }
    }

    /// Opens a new file, without events. Later calls do nothing.
    fn init(&self) {
        self.queue_member().init(Queue::new(), |queue| {
            let mut state = queue.state.lock();
            // SAFETY: The state is locked, so this thread has exclusive access to the list, which does not move.
            unsafe { list::init(state.events()) };
        });
    }

    /// Adds an event of the device, unless the file is closed, and wakes up readers. Any context.
    ///
    /// The event is lost if memory is short.
    pub fn push(&self, report: Report) {
        self.push_of(report, None);
    }

    fn push_of(&self, report: Report, source: Option<&Source>) {
        let Some(queue) = self.queue() else {
            return;
        };
        let Ok(event) = Self::new_event(report, source) else {
            return;
        };
        let mut state = queue.state.lock();
        let open = source.is_none_or(|source| source.is_of(self));
        if state.closed || !open {
            return;
        }
        let event = KBox::into_raw(event);
        // INVARIANT: The source, if any, is open and belongs to this file.
        // SAFETY: The event is new, and the lock of the lists is held.
        unsafe {
            list::append(state.events(), &raw mut (*event).in_file);
            if let Some(source) = source {
                list::append(source.events.get(), &raw mut (*event).in_source);
            }
        }
        drop(state);
        queue.notify();
    }

    fn new_event(report: Report, source: Option<&Source>) -> Result<KBox<Event>> {
        let event = Event {
            in_file: pin_init::zeroed(),
            in_source: pin_init::zeroed(),
            source: source.map_or(ptr::null(), ptr::from_ref),
            report,
        };
        Ok(KBox::new(event, GFP_ATOMIC)?)
    }

    /// Removes the oldest event, if it fits into `room` bytes, and counts it for its object. If there is none and `wait` is set,
    /// sleeps until there is one.
    ///
    /// # Errors
    ///
    /// `EIO` if the file is closed, `EAGAIN` if there is no event, `EINVAL` if it does not fit, `ERESTARTSYS` for a
    /// signal.
    pub fn take(&self, wait: bool, room: usize, _sleep: &MaySleep) -> Result<Report> {
        let queue = self.queue().ok_or(EIO)?;
        let mut state = queue.state.lock();
        let first = Self::wait_for_first(&queue, &mut state, wait)?;
        // SAFETY: The event is in the list, which is locked.
        if unsafe { first.as_ref() }.report.size() > room {
            return Err(EINVAL);
        }
        // SAFETY: The event is in the list, which is locked.
        let event = unsafe { Event::unlink(first.as_ptr()) };
        // SAFETY: By the invariants of an event in the list its source is open, and so valid.
        if let Some(source) = unsafe { event.source.as_ref() } {
            source.reported.fetch_add(1, Ordering::Relaxed);
        }
        drop(state);
        Ok(event.report)
    }

    fn wait_for_first(
        queue: &Queue,
        state: &mut SpinLockIrqGuard<'_, State>,
        wait: bool,
    ) -> Result<NonNull<Event>> {
        loop {
            if let Some(first) = state.first() {
                return Ok(first);
            }
            if state.closed {
                return Err(EIO);
            }
            if !wait {
                return Err(EAGAIN);
            }
            if queue.wait.wait_interruptible(state) && state.first().is_none() && !state.closed {
                return Err(ERESTARTSYS);
            }
        }
    }

    /// The mask of `poll`: readable, or an error when the file is closed.
    pub fn poll(&self, file: &File, table: PollTable<'_>) -> u32 {
        let Some(queue) = self.queue() else {
            return bindings::POLLERR;
        };
        // `file` holds a reference to this object, and its pollers have left the wait queue when the file is released.
        table.register_wait(file, &queue.get_ref().wait);
        let mut state = queue.state.lock();
        if state.first().is_some() {
            bindings::POLLIN | bindings::POLLRDNORM
        } else if state.closed {
            bindings::POLLERR
        } else {
            0
        }
    }

    /// The list of files that get `SIGIO` when there is an event.
    pub fn fasync(&self) -> Option<&Fasync> {
        self.queue().map(|queue| &queue.get_ref().fasync)
    }

    /// Frees the pending events, adds no more, and wakes up readers. Process context.
    pub fn close(&self) {
        let Some(queue) = self.queue() else {
            return;
        };
        let mut state = queue.state.lock();
        state.closed = true;
        while state.pop().is_some() {}
        drop(state);
        queue.notify();
    }
}

/// The memory of an [`AsyncFile`].
#[repr(C)]
pub struct RawAsyncFile {
    file: RawEventFile,
    handler: bindings::ib_event_handler,
}

view_of! {
    /// An async event file: `struct ib_uverbs_async_event_file`.
    pub struct AsyncFile(RawAsyncFile);
}

// SAFETY: The reference count is that of the `ib_uobject`.
unsafe impl AlwaysRefCounted for AsyncFile {
    fn inc_ref(&self) {
        self.uobject().inc_ref();
    }

    unsafe fn dec_ref(file: NonNull<Self>) {
        // SAFETY: By the safety requirements; the file begins with the object.
        unsafe { Uobject::dec_ref(file.cast()) };
    }
}

impl AsRef<EventFile> for EventFile {
    fn as_ref(&self) -> &EventFile {
        self
    }
}

impl AsRef<EventFile> for AsyncFile {
    fn as_ref(&self) -> &EventFile {
        self
    }
}

impl core::ops::Deref for AsyncFile {
    type Target = EventFile;

    #[inline]
    fn deref(&self) -> &EventFile {
        // SAFETY: The structure begins with that.
        unsafe { &*self.as_raw().cast() }
    }
}

impl NewObject<'_, CompletionChannel> {
    /// Completes and opens the channel, without events.
    pub fn start(self) {
        self.init();
        self.finish();
    }
}

impl NewObject<'_, AsyncEvents> {
    /// Completes and opens the file, which gets the events of the device from now on.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is in no context.
    pub fn start(self, _sleep: &MaySleep) -> Result {
        let device = self.context()?.device().as_raw();
        self.init();
        // SAFETY: The object is new, so that only this thread uses the handler. The object is completed below, so
        // `AsyncEvents::detach`, which unregisters the handler, is called before it is freed.
        unsafe {
            let handler = &raw mut (*self.as_raw()).handler;
            (*handler).device = device;
            (*handler).handler = Some(on_device_event);
            list::init(&raw mut (*handler).list);
            bindings::ib_register_event_handler(handler);
        }
        self.finish();
        Ok(())
    }
}

/// # Safety
///
/// ib_core calls it with the handler of an [`AsyncFile`], until it is unregistered.
unsafe extern "C" fn on_device_event(
    handler: *mut bindings::ib_event_handler,
    event: *mut bindings::ib_event,
) {
    // SAFETY: By the safety requirements. The element of a device's event is the port number.
    let (file, element, kind) = unsafe {
        let file = handler
            .byte_sub(offset_of!(RawAsyncFile, handler))
            .cast::<EventFile>();
        (&*file, (*event).element.port_num, (*event).event)
    };
    file.push(Report::Async {
        element: element.into(),
        kind,
    });
}

/// The default async event file of a device file: the first that was created. Objects without another one report to it. `None`
/// if there is none yet.
pub fn default_async(file: &UverbsFile) -> Option<ARef<AsyncFile>> {
    let default = default_member(file).load(Ordering::Acquire);
    // SAFETY: The file holds a reference after the pointer is set.
    unsafe { default.as_ref() }.map(ARef::from)
}

/// Makes an async event file the default, if there is none yet.
pub fn set_default_async(file: &UverbsFile, default: &AsyncFile) {
    let reference = ARef::into_raw(ARef::from(default));
    let set = default_member(file).compare_exchange(
        ptr::null_mut(),
        reference.as_ptr(),
        Ordering::AcqRel,
        Ordering::Acquire,
    );
    if set.is_err() {
        // SAFETY: The exchange has failed, so this function still owns the reference.
        drop(unsafe { ARef::from_raw(reference) });
    }
}

fn default_member(file: &UverbsFile) -> &AtomicPtr<AsyncFile> {
    // SAFETY: The member is a pointer that is valid as long as the file. Only this module and the release of the file access it,
    // atomically.
    unsafe { AtomicPtr::from_ptr((&raw mut (*file.as_raw()).default_async_file).cast()) }
}

/// The events of one object in one file. Zeroed memory is a source without a file.
///
/// It is a member of the memory of an object, which does not move.
///
/// # Invariants
///
/// `file` is null, or a file to which `self` owns a reference. Then `events`, protected by the file's lock, is the list of those
/// of the file's events whose source is `self`.
#[repr(C)]
pub struct Source {
    file: AtomicPtr<EventFile>,
    events: UnsafeCell<list_head>,
    reported: AtomicU32,
}

// SAFETY: Members that are not atomic are protected by the file's lock.
unsafe impl Send for Source {}
// SAFETY: Members that are not atomic are protected by the file's lock.
unsafe impl Sync for Source {}

impl Source {
    /// Starts reporting to `file`, unless the source has a file already.
    pub fn open(&self, file: Option<ARef<EventFile>>) {
        let Some(file) = file else {
            return;
        };
        let Some(queue) = file.queue() else {
            return;
        };
        let raw = file.as_raw().cast::<EventFile>();
        let _state = queue.state.lock();
        let opened =
            self.file
                .compare_exchange(ptr::null_mut(), raw, Ordering::AcqRel, Ordering::Acquire);
        if opened.is_ok() {
            // INVARIANT: The source owns the reference from now on.
            // SAFETY: The list is accessed under the file's lock, which is held.
            unsafe { list::init(self.events.get()) };
            core::mem::forget(file.clone());
        }
    }

    fn is_of(&self, file: &EventFile) -> bool {
        ptr::eq(self.file.load(Ordering::Acquire), file)
    }

    /// The file, whose memory is freed by RCU and so valid as long as the guard.
    fn file<'a>(&self, _guard: &'a rcu::Guard) -> Option<&'a EventFile> {
        // SAFETY: The source owns a reference to the file, or has dropped it after the guard's critical section has begun.
        unsafe { self.file.load(Ordering::Acquire).as_ref() }
    }

    /// Reports an event. Any context.
    #[inline]
    pub fn report(&self, report: Report) {
        let guard = rcu::read_lock();
        if let Some(file) = self.file(&guard) {
            file.push_of(report, Some(self));
        }
    }

    /// Stops reporting, and frees the pending events. Any context.
    pub fn close(&self) {
        let guard = rcu::read_lock();
        let Some(file) = self.file(&guard) else {
            return;
        };
        let Some(queue) = file.queue() else {
            return;
        };
        let state = queue.state.lock();
        if !self.is_of(file) {
            return;
        }
        // SAFETY: By the type invariants the list is one of events; the file's lock is held.
        unsafe {
            while let Some(link) = list::first(self.events.get()) {
                drop(Event::unlink(
                    link.byte_sub(offset_of!(Event, in_source)).cast(),
                ));
            }
        }
        self.file.store(ptr::null_mut(), Ordering::Release);
        drop(state);
        // SAFETY: The source owned the reference, and the pointer was just cleared.
        drop(unsafe { ARef::from_raw(NonNull::from(file)) });
    }

    /// The number of its events that user space has read.
    pub fn reported(&self) -> u32 {
        self.reported.load(Ordering::Relaxed)
    }
}

/// The class of completion channels.
pub struct CompletionChannel;

// SAFETY: ib_uverbs has a table entry of the class with this ID; the structure begins with the `ib_uobject`, and zeros are a file
// that is not initialised yet.
unsafe impl Class for CompletionChannel {
    const ID: u16 = bindings::UVERBS_OBJECT_COMP_CHANNEL as u16;
    type Memory = EventFile;
    const IS_FILE: bool = true;
}

/// The class of async event files.
pub struct AsyncEvents;

// SAFETY: ib_uverbs has a table entry of the class with this ID; the structure begins with the `ib_uobject`, and zeros are a file
// that is not initialised yet.
unsafe impl Class for AsyncEvents {
    const ID: u16 = bindings::UVERBS_OBJECT_ASYNC_EVENT as u16;
    type Memory = AsyncFile;
    const IS_FILE: bool = true;

    fn detach(file: Destroying<'_, Self>, _why: RemoveReason, _sleep: &MaySleep) {
        // SAFETY: The object is complete, so `start` has registered the handler, and its `detach` is called once.
        unsafe { bindings::ib_unregister_event_handler(&raw mut (*file.as_raw()).handler) };
    }
}
