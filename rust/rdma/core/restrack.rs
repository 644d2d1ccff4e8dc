// SPDX-License-Identifier: GPL-2.0

//! Resource tracking: `struct rdma_restrack_entry`, the part of an object that the core lists.
//!
//! An entry is counted. Its first reference is that of whoever made the object, who waits for the end of all others before
//! the object goes.
//!
//! C header: `include/rdma/restrack.h`.

use core::{
    ptr::NonNull,
    sync::atomic::{AtomicI32, Ordering},
};

use kernel::prelude::*;
use kernel_ext::entry::{view_of, FromC, View};
use rdma_bindings::{self as bindings, rdma_id_private, rdma_restrack_entry};

use super::{
    object::{constants, optional_links, DriverObject, Fresh, Owned, Tracked},
    Counter, Cq, Device, Dmah, Mr, Pd, Qp, RestrackEntry, Srq, Ucontext,
};
use crate::MaySleep;

view_of! {
    /// An identifier of the connection manager, with what the manager has of it.
    pub struct CmId(rdma_id_private);
}

/// How many kinds of objects are listed.
pub const KINDS: usize = bindings::RDMA_RESTRACK_MAX as usize;

/// The object that an entry is a part of.
pub enum Owner<'a> {
    /// A protection domain.
    Pd(&'a Pd),
    /// A completion queue.
    Cq(&'a Cq),
    /// A queue pair.
    Qp(&'a Qp),
    /// An identifier of the connection manager.
    CmId(&'a CmId),
    /// A memory region.
    Mr(&'a Mr),
    /// An open device file.
    Context(&'a Ucontext),
    /// A counter.
    Counter(&'a Counter),
    /// A shared receive queue.
    Srq(&'a Srq),
    /// Hints for DMA.
    Dmah(&'a Dmah),
}

macro_rules! owner {
    ($entry:expr, $view:ident, $c:ident) => {
        // SAFETY: The kind says that the entry is a member of such an object, which is there as long as the entry.
        unsafe {
            let offset = core::mem::offset_of!(bindings::$c, res);
            &*$entry.as_raw().byte_sub(offset).cast::<$view>()
        }
    };
}

impl Owner<'_> {
    /// The device. `None` for an identifier that has none yet.
    pub fn device(&self) -> Option<&Device> {
        // SAFETY: The objects are there. The member is set before the object is listed, and does not change until it is
        // not any more.
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
            }
        };
        // SAFETY: An object's device stays as long as the object.
        unsafe { device.cast::<Device>().as_ref() }
    }
}

impl RestrackEntry {
    constants! {
        /// `enum rdma_restrack_type`.
        kind: u32 = type_;
        /// The number among those of its kind, once it is listed.
        id: u32 = id;
        /// Whether it is listed, or would be.
        is_valid: bool = valid;
        /// Whether the object is one of user space.
        is_user: bool = user;
    }

    /// Whether it is to be listed.
    #[inline]
    pub fn is_tracked(&self) -> bool {
        // SAFETY: The bit is set before the entry is added.
        unsafe { rdma_restrack_entry::no_track_raw(self.as_raw()) == 0 }
    }

    /// Counts a reference, unless there is none any more. Any context.
    #[must_use]
    pub fn try_get(&self) -> bool {
        // SAFETY: The entry is there.
        unsafe { bindings::restrack_get(self.as_raw()) }
    }

    /// Gives up a reference, and says whether it was the last: then who waits for that goes on. Any context.
    ///
    /// Of an entry that is not listed, the process is forgotten with the last reference.
    ///
    /// # Safety
    ///
    /// A reference is given up that is counted, and not used any more.
    unsafe fn put(&self) -> bool {
        // SAFETY: By the safety requirements.
        if !unsafe { bindings::restrack_put(self.as_raw()) } {
            return false;
        }
        if !self.is_valid() {
            // SAFETY: The last reference is gone, and the owner waits.
            unsafe { self.forget_task() };
        }
        // SAFETY: The entry is there until its owner has waited for this.
        unsafe { bindings::complete(&raw mut (*self.as_raw()).comp) };
        true
    }

    /// Forgets the process.
    ///
    /// # Safety
    ///
    /// Nobody else uses the field.
    unsafe fn forget_task(&self) {
        // SAFETY: By the safety requirements; the reference to the process was the entry's.
        unsafe {
            let task = core::mem::replace(&mut (*self.as_raw()).task, core::ptr::null_mut());
            if !task.is_null() {
                bindings::put_task_struct(task);
            }
        }
    }

    /// Whether there are references.
    fn has_references(&self) -> bool {
        // SAFETY: The member is there as long as the entry, and C uses it atomically too.
        let count = unsafe {
            let count = &raw mut (*self.as_raw()).kref.refcount.refs.counter;
            AtomicI32::from_ptr(count)
        };
        count.load(Ordering::Acquire) != 0
    }

    /// The number that the object's process has for the present one; `None` for one that has ended or cannot be seen.
    pub fn pid(&self) -> Option<u32> {
        // SAFETY: The entry keeps its process.
        let pid = unsafe { bindings::restrack_pid(self.as_raw()) };
        (pid != 0).then_some(pid)
    }

    /// Whether the object is of the same process as another one, ended or not.
    pub fn is_of_task_of(&self, other: &Self) -> bool {
        // SAFETY: The entries keep their processes.
        unsafe {
            bindings::restrack_task_nr(self.as_raw()) == bindings::restrack_task_nr(other.as_raw())
        }
    }

    /// Which module of the kernel the object is for. Empty where nobody has said.
    pub fn kernel_name(&self) -> &CStr {
        // SAFETY: The name stays as long as the object.
        unsafe {
            let name = (*self.as_raw()).kern_name;
            if name.is_null() {
                c""
            } else {
                CStr::from_char_ptr(name)
            }
        }
    }

    /// The object. `None` for a kind that there is not.
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
            _ => return None,
        })
    }
}

/// The entry of an object, as the one has it who makes, lists and destroys the object: the first reference is theirs, from
/// [`Self::begin`] until [`Self::drain`].
///
/// # Invariants
///
/// Nobody else makes the entry, lists it or says for whom the object is, as long as this is there.
#[derive(Clone, Copy)]
pub struct OwnEntry<'a>(&'a RestrackEntry);

// SAFETY: The header says that the owner of an object calls the functions that take it.
unsafe impl FromC for OwnEntry<'_> {
    type Raw = *mut rdma_restrack_entry;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements; a view is a transparent wrapper.
        // INVARIANT: By the header.
        Self(unsafe { &*raw.cast() })
    }
}

impl core::ops::Deref for OwnEntry<'_> {
    type Target = RestrackEntry;

    #[inline]
    fn deref(&self) -> &RestrackEntry {
        self.0
    }
}

/// Who has an object alone, and so its entry. An [`Owned`] and a [`Fresh`] are with one thread at a time.
pub trait Owns {
    /// The entry.
    fn entry(&self) -> OwnEntry<'_>;
}

impl<T: View + Tracked> Owns for Owned<T> {
    #[inline]
    fn entry(&self) -> OwnEntry<'_> {
        // INVARIANT: The owner alone lists the object and destroys it.
        OwnEntry(self.res())
    }
}

impl<T: DriverObject + Tracked> Owns for Fresh<T> {
    #[inline]
    fn entry(&self) -> OwnEntry<'_> {
        // INVARIANT: The memory is ours alone.
        OwnEntry(self.res())
    }
}

impl OwnEntry<'_> {
    /// Says under which number it is listed, before it is.
    pub fn set_id(self, id: u32) {
        // SAFETY: By the type invariants nobody else writes the number, which others read whole.
        unsafe { (&raw mut (*self.as_raw()).id).write_volatile(id) };
    }

    /// Says that it is listed.
    pub fn set_valid(self) {
        // SAFETY: By the type invariants nobody else writes the field, which others read whole.
        unsafe { (&raw mut (*self.as_raw()).valid).write_volatile(true) };
    }

    /// Makes a new entry: one reference, no name.
    pub fn begin(self, kind: u32) {
        // SAFETY: By the type invariants nobody else makes the entry; before it is made nobody has a reference.
        unsafe {
            bindings::restrack_begin(self.as_raw());
            (*self.as_raw()).type_ = kind;
        }
    }

    /// Makes an entry without references one with its first reference again.
    pub fn begin_again(self) {
        if !self.has_references() {
            // SAFETY: The entry has no references, and by the type invariants nobody else makes it.
            unsafe { bindings::restrack_again(self.as_raw()) };
        }
    }

    /// Gives up the first reference, and waits until the last has been given up. Nothing to do where that was done.
    pub fn drain(self, _sleep: &MaySleep) {
        if !self.has_references() {
            return;
        }
        // SAFETY: The first reference is given up here alone, and the count was 0 ever since; so it is there. The token shows that
        // it may sleep.
        unsafe {
            self.put();
            bindings::wait_for_completion(&raw mut (*self.as_raw()).comp);
        }
    }

    /// Gives up the first reference of an entry whose object is not made after all. Any context.
    ///
    /// # Safety
    ///
    /// The entry was begun, and neither listed nor abandoned since.
    pub unsafe fn abandon(self) -> bool {
        // SAFETY: By the safety requirements the first reference is there.
        unsafe { self.put() }
    }

    /// Says which module of the kernel the object is for.
    ///
    /// # Safety
    ///
    /// The string stays as long as the object.
    pub unsafe fn set_kernel_name(self, name: *const kernel::ffi::c_char) {
        // SAFETY: By the type invariants nobody else uses the field before the entry is listed.
        unsafe { (*self.as_raw()).kern_name = name };
    }

    /// Says that the object is for the present process.
    pub fn set_current_task(self) {
        // SAFETY: There is a present process.
        unsafe { self.attach(bindings::get_current()) };
    }

    /// Says that the object is for whom another one is.
    pub fn set_owner_of(self, parent: &RestrackEntry) {
        // SAFETY: The other entry is there, and keeps its process or the name.
        unsafe {
            let parent_raw = parent.as_raw();
            if !parent.is_user() {
                self.set_kernel_name((*parent_raw).kern_name);
            } else if !(*parent_raw).task.is_null() {
                self.attach((*parent_raw).task);
            }
        }
    }

    /// Keeps a process.
    ///
    /// # Safety
    ///
    /// There is the process.
    unsafe fn attach(self, task: *mut bindings::task_struct) {
        // SAFETY: By the safety requirements, and nobody else uses the field before the entry is listed; the entry's reference
        // to a former process is given up.
        unsafe {
            bindings::get_task_struct(task);
            (*self).forget_task();
            (*self.as_raw()).task = task;
            (*self.as_raw()).user = true;
        }
    }

    /// Ends an entry that was never listed, or is drained: the process is forgotten.
    pub fn end(self) {
        if self.is_valid() && self.has_references() {
            return;
        }
        // SAFETY: The entry was never found, or all references are given up; by the type invariants nobody else ends it.
        unsafe {
            (&raw mut (*self.as_raw()).valid).write_volatile(false);
            self.forget_task();
        }
    }
}

/// A listed entry, as the list has it: it is taken out before the object goes.
///
/// # Invariants
///
/// The entry is there as long as it is in the list.
pub struct Listed(NonNull<RestrackEntry>);

// SAFETY: Entries may be used from any thread.
unsafe impl Send for Listed {}
// SAFETY: As above.
unsafe impl Sync for Listed {}

impl Listed {
    /// An entry for the list.
    ///
    /// # Safety
    ///
    /// It is taken out of the list before the object goes.
    pub unsafe fn new(entry: &RestrackEntry) -> Self {
        // INVARIANT: By the safety requirements.
        Self(NonNull::from(entry))
    }

    /// The entry.
    #[inline]
    pub fn entry(&self) -> &RestrackEntry {
        // SAFETY: By the type invariants.
        unsafe { self.0.as_ref() }
    }

    /// A reference to the entry, unless the object is about to go.
    pub fn get(&self) -> Option<EntryRef> {
        // INVARIANT: The reference was just counted.
        self.entry().try_get().then(|| EntryRef(self.0))
    }
}

/// A counted reference to an entry, which keeps the object.
///
/// # Invariants
///
/// One reference is ours.
pub struct EntryRef(NonNull<RestrackEntry>);

impl EntryRef {
    /// Hands the reference over to C.
    pub fn into_raw(self) -> *mut rdma_restrack_entry {
        let raw = self.as_raw();
        core::mem::forget(self);
        raw
    }

    /// Gives the reference up, and says whether it was the last.
    pub fn put(self) -> bool {
        let entry = core::mem::ManuallyDrop::new(self);
        // SAFETY: By the type invariants; it is not used after this.
        unsafe { (**entry).put() }
    }
}

// SAFETY: Who gives up a reference passes it.
unsafe impl FromC for EntryRef {
    type Raw = *mut rdma_restrack_entry;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements there is an entry.
        // INVARIANT: The header says that the function takes the reference over.
        Self(unsafe { NonNull::new_unchecked(raw) }.cast())
    }
}

impl core::ops::Deref for EntryRef {
    type Target = RestrackEntry;

    #[inline]
    fn deref(&self) -> &RestrackEntry {
        // SAFETY: By the type invariants.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for EntryRef {
    fn drop(&mut self) {
        // SAFETY: By the type invariants; it is not used after this.
        unsafe { (**self).put() };
    }
}

/// Reads a member that may change meanwhile: it is told as it is.
macro_rules! now {
    ($view:expr, $($member:ident).+) => {
        // SAFETY: The object is there; the member is a number, and is written whole.
        unsafe { (&raw const (*$view.as_raw()).$($member).+).read_volatile() }
    };
}

/// The number of the open device file that an object of user space belongs to.
///
/// # Safety
///
/// The object is null, or there and of user space: then its file stays as long.
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

    /// The counter that it is bound to, by number.
    pub fn counter_is(&self, counter: &Counter) -> bool {
        let bound = now!(self, counter);
        core::ptr::eq(bound, counter.as_raw())
    }
}

impl Cq {
    /// How many objects use it, as it is told.
    pub fn use_count(&self) -> u64 {
        now!(self, usecnt.counter) as u64
    }

    /// Whether it moderates itself.
    pub fn has_dim(&self) -> bool {
        !now!(self, dim).is_null()
    }

    /// The number of the open device file.
    pub fn context_id(&self) -> Option<u32> {
        let object = now!(self, uobject);
        // SAFETY: The object of user space stays as long as the queue.
        unsafe { context_id(object.cast()) }
    }
}

impl Pd {
    /// How many objects use it, as it is told.
    pub fn use_count(&self) -> u64 {
        now!(self, usecnt.counter) as u64
    }

    /// The number of the open device file.
    pub fn context_id(&self) -> Option<u32> {
        let object = now!(self, uobject);
        // SAFETY: The object of user space stays as long as the domain.
        unsafe { context_id(object) }
    }

    /// The key of all memory for peers, if it was asked for.
    pub fn global_rkey(&self) -> Option<u32> {
        let asked = now!(self, flags) & bindings::IB_PD_UNSAFE_GLOBAL_RKEY != 0;
        asked.then(|| now!(self, unsafe_global_rkey))
    }
}

impl Mr {
    /// How many bytes.
    pub fn length(&self) -> u64 {
        now!(self, length)
    }
}

impl Srq {
    /// Whether it has a completion queue.
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

    /// Copies of the addresses of both ends; `None` for one that is not known.
    pub fn addresses(&self) -> [Option<RawAddress>; 2] {
        let raw = self.as_raw();
        // SAFETY: The identifier is there.
        let places = unsafe {
            let addr = &raw const (*raw).id.route.addr;
            [
                (&raw const (*addr).src_addr).cast::<RawAddress>(),
                (&raw const (*addr).dst_addr).cast::<RawAddress>(),
            ]
        };
        places.map(|place| {
            // SAFETY: The address is a member of the identifier, which is made of bytes that are all set. One that is being
            // written is copied as it is.
            let bytes = unsafe { place.read_volatile() };
            (bytes.first_chunk::<2>() != Some(&[0, 0])).then_some(bytes)
        })
    }
}
