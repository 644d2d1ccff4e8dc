// SPDX-License-Identifier: GPL-2.0

//! What a device offers user space: its object classes, its methods with their attributes, its commands of write.
//!
//! It is built once, from tables; then what is the driver's is taken out when the device goes, and nothing else changes.
//! C code that gets at it (ib_uverbs_support, and what the core does for drivers) sees the object classes, in a radix tree at
//! the front, and of a method the handler.

use core::{
    pin::Pin,
    sync::atomic::{AtomicPtr, Ordering},
};

use kernel::{error::to_result, ffi::c_void, prelude::*, types::Opaque};
use kernel_ext::error::EOPNOTSUPP;
use rdma::{view::AttrBundle, MaySleep};
use rdma_bindings as c;

use crate::{
    definition::{AttrTable, Kind, ObjectType, RawHandler, WriteMethod},
    lookup::Access,
};

/// The bit of numbers that a driver gives.
const DRIVER: u16 = 1 << c::UVERBS_ID_NS_SHIFT;

/// The place of an attribute among a command's: the core's and the driver's take turns.
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

/// How many attributes there may be.
const ATTRS: usize = c::UVERBS_API_ATTR_BKEY_LEN as usize;

/// An attribute of a method.
pub struct Attr {
    /// What it is.
    pub kind: Kind,
    index: u8,
}

impl Attr {
    /// Its place among a command's.
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
    /// Whether it needs what is the driver's.
    driver: bool,
    has_udata: bool,
    destroys: Option<u8>,
    mandatory: u64,
    /// For each place the number of the attribute in `attrs`, or [`Self::NONE`].
    places: [u8; ATTRS],
    attrs: KVec<Attr>,
}

// SAFETY: The handler may be called from any thread.
unsafe impl Send for Method {}
// SAFETY: As above.
unsafe impl Sync for Method {}

const fn method_key(object: u16, method: u16) -> u32 {
    (object as u32) << 16 | method as u32
}

impl Method {
    const NONE: u8 = u8::MAX;

    /// A method that has no attributes yet.
    pub fn new(object: u16, id: u16, handler: Option<RawHandler>, of_driver: bool) -> Self {
        let handler = handler.map_or(core::ptr::null_mut(), |handler| handler as *mut c_void);
        let destroy: RawHandler = c::uverbs_destroy_def_handler;
        // INVARIANT: See above.
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

    /// Whether it is that method.
    pub fn is(&self, object: u16, id: u16) -> bool {
        self.key == method_key(object, id)
    }

    /// The number of its object class.
    pub fn object(&self) -> u16 {
        (self.key >> 16) as u16
    }

    /// Adds an attribute.
    ///
    /// # Errors
    ///
    /// `EEXIST` if there is one of the number, `EOVERFLOW` for a number that cannot be, `EINVAL` for an object that the engine
    /// cannot make or destroy: one is, and it is mandatory, `ENOMEM`.
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

    /// The attribute of a place.
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

    /// Whether all attributes are there that must be.
    pub fn is_complete(&self, present: u64) -> bool {
        self.mandatory & !present == 0
    }

    /// Whether there is data for the driver, or from it.
    pub fn has_udata(&self) -> bool {
        self.has_udata
    }

    /// The place of the object that it destroys.
    pub fn destroys(&self) -> Option<u8> {
        self.destroys
    }

    /// How many places there are for attributes.
    pub fn places(&self) -> usize {
        let last = self.attrs.iter().map(|attr| attr.index).max();
        last.map_or(0, |last| usize::from(last) + 1)
    }

    /// Whether the method can be called: the device may have gone.
    pub fn is_callable(&self) -> bool {
        !self.handler.load(Ordering::Acquire).is_null()
    }

    /// Runs the method. The caller holds `disassociate_srcu`.
    ///
    /// # Errors
    ///
    /// `EIO` if the device has gone, and what the handler says.
    pub fn call(&self, command: &AttrBundle, _sleep: &MaySleep) -> Result {
        let handler = self.handler.load(Ordering::Acquire);
        if handler.is_null() {
            return Err(EIO);
        }
        // SAFETY: By the type invariants. A handler takes any command of the method, and stays while the device is not gone.
        to_result(unsafe {
            let handler = core::mem::transmute::<*mut c_void, RawHandler>(handler);
            handler(command.as_raw())
        })
    }

    /// What a command has in `method_elm`.
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

/// The commands of write of one kind, by number.
pub struct WriteTable(KVec<WriteMethod>);

impl WriteTable {
    /// The commands by number; numbers between them are not there.
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

/// What a device offers user space.
///
/// # Invariants
///
/// `tree` has a pointer to each of `classes` at `uapi_key_obj()` of its number, and nothing else. It is the first member, as
/// in `struct uverbs_api`.
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

/// An object class, as C has it.
#[repr(transparent)]
struct Class(Opaque<c::uverbs_api_object>);

// SAFETY: What changes in it is read and written whole.
unsafe impl Send for Class {}
// SAFETY: As above.
unsafe impl Sync for Class {}

impl Class {
    fn new(id: u16, object_type: Option<ObjectType>) -> Self {
        let mut raw: c::uverbs_api_object = pin_init::zeroed();
        if let Some(object_type) = object_type {
            raw.id = id.into();
            raw.type_attrs = object_type.as_raw();
            raw.type_class = object_type.class();
        }
        Self(Opaque::new(raw))
    }
}

// SAFETY: The tree is not changed any more; what changes in the rest is read and written whole.
unsafe impl Send for Api {}
// SAFETY: As above.
unsafe impl Sync for Api {}

/// What [`Api::new`] is made of.
pub struct Parts {
    /// Whose methods a command means.
    pub driver_id: u32,
    /// The object classes; one without a type has methods alone.
    pub classes: KVec<(u16, Option<ObjectType>)>,
    /// The methods.
    pub methods: KVec<Method>,
    /// The commands of write.
    pub write: WriteTable,
    /// The extended commands of write.
    pub write_ex: WriteTable,
}

impl Api {
    /// Puts it together.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EOVERFLOW` for a class whose number cannot be.
    pub fn new(parts: Parts, _sleep: &MaySleep) -> Result<Pin<KBox<Self>>> {
        let mut classes = KVec::with_capacity(parts.classes.len(), GFP_KERNEL)?;
        for (id, object_type) in &parts.classes {
            let class = KBox::new(Class::new(*id, *object_type), GFP_KERNEL)?;
            classes.push(class, GFP_KERNEL)?;
        }
        let mut methods = parts.methods;
        methods.sort_unstable_by_key(|method| method.key);
        // INVARIANT: The tree has nothing yet; below it gets the classes.
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
        // SAFETY: It is arithmetic.
        let key = unsafe { c::uapi_key_obj(id.into()) };
        if key == c::UVERBS_API_KEY_ERR {
            return Err(EOVERFLOW);
        }
        let entry = class.0.get().cast();
        // SAFETY: The tree is there, and the class stays as long.
        to_result(unsafe { c::radix_tree_insert(self.tree.get(), key as usize, entry) })
    }

    /// Whose methods a command must mean.
    pub fn driver_id(&self) -> u32 {
        self.driver_id
    }

    /// A method. `None` if there is none.
    pub fn method(&self, object: u16, id: u16) -> Option<&Method> {
        let key = method_key(object, id);
        let nth = self.methods.binary_search_by_key(&key, |method| method.key);
        self.methods.get(nth.ok()?)
    }

    /// A command of write, by what user space sends for it. One that is absent may be found all the same: it says so when it
    /// is called.
    ///
    /// # Errors
    ///
    /// `EINVAL` for flags that nobody knows, `EOPNOTSUPP` for a number that is too large.
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

    /// The device goes: methods that need the driver answer `EIO` from now on. Those that run are to be waited for.
    pub fn disassociate_pre(&self) {
        for method in self.methods.iter().filter(|method| method.driver) {
            method
                .handler
                .store(core::ptr::null_mut(), Ordering::Release);
        }
    }

    /// The driver goes: what is its is forgotten. No object is left.
    pub fn disassociate(&self) {
        for class in &self.classes {
            // SAFETY: The member is a pointer, which is read and written whole.
            let object_type = unsafe {
                let member = &raw mut (*class.0.get()).type_attrs;
                AtomicPtr::from_ptr(member.cast::<*mut c::uverbs_obj_type>())
            };
            let keep = ObjectType::from_raw(object_type.load(Ordering::Relaxed))
                .is_some_and(ObjectType::outlives_device);
            if !keep {
                object_type.store(core::ptr::null_mut(), Ordering::Release);
            }
        }
    }
}

#[pinned_drop]
impl PinnedDrop for Api {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: Nobody else has the tree any more; its entries are freed with `classes`.
        unsafe { c::xa_destroy(self.tree.get()) };
    }
}
