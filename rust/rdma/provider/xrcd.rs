// SPDX-License-Identifier: GPL-2.0

//! XRC domains: `struct ib_xrcd`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use rdma_bindings::ib_xrcd;

use crate::{
    provider::{
        data::ProviderData,
        object::{Base, Object},
    },
    Device,
};

/// An XRC domain of a device of `P`: the shared receive queues that its target QPs may take receives from.
pub type Xrcd<P> = Object<ib_xrcd, P, <P as ProviderData>::Xrcd>;

/// The core's part of an XRC domain.
pub type XrcdBase<P> = Base<ib_xrcd, P>;

impl<P: ProviderData> Base<ib_xrcd, P> {
    /// The device that the domain belongs to.
    #[inline]
    pub fn device(&self) -> &Device<P> {
        // SAFETY: The core has set `device`, which outlives its objects.
        unsafe { Device::from_raw((*self.as_raw()).device) }
    }
}
