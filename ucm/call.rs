// SPDX-License-Identifier: GPL-2.0

//! A command of a program while it is executed: its file, what it has passed, where its answer goes.
//!
//! C header: `include/uapi/rdma/rdma_user_cm.h`.

use kernel::{
    prelude::*,
    sync::Arc,
    transmute::{AsBytes, FromBytes},
    uaccess::{UserPtr, UserSlice},
};
use rdma::MaySleep;

use crate::{
    context::{self, Context},
    layout::Layout,
    recipient::Channel,
};

/// Calls a function with the file that has a descriptor.
///
/// # Errors
///
/// `ENOENT` if there is no such descriptor, `EINVAL` for another kind of file, and those of the function.
pub(crate) type ByDescriptor = fn(u32, &mut dyn FnMut(&Arc<Channel>) -> Result) -> Result;

/// A command.
pub(crate) struct Call<'a> {
    /// The file.
    pub(crate) channel: &'a Arc<Channel>,
    /// Whether the program waits for events.
    pub(crate) waits: bool,
    /// The structure of the command.
    pub(crate) from: UserPtr,
    /// The number of bytes that the program says it has passed.
    pub(crate) in_len: usize,
    /// The number of bytes that it has room for.
    pub(crate) out_len: usize,
    /// How other files are found.
    pub(crate) by_descriptor: ByDescriptor,
    /// For sleeping.
    pub(crate) sleep: &'a MaySleep,
}

impl Call<'_> {
    /// Reads the command. As many bytes are read as its structure has, whatever the program says: so programs that pass less, of which
    /// there are some, go on to work.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub(crate) fn read<T: Layout>(&self) -> Result<T> {
        Ok(T::read(read_bytes::<T::Bytes>(self.from)?.as_ref()))
    }

    /// Reads a command that has grown: what an older program has not passed is zero.
    ///
    /// # Errors
    ///
    /// `EINVAL` for less than `least` bytes, `EFAULT`.
    pub(crate) fn read_grown<T: Layout>(&self, least: usize) -> Result<T> {
        if self.in_len < least {
            return Err(EINVAL);
        }
        match self.in_len < T::SIZE {
            true => self.read_part(least),
            false => self.read(),
        }
    }

    fn read_part<T: Layout>(&self, length: usize) -> Result<T> {
        let mut bytes = T::NONE;
        let part = bytes.as_mut().get_mut(..length).ok_or(EINVAL)?;
        UserSlice::new(self.from, length)
            .reader()
            .read_slice(part)?;
        Ok(T::read(bytes.as_ref()))
    }

    /// Checks that there is room for an answer.
    ///
    /// # Errors
    ///
    /// `ENOSPC`.
    pub(crate) fn needs_room(&self, length: usize) -> Result {
        match self.out_len < length {
            true => Err(ENOSPC),
            false => Ok(()),
        }
    }

    /// Gives the program an answer, as much of it as it has room for.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub(crate) fn answer<T: AsBytes>(&self, to: u64, what: &T) -> Result {
        match what.as_bytes().get(..self.out_len) {
            Some(part) => self.answer_bytes(to, part),
            None => answer(to, what),
        }
    }

    /// As [`answer`](Self::answer), with any number of bytes.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub(crate) fn answer_bytes(&self, to: u64, bytes: &[u8]) -> Result {
        let bytes = bytes.get(..self.out_len).unwrap_or(bytes);
        let to = UserPtr::from_addr(to as usize);
        UserSlice::new(to, bytes.len()).writer().write_slice(bytes)
    }

    /// The identifier with a number.
    ///
    /// # Errors
    ///
    /// `ENOENT` if there is none, `EINVAL` if it belongs to another file.
    pub(crate) fn context(&self, id: u32) -> Result<Arc<Context>> {
        context::find(self.channel, id)
    }
}

/// Reads what has the size of its type.
///
/// # Errors
///
/// `EFAULT`.
pub(crate) fn read_bytes<T: FromBytes>(from: UserPtr) -> Result<T> {
    UserSlice::new(from, size_of::<T>()).reader().read()
}

/// Gives a program all of an answer.
///
/// # Errors
///
/// `EFAULT`.
pub(crate) fn answer<T: AsBytes>(to: u64, what: &T) -> Result {
    let to = UserPtr::from_addr(to as usize);
    UserSlice::new(to, size_of::<T>()).writer().write(what)
}
