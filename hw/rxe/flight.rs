// SPDX-License-Identifier: GPL-2.0

//! Flow control of transmitted packets: counts them until the network frees them.
//!
//! [`Flight`] counts the packets of a QP: above a limit the QP stops sending, and when enough packets have
//! left, its work item runs again. Net devices and their backlogs preserve the order of packets only per CPU, so a QP
//! changes its CPU only when all its packets have left.
//!
//! | lock | protects | taken in | inside |
//! |---|---|---|---|
//! | `Flight::waiter` | whose work item runs when packets have left | any (a packet may be freed anywhere), interrupts off | the work queue's |

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use kernel::cpu::CpuId;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::{delay::fsleep, Delta};
use kernel_ext::net::skb::InFlight;
use kernel_ext::sync::{new_spinlock_irq, SpinLockIrq};
use rdma::MaySleep;

/// Limit of packets of a QP in flight.
const HIGH_WATER: u32 = 64;

/// A QP resumes when fewer of its packets than that are in flight.
const LOW_WATER: u32 = 17;

/// The value for no CPU.
const NO_CPU: u32 = u32::MAX;

/// Number of flights: while there are some, skb destructors may call into the module.
static FLIGHTS: AtomicUsize = AtomicUsize::new(0);

/// Waits until no packet is in flight. Called on module exit, without QPs.
pub(crate) fn wait_for_packets(sleep: &MaySleep) {
    const PAUSE: Delta = Delta::from_millis(1);
    const PAUSES_PER_LINE: u32 = 10_000;
    let mut pauses = 0u32;
    while FLIGHTS.load(Ordering::Acquire) != 0 {
        fsleep(PAUSE);
        pauses = pauses.wrapping_add(1);
        if pauses % PAUSES_PER_LINE == 0 {
            pr_warn!("waiting for packets that a net device holds\n");
        }
    }
    // The last destructor may not have returned yet, possibly in a preempted task.
    kernel_ext::sync::rcu::synchronize_tasks(sleep);
}

/// A sender that waits while too many of its packets are in flight: a QP.
pub(crate) trait Waiter: Send + Sync + 'static {
    /// Resumes sending. Any context, with the flight's lock held.
    fn wake(this: &Arc<Self>);
}

/// Counts the packets of a QP in flight.
///
/// Packets may outlive the QP, so they refer to this, which refers to the QP only until [`Self::detach`].
#[pin_data(PinnedDrop)]
pub(crate) struct Flight<W> {
    count: AtomicU32,
    /// The CPU that sent the last packet, or [`NO_CPU`]. Written with the engine's lock held.
    cpu: AtomicU32,
    /// The QP waits until fewer packets than that are in flight; 0 when it does not wait.
    waiting: AtomicU32,
    /// Taken in any context; only the work item is queued inside.
    #[pin]
    waiter: SpinLockIrq<Option<Arc<W>>>,
}

impl<W> Flight<W> {
    /// Creates a count without a QP.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let flight = Arc::pin_init(
            pin_init!(Self {
                count: AtomicU32::new(0),
                cpu: AtomicU32::new(NO_CPU),
                waiting: AtomicU32::new(0),
                waiter <- new_spinlock_irq!(None, "rxe_flight::waiter"),
            }),
            GFP_KERNEL,
        )?;
        FLIGHTS.fetch_add(1, Ordering::Relaxed);
        Ok(flight)
    }

    /// Sets the QP whose work item resumes sending.
    pub(crate) fn attach(&self, qp: &Arc<W>) {
        *self.waiter.lock() = Some(qp.clone());
    }

    /// Clears the QP: its work item is not queued from here any more.
    pub(crate) fn detach(&self) {
        let qp = self.waiter.lock().take();
        drop(qp);
    }

    /// Whether more packets may be sent; if not, the QP's work item is queued when it may. With the engine's lock
    /// held, so that the CPU does not change.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        let cpu = self.cpu.load(Ordering::Relaxed);
        let stays = cpu == NO_CPU || cpu == CpuId::current().as_u32();
        let (below, resume_below) = if stays {
            (HIGH_WATER, LOW_WATER)
        } else {
            (1, 1)
        };
        if self.count.load(Ordering::Relaxed) < below {
            return true;
        }
        self.waiting.store(resume_below, Ordering::SeqCst);
        // Packets that left before the store above did not see it.
        if self.count.load(Ordering::SeqCst) >= resume_below {
            return false;
        }
        self.waiting.store(0, Ordering::SeqCst);
        true
    }

    /// Counts packets that are sent, by a net device or loopback.
    pub(crate) fn count_sent(&self, packets: u32, through_net_device: bool) {
        if through_net_device {
            self.cpu.store(CpuId::current().as_u32(), Ordering::Relaxed);
        }
        self.count.fetch_add(packets, Ordering::SeqCst);
    }
}

#[pinned_drop]
impl<W> PinnedDrop for Flight<W> {
    fn drop(self: Pin<&mut Self>) {
        FLIGHTS.fetch_sub(1, Ordering::Release);
    }
}

impl<W: Waiter> InFlight for Flight<W> {
    fn released(this: Arc<Self>, packets: u32) {
        let before = this.count.fetch_sub(packets, Ordering::SeqCst);
        let left = before.saturating_sub(packets);
        let ready = left < this.waiting.load(Ordering::SeqCst);
        if ready && this.waiting.swap(0, Ordering::SeqCst) != 0 {
            if let Some(qp) = &*this.waiter.lock() {
                W::wake(qp);
            }
        }
    }
}
