// SPDX-License-Identifier: GPL-2.0

//! The types of a driver's data in each object, which follows `struct ib_pd`, `struct ib_qp` and so on.
//!
//! C header: `include/rdma/ib_verbs.h`.

/// The types of a driver's data in its objects. `Self` is the data of a device.
///
/// Typed objects such as [`Qp`](crate::Qp) only need this trait. [`Provider`](crate::Provider) adds the methods.
pub trait ProviderData: Sized + Send + Sync + 'static {
    /// The driver's data of a user context.
    type Ucontext: Send + Sync + 'static;
    /// The driver's data of a PD.
    type Pd: Send + Sync + 'static;
    /// The driver's data of an XRC domain.
    type Xrcd: Send + Sync + 'static;
    /// The driver's data of device memory.
    type Dm: Send + Sync + 'static;
    /// The driver's data of an AH; it is dropped in any context.
    type Ah: Send + Sync + 'static;
    /// The driver's data of a CQ.
    type Cq: Send + Sync + 'static;
    /// The driver's data of a QP.
    type Qp: Send + Sync + 'static;
    /// The driver's data of an SRQ.
    type Srq: Send + Sync + 'static;
    /// The driver's data of an MR.
    type Mr: Send + Sync + 'static;
    /// The driver's data of an MW.
    type Mw: Send + Sync + 'static;
    /// The driver's data of a counter that QPs are bound to.
    type Counter: Send + Sync + 'static;
}
