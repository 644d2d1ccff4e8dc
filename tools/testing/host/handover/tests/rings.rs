// SPDX-License-Identifier: GPL-2.0

//! `hw/rxe/ring.rs` against the other side of a ring: each element is seen once, whole and in order, and no slot is written
//! while the other side reads it.

extern crate self as kernel;
extern crate self as kernel_ext;
extern crate self as rdma;

#[path = "../kernel.rs"]
mod shim;

pub use shim::*;

pub mod mm {
    pub mod virt {
        pub struct VmaNew;
    }
}

pub mod page {
    pub const PAGE_SIZE: usize = 4096;
}

/// A token of the kernel's.
pub struct MaySleep;

pub struct Udata<'a>(core::marker::PhantomData<&'a ()>);

pub mod sync {
    use crate::prelude::{Flags, PinInit, Result};

    pub use crate::shim::locks::*;

    /// The kernel's: `new` can fail.
    pub struct Arc<T>(std::sync::Arc<T>);

    impl<T> Arc<T> {
        pub fn new(value: T, _flags: Flags) -> Result<Self> {
            Ok(Self(std::sync::Arc::new(value)))
        }

        pub fn pin_init(init: impl PinInit<T>, flags: Flags) -> Result<Self> {
            Self::new(init.make(), flags)
        }
    }

    impl<T> Clone for Arc<T> {
        fn clone(&self) -> Self {
            Self(self.0.clone())
        }
    }

    impl<T> core::ops::Deref for Arc<T> {
        type Target = T;

        fn deref(&self) -> &T {
            &self.0
        }
    }
}

pub mod shared_bytes {
    /// Bytes of shared memory, as they were when they were taken.
    pub struct SharedBytes<'a>(pub Vec<u8>, pub core::marker::PhantomData<&'a ()>);
}

/// Memory that is shared with a process. loom sees each access that nothing orders.
pub mod shared {
    use crate::{mm::virt::VmaNew, prelude::Result, shared_bytes::SharedBytes, MaySleep};
    use loom::{
        cell::UnsafeCell,
        sync::atomic::{AtomicU32, Ordering},
    };
    use std::{cell::RefCell, sync::Arc};

    const DATA: usize = 384;
    const SLOT: usize = 64;

    pub struct SharedMem {
        len: usize,
        pages: Arc<Pages>,
    }

    /// The pages, which both sides have.
    pub struct Pages {
        words: [AtomicU32; 4],
        slots: Vec<UnsafeCell<[u8; SLOT]>>,
    }

    // The threads of a model take turns, and loom checks the accesses.
    unsafe impl Sync for Pages {}
    unsafe impl Send for Pages {}

    thread_local! {
        /// The pages that were made last: a model has one ring.
        static LAST: RefCell<Option<Arc<Pages>>> = const { RefCell::new(None) };
    }

    impl SharedMem {
        pub fn new(len: usize, _ctx: &MaySleep) -> Result<Self> {
            let pages = Arc::new(Pages {
                words: core::array::from_fn(|_| AtomicU32::new(0)),
                slots: (DATA..len)
                    .step_by(SLOT)
                    .map(|_| UnsafeCell::new([0; SLOT]))
                    .collect(),
            });
            LAST.with(|last| *last.borrow_mut() = Some(pages.clone()));
            Ok(Self { len, pages })
        }

        /// The process maps the ring that was made last.
        pub fn mapped() -> Self {
            let pages = LAST.with(|last| last.borrow_mut().take()).unwrap();
            Self { len: 0, pages }
        }

        pub fn len(&self) -> usize {
            self.len
        }

        pub fn map(&self, _vma: &VmaNew, _ctx: &MaySleep) -> Result {
            Ok(())
        }

        fn word(&self, offset: usize) -> Option<&AtomicU32> {
            let at = [0, 4, 128, 256].iter().position(|&word| word == offset)?;
            Some(&self.pages.words[at])
        }

        pub fn load_acquire_u32(&self, offset: usize) -> Option<u32> {
            Some(self.word(offset)?.load(Ordering::Acquire))
        }

        pub fn store_release_u32(&self, offset: usize, value: u32) -> Option<()> {
            self.word(offset)?.store(value, Ordering::Release);
            Some(())
        }

        pub fn copy_in(&self, offset: usize, from: &[u8]) -> Option<()> {
            let (slot, at) = ((offset - DATA) / SLOT, (offset - DATA) % SLOT);
            let to = self.pages.slots.get(slot)?;
            // SAFETY: loom panics where somebody else has access.
            to.with_mut(|to| unsafe { (&mut *to)[at..at + from.len()].copy_from_slice(from) });
            Some(())
        }

        pub fn bytes(&self, offset: usize, len: usize) -> Option<SharedBytes<'_>> {
            let mut bytes = vec![0; len];
            self.copy_out(offset, &mut bytes)?;
            Some(SharedBytes(bytes, core::marker::PhantomData))
        }

        pub fn copy_out(&self, offset: usize, to: &mut [u8]) -> Option<()> {
            let (slot, at) = ((offset - DATA) / SLOT, (offset - DATA) % SLOT);
            let from = self.pages.slots.get(slot)?;
            // SAFETY: loom panics where somebody else writes.
            from.with(|from| unsafe { to.copy_from_slice(&(&*from)[at..at + to.len()]) });
            Some(())
        }
    }
}

#[path = "../../../../../hw/rxe/ring.rs"]
#[allow(dead_code, reason = "a part is used")]
// rustfmt looks for its `kunit.rs` in the wrong place.
#[rustfmt::skip]
mod ring;

/// The ends of a ring.
mod models {
    use crate::ring::{Consumer, Full, Mappings, Producer, RingIndices};
    use crate::{shared::SharedMem, sync::Lock, MaySleep};
    use loom::thread;

    const PRODUCER: usize = 128;
    const CONSUMER: usize = 256;
    const DATA: usize = 384;
    const SLOT: usize = 64;
    /// Of a ring for 3 elements.
    const MASK: u32 = 3;

    fn check(model: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(model);
    }

    /// The kernel fills a ring, more often than it has slots, and the process empties it.
    #[test]
    fn completions() {
        check(|| {
            let table = Mappings::new().unwrap();
            let mut ring = Producer::new(&table, 3, SLOT, &MaySleep).unwrap();
            let memory = SharedMem::mapped();
            let process = thread::spawn(move || {
                let mut taken = 0;
                for _ in 0..4 {
                    let next = memory.load_acquire_u32(PRODUCER).unwrap();
                    while taken & MASK != next {
                        let mut element = [0; 1];
                        let slot = DATA + (taken & MASK) as usize * SLOT;
                        memory.copy_out(slot, &mut element).unwrap();
                        assert_eq!(u32::from(element[0]), taken + 1);
                        taken += 1;
                        memory.store_release_u32(CONSUMER, taken & MASK).unwrap();
                    }
                }
                taken
            });
            let mut pushed = 0;
            for _ in 0..5 {
                match ring.push(&[pushed as u8 + 1]) {
                    Ok(()) => pushed += 1,
                    Err(Full) => thread::yield_now(),
                }
            }
            let taken = process.join().unwrap();
            assert_eq!(ring.len(), pushed - taken);
        });
    }

    /// The process fills a ring, and the kernel empties it.
    #[test]
    fn requests() {
        check(|| {
            let table = Mappings::new().unwrap();
            let mut ring = Consumer::new(&table, 3, SLOT, &MaySleep).unwrap();
            let memory = SharedMem::mapped();
            let process = thread::spawn(move || {
                let mut posted: u32 = 0;
                for _ in 0..5 {
                    let free = memory.load_acquire_u32(CONSUMER).unwrap();
                    if posted.wrapping_sub(free) & MASK == MASK {
                        continue;
                    }
                    let slot = DATA + (posted & MASK) as usize * SLOT;
                    memory.copy_in(slot, &[posted as u8 + 1]).unwrap();
                    posted += 1;
                    memory.store_release_u32(PRODUCER, posted & MASK).unwrap();
                }
                posted
            });
            let mut seen = 0;
            let mut look = |ring: &mut Consumer| {
                let available = ring.available();
                for nth in 0..available {
                    let mut element = [0; 1];
                    assert!(ring.read(nth, 0, &mut element));
                    seen += 1;
                    assert_eq!(u32::from(element[0]), seen);
                    assert_eq!(ring.bytes(nth, 0, 1).unwrap().0, element);
                }
                ring.advance(available);
                seen
            };
            look(&mut ring);
            look(&mut ring);
            let posted = process.join().unwrap();
            assert_eq!(look(&mut ring), posted);
        });
    }

    /// The indices of a ring of the kernel's, below a lock.
    #[test]
    fn indices() {
        check(|| {
            let ring = std::sync::Arc::new(Lock::new((RingIndices::new(1).unwrap(), [0; 2])));
            let fill = {
                let ring = ring.clone();
                thread::spawn(move || {
                    let mut pushed = 0;
                    for _ in 0..3 {
                        let (indices, slots) = &mut *ring.lock();
                        if let Ok(place) = indices.add() {
                            pushed += 1;
                            slots[place] = pushed;
                        }
                    }
                    pushed
                })
            };
            let mut taken = 0;
            let mut take = || {
                let (indices, slots) = &mut *ring.lock();
                for place in indices.run() {
                    taken += 1;
                    assert_eq!(slots[place], taken);
                    indices.free(1);
                }
                taken
            };
            take();
            take();
            let pushed = fill.join().unwrap();
            assert_eq!(take(), pushed);
        });
    }
}
