// SPDX-License-Identifier: GPL-2.0

//! Commands of user space: their attributes, and the part for the driver.
//!
//! A command is executed in process context. Its structures are on the stack of the system call, and valid until that returns.
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
    /// An open device file of ib_uverbs: `struct ib_uverbs_file`.
    pub struct UverbsFile(ib_uverbs_file);
}

impl UverbsFile {
    /// The user context of the file; null before a command has created it.
    pub fn ucontext(&self) -> *mut ib_ucontext {
        // SAFETY: The member is a pointer that is set once, atomically.
        let ucontext = unsafe { AtomicPtr::from_ptr(&raw mut (*self.as_raw()).ucontext) };
        ucontext.load(Ordering::Acquire)
    }

    /// Whether the file still has its device. The result stays true as long as `disassociate_srcu` is held.
    pub fn has_device(&self) -> bool {
        // SAFETY: The file holds a reference to the character device; the member is a pointer that is cleared atomically when
        // the RDMA device is removed.
        let device = unsafe { AtomicPtr::from_ptr(&raw mut (*(*self.as_raw()).device).ib_dev) };
        !device.load(Ordering::Acquire).is_null()
    }
}

impl Ucontext {
    /// The device.
    pub fn device(&self) -> &Device {
        // SAFETY: The member is constant after the context is made, and the device outlives the context.
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

    /// Copies the request to `room`. The rest of a longer `room` is zeroed; the rest of a longer request must be zero.
    ///
    /// # Errors
    ///
    /// `E2BIG` for a longer request whose rest is not zero, `EFAULT`.
    pub fn read(&self, room: &BytesOut<'_>) -> Result {
        // SAFETY: By its invariants `room` is valid for writes; the function checks the user address.
        to_result(unsafe {
            let raw = &*self.as_raw();
            bindings::copy_struct_from_user(room.as_ptr(), room.len(), raw.inbuf, raw.inlen)
        })
    }

    /// Copies a response to user space, truncated to the user's buffer, or followed by zeros.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub fn respond(&self, response: BytesIn<'_>) -> Result {
        // SAFETY: The members are constant during the command.
        let raw = unsafe { &*self.as_raw() };
        let len = response.len().min(raw.outlen);
        // SAFETY: By their invariants the bytes are valid for reads; the functions check the user address.
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

/// A copy of a value that C passes by a pointer, which may be null.
pub struct MaybeValue<T>(pub Option<T>);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl<T: Copy + Zeroable> FromC for MaybeValue<T> {
    type Raw = *mut T;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the pointer is null or valid.
        Self(unsafe { raw.as_ref() }.copied())
    }
}

/// A command that C passes as a pointer to `const`, which may be null.
#[derive(Clone, Copy)]
pub struct MaybeCommand<'a>(pub Option<&'a AttrBundle>);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for MaybeCommand<'_> {
    type Raw = *const uverbs_attr_bundle;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the pointer is null or valid; a view is a transparent wrapper.
        Self(unsafe { raw.cast::<AttrBundle>().as_ref() })
    }
}

/// An attribute of a command that carries data.
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
    /// The number of bytes that user space has sent, or has room for.
    #[inline]
    pub fn len(self) -> usize {
        usize::from(self.raw.len)
    }

    /// Whether it has no data.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.raw.len == 0
    }

    /// The data, if it has at most 8 bytes; otherwise its user address.
    #[inline]
    pub fn word(self) -> u64 {
        // SAFETY: Any bytes are a valid number.
        unsafe { self.raw.__bindgen_anon_1.data }
    }

    /// Reads flags of 4 or 8 bytes.
    ///
    /// # Errors
    ///
    /// `EINVAL` for flags outside `allowed`, or another length.
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

    /// Copies `from` to user space, truncated to the user's buffer, and marks the attribute as valid output.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub fn write(self, from: BytesIn<'_>) -> Result {
        let to = self.word() as usize as *mut c_void;
        let len = from.len().min(self.len());
        // SAFETY: By their invariants the bytes are valid for reads; the function checks the user address.
        if unsafe { bindings::copy_to_user(to, from.as_ptr(), len) } != 0 {
            return Err(EFAULT);
        }
        self.mark_output()
    }

    /// Zeroes the user's buffer after the first `len` bytes.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub fn clear_after(self, len: usize) -> Result {
        let Some(rest @ 1..) = self.len().checked_sub(len) else {
            return Ok(());
        };
        let to = (self.word() as usize).wrapping_add(len) as *mut c_void;
        // SAFETY: The function checks the user address.
        if unsafe { bindings::clear_user(to, rest) } != 0 {
            return Err(EFAULT);
        }
        Ok(())
    }

    /// Sets `UVERBS_ATTR_F_VALID_OUTPUT` in the attribute of user space.
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
            bindings::_copy_to_user(to.cast(), (&raw const flags).cast(), size_of::<u16>())
        };
        if left != 0 {
            return Err(EFAULT);
        }
        Ok(())
    }
}

impl AttrBundle {
    /// The `struct bundle_priv` of the command.
    fn whole(&self) -> *mut bundle_priv {
        self.as_raw()
            .cast::<u8>()
            .wrapping_sub(offset_of!(bundle_priv, bundle))
            .cast()
    }

    fn raw_attr(&self, id: u16) -> Option<&uverbs_attr> {
        // SAFETY: `self` is a valid command; the function returns an attribute that is valid as long, or an errno.
        let attr = unsafe { bindings::uverbs_attr_get(self.as_raw(), id) };
        let attr = from_err_ptr(attr.cast_mut()).ok()?;
        // SAFETY: The pointer is no errno, so it is an attribute that is valid as long as the command.
        Some(unsafe { &*attr })
    }

    /// The attribute `id`, which the method declares as data; `None` if user space has not sent it.
    pub fn data(&self, id: usize) -> Option<DataAttr<'_>> {
        let attr = self.raw_attr(id as u16)?;
        // SAFETY: The member of the union is plain data, of which any bytes are valid.
        let raw = unsafe { &*(&raw const attr.__bindgen_anon_1).cast() };
        // INVARIANT: The attribute is one of the command's.
        Some(DataAttr { command: self, raw })
    }

    /// Whether user space has sent an attribute.
    #[inline]
    pub fn has(&self, id: u32) -> bool {
        self.raw_attr(id as u16).is_some()
    }

    /// Copies an attribute to `to`. If `to` is longer, its rest is unchanged.
    ///
    /// # Errors
    ///
    /// `ENOENT` if user space has not sent it, `EINVAL` if it is longer than `to`, `EFAULT`.
    pub fn read<T: FromBytes>(&self, id: u32, to: &mut T) -> Result {
        // SAFETY: By `FromBytes` any bytes are a valid `T`.
        unsafe { self.read_plain(id, to) }
    }

    /// As [`Self::read`], for types without [`FromBytes`].
    ///
    /// # Errors
    ///
    /// Those of [`Self::read`].
    ///
    /// # Safety
    ///
    /// Any bytes are a valid `T`.
    pub unsafe fn read_plain<T>(&self, id: u32, to: &mut T) -> Result {
        let to = core::ptr::from_mut(to).cast();
        // SAFETY: `to` is valid for writes of its size; by the safety requirements any bytes are a valid `T`.
        to_result(unsafe {
            bindings::_uverbs_copy_from(to, self.as_raw(), id as usize, size_of::<T>())
        })
    }

    /// The device of the command's context; `None` if the command has no context yet.
    pub fn context_device(&self) -> Option<&Device> {
        // SAFETY: The context is valid during the command.
        let context = unsafe { (*self.as_raw()).__bindgen_anon_1.__bindgen_anon_1.context };
        // SAFETY: The context is valid during the command; a view is a transparent wrapper.
        unsafe { context.cast::<Ucontext>().as_ref() }.map(Ucontext::device)
    }

    /// Hides the driver's part of the command from the driver, and returns it empty.
    pub fn clear_driver_udata(&self) -> &UdataView {
        let udata = self.driver_udata();
        // SAFETY: Only this thread uses the command, and any value of the structure is valid.
        unsafe { udata.as_raw().write(bindings::ib_udata::zeroed()) };
        udata
    }

    /// Marks the new object of an attribute as created in hardware: if the command fails, the object is destroyed.
    pub fn set_object_complete(&self, id: u16) {
        // SAFETY: The function is pure arithmetic.
        let index = unsafe { bindings::uverbs_attr_index(id) } as usize;
        // SAFETY: By the type invariants the structure is valid; only this thread uses the command, and `bits` does not leave
        // this function.
        let bits = unsafe { &mut (*self.whole()).uobj_hw_obj_valid };
        let word_bits = usize::BITS as usize;
        if let Some(word) = bits.get_mut(index / word_bits) {
            *word |= 1 << (index % word_bits);
        }
    }

    /// Returns zeroed memory that is valid until the command has returned: from the command's buffer, or allocated.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EOVERFLOW`.
    pub fn alloc(&self, size: usize, gfp: Gfp) -> Result<*mut c_void> {
        let whole = self.whole();
        // SAFETY: By the type invariants the structure is valid, and only this thread uses the command. The used part of its
        // buffer is at the front.
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
        // SAFETY: The memory is new. By the type invariants the entries of the list are freed with the command, and only this
        // thread uses the command.
        unsafe {
            let whole = self.whole();
            (*head).__bindgen_anon_1.__bindgen_anon_1.next = (*whole).allocated_mem;
            (*whole).allocated_mem = head;
            Ok(head.cast::<u8>().add(HEAD).cast())
        }
    }
}

/// Allocation flags as an argument of C.
#[derive(Clone, Copy)]
pub struct Gfp(pub gfp_t);
