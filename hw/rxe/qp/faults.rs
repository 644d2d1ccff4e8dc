// SPDX-License-Identifier: GPL-2.0

//! Page faults of a queue pair's engine: memory that is paged on demand, and was absent when the engine needed it.
//!
//! An engine that finds memory absent stops and requests a fault. The QP's fault work item faults the memory in, in process context
//! and without the engine's lock, and then runs the engine again. If the fault fails, the
//! access of the next run fails.
//!
//! ```text
//!   Idle ── an access finds memory absent ──> Wanted ── work item ──> Resolving ──┬─> Idle ─────> the engine runs
//!    ^                                                                            └─> Failed ───> the engine runs ──┐
//!    └──────────────────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! | lock | protects | taken in | inside |
//! |---|---|---|---|
//! | `Faults::state` | the fault of an engine | process, softirq; softirqs off | nothing |

use crate::mr::{Fault, MrError};
use core::mem::replace;
use core::sync::atomic::{AtomicBool, Ordering};
use kernel::prelude::*;
use kernel_ext::sync::{new_spinlock_bh, SpinLockBh};
use roce::memory::AccessError;

enum State {
    /// No fault is requested.
    Idle,
    /// The engine has requested this fault; the work item has not begun it.
    Wanted(Fault),
    /// The work item is resolving a fault.
    Resolving,
    /// The last fault has failed.
    Failed(Fault),
}

/// The fault of a queue pair's engine, which has at most one at a time.
#[pin_data]
pub(super) struct Faults {
    /// Whether the state is not [`State::Idle`]. Set with the engine's lock held.
    any: AtomicBool,
    #[pin]
    state: SpinLockBh<State>,
}

impl Faults {
    /// No fault.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            any: AtomicBool::new(false),
            state <- new_spinlock_bh!(State::Idle, "rxe_qp::faults"),
        })
    }

    /// Requests a fault, unless another one is pending; returns false if a fault for the same memory has just failed. Called with
    /// the engine's lock held.
    fn ask(&self, fault: Fault) -> bool {
        self.any.store(true, Ordering::Relaxed);
        let mut state = self.state.lock();
        match &*state {
            State::Failed(failed) if failed.covers(&fault) => return false,
            State::Idle | State::Failed(_) => {}
            State::Wanted(_) | State::Resolving => return true,
        }
        let old = replace(&mut *state, State::Wanted(fault));
        drop(state);
        drop(old);
        true
    }

    /// Converts the error of an access to that of the engine; if the memory is absent, requests `fault`. Called with the engine's
    /// lock held.
    #[cold]
    pub(super) fn explain<E>(
        &self,
        error: MrError,
        fault: impl FnOnce() -> Fault,
        failed: E,
    ) -> AccessError<E> {
        match error {
            MrError::Absent if self.ask(fault()) => AccessError::Absent,
            _ => AccessError::Failed(failed),
        }
    }

    /// Whether a fault is requested or being resolved: an access that needs another one must wait.
    #[inline]
    pub(super) fn is_pending(&self) -> bool {
        let is_pending = || matches!(*self.state.lock(), State::Wanted(_) | State::Resolving);
        self.any.load(Ordering::Relaxed) && is_pending()
    }

    /// Clears a failed fault after a run of the engine; returns whether a fault is requested. Called with the engine's lock held.
    #[inline]
    pub(super) fn settle(&self) -> bool {
        self.any.load(Ordering::Relaxed) && self.settle_any()
    }

    #[cold]
    fn settle_any(&self) -> bool {
        let mut state = self.state.lock();
        match &*state {
            State::Wanted(_) => return true,
            State::Resolving => return false,
            State::Idle | State::Failed(_) => {}
        }
        let old = replace(&mut *state, State::Idle);
        self.any.store(false, Ordering::Relaxed);
        drop(state);
        drop(old);
        false
    }

    /// Takes the requested fault, to resolve it.
    pub(super) fn begin(&self) -> Option<Fault> {
        let mut state = self.state.lock();
        match replace(&mut *state, State::Resolving) {
            State::Wanted(fault) => Some(fault),
            other => {
                *state = other;
                None
            }
        }
    }

    /// Records the result of the fault that [`Self::begin`] returned.
    pub(super) fn end(&self, fault: Fault, result: Result) {
        let next = match result {
            Ok(()) => State::Idle,
            Err(_) => State::Failed(fault),
        };
        *self.state.lock() = next;
    }
}
