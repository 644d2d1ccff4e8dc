// SPDX-License-Identifier: GPL-2.0

//! Methods of open files: `struct file_operations`.
//!
//! A type implements [`FileOps`], and [`table`] makes the C table from it. The private data of a file is a
//! [`FileOps::Private`], to which the file owns a reference.
//!
//! C header: `include/linux/fs.h`.

use core::{marker::PhantomData, ptr::NonNull};

use kernel::{
    error::VTABLE_DEFAULT_ERROR,
    ffi::{c_char, c_int, c_long, c_uint, c_ulong},
    fs::File,
    mm::virt::VmaNew,
    prelude::*,
    sync::{
        aref::{ARef, AlwaysRefCounted},
        poll::PollTable,
    },
    uaccess::UserPtr,
};

use crate::{bindings, chrdev::CdevOwner, context::MaySleep, export::Exported, fasync::Fasync};

/// Methods of an open file.
///
/// The kernel's defaults apply to methods that are not implemented: `EINVAL` for reading and writing, `ENOTTY` for
/// ioctl, `ENODEV` for mmap, "ready" for poll. Methods may run concurrently; none runs after `release`.
#[vtable]
pub trait FileOps: Sized + 'static {
    /// The private data of a file is a reference to this type.
    type Private: AlwaysRefCounted + Sync;

    /// The structure whose character device is opened; [`Cdev`] without `open`.
    type Node: CdevOwner;

    /// A character device is opened. The file has no position.
    fn open(_node: &Self::Node, _file: &File, _sleep: &MaySleep) -> Result<ARef<Self::Private>> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// The last descriptor and mapping of a file was closed.
    fn release(_private: ARef<Self::Private>, _sleep: &MaySleep) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// `read`: copies up to `len` bytes to user space; returns their number.
    fn read(
        _private: &Self::Private,
        _file: &File,
        _to: UserPtr,
        _len: usize,
        _sleep: &MaySleep,
    ) -> Result<usize> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// `write`: copies up to `len` bytes from user space; returns their number.
    fn write(
        _private: &Self::Private,
        _file: &File,
        _from: UserPtr,
        _len: usize,
        _sleep: &MaySleep,
    ) -> Result<usize> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// `poll`: registers the wait queue, and returns a mask of `POLLIN` and similar.
    fn poll(_private: &Self::Private, _file: &File, _table: PollTable<'_>) -> u32 {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// `ioctl`, of 64-bit and 32-bit processes: the structures are the same.
    fn ioctl(
        _private: &Self::Private,
        _file: &File,
        _command: u32,
        _argument: usize,
        _sleep: &MaySleep,
    ) -> Result<c_long> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// `mmap`.
    fn mmap(_private: &Self::Private, _file: &File, _area: &VmaNew, _sleep: &MaySleep) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// The list of processes for `fcntl(F_SETFL, O_ASYNC)`.
    fn fasync(_private: &Self::Private) -> Option<&Fasync> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }
}

/// The C type of `release`.
pub type RawRelease =
    unsafe extern "C" fn(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int;

/// The `file_operations` of `T`, with `owner` as the module: for a `static`.
///
/// `release` is for files that C code sets up; otherwise it is [`FileOps::release`].
///
/// # Safety
///
/// A file that C code opens with this table owns a reference to a `T::Private` as its private data before it gets a
/// descriptor, and `release` drops the reference. If `T` has `open`, the table is used for character devices of `T::Node`
/// only.
pub const unsafe fn table<T: FileOps>(
    owner: &ThisModule,
    release: Option<RawRelease>,
) -> Exported<bindings::file_operations> {
    Exported(bindings::file_operations {
        owner: owner.as_ptr(),
        open: if T::HAS_OPEN { Some(open::<T>) } else { None },
        release: if T::HAS_RELEASE {
            Some(release_file::<T>)
        } else {
            release
        },
        read: if T::HAS_READ { Some(read::<T>) } else { None },
        write: if T::HAS_WRITE { Some(write::<T>) } else { None },
        poll: if T::HAS_POLL { Some(poll::<T>) } else { None },
        unlocked_ioctl: if T::HAS_IOCTL { Some(ioctl::<T>) } else { None },
        compat_ioctl: if T::HAS_IOCTL {
            bindings::compat_ptr_ioctl
        } else {
            None
        },
        mmap: if T::HAS_MMAP { Some(mmap::<T>) } else { None },
        fasync: if T::HAS_FASYNC {
            Some(fasync::<T>)
        } else {
            None
        },
        ..pin_init::zeroed()
    })
}

/// A method call: the file, its private data, and the token for sleeping.
struct Call<'a, T: FileOps> {
    file: &'a File,
    private: &'a T::Private,
    sleep: MaySleep,
    _ops: PhantomData<T>,
}

impl<T: FileOps> Call<'_, T> {
    /// # Safety
    ///
    /// The kernel calls a method of `file`, whose table is that of `T`.
    unsafe fn new(file: *mut bindings::file) -> Self {
        // SAFETY: By the safety requirements; the file owns a reference to its private data. Methods of files may sleep.
        unsafe {
            Self {
                file: File::from_raw_file(file),
                private: &*(*file).private_data.cast(),
                sleep: MaySleep::assume(),
                _ops: PhantomData,
            }
        }
    }
}

/// A number of bytes, or a negative errno.
fn count(result: Result<usize>) -> isize {
    match result {
        Ok(len) => isize::try_from(len).unwrap_or(isize::MAX),
        Err(error) => error.to_errno() as isize,
    }
}

fn status(result: Result) -> c_int {
    result.map_or_else(Error::to_errno, |()| 0)
}

/// # Safety
///
/// The kernel calls it for a file that is being opened, of the character device of `inode`.
unsafe extern "C" fn open<T: FileOps>(
    inode: *mut bindings::inode,
    file: *mut bindings::file,
) -> c_int {
    // SAFETY: By the safety requirements; during the call the inode has its device, which is a member of a `T::Node`, and
    // opening may sleep.
    let opened = unsafe {
        let cdev = (*inode).__bindgen_anon_5.i_cdev;
        let node = &*cdev.byte_sub(T::Node::OFFSET).cast::<T::Node>();
        T::open(node, File::from_raw_file(file), &MaySleep::assume())
    };
    match opened {
        Ok(private) => {
            // SAFETY: The file is being opened, so only this thread uses it. The function cannot fail.
            unsafe {
                (*file).private_data = ARef::into_raw(private).as_ptr().cast();
                bindings::stream_open(inode, file)
            }
        }
        Err(error) => error.to_errno(),
    }
}

/// # Safety
///
/// The kernel calls it for a file that was opened with `open::<T>`, when its last descriptor and mapping is closed.
unsafe extern "C" fn release_file<T: FileOps>(
    _inode: *mut bindings::inode,
    file: *mut bindings::file,
) -> c_int {
    // SAFETY: The private data is the reference from `open`, and no method of the file runs any more. Releasing may sleep.
    unsafe {
        let private = NonNull::new_unchecked((*file).private_data.cast());
        T::release(ARef::from_raw(private), &MaySleep::assume());
    }
    0
}

/// # Safety
///
/// As for [`Call::new`].
unsafe extern "C" fn read<T: FileOps>(
    file: *mut bindings::file,
    to: *mut c_char,
    len: usize,
    _position: *mut bindings::loff_t,
) -> isize {
    // SAFETY: By the safety requirements.
    let call = unsafe { Call::<T>::new(file) };
    let to = UserPtr::from_ptr(to.cast());
    count(T::read(call.private, call.file, to, len, &call.sleep))
}

/// # Safety
///
/// As for [`Call::new`].
unsafe extern "C" fn write<T: FileOps>(
    file: *mut bindings::file,
    from: *const c_char,
    len: usize,
    _position: *mut bindings::loff_t,
) -> isize {
    // SAFETY: By the safety requirements.
    let call = unsafe { Call::<T>::new(file) };
    let from = UserPtr::from_ptr(from.cast_mut().cast());
    count(T::write(call.private, call.file, from, len, &call.sleep))
}

/// # Safety
///
/// As for [`Call::new`]; `table` is null, or valid during the call.
unsafe extern "C" fn poll<T: FileOps>(
    file: *mut bindings::file,
    table: *mut bindings::poll_table_struct,
) -> bindings::__poll_t {
    // SAFETY: By the safety requirements.
    let (call, table) = unsafe { (Call::<T>::new(file), PollTable::from_raw(table)) };
    T::poll(call.private, call.file, table)
}

/// # Safety
///
/// As for [`Call::new`].
unsafe extern "C" fn ioctl<T: FileOps>(
    file: *mut bindings::file,
    command: c_uint,
    argument: c_ulong,
) -> c_long {
    // SAFETY: By the safety requirements.
    let call = unsafe { Call::<T>::new(file) };
    T::ioctl(call.private, call.file, command, argument, &call.sleep)
        .unwrap_or_else(|error| error.to_errno() as c_long)
}

/// # Safety
///
/// As for [`Call::new`]; `area` is a mapping that is being created.
unsafe extern "C" fn mmap<T: FileOps>(
    file: *mut bindings::file,
    area: *mut bindings::vm_area_struct,
) -> c_int {
    // SAFETY: By the safety requirements.
    let (call, area) = unsafe { (Call::<T>::new(file), VmaNew::from_raw(area)) };
    status(T::mmap(call.private, call.file, area, &call.sleep))
}

/// # Safety
///
/// As for [`Call::new`].
unsafe extern "C" fn fasync<T: FileOps>(fd: c_int, file: *mut bindings::file, on: c_int) -> c_int {
    // SAFETY: By the safety requirements.
    let call = unsafe { Call::<T>::new(file) };
    let set = T::fasync(call.private)
        .ok_or(ENOTTY)
        .and_then(|list| list.set(fd, call.file, on));
    set.unwrap_or_else(Error::to_errno)
}
