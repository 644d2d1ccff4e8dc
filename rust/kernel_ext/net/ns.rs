// SPDX-License-Identifier: GPL-2.0

//! Network namespaces, and a module's data in each of them (pernet operations).
//!
//! 1. Define the data: [`PerNamespace`] and [`impl_has_pernet_slot!`].
//! 2. Register it: [`PernetRegistration::new`] when the module is loaded.
//! 3. Look it up: [`of`].
//!
//! C headers: `include/net/net_namespace.h`, `include/net/netns/generic.h`.

use crate::{bindings, context::MaySleep, entry::View};
use core::{
    cell::UnsafeCell,
    marker::PhantomData,
    ops::Deref,
    ptr::{null, null_mut, NonNull},
    sync::atomic::{AtomicBool, AtomicPtr, Ordering},
};
use kernel::{
    error::{from_result, to_result},
    ffi::{c_int, c_uint},
    prelude::*,
    sync::{rcu, Arc, ArcBorrow},
    types::Opaque,
};

pub use crate::impl_has_pernet_slot;

/// A network namespace whose subsystems exist.
///
/// It may be about to be deleted: see [`NetNamespace::get`]. [`NetRef`] is a counted reference.
#[repr(transparent)]
pub struct NetNamespace(Opaque<bindings::net>);

// SAFETY: Namespaces may be used from any thread.
unsafe impl Send for NetNamespace {}
// SAFETY: Members are accessed under the locks that they require.
unsafe impl Sync for NetNamespace {}

// SAFETY: The type is a transparent wrapper of an `Opaque` `struct net`.
unsafe impl View for NetNamespace {
    type C = bindings::net;
}

impl NetNamespace {
    /// Borrows a namespace from its C pointer.
    ///
    /// # Safety
    ///
    /// `ptr` is a valid namespace throughout `'a`, and its subsystems are not taken down before: there is a counted reference,
    /// or one of its devices is registered, or the teardown waits for the current RCU reader.
    #[inline]
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::net) -> &'a Self {
        // SAFETY: By the safety requirements; `NetNamespace` is transparent.
        unsafe { &*ptr.cast() }
    }

    /// Returns the C pointer.
    #[inline]
    pub fn as_raw(&self) -> *mut bindings::net {
        self.0.get()
    }

    /// Returns the initial namespace.
    pub fn init() -> &'static Self {
        // SAFETY: The namespace is a static of the kernel, and is never taken down.
        unsafe { Self::from_raw(&raw mut bindings::init_net) }
    }

    /// Returns a counted reference, unless the namespace is being deleted. Any context.
    pub fn get(&self) -> Option<NetRef> {
        // SAFETY: The namespace is valid.
        let net = NonNull::new(unsafe { bindings::maybe_get_net(self.as_raw()) })?;
        // INVARIANT: `maybe_get_net` has counted a reference, which the result owns.
        Some(NetRef(net))
    }

    /// Returns the namespace's cookie, a number that is never reused, as its ID where no reference may be held. Never
    /// 0.
    #[inline]
    pub fn cookie(&self) -> u64 {
        // SAFETY: The namespace is valid.
        unsafe { bindings::net_cookie(self.as_raw()) }
    }
}

impl PartialEq for NetNamespace {
    /// Whether both are the same namespace.
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self, other)
    }
}

impl Eq for NetNamespace {}

/// A counted reference to a namespace, which prevents its deletion.
///
/// A reference cannot be taken while the namespace is being deleted; so this is not an `ARef`, which can be made from
/// any borrow.
///
/// # Invariants
///
/// The namespace is valid, and `self` owns one counted reference.
pub struct NetRef(NonNull<bindings::net>);

// SAFETY: The count is atomic, and namespaces may be used from any thread.
unsafe impl Send for NetRef {}
// SAFETY: The count is atomic, and namespaces may be used from any thread.
unsafe impl Sync for NetRef {}

impl NetRef {
    /// Returns the namespace of a file descriptor of the current process.
    ///
    /// # Errors
    ///
    /// `EBADF` for an invalid descriptor, `EINVAL` for another kind of file.
    pub fn of_fd(fd: u32) -> Result<Self> {
        // SAFETY: The function checks the descriptor.
        let net = unsafe { kernel::error::from_err_ptr(bindings::get_net_ns_by_fd(fd as c_int)) }?;
        // INVARIANT: `get_net_ns_by_fd` has counted a reference, which the result owns.
        NonNull::new(net).map(Self).ok_or(EINVAL)
    }
}

impl Clone for NetRef {
    fn clone(&self) -> Self {
        // SAFETY: By the type invariants the count is not 0.
        unsafe { bindings::get_net(self.0.as_ptr()) };
        // INVARIANT: The reference was just counted.
        Self(self.0)
    }
}

impl Deref for NetRef {
    type Target = NetNamespace;

    #[inline]
    fn deref(&self) -> &NetNamespace {
        // SAFETY: By the type invariants the namespace is referenced.
        unsafe { NetNamespace::from_raw(self.0.as_ptr()) }
    }
}

impl Drop for NetRef {
    fn drop(&mut self) {
        // SAFETY: By the type invariants `self` owns the reference. Any context: the last one queues the cleanup as work.
        unsafe { bindings::put_net(self.0.as_ptr()) };
    }
}

/// A module's data in each namespace.
///
/// It is created for each present and future namespace while a [`PernetRegistration`] exists, and freed with the
/// namespace or the registration.
pub trait PerNamespace: HasPernetSlot + Send + Sync {
    /// Creates the data of a namespace that is being created.
    fn new(net: &NetNamespace, may_sleep: &MaySleep) -> Result<Arc<Self>>;

    /// Cleans up the data of a namespace. [`of`] does not return it any more.
    ///
    /// Other references may still exist. The namespace's devices are unregistered already, unless the registration is
    /// being dropped.
    fn exit(this: Arc<Self>, may_sleep: &MaySleep);
}

/// The pernet ID of a type. See [`impl_has_pernet_slot!`].
///
/// [`impl_has_pernet_slot!`]: crate::impl_has_pernet_slot
pub struct PernetSlot<T> {
    number: UnsafeCell<c_uint>,
    /// Whether a registration exists, or is being made or dropped.
    taken: AtomicBool,
    /// Whether all namespaces have data; for RCU readers.
    registered: AtomicBool,
    _data: PhantomData<fn() -> T>,
}

// SAFETY: The number is written before the first namespace has data, and read after that.
unsafe impl<T> Sync for PernetSlot<T> {}

impl<T> PernetSlot<T> {
    #[doc(hidden)]
    pub const fn new() -> Self {
        Self {
            number: UnsafeCell::new(0),
            taken: AtomicBool::new(false),
            registered: AtomicBool::new(false),
            _data: PhantomData,
        }
    }
}

/// A type that has a [`PernetSlot`]. Implemented by [`impl_has_pernet_slot!`](crate::impl_has_pernet_slot).
///
/// # Safety
///
/// `slot` returns the same slot at each call.
pub unsafe trait HasPernetSlot: Sized + 'static {
    #[doc(hidden)]
    fn slot() -> &'static PernetSlot<Self>;
}

/// Defines the [`PernetSlot`] of a type.
///
/// ```
/// # use kernel::{prelude::*, sync::Arc};
/// # use kernel_ext::{
/// #     context::MaySleep,
/// #     net::ns::{impl_has_pernet_slot, NetNamespace, PerNamespace},
/// # };
/// struct Links;
/// impl_has_pernet_slot! { impl HasPernetSlot for Links }
///
/// impl PerNamespace for Links {
///     fn new(_net: &NetNamespace, _sleep: &MaySleep) -> Result<Arc<Self>> {
///         Ok(Arc::new(Self, GFP_KERNEL)?)
///     }
///
///     fn exit(_this: Arc<Self>, _sleep: &MaySleep) {}
/// }
/// ```
#[macro_export]
macro_rules! impl_has_pernet_slot {
    (impl HasPernetSlot for $self:ty) => {
        // SAFETY: The slot is a single static.
        unsafe impl $crate::net::ns::HasPernetSlot for $self {
            fn slot() -> &'static $crate::net::ns::PernetSlot<Self> {
                static SLOT: $crate::net::ns::PernetSlot<$self> =
                    $crate::net::ns::PernetSlot::new();
                &SLOT
            }
        }
    };
}

/// The pernet data of a slot, initially zeroed.
struct Entry<T> {
    /// The data from `Arc::into_raw`, owned.
    owned: *const T,
    /// The same while it can be looked up.
    published: AtomicPtr<T>,
}

/// Returns the data of a namespace. Any context.
///
/// `None` without a registration of the type, or while the namespace is being deleted, before its devices are
/// unregistered.
pub fn of<T: PerNamespace>(net: &NetNamespace) -> Option<Arc<T>> {
    let _guard = rcu::read_lock();
    if !T::slot().registered.load(Ordering::Acquire) {
        return None;
    }
    // SAFETY: The slot was found registered in this read-side critical section, for which unregistering waits.
    let entry = unsafe { entry::<T>(net)?.as_ref() };
    let data = entry.published.load(Ordering::Acquire);
    if data.is_null() {
        return None;
    }
    // SAFETY: Published data is from `Arc::into_raw`, and its reference is dropped a grace period after it is unpublished.
    Some(unsafe { ArcBorrow::from_raw(data.cast_const()) }.into())
}

/// Returns the entry of a namespace, which is valid until the namespace's subsystems, or this one, are deleted.
///
/// # Safety
///
/// The slot of `T` is registered, or is being registered or unregistered by the caller.
unsafe fn entry<T: PerNamespace>(net: &NetNamespace) -> Option<NonNull<Entry<T>>> {
    // SAFETY: The number was written before the kernel called `init` for the first time.
    let number = unsafe { *T::slot().number.get() };
    // SAFETY: The namespace is valid; the kernel has allocated an `Entry` there.
    NonNull::new(unsafe { bindings::net_generic_checked(net.as_raw(), number) }.cast())
}

/// The registration of [`PerNamespace`] data. Dropping it cleans up all data, and may sleep.
///
/// Not to be made or dropped under RTNL: the lock of pernet operations is taken outside of RTNL.
pub struct PernetRegistration<T: PerNamespace> {
    ops: Pin<KBox<Opaque<bindings::pernet_operations>>>,
    _data: PhantomData<T>,
}

// SAFETY: The registration may be dropped on any thread that may sleep.
unsafe impl<T: PerNamespace> Send for PernetRegistration<T> {}
// SAFETY: A shared reference only gives access to the data, which is `Sync`.
unsafe impl<T: PerNamespace> Sync for PernetRegistration<T> {}

impl<T: PerNamespace> PernetRegistration<T> {
    /// Creates the data for all namespaces.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the type is registered already, `ENOMEM`, and errors of [`PerNamespace::new`].
    pub fn new(_may_sleep: &MaySleep) -> Result<Self> {
        let ops = KBox::pin(
            Opaque::new(bindings::pernet_operations {
                init: Some(Self::init),
                pre_exit: Some(Self::pre_exit),
                exit: Some(Self::exit),
                id: T::slot().number.get(),
                size: size_of::<Entry<T>>(),
                ..pin_init::zeroed()
            }),
            GFP_KERNEL,
        )?;
        if T::slot().taken.swap(true, Ordering::Acquire) {
            return Err(EBUSY);
        }
        // SAFETY: The operations are pinned, and `drop` unregisters them before they are freed. `taken` permits one registration
        // to write the number, which only `init` reads before `registered` is set.
        if let Err(error) = to_result(unsafe { bindings::register_pernet_subsys(ops.get()) }) {
            T::slot().taken.store(false, Ordering::Release);
            return Err(error);
        }
        T::slot().registered.store(true, Ordering::Release);
        Ok(Self {
            ops,
            _data: PhantomData,
        })
    }

    /// Creates the data.
    ///
    /// # Safety
    ///
    /// The kernel calls it as a function of the registered operations.
    unsafe extern "C" fn init(net: *mut bindings::net) -> c_int {
        // SAFETY: The kernel passes a namespace that it is creating, in process context.
        let (net, may_sleep) = unsafe { (NetNamespace::from_raw(net), MaySleep::assume()) };
        from_result(|| {
            // SAFETY: The slot is being registered, or is registered.
            let entry = unsafe { entry::<T>(net) }.ok_or(ENOMEM)?.as_ptr();
            let data = Arc::into_raw(T::new(net, &may_sleep)?);
            // SAFETY: The kernel has allocated and zeroed the entry, and only this function writes it before it is published.
            unsafe {
                (*entry).owned = data;
                (*entry).published.store(data.cast_mut(), Ordering::Release);
            }
            Ok(0)
        })
    }

    /// Unpublishes the data. The kernel waits for RCU readers between this and [`Self::exit`].
    ///
    /// # Safety
    ///
    /// The kernel calls it as a function of the registered operations.
    unsafe extern "C" fn pre_exit(net: *mut bindings::net) {
        // SAFETY: The kernel passes a namespace whose subsystems exist, while the slot is registered.
        if let Some(entry) = unsafe { entry::<T>(NetNamespace::from_raw(net)) } {
            // SAFETY: The entry is valid.
            let entry = unsafe { entry.as_ref() };
            entry.published.store(null_mut(), Ordering::Release);
        }
    }

    /// Frees the data.
    ///
    /// # Safety
    ///
    /// The kernel calls it as a function of the registered operations.
    unsafe extern "C" fn exit(net: *mut bindings::net) {
        // SAFETY: The kernel passes a namespace whose entry for the slot still exists.
        let Some(entry) = (unsafe { entry::<T>(NetNamespace::from_raw(net)) }) else {
            return;
        };
        // SAFETY: The entry is valid, and only `init` and this function use `owned`.
        let data = unsafe { core::mem::replace(&mut (*entry.as_ptr()).owned, null()) };
        if data.is_null() {
            return;
        }
        // SAFETY: `init` has leaked the reference, and all readers that have found it published have left. Process context.
        let (data, may_sleep) = unsafe { (Arc::from_raw(data), MaySleep::assume()) };
        T::exit(data, &may_sleep);
    }
}

impl<T: PerNamespace> Drop for PernetRegistration<T> {
    fn drop(&mut self) {
        T::slot().registered.store(false, Ordering::Release);
        // SAFETY: `new` has registered the operations. The kernel waits for RCU readers before it calls `exit` and releases the
        // entries and the number.
        unsafe { bindings::unregister_pernet_subsys(self.ops.get()) };
        T::slot().taken.store(false, Ordering::Release);
    }
}
