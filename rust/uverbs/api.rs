// SPDX-License-Identifier: GPL-2.0

//! The uverbs API of a device: its object classes, its ioctl methods with their attributes, and its write commands
//! (`struct uverbs_api`).
//!
//! It is built once from the tables of ib_uverbs and of the driver. When the device is removed, the entries of the driver are
//! cleared; nothing else changes. ib_uverbs_support and ib_core read two parts with the layout of C: the radix tree of object
//! classes, which is the first member, and the handler of a method.
//!
//! C headers: `include/rdma/uverbs_ioctl.h`, `include/rdma/uverbs_types.h`.

use core::{
    pin::Pin,
    sync::atomic::{AtomicPtr, Ordering},
};

use kernel::{error::to_result, ffi::c_void, prelude::*, types::Opaque};
use kernel_ext::error::EOPNOTSUPP;
use rdma::{core::AttrBundle, MaySleep};
use rdma_bindings as c;

use crate::{
    definition::{AttrTable, Kind, ObjectType, RawHandler, WriteMethod},
    lookup::Access,
};

/// The bit of IDs in the namespace of the driver (`UVERBS_ID_NS_SHIFT`).
const DRIVER: u16 = 1 << c::UVERBS_ID_NS_SHIFT;

/// The index of an attribute in a command's array: even for IDs of the core, odd for those of the driver.
///
/// C headers: `uapi_key_attr()`, `uapi_bkey_attr()`.
pub const fn attr_index(id: u16) -> Option<u8> {
    let (number, odd) = if id & DRIVER != 0 {
        ((id & !DRIVER).wrapping_add(1), 0)
    } else {
        (id, 1)
    };
    if number >= 1 << (c::UVERBS_API_ATTR_KEY_BITS - 1) {
        return None;
    }
    Some(((number << 1 | odd) as u8).wrapping_sub(1))
}

/// The largest number of attributes of a method.
const ATTRS: usize = c::UVERBS_API_ATTR_BKEY_LEN as usize;

/// An attribute of a method.
pub struct Attr {
    /// The type of the attribute.
    pub kind: Kind,
    index: u8,
}

impl Attr {
    /// Its index in a command's array.
    pub fn index(&self) -> u8 {
        self.index
    }
}

/// A method of ioctl.
///
/// # Invariants
///
/// `handler` is null or a [`RawHandler`]. It is the first member: the core reads it through `method_elm` of a command.
#[repr(C)]
pub struct Method {
    handler: AtomicPtr<c_void>,
    key: u32,
    /// Whether it is defined by the driver.
    driver: bool,
    has_udata: bool,
    destroys: Option<u8>,
    mandatory: u64,
    /// For each index in a command's array: the index in `attrs`, or [`Self::NONE`].
    places: [u8; ATTRS],
    attrs: KVec<Attr>,
}

// SAFETY: The handler is a function pointer, which is changed atomically and may be called from any thread.
unsafe impl Send for Method {}
// SAFETY: The handler is a function pointer, which is changed atomically and may be called from any thread.
unsafe impl Sync for Method {}

const fn method_key(object: u16, method: u16) -> u32 {
    (object as u32) << 16 | method as u32
}

impl Method {
    const NONE: u8 = u8::MAX;

    /// A method without attributes.
    pub fn new(object: u16, id: u16, handler: Option<RawHandler>, of_driver: bool) -> Self {
        let handler = handler.map_or(core::ptr::null_mut(), |handler| handler as *mut c_void);
        let destroy: RawHandler = c::uverbs_destroy_def_handler;
        // INVARIANT: `handler` is a `RawHandler` or null.
        Self {
            driver: of_driver && handler != destroy as *mut c_void,
            handler: AtomicPtr::new(handler),
            key: method_key(object, id),
            has_udata: false,
            destroys: None,
            mandatory: 0,
            places: [Self::NONE; ATTRS],
            attrs: KVec::new(),
        }
    }

    /// Whether it has these IDs.
    pub fn is(&self, object: u16, id: u16) -> bool {
        self.key == method_key(object, id)
    }

    /// The ID of its object class.
    pub fn object(&self) -> u16 {
        (self.key >> 16) as u16
    }

    /// Adds an attribute.
    ///
    /// # Errors
    ///
    /// `EEXIST` if the ID is in use, `EOVERFLOW` for an ID that is too large, `EINVAL` for a second object that is created or
    /// destroyed, or one that is not mandatory; `ENOMEM`.
    pub fn add_attr(&mut self, table: AttrTable<'_>, of_driver: bool) -> Result {
        let index = attr_index(table.id()).ok_or(EOVERFLOW)?;
        let nth = self.attrs.len() as u8;
        let place = self.places.get_mut(usize::from(index)).ok_or(EOVERFLOW)?;
        if *place != Self::NONE {
            return Err(EEXIST);
        }
        let kind = table.kind()?;
        match &kind {
            Kind::Enum(_) => self.driver |= of_driver,
            Kind::Idrs(object, _) if is_life(object.access) => return Err(EINVAL),
            Kind::Idr(object) | Kind::Fd(object) if is_life(object.access) => {
                if !table.is_mandatory() || self.attrs.iter().any(Attr::is_life) {
                    return Err(EINVAL);
                }
                if object.access == Access::Destroy {
                    self.destroys = Some(index);
                }
            }
            _ => {}
        }
        self.attrs.push(Attr { kind, index }, GFP_KERNEL)?;
        *place = nth;
        if table.is_mandatory() {
            self.mandatory |= 1 << index;
        }
        self.has_udata |= table.is_udata();
        Ok(())
    }

    /// The attribute of an index in a command's array.
    pub fn attr(&self, index: u8) -> Option<&Attr> {
        let nth = *self.places.get(usize::from(index))?;
        self.attrs.get(usize::from(nth))
    }

    /// All attributes.
    pub fn attrs(&self) -> &[Attr] {
        &self.attrs
    }

    /// Whether user space must send an attribute.
    pub fn is_mandatory(&self, attr: &Attr) -> bool {
        self.mandatory & 1u64.wrapping_shl(attr.index.into()) != 0
    }

    /// Whether all mandatory attributes are in the set.
    pub fn is_complete(&self, present: u64) -> bool {
        self.mandatory & !present == 0
    }

    /// Whether it has driver data (`UVERBS_ATTR_UHW_IN`, `UVERBS_ATTR_UHW_OUT`).
    pub fn has_udata(&self) -> bool {
        self.has_udata
    }

    /// The index of the attribute whose object it destroys.
    pub fn destroys(&self) -> Option<u8> {
        self.destroys
    }

    /// The length of a command's array.
    pub fn places(&self) -> usize {
        let last = self.attrs.iter().map(|attr| attr.index).max();
        last.map_or(0, |last| usize::from(last) + 1)
    }

    /// Whether it can be called: a method of the driver cannot once the device is removed.
    pub fn is_callable(&self) -> bool {
        !self.handler.load(Ordering::Acquire).is_null()
    }

    /// Calls the handler.
    ///
    /// # Errors
    ///
    /// `EIO` if the device was removed, and those of the handler.
    ///
    /// # Safety
    ///
    /// The command is one of this method, and of a file of the device whose API has the method. `disassociate_srcu` of that device
    /// is held.
    pub(crate) unsafe fn call(&self, command: &AttrBundle, _sleep: &MaySleep) -> Result {
        let handler = self.handler.load(Ordering::Acquire);
        if handler.is_null() {
            return Err(EIO);
        }
        // SAFETY: By the type invariants. A handler takes any command of the method, and is valid until the device is removed,
        // which waits while `disassociate_srcu` is held.
        to_result(unsafe {
            let handler = core::mem::transmute::<*mut c_void, RawHandler>(handler);
            handler(command.as_raw())
        })
    }

    /// The value of `method_elm` of a command.
    pub(crate) fn as_raw(&self) -> *const c::uverbs_api_ioctl_method {
        core::ptr::from_ref(self).cast()
    }
}

fn is_life(access: Access) -> bool {
    matches!(access, Access::New | Access::Destroy)
}

impl Attr {
    fn is_life(&self) -> bool {
        matches!(&self.kind, Kind::Idr(object) | Kind::Fd(object) if is_life(object.access))
    }
}

/// The write commands, or the extended ones, by number.
pub struct WriteTable(KVec<WriteMethod>);

impl WriteTable {
    /// A table of the commands; the numbers between them are not supported.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new<'a>(commands: impl Iterator<Item = &'a WriteMethod> + Clone) -> Result<Self> {
        let last = commands.clone().map(|command| command.number).max();
        let count = usize::from(last.unwrap_or(0)) + 1;
        let mut table = KVec::from_elem(WriteMethod::NOT_SUPPORTED, count, GFP_KERNEL)?;
        for command in commands {
            if let Some(entry) = table.get_mut(usize::from(command.number)) {
                *entry = *command;
            }
        }
        Ok(Self(table))
    }
}

/// The uverbs API of a device.
///
/// # Invariants
///
/// The entries of `tree` are pointers to the elements of `classes`, each at `uapi_key_obj()` of its number. It is the first
/// member, as in `struct uverbs_api`.
#[pin_data(PinnedDrop)]
#[repr(C)]
pub struct Api {
    #[pin]
    tree: Opaque<c::xarray>,
    driver_id: u32,
    classes: KVec<KBox<Class>>,
    /// Sorted by key.
    methods: KVec<Method>,
    write: WriteTable,
    write_ex: WriteTable,
}

/// An object class: `struct uverbs_api_object`.
struct Class {
    raw: Opaque<c::uverbs_api_object>,
    /// Whether the type is used after the device is removed.
    outlives_device: bool,
}

// SAFETY: The member that changes is accessed by single loads and stores.
unsafe impl Send for Class {}
// SAFETY: The member that changes is accessed by single loads and stores.
unsafe impl Sync for Class {}

impl Class {
    fn new(id: u16, object_type: Option<ObjectType<'_>>) -> Self {
        let mut raw: c::uverbs_api_object = pin_init::zeroed();
        if let Some(object_type) = object_type {
            raw.id = id.into();
            raw.type_attrs = object_type.as_raw();
            raw.type_class = object_type.class();
        }
        Self {
            raw: Opaque::new(raw),
            outlives_device: object_type.is_some_and(ObjectType::outlives_device),
        }
    }
}

// SAFETY: The tree is constant after it is built; members that change are accessed by single loads and stores.
unsafe impl Send for Api {}
// SAFETY: The tree is constant after it is built; members that change are accessed by single loads and stores.
unsafe impl Sync for Api {}

/// The parts of an [`Api`].
pub struct Parts<'a> {
    /// `enum rdma_driver_id`, which commands must send.
    pub driver_id: u32,
    /// The object classes; one without a type has only methods.
    pub classes: KVec<(u16, Option<ObjectType<'a>>)>,
    /// The methods.
    pub methods: KVec<Method>,
    /// The write commands.
    pub write: WriteTable,
    /// The extended write commands.
    pub write_ex: WriteTable,
}

impl Api {
    /// Builds an API of these parts.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EOVERFLOW` for a class whose ID is too large.
    pub fn new(parts: Parts<'_>, _sleep: &MaySleep) -> Result<Pin<KBox<Self>>> {
        let mut classes = KVec::with_capacity(parts.classes.len(), GFP_KERNEL)?;
        for (id, object_type) in &parts.classes {
            let class = KBox::new(Class::new(*id, *object_type), GFP_KERNEL)?;
            classes.push(class, GFP_KERNEL)?;
        }
        let mut methods = parts.methods;
        methods.sort_unstable_by_key(|method| method.key);
        // INVARIANT: The tree and `classes` are empty; the loop below adds the classes to both.
        let this = KBox::pin_init(
            pin_init!(Self {
                // SAFETY: `tree` is valid for writes; the value is pinned from here on. A radix tree keeps in its flags how its
                // nodes are allocated.
                tree <- Opaque::ffi_init(|tree| unsafe { c::xa_init_flags(tree, c::GFP_KERNEL) }),
                driver_id: parts.driver_id,
                classes,
                methods,
                write: parts.write,
                write_ex: parts.write_ex,
            }),
            GFP_KERNEL,
        )?;
        for ((id, _), class) in parts.classes.iter().zip(&this.classes) {
            this.insert(*id, class)?;
        }
        Ok(this)
    }

    fn insert(&self, id: u16, class: &Class) -> Result {
        // SAFETY: The function is pure arithmetic.
        let key = unsafe { c::uapi_key_obj(id.into()) };
        if key == c::UVERBS_API_KEY_ERR {
            return Err(EOVERFLOW);
        }
        let entry = class.raw.get().cast();
        // SAFETY: The tree is valid, and the class is valid as long.
        to_result(unsafe { c::radix_tree_insert(self.tree.get(), key as usize, entry) })
    }

    /// `enum rdma_driver_id`, which commands must send.
    pub fn driver_id(&self) -> u32 {
        self.driver_id
    }

    /// The method of an object class.
    pub fn method(&self, object: u16, id: u16) -> Option<&Method> {
        let key = method_key(object, id);
        let nth = self.methods.binary_search_by_key(&key, |method| method.key);
        self.methods.get(nth.ok()?)
    }

    /// The write command of a header's command word. For an unsupported command it may be one whose call returns `EOPNOTSUPP`.
    ///
    /// # Errors
    ///
    /// `EINVAL` for unknown flags, `EOPNOTSUPP` for a number that is too large.
    pub fn write_method(&self, command: u32) -> Result<&WriteMethod> {
        const NUMBER: u32 = c::IB_USER_VERBS_CMD_COMMAND_MASK;
        const EXTENDED: u32 = c::IB_USER_VERBS_CMD_FLAG_EXTENDED;
        if command & !(NUMBER | EXTENDED) != 0 {
            return Err(EINVAL);
        }
        let table = if command & EXTENDED != 0 {
            &self.write_ex
        } else {
            &self.write
        };
        let number = (command & NUMBER) as usize;
        table.0.get(number).ok_or(EOPNOTSUPP)
    }

    /// Called when the device is being removed: methods of the driver return `EIO` from now on. The caller waits for those that
    /// are running.
    pub fn disassociate_pre(&self) {
        for method in self.methods.iter().filter(|method| method.driver) {
            method
                .handler
                .store(core::ptr::null_mut(), Ordering::Release);
        }
    }

    /// Clears all pointers to the driver, which may be unloaded afterwards. Called when the device has no objects any more.
    pub fn disassociate(&self) {
        for class in &self.classes {
            // SAFETY: The member is a pointer that is accessed atomically.
            let object_type = unsafe {
                let member = &raw mut (*class.raw.get()).type_attrs;
                AtomicPtr::from_ptr(member.cast::<*mut c::uverbs_obj_type>())
            };
            if !class.outlives_device {
                object_type.store(core::ptr::null_mut(), Ordering::Release);
            }
        }
    }
}

#[pinned_drop]
impl PinnedDrop for Api {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: `self` owns the tree; its entries are freed with `classes`.
        unsafe { c::xa_destroy(self.tree.get()) };
    }
}
