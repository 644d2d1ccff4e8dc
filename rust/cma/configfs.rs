// SPDX-License-Identifier: GPL-2.0

//! The folder of a module in configfs: a user makes a folder in it for a device, which has one for each port, with files.
//!
//! ```text
//! NAME/<device>/ports/<number>/<file>
//! ```
//!
//! C header: `include/linux/configfs.h`.

use core::{
    cell::UnsafeCell,
    fmt::Write,
    ptr::{null_mut, NonNull},
    sync::atomic::{AtomicPtr, AtomicUsize, Ordering},
};

use kernel::{
    bindings::{
        config_group, config_group_init, config_group_init_type_name, config_item, config_item_put,
        config_item_type, configfs_attribute, configfs_group_operations, configfs_item_operations,
        configfs_register_subsystem, configfs_remove_default_groups, configfs_subsystem,
        configfs_unregister_subsystem,
    },
    error::to_result,
    ffi::c_char,
    prelude::*,
    str::CString,
};
use rdma::{core::list, MaySleep};

/// The number of files of a port.
pub const FILES: usize = 2;
/// The size of what a file shows, in bytes.
const PAGE: usize = 4096;

/// A file of a port.
pub struct File {
    /// Its name.
    pub name: &'static CStr,
    /// Writes what the file shows of the port of a device.
    pub show: fn(&CStr, u32, &mut dyn Write, &MaySleep) -> Result,
    /// Takes what was written to the file of the port of a device.
    pub store: fn(&CStr, u32, &[u8], &MaySleep) -> Result,
}

/// What the folder has.
pub struct Table {
    /// The name of the folder.
    pub name: &'static CStr,
    /// The number of ports of a device, which begin at 1; `ENODEV` if there is none of this name.
    pub ports: fn(&CStr, &MaySleep) -> Result<u32>,
    /// The files of a port.
    pub files: [File; FILES],
}

/// The table of the folder that is registered.
static TABLE: AtomicPtr<Table> = AtomicPtr::new(null_mut());

/// What C has of the folder.
struct Shared {
    subsystem: configfs_subsystem,
    top: config_item_type,
    top_ops: configfs_group_operations,
    device: config_item_type,
    device_ops: configfs_item_operations,
    ports: config_item_type,
    ports_ops: configfs_item_operations,
    port: config_item_type,
    port_ops: configfs_item_operations,
    files: [configfs_attribute; FILES],
    list: [*mut configfs_attribute; FILES + 1],
}

struct Static(UnsafeCell<Shared>);

// SAFETY: `Registration::new` writes it while nobody else has it, see `TABLE`; after that C has it, with its own locks.
unsafe impl Sync for Static {}

static SHARED: Static = Static(UnsafeCell::new(
    // SAFETY: Zeroes are valid for all members.
    unsafe { core::mem::zeroed() },
));

/// The folder of a device, with those of its ports.
///
/// Each of its groups holds it: it is freed with the last one.
#[repr(C)]
struct Folder {
    device: config_group,
    ports: config_group,
    numbers: KVec<Port>,
    name: CString,
    groups: AtomicUsize,
}

/// The folder of a port.
#[repr(C)]
struct Port {
    group: config_group,
    number: u32,
    folder: *mut Folder,
}

/// A group of a folder is gone.
///
/// # Safety
///
/// `folder` is a valid folder, whose group is not used any more.
unsafe fn put(folder: *mut Folder) {
    // SAFETY: By the safety requirements.
    if unsafe { (*folder).groups.fetch_sub(1, Ordering::AcqRel) } == 1 {
        // SAFETY: The folder is from `KBox::into_raw`, and was its last group's.
        drop(unsafe { KBox::from_raw(folder) });
    }
}

/// # Safety
///
/// C calls it with the item of a device's group that is gone.
unsafe extern "C" fn release_device(item: *mut config_item) {
    // SAFETY: The item is the first member of the group, and that of the folder.
    unsafe { put(item.cast()) };
}

/// # Safety
///
/// C calls it with the item of a group of ports that is gone.
unsafe extern "C" fn release_ports(item: *mut config_item) {
    let offset = core::mem::offset_of!(Folder, ports);
    // SAFETY: The item is the first member of the group, which is a member of the folder.
    unsafe { put(item.byte_sub(offset).cast()) };
}

/// # Safety
///
/// C calls it with the item of a port's group that is gone.
unsafe extern "C" fn release_port(item: *mut config_item) {
    // SAFETY: The item is the first member of the group, and that of the port.
    unsafe { put((*item.cast::<Port>()).folder) };
}

fn table() -> Option<&'static Table> {
    // SAFETY: The pointer is null, or that of a static table.
    unsafe { TABLE.load(Ordering::Acquire).as_ref() }
}

/// Makes the folder of a device.
fn make(name: &CStr, sleep: &MaySleep) -> Result<NonNull<config_group>> {
    let count = (table().ok_or(ENODEV)?.ports)(name, sleep)?;
    let mut numbers = KVec::with_capacity(count as usize, GFP_KERNEL)?;
    for number in 1..=count {
        let port = Port {
            group: pin_init::zeroed(),
            number,
            folder: null_mut(),
        };
        numbers.push(port, GFP_KERNEL)?;
    }
    let folder = Folder {
        device: pin_init::zeroed(),
        ports: pin_init::zeroed(),
        numbers,
        name: CString::try_from(name)?,
        groups: AtomicUsize::new((count as usize).saturating_add(2)),
    };
    let folder = KBox::into_raw(KBox::new(folder, GFP_KERNEL)?);
    let shared = SHARED.0.get();
    // SAFETY: The folder is new, and does not move any more. The types are constant after registration. The lists of default groups are
    // initialised by the calls before they are changed.
    unsafe {
        let (device, ports) = (&raw mut (*folder).device, &raw mut (*folder).ports);
        let name = (*folder).name.as_char_ptr();
        config_group_init_type_name(device, name, &raw const (*shared).device);
        config_group_init_type_name(ports, c"ports".as_char_ptr(), &raw const (*shared).ports);
        for port in (*folder).numbers.iter_mut() {
            port.folder = folder;
            let mut text = [0u8; 12];
            let written = number_text(&mut text, port.number);
            config_group_init_type_name(
                &mut port.group,
                written.as_char_ptr(),
                &raw const (*shared).port,
            );
            list::append(
                &raw mut (*ports).default_groups,
                &raw mut port.group.group_entry,
            );
        }
        list::append(
            &raw mut (*device).default_groups,
            &raw mut (*ports).group_entry,
        );
        Ok(NonNull::new_unchecked(device))
    }
}

/// A number as text.
fn number_text(text: &mut [u8; 12], number: u32) -> &CStr {
    let mut place = Text {
        bytes: text,
        length: 0,
    };
    let _ = write!(place, "{number}\0");
    CStr::from_bytes_until_nul(text).unwrap_or(c"0")
}

/// Text that is written into bytes.
struct Text<'a> {
    bytes: &'a mut [u8],
    length: usize,
}

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let end = self.length.saturating_add(text.len());
        let place = self.bytes.get_mut(self.length..end);
        for (to, from) in place.ok_or(core::fmt::Error)?.iter_mut().zip(text.bytes()) {
            *to = from;
        }
        self.length = end;
        Ok(())
    }
}

/// # Safety
///
/// C calls it, in process context, when a user makes a folder.
unsafe extern "C" fn make_group(
    _group: *mut config_group,
    name: *const c_char,
) -> *mut config_group {
    // SAFETY: The name is a string; process context.
    let (name, sleep) = unsafe { (CStr::from_char_ptr(name), MaySleep::assume()) };
    match make(name, &sleep) {
        Ok(group) => group.as_ptr(),
        Err(error) => error.to_ptr(),
    }
}

/// # Safety
///
/// C calls it with a folder that a user removes.
unsafe extern "C" fn drop_item(_group: *mut config_group, item: *mut config_item) {
    let folder: *mut Folder = item.cast();
    // SAFETY: The item is the first member of a folder; C gives its reference up.
    unsafe {
        configfs_remove_default_groups(&raw mut (*folder).ports);
        configfs_remove_default_groups(&raw mut (*folder).device);
        config_item_put(item);
    }
}

/// The port of an item.
///
/// # Safety
///
/// The item is that of a port's group.
unsafe fn port_of<'a>(item: *mut config_item) -> (&'a CStr, u32) {
    // SAFETY: By the safety requirements; the members are constant.
    unsafe {
        let port = item.cast::<Port>();
        (&(*(*port).folder).name, (*port).number)
    }
}

/// # Safety
///
/// C calls it with the item of a port, and a page.
unsafe extern "C" fn show<const N: usize>(item: *mut config_item, page: *mut c_char) -> isize {
    // SAFETY: By the safety requirements; process context.
    let (device, port, bytes, sleep) = unsafe {
        let (device, port) = port_of(item);
        let bytes = core::slice::from_raw_parts_mut(page.cast::<u8>(), PAGE);
        (device, port, bytes, MaySleep::assume())
    };
    let mut text = Text { bytes, length: 0 };
    let file = table().and_then(|table| table.files.get(N));
    let shown = file.ok_or(ENODEV);
    match shown.and_then(|file| (file.show)(device, port, &mut text, &sleep)) {
        Ok(()) => text.length as isize,
        Err(error) => error.to_errno() as isize,
    }
}

/// # Safety
///
/// C calls it with the item of a port, and so many bytes.
unsafe extern "C" fn store<const N: usize>(
    item: *mut config_item,
    page: *const c_char,
    count: usize,
) -> isize {
    // SAFETY: By the safety requirements; process context.
    let (device, port, bytes, sleep) = unsafe {
        let (device, port) = port_of(item);
        let bytes = core::slice::from_raw_parts(page.cast::<u8>(), count);
        (device, port, bytes, MaySleep::assume())
    };
    let file = table().and_then(|table| table.files.get(N));
    let stored = file.ok_or(ENODEV);
    match stored.and_then(|file| (file.store)(device, port, bytes, &sleep)) {
        Ok(()) => isize::try_from(count).unwrap_or(isize::MAX),
        Err(error) => error.to_errno() as isize,
    }
}

/// The folder, until it is dropped.
pub struct Registration(());

impl Registration {
    /// Makes the folder.
    ///
    /// # Errors
    ///
    /// `EBUSY` if there is one, and those of configfs.
    pub fn new(
        module: &'static ThisModule,
        table: &'static Table,
        _sleep: &MaySleep,
    ) -> Result<Self> {
        let raw = core::ptr::from_ref(table).cast_mut();
        let order = Ordering::AcqRel;
        TABLE
            .compare_exchange(null_mut(), raw, order, Ordering::Relaxed)
            .map_err(|_| EBUSY)?;
        let shared = SHARED.0.get();
        let owner = module.as_ptr();
        // SAFETY: The exchange has found the table free: this function alone has the structures.
        let ret = unsafe {
            fill(shared, owner, table);
            let subsystem = &raw mut (*shared).subsystem;
            config_group_init(&raw mut (*subsystem).su_group);
            kernel::bindings::__mutex_init(
                &raw mut (*subsystem).su_mutex,
                c"rdma_cma::configfs".as_char_ptr(),
                kernel::static_lock_class!().as_ptr(),
            );
            configfs_register_subsystem(subsystem)
        };
        to_result(ret).inspect_err(|_| TABLE.store(null_mut(), Ordering::Release))?;
        Ok(Self(()))
    }
}

/// Fills in what C has of the folder.
///
/// # Safety
///
/// Nobody else has the structures.
unsafe fn fill(shared: *mut Shared, owner: *mut kernel::bindings::module, table: &Table) {
    // SAFETY: By the safety requirements; zeroes are valid for all members.
    unsafe {
        shared.write_bytes(0, 1);
        let kind = |place: *mut config_item_type, ops: *const configfs_item_operations| {
            (*place).ct_owner = owner;
            (*place).ct_item_ops = ops.cast_mut().cast();
        };
        (*shared).top_ops.make_group = Some(make_group);
        (*shared).top_ops.drop_item = Some(drop_item);
        (*shared).top.ct_group_ops = (&raw mut (*shared).top_ops).cast();
        (*shared).top.ct_owner = owner;
        (*shared).device_ops.release = Some(release_device);
        (*shared).ports_ops.release = Some(release_ports);
        (*shared).port_ops.release = Some(release_port);
        kind(&raw mut (*shared).device, &raw const (*shared).device_ops);
        kind(&raw mut (*shared).ports, &raw const (*shared).ports_ops);
        kind(&raw mut (*shared).port, &raw const (*shared).port_ops);
        let [first, second] = &table.files;
        (*shared).files[0] = attribute(first, owner, show::<0>, store::<0>);
        (*shared).files[1] = attribute(second, owner, show::<1>, store::<1>);
        (*shared).list = [
            &raw mut (*shared).files[0],
            &raw mut (*shared).files[1],
            null_mut(),
        ];
        (*shared).port.ct_attrs = (&raw mut (*shared).list).cast();
        let top = &raw mut (*shared).subsystem.su_group.cg_item;
        (*top).ci_type = &raw const (*shared).top;
        let name = table.name.to_bytes_with_nul();
        for (to, from) in (*top).ci_namebuf.iter_mut().take(19).zip(name) {
            *to = *from;
        }
    }
}

/// Shows a file.
type Show = unsafe extern "C" fn(*mut config_item, *mut c_char) -> isize;
/// Takes what was written to a file.
type Store = unsafe extern "C" fn(*mut config_item, *const c_char, usize) -> isize;

fn attribute(
    file: &File,
    owner: *mut kernel::bindings::module,
    show: Show,
    store: Store,
) -> configfs_attribute {
    let mut raw: configfs_attribute = pin_init::zeroed();
    raw.ca_name = file.name.as_char_ptr();
    raw.ca_owner = owner;
    raw.ca_mode = 0o644;
    raw.show = Some(show);
    raw.store = Some(store);
    raw
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: `new` has registered the folder. Users that have made folders keep the module.
        unsafe { configfs_unregister_subsystem(&raw mut (*SHARED.0.get()).subsystem) };
        TABLE.store(null_mut(), Ordering::Release);
    }
}
