// SPDX-License-Identifier: GPL-2.0

//! Commands of user space: their attributes, and the part that is for the driver.
//!
//! A command is in process context, on the stack of the system call: its structures stay until that returns.
//!
//! C headers: `include/rdma/uverbs_ioctl.h`, `include/rdma/uverbs_types.h`.

use core::{
    mem::offset_of,
    sync::atomic::{AtomicPtr, Ordering},
};

use kernel::{
    alloc::{allocator::KVmalloc, Allocator, NumaNode},
    error::{from_err_ptr, to_result},
    ffi::c_void,
    prelude::*,
    transmute::FromBytes,
};
use kernel_ext::entry::{view_of, BytesIn, BytesOut, FromC};
use rdma_bindings::{
    self as bindings, bundle_alloc_head, bundle_priv, gfp_t, ib_ucontext, ib_uverbs_file,
    uverbs_attr, uverbs_attr_bundle,
};

use super::{object::UdataView, AttrBundle, Device, Ucontext};

view_of! {
    /// An open device file.
    pub struct UverbsFile(ib_uverbs_file);
}

impl UverbsFile {
    /// The core's state of the file, if a command has made it.
    pub fn ucontext(&self) -> *mut ib_ucontext {
        // SAFETY: The member is a pointer, which is set once, when the state is complete.
        let ucontext = unsafe { AtomicPtr::from_ptr(&raw mut (*self.as_raw()).ucontext) };
        ucontext.load(Ordering::Acquire)
    }

    /// Whether the device is still there. The caller holds `disassociate_srcu`.
    pub fn has_device(&self) -> bool {
        // SAFETY: The file keeps the character device; the member is a pointer that is cleared when the device goes.
        let device = unsafe { AtomicPtr::from_ptr(&raw mut (*(*self.as_raw()).device).ib_dev) };
        !device.load(Ordering::Acquire).is_null()
    }
}

impl Ucontext {
    /// The device.
    pub fn device(&self) -> &Device {
        // SAFETY: The member is set when the context is made; the device stays longer.
        unsafe { &*(*self.as_raw()).device.cast() }
    }
}

impl UdataView {
    /// The length of the request in bytes.
    #[inline]
    pub fn inlen(&self) -> usize {
        // SAFETY: The member is constant during the command.
        unsafe { (*self.as_raw()).inlen }
    }

    /// Copies the request, of which what is missing is zero, and what is too much must be zero.
    ///
    /// # Errors
    ///
    /// `E2BIG` where it is not, `EFAULT`.
    pub fn read(&self, room: &BytesOut<'_>) -> Result {
        // SAFETY: By the invariants of the room; what user space has is checked by the function.
        to_result(unsafe {
            let raw = &*self.as_raw();
            bindings::copy_struct_from_user(room.as_ptr(), room.len(), raw.inbuf, raw.inlen)
        })
    }

    /// Copies a response: cut off, or filled with zeros.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub fn respond(&self, response: BytesIn<'_>) -> Result {
        // SAFETY: The members are constant during the command.
        let raw = unsafe { &*self.as_raw() };
        let len = response.len().min(raw.outlen);
        // SAFETY: By the invariants of the bytes; where they go is checked by the functions.
        let left = unsafe {
            match bindings::copy_to_user(raw.outbuf, response.as_ptr(), len) {
                0 => bindings::clear_user(
                    raw.outbuf.cast::<u8>().wrapping_add(len).cast(),
                    raw.outlen.saturating_sub(len),
                ),
                left => left,
            }
        };
        if left != 0 {
            return Err(EFAULT);
        }
        Ok(())
    }
}

/// A value that C passes as a pointer, or null for none.
pub struct MaybeValue<T>(pub Option<T>);

// SAFETY: The value is read in the call.
unsafe impl<T: Copy + Zeroable> FromC for MaybeValue<T> {
    type Raw = *mut T;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements.
        Self(unsafe { raw.as_ref() }.copied())
    }
}

/// A command, which C passes as a pointer to `const`; null for none.
#[derive(Clone, Copy)]
pub struct MaybeCommand<'a>(pub Option<&'a AttrBundle>);

// SAFETY: As for a reference; null is none.
unsafe impl FromC for MaybeCommand<'_> {
    type Raw = *const uverbs_attr_bundle;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements; a view is a transparent wrapper.
        Self(unsafe { raw.cast::<AttrBundle>().as_ref() })
    }
}

/// An attribute that is data.
///
/// # Invariants
///
/// The attribute is one of the command's.
#[derive(Clone, Copy)]
pub struct DataAttr<'a> {
    command: &'a AttrBundle,
    raw: &'a bindings::uverbs_ptr_attr,
}

impl<'a> DataAttr<'a> {
    /// How many bytes user space has sent, or has room for.
    #[inline]
    pub fn len(self) -> usize {
        usize::from(self.raw.len)
    }

    /// Whether it has no data.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.raw.len == 0
    }

    /// The data, where it is not longer than a word; else where it is in user space.
    #[inline]
    pub fn word(self) -> u64 {
        // SAFETY: Any value is a valid number.
        unsafe { self.raw.__bindgen_anon_1.data }
    }

    /// The flags that user space has sent, in 4 or 8 bytes.
    ///
    /// # Errors
    ///
    /// `EINVAL` for flags that are not allowed, or another length.
    pub fn flags(self, allowed: u64) -> Result<u64> {
        let flags = match self.len() {
            8 => self.word(),
            4 => self.word() & u64::from(u32::MAX),
            _ => return Err(EINVAL),
        };
        if flags & !allowed != 0 {
            return Err(EINVAL);
        }
        Ok(flags)
    }

    /// Fills in what user space has room for, and says that it is filled in.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub fn write(self, from: BytesIn<'_>) -> Result {
        let to = self.word() as usize as *mut c_void;
        let len = from.len().min(self.len());
        // SAFETY: By the invariants of the bytes; where they go is checked by the function.
        if unsafe { bindings::copy_to_user(to, from.as_ptr(), len) } != 0 {
            return Err(EFAULT);
        }
        self.mark_output()
    }

    /// Clears what comes after the first `len` bytes.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub fn clear_after(self, len: usize) -> Result {
        let Some(rest @ 1..) = self.len().checked_sub(len) else {
            return Ok(());
        };
        let to = (self.word() as usize).wrapping_add(len) as *mut c_void;
        // SAFETY: Where it is, is checked by the function.
        if unsafe { bindings::clear_user(to, rest) } != 0 {
            return Err(EFAULT);
        }
        Ok(())
    }

    /// Says in the command of user space that the attribute is filled in.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub fn mark_output(self) -> Result {
        let index = usize::from(self.raw.uattr_idx);
        // SAFETY: The command has as many attributes as user space has sent, and the index is that of this one.
        let left = unsafe {
            let command = &*self.command.whole();
            let flags =
                (*command.uattrs.add(index)).flags | bindings::UVERBS_ATTR_F_VALID_OUTPUT as u16;
            let to = &raw mut (*command.user_attrs.wrapping_add(index)).flags;
            bindings::copy_to_user(to.cast(), (&raw const flags).cast(), size_of::<u16>())
        };
        if left != 0 {
            return Err(EFAULT);
        }
        Ok(())
    }
}

impl AttrBundle {
    /// The command as ib_uverbs has it.
    fn whole(&self) -> *mut bundle_priv {
        self.as_raw()
            .cast::<u8>()
            .wrapping_sub(offset_of!(bundle_priv, bundle))
            .cast()
    }

    fn raw_attr(&self, id: u16) -> Option<&uverbs_attr> {
        // SAFETY: The command is there; the function returns an attribute that is there as long, or an errno.
        let attr = unsafe { bindings::uverbs_attr_get(self.as_raw(), id) };
        let attr = from_err_ptr(attr.cast_mut()).ok()?;
        // SAFETY: As above.
        Some(unsafe { &*attr })
    }

    /// An attribute that is data, if user space has sent it. The method's description says that it is data.
    pub fn data(&self, id: usize) -> Option<DataAttr<'_>> {
        let attr = self.raw_attr(id as u16)?;
        // SAFETY: Data is a number and plain data: any value is valid.
        let raw = unsafe { &*(&raw const attr.__bindgen_anon_1).cast() };
        // INVARIANT: It is one of the command's.
        Some(DataAttr { command: self, raw })
    }

    /// Whether user space has sent an attribute.
    #[inline]
    pub fn has(&self, id: u32) -> bool {
        self.raw_attr(id as u16).is_some()
    }

    /// Reads an attribute into plain data, which may be longer: then the rest stays as it is.
    ///
    /// # Errors
    ///
    /// `ENOENT` if there is none, `EINVAL` if it is too long, `EFAULT`.
    pub fn read<T: FromBytes>(&self, id: u32, to: &mut T) -> Result {
        // SAFETY: The type says that any bytes are a value.
        unsafe { self.read_plain(id, to) }
    }

    /// As [`Self::read`], for types that do not say so.
    ///
    /// # Errors
    ///
    /// Those of [`Self::read`].
    ///
    /// # Safety
    ///
    /// Any bytes are a value of `T`.
    pub unsafe fn read_plain<T>(&self, id: u32, to: &mut T) -> Result {
        let to = core::ptr::from_mut(to).cast();
        // SAFETY: There is room; by the safety requirements any bytes will do.
        to_result(unsafe {
            bindings::_uverbs_copy_from(to, self.as_raw(), id as usize, size_of::<T>())
        })
    }

    /// The device of the context that the command is in.
    pub fn context_device(&self) -> Option<&Device> {
        // SAFETY: The context stays during the command.
        let context = unsafe { (*self.as_raw()).__bindgen_anon_1.__bindgen_anon_1.context };
        // SAFETY: As above; a view is a transparent wrapper.
        unsafe { context.cast::<Ucontext>().as_ref() }.map(Ucontext::device)
    }

    /// Takes from the driver what user space has sent for it.
    pub fn clear_driver_udata(&self) -> &UdataView {
        let udata = self.driver_udata();
        // SAFETY: The command is this thread's, and the structure plain.
        unsafe { udata.as_raw().write(bindings::ib_udata::zeroed()) };
        udata
    }

    /// Says that the object of an attribute is complete: should the command fail it is to be destroyed.
    pub fn set_object_complete(&self, id: u16) {
        // SAFETY: It is arithmetic.
        let index = unsafe { bindings::uverbs_attr_index(id) } as usize;
        // SAFETY: By the type invariants; the command is this thread's, and `bits` is not used beyond this function.
        let bits = unsafe { &mut (*self.whole()).uobj_hw_obj_valid };
        let word_bits = usize::BITS as usize;
        if let Some(word) = bits.get_mut(index / word_bits) {
            *word |= 1 << (index % word_bits);
        }
    }

    /// Zeroed memory that is there until the command is done: from the command's own room, or allocated.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EOVERFLOW`.
    pub fn alloc(&self, size: usize, gfp: Gfp) -> Result<*mut c_void> {
        let whole = self.whole();
        // SAFETY: By the type invariants; the command is this thread's. What is in use of its room is at the front.
        unsafe {
            let used = (*whole).internal_used.checked_add(size).ok_or(EOVERFLOW)?;
            if used > (*whole).internal_avail {
                return self.alloc_more(size, gfp);
            }
            let room = (&raw mut (*whole).internal_buffer).cast::<u8>();
            let place = room.add((*whole).internal_used);
            (*whole).internal_used = used.next_multiple_of(size_of::<u64>());
            place.write_bytes(0, size);
            Ok(place.cast())
        }
    }

    fn alloc_more(&self, size: usize, gfp: Gfp) -> Result<*mut c_void> {
        const HEAD: usize = size_of::<bundle_alloc_head>();
        let size = size.checked_add(HEAD).ok_or(EOVERFLOW)?;
        let layout =
            core::alloc::Layout::from_size_align(size, align_of::<u64>()).map_err(|_| EOVERFLOW)?;
        let flags = if gfp.0 & bindings::GFP_ATOMIC == gfp.0 {
            GFP_ATOMIC
        } else {
            GFP_KERNEL
        };
        let memory = KVmalloc::alloc(layout, flags | __GFP_ZERO, NumaNode::NO_NODE)?;
        let head = memory.cast::<bundle_alloc_head>().as_ptr();
        // SAFETY: The memory is new, and by the type invariants what is in the list is freed with `kvfree`; the command is this
        // thread's.
        unsafe {
            let whole = self.whole();
            (*head).__bindgen_anon_1.__bindgen_anon_1.next = (*whole).allocated_mem;
            (*whole).allocated_mem = head;
            Ok(head.cast::<u8>().add(HEAD).cast())
        }
    }
}

/// How C wants memory to be allocated.
#[derive(Clone, Copy)]
pub struct Gfp(pub gfp_t);
