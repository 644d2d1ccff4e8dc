// SPDX-License-Identifier: GPL-2.0

//! MADs to send and their memory: `struct ib_mad_send_buf`.
//!
//! An RMPP message has a header with which all its packets begin, and an array of segments, one per packet.
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
use kernel_ext::{entry::FromC, gfp::Gfp, zeroed::zeroed};
use rdma_bindings::{self as bindings, ib_cqe, ib_mad_send_buf, ib_sge, ib_ud_wr};

use super::{c_pointer, Body, Embeds, MaybeBorrowed};
use crate::{
    core::{object::Owned, Ah, Device, DeviceMemory},
    Gid, MaySleep,
};

/// The Q_Key value that selects the queue pair's own Q_Key.
const OWN_QKEY: u32 = bindings::IB_QP_SET_QKEY;

/// The DMA direction of send buffers.
const TO_DEVICE: bindings::dma_data_direction = bindings::DMA_TO_DEVICE;

/// The length in bytes of a MAD that needs no other memory: any of InfiniBand.
const NEAR: usize = size_of::<bindings::ib_mad>();

/// The properties of a new MAD.
pub struct SendInit<'a> {
    /// The device.
    pub device: &'a Device,
    /// The local key of all memory.
    pub lkey: u32,
    /// The number of the remote queue pair.
    pub remote_qpn: u32,
    /// The index of the P_Key.
    pub pkey_index: u16,
    /// The length in bytes of the header of each packet.
    pub header: usize,
    /// The length in bytes of the payload of each packet.
    pub payload: usize,
    /// The size in bytes of the memory after the header, without RMPP: at least `payload`.
    pub room: usize,
    /// The length in bytes of the client's data.
    pub data: usize,
    /// The number of RMPP packets; 0 for a MAD of one packet without RMPP.
    pub segments: usize,
}

/// An address handle that the layer owns. Dropping it destroys the handle, in any context.
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
            // SAFETY: `self` owns the handle; without the flag the driver does not sleep.
            unsafe { bindings::rdma_destroy_ah_user(ah.into_raw(), 0, null_mut()) };
        }
    }
}

/// The C structure of a MAD for sending, and its memory.
#[repr(C)]
pub struct SendBody {
    buf: Opaque<ib_mad_send_buf>,
    /// The completion handler of the send request.
    pub(super) cqe: Opaque<ib_cqe>,
    /// The length in bytes of the header, followed by the payload if RMPP is not used.
    length: usize,
    /// Their memory, if that is enough.
    near: Opaque<[u8; NEAR]>,
    /// Their memory if they are longer, else empty.
    far: Opaque<KVec<u8>>,
    segments: KVec<KVec<u8>>,
    device: ARef<DeviceMemory>,
    lkey: u32,
    remote_qpn: u32,
    payload: usize,
    header: usize,
    pkey_index: AtomicU16,
    /// The port that a switch sends the MAD through.
    port_num: AtomicU32,
    /// The segment that is sent.
    segment: AtomicU32,
    /// The queue pair that the MAD is posted to, or null.
    queue: AtomicPtr<c_void>,
    /// How many values [`Posted`] and [`Addressed`] of the MAD there are.
    holders: AtomicU32,
    /// The DMA addresses of header and payload.
    mapped: [AtomicU64; 2],
    ah: Option<Arc<OwnAh>>,
}

// SAFETY: Members that change are atomic, or belong to C, whose client by the header does not change a posted MAD.
unsafe impl Send for SendBody {}
// SAFETY: Members that change are atomic, or belong to C, whose client by the header does not change a posted MAD.
unsafe impl Sync for SendBody {}

// SAFETY: The structure begins with `buf`.
unsafe impl Body for SendBody {
    type C = ib_mad_send_buf;
}

impl SendBody {
    /// Makes a zeroed MAD with the address handle `ah`; without one the client sets it. [`set_agent`](super::agent::set_agent) shows it
    /// to C.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EOVERFLOW` for numbers that do not fit into the C structure.
    pub fn new(
        init: &SendInit<'_>,
        ah: Option<Arc<OwnAh>>,
        flags: Flags,
    ) -> Result<impl Init<Self>> {
        let number = |number: usize| i32::try_from(number).map_err(|_| EOVERFLOW);
        let inline = match init.segments {
            0 => init.room.max(init.payload),
            _ => 0,
        };
        let length = init.header.checked_add(inline).ok_or(EOVERFLOW)?;
        let far: KVec<u8> = match length {
            ..=NEAR => KVec::new(),
            _ => zeroed(length, flags)?,
        };
        let mut segments = KVec::with_capacity(init.segments, flags)?;
        for _ in 0..init.segments {
            segments.push(zeroed(init.payload, flags)?, flags)?;
        }
        let mut buf: ib_mad_send_buf = pin_init::zeroed();
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
        let device = init.device.hold();
        let (lkey, remote_qpn, pkey_index) = (init.lkey, init.remote_qpn, init.pkey_index);
        let (header, payload) = (init.header, init.payload);
        Ok(init!(Self {
            buf: Opaque::new(buf),
            cqe: Opaque::new(ib_cqe { done: None }),
            length,
            near <- pin_init::init_zeroed(),
            far: Opaque::new(far),
            segments,
            device,
            lkey,
            remote_qpn,
            payload,
            header,
            pkey_index: AtomicU16::new(pkey_index),
            port_num: AtomicU32::new(0),
            segment: AtomicU32::new(0),
            queue: AtomicPtr::new(null_mut()),
            holders: AtomicU32::new(0),
            mapped: [const { AtomicU64::new(0) }; 2],
            ah,
        }))
    }

    /// The structure of C.
    #[inline]
    pub fn as_raw(&self) -> *mut ib_mad_send_buf {
        self.buf.get()
    }

    /// The memory of the header, and of the payload if RMPP is not used: `length` bytes.
    pub(super) fn memory(&self) -> *mut u8 {
        if self.length <= NEAR {
            return self.near.get().cast();
        }
        // SAFETY: The vector is constant after the MAD is made. C changes its bytes, so no reference to them is made.
        unsafe { (*self.far.get()).as_ptr().cast_mut() }
    }

    /// The memory of `length` bytes at the offset `at`; `None` after the end.
    #[inline]
    fn part(&self, at: usize, length: usize) -> Option<*mut u8> {
        let end = at.checked_add(length)?;
        (end <= self.length).then(|| self.memory().wrapping_add(at))
    }

    /// `N` bytes at the offset `at`; zeros after the end of the memory.
    #[inline]
    pub fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        // SAFETY: The bytes lie within the memory. The volatile read tolerates concurrent writers.
        self.part(at, N).map_or([0; N], |from| unsafe {
            from.cast::<[u8; N]>().read_volatile()
        })
    }

    /// Writes bytes of the header, if they lie within the memory.
    pub fn write(&self, at: usize, bytes: &[u8]) {
        let Some(to) = self.part(at, bytes.len()) else {
            return;
        };
        // SAFETY: The bytes lie within the memory, whose pointer permits writes. No compiler looks into the copy, which tolerates
        // concurrent accesses.
        unsafe { bindings::memcpy_shared(to.cast(), bytes.as_ptr().cast(), bytes.len()) };
    }

    /// The memory of a segment; the first has the index 0.
    pub fn segment(&self, nth: usize) -> Option<*mut u8> {
        self.segments
            .get(nth)
            .map(|segment| segment.as_ptr().cast_mut())
    }

    /// The number of segments; 0 without RMPP.
    #[inline]
    pub fn segments(&self) -> u32 {
        self.segments.len() as u32
    }

    /// Selects the segment that is sent next; the first has the index 0.
    pub fn select(&self, nth: u32) {
        self.segment.store(nth, Ordering::Relaxed);
    }

    /// The length in bytes of the client's data.
    pub fn data_length(&self) -> usize {
        // SAFETY: The member is constant.
        usize::try_from(unsafe { (*self.as_raw()).data_len }).unwrap_or(0)
    }

    /// The length in bytes of the header of each packet.
    pub fn header_length(&self) -> usize {
        self.header
    }

    /// How many bytes follow the header in a packet.
    pub fn payload_length(&self) -> usize {
        self.payload
    }

    /// The timeout for a response in milliseconds; 0 if none is expected.
    #[inline]
    pub fn timeout_ms(&self) -> u32 {
        // SAFETY: Any value is valid.
        let timeout = unsafe { (&raw const (*self.as_raw()).timeout_ms).read_volatile() };
        u32::try_from(timeout).unwrap_or(0)
    }

    /// Sets the timeout for a response in milliseconds.
    pub fn set_timeout_ms(&self, timeout: u32) {
        let timeout = i32::try_from(timeout).unwrap_or(i32::MAX);
        // SAFETY: Any value is valid, and a single store writes it.
        unsafe { (&raw mut (*self.as_raw()).timeout_ms).write_volatile(timeout) };
    }

    /// The number of retries: before posting the limit, after that the retries done.
    pub fn retries(&self) -> u32 {
        // SAFETY: Any value is valid.
        let retries = unsafe { (&raw const (*self.as_raw()).retries).read_volatile() };
        u32::try_from(retries).unwrap_or(0)
    }

    /// Sets the number of retries done.
    pub fn set_retries(&self, retries: u32) {
        let retries = i32::try_from(retries).unwrap_or(i32::MAX);
        // SAFETY: Any value is valid, and a single store writes it.
        unsafe { (&raw mut (*self.as_raw()).retries).write_volatile(retries) };
    }

    /// The index of the P_Key.
    pub fn pkey_index(&self) -> u16 {
        self.pkey_index.load(Ordering::Relaxed)
    }

    /// Sets the index of the P_Key.
    pub fn set_pkey_index(&self, index: u16) {
        self.pkey_index.store(index, Ordering::Relaxed);
    }

    /// The port that a switch sends the MAD through; 0 for other nodes.
    pub fn port_num(&self) -> u32 {
        self.port_num.load(Ordering::Relaxed)
    }

    /// Sets the port that a switch sends the MAD through.
    pub fn set_port_num(&self, port_num: u32) {
        self.port_num.store(port_num, Ordering::Relaxed);
    }

    /// The device that the MAD is mapped for.
    pub(super) fn device(&self) -> &DeviceMemory {
        &self.device
    }

    /// Whether the client may have the MAD.
    fn is_free(&self) -> bool {
        self.holders.load(Ordering::Acquire) == 0
    }

    /// Claims the MAD for a queue pair, which it is posted to until [`Self::leave_queue`].
    ///
    /// # Errors
    ///
    /// `EBUSY` for a MAD that is posted already.
    pub(super) fn enter_queue(&self, queue: *const c_void) -> Result {
        self.queue
            .compare_exchange(
                null_mut(),
                queue.cast_mut(),
                Ordering::Acquire,
                Ordering::Relaxed,
            )
            .map_err(|_| EBUSY)?;
        Ok(())
    }

    /// Ends the claim, and returns the queue pair.
    pub(super) fn leave_queue(&self) -> *const c_void {
        self.queue.swap(null_mut(), Ordering::Release)
    }

    /// Maps header and payload for DMA.
    pub(super) fn map(&self) -> Result {
        let header = self.memory();
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
        // SAFETY: The memory is valid as long as `self`, which the queue pair's reference keeps while it is posted.
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
        // SAFETY: `map_one` has mapped the memory.
        unsafe {
            bindings::ib_dma_unmap_single(self.device.as_raw(), address, length, TO_DEVICE);
        }
    }

    /// Unmaps what [`Self::map`] has mapped.
    pub(super) fn unmap(&self) {
        let [first, second] = &self.mapped;
        self.unmap_one(first, self.header);
        if self.payload != 0 {
            self.unmap_one(second, self.payload);
        }
    }

    /// The header and the payload, as [`Self::map`] has mapped them.
    pub(super) fn pieces(&self) -> [ib_sge; 2] {
        let [first, second] = &self.mapped;
        let piece = |address: &AtomicU64, length: usize| ib_sge {
            addr: address.load(Ordering::Relaxed),
            // A MAD has at most 2,048 bytes.
            length: length as u32,
            lkey: self.lkey,
        };
        [piece(first, self.header), piece(second, self.payload)]
    }

    /// The send request of these pieces to `ah`. Its `wr_cqe` is null.
    pub(super) fn request(&self, pieces: &mut [ib_sge; 2], ah: &Ah) -> ib_ud_wr {
        let mut request: ib_ud_wr = pin_init::zeroed();
        request.wr.sg_list = pieces.as_mut_ptr();
        request.wr.num_sge = if self.payload == 0 { 1 } else { 2 };
        request.wr.opcode = bindings::IB_WR_SEND;
        request.wr.send_flags = bindings::IB_SEND_SIGNALED;
        request.ah = ah.as_raw();
        request.remote_qpn = self.remote_qpn;
        request.remote_qkey = OWN_QKEY;
        request.pkey_index = self.pkey_index();
        request.port_num = self.port_num();
        request
    }
}

impl Drop for SendBody {
    fn drop(&mut self) {
        // SAFETY: `new` has initialised the vector, and `&mut self` is exclusive.
        unsafe { core::ptr::drop_in_place(self.far.get()) };
    }
}

/// Where a MAD is sent.
pub struct Destination {
    /// The GID of the peer, if packets have a GRH.
    pub gid: Option<Gid>,
    /// The index of the own GID, if packets have a GRH.
    pub sgid_index: u8,
    /// The LID of the peer; 0 on RoCE.
    pub lid: u32,
    /// Which of the port's LIDs is the source.
    pub path_bits: u8,
}

/// A MAD whose address handle is valid: it is posted, or it has a handle of its own.
///
/// # Invariants
///
/// The MAD has a handle of its own, or a client has posted it, which neither changes the MAD nor destroys its address handle as
/// long as the value exists.
#[derive(Clone, Copy)]
pub struct PostedBody<'a>(&'a SendBody);

impl<'a> PostedBody<'a> {
    /// A MAD with an address handle of its own; `None` for any other.
    pub fn own(body: &'a SendBody) -> Option<Self> {
        // INVARIANT: The MAD owns its handle.
        body.ah.is_some().then_some(Self(body))
    }

    /// The address handle; `None` if the client has set none.
    pub(super) fn ah(self) -> Option<&'a Ah> {
        match &self.0.ah {
            Some(own) => own.get(),
            // SAFETY: The handle is null or the client's, which by the type invariants is valid for `'a`.
            None => unsafe { (*self.0.as_raw()).ah.cast::<Ah>().as_ref() },
        }
    }

    /// Queries the address of the MAD from the driver. `None` without an address handle. Any context.
    pub fn destination(self) -> Option<Destination> {
        let mut vector: bindings::rdma_ah_attr = pin_init::zeroed();
        self.ah()?.driver_query(&mut vector).ok()?;
        // SAFETY: The type says which member of the union there is; any bytes are valid numbers.
        let (lid, path_bits) = unsafe {
            match vector.type_ {
                bindings::RDMA_AH_ATTR_TYPE_IB => {
                    let ib = &vector.__bindgen_anon_1.ib;
                    (ib.dlid.into(), ib.src_path_bits)
                }
                bindings::RDMA_AH_ATTR_TYPE_OPA => {
                    let opa = &vector.__bindgen_anon_1.opa;
                    (opa.dlid, opa.src_path_bits)
                }
                _ => (0, 0),
            }
        };
        let has_route = u32::from(vector.ah_flags) & bindings::IB_AH_GRH != 0;
        Some(Destination {
            gid: has_route.then(|| Gid::from_raw(&vector.grh.dgid)),
            sgid_index: vector.grh.sgid_index,
            lid,
            path_bits,
        })
    }

    /// A copy of the structure of C.
    pub(super) fn copy(self) -> ib_mad_send_buf {
        // SAFETY: Any value of the members is valid; the volatile read tolerates the layer's writes.
        let mut copy = unsafe { self.0.as_raw().read_volatile() };
        copy.ah = self.ah().map_or(null_mut(), Ah::as_raw);
        copy.mad = self.0.memory().cast();
        copy
    }

    /// The number of the remote queue pair, and the Q_Key.
    pub(super) fn remote(self) -> (u32, u32) {
        (self.0.remote_qpn, OWN_QKEY)
    }
}

/// A MAD that its client has posted. [`tell_sent`](super::agent::tell_sent) returns it to the client once; if posting fails,
/// [`BadSend::give_back`] does.
///
/// # Invariants
///
/// The MAD counts the value in `holders`. The client does not access the MAD, nor destroy its address handle, as long as there
/// are holders. There is one value per post.
pub struct Posted<S: Embeds<Body = SendBody>>(Arc<S>);

impl<S: Embeds<Body = SendBody>> Posted<S> {
    /// Takes over a MAD that its client posts; `None` for one that is posted already.
    ///
    /// # Safety
    ///
    /// The client does not access the MAD until `tell_sent` or `give_back` returns it.
    unsafe fn by_client(send: &Arc<S>) -> Option<Self> {
        let holders = &send.body().holders;
        holders
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        // INVARIANT: The value was just counted. By the safety requirements; both functions look whether there are holders.
        Some(Self(send.clone()))
    }

    /// A reference to the MAD.
    #[inline]
    pub fn send(&self) -> &Arc<S> {
        &self.0
    }

    /// The MAD as one that is posted.
    #[inline]
    pub fn posted(&self) -> PostedBody<'_> {
        // INVARIANT: By the type invariants, for as long as `self` is borrowed.
        PostedBody(self.0.body())
    }

    /// The MAD for a queue pair. The client does not get it back before the result is dropped.
    pub fn addressed(&self) -> Addressed<S> {
        // INVARIANT: The client does not access the MAD.
        Addressed::count(&self.0)
    }

    /// Ends the post. Returns the MAD if the client may have it back: if there are no other holders.
    pub(super) fn end(self) -> Option<Arc<S>> {
        let send = self.0.clone();
        drop(self);
        send.body().is_free().then_some(send)
    }
}

impl<S: Embeds<Body = SendBody>> Drop for Posted<S> {
    fn drop(&mut self) {
        self.0.body().holders.fetch_sub(1, Ordering::Release);
    }
}

/// A MAD that is posted, with its address handle.
///
/// # Invariants
///
/// The MAD counts the value in `holders`. The MAD has an address handle of its own, or its client has posted it.
pub struct Addressed<S: Embeds<Body = SendBody>>(Arc<S>);

impl<S: Embeds<Body = SendBody>> core::ops::Deref for Addressed<S> {
    type Target = Arc<S>;

    #[inline]
    fn deref(&self) -> &Arc<S> {
        &self.0
    }
}

impl<S: Embeds<Body = SendBody>> Addressed<S> {
    /// A MAD with an address handle of its own.
    ///
    /// # Errors
    ///
    /// `EINVAL` for any other.
    pub fn own(send: &Arc<S>) -> Result<Self> {
        // INVARIANT: The MAD owns its handle.
        PostedBody::own(send.body())
            .map(|_| Self::count(send))
            .ok_or(EINVAL)
    }

    fn count(send: &Arc<S>) -> Self {
        send.body().holders.fetch_add(1, Ordering::Relaxed);
        Self(send.clone())
    }

    /// The MAD as one that is posted.
    #[inline]
    pub fn posted(&self) -> PostedBody<'_> {
        // INVARIANT: By the type invariants, for as long as `self` is borrowed.
        PostedBody(self.0.body())
    }

    /// The MAD, which its client may get back from now on.
    pub fn end(self) -> Arc<S> {
        self.0.clone()
    }

    /// The value as a pointer to the MAD, for a queue pair.
    pub(super) fn into_raw(self) -> *const S {
        let this = core::mem::ManuallyDrop::new(self);
        // SAFETY: The value is not used again, so the reference moves out of it.
        Arc::into_raw(unsafe { core::ptr::read(&this.0) })
    }

    /// The value of a pointer.
    ///
    /// # Safety
    ///
    /// The pointer is from [`Self::into_raw`], and is given up.
    pub(super) unsafe fn from_raw(raw: *const S) -> Self {
        // SAFETY: By the safety requirements this is the reference from `into_raw`.
        // INVARIANT: The value has been counted since.
        Self(unsafe { Arc::from_raw(raw) })
    }
}

impl<S: Embeds<Body = SendBody>> Drop for Addressed<S> {
    fn drop(&mut self) {
        self.0.body().holders.fetch_sub(1, Ordering::Release);
    }
}

/// A MAD that C posts although it is posted already.
pub struct PostedTwice<T>(Arc<T>);

/// A chain of MADs that C posts in one call.
pub struct Chain<'a, T: Embeds<Body = SendBody>>(MaybeBorrowed<'a, T>);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl<T: Embeds<Body = SendBody>> FromC for Chain<'_, T> {
    type Raw = *mut ib_mad_send_buf;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the pointer is null or a MAD that C lends.
        Self(unsafe { MaybeBorrowed::from_c(raw) })
    }
}

impl<T: Embeds<Body = SendBody>> Chain<'_, T> {
    /// Removes the first MAD, for posting. Its link is not read afterwards, since the MAD may be sent and freed at once.
    pub fn take_first(&mut self) -> Option<Result<Posted<T>, PostedTwice<T>>> {
        let first = self.0 .0.take()?;
        let send = first.hold();
        // SAFETY: By the header the client has filled in the members, lends the whole chain, and posts each of its MADs by
        // this call.
        unsafe {
            self.0 = MaybeBorrowed::from_c((*first.body().as_raw()).next);
            Some(Posted::by_client(&send).ok_or(PostedTwice(send)))
        }
    }
}

/// The output argument for the MAD whose posting has failed, which may be null.
pub struct BadSend<'a>(Option<&'a mut *mut ib_mad_send_buf>);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for BadSend<'_> {
    type Raw = *mut *mut ib_mad_send_buf;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the pointer is null or valid for writes.
        Self(unsafe { raw.as_mut() })
    }
}

impl BadSend<'_> {
    fn set<T: Embeds<Body = SendBody>>(self, send: &Arc<T>) {
        if let Some(place) = self.0 {
            *place = c_pointer(send);
        }
    }

    /// Returns a MAD to its client, whose posting has failed with `error`: the result of the call. A MAD that still has holders
    /// stays with the layer, as if it were posted.
    ///
    /// # Errors
    ///
    /// `error`.
    pub fn give_back<T: Embeds<Body = SendBody>>(self, send: &Arc<T>, error: Error) -> Result {
        if !send.body().is_free() {
            kernel::pr_warn_once!("a MAD that was not posted is in use\n");
            return Ok(());
        }
        self.set(send);
        Err(error)
    }

    /// Refuses a MAD that is posted already. It stays with the layer.
    pub fn refuse<T: Embeds<Body = SendBody>>(self, twice: &PostedTwice<T>) -> Error {
        self.set(&twice.0);
        EINVAL
    }
}

/// Allocation flags (`gfp_t`), with the context that they promise.
pub enum SendFlags<'a> {
    /// The token is borrowed from another C entry point.
    Borrowed(&'a MaySleep),
    /// The flags promise a context that may sleep.
    Own(MaySleep),
    /// The context may not sleep.
    Atomic,
}

// SAFETY: `Raw` is the integer type of the header.
unsafe impl FromC for SendFlags<'_> {
    type Raw = bindings::gfp_t;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        match raw & bindings::GFP_KERNEL & !bindings::GFP_ATOMIC {
            0 => Self::Atomic,
            // SAFETY: By the header such flags promise a context that may sleep.
            _ => Self::Own(unsafe { MaySleep::assume() }),
        }
    }
}

impl SendFlags<'_> {
    /// The token, if the context may sleep.
    pub fn sleep(&self) -> Option<&MaySleep> {
        match self {
            Self::Borrowed(sleep) => Some(sleep),
            Self::Own(sleep) => Some(sleep),
            Self::Atomic => None,
        }
    }

    /// The flags as the kernel crate's type.
    pub fn get(&self) -> Flags {
        match self {
            Self::Atomic => GFP_ATOMIC,
            _ => GFP_KERNEL,
        }
    }

    /// The flags as [`Gfp`].
    pub fn gfp(&self) -> Gfp<'_> {
        self.sleep().map_or(Gfp::ATOMIC, Gfp::kernel)
    }
}
