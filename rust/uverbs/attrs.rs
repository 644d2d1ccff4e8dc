// SPDX-License-Identifier: GPL-2.0

//! Access to the attributes of an ioctl command, for its handler.
//!
//! Each function fails with `ENOENT` if user space did not send the attribute, and with `EINVAL` if the method's table gives it
//! another type.
//!
//! C header: `include/rdma/uverbs_ioctl.h`.

use kernel::prelude::*;
use kernel_ext::entry::{BytesIn, View};
use rdma::core::{command::DataAttr, AttrBundle, Ucontext, Uobject};
use rdma_bindings as c;

use crate::{
    api::{attr_index, Method},
    class::Class,
    definition::Kind,
    lookup::Access,
    new::NewObject,
};

/// Plain data that is copied from and to user space.
///
/// # Safety
///
/// Any bytes are a valid value, and there is no padding: all bytes of a value may be copied to user space.
pub unsafe trait Plain: Copy + Zeroable {}

/// Implements [`Plain`] for structures of `include/uapi/rdma`.
#[macro_export]
macro_rules! plain {
    ($($ty:ty)*) => {$(
        // SAFETY: The type is a number, or a structure of numbers whose padding consists of named members.
        unsafe impl $crate::attrs::Plain for $ty {}
    )*};
}
pub use plain;

plain! {
    u8 u16 u32 u64 usize i32 i64
    c::ib_uverbs_buffer_desc
    c::ib_uverbs_gid_entry
    c::ib_uverbs_query_port_resp_ex
}

/// The attributes of an ioctl command. A write command has none.
pub trait Attributes {
    /// The length that user space sent, or has a buffer for, in bytes.
    fn size(&self, id: u32) -> Result<usize>;

    /// The length in elements of a size; `EINVAL` if it is not a multiple.
    fn array_len(&self, id: u32, element: usize) -> Result<usize>;

    /// A number ([`const_in`](crate::table::Attr::const_in)); `EINVAL` if it does not fit into the type.
    fn number<T: TryFrom<u64>>(&self, id: u32) -> Result<T>;

    /// As [`number`](Self::number), with a default.
    fn number_or<T: TryFrom<u64>>(&self, id: u32, default: T) -> Result<T>;

    /// A set of flags ([`flags_in`](crate::table::Attr::flags_in)); none if user space sent none, `EINVAL` for one that
    /// is not allowed.
    fn flags(&self, id: u32, allowed: u64) -> Result<u64>;

    /// A file descriptor of any file ([`raw_fd`](crate::table::Attr::raw_fd)).
    fn raw_fd(&self, id: u32) -> Result<i32>;

    /// The ID of the structure that user space selected ([`enum_in`](crate::table::Attr::enum_in)).
    fn choice(&self, id: u32) -> Result<u8>;

    /// A structure; if user space sent less, the rest is zero.
    fn structure<T: Plain>(&self, id: u32) -> Result<T>;

    /// As [`structure`](Self::structure), and ignores what user space sent beyond it.
    fn structure_or_more<T: Plain>(&self, id: u32) -> Result<T>;

    /// Data that was copied before the handler ran ([`alloc_and_copy`](crate::table::Attr::alloc_and_copy)).
    fn bytes(&self, id: u32) -> Result<&[u8]>;

    /// The driver's object of a handle that the command looked up.
    fn object<T: Class + View>(&self, id: u32) -> Result<&T>;

    /// The memory of an object, by its handle or file descriptor.
    fn memory<T: Class>(&self, id: u32) -> Result<&T::Memory>;

    /// An object of any class.
    fn uobject(&self, id: u32) -> Result<&Uobject>;

    /// The objects of a list of handles.
    fn uobjects(&self, id: u32) -> Result<&[&Uobject]>;

    /// The object that the command creates. `EINVAL` the second time.
    fn new_object<T: Class>(&self, id: u32) -> Result<NewObject<'_, T>>;

    /// Copies a value to user space, truncated to the length of the buffer.
    fn put<T: Plain>(&self, id: u32, value: &T) -> Result;

    /// As [`put`](Self::put), and succeeds without the attribute.
    fn put_if_wanted<T: Plain>(&self, id: u32, value: &T) -> Result;

    /// As [`put`](Self::put), and clears the rest of a longer buffer.
    fn put_or_zero<T: Plain>(&self, id: u32, value: &T) -> Result;

    /// As [`put`](Self::put), of several values.
    fn put_slice<T: Plain>(&self, id: u32, values: &[T]) -> Result;

    /// Copies elements to user space, where each has `element` bytes: truncated, or followed by zeros.
    fn put_elements<T: Plain>(&self, id: u32, values: &[T], element: usize) -> Result;

    /// The context of the file. `EINVAL` if it has none yet, `EIO` if the device was removed.
    fn ucontext(&self) -> Result<&Ucontext>;
}

/// An attribute that user space sent: its type in the table, and its parsed value.
fn sent(command: &AttrBundle, id: u32) -> Result<(&Kind, &c::uverbs_attr)> {
    let index = attr_index(id as u16).ok_or(ENOENT)?;
    // SAFETY: The dispatch of ioctl sets the member to the method, which is valid during the command; write leaves it null.
    let method = unsafe {
        let head = &(*command.as_raw()).__bindgen_anon_1.__bindgen_anon_1;
        if head.attr_present[0] & 1usize.wrapping_shl(index.into()) == 0 {
            return Err(ENOENT);
        }
        head.method_elm.cast::<Method>().as_ref()
    };
    let attr = method.and_then(|method| method.attr(index)).ok_or(ENOENT)?;
    // SAFETY: The array has an element for each attribute of the method.
    let raw = unsafe { &*(*command.as_raw()).attrs.as_ptr().add(usize::from(index)) };
    Ok((&attr.kind, raw))
}

fn data(command: &AttrBundle, id: u32) -> Result<DataAttr<'_>> {
    match sent(command, id)?.0 {
        Kind::In(_) | Kind::Out(_) | Kind::Enum(_) | Kind::RawFd => {
            command.data(id as usize).ok_or(ENOENT)
        }
        _ => Err(EINVAL),
    }
}

fn object(command: &AttrBundle, id: u32) -> Result<(&Uobject, Access)> {
    let (Kind::Idr(wanted) | Kind::Fd(wanted), raw) = sent(command, id)? else {
        return Err(EINVAL);
    };
    // SAFETY: By the table it is an object, which the dispatch of ioctl keeps during the command.
    let uobject = unsafe { &*raw.__bindgen_anon_1.obj_attr.uobject.cast() };
    Ok((uobject, wanted.access))
}

fn object_of<T: Class>(command: &AttrBundle, id: u32) -> Result<(&Uobject, Access)> {
    let (uobject, access) = object(command, id)?;
    if uobject.api_object().id() != T::ID.into() {
        return Err(EINVAL);
    }
    Ok((uobject, access))
}

impl Attributes for AttrBundle {
    fn size(&self, id: u32) -> Result<usize> {
        Ok(data(self, id)?.len())
    }

    fn array_len(&self, id: u32, element: usize) -> Result<usize> {
        let size = self.size(id)?;
        if size.checked_rem(element) != Some(0) {
            return Err(EINVAL);
        }
        Ok(size / element)
    }

    fn number<T: TryFrom<u64>>(&self, id: u32) -> Result<T> {
        T::try_from(data(self, id)?.word()).map_err(|_| EINVAL)
    }

    fn number_or<T: TryFrom<u64>>(&self, id: u32, default: T) -> Result<T> {
        match self.number(id) {
            Err(error) if error == ENOENT => Ok(default),
            number => number,
        }
    }

    fn flags(&self, id: u32, allowed: u64) -> Result<u64> {
        match data(self, id) {
            Err(error) if error == ENOENT => Ok(0),
            attr => attr?.flags(allowed),
        }
    }

    fn raw_fd(&self, id: u32) -> Result<i32> {
        i32::try_from(data(self, id)?.word() as i64).map_err(|_| EINVAL)
    }

    fn choice(&self, id: u32) -> Result<u8> {
        let (Kind::Enum(_), raw) = sent(self, id)? else {
            return Err(EINVAL);
        };
        // SAFETY: By the table it is data.
        Ok(unsafe { raw.__bindgen_anon_1.ptr_attr }.enum_id)
    }

    fn structure<T: Plain>(&self, id: u32) -> Result<T> {
        data(self, id)?;
        let mut value: T = pin_init::zeroed();
        // SAFETY: By `Plain` any bytes are a valid value.
        unsafe { self.read_plain(id, &mut value)? };
        Ok(value)
    }

    fn structure_or_more<T: Plain>(&self, id: u32) -> Result<T> {
        let attr = data(self, id)?;
        if attr.len() <= size_of::<T>() {
            return self.structure(id);
        }
        let mut value: T = pin_init::zeroed();
        let to = (&raw mut value).cast();
        if attr.len() <= size_of::<u64>() {
            let word = attr.word().to_ne_bytes();
            // SAFETY: The type is smaller than a word, and any bytes are a valid value.
            unsafe { core::ptr::copy_nonoverlapping(word.as_ptr().cast(), to, size_of::<T>()) };
            return Ok(value);
        }
        let from = attr.word() as usize as *const kernel::ffi::c_void;
        // SAFETY: `to` is valid for writes of a `T`; the function checks the user address, and any bytes are a valid value.
        if unsafe { c::copy_from_user(to, from, size_of::<T>()) } != 0 {
            return Err(EFAULT);
        }
        Ok(value)
    }

    fn bytes(&self, id: u32) -> Result<&[u8]> {
        let (kind, raw) = sent(self, id)?;
        // SAFETY: Any bytes are valid numbers; the type of the attribute is checked below.
        let attr = unsafe { &*(&raw const raw.__bindgen_anon_1).cast::<c::uverbs_ptr_attr>() };
        let copied = match kind {
            Kind::In(data) => data.copied,
            Kind::Enum(choices) => choices
                .get(usize::from(attr.enum_id))
                .is_some_and(|choice| choice.is_some_and(|data| data.copied)),
            _ => false,
        };
        if !copied {
            return Err(EINVAL);
        }
        let from = if usize::from(attr.len) <= size_of::<u64>() {
            (&raw const attr.__bindgen_anon_1).cast()
        } else {
            // SAFETY: The dispatch of ioctl has copied the data to memory that is valid during the command.
            unsafe { attr.__bindgen_anon_1.ptr.cast::<u8>() }
        };
        // SAFETY: The dispatch of ioctl has copied the data to memory that is valid during the command.
        Ok(unsafe { core::slice::from_raw_parts(from, attr.len.into()) })
    }

    fn object<T: Class + View>(&self, id: u32) -> Result<&T> {
        let (uobject, access) = object_of::<T>(self, id)?;
        if !matches!(access, Access::Read | Access::Write) {
            return Err(EINVAL);
        }
        // SAFETY: An object that was looked up is not destroyed, so its `object` is a `T`, as its class demands; a view is a
        // transparent wrapper.
        unsafe { uobject.object().cast::<T>().as_ref() }.ok_or(EINVAL)
    }

    fn memory<T: Class>(&self, id: u32) -> Result<&T::Memory> {
        let (uobject, _) = object_of::<T>(self, id)?;
        // SAFETY: The memory of an object of the class begins with the object.
        Ok(unsafe { &*uobject.as_raw().cast() })
    }

    fn uobject(&self, id: u32) -> Result<&Uobject> {
        Ok(object(self, id)?.0)
    }

    fn uobjects(&self, id: u32) -> Result<&[&Uobject]> {
        let (Kind::Idrs(..), raw) = sent(self, id)? else {
            return Err(EINVAL);
        };
        // SAFETY: By the table it is a list of objects, which the dispatch of ioctl keeps during the command; a view is a
        // transparent wrapper.
        Ok(unsafe {
            let list = raw.__bindgen_anon_1.objs_arr_attr;
            core::slice::from_raw_parts(list.uobjects.cast(), list.len.into())
        })
    }

    fn new_object<T: Class>(&self, id: u32) -> Result<NewObject<'_, T>> {
        let (_, raw) = sent(self, id)?;
        let (_, access) = object_of::<T>(self, id)?;
        let raw = core::ptr::from_ref(raw).cast_mut();
        // SAFETY: By the table the attribute is an object. The dispatch of ioctl sets the second member to its table entry; only
        // this thread uses it.
        let asked = unsafe {
            let asked = &raw mut (*raw).__bindgen_anon_1.obj_attr.attr_elm;
            asked.replace(core::ptr::null_mut()).is_null()
        };
        if access != Access::New || asked {
            return Err(EINVAL);
        }
        // SAFETY: By the table the object is new, and the check above makes this the only call for the attribute.
        unsafe { NewObject::of_attr(self, id as u16) }
    }

    fn put<T: Plain>(&self, id: u32, value: &T) -> Result {
        self.put_slice(id, core::slice::from_ref(value))
    }

    fn put_if_wanted<T: Plain>(&self, id: u32, value: &T) -> Result {
        match self.put(id, value) {
            Err(error) if error == ENOENT => Ok(()),
            ret => ret,
        }
    }

    fn put_or_zero<T: Plain>(&self, id: u32, value: &T) -> Result {
        data(self, id)?.clear_after(size_of::<T>())?;
        self.put(id, value)
    }

    fn put_slice<T: Plain>(&self, id: u32, values: &[T]) -> Result {
        data(self, id)?.write(BytesIn::of(values))
    }

    fn put_elements<T: Plain>(&self, id: u32, values: &[T], element: usize) -> Result {
        if element == size_of::<T>() {
            return self.put_slice(id, values);
        }
        let attr = data(self, id)?;
        let to = attr.word() as usize;
        let known = element.min(size_of::<T>());
        for (nth, value) in values.iter().enumerate() {
            let at = to.wrapping_add(nth.wrapping_mul(element));
            // SAFETY: The value is valid for reads; the functions check the user address.
            let left = unsafe {
                match c::copy_to_user(at as *mut _, core::ptr::from_ref(value).cast(), known) {
                    0 => c::clear_user(at.wrapping_add(known) as *mut _, element - known),
                    left => left,
                }
            };
            if left != 0 {
                return Err(EFAULT);
            }
        }
        attr.mark_output()
    }

    fn ucontext(&self) -> Result<&Ucontext> {
        let file = self.file();
        if !file.has_device() {
            return Err(EIO);
        }
        // SAFETY: A command runs inside `disassociate_srcu`, so a file that had its device above keeps its context until the
        // command returns; a view is a transparent wrapper.
        unsafe { file.ucontext().cast::<Ucontext>().as_ref() }.ok_or(EINVAL)
    }
}
