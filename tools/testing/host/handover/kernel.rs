// SPDX-License-Identifier: GPL-2.0

//! The kernel, as far as the driver's files use it here.

#![allow(
    dead_code,
    unused_macros,
    unused_imports,
    reason = "each crate uses a part"
)]

/// Of `kernel::prelude`.
pub mod prelude {
    pub use super::init::{ArcInit, PinInit};
    pub use super::memory::{KVVec, KVec};
    pub(crate) use super::pin_init;
    pub use pin_project::pin_project as pin_data;

    /// An error number.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Error(pub i32);

    pub type Result<T = (), E = Error> = core::result::Result<T, E>;

    pub const ENOMEM: Error = Error(-12);
    pub const EINVAL: Error = Error(-22);
    pub const ENOSPC: Error = Error(-28);

    /// Flags of an allocation.
    #[derive(Clone, Copy)]
    pub struct Flags;

    pub const GFP_KERNEL: Flags = Flags;
    pub const GFP_KERNEL_ACCOUNT: Flags = Flags;
}

/// Allocation.
pub mod alloc {
    pub use super::prelude::Flags;
}

/// Initialisers: values.
pub mod init {
    use super::prelude::{Flags, Result};
    use std::sync::Arc;

    pub trait PinInit<T> {
        fn make(self) -> T;
    }

    impl<T> PinInit<T> for T {
        fn make(self) -> T {
            self
        }
    }

    pub trait ArcInit<T> {
        fn pin_init(init: impl PinInit<T>, flags: Flags) -> Result<Self>
        where
            Self: Sized;
    }

    impl<T> ArcInit<T> for Arc<T> {
        fn pin_init(init: impl PinInit<T>, _flags: Flags) -> Result<Self> {
            Ok(Arc::new(init.make()))
        }
    }
}

macro_rules! pin_init {
    (Self { $($field:ident <- $init:expr),* $(,)? }) => {
        Self { $($field: $crate::prelude::PinInit::make($init)),* }
    };
}

pub(crate) use pin_init;

/// Of `kernel_ext`.
pub mod zeroed {
    pub use super::memory::zeroed;
}

/// Vectors.
pub mod memory {
    use super::prelude::{Error, Flags, Result};
    use std::ops::{Deref, DerefMut};

    #[derive(Default)]
    pub struct KVec<T>(Vec<T>);

    pub type KVVec<T> = KVec<T>;

    /// A vector of default values, which are zeros here.
    pub fn zeroed<T: Clone + Default>(count: usize, _flags: Flags) -> Result<KVec<T>> {
        Ok(KVec(vec![T::default(); count]))
    }

    impl<T> KVec<T> {
        pub fn new() -> Self {
            Self(Vec::new())
        }

        pub fn with_capacity(count: usize, _flags: Flags) -> Result<Self> {
            Ok(Self(Vec::with_capacity(count)))
        }

        pub fn push(&mut self, value: T, _flags: Flags) -> Result {
            self.0.push(value);
            Ok(())
        }

        pub fn remove(&mut self, at: usize) -> Result<T> {
            if at < self.0.len() {
                Ok(self.0.remove(at))
            } else {
                Err(Error(-22))
            }
        }
    }

    impl<T> Deref for KVec<T> {
        type Target = [T];

        fn deref(&self) -> &[T] {
            &self.0
        }
    }

    impl<T> DerefMut for KVec<T> {
        fn deref_mut(&mut self) -> &mut [T] {
            &mut self.0
        }
    }
}

/// Locks. On a processor, softirqs and interrupts do not run while theirs are held: fewer orders than here.
pub mod locks {
    use std::ops::{Deref, DerefMut};

    pub struct Lock<T>(loom::sync::Mutex<T>);

    pub struct Guard<'a, T>(loom::sync::MutexGuard<'a, T>);

    pub type SpinLockBh<T> = Lock<T>;
    pub type SpinLockBhGuard<'a, T> = Guard<'a, T>;
    pub type SpinLockIrq<T> = Lock<T>;
    pub type Mutex<T> = Lock<T>;

    impl<T> Lock<T> {
        pub fn new(data: T) -> Self {
            Self(loom::sync::Mutex::new(data))
        }

        pub fn lock(&self) -> Guard<'_, T> {
            Guard(self.0.lock().expect("no thread has panicked"))
        }

        pub fn try_lock(&self) -> Option<Guard<'_, T>> {
            self.0.try_lock().ok().map(Guard)
        }
    }

    impl<T> Deref for Guard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            &self.0
        }
    }

    impl<T> DerefMut for Guard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            &mut self.0
        }
    }

    macro_rules! new_lock {
        ($data:expr, $name:literal) => {
            $crate::sync::SpinLockBh::new($data)
        };
    }
    pub(crate) use new_lock as new_spinlock_bh;
    pub(crate) use new_lock as new_spinlock_irq;
    pub(crate) use new_lock as new_mutex;
}

/// Packets: a number and the sender.
pub mod skbs {
    pub mod skb {
        use std::sync::{
            atomic::{AtomicUsize, Ordering},
            Arc,
        };

        /// A packet that counts itself out when it is freed.
        pub struct SkBuff {
            pub from: u32,
            pub number: u32,
            word: u32,
            alive: Arc<AtomicUsize>,
        }

        impl SkBuff {
            pub fn new(from: u32, number: u32, alive: &Arc<AtomicUsize>) -> Self {
                alive.fetch_add(1, Ordering::Relaxed);
                Self {
                    from,
                    number,
                    word: 0,
                    alive: alive.clone(),
                }
            }

            pub fn cb_word(&self) -> u32 {
                self.word
            }

            /// Packets in the buffer.
            pub fn segments(&self) -> usize {
                1
            }

            pub fn set_cb_word(&mut self, word: u32) {
                self.word = word;
            }
        }

        impl Drop for SkBuff {
            fn drop(&mut self) {
                self.alive.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    pub mod skb_list {
        use super::skb::SkBuff;
        use std::collections::VecDeque;

        #[derive(Default)]
        pub struct SkbList(VecDeque<SkBuff>);

        impl SkbList {
            pub const fn new() -> Self {
                Self(VecDeque::new())
            }

            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }

            pub fn push_back(&mut self, packet: SkBuff) {
                self.0.push_back(packet);
            }

            pub fn pop_front(&mut self) -> Option<SkBuff> {
                self.0.pop_front()
            }
        }
    }
}
