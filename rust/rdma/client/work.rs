// SPDX-License-Identifier: GPL-2.0

//! A work request together with its memory and its completion handler: `struct ib_cqe`.
//!
//! | who has a [`Work`] | what may be done with it |
//! |---|---|
//! | its owner, as `Pin<KBox<Work<H>>>` | its bytes are read and written; it is dropped; it is posted |
//! | the queue pair, from a successful post on | nothing: the device, or the peer, may be at its bytes |
//! | its handler, when the request is completed | the handler is the owner now, and may post it again |
//!
//! A receiver that posts each request again when it is completed:
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
//!             return; // The queue pair is in error, or goes: the work is freed.
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
//! So no request is without its memory, and nobody looks at memory that a device writes. Each request that was posted is
//! completed once: at the latest when the queue pair, or the SRQ, is destroyed, which flushes it. Nothing is allocated when it
//! is posted.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::ptr::NonNull;

use kernel::{prelude::*, sync::Arc, types::Opaque};
use rdma_bindings::{self as bindings, ib_cq, ib_cqe, ib_sge, ib_wc};

use super::{
    dma::Buffer,
    mr::Invalidated,
    qp::{
        shared::{QpRef, Shared},
        state::{Init, Rts},
        transport::Transport,
    },
    resources::{Outstanding, Resources},
    room::Credit,
    Device, DropsAnywhere,
};
use crate::{abi::wr::SendFlags, MaySleep, WcOpcode, WcStatus};

pub use super::source::Source;

/// How many pieces of memory a request has at most.
pub const MAX_PIECES: usize = 4;

/// Who handles the completion of requests.
pub trait Handler<'d>: Send + Sized + DropsAnywhere + 'd {
    /// The request is completed; the work is the handler's. In the context that the completion queue is polled in: it must not
    /// sleep there, but may post, poll, and make address handles.
    ///
    /// When the queue pair is destroyed, all that is posted is completed with [`WcStatus::WrFlushErr`], and nothing more can be
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
    /// The room of its completion.
    credit: Option<Credit>,
    outstanding: Option<Outstanding>,
    handler: H,
}

impl<'d, H: Handler<'d>> Work<'d, H> {
    /// A request with `length` bytes of memory, which are zero.
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

    /// A request with memory that is mapped already. Any context, with flags for that.
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

    /// What of it is not pinned.
    fn parts(self: Pin<&mut Self>) -> &mut Self {
        // SAFETY: Only `cqe` is pinned, which no method changes.
        unsafe { self.get_unchecked_mut() }
    }

    /// The handler, for changing.
    pub fn handler_mut(self: Pin<&mut Self>) -> &mut H {
        &mut self.parts().handler
    }

    /// The memory: its first piece, whatever [`Self::set_length`] says.
    pub fn bytes(&self) -> &[u8] {
        self.buffer.bytes()
    }

    /// The memory, for changing.
    pub fn bytes_mut(self: Pin<&mut Self>) -> &mut [u8] {
        self.parts().buffer.bytes_mut()
    }

    /// Copies `bytes` to the beginning of the memory: as many as its first piece has room for.
    pub fn write(self: Pin<&mut Self>, bytes: &[u8]) {
        self.parts().buffer.write(bytes);
    }

    /// Says how many bytes of the first piece the request is about: all of them if this is more.
    pub fn set_length(self: Pin<&mut Self>, length: u32) {
        let this = self.parts();
        this.length = length.min(this.buffer.length());
    }

    /// How many bytes of the first piece the request is about.
    pub fn length(&self) -> u32 {
        self.length
    }

    /// Adds a piece of memory behind the others. Any context.
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

    /// The `nth` piece of memory, from 0, for changing.
    pub fn piece_mut(self: Pin<&mut Self>, nth: usize) -> Option<&mut Buffer<'d>> {
        let this = self.parts();
        match nth.checked_sub(1) {
            None => Some(&mut this.buffer),
            Some(nth) => this.more.get_mut(nth)?.as_mut(),
        }
    }

    /// Takes away the last piece of memory, if it is not the first.
    pub fn take_piece(self: Pin<&mut Self>) -> Option<Buffer<'d>> {
        let more = &mut self.parts().more;
        more.iter_mut().rev().find_map(Option::take)
    }

    /// Says how the request is sent: [`SendFlags::FENCE`], [`SendFlags::SOLICITED`]. Others have no effect: each request is
    /// completed, and its data stays where it is.
    pub fn set_flags(self: Pin<&mut Self>, flags: SendFlags) {
        self.parts().flags = flags;
    }

    /// Hands the work over, with what it needs; [`Posted::take_back`] gets it back.
    #[inline]
    pub(super) fn hand_over(
        self: Pin<KBox<Self>>,
        resources: Resources<'d>,
        credit: Option<Credit>,
        outstanding: Option<Outstanding>,
    ) -> Posted<'d, H> {
        // SAFETY: The work stays where it is.
        let mut work = unsafe { Pin::into_inner_unchecked(self) };
        work.resources = resources;
        work.credit = credit;
        work.outstanding = outstanding;
        work.buffer.to_device();
        work.more.iter().flatten().for_each(Buffer::to_device);
        Posted(NonNull::from(KBox::leak(work)))
    }
}

/// Work that was handed over.
pub(super) struct Posted<'d, H>(NonNull<Work<'d, H>>);

impl<'d, H: Handler<'d>> Posted<'d, H> {
    fn work(&self) -> &Work<'d, H> {
        // SAFETY: The work is there until it is taken back.
        unsafe { self.0.as_ref() }
    }

    /// What the completion names: a pointer made of the whole work, to which [`done`] goes back.
    pub(super) fn cqe(&self) -> *mut ib_cqe {
        // SAFETY: The work is there until it is taken back.
        Opaque::cast_into(unsafe { &raw const (*self.0.as_ptr()).cqe })
    }

    /// How it is sent.
    pub(super) fn flags(&self) -> SendFlags {
        let own = SendFlags::FENCE.with(SendFlags::SOLICITED);
        let chosen = SendFlags::from_bits(self.work().flags.bits() & own.bits());
        chosen | SendFlags::SIGNALED
    }

    /// Fills in the pieces of memory. Returns how many there are. All of each if `is_whole`.
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

    /// How a post ended, as C says it.
    pub(super) fn outcome(self, ret: Result) -> Result<(), PostError<'d, H>> {
        let Err(error) = ret else {
            return Ok(());
        };
        // SAFETY: The driver has not taken the request.
        let (work, _) = unsafe { self.take_back(false) };
        Err(PostError { error, work })
    }

    /// Takes the work back, and that it is counted. `is_done` if the request did what it was to do.
    ///
    /// # Safety
    ///
    /// The request was not posted, or is completed; this is done once.
    pub(super) unsafe fn take_back(
        self,
        is_done: bool,
    ) -> (Pin<KBox<Work<'d, H>>>, Option<Outstanding>) {
        // SAFETY: By the safety requirements it is ours.
        let mut work = unsafe { KBox::from_raw(self.0.as_ptr()) };
        core::mem::replace(&mut work.resources, Resources::Nothing).release(is_done);
        work.credit = None;
        let outstanding = work.outstanding.take();
        work.buffer.to_cpu();
        work.more.iter().flatten().for_each(Buffer::to_cpu);
        // SAFETY: It never moved.
        (unsafe { Pin::new_unchecked(work) }, outstanding)
    }
}

/// Work that could not be posted.
pub struct PostError<'d, H> {
    /// Why.
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
    /// `None` where no queue pair has taken the request, or that has gone since.
    qp: Option<&'a Shared<'d>>,
}

impl<'a, 'd> Completion<'a, 'd> {
    /// How the request ended. What the header does not know is an error.
    pub fn status(&self) -> WcStatus {
        WcStatus::try_from(self.wc.status).unwrap_or(WcStatus::GeneralErr)
    }

    /// Whether the request did what it was to do.
    pub fn is_success(&self) -> bool {
        self.wc.status == bindings::IB_WC_SUCCESS
    }

    /// What has ended. Without meaning for requests that failed.
    pub fn opcode(&self) -> Option<WcOpcode> {
        WcOpcode::try_from(self.wc.opcode).ok()
    }

    /// More about an error, in the driver's terms.
    pub fn vendor_err(&self) -> u32 {
        self.wc.vendor_err
    }

    /// How many bytes were received, for a request to receive that did not fail. Datagrams: with the GRH.
    pub fn length(&self) -> u32 {
        self.wc.byte_len
    }

    fn has(&self, flag: u32) -> bool {
        self.wc.wc_flags as u32 & flag != 0
    }

    /// The immediate data that came with a message, in the order of the wire.
    pub fn immediate(&self) -> Option<[u8; 4]> {
        // SAFETY: The member is a number, so any bytes are one.
        let data = unsafe { self.wc.ex.imm_data }.to_ne_bytes();
        self.has(bindings::IB_WC_WITH_IMM).then_some(data)
    }

    /// That the peer has invalidated a region with a message: for [`Mr::note_invalidated`](super::Mr::note_invalidated).
    pub fn invalidated(&self) -> Option<Invalidated<'_, 'd>> {
        // SAFETY: As above.
        let key = unsafe { self.wc.ex.invalidate_rkey };
        let is_told = self.is_success() && self.has(bindings::IB_WC_WITH_INVALIDATE);
        is_told.then(|| Invalidated::new(key))
    }

    /// Who has sent a datagram.
    pub fn source(&self) -> Source {
        Source::of(self.wc)
    }

    /// The number of the queue pair.
    pub fn qp_num(&self) -> Option<u32> {
        self.qp.map(Shared::number)
    }

    /// The queue pair, for posting more requests to receive. `None` for a request of an SRQ that no
    /// queue pair has taken, or one that goes.
    pub fn receiver<T: Transport>(&self) -> Option<&'a QpRef<'d, T, Init>> {
        QpRef::of(self.qp?)
    }

    /// The queue pair, for posting more requests to send, if it can send, and is of this transport.
    pub fn sender<T: Transport>(&self) -> Option<&'a QpRef<'d, T, Rts>> {
        let qp = self.qp?;
        qp.can_send().then(|| QpRef::of(qp))?
    }
}

/// A C entry point: a request is completed.
///
/// # Safety
///
/// The core calls it once for each request that was posted with the `cqe` of a [`Work<H>`], with its completion.
unsafe extern "C" fn done<'d, H: Handler<'d>>(_cq: *mut ib_cq, wc: *mut ib_wc) {
    // SAFETY: By the safety requirements; the work was handed over when it was posted. The context of a queue pair that work is
    // posted to begins with what is shared of it, and who destroys a queue pair waits until its completions are handled.
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
    // Now the queue pair may go.
    drop(outstanding);
}
