// SPDX-License-Identifier: GPL-2.0

//! Tests of rings: index arithmetic, and arbitrary values written by the other side.

#[kernel::prelude::kunit_tests(rxe_rings)]
mod tests {
    use super::super::*;

    /// Bytes of an element.
    const ELEMENT: usize = 40;

    fn consumer(entries: u32) -> Result<Consumer> {
        Consumer::new(&Mappings::new()?, entries, ELEMENT, &MaySleep::of_test()?)
    }

    fn producer(entries: u32) -> Result<Producer> {
        Producer::new(&Mappings::new()?, entries, ELEMENT, &MaySleep::of_test()?)
    }

    /// Writes an arbitrary value to the index that the process owns.
    fn claim(shared: &Shared, word: usize, index: u32) -> Result {
        shared.memory.store_release_u32(word, index).ok_or(EFAULT)
    }

    fn post(ring: &mut Consumer, number: u8) -> Result<(), Full> {
        ring.post(&[number; 8], &[!number; 8])
    }

    /// The first byte of the element that is `nth` after the oldest one.
    fn posted(ring: &Consumer, nth: u32) -> Option<u8> {
        let mut bytes = [0; 16];
        let read = ring.read(nth, 0, &mut bytes);
        let [number, .., last] = bytes;
        (read && last == !number).then_some(number)
    }

    #[test]
    fn slots() {
        for (entries, slots) in [
            (0, 1),
            (1, 2),
            (2, 4),
            (3, 4),
            (4, 8),
            (255, 256),
            (256, 512),
        ] {
            assert_eq!(slots_for(entries), Ok(slots));
        }
        assert_eq!(slots_for((1 << 31) - 1), Ok(1 << 31));
        assert_eq!(slots_for(1 << 31), Err(EINVAL));
        assert_eq!(slots_for(u32::MAX), Err(EINVAL));
    }

    #[test]
    fn sizes_that_overflow() -> Result {
        let (mappings, sleep) = (Mappings::new()?, MaySleep::of_test()?);
        let make = |entries, element| Consumer::new(&mappings, entries, element, &sleep).err();
        assert_eq!(make(u32::MAX, ELEMENT), Some(EINVAL));
        assert_eq!(make(1, usize::MAX), Some(EINVAL));
        assert_eq!(make((1 << 31) - 1, 1 << 62), Some(EINVAL));
        Ok(())
    }

    #[test]
    fn what_is_posted_is_read_in_order() -> Result {
        let mut ring = consumer(3)?;
        assert_eq!(ring.capacity(), 3);
        for round in 0..20u8 {
            for number in 0..3 {
                assert_eq!(post(&mut ring, round * 3 + number), Ok(()));
            }
            assert_eq!(post(&mut ring, 99), Err(Full));
            assert_eq!(ring.available(), 3);
            for number in 0..3 {
                assert_eq!(posted(&ring, number.into()), Some(round * 3 + number));
            }
            ring.advance(1);
            assert_eq!(ring.available(), 2);
            assert_eq!(posted(&ring, 0), Some(round * 3 + 1));
            ring.clear();
            assert_eq!(ring.available(), 0);
            // So that the next round starts at another slot.
            assert_eq!(post(&mut ring, 0), Ok(()));
            ring.advance(1);
        }
        Ok(())
    }

    #[test]
    fn whatever_index_the_process_writes_is_one_of_a_slot() -> Result {
        let mut ring = consumer(3)?;
        ring.advance(2);
        for index in [0, 1, 3, 4, 1 << 31, u32::MAX - 1, u32::MAX] {
            claim(&ring.shared, layout::PRODUCER, index)?;
            assert_eq!(ring.available(), index.wrapping_sub(2) % 4);
            assert!(ring.available() <= ring.capacity());
        }
        let mut ring = producer(3)?;
        for index in [0, 1, 3, 4, 1 << 31, u32::MAX - 1, u32::MAX] {
            claim(&ring.shared, layout::CONSUMER, index)?;
            assert!(ring.len() <= ring.capacity());
            let _ = ring.push(&[1; ELEMENT]);
        }
        Ok(())
    }

    #[test]
    fn the_kernel_keeps_its_own_index_and_sizes() -> Result {
        let mut ring = consumer(3)?;
        assert_eq!(post(&mut ring, 7), Ok(()));
        for word in [
            layout::CONSUMER,
            layout::INDEX_MASK,
            layout::LOG2_ELEMENT_SIZE,
        ] {
            claim(&ring.shared, word, u32::MAX)?;
        }
        assert_eq!((ring.available(), posted(&ring, 0)), (1, Some(7)));
        assert_eq!(ring.capacity(), 3);
        let mut ring = producer(3)?;
        assert_eq!(ring.push(&[1; ELEMENT]), Ok(()));
        claim(&ring.shared, layout::PRODUCER, 3)?;
        assert_eq!(ring.len(), 1);
        let mut element = [0; ELEMENT];
        assert!(ring.take(&mut element) && element == [1; ELEMENT]);
        assert!(!ring.take(&mut element) && ring.is_empty());
        Ok(())
    }

    #[test]
    fn nothing_is_read_behind_a_slot() -> Result {
        let ring = consumer(3)?;
        let slot = ring.shared.slot;
        let mut bytes = [0; 16];
        assert!(ring.read(0, slot - 16, &mut bytes));
        assert!(!ring.read(0, slot - 15, &mut bytes));
        assert!(!ring.read(0, usize::MAX, &mut bytes));
        assert!(!ring.read(0, usize::MAX - 15, &mut bytes));
        // Any number is the index of a slot.
        assert!(ring.read(u32::MAX, 0, &mut bytes));
        Ok(())
    }

    #[test]
    fn nothing_is_written_behind_a_slot() -> Result {
        let mut ring = consumer(3)?;
        let slot = ring.shared.slot;
        let long = [0xff; 2 * MIN_SLOT];
        assert!(slot < long.len());
        assert_eq!(ring.post(&long, &[]), Err(Full));
        assert_eq!(ring.post(&[1; 8], &long), Err(Full));
        assert_eq!(ring.available(), 0);
        let mut ring = producer(3)?;
        assert_eq!(ring.push(&long), Err(Full));
        assert!(ring.is_empty());
        Ok(())
    }

    #[test]
    fn a_producer_is_full_when_the_process_takes_nothing() -> Result {
        let mut ring = producer(4)?;
        assert_eq!(ring.capacity(), 7);
        for number in 0..7 {
            assert_eq!(ring.push(&[number; ELEMENT]), Ok(()));
        }
        assert_eq!(ring.push(&[7; ELEMENT]), Err(Full));
        claim(&ring.shared, layout::CONSUMER, 2)?;
        assert_eq!(ring.len(), 5);
        assert_eq!(ring.push(&[7; ELEMENT]), Ok(()));
        let mut element = [0; ELEMENT];
        for number in 2..8 {
            assert!(ring.take(&mut element) && element == [number; ELEMENT]);
        }
        assert!(ring.is_empty());
        Ok(())
    }

    #[test]
    fn what_waits_moves_to_a_larger_ring() -> Result {
        let (mut old, mut new) = (consumer(3)?, consumer(8)?);
        old.advance(3);
        claim(&old.shared, layout::PRODUCER, 3)?;
        for number in 1..=3 {
            assert_eq!(post(&mut old, number), Ok(()));
        }
        assert_eq!(old.move_to(&mut new), Ok(()));
        assert_eq!((old.available(), new.available()), (0, 3));
        for number in 1..=3 {
            assert_eq!(posted(&new, u32::from(number) - 1), Some(number));
        }
        let (mut old, mut new) = (producer(3)?, producer(8)?);
        for number in 1..=3 {
            assert_eq!(old.push(&[number; ELEMENT]), Ok(()));
        }
        assert_eq!(old.move_to(&mut new), Ok(()));
        assert_eq!((old.len(), new.len()), (0, 3));
        Ok(())
    }

    #[test]
    fn and_stays_where_the_other_is_too_small() -> Result {
        let (mut old, mut new) = (consumer(8)?, consumer(2)?);
        for number in 0..5 {
            assert_eq!(post(&mut old, number), Ok(()));
        }
        assert_eq!(old.move_to(&mut new), Err(Full));
        assert_eq!((old.available(), new.available()), (5, 0));
        let (mut old, mut new) = (producer(8)?, producer(2)?);
        for number in 0..5 {
            assert_eq!(old.push(&[number; ELEMENT]), Ok(()));
        }
        assert_eq!(old.move_to(&mut new), Err(Full));
        assert_eq!((old.len(), new.len()), (5, 0));
        Ok(())
    }

    #[test]
    fn rings_wait_to_be_mapped_where_no_other_is() -> Result {
        let (mappings, sleep) = (Mappings::new()?, MaySleep::of_test()?);
        let make = || Consumer::new(&mappings, 100, ELEMENT, &sleep);
        let (first, second) = (make()?, make()?);
        let (one, two) = (first.mmap_info(), second.mmap_info());
        assert!(one.offset != 0 && one.offset + u64::from(one.size) <= two.offset);
        assert!(mappings.take(one.offset).is_some());
        assert!(mappings.take(one.offset).is_none());
        drop(second);
        assert!(mappings.take(two.offset).is_none());
        // Offsets are not reused.
        assert!(make()?.mmap_info().offset > two.offset);
        Ok(())
    }
}
