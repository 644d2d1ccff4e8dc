// SPDX-License-Identifier: GPL-2.0

//! The character device of an RDMA device, `/dev/infiniband/uverbsN`: `struct ib_uverbs_device`.
//!
//! It outlives its RDMA device while files are open. An [`Access`] holds `disassociate_srcu`, which delays the removal of the
//! RDMA device.
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `disassociate_srcu` | the RDMA device against its removal | process context, by each command | all locks of commands |
//! | `lists_mutex` | the list of open files | process context | `hw_destroy_rwsem` of a file |
//!
//! C headers: `include/linux/cdev.h`, `include/linux/device.h`.

use core::{
    mem::offset_of,
    ops::Deref,
    pin::Pin,
    ptr::{self, NonNull},
    sync::atomic::{AtomicPtr, AtomicU8, Ordering},
};

use kernel::{
    error::to_result,
    ffi::{c_char, c_int},
    prelude::*,
    sync::aref::{ARef, AlwaysRefCounted},
};
use kernel_ext::{
    chrdev::{CdevOwner, NodeClass, Nodes},
    cmutex::{CMutex, CMutexGuard},
    entry::view_of,
    export::Exported,
    srcu::{self, Srcu},
    sysfs::Text,
};
use rdma::{
    core::{command::UverbsFile, list, Device},
    MaySleep,
};
use rdma_bindings::{self as bindings, ib_uverbs_device};

use crate::{
    api::Api,
    file::{File, FileRef},
};

view_of! {
    /// The character device of an RDMA device.
    pub struct Node(ib_uverbs_device);
}

// SAFETY: The driver model counts the references.
unsafe impl AlwaysRefCounted for Node {
    fn inc_ref(&self) {
        // SAFETY: The device is valid.
        unsafe { bindings::get_device(self.raw_dev()) };
    }

    unsafe fn dec_ref(node: NonNull<Self>) {
        // SAFETY: By the safety requirements.
        unsafe { bindings::put_device(node.as_ref().raw_dev()) };
    }
}

// SAFETY: `OFFSET` is the offset of the member `cdev`.
unsafe impl CdevOwner for Node {
    const OFFSET: usize = offset_of!(ib_uverbs_device, cdev);
}

/// The node has been made.
const NEW: u8 = 0;
/// It is being published, or that has failed.
const PUBLISHING: u8 = 1;
/// It is published.
const PUBLISHED: u8 = 2;
/// It was unpublished.
const UNPUBLISHED: u8 = 3;

/// A node with its ownership: it is published once, and unpublished once. If this value is dropped in between, the node stays
/// published for good.
///
/// # Invariants
///
/// `stage` is the stage of the node. A published node owns one reference to itself. Its first use is counted until it is
/// unpublished.
pub struct OwnNode {
    node: ARef<Node>,
    stage: AtomicU8,
}

impl Deref for OwnNode {
    type Target = Node;

    #[inline]
    fn deref(&self) -> &Node {
        &self.node
    }
}

impl OwnNode {
    /// Creates the node of a device; its files use the methods of `api`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new<T: Nodes>(
        device: &Device,
        api: Pin<KBox<Api>>,
        class: &'static NodeClass<T>,
        attributes: &'static Attributes,
        _sleep: &MaySleep,
    ) -> Result<Self> {
        let memory = KBox::<ib_uverbs_device>::init(pin_init::init_zeroed(), GFP_KERNEL)?;
        let raw = KBox::into_raw(memory);
        // SAFETY: The memory is new, and not moved from here on.
        let initialised = unsafe { srcu::init(&raw mut (*raw).disassociate_srcu) };
        if let Err(error) = initialised {
            // SAFETY: The initialisation has failed, so this function still owns the memory.
            drop(unsafe { KBox::from_raw(raw) });
            return Err(error);
        }
        // SAFETY: This function still owns the memory; from `device_initialize` on `release` frees it with the last reference, of
        // which there is one. The parent outlives the RDMA device, which is registered until the node is unpublished.
        unsafe {
            bindings::ib_uverbs_device_init_members(raw);
            bindings::device_initialize(&raw mut (*raw).dev);
            (*raw).dev.class = class.as_raw();
            (*raw).dev.parent = (*device.as_dev()).parent;
            (*raw).dev.release = Some(release);
            (*raw).groups = [attributes.group(), ptr::null()];
            (*raw).dev.groups = (&raw mut (*raw).groups).cast();
            (*raw).ib_dev = device.as_raw();
            (*raw).num_comp_vectors = (*device.as_raw()).num_comp_vectors as u32;
            (*raw).uapi = KBox::into_raw(Pin::into_inner_unchecked(api)).cast();
            // INVARIANT: The node was just created, with its first use.
            Ok(Self {
                node: ARef::from_raw(NonNull::new_unchecked(raw).cast()),
                stage: AtomicU8::new(NEW),
            })
        }
    }

    /// Publishes the node as `uverbsN` with the N `number` and the device number `devt`. The code of `operations` is in `owner`.
    ///
    /// # Errors
    ///
    /// `EEXIST` for a second call; `ENOMEM`, and those of the driver model. On an error, the function waits until processes that
    /// have opened the node have closed it.
    ///
    /// # Safety
    ///
    /// Before the RDMA device is unregistered, the node is unpublished, and then either [disassociated](Node::disassociate), or
    /// [retired](Unpublished::retire) with a wait for its files.
    pub unsafe fn publish(
        &self,
        number: u32,
        devt: bindings::dev_t,
        operations: &'static Exported<bindings::file_operations>,
        owner: &'static ThisModule,
        sleep: &MaySleep,
    ) -> Result {
        self.advance(NEW, PUBLISHING).ok_or(EEXIST)?;
        let (raw, dev) = (self.as_raw(), self.raw_dev());
        // SAFETY: By the type invariants the node was new, so that the members are unused; the name is copied.
        let published = unsafe {
            (*raw).devnum = number as c_int;
            (*dev).devt = devt;
            to_result(bindings::dev_set_name(
                dev,
                c"uverbs%d".as_char_ptr(),
                number as c_int,
            ))
            .and_then(|()| {
                let cdev = &raw mut (*raw).cdev;
                bindings::cdev_init(cdev, &raw const operations.0);
                (*cdev).owner = owner.as_ptr();
                to_result(bindings::cdev_device_add(cdev, dev))
            })
        };
        // INVARIANT: The node is not published, or was just published, and the first use is counted.
        let end = Unpublished(self.node.clone());
        if let Err(error) = published {
            // The function may fail after a process has opened the node.
            end.retire(true, sleep);
            return Err(error);
        }
        core::mem::forget(end);
        self.stage.store(PUBLISHED, Ordering::Release);
        Ok(())
    }

    /// Unpublishes the node: it cannot be opened any more. `None` if it is not published.
    pub fn unpublish(&self, _sleep: &MaySleep) -> Option<Unpublished> {
        self.advance(PUBLISHED, UNPUBLISHED)?;
        // SAFETY: By the type invariants the node was published until now, and owned a reference for that, which is taken over.
        unsafe {
            bindings::cdev_device_del(&raw mut (*self.as_raw()).cdev, self.raw_dev());
            // INVARIANT: Only this call has unpublished the node.
            Some(Unpublished(ARef::from_raw(NonNull::from(&*self.node))))
        }
    }

    fn advance(&self, from: u8, to: u8) -> Option<()> {
        let (order, failed) = (Ordering::AcqRel, Ordering::Relaxed);
        let changed = self.stage.compare_exchange(from, to, order, failed);
        changed.map(drop).ok()
    }
}

/// A node that is not published any more, and may still have open files.
///
/// # Invariants
///
/// The first use of the node is counted, and this value owns it.
#[must_use = "the node is retired, or its files cannot be waited for"]
pub struct Unpublished(ARef<Node>);

impl Unpublished {
    /// Drops the first use of the node; with `wait`, waits until no file is open.
    pub fn retire(self, wait: bool, _sleep: &MaySleep) {
        // By the type invariants the first use is counted.
        drop(Use(&self.0));
        if wait {
            // SAFETY: The member was initialised, and the token proves that the context may sleep.
            unsafe { bindings::wait_for_completion(&raw mut (*self.0.as_raw()).comp) };
        }
    }
}

impl Node {
    /// The node of an open file.
    #[inline]
    pub fn of(file: &UverbsFile) -> &Self {
        // SAFETY: The member is constant, and the file holds a reference.
        unsafe { &*(*file.as_raw()).device.cast() }
    }

    fn raw_dev(&self) -> *mut bindings::device {
        // SAFETY: The member lies in the structure, which is valid as `self` is.
        unsafe { &raw mut (*self.as_raw()).dev }
    }

    /// The device in the driver model.
    pub fn dev(&self) -> &kernel::device::Device {
        // SAFETY: The device is a member of the node.
        unsafe { kernel::device::Device::from_raw(self.raw_dev()) }
    }

    /// The N of `uverbsN`.
    pub fn number(&self) -> u32 {
        // SAFETY: The member is set before the node is published.
        unsafe { (*self.as_raw()).devnum as u32 }
    }

    /// The number of completion vectors of the device.
    pub fn comp_vectors(&self) -> u32 {
        // SAFETY: The member is constant.
        unsafe { (*self.as_raw()).num_comp_vectors }
    }

    /// The uverbs API of the device.
    pub fn api(&self) -> &Api {
        // SAFETY: The member is set when the node is made, and freed with it.
        unsafe { &*(*self.as_raw()).uapi.cast() }
    }

    fn srcu(&self) -> &Srcu {
        // SAFETY: The member is initialised when the node is made, and cleaned up with its memory.
        unsafe { Srcu::from_raw(&raw mut (*self.as_raw()).disassociate_srcu) }
    }

    fn device_member(&self) -> &AtomicPtr<bindings::ib_device> {
        // SAFETY: The member is a pointer that is accessed atomically.
        unsafe { AtomicPtr::from_ptr(&raw mut (*self.as_raw()).ib_dev) }
    }

    /// Enters `disassociate_srcu`. Commands hold it until they return.
    #[inline]
    pub fn access(&self) -> Access<'_> {
        Access {
            node: self,
            _guard: self.srcu().read(),
        }
    }

    /// Clears the RDMA device of the node, and waits until no command uses the device any more.
    pub fn disassociate(&self, sleep: &MaySleep) {
        self.device_member()
            .store(ptr::null_mut(), Ordering::Release);
        self.api().disassociate_pre();
        self.srcu().synchronize(sleep);
    }

    fn try_use(&self) -> Option<Use<'_>> {
        // SAFETY: The member was initialised.
        let used = unsafe { bindings::refcount_inc_not_zero(&raw mut (*self.as_raw()).refcount) };
        used.then(|| Use(self))
    }

    fn lock_files(&self, sleep: &MaySleep) -> CMutexGuard<'_> {
        // SAFETY: The mutex was initialised with the node, and is valid as long.
        unsafe { CMutex::from_raw(&raw mut (*self.as_raw()).lists_mutex) }.lock(sleep)
    }

    fn files(&self) -> *mut bindings::list_head {
        // SAFETY: The member lies in the structure, which is valid as `self` is.
        unsafe { &raw mut (*self.as_raw()).uverbs_file_list }
    }

    /// Opens a file, unless `may` fails.
    ///
    /// # Errors
    ///
    /// `ENXIO` or `EIO` if the RDMA device was removed, `ENODEV` if its driver is being unloaded, `ENOMEM`; those of `may`.
    pub fn open(&self, may: impl FnOnce(&Device) -> Result, sleep: &MaySleep) -> Result<FileRef> {
        let user = self.try_use().ok_or(ENXIO)?;
        let access = self.access();
        let _lock = self.lock_files(sleep);
        let device = access.device().ok_or(EIO)?;
        may(device)?;
        let driver = Driver::hold(device)?;
        // SAFETY: The references that the last reference to the file drops are given up to it below.
        let file = unsafe { File::alloc(NonNull::from(self).cast(), sleep) }?;
        core::mem::forget((user, driver, ARef::from(self)));
        // SAFETY: The list is locked, and the file in none.
        unsafe { list::append(self.files(), &raw mut (*file.as_raw()).list) };
        Ok(file)
    }

    /// Removes a file from its node's list of open files, if it is in it.
    pub fn forget_file(file: &UverbsFile, sleep: &MaySleep) {
        let _lock = Self::of(file).lock_files(sleep);
        // SAFETY: The list of the file's node is locked. The file is in it, or its entry is an empty list of its own.
        unsafe { list::remove(&raw mut (*file.as_raw()).list) };
    }

    /// Removes the first file from the list, and returns a reference to it.
    pub fn take_file(&self, sleep: &MaySleep) -> Option<FileRef> {
        let _lock = self.lock_files(sleep);
        // SAFETY: The list is locked; a file is removed from it before its opener's reference is dropped.
        unsafe {
            let link = list::first(self.files())?;
            list::remove(link);
            Some(ARef::from(&*Self::file_of(link)))
        }
    }

    /// Calls `f` with each open file, with the list locked.
    pub fn for_each_file(&self, mut f: impl FnMut(&File), sleep: &MaySleep) {
        let _lock = self.lock_files(sleep);
        let mut link = self.files();
        // SAFETY: The list is locked, so that its files are valid.
        unsafe {
            while let Some(next) = list::after(self.files(), link) {
                f(&*Self::file_of(next));
                link = next;
            }
        }
    }

    fn file_of(link: *mut bindings::list_head) -> *const File {
        link.cast::<u8>()
            .wrapping_sub(offset_of!(bindings::ib_uverbs_file, list))
            .cast()
    }
}

/// # Safety
///
/// The driver model calls it with the device of a [`Node`] that has no reference left.
unsafe extern "C" fn release(dev: *mut bindings::device) {
    // SAFETY: The device is the member of a node, whose box `new` has leaked. It has no references, so its files are closed. The
    // last reference is dropped in process context.
    unsafe {
        let raw = dev
            .byte_sub(offset_of!(ib_uverbs_device, dev))
            .cast::<ib_uverbs_device>();
        drop(Pin::new_unchecked(KBox::from_raw(
            (*raw).uapi.cast::<Api>(),
        )));
        srcu::cleanup(&raw mut (*raw).disassociate_srcu, &MaySleep::assume());
        drop(KBox::from_raw(raw));
    }
}

/// A use of a node (`refcount`): the first, or one of an open file, which ib_uverbs_support drops.
struct Use<'a>(&'a Node);

impl Drop for Use<'_> {
    fn drop(&mut self) {
        let raw = self.0.as_raw();
        // SAFETY: The use was counted.
        unsafe {
            if bindings::refcount_dec_and_test(&raw mut (*raw).refcount) {
                bindings::complete(&raw mut (*raw).comp);
            }
        }
    }
}

/// A reference to the module of a driver without `disassociate_ucontext`, for an open file; ib_uverbs_support drops it.
struct Driver(*mut bindings::module);

impl Driver {
    fn hold(device: &Device) -> Result<Option<Self>> {
        if device.has_disassociate() {
            return Ok(None);
        }
        let module = device.ops().owner;
        // SAFETY: The driver's module is valid as long as its device; null stands for the kernel itself.
        let held = unsafe { bindings::try_module_get(module) };
        held.then(|| Some(Self(module))).ok_or(ENODEV)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // SAFETY: The reference was counted.
        unsafe { bindings::module_put(self.0) };
    }
}

/// A guard that holds `disassociate_srcu` of a node.
pub struct Access<'a> {
    node: &'a Node,
    _guard: srcu::ReadGuard<'a>,
}

impl Access<'_> {
    /// The RDMA device, unless it was removed.
    #[inline]
    pub fn device(&self) -> Option<&Device> {
        let device = self.node.device_member().load(Ordering::Acquire);
        // SAFETY: After the member is cleared, the removal of the device waits for this guard; a view is a transparent wrapper.
        unsafe { device.cast::<Device>().as_ref() }
    }
}

/// Whether the current process has the credentials that the file was opened with, and the access is not the kernel's. Commands by
/// `write()` require that.
pub fn is_safe(file: &kernel::fs::File) -> bool {
    // SAFETY: The file is valid.
    unsafe { bindings::ib_safe_file_access(file.as_ptr()) }
}

/// A file in the directory of a node in sysfs, which shows an attribute of the RDMA device.
pub trait Attribute: 'static {
    /// The file's name.
    const NAME: &'static CStr;

    /// Writes its text.
    fn show(device: &Device, text: &mut Text<'_>) -> Result;
}

/// An [`Attribute`] as a `struct device_attribute`: for a `static`.
#[repr(transparent)]
pub struct DeviceAttribute(bindings::device_attribute);

// SAFETY: The structure is constant.
unsafe impl Sync for DeviceAttribute {}

impl DeviceAttribute {
    /// Creates a file that all users may read.
    pub const fn new<T: Attribute>() -> Self {
        let mut raw: bindings::device_attribute = pin_init::zeroed();
        raw.attr.name = kernel::str::as_char_ptr_in_const_context(T::NAME);
        raw.attr.mode = 0o444;
        raw.__bindgen_anon_1.show = Some(show::<T>);
        Self(raw)
    }
}

/// # Safety
///
/// sysfs calls it with the device of a [`Node`], and a page.
unsafe extern "C" fn show<T: Attribute>(
    dev: *mut bindings::device,
    _attr: *mut bindings::device_attribute,
    page: *mut c_char,
) -> isize {
    // SAFETY: By the safety requirements.
    let (node, mut text) = unsafe {
        let node = dev
            .byte_sub(offset_of!(ib_uverbs_device, dev))
            .cast::<Node>();
        (&*node, Text::new(page))
    };
    let access = node.access();
    let shown = access
        .device()
        .ok_or(ENODEV)
        .and_then(|device| T::show(device, &mut text));
    match shown {
        Ok(()) => text.len() as isize,
        Err(error) => error.to_errno() as isize,
    }
}

/// The files of a node's directory in sysfs, besides those of the driver model: a `static`.
pub struct Attributes {
    group: bindings::attribute_group,
}

// SAFETY: The table is constant.
unsafe impl Sync for Attributes {}

impl Attributes {
    /// The files of a list, whose last element is `None`.
    pub const fn new<const N: usize>(list: &'static [Option<&'static DeviceAttribute>; N]) -> Self {
        assert!(matches!(list.as_slice(), [.., None]), "the list has no end");
        const { assert!(offset_of!(bindings::device_attribute, attr) == 0) };
        let mut group: bindings::attribute_group = pin_init::zeroed();
        group.__bindgen_anon_2.attrs = list.as_ptr().cast_mut().cast();
        Self { group }
    }

    fn group(&'static self) -> *const bindings::attribute_group {
        &raw const self.group
    }
}
