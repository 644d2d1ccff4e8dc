// SPDX-License-Identifier: GPL-2.0

//! Making the context of an open device file: what the device keeps of the file, and objects belong to.

use kernel::{error::from_err_ptr, prelude::*};
use rdma::{
    core::{
        command::UverbsFile,
        object::{Fresh, Owned},
        AttrBundle, Device, Ucontext,
    },
    MaySleep,
};
use rdma_bindings as c;

use crate::{request::Call, verbs::track};

/// A context that is being made. The command is in it, though nobody else is.
///
/// Dropping it frees it: before that, whatever the command has begun in it must be dropped.
pub struct NewContext<'a> {
    /// None once it is the file's.
    memory: Option<Fresh<Ucontext>>,
    call: Call<'a>,
}

impl<'a> NewContext<'a> {
    /// A context of the command's device, which the driver does not know yet.
    ///
    /// # Errors
    ///
    /// `EIO` if the device has gone, `ENOMEM`.
    pub fn new(call: Call<'a>) -> Result<Self> {
        let file = call.command.file();
        let memory = Fresh::new_ucontext(device(call.command)?, file, call.sleep)?;
        track::begin(&memory, c::RDMA_RESTRACK_CTX);
        call.command.set_context(Some(&memory));
        Ok(Self {
            memory: Some(memory),
            call,
        })
    }

    /// Lets the driver know the context, and gives it to the file. `caps` is what the file's owner may use beyond what
    /// everybody may: bits of `enum rdma_user_cap`.
    ///
    /// # Errors
    ///
    /// `EIO` if the file or the device goes, `EINVAL` if the file has a context; what the rdma cgroup says, and the driver.
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

/// Charges for a context, and lets the driver make it.
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
        let Some(memory) = &self.memory else {
            return;
        };
        self.call.command.set_context(None);
        track::forget(memory);
    }
}

/// The device of a command, which need not be in a context.
///
/// # Errors
///
/// `EIO` if it has gone.
pub fn device(command: &AttrBundle) -> Result<&Device> {
    // SAFETY: The file keeps the character device; the member is a pointer that is cleared when the device goes.
    let device = unsafe {
        let member = &raw mut (*(*command.file().as_raw()).device).ib_dev;
        (*member.cast::<core::sync::atomic::AtomicPtr<c::ib_device>>())
            .load(core::sync::atomic::Ordering::Acquire)
    };
    // SAFETY: A command runs inside `disassociate_srcu`, which whoever clears the member waits for before the device goes.
    unsafe { device.cast::<Device>().as_ref() }.ok_or(EIO)
}

/// Somebody makes the context of a file.
///
/// # Invariants
///
/// `hw_destroy_rwsem` is held to read, and `ucontext_lock` is held.
struct Making<'a>(&'a UverbsFile);

impl<'a> Making<'a> {
    fn begin(file: &'a UverbsFile, _sleep: &MaySleep) -> Result<Self> {
        // SAFETY: Both locks are initialised, and the caller may sleep.
        let making = unsafe {
            if c::down_read_trylock(&raw mut (*file.as_raw()).hw_destroy_rwsem) == 0 {
                return Err(EIO);
            }
            c::mutex_lock(&raw mut (*file.as_raw()).ucontext_lock);
            // INVARIANT: They were just taken.
            Self(file)
        };
        if !file.ucontext().is_null() {
            return Err(EINVAL);
        }
        Ok(making)
    }

    fn finish(self, context: Owned<Ucontext>) {
        // SAFETY: The member is a pointer, and the lock is held.
        let member = unsafe { &raw mut (*self.0.as_raw()).ucontext };
        // SAFETY: As above. What was written to the context is seen by who sees the pointer.
        unsafe { &*member.cast::<core::sync::atomic::AtomicPtr<c::ib_ucontext>>() }
            .store(context.into_raw(), core::sync::atomic::Ordering::Release);
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe {
            c::mutex_unlock(&raw mut (*self.0.as_raw()).ucontext_lock);
            c::up_read(&raw mut (*self.0.as_raw()).hw_destroy_rwsem);
        }
    }
}

/// Checks that the command's file has a context, and returns that.
///
/// # Errors
///
/// `EIO` if the device has gone, `EINVAL` if there is no context.
pub fn ucontext(command: &AttrBundle) -> Result<&Ucontext> {
    // SAFETY: The file is there, and the command runs inside `disassociate_srcu`.
    let context = unsafe { c::ib_uverbs_get_ucontext_file(command.file().as_raw()) };
    let context = from_err_ptr(context)?;
    // SAFETY: The function returns a context that stays as long as the command, or an errno.
    Ok(unsafe { &*context.cast() })
}
