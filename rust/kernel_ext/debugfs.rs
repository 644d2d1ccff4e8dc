// SPDX-License-Identifier: GPL-2.0

//! debugfs directories with pairs of files that control a module: one to write commands, one to read the state.
//!
//! Unlike the kernel crate's debugfs files, these have an owner: an open file keeps its module loaded.
//!
//! C header: `include/linux/debugfs.h`.

use core::{marker::PhantomData, ptr::null_mut};

use kernel::{
    ffi::{c_char, c_int, c_void},
    prelude::*,
    seq_file::SeqFile,
    sync::Arc,
    uaccess::{UserPtr, UserSlice},
};

use crate::{bindings, context::MaySleep};

/// An object that is controlled by a pair of files. Methods may run concurrently.
pub trait Control: Send + Sync + Sized + 'static {
    /// Name of the file to write.
    const WRITTEN: &'static CStr;
    /// Name of the file to read.
    const READ: &'static CStr;
    /// Maximum length of a written text, in bytes.
    const MAX_TEXT: usize;

    /// The table of the type, a `static`.
    fn table() -> &'static Table<Self>;

    /// Handles a text from one call of `write`, before that returns.
    ///
    /// # Errors
    ///
    /// Any; `write` returns it.
    fn write(&self, text: &[u8], sleep: &MaySleep) -> Result;

    /// Prints the content of the file to read.
    fn print(&self, to: &SeqFile, sleep: &MaySleep);
}

/// The `file_operations` of the two files: a `static`.
pub struct Table<T> {
    written: bindings::file_operations,
    read: bindings::file_operations,
    _control: PhantomData<fn(T)>,
}

// SAFETY: The tables are constant.
unsafe impl<T> Sync for Table<T> {}

impl<T: Control> Table<T> {
    /// The tables for a module.
    pub const fn new(owner: &ThisModule) -> Self {
        let mut written: bindings::file_operations = pin_init::zeroed();
        written.owner = owner.as_ptr();
        written.open = Some(bindings::simple_open);
        written.write = Some(write::<T>);
        written.llseek = Some(bindings::noop_llseek);
        let mut read: bindings::file_operations = pin_init::zeroed();
        read.owner = owner.as_ptr();
        read.open = Some(open::<T>);
        read.read = Some(bindings::seq_read);
        read.llseek = Some(bindings::seq_lseek);
        read.release = Some(bindings::single_release);
        Self {
            written,
            read,
            _control: PhantomData,
        }
    }
}

/// A directory, which is removed when it is dropped.
pub struct Dir {
    raw: *mut bindings::dentry,
    /// The parent directory.
    _parent: Option<Arc<Dir>>,
}

// SAFETY: debugfs directories may be used from any thread.
unsafe impl Send for Dir {}
// SAFETY: debugfs directories may be used from any thread.
unsafe impl Sync for Dir {}

impl Dir {
    /// Creates a directory, in `parent` or at the top. Without debugfs this has no effect.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(name: &CStr, parent: Option<&Arc<Self>>, _sleep: &MaySleep) -> Result<Arc<Self>> {
        let inside = parent.map_or(null_mut(), |parent| parent.raw);
        // SAFETY: The name is copied; debugfs accepts an error in place of a directory.
        let raw = unsafe { bindings::debugfs_create_dir(name.as_char_ptr(), inside) };
        let dir = Self {
            raw,
            _parent: parent.cloned(),
        };
        Ok(Arc::new(dir, GFP_KERNEL)?)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        // SAFETY: `self` owns the directory, or it is an error. Its content holds references to it, and so was
        // removed.
        unsafe { bindings::debugfs_remove(self.raw) };
    }
}

/// A pair of files. Dropping it removes them and waits for running methods.
///
/// # Invariants
///
/// The files' data is `control`.
pub struct Files<T> {
    files: [*mut bindings::dentry; 2],
    control: KBox<T>,
    _dir: Arc<Dir>,
}

// SAFETY: debugfs files may be used from any thread, and `T` is `Send` and `Sync`.
unsafe impl<T: Control> Send for Files<T> {}
// SAFETY: debugfs files may be used from any thread, and `T` is `Send` and `Sync`.
unsafe impl<T: Control> Sync for Files<T> {}

impl<T: Control> Files<T> {
    /// Creates the files. Without debugfs this has no effect.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(dir: &Arc<Dir>, control: T, _sleep: &MaySleep) -> Result<Self> {
        let control = KBox::new(control, GFP_KERNEL)?;
        let data: *mut c_void = core::ptr::from_ref(&*control).cast_mut().cast();
        let make = |name: &CStr, mode, table| {
            let (name, aux) = (name.as_char_ptr(), null_mut());
            // SAFETY: The name is copied; the directory is valid, or an error. The data is valid until the file is
            // removed.
            unsafe { bindings::debugfs_create_file_full(name, mode, dir.raw, data, aux, table) }
        };
        let table = T::table();
        // INVARIANT: The files were created with this data.
        Ok(Self {
            files: [
                make(T::WRITTEN, 0o200, &table.written),
                make(T::READ, 0o400, &table.read),
            ],
            control,
            _dir: dir.clone(),
        })
    }

    /// The controlled object.
    pub fn control(&self) -> &T {
        &self.control
    }
}

impl<T> Drop for Files<T> {
    fn drop(&mut self) {
        for file in self.files {
            // SAFETY: `self` owns the file, or it is an error. When the function returns, no method is running or
            // will be called.
            unsafe { bindings::debugfs_remove(file) };
        }
    }
}

/// `write` of a file.
///
/// # Safety
///
/// The kernel calls it for a file of a [`Files<T>`] that is not removed during the call, in process context.
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
    let outcome = copy(from, len, T::MAX_TEXT).and_then(|text| control.write(&text, sleep));
    match outcome {
        Ok(()) => len as isize,
        Err(error) => error.to_errno() as isize,
    }
}

/// Copies a text from user space.
fn copy(from: *const c_char, len: usize, most: usize) -> Result<KVec<u8>> {
    if len > most {
        return Err(EINVAL);
    }
    let mut text = KVec::new();
    let from = UserPtr::from_addr(from as usize);
    UserSlice::new(from, len).read_all(&mut text, GFP_KERNEL)?;
    Ok(text)
}

/// `open` of a file to read.
///
/// # Safety
///
/// The kernel calls it for a file of a [`Files<T>`] that is not removed during the call.
unsafe extern "C" fn open<T: Control>(
    inode: *mut bindings::inode,
    file: *mut bindings::file,
) -> c_int {
    // SAFETY: By the safety requirements.
    unsafe { bindings::single_open(file, Some(show::<T>), (*inode).i_private) }
}

/// `show` of a file to read.
///
/// # Safety
///
/// The kernel calls it for a file that [`open`] has opened, and that is not removed during the call, in process
/// context.
unsafe extern "C" fn show<T: Control>(seq: *mut bindings::seq_file, _: *mut c_void) -> c_int {
    // SAFETY: By the safety requirements; `single_open` has set the private data.
    let (control, to, sleep) = unsafe {
        let control = (*seq).private.cast::<T>();
        (&*control, SeqFile::from_raw(seq), &MaySleep::assume())
    };
    control.print(to, sleep);
    0
}
