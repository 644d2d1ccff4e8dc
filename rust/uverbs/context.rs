// SPDX-License-Identifier: GPL-2.0

//! Creating the context of a device file (`struct ib_ucontext`).
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::sync::atomic::{AtomicPtr, Ordering};

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

use crate::{file::hw_destroy, request::Call, verbs::track};

/// A context that is being created. The command uses it before it is published in the file.
///
/// Dropping it frees the context. Objects that the command has begun in it are dropped before.
pub struct NewContext<'a> {
    /// `None` after it is published.
    memory: Option<Fresh<Ucontext>>,
    call: Call<'a>,
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
        call.command.set_context(Some(&memory));
        Ok(Self {
            memory: Some(memory),
            call,
        })
    }

    /// Lets the driver allocate the context, and publishes it in the file. `caps` are its capabilities: bits of `enum
    /// rdma_user_cap`.
    ///
    /// # Errors
    ///
    /// `EIO` if the file is being closed or the device removed, `EINVAL` if the file has a context; those of the rdma cgroup and
    /// of the driver.
    pub fn publish(&mut self, caps: u64) -> Result {
        let making = Making::begin(self.call.command.file(), self.call.sleep)?;
        let mut memory = self.memory.take().ok_or(EINVAL)?;
        memory.set_enabled_caps(caps);
        match create(memory, &self.call) {
            Ok(context) => {
                making.finish(context);
                Ok(())
            }
            Err((memory, error)) => {
                self.memory = Some(memory);
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
        let Some(memory) = &mut self.memory else {
            return;
        };
        self.call.command.set_context(None);
        track::forget(memory);
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

/// A file without a context, in which no other command can create one.
///
/// # Invariants
///
/// The guards hold the file's `ucontext_lock` and `hw_destroy_rwsem`.
struct Making<'a> {
    file: &'a UverbsFile,
    // Released first.
    _ucontext: CMutexGuard<'a>,
    _hw_destroy: ReadGuard<'a>,
}

impl<'a> Making<'a> {
    fn begin(file: &'a UverbsFile, sleep: &MaySleep) -> Result<Self> {
        let hw_destroy = hw_destroy(file).try_read().ok_or(EIO)?;
        // SAFETY: The mutex was initialised with the file, and is valid as long.
        let mutex = unsafe { CMutex::from_raw(&raw mut (*file.as_raw()).ucontext_lock) };
        let making = Self {
            file,
            _ucontext: mutex.lock(sleep),
            _hw_destroy: hw_destroy,
        };
        if !file.ucontext().is_null() {
            return Err(EINVAL);
        }
        Ok(making)
    }

    fn finish(self, context: Owned<Ucontext>) {
        // SAFETY: The member is a pointer that others read atomically, and by the type invariants no other task sets it.
        let member = unsafe { AtomicPtr::from_ptr(&raw mut (*self.file.as_raw()).ucontext) };
        member.store(context.into_raw(), Ordering::Release);
    }
}
