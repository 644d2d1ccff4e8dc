// SPDX-License-Identifier: GPL-2.0

//! Notifier chains: a registered notifier block that calls a listener.
//!
//! C header: `include/linux/notifier.h`.

use crate::{bindings, context::MaySleep};
use core::pin::Pin;
use kernel::{
    error::to_result,
    ffi::{c_int, c_ulong, c_void},
    prelude::*,
    types::Opaque,
};

/// Registers a block, or unregisters it.
pub type Change = unsafe extern "C" fn(*mut bindings::notifier_block) -> c_int;

/// A notifier chain, and the conversion of its events.
///
/// # Safety
///
/// [`REGISTER`](Self::REGISTER) adds a block to a chain, and [`UNREGISTER`](Self::UNREGISTER) removes it, after which it
/// is not called any more; both may be called where sleeping is allowed. The chain meets the requirements of
/// [`notify`](Self::notify).
pub unsafe trait Chain: 'static {
    /// The type of the listener.
    type Listener: Send + Sync + 'static;

    /// Registers a block.
    const REGISTER: Change;

    /// Unregisters a block.
    const UNREGISTER: Change;

    /// Passes an event to a listener.
    ///
    /// # Safety
    ///
    /// The chain calls it, in the context of its events, with the `data` of the event.
    unsafe fn notify(listener: &Self::Listener, event: c_ulong, data: *mut c_void);
}

/// A registered notifier block with its listener. Dropping it unregisters it, and may sleep.
#[pin_data(PinnedDrop)]
pub struct NotifierBlock<C: Chain> {
    #[pin]
    block: Opaque<bindings::notifier_block>,
    listener: C::Listener,
}

// SAFETY: The block may be removed from the chain on any thread, and the listener is `Send`.
unsafe impl<C: Chain> Send for NotifierBlock<C> {}
// SAFETY: A shared reference gives access to the listener alone, which is `Sync`.
unsafe impl<C: Chain> Sync for NotifierBlock<C> {}

impl<C: Chain> NotifierBlock<C> {
    /// Registers a listener.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of the chain.
    pub fn new(listener: C::Listener, may_sleep: &MaySleep) -> Result<Pin<KBox<Self>>> {
        KBox::try_pin_init(Self::init(listener, may_sleep), GFP_KERNEL)
    }

    /// Returns an initializer that registers a listener.
    pub(super) fn init(listener: C::Listener, _may_sleep: &MaySleep) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            listener,
            block <- Opaque::try_ffi_init(|slot: *mut bindings::notifier_block| {
                // SAFETY: `slot` is valid for writes, and pinned until `drop` removes it from the chain; the listener,
                // which `call` uses, is already initialised.
                unsafe {
                    slot.write(bindings::notifier_block {
                        notifier_call: Some(Self::call),
                        ..pin_init::zeroed()
                    });
                    to_result((C::REGISTER)(slot))
                }
            }),
        }? Error)
    }

    /// Returns the listener.
    pub fn listener(&self) -> &C::Listener {
        &self.listener
    }

    /// # Safety
    ///
    /// The chain calls it with the block that `init` has registered.
    unsafe extern "C" fn call(
        block: *mut bindings::notifier_block,
        event: c_ulong,
        data: *mut c_void,
    ) -> c_int {
        // SAFETY: The block is a field of `Self`, which is valid until the block is removed from the chain; the chain
        // calls this.
        unsafe {
            let this = kernel::container_of!(Opaque::cast_from(block), Self, block);
            C::notify(&(*this).listener, event, data);
        }
        bindings::NOTIFY_DONE as c_int
    }
}

#[pinned_drop]
impl<C: Chain> PinnedDrop for NotifierBlock<C> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: `init` has registered the block.
        unsafe { (C::UNREGISTER)(self.block.get()) };
    }
}
