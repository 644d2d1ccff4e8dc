// SPDX-License-Identifier: GPL-2.0

//! Notifier chains: one type that stands in a chain and calls a listener.
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

/// Puts a block into a chain, or takes it out.
pub type Change = unsafe extern "C" fn(*mut bindings::notifier_block) -> c_int;

/// A notifier chain, and how its events are told to a listener.
///
/// # Safety
///
/// [`JOIN`](Self::JOIN) puts a block into a chain of which [`LEAVE`](Self::LEAVE) takes it out again, after which it is not
/// called any more; both may be called where it is allowed to sleep. That chain keeps what [`tell`](Self::tell) asks for.
pub unsafe trait Chain: 'static {
    /// What is called.
    type Listener: Send + Sync + 'static;

    /// Puts a block into the chain.
    const JOIN: Change;

    /// Takes a block out of the chain.
    const LEAVE: Change;

    /// Tells an event.
    ///
    /// # Safety
    ///
    /// The chain calls it, in the context of its events, with what the event is `about`.
    unsafe fn tell(listener: &Self::Listener, event: c_ulong, about: *mut c_void);
}

/// A listener in a chain. Dropping it takes it out, and may sleep.
#[pin_data(PinnedDrop)]
pub struct Member<C: Chain> {
    #[pin]
    block: Opaque<bindings::notifier_block>,
    listener: C::Listener,
}

// SAFETY: It may be taken out of the chain on any thread.
unsafe impl<C: Chain> Send for Member<C> {}
// SAFETY: A shared reference gives the listener alone, which is `Sync`.
unsafe impl<C: Chain> Sync for Member<C> {}

impl<C: Chain> Member<C> {
    /// Puts a listener into the chain.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of the chain.
    pub fn new(listener: C::Listener, may_sleep: &MaySleep) -> Result<Pin<KBox<Self>>> {
        KBox::try_pin_init(Self::init(listener, may_sleep), GFP_KERNEL)
    }

    /// Returns an initializer that puts a listener into the chain.
    pub(super) fn init(listener: C::Listener, _may_sleep: &MaySleep) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            listener,
            block <- Opaque::try_ffi_init(|slot: *mut bindings::notifier_block| {
                // SAFETY: `slot` is valid for writes, and pinned until `drop` takes it out; the listener, which is set
                // already, lies beside it.
                unsafe {
                    slot.write(bindings::notifier_block {
                        notifier_call: Some(Self::call),
                        ..pin_init::zeroed()
                    });
                    to_result((C::JOIN)(slot))
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
    /// The chain calls it, with the block that `init` put there.
    unsafe extern "C" fn call(
        block: *mut bindings::notifier_block,
        event: c_ulong,
        about: *mut c_void,
    ) -> c_int {
        // SAFETY: The block is a field of `Self`, which lives until it is out of the chain; the chain calls.
        unsafe {
            let this = kernel::container_of!(Opaque::cast_from(block), Self, block);
            C::tell(&(*this).listener, event, about);
        }
        bindings::NOTIFY_DONE as c_int
    }
}

#[pinned_drop]
impl<C: Chain> PinnedDrop for Member<C> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: `init` put the block into the chain.
        unsafe { (C::LEAVE)(self.block.get()) };
    }
}
