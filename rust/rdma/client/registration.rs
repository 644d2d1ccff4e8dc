// SPDX-License-Identifier: GPL-2.0

//! Registration of a client with the core: `struct ib_client`.
//!
//! 1. Implement [`Client`] for a type.
//! 2. Make a `static` [`ClientTable`] of it.
//! 3. Keep its [`Registration`] in the module.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::{
    marker::PhantomData,
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

/// Who is told of devices. Both methods may sleep; they are not called at once for a device.
pub trait Client: Sized + 'static {
    /// What the client keeps of each device, counted: where nothing else counts it, a [`Counted`].
    type Data: AlwaysRefCounted;

    /// The client's name, for the alias `rdma-client-NAME`.
    const NAME: &'static CStr;

    /// The client's table, of which there is one.
    fn table() -> &'static ClientTable<Self>;

    /// Whether the client wants devices too that lack methods which the kernel's users need.
    const ANY_DEVICE: bool;

    /// A device has come, or the client has.
    ///
    /// # Errors
    ///
    /// Any: the client does not hear of the device again.
    fn add(device: &Device, sleep: &MaySleep) -> Result<ARef<Self::Data>>;

    /// A device goes, or the client does. When this returns the client uses the device no more.
    fn remove(device: &Device, data: ARef<Self::Data>, sleep: &MaySleep);

    /// A device has a new name.
    fn renamed(_device: &Device, _data: &Self::Data, _sleep: &MaySleep) {}

    /// User space asks for the client's character device.
    ///
    /// # Errors
    ///
    /// Any; user space sees it.
    fn nl_info(_device: &Device, _data: &Self::Data, _info: &mut NlInfo<'_>) -> Result {
        Err(EOPNOTSUPP)
    }
}

/// What a client keeps of a device.
///
/// # Invariants
///
/// It was allocated by [`Self::new`].
pub struct Counted<T> {
    count: Refcount,
    value: T,
}

impl<T: Send + Sync> Counted<T> {
    /// Counts the first reference of a value.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(value: T) -> Result<ARef<Self>> {
        let counted = Self {
            count: Refcount::new(1),
            value,
        };
        let counted = KBox::leak(KBox::new(counted, GFP_KERNEL)?);
        // SAFETY: The first reference is handed over.
        Ok(unsafe { ARef::from_raw(NonNull::from(counted)) })
    }
}

impl<T> core::ops::Deref for Counted<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

// SAFETY: The value is there until the last reference is dropped.
unsafe impl<T: Send + Sync> AlwaysRefCounted for Counted<T> {
    fn inc_ref(&self) {
        self.count.inc();
    }

    unsafe fn dec_ref(this: NonNull<Self>) {
        // SAFETY: By the safety requirements there is a reference.
        if unsafe { this.as_ref() }.count.dec_and_test() {
            // SAFETY: That was the last one; by the type invariants it was allocated so.
            drop(unsafe { KBox::from_raw(this.as_ptr()) });
        }
    }
}

/// What a client tells user space of its character device, over netlink: `struct ib_client_nl_info`.
pub struct NlInfo<'a>(&'a mut bindings::ib_client_nl_info);

impl NlInfo<'_> {
    /// The port that user space asks for. `None`: the device as such.
    pub fn port(&self) -> Option<u32> {
        (self.0.port != u32::MAX).then_some(self.0.port)
    }

    /// Says which character device it is, and the version of what goes over it. The core counts a reference of
    /// the device while the client still knows it.
    pub fn set(&mut self, cdev: &kernel::device::Device, abi: u64) {
        self.0.cdev = crate::core::device::raw_dev(cdev);
        self.0.abi = abi;
    }

    /// Adds a number to the answer, as the attribute `RDMA_NLDEV_ATTR_*`.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if there is no room.
    pub fn put_u32(&mut self, attribute: u32, value: u32) -> Result {
        let (len, from) = (size_of::<u32>() as c_int, &raw const value);
        // SAFETY: The message is being written by the core, which waits.
        to_result(unsafe { bindings::nla_put(self.0.nl_msg, attribute as c_int, len, from.cast()) })
    }
}

/// A client, as the core knows it: a `static`.
pub struct ClientTable<T> {
    raw: Opaque<bindings::ib_client>,
    /// Whether the core knows it.
    registered: AtomicBool,
    _client: PhantomData<fn() -> T>,
}

// SAFETY: The core guards what changes.
unsafe impl<T> Sync for ClientTable<T> {}

impl<T: Client> ClientTable<T> {
    /// A client.
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

    /// Registers the client: it hears of the devices that are there before this returns.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a table that is not that of the client, `EBUSY` for one that is registered, `ENOMEM`.
    pub fn register(&'static self, _sleep: &MaySleep) -> Result<Registration<T>> {
        if !core::ptr::eq(self, T::table()) {
            return Err(EINVAL);
        }
        if self.registered.swap(true, Ordering::AcqRel) {
            return Err(EBUSY);
        }
        // SAFETY: The client is a static, and nobody has it yet.
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

    /// What the client has of a device.
    ///
    /// # Safety
    ///
    /// The client is not told meanwhile that the device goes.
    pub unsafe fn data<'a>(&'static self, device: &'a Device) -> Option<&'a T::Data> {
        // SAFETY: The device is there, and so is the data, by the safety requirements.
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
                // SAFETY: The client's table is what the core called for the device. There is only one of a `T`.
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
        // SAFETY: By the safety requirements; the reference was given to the core, which forgets it. Clients may sleep.
        unsafe { T::remove(&*device.cast(), ARef::from_raw(data), &MaySleep::assume()) };
    }

    /// # Safety
    ///
    /// The core calls it with a device that was added and does not go meanwhile, and the data.
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
    /// The core calls it with a device that was added and does not go meanwhile, the data, and what is to be filled in.
    unsafe extern "C" fn get_nl_info(
        device: *mut bindings::ib_device,
        data: *mut c_void,
        info: *mut bindings::ib_client_nl_info,
    ) -> c_int {
        // SAFETY: By the safety requirements.
        let told = unsafe {
            let mut info = NlInfo(&mut *info);
            T::nl_info(&*device.cast(), &*data.cast(), &mut info)
        };
        told.map_or_else(Error::to_errno, |()| 0)
    }
}

/// The client is registered while this is there. Dropping it takes the client's devices away.
pub struct Registration<T: 'static>(&'static ClientTable<T>);

impl<T> Drop for Registration<T> {
    fn drop(&mut self) {
        // SAFETY: The client was registered.
        unsafe { bindings::ib_unregister_client(self.0.raw.get()) };
        self.0.registered.store(false, Ordering::Release);
    }
}
