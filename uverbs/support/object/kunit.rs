// SPDX-License-Identifier: GPL-2.0

//! Tests of handles: lookups, locks, and destroying.

#[kernel::prelude::kunit_tests(ib_uverbs_handles)]
mod tests {
    use core::sync::atomic::{AtomicI32, AtomicU32, Ordering::Relaxed};

    use super::super::*;
    use crate::cleanup::destroy_all;
    use rdma::core::{uobject::ApiObject, Mr, Pd};
    use rdma_uverbs::{
        class::{Class, Destroying},
        kunit::{give, with_file, TestFile, TestKind, TestModule},
        table::IdrType,
    };

    struct Support;

    impl TestModule for Support {
        fn module() -> &'static ThisModule {
            &crate::THIS_MODULE
        }
    }

    static PD: IdrType = IdrType::new::<Pd, _>(destroyed::<Pd>);
    static MR: IdrType = IdrType::new::<Mr, _>(destroyed::<Mr>);
    /// The handle of the object that was destroyed last.
    static LAST: AtomicU32 = AtomicU32::new(0);
    static DESTROYED: AtomicU32 = AtomicU32::new(0);
    /// The handle of the object that the driver fails to destroy.
    static STAYS: AtomicI32 = AtomicI32::new(-1);

    fn destroyed<T: Class<Memory = Uobject>>(
        object: Destroying<'_, T>,
        _: RemoveReason,
        _: &AttrBundle,
        _: &MaySleep,
    ) -> Result {
        if STAYS.load(Relaxed) == object.id() as i32 {
            return Err(ENOTTY);
        }
        LAST.store(object.id(), Relaxed);
        DESTROYED.fetch_add(1, Relaxed);
        Ok(())
    }

    /// A device file with two kinds of objects.
    struct Fixture<'a> {
        file: &'a TestFile,
        pd: &'a TestKind,
        mr: &'a TestKind,
        sleep: &'a MaySleep,
    }

    impl Fixture<'_> {
        fn begin(&self, kind: &TestKind) -> Result<Uncommitted> {
            let mut command = self.file.locked().command();
            let object = begin(Kind::Of(kind.get()), command.get(), self.sleep)?;
            // SAFETY: `destroy` of both types uses the number alone.
            unsafe { give(&object) };
            Ok(object)
        }

        /// Makes an object; returns its number.
        fn make(&self, kind: &TestKind) -> Result<u32> {
            let object = self.begin(kind)?;
            let id = object.id();
            commit(object);
            Ok(id)
        }

        fn look_up(&self, kind: &ApiObject, id: i64, mode: LookupMode) -> Result<Found> {
            look_up(Kind::Of(kind), self.file.get(), id, mode, None)
        }

        fn find(&self, id: u32, mode: LookupMode) -> Result<Found> {
            self.look_up(self.pd.get(), id.into(), mode)
        }

        /// Checks that there is such a PD, and that it is not locked.
        fn is_free(&self, id: u32) -> Result {
            let found = self.find(id, LookupMode::Write)?;
            found.put();
            Ok(())
        }

        fn destroy(&self, id: u32) -> Result {
            let mut command = self.file.locked().command();
            let kind = Kind::Of(self.pd.get());
            get_destroyed(kind, id, command.get(), self.sleep).map(drop)
        }

        fn abort(&self, object: Uncommitted, complete: bool) {
            let mut command = self.file.locked().command();
            abort(object, complete, command.get(), self.sleep);
        }
    }

    fn test(run: impl FnOnce(&Fixture<'_>) -> Result) -> Result {
        STAYS.store(-1, Relaxed);
        // They stay as long as the file's objects.
        let pd = &TestKind::new(&PD, bindings::UVERBS_OBJECT_PD)?;
        let mr = &TestKind::new(&MR, bindings::UVERBS_OBJECT_MR)?;
        with_file::<Support>(|file, sleep| {
            run(&Fixture {
                file,
                pd,
                mr,
                sleep,
            })
        })
    }

    #[test]
    fn the_least_number_is_the_next() -> Result {
        test(|fix| {
            for id in 0..4 {
                assert_eq!(fix.make(fix.pd), Ok(id));
            }
            assert_eq!(fix.destroy(2), Ok(()));
            assert_eq!(fix.destroy(1), Ok(()));
            assert_eq!(fix.make(fix.mr), Ok(1));
            assert_eq!(fix.make(fix.pd), Ok(2));
            assert_eq!(fix.make(fix.pd), Ok(4));
            Ok(())
        })
    }

    #[test]
    fn what_is_being_made_is_not_found() -> Result {
        test(|fix| {
            let object = fix.begin(fix.pd)?;
            let id = object.id();
            for mode in [LookupMode::Read, LookupMode::Write, LookupMode::Destroy] {
                assert_eq!(fix.find(id, mode).err(), Some(ENOENT));
            }
            // Its handle is reserved.
            assert_eq!(fix.make(fix.pd), Ok(id + 1));
            commit(object);
            assert_eq!(fix.is_free(id), Ok(()));
            Ok(())
        })
    }

    #[test]
    fn what_was_given_up_gives_its_number_back() -> Result {
        test(|fix| {
            let before = DESTROYED.load(Relaxed);
            let object = fix.begin(fix.pd)?;
            fix.abort(object, false);
            assert_eq!(DESTROYED.load(Relaxed), before);
            assert_eq!(fix.find(0, LookupMode::Read).err(), Some(ENOENT));
            let object = fix.begin(fix.pd)?;
            assert_eq!(object.id(), 0);
            // If the object is complete, the driver's object is destroyed too.
            fix.abort(object, true);
            assert_eq!(DESTROYED.load(Relaxed), before + 1);
            assert_eq!(fix.make(fix.pd), Ok(0));
            Ok(())
        })
    }

    #[test]
    fn an_object_of_another_kind_is_none() -> Result {
        test(|fix| {
            let id = fix.make(fix.pd)?;
            for mode in [LookupMode::Read, LookupMode::Write, LookupMode::Destroy] {
                let found = fix.look_up(fix.mr.get(), id.into(), mode);
                assert_eq!(found.err(), Some(EINVAL));
            }
            let file = fix.file.get();
            let absent = look_up(Kind::Absent, file, id.into(), LookupMode::Read, None);
            assert_eq!(absent.err(), Some(EINVAL));
            let any = look_up(Kind::Any, file, id.into(), LookupMode::Read, None)?;
            assert!(core::ptr::eq(any.api_object(), fix.pd.get()));
            any.put();
            // The failed lookups have left no lock.
            assert_eq!(fix.is_free(id), Ok(()));
            Ok(())
        })
    }

    #[test]
    fn what_is_no_number() -> Result {
        test(|fix| {
            let id = fix.make(fix.pd)?;
            let find = |id| fix.look_up(fix.pd.get(), id, LookupMode::Read).err();
            assert_eq!(find(-1), Some(EINVAL));
            assert_eq!(find(i64::MIN), Some(EINVAL));
            assert_eq!(find(1), Some(ENOENT));
            // The handle is not truncated to 32 bits.
            assert_eq!(find(1 << 32 | i64::from(id)), Some(ENOENT));
            assert_eq!(find(i64::MAX), Some(ENOENT));
            assert_eq!(fix.destroy(u32::MAX), Err(ENOENT));
            Ok(())
        })
    }

    #[test]
    fn a_number_of_yesterday_is_of_nothing() -> Result {
        test(|fix| {
            let before = DESTROYED.load(Relaxed);
            let id = fix.make(fix.pd)?;
            assert_eq!(fix.destroy(id), Ok(()));
            assert_eq!(
                (DESTROYED.load(Relaxed), LAST.load(Relaxed)),
                (before + 1, id)
            );
            assert_eq!(fix.find(id, LookupMode::Read).err(), Some(ENOENT));
            assert_eq!(fix.destroy(id), Err(ENOENT));
            assert_eq!(DESTROYED.load(Relaxed), before + 1);
            assert!(list::is_empty(fix.file.get()));
            Ok(())
        })
    }

    #[test]
    fn who_has_found_it_before_finds_it_locked_for_ever() -> Result {
        test(|fix| {
            let id = fix.make(fix.pd)?;
            let found = fix.find(id, LookupMode::Destroy)?;
            assert_eq!(fix.destroy(id), Ok(()));
            for mode in [LookupMode::Read, LookupMode::Write] {
                assert_eq!(found.try_lock(mode), Err(EBUSY));
            }
            let mut command = fix.file.locked().command();
            let again = destroy_by_command(&found, command.get(), fix.sleep);
            assert_eq!(again, Err(EBUSY));
            // Another object with the number is not this one.
            assert_eq!(fix.make(fix.pd), Ok(id));
            assert!(!core::ptr::eq(
                &*fix.find(id, LookupMode::Destroy)?,
                &*found
            ));
            assert!(!found.has_context() && found.object().is_null());
            Ok(())
        })
    }

    #[test]
    fn a_command_destroys_objects_of_its_file() -> Result {
        test(|fix| {
            let id = fix.make(fix.pd)?;
            let found = fix.find(id, LookupMode::Destroy)?;
            fix.file.with_another(|other| {
                let mut command = other.locked().command();
                let destroyed = destroy_by_command(&found, command.get(), fix.sleep);
                assert_eq!(destroyed, Err(EINVAL));
                Ok(())
            })?;
            fix.is_free(id)?;
            assert_eq!(fix.destroy(id), Ok(()));
            Ok(())
        })
    }

    #[test]
    fn locks_of_objects() -> Result {
        test(|fix| {
            let id = fix.make(fix.pd)?;
            let (one, two) = (
                fix.find(id, LookupMode::Read)?,
                fix.find(id, LookupMode::Read)?,
            );
            assert_eq!(fix.find(id, LookupMode::Write).err(), Some(EBUSY));
            assert_eq!(fix.destroy(id), Err(EBUSY));
            one.put();
            assert_eq!(fix.destroy(id), Err(EBUSY));
            two.put();
            let alone = fix.find(id, LookupMode::Write)?;
            for mode in [LookupMode::Read, LookupMode::Write] {
                assert_eq!(fix.find(id, mode).err(), Some(EBUSY));
            }
            assert_eq!(fix.destroy(id), Err(EBUSY));
            alone.put();
            assert_eq!(fix.destroy(id), Ok(()));
            Ok(())
        })
    }

    #[test]
    fn what_the_driver_does_not_destroy_stays() -> Result {
        test(|fix| {
            let id = fix.make(fix.pd)?;
            STAYS.store(id as i32, Relaxed);
            assert_eq!(fix.destroy(id), Err(ENOTTY));
            assert_eq!(fix.is_free(id), Ok(()));
            assert_eq!(fix.make(fix.pd), Ok(id + 1));
            STAYS.store(-1, Relaxed);
            assert_eq!(fix.destroy(id), Ok(()));
            Ok(())
        })
    }

    #[test]
    fn without_its_device_an_object_can_be_destroyed_alone() -> Result {
        test(|fix| {
            let id = fix.make(fix.pd)?;
            fix.file.lose_device();
            assert_eq!(fix.find(id, LookupMode::Read).err(), Some(EIO));
            assert_eq!(fix.find(id, LookupMode::Write).err(), Some(EIO));
            assert_eq!(fix.destroy(id), Ok(()));
            Ok(())
        })
    }

    #[test]
    fn a_new_object_takes_the_number_of_another() -> Result {
        test(|fix| {
            let (old, other) = (fix.make(fix.pd)?, fix.make(fix.mr)?);
            let new = fix.begin(fix.pd)?;
            let of_new = new.id();
            let found = fix.find(old, LookupMode::Write)?;
            assert_eq!(handle::swap(&found, &new), Ok(()));
            assert_eq!((found.id(), new.id()), (of_new, old));
            // The old one is found by the number of the new one, which is not found yet.
            assert_eq!(fix.find(old, LookupMode::Destroy).err(), Some(ENOENT));
            assert!(core::ptr::eq(
                &*fix.find(of_new, LookupMode::Destroy)?,
                &*found
            ));
            commit(new);
            found.put();
            assert_eq!(fix.is_free(old), Ok(()));
            assert_eq!(fix.destroy(of_new), Ok(()));
            // Handles of objects of two classes are not exchanged.
            let new = fix.begin(fix.pd)?;
            let mr = fix.look_up(fix.mr.get(), other.into(), LookupMode::Write)?;
            assert_eq!(handle::swap(&mr, &new), Err(EINVAL));
            mr.put();
            fix.abort(new, false);
            Ok(())
        })
    }

    #[test]
    fn all_go_the_newest_first() -> Result {
        test(|fix| {
            let before = DESTROYED.load(Relaxed);
            for _ in 0..5 {
                fix.make(fix.pd)?;
            }
            let (file, locked) = (fix.file.get(), fix.file.locked());
            STAYS.store(3, Relaxed);
            assert_eq!(destroy_all(locked, RemoveReason::Close, fix.sleep), Ok(()));
            assert_eq!(
                (DESTROYED.load(Relaxed), LAST.load(Relaxed)),
                (before + 4, 0)
            );
            assert!(!list::is_empty(file));
            // An error, since no object is destroyed.
            assert_eq!(
                destroy_all(locked, RemoveReason::Close, fix.sleep),
                Err(EINVAL)
            );
            assert_eq!(fix.is_free(3), Ok(()));
            assert_eq!(
                destroy_all(locked, RemoveReason::DriverFailure, fix.sleep),
                Ok(())
            );
            assert!(list::is_empty(file));
            assert_eq!(DESTROYED.load(Relaxed), before + 4);
            Ok(())
        })
    }

    #[test]
    fn nothing_is_made_while_all_are_destroyed() -> Result {
        test(|fix| {
            let guard = fix.file.get().lock_hw_destroy(fix.sleep);
            assert_eq!(fix.begin(fix.pd).err(), Some(EIO));
            drop(guard);
            let object = fix.begin(fix.pd)?;
            commit(object);
            Ok(())
        })
    }

    #[test]
    fn many() -> Result {
        const MANY: u32 = 3000;
        test(|fix| {
            for id in 0..MANY {
                assert_eq!(fix.make(fix.pd), Ok(id));
            }
            // Each object once, in another order: 7 and `MANY` have no common divisor.
            for nth in 0..MANY {
                assert_eq!(fix.destroy(nth * 7 % MANY), Ok(()));
            }
            assert!(list::is_empty(fix.file.get()));
            assert_eq!(fix.make(fix.pd), Ok(0));
            Ok(())
        })
    }
}
