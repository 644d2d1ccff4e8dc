// SPDX-License-Identifier: GPL-2.0

//! MADs to send and their memory: `struct ib_mad_send_buf`.
//!
//! A message of RMPP has a header that all its packets begin with, and a row of segments, one for each packet.
//!
//! C header: `include/rdma/ib_mad.h`.

use core::{
    ptr::null_mut,
    sync::atomic::{AtomicPtr, AtomicU16, AtomicU32, AtomicU64, Ordering},
};

use kernel::{
    alloc::Flags,
    ffi::c_void,
    prelude::*,
    sync::{aref::ARef, Arc},
    types::Opaque,
};
use kernel_ext::{entry::FromC, gfp::Gfp};
use rdma_bindings::{self as bindings, ib_cqe, ib_mad_send_buf, ib_sge, ib_ud_wr};

use super::{c_pointer, Body, Embeds, MaybeBorrowed};
use crate::{
    core::{object::Owned, Ah, Device},
    MaySleep,
};

/// The Q_Key that says that the queue pair's own is used.
const OWN_QKEY: u32 = bindings::IB_QP_SET_QKEY;

/// The device reads.
const TO_DEVICE: bindings::dma_data_direction =
    bindings::dma_data_direction_DMA_TO_DEVICE as bindings::dma_data_direction;

/// What a MAD to be sent is to be like.
pub struct SendInit<'a> {
    /// The device.
    pub device: &'a Device,
    /// The key of all memory.
    pub lkey: u32,
    /// The number of the peer's queue pair.
    pub remote_qpn: u32,
    /// The index of the P_Key.
    pub pkey_index: u16,
    /// How many bytes each packet begins with.
    pub header: usize,
    /// How many bytes follow it in one packet.
    pub payload: usize,
    /// For how many bytes behind the header there is memory, without RMPP: no less than `payload`.
    pub room: usize,
    /// How many bytes of data the client has.
    pub data: usize,
    /// How many packets of RMPP there are; 0: the MAD is one packet, without RMPP.
    pub segments: usize,
}

/// An address handle of the layer's own. Dropping it destroys it. Any context.
pub struct OwnAh(Option<Owned<Ah>>);

impl OwnAh {
    /// Takes a handle over.
    pub fn new(ah: Owned<Ah>) -> Self {
        Self(Some(ah))
    }

    /// The handle.
    pub fn get(&self) -> Option<&Ah> {
        self.0.as_deref()
    }
}

// SAFETY: Address handles may be used and destroyed from any thread.
unsafe impl Sync for OwnAh {}

impl Drop for OwnAh {
    fn drop(&mut self) {
        if let Some(ah) = self.0.take() {
            // SAFETY: The handle is ours; without the flag the driver does not sleep.
            unsafe { bindings::rdma_destroy_ah_user(ah.into_raw(), 0, null_mut()) };
        }
    }
}

/// A MAD to be sent, as C knows it, and its memory.
#[repr(C)]
pub struct SendBody {
    buf: Opaque<ib_mad_send_buf>,
    /// For the completion of the request to send.
    pub(super) cqe: Opaque<ib_cqe>,
    /// The header, and without RMPP the payload behind it.
    memory: Opaque<KVec<u8>>,
    segments: KVec<KVec<u8>>,
    device: ARef<Device>,
    lkey: u32,
    remote_qpn: u32,
    payload: usize,
    header: usize,
    pkey_index: AtomicU16,
    /// The port that a switch sends it by.
    port_num: AtomicU32,
    /// Which segment is sent.
    segment: AtomicU32,
    /// The queue pair that it is posted to.
    queue: AtomicPtr<c_void>,
    /// Where the device finds header and payload.
    mapped: [AtomicU64; 2],
    ah: Option<Arc<OwnAh>>,
}

// SAFETY: What changes is atomic, or of C: the client leaves a MAD alone that is posted.
unsafe impl Send for SendBody {}
// SAFETY: As above.
unsafe impl Sync for SendBody {}

// SAFETY: `buf` is at the beginning.
unsafe impl Body for SendBody {
    type C = ib_mad_send_buf;
}

/// Zeroed memory.
fn zeroed(length: usize, flags: Flags) -> Result<KVec<u8>> {
    Ok(KVec::from_elem(0, length, flags)?)
}

impl SendBody {
    /// A MAD that is zero, and goes to `ah` if that is given: else the client says where.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EOVERFLOW` for numbers that C's structure has no room for.
    pub fn new(init: &SendInit<'_>, ah: Option<Arc<OwnAh>>, flags: Flags) -> Result<Self> {
        let number = |number: usize| i32::try_from(number).map_err(|_| EOVERFLOW);
        let inline = match init.segments {
            0 => init.room.max(init.payload),
            _ => 0,
        };
        let length = init.header.checked_add(inline).ok_or(EOVERFLOW)?;
        let mut memory = zeroed(length, flags)?;
        let mut segments = KVec::with_capacity(init.segments, flags)?;
        for _ in 0..init.segments {
            segments.push(zeroed(init.payload, flags)?, flags)?;
        }
        let mut buf: ib_mad_send_buf = pin_init::zeroed();
        buf.mad = memory.as_mut_ptr().cast::<c_void>();
        buf.hdr_len = number(init.header)?;
        buf.data_len = number(init.data)?;
        buf.seg_count = number(init.segments)?;
        if init.segments != 0 {
            let whole = init.header.saturating_add(init.payload);
            buf.seg_size = number(init.payload)?;
            buf.seg_rmpp_size = number(whole.saturating_sub(bindings::IB_MGMT_RMPP_HDR as usize))?;
        }
        if let Some(ah) = ah.as_ref().and_then(|ah| ah.get()) {
            buf.ah = ah.as_raw();
        }
        Ok(Self {
            buf: Opaque::new(buf),
            cqe: Opaque::new(ib_cqe { done: None }),
            memory: Opaque::new(memory),
            segments,
            device: init.device.hold(),
            lkey: init.lkey,
            remote_qpn: init.remote_qpn,
            payload: init.payload,
            header: init.header,
            pkey_index: AtomicU16::new(init.pkey_index),
            port_num: AtomicU32::new(0),
            segment: AtomicU32::new(0),
            queue: AtomicPtr::new(null_mut()),
            mapped: [const { AtomicU64::new(0) }; 2],
            ah,
        })
    }

    /// Says whose the MAD is. Before C or another thread has it.
    pub fn set_agent(&mut self, agent: *mut bindings::ib_mad_agent) {
        // SAFETY: The MAD is being made.
        unsafe { (*self.buf.get()).mad_agent = agent };
    }

    /// The structure of C.
    #[inline]
    pub fn as_raw(&self) -> *mut ib_mad_send_buf {
        self.buf.get()
    }

    fn memory(&self) -> &KVec<u8> {
        // SAFETY: The vector is set when the MAD is made, and does not change; its bytes do, by C too, so nobody makes
        // a reference to them.
        unsafe { &*self.memory.get() }
    }

    /// `N` bytes of the header; zeros behind the end of the memory.
    #[inline]
    pub fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        let memory = self.memory();
        match at.checked_add(N) {
            // SAFETY: The bytes are inside; they may be anybody's.
            Some(end) if end <= memory.len() => unsafe {
                memory.as_ptr().add(at).cast::<[u8; N]>().read_volatile()
            },
            _ => [0; N],
        }
    }

    /// Writes bytes of the header, if they are inside of the memory.
    pub fn write(&self, at: usize, bytes: &[u8]) {
        let memory = self.memory();
        match at.checked_add(bytes.len()) {
            // SAFETY: The bytes are inside; the memory was made as bytes that may be written, and who posts or has the
            // MAD writes them.
            Some(end) if end <= memory.len() => unsafe {
                let to = memory.as_ptr().cast_mut().add(at);
                core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
            },
            _ => {}
        }
    }

    /// The memory of a segment, from 0 on.
    pub fn segment(&self, nth: usize) -> Option<*mut u8> {
        self.segments
            .get(nth)
            .map(|segment| segment.as_ptr().cast_mut())
    }

    /// How many segments there are; 0: no RMPP.
    #[inline]
    pub fn segments(&self) -> u32 {
        self.segments.len() as u32
    }

    /// Says which segment is sent next, from 0 on.
    pub fn select(&self, nth: u32) {
        self.segment.store(nth, Ordering::Relaxed);
    }

    /// How many bytes of data the client has.
    pub fn data_length(&self) -> usize {
        // SAFETY: The member is constant.
        usize::try_from(unsafe { (*self.as_raw()).data_len }).unwrap_or(0)
    }

    /// How many bytes each packet begins with.
    pub fn header_length(&self) -> usize {
        self.header
    }

    /// How many bytes follow the header in a packet.
    pub fn payload_length(&self) -> usize {
        self.payload
    }

    /// Asks the driver for the address vector that it goes to. `None`: there is none. Any context.
    pub fn address(&self) -> Option<bindings::rdma_ah_attr> {
        let mut vector = pin_init::zeroed();
        self.ah()?.driver_query(&mut vector).ok()?;
        Some(vector)
    }

    /// How long to wait for a response, in milliseconds; 0: none is expected.
    #[inline]
    pub fn timeout_ms(&self) -> u32 {
        // SAFETY: The client sets the member before it posts the MAD.
        let timeout = unsafe { (&raw const (*self.as_raw()).timeout_ms).read_volatile() };
        u32::try_from(timeout).unwrap_or(0)
    }

    /// Sets how long to wait for a response.
    pub fn set_timeout_ms(&self, timeout: u32) {
        let timeout = i32::try_from(timeout).unwrap_or(i32::MAX);
        // SAFETY: The MAD is posted: its client leaves it alone.
        unsafe { (&raw mut (*self.as_raw()).timeout_ms).write_volatile(timeout) };
    }

    /// How often to send it again; how often it was, once it is posted.
    pub fn retries(&self) -> u32 {
        // SAFETY: The client sets the member before it posts the MAD.
        let retries = unsafe { (&raw const (*self.as_raw()).retries).read_volatile() };
        u32::try_from(retries).unwrap_or(0)
    }

    /// Sets how often it was sent again.
    pub fn set_retries(&self, retries: u32) {
        let retries = i32::try_from(retries).unwrap_or(i32::MAX);
        // SAFETY: The MAD is posted: its client leaves it alone.
        unsafe { (&raw mut (*self.as_raw()).retries).write_volatile(retries) };
    }

    /// Where it goes. `None`: the client has not said it.
    pub fn ah(&self) -> Option<&Ah> {
        // SAFETY: The client's handle is there while the MAD is posted, or it is ours.
        unsafe { (*self.as_raw()).ah.cast::<Ah>().as_ref() }
    }

    /// The index of the P_Key.
    pub fn pkey_index(&self) -> u16 {
        self.pkey_index.load(Ordering::Relaxed)
    }

    /// Sets the index of the P_Key.
    pub fn set_pkey_index(&self, index: u16) {
        self.pkey_index.store(index, Ordering::Relaxed);
    }

    /// The number of the peer's queue pair, and the Q_Key.
    pub fn remote(&self) -> (u32, u32) {
        (self.remote_qpn, OWN_QKEY)
    }

    /// The port that a switch sends it by; 0 for others.
    pub fn port_num(&self) -> u32 {
        self.port_num.load(Ordering::Relaxed)
    }

    /// Says by which port a switch sends it.
    pub fn set_port_num(&self, port_num: u32) {
        self.port_num.store(port_num, Ordering::Relaxed);
    }

    /// Notes the queue pair that it is posted to.
    pub(super) fn set_queue(&self, queue: *const c_void) {
        self.queue.store(queue.cast_mut(), Ordering::Relaxed);
    }

    /// The queue pair that it is posted to.
    pub(super) fn queue(&self) -> *const c_void {
        self.queue.load(Ordering::Relaxed)
    }

    /// Maps what is sent for the device.
    pub(super) fn map(&self) -> Result {
        let header = self.memory().as_ptr().cast_mut();
        let nth = self.segment.load(Ordering::Relaxed) as usize;
        let payload = match self.segments.is_empty() {
            true => header.wrapping_add(self.header),
            false => self.segment(nth).ok_or(EINVAL)?,
        };
        let [first, second] = &self.mapped;
        first.store(self.map_one(header, self.header)?, Ordering::Relaxed);
        if self.payload == 0 {
            return Ok(());
        }
        match self.map_one(payload, self.payload) {
            Ok(address) => second.store(address, Ordering::Relaxed),
            Err(error) => {
                self.unmap_one(first, self.header);
                return Err(error);
            }
        }
        Ok(())
    }

    fn map_one(&self, memory: *mut u8, length: usize) -> Result<u64> {
        // SAFETY: The memory is there as long as `self`, which whoever posts it keeps.
        unsafe {
            let device = self.device.as_raw();
            let address = bindings::ib_dma_map_single(device, memory.cast(), length, TO_DEVICE);
            match bindings::ib_dma_mapping_error(device, address) {
                0 => Ok(address),
                _ => Err(ENOMEM),
            }
        }
    }

    fn unmap_one(&self, address: &AtomicU64, length: usize) {
        let address = address.load(Ordering::Relaxed);
        // SAFETY: It was mapped by `map_one`.
        unsafe {
            bindings::ib_dma_unmap_single(self.device.as_raw(), address, length, TO_DEVICE);
        }
    }

    /// Ends what [`Self::map`] began.
    pub(super) fn unmap(&self) {
        let [first, second] = &self.mapped;
        self.unmap_one(first, self.header);
        if self.payload != 0 {
            self.unmap_one(second, self.payload);
        }
    }

    /// Calls `post` with the request to send; its completion names `done`.
    pub(super) fn with_request<R>(
        &self,
        done: *mut ib_cqe,
        post: impl FnOnce(&ib_ud_wr) -> R,
    ) -> R {
        let [first, second] = &self.mapped;
        let piece = |address: &AtomicU64, length: usize| ib_sge {
            addr: address.load(Ordering::Relaxed),
            // A MAD has at most 2,048 bytes.
            length: length as u32,
            lkey: self.lkey,
        };
        let mut pieces = [piece(first, self.header), piece(second, self.payload)];
        let mut request: ib_ud_wr = pin_init::zeroed();
        request.wr.__bindgen_anon_1.wr_cqe = done;
        request.wr.sg_list = pieces.as_mut_ptr();
        request.wr.num_sge = if self.payload == 0 { 1 } else { 2 };
        request.wr.opcode = bindings::IB_WR_SEND;
        request.wr.send_flags = bindings::IB_SEND_SIGNALED;
        // SAFETY: The member is set.
        request.ah = unsafe { (*self.as_raw()).ah };
        request.remote_qpn = self.remote_qpn;
        request.remote_qkey = OWN_QKEY;
        request.pkey_index = self.pkey_index();
        request.port_num = self.port_num();
        post(&request)
    }

    /// The driver handles a MAD that is not sent over the wire, but meant for this port. As
    /// [`RecvMad::driver_process`](super::recv::RecvMad::driver_process).
    pub fn driver_process(
        &self,
        wc: &bindings::ib_wc,
        port: u32,
        answer: &mut super::recv::RecvMad,
        request: &super::recv::RecvMad,
    ) -> Option<(u32, usize, u16)> {
        let (mut length, mut pkey_index) = (answer.mad().len(), 0);
        let room = length;
        // SAFETY: The device is there; a driver reads the request and its completion, and writes into the answer, whose
        // length it is told. It does not sleep: posting may come in any context.
        let ret = unsafe {
            let call = (*self.device.as_raw()).ops.process_mad?;
            call(
                self.device.as_raw(),
                0,
                port,
                wc,
                core::ptr::null(),
                request.mad().as_ptr().cast(),
                answer.mad_mut().as_mut_ptr().cast(),
                &mut length,
                &mut pkey_index,
            )
        };
        Some((ret as u32, length.min(room), pkey_index))
    }
}

impl Drop for SendBody {
    fn drop(&mut self) {
        // SAFETY: The vector was made by `new`, and nobody uses it any more.
        unsafe { core::ptr::drop_in_place(self.memory.get()) };
    }
}

/// A MAD that its client has posted: it comes back to the client once, by `AgentBody::tell_sent`, or stays its own where
/// posting fails.
pub struct Posted<S>(Arc<S>);

impl<S: Embeds<Body = SendBody>> Posted<S> {
    /// The client posts a MAD.
    ///
    /// # Safety
    ///
    /// The client leaves the MAD alone until it is told of it, or told that posting has failed. There is one value for each
    /// post.
    unsafe fn by_client(send: Arc<S>) -> Self {
        Self(send)
    }

    /// A reference to the MAD.
    #[inline]
    pub fn send(&self) -> &Arc<S> {
        &self.0
    }
}

/// A chain of MADs that C posts at once.
pub struct Chain<'a, T: Embeds<Body = SendBody>>(MaybeBorrowed<'a, T>);

// SAFETY: As for `Borrowed`; each MAD names the next.
unsafe impl<T: Embeds<Body = SendBody>> FromC for Chain<'_, T> {
    type Raw = *mut ib_mad_send_buf;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements.
        Self(unsafe { MaybeBorrowed::from_c(raw) })
    }
}

impl<T: Embeds<Body = SendBody>> Chain<'_, T> {
    /// Takes the first MAD off, to post it. The chain is not looked at there any more: the MAD may be sent and freed at once.
    pub fn take_first(&mut self) -> Option<Posted<T>> {
        let first = self.0 .0.take()?;
        // SAFETY: The client has filled in the members, lends the whole chain, and posts each MAD of it by this call.
        unsafe {
            self.0 = MaybeBorrowed::from_c((*first.body().as_raw()).next);
            Some(Posted::by_client(first.hold()))
        }
    }
}

/// Where C wants to be told of the MAD that could not be posted; it may not want it.
pub struct BadSend<'a>(Option<&'a mut *mut ib_mad_send_buf>);

// SAFETY: The header has a pointer to a place, or null.
unsafe impl FromC for BadSend<'_> {
    type Raw = *mut *mut ib_mad_send_buf;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements.
        Self(unsafe { raw.as_mut() })
    }
}

impl BadSend<'_> {
    /// Says which one it is.
    pub fn set<T: Embeds<Body = SendBody>>(self, send: &Arc<T>) {
        if let Some(place) = self.0 {
            *place = c_pointer(send);
        }
    }
}

/// How memory may be allocated: `gfp_t` of C.
pub enum SendFlags<'a> {
    /// Another C entry point has made the token.
    Borrowed(&'a MaySleep),
    /// The flags say that the caller may sleep.
    Own(MaySleep),
    /// The caller may not sleep.
    Atomic,
}

// SAFETY: The type is a number on both sides.
unsafe impl FromC for SendFlags<'_> {
    type Raw = bindings::gfp_t;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        match raw & bindings::GFP_KERNEL & !bindings::GFP_ATOMIC {
            0 => Self::Atomic,
            // SAFETY: By such flags the caller says that it may sleep.
            _ => Self::Own(unsafe { MaySleep::assume() }),
        }
    }
}

impl SendFlags<'_> {
    /// The token, where the caller may sleep.
    pub fn sleep(&self) -> Option<&MaySleep> {
        match self {
            Self::Borrowed(sleep) => Some(sleep),
            Self::Own(sleep) => Some(sleep),
            Self::Atomic => None,
        }
    }

    /// As the kernel crate has them.
    pub fn get(&self) -> Flags {
        match self {
            Self::Atomic => GFP_ATOMIC,
            _ => GFP_KERNEL,
        }
    }

    /// As this project's crates have them.
    pub fn gfp(&self) -> Gfp<'_> {
        self.sleep().map_or(Gfp::ATOMIC, Gfp::kernel)
    }
}
