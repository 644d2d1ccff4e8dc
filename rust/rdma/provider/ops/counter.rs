// SPDX-License-Identifier: GPL-2.0

//! The entry points of counters that queue pairs are bound to: `struct rdma_counter`.

use kernel::ffi::c_int;
use rdma_bindings::{self as bindings, ib_qp, rdma_counter, rdma_hw_stats};

use super::{errno, no_handler, ProviderOps};
use crate::{
    provider::{
        counter::Counter,
        stats::{HwStats, StatDesc},
    },
    MaySleep, Provider, Qp,
};

/// Allocates the values of [`Provider::PORT_STATS`]; null where memory is short.
pub(super) fn alloc_stats<P: Provider>() -> *mut rdma_hw_stats {
    const LIFESPAN: usize = bindings::RDMA_HW_STATS_DEFAULT_LIFESPAN as usize;
    // SAFETY: The descriptions are constant, and `len` is their number.
    unsafe {
        bindings::rdma_alloc_hw_stats_struct(
            StatDesc::as_raw(P::PORT_STATS),
            P::PORT_STATS.len() as c_int,
            LIFESPAN,
        )
    }
}

impl<P: Provider> ProviderOps<P> {
    /// Allocates the values of a counter.
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn counter_alloc_stats(
        _counter: *mut rdma_counter,
    ) -> *mut rdma_hw_stats {
        alloc_stats::<P>()
    }

    /// Prepares a counter: the first QP that is bound to it does that. The stock core calls this in any case.
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn counter_init(_counter: *mut rdma_counter) {}

    /// The C entry point of [`Provider::counter_bind_qp`], and for the first QP of [`Provider::counter_alloc`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn counter_bind_qp(
        counter: *mut rdma_counter,
        qp: *mut ib_qp,
        port: u32,
    ) -> c_int {
        // SAFETY: By the contract of the table.
        let (qp, sleep) = unsafe { (Qp::<P>::from_raw(qp), MaySleep::assume()) };
        // SAFETY: By the contract of the table.
        let bound =
            unsafe { Counter::<P>::bound(counter, |dev| P::counter_alloc(dev, port, &sleep)) };
        errno(bound.map(|bound| {
            P::counter_bind_qp(bound, qp, &sleep);
            qp.base().set_counter(Some(bound.base()));
        }))
    }

    /// The C entry point of [`Provider::counter_unbind_qp`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn counter_unbind_qp(qp: *mut ib_qp, _port: u32) -> c_int {
        // SAFETY: By the contract of the table.
        let (qp, sleep) = unsafe { (Qp::<P>::from_raw(qp), MaySleep::assume()) };
        P::counter_unbind_qp(qp, &sleep);
        qp.base().set_counter(None);
        0
    }

    /// The C entry point of [`Provider::counter_update_stats`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn counter_update_stats(counter: *mut rdma_counter) -> c_int {
        // SAFETY: By the contract of the table; the core has allocated the values, and holds the lock that protects them.
        let (mut stats, counter, sleep) = unsafe {
            (
                HwStats::from_raw((*counter).stats),
                Counter::<P>::from_raw(counter),
                MaySleep::assume(),
            )
        };
        P::counter_update_stats(counter, &mut stats, &sleep);
        0
    }

    /// The C entry point of [`Provider::counter_dealloc`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn counter_dealloc(counter: *mut rdma_counter) -> c_int {
        let release = |counter: &Counter<P>| {
            // SAFETY: By the contract of the table.
            P::counter_dealloc(counter, unsafe { &MaySleep::assume() });
            Ok(())
        };
        // SAFETY: By the contract of the table.
        errno(unsafe { Counter::<P>::destroy(counter, release, no_handler) })
    }
}
