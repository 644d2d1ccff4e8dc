// SPDX-License-Identifier: GPL-2.0

//! Work: requests with the memory that they are about, and who handles their completion.
//!
//! | who has a [`Work`] | what may be done with it |
//! |---|---|
//! | its owner, as `Pin<KBox<Work<H>>>` | its bytes are read and written; it is dropped; it is posted |
//! | the queue pair, from a successful post on | nothing: the device, or the peer, may be at its bytes |
//! | its handler, when the request is completed | the handler is the owner now, and may post it again |
//!
//! So no request is without its memory, and nobody looks at memory that a device writes. Each request that was posted is
//! completed once: at the latest when the queue pair is destroyed, which flushes it.

use core::ptr::NonNull;

use kernel::{
    ffi::{c_int, c_void},
    prelude::*,
    types::Opaque,
};
use rdma_bindings::{self as bindings, ib_cq, ib_cqe, ib_sge, ib_wc};

use super::{qp::QpRef, Device};
use crate::{MaySleep, WcOpcode, WcStatus};

const BOTH_WAYS: u32 = bindings::dma_data_direction_DMA_BIDIRECTIONAL as u32;

/// Memory of the kernel that is mapped for DMA.
///
/// # Invariants
///
/// All of `memory` is mapped at `address` for `device`.
struct Buffer {
    memory: KVec<u8>,
    address: u64,
    device: Device,
}

impl Buffer {
    fn new(device: &Device, length: u32) -> Result<Self> {
        let mut memory = KVec::from_elem(0u8, length as usize, GFP_KERNEL)?;
        let start: *mut c_void = memory.as_mut_ptr().cast();
        // SAFETY: The device is registered, and the memory is there until it is unmapped.
        let address = unsafe {
            let raw = device.as_raw();
            let address = bindings::ib_dma_map_single(raw, start, memory.len(), BOTH_WAYS);
            if bindings::ib_dma_mapping_error(raw, address) != 0 {
                return Err(ENOMEM);
            }
            address
        };
        // INVARIANT: It was just mapped.
        Ok(Self {
            memory,
            address,
            device: device.clone(),
        })
    }

    /// Hands the memory over to the device.
    fn to_device(&self) {
        // SAFETY: By the type invariants.
        unsafe {
            bindings::ib_dma_sync_single_for_device(
                self.device.as_raw(),
                self.address,
                self.memory.len(),
                BOTH_WAYS,
            );
        }
    }

    /// Takes the memory back from the device.
    fn to_cpu(&self) {
        // SAFETY: By the type invariants.
        unsafe {
            bindings::ib_dma_sync_single_for_cpu(
                self.device.as_raw(),
                self.address,
                self.memory.len(),
                BOTH_WAYS,
            );
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: By the type invariants; nobody uses the memory.
        unsafe {
            bindings::ib_dma_unmap_single(
                self.device.as_raw(),
                self.address,
                self.memory.len(),
                BOTH_WAYS,
            );
        }
    }
}

/// Who handles the completion of requests.
pub trait Handler: Send + Sized + 'static {
    /// The request is completed; the work is the handler's. In the context that the completion queue is polled in.
    ///
    /// When the queue pair is destroyed, all that is posted is completed with [`WcStatus::WrFlushErr`], and nothing more can be
    /// posted.
    fn done(work: Pin<KBox<Work<Self>>>, completion: &Completion<'_>);
}

/// A request, its memory, and its handler.
#[pin_data]
pub struct Work<H> {
    #[pin]
    cqe: Opaque<ib_cqe>,
    buffer: Buffer,
    handler: H,
}

impl<H: Handler> Work<H> {
    /// A request with `length` bytes of memory, which are zero.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(
        device: &Device,
        length: u32,
        handler: H,
        _sleep: &MaySleep,
    ) -> Result<Pin<KBox<Self>>> {
        let buffer = Buffer::new(device, length)?;
        let cqe = ib_cqe {
            done: Some(done::<H>),
        };
        let init = pin_init!(Self {
            cqe: Opaque::new(cqe),
            buffer,
            handler,
        });
        KBox::pin_init(init, GFP_KERNEL)
    }

    /// The handler.
    pub fn handler(&self) -> &H {
        &self.handler
    }

    /// Whether the memory is mapped for a device.
    pub(super) fn is_for(&self, device: &Device) -> bool {
        self.buffer.device.as_raw() == device.as_raw()
    }

    /// The handler, for changing.
    pub fn handler_mut(self: Pin<&mut Self>) -> &mut H {
        // SAFETY: The handler is not pinned; the rest stays where it is.
        unsafe { &mut self.get_unchecked_mut().handler }
    }

    /// The memory.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer.memory
    }

    /// The memory, for changing.
    pub fn bytes_mut(self: Pin<&mut Self>) -> &mut [u8] {
        // SAFETY: The memory is not pinned, nor is its description; the rest stays where it is.
        unsafe { &mut self.get_unchecked_mut().buffer.memory }
    }

    /// Hands the work over; [`Self::take_back`] gets it back.
    pub(super) fn hand_over(self: Pin<KBox<Self>>) -> Posted<H> {
        self.buffer.to_device();
        // SAFETY: The work stays where it is.
        let work = unsafe { KBox::into_raw(Pin::into_inner_unchecked(self)) };
        // SAFETY: `into_raw` does not return null.
        Posted(unsafe { NonNull::new_unchecked(work) })
    }
}

/// Work that was handed over.
pub(super) struct Posted<H>(NonNull<Work<H>>);

impl<H> Posted<H> {
    /// What the completion names.
    pub(super) fn cqe(&self) -> *mut ib_cqe {
        // SAFETY: The work is there until it is taken back.
        unsafe { self.0.as_ref() }.cqe.get()
    }

    /// Up to `length` bytes of the memory, for a request.
    pub(super) fn sge(&self, length: u32, lkey: u32) -> ib_sge {
        // SAFETY: The work is there until it is taken back.
        let buffer = &unsafe { self.0.as_ref() }.buffer;
        ib_sge {
            addr: buffer.address,
            length: u32::try_from(buffer.memory.len()).map_or(length, |all| all.min(length)),
            lkey,
        }
    }

    /// Takes the work back.
    ///
    /// # Safety
    ///
    /// The request was not posted, or is completed; this is done once.
    pub(super) unsafe fn take_back(self) -> Pin<KBox<Work<H>>> {
        // SAFETY: By the safety requirements it is ours; it never moved.
        let work = unsafe { Pin::new_unchecked(KBox::from_raw(self.0.as_ptr())) };
        work.buffer.to_cpu();
        work
    }
}

/// Work that could not be posted.
pub struct PostError<H> {
    /// Why.
    pub error: Error,
    /// The work.
    pub work: Pin<KBox<Work<H>>>,
}

/// The completion of a request: `struct ib_wc`.
pub struct Completion<'a>(&'a ib_wc);

impl Completion<'_> {
    /// How the request ended. What the header does not know is an error.
    pub fn status(&self) -> WcStatus {
        WcStatus::try_from(self.0.status).unwrap_or(WcStatus::GeneralErr)
    }

    /// What has ended. Without meaning for requests that failed.
    pub fn opcode(&self) -> Option<WcOpcode> {
        WcOpcode::try_from(self.0.opcode).ok()
    }

    /// How many bytes were received, for a request to receive that did not fail.
    pub fn length(&self) -> u32 {
        self.0.byte_len
    }

    /// The immediate data that came with a message, in the order of the wire.
    pub fn immediate(&self) -> Option<[u8; 4]> {
        let has_some = self.0.wc_flags as u32 & bindings::IB_WC_WITH_IMM != 0;
        // SAFETY: The member is a number, so any bytes are one.
        has_some.then(|| unsafe { self.0.ex.imm_data }.to_ne_bytes())
    }

    /// The queue pair, for posting more.
    pub fn qp(&self) -> &QpRef {
        // SAFETY: Work is posted by queue pairs of this module alone, whose context is a `QpRef`; who destroys a queue pair waits
        // until its completions are handled.
        unsafe { &*(*self.0.qp).qp_context.cast::<QpRef>() }
    }
}

/// A door: a request is completed.
///
/// # Safety
///
/// The core calls it once for each request that was posted with the `cqe` of a [`Work<H>`], with its completion.
unsafe extern "C" fn done<H: Handler>(_cq: *mut ib_cq, wc: *mut ib_wc) {
    // SAFETY: By the safety requirements; the work was handed over when it was posted.
    let (work, completion) = unsafe {
        let cqe = Opaque::cast_from((*wc).__bindgen_anon_1.wr_cqe);
        let work: *const Work<H> = kernel::container_of!(cqe, Work<H>, cqe);
        let posted = Posted(NonNull::new_unchecked(work.cast_mut()));
        (posted.take_back(), Completion(&*wc))
    };
    H::done(work, &completion);
}

/// How a post ended, as C says it.
pub(super) fn outcome<H>(
    posted: Posted<H>,
    post: impl FnOnce(&Posted<H>) -> c_int,
) -> Result<(), PostError<H>> {
    let ret = post(&posted);
    if ret == 0 {
        return Ok(());
    }
    Err(PostError {
        error: Error::from_errno(ret),
        // SAFETY: The driver has not taken the request.
        work: unsafe { posted.take_back() },
    })
}
