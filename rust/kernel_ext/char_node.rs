// SPDX-License-Identifier: GPL-2.0

//! Character devices with a node in `/dev` and a folder in sysfs: a `struct device` and a `struct cdev` with data of Rust.
//!
//! [`CharNode::publish`] makes one. The result owns it: when that is unpublished or dropped, the node and the folder are gone.
//! Files that are open then stay open, and keep the memory.
//!
//! C headers: `include/linux/cdev.h`, `include/linux/device.h`.

use core::{
    marker::PhantomData,
    mem::offset_of,
    ops::Deref,
    ptr::{self, NonNull},
    sync::atomic::{AtomicBool, Ordering},
};

use kernel::{device, error::to_result, ffi::c_char, prelude::*, types::Opaque};

use crate::{
    bindings,
    chrdev::{CdevOwner, NodeClass, Nodes},
    context::MaySleep,
    export::Exported,
    file_ops::{self, FileOps},
    sysfs::Text,
};

/// A character device with data.
///
/// # Invariants
///
/// It is the memory of a box from [`CharNode::publish`], which is freed with the last reference to `dev`.
#[repr(C)]
pub struct CharNode<T> {
    dev: Opaque<bindings::device>,
    cdev: Opaque<bindings::cdev>,
    groups: [*const bindings::attribute_group; 2],
    data: T,
}

// SAFETY: The driver model synchronises access to its members; `groups` is constant.
unsafe impl<T: Send> Send for CharNode<T> {}
// SAFETY: The driver model synchronises access to its members; `groups` is constant.
unsafe impl<T: Sync> Sync for CharNode<T> {}

// SAFETY: The offset is that of the member.
unsafe impl<T> CdevOwner for CharNode<T> {
    const OFFSET: usize = offset_of!(CharNode<T>, cdev);
}

/// The operations of a node's files: a `static`.
#[repr(transparent)]
pub struct NodeOps<O>(Exported<bindings::file_operations>, PhantomData<fn() -> O>);

impl<O: FileOps> NodeOps<O> {
    /// The table of `O`, whose code is in the module `owner`.
    pub const fn new(owner: &ThisModule) -> Self {
        const { assert!(O::HAS_OPEN && O::HAS_RELEASE) };
        // SAFETY: `O` opens and releases the files itself. The table is private, and only `publish` uses it, for a character
        // device of an `O::Node`.
        Self(unsafe { file_ops::table::<O>(owner, None) }, PhantomData)
    }
}

/// What a new node is called, and where it is.
pub struct NodeOptions<'a, N: 'static, T: 'static> {
    /// Its class.
    pub class: &'static NodeClass<N>,
    /// The files of its folder in sysfs, besides those of the driver model.
    pub files: &'static NodeFiles<T>,
    /// The parent in the driver model.
    pub parent: Option<&'a device::Device>,
    /// The beginning of its name, which the number follows.
    pub prefix: &'static CStr,
    /// The number.
    pub number: u32,
    /// The device number, as `dev_t`.
    pub devt: u32,
}

impl<T: Send + Sync + 'static> CharNode<T> {
    /// Makes a character device with `data`, and publishes it: from now on its files may be opened.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of the driver model.
    pub fn publish<N: Nodes, O: FileOps<Node = Self>>(
        options: &NodeOptions<'_, N, T>,
        operations: &'static NodeOps<O>,
        data: T,
        _sleep: &MaySleep,
    ) -> Result<Published<T>> {
        let node = KBox::new(
            Self {
                dev: Opaque::new(pin_init::zeroed()),
                cdev: Opaque::new(pin_init::zeroed()),
                groups: [&raw const options.files.group, ptr::null()],
                data,
            },
            GFP_KERNEL,
        )?;
        let node = NonNull::from(KBox::leak(node));
        let table = &raw const operations.0 .0;
        // SAFETY: The memory is new, was leaked, and is not moved. From `device_initialize` on there is one reference, with the
        // last of which `release` frees it; `Node` drops that. The parent is valid during the call, and the driver model takes
        // a reference to it before the call ends. The class and the tables are statics. The name is copied.
        unsafe {
            let (dev, cdev) = (node.as_ref().dev.get(), node.as_ref().cdev.get());
            bindings::device_initialize(dev);
            let unpublished = Reference(node);
            (*dev).release = Some(release::<T>);
            (*dev).class = options.class.as_raw();
            (*dev).parent = options.parent.map_or(ptr::null_mut(), |parent| {
                ptr::from_ref(parent).cast_mut().cast()
            });
            (*dev).groups = (&raw const node.as_ref().groups).cast_mut().cast();
            (*dev).devt = options.devt;
            let (prefix, number) = (options.prefix.as_char_ptr(), options.number);
            let format = c"%s%u".as_char_ptr();
            to_result(bindings::dev_set_name(dev, format, prefix, number))?;
            bindings::cdev_init(cdev, table);
            (*cdev).owner = (*table).owner;
            to_result(bindings::cdev_device_add(cdev, dev))?;
            // INVARIANT: The node was just published.
            Ok(Published {
                node: unpublished,
                is_published: AtomicBool::new(true),
            })
        }
    }
}

impl<T> CharNode<T> {
    /// The data.
    pub fn data(&self) -> &T {
        &self.data
    }

    /// The device in the driver model.
    pub fn dev(&self) -> &device::Device {
        // SAFETY: The device is a member, and was initialised.
        unsafe { device::Device::from_raw(self.dev.get()) }
    }
}

/// A counted reference to a node.
///
/// # Invariants
///
/// The value owns one reference.
struct Reference<T>(NonNull<CharNode<T>>);

// SAFETY: References may be dropped by any thread, and so the data.
unsafe impl<T: Send + Sync> Send for Reference<T> {}
// SAFETY: A shared reference gives access to a shared `CharNode` alone.
unsafe impl<T: Send + Sync> Sync for Reference<T> {}

impl<T> Drop for Reference<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::put_device(self.0.as_ref().dev.get()) };
    }
}

/// A node that is published, until it is [unpublished](Self::unpublish) or dropped, in process context.
///
/// # Invariants
///
/// The node is published as long as `is_published` is set.
pub struct Published<T> {
    node: Reference<T>,
    is_published: AtomicBool,
}

impl<T> Published<T> {
    /// Unpublishes the node: it cannot be opened any more. Later calls do nothing, and may return earlier.
    pub fn unpublish(&self, _sleep: &MaySleep) {
        self.end();
    }

    fn end(&self) {
        if self.is_published.swap(false, Ordering::AcqRel) {
            // SAFETY: By the type invariants the node was published until now.
            unsafe { bindings::cdev_device_del(self.cdev.get(), self.dev.get()) };
        }
    }
}

impl<T> Deref for Published<T> {
    type Target = CharNode<T>;

    fn deref(&self) -> &CharNode<T> {
        // SAFETY: The node is valid as long as there is a reference.
        unsafe { self.node.0.as_ref() }
    }
}

impl<T> Drop for Published<T> {
    fn drop(&mut self) {
        self.end();
    }
}

/// # Safety
///
/// The driver model calls it with the device of a [`CharNode<T>`] that has no reference left.
unsafe extern "C" fn release<T>(dev: *mut bindings::device) {
    const { assert!(offset_of!(CharNode<T>, dev) == 0) };
    // SAFETY: By the safety requirements; `publish` has leaked the box, which begins with the device.
    drop(unsafe { KBox::from_raw(dev.cast::<CharNode<T>>()) });
}

/// A file in the folder of a node.
pub trait NodeFile<T>: 'static {
    /// The file's name.
    const NAME: &'static CStr;

    /// Writes its text.
    ///
    /// # Errors
    ///
    /// Any error; reading the file fails with it.
    fn show(data: &T, text: &mut Text<'_>) -> Result;
}

/// A [`NodeFile`] as a `struct device_attribute`: for a `static`.
#[repr(transparent)]
pub struct NodeAttribute<T>(bindings::device_attribute, PhantomData<fn(&T)>);

// SAFETY: The structure is constant.
unsafe impl<T> Sync for NodeAttribute<T> {}

impl<T: 'static> NodeAttribute<T> {
    /// A file that all users may read.
    pub const fn new<F: NodeFile<T>>() -> Self {
        let mut raw: bindings::device_attribute = pin_init::zeroed();
        raw.attr.name = kernel::str::as_char_ptr_in_const_context(F::NAME);
        raw.attr.mode = 0o444;
        raw.__bindgen_anon_1.show = Some(show::<T, F>);
        Self(raw, PhantomData)
    }
}

/// # Safety
///
/// sysfs calls it with the device of a [`CharNode<T>`], and a page.
unsafe extern "C" fn show<T, F: NodeFile<T>>(
    dev: *mut bindings::device,
    _attr: *mut bindings::device_attribute,
    page: *mut c_char,
) -> isize {
    // SAFETY: By the safety requirements. The node begins with the device.
    let (node, mut text) = unsafe { (&*dev.cast::<CharNode<T>>(), Text::new(page)) };
    match F::show(node.data(), &mut text) {
        Ok(()) => text.len() as isize,
        Err(error) => error.to_errno() as isize,
    }
}

/// The files of a node's folder in sysfs: a `static`.
pub struct NodeFiles<T> {
    group: bindings::attribute_group,
    _data: PhantomData<fn(&T)>,
}

// SAFETY: The table is constant.
unsafe impl<T> Sync for NodeFiles<T> {}

impl<T> NodeFiles<T> {
    /// The files of a list, whose last element is `None`.
    pub const fn new<const N: usize>(
        list: &'static [Option<&'static NodeAttribute<T>>; N],
    ) -> Self {
        assert!(matches!(list.as_slice(), [.., None]), "the list has no end");
        const { assert!(offset_of!(bindings::device_attribute, attr) == 0) };
        let mut group: bindings::attribute_group = pin_init::zeroed();
        group.__bindgen_anon_2.attrs = list.as_ptr().cast_mut().cast();
        Self {
            group,
            _data: PhantomData,
        }
    }
}
