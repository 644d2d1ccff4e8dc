// SPDX-License-Identifier: GPL-2.0

//! Files and directories in sysfs that are made at run time.
//!
//! A [`Group`] owns its files, and the tables by which C knows them. A [`File`] is a structure of C for an attribute, and
//! what Rust needs to answer for it behind that.
//!
//! C header: `include/linux/sysfs.h`.

use core::{fmt, marker::PhantomData, ptr, ptr::NonNull};

use kernel::{ffi::c_char, page::PAGE_SIZE, prelude::*};

use crate::{
    bindings::{self, attribute, attribute_group, kobject},
    context::MaySleep,
    door::{view_of, FromC},
};

view_of! {
    /// A directory in sysfs.
    pub struct Kobject(kobject);
}

/// What a file contains; cut off after a page.
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
    /// `page` is valid for writes of a page, as long as this lives.
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
        // SAFETY: By the type invariants there is room for so many bytes.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.page.add(self.written), length) };
        self.written = self.written.wrapping_add(length);
    }

    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.written
    }

    /// Whether there are none.
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

/// The longest number of 32 bits, and a NUL.
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

    /// A number, in decimal.
    pub const fn number(number: u32) -> Self {
        Self(NameKind::Number(number))
    }

    /// A name that somebody else has.
    ///
    /// # Safety
    ///
    /// The string is there as long as the file.
    pub const unsafe fn borrowed(name: *const c_char) -> Self {
        Self(NameKind::Text(name))
    }
}

/// A number in decimal, with a NUL.
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

/// A structure of C for an attribute of some kind of directory.
///
/// # Safety
///
/// The structure begins with a `struct attribute`. The methods that `new` gives it are right for it being the beginning
/// of a [`File<Self, B>`].
pub unsafe trait RawAttribute<B>: Sized {
    /// The structure, but for its name: that of a file which can be read and, if so, written.
    fn new(writable: bool) -> Self;
}

/// A file: what C knows of it, and what answers for it.
#[repr(C)]
pub struct File<A, B> {
    raw: A,
    behaviour: B,
    number: [u8; NUMBER_SIZE],
}

impl<A: RawAttribute<B>, B> File<A, B> {
    /// The file that C means.
    ///
    /// # Safety
    ///
    /// `raw` is the attribute of such a file, which is there for `'a`.
    pub unsafe fn from_raw<'a>(raw: *const A) -> &'a Self {
        // SAFETY: The file begins with the attribute.
        unsafe { &*raw.cast() }
    }

    /// What answers for the file.
    pub fn behaviour(&self) -> &B {
        &self.behaviour
    }

    /// Says what the file is called. From now on it must not be moved.
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
            // Otherwise the class of its lock would be a key inside of the attribute, which has to be a static then.
            bindings::sysfs_attr_init(attribute);
        }
        attribute
    }
}

/// What a file is to be.
pub struct NewFile<B> {
    /// Its name.
    pub name: Name,
    /// Whether root may write it; everybody may read it.
    pub writable: bool,
    /// What answers for it.
    pub behaviour: B,
}

/// Files of a directory, or of a directory in it.
pub struct Group<A, B> {
    /// They are not moved any more.
    _files: KVVec<File<A, B>>,
    _list: KVVec<*mut attribute>,
    raw: KBox<attribute_group>,
}

// SAFETY: The tables are constant.
unsafe impl<A, B: Send> Send for Group<A, B> {}
// SAFETY: As above.
unsafe impl<A, B: Sync> Sync for Group<A, B> {}

impl<A: RawAttribute<B>, B> Group<A, B> {
    /// Files, in a directory of the name if there is one.
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
    /// The tables for C, which are there as long as `self`, wherever that is moved.
    pub fn as_raw(&self) -> *const attribute_group {
        &*self.raw
    }
}

/// Groups of files of C code: a list that ends with null, or null itself.
#[derive(Clone, Copy)]
pub struct RawGroups(*mut *const attribute_group);

// SAFETY: The type is the same on both sides.
unsafe impl FromC for RawGroups {
    type Raw = *mut *const attribute_group;

    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw)
    }
}

impl RawGroups {
    /// Groups of C code.
    ///
    /// # Safety
    ///
    /// The list is one, and it and the groups are there as long as they are in a directory.
    pub unsafe fn new(raw: *mut *const attribute_group) -> Self {
        Self(raw)
    }

    /// The list.
    pub fn as_raw(self) -> *mut *const attribute_group {
        self.0
    }
}

/// A directory with nothing in it but directories. Dropping it takes it out of sysfs.
///
/// # Invariants
///
/// One reference is ours.
pub struct Directory(NonNull<Kobject>);

// SAFETY: Directories may be used from any thread.
unsafe impl Send for Directory {}

impl Directory {
    /// Makes a directory in another one.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also where there is something of the name.
    pub fn new(parent: &Kobject, name: &CStr, _sleep: &MaySleep) -> Result<Self> {
        // SAFETY: The parent is there; the name is copied.
        let raw = unsafe { bindings::kobject_create_and_add(name.as_char_ptr(), parent.as_raw()) };
        Ok(Self(NonNull::new(raw).ok_or(ENOMEM)?.cast()))
    }
}

impl core::ops::Deref for Directory {
    type Target = Kobject;

    fn deref(&self) -> &Kobject {
        // SAFETY: By the type invariants.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::kobject_put(self.as_raw()) };
    }
}
