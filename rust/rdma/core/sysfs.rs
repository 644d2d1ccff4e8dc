// SPDX-License-Identifier: GPL-2.0

//! Devices and ports in sysfs: their files, and the directories of ports.
//!
//! Files in a port's directory are `struct ib_port_attribute`, whoever has made them: the core, the driver or a client.
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

use super::{stats::HwCounters, CoreDevice, Device};
use crate::MaySleep;

/// What a file is about.
pub struct Subject<'a> {
    /// The device.
    pub device: &'a Device,
    /// The port; 0 for a file of the device.
    pub port: u32,
    /// The file's number among those of its kind.
    pub index: u32,
    /// The counters, for a file of counters.
    pub stats: Option<&'a HwCounters>,
}

/// Writes what a file contains: a line, with its newline.
pub type Show = fn(&Subject<'_>, &mut Text<'_>, &MaySleep) -> Result;

/// Takes what was written to a file.
pub type Store = fn(&Subject<'_>, &[u8], &MaySleep) -> Result;

/// What answers for a file of the core.
pub struct Behaviour {
    show: Show,
    store: Option<Store>,
    index: u32,
    stats: Option<Arc<HwCounters>>,
}

impl Behaviour {
    /// A file that can be read.
    pub fn read(name: Name, show: Show) -> NewFile<Self> {
        Self::new(name, show, None, 0, None)
    }

    /// A file that root may write.
    pub fn read_write(name: Name, show: Show, store: Store) -> NewFile<Self> {
        Self::new(name, show, Some(store), 0, None)
    }

    /// A file that can be read, one of many.
    pub fn numbered(name: Name, show: Show, index: u32) -> NewFile<Self> {
        Self::new(name, show, None, index, None)
    }

    /// A file of counters.
    pub fn of_counters(
        name: Name,
        show: Show,
        store: Option<Store>,
        index: u32,
        stats: Arc<HwCounters>,
    ) -> NewFile<Self> {
        Self::new(name, show, store, index, Some(stats))
    }

    fn new(
        name: Name,
        show: Show,
        store: Option<Store>,
        index: u32,
        stats: Option<Arc<HwCounters>>,
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

    fn subject<'a>(&'a self, device: &'a Device, port: u32) -> Subject<'a> {
        Subject {
            device,
            port,
            index: self.index,
            stats: self.stats.as_deref(),
        }
    }

    /// Answers a read.
    ///
    /// # Safety
    ///
    /// There is room for a page at `page`. Process context.
    unsafe fn answer(&self, device: &Device, port: u32, page: *mut c_char) -> isize {
        // SAFETY: By the safety requirements.
        let (mut text, sleep) = unsafe { (Text::new(page), MaySleep::assume()) };
        from_result(|| {
            (self.show)(&self.subject(device, port), &mut text, &sleep)?;
            Ok(text.len() as isize)
        })
    }

    /// Takes a write.
    ///
    /// # Safety
    ///
    /// There are `count` bytes at `page`. Process context.
    unsafe fn take(&self, device: &Device, port: u32, page: *const c_char, count: usize) -> isize {
        // SAFETY: By the safety requirements.
        let (bytes, sleep) = unsafe {
            let bytes = core::slice::from_raw_parts(page.cast::<u8>(), count);
            (bytes, MaySleep::assume())
        };
        from_result(|| {
            let store = self.store.ok_or(EIO)?;
            store(&self.subject(device, port), bytes, &sleep)?;
            Ok(count as isize)
        })
    }
}

/// Who may use a file.
const fn mode(writable: bool) -> u16 {
    if writable {
        0o644
    } else {
        0o444
    }
}

// SAFETY: Both structures begin with an attribute; the methods are for this type of files.
unsafe impl RawAttribute<Behaviour> for ib_port_attribute {
    fn new(writable: bool) -> Self {
        let mut raw: Self = pin_init::zeroed();
        raw.attr.mode = mode(writable);
        raw.show = Some(show_of_port);
        raw.store = if writable { Some(store_of_port) } else { None };
        raw
    }
}

// SAFETY: As above.
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

/// Files of the core in a port's directory.
pub type PortGroup = Group<ib_port_attribute, Behaviour>;

/// Files of the core in a device's directory.
pub type DeviceGroup = Group<device_attribute, Behaviour>;

/// # Safety
///
/// The file is one of a [`PortGroup`] that is in the directory of the port; there is room for a page.
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
/// The file is one of a [`PortGroup`] that is in the directory of the port; there are `count` bytes.
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

/// The device that the driver model means.
///
/// # Safety
///
/// `dev` is the device in an `ib_core_device` that is there for `'a`.
unsafe fn owner<'a>(dev: *mut device) -> &'a Device {
    const { assert!(core::mem::offset_of!(bindings::ib_core_device, dev) == 0) };
    // SAFETY: By the safety requirements; a view is a transparent wrapper.
    unsafe { (*dev.cast::<CoreDevice>()).owner() }
}

/// # Safety
///
/// The file is one of a [`DeviceGroup`] that is in the directory of the device; there is room for a page.
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
/// The file is one of a [`DeviceGroup`] that is in the directory of the device; there are `count` bytes.
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

/// The files of a device that is in the driver model, or about to be. Dropping it gives them up.
pub(super) struct DeviceFiles {
    device: ARef<Device>,
    _own: DeviceGroup,
    _counters: Option<DeviceGroup>,
}

impl DeviceFiles {
    /// Says which files a device has when it is put into the driver model: those of the core, then those of the driver,
    /// then counters.
    ///
    /// # Safety
    ///
    /// The device is being registered, by this thread alone. It is not in the driver model now, and is not any more when this is
    /// dropped.
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
        // SAFETY: By the safety requirements nobody uses the members.
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
        // SAFETY: The device is not in the driver model, so nobody uses the fields.
        unsafe {
            (*self.device.as_raw()).groups = pin_init::zeroed();
            (*self.device.as_raw()).hw_stats_attr_index = 0;
        }
    }
}

/// A directory about a port, as C knows it.
#[repr(C)]
struct Inner {
    kobj: Opaque<kobject>,
    device: ARef<Device>,
    port: u32,
    groups: KVec<PortGroup>,
    list: KVec<*const attribute_group>,
}

impl Inner {
    /// # Safety
    ///
    /// `kobj` is that of a [`PortDirectory`].
    unsafe fn of(kobj: *mut kobject) -> *mut Self {
        // It is the first member.
        const { assert!(core::mem::offset_of!(Inner, kobj) == 0) };
        kobj.cast()
    }

    /// # Safety
    ///
    /// The directory has no reference left.
    unsafe extern "C" fn release(kobj: *mut kobject) {
        // SAFETY: By the safety requirements; the box was given up when the directory was made.
        drop(unsafe { KBox::from_raw(Self::of(kobj)) });
    }

    /// # Safety
    ///
    /// The file is a `struct ib_port_attribute` of the directory; there is room for a page.
    unsafe extern "C" fn show(
        kobj: *mut kobject,
        file: *mut attribute,
        page: *mut c_char,
    ) -> isize {
        let file: *mut ib_port_attribute = file.cast();
        // SAFETY: By the safety requirements.
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
    /// The file is a `struct ib_port_attribute` of the directory; there are `count` bytes.
    unsafe extern "C" fn store(
        kobj: *mut kobject,
        file: *mut attribute,
        page: *const c_char,
        count: usize,
    ) -> isize {
        let file: *mut ib_port_attribute = file.cast();
        // SAFETY: By the safety requirements.
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

/// A constant table of C.
#[repr(transparent)]
struct Constant<T>(T);

// SAFETY: It is constant.
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

/// A directory about a port: the port's own, or one in it. Dropping it takes it out of sysfs.
///
/// # Invariants
///
/// The directory is in sysfs with its groups, and one reference is ours.
pub struct PortDirectory(NonNull<Inner>);

// SAFETY: Directories may be used from any thread.
unsafe impl Send for PortDirectory {}

/// A reference that is given up unless it is taken.
struct NewDirectory(NonNull<Inner>);

impl Drop for NewDirectory {
    fn drop(&mut self) {
        // SAFETY: The reference is ours.
        unsafe { bindings::kobject_put(self.0.as_ptr().cast()) };
    }
}

impl PortDirectory {
    /// Makes a directory with files, in another one that is the device's or in it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EEXIST`.
    pub fn new(
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
            device: device.into(),
            port,
            groups,
            list,
        };
        let raw = NonNull::from(KBox::leak(KBox::new(inner, GFP_KERNEL)?));
        let kobj: *mut kobject = raw.as_ptr().cast();
        // SAFETY: The object is new and zeroed; the type is right for it. From here on it is counted.
        unsafe { bindings::kobject_init(kobj, &raw const KIND.0) };
        let new = NewDirectory(raw);
        // SAFETY: The parent is there; the name is copied; the groups are there as long as the directory.
        unsafe {
            let format = c"%s".as_char_ptr();
            let name = name.as_char_ptr();
            to_result(bindings::kobject_add(kobj, parent.as_raw(), format, name))?;
            let list = (*raw.as_ptr()).list.as_ptr();
            to_result(bindings::sysfs_create_groups(kobj, list))
                .inspect_err(|_| bindings::kobject_del(kobj))?;
        }
        core::mem::forget(new);
        // INVARIANT: The directory is there, and the reference is ours.
        Ok(Self(raw))
    }

    /// The directory, for others in it.
    pub fn kobject(&self) -> &Kobject {
        // SAFETY: By the type invariants; a view is a transparent wrapper.
        unsafe { self.0.cast().as_ref() }
    }

    /// The port.
    pub fn port(&self) -> u32 {
        // SAFETY: By the type invariants; the field is constant.
        unsafe { (*self.0.as_ptr()).port }
    }

    /// Puts files of C code into the directory.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EEXIST`.
    pub fn add_groups(&self, groups: RawGroups, _sleep: &MaySleep) -> Result {
        let list = groups.as_raw().cast_const();
        // SAFETY: The directory and the groups are there.
        to_result(unsafe { bindings::sysfs_create_groups(self.kobject().as_raw(), list) })
    }

    /// Takes files of C code out of the directory, and waits for those who read them.
    pub fn remove_groups(&self, groups: RawGroups, _sleep: &MaySleep) {
        let list = groups.as_raw().cast_const();
        if list.is_null() {
            return;
        }
        // SAFETY: The directory and the groups are there.
        unsafe { bindings::sysfs_remove_groups(self.kobject().as_raw(), list) };
    }
}

impl Drop for PortDirectory {
    fn drop(&mut self) {
        // SAFETY: By the type invariants. Taking files out waits for those who read them.
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

/// A port's directory, as the header passes it.
pub struct PortKobject<'a>(NonNull<Inner>, PhantomData<&'a Inner>);

// SAFETY: The directory of a port is one that the core has made.
unsafe impl FromC for PortKobject<'_> {
    type Raw = *mut kobject;

    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements and what the header says.
        let inner = unsafe { NonNull::new_unchecked(Inner::of(raw)) };
        Self(inner, PhantomData)
    }
}

impl<'a> PortKobject<'a> {
    /// The device.
    pub fn device(&self) -> &'a Device {
        // SAFETY: The directory is there, and the device as long.
        unsafe { &(*self.0.as_ptr()).device }
    }

    /// The port.
    pub fn port(&self) -> u32 {
        // SAFETY: The directory is there; the field is constant.
        unsafe { (*self.0.as_ptr()).port }
    }
}

impl CoreDevice {
    /// The device's directory.
    pub fn kobject(&self) -> &Kobject {
        // SAFETY: The member is there as long as the device; a view is a transparent wrapper.
        unsafe { &*(&raw mut (*self.as_dev()).kobj).cast() }
    }
}

impl Device {
    /// The driver's files for each port.
    pub fn driver_port_groups(&self) -> RawGroups {
        // SAFETY: The driver's groups are constant.
        unsafe { RawGroups::new(self.ops().port_groups) }
    }

    /// The description of the node. It may be changed at any time: then it may be a mixture.
    pub fn node_desc(&self) -> [u8; 64] {
        // SAFETY: The field is an array of bytes; any are valid.
        unsafe {
            let desc = &raw const (*self.as_raw()).node_desc;
            desc.cast::<[u8; 64]>().read_volatile()
        }
    }
}
