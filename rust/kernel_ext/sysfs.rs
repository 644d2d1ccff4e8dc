// SPDX-License-Identifier: GPL-2.0

//! sysfs attributes and directories that are created at run time.
//!
//! A [`Group`] owns its files, and the C tables that refer to them. A [`File`] is a C attribute followed by the Rust
//! data of its methods.
//!
//! C header: `include/linux/sysfs.h`.

use core::{fmt, marker::PhantomData, ptr, ptr::NonNull};

use kernel::{ffi::c_char, page::PAGE_SIZE, prelude::*};

use crate::{
    bindings::{self, attribute, attribute_group, kobject},
    context::MaySleep,
    entry::{view_of, FromC},
};

view_of! {
    /// A directory in sysfs.
    pub struct Kobject(kobject);
}

/// The content of a file; truncated to a page.
///
/// # Invariants
///
/// `page` is valid for writes of a page, and `written` is less than that.
pub struct Text<'a> {
    page: *mut u8,
    written: usize,
    _page: PhantomData<&'a mut [u8]>,
}

impl Text<'_> {
    /// An empty text.
    ///
    /// # Safety
    ///
    /// `page` is valid for writes of a page, as long as the result exists.
    pub unsafe fn new(page: *mut c_char) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            page: page.cast(),
            written: 0,
            _page: PhantomData,
        }
    }

    /// Appends bytes.
    pub fn append(&mut self, bytes: &[u8]) {
        let room = (PAGE_SIZE - 1).saturating_sub(self.written);
        let length = bytes.len().min(room);
        // SAFETY: By the type invariants the page has room for `length` more bytes.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.page.add(self.written), length) };
        self.written = self.written.wrapping_add(length);
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.written
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.written == 0
    }
}

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.append(text.as_bytes());
        Ok(())
    }
}

/// Size of a 32-bit decimal number with NUL.
const NUMBER_SIZE: usize = 11;

/// The name of a file.
#[derive(Clone, Copy)]
pub struct Name(NameKind);

#[derive(Clone, Copy)]
enum NameKind {
    Text(*const c_char),
    Number(u32),
}

impl Name {
    /// A constant name.
    pub const fn text(name: &'static CStr) -> Self {
        Self(NameKind::Text(kernel::str::as_char_ptr_in_const_context(
            name,
        )))
    }

    /// A decimal number.
    pub const fn number(number: u32) -> Self {
        Self(NameKind::Number(number))
    }

    /// A borrowed name.
    ///
    /// # Safety
    ///
    /// The string is valid as long as the file.
    pub const unsafe fn borrowed(name: *const c_char) -> Self {
        Self(NameKind::Text(name))
    }
}

/// A decimal number with NUL.
fn decimal(mut number: u32) -> [u8; NUMBER_SIZE] {
    let mut digits = [0; NUMBER_SIZE];
    let mut count = 0;
    for digit in digits.iter_mut().take(NUMBER_SIZE - 1) {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        count += 1;
        if number == 0 {
            break;
        }
    }
    if let Some(digits) = digits.get_mut(..count) {
        digits.reverse();
    }
    digits
}

/// A C structure for an attribute of some kind of directory.
///
/// # Safety
///
/// The structure begins with a `struct attribute`. The methods that `new` sets may assume that it is the beginning of a
/// [`File<Self, B>`].
pub unsafe trait RawAttribute<B>: Sized {
    /// The structure without a name, for a readable and, if `writable`, writable file.
    fn new(writable: bool) -> Self;
}

/// A file: the C attribute and its Rust data.
#[repr(C)]
pub struct File<A, B> {
    raw: A,
    behaviour: B,
    number: [u8; NUMBER_SIZE],
}

impl<A: RawAttribute<B>, B> File<A, B> {
    /// The file of a C attribute.
    ///
    /// # Safety
    ///
    /// `raw` is the attribute of such a file, which is valid for `'a`.
    pub unsafe fn from_raw<'a>(raw: *const A) -> &'a Self {
        // SAFETY: The file begins with the attribute.
        unsafe { &*raw.cast() }
    }

    /// The Rust data of the file.
    pub fn behaviour(&self) -> &B {
        &self.behaviour
    }

    /// Sets the name of the file. From now on it must not be moved.
    fn set_name(&mut self, name: Name) -> *mut attribute {
        let text = match name.0 {
            NameKind::Text(text) => text,
            NameKind::Number(number) => {
                self.number = decimal(number);
                self.number.as_ptr().cast()
            }
        };
        let attribute: *mut attribute = ptr::from_mut(self).cast();
        // SAFETY: The file begins with an attribute, by the safety requirements of `RawAttribute`.
        unsafe {
            (*attribute).name = text;
            // Otherwise lockdep would require the attribute to be a static.
            bindings::sysfs_attr_init(attribute);
        }
        attribute
    }
}

/// Attributes of a new file.
pub struct NewFile<B> {
    /// Its name.
    pub name: Name,
    /// Whether root may write it; it is world-readable.
    pub writable: bool,
    /// Its Rust data.
    pub behaviour: B,
}

/// The files of a directory or subdirectory.
pub struct Group<A, B> {
    /// The files, which are not moved any more.
    _files: KVVec<File<A, B>>,
    _list: KVVec<*mut attribute>,
    raw: KBox<attribute_group>,
}

// SAFETY: The tables are constant.
unsafe impl<A, B: Send> Send for Group<A, B> {}
// SAFETY: The tables are constant.
unsafe impl<A, B: Sync> Sync for Group<A, B> {}

impl<A: RawAttribute<B>, B> Group<A, B> {
    /// Creates the files, in a subdirectory if there is a name.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(
        name: Option<&'static CStr>,
        new: impl IntoIterator<Item = NewFile<B>>,
    ) -> Result<Self> {
        let mut files = KVVec::new();
        let mut names = KVVec::new();
        for file in new {
            names.push(file.name, GFP_KERNEL)?;
            files.push(
                File {
                    raw: A::new(file.writable),
                    behaviour: file.behaviour,
                    number: [0; NUMBER_SIZE],
                },
                GFP_KERNEL,
            )?;
        }
        let mut list = KVVec::with_capacity(files.len().saturating_add(1), GFP_KERNEL)?;
        for (file, name) in files.iter_mut().zip(names.iter()) {
            list.push(file.set_name(*name), GFP_KERNEL)?;
        }
        list.push(ptr::null_mut(), GFP_KERNEL)?;
        let mut raw: attribute_group = pin_init::zeroed();
        raw.name = name.map_or(ptr::null(), |name| name.as_char_ptr());
        raw.__bindgen_anon_2.attrs = list.as_mut_ptr();
        Ok(Self {
            _files: files,
            _list: list,
            raw: KBox::new(raw, GFP_KERNEL)?,
        })
    }
}

impl<A, B> Group<A, B> {
    /// The C tables, which are valid as long as `self`, even if it is moved.
    pub fn as_raw(&self) -> *const attribute_group {
        &*self.raw
    }
}

/// Attribute groups of C code: a null-terminated list, or null.
#[derive(Clone, Copy)]
pub struct RawGroups(*mut *const attribute_group);

// SAFETY: The list is read from any thread, and does not change while it is in a directory.
unsafe impl Send for RawGroups {}

// SAFETY: `Raw` is the type in the header.
unsafe impl FromC for RawGroups {
    type Raw = *mut *const attribute_group;

    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw)
    }
}

impl RawGroups {
    /// Attribute groups of C code.
    ///
    /// # Safety
    ///
    /// `raw` is null or a null-terminated list; it and the groups are valid as long as they are in a directory.
    pub unsafe fn new(raw: *mut *const attribute_group) -> Self {
        Self(raw)
    }

    /// The list.
    pub fn as_raw(self) -> *mut *const attribute_group {
        self.0
    }
}

/// A directory without files. Dropping it removes it from sysfs.
///
/// # Invariants
///
/// `self` owns one reference.
pub struct Directory(NonNull<Kobject>);

// SAFETY: Kobjects may be used from any thread.
unsafe impl Send for Directory {}

impl Directory {
    /// Creates a directory in another one.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also where the name is in use.
    pub fn new(parent: &Kobject, name: &CStr, _sleep: &MaySleep) -> Result<Self> {
        // SAFETY: The parent is valid; the name is copied.
        let raw = unsafe { bindings::kobject_create_and_add(name.as_char_ptr(), parent.as_raw()) };
        Ok(Self(NonNull::new(raw).ok_or(ENOMEM)?.cast()))
    }
}

impl core::ops::Deref for Directory {
    type Target = Kobject;

    fn deref(&self) -> &Kobject {
        // SAFETY: By the type invariants the directory is referenced.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // SAFETY: By the type invariants `self` owns the reference.
        unsafe { bindings::kobject_put(self.as_raw()) };
    }
}
