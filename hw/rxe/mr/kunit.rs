// SPDX-License-Identifier: GPL-2.0

//! Tests of memory regions: keys, ranges, invalidation.

#[kernel::prelude::kunit_tests(rxe_memory_regions)]
mod tests {
    use super::super::*;
    use kernel_ext::room::Room;

    const READ: Access = Access::REMOTE_READ;
    const WRITE: Access = Access::REMOTE_WRITE.with(Access::LOCAL_WRITE);
    const PAGE: usize = 4096;
    const IOVA: u64 = 0x7000_0000_0123;

    /// The regions of a device, and a protection domain.
    struct Fixture {
        mrs: Pin<KBox<Mrs>>,
        pd: PdId,
        sleep: MaySleep,
    }

    impl Fixture {
        fn new() -> Result<Self> {
            Ok(Self {
                mrs: KBox::pin_init(Mrs::new(), GFP_KERNEL)?,
                pd: PdId::new(),
                sleep: MaySleep::of_test()?,
            })
        }

        fn dma(&self, access: Access) -> Result<Arc<Mr>> {
            let virt = VirtDma::of_test()?;
            self.mrs.add_dma(self.pd, access, virt, &self.sleep)
        }

        fn fast(&self, pages: u32) -> Result<Arc<Mr>> {
            let virt = VirtDma::of_test()?;
            self.mrs.add_fast(self.pd, pages, virt, &self.sleep)
        }

        /// A registered fast registration region of `length` bytes; its pages are not accessed.
        fn registered(&self, length: u64) -> Result<Arc<Mr>> {
            let mr = self.fast(4)?;
            mr.map_begin(PAGE as u32)?;
            mr.map_page(PAGE as u64)?;
            mr.map_end(IOVA, length)?;
            mr.register(self.pd, mr.key(), READ, IOVA)?;
            Ok(mr)
        }

        fn check(&self, key: u32, access: Access, va: u64, len: u32) -> Result<(), MrError> {
            self.mrs.check(key, self.pd, access, va, len).map(drop)
        }
    }

    #[test]
    fn ranges() {
        let out = Err(MrError::OutOfRange);
        assert_eq!(within(100, 10, 100, 10), Ok(0));
        assert_eq!(within(100, 10, 105, 5), Ok(5));
        assert_eq!(within(100, 10, 110, 0), Ok(10));
        assert_eq!(within(100, 10, 111, 0), out);
        assert_eq!(within(100, 10, 99, 1), out);
        assert_eq!(within(100, 10, 105, 6), out);
        assert_eq!(within(100, 10, 101, u64::MAX), out);
        assert_eq!(within(0, u64::MAX, u64::MAX, 0), Ok(u64::MAX));
        assert_eq!(within(0, u64::MAX, u64::MAX, 1), out);
        assert_eq!(within(u64::MAX, 1, u64::MAX, 1), Ok(0));
        assert_eq!(within(u64::MAX, 1, 0, 1), out);
        assert_eq!(within(1 << 63, 1 << 63, u64::MAX, 1), Ok((1 << 63) - 1));
    }

    #[test]
    fn a_key_is_of_one_region_and_one_domain() -> Result {
        let fix = Fixture::new()?;
        let (one, two) = (fix.dma(READ)?, fix.dma(READ)?);
        assert!(index_of(one.key()) != index_of(two.key()));
        assert_eq!(fix.check(one.key(), READ, 0, 1), Ok(()));
        assert_eq!(fix.check(one.key() ^ 1, READ, 0, 1), Err(MrError::Invalid));
        assert_eq!(
            fix.check(one.key() ^ 0x80, READ, 0, 1),
            Err(MrError::Invalid)
        );
        assert_eq!(fix.check(0, READ, 0, 1), Err(MrError::Invalid));
        assert_eq!(fix.check(u32::MAX, READ, 0, 1), Err(MrError::Invalid));
        let other = fix.mrs.check(one.key(), PdId::new(), READ, 0, 1).map(drop);
        assert_eq!(other, Err(MrError::WrongPd));
        Ok(())
    }

    #[test]
    fn a_key_of_yesterday_is_not_valid() -> Result {
        let fix = Fixture::new()?;
        let mr = fix.dma(READ)?;
        let region = fix
            .mrs
            .check(mr.key(), fix.pd, READ, 0, 1)
            .map_err(Error::from)?;
        fix.mrs.remove(&mr, &fix.sleep)?;
        assert_eq!(fix.check(mr.key(), READ, 0, 1), Err(MrError::Invalid));
        assert_eq!(
            region.copy_out(0, 1, &mut Room::over(&mut [0])),
            Err(MrError::Invalid)
        );
        // Indices are cyclic: one is not reused at once.
        assert!(index_of(fix.dma(READ)?.key()) != index_of(mr.key()));
        assert_eq!(fix.mrs.remove(&mr, &fix.sleep), Err(EBUSY));
        Ok(())
    }

    #[test]
    fn rights() -> Result {
        let fix = Fixture::new()?;
        let mr = fix.dma(READ)?;
        assert_eq!(fix.check(mr.key(), Access::empty(), 0, 1), Ok(()));
        assert_eq!(fix.check(mr.key(), WRITE, 0, 1), Err(MrError::NoAccess));
        assert_eq!(
            fix.check(mr.key(), READ.with(WRITE), 0, 1),
            Err(MrError::NoAccess)
        );
        // Only memory that was pinned for writing allows write access.
        assert_eq!(mr.change(None, Some(WRITE), &fix.sleep), Err(EACCES));
        assert_eq!(
            fix.check(mr.key(), READ, u64::MAX, 1),
            Err(MrError::OutOfRange)
        );
        Ok(())
    }

    #[test]
    fn no_window_on_the_memory_of_the_kernel() -> Result {
        let fix = Fixture::new()?;
        let bind = |mr: &Mr| {
            fix.mrs
                .bind(mr.key(), fix.pd, Access::empty(), 0, 1)
                .map(drop)
        };
        let (dma, fast) = (fix.dma(Access::MW_BIND)?, fix.registered(64)?);
        assert_eq!(bind(&dma), Err(MrError::Invalid));
        assert_eq!(bind(&fast), Err(MrError::Invalid));
        Ok(())
    }

    #[test]
    fn a_fast_region_is_of_use_while_it_is_registered() -> Result {
        let fix = Fixture::new()?;
        let mr = fix.fast(1)?;
        assert_eq!(fix.check(mr.key(), READ, IOVA, 1), Err(MrError::Invalid));
        mr.map_begin(PAGE as u32)?;
        mr.map_page(PAGE as u64)?;
        mr.map_end(IOVA, 64)?;
        assert_eq!(mr.register(fix.pd, mr.key(), READ, IOVA), Ok(()));
        assert_eq!(fix.check(mr.key(), READ, IOVA, 64), Ok(()));
        assert_eq!(
            fix.check(mr.key(), READ, IOVA, 65),
            Err(MrError::OutOfRange)
        );
        assert_eq!(
            fix.check(mr.key(), READ, IOVA - 1, 1),
            Err(MrError::OutOfRange)
        );
        assert_eq!(fix.check(mr.key(), WRITE, IOVA, 1), Err(MrError::NoAccess));
        assert_eq!(
            mr.register(fix.pd, mr.key(), READ, IOVA),
            Err(MrError::Invalid)
        );
        assert_eq!(
            fix.mrs.invalidate(mr.key(), PdId::new()),
            Err(MrError::WrongPd)
        );
        assert_eq!(fix.mrs.invalidate(mr.key(), fix.pd), Ok(()));
        assert_eq!(fix.check(mr.key(), READ, IOVA, 1), Err(MrError::Invalid));
        Ok(())
    }

    #[test]
    fn each_registration_may_have_another_key_of_the_region() -> Result {
        let fix = Fixture::new()?;
        let mr = fix.registered(64)?;
        let mut key = mr.key();
        for _ in 0..300 {
            let next = key & !0xff | u32::from((key as u8).wrapping_add(1));
            assert_eq!(fix.mrs.invalidate(next, fix.pd), Err(MrError::Invalid));
            assert_eq!(fix.mrs.invalidate(key, fix.pd), Ok(()));
            assert_eq!(mr.register(fix.pd, next, READ, IOVA), Ok(()));
            assert_eq!(fix.check(key, READ, IOVA, 1), Err(MrError::Invalid));
            assert_eq!(fix.check(next, READ, IOVA, 1), Ok(()));
            key = next;
        }
        assert_eq!(fix.mrs.invalidate(key, fix.pd), Ok(()));
        let foreign = key ^ 0x100;
        assert_eq!(
            mr.register(fix.pd, foreign, READ, IOVA),
            Err(MrError::Invalid)
        );
        assert_eq!(
            mr.register(PdId::new(), key, READ, IOVA),
            Err(MrError::WrongPd)
        );
        Ok(())
    }

    #[test]
    fn a_range_ends_with_its_registration() -> Result {
        let fix = Fixture::new()?;
        let mr = fix.registered(64)?;
        let region = fix
            .mrs
            .check(mr.key(), fix.pd, READ, IOVA, 8)
            .map_err(Error::from)?;
        assert_eq!(fix.mrs.invalidate(mr.key(), fix.pd), Ok(()));
        assert_eq!(
            region.copy_out(0, 8, &mut Room::over(&mut [0; 8])),
            Err(MrError::Invalid)
        );
        // The same key again is a new registration.
        assert_eq!(mr.register(fix.pd, mr.key(), READ, IOVA), Ok(()));
        assert_eq!(
            region.copy_out(0, 8, &mut Room::over(&mut [0; 8])),
            Err(MrError::Invalid)
        );
        Ok(())
    }

    #[test]
    fn pages_need_not_follow_each_other() -> Result {
        let fix = Fixture::new()?;
        let memory = KVec::from_elem(0u64, 3 * PAGE / 8, GFP_KERNEL)?;
        let start = (memory.as_ptr() as usize).next_multiple_of(PAGE);
        let mr = fix.fast(2)?;
        mr.map_begin(PAGE as u32)?;
        mr.map_page((start + PAGE) as u64)?;
        mr.map_page(start as u64)?;
        assert_eq!(mr.map_page(0), Err(ENOMEM));
        // The last 16 bytes of one page and the first 16 of the other.
        let iova = IOVA & !0xfff | (PAGE as u64 - 16);
        mr.map_end(iova, 32)?;
        mr.register(fix.pd, mr.key(), READ.with(WRITE), iova)?;
        let all = fix
            .mrs
            .check(mr.key(), fix.pd, WRITE, iova, 32)
            .map_err(Error::from)?;
        let sent: [u8; 32] = core::array::from_fn(|nth| nth as u8 + 1);
        assert_eq!(all.copy_in(0, sent.as_slice().into()), Ok(()));
        let word = |at: usize| {
            let nth = (at - memory.as_ptr() as usize) / 8;
            memory.get(nth).copied().unwrap_or(0).to_ne_bytes()
        };
        assert_eq!(word(start + 2 * PAGE - 16), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(word(start + 2 * PAGE - 8), [9, 10, 11, 12, 13, 14, 15, 16]);
        assert_eq!(word(start), [17, 18, 19, 20, 21, 22, 23, 24]);
        let mut got = [0; 32];
        assert_eq!(all.copy_out(0, 32, &mut Room::over(&mut got)), Ok(()));
        assert_eq!(got, sent);
        assert_eq!(
            all.copy_out(1, 32, &mut Room::over(&mut got)),
            Err(MrError::OutOfRange)
        );
        assert_eq!(all.fetch_add(4, 1), Err(MrError::Misaligned));
        let old = u64::from_ne_bytes([17, 18, 19, 20, 21, 22, 23, 24]);
        assert_eq!(all.compare_swap(16, old, 5), Ok(old));
        assert_eq!(all.fetch_add(16, 2), Ok(5));
        assert_eq!(word(start), 7u64.to_ne_bytes());
        Ok(())
    }

    #[test]
    fn sizes_of_pages() -> Result {
        let fix = Fixture::new()?;
        let mr = fix.fast(1)?;
        for size in [0, 3, 4095, u32::MAX] {
            assert_eq!(mr.map_begin(size), Err(EINVAL));
        }
        assert_eq!(mr.map_begin(1 << 31), Ok(()));
        assert_eq!(fix.dma(READ)?.map_begin(4096), Err(EINVAL));
        Ok(())
    }
}
