// SPDX-License-Identifier: GPL-2.0

//! A work request together with its memory and its completion handler: `struct ib_cqe`.
//!
//! | owner of a [`Work`] | operations |
//! |---|---|
//! | the client, as `Pin<KBox<Work<H>>>` | its bytes are read and written; it is dropped; it is posted |
//! | the queue pair, after a successful post | none: the device or the peer may access its bytes |
//! | its handler, after the completion | those of the client; it may be posted again |
//!
//! A receiver that posts each completed request again:
//!
//! ```
//! use kernel::prelude::*;
//! use rdma::client::{
//!     qp::Rc,
//!     work::{Completion, Handler},
//!     Work,
//! };
//!
//! struct Receiver;
//!
//! impl<'d> Handler<'d> for Receiver {
//!     fn done(work: Pin<KBox<Work<'d, Self>>>, completion: &Completion<'_, 'd>) {
//!         if !completion.is_success() {
//!             return; // The queue pair is in error, or is being destroyed: the work is freed.
//!         }
//!         let message = work.bytes().get(..completion.length() as usize);
//!         pr_info!("{:?}\n", message);
//!         if let Some(qp) = completion.receiver::<Rc>() {
//!             let _ = qp.post_receive(work);
//!         }
//!     }
//! }
//! ```
//!
//! So the memory of a request is valid until its completion, and the CPU does not access memory that a device is writing. Each
//! posted request is completed once, at the latest when the destruction of the queue pair or the SRQ flushes it. Posting
//! allocates no memory.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::ptr::NonNull;

use kernel::{prelude::*, sync::Arc, types::Opaque};
use rdma_bindings::{self as bindings, ib_cq, ib_cqe, ib_sge, ib_wc};

use super::{
    credit::Credit,
    dma::Buffer,
    mr::Invalidated,
    qp::{
        shared::{QpRef, Shared},
        state::{Init, Rts},
        transport::Transport,
    },
    resources::{Outstanding, Resources},
    Device, DropsAnywhere,
};
use crate::{abi::wr::SendFlags, MaySleep, WcOpcode, WcStatus};

pub use super::source::Source;

/// The maximum number of memory pieces of a request.
pub const MAX_PIECES: usize = 4;

/// A handler of completions.
pub trait Handler<'d>: Send + Sized + DropsAnywhere + 'd {
    /// Called when the request is completed, with the ownership of the work. It runs in the context in which the completion
    /// queue is polled: it must not sleep, but may post, poll, and create address handles.
    ///
    /// When the queue pair is destroyed, all posted requests are completed with [`WcStatus::WrFlushErr`], and no others can be
    /// posted.
    fn done(work: Pin<KBox<Work<'d, Self>>>, completion: &Completion<'_, 'd>);
}

/// A request, its memory, and its handler.
#[pin_data]
pub struct Work<'d, H> {
    #[pin]
    cqe: Opaque<ib_cqe>,
    /// The first piece of memory, which has a length of its own.
    buffer: Buffer<'d>,
    length: u32,
    /// The other pieces.
    more: [Option<Buffer<'d>>; MAX_PIECES - 1],
    flags: SendFlags,
    resources: Resources<'d>,
    /// The credit of the posted request.
    credit: Option<Credit>,
    outstanding: Option<Outstanding>,
    handler: H,
}

impl<'d, H: Handler<'d>> Work<'d, H> {
    /// Allocates a request with `length` bytes of zeroed memory.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(
        device: &Device<'d>,
        length: u32,
        handler: H,
        _sleep: &MaySleep,
    ) -> Result<Pin<KBox<Self>>> {
        Self::with_buffer(
            Buffer::new(device, length, GFP_KERNEL)?,
            handler,
            GFP_KERNEL,
        )
    }

    /// Creates a request with memory that is mapped already. Any context, with suitable flags.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn with_buffer(
        buffer: Buffer<'d>,
        handler: H,
        flags: kernel::alloc::Flags,
    ) -> Result<Pin<KBox<Self>>> {
        let cqe = ib_cqe {
            done: Some(done::<H>),
        };
        let init = pin_init!(Self {
            cqe: Opaque::new(cqe),
            length: buffer.length(),
            buffer,
            more: [const { None }; MAX_PIECES - 1],
            flags: SendFlags::empty(),
            resources: Resources::Nothing,
            credit: None,
            outstanding: None,
            handler,
        });
        KBox::pin_init(init, flags)
    }

    /// The handler.
    pub fn handler(&self) -> &H {
        &self.handler
    }

    /// The parts that are not pinned.
    fn parts(self: Pin<&mut Self>) -> &mut Self {
        // SAFETY: Only `cqe` is pinned, which no method changes.
        unsafe { self.get_unchecked_mut() }
    }

    /// The handler, for writing.
    pub fn handler_mut(self: Pin<&mut Self>) -> &mut H {
        &mut self.parts().handler
    }

    /// All of the first piece of memory, independent of [`Self::set_length`].
    pub fn bytes(&self) -> &[u8] {
        self.buffer.bytes()
    }

    /// All of the first piece of memory, for writing.
    pub fn bytes_mut(self: Pin<&mut Self>) -> &mut [u8] {
        self.parts().buffer.bytes_mut()
    }

    /// Copies `bytes` to the first piece of memory, truncated to its length.
    pub fn write(self: Pin<&mut Self>, bytes: &[u8]) {
        self.parts().buffer.write(bytes);
    }

    /// Sets the number of bytes of the first piece that the request transfers, limited to its length.
    pub fn set_length(self: Pin<&mut Self>, length: u32) {
        let this = self.parts();
        this.length = length.min(this.buffer.length());
    }

    /// The number of bytes of the first piece that the request transfers.
    pub fn length(&self) -> u32 {
        self.length
    }

    /// Appends a piece of memory. Any context.
    ///
    /// # Errors
    ///
    /// The piece, if there are [`MAX_PIECES`] already.
    pub fn add_piece(self: Pin<&mut Self>, piece: Buffer<'d>) -> Result<(), Buffer<'d>> {
        match self.parts().more.iter_mut().find(|place| place.is_none()) {
            Some(place) => {
                *place = Some(piece);
                Ok(())
            }
            None => Err(piece),
        }
    }

    /// The `nth` piece of memory, from 0.
    pub fn piece(&self, nth: usize) -> Option<&Buffer<'d>> {
        match nth.checked_sub(1) {
            None => Some(&self.buffer),
            Some(nth) => self.more.get(nth)?.as_ref(),
        }
    }

    /// The `nth` piece of memory, from 0, for writing.
    pub fn piece_mut(self: Pin<&mut Self>, nth: usize) -> Option<&mut Buffer<'d>> {
        let this = self.parts();
        match nth.checked_sub(1) {
            None => Some(&mut this.buffer),
            Some(nth) => this.more.get_mut(nth)?.as_mut(),
        }
    }

    /// Removes the last piece of memory, if it is not the first.
    pub fn take_piece(self: Pin<&mut Self>) -> Option<Buffer<'d>> {
        let more = &mut self.parts().more;
        more.iter_mut().rev().find_map(Option::take)
    }

    /// Sets the flags of a send request: [`SendFlags::FENCE`], [`SendFlags::SOLICITED`]. Others have no effect: each request
    /// generates a completion, and its data is not copied when it is posted.
    pub fn set_flags(self: Pin<&mut Self>, flags: SendFlags) {
        self.parts().flags = flags;
    }

    /// Hands the work over with its resources; [`Posted::take_back`] takes it back.
    #[inline]
    pub(super) fn hand_over(
        self: Pin<KBox<Self>>,
        resources: Resources<'d>,
        credit: Option<Credit>,
        outstanding: Option<Outstanding>,
    ) -> Posted<'d, H> {
        // SAFETY: The work is not moved.
        let mut work = unsafe { Pin::into_inner_unchecked(self) };
        work.resources = resources;
        work.credit = credit;
        work.outstanding = outstanding;
        work.buffer.to_device();
        work.more.iter().flatten().for_each(Buffer::to_device);
        Posted(NonNull::from(KBox::leak(work)))
    }
}

/// A work that was handed over for posting.
pub(super) struct Posted<'d, H>(NonNull<Work<'d, H>>);

impl<'d, H: Handler<'d>> Posted<'d, H> {
    fn work(&self) -> &Work<'d, H> {
        // SAFETY: The work is valid until it is taken back.
        unsafe { self.0.as_ref() }
    }

    /// The `wr_cqe` of the request. The pointer has the provenance of the whole work, to which [`done`] goes back.
    pub(super) fn cqe(&self) -> *mut ib_cqe {
        // SAFETY: The work is valid until it is taken back.
        Opaque::cast_into(unsafe { &raw const (*self.0.as_ptr()).cqe })
    }

    /// The flags of the send request.
    pub(super) fn flags(&self) -> SendFlags {
        let own = SendFlags::FENCE.with(SendFlags::SOLICITED);
        let chosen = SendFlags::from_bits(self.work().flags.bits() & own.bits());
        chosen | SendFlags::SIGNALED
    }

    /// Fills in the scatter/gather list, with all bytes of each piece if `is_whole`. Returns the number of elements.
    pub(super) fn fill(&self, list: &mut [ib_sge; MAX_PIECES], lkey: u32, is_whole: bool) -> i32 {
        let work = self.work();
        let first = if is_whole {
            work.buffer.length()
        } else {
            work.length
        };
        let mut places = list.iter_mut();
        let mut count = 0;
        let mut add = |buffer: &Buffer<'d>, length| {
            if length == 0 {
                return;
            }
            if let Some(place) = places.next() {
                *place = ib_sge {
                    addr: buffer.address(),
                    length,
                    lkey,
                };
                count = i32::wrapping_add(count, 1);
            }
        };
        add(&work.buffer, first);
        let more = work.more.iter().flatten();
        more.for_each(|buffer| add(buffer, buffer.length()));
        count
    }

    /// Converts the result of the C function that posts.
    pub(super) fn outcome(self, ret: Result) -> Result<(), PostError<'d, H>> {
        let Err(error) = ret else {
            return Ok(());
        };
        // SAFETY: The driver has not taken the request.
        let (work, _) = unsafe { self.take_back(false) };
        Err(PostError { error, work })
    }

    /// Takes back the work and its count. `is_done` if the request has succeeded.
    ///
    /// # Safety
    ///
    /// The request was not posted, or is completed. The work is taken back once.
    pub(super) unsafe fn take_back(
        self,
        is_done: bool,
    ) -> (Pin<KBox<Work<'d, H>>>, Option<Outstanding>) {
        // SAFETY: By the safety requirements this function owns the work.
        let mut work = unsafe { KBox::from_raw(self.0.as_ptr()) };
        core::mem::replace(&mut work.resources, Resources::Nothing).release(is_done);
        work.credit = None;
        let outstanding = work.outstanding.take();
        work.buffer.to_cpu();
        work.more.iter().flatten().for_each(Buffer::to_cpu);
        // SAFETY: The work was never moved.
        (unsafe { Pin::new_unchecked(work) }, outstanding)
    }
}

/// The error of posting, with the work.
pub struct PostError<'d, H> {
    /// The error.
    pub error: Error,
    /// The work.
    pub work: Pin<KBox<Work<'d, H>>>,
}

impl<'d, H> From<PostError<'d, H>> for Error {
    fn from(failed: PostError<'d, H>) -> Self {
        failed.error
    }
}

/// The completion of a request: `struct ib_wc`.
pub struct Completion<'a, 'd> {
    wc: &'a ib_wc,
    /// `None` if no queue pair has taken the request, or if that was destroyed since.
    qp: Option<&'a Shared<'d>>,
}

impl<'a, 'd> Completion<'a, 'd> {
    /// The status. A value that is not in the header counts as an error.
    pub fn status(&self) -> WcStatus {
        WcStatus::try_from(self.wc.status).unwrap_or(WcStatus::GeneralErr)
    }

    /// Whether the request has succeeded.
    pub fn is_success(&self) -> bool {
        self.wc.status == bindings::IB_WC_SUCCESS
    }

    /// The opcode. Meaningless for a failed request.
    pub fn opcode(&self) -> Option<WcOpcode> {
        WcOpcode::try_from(self.wc.opcode).ok()
    }

    /// The driver-specific error code.
    pub fn vendor_err(&self) -> u32 {
        self.wc.vendor_err
    }

    /// The number of received bytes, for a successful receive request. For datagrams it includes the GRH.
    pub fn length(&self) -> u32 {
        self.wc.byte_len
    }

    fn has(&self, flag: u32) -> bool {
        self.wc.wc_flags as u32 & flag != 0
    }

    /// The immediate data of a message, in wire order.
    pub fn immediate(&self) -> Option<[u8; 4]> {
        // SAFETY: The member is a number, of which any bytes are valid.
        let data = unsafe { self.wc.ex.imm_data }.to_ne_bytes();
        self.has(bindings::IB_WC_WITH_IMM).then_some(data)
    }

    /// The proof that the message has invalidated a region, for [`Mr::note_invalidated`](super::Mr::note_invalidated).
    pub fn invalidated(&self) -> Option<Invalidated<'_, 'd>> {
        // SAFETY: The member is a number, of which any bytes are valid.
        let key = unsafe { self.wc.ex.invalidate_rkey };
        let is_told = self.is_success() && self.has(bindings::IB_WC_WITH_INVALIDATE);
        is_told.then(|| Invalidated::new(key))
    }

    /// The sender of a datagram.
    pub fn source(&self) -> Source {
        Source::of(self.wc)
    }

    /// The number of the queue pair.
    pub fn qp_num(&self) -> Option<u32> {
        self.qp.map(Shared::number)
    }

    /// The queue pair, for posting receive requests. `None` for another transport, for a request of an SRQ that no queue pair
    /// has taken, and if the queue pair is being destroyed.
    pub fn receiver<T: Transport>(&self) -> Option<&'a QpRef<'d, T, Init>> {
        QpRef::of(self.qp?)
    }

    /// The queue pair, for posting send requests, if it has been ready to send, and has this transport.
    pub fn sender<T: Transport>(&self) -> Option<&'a QpRef<'d, T, Rts>> {
        let qp = self.qp?;
        qp.can_send().then(|| QpRef::of(qp))?
    }
}

/// The C entry point for the completion of a request.
///
/// # Safety
///
/// The core calls it once for each request that was posted with the `cqe` of a [`Work<H>`], with its completion.
unsafe extern "C" fn done<'d, H: Handler<'d>>(_cq: *mut ib_cq, wc: *mut ib_wc) {
    // SAFETY: By the safety requirements; the work was handed over when it was posted. The context of its queue pair begins
    // with a `Shared`, and the destruction of the queue pair waits until its completions are handled.
    let ((work, outstanding), completion) = unsafe {
        let wc = &*wc;
        let cqe = Opaque::cast_from(wc.__bindgen_anon_1.wr_cqe);
        let work: *const Work<'d, H> = kernel::container_of!(cqe, Work<'d, H>, cqe);
        let posted = Posted(NonNull::new_unchecked(work.cast_mut()));
        let qp = wc.qp.as_ref();
        let qp = qp.map(|qp| &**qp.qp_context.cast::<Arc<Shared<'d>>>());
        let work = posted.take_back(wc.status == bindings::IB_WC_SUCCESS);
        (work, Completion { wc, qp })
    };
    H::done(work, &completion);
    // From here on the queue pair may be destroyed.
    drop(outstanding);
}
