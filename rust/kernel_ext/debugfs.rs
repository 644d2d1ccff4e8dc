// SPDX-License-Identifier: GPL-2.0

//! Folders of debugfs with pairs of files, by which a module is controlled: what is written to the one is done, what the other
//! says may be read.
//!
//! The kernel crate's files of debugfs have no owner, so a file that is open does not keep its module. These do.
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

/// What is controlled by a pair of files. Methods may run at once in several threads.
pub trait Control: Send + Sync + Sized + 'static {
    /// The name of the file that is written to.
    const WRITTEN: &'static CStr;
    /// The name of the file that is read.
    const READ: &'static CStr;
    /// The longest text that may be written, in bytes.
    const MAX_TEXT: usize;

    /// The control's table, of which there is one.
    fn table() -> &'static Table<Self>;

    /// A text was written, by one call of `write`. That returns when this does.
    ///
    /// # Errors
    ///
    /// Any; the writer sees it.
    fn write(&self, text: &[u8], sleep: &MaySleep) -> Result;

    /// The other file is read: prints what it says.
    fn print(&self, to: &SeqFile, sleep: &MaySleep);
}

/// The tables of the two files: a `static`.
pub struct Table<T> {
    written: bindings::file_operations,
    read: bindings::file_operations,
    _control: PhantomData<fn(T)>,
}

// SAFETY: The tables do not change.
unsafe impl<T> Sync for Table<T> {}

impl<T: Control> Table<T> {
    /// The tables of a module's control.
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

/// A folder, as long as this is there.
pub struct Folder {
    raw: *mut bindings::dentry,
    /// The folder that it is in.
    _parent: Option<Arc<Folder>>,
}

// SAFETY: Folders may be used from any thread.
unsafe impl Send for Folder {}
// SAFETY: As above.
unsafe impl Sync for Folder {}

impl Folder {
    /// Makes a folder, inside of `parent` or at the top. Where there is no debugfs this does nothing, as debugfs likes it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(name: &CStr, parent: Option<&Arc<Self>>, _sleep: &MaySleep) -> Result<Arc<Self>> {
        let inside = parent.map_or(null_mut(), |parent| parent.raw);
        // SAFETY: The name is copied; debugfs takes errors for folders.
        let raw = unsafe { bindings::debugfs_create_dir(name.as_char_ptr(), inside) };
        let folder = Self {
            raw,
            _parent: parent.cloned(),
        };
        Ok(Arc::new(folder, GFP_KERNEL)?)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // SAFETY: The folder is ours, or an error. What was in it is gone.
        unsafe { bindings::debugfs_remove(self.raw) };
    }
}

/// A pair of files, as long as this is there. Dropping it waits for methods that run.
///
/// # Invariants
///
/// The files' data is `control`.
pub struct Files<T> {
    files: [*mut bindings::dentry; 2],
    control: KBox<T>,
    _folder: Arc<Folder>,
}

// SAFETY: Files may be used from any thread.
unsafe impl<T: Control> Send for Files<T> {}
// SAFETY: As above.
unsafe impl<T: Control> Sync for Files<T> {}

impl<T: Control> Files<T> {
    /// Makes the files. Where there is no debugfs this does nothing.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(folder: &Arc<Folder>, control: T, _sleep: &MaySleep) -> Result<Self> {
        let control = KBox::new(control, GFP_KERNEL)?;
        let data: *mut c_void = core::ptr::from_ref(&*control).cast_mut().cast();
        let make = |name: &CStr, mode, table| {
            let (name, aux) = (name.as_char_ptr(), null_mut());
            // SAFETY: The name is copied; the folder is ours, or an error. The data stays until the file is removed.
            unsafe { bindings::debugfs_create_file_full(name, mode, folder.raw, data, aux, table) }
        };
        let table = T::table();
        // INVARIANT: So it is.
        Ok(Self {
            files: [
                make(T::WRITTEN, 0o200, &table.written),
                make(T::READ, 0o400, &table.read),
            ],
            control,
            _folder: folder.clone(),
        })
    }

    /// What is controlled.
    pub fn control(&self) -> &T {
        &self.control
    }
}

impl<T> Drop for Files<T> {
    fn drop(&mut self) {
        for file in self.files {
            // SAFETY: The file is ours, or an error. No method runs, or will, when this returns.
            unsafe { bindings::debugfs_remove(file) };
        }
    }
}

/// A door: `write` of a file.
///
/// # Safety
///
/// The kernel calls it for a file of a [`Files<T>`] which it does not remove meanwhile, in process context.
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

/// A door: `open` of a file that is read.
///
/// # Safety
///
/// The kernel calls it for a file of a [`Files<T>`] which it does not remove meanwhile.
unsafe extern "C" fn open<T: Control>(
    inode: *mut bindings::inode,
    file: *mut bindings::file,
) -> c_int {
    // SAFETY: By the safety requirements.
    unsafe { bindings::single_open(file, Some(show::<T>), (*inode).i_private) }
}

/// A door: what a file says.
///
/// # Safety
///
/// The kernel calls it for a file that [`open`] has opened, and does not remove meanwhile, in process context.
unsafe extern "C" fn show<T: Control>(seq: *mut bindings::seq_file, _: *mut c_void) -> c_int {
    // SAFETY: By the safety requirements; `single_open` has set the private data.
    let (control, to, sleep) = unsafe {
        let control = (*seq).private.cast::<T>();
        (&*control, SeqFile::from_raw(seq), &MaySleep::assume())
    };
    control.print(to, sleep);
    0
}
