// SPDX-License-Identifier: GPL-2.0

//! A device's own attributes in sysfs: files in `/sys/class/infiniband/NAME/`.
//!
//! New attributes belong to netlink; this is for those that existing user space reads.
//!
//! C header: `include/linux/sysfs.h`.

use core::{fmt, marker::PhantomData, ptr};

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

/// The attribute group of a driver's devices.
#[repr(transparent)]
pub struct AttributeGroup(attribute_group);

// SAFETY: The group is constant.
unsafe impl Sync for AttributeGroup {}
// SAFETY: The group is constant.
unsafe impl Send for AttributeGroup {}

impl AttributeGroup {
    /// The group of the single attribute `A`.
    pub const fn of<A: DeviceAttribute>() -> &'static Self {
        Single::<A>::GROUP_REF
    }

    pub(crate) const fn as_raw(&self) -> *const attribute_group {
        &self.0
    }
}

/// The constant tables for `A`.
struct Single<A>(PhantomData<A>);

impl<A: DeviceAttribute> Single<A> {
    const FILE: device_attribute = {
        let mut file: device_attribute = pin_init::zeroed();
        file.attr.name = A::NAME.to_bytes_with_nul().as_ptr().cast();
        file.attr.mode = 0o444;
        file.__bindgen_anon_1.show = Some(Self::show);
        file
    };
    const FILE_REF: &'static device_attribute = &Self::FILE;

    const LIST: [*const attribute; 2] = [&raw const Self::FILE_REF.attr, ptr::null()];
    const LIST_REF: &'static [*const attribute; 2] = &Self::LIST;

    const GROUP: AttributeGroup = {
        let mut group: attribute_group = pin_init::zeroed();
        group.__bindgen_anon_2.attrs_const = Self::LIST_REF.as_ptr();
        AttributeGroup(group)
    };
    const GROUP_REF: &'static AttributeGroup = &Self::GROUP;

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
