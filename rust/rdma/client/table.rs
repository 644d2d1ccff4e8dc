// SPDX-License-Identifier: GPL-2.0

//! Clients that create objects on devices: their registration, and their data per device.
//!
//! ```text
//! init: TABLE.register()   → add() for each device    → Registration
//!                            remove() for each device ← drop(Registration)
//! ```
//!
//! A module is a client as long as it keeps its [`Registration`]:
//!
//! ```
//! # use kernel::prelude::*;
//! # use kernel_ext::module::ProcessModule;
//! # use rdma::{
//! #     client::{
//! #         table::{Registration, Table},
//! #         Client, Device,
//! #     },
//! #     MaySleep,
//! # };
//! # struct Example;
//! # static TABLE: Table<Example> = Table::new();
//! # impl Client for Example {
//! #     type Data<'d> = ();
//! #     const NAME: &'static CStr = c"example";
//! #     fn table() -> &'static Table<Self> {
//! #         &TABLE
//! #     }
//! #     fn add<'d>(_device: &Device<'d>, _sleep: &MaySleep) -> Result {
//! #         Ok(())
//! #     }
//! # }
//! struct Module {
//!     client: Registration<Example>,
//! }
//!
//! impl ProcessModule for Module {
//!     fn init(_module: &'static ThisModule, sleep: &MaySleep) -> Result<Self> {
//!         let client = TABLE.register(sleep)?;
//!         Ok(Self { client })
//!     }
//! }
//!
//! impl Module {
//!     /// How many devices there are at this moment.
//!     fn devices(&self, sleep: &MaySleep) -> usize {
//!         let mut count = 0usize;
//!         self.client.visit::<()>(
//!             |_device, _data, _sleep| {
//!                 count = count.saturating_add(1);
//!                 None
//!             },
//!             sleep,
//!         );
//!         count
//!     }
//! }
//! ```
//!
//! | lock | protects | context | taken inside |
//! |---|---|---|---|
//! | `Registry::devices` | the devices of the client | process | nothing |
//!
//! C header: `include/rdma/ib_verbs.h` (`struct ib_client`).

use core::{
    marker::PhantomData,
    ptr::{null_mut, NonNull},
    sync::atomic::{AtomicPtr, AtomicUsize, Ordering},
};

use kernel::{
    prelude::*,
    sync::{aref::ARef, Arc, Mutex},
};
use kernel_ext::{
    sync::{new_mutex, Completion},
    work::{OwnedQueue, QueueFlags},
};
use rdma_bindings as bindings;

use super::{device::Scope, retry::RetryList, Device};
use crate::{
    client::registration::{self, ClientTable, Counted},
    core::Device as DeviceView,
    MaySleep,
};

/// A client that uses devices. Its data of a device owns all objects that it creates there.
pub trait Client: Sized + 'static {
    /// The client's data of a device.
    type Data<'d>: Send + Sync;

    /// The client's name, for the alias `rdma-client-NAME`, and for its objects in `rdma resource`.
    const NAME: &'static CStr;

    /// The client's only table.
    fn table() -> &'static Table<Self>;

    /// Called for each registered device, when the device or the client is registered. May sleep.
    ///
    /// # Errors
    ///
    /// Any error: no other method is called for the device.
    fn add<'d>(device: &Device<'d>, sleep: &MaySleep) -> Result<Self::Data<'d>>;

    /// Called when the device or the client is unregistered. It ends all activities with the data that a
    /// [visitor](Registration::visit) has begun. The data is dropped afterwards. May sleep.
    fn remove<'d>(_device: &Device<'d>, _data: &Self::Data<'d>, _sleep: &MaySleep) {}

    /// Called for a device that was renamed. May sleep.
    fn renamed<'d>(_device: &Device<'d>, _data: &Self::Data<'d>, _sleep: &MaySleep) {}
}

/// A client's table: a `static`.
pub struct Table<C: Client> {
    table: ClientTable<Bridge<C>>,
    registry: AtomicPtr<Registry<C>>,
}

impl<C: Client> Table<C> {
    /// Creates a table.
    #[expect(clippy::new_without_default, reason = "it is for statics")]
    pub const fn new() -> Self {
        Self {
            table: ClientTable::new(),
            registry: AtomicPtr::new(null_mut()),
        }
    }

    /// Registers the client. `add` is called for all registered devices before this returns.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a table other than the client's, `EBUSY` for a registered one, `ENOMEM`.
    pub fn register(&'static self, sleep: &MaySleep) -> Result<Registration<C>> {
        let registry = Registry::new(sleep)?;
        let raw = Arc::as_ptr(&registry).cast_mut();
        let ordering = Ordering::AcqRel;
        if self
            .registry
            .compare_exchange(null_mut(), raw, ordering, Ordering::Relaxed)
            .is_err()
        {
            return Err(EBUSY);
        }
        let mut registration = Registration {
            client: None,
            registry,
            table: self,
        };
        registration.client = Some(self.table.register(sleep)?);
        Ok(registration)
    }
}

/// The devices of a client.
#[pin_data]
struct Registry<C: Client> {
    #[pin]
    devices: Mutex<KVec<RegistryEntry<C>>>,
    /// The work queue that destroys objects which are dropped in any context.
    queue: OwnedQueue,
}

/// A device in the registry.
struct RegistryEntry<C: Client> {
    entry: ARef<Counted<Entry<C>>>,
    /// Whether the device has data, which may be visited.
    is_open: bool,
}

impl<C: Client> Registry<C> {
    fn new(sleep: &MaySleep) -> Result<Arc<Self>> {
        let queue = OwnedQueue::new(C::NAME, QueueFlags::UNBOUND, 0, sleep)?;
        let init = pin_init!(Self {
            devices <- new_mutex!(KVec::new(), "Registry::devices"),
            queue,
        });
        Arc::pin_init(init, GFP_KERNEL)
    }

    /// Adds a device that has no data yet.
    fn list(&self, entry: &ARef<Counted<Entry<C>>>) -> Result {
        let entry = entry.clone();
        let is_open = false;
        let listed = RegistryEntry { entry, is_open };
        Ok(self.devices.lock().push(listed, GFP_KERNEL)?)
    }

    /// Admits visitors to a device.
    fn open(&self, opened: &Entry<C>) {
        for listed in self.devices.lock().iter_mut() {
            listed.is_open |= core::ptr::eq(&**listed.entry, opened);
        }
    }

    /// Removes a device, which admits no visitors any more.
    fn unlist(&self, gone: &Entry<C>) {
        let mut devices = self.devices.lock();
        devices.retain(|listed| !core::ptr::eq(&**listed.entry, gone));
    }

    /// Enters a device as a visitor.
    fn enter_at(&self, device: &DeviceView) -> Option<ARef<Counted<Entry<C>>>> {
        let devices = self.devices.lock();
        let mut open = devices.iter().filter(|listed| listed.is_open);
        let found =
            open.find(|listed| core::ptr::eq(listed.entry.scope.device.as_raw(), device.as_raw()))?;
        found.entry.visitors.fetch_add(1, Ordering::Relaxed);
        Some(found.entry.clone())
    }

    /// Enters the next device after the first `nth` as a visitor.
    fn enter(&self, nth: &mut usize) -> Option<ARef<Counted<Entry<C>>>> {
        let devices = self.devices.lock();
        loop {
            let listed = devices.get(*nth)?;
            *nth = nth.saturating_add(1);
            if listed.is_open {
                listed.entry.visitors.fetch_add(1, Ordering::Relaxed);
                return Some(listed.entry.clone());
            }
        }
    }
}

/// A device of a client, with the client's data.
struct Entry<C: Client> {
    scope: Arc<Scope>,
    /// Memory from `KBox` for the data, whose lifetime stands for the device. The data is initialised as long as there are
    /// visitors.
    data: NonNull<C::Data<'static>>,
    /// The number of visitors, of which the registry is one.
    visitors: AtomicUsize,
    unvisited: Pin<KBox<Completion>>,
}

// SAFETY: `C::Data` is `Send` and `Sync`, and the other members may be used from any thread.
unsafe impl<C: Client> Send for Entry<C> {}
// SAFETY: `C::Data` is `Send` and `Sync`, and the other members may be used from any thread.
unsafe impl<C: Client> Sync for Entry<C> {}

impl<C: Client> Entry<C> {
    /// Calls `f` with the data.
    ///
    /// # Safety
    ///
    /// The caller is a visitor.
    unsafe fn with<R>(&self, f: impl for<'d> FnOnce(&Device<'d>, &C::Data<'d>) -> R) -> R {
        let device = Device::of(&self.scope);
        // SAFETY: The data is initialised as long as there is a visitor. Its lifetime is that of the handle here.
        f(&device, unsafe { self.data.cast().as_ref() })
    }

    fn leave(&self) {
        if self.visitors.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.unvisited.complete_all();
        }
    }
}

impl Device<'_> {
    /// Creates a handle of a device, for a call of the client.
    fn of(scope: &Arc<Scope>) -> Self {
        scope.handles.fetch_add(1, Ordering::Relaxed);
        Self {
            scope: scope.clone(),
            _brand: PhantomData,
        }
    }
}

/// The interval in milliseconds of checks for handles of a device.
const WAIT_MS: u32 = 1;
/// The number of checks after which a message is logged.
const SAY_AFTER: u32 = 10_000;

impl Scope {
    /// Waits until there are no handles of the device. Only objects that the work queue destroys, that are in the retry list, or
    /// that were leaked still hold one.
    fn wait(&self, sleep: &MaySleep) {
        sleep.check();
        let mut waits = 0u32;
        loop {
            // SAFETY: The work queue is valid as long as the client is registered.
            unsafe { bindings::__flush_workqueue(self.queue.as_ptr()) };
            self.retry.destroy(sleep);
            if self.handles.load(Ordering::Acquire) == 0 {
                return;
            }
            waits = waits.saturating_add(1);
            if waits == SAY_AFTER {
                pr_warn!(
                    "{} has leaked objects of {}\n",
                    self.owner,
                    self.device.name()
                );
            }
            sleep.sleep_ms(WAIT_MS);
        }
    }
}

/// The adapter of a client for the core.
struct Bridge<C>(PhantomData<C>);

impl<C: Client> Bridge<C> {
    fn registry() -> Result<&'static Registry<C>> {
        let registry = NonNull::new(C::table().registry.load(Ordering::Acquire)).ok_or(ENODEV)?;
        // SAFETY: The registry is valid as long as the client is registered, and unregistration waits for the core's calls.
        Ok(unsafe { registry.as_ref() })
    }

    /// Lets the client create its data of a device.
    fn make(
        scope: &Arc<Scope>,
        registry: &Registry<C>,
        sleep: &MaySleep,
    ) -> Result<ARef<Counted<Entry<C>>>> {
        let unvisited = KBox::pin_init(Completion::new(), GFP_KERNEL)?;
        let room = KBox::into_raw(KBox::<C::Data<'static>>::new_uninit(GFP_KERNEL)?);
        let free = kernel::types::ScopeGuard::new(|| {
            // SAFETY: The memory was allocated above, and holds no data.
            drop(unsafe { KBox::from_raw(room) });
        });
        let entry = Counted::new(Entry {
            scope: scope.clone(),
            data: NonNull::new(room.cast()).ok_or(ENOMEM)?,
            visitors: AtomicUsize::new(1),
            unvisited,
        })?;
        registry.list(&entry)?;
        // Nothing fails after the client has created its data.
        match C::add(&Device::of(scope), sleep) {
            // SAFETY: The memory has the layout of the data, for any lifetime.
            Ok(data) => unsafe { entry.data.cast().write(data) },
            Err(error) => {
                registry.unlist(&entry);
                return Err(error);
            }
        }
        free.dismiss();
        registry.open(&entry);
        Ok(entry)
    }
}

impl<C: Client> registration::Client for Bridge<C> {
    type Data = Counted<Entry<C>>;

    const NAME: &'static CStr = C::NAME;
    const ANY_DEVICE: bool = false;

    fn table() -> &'static ClientTable<Self> {
        &C::table().table
    }

    fn add(device: &DeviceView, sleep: &MaySleep) -> Result<ARef<Self::Data>> {
        let registry = Self::registry()?;
        let scope = Scope {
            device: device.try_get().ok_or(ENODEV)?,
            owner: C::NAME,
            queue: registry.queue.as_raw(),
            handles: AtomicUsize::new(0),
            retry: RetryList::new(),
        };
        let scope = Arc::new(scope, GFP_KERNEL)?;
        let made = Self::make(&scope, registry, sleep);
        if made.is_err() {
            scope.wait(sleep);
        }
        made
    }

    fn remove(_device: &DeviceView, entry: ARef<Self::Data>, sleep: &MaySleep) {
        if let Ok(registry) = Self::registry() {
            registry.unlist(&entry);
        }
        // SAFETY: The registry counts as a visitor until this call has returned.
        unsafe { entry.with(|device, data| C::remove(device, data, sleep)) };
        entry.leave();
        entry.unvisited.wait(sleep);
        // SAFETY: The data was allocated by `KBox` and initialised; there are no visitors any more.
        drop(unsafe { KBox::from_raw(entry.data.as_ptr()) });
        entry.scope.wait(sleep);
    }

    fn renamed(_device: &DeviceView, entry: &Self::Data, sleep: &MaySleep) {
        // SAFETY: A renamed device is in the registry, and is not removed during the call.
        unsafe { entry.with(|device, data| C::renamed(device, data, sleep)) };
    }
}

/// The registration of a client. Dropping it, in process context, unregisters the client, and removes all its devices.
pub struct Registration<C: Client> {
    /// Dropped first.
    client: Option<registration::Registration<Bridge<C>>>,
    registry: Arc<Registry<C>>,
    table: &'static Table<C>,
}

impl<C: Client> Registration<C> {
    /// Calls `f` with each current device of the client, until it returns `Some`.
    ///
    /// A device is not removed completely before `f` has returned: [`Client::remove`] may be called concurrently, but the data is
    /// dropped after `f`. Not to be called in methods of the client.
    pub fn visit<R>(
        &self,
        mut f: impl for<'d> FnMut(&Device<'d>, &C::Data<'d>, &MaySleep) -> Option<R>,
        sleep: &MaySleep,
    ) -> Option<R> {
        sleep.check();
        let mut nth = 0;
        while let Some(entry) = self.registry.enter(&mut nth) {
            // SAFETY: `enter` has just counted this visitor.
            let answer = unsafe { entry.with(|device, data| f(device, data, sleep)) };
            entry.leave();
            if answer.is_some() {
                return answer;
            }
        }
        None
    }

    /// The devices, for whoever learns of one from a connection manager.
    pub fn devices(&self) -> Devices<C> {
        Devices(self.registry.clone())
    }
}

/// The devices of a client; none after it is unregistered.
pub struct Devices<C: Client>(Arc<Registry<C>>);

// The last reference waits for a work queue.
impl<C: Client> !super::DropsAnywhere for Devices<C> {}

impl<C: Client> Devices<C> {
    /// Calls `f` with a device, as [`Registration::visit`]; `None` if the client does not have it.
    pub fn at<R>(
        &self,
        device: &DeviceView,
        f: impl for<'d> FnOnce(&Device<'d>, &C::Data<'d>, &MaySleep) -> R,
        sleep: &MaySleep,
    ) -> Option<R> {
        let entry = self.0.enter_at(device)?;
        // SAFETY: `enter_at` has just counted this visitor.
        let answer = unsafe { entry.with(|device, data| f(device, data, sleep)) };
        entry.leave();
        Some(answer)
    }
}

impl<C: Client> Drop for Registration<C> {
    fn drop(&mut self) {
        drop(self.client.take());
        self.table.registry.store(null_mut(), Ordering::Release);
    }
}
