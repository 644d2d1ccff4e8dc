// SPDX-License-Identifier: GPL-2.0

//! The attributes of devices and ports in sysfs, and the directories of ports.
//!
//! All files in a port's directory are `struct ib_port_attribute`, those of the driver and of clients included.
//!
//! C header: `include/rdma/ib_sysfs.h`.

use core::{marker::PhantomData, ptr, ptr::NonNull};

use kernel::{
    error::{from_result, to_result},
    ffi::c_char,
    prelude::*,
    sync::{aref::ARef, Arc},
    types::Opaque,
};
use kernel_ext::{
    entry::FromC,
    sysfs::{File, Group, Kobject, Name, NewFile, RawAttribute, RawGroups, Text},
};
use rdma_bindings::{
    self as bindings, attribute, attribute_group, device, device_attribute, ib_device,
    ib_port_attribute, kobj_type, kobject, sysfs_ops,
};

use super::{stats::DeviceCounters, CoreDevice, Device, DeviceMemory};
use crate::MaySleep;

/// The arguments of an attribute's `show` and `store`.
pub struct AttrContext<'a> {
    /// The device.
    pub device: &'a Device,
    /// The port; 0 for a file of the device.
    pub port: u32,
    /// The file's index among those of its kind.
    pub index: u32,
    /// The hardware counters, for a file of a counter.
    pub stats: Option<&'a DeviceCounters>,
}

/// Writes the content of a file: a line with its newline.
pub type Show = fn(&AttrContext<'_>, &mut Text<'_>, &MaySleep) -> Result;

/// Stores the bytes that were written to a file.
pub type Store = fn(&AttrContext<'_>, &[u8], &MaySleep) -> Result;

/// The functions of a file of the core.
pub struct Behaviour {
    show: Show,
    store: Option<Store>,
    index: u32,
    stats: Option<Arc<DeviceCounters>>,
}

impl Behaviour {
    /// A read-only file.
    pub fn read(name: Name, show: Show) -> NewFile<Self> {
        Self::new(name, show, None, 0, None)
    }

    /// A file that only root may write.
    pub fn read_write(name: Name, show: Show, store: Store) -> NewFile<Self> {
        Self::new(name, show, Some(store), 0, None)
    }

    /// A read-only file with an index, one of many.
    pub fn numbered(name: Name, show: Show, index: u32) -> NewFile<Self> {
        Self::new(name, show, None, index, None)
    }

    /// A file of a hardware counter.
    pub fn of_counters(
        name: Name,
        show: Show,
        store: Option<Store>,
        index: u32,
        stats: Arc<DeviceCounters>,
    ) -> NewFile<Self> {
        Self::new(name, show, store, index, Some(stats))
    }

    fn new(
        name: Name,
        show: Show,
        store: Option<Store>,
        index: u32,
        stats: Option<Arc<DeviceCounters>>,
    ) -> NewFile<Self> {
        NewFile {
            name,
            writable: store.is_some(),
            behaviour: Self {
                show,
                store,
                index,
                stats,
            },
        }
    }

    fn context<'a>(&'a self, device: &'a Device, port: u32) -> AttrContext<'a> {
        AttrContext {
            device,
            port,
            index: self.index,
            stats: self.stats.as_deref(),
        }
    }

    /// Executes a read: returns the number of bytes, or a negative errno.
    ///
    /// # Safety
    ///
    /// `page` is valid for writes of a page. The context is process context.
    unsafe fn answer(&self, device: &Device, port: u32, page: *mut c_char) -> isize {
        // SAFETY: By the safety requirements.
        let (mut text, sleep) = unsafe { (Text::new(page), MaySleep::assume()) };
        from_result(|| {
            (self.show)(&self.context(device, port), &mut text, &sleep)?;
            Ok(text.len() as isize)
        })
    }

    /// Executes a write: returns `count`, or a negative errno.
    ///
    /// # Safety
    ///
    /// `page` is valid for reads of `count` bytes. The context is process context.
    unsafe fn take(&self, device: &Device, port: u32, page: *const c_char, count: usize) -> isize {
        // SAFETY: By the safety requirements.
        let (bytes, sleep) = unsafe {
            let bytes = core::slice::from_raw_parts(page.cast::<u8>(), count);
            (bytes, MaySleep::assume())
        };
        from_result(|| {
            let store = self.store.ok_or(EIO)?;
            store(&self.context(device, port), bytes, &sleep)?;
            Ok(count as isize)
        })
    }
}

/// The permission bits of a file.
const fn mode(writable: bool) -> u16 {
    if writable {
        0o644
    } else {
        0o444
    }
}

// SAFETY: The structure begins with a `struct attribute`, and the methods are those of this type of files.
unsafe impl RawAttribute<Behaviour> for ib_port_attribute {
    fn new(writable: bool) -> Self {
        let mut raw: Self = pin_init::zeroed();
        raw.attr.mode = mode(writable);
        raw.show = Some(show_of_port);
        raw.store = if writable { Some(store_of_port) } else { None };
        raw
    }
}

// SAFETY: The structure begins with a `struct attribute`, and the methods are those of this type of files.
unsafe impl RawAttribute<Behaviour> for device_attribute {
    fn new(writable: bool) -> Self {
        let mut raw: Self = pin_init::zeroed();
        raw.attr.mode = mode(writable);
        raw.__bindgen_anon_1.show = Some(show_of_device);
        raw.__bindgen_anon_2.store = if writable {
            Some(store_of_device)
        } else {
            None
        };
        raw
    }
}

/// A group of files of the core in a port's directory.
pub type PortGroup = Group<ib_port_attribute, Behaviour>;

/// A group of files of the core in a device's directory.
pub type DeviceGroup = Group<device_attribute, Behaviour>;

/// # Safety
///
/// The file is one of a [`PortGroup`] in the directory of the port; the buffer is valid for writes of a page.
unsafe extern "C" fn show_of_port(
    device: *mut ib_device,
    port: u32,
    file: *mut ib_port_attribute,
    page: *mut c_char,
) -> isize {
    // SAFETY: By the safety requirements; files are read in process context.
    unsafe {
        let file = File::<_, Behaviour>::from_raw(file);
        file.behaviour()
            .answer(Device::from_raw(device), port, page)
    }
}

/// # Safety
///
/// The file is one of a [`PortGroup`] in the directory of the port; the buffer is valid for reads of `count` bytes.
unsafe extern "C" fn store_of_port(
    device: *mut ib_device,
    port: u32,
    file: *mut ib_port_attribute,
    page: *const c_char,
    count: usize,
) -> isize {
    // SAFETY: By the safety requirements; files are written in process context.
    unsafe {
        let file = File::<_, Behaviour>::from_raw(file);
        file.behaviour()
            .take(Device::from_raw(device), port, page, count)
    }
}

/// The RDMA device of a `struct device` of the class.
///
/// # Safety
///
/// `dev` is the device in an `ib_core_device` that is in the driver model for `'a`.
unsafe fn owner<'a>(dev: *mut device) -> &'a Device {
    const { assert!(core::mem::offset_of!(bindings::ib_core_device, dev) == 0) };
    // SAFETY: By the safety requirements; a view is a transparent wrapper. By those of `add_to_model` and `add_compat` the driver is
    // there until the files are removed, which waits for their readers and writers.
    unsafe { (*dev.cast::<CoreDevice>()).owner().with_driver() }
}

/// # Safety
///
/// The file is one of a [`DeviceGroup`] in the directory of the device; the buffer is valid for writes of a page.
unsafe extern "C" fn show_of_device(
    dev: *mut device,
    file: *mut device_attribute,
    page: *mut c_char,
) -> isize {
    // SAFETY: By the safety requirements; files are read in process context.
    unsafe {
        let file = File::<_, Behaviour>::from_raw(file);
        file.behaviour().answer(owner(dev), 0, page)
    }
}

/// # Safety
///
/// The file is one of a [`DeviceGroup`] in the directory of the device; the buffer is valid for reads of `count` bytes.
unsafe extern "C" fn store_of_device(
    dev: *mut device,
    file: *mut device_attribute,
    page: *const c_char,
    count: usize,
) -> isize {
    // SAFETY: By the safety requirements; files are written in process context.
    unsafe {
        let file = File::<_, Behaviour>::from_raw(file);
        file.behaviour().take(owner(dev), 0, page, count)
    }
}

/// The attribute groups of a device that is in the driver model, or about to be. Dropping the value resets them.
pub(super) struct DeviceFiles {
    device: ARef<DeviceMemory>,
    _own: DeviceGroup,
    _counters: Option<DeviceGroup>,
}

impl DeviceFiles {
    /// Sets the attribute groups that a device has when it is added to the driver model: those of the core, then those of the
    /// driver, then `counters`.
    ///
    /// # Safety
    ///
    /// The device is being registered by this thread alone. It is not in the driver model now, nor when the result is dropped.
    pub(super) unsafe fn publish(
        device: &Device,
        own: DeviceGroup,
        counters: Option<DeviceGroup>,
    ) -> Self {
        let drivers: *const attribute_group = device.ops().device_group.cast();
        let with_counters = counters.as_ref().map(Group::as_raw);
        let groups = [
            Some(own.as_raw()),
            (!drivers.is_null()).then_some(drivers),
            with_counters,
        ];
        let raw = device.as_raw();
        // SAFETY: By the safety requirements no other code uses the members.
        unsafe {
            let slots = &mut (*raw).groups;
            *slots = pin_init::zeroed();
            for (slot, group) in slots.iter_mut().zip(groups.into_iter().flatten()) {
                *slot = group;
            }
            (*raw).hw_stats_attr_index = match with_counters {
                None => 0,
                Some(_) => 1 + u8::from(!drivers.is_null()),
            };
        }
        Self {
            device: device.hold(),
            _own: own,
            _counters: counters,
        }
    }
}

impl Drop for DeviceFiles {
    fn drop(&mut self) {
        // SAFETY: By the safety requirements of `publish` the device is not in the driver model, so that the members are unused.
        unsafe {
            (*self.device.as_raw()).groups = pin_init::zeroed();
            (*self.device.as_raw()).hw_stats_attr_index = 0;
        }
    }
}

/// A directory of a port, as a kobject of C.
#[repr(C)]
struct Inner {
    kobj: Opaque<kobject>,
    device: ARef<DeviceMemory>,
    port: u32,
    groups: KVec<PortGroup>,
    list: KVec<*const attribute_group>,
}

impl Inner {
    /// # Safety
    ///
    /// `kobj` is the kobject of a [`PortDirectory`].
    unsafe fn of(kobj: *mut kobject) -> *mut Self {
        // `kobj` is the first member.
        const { assert!(core::mem::offset_of!(Inner, kobj) == 0) };
        kobj.cast()
    }

    /// # Safety
    ///
    /// `kobj` is the kobject of a directory without references.
    unsafe extern "C" fn release(kobj: *mut kobject) {
        // SAFETY: By the safety requirements; `PortDirectory::new` has leaked the box.
        drop(unsafe { KBox::from_raw(Self::of(kobj)) });
    }

    /// # Safety
    ///
    /// The file is a `struct ib_port_attribute` of the directory; the buffer is valid for writes of a page.
    unsafe extern "C" fn show(
        kobj: *mut kobject,
        file: *mut attribute,
        page: *mut c_char,
    ) -> isize {
        let file: *mut ib_port_attribute = file.cast();
        // SAFETY: By the safety requirements. By those of `PortDirectory::new` the driver is there until the files are removed, which
        // waits for their readers.
        unsafe {
            let this = Self::of(kobj);
            match (*file).show {
                Some(show) => show((*this).device.as_raw(), (*this).port, file, page),
                None => EIO.to_errno() as isize,
            }
        }
    }

    /// # Safety
    ///
    /// The file is a `struct ib_port_attribute` of the directory; the buffer is valid for reads of `count` bytes.
    unsafe extern "C" fn store(
        kobj: *mut kobject,
        file: *mut attribute,
        page: *const c_char,
        count: usize,
    ) -> isize {
        let file: *mut ib_port_attribute = file.cast();
        // SAFETY: As for `show`.
        unsafe {
            let this = Self::of(kobj);
            let device = (*this).device.as_raw();
            match (*file).store {
                Some(store) => store(device, (*this).port, file, page, count),
                None => EIO.to_errno() as isize,
            }
        }
    }
}

/// A constant C structure in a static.
#[repr(transparent)]
struct Constant<T>(T);

// SAFETY: The value is constant.
unsafe impl<T> Sync for Constant<T> {}

static METHODS: Constant<sysfs_ops> = Constant(sysfs_ops {
    show: Some(Inner::show),
    store: Some(Inner::store),
});

static KIND: Constant<kobj_type> = Constant(kobj_type {
    release: Some(Inner::release),
    sysfs_ops: &raw const METHODS.0,
    ..pin_init::zeroed()
});

/// A directory of a port: the port's own, or one inside it. Dropping it removes it from sysfs.
///
/// # Invariants
///
/// The directory is in sysfs with its groups, and `self` owns one reference to it.
pub struct PortDirectory(NonNull<Inner>);

// SAFETY: Kobjects may be used from any thread.
unsafe impl Send for PortDirectory {}

/// A reference that is given up on drop, unless it is taken.
struct NewDirectory(NonNull<Inner>);

impl Drop for NewDirectory {
    fn drop(&mut self) {
        // SAFETY: `self` owns the reference.
        unsafe { bindings::kobject_put(self.0.as_ptr().cast()) };
    }
}

impl PortDirectory {
    /// Creates a directory with files, in the directory of the device or in one below it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EEXIST`.
    ///
    /// # Safety
    ///
    /// The directory is dropped before `ib_unregister_device` returns to the driver of `device`, which its files call.
    pub unsafe fn new(
        parent: &Kobject,
        name: &CStr,
        device: &Device,
        port: u32,
        groups: KVec<PortGroup>,
        _sleep: &MaySleep,
    ) -> Result<Self> {
        let mut list = KVec::with_capacity(groups.len().saturating_add(1), GFP_KERNEL)?;
        for group in groups.iter() {
            list.push(group.as_raw(), GFP_KERNEL)?;
        }
        list.push(ptr::null(), GFP_KERNEL)?;
        let inner = Inner {
            kobj: Opaque::zeroed(),
            device: device.hold(),
            port,
            groups,
            list,
        };
        let raw = NonNull::from(KBox::leak(KBox::new(inner, GFP_KERNEL)?));
        let kobj: *mut kobject = raw.as_ptr().cast();
        // SAFETY: The kobject is new and zeroed, and `KIND` is its type. From here on it is reference-counted.
        unsafe { bindings::kobject_init(kobj, &raw const KIND.0) };
        let new = NewDirectory(raw);
        // SAFETY: The parent is valid; the name is copied; the directory owns the groups, or they are constant.
        unsafe {
            let format = c"%s".as_char_ptr();
            let name = name.as_char_ptr();
            to_result(bindings::kobject_add(kobj, parent.as_raw(), format, name))?;
            let list = (*raw.as_ptr()).list.as_ptr();
            to_result(bindings::sysfs_create_groups(kobj, list))
                .inspect_err(|_| bindings::kobject_del(kobj))?;
        }
        core::mem::forget(new);
        // INVARIANT: The directory was just added, and the result takes over the reference.
        Ok(Self(raw))
    }

    /// The kobject, as the parent of other directories.
    pub fn kobject(&self) -> &Kobject {
        // SAFETY: By the type invariants the directory is valid; a view is a transparent wrapper.
        unsafe { self.0.cast().as_ref() }
    }

    /// The port.
    pub fn port(&self) -> u32 {
        // SAFETY: By the type invariants the directory is valid; the field is constant.
        unsafe { (*self.0.as_ptr()).port }
    }

    /// Adds groups of C code to the directory.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EEXIST`.
    pub fn add_groups(&self, groups: RawGroups, _sleep: &MaySleep) -> Result {
        let list = groups.as_raw().cast_const();
        // SAFETY: The directory and the groups are valid.
        to_result(unsafe { bindings::sysfs_create_groups(self.kobject().as_raw(), list) })
    }

    /// Removes groups of C code from the directory, and waits for their readers.
    pub fn remove_groups(&self, groups: RawGroups, _sleep: &MaySleep) {
        let list = groups.as_raw().cast_const();
        if list.is_null() {
            return;
        }
        // SAFETY: The directory and the groups are valid.
        unsafe { bindings::sysfs_remove_groups(self.kobject().as_raw(), list) };
    }
}

impl Drop for PortDirectory {
    fn drop(&mut self) {
        // SAFETY: By the type invariants. The removal of files waits for their readers.
        unsafe {
            let kobj = self.kobject().as_raw();
            if !(*self.0.as_ptr()).groups.is_empty() {
                bindings::sysfs_remove_groups(kobj, (*self.0.as_ptr()).list.as_ptr());
            }
            bindings::kobject_del(kobj);
            bindings::kobject_put(kobj);
        }
    }
}

/// The kobject of a port's directory, as an argument of C.
pub struct PortKobject<'a>(NonNull<Inner>, PhantomData<&'a Inner>);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for PortKobject<'_> {
    type Raw = *mut kobject;

    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements; by the header the kobject is that of a port's directory, which the core has
        // created.
        let inner = unsafe { NonNull::new_unchecked(Inner::of(raw)) };
        Self(inner, PhantomData)
    }
}

impl<'a> PortKobject<'a> {
    /// The device.
    pub fn device(&self) -> &'a Device {
        // SAFETY: The directory is valid, and it holds a reference to the device. By the header the driver of the device calls with
        // its directory.
        unsafe { (*self.0.as_ptr()).device.with_driver() }
    }

    /// The port.
    pub fn port(&self) -> u32 {
        // SAFETY: The directory is valid, and the field is constant.
        unsafe { (*self.0.as_ptr()).port }
    }
}

impl CoreDevice {
    /// The kobject of the device's directory.
    pub fn kobject(&self) -> &Kobject {
        // SAFETY: The member is valid as long as the device; a view is a transparent wrapper.
        unsafe { &*(&raw mut (*self.as_dev()).kobj).cast() }
    }
}

impl Device {
    /// The driver's attribute groups for each port.
    pub fn driver_port_groups(&self) -> RawGroups {
        // SAFETY: The driver's groups are constant as long as the device is registered.
        unsafe { RawGroups::new(self.ops().port_groups) }
    }

    /// The node description. While it is being changed, the copy may be a mixture of old bytes and new ones.
    pub fn node_desc(&self) -> [u8; 64] {
        // SAFETY: The field is an array of bytes; any value is valid.
        unsafe {
            let desc = &raw const (*self.as_raw()).node_desc;
            desc.cast::<[u8; 64]>().read_volatile()
        }
    }
}
