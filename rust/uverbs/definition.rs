// SPDX-License-Identifier: GPL-2.0

//! Reading of uverbs definitions (`struct uapi_definition`): those of [`table`](super::table), and those of C drivers, which have
//! the same layout.
//!
//! A table is constant; that of a driver is valid until the driver's device is unregistered. The API of a device has copies.
//!
//! C header: `include/rdma/uverbs_ioctl.h`.

use core::{marker::PhantomData, ops::RangeInclusive, ptr::NonNull};

use kernel::{error::to_result, ffi::c_int, prelude::*};
use rdma::{
    core::{device::Registered, AttrBundle, Device},
    MaySleep,
};
use rdma_bindings::{
    self as c, ib_device_ops, uapi_definition, uverbs_attr_bundle, uverbs_attr_def,
    uverbs_attr_spec, uverbs_method_def, uverbs_obj_fd_type, uverbs_obj_type, uverbs_object_def,
};

use super::table::{Access, Definition};

/// A list of definitions.
///
/// # Invariants
///
/// `next` is null, or an entry of a list that ends with `UAPI_DEF_END` and is constant for `'a`. It is of ib_uverbs, or of the
/// driver of `device`.
#[derive(Clone, Copy)]
pub struct Definitions<'a> {
    next: *const uapi_definition,
    device: &'a Device,
    _list: PhantomData<&'a uapi_definition>,
}

impl<'a> Definitions<'a> {
    /// A list from a [`table`](super::table), to be read for a device; it may be empty.
    pub fn of(list: &'static [Definition], device: &'a Registered) -> Self {
        let root = Definition::chain(list);
        // SAFETY: `chain` has set the member, and has checked that the list has an end.
        let next = unsafe { root.as_raw().__bindgen_anon_2.chain };
        // INVARIANT: The list is a `static` that ends with `UAPI_DEF_END`.
        Self {
            next,
            device,
            _list: PhantomData,
        }
    }

    /// The definitions of a device's driver (`driver_def`).
    pub fn of_driver(device: &'a Registered) -> Self {
        // INVARIANT: The driver has set the member before it registered the device, or it is null. A device stays registered as
        // long as a `Registered`.
        Self {
            // SAFETY: The member is constant while the device is registered.
            next: unsafe { (*device.as_raw()).driver_def },
            device,
            _list: PhantomData,
        }
    }
}

/// What a [`Condition`] applies to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The object class that precedes the condition.
    Object,
    /// The method or command that precedes the condition.
    Method,
}

/// A condition that the device of a list must meet.
///
/// # Invariants
///
/// The definition is of ib_uverbs, or of the driver of the device.
#[derive(Clone, Copy)]
pub struct Condition<'a>(&'a uapi_definition, &'a Device);

impl Condition<'_> {
    /// Whether the device meets it.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an offset that is not one of a member of `struct ib_device_ops`.
    pub fn is_met(self, _sleep: &MaySleep) -> Result<bool> {
        let Self(raw, device) = self;
        let what = &raw.__bindgen_anon_2;
        if u32::from(raw.kind) == c::UAPI_DEF_IS_SUPPORTED_FUNC {
            // SAFETY: The kind of the entry selects the member of the union.
            let function = unsafe { what.func_is_supported };
            // SAFETY: By the type invariants the function takes the device.
            return Ok(function.is_none_or(|is_supported| unsafe { is_supported(device.as_raw()) }));
        }
        // SAFETY: The kind of the entry selects the member of the union.
        let offset = unsafe { what.needs_fn_offset };
        has_method(device, offset).ok_or(EINVAL)
    }
}

/// Whether the pointer at an offset of a device's `struct ib_device_ops` is set. `None` for an offset at which there is no
/// pointer.
fn has_method(device: &Device, offset: usize) -> Option<bool> {
    let last = size_of::<ib_device_ops>() - size_of::<*const ()>();
    if offset > last || offset % align_of::<*const ()>() != 0 {
        return None;
    }
    // SAFETY: The offset is aligned, and a pointer there lies in the structure, which is initialised and constant while the
    // device is registered.
    let member = unsafe {
        let ops = (&raw const (*device.as_raw()).ops).cast::<u8>();
        ops.add(offset).cast::<*const ()>().read()
    };
    Some(!member.is_null())
}

/// An entry of a list.
pub enum Entry<'a> {
    /// The entries of another list.
    Chain(Definitions<'a>),
    /// An object class with its methods.
    Object(ObjectTable<'a>),
    /// The entries that follow belong to the object class of this ID.
    ObjectStart(u16),
    /// A write command.
    Write(WriteMethod),
    /// A condition that the device must meet.
    Needs(Scope, Condition<'a>),
    /// An unknown entry.
    Invalid,
}

impl<'a> Iterator for Definitions<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        // SAFETY: By the type invariants `next` is null or a valid entry.
        let raw = unsafe { self.next.as_ref() }?;
        let kind = u32::from(raw.kind);
        if kind == c::UAPI_DEF_END {
            return None;
        }
        // INVARIANT: The entry was not the last one.
        self.next = self.next.wrapping_add(1);
        // SAFETY: The kind of the entry selects the members of the unions, and their targets are constant too.
        Some(unsafe {
            match kind {
                c::UAPI_DEF_CHAIN => Entry::Chain(Definitions {
                    next: raw.__bindgen_anon_2.chain,
                    device: self.device,
                    _list: PhantomData,
                }),
                c::UAPI_DEF_CHAIN_OBJ_TREE => raw
                    .__bindgen_anon_2
                    .chain_obj_tree
                    .as_ref()
                    .map_or(Entry::Invalid, |object| Entry::Object(ObjectTable(object))),
                c::UAPI_DEF_OBJECT_START => {
                    Entry::ObjectStart(raw.__bindgen_anon_1.object_start.object_id)
                }
                c::UAPI_DEF_WRITE => Entry::Write(WriteMethod::new(raw)),
                c::UAPI_DEF_IS_SUPPORTED_FUNC | c::UAPI_DEF_IS_SUPPORTED_DEV_FN => {
                    match u32::from(raw.scope) {
                        c::UAPI_SCOPE_OBJECT => {
                            Entry::Needs(Scope::Object, Condition(raw, self.device))
                        }
                        c::UAPI_SCOPE_METHOD => {
                            Entry::Needs(Scope::Method, Condition(raw, self.device))
                        }
                        _ => Entry::Invalid,
                    }
                }
                _ => Entry::Invalid,
            }
        })
    }
}

/// A handler: `handler` of a method, or `func_write` of a command.
pub type RawHandler = unsafe extern "C" fn(*mut uverbs_attr_bundle) -> c_int;

/// A write command.
#[derive(Clone, Copy)]
pub struct WriteMethod {
    /// The command number.
    pub number: u16,
    /// Whether it is an extended one.
    pub is_ex: bool,
    /// Whether request and response have a part of the driver.
    pub has_udata: bool,
    /// Whether the request begins with the address of the response.
    pub has_resp: bool,
    /// The size of the request.
    pub req_size: u8,
    /// The size of the response.
    pub resp_size: u8,
    handler: Option<RawHandler>,
}

impl WriteMethod {
    /// A command that is not supported.
    pub const NOT_SUPPORTED: Self = Self {
        number: 0,
        is_ex: false,
        has_udata: false,
        has_resp: false,
        req_size: 0,
        resp_size: 0,
        handler: None,
    };

    /// # Safety
    ///
    /// `raw` is a definition of a command.
    unsafe fn new(raw: &uapi_definition) -> Self {
        // SAFETY: By the safety requirements.
        let (write, handler) =
            unsafe { (&raw.__bindgen_anon_1.write, raw.__bindgen_anon_2.func_write) };
        let mut this = Self {
            number: write.command_num,
            is_ex: write.is_ex() != 0,
            handler,
            ..Self::NOT_SUPPORTED
        };
        // Extended commands check sizes themselves.
        if !this.is_ex && handler.is_some() {
            this.has_udata = write.has_udata() != 0;
            this.has_resp = write.has_resp() != 0;
            this.req_size = write.req_size;
            this.resp_size = write.resp_size;
        }
        this
    }

    /// Whether a device supports the command. For commands that are not extended this is a bit of `uverbs_cmd_mask`.
    pub fn is_offered(&self, device: &Device) -> bool {
        // SAFETY: The member is constant while the device is registered.
        let offered = unsafe { (*device.as_raw()).uverbs_cmd_mask };
        self.is_ex || offered.checked_shr(self.number.into()).unwrap_or(0) & 1 != 0
    }

    /// Calls the handler.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if it is not supported, and those of the handler.
    ///
    /// # Safety
    ///
    /// The command is of a file of the device whose API has the method, and `disassociate_srcu` of that device is held.
    pub unsafe fn call(&self, bundle: &AttrBundle, _sleep: &MaySleep) -> Result {
        let handler = self.handler.ok_or(kernel_ext::error::EOPNOTSUPP)?;
        // SAFETY: By the safety requirements the handler is valid; it takes any command of its file.
        to_result(unsafe { handler(bundle.as_raw()) })
    }
}

/// The type of an object class: `struct uverbs_obj_type`.
///
/// # Invariants
///
/// The structure is constant for `'a`. That of a file is the first member of a `struct uverbs_obj_fd_type`.
#[derive(Clone, Copy)]
pub struct ObjectType<'a>(NonNull<uverbs_obj_type>, PhantomData<&'a uverbs_obj_type>);

impl ObjectType<'_> {
    /// C's pointer.
    pub(crate) fn as_raw(self) -> *const uverbs_obj_type {
        self.0.as_ptr()
    }

    /// The type's class: `struct uverbs_obj_type_class`.
    pub(crate) fn class(self) -> *const c::uverbs_obj_type_class {
        // SAFETY: By the type invariants.
        unsafe { self.0.as_ref() }.type_class
    }

    /// Whether the objects have handles.
    pub fn is_idr(self) -> bool {
        core::ptr::eq(self.class(), &raw const c::uverbs_idr_class)
    }

    /// Whether the objects are files.
    pub fn is_fd(self) -> bool {
        core::ptr::eq(self.class(), &raw const c::uverbs_fd_class)
    }

    /// Whether the type is used after the device is removed, by files whose operations hold a reference to its module.
    pub fn outlives_device(self) -> bool {
        if !self.is_fd() {
            return false;
        }
        // SAFETY: By the type invariants.
        let file = unsafe { self.0.cast::<uverbs_obj_fd_type>().as_ref() };
        file.release_cleanup.is_some()
    }
}

/// A list of pointers, some of which may be null.
///
/// # Invariants
///
/// There are `left` pointers at `next`. They and their targets are constant for `'a`.
struct Pointers<'a, T> {
    next: *const *const T,
    left: usize,
    _list: PhantomData<&'a T>,
}

impl<'a, T> Iterator for Pointers<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        while self.left > 0 {
            // SAFETY: By the type invariants `next` is a valid pointer if `left` is not 0.
            let item = unsafe { self.next.read().as_ref() };
            self.left -= 1;
            self.next = self.next.wrapping_add(1);
            if item.is_some() {
                return item;
            }
        }
        None
    }
}

/// An object class.
#[derive(Clone, Copy)]
pub struct ObjectTable<'a>(&'a uverbs_object_def);

impl<'a> ObjectTable<'a> {
    /// Its ID.
    pub fn id(self) -> u16 {
        self.0.id
    }

    /// Its type; `None` for a table that only adds methods.
    pub fn object_type(self) -> Option<ObjectType<'a>> {
        let raw = NonNull::new(self.0.type_attrs.cast_mut())?;
        // INVARIANT: The type that a definition names stays as long as the definition.
        Some(ObjectType(raw, PhantomData))
    }

    /// Its methods.
    pub fn methods(self) -> impl Iterator<Item = MethodTable<'a>> {
        // INVARIANT: The table has the number of its elements.
        let list = Pointers {
            next: self.0.methods.cast::<*const uverbs_method_def>(),
            left: if self.0.methods.is_null() {
                0
            } else {
                self.0.num_methods
            },
            _list: PhantomData,
        };
        list.map(MethodTable)
    }
}

/// A method.
#[derive(Clone, Copy)]
pub struct MethodTable<'a>(&'a uverbs_method_def);

impl<'a> MethodTable<'a> {
    /// Its ID.
    pub fn id(self) -> u16 {
        self.0.id
    }

    /// Its handler; `None` for a table that only adds attributes.
    pub fn handler(self) -> Option<RawHandler> {
        self.0.handler
    }

    /// Whether the table has attributes.
    pub fn has_attrs(self) -> bool {
        !self.0.attrs.is_null()
    }

    /// Its attributes.
    pub fn attrs(self) -> impl Iterator<Item = AttrTable<'a>> {
        // INVARIANT: The table has the number of its elements.
        let list = Pointers {
            next: self.0.attrs.cast::<*const uverbs_attr_def>(),
            left: if self.has_attrs() {
                self.0.num_attrs
            } else {
                0
            },
            _list: PhantomData,
        };
        list.map(AttrTable)
    }
}

/// The length of an attribute's data.
#[derive(Clone, Copy)]
pub struct Data {
    /// The shortest length.
    pub min: u16,
    /// The length that the kernel supports.
    pub len: u16,
    /// Whether user space may send more, if it is zero.
    pub zero_trailing: bool,
    /// Whether it is copied before the handler runs.
    pub copied: bool,
}

/// The object of an attribute.
#[derive(Clone, Copy)]
pub struct ObjectUse {
    /// The ID of its class, or [`ObjectUse::ANY`].
    pub class: u16,
    /// How it is accessed.
    pub access: Access,
}

impl ObjectUse {
    /// An object of any class.
    pub const ANY: u16 = c::UVERBS_IDR_ANY_OBJECT as u16;
}

/// The type of an attribute: `enum uverbs_attr_type`.
pub enum Kind {
    /// Data from user space.
    In(Data),
    /// Data for user space.
    Out(Data),
    /// Data from user space, which selects one of these structures.
    Enum(KVec<Option<Data>>),
    /// A handle of an object.
    Idr(ObjectUse),
    /// A file descriptor of an object.
    Fd(ObjectUse),
    /// A file descriptor of any file.
    RawFd,
    /// A list of handles, with its shortest and longest length.
    Idrs(ObjectUse, RangeInclusive<u16>),
    /// An unknown entry.
    Unknown,
}

/// An attribute.
#[derive(Clone, Copy)]
pub struct AttrTable<'a>(&'a uverbs_attr_def);

impl AttrTable<'_> {
    /// Its ID.
    pub fn id(self) -> u16 {
        self.0.id
    }

    /// Whether user space must send it.
    pub fn is_mandatory(self) -> bool {
        self.0.attr.mandatory() != 0
    }

    /// Whether it is driver data.
    pub fn is_udata(self) -> bool {
        self.0.attr.is_udata() != 0
    }

    /// Its type.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn kind(self) -> Result<Kind> {
        let spec = &self.0.attr;
        Ok(match u32::from(spec.type_) {
            c::UVERBS_ATTR_TYPE_PTR_IN => Kind::In(data(spec)),
            c::UVERBS_ATTR_TYPE_PTR_OUT => Kind::Out(data(spec)),
            c::UVERBS_ATTR_TYPE_ENUM_IN => Kind::Enum(choices(spec)?),
            c::UVERBS_ATTR_TYPE_IDR => Kind::Idr(object(spec)),
            c::UVERBS_ATTR_TYPE_FD => Kind::Fd(object(spec)),
            c::UVERBS_ATTR_TYPE_RAW_FD => Kind::RawFd,
            c::UVERBS_ATTR_TYPE_IDRS_ARRAY => objects(spec),
            _ => Kind::Unknown,
        })
    }
}

fn data(spec: &uverbs_attr_spec) -> Data {
    // SAFETY: The type of the attribute selects the member of the union, which is plain data.
    let size = unsafe { spec.u.ptr };
    Data {
        min: size.min_len,
        len: size.len,
        zero_trailing: spec.zero_trailing() != 0,
        copied: spec.alloc_and_copy() != 0,
    }
}

fn choices(spec: &uverbs_attr_spec) -> Result<KVec<Option<Data>>> {
    // SAFETY: The type of the attribute selects the members of the unions, which are an array of choices and its length.
    let choices = unsafe {
        core::slice::from_raw_parts(spec.u2.enum_def.ids, usize::from(spec.u.enum_def.num_elems))
    };
    let mut list = KVec::with_capacity(choices.len(), GFP_KERNEL)?;
    for choice in choices {
        let is_data = u32::from(choice.type_) == c::UVERBS_ATTR_TYPE_PTR_IN;
        list.push(is_data.then(|| data(choice)), GFP_KERNEL)?;
    }
    Ok(list)
}

fn object(spec: &uverbs_attr_spec) -> ObjectUse {
    // SAFETY: The type of the attribute selects the member of the union, which is plain data.
    let object = unsafe { spec.u.obj };
    ObjectUse {
        class: object.obj_type,
        access: access(object.access),
    }
}

fn objects(spec: &uverbs_attr_spec) -> Kind {
    // SAFETY: The type of the attribute selects the member of the union, which is plain data.
    let list = unsafe { spec.u2.objs_arr };
    let object = ObjectUse {
        class: list.obj_type,
        access: access(list.access),
    };
    Kind::Idrs(object, list.min_len..=list.max_len)
}

/// An unknown value becomes the access with the least rights.
fn access(raw: u8) -> Access {
    Access::from_raw(raw.into()).unwrap_or(Access::Read)
}
