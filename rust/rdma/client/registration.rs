// SPDX-License-Identifier: GPL-2.0

//! Registration of a client with the core: `struct ib_client`.
//!
//! 1. Implement [`Client`] for a type.
//! 2. Define a `static` [`ClientTable`] of it.
//! 3. Keep its [`Registration`] in the module.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::{
    marker::PhantomData,
    mem::MaybeUninit,
    ptr::NonNull,
    sync::atomic::{AtomicBool, Ordering},
};

use kernel::{
    error::to_result,
    ffi::{c_int, c_void},
    prelude::*,
    sync::{
        aref::{ARef, AlwaysRefCounted},
        Refcount,
    },
    types::Opaque,
};
use kernel_ext::error::EOPNOTSUPP;
use rdma_bindings as bindings;

use crate::{core::Device, MaySleep};

/// A client, which is notified of devices. `add` and `remove` may sleep, and are not called concurrently for one
/// device.
pub trait Client: Sized + 'static {
    /// The client's data of a device, which is reference-counted, for example by [`Counted`].
    type Data: AlwaysRefCounted;

    /// The client's name, for the alias `rdma-client-NAME`.
    const NAME: &'static CStr;

    /// The client's only table.
    fn table() -> &'static ClientTable<Self>;

    /// Whether the client is added to devices without all kernel verbs too.
    const ANY_DEVICE: bool;

    /// Called for a device that is registered, when the device or the client is registered.
    ///
    /// # Errors
    ///
    /// Any error: no other method is called for the device.
    fn add(device: &Device, sleep: &MaySleep) -> Result<ARef<Self::Data>>;

    /// Called when the device or the client is unregistered. After it returns the client does not use the device.
    fn remove(device: &Device, data: ARef<Self::Data>, sleep: &MaySleep);

    /// Called for a device that was renamed.
    fn renamed(_device: &Device, _data: &Self::Data, _sleep: &MaySleep) {}

    /// Called when user space queries the client's character device.
    ///
    /// # Errors
    ///
    /// Any error; it is returned to user space.
    fn nl_info<'a>(_device: &Device, _data: &'a Self::Data, _info: &mut NlInfo<'a>) -> Result {
        Err(EOPNOTSUPP)
    }
}

/// A reference-counted value, for the data of a device.
///
/// # Invariants
///
/// The value was allocated by [`Self::place`].
pub struct Counted<T> {
    count: Refcount,
    value: T,
}

impl<T: Send + Sync> Counted<T> {
    /// Allocates a value with one reference.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(value: T) -> Result<ARef<Self>> {
        Ok(Self::place()?.fill(value))
    }

    /// Allocates the memory of a value.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn place() -> Result<CountedPlace<T>> {
        Ok(CountedPlace(KBox::new_uninit(GFP_KERNEL)?))
    }
}

/// The memory of a reference-counted value.
pub struct CountedPlace<T>(KBox<MaybeUninit<Counted<T>>>);

impl<T: Send + Sync> CountedPlace<T> {
    /// Puts the value there, with one reference.
    pub fn fill(self, value: T) -> ARef<Counted<T>> {
        let counted = Counted {
            count: Refcount::new(1),
            value,
        };
        let counted = KBox::leak(KBox::write(self.0, counted));
        // SAFETY: The result takes over the first reference.
        unsafe { ARef::from_raw(NonNull::from(counted)) }
    }
}

impl<T> core::ops::Deref for Counted<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

// SAFETY: The value is valid until the last reference is dropped.
unsafe impl<T: Send + Sync> AlwaysRefCounted for Counted<T> {
    fn inc_ref(&self) {
        self.count.inc();
    }

    unsafe fn dec_ref(this: NonNull<Self>) {
        // SAFETY: By the safety requirements the caller owns a reference.
        if unsafe { this.as_ref() }.count.dec_and_test() {
            // SAFETY: That was the last reference; by the type invariants `KBox` has allocated the value.
            drop(unsafe { KBox::from_raw(this.as_ptr()) });
        }
    }
}

/// The reply to a netlink query for a client's character device: `struct ib_client_nl_info`.
///
/// # Invariants
///
/// The structure is lent for the call. The core has a reference to the character device before `'a` ends.
pub struct NlInfo<'a>(
    NonNull<bindings::ib_client_nl_info>,
    PhantomData<&'a kernel::device::Device>,
);

impl<'a> NlInfo<'a> {
    /// The reply to a query.
    ///
    /// # Safety
    ///
    /// `raw` is lent for the call, and the core has a reference to the character device before `'a` ends.
    pub(super) unsafe fn from_raw(raw: *mut bindings::ib_client_nl_info) -> Self {
        // INVARIANT: By the safety requirements.
        // SAFETY: A structure that is lent is not null.
        Self(unsafe { NonNull::new_unchecked(raw) }, PhantomData)
    }

    fn raw(&mut self) -> &mut bindings::ib_client_nl_info {
        // SAFETY: By the type invariants.
        unsafe { self.0.as_mut() }
    }

    /// The port of the query; `None` for the device as a whole.
    pub fn port(&mut self) -> Option<u32> {
        let port = self.raw().port;
        (port != u32::MAX).then_some(port)
    }

    /// Sets the character device and the version of its ABI.
    pub fn set(&mut self, cdev: &'a kernel::device::Device, abi: u64) {
        let raw = self.raw();
        raw.cdev = crate::core::device::raw_dev(cdev);
        raw.abi = abi;
    }

    /// Adds a number to the reply, as the attribute `RDMA_NLDEV_ATTR_*`.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if the message is full.
    pub fn put_u32(&mut self, attribute: u32, value: u32) -> Result {
        let (len, from) = (size_of::<u32>() as c_int, &raw const value);
        let msg = self.raw().nl_msg;
        // SAFETY: The core has lent the message for the call.
        to_result(unsafe { bindings::nla_put(msg, attribute as c_int, len, from.cast()) })
    }
}

/// The C structure of a client: a `static`.
pub struct ClientTable<T> {
    raw: Opaque<bindings::ib_client>,
    /// Whether the client is registered.
    registered: AtomicBool,
    _client: PhantomData<fn() -> T>,
}

// SAFETY: The core synchronises the members that change, and `registered` is atomic.
unsafe impl<T> Sync for ClientTable<T> {}

impl<T: Client> ClientTable<T> {
    /// Creates the structure.
    #[expect(clippy::new_without_default, reason = "it is for statics")]
    pub const fn new() -> Self {
        let mut client: bindings::ib_client = pin_init::zeroed();
        client.name = kernel::str::as_char_ptr_in_const_context(T::NAME);
        client.add = Some(Self::add);
        client.remove = Some(Self::remove);
        client.rename = Some(Self::rename);
        client.get_nl_info = Some(Self::get_nl_info);
        Self {
            raw: Opaque::new(client),
            registered: AtomicBool::new(false),
            _client: PhantomData,
        }
    }

    /// Registers the client. `add` is called for all registered devices before this returns.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a table other than the client's, `EBUSY` for a registered one, `ENOMEM`.
    pub fn register(&'static self, _sleep: &MaySleep) -> Result<Registration<T>> {
        if !core::ptr::eq(self, T::table()) {
            return Err(EINVAL);
        }
        if self.registered.swap(true, Ordering::AcqRel) {
            return Err(EBUSY);
        }
        // SAFETY: The structure is a static, and `registered` shows that it is not registered yet.
        let registered = to_result(unsafe {
            (*self.raw.get()).set_no_kverbs_req(T::ANY_DEVICE.into());
            bindings::ib_register_client(self.raw.get())
        });
        if let Err(error) = registered {
            self.registered.store(false, Ordering::Release);
            return Err(error);
        }
        Ok(Registration(self))
    }

    /// The client's data of a device.
    ///
    /// # Safety
    ///
    /// `remove` is not called for the device as long as the result is used.
    pub unsafe fn data<'a>(&'static self, device: &'a Device) -> Option<&'a T::Data> {
        // SAFETY: The device is valid, and by the safety requirements so is the data.
        unsafe {
            let id = (*self.raw.get()).client_id as usize;
            let array = &raw mut (*device.as_raw()).client_data;
            bindings::xa_load(array, id).cast::<T::Data>().as_ref()
        }
    }

    /// # Safety
    ///
    /// The core calls it with a device that is registered.
    unsafe extern "C" fn add(device: *mut bindings::ib_device) -> c_int {
        // SAFETY: By the safety requirements; a view is a transparent wrapper. Clients may sleep.
        let added = unsafe { T::add(&*device.cast(), &MaySleep::assume()) };
        match added {
            Ok(data) => {
                let data = ARef::into_raw(data).as_ptr().cast::<c_void>();
                // SAFETY: The table is that of the client that the core calls; a `T` has only one.
                unsafe { bindings::ib_set_client_data(device, T::table().raw.get(), data) };
                0
            }
            Err(error) => error.to_errno(),
        }
    }

    /// # Safety
    ///
    /// The core calls it with a device that was added, and the data from that.
    unsafe extern "C" fn remove(device: *mut bindings::ib_device, data: *mut c_void) {
        let Some(data) = NonNull::new(data.cast::<T::Data>()) else {
            return;
        };
        // SAFETY: By the safety requirements; `add` has given the reference to the core, which gives it back here.
        // Clients may sleep.
        unsafe { T::remove(&*device.cast(), ARef::from_raw(data), &MaySleep::assume()) };
    }

    /// # Safety
    ///
    /// The core calls it with a device that was added and is not removed during the call, and its data.
    unsafe extern "C" fn rename(device: *mut bindings::ib_device, data: *mut c_void) {
        // SAFETY: By the safety requirements. Clients may sleep.
        unsafe {
            if let Some(data) = data.cast::<T::Data>().as_ref() {
                T::renamed(&*device.cast(), data, &MaySleep::assume());
            }
        }
    }

    /// # Safety
    ///
    /// The core calls it with a device that was added and is not removed during the call, its data, and the structure
    /// to fill in.
    unsafe extern "C" fn get_nl_info(
        device: *mut bindings::ib_device,
        data: *mut c_void,
        info: *mut bindings::ib_client_nl_info,
    ) -> c_int {
        // SAFETY: By the safety requirements. The core has a reference to the character device before it calls `remove`, which
        // ends the lifetime of the data.
        let told = unsafe {
            let mut info = NlInfo::from_raw(info);
            T::nl_info(&*device.cast(), &*data.cast(), &mut info)
        };
        told.map_or_else(Error::to_errno, |()| 0)
    }
}

/// The registration of a client. Dropping it unregisters the client, and removes all its devices.
pub struct Registration<T: 'static>(&'static ClientTable<T>);

impl<T> Drop for Registration<T> {
    fn drop(&mut self) {
        // SAFETY: `register` has registered the client.
        unsafe { bindings::ib_unregister_client(self.0.raw.get()) };
        self.0.registered.store(false, Ordering::Release);
    }
}
