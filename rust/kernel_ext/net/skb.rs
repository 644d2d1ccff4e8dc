// SPDX-License-Identifier: GPL-2.0

//! Socket buffers, which hold packets: `struct sk_buff`, its headers, data and fragments.
//!
//! C header: `include/linux/skbuff.h`.

use super::header::{IpHeader, Ipv4Header, Ipv6Header, UdpHeader};
use crate::{bindings, gfp::Gfp, room::Room, shared::read_prefix, shared_bytes::SharedBytes};
use core::{
    mem::ManuallyDrop,
    ptr::{self, NonNull},
    slice,
};
use kernel::{
    ffi::c_void,
    prelude::*,
    sync::Arc,
    transmute::{AsBytes, FromBytes},
};

/// The maximum number of datagrams in a packet that [`SkBuff::segment_udp`] makes.
pub const MAX_SEGMENTS: usize = 16;

/// An owned packet. Dropping it frees it as a dropped packet; see [`SkBuff::consume`].
///
/// It has a linear part, [`data`](SkBuff::data), with headroom and tailroom, and may have page fragments and further
/// buffers. [Clones](SkBuff::try_clone) share their data, which is then read-only.
///
/// # Invariants
///
/// `0` is a valid `sk_buff`, to which `self` owns the only reference.
pub struct SkBuff(NonNull<bindings::sk_buff>);

// SAFETY: Packets may be used and freed on any thread.
unsafe impl Send for SkBuff {}
// The type is not `Sync`: `skb_clone` marks the packet's data as shared, without a lock.

/// Accounting of packets in flight: see [`SkBuff::set_owner`].
pub trait InFlight: Send + Sync + 'static {
    /// The packet has left the queues of this machine, or was dropped. `segments` is the number of its
    /// [segments](SkBuff::segments) when the owner was set. Softirq or process context, must not sleep.
    ///
    /// May be called from within the transmit function.
    fn released(this: Arc<Self>, segments: u32);
}

impl SkBuff {
    /// Allocates an empty packet with `headroom` bytes of headroom and `len` bytes of tailroom.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EINVAL` if the sum is too large for a linear packet.
    pub fn alloc(headroom: usize, len: usize, gfp: Gfp<'_>) -> Result<Self> {
        const MAX: usize = 1 << 20;
        let size = headroom
            .checked_add(len)
            .filter(|&size| size <= MAX)
            .ok_or(EINVAL)?;
        // SAFETY: The flags fit the context, by their type.
        let skb = unsafe { bindings::alloc_skb(size as u32, gfp.as_raw()) };
        let skb = NonNull::new(skb).ok_or(ENOMEM)?;
        // SAFETY: The packet is new and empty, and has at least that much room. This is what `skb_reserve` does.
        unsafe {
            (*skb.as_ptr()).data = (*skb.as_ptr()).data.add(headroom);
            (*skb.as_ptr()).tail = headroom as u32;
        }
        // INVARIANT: `alloc_skb` returns a new packet.
        Ok(Self(skb))
    }

    /// Takes over a packet from C.
    ///
    /// # Safety
    ///
    /// `ptr` is a valid packet, and the caller hands over the only reference to it.
    #[inline]
    pub unsafe fn from_raw(ptr: NonNull<bindings::sk_buff>) -> Self {
        // INVARIANT: By the safety requirements.
        Self(ptr)
    }

    /// Passes the packet to C, which must free it.
    #[inline]
    pub fn into_raw(self) -> *mut bindings::sk_buff {
        ManuallyDrop::new(self).0.as_ptr()
    }

    /// Returns the C pointer.
    #[inline]
    pub fn as_raw(&self) -> *mut bindings::sk_buff {
        self.0.as_ptr()
    }

    #[inline]
    fn inner(&self) -> &bindings::sk_buff {
        // SAFETY: By the type invariants; concurrently C only changes the shared bytes and the counters behind the structure.
        unsafe { self.0.as_ref() }
    }

    /// Frees the packet as delivered (`consume_skb()`).
    pub fn consume(self) {
        // SAFETY: `self` owns the packet, which is not used any more.
        unsafe { bindings::consume_skb(self.into_raw()) };
    }

    /// Clones the packet; both are read-only while they share the data.
    ///
    /// The clone has no owner.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn try_clone(&self, gfp: Gfp<'_>) -> Result<Self> {
        // SAFETY: The packet is valid; cloning changes counters only.
        let skb = unsafe { bindings::skb_clone(self.as_raw(), gfp.as_raw()) };
        // INVARIANT: `skb_clone` returns a new packet.
        NonNull::new(skb).map(Self).ok_or(ENOMEM)
    }

    /// Returns the length of all parts, in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.inner().len as usize
    }

    /// Whether the packet is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the length of the linear part, in bytes.
    #[inline]
    pub fn headlen(&self) -> usize {
        self.inner().len.saturating_sub(self.inner().data_len) as usize
    }

    /// Returns the headroom, in bytes.
    #[inline]
    pub fn headroom(&self) -> usize {
        (self.inner().data as usize).saturating_sub(self.inner().head as usize)
    }

    /// Returns the tailroom, in bytes; 0 if there is more than the linear part.
    #[inline]
    pub fn tailroom(&self) -> usize {
        if self.inner().data_len != 0 {
            return 0;
        }
        self.inner().end.saturating_sub(self.inner().tail) as usize
    }

    /// Whether the linear part is not shared, so that it may be written.
    #[inline]
    pub fn is_writable(&self) -> bool {
        // SAFETY: The packet is valid.
        unsafe { !bindings::skb_cloned(self.as_raw()) }
    }

    /// Returns the linear part.
    #[inline]
    pub fn data(&self) -> &[u8] {
        // SAFETY: The linear part is that long, and it is not written while it is shared.
        unsafe { slice::from_raw_parts(self.inner().data, self.headlen()) }
    }

    /// Returns the linear part for writing. `None` if it is shared.
    #[inline]
    pub fn data_mut(&mut self) -> Option<&mut [u8]> {
        if !self.is_writable() {
            return None;
        }
        // SAFETY: The linear part is that long, and by the check it is not shared.
        Some(unsafe { slice::from_raw_parts_mut(self.inner().data, self.headlen()) })
    }

    /// Appends the bytes that `write` writes, at most `len`. `None`, without a call, if the tailroom is too small, or the data is
    /// shared.
    #[inline]
    pub fn append<R>(&mut self, len: usize, write: impl FnOnce(&mut Room<'_>) -> R) -> Option<R> {
        if len > self.tailroom() || !self.is_writable() {
            return None;
        }
        let skb = self.as_raw();
        // SAFETY: The tailroom has `len` bytes, and the packet is linear and borrowed mutably.
        let (tail, room) = unsafe {
            let tail = (*skb).head.add((*skb).tail as usize);
            (tail, slice::from_raw_parts_mut(tail.cast(), len))
        };
        let mut room = Room::new(room);
        let result = write(&mut room);
        // `write` may have replaced the room by another one.
        if !ptr::eq(room.start(), tail) {
            return None;
        }
        let written = room.written() as u32;
        // SAFETY: By the invariants of `Room` the written bytes after the tail are initialised.
        unsafe {
            (*skb).tail = (*skb).tail.wrapping_add(written);
            (*skb).len = (*skb).len.wrapping_add(written);
        }
        Some(result)
    }

    /// Extends the packet at its end by `bytes`. `None` as for [`SkBuff::append`].
    pub fn put_slice(&mut self, bytes: &[u8]) -> Option<()> {
        self.append(bytes.len(), |room| room.write(bytes))?.ok()
    }

    /// Extends the packet at its start by `bytes`. `None` if the headroom is too small, or the data is shared.
    #[inline]
    pub fn push_slice(&mut self, bytes: &[u8]) -> Option<()> {
        let len = bytes.len();
        if len > self.headroom() || !self.is_writable() {
            return None;
        }
        let skb = self.as_raw();
        // SAFETY: The headroom has `len` bytes; the packet is borrowed mutably, so `bytes` is not a part of it.
        unsafe {
            let start = (*skb).data.sub(len);
            ptr::copy_nonoverlapping(bytes.as_ptr(), start, len);
            (*skb).data = start;
            (*skb).len = (*skb).len.wrapping_add(len as u32);
        }
        Some(())
    }

    /// Pushes a header to the packet. `None` as for [`SkBuff::push_slice`].
    #[inline]
    pub fn push_header<T: AsBytes>(&mut self, header: &T) -> Option<()> {
        self.push_slice(header.as_bytes())
    }

    /// Removes `len` bytes from the start, which become headroom. `None` if the linear part is shorter.
    #[inline]
    pub fn pull(&mut self, len: usize) -> Option<()> {
        if len > self.headlen() {
            return None;
        }
        let skb = self.as_raw();
        // SAFETY: The linear part has that many bytes.
        unsafe {
            (*skb).data = (*skb).data.add(len);
            (*skb).len = (*skb).len.wrapping_sub(len as u32);
        }
        Some(())
    }

    /// Truncates the packet to `len` bytes; a shorter one is unchanged.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn trim(&mut self, len: usize) -> Result {
        if len >= self.len() {
            return Ok(());
        }
        // SAFETY: `self` owns the packet, and is borrowed mutably.
        kernel::error::to_result(unsafe { bindings::pskb_trim(self.as_raw(), len as u32) })
    }

    /// Makes the linear part at least `len` bytes long (`pskb_may_pull()`).
    ///
    /// # Errors
    ///
    /// `EINVAL` if the packet is shorter, or memory is short.
    #[inline]
    pub fn ensure_linear(&mut self, len: usize) -> Result {
        if len <= self.headlen() {
            return Ok(());
        }
        let len = u32::try_from(len).map_err(|_| EINVAL)?;
        // SAFETY: `self` owns the packet, and is borrowed mutably.
        if unsafe { bindings::pskb_may_pull(self.as_raw(), len) } {
            Ok(())
        } else {
            Err(EINVAL)
        }
    }

    /// Checks that `len` bytes at `offset` are within the packet, and returns both as C's type.
    #[inline]
    fn range(&self, offset: usize, len: usize) -> Result<(i32, i32)> {
        let end = offset.checked_add(len).ok_or(EINVAL)?;
        if end > self.len() {
            return Err(EINVAL);
        }
        Ok((
            i32::try_from(offset).map_err(|_| EINVAL)?,
            i32::try_from(len).map_err(|_| EINVAL)?,
        ))
    }

    /// Copies bytes from any part.
    ///
    /// # Errors
    ///
    /// `EINVAL` beyond the end.
    pub fn copy_bits(&self, offset: usize, to: &mut [u8]) -> Result {
        if let Some(bytes) = self.piece(offset, to.len()) {
            return bytes.copy_to(to);
        }
        let (offset, len) = self.range(offset, to.len())?;
        // SAFETY: The range is inside the packet, and `to` is that long.
        kernel::error::to_result(unsafe {
            bindings::skb_copy_bits(self.as_raw(), offset, to.as_mut_ptr().cast(), len)
        })
    }

    /// Copies `N` bytes from any part, as [`SkBuff::copy_bits`].
    ///
    /// # Errors
    ///
    /// `EINVAL` beyond the end.
    #[inline]
    pub fn copy_array<const N: usize>(&self, offset: usize) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.copy_bits(offset, &mut bytes)?;
        Ok(bytes)
    }

    /// Copies bytes to the linear part. Page fragments may belong to a file or another packet.
    ///
    /// # Errors
    ///
    /// `EINVAL` beyond the end, `EBUSY` if the data is shared.
    pub fn store_bits(&mut self, offset: usize, from: &[u8]) -> Result {
        let end = offset.checked_add(from.len()).ok_or(EINVAL)?;
        let bytes = self.data_mut().ok_or(EBUSY)?;
        bytes
            .get_mut(offset..end)
            .ok_or(EINVAL)?
            .copy_from_slice(from);
        Ok(())
    }

    /// The `len` bytes at `offset`, if they lie in the linear part or in one page fragment.
    #[inline]
    fn piece(&self, offset: usize, len: usize) -> Option<SharedBytes<'_>> {
        self.piece_from(offset)?.get(0..len)
    }

    /// The bytes from `offset` to the end of the linear part, or of the page fragment that they lie in.
    #[inline]
    fn piece_from(&self, offset: usize) -> Option<SharedBytes<'_>> {
        let linear = self.headlen();
        let Some(start) = offset.checked_sub(linear) else {
            return self.data().get(offset..).map(SharedBytes::from);
        };
        let mut rest = 0;
        // SAFETY: The packet is valid.
        let bytes = unsafe { bindings::skb_in_frags(self.as_raw(), start, &mut rest) };
        if bytes.is_null() {
            return None;
        }
        // SAFETY: The fragment has `rest` bytes there, in memory of this machine, as long as the packet.
        Some(unsafe { SharedBytes::from_raw(bytes.cast(), rest) })
    }

    /// Reads the packet in many parts.
    #[inline]
    pub fn cursor(&self) -> Cursor<'_> {
        Cursor {
            skb: self,
            start: 0,
            piece: SharedBytes::from([].as_slice()),
        }
    }

    /// Calls `f` with the pieces of `len` bytes at `offset`. A packet that was sent on this machine may have pages of its sender, who
    /// may write them meanwhile (`MSG_ZEROCOPY`, `sendfile`, `vmsplice`).
    ///
    /// # Errors
    ///
    /// `EINVAL` beyond the end.
    pub fn for_each_piece(
        &self,
        offset: usize,
        len: usize,
        mut f: impl FnMut(SharedBytes<'_>),
    ) -> Result {
        self.range(offset, len)?;
        if let Some(bytes) = self.piece(offset, len) {
            f(bytes);
            return Ok(());
        }
        let end = offset.wrapping_add(len);
        let mut state = pin_init::zeroed::<bindings::skb_seq_state>();
        let mut bytes = core::ptr::null();
        let mut done = 0u32;
        // SAFETY: The range is inside the packet.
        unsafe {
            bindings::skb_prepare_seq_read(self.as_raw(), offset as u32, end as u32, &mut state)
        };
        loop {
            // SAFETY: The state was prepared, and is read until it returns 0, which releases its mapping.
            let n = unsafe { bindings::skb_seq_read(done, &mut bytes, &mut state) };
            if n == 0 {
                return Ok(());
            }
            // A piece may extend beyond the range.
            let n = n.min((len as u32).wrapping_sub(done));
            // SAFETY: There are `n` bytes, until the next call.
            f(unsafe { SharedBytes::from_raw(bytes, n as usize) });
            done = done.wrapping_add(n);
        }
    }

    /// Sets the network (IP) header to the start of the packet.
    #[inline]
    pub fn set_network_header(&mut self) {
        // SAFETY: `self` owns the packet, and is borrowed mutably.
        unsafe { bindings::skb_reset_network_header(self.as_raw()) };
    }

    /// Sets the transport (UDP) header to the start of the packet.
    #[inline]
    pub fn set_transport_header(&mut self) {
        // SAFETY: `self` owns the packet, and is borrowed mutably.
        unsafe { bindings::skb_reset_transport_header(self.as_raw()) };
    }

    /// Sets the priority, for queueing disciplines.
    pub fn set_priority(&mut self, priority: u32) {
        // SAFETY: `self` owns the packet, and is borrowed mutably.
        unsafe { bindings::skb_set_priority(self.as_raw(), priority) };
    }

    /// Sets the mark, for packet filters and routing.
    pub fn set_mark(&mut self, mark: u32) {
        // SAFETY: `self` owns the packet, and is borrowed mutably.
        unsafe { bindings::skb_set_mark(self.as_raw(), mark) };
    }

    /// Sets a word of the control buffer, which the owner of the packet may use.
    #[inline]
    pub fn set_cb_word(&mut self, word: u32) {
        // SAFETY: `self` owns the packet, and is borrowed mutably.
        unsafe { bindings::skb_set_cb_word(self.as_raw(), word) };
    }

    /// The word that [`SkBuff::set_cb_word`] has set, if the packet had no other owner since.
    #[inline]
    pub fn cb_word(&self) -> u32 {
        // SAFETY: The packet is valid.
        unsafe { bindings::skb_cb_word(self.as_raw()) }
    }

    /// Reads a header at `offset` from the packet's start, which may be negative, if it is in the linear part.
    fn header_at<T: FromBytes>(&self, offset: i32) -> Option<T> {
        let start = self.headroom().checked_add_signed(offset as isize)?;
        let len = self.headroom().checked_add(self.headlen())?;
        // SAFETY: The headroom and the linear part are `len` initialised bytes at `head`.
        let bytes = unsafe { slice::from_raw_parts(self.inner().head, len) };
        read_prefix(bytes.get(start..)?)
    }

    /// Returns the network header of a received packet. `None` if there is none.
    pub fn ip_header(&self) -> Option<IpHeader> {
        // SAFETY: The packet is valid.
        let offset = unsafe { bindings::skb_network_offset(self.as_raw()) };
        match self.header_at::<u8>(offset)? >> 4 {
            4 => self.header_at::<Ipv4Header>(offset).map(IpHeader::V4),
            6 => self.header_at::<Ipv6Header>(offset).map(IpHeader::V6),
            _ => None,
        }
    }

    /// Returns the transport header of a received UDP packet. `None` if it is not in the linear part.
    pub fn udp_header(&self) -> Option<UdpHeader> {
        // SAFETY: The packet is valid.
        self.header_at(unsafe { bindings::skb_transport_offset(self.as_raw()) })
    }

    /// Returns the source MAC address of a received Ethernet packet. `None` without a link-layer header.
    pub fn ethernet_source(&self) -> Option<[u8; 6]> {
        let mut source = [0; 6];
        // SAFETY: The packet is valid, and its link header, if it has one, lies in the headroom.
        unsafe { bindings::skb_ethernet_source(self.as_raw(), &mut source) }.then_some(source)
    }

    /// Sets the owner, which is called when the packet is released: freed, or received by a local socket.
    ///
    /// A previous owner is called now. Clones of the packet have no owner.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the packet is shared, or has a destructor of the kernel.
    pub fn set_owner<T: InFlight>(&mut self, owner: Arc<T>) -> Result {
        // SAFETY: The packet is valid.
        if !self.is_writable() || unsafe { bindings::skb_zcopy(self.as_raw()) } {
            return Err(EBUSY);
        }
        // SAFETY: `self` owns the packet, and is borrowed mutably.
        unsafe { bindings::skb_orphan(self.as_raw()) };
        // SAFETY: `self` owns the packet, and its data is not shared, so neither is its `skb_shared_info`. The kernel uses the
        // argument only together with a destructor, and for zero-copy data, which this is not. XDP has the length of a packet's
        // fragments in its place, but gives a program the fragments of a copy alone, which has no owner (`skb_pp_cow_data`; xdp.sh).
        unsafe {
            let shared = bindings::skb_shinfo(self.as_raw());
            (*shared).__bindgen_anon_2.destructor_arg = Arc::into_raw(owner).cast_mut().cast();
            (*self.as_raw())
                .__bindgen_anon_3
                .__bindgen_anon_1
                .destructor = Some(release_of::<T>(self.segments()));
        }
        Ok(())
    }
}

/// The type of `skb->destructor`.
type Destructor = unsafe extern "C" fn(*mut bindings::sk_buff);

/// The destructor of a packet with this number of segments. The number is an argument of the generic function, because other code may
/// change the number in the packet.
fn release_of<T: InFlight>(segments: usize) -> Destructor {
    macro_rules! numbers {
        ($($n:literal)*) => { [$(release::<T, $n>),*] };
    }
    let all: [Destructor; MAX_SEGMENTS] = numbers![1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16];
    let index = segments.wrapping_sub(1);
    all.get(index).copied().unwrap_or(release::<T, 1>)
}

/// The destructor that [`SkBuff::set_owner`] sets.
///
/// # Safety
///
/// `skb` is a packet whose owner is a `T`; called once.
unsafe extern "C" fn release<T: InFlight, const SEGMENTS: u32>(skb: *mut bindings::sk_buff) {
    // SAFETY: `set_owner` has stored the owner, and leaked its reference.
    let owner = unsafe {
        let owner: *mut c_void = (*bindings::skb_shinfo(skb)).__bindgen_anon_2.destructor_arg;
        Arc::from_raw(owner.cast::<T>().cast_const())
    };
    T::released(owner, SEGMENTS);
}

impl Drop for SkBuff {
    fn drop(&mut self) {
        // SAFETY: `self` owns the packet, which is not used any more.
        unsafe {
            bindings::sk_skb_reason_drop(
                core::ptr::null(),
                self.as_raw(),
                bindings::SKB_DROP_REASON_NOT_SPECIFIED,
            )
        };
    }
}

/// Reads parts of a packet. One that lies behind the one before, in the same piece, is found without a search.
pub struct Cursor<'a> {
    skb: &'a SkBuff,
    /// The offset of `piece`.
    start: usize,
    /// Where the last part was, up to the end of the linear part or the page fragment.
    piece: SharedBytes<'a>,
}

impl<'a> Cursor<'a> {
    /// As [`SkBuff::piece`].
    #[inline]
    fn piece(&mut self, offset: usize, len: usize) -> Option<SharedBytes<'a>> {
        let at = offset.wrapping_sub(self.start);
        let known = at.checked_add(len).and_then(|end| self.piece.get(at..end));
        known.or_else(|| {
            self.piece = self.skb.piece_from(offset)?;
            self.start = offset;
            self.piece.get(0..len)
        })
    }

    /// Copies `N` bytes from any part, as [`SkBuff::copy_bits`].
    ///
    /// # Errors
    ///
    /// `EINVAL` beyond the end.
    #[inline]
    pub fn copy_array<const N: usize>(&mut self, offset: usize, to: &mut [u8; N]) -> Result {
        let piece = self.piece(offset, N);
        match piece.and_then(|bytes| bytes.copy_to_array(to)) {
            Some(()) => Ok(()),
            None => self.skb.copy_bits(offset, to),
        }
    }

    /// Whether the bytes of a part are `other`; not beyond the end.
    #[inline]
    pub fn is<const N: usize>(&mut self, offset: usize, other: &[u8; N]) -> bool {
        match self.piece(offset, N) {
            Some(bytes) => bytes.is(other),
            None => self
                .skb
                .copy_array(offset)
                .is_ok_and(|bytes: [u8; N]| bytes == *other),
        }
    }

    /// As [`SkBuff::for_each_piece`].
    ///
    /// # Errors
    ///
    /// `EINVAL` beyond the end.
    #[inline]
    pub fn for_each_piece(
        &mut self,
        offset: usize,
        len: usize,
        mut f: impl FnMut(SharedBytes<'_>),
    ) -> Result {
        match self.piece(offset, len) {
            Some(bytes) => {
                f(bytes);
                Ok(())
            }
            None => self.skb.for_each_piece(offset, len, f),
        }
    }
}
