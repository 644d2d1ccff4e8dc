// SPDX-License-Identifier: GPL-2.0

//! Queue pairs and the attributes that create and modify them: `struct ib_qp`, `ib_qp_init_attr`, `ib_qp_attr`.
//!
//! An XRC target queue pair is shared: it has *handles*. A handle is a `struct ib_qp` that only the core uses, and whose
//! `real_qp` is the driver's queue pair.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::{
    marker::PhantomData,
    ops::Deref,
    ptr::{null_mut, NonNull},
    sync::atomic::{AtomicPtr, Ordering},
};

use kernel::{
    ffi::{c_char, c_int, c_void},
    prelude::*,
    sync::aref::ARef,
};
use kernel_ext::{
    entry::{view_of, FromC},
    net::device::NetDevice,
    sync::Completion,
};
use rdma_bindings::{
    self as bindings, ib_event, ib_qp, ib_qp_attr, ib_qp_init_attr, ib_qp_open_attr, ib_uqp_object,
};

use super::{
    ah_attr::AhVector,
    comp_cntr,
    gid::GidRef,
    list,
    object::{
        begin_entry, constants, counted, links, optional_links, tracked, DriverObject, Fresh,
        Owned, UdataView, UseCount,
    },
    AttrBundle, Cq, Device, Pd, Qp, RwqIndTable, Srq, Xrcd,
};
use crate::MaySleep;

// SAFETY: The structure consists of pointers and numbers, and of locks and lists that `new_qp` initialises.
unsafe impl DriverObject for Qp {
    const NUMA: bool = true;

    #[inline]
    fn size(ops: &bindings::ib_device_ops) -> usize {
        ops.size_ib_qp
    }

    begin_entry!(RDMA_RESTRACK_QP);
}
counted!(Qp);
tracked!(Qp);
counted!(RwqIndTable);

view_of! {
    /// The attributes of a queue pair that is to be created; the driver updates them to what it has created: `struct
    /// ib_qp_init_attr`.
    ///
    /// # Invariants
    ///
    /// The structure is filled in, and lent for writing to the verb that creates the queue pair.
    pub struct QpInit(ib_qp_init_attr);
}

view_of! {
    /// The attributes for opening a shared queue pair: `struct ib_qp_open_attr`.
    ///
    /// # Invariants
    ///
    /// The structure is filled in, and does not change while it is borrowed.
    pub struct QpOpen(ib_qp_open_attr);
}

view_of! {
    /// A user object that is a queue pair: `struct ib_uqp_object`, as an argument of C.
    ///
    /// # Invariants
    ///
    /// The object stays until the queue pair is destroyed that is made for it.
    pub struct UqpObject(ib_uqp_object);
}

impl QpInit {
    constants! {
        /// `enum ib_qp_type`.
        kind: u32 = qp_type;
        /// `enum ib_qp_create_flags`.
        create_flags: u32 = create_flags;
        /// The port, for the types of queue pairs that need one at creation.
        port_num: u32 = port_num;
        /// The number of contexts of the RW API in use at once; 0 if the API is not used.
        max_rdma_ctxs: u32 = cap.max_rdma_ctxs;
        /// The capacity of the send queue in requests.
        max_send_wr: u32 = cap.max_send_wr;
        /// The number of scatter/gather elements of a send request, at most.
        max_send_sge: u32 = cap.max_send_sge;
    }
    optional_links! {
        /// The XRC domain, for an XRC target queue pair.
        xrcd: Xrcd = xrcd;
    }

    /// Whether the queue pair is to support data integrity (`IB_QP_CREATE_INTEGRITY_EN`).
    pub fn wants_integrity(&self) -> bool {
        self.create_flags() & bindings::IB_QP_CREATE_INTEGRITY_EN as u32 != 0
    }
}

/// A [`QpInit`] with exclusive access, during one call of C.
///
/// # Invariants
///
/// Nobody else uses the structure as long as this value exists.
pub struct QpInitMut<'a>(&'a QpInit);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for QpInitMut<'_> {
    type Raw = *mut ib_qp_init_attr;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the structure is valid, and filled in; a view is a transparent wrapper.
        // INVARIANT: By the header the verb updates the structure, which is the caller's own.
        Self(unsafe { &*raw.cast() })
    }
}

impl Deref for QpInitMut<'_> {
    type Target = QpInit;

    #[inline]
    fn deref(&self) -> &QpInit {
        self.0
    }
}

impl QpInitMut<'_> {
    /// Sets the capacity of the send queue in requests, before the queue pair is created.
    pub fn set_max_send_wr(&mut self, max_send_wr: u32) {
        // SAFETY: By the type invariants there is no other user, and `self` is borrowed mutably.
        unsafe { (*self.as_raw()).cap.max_send_wr = max_send_wr };
    }
}

impl QpOpen {
    constants! {
        /// `enum ib_qp_type`.
        kind: u32 = qp_type;
        /// The number of the queue pair.
        qp_num: u32 = qp_num;
    }
}

impl Qp {
    links! {
        /// The device.
        device: Device = device;
        /// The driver's queue pair: `self`, or the one that `self` is a handle of.
        real: Qp = real_qp;
    }
    optional_links! {
        /// The protection domain; XRC target queue pairs have none.
        pd: Pd = pd;
        /// The completion queue of send requests.
        send_cq: Cq = send_cq;
        /// The completion queue of receive requests.
        recv_cq: Cq = recv_cq;
        /// The shared receive queue.
        srq: Srq = srq;
        /// The indirection table of receive work queues.
        rwq_ind_tbl: RwqIndTable = rwq_ind_tbl;
        /// The XRC domain, for an XRC target queue pair.
        xrcd: Xrcd = xrcd;
    }
    constants! {
        /// `enum ib_qp_type`.
        kind: u32 = qp_type;
        /// The number.
        qp_num: u32 = qp_num;
        /// The number of scatter/gather elements of an RDMA WRITE, at most.
        max_write_sge: u32 = max_write_sge;
        /// The number of scatter/gather elements of an RDMA READ, at most.
        max_read_sge: u32 = max_read_sge;
        /// Whether the queue pair supports data integrity.
        integrity_en: bool = integrity_en;
    }

    /// Whether this is a handle of a shared queue pair.
    #[inline]
    pub fn is_handle(&self) -> bool {
        !core::ptr::eq(self, self.real())
    }

    /// Whether user space has created the queue pair.
    #[inline]
    pub fn is_of_user(&self) -> bool {
        // SAFETY: The member is constant.
        unsafe { !(*self.as_raw()).uobject.is_null() }
    }

    /// Whether the queue pair is bound to a counter.
    #[inline]
    pub fn has_counter(&self) -> bool {
        // SAFETY: A concurrent writer uses a single store.
        unsafe {
            !(&raw const (*self.as_raw()).counter)
                .read_volatile()
                .is_null()
        }
    }

    /// The number of regions of the queue pair's pools that are lent.
    #[inline]
    pub fn mrs_used(&self) -> c_int {
        // SAFETY: A concurrent writer uses a single store.
        unsafe { (&raw const (*self.as_raw()).mrs_used).read_volatile() }
    }

    /// Sets the port. Called when the queue pair is modified.
    pub fn set_port(&self, port: u32) {
        // SAFETY: Any value is valid; readers use a single load.
        unsafe { (&raw mut (*self.as_raw()).port).write_volatile(port) };
    }

    /// Sets the source GID of a path, and drops the former one. Threads may call it concurrently.
    pub fn set_source(&self, path: Path, source: Option<GidRef>) {
        let source = source.map_or(core::ptr::null(), GidRef::into_raw);
        // SAFETY: The members are pointers, which are exchanged atomically.
        let old = unsafe {
            let raw = self.as_raw();
            let member = match path {
                Path::Primary => &raw mut (*raw).av_sgid_attr,
                Path::Alternate => &raw mut (*raw).alt_path_sgid_attr,
            };
            AtomicPtr::from_ptr(member.cast()).swap(source.cast_mut(), Ordering::AcqRel)
        };
        // SAFETY: The queue pair owned the reference, which the exchange has removed.
        drop((!old.is_null()).then(|| unsafe { GidRef::from_raw(old) }));
    }

    /// The completion of the event `IB_EVENT_QP_LAST_WQE_REACHED`.
    pub fn last_wqe_reached(&self) -> &Completion {
        // SAFETY: The member is initialised when the queue pair is allocated; the wrapper is transparent.
        unsafe { &*(&raw const (*self.as_raw()).srq_completion).cast() }
    }

    /// Passes an event to the client that has created the queue pair.
    fn tell_client(&self, event: *mut ib_event) {
        // SAFETY: The members are constant, and the client's handler is valid as long as the queue pair.
        unsafe {
            let raw = self.as_raw();
            if let Some(handler) = (*raw).registered_event_handler {
                handler(event, (*raw).qp_context);
            }
        }
    }

    /// Passes an event to the owners of all handles, with the owner's handle in it.
    fn tell_handles(&self, event: *mut ib_event) {
        let _locked = self.lock_handles();
        let head = self.handles();
        let mut at = head;
        // SAFETY: The lock is held; a handle in the list is valid, and so is its handler.
        unsafe {
            while let Some(entry) = list::after(head, at) {
                let handle = kernel::container_of!(entry, ib_qp, open_list);
                (*event).element.qp = handle;
                if let Some(handler) = (*handle).event_handler {
                    handler(event, (*handle).qp_context);
                }
                at = entry;
            }
        }
    }

    fn handles(&self) -> *mut bindings::list_head {
        // SAFETY: The member lies in the queue pair, which is valid as `self` is.
        unsafe { &raw mut (*self.as_raw()).open_list }
    }

    fn lock_handles(&self) -> list::Locked {
        // SAFETY: The lock is initialised with the device.
        unsafe { list::Locked::take(&raw mut (*self.device().as_raw()).qp_open_list_lock) }
    }

    /// Opens a handle of a shared queue pair.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn open(&self, handlers: QpHandlers, sleep: &MaySleep) -> Result<Owned<Qp>> {
        let mut handle = Fresh::<Self>::alloc_core(sleep)?;
        let raw: &mut ib_qp = handle.raw();
        raw.real_qp = self.as_raw();
        raw.device = self.device().as_raw();
        raw.event_handler = handlers.event;
        raw.qp_context = handlers.context;
        raw.qp_num = self.qp_num();
        raw.qp_type = self.kind();
        self.uses().inc();
        let _locked = self.lock_handles();
        // SAFETY: The lock is held, and the new handle is in no list.
        unsafe { list::insert_after(self.handles(), &raw mut raw.open_list) };
        Ok(handle.core_only())
    }
}

/// A path of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Path {
    /// The path that packets take.
    Primary,
    /// The alternate path, for automatic path migration.
    Alternate,
}

/// The handler of a queue pair's events, with its context.
pub struct QpHandlers {
    event: super::cq::EventFn,
    context: *mut c_void,
}

impl QpInit {
    /// The handler of events.
    pub fn handlers(&self) -> QpHandlers {
        // SAFETY: By the type invariants the structure is filled in.
        let raw = unsafe { &*self.as_raw() };
        QpHandlers {
            event: raw.event_handler,
            context: raw.qp_context,
        }
    }
}

impl QpOpen {
    /// The handler of events.
    pub fn handlers(&self) -> QpHandlers {
        // SAFETY: By the type invariants the structure is filled in.
        let raw = unsafe { &*self.as_raw() };
        QpHandlers {
            event: raw.event_handler,
            context: raw.qp_context,
        }
    }
}

impl Qp {
    /// The use counts of the objects that the queue pair uses.
    pub fn used(&self) -> impl Iterator<Item = UseCount<'_>> {
        [
            self.pd().map(Pd::uses),
            self.send_cq().map(Cq::uses),
            self.recv_cq().map(Cq::uses),
            self.srq().map(Srq::uses),
            self.rwq_ind_tbl().map(RwqIndTable::uses),
        ]
        .into_iter()
        .flatten()
    }
}

impl Fresh<Qp> {
    /// As [`Qp::used`].
    pub fn used(&self) -> impl Iterator<Item = UseCount<'_>> {
        // SAFETY: Only the members are read.
        unsafe { self.members() }.used()
    }

    /// Whether the protection domain, the completion queues and the shared receive queue are of the queue pair's device.
    pub fn is_of_one_device(&self) -> bool {
        // SAFETY: Only the members are read.
        let qp = unsafe { self.members() };
        [
            qp.pd().map(Pd::device),
            qp.send_cq().map(Cq::device),
            qp.recv_cq().map(Cq::device),
            qp.srq().map(Srq::device),
        ]
        .into_iter()
        .flatten()
        .all(|device| core::ptr::eq(device, qp.device()))
    }

    /// As [`Qp::xrcd`].
    pub fn xrcd(&self) -> Option<&Xrcd> {
        // SAFETY: Only the member is read.
        unsafe { self.members() }.xrcd()
    }

    /// As [`Qp::set_source`].
    pub fn set_source(&self, path: Path, source: Option<GidRef>) {
        // SAFETY: Only the members are used.
        unsafe { self.members() }.set_source(path, source);
    }

    /// Allocates a queue pair, and fills in the core's part.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new_qp(
        device: &Device,
        pd: Option<&Pd>,
        init: &QpInit,
        uobject: Option<&UqpObject>,
        sleep: &MaySleep,
    ) -> Result<Self> {
        // SAFETY: By the type invariants the structure is filled in.
        let init = unsafe { &*init.as_raw() };
        let mut qp = Self::alloc(device, Some(sleep))?;
        let raw: &mut ib_qp = qp.raw();
        raw.device = device.as_raw();
        raw.pd = pd.map_or(null_mut(), Pd::as_raw);
        raw.uobject = uobject.map_or(null_mut(), UqpObject::as_raw);
        raw.real_qp = raw;
        raw.qp_type = init.qp_type;
        raw.rwq_ind_tbl = init.rwq_ind_tbl;
        raw.srq = init.srq;
        raw.event_handler = Some(event);
        raw.registered_event_handler = init.event_handler;
        raw.port = init.port_num;
        raw.qp_context = init.qp_context;
        raw.send_cq = init.send_cq;
        raw.recv_cq = init.recv_cq;
        // SAFETY: `self` owns the memory, which is not moved.
        unsafe { bindings::ib_qp_init_members(raw) };
        comp_cntr::begin(raw);
        Ok(qp)
    }
}

impl Owned<Qp> {
    /// Restores the completion queues that the client has requested: a driver may have replaced them while it created the
    /// queue pair.
    ///
    /// # Safety
    ///
    /// The driver has just created the queue pair, and only this thread uses it.
    pub unsafe fn restore_cqs(&self, init: &QpInit) {
        // SAFETY: By the safety requirements; by its invariants `init` is filled in.
        unsafe {
            (*self.as_raw()).send_cq = (*init.as_raw()).send_cq;
            (*self.as_raw()).recv_cq = (*init.as_raw()).recv_cq;
        }
    }

    /// Sets the limits of requests that the RW API reads.
    pub fn set_limits(&mut self, max_write_sge: u32, max_read_sge: u32, integrity_en: bool) {
        // SAFETY: Only the owner writes the members, by single stores, and `self` is borrowed mutably.
        unsafe {
            let raw = self.as_raw();
            (&raw mut (*raw).max_write_sge).write_volatile(max_write_sge);
            (&raw mut (*raw).max_read_sge).write_volatile(max_read_sge);
            (&raw mut (*raw).integrity_en).write_volatile(integrity_en);
        }
    }

    /// Turns the queue pair into a shared one of an XRC domain: it has no queues of its own, and its events go to its
    /// handles.
    pub fn make_shared(&mut self, xrcd: &Xrcd) {
        xrcd.uses().inc();
        // SAFETY: Only the owner writes the members, and `self` is borrowed mutably; `inc` has counted the queue pair as a
        // user of the domain.
        unsafe {
            let raw = self.as_raw();
            (*raw).event_handler = Some(shared_event);
            (*raw).qp_context = raw.cast();
            (*raw).pd = null_mut();
            (*raw).send_cq = null_mut();
            (*raw).recv_cq = null_mut();
            (*raw).srq = null_mut();
            (*raw).xrcd = xrcd.as_raw();
        }
    }

    /// Sets the user object of a handle.
    pub fn set_uobject(&mut self, uobject: Option<&UqpObject>) {
        // SAFETY: Only the owner writes the member, and `self` is borrowed mutably. By its invariants the object stays.
        unsafe { (*self.as_raw()).uobject = uobject.map_or(null_mut(), UqpObject::as_raw) };
    }

    /// Closes a handle.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the queue pair is no handle, which then stays as it is.
    pub fn close(self) -> Result {
        if !self.is_handle() {
            return Err(EINVAL);
        }
        let real = self.real();
        {
            let _locked = real.lock_handles();
            // SAFETY: The lock is held, and an open handle is in the list of its queue pair.
            unsafe { list::remove(&raw mut (*self.as_raw()).open_list) };
        }
        // SAFETY: `open` has counted the handle, which was just removed from the list.
        unsafe { real.uses().dec() };
        // SAFETY: The handle is not in the list any more, so that events do not reach it, and `self` was its owner.
        drop(unsafe { self.into_memory() });
        Ok(())
    }

    /// Closes a handle of an XRC target queue pair. If it was the last one, the queue pair is removed from its domain, and
    /// returned to be destroyed.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the queue pair is no such handle, which then stays as it is.
    pub fn close_shared(self, sleep: &MaySleep) -> Result<Option<Owned<Qp>>> {
        let real = NonNull::from(self.real());
        // SAFETY: The handle counts as a user of the queue pair. After it is closed the domain's semaphore is held, which the
        // closer of the last handle takes to remove the queue pair from the domain, before it destroys the queue pair.
        let (real, raw) = unsafe { (real.as_ref(), real.cast::<ib_qp>()) };
        let xrcd = real.xrcd().ok_or(EINVAL)?;
        let targets = xrcd.lock_targets(sleep);
        self.close()?;
        if real.uses().is_used() {
            return Ok(None);
        }
        targets.withdraw(real);
        // SAFETY: The handles owned the queue pair; none is left, and none can be opened any more.
        Ok(Some(unsafe { Owned::from_raw(raw) }))
    }
}

/// # Safety
///
/// `event` is a valid event of a queue pair.
unsafe extern "C" fn event(event: *mut ib_event, _context: *mut c_void) {
    // SAFETY: By the safety requirements.
    let (qp, kind) = unsafe { (&*(*event).element.qp.cast::<Qp>(), (*event).event) };
    if kind == bindings::IB_EVENT_QP_LAST_WQE_REACHED {
        qp.last_wqe_reached().complete();
    }
    qp.tell_client(event);
}

/// # Safety
///
/// `context` is a valid shared queue pair, and `event` a valid event of it.
unsafe extern "C" fn shared_event(event: *mut ib_event, context: *mut c_void) {
    // SAFETY: By the safety requirements.
    unsafe { &*context.cast::<Qp>() }.tell_handles(event);
}

/// Attributes for modifying a queue pair (`struct ib_qp_attr`), from which a [`QpChange`] is made.
///
/// # Invariants
///
/// The sources of the address vectors are null.
#[repr(transparent)]
pub struct QpAttr(ib_qp_attr);

impl QpAttr {
    /// Attributes that change the state alone.
    pub fn to_state(state: u32) -> Self {
        let mut attr: ib_qp_attr = pin_init::zeroed();
        attr.qp_state = state;
        // INVARIANT: All attributes are zero, and so are the sources.
        Self(attr)
    }

    /// Zeroed attributes.
    pub fn zeroed() -> Self {
        // INVARIANT: All attributes are zero, and so are the sources.
        Self(pin_init::zeroed())
    }

    /// The C structure, for verbs of C.
    #[inline]
    pub fn as_mut_ptr(&mut self) -> *mut ib_qp_attr {
        &mut self.0
    }

    /// Calls `f` with the C structure. Changes of `f` to the sources and to the net device are reverted.
    pub fn modify(&mut self, f: impl FnOnce(&mut ib_qp_attr)) {
        f(&mut self.0);
        forget_sources(&mut self.0);
        self.0.xmit_slave = null_mut();
    }

    /// The change to the attributes in `mask` (`enum ib_qp_attr_mask`).
    pub fn change(&mut self, mask: u32) -> QpChange<'_> {
        // INVARIANT: All attributes are filled in, and by the type invariants the sources are null.
        QpChange {
            attr: &mut self.0,
            mask,
        }
    }
}

/// Sets the sources of the address vectors to null.
pub(super) fn forget_sources(attr: &mut ib_qp_attr) {
    attr.ah_attr.grh.sgid_attr = core::ptr::null();
    attr.alt_ah_attr.grh.sgid_attr = core::ptr::null();
}

/// A change of a queue pair: attributes, and the mask of those that change.
///
/// # Invariants
///
/// The attributes in the mask are filled in, and an address vector in the mask is a valid [`AhVector`].
pub struct QpChange<'a> {
    attr: &'a mut ib_qp_attr,
    mask: u32,
}

impl QpChange<'_> {
    /// Whether all of these attributes change.
    #[inline]
    pub fn has(&self, attributes: u32) -> bool {
        self.mask & attributes == attributes
    }

    /// The C structure.
    #[inline]
    pub fn raw(&self) -> &ib_qp_attr {
        self.attr
    }

    /// The arguments of a driver's method.
    #[inline]
    pub(crate) fn for_driver(&mut self) -> (*mut ib_qp_attr, c_int) {
        (self.attr, self.mask as c_int)
    }

    /// The address vector of a path, if it changes.
    #[inline]
    pub fn vector(&mut self, path: Path) -> Option<&mut AhVector> {
        let (attribute, raw) = match path {
            Path::Primary => (bindings::IB_QP_AV, &raw mut self.attr.ah_attr),
            Path::Alternate => (bindings::IB_QP_ALT_PATH, &raw mut self.attr.alt_ah_attr),
        };
        // SAFETY: The wrapper is transparent; by the type invariants a vector in the mask is a valid `AhVector`.
        self.has(attribute).then(|| unsafe { &mut *raw.cast() })
    }

    /// Sets the initial PSNs of the receive queue and of the send queue.
    pub fn set_psns(&mut self, rq_psn: u32, sq_psn: u32) {
        self.attr.rq_psn = rq_psn;
        self.attr.sq_psn = sq_psn;
    }

    /// Calls `f` while `xmit_slave` of the attributes is set: the port of a bond that packets leave through.
    pub fn with_slave<R>(
        &mut self,
        slave: Option<&ARef<NetDevice>>,
        f: impl FnOnce(&mut Self) -> R,
    ) -> R {
        self.attr.xmit_slave = slave.map_or(null_mut(), |slave| slave.as_raw().cast());
        let result = f(self);
        self.attr.xmit_slave = null_mut();
        result
    }
}

/// The attributes of a change as an argument of C, which passes the mask as another one.
///
/// The value does not outlive the call of the exported function, and no exported function takes two of them.
pub struct QpAttrArg<'a>(*mut ib_qp_attr, PhantomData<&'a mut ib_qp_attr>);

/// The mask that belongs to a [`QpAttrArg`].
pub struct QpMaskArg<'a>(u32, PhantomData<&'a mut ib_qp_attr>);

impl<'a> QpAttrArg<'a> {
    /// Joins the two arguments.
    pub fn change(self, mask: QpMaskArg<'a>) -> QpChange<'a> {
        // SAFETY: By `FromC` the attributes are valid, and lent for the call.
        let attr = unsafe { &mut *self.0 };
        // INVARIANT: The mask is from the same call. By the header the attributes in it are filled in, with sources that are
        // null or referenced.
        QpChange { attr, mask: mask.0 }
    }
}

// SAFETY: `Raw` is the type in the header.
unsafe impl FromC for QpAttrArg<'_> {
    type Raw = *mut ib_qp_attr;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw, PhantomData)
    }
}

// SAFETY: `Raw` is the `int` of the header.
unsafe impl FromC for QpMaskArg<'_> {
    type Raw = c_int;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw as u32, PhantomData)
    }
}

impl AttrBundle {
    /// The part of the command that is for the driver.
    pub fn driver_udata(&self) -> &UdataView {
        // SAFETY: It is a member of the command; a view is a transparent wrapper.
        unsafe { &*bindings::rdma_driver_udata(self.as_raw()).cast() }
    }
}

/// The name of the kernel module that has created an object, for resource tracking (`KBUILD_MODNAME`).
///
/// # Invariants
///
/// It is null, or a string that is valid as long as the objects of the module.
#[derive(Clone, Copy)]
pub struct Caller(*const c_char);

impl Caller {
    /// No kernel module: the object belongs to the current process.
    pub const PROCESS: Self = Self(core::ptr::null());

    /// A module of the kernel.
    pub const fn kernel(name: &'static CStr) -> Self {
        Self(name.to_bytes_with_nul().as_ptr().cast())
    }

    /// The pointer for resource tracking; null for [`Self::PROCESS`].
    #[inline]
    pub fn as_ptr(self) -> *const c_char {
        self.0
    }
}

impl kernel::fmt::Display for Caller {
    fn fmt(&self, f: &mut kernel::fmt::Formatter<'_>) -> kernel::fmt::Result {
        if self.0.is_null() {
            return f.write_str("user");
        }
        // SAFETY: By the type invariants.
        kernel::fmt::Display::fmt(unsafe { CStr::from_char_ptr(self.0) }, f)
    }
}

// SAFETY: `Raw` is the type in the header.
unsafe impl FromC for Caller {
    type Raw = *const c_char;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // INVARIANT: By the header C passes null, or the name of the module that calls.
        Self(raw)
    }
}
