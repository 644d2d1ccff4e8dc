// SPDX-License-Identifier: GPL-2.0

//! References to inodes: processes share an XRC domain that the same file identifies.
//!
//! C header: `include/linux/fs.h`.

use core::{ops::Deref, ptr::NonNull};

use kernel::{fs::file::LocalFile, prelude::*};
use rdma::{core::pd::Inode, MaySleep};
use rdma_bindings as c;

/// A counted reference to an inode.
///
/// # Invariants
///
/// The value owns one reference.
pub struct InodeRef(NonNull<Inode>);

// SAFETY: Inodes may be used from any thread.
unsafe impl Send for InodeRef {}
// SAFETY: Inodes may be used from any thread.
unsafe impl Sync for InodeRef {}

impl InodeRef {
    /// The inode of an open file of the current process.
    ///
    /// # Errors
    ///
    /// `EBADF` if the descriptor is not open.
    pub fn of_fd(fd: u32, _sleep: &MaySleep) -> Result<Self> {
        let file = LocalFile::fget(fd)?;
        // SAFETY: The file is valid, and holds a reference to its inode.
        let inode = unsafe { c::igrab((*file.as_ptr()).f_inode.cast()) };
        // INVARIANT: The reference was just counted.
        NonNull::new(inode.cast()).map(Self).ok_or(EBADF)
    }
}

impl Deref for InodeRef {
    type Target = Inode;

    #[inline]
    fn deref(&self) -> &Inode {
        // SAFETY: By the type invariants the inode is valid.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for InodeRef {
    fn drop(&mut self) {
        // SAFETY: By the type invariants `self` owns the reference. It is made with a token, and dropped in process
        // context.
        unsafe { c::iput(self.as_raw().cast()) };
    }
}
