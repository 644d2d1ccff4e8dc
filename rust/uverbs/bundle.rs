// SPDX-License-Identifier: GPL-2.0

//! An ioctl command (`struct bundle_priv`): the attributes as user space sent them, the parsed attributes, and the objects that
//! the command looked up or creates.
//!
//! Handlers, drivers and ib_core see its [`AttrBundle`]. A small command is on the stack, a larger one is allocated. All
//! functions run in process context, during the system call.
//!
//! C headers: `include/rdma/uverbs_ioctl.h`, `include/uapi/rdma/rdma_user_ioctl_cmds.h`.

use core::{
    mem::{offset_of, ManuallyDrop, MaybeUninit},
    ptr::NonNull,
};

use kernel::{
    alloc::{allocator::KVmalloc, Allocator},
    prelude::*,
    uaccess::{UserPtr, UserSlice},
};
use kernel_ext::zeroed::zeroed;
use rdma::{
    core::{
        command::{Gfp, UverbsFile},
        AttrBundle,
    },
    MaySleep,
};
use rdma_bindings::{
    self as c, bundle_alloc_head, bundle_priv, ib_udata, ib_uverbs_attr, ib_uverbs_ioctl_hdr,
    uverbs_attr,
};

use crate::{
    api::{attr_index, Attr, Method},
    attrs::Attributes,
    definition::{Kind, ObjectUse},
    lookup::{Access, Acquired},
};

/// The header of a command: `struct ib_uverbs_ioctl_hdr`.
pub struct Request {
    /// The ID of the object class.
    pub object: u16,
    /// The ID of the method.
    pub method: u16,
    /// `enum rdma_driver_id`.
    pub driver_id: u32,
    attrs: usize,
    at: UserPtr,
}

impl Request {
    /// Reads it from an address in user space.
    ///
    /// # Errors
    ///
    /// `EFAULT`, `EINVAL` for a length that is too large or not that of the attributes, `EPROTONOSUPPORT` if reserved
    /// members are set.
    pub fn read(at: usize) -> Result<Self> {
        const HEAD: usize = size_of::<ib_uverbs_ioctl_hdr>();
        let at = UserPtr::from_addr(at);
        let mut head = MaybeUninit::<ib_uverbs_ioctl_hdr>::zeroed();
        // SAFETY: The structure is valid for writes; any bytes are valid for its members, which are numbers.
        let head = unsafe {
            if c::_copy_from_user(head.as_mut_ptr().cast(), at.as_const_ptr(), HEAD) != 0 {
                return Err(EFAULT);
            }
            head.assume_init()
        };
        let (length, attrs) = (usize::from(head.length), usize::from(head.num_attrs));
        if length > kernel::page::PAGE_SIZE || length != HEAD + attrs * size_of::<ib_uverbs_attr>()
        {
            return Err(EINVAL);
        }
        if head.reserved1 != 0 || head.reserved2 != 0 {
            return Err(kernel_ext::error::EPROTONOSUPPORT);
        }
        Ok(Self {
            object: head.object_id,
            method: head.method_id,
            driver_id: head.driver_id,
            attrs,
            at: at.wrapping_byte_add(HEAD),
        })
    }
}

/// An attribute as user space sent it: `struct ib_uverbs_attr`.
#[derive(Clone, Copy)]
pub struct Sent {
    nth: u16,
    /// Its ID.
    pub id: u16,
    /// The length of the data or of the buffer, in bytes.
    pub len: u16,
    /// Whether the command fails if the kernel does not support it.
    pub is_mandatory: bool,
    /// The ID of the selected structure, for an attribute with several (`enum_data.elem_id`). Then `reserved` is zero.
    pub choice: u8,
    /// The reserved byte after `choice`.
    pub reserved: u8,
    /// The data, if it has at most 8 bytes; otherwise its address.
    pub data: u64,
}

impl Sent {
    /// Whether the data is in the attribute.
    pub fn is_inline(&self) -> bool {
        usize::from(self.len) <= size_of::<u64>()
    }

    /// Whether `choice` and `reserved` are zero.
    pub fn is_plain(&self) -> bool {
        self.choice == 0 && self.reserved == 0
    }

    /// Whether the data after the first `len` bytes is zero; false if it cannot be read. `len` is less than the length of the
    /// data.
    pub fn is_zero_after(&self, len: u16) -> bool {
        if self.is_inline() {
            let bytes = self.data.to_ne_bytes();
            let rest = bytes.get(usize::from(len)..usize::from(self.len));
            return rest.is_some_and(|rest| rest.iter().all(|byte| *byte == 0));
        }
        let start = (self.data as usize).wrapping_add(len.into());
        let mut left = usize::from(self.len.saturating_sub(len));
        let mut reader = UserSlice::new(UserPtr::from_addr(start), left).reader();
        let mut buffer = [0; 64];
        while left > 0 {
            let count = left.min(buffer.len());
            let Some(part) = buffer.get_mut(..count) else {
                return false;
            };
            if reader.read_slice(part).is_err() || part.iter().any(|byte| *byte != 0) {
                return false;
            }
            left -= count;
        }
        true
    }

    /// Reads all of the data.
    ///
    /// # Errors
    ///
    /// `EFAULT`, `ENOMEM`.
    pub fn read(&self) -> Result<KVec<u8>> {
        let len = usize::from(self.len);
        let mut bytes: KVec<u8> = zeroed(len, GFP_KERNEL)?;
        if self.is_inline() {
            for (to, from) in bytes.iter_mut().zip(self.data.to_ne_bytes()) {
                *to = from;
            }
        } else {
            let from = UserPtr::from_addr(self.data as usize);
            UserSlice::new(from, len).reader().read_slice(&mut bytes)?;
        }
        Ok(bytes)
    }
}

/// The size in bytes of the attribute buffer of a command on the stack.
const ROOM: usize = size_of::<bundle_priv>() - offset_of!(bundle_priv, internal_buffer);

/// A command.
///
/// # Invariants
///
/// `raw` is a command of `method`, which `self` owns exclusively. The `attrs` attributes that user space has sent are at
/// `uattrs`. For each bit of `uobj_finalize` the attribute has an [`Acquired`] object, and for each bit of `spec_finalize` a
/// list of such objects. The method is one of the API of the device of the command's file, and `disassociate_srcu` of that device is
/// held.
pub struct Bundle<'a> {
    raw: NonNull<bundle_priv>,
    method: &'a Method,
    attrs: usize,
}

impl<'a> Bundle<'a> {
    /// Runs a command: reads the attributes, calls `body`, and puts back the objects; new ones are committed if `body`
    /// succeeded.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EFAULT`, and those of `body`.
    ///
    /// # Safety
    ///
    /// The method is one of the API of the file's device, whose `disassociate_srcu` is held.
    pub unsafe fn run(
        file: &UverbsFile,
        method: &'a Method,
        request: &Request,
        sleep: &MaySleep,
        body: impl FnOnce(&mut Self) -> Result,
    ) -> Result {
        // Both counts are at most the number of a method's attributes.
        let need = size_of::<uverbs_attr>()
            .wrapping_mul(method.places())
            .wrapping_add(size_of::<ib_uverbs_attr>().wrapping_mul(request.attrs));
        let mut stack = MaybeUninit::<bundle_priv>::zeroed();
        let mut heap: KVec<u64>;
        let (raw, room) = if need <= ROOM {
            (stack.as_mut_ptr(), ROOM)
        } else {
            // The rest of the buffer is for allocations of the handler.
            let words = need.wrapping_add(ROOM).div_ceil(size_of::<u64>());
            let front = offset_of!(bundle_priv, internal_buffer).div_ceil(size_of::<u64>());
            heap = zeroed(words.wrapping_add(front), GFP_KERNEL)?;
            let room = words.wrapping_mul(size_of::<u64>());
            (heap.as_mut_ptr().cast(), room)
        };
        // SAFETY: The memory is new and zeroed, and outlives `this`; the rest is by the safety requirements.
        let mut this = unsafe { Self::new(raw, room, file, method, request)? };
        let result = this.read_sent(request.attrs).and_then(|()| body(&mut this));
        this.put_back(result.is_ok(), sleep);
        result
    }

    /// # Safety
    ///
    /// `raw` is zeroed, up to `room` bytes after its head, and the bundle has exclusive access to it during its life. The rest is as
    /// for [`Self::run`].
    unsafe fn new(
        raw: *mut bundle_priv,
        room: usize,
        file: &UverbsFile,
        method: &'a Method,
        request: &Request,
    ) -> Result<Self> {
        // SAFETY: By the safety requirements.
        unsafe {
            (*raw).internal_avail = room;
            (*raw).internal_used = method.places() * size_of::<uverbs_attr>();
            (*raw).user_attrs = request.at.as_mut_ptr().cast();
            (*raw).bundle.ufile = file.as_raw();
            (*raw).bundle.method_elm = method.as_raw();
        }
        // INVARIANT: There are no attributes and no objects yet.
        Ok(Self {
            // SAFETY: By the safety requirements.
            raw: unsafe { NonNull::new_unchecked(raw) },
            method,
            attrs: 0,
        })
    }

    fn read_sent(&mut self, attrs: usize) -> Result {
        let size = attrs.saturating_mul(size_of::<ib_uverbs_attr>());
        let memory = self.command().alloc(size, Gfp(c::GFP_KERNEL))?;
        // SAFETY: The memory is large enough, zeroed, and valid during the command; its content is numbers.
        unsafe {
            let raw = self.raw.as_ptr();
            if size != 0 && c::copy_from_user(memory, (*raw).user_attrs.cast(), size) != 0 {
                return Err(EFAULT);
            }
            (*raw).uattrs = memory.cast();
        }
        // INVARIANT: The attributes were just read to `uattrs`.
        self.attrs = attrs;
        Ok(())
    }

    /// The command as handlers see it.
    pub fn command(&self) -> &AttrBundle {
        // SAFETY: By the type invariants; a view is a transparent wrapper.
        unsafe { &*(&raw mut (*self.raw.as_ptr()).bundle).cast() }
    }

    /// Calls the handler of the method.
    ///
    /// # Errors
    ///
    /// `EIO` if the device was removed, and those of the handler.
    pub fn call(&self, sleep: &MaySleep) -> Result {
        // SAFETY: By the type invariants.
        unsafe { self.method.call(self.command(), sleep) }
    }

    /// The method.
    pub fn method(&self) -> &'a Method {
        self.method
    }

    /// The attribute that user space sent at a position from 0.
    pub fn sent(&self, nth: usize) -> Option<Sent> {
        // SAFETY: By the type invariants; the attributes are constant after they are read.
        let sent = unsafe {
            let uattrs = (*self.raw.as_ptr()).uattrs;
            core::slice::from_raw_parts(uattrs.cast_const(), self.attrs)
        };
        let raw = sent.get(nth)?;
        // SAFETY: Any bytes are valid for all members, which are numbers.
        let ([choice, reserved], data) = unsafe {
            (
                raw.attr_data.reserved.to_ne_bytes(),
                raw.__bindgen_anon_1.data,
            )
        };
        Some(Sent {
            nth: nth as u16,
            id: raw.attr_id,
            len: raw.len,
            is_mandatory: u32::from(raw.flags) & c::UVERBS_ATTR_F_MANDATORY != 0,
            choice,
            reserved,
            data,
        })
    }

    /// Whether all mandatory attributes are set.
    pub fn is_complete(&self) -> bool {
        self.method.is_complete(self.present())
    }

    /// Whether an attribute is set.
    pub fn has(&self, attr: &Attr) -> bool {
        self.present() & 1u64.wrapping_shl(attr.index().into()) != 0
    }

    fn present(&self) -> u64 {
        // SAFETY: By the type invariants `raw` is valid, and only `self` uses it.
        unsafe { (*self.raw.as_ptr()).bundle.attr_present[0] as u64 }
    }

    /// Marks an attribute as set.
    pub fn set_present(&mut self, attr: &Attr) {
        // SAFETY: By the type invariants `raw` is valid, and only `self` uses it.
        unsafe { (*self.raw.as_ptr()).bundle.attr_present[0] |= bit(attr.index()) };
    }

    fn slot(&self, index: u8) -> *mut uverbs_attr {
        let room = self.raw.as_ptr().cast::<u8>();
        let attrs = room.wrapping_add(offset_of!(bundle_priv, internal_buffer));
        attrs.cast::<uverbs_attr>().wrapping_add(usize::from(index))
    }

    /// Sets an attribute of data: a number, or its address in user space.
    pub fn set_data(&mut self, attr: &Attr, sent: &Sent) {
        let data = c::uverbs_ptr_attr {
            __bindgen_anon_1: c::uverbs_ptr_attr__bindgen_ty_1 { data: sent.data },
            len: sent.len,
            uattr_idx: sent.nth,
            enum_id: sent.choice,
        };
        // SAFETY: The array has an element for each attribute of the method.
        unsafe {
            self.slot(attr.index())
                .cast::<c::uverbs_ptr_attr>()
                .write(data)
        };
    }

    /// Sets an attribute of data that is copied to the kernel.
    ///
    /// # Errors
    ///
    /// `EFAULT`, `ENOMEM`.
    pub fn set_copied(&mut self, attr: &Attr, sent: &Sent) -> Result {
        self.set_data(attr, sent);
        if sent.is_inline() {
            return Ok(());
        }
        let len = usize::from(sent.len);
        let memory = self.command().alloc(len, Gfp(c::GFP_KERNEL))?;
        // SAFETY: The memory is large enough, and valid during the command.
        unsafe {
            if c::copy_from_user(memory, sent.data as usize as *const _, len) != 0 {
                return Err(EFAULT);
            }
            let slot = self.slot(attr.index()).cast::<c::uverbs_ptr_attr>();
            (*slot).__bindgen_anon_1.ptr = memory;
        }
        Ok(())
    }

    /// Sets an attribute of an object: looks it up, or begins a new one and writes its handle to user space.
    ///
    /// # Errors
    ///
    /// As for [`Acquired::get`]; `EFAULT`.
    pub fn set_object(
        &mut self,
        attr: &Attr,
        wanted: ObjectUse,
        sent: &Sent,
        sleep: &MaySleep,
    ) -> Result {
        let (class, access) = (wanted.class, wanted.access);
        let object = Acquired::get(self.command(), class, access, sent.data as i64, sleep)?;
        let id = i64::from(object.uobject().id() as i32);
        let raw = c::uverbs_obj_attr {
            uobject: object.into_raw().as_ptr(),
            attr_elm: core::ptr::from_ref(attr).cast_mut().cast(),
        };
        // SAFETY: The array has an element for each attribute of the method.
        // INVARIANT: The object was just acquired.
        unsafe {
            self.slot(attr.index())
                .cast::<c::uverbs_obj_attr>()
                .write(raw);
            (*self.raw.as_ptr()).uobj_finalize[0] |= bit(attr.index());
        }
        if access != Access::New {
            return Ok(());
        }
        // SAFETY: The address is that of the attribute in user space, which the function checks.
        let left = unsafe {
            let to = (*self.raw.as_ptr())
                .user_attrs
                .wrapping_add(sent.nth.into());
            let to = &raw mut (*to).__bindgen_anon_1.data;
            c::_copy_to_user(to.cast(), (&raw const id).cast(), size_of::<i64>())
        };
        if left != 0 {
            return Err(EFAULT);
        }
        Ok(())
    }

    /// Sets an attribute of a list of objects, which are looked up.
    ///
    /// # Errors
    ///
    /// As for [`Acquired::get`]; `EFAULT`, `ENOMEM`.
    pub fn set_objects(
        &mut self,
        attr: &Attr,
        wanted: ObjectUse,
        sent: &Sent,
        sleep: &MaySleep,
    ) -> Result {
        let ids = sent.read()?;
        let ids = ids.chunks_exact(size_of::<u32>());
        let size = ids.len().saturating_mul(size_of::<usize>());
        let list = self.command().alloc(size, Gfp(c::GFP_KERNEL))?;
        let list = list.cast::<*mut c::ib_uobject>();
        let slot = self.slot(attr.index()).cast::<c::uverbs_objs_arr_attr>();
        // SAFETY: The array has an element for each attribute of the method.
        // INVARIANT: The list has no objects yet.
        unsafe {
            slot.write(c::uverbs_objs_arr_attr {
                uobjects: list,
                len: 0,
            });
            (*self.raw.as_ptr()).spec_finalize[0] |= bit(attr.index());
        }
        for (nth, id) in ids.enumerate() {
            let id = i64::from(u32::from_ne_bytes(id.try_into().map_err(|_| EINVAL)?));
            let object = Acquired::get(self.command(), wanted.class, wanted.access, id, sleep)?;
            // SAFETY: The list has an element for each handle.
            // INVARIANT: The object was just acquired.
            unsafe {
                list.add(nth).write(object.into_raw().as_ptr());
                (*slot).len = (nth as u16).wrapping_add(1);
            }
        }
        Ok(())
    }

    /// Marks the driver's response as valid output in user space, which drivers do not do.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub fn mark_driver_output(&mut self) -> Result {
        let attr = self.command().data(c::UVERBS_ATTR_UHW_OUT as usize);
        attr.map_or(Ok(()), |attr| attr.mark_output())
    }

    /// Sets the driver's `ib_udata` from the attributes.
    pub fn fill_driver_udata(&mut self) {
        let udata = udata(
            self.command(),
            c::UVERBS_ATTR_UHW_IN,
            c::UVERBS_ATTR_UHW_OUT,
        );
        // SAFETY: By the type invariants `raw` is valid, and only `self` uses it.
        unsafe { (*self.raw.as_ptr()).bundle.driver_udata = udata };
    }

    /// Destroys the object of an attribute with [`Access::Destroy`]. Its memory stays until the end of the command.
    ///
    /// # Errors
    ///
    /// As for [`Acquired::destroy`]; `EINVAL` if there is no such attribute.
    pub fn destroy(&mut self, index: u8, sleep: &MaySleep) -> Result {
        let object = self.acquired(index).ok_or(EINVAL)?;
        object.destroy(sleep)
    }

    /// Borrows the object of an attribute from the command.
    fn acquired(&self, index: u8) -> Option<ManuallyDrop<Acquired<'_>>> {
        let (Kind::Idr(wanted) | Kind::Fd(wanted)) = &self.method.attr(index)?.kind else {
            return None;
        };
        // SAFETY: By the type invariants the attribute has an object if the bit is set.
        unsafe {
            if (*self.raw.as_ptr()).uobj_finalize[0] & bit(index) == 0 {
                return None;
            }
            let object = (*self.slot(index)).__bindgen_anon_1.obj_attr.uobject;
            let object = NonNull::new(object)?;
            let object = Acquired::from_raw(self.command(), object, wanted.access);
            Some(ManuallyDrop::new(object))
        }
    }

    /// Puts all objects back: single ones first, then lists, each in the order of their indices.
    fn put_back(&mut self, commit: bool, sleep: &MaySleep) {
        // SAFETY: By the type invariants `raw` is valid, and only `self` uses it.
        let (complete, single, lists) = unsafe {
            let raw = self.raw.as_ptr();
            (
                (*raw).uobj_hw_obj_valid[0],
                (*raw).uobj_finalize[0],
                (*raw).spec_finalize[0],
            )
        };
        for index in indices(single) {
            if let Some(object) = self.acquired(index) {
                let complete = complete & bit(index) != 0;
                ManuallyDrop::into_inner(object).finish(complete, commit, sleep);
            }
        }
        for index in indices(lists) {
            self.put_list_back(index, commit, sleep);
        }
        // SAFETY: By the type invariants `raw` is valid, and only `self` uses it.
        // INVARIANT: The bits are cleared, and the objects are put back below.
        unsafe {
            (*self.raw.as_ptr()).uobj_finalize = [0];
            (*self.raw.as_ptr()).spec_finalize = [0];
        }
    }

    fn put_list_back(&self, index: u8, commit: bool, sleep: &MaySleep) {
        let Some(Kind::Idrs(wanted, _)) = self.method.attr(index).map(|attr| &attr.kind) else {
            return;
        };
        // SAFETY: By the type invariants there is a list if the bit is set, and each of its objects is acquired.
        unsafe {
            if (*self.raw.as_ptr()).spec_finalize[0] & bit(index) == 0 {
                return;
            }
            let list = (*self.slot(index)).__bindgen_anon_1.objs_arr_attr;
            for nth in 0..usize::from(list.len) {
                if let Some(object) = NonNull::new(*list.uobjects.add(nth)) {
                    let object = Acquired::from_raw(self.command(), object, wanted.access);
                    object.finish(false, commit, sleep);
                }
            }
        }
    }
}

impl Drop for Bundle<'_> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants only `self` uses the command, and its allocations are in the list.
        unsafe {
            let mut next = (*self.raw.as_ptr()).allocated_mem;
            while let Some(head) = NonNull::new(next) {
                next = (*head.as_ptr()).__bindgen_anon_1.__bindgen_anon_1.next;
                // `kvfree` does not look at the size.
                KVmalloc::free(head.cast(), core::alloc::Layout::new::<bundle_alloc_head>());
            }
        }
    }
}

fn bit(index: u8) -> usize {
    1_usize.checked_shl(index.into()).unwrap_or(0)
}

/// The indices of the bits that are set, in their order.
fn indices(mut bits: usize) -> impl Iterator<Item = u8> {
    core::iter::from_fn(move || {
        let index = bits.trailing_zeros() as u8;
        let is_set = bits != 0;
        bits &= bits.wrapping_sub(1);
        is_set.then_some(index)
    })
}

/// The `ib_udata` of a request and a response.
fn udata(command: &AttrBundle, request: u32, response: u32) -> ib_udata {
    let mut udata: ib_udata = pin_init::zeroed();
    if let Some((at, len)) = place(command, request, true) {
        (udata.inbuf, udata.inlen) = (at.as_const_ptr(), len);
    }
    if let Some((at, len)) = place(command, response, false) {
        (udata.outbuf, udata.outlen) = (at.as_mut_ptr(), len);
    }
    udata
}

/// The address and the length of data in user space. The address of short data may be that of the attribute itself.
fn place(command: &AttrBundle, id: u32, may_be_inline: bool) -> Option<(UserPtr, usize)> {
    let len = command.size(id).ok()?;
    let index = attr_index(id as u16)?;
    let head = command.as_raw().cast::<u8>();
    let raw = head
        .wrapping_sub(offset_of!(bundle_priv, bundle))
        .cast::<bundle_priv>();
    // SAFETY: An attribute that has a size is data, and a command that has such attributes is one of ioctl.
    let at = unsafe {
        let attrs = (*command.as_raw()).attrs.as_ptr();
        let attr = (*attrs.add(index.into())).__bindgen_anon_1.ptr_attr;
        if may_be_inline && len <= size_of::<u64>() {
            let sent = (*raw).user_attrs.wrapping_add(attr.uattr_idx.into());
            UserPtr::from_ptr((&raw mut (*sent).__bindgen_anon_1).cast())
        } else {
            UserPtr::from_addr(attr.__bindgen_anon_1.data as usize)
        }
    };
    Some((at, len))
}

/// Sets the `ib_udata` of a write command that came through ioctl. Returns the lengths of the request and of the buffer for
/// the response.
pub fn fill_core_udata(command: &AttrBundle, request: u32, response: u32) -> (usize, usize) {
    let udata = udata(command, request, response);
    // SAFETY: Only this thread uses the command, by the type `AttrBundle`.
    unsafe { (*command.as_raw()).__bindgen_anon_1.__bindgen_anon_1.ucore = udata };
    (udata.inlen, udata.outlen)
}
