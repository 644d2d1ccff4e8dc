// SPDX-License-Identifier: GPL-2.0

//! Locks in statics, which initialise themselves when they are first used.
//!
//! The kernel's `DEFINE_MUTEX` and `DEFINE_SPINLOCK` initialise a lock at compile time, which Rust cannot. Those of
//! [`kernel::sync::global_lock!`] must be initialised by unsafe code before they are used.
//!
//! ```
//! # use kernel::prelude::*;
//! # use kernel_ext::{static_lock::static_lock, static_vec::StaticVec};
//! static_lock! {
//!     /// The numbers in use.
//!     static NUMBERS: Mutex<StaticVec<u32>> = StaticVec::new();
//! }
//!
//! fn add(number: u32) -> Result {
//!     NUMBERS.lock().push(number, GFP_KERNEL)
//! }
//! ```
//!
//! C headers: `include/linux/mutex.h`, `include/linux/spinlock.h`, `include/linux/rwsem.h`.

use crate::{
    bindings,
    context::MaySleep,
    rwsem::{ReadGuard, RwSem, WriteGuard},
};
use core::sync::atomic::{AtomicU8, Ordering};
use kernel::sync::lock::{GlobalGuard, GlobalLock, GlobalLockBackend};

/// Progress of an initialisation.
struct Once(AtomicU8);

impl Once {
    const NEW: u8 = 0;
    const RUNNING: u8 = 1;
    const DONE: u8 = 2;

    const fn new() -> Self {
        Self(AtomicU8::new(Self::NEW))
    }

    /// Calls `init` in the first call; any other waits until it has returned. Any context but NMI. `init` must not
    /// sleep.
    #[inline]
    fn call(&self, init: impl FnOnce()) {
        if self.0.load(Ordering::Acquire) != Self::DONE {
            self.call_first(init);
        }
    }

    #[cold]
    fn call_first(&self, init: impl FnOnce()) {
        // An interrupt on this CPU would wait forever for the initialisation that it has interrupted.
        // SAFETY: Interrupts are restored below, on the same CPU.
        let flags = unsafe { bindings::local_irq_save() };
        let order = Ordering::Acquire;
        if self
            .0
            .compare_exchange(Self::NEW, Self::RUNNING, order, order)
            .is_ok()
        {
            init();
            self.0.store(Self::DONE, Ordering::Release);
        }
        while self.0.load(Ordering::Acquire) != Self::DONE {
            core::hint::spin_loop();
        }
        // SAFETY: The flags are those from above.
        unsafe { bindings::local_irq_restore(flags) };
    }
}

/// A lock in a static. Defined by [`static_lock!`](crate::static_lock).
///
/// # Invariants
///
/// `lock` is initialised once, by `once`.
pub struct StaticLock<B: GlobalLockBackend> {
    once: Once,
    lock: GlobalLock<B>,
}

impl<B: GlobalLockBackend> StaticLock<B> {
    /// A lock that is not initialised yet.
    ///
    /// # Safety
    ///
    /// There is no other lock with the marker `B`.
    pub const unsafe fn new(data: B::Item) -> Self {
        Self {
            once: Once::new(),
            // SAFETY: All other methods initialise it first; by the safety requirements `B` belongs to this lock
            // alone.
            lock: unsafe { GlobalLock::new(data) },
        }
    }

    /// Takes the lock, in the contexts that its type permits.
    #[inline]
    pub fn lock(&'static self) -> GlobalGuard<B> {
        // SAFETY: `once` calls this once; `lock` has no other user before it has returned.
        self.once.call(|| unsafe { self.lock.init() });
        self.lock.lock()
    }
}

/// Defines a lock in a static and its marker type of the same name, for [`GlobalGuard`]: a `Mutex`, a `SpinLock`, a
/// `SpinLockBh` or a `SpinLockIrq`. See the example [there](self).
#[macro_export]
macro_rules! static_lock {
    (
        $(#[$meta:meta])* $vis:vis static $name:ident: $kind:ident<$item:ty> = $value:expr;
    ) => {
        #[doc = ::core::concat!("Marker of the lock [`", ::core::stringify!($name), "`](static@", ::core::stringify!($name), ").")]
        #[allow(non_camel_case_types, unreachable_pub)]
        $vis enum $name {}

        impl ::kernel::sync::lock::GlobalLockBackend for $name {
            const NAME: &'static ::kernel::str::CStr =
                ::kernel::c_str!(::core::concat!(::core::module_path!(), "::", ::core::stringify!($name)));
            type Item = $item;
            type Backend = $crate::static_lock!(@backend $kind);

            fn get_lock_class() -> ::core::pin::Pin<&'static ::kernel::sync::LockClassKey> {
                ::kernel::static_lock_class!()
            }
        }

        $(#[$meta])*
        $vis static $name: $crate::static_lock::StaticLock<$name> = {
            let value: $item = $value;
            // SAFETY: The marker is defined above, for this lock.
            unsafe { $crate::static_lock::StaticLock::new(value) }
        };
    };
    (@backend Mutex) => { ::kernel::sync::lock::mutex::MutexBackend };
    (@backend SpinLock) => { ::kernel::sync::lock::spinlock::SpinLockBackend };
    (@backend SpinLockBh) => { $crate::sync::BhBackend };
    (@backend SpinLockIrq) => { $crate::sync::IrqBackend };
}
pub use static_lock;

/// A reader-writer semaphore in a static.
///
/// # Invariants
///
/// `semaphore` is initialised once, by `once`.
pub struct StaticRwSem {
    once: Once,
    semaphore: RwSem,
}

impl StaticRwSem {
    /// A semaphore that is not initialised yet.
    #[expect(clippy::new_without_default, reason = "it is for statics")]
    pub const fn new() -> Self {
        Self {
            once: Once::new(),
            // SAFETY: All other methods initialise it first.
            semaphore: unsafe { RwSem::new() },
        }
    }

    fn initialised(&'static self) -> &'static RwSem {
        // SAFETY: `once` calls this once.
        self.once.call(|| unsafe { self.semaphore.init() });
        &self.semaphore
    }

    /// Takes it for reading. Sleeps while a task holds it for writing.
    pub fn read(&'static self, sleep: &MaySleep) -> ReadGuard<'static> {
        self.initialised().read(sleep)
    }

    /// Takes it for writing. Sleeps while other tasks hold it.
    pub fn write(&'static self, sleep: &MaySleep) -> WriteGuard<'static> {
        self.initialised().write(sleep)
    }
}
