// SPDX-License-Identifier: GPL-2.0

//! Definitions of object classes, methods and attributes, as constant tables (`struct uapi_definition`).
//!
//! The tables have the layout of C, so that [`definition`](super::definition) reads those of C drivers, of Rust drivers and of
//! ib_uverbs alike. A handler is a safe function; its table entry has an `extern "C"` function that calls it.
//!
//! ```
//! # use kernel::prelude::*;
//! # use rdma::{bindings as c, core::AttrBundle, MaySleep};
//! # use rdma_uverbs::table::{structure, Attr, Definition, Method, Object};
//! fn query_port(attrs: &AttrBundle, _sleep: &MaySleep) -> Result {
//!     # let _ = attrs;
//!     Ok(())
//! }
//!
//! static QUERY_PORT: Method = Method::new(
//!     c::UVERBS_METHOD_QUERY_PORT,
//!     query_port,
//!     &[
//!         &Attr::const_in(c::UVERBS_ATTR_QUERY_PORT_PORT_NUM).mandatory(),
//!         &Attr::ptr_out(
//!             c::UVERBS_ATTR_QUERY_PORT_RESP,
//!             structure!(c::ib_uverbs_query_port_resp_ex, active_speed_ex),
//!         )
//!         .mandatory(),
//!     ],
//! );
//! static DEVICE: Object = Object::global(c::UVERBS_OBJECT_DEVICE, &[&QUERY_PORT]);
//! pub static DEFINITIONS: [Definition; 2] = [Definition::tree(&DEVICE), Definition::END];
//! ```
//!
//! A class of objects with handles has a type, with their size and the function that destroys them:
//!
//! ```
//! # use kernel::prelude::*;
//! # use rdma::{
//! #     bindings as c,
//! #     core::{AttrBundle, Pd},
//! #     MaySleep,
//! # };
//! # use rdma_uverbs::{destroy, table::{Attr, IdrType, Method, Object}};
//! static TYPE: IdrType = IdrType::new::<Pd, _>(destroy::pd);
//! static DESTROY: Method = Method::destroy(
//!     c::UVERBS_METHOD_PD_DESTROY,
//!     &[&Attr::destroyed(c::UVERBS_ATTR_DESTROY_PD_HANDLE, c::UVERBS_OBJECT_PD)],
//! );
//! static PD: Object = Object::idr(c::UVERBS_OBJECT_PD, &TYPE, &[&DESTROY]);
//! ```
//!
//! C headers: `include/rdma/uverbs_ioctl.h`, `include/rdma/uverbs_named_ioctl.h`.

use core::{marker::PhantomData, ptr::NonNull};

use kernel::{ffi::c_int, prelude::*};
use kernel_ext::{
    entry::{FromC, IntoC},
    export::Exported,
    file_ops::{self, FileOps},
};
use rdma::{
    core::{uobject::RemoveReason, AttrBundle},
    MaySleep,
};
use rdma_bindings::{
    self as c, file_operations, ib_uobject, rdma_remove_reason, uapi_definition,
    uverbs_attr_bundle, uverbs_attr_def, uverbs_attr_spec, uverbs_method_def, uverbs_obj_fd_type,
    uverbs_obj_idr_type, uverbs_obj_type, uverbs_object_def,
};

use crate::class::{Class, Destroying};
pub use crate::lookup::Access;

/// The length of an attribute's data, in bytes.
#[derive(Clone, Copy)]
pub struct Size {
    min: u16,
    len: u16,
    zero_trailing: bool,
}

/// The [`Size`] of a structure that may be shorter or longer in user space (`UVERBS_ATTR_STRUCT`): it has the named member at
/// least, and is zero beyond the kernel's structure.
#[macro_export]
macro_rules! structure {
    ($ty:ty, $last:ident) => {
        $crate::table::Size::upto::<$ty, _>(::core::mem::offset_of!($ty, $last), |whole| {
            &whole.$last
        })
    };
}
pub use structure;

impl Size {
    /// No data.
    pub const NONE: Self = Self::between(0, 0);

    /// The size of a type (`UVERBS_ATTR_TYPE`).
    pub const fn of<T>() -> Self {
        Self::between(size_of::<T>(), size_of::<T>())
    }

    /// A shortest length (`UVERBS_ATTR_MIN_SIZE`).
    pub const fn at_least(min: usize) -> Self {
        Self::between(min, u16::MAX as usize)
    }

    /// A shortest and a longest length.
    pub const fn between(min: usize, len: usize) -> Self {
        assert!(min <= len && len <= u16::MAX as usize);
        Self {
            min: min as u16,
            len: len as u16,
            zero_trailing: false,
        }
    }

    /// For [`structure!`].
    #[doc(hidden)]
    pub const fn upto<T, F>(offset: usize, _member: fn(&T) -> &F) -> Self {
        let mut size = Self::between(offset + size_of::<F>(), size_of::<T>());
        size.zero_trailing = true;
        size
    }
}

// The bit-fields of `struct uverbs_attr_spec`, from the lowest bit.
const ZERO_TRAILING: u8 = 1 << 0;
const ALLOC_AND_COPY: u8 = 1 << 1;
const MANDATORY: u8 = 1 << 2;
const IS_UDATA: u8 = 1 << 3;

/// An element of an attribute that selects among several structures: `UVERBS_ATTR_ENUM_IN`.
#[repr(transparent)]
pub struct EnumElement(uverbs_attr_spec);

// SAFETY: The data is constant.
unsafe impl Sync for EnumElement {}

impl EnumElement {
    /// An ID that is not used.
    pub const NONE: Self = Self(pin_init::zeroed());

    /// Data from user space.
    pub const fn ptr_in(size: Size) -> Self {
        Self(Attr::ptr(0, c::UVERBS_ATTR_TYPE_PTR_IN, size).0.attr)
    }
}

/// An attribute of a method: optional, unless it is [`mandatory`](Self::mandatory).
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Attr(uverbs_attr_def);

// SAFETY: The data is constant.
unsafe impl Sync for Attr {}

impl Attr {
    /// The driver's part of the request.
    pub const UHW_IN: Self = Self::udata(c::UVERBS_ATTR_UHW_IN, c::UVERBS_ATTR_TYPE_PTR_IN);

    /// The driver's part of the response.
    pub const UHW_OUT: Self = Self::udata(c::UVERBS_ATTR_UHW_OUT, c::UVERBS_ATTR_TYPE_PTR_OUT);

    /// Data from user space.
    pub const fn ptr_in(id: u32, size: Size) -> Self {
        Self::ptr(id, c::UVERBS_ATTR_TYPE_PTR_IN, size)
    }

    /// Data for user space.
    pub const fn ptr_out(id: u32, size: Size) -> Self {
        Self::ptr(id, c::UVERBS_ATTR_TYPE_PTR_OUT, size)
    }

    /// A number of 8 bytes.
    pub const fn const_in(id: u32) -> Self {
        Self::ptr_in(id, Size::of::<u64>())
    }

    /// A set of flags, of 4 or 8 bytes.
    pub const fn flags_in(id: u32) -> Self {
        Self::ptr_in(id, Size::between(size_of::<u32>(), size_of::<u64>()))
    }

    /// A description of a buffer: `struct ib_uverbs_buffer_desc`.
    pub const fn umem(id: u32) -> Self {
        Self::ptr_in(id, Size::of::<c::ib_uverbs_buffer_desc>())
    }

    /// Data from user space that is one of several structures; user space sends the ID of one.
    pub const fn enum_in(id: u32, choices: &'static [EnumElement]) -> Self {
        assert!(choices.len() <= u8::MAX as usize);
        let mut attr = Self::new(id, c::UVERBS_ATTR_TYPE_ENUM_IN);
        attr.0.attr.u.enum_def.num_elems = choices.len() as u8;
        attr.0.attr.u2.enum_def.ids = choices.as_ptr().cast();
        attr
    }

    /// A handle of an object.
    pub const fn idr(id: u32, object: u32, access: Access) -> Self {
        Self::object(id, c::UVERBS_ATTR_TYPE_IDR, object, access)
    }

    /// The handle of the object that a method destroys, for [`Method::destroy`].
    pub const fn destroyed(id: u32, object: u32) -> Self {
        Self::idr(id, object, Access::Destroy).mandatory()
    }

    /// A file descriptor of an object.
    pub const fn fd(id: u32, object: u32, access: Access) -> Self {
        assert!(matches!(access, Access::New | Access::Read));
        Self::object(id, c::UVERBS_ATTR_TYPE_FD, object, access)
    }

    /// A file descriptor of any file.
    pub const fn raw_fd(id: u32) -> Self {
        Self::new(id, c::UVERBS_ATTR_TYPE_RAW_FD)
    }

    /// Makes the attribute mandatory.
    pub const fn mandatory(self) -> Self {
        self.flag(MANDATORY)
    }

    /// Lets the dispatch copy the data to the kernel before the handler runs.
    pub const fn alloc_and_copy(self) -> Self {
        self.flag(ALLOC_AND_COPY)
    }

    const fn new(id: u32, kind: u32) -> Self {
        assert!(id <= u16::MAX as u32);
        let mut attr: uverbs_attr_def = pin_init::zeroed();
        attr.id = id as u16;
        attr.attr.type_ = kind as u8;
        Self(attr)
    }

    const fn flag(mut self, bit: u8) -> Self {
        type Bits = c::__BindgenBitfieldUnit<[u8; 1]>;
        // SAFETY: The bits are one byte.
        unsafe {
            let [bits] = core::mem::transmute::<Bits, [u8; 1]>(self.0.attr._bitfield_1);
            self.0.attr._bitfield_1 = core::mem::transmute::<[u8; 1], Bits>([bits | bit]);
        }
        self
    }

    const fn ptr(id: u32, kind: u32, size: Size) -> Self {
        let mut attr = Self::new(id, kind);
        attr.0.attr.u.ptr = c::uverbs_attr_spec__bindgen_ty_1__bindgen_ty_1 {
            len: size.len,
            min_len: size.min,
        };
        if size.zero_trailing {
            attr.flag(ZERO_TRAILING)
        } else {
            attr
        }
    }

    const fn udata(id: u32, kind: u32) -> Self {
        Self::ptr(id, kind, Size::at_least(0)).flag(IS_UDATA)
    }

    const fn object(id: u32, kind: u32, object: u32, access: Access) -> Self {
        assert!(object <= u16::MAX as u32);
        let mut attr = Self::new(id, kind);
        attr.0.attr.u.obj = c::uverbs_attr_spec__bindgen_ty_1__bindgen_ty_2 {
            obj_type: object as u16,
            access: access as u8,
        };
        attr
    }
}

/// A function that handles an ioctl method or a write command.
pub trait Handler: Fn(&AttrBundle, &MaySleep) -> Result + Copy + 'static {}
impl<F: Fn(&AttrBundle, &MaySleep) -> Result + Copy + 'static> Handler for F {}

/// A function that destroys objects of a class. If user space requests the destruction it may fail, and leave the object
/// unchanged.
pub trait Destroy<T: Class>:
    Fn(Destroying<'_, T>, RemoveReason, &AttrBundle, &MaySleep) -> Result + Copy + 'static
{
}
impl<T: Class, F> Destroy<T> for F where
    F: Fn(Destroying<'_, T>, RemoveReason, &AttrBundle, &MaySleep) -> Result + Copy + 'static
{
}

/// A function that is called when the file of an object is closed, or its device is removed.
pub trait Detach<T: Class>: Fn(&T::Memory, RemoveReason, &MaySleep) + Copy + 'static {}
impl<T: Class, F: Fn(&T::Memory, RemoveReason, &MaySleep) + Copy + 'static> Detach<T> for F {}

/// A function that is called last when the file of an object is closed; its device may be removed by then.
pub trait Release<T: Class>: Fn(&T::Memory, &MaySleep) + Copy + 'static {}
impl<T: Class, F: Fn(&T::Memory, &MaySleep) + Copy + 'static> Release<T> for F {}

/// The value of a function's type, whose size is zero.
const fn function<F: Copy>() -> F {
    const { assert!(size_of::<F>() == 0) };
    // SAFETY: The type has size zero, and a function's type has exactly one value.
    unsafe { NonNull::<F>::dangling().read() }
}

/// # Safety
///
/// The dispatch of a command calls it, as `handler` of a method or `func_write` of a command.
unsafe extern "C" fn handler_door<H: Handler>(attrs: *mut uverbs_attr_bundle) -> c_int {
    // SAFETY: The dispatch of commands calls handlers in process context, with a command that is valid during the call.
    let (command, sleep) = unsafe { (&*attrs.cast::<AttrBundle>(), MaySleep::assume()) };
    function::<H>()(command, &sleep).into_c()
}

/// # Safety
///
/// ib_uverbs_support calls it, as `destroy_object` of a type whose objects are of the class.
unsafe extern "C" fn destroy_door<T: Class, D: Destroy<T>>(
    uobj: *mut ib_uobject,
    why: rdma_remove_reason,
    attrs: *mut uverbs_attr_bundle,
) -> c_int {
    // SAFETY: ib_uverbs_support calls it in process context, with a command and an object of the type, which is complete and
    // locked for writing.
    let (object, reason, command, sleep) = unsafe {
        (
            Destroying::<T>::new(&*uobj.cast::<T::Memory>()),
            RemoveReason::from_c(why),
            &*attrs.cast::<AttrBundle>(),
            MaySleep::assume(),
        )
    };
    function::<D>()(object, reason, command, &sleep).into_c()
}

/// # Safety
///
/// ib_uverbs_support calls it, as `destroy_object` of a type of files of the class.
unsafe extern "C" fn detach_door<T: Class, D: Detach<T>>(
    uobj: *mut ib_uobject,
    why: rdma_remove_reason,
) {
    // SAFETY: ib_uverbs_support calls it once for an object, in process context, with one of the type, which is complete and
    // locked for writing.
    let (object, reason, sleep) = unsafe {
        (
            &*uobj.cast::<T::Memory>(),
            RemoveReason::from_c(why),
            MaySleep::assume(),
        )
    };
    // SAFETY: ib_uverbs_support calls it once for an object, in process context, with one of the type, which is complete and
    // locked for writing.
    T::detach(unsafe { Destroying::new(object) }, reason, &sleep);
    function::<D>()(object, reason, &sleep);
}

/// # Safety
///
/// ib_uverbs_support calls it, as `release_cleanup` of a type of files of the class.
unsafe extern "C" fn release_door<T: Class, R: Release<T>>(uobj: *mut ib_uobject) {
    // SAFETY: ib_uverbs_support calls it in process context, with an object of the type that is valid during the call.
    let (object, sleep) = unsafe { (&*uobj.cast::<T::Memory>(), MaySleep::assume()) };
    function::<R>()(object, &sleep);
}

/// An ioctl method: `struct uverbs_method_def`.
#[repr(transparent)]
pub struct Method(uverbs_method_def);

// SAFETY: The data is constant.
unsafe impl Sync for Method {}

impl Method {
    /// A method with its handler, which is called after all attributes are checked.
    pub const fn new<H: Handler>(id: u32, _handler: H, attrs: &'static [&'static Attr]) -> Self {
        Self::with_door(id, handler_door::<H>, attrs)
    }

    /// A method that only destroys an object: its attribute is [`Attr::destroyed`].
    pub const fn destroy(id: u32, attrs: &'static [&'static Attr; 1]) -> Self {
        Self::with_door(id, c::uverbs_destroy_def_handler, attrs)
    }

    const fn with_door(
        id: u32,
        entry: unsafe extern "C" fn(*mut uverbs_attr_bundle) -> c_int,
        attrs: &'static [&'static Attr],
    ) -> Self {
        assert!(id <= u16::MAX as u32);
        Self(uverbs_method_def {
            id: id as u16,
            flags: 0,
            num_attrs: attrs.len(),
            attrs: attrs.as_ptr().cast(),
            handler: Some(entry),
        })
    }
}

/// A type of objects with handles: `struct uverbs_obj_idr_type`.
#[repr(transparent)]
pub struct IdrType(uverbs_obj_idr_type);

// SAFETY: The data is constant.
unsafe impl Sync for IdrType {}

impl IdrType {
    /// The objects of a class, and the function that destroys them.
    pub const fn new<T: Class, D: Destroy<T>>(_destroy: D) -> Self {
        const { assert!(!T::IS_FILE) };
        Self(uverbs_obj_idr_type {
            type_: uverbs_obj_type {
                type_class: &raw const c::uverbs_idr_class,
                obj_size: size_of::<T::Memory>(),
            },
            destroy_object: Some(destroy_door::<T, D>),
        })
    }

    /// The common part of all types.
    #[cfg(CONFIG_KUNIT = "y")]
    pub(crate) fn as_type(&'static self) -> *const uverbs_obj_type {
        &raw const self.0.type_
    }
}

/// A type of objects with file descriptors: `struct uverbs_obj_fd_type`.
#[repr(transparent)]
pub struct FdType(uverbs_obj_fd_type);

// SAFETY: The data is constant.
unsafe impl Sync for FdType {}

impl FdType {
    /// Files of a class, whose name in `/proc/PID/fd` is `name`, opened with `flags` (`O_RDONLY`).
    pub const fn new<T: Class, D: Detach<T>>(
        _detach: D,
        operations: &'static ObjectFileOps<T>,
        name: &'static CStr,
        flags: u32,
    ) -> Self {
        let mut this = Self::with_detach::<T, D>(flags);
        this.0.fops = &raw const operations.table.0;
        this.0.name = kernel::str::as_char_ptr_in_const_context(name);
        this
    }

    /// As [`new`](Self::new), with a function that is called last when the file is closed.
    pub const fn with_release<T: Class, D: Detach<T>, R: Release<T>>(
        detach: D,
        _release: R,
        operations: &'static ObjectFileOps<T>,
        name: &'static CStr,
        flags: u32,
    ) -> Self {
        let mut this = Self::new::<T, D>(detach, operations, name, flags);
        this.0.release_cleanup = Some(release_door::<T, R>);
        this
    }

    /// Objects whose file the creating method makes.
    pub const fn without_operations<T: Class>(flags: u32) -> Self {
        const fn detach_of<T: Class, D: Detach<T>>(_detach: D, flags: u32) -> FdType {
            FdType::with_detach::<T, D>(flags)
        }
        detach_of::<T, _>(|_: &T::Memory, _: RemoveReason, _: &MaySleep| {}, flags)
    }

    const fn with_detach<T: Class, D: Detach<T>>(flags: u32) -> Self {
        const { assert!(T::IS_FILE) };
        Self(uverbs_obj_fd_type {
            type_: uverbs_obj_type {
                type_class: &raw const c::uverbs_fd_class,
                obj_size: size_of::<T::Memory>(),
            },
            destroy_object: Some(detach_door::<T, D>),
            release_cleanup: None,
            fops: core::ptr::null(),
            name: core::ptr::null(),
            flags: flags as c_int,
        })
    }
}

/// The `struct file_operations` of the files of a class: a `static`. Each class needs its own table, whose address identifies
/// file descriptors of the class.
pub struct ObjectFileOps<T: Class> {
    table: Exported<file_operations>,
    _class: PhantomData<fn() -> T>,
}

impl<T: Class> ObjectFileOps<T> {
    /// The operations `F`, which have neither `open` nor `release`; their code is in `owner`.
    pub const fn new<F: FileOps<Private = T::Memory>>(owner: &ThisModule) -> Self {
        const { assert!(!F::HAS_OPEN && !F::HAS_RELEASE) };
        // SAFETY: `FdType` gives the table to files of objects of the class alone: ib_uverbs_support sets their private data to
        // the object before they have a descriptor, with a reference that `uverbs_uobject_fd_release` drops.
        let table = unsafe { file_ops::table::<F>(owner, Some(c::uverbs_uobject_fd_release)) };
        Self {
            table,
            _class: PhantomData,
        }
    }
}

/// An object class: `struct uverbs_object_def`.
#[repr(transparent)]
pub struct Object(uverbs_object_def);

// SAFETY: The data is constant.
unsafe impl Sync for Object {}

impl Object {
    /// A class of methods without objects.
    pub const fn global(id: u32, methods: &'static [&'static Method]) -> Self {
        Self::new(id, core::ptr::null(), methods)
    }

    /// A class of objects with handles.
    pub const fn idr(
        id: u32,
        idr_type: &'static IdrType,
        methods: &'static [&'static Method],
    ) -> Self {
        Self::new(id, &raw const idr_type.0.type_, methods)
    }

    /// A class of objects with file descriptors.
    pub const fn fd(
        id: u32,
        fd_type: &'static FdType,
        methods: &'static [&'static Method],
    ) -> Self {
        Self::new(id, &raw const fd_type.0.type_, methods)
    }

    const fn new(
        id: u32,
        type_attrs: *const uverbs_obj_type,
        methods: &'static [&'static Method],
    ) -> Self {
        assert!(id <= u16::MAX as u32);
        Self(uverbs_object_def {
            id: id as u16,
            type_attrs,
            num_methods: methods.len(),
            methods: methods.as_ptr().cast(),
        })
    }
}

/// The lengths of a write command, in bytes.
#[derive(Clone, Copy)]
pub struct WriteSizes {
    /// The request, without the driver's part.
    pub request: u8,
    /// The response, without the driver's part.
    pub response: u8,
    /// Whether there is a response, whose address the request begins with.
    pub has_response: bool,
    /// Whether request and response have a part of the driver.
    pub has_udata: bool,
}

/// An entry of a list of definitions, which ends with [`END`](Self::END).
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Definition(uapi_definition);

// SAFETY: The data is constant.
unsafe impl Sync for Definition {}

impl Definition {
    /// The end of the list.
    pub const END: Self = Self::new(c::UAPI_DEF_END, 0);

    /// An object class with its methods. Conditions may follow.
    pub const fn tree(object: &'static Object) -> Self {
        let mut this = Self::new(c::UAPI_DEF_CHAIN_OBJ_TREE, 0);
        this.0.__bindgen_anon_1.object_start.object_id = object.0.id;
        this.0.__bindgen_anon_2.chain_obj_tree = &raw const object.0;
        this
    }

    /// The entries of another list.
    pub const fn chain(list: &'static [Definition]) -> Self {
        assert!(
            matches!(list, [.., last] if last.0.kind as u32 == c::UAPI_DEF_END),
            "the list has no end"
        );
        let mut this = Self::new(c::UAPI_DEF_CHAIN, 0);
        this.0.__bindgen_anon_2.chain = list.as_ptr().cast();
        this
    }

    /// The entries that follow belong to an object class.
    pub const fn object_start(object: u32) -> Self {
        let mut this = Self::new(c::UAPI_DEF_OBJECT_START, 0);
        this.0.__bindgen_anon_1.object_start.object_id = object as u16;
        this
    }

    /// A write command.
    pub const fn write<H: Handler>(number: u32, _handler: H, sizes: WriteSizes) -> Self {
        Self::command(number, handler_door::<H>, sizes, false)
    }

    /// An extended write command, which checks lengths itself.
    pub const fn write_ex<H: Handler>(number: u32, _handler: H) -> Self {
        let sizes = WriteSizes {
            request: 0,
            response: 0,
            has_response: false,
            has_udata: false,
        };
        Self::command(number, handler_door::<H>, sizes, true)
    }

    /// A condition: the preceding object class requires the driver's method at this offset in `struct ib_device_ops`.
    pub const fn object_needs(offset: usize) -> Self {
        Self::needs(c::UAPI_SCOPE_OBJECT, offset)
    }

    /// A condition: the preceding method or command requires the driver's method at this offset in `struct ib_device_ops`.
    pub const fn method_needs(offset: usize) -> Self {
        Self::needs(c::UAPI_SCOPE_METHOD, offset)
    }

    pub(crate) fn as_raw(&self) -> &uapi_definition {
        &self.0
    }

    const fn new(kind: u32, scope: u32) -> Self {
        let mut raw: uapi_definition = pin_init::zeroed();
        raw.kind = kind as u8;
        raw.scope = scope as u8;
        Self(raw)
    }

    const fn needs(scope: u32, offset: usize) -> Self {
        assert!(offset + size_of::<usize>() <= size_of::<c::ib_device_ops>());
        let mut this = Self::new(c::UAPI_DEF_IS_SUPPORTED_DEV_FN, scope);
        this.0.__bindgen_anon_2.needs_fn_offset = offset;
        this
    }

    const fn command(
        number: u32,
        entry: unsafe extern "C" fn(*mut uverbs_attr_bundle) -> c_int,
        sizes: WriteSizes,
        extended: bool,
    ) -> Self {
        assert!(number < c::UVERBS_API_WRITE_KEY_NUM);
        let bits = extended as u8 | (sizes.has_udata as u8) << 1 | (sizes.has_response as u8) << 2;
        let mut this = Self::new(c::UAPI_DEF_WRITE, c::UAPI_SCOPE_OBJECT);
        this.0.__bindgen_anon_1.write = c::uapi_definition__bindgen_ty_1__bindgen_ty_2 {
            command_num: number as u16,
            _bitfield_align_1: [],
            _bitfield_1: c::__BindgenBitfieldUnit::new([bits]),
            req_size: sizes.request,
            resp_size: sizes.response,
        };
        this.0.__bindgen_anon_2.func_write = Some(entry);
        this
    }
}
