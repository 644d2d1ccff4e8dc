// SPDX-License-Identifier: GPL-2.0

//! Service IDs: which may be listened on.
//!
//! A REQ or SIDR_REQ finds the listener of its device with just its ID: there are no masks, as users of `ib_cm` have no way to set
//! one. Listeners are ordered by device, then by ID.
//!
//! IBTA volume 1, A3.2; C header: `include/rdma/ib_cm.h`.

/// A service ID in host order.
pub type ServiceId = u64;

/// The part of an ID that says who assigns it (`IB_SERVICE_ID_AGN_MASK`).
pub const AGN_MASK: ServiceId = 0xff00_0000_0000_0000;
/// IDs that the operating system assigns; as an ID, the wish for one (`IB_CM_ASSIGN_SERVICE_ID`).
pub const ASSIGN: ServiceId = 0x0200_0000_0000_0000;
/// IDs of `rdma_cm` (`IB_CMA_SERVICE_ID`): port space and port are in the lower bits.
pub const CMA: ServiceId = 0x0000_0000_0100_0000;
/// The part of an ID that [`CMA`] has (`IB_CMA_SERVICE_ID_MASK`).
pub const CMA_MASK: ServiceId = 0xffff_ffff_ff00_0000;

/// What a client asks to listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// This ID.
    This(ServiceId),
    /// The next one of [`Assigned`].
    Any,
}

impl Wish {
    /// Checks an ID: those that the operating system assigns cannot be chosen (`None`, `-EINVAL`).
    pub const fn new(id: ServiceId) -> Option<Self> {
        match id {
            ASSIGN => Some(Self::Any),
            _ if id & AGN_MASK == ASSIGN => None,
            _ => Some(Self::This(id)),
        }
    }
}

/// The IDs that were assigned.
#[derive(Debug)]
pub struct Assigned(ServiceId);

impl Assigned {
    /// None yet.
    pub const fn new() -> Self {
        Self(ASSIGN)
    }

    /// The next ID.
    pub fn take(&mut self) -> ServiceId {
        let id = self.0;
        self.0 = ASSIGN | id.wrapping_add(1) & !AGN_MASK;
        id
    }
}

impl Default for Assigned {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether a further client may share a listener. All have the same handler, and none has a context.
pub fn may_share<H: PartialEq>(listener: &H, has_context: bool, wish: Option<&H>) -> bool {
    !has_context && wish == Some(listener)
}
