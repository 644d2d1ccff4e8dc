// SPDX-License-Identifier: GPL-2.0

//! Creating the context of a device file (`struct ib_ucontext`).
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::{
    cell::Cell,
    sync::atomic::{AtomicPtr, Ordering},
};

use kernel::prelude::*;
use kernel_ext::{
    cmutex::{CMutex, CMutexGuard},
    rwsem::ReadGuard,
};
use rdma::{
    core::{
        command::UverbsFile,
        object::{Fresh, Owned},
        AttrBundle, Device, Ucontext,
    },
    MaySleep,
};
use rdma_bindings as c;

use crate::{class::Class, file::hw_destroy, life, new::NewObject, request::Call, verbs::track};

/// A context that is being created. Objects may be begun in it before it is published in the file.
///
/// Dropping it frees the context. The objects borrow it, so they are dropped before.
pub struct NewContext<'a> {
    /// `None` after it is published.
    memory: Cell<Option<Fresh<Ucontext>>>,
    call: Call<'a>,
}

/// Sets the context of a command until this value is dropped.
struct InContext<'a>(&'a AttrBundle);

impl<'a> InContext<'a> {
    /// # Safety
    ///
    /// The context stays as long as the result, and as long as the objects that are begun in the command meanwhile.
    unsafe fn new(command: &'a AttrBundle, context: Option<&Fresh<Ucontext>>) -> Self {
        // SAFETY: By the safety requirements; the context is a member of objects alone. The thread passes the command to C functions alone until the result is dropped,
        // and these do not keep its context.
        unsafe { command.set_context(context.map(|memory| memory.members())) };
        Self(command)
    }
}

impl Drop for InContext<'_> {
    fn drop(&mut self) {
        // Restores the context of the file, which has one if the new context was published.
        life::use_context(self.0);
    }
}

impl<'a> NewContext<'a> {
    /// Allocates a context of the command's device, which the driver has not created yet.
    ///
    /// # Errors
    ///
    /// `EIO` if the device was removed, `ENOMEM`.
    pub fn new(call: Call<'a>) -> Result<Self> {
        let file = call.command.file();
        let mut memory = Fresh::new_ucontext(device(call.command)?, file, call.sleep)?;
        track::set_owner(&mut memory);
        Ok(Self {
            memory: Cell::new(Some(memory)),
            call,
        })
    }

    /// Begins an object in the context.
    ///
    /// # Errors
    ///
    /// As for [`NewObject::begin`].
    pub fn begin<T: Class>(&self) -> Result<NewObject<'_, T>> {
        let memory = self.memory.take();
        // SAFETY: `self` has the context, or the file if it was published, and the object borrows `self`.
        let begun = unsafe { InContext::new(self.call.command, memory.as_ref()) };
        let object = NewObject::begin(self.call.command, self.call.sleep);
        drop(begun);
        self.memory.set(memory);
        object
    }

    /// Lets the driver allocate the context, and publishes it in the file. `caps` are its capabilities: bits of `enum
    /// rdma_user_cap`.
    ///
    /// # Errors
    ///
    /// `EIO` if the file is being closed or the device removed, `EINVAL` if the file has a context; those of the rdma cgroup and
    /// of the driver.
    pub fn publish(&self, caps: u64) -> Result {
        let setup = ContextSetup::begin(self.call.command.file(), self.call.sleep)?;
        let mut memory = self.memory.take().ok_or(EINVAL)?;
        memory.set_enabled_caps(caps);
        // SAFETY: The context is in the file after this, or still `self`'s; the driver begins no objects.
        let _creating = unsafe { InContext::new(self.call.command, Some(&memory)) };
        match create(memory, &self.call) {
            Ok(context) => {
                setup.finish(context);
                Ok(())
            }
            Err((memory, error)) => {
                self.memory.set(Some(memory));
                Err(error)
            }
        }
    }
}

/// Charges the rdma cgroup for a context, and lets the driver allocate it.
fn create(
    memory: Fresh<Ucontext>,
    call: &Call<'_>,
) -> Result<Owned<Ucontext>, (Fresh<Ucontext>, Error)> {
    const HANDLE: u32 = c::RDMACG_RESOURCE_HCA_HANDLE;
    if let Err(error) = memory.cgroup().try_charge(memory.device(), HANDLE) {
        return Err((memory, error));
    }
    match memory.driver_alloc(call.udata(), call.sleep) {
        Ok(context) => {
            track::add(&context);
            Ok(context)
        }
        Err(failed) => {
            let memory = failed.object;
            memory.cgroup().uncharge(memory.device(), HANDLE);
            Err((memory, failed.error))
        }
    }
}

impl Drop for NewContext<'_> {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.get_mut() {
            track::forget(memory);
        }
    }
}

/// The device of a command, which need not have a context.
///
/// # Errors
///
/// `EIO` if it was removed.
pub fn device(command: &AttrBundle) -> Result<&Device> {
    // SAFETY: The file holds a reference to the character device; the member is a pointer that is cleared atomically when the
    // device is removed.
    let member =
        unsafe { AtomicPtr::from_ptr(&raw mut (*(*command.file().as_raw()).device).ib_dev) };
    let device = member.load(Ordering::Acquire);
    // SAFETY: A command runs with `disassociate_srcu` held; after the member is cleared, the removal of the device waits for its
    // readers.
    unsafe { device.cast::<Device>().as_ref() }.ok_or(EIO)
}

/// The creation of a file's context: the file has none, and no other command can create one.
///
/// # Invariants
///
/// The guards hold the file's `ucontext_lock` and `hw_destroy_rwsem`.
struct ContextSetup<'a> {
    file: &'a UverbsFile,
    // Released first.
    _ucontext: CMutexGuard<'a>,
    _hw_destroy: ReadGuard<'a>,
}

impl<'a> ContextSetup<'a> {
    fn begin(file: &'a UverbsFile, sleep: &MaySleep) -> Result<Self> {
        let hw_destroy = hw_destroy(file).try_read().ok_or(EIO)?;
        // SAFETY: The mutex was initialised with the file, and is valid as long.
        let mutex = unsafe { CMutex::from_raw(&raw mut (*file.as_raw()).ucontext_lock) };
        let setup = Self {
            file,
            _ucontext: mutex.lock(sleep),
            _hw_destroy: hw_destroy,
        };
        if !file.ucontext().is_null() {
            return Err(EINVAL);
        }
        Ok(setup)
    }

    fn finish(self, context: Owned<Ucontext>) {
        // SAFETY: The member is a pointer that others read atomically, and by the type invariants no other task sets it.
        let member = unsafe { AtomicPtr::from_ptr(&raw mut (*self.file.as_raw()).ucontext) };
        member.store(context.into_raw(), Ordering::Release);
    }
}
