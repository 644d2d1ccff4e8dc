// SPDX-License-Identifier: GPL-2.0

//! Resource tracking: `struct rdma_restrack_entry`, a member of each tracked object.
//!
//! An entry is reference-counted. The owner of the object has the first reference, and waits until all others are given up before
//! it destroys the object.
//!
//! C header: `include/rdma/restrack.h`.

use core::{
    marker::PhantomData,
    ptr::NonNull,
    sync::atomic::{AtomicI32, Ordering},
};

use kernel::prelude::*;
use kernel_ext::entry::{view_of, FromC, View};
use rdma_bindings::{self as bindings, rdma_id_private, rdma_restrack_entry};

use super::{
    comp_cntr::CompCntr,
    object::{constants, optional_links, DriverObject, Fresh, Owned, Tracked},
    Counter, Cq, Device, Dmah, Mr, Pd, Qp, RestrackEntry, Srq, Ucontext,
};
use crate::MaySleep;

view_of! {
    /// An identifier of the RDMA connection manager, with its private part: `struct rdma_id_private`.
    pub struct CmId(rdma_id_private);
}

/// The number of tracked types: `RDMA_RESTRACK_MAX`.
pub const KINDS: usize = bindings::RDMA_RESTRACK_MAX as usize;

/// The object that an entry is a member of.
pub enum Owner<'a> {
    /// A protection domain.
    Pd(&'a Pd),
    /// A completion queue.
    Cq(&'a Cq),
    /// A queue pair.
    Qp(&'a Qp),
    /// A connection manager identifier.
    CmId(&'a CmId),
    /// A memory region.
    Mr(&'a Mr),
    /// A user context.
    Context(&'a Ucontext),
    /// A counter.
    Counter(&'a Counter),
    /// A shared receive queue.
    Srq(&'a Srq),
    /// A DMA handle.
    Dmah(&'a Dmah),
    /// A completion counter.
    CompCntr(&'a CompCntr),
}

macro_rules! owner {
    ($entry:expr, $view:ident, $c:ident) => {
        // SAFETY: The type of the entry says that it is a member of such an object, which is valid as long as the entry.
        unsafe {
            let offset = core::mem::offset_of!(bindings::$c, res);
            &*$entry.as_raw().byte_sub(offset).cast::<$view>()
        }
    };
}

impl Owner<'_> {
    /// The device. `None` for a connection manager identifier that is not bound to a device yet.
    pub fn device(&self) -> Option<&Device> {
        // SAFETY: The references are valid. The member is set before the object is listed, and is constant as long as the object
        // is listed.
        let device = unsafe {
            match self {
                Self::Pd(pd) => (*pd.as_raw()).device,
                Self::Cq(cq) => (*cq.as_raw()).device,
                Self::Qp(qp) => (*qp.as_raw()).device,
                Self::CmId(id) => (*id.as_raw()).id.device,
                Self::Mr(mr) => (*mr.as_raw()).device,
                Self::Context(context) => (*context.as_raw()).device,
                Self::Counter(counter) => (*counter.as_raw()).device,
                Self::Srq(srq) => (*srq.as_raw()).device,
                Self::Dmah(dmah) => (*dmah.as_raw()).device,
                Self::CompCntr(counter) => counter.raw_device(),
            }
        };
        // SAFETY: A device outlives its objects.
        unsafe { device.cast::<Device>().as_ref() }
    }
}

impl RestrackEntry {
    constants! {
        /// `enum rdma_restrack_type`.
        kind: u32 = type_;
        /// The number among the entries of its type, once it is listed.
        id: u32 = id;
        /// Whether the entry was added.
        is_valid: bool = valid;
        /// Whether the object belongs to user space.
        is_user: bool = user;
    }

    /// Whether the entry is to be listed.
    #[inline]
    pub fn is_tracked(&self) -> bool {
        // SAFETY: The bit is set before the entry is added.
        unsafe { rdma_restrack_entry::no_track_raw(self.as_raw()) == 0 }
    }

    /// Takes a reference unless the count is 0. Any context.
    #[must_use]
    pub fn try_get(&self) -> bool {
        // SAFETY: `self` is a valid entry.
        unsafe { bindings::restrack_get(self.as_raw()) }
    }

    /// Gives up a reference, and returns whether it was the last. The last one completes the owner's wait. Any context.
    ///
    /// With the last reference of an entry that is not listed, the reference to the process is dropped too.
    ///
    /// # Safety
    ///
    /// The caller gives up a counted reference.
    unsafe fn put(&self) -> bool {
        // SAFETY: By the safety requirements.
        if !unsafe { bindings::restrack_put(self.as_raw()) } {
            return false;
        }
        if !self.is_valid() {
            // SAFETY: The last reference was given up, and the owner waits.
            unsafe { self.forget_task() };
        }
        // SAFETY: The owner waits for this completion, and the entry is valid until then.
        unsafe { bindings::complete(&raw mut (*self.as_raw()).comp) };
        true
    }

    /// Drops the reference to the process.
    ///
    /// # Safety
    ///
    /// No other thread accesses the member `task`.
    unsafe fn forget_task(&self) {
        // SAFETY: By the safety requirements; the entry owned the reference to the process.
        unsafe {
            let task = core::mem::replace(&mut (*self.as_raw()).task, core::ptr::null_mut());
            if !task.is_null() {
                bindings::put_task_struct(task);
            }
        }
    }

    /// Marks the entry as not listed, and drops the reference to the process.
    ///
    /// # Safety
    ///
    /// No other thread accesses the entry.
    unsafe fn close(&self) {
        // SAFETY: By the safety requirements.
        unsafe {
            (&raw mut (*self.as_raw()).valid).write_volatile(false);
            self.forget_task();
        }
    }

    /// Whether there are references.
    fn has_references(&self) -> bool {
        // SAFETY: The member is valid as long as the entry, and C accesses it atomically too.
        let count = unsafe {
            let count = &raw mut (*self.as_raw()).kref.refcount.refs.counter;
            AtomicI32::from_ptr(count)
        };
        count.load(Ordering::Acquire) != 0
    }

    /// The PID of the object's process in the namespace of the current process; `None` if that process has ended or is not
    /// visible.
    pub fn pid(&self) -> Option<u32> {
        // SAFETY: The entry holds a reference to its process.
        let pid = unsafe { bindings::restrack_pid(self.as_raw()) };
        (pid != 0).then_some(pid)
    }

    /// Whether both objects belong to the same process.
    pub fn is_of_task_of(&self, other: &Self) -> bool {
        // SAFETY: Each entry holds a reference to its process.
        unsafe {
            bindings::restrack_task_nr(self.as_raw()) == bindings::restrack_task_nr(other.as_raw())
        }
    }

    /// The name of the kernel module that the object belongs to; empty if none was set.
    pub fn kernel_name(&self) -> &CStr {
        // SAFETY: By `UnlistedEntry::set_kernel_name` the name is valid as long as the object.
        unsafe {
            let name = (*self.as_raw()).kern_name;
            if name.is_null() {
                c""
            } else {
                CStr::from_char_ptr(name)
            }
        }
    }

    /// The object. `None` for an unknown type.
    pub fn owner(&self) -> Option<Owner<'_>> {
        Some(match self.kind() {
            bindings::RDMA_RESTRACK_PD => Owner::Pd(owner!(self, Pd, ib_pd)),
            bindings::RDMA_RESTRACK_CQ => Owner::Cq(owner!(self, Cq, ib_cq)),
            bindings::RDMA_RESTRACK_QP => Owner::Qp(owner!(self, Qp, ib_qp)),
            bindings::RDMA_RESTRACK_CM_ID => Owner::CmId(owner!(self, CmId, rdma_id_private)),
            bindings::RDMA_RESTRACK_MR => Owner::Mr(owner!(self, Mr, ib_mr)),
            bindings::RDMA_RESTRACK_CTX => Owner::Context(owner!(self, Ucontext, ib_ucontext)),
            bindings::RDMA_RESTRACK_COUNTER => Owner::Counter(owner!(self, Counter, rdma_counter)),
            bindings::RDMA_RESTRACK_SRQ => Owner::Srq(owner!(self, Srq, ib_srq)),
            bindings::RDMA_RESTRACK_DMAH => Owner::Dmah(owner!(self, Dmah, ib_dmah)),
            _ => Owner::CompCntr(CompCntr::of_entry(self)?),
        })
    }
}

/// The entry of an object that is not listed: it is being made, or its driver has destroyed it.
///
/// # Invariants
///
/// The entry is begun with the type of its object. It has no reference but the first, and only this value is used to change it.
pub struct UnlistedEntry<'a>(&'a RestrackEntry, NotSend);

/// For values of one thread.
type NotSend = PhantomData<*mut ()>;

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for UnlistedEntry<'_> {
    type Raw = *mut rdma_restrack_entry;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements; a view is a transparent wrapper.
        // INVARIANT: By the header the owner of the object calls the functions that take this argument, between
        // `rdma_restrack_new` and `rdma_restrack_add`, or after `rdma_restrack_begin_del`, which waits for the readers.
        Self(unsafe { &*raw.cast() }, PhantomData)
    }
}

impl core::ops::Deref for UnlistedEntry<'_> {
    type Target = RestrackEntry;

    #[inline]
    fn deref(&self) -> &RestrackEntry {
        self.0
    }
}

/// A value that alone refers to an object that is not listed.
pub trait Unlisted {
    /// The entry.
    fn unlisted(&mut self) -> UnlistedEntry<'_>;
}

impl<T: DriverObject + Tracked> Unlisted for Fresh<T> {
    #[inline]
    fn unlisted(&mut self) -> UnlistedEntry<'_> {
        // INVARIANT: `DriverObject::begin_entry` has begun the entry. `self` owns the memory exclusively and is borrowed mutably.
        // An object is taken from the list, by the contract of `Listed`, and its readers are waited for before it is memory again.
        UnlistedEntry(self.res(), PhantomData)
    }
}

impl UnlistedEntry<'_> {
    /// Sets the name of the kernel module that the object belongs to.
    ///
    /// # Safety
    ///
    /// `name` is null, or a string that is valid as long as the object.
    pub unsafe fn set_kernel_name(&mut self, name: *const kernel::ffi::c_char) {
        // SAFETY: By the type invariants there is no reader and no other writer.
        unsafe { (*self.as_raw()).kern_name = name };
    }

    /// Sets the current process as the one that the object belongs to.
    pub fn set_current_task(&mut self) {
        // SAFETY: `current` is a valid process.
        unsafe { self.attach(bindings::get_current()) };
    }

    /// Lets the object belong to the same process or module as `parent`.
    pub fn set_owner_of(&mut self, parent: &RestrackEntry) {
        // SAFETY: `parent` is a valid entry, which holds a reference to its process, or whose name is valid as long as its
        // object.
        unsafe {
            let parent_raw = parent.as_raw();
            if !parent.is_user() {
                self.set_kernel_name((*parent_raw).kern_name);
            } else if !(*parent_raw).task.is_null() {
                self.attach((*parent_raw).task);
            }
        }
    }

    /// Takes a reference to a process, and sets it.
    ///
    /// # Safety
    ///
    /// `task` is a valid process.
    unsafe fn attach(&mut self, task: *mut bindings::task_struct) {
        // SAFETY: By the safety requirements, and by the type invariants there is no reader. The entry's reference to a former
        // process is dropped.
        unsafe {
            bindings::get_task_struct(task);
            self.forget_task();
            (*self.as_raw()).task = task;
            (*self.as_raw()).user = true;
        }
    }

    /// Whether the first reference is there: it was not given up.
    #[inline]
    pub fn has_first_reference(&self) -> bool {
        self.has_references()
    }

    /// Gives up the first reference of an entry whose object could not be created, if it is there. Any context.
    pub fn abandon(self) {
        if self.has_first_reference() {
            // SAFETY: By the type invariants the reference that is counted is the first.
            unsafe { self.put() };
        }
    }

    /// Ends the entry of an object that is destroyed, and drops the reference to the process.
    pub fn end(self) {
        // SAFETY: By the type invariants nobody uses the entry.
        unsafe { self.close() };
    }
}

/// The entry of a new object, which C passes together with an [`EntryKind`].
pub struct NewEntry<'a>(&'a RestrackEntry);

/// The type of a new object, `enum rdma_restrack_type`, which C passes together with a [`NewEntry`]. A value does not outlive the
/// call, and no exported function takes two of them.
pub struct EntryKind<'a>(u32, PhantomData<&'a ()>);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for NewEntry<'_> {
    type Raw = *mut rdma_restrack_entry;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements; a view is a transparent wrapper.
        Self(unsafe { &*raw.cast() })
    }
}

// SAFETY: `Raw` is the type in the header.
unsafe impl FromC for EntryKind<'_> {
    type Raw = bindings::rdma_restrack_type;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw, PhantomData)
    }
}

impl<'a> NewEntry<'a> {
    /// Initialises the entry: one reference, no name.
    pub fn begin(self, kind: EntryKind<'a>) {
        // SAFETY: Both are from the same call, and by the header the object is new and of this type.
        unsafe {
            bindings::restrack_begin(self.0.as_raw());
            (*self.0.as_raw()).type_ = kind.0;
        }
    }
}

/// The entry of an object, with the rights of the object's owner, who has the first reference until [`Self::drain`].
///
/// # Invariants
///
/// The entry is begun with the type of its object, or was never begun and is all zeros. Only the object's owner, on one thread,
/// lists the entry or gives up its first reference, as long as this value exists.
#[derive(Clone, Copy)]
pub struct OwnEntry<'a>(&'a RestrackEntry, NotSend);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for OwnEntry<'_> {
    type Raw = *mut rdma_restrack_entry;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements; a view is a transparent wrapper.
        // INVARIANT: By the header the owner of the object calls the functions that take this argument.
        Self(unsafe { &*raw.cast() }, PhantomData)
    }
}

impl core::ops::Deref for OwnEntry<'_> {
    type Target = RestrackEntry;

    #[inline]
    fn deref(&self) -> &RestrackEntry {
        self.0
    }
}

/// A value that owns an object, and so its entry. One thread at a time has it.
///
/// # Safety
///
/// [`Self::entry`] always returns the entry of the object that the value owns. The value is not `Sync`.
pub unsafe trait Owns {
    /// The entry.
    fn entry(&self) -> OwnEntry<'_>;
}

// SAFETY: By the safety requirements of `Tracked`; an `Owned` is not `Sync`.
unsafe impl<T: View + Tracked> Owns for Owned<T> {
    #[inline]
    fn entry(&self) -> OwnEntry<'_> {
        // INVARIANT: `self` owns the object, and is not `Sync`. Its memory was a `Fresh` or is from C; both begin the entry.
        OwnEntry(self.res(), PhantomData)
    }
}

impl OwnEntry<'_> {
    /// Sets the number of the entry, before it is listed.
    pub fn set_id(self, id: u32) {
        // SAFETY: By the type invariants there is no other writer; readers use a single load.
        unsafe { (&raw mut (*self.as_raw()).id).write_volatile(id) };
    }

    /// Marks the entry as listed.
    pub fn set_valid(self) {
        // SAFETY: By the type invariants there is no other writer; readers use a single load.
        unsafe { (&raw mut (*self.as_raw()).valid).write_volatile(true) };
    }

    /// Gives an entry without references its first reference again.
    pub fn begin_again(self) {
        if !self.has_references() {
            // SAFETY: The entry has no references, and by the type invariants only this thread gives it the first one.
            unsafe { bindings::restrack_again(self.as_raw()) };
        }
    }

    /// Gives up the first reference, and waits until the last one is given up. Does nothing if there are no references.
    pub fn drain(self, _sleep: &MaySleep) {
        if !self.has_references() {
            return;
        }
        // SAFETY: By the type invariants no other thread gives up the first reference. This function waits until the count is 0,
        // and so does not find it counted twice. The token proves that the context may sleep.
        unsafe {
            self.put();
            bindings::wait_for_completion(&raw mut (*self.as_raw()).comp);
        }
    }

    /// Ends an entry that was never listed, or is drained, and drops the reference to the process.
    pub fn end(self) {
        if self.is_valid() && self.has_references() {
            return;
        }
        // SAFETY: The entry was never listed, or all references are given up; by the type invariants only this thread ends it.
        unsafe { self.close() };
    }
}

/// An element of the list: a listed entry.
///
/// # Invariants
///
/// The entry is valid as long as this value exists: it is removed from the list before its object is destroyed.
pub struct Listed(NonNull<RestrackEntry>);

// SAFETY: Entries may be used from any thread.
unsafe impl Send for Listed {}
// SAFETY: Entries may be used from any thread.
unsafe impl Sync for Listed {}

impl Listed {
    /// Creates a list element.
    ///
    /// # Safety
    ///
    /// The result is dropped before the object is destroyed.
    pub unsafe fn new(entry: &RestrackEntry) -> Self {
        // INVARIANT: By the safety requirements.
        Self(NonNull::from(entry))
    }

    /// The entry.
    #[inline]
    pub fn entry(&self) -> &RestrackEntry {
        // SAFETY: By the type invariants the entry is valid.
        unsafe { self.0.as_ref() }
    }

    /// Takes a reference to the entry; `None` if its object is being destroyed.
    pub fn get(&self) -> Option<EntryRef> {
        // INVARIANT: The reference was just counted.
        self.entry().try_get().then(|| EntryRef(self.0))
    }
}

/// The longest name of a module: `MODULE_NAME_LEN`.
const NAME: usize = 64 - size_of::<usize>();

/// A copy of the name of the kernel module that has left an object behind. The module may be unloaded, and then the name is gone.
pub struct CopiedName {
    bytes: [u8; NAME],
    len: usize,
}

impl CopiedName {
    /// Copies the name of the owner of a listed object.
    pub fn of(listed: &Listed) -> Self {
        let mut copy = Self {
            bytes: [0; NAME],
            len: 0,
        };
        // SAFETY: The entry is valid.
        let mut from: *const u8 = unsafe { (*listed.entry().as_raw()).kern_name }.cast();
        for to in &mut copy.bytes {
            let mut byte = 0u8;
            // SAFETY: `byte` is valid for writes; any address may be read from, which fails where there is no memory.
            let failed = unsafe {
                bindings::copy_from_kernel_nofault((&raw mut byte).cast(), from.cast(), 1)
            };
            if failed != 0 || byte == 0 {
                break;
            }
            *to = byte;
            copy.len = copy.len.wrapping_add(1);
            from = from.wrapping_add(1);
        }
        copy
    }
}

impl kernel::fmt::Display for CopiedName {
    fn fmt(&self, f: &mut kernel::fmt::Formatter<'_>) -> kernel::fmt::Result {
        let name = self.bytes.get(..self.len).unwrap_or(&[]);
        match core::str::from_utf8(name) {
            Ok("") | Err(_) => f.write_str("a module that is gone"),
            Ok(name) => f.write_str(name),
        }
    }
}

/// A counted reference to an entry, which keeps its object valid.
///
/// # Invariants
///
/// `self` owns one counted reference.
pub struct EntryRef(NonNull<RestrackEntry>);

impl EntryRef {
    /// Hands the reference over to C.
    pub fn into_raw(self) -> *mut rdma_restrack_entry {
        let raw = self.as_raw();
        core::mem::forget(self);
        raw
    }

    /// Gives up the reference, and returns whether it was the last.
    pub fn put(self) -> bool {
        let entry = core::mem::ManuallyDrop::new(self);
        // SAFETY: By the type invariants `self` owns the reference, and is not used after this.
        unsafe { (**entry).put() }
    }
}

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for EntryRef {
    type Raw = *mut rdma_restrack_entry;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the entry is valid.
        // INVARIANT: By the header the function takes over a counted reference.
        Self(unsafe { NonNull::new_unchecked(raw) }.cast())
    }
}

impl core::ops::Deref for EntryRef {
    type Target = RestrackEntry;

    #[inline]
    fn deref(&self) -> &RestrackEntry {
        // SAFETY: By the type invariants the entry is valid.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for EntryRef {
    fn drop(&mut self) {
        // SAFETY: By the type invariants `self` owns the reference, and is not used after this.
        unsafe { (**self).put() };
    }
}

/// Reads a member that may change concurrently, by a single load.
macro_rules! now {
    ($view:expr, $($member:ident).+) => {
        // SAFETY: The object is valid; any value of the number is valid, and a concurrent writer uses a single store.
        unsafe { (&raw const (*$view.as_raw()).$($member).+).read_volatile() }
    };
}

/// The restrack number of the user context that a user object belongs to.
///
/// # Safety
///
/// `object` is null, or a valid user object, whose context is valid as long.
unsafe fn context_id(object: *const bindings::ib_uobject) -> Option<u32> {
    // SAFETY: By the safety requirements.
    unsafe {
        let context = object.as_ref()?.context.as_ref()?;
        Some(context.res.id)
    }
}

impl Qp {
    /// The port. 0 before it is known.
    pub fn port(&self) -> u32 {
        now!(self, port)
    }

    /// Whether the queue pair is bound to this counter.
    pub fn counter_is(&self, counter: &Counter) -> bool {
        let bound = now!(self, counter);
        core::ptr::eq(bound, counter.as_raw())
    }
}

impl Cq {
    /// The number of users at the moment of the call.
    pub fn use_count(&self) -> u64 {
        now!(self, usecnt.counter) as u64
    }

    /// Whether the queue uses dynamic interrupt moderation.
    pub fn has_dim(&self) -> bool {
        !now!(self, dim).is_null()
    }

    /// The restrack number of the user context; `None` for an object of the kernel.
    pub fn context_id(&self) -> Option<u32> {
        let object = now!(self, uobject);
        // SAFETY: The user object is valid as long as the queue.
        unsafe { context_id(object.cast()) }
    }
}

impl Pd {
    /// The number of users at the moment of the call.
    pub fn use_count(&self) -> u64 {
        now!(self, usecnt.counter) as u64
    }

    /// The restrack number of the user context; `None` for an object of the kernel.
    pub fn context_id(&self) -> Option<u32> {
        let object = now!(self, uobject);
        // SAFETY: The user object is valid as long as the domain.
        unsafe { context_id(object) }
    }

    /// The remote key of all memory, if the domain was allocated with `IB_PD_UNSAFE_GLOBAL_RKEY`.
    pub fn global_rkey(&self) -> Option<u32> {
        let asked = now!(self, flags) & bindings::IB_PD_UNSAFE_GLOBAL_RKEY != 0;
        asked.then(|| now!(self, unsafe_global_rkey))
    }
}

impl Mr {
    /// The length in bytes.
    pub fn length(&self) -> u64 {
        now!(self, length)
    }
}

impl Srq {
    /// Whether the shared receive queue has a completion queue.
    pub fn has_cq(&self) -> bool {
        matches!(self.kind(), bindings::IB_SRQT_XRC | bindings::IB_SRQT_TM)
    }
}

impl Counter {
    constants! {
        /// The port.
        port: u32 = port;
        /// The number.
        number: u32 = id;
    }
}

/// The bytes of a `struct sockaddr_storage`.
pub type RawAddress = [u8; size_of::<bindings::__kernel_sockaddr_storage>()];

impl CmId {
    optional_links! {
        /// The device.
        device: Device = id.device;
    }

    /// The port. 0 before it is known.
    pub fn port(&self) -> u32 {
        now!(self, id.port_num)
    }

    /// The number of the queue pair. 0 for none.
    pub fn qp_num(&self) -> u32 {
        now!(self, qp_num)
    }

    /// `enum ib_qp_type`.
    pub fn qp_type(&self) -> u32 {
        now!(self, id.qp_type)
    }

    /// `enum rdma_ucm_port_space`.
    pub fn port_space(&self) -> u32 {
        now!(self, id.ps)
    }

    /// `enum rdma_cm_state`.
    pub fn state(&self) -> u32 {
        now!(self, state) as u32
    }

    /// Copies of the source address and the destination address; `None` for one that is not set.
    pub fn addresses(&self) -> [Option<RawAddress>; 2] {
        let raw = self.as_raw();
        // SAFETY: `self` is a valid identifier.
        let places = unsafe {
            let addr = &raw const (*raw).id.route.addr;
            [
                (&raw const (*addr).src_addr).cast::<RawAddress>(),
                (&raw const (*addr).dst_addr).cast::<RawAddress>(),
            ]
        };
        places.map(|place| {
            // SAFETY: The address is a member of the identifier, and any bytes are a `RawAddress`. A concurrent write yields a
            // mixture of old bytes and new ones.
            let bytes = unsafe { place.read_volatile() };
            (bytes.first_chunk::<2>() != Some(&[0, 0])).then_some(bytes)
        })
    }
}
