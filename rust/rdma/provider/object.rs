// SPDX-License-Identifier: GPL-2.0

//! Objects that the core allocates and a driver extends: the layout that `INIT_RDMA_OBJ_SIZE` declares in C.
//!
//! The core allocates each PD, AH, CQ, QP, SRQ, MW and user context with the size that the driver declares.
//! Such an object is the core's structure, followed by the handle for the object's handlers and by the
//! driver's data. The data is initialised from the return of the driver's create method until the destroy
//! method has succeeded. The core passes the object to methods only in that time.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::{marker::PhantomData, mem::MaybeUninit, ops::Deref};

use kernel::{error::Result, types::Opaque};
use rdma_bindings::{ib_pd, ib_uobject};

use crate::{provider::data::ProviderData, Device};

/// The core's part of an object `C` of a device of `P`.
///
/// A create method gets this part alone: the driver's part is the method's result.
///
/// # Invariants
///
/// The C structure is one that the core has initialised and not freed.
#[repr(transparent)]
pub struct Base<C, P> {
    raw: Opaque<C>,
    _provider: PhantomData<fn() -> P>,
}

// SAFETY: The core's structures may be used from any thread; methods only read constant members, or
// synchronise.
unsafe impl<C, P> Send for Base<C, P> {}
// SAFETY: The core's structures may be used from any thread; methods only read constant members, or
// synchronise.
unsafe impl<C, P> Sync for Base<C, P> {}

impl<C, P> Base<C, P> {
    /// The C structure.
    #[inline]
    pub fn as_raw(&self) -> *mut C {
        self.raw.get()
    }

    /// Wraps a structure that this crate allocates.
    #[inline]
    pub(crate) fn new(raw: C) -> Self {
        Self {
            raw: Opaque::new(raw),
            _provider: PhantomData,
        }
    }

    /// Borrows the core's part of an object.
    ///
    /// # Safety
    ///
    /// `raw` must point to an object of a device of `P` that stays valid for `'a`.
    #[inline]
    pub unsafe fn from_raw<'a>(raw: *mut C) -> &'a Self {
        // SAFETY: By the safety requirements; `Self` is a transparent wrapper.
        unsafe { &*raw.cast() }
    }
}

/// An object `C` of a device of `P` with the driver's data `D` and its handle `H`.
///
/// It dereferences to the driver's data; [`base`](Self::base) is the core's part.
///
/// # Invariants
///
/// References exist only between the success of the create method and the success of the destroy method,
/// when `handle` and `data` are initialised.
#[repr(C)]
pub struct Object<C, P, D, H = ()> {
    base: Base<C, P>,
    handle: MaybeUninit<H>,
    data: MaybeUninit<D>,
}

impl<C, P, D, H> Object<C, P, D, H> {
    /// The size in bytes that the core allocates, with an alignment of 64 bits.
    pub(crate) const SIZE: usize = {
        assert!(align_of::<Self>() <= align_of::<u64>());
        size_of::<Self>()
    };

    /// The core's part.
    #[inline]
    pub fn base(&self) -> &Base<C, P> {
        &self.base
    }

    /// The driver's part.
    #[inline]
    pub fn data(&self) -> &D {
        // SAFETY: By the type invariants the data is initialised.
        unsafe { self.data.assume_init_ref() }
    }

    /// The handle for the object's handlers.
    #[inline]
    pub(crate) fn handle(&self) -> &H {
        // SAFETY: By the type invariants the handle is initialised.
        unsafe { self.handle.assume_init_ref() }
    }

    /// Borrows an object.
    ///
    /// # Safety
    ///
    /// `raw` must be an object of a device of `P` that was created by [`Self::create`] and is not
    /// destroyed within `'a`.
    #[inline]
    pub(crate) unsafe fn from_raw<'a>(raw: *mut C) -> &'a Self {
        // SAFETY: By the safety requirements; `base` comes first.
        unsafe { &*raw.cast() }
    }

    /// Runs a create method, and moves its result into the object.
    ///
    /// `close` prevents further calls of the object's handlers if the method fails.
    ///
    /// # Safety
    ///
    /// `raw` must be an object that the core has just allocated at [`Self::SIZE`].
    pub(crate) unsafe fn create(
        raw: *mut C,
        handle: H,
        make: impl FnOnce(&Base<C, P>) -> Result<D>,
        close: impl FnOnce(&H),
    ) -> Result {
        // SAFETY: By the safety requirements.
        let data = make(unsafe { Base::from_raw(raw) }).inspect_err(|_| close(&handle))?;
        let this: *mut Self = raw.cast();
        // SAFETY: By the safety requirements there is memory for all of `Self`, and only this thread uses
        // it.
        unsafe {
            (&raw mut (*this).handle).write(MaybeUninit::new(handle));
            (&raw mut (*this).data).write(MaybeUninit::new(data));
        }
        Ok(())
    }

    /// Runs a destroy method and, if it succeeds, drops the driver's data.
    ///
    /// `close` prevents further calls of the object's handlers before the data is dropped.
    ///
    /// # Safety
    ///
    /// As for [`Self::from_raw`]; if this succeeds, the object must not be used again.
    pub(crate) unsafe fn destroy(
        raw: *mut C,
        release: impl FnOnce(&Self) -> Result,
        close: impl FnOnce(&H),
    ) -> Result {
        // SAFETY: By the safety requirements.
        release(unsafe { Self::from_raw(raw) })?;
        let this: *mut Self = raw.cast();
        // SAFETY: Both are initialised by the type invariants, and this is their last use.
        unsafe {
            close((*this).handle.assume_init_ref());
            (*this).data.assume_init_drop();
            (*this).handle.assume_init_drop();
        }
        Ok(())
    }
}

impl<C, P, D, H> Deref for Object<C, P, D, H> {
    type Target = D;

    #[inline]
    fn deref(&self) -> &D {
        self.data()
    }
}

/// A protection domain: `struct ib_pd`.
pub type Pd<P> = Object<ib_pd, P, <P as ProviderData>::Pd>;

/// The core's part of a PD.
pub type PdBase<P> = Base<ib_pd, P>;

impl<P: ProviderData> Base<ib_pd, P> {
    /// The device that the PD belongs to.
    #[inline]
    pub fn device(&self) -> &Device<P> {
        // SAFETY: The core has set `device`, which outlives its objects.
        unsafe { Device::from_raw((*self.as_raw()).device) }
    }

    /// The user object, for a PD of user space.
    #[inline]
    pub(crate) fn uobject(&self) -> *mut ib_uobject {
        // SAFETY: By the type invariants; the field is constant, and set before the create method.
        unsafe { (*self.as_raw()).uobject }
    }

    /// Whether the PD belongs to user space.
    #[inline]
    pub fn is_user(&self) -> bool {
        !self.uobject().is_null()
    }
}
