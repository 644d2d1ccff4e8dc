// SPDX-License-Identifier: GPL-2.0

//! Received MADs and their memory: `struct ib_mad_recv_wc`.
//!
//! C header: `include/rdma/ib_mad.h`.

use core::{alloc::Layout, ptr::NonNull};

use kernel::{
    alloc::{allocator::Kmalloc, Allocator, Flags, NumaNode},
    ffi::{c_int, c_void},
    prelude::*,
};
use kernel_ext::entry::FromC;
use rdma_bindings::{
    self as bindings, ib_cqe, ib_grh, ib_mad, ib_mad_recv_buf, ib_mad_recv_wc, ib_qp, ib_wc,
};

use crate::core::{list, network_header::NetworkHeader};

/// The header of a receive buffer, which the MAD follows.
#[repr(C)]
pub(super) struct Raw {
    /// The completion handler of the receive request.
    pub(super) cqe: ib_cqe,
    /// The queue pair that the buffer is posted to, and its slot there.
    pub(super) queue: *const c_void,
    pub(super) slot: usize,
    /// The DMA address.
    pub(super) address: u64,
    wc: ib_wc,
    recv_wc: ib_mad_recv_wc,
    size: usize,
    grh: ib_grh,
    mad: [u8; 0],
}

/// A received MAD, or a buffer for one. For an RMPP message this is the first segment, which owns all others.
///
/// # Invariants
///
/// The memory is from [`Self::new`], and owned exclusively. `rmpp_list` has this MAD and those of its other segments, which
/// are from `new` too.
pub struct RecvMad(NonNull<Raw>);

/// The completion of an SMP that came in no packet.
#[derive(Clone, Copy)]
pub struct LocalCompletion {
    /// The index of its P_Key.
    pub pkey_index: u16,
    /// The length of the SMP in bytes.
    pub length: usize,
    /// The source LID.
    pub slid: u32,
    /// The port.
    pub port_num: u32,
}

impl LocalCompletion {
    /// The completion as drivers and clients take it.
    pub(super) fn wc(&self, qp: *mut ib_qp) -> ib_wc {
        let mut wc: ib_wc = pin_init::zeroed();
        wc.status = bindings::IB_WC_SUCCESS;
        wc.opcode = bindings::IB_WC_RECV;
        wc.qp = qp;
        wc.pkey_index = self.pkey_index;
        wc.byte_len = self.length.saturating_add(size_of::<ib_grh>()) as u32;
        wc.slid = self.slid;
        wc.port_num = self.port_num;
        wc
    }
}

/// The sender of a MAD: the completion and the GRH of its packet.
#[derive(Clone, Copy)]
pub struct Sender {
    pub(super) wc: ib_wc,
    pub(super) grh: ib_grh,
}

// SAFETY: The members are plain data; the pointers of the completion are not dereferenced.
unsafe impl Send for Sender {}
// SAFETY: The members are plain data; the pointers of the completion are not dereferenced.
unsafe impl Sync for Sender {}

impl Sender {
    /// The completion of the MAD.
    pub fn wc(&self) -> &ib_wc {
        &self.wc
    }
}

// SAFETY: `self` owns the memory exclusively.
unsafe impl Send for RecvMad {}
// SAFETY: Shared references only read the memory.
unsafe impl Sync for RecvMad {}

fn layout(size: usize) -> Result<Layout> {
    let total = size_of::<Raw>().checked_add(size).ok_or(EOVERFLOW)?;
    Layout::from_size_align(total, align_of::<Raw>()).map_err(|_| EOVERFLOW)
}

impl RecvMad {
    /// Allocates a zeroed buffer for a MAD of up to `size` bytes, at least the 256 of an InfiniBand MAD.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EINVAL`.
    pub fn new(size: usize, flags: Flags) -> Result<Self> {
        if size < size_of::<ib_mad>() {
            return Err(EINVAL);
        }
        let memory = Kmalloc::alloc(layout(size)?, flags | __GFP_ZERO, NumaNode::NO_NODE)?;
        let raw = memory.cast::<Raw>();
        // SAFETY: The memory is new and large enough, and zeros are a valid value of the structure.
        unsafe {
            let this = raw.as_ptr();
            (*this).size = size;
            (*this).recv_wc.wc = &raw mut (*this).wc;
            (*this).recv_wc.recv_buf.grh = &raw mut (*this).grh;
            (*this).recv_wc.recv_buf.__bindgen_anon_1.mad = (&raw mut (*this).mad).cast();
            list::init(&raw mut (*this).recv_wc.rmpp_list);
            list::append(
                &raw mut (*this).recv_wc.rmpp_list,
                &raw mut (*this).recv_wc.recv_buf.list,
            );
        }
        // INVARIANT: The memory was just allocated, and the list has this MAD alone.
        Ok(Self(raw))
    }

    /// Allocates a MAD from the same sender, with the first `length` bytes of this one, followed by zeros.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` if the MAD is shorter.
    pub fn copy_of_start(&self, length: usize, flags: Flags) -> Result<Self> {
        let start = self.mad().get(..length).ok_or(EINVAL)?;
        let mut copy = Self::new(self.mad().len(), flags)?;
        copy.set_wc(self.wc());
        copy.raw_mut().grh = self.raw().grh;
        if self.sender().is_none() {
            copy.raw_mut().recv_wc.recv_buf.grh = core::ptr::null_mut();
        }
        for (to, from) in copy.mad_mut().iter_mut().zip(start) {
            *to = *from;
        }
        Ok(copy)
    }

    #[inline]
    fn raw(&self) -> &Raw {
        // SAFETY: By the type invariants.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    fn raw_mut(&mut self) -> &mut Raw {
        // SAFETY: By the type invariants.
        unsafe { self.0.as_mut() }
    }

    #[inline]
    pub(super) fn as_ptr(&self) -> *mut Raw {
        self.0.as_ptr()
    }

    /// The area that the device writes: the GRH, followed by the MAD.
    pub(super) fn area(&self) -> (*mut u8, usize) {
        // SAFETY: By the type invariants the structure is valid.
        let grh = unsafe { &raw mut (*self.0.as_ptr()).grh };
        let length = self.raw().size.saturating_add(size_of::<ib_grh>());
        (grh.cast(), length)
    }

    /// The MAD.
    #[inline]
    pub fn mad(&self) -> &[u8] {
        // SAFETY: By the type invariants the bytes follow the structure in one allocation, which `self` owns.
        unsafe {
            let mad: *const u8 = (&raw const (*self.0.as_ptr()).mad).cast();
            core::slice::from_raw_parts(mad, self.raw().size)
        }
    }

    /// The MAD, for writing.
    #[inline]
    pub fn mad_mut(&mut self) -> &mut [u8] {
        // SAFETY: By the type invariants the bytes follow the structure in one allocation, which `self` owns and lends
        // mutably.
        unsafe {
            let mad: *mut u8 = (&raw mut (*self.0.as_ptr()).mad).cast();
            core::slice::from_raw_parts_mut(mad, self.raw().size)
        }
    }

    /// `N` bytes at the offset `at` of the MAD; zeros after its end.
    #[inline]
    pub fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        let found = self.mad().get(at..).and_then(|rest| rest.first_chunk());
        found.copied().unwrap_or([0; N])
    }

    /// The completion of the MAD.
    #[inline]
    pub fn wc(&self) -> &ib_wc {
        &self.raw().wc
    }

    /// The completion of the MAD, with another queue pair: its own may be destroyed.
    pub(super) fn completion(&self, qp: *mut ib_qp) -> ib_wc {
        ib_wc {
            qp,
            ..self.raw().wc
        }
    }

    /// Sets the completion of the MAD, which a driver has filled in.
    pub(super) fn set_wc(&mut self, wc: &ib_wc) {
        self.raw_mut().wc = *wc;
    }

    /// Sets the index of the P_Key in the completion.
    pub fn set_pkey_index(&mut self, pkey_index: u16) {
        self.raw_mut().wc.pkey_index = pkey_index;
    }

    /// The global route header.
    #[inline]
    pub fn network_header(&self) -> NetworkHeader {
        // SAFETY: The header has 40 bytes, of which any value is valid.
        NetworkHeader::new(unsafe { (&raw const self.raw().grh).cast::<[u8; 40]>().read() })
    }

    /// Zeroes the MAD after the first `length` bytes, which a shorter packet has not written.
    pub fn clear_from(&mut self, length: usize) {
        if let Some(rest) = self.mad_mut().get_mut(length..) {
            rest.fill(0);
        }
    }

    /// Marks the MAD as local: it came in no packet, and has no GRH.
    pub fn set_local(&mut self, completion: &LocalCompletion) {
        self.raw_mut().wc = completion.wc(core::ptr::null_mut());
        self.raw_mut().recv_wc.recv_buf.grh = core::ptr::null_mut();
    }

    /// Sets the length of the message and that of a segment, in bytes.
    pub fn set_length(&mut self, length: usize, segment: usize) {
        let recv_wc = &mut self.raw_mut().recv_wc;
        recv_wc.mad_len = c_int::try_from(length).unwrap_or(c_int::MAX);
        recv_wc.mad_seg_size = segment;
    }

    /// The length of the message in bytes, with all its segments.
    pub fn length(&self) -> usize {
        usize::try_from(self.raw().recv_wc.mad_len).unwrap_or(0)
    }

    /// The length of a segment in bytes.
    pub fn segment_size(&self) -> usize {
        self.raw().recv_wc.mad_seg_size
    }

    /// Appends the next segment of the message, which has no segments of its own.
    pub fn append(&mut self, segment: RecvMad) {
        let segment = core::mem::ManuallyDrop::new(segment);
        // SAFETY: Both are owned exclusively. The segment moves from its own list, which is empty then, to this one, whose
        // first MAD owns it.
        unsafe {
            let entry = &raw mut (*segment.as_ptr()).recv_wc.recv_buf.list;
            list::remove(entry);
            list::append(&raw mut (*self.as_ptr()).recv_wc.rmpp_list, entry);
        }
    }

    /// Calls `f` with the bytes of each segment, in order.
    pub fn for_each_segment(&self, mut f: impl FnMut(&[u8])) {
        // SAFETY: By the type invariants.
        unsafe {
            let head = &raw mut (*self.as_ptr()).recv_wc.rmpp_list;
            let mut at = head;
            while let Some(entry) = list::after(head, at) {
                let raw = owner_of(entry);
                let bytes: *const u8 = (&raw const (*raw).mad).cast();
                f(core::slice::from_raw_parts(bytes, (*raw).size));
                at = entry;
            }
        }
    }

    /// The global route header for a driver; null if the MAD came in no packet.
    pub(super) fn grh(&self) -> *const ib_grh {
        self.raw().recv_wc.recv_buf.grh
    }

    /// The sender; `None` if the MAD came in no packet.
    pub fn sender(&self) -> Option<Sender> {
        let raw = self.raw();
        let (wc, grh) = (raw.wc, raw.grh);
        (!raw.recv_wc.recv_buf.grh.is_null()).then_some(Sender { wc, grh })
    }

    /// Hands the MAD over to C.
    pub(super) fn into_raw(self) -> *mut ib_mad_recv_wc {
        let this = core::mem::ManuallyDrop::new(self);
        // SAFETY: By the type invariants the structure is valid.
        unsafe { &raw mut (*this.as_ptr()).recv_wc }
    }
}

/// The buffer of a list entry.
///
/// # Safety
///
/// `entry` is the entry of a MAD from [`RecvMad::new`].
unsafe fn owner_of(entry: *mut bindings::list_head) -> *mut Raw {
    // SAFETY: By the safety requirements.
    unsafe {
        let buf: *mut ib_mad_recv_buf = kernel::container_of!(entry, ib_mad_recv_buf, list);
        let recv_wc: *mut ib_mad_recv_wc = kernel::container_of!(buf, ib_mad_recv_wc, recv_buf);
        kernel::container_of!(recv_wc, Raw, recv_wc)
    }
}

impl Drop for RecvMad {
    fn drop(&mut self) {
        // SAFETY: By the type invariants; each entry is removed before its memory is freed, that of this MAD last.
        unsafe {
            let head = &raw mut (*self.as_ptr()).recv_wc.rmpp_list;
            while let Some(entry) = list::first(head) {
                let raw = owner_of(entry);
                list::remove(entry);
                if raw != self.as_ptr() {
                    Kmalloc::free(NonNull::new_unchecked(raw.cast()), Layout::new::<Raw>());
                }
            }
            // `kfree` does not look at the size.
            Kmalloc::free(self.0.cast(), Layout::new::<Raw>());
        }
    }
}

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for RecvMad {
    type Raw = *mut ib_mad_recv_wc;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the pointer is from `into_raw`, and the client gives up the MAD.
        let raw = unsafe { kernel::container_of!(raw, Raw, recv_wc) };
        // INVARIANT: The MAD was owned by the client, and by the header clients do not change the list.
        // SAFETY: `raw` is a valid pointer, and so not null.
        Self(unsafe { NonNull::new_unchecked(raw) })
    }
}
