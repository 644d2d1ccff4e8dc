// SPDX-License-Identifier: GPL-2.0

//! Messages to be sent: `struct ib_mad_send_buf`.
//!
//! C header: `include/rdma/ib_mad.h`.

use core::{marker::PhantomData, mem::ManuallyDrop, ptr::null_mut, ptr::NonNull};

use kernel::{error::to_result, ffi::c_int, prelude::*, sync::Arc, types::ForeignOwnable};
use kernel_ext::sync::{new_spinlock_irq, SpinLockIrq};
use rdma_bindings::{self as bindings, ib_mad_send_buf};

use super::{
    class::HEADER,
    view::{destroy_ah, AgentAh},
};
use crate::{client::device::made, MaySleep};

/// The form of a new message.
#[derive(Clone, Copy)]
pub struct Layout {
    /// The number of the remote queue pair.
    pub remote_qpn: u32,
    /// The index of the P_Key.
    pub pkey_index: u16,
    /// Whether it is sent by RMPP, in segments.
    pub is_rmpp: bool,
    /// The length in bytes of the headers: of [`data_offset`](super::data_offset).
    pub headers: usize,
    /// The length in bytes of the data.
    pub data: usize,
    /// The base version of the MAD.
    pub base_version: u8,
}

/// The length in bytes of the longest message: the layer adds the padding of a segment.
const MAX_LENGTH: usize = c_int::MAX as usize - 0x1000;

/// The place of the RMPP flags in a MAD.
const RMPP_FLAGS: usize = 26;

/// What a posted message owns, and gives back when it has ended.
pub trait Token: ForeignOwnable + Send + 'static {
    /// The message has ended, and is about to be given back.
    fn message_ended(&self) {}
}

impl<T: Send + 'static> Token for KBox<T> {}

impl<T: Send + 'static> Token for Arc<Pending<T>> {
    fn message_ended(&self) {
        self.posted.lock().message = None;
    }
}

/// A message to be sent, with its address. The agent is not unregistered as long as this exists.
///
/// # Invariants
///
/// `self` owns the message, which has an address handle of its own, and is not posted. `mad` has room for the headers, without RMPP
/// for the data too. With RMPP it has segments for the data. The handlers of its agent have tokens of the type `T`.
pub struct Message<T: Token> {
    raw: NonNull<ib_mad_send_buf>,
    _token: PhantomData<fn() -> T>,
}

// SAFETY: Messages may be used and freed by any thread.
unsafe impl<T: Token> Send for Message<T> {}
// SAFETY: Shared references only read.
unsafe impl<T: Token> Sync for Message<T> {}

impl<T: Token> Message<T> {
    /// Makes a message of zeros to an address of the agent; with RMPP, with an RMPP header.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is too long without RMPP, or if it is to be sent by RMPP and the agent has none; `ENOMEM`.
    pub fn new(address: AgentAh<'_, T>, layout: &Layout, sleep: &MaySleep) -> Result<Self> {
        sleep.check();
        let (headers, data) = (layout.headers, layout.data);
        let whole = headers.checked_add(data).ok_or(EINVAL)?;
        if headers < HEADER || whole > MAX_LENGTH {
            return Err(EINVAL);
        }
        // SAFETY: The agent is registered. The lengths are positive, and their sum is less than the largest `int`, padding included.
        let raw = made(unsafe {
            bindings::ib_create_send_mad(
                address.agent().as_raw(),
                layout.remote_qpn,
                layout.pkey_index,
                layout.is_rmpp.into(),
                headers as c_int,
                data as c_int,
                bindings::GFP_KERNEL,
                layout.base_version,
            )
        })?;
        // SAFETY: The message is new.
        unsafe { (*raw.as_ptr()).ah = address.into_raw() };
        // INVARIANT: The message was just made, and owns the address handle.
        Ok(Self {
            raw,
            _token: PhantomData,
        })
    }

    fn has_segments(&self) -> bool {
        // SAFETY: By the type invariants; the member is constant until the message is posted.
        unsafe { (*self.raw.as_ptr()).seg_count != 0 }
    }

    /// The headers, and, without RMPP, the data after them. The RMPP header of a message that is sent by RMPP is filled in.
    pub fn body(&mut self) -> &mut [u8] {
        let data = !self.has_segments();
        // SAFETY: By the type invariants the memory is valid and large enough, and `self` is borrowed mutably.
        unsafe {
            let raw = self.raw.as_ref();
            let length = raw
                .hdr_len
                .wrapping_add(if data { raw.data_len } else { 0 });
            core::slice::from_raw_parts_mut(raw.mad.cast(), length as usize)
        }
    }

    /// Calls `f` with the memory for the data of each segment, in order, until it fails. A message without RMPP has none.
    ///
    /// # Errors
    ///
    /// Those of `f`.
    pub fn fill_segments(&mut self, mut f: impl FnMut(&mut [u8]) -> Result) -> Result {
        if !self.has_segments() {
            return Ok(());
        }
        // SAFETY: By the type invariants the segments are there, for `data_len` bytes; `self` is borrowed mutably.
        unsafe {
            let raw = self.raw.as_ptr();
            let (mut left, size) = ((*raw).data_len, (*raw).seg_size);
            let mut number = 1;
            while left > 0 && size > 0 {
                let segment = bindings::ib_get_rmpp_segment(raw, number);
                let length = left.min(size) as usize;
                f(core::slice::from_raw_parts_mut(segment.cast(), length))?;
                left = left.saturating_sub(size);
                number = number.saturating_add(1);
            }
        }
        Ok(())
    }

    /// Whether the header says that the layer sends it by RMPP.
    fn claims_segments(&mut self) -> bool {
        // SAFETY: By the type invariants the message is of an agent, which is registered.
        let by_layer = unsafe {
            bindings::ib_mad_kernel_rmpp_agent((*self.raw.as_ptr()).mad_agent.cast_const()) != 0
        };
        let flags = self.body().get(RMPP_FLAGS).copied().unwrap_or(0);
        by_layer && u32::from(flags) & bindings::IB_MGMT_RMPP_FLAG_ACTIVE != 0
    }

    /// Sets how long in milliseconds an answer is waited for, 0: there is none, and how often the message is repeated until then.
    pub fn set_patience(&mut self, timeout_ms: u32, retries: u32) {
        // SAFETY: By the type invariants `self` owns the message.
        let raw = unsafe { self.raw.as_mut() };
        raw.timeout_ms = timeout_ms as c_int;
        raw.retries = retries as c_int;
    }

    /// Posts the message, with a token that comes back when the message has ended.
    ///
    /// # Errors
    ///
    /// `EINVAL` where the agent or the MAD does not allow it, or where the header says that a message without segments has some;
    /// `ENOMEM`, and those of the driver. The token comes back with the error.
    pub fn post(mut self, token: T, sleep: &MaySleep) -> Result<(), (Error, T)> {
        sleep.check();
        if !self.has_segments() && self.claims_segments() {
            return Err((EINVAL, token));
        }
        let this = ManuallyDrop::new(self);
        let raw = this.raw.as_ptr();
        // SAFETY: By the type invariants the message is not posted. If that fails, `self` has the message and its token still.
        unsafe {
            (*raw).context[0] = token.into_foreign();
            let token = (*raw).context[0];
            if let Err(error) = to_result(bindings::ib_post_send_mad(raw, null_mut())) {
                drop(ManuallyDrop::into_inner(this));
                return Err((error, T::from_foreign(token)));
            }
        }
        Ok(())
    }
}

/// What a message is posted with, and the message as long as it has not ended: it may be cancelled, or wait for longer. Any context.
#[pin_data]
pub struct Pending<T> {
    #[pin]
    posted: SpinLockIrq<State<T>>,
}

struct State<T> {
    message: Option<Posted>,
    about: Option<T>,
}

// What it is posted with moves out.
impl<T> Unpin for State<T> {}

/// A posted message.
///
/// # Invariants
///
/// The layer has the message, and gives it back only after the value is gone.
struct Posted(NonNull<ib_mad_send_buf>);

// SAFETY: The layer synchronises access to a posted message.
unsafe impl Send for Posted {}

impl<T> Pending<T> {
    fn new(about: T) -> Result<Arc<Self>> {
        let state = State {
            message: None,
            about: Some(about),
        };
        let init = pin_init!(Self {
            posted <- new_spinlock_irq!(state, "Pending::posted"),
        });
        Arc::pin_init(init, GFP_KERNEL)
    }

    /// Takes what the message was posted with, once.
    pub fn take(&self) -> Option<T> {
        self.posted.lock().about.take()
    }

    /// Ends the wait for an answer, unless it has ended: the message is given back soon.
    pub fn cancel(&self) {
        if let Some(posted) = &self.posted.lock().message {
            // A message that has no time left is cancelled. One that is not there has ended.
            // SAFETY: By the type invariants; the lock keeps the value.
            let _ = unsafe { bindings::ib_modify_mad(posted.0.as_ptr(), 0) };
        }
    }

    /// Waits for so many milliseconds from now on. Whether the message still waits.
    pub fn extend(&self, timeout_ms: u32) -> bool {
        let state = self.posted.lock();
        state.message.as_ref().is_some_and(|posted| {
            // SAFETY: By the type invariants; the lock keeps the value.
            unsafe { bindings::ib_modify_mad(posted.0.as_ptr(), timeout_ms) == 0 }
        })
    }
}

impl<T: Send + 'static> Message<Arc<Pending<T>>> {
    /// As [`post`](Self::post): the message may be cancelled.
    ///
    /// # Errors
    ///
    /// As `post`, and `ENOMEM`.
    pub fn post_pending(self, about: T, sleep: &MaySleep) -> Result<Arc<Pending<T>>> {
        let pending = Pending::new(about)?;
        // INVARIANT: The message is posted below, or the value goes; the layer's handler takes the value away first.
        pending.posted.lock().message = Some(Posted(self.raw));
        match self.post(pending.clone(), sleep) {
            Ok(()) => Ok(pending),
            // Nobody else has it: the message goes with it.
            Err((error, _)) => Err(error),
        }
    }
}

impl<T: Token> Drop for Message<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants. The handle goes first: with the message the agent may go, and its domain.
        unsafe {
            destroy_ah((*self.raw.as_ptr()).ah);
            bindings::ib_free_send_mad(self.raw.as_ptr());
        }
    }
}

/// A message that was posted and has ended.
pub struct Sent<T: Token> {
    _message: Message<T>,
    status: u32,
}

impl<T: Token> Sent<T> {
    /// Takes a message over from the layer.
    ///
    /// # Safety
    ///
    /// `raw` is from a [`Message<T>`] that was posted, and given back.
    pub(super) unsafe fn from_raw(raw: *mut ib_mad_send_buf, status: u32) -> Self {
        // SAFETY: A message that is given back is not null.
        let raw = unsafe { NonNull::new_unchecked(raw) };
        // INVARIANT: By the safety requirements.
        let _message = Message {
            raw,
            _token: PhantomData,
        };
        Self { _message, status }
    }

    /// `enum ib_wc_status`.
    pub fn status(&self) -> u32 {
        self.status
    }

    /// How often the message was repeated.
    pub fn retries(&self) -> u32 {
        // SAFETY: By the type invariants of the message.
        unsafe { self._message.raw.as_ref() }.retries.unsigned_abs()
    }

    /// Whether no answer came in time.
    pub fn timed_out(&self) -> bool {
        self.status == bindings::IB_WC_RESP_TIMEOUT_ERR
    }
}
