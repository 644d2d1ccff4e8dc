// SPDX-License-Identifier: GPL-2.0

//! A folder of debugfs with two files, by which a module is controlled: what is written to `run` is done, what `result` says
//! may be read.
//!
//! The kernel crate's files of debugfs have no owner, so a file that is open does not keep its module. These do.
//!
//! C header: `include/linux/debugfs.h`.

use core::{marker::PhantomData, ptr::null_mut};

use kernel::{
    ffi::{c_char, c_int, c_void},
    prelude::*,
    seq_file::SeqFile,
    uaccess::{UserPtr, UserSlice},
};

use crate::{bindings, context::MaySleep};

/// The longest text that may be written to `run`, in bytes.
pub const MAX_TEXT: usize = 512;

/// What is controlled. Methods may run at once in several threads.
pub trait Control: Send + Sync + Sized + 'static {
    /// The control's table, of which there is one.
    fn table() -> &'static Table<Self>;

    /// A text was written to `run`, by one call of `write`. That returns when this does.
    ///
    /// # Errors
    ///
    /// Any; the writer sees it.
    fn run(&self, text: &[u8], sleep: &MaySleep) -> Result;

    /// `result` is read: prints what it says.
    fn result(&self, to: &SeqFile, sleep: &MaySleep);
}

/// The tables of the two files: a `static`.
pub struct Table<T> {
    run: bindings::file_operations,
    result: bindings::file_operations,
    _control: PhantomData<fn(T)>,
}

// SAFETY: The tables do not change.
unsafe impl<T> Sync for Table<T> {}

impl<T: Control> Table<T> {
    /// The tables of a module's control.
    pub const fn new(owner: &ThisModule) -> Self {
        let mut run: bindings::file_operations = pin_init::zeroed();
        run.owner = owner.as_ptr();
        run.open = Some(bindings::simple_open);
        run.write = Some(write::<T>);
        run.llseek = Some(bindings::noop_llseek);
        let mut result: bindings::file_operations = pin_init::zeroed();
        result.owner = owner.as_ptr();
        result.open = Some(open::<T>);
        result.read = Some(bindings::seq_read);
        result.llseek = Some(bindings::seq_lseek);
        result.release = Some(bindings::single_release);
        Self {
            run,
            result,
            _control: PhantomData,
        }
    }
}

/// The folder, as long as this is there. Dropping it waits for methods that run.
///
/// # Invariants
///
/// The files' data is `control`.
pub struct Folder<T> {
    folder: *mut bindings::dentry,
    control: KBox<T>,
}

// SAFETY: Folders may be used from any thread.
unsafe impl<T: Control> Send for Folder<T> {}
// SAFETY: As above.
unsafe impl<T: Control> Sync for Folder<T> {}

impl<T: Control> Folder<T> {
    /// Makes the folder. Where there is no debugfs this does nothing, as debugfs likes it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(name: &CStr, control: T, _sleep: &MaySleep) -> Result<Self> {
        let control = KBox::new(control, GFP_KERNEL)?;
        let data: *mut c_void = core::ptr::from_ref(&*control).cast_mut().cast();
        // SAFETY: The names are copied; debugfs takes errors for folders. The data stays until the folder is removed.
        let folder = unsafe {
            let folder = bindings::debugfs_create_dir(name.as_char_ptr(), null_mut());
            for (name, mode, table) in [
                (c"run", 0o200, &T::table().run),
                (c"result", 0o400, &T::table().result),
            ] {
                let name = name.as_char_ptr();
                bindings::debugfs_create_file_full(name, mode, folder, data, null_mut(), table);
            }
            folder
        };
        // INVARIANT: So it is.
        Ok(Self { folder, control })
    }

    /// What is controlled.
    pub fn control(&self) -> &T {
        &self.control
    }
}

impl<T> Drop for Folder<T> {
    fn drop(&mut self) {
        // SAFETY: The folder is ours, or an error. No method runs, or will, when this returns.
        unsafe { bindings::debugfs_remove(self.folder) };
    }
}

/// A door: `write` of the file `run`.
///
/// # Safety
///
/// The kernel calls it for a file of a [`Folder<T>`] which it does not remove meanwhile, in process context.
unsafe extern "C" fn write<T: Control>(
    file: *mut bindings::file,
    from: *const c_char,
    len: usize,
    position: *mut bindings::loff_t,
) -> isize {
    // SAFETY: By the safety requirements; `simple_open` has set the private data.
    let (control, sleep) = unsafe {
        let control = (*file).private_data.cast::<T>();
        *position = 0;
        (&*control, &MaySleep::assume())
    };
    let mut text = [0u8; MAX_TEXT];
    let outcome = copy(&mut text, from, len).and_then(|text| control.run(text, sleep));
    match outcome {
        Ok(()) => len as isize,
        Err(error) => error.to_errno() as isize,
    }
}

/// Copies a text from user space.
fn copy(to: &mut [u8; MAX_TEXT], from: *const c_char, len: usize) -> Result<&[u8]> {
    let text = to.get_mut(..len).ok_or(EINVAL)?;
    let from = UserPtr::from_addr(from as usize);
    UserSlice::new(from, len).reader().read_slice(text)?;
    Ok(text)
}

/// A door: `open` of the file `result`.
///
/// # Safety
///
/// The kernel calls it for a file of a [`Folder<T>`] which it does not remove meanwhile.
unsafe extern "C" fn open<T: Control>(
    inode: *mut bindings::inode,
    file: *mut bindings::file,
) -> c_int {
    // SAFETY: By the safety requirements.
    unsafe { bindings::single_open(file, Some(show::<T>), (*inode).i_private) }
}

/// A door: what the file `result` says.
///
/// # Safety
///
/// The kernel calls it for a file that [`open`] has opened, of a folder that is not removed meanwhile, in process context.
unsafe extern "C" fn show<T: Control>(seq: *mut bindings::seq_file, _: *mut c_void) -> c_int {
    // SAFETY: By the safety requirements; `single_open` has set the private data.
    let (control, to, sleep) = unsafe {
        let control = (*seq).private.cast::<T>();
        (&*control, SeqFile::from_raw(seq), &MaySleep::assume())
    };
    control.result(to, sleep);
    0
}
