// SPDX-License-Identifier: GPL-2.0

//! Memory of a device that programs allocate: `struct ib_dm`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::ops::Deref;

use kernel::prelude::*;
use rdma_bindings::ib_dm;

use crate::{
    abi::access::Access,
    provider::{data::ProviderData, object::Base},
};

/// Memory of a device of `P`.
///
/// It is allocated here, not by the core, which fills in its part when the method has returned. It dereferences to the driver's data.
#[repr(C)]
pub struct Dm<P: ProviderData> {
    base: Base<ib_dm, P>,
    data: P::Dm,
}

/// What a program asks for.
#[derive(Clone, Copy)]
pub struct DmAttr {
    /// The length in bytes.
    pub length: u64,
    /// The binary logarithm of the alignment of its first byte.
    pub alignment: u32,
}

/// The region in device memory that a program asks for; its addresses begin at 0.
#[derive(Clone, Copy)]
pub struct DmMr {
    /// The offset of its first byte.
    pub offset: u64,
    /// The length in bytes.
    pub length: u64,
    /// The access flags, with `ZERO_BASED`.
    pub access: Access,
}

impl<P: ProviderData> Dm<P> {
    /// Creates device memory from the result of `new`. C owns it from here on.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of `new`.
    pub(crate) fn make(new: impl FnOnce() -> Result<P::Dm>) -> Result<*mut ib_dm> {
        let room = KBox::<Self>::new_uninit(GFP_KERNEL)?;
        let dm = Self {
            base: Base::new(pin_init::zeroed()),
            data: new()?,
        };
        Ok(KBox::into_raw(KBox::write(room, dm)).cast())
    }

    /// Borrows device memory.
    ///
    /// # Safety
    ///
    /// `raw` must come from [`Self::make`] and not be freed within `'a`.
    #[inline]
    pub(crate) unsafe fn from_raw<'a>(raw: *mut ib_dm) -> &'a Self {
        // SAFETY: By the safety requirements; `base` comes first.
        unsafe { &*raw.cast() }
    }

    /// Takes device memory back from C.
    ///
    /// # Safety
    ///
    /// `raw` must come from [`Self::make`], and must not be used any more.
    pub(crate) unsafe fn take(raw: *mut ib_dm) -> KBox<Self> {
        // SAFETY: By the safety requirements.
        unsafe { KBox::from_raw(raw.cast()) }
    }

    /// The core's part.
    #[inline]
    pub fn base(&self) -> &Base<ib_dm, P> {
        &self.base
    }
}

impl<P: ProviderData> Deref for Dm<P> {
    type Target = P::Dm;

    #[inline]
    fn deref(&self) -> &P::Dm {
        &self.data
    }
}
