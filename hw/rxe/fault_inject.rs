// SPDX-License-Identifier: GPL-2.0

//! Faults that are injected into send requests, to test programs.
//!
//! An administrator arms a fault by text in a file of the device ([`verbs`](crate::verbs) has it), for the next send requests that
//! queue pairs take from their send queues. Such a request becomes an invalid one, as [`wqe`](crate::wqe) makes it of a malformed one,
//! with the status that was chosen, and has its order: it fails once all requests before it have completed, and those behind it are
//! flushed. `times` is that of the kernel's `Documentation/fault-injection/fault-injection.rst`.
//!
//! | lock | protects | taken in | inside |
//! |---|---|---|---|
//! | `FaultInject::fault` | the armed fault of a device | process, softirq; softirqs off | nothing |

use core::sync::atomic::{AtomicBool, Ordering};
use kernel::prelude::*;
use kernel_ext::compat::module_param;
use kernel_ext::sync::{new_spinlock_bh, SpinLockBh};
use roce::state::WcStatus;

/// The number of the queue pair for management (GSI), which takes no fault that is for any queue pair: connections of other programs
/// depend on it.
const GSI: u32 = 1;

/// The highest number of a queue pair.
const MAX_QPN: u32 = 0xff_ffff;

/// Whether devices have the file.
pub(crate) fn is_offered() -> bool {
    module_param::value(&crate::module_parameters::fault_inject) != 0
}

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The status of the requests that fail.
    status: WcStatus,
    /// The number of requests that are still to fail.
    times: u32,
    /// The number of requests that are let pass before.
    skip: u32,
    /// The queue pair; without one, any but [`GSI`].
    qpn: Option<u32>,
}

impl Fault {
    /// Parses words in any order, as in `status=21` and `status=12 times=2 qpn=0x11 skip=100`. Numbers are decimal, or hexadecimal with
    /// `0x`. Without a word, one request fails, of any queue pair (as for the number 0), and none is let pass. `None` for any other text.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let text = core::str::from_utf8(text).ok()?;
        let (mut status, mut times, mut skip, mut qpn) = (None, None, None, None);
        for word in text.split_ascii_whitespace() {
            let (name, value) = word.split_once('=')?;
            let place = match name {
                "status" => &mut status,
                "times" => &mut times,
                "skip" => &mut skip,
                "qpn" => &mut qpn,
                _ => return None,
            };
            if place.replace(number(value)?).is_some() {
                return None;
            }
        }
        if qpn > Some(MAX_QPN) {
            return None;
        }
        Some(Self {
            status: WcStatus::from_ib(status?)?,
            times: times.unwrap_or(1),
            skip: skip.unwrap_or(0),
            qpn: qpn.filter(|&qpn| qpn != 0),
        })
    }

    /// Whether some request is to fail.
    fn is_due(&self) -> bool {
        self.status != WcStatus::Success && self.times != 0
    }

    /// Whether it is for requests of a queue pair.
    fn concerns(&self, qpn: u32) -> bool {
        self.qpn.map_or(qpn != GSI, |own| own == qpn)
    }
}

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The fault that is armed on a device, if any.
#[pin_data]
pub(crate) struct FaultInject {
    /// Whether there is one. Written with the lock held.
    armed: AtomicBool,
    #[pin]
    fault: SpinLockBh<Option<Fault>>,
}

impl FaultInject {
    /// No fault.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            armed: AtomicBool::new(false),
            fault <- new_spinlock_bh!(None, "rxe::fault_inject"),
        })
    }

    /// Arms a fault in place of the one before; one of status 0 or of no request disarms. Process context.
    pub(crate) fn set(&self, fault: Fault) {
        let mut own = self.fault.lock();
        *own = Some(fault).filter(Fault::is_due);
        self.armed.store(own.is_some(), Ordering::Relaxed);
    }

    /// Whether a fault is armed. Any context.
    #[inline]
    pub(crate) fn is_armed(&self) -> bool {
        self.armed.load(Ordering::Relaxed)
    }

    /// Counts a request of a queue pair; returns the status that it fails with, if it does. Softirq or process context.
    pub(crate) fn take(&self, qpn: u32) -> Option<WcStatus> {
        let mut own = self.fault.lock();
        let fault = (*own).as_mut()?;
        if !fault.concerns(qpn) {
            return None;
        }
        if let Some(left) = fault.skip.checked_sub(1) {
            fault.skip = left;
            return None;
        }
        let status = fault.status;
        fault.times = fault.times.saturating_sub(1);
        if !fault.is_due() {
            *own = None;
            self.armed.store(false, Ordering::Relaxed);
        }
        Some(status)
    }
}
