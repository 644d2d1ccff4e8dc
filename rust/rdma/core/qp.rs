// SPDX-License-Identifier: GPL-2.0

//! Queue pairs and the attributes that create and modify them: `struct ib_qp`, `ib_qp_init_attr`, `ib_qp_attr`.
//!
//! An XRC target queue pair is shared: it has *handles*, each a `struct ib_qp` of the core alone whose `real_qp` is the one
//! that the driver knows.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::{
    marker::PhantomData,
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
    gid::GidRef,
    list,
    object::{
        constants, counted, links, optional_links, tracked, DriverObject, Fresh, Owned, UdataView,
    },
    AttrBundle, Cq, Device, Pd, Qp, RwqIndTable, Srq, Xrcd,
};
use crate::MaySleep;

// SAFETY: The structure has pointers and numbers alone, and locks and lists that `new_qp` sets up.
unsafe impl DriverObject for Qp {
    const NUMA: bool = true;

    #[inline]
    fn size(ops: &bindings::ib_device_ops) -> usize {
        ops.size_ib_qp
    }
}
counted!(Qp);
tracked!(Qp);
counted!(RwqIndTable);

view_of! {
    /// What a queue pair is to be like; what it has become, once the driver has created it.
    ///
    /// # Invariants
    ///
    /// It is filled in, and lent for changing to the verb that makes the queue pair.
    pub struct QpInit(ib_qp_init_attr);
}

view_of! {
    /// How a shared queue pair is opened.
    ///
    /// # Invariants
    ///
    /// It is filled in, and does not change while it is lent.
    pub struct QpOpen(ib_qp_open_attr);
}

view_of! {
    /// An object of user space that is a queue pair.
    pub struct UqpObject(ib_uqp_object);
}

impl QpInit {
    constants! {
        /// `enum ib_qp_type`.
        kind: u32 = qp_type;
        /// `enum ib_qp_create_flags`.
        create_flags: u32 = create_flags;
        /// The port, where one is needed before the queue pair has its own.
        port_num: u32 = port_num;
        /// How many contexts of the RW API it has room for; 0: the API is not used.
        max_rdma_ctxs: u32 = cap.max_rdma_ctxs;
        /// How many send requests it has room for.
        max_send_wr: u32 = cap.max_send_wr;
        /// How many pieces a send request may have.
        max_send_sge: u32 = cap.max_send_sge;
    }
    optional_links! {
        /// The XRC domain, of a target queue pair.
        xrcd: Xrcd = xrcd;
    }

    /// Whether the queue pair is to check the integrity of data.
    pub fn wants_integrity(&self) -> bool {
        self.create_flags() & bindings::IB_QP_CREATE_INTEGRITY_EN as u32 != 0
    }

    /// Asks for another room for send requests. Before the queue pair is created.
    pub fn set_max_send_wr(&self, max_send_wr: u32) {
        // SAFETY: By the type invariants it is lent for changing.
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
        /// The queue pair that the driver knows: itself, or what this is a handle of.
        real: Qp = real_qp;
    }
    optional_links! {
        /// The protection domain; XRC target queue pairs have none.
        pd: Pd = pd;
        /// Where sends complete.
        send_cq: Cq = send_cq;
        /// Where receives complete.
        recv_cq: Cq = recv_cq;
        /// The shared receive queue.
        srq: Srq = srq;
        /// The table of work queues.
        rwq_ind_tbl: RwqIndTable = rwq_ind_tbl;
        /// The XRC domain, of a target queue pair.
        xrcd: Xrcd = xrcd;
    }
    constants! {
        /// `enum ib_qp_type`.
        kind: u32 = qp_type;
        /// The number.
        qp_num: u32 = qp_num;
        /// How many pieces an RDMA WRITE may have.
        max_write_sge: u32 = max_write_sge;
        /// How many pieces an RDMA READ may have.
        max_read_sge: u32 = max_read_sge;
        /// Whether it can check the integrity of data.
        integrity_en: bool = integrity_en;
    }

    /// Whether this is a handle of a shared queue pair.
    #[inline]
    pub fn is_handle(&self) -> bool {
        !core::ptr::eq(self, self.real())
    }

    /// Whether user space has made it.
    #[inline]
    pub fn is_of_user(&self) -> bool {
        // SAFETY: The member is constant.
        unsafe { !(*self.as_raw()).uobject.is_null() }
    }

    /// Whether it is bound to a counter.
    #[inline]
    pub fn has_counter(&self) -> bool {
        // SAFETY: Another CPU writes the pointer whole.
        unsafe {
            !(&raw const (*self.as_raw()).counter)
                .read_volatile()
                .is_null()
        }
    }

    /// How many regions of its pools are lent.
    #[inline]
    pub fn mrs_used(&self) -> c_int {
        // SAFETY: Another CPU writes the number whole.
        unsafe { (&raw const (*self.as_raw()).mrs_used).read_volatile() }
    }

    /// Says which port it has. For who modifies the queue pair: callers of the verb take turns.
    pub fn set_port(&self, port: u32) {
        // SAFETY: Readers read the number whole.
        unsafe { (&raw mut (*self.as_raw()).port).write_volatile(port) };
    }

    /// Gives it the sources of its path, or of its alternate path. For who modifies the queue pair: threads of user space may
    /// do so at once.
    pub fn set_source(&self, path: Path, source: Option<GidRef>) {
        let source = source.map_or(core::ptr::null(), GidRef::into_raw);
        // SAFETY: The members are pointers, which are swapped whole.
        let old = unsafe {
            let raw = self.as_raw();
            let member = match path {
                Path::Primary => &raw mut (*raw).av_sgid_attr,
                Path::Alternate => &raw mut (*raw).alt_path_sgid_attr,
            };
            AtomicPtr::from_ptr(member.cast()).swap(source.cast_mut(), Ordering::AcqRel)
        };
        // SAFETY: The queue pair owned that reference, if there was one.
        drop((!old.is_null()).then(|| unsafe { GidRef::from_raw(old) }));
    }

    /// What waits for the event that the last receive request was taken from the shared receive queue.
    pub fn last_wqe_reached(&self) -> &Completion {
        // SAFETY: The member is set up when the queue pair is made; the wrapper is transparent.
        unsafe { &*(&raw const (*self.as_raw()).srq_completion).cast() }
    }

    /// Tells the client that has made the queue pair of an event.
    fn tell_client(&self, event: *mut ib_event) {
        // SAFETY: The members are constant; the client's handler is there as long as the queue pair.
        unsafe {
            let raw = self.as_raw();
            if let Some(handler) = (*raw).registered_event_handler {
                handler(event, (*raw).qp_context);
            }
        }
    }

    /// Tells the owners of all handles of an event, each with its own handle in it.
    fn tell_handles(&self, event: *mut ib_event) {
        let _locked = self.lock_handles();
        let head = self.handles();
        let mut at = head;
        // SAFETY: The lock is held; a handle in the list is there, and its handler too.
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
        // SAFETY: The member is there.
        unsafe { &raw mut (*self.as_raw()).open_list }
    }

    fn lock_handles(&self) -> list::Locked {
        // SAFETY: The lock was set up with the device.
        unsafe { list::Locked::take(&raw mut (*self.device().as_raw()).qp_open_list_lock) }
    }

    /// Opens a handle.
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
        // SAFETY: The lock is held, and the handle is in no list.
        unsafe { list::insert_after(self.handles(), &raw mut raw.open_list) };
        Ok(handle.core_only())
    }
}

/// Which of the paths of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Path {
    /// The one that packets take.
    Primary,
    /// The one that they may be moved to.
    Alternate,
}

/// Who is told of a queue pair's events, and with what.
pub struct QpHandlers {
    event: super::cq::EventFn,
    context: *mut c_void,
}

impl QpInit {
    /// Who is told of events.
    pub fn handlers(&self) -> QpHandlers {
        // SAFETY: By the type invariants it is filled in.
        let raw = unsafe { &*self.as_raw() };
        QpHandlers {
            event: raw.event_handler,
            context: raw.qp_context,
        }
    }
}

impl QpOpen {
    /// Who is told of events.
    pub fn handlers(&self) -> QpHandlers {
        // SAFETY: By the type invariants it is filled in.
        let raw = unsafe { &*self.as_raw() };
        QpHandlers {
            event: raw.event_handler,
            context: raw.qp_context,
        }
    }
}

impl Fresh<Qp> {
    /// Memory for a queue pair.
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
        // SAFETY: By the type invariants it is filled in.
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
        // SAFETY: The memory is ours, and is not moved.
        unsafe { bindings::ib_qp_init_members(raw) };
        Ok(qp)
    }
}

impl Owned<Qp> {
    /// Puts the completion queues back that the client has asked for: a driver may have put others there while it created
    /// the queue pair.
    ///
    /// # Safety
    ///
    /// The driver has just created the queue pair, which is not handed out yet.
    pub unsafe fn restore_cqs(&self, init: &QpInit) {
        // SAFETY: By the safety requirements; `init` is filled in.
        unsafe {
            (*self.as_raw()).send_cq = (*init.as_raw()).send_cq;
            (*self.as_raw()).recv_cq = (*init.as_raw()).recv_cq;
        }
    }

    /// Says what requests may be like: for the RW API.
    pub fn set_limits(&mut self, max_write_sge: u32, max_read_sge: u32, integrity_en: bool) {
        // SAFETY: The owner alone writes the members, each whole, and `self` is lent once.
        unsafe {
            let raw = self.as_raw();
            (&raw mut (*raw).max_write_sge).write_volatile(max_write_sge);
            (&raw mut (*raw).max_read_sge).write_volatile(max_read_sge);
            (&raw mut (*raw).integrity_en).write_volatile(integrity_en);
        }
    }

    /// Makes it a shared one of an XRC domain: it has no resources of its own, and events go to its handles.
    pub fn make_shared(&mut self, xrcd: &Xrcd) {
        xrcd.uses().inc();
        // SAFETY: The owner alone writes the members, and `self` is lent once; the domain counts the queue pair.
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

    /// Gives a handle the object of user space that it is.
    pub fn set_uobject(&mut self, uobject: Option<&UqpObject>) {
        // SAFETY: The owner alone writes the member, and `self` is lent once.
        unsafe { (*self.as_raw()).uobject = uobject.map_or(null_mut(), UqpObject::as_raw) };
    }

    /// Closes a handle.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is none: then it is left as it is.
    pub fn close(self) -> Result {
        if !self.is_handle() {
            return Err(EINVAL);
        }
        let real = self.real();
        {
            let _locked = real.lock_handles();
            // SAFETY: The lock is held, and an open handle is in the list.
            unsafe { list::remove(&raw mut (*self.as_raw()).open_list) };
        }
        // SAFETY: `open` has counted the handle, which is out of the list.
        unsafe { real.uses().dec() };
        // SAFETY: Events do not reach the handle any more, and the owner has given it up.
        drop(unsafe { self.into_memory() });
        Ok(())
    }

    /// Closes a handle of an XRC target queue pair. If it was the last one, nobody finds the queue pair any more, which is
    /// returned to be destroyed.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is no such handle: then it is left as it is.
    pub fn close_shared(self, sleep: &MaySleep) -> Result<Option<Owned<Qp>>> {
        let real = NonNull::from(self.real());
        // SAFETY: The handle counts as a use of the queue pair, and afterwards the domain's semaphore is held: without a
        // handle it is destroyed by who has closed the last one, after it was withdrawn.
        let (real, raw) = unsafe { (real.as_ref(), real.cast::<ib_qp>()) };
        let xrcd = real.xrcd().ok_or(EINVAL)?;
        let targets = xrcd.lock_targets(sleep);
        self.close()?;
        if real.uses().is_used() {
            return Ok(None);
        }
        targets.withdraw(real);
        // SAFETY: The handles were the owners; there is none, and none can be opened.
        Ok(Some(unsafe { Owned::from_raw(raw) }))
    }
}

/// # Safety
///
/// `event` is of a queue pair.
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
/// `context` is a shared queue pair, `event` is of it.
unsafe extern "C" fn shared_event(event: *mut ib_event, context: *mut c_void) {
    // SAFETY: By the safety requirements.
    unsafe { &*context.cast::<Qp>() }.tell_handles(event);
}

/// Attributes of a queue pair, which a change of it begins with.
///
/// # Invariants
///
/// The sources of the address vectors are null.
#[repr(transparent)]
pub struct QpAttr(ib_qp_attr);

impl QpAttr {
    /// A change to a state, and nothing else.
    pub fn to_state(state: u32) -> Self {
        let mut attr: ib_qp_attr = pin_init::zeroed();
        attr.qp_state = state;
        // INVARIANT: They are zeroed.
        Self(attr)
    }

    /// Nothing.
    pub fn zeroed() -> Self {
        // INVARIANT: They are zeroed.
        Self(pin_init::zeroed())
    }

    /// For verbs of C.
    #[inline]
    pub fn as_mut_ptr(&mut self) -> *mut ib_qp_attr {
        &mut self.0
    }

    /// Calls `f` with the C structure for changing; what it does to the sources and the net device is undone.
    pub fn modify(&mut self, f: impl FnOnce(&mut ib_qp_attr)) {
        f(&mut self.0);
        forget_sources(&mut self.0);
        self.0.xmit_slave = null_mut();
    }

    /// The change that these attributes make; `mask` is `enum ib_qp_attr_mask`.
    pub fn change(&mut self, mask: u32) -> QpChange<'_> {
        // INVARIANT: All of it is filled in, and the sources are null.
        QpChange {
            attr: &mut self.0,
            mask,
        }
    }
}

/// Forgets the sources of the address vectors.
pub(super) fn forget_sources(attr: &mut ib_qp_attr) {
    attr.ah_attr.grh.sgid_attr = core::ptr::null();
    attr.alt_ah_attr.grh.sgid_attr = core::ptr::null();
}

/// A change of a queue pair: its attributes, and the mask that names those that change.
///
/// # Invariants
///
/// What the mask names is filled in, and an address vector that it names is an [`AhVector`].
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

    /// For drivers.
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
        // SAFETY: The wrapper is transparent; by the type invariants what the mask names is an `AhVector`.
        self.has(attribute).then(|| unsafe { &mut *raw.cast() })
    }

    /// Sets the PSNs that receiving and sending begin with.
    pub fn set_psns(&mut self, rq_psn: u32, sq_psn: u32) {
        self.attr.rq_psn = rq_psn;
        self.attr.sq_psn = sq_psn;
    }

    /// Calls `f` while the attributes say through which device of a bond packets leave.
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

/// The attributes of a change, as C passes them: with the mask as another argument.
///
/// A value lives no longer than the call of the exported function that C has passed it to, and no function has two of them.
pub struct QpAttrArg<'a>(*mut ib_qp_attr, PhantomData<&'a mut ib_qp_attr>);

/// The mask that C passes with a [`QpAttrArg`].
pub struct QpMaskArg<'a>(u32, PhantomData<&'a mut ib_qp_attr>);

impl<'a> QpAttrArg<'a> {
    /// The change that the two arguments describe.
    pub fn change(self, mask: QpMaskArg<'a>) -> QpChange<'a> {
        // SAFETY: C has lent the attributes for the call.
        let attr = unsafe { &mut *self.0 };
        // INVARIANT: The mask is of the same call, and by the header what it names is filled in, the sources of address
        // vectors with null or a referenced entry.
        QpChange { attr, mask: mask.0 }
    }
}

// SAFETY: The type is the same on both sides.
unsafe impl FromC for QpAttrArg<'_> {
    type Raw = *mut ib_qp_attr;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw, PhantomData)
    }
}

// SAFETY: The header has `int`.
unsafe impl FromC for QpMaskArg<'_> {
    type Raw = c_int;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw as u32, PhantomData)
    }
}

impl AttrBundle {
    /// The driver's part of the command.
    pub fn driver_udata(&self) -> &UdataView {
        // SAFETY: It is there as long as the command; a view is a transparent wrapper.
        unsafe { &*bindings::rdma_driver_udata(self.as_raw()).cast() }
    }
}

/// The name of the module that has made an object, for resource tracking; it stays as long as the object.
#[derive(Clone, Copy)]
pub struct Caller(*const c_char);

impl Caller {
    /// Nobody in the kernel: the present process.
    pub const PROCESS: Self = Self(core::ptr::null());

    /// A module of the kernel.
    pub const fn kernel(name: &'static CStr) -> Self {
        Self(name.to_bytes_with_nul().as_ptr().cast())
    }

    /// For resource tracking.
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
        // SAFETY: The name stays as long as the object.
        kernel::fmt::Display::fmt(unsafe { CStr::from_char_ptr(self.0) }, f)
    }
}

// SAFETY: The type is the same on both sides.
unsafe impl FromC for Caller {
    type Raw = *const c_char;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw)
    }
}
