// SPDX-License-Identifier: GPL-2.0

//! A device's own attributes in sysfs: files in `/sys/class/infiniband/NAME/`.
//!
//! New attributes belong to netlink; this is for those that existing user space reads, and for settings of a driver that RDMA
//! netlink has no attribute for.
//!
//! C header: `include/linux/sysfs.h`.

use core::{fmt, marker::PhantomData, mem, ptr, slice};

use kernel::{error::from_result, ffi, page::PAGE_SIZE, prelude::*};
use rdma_bindings::{self as bindings, attribute, attribute_group, device, device_attribute};

use crate::{provider::data::ProviderData, Device, MaySleep};

/// A read-only file.
pub trait DeviceAttribute: 'static {
    /// The file's name.
    const NAME: &'static CStr;
    /// The devices that have the file.
    type Device: ProviderData;

    /// Writes the content of the file: a line with its newline, truncated to a page.
    fn show(dev: &Device<Self::Device>, out: &mut dyn fmt::Write, sleep: &MaySleep) -> Result;
}

/// A write-only file, of those devices that have it.
pub trait DeviceCommand: 'static {
    /// The file's name.
    const NAME: &'static CStr;
    /// The devices that may have the file.
    type Device: ProviderData;

    /// Whether a device has the file. Called once, when the device is registered.
    fn exists(dev: &Device<Self::Device>) -> bool;

    /// Executes what is written, which user space controls.
    fn store(dev: &Device<Self::Device>, text: &[u8], sleep: &MaySleep) -> Result;
}

/// The attribute group of the devices of the driver `P`.
#[repr(transparent)]
pub struct AttributeGroup<P>(attribute_group, PhantomData<fn() -> P>);

// SAFETY: The group is constant.
unsafe impl<P> Sync for AttributeGroup<P> {}
// SAFETY: The group is constant.
unsafe impl<P> Send for AttributeGroup<P> {}

impl<P: ProviderData> AttributeGroup<P> {
    /// The group of an attribute and two commands of the same devices.
    pub const fn of<A, C, D>() -> &'static Self
    where
        A: DeviceAttribute<Device = P>,
        C: DeviceCommand<Device = P>,
        D: DeviceCommand<Device = P>,
    {
        Files::<A, C, D>::GROUP_REF
    }

    pub(crate) const fn as_raw(&self) -> *const attribute_group {
        &self.0
    }
}

/// The file of the attribute `A`.
struct Shown<A>(PhantomData<A>);

impl<A: DeviceAttribute> Shown<A> {
    const FILE: device_attribute = {
        let mut file: device_attribute = pin_init::zeroed();
        file.attr.name = A::NAME.to_bytes_with_nul().as_ptr().cast();
        file.attr.mode = 0o444;
        file.__bindgen_anon_1.show = Some(Self::show);
        file
    };
    const FILE_REF: &'static device_attribute = &Self::FILE;

    /// The C entry point of `show`.
    ///
    /// # Safety
    ///
    /// `dev` must be the device in an `ib_device` of `A::Device`, or in its entry in another
    /// namespace. `buf` must be valid for writes of a page. The context must be process context.
    unsafe extern "C" fn show(
        dev: *mut device,
        _attr: *mut device_attribute,
        buf: *mut ffi::c_char,
    ) -> isize {
        // SAFETY: By the safety requirements; the file is removed before the device is freed.
        let (dev, mut out, sleep) = unsafe {
            (
                Device::from_raw(bindings::rdma_device_to_ibdev(dev)),
                Bounded::new(buf.cast(), PAGE_SIZE),
                MaySleep::assume(),
            )
        };
        from_result(|| {
            A::show(dev, &mut out, &sleep)?;
            Ok(out.written as isize)
        })
    }
}

/// The file of the command `C`.
struct Stored<C>(PhantomData<C>);

impl<C: DeviceCommand> Stored<C> {
    const FILE: device_attribute = {
        let mut file: device_attribute = pin_init::zeroed();
        file.attr.name = C::NAME.to_bytes_with_nul().as_ptr().cast();
        file.attr.mode = 0o200;
        file.__bindgen_anon_2.store = Some(Self::store);
        file
    };
    const FILE_REF: &'static device_attribute = &Self::FILE;

    /// The C entry point of `store`.
    ///
    /// # Safety
    ///
    /// `dev` must be the device in an `ib_device` of `C::Device`, or in its entry in another
    /// namespace. `buf` must be valid for reads of `count` bytes. The context must be process context.
    unsafe extern "C" fn store(
        dev: *mut device,
        _attr: *mut device_attribute,
        buf: *const ffi::c_char,
        count: usize,
    ) -> isize {
        // SAFETY: By the safety requirements; the file is removed before the device is freed.
        let (dev, text, sleep) = unsafe {
            (
                Device::from_raw(bindings::rdma_device_to_ibdev(dev)),
                slice::from_raw_parts(buf.cast::<u8>(), count),
                MaySleep::assume(),
            )
        };
        from_result(|| {
            C::store(dev, text, &sleep)?;
            Ok(count as isize)
        })
    }
}

/// The constant tables for the attribute `A` and the commands `C` and `D`.
struct Files<A, C, D>(PhantomData<(A, C, D)>);

impl<A, C, D> Files<A, C, D>
where
    A: DeviceAttribute,
    C: DeviceCommand<Device = A::Device>,
    D: DeviceCommand<Device = A::Device>,
{
    const LIST: [*const attribute; 4] = [
        &raw const Shown::<A>::FILE_REF.attr,
        &raw const Stored::<C>::FILE_REF.attr,
        &raw const Stored::<D>::FILE_REF.attr,
        ptr::null(),
    ];
    const LIST_REF: &'static [*const attribute; 4] = &Self::LIST;

    const GROUP: AttributeGroup<A::Device> = {
        let mut group: attribute_group = pin_init::zeroed();
        group.__bindgen_anon_1.is_visible_const = Some(Self::is_visible);
        group.__bindgen_anon_2.attrs_const = Self::LIST_REF.as_ptr();
        AttributeGroup(group, PhantomData)
    };
    const GROUP_REF: &'static AttributeGroup<A::Device> = &Self::GROUP;

    /// Whether a device has the file at a place of the list.
    fn exists(dev: &Device<A::Device>, place: ffi::c_int) -> bool {
        match place {
            1 => C::exists(dev),
            2 => D::exists(dev),
            _ => true,
        }
    }

    /// The C entry point of `exists`: the mode of a file.
    ///
    /// # Safety
    ///
    /// `kobj` must be the object of the device in an `ib_device` of `A::Device`, or in its entry in another namespace, and `attr`
    /// one of the list.
    unsafe extern "C" fn is_visible(
        kobj: *mut bindings::kobject,
        attr: *const attribute,
        place: ffi::c_int,
    ) -> bindings::umode_t {
        // SAFETY: By the safety requirements `kobj` is the one in a device, which has the driver's data since before it is
        // registered.
        let dev = unsafe {
            let dev = kobj.byte_sub(mem::offset_of!(device, kobj)).cast();
            Device::<A::Device>::from_raw(bindings::rdma_device_to_ibdev(dev))
        };
        if !Self::exists(dev, place) {
            return 0;
        }
        // SAFETY: By the safety requirements.
        unsafe { (*attr).mode }
    }
}

/// A C buffer for a string, which is truncated to the buffer's size.
///
/// # Invariants
///
/// The buffer is valid for writes of `size` bytes, and `written` is less than that.
pub(crate) struct Bounded {
    buf: *mut u8,
    size: usize,
    written: usize,
}

impl Bounded {
    /// Begins an empty string.
    ///
    /// # Safety
    ///
    /// `buf` must be valid for writes of `size` bytes, at least one, as long as the result exists.
    pub(crate) unsafe fn new(buf: *mut u8, size: usize) -> Self {
        // SAFETY: By the safety requirements.
        unsafe { buf.write(0) };
        Self {
            buf,
            size,
            written: 0,
        }
    }
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.size.saturating_sub(1).saturating_sub(self.written);
        let len = text.len().min(room);
        // SAFETY: By the type invariants there is room for `len` more bytes and a NUL.
        unsafe {
            let end = self.buf.add(self.written);
            ptr::copy_nonoverlapping(text.as_ptr(), end, len);
            end.add(len).write(0);
        }
        self.written = self.written.wrapping_add(len);
        Ok(())
    }
}
