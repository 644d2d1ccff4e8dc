// SPDX-License-Identifier: GPL-2.0

//! Clients that create objects on devices: their registration, and their data of each device.
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
//! | `Registry::devices` | which devices the client has | process | nothing |
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

/// A user of devices. What it makes of a device stands in its data of the device.
pub trait Client: Sized + 'static {
    /// What the client has of a device.
    type Data<'d>: Send + Sync;

    /// The client's name: the alias `rdma-client-NAME`, and whose objects they are in `rdma resource`.
    const NAME: &'static CStr;

    /// The client's table, of which there is one.
    fn table() -> &'static Table<Self>;

    /// A device has come, or the client has. May sleep.
    ///
    /// # Errors
    ///
    /// Any: the client does not hear of the device again.
    fn add<'d>(device: &Device<'d>, sleep: &MaySleep) -> Result<Self::Data<'d>>;

    /// A device goes, or the client does. What was begun elsewhere with the data, by a [visitor](Registration::visit), is to
    /// end now; then the data is dropped. May sleep.
    fn remove<'d>(_device: &Device<'d>, _data: &Self::Data<'d>, _sleep: &MaySleep) {}

    /// A device has a new name. May sleep.
    fn renamed<'d>(_device: &Device<'d>, _data: &Self::Data<'d>, _sleep: &MaySleep) {}
}

/// A client's table: a `static`.
pub struct Table<C: Client> {
    table: ClientTable<Bridge<C>>,
    registry: AtomicPtr<Registry<C>>,
}

impl<C: Client> Table<C> {
    /// A table.
    #[expect(clippy::new_without_default, reason = "it is for statics")]
    pub const fn new() -> Self {
        Self {
            table: ClientTable::new(),
            registry: AtomicPtr::new(null_mut()),
        }
    }

    /// Registers the client: it hears of the devices that are there before this returns.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a table that is not that of the client, `EBUSY` for one that is registered, `ENOMEM`.
    pub fn register(&'static self, sleep: &MaySleep) -> Result<Registration<C>> {
        let registry = Registry::new(sleep)?;
        let raw = core::ptr::from_ref(&*registry).cast_mut();
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

/// The devices that a client has.
#[pin_data]
struct Registry<C: Client> {
    #[pin]
    devices: Mutex<KVec<Listed<C>>>,
    /// Here is destroyed what cannot be destroyed where it is dropped.
    queue: OwnedQueue,
}

/// A device in the registry.
struct Listed<C: Client> {
    entry: ARef<Counted<Entry<C>>>,
    /// There is data, which may be visited.
    is_open: bool,
}

impl<C: Client> Registry<C> {
    fn new(sleep: &MaySleep) -> Result<Pin<KBox<Self>>> {
        let queue = OwnedQueue::new(C::NAME, QueueFlags::UNBOUND, 0, sleep)?;
        let init = pin_init!(Self {
            devices <- new_mutex!(KVec::new(), "Registry::devices"),
            queue,
        });
        KBox::pin_init(init, GFP_KERNEL)
    }

    /// Lists a device that has no data yet.
    fn list(&self, entry: &ARef<Counted<Entry<C>>>) -> Result {
        let entry = entry.clone();
        let is_open = false;
        let listed = Listed { entry, is_open };
        Ok(self.devices.lock().push(listed, GFP_KERNEL)?)
    }

    /// Lets visitors in.
    fn open(&self, opened: &Entry<C>) {
        for listed in self.devices.lock().iter_mut() {
            listed.is_open |= core::ptr::eq(&**listed.entry, opened);
        }
    }

    /// Lets no visitors in any more.
    fn unlist(&self, gone: &Entry<C>) {
        let mut devices = self.devices.lock();
        devices.retain(|listed| !core::ptr::eq(&**listed.entry, gone));
    }

    /// The next device after the first `nth`, with one more visitor.
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

/// What a client has of a device.
struct Entry<C: Client> {
    scope: Arc<Scope>,
    /// Room from `KBox` for the data, for the lifetime that stands for the device. The data is there as long as there are
    /// visitors.
    data: NonNull<C::Data<'static>>,
    /// Who uses the data: one for being in the registry.
    visitors: AtomicUsize,
    unvisited: Pin<KBox<Completion>>,
}

// SAFETY: The data may be used from any thread.
unsafe impl<C: Client> Send for Entry<C> {}
// SAFETY: As above.
unsafe impl<C: Client> Sync for Entry<C> {}

impl<C: Client> Entry<C> {
    /// Calls `f` with the data.
    ///
    /// # Safety
    ///
    /// The caller is a visitor.
    unsafe fn with<R>(&self, f: impl for<'d> FnOnce(&Device<'d>, &C::Data<'d>) -> R) -> R {
        let device = Device::of(&self.scope);
        // SAFETY: There is data as long as there is a visitor. Its lifetime is the one that the handle has here.
        f(&device, unsafe { self.data.cast().as_ref() })
    }

    fn leave(&self) {
        if self.visitors.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.unvisited.complete_all();
        }
    }
}

impl Device<'_> {
    /// A handle of a device, for a call of the client.
    fn of(scope: &Arc<Scope>) -> Self {
        scope.handles.fetch_add(1, Ordering::Relaxed);
        Self {
            scope: scope.clone(),
            _brand: PhantomData,
        }
    }
}

/// How long a device that has handles is waited for at a time.
const WAIT_MS: u32 = 1;
/// After how many times that is said.
const SAY_AFTER: u32 = 10_000;

impl Scope {
    /// Waits until there are no handles of the device. Only what is destroyed by the queue, waits in the retry list, or was leaked, has one.
    fn wait(&self, sleep: &MaySleep) {
        sleep.check();
        let mut waits = 0u32;
        loop {
            // SAFETY: The queue is there as long as the client is registered.
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
            // SAFETY: The caller may sleep.
            unsafe { bindings::msleep(WAIT_MS) };
        }
    }
}

/// A client as the core knows it.
struct Bridge<C>(PhantomData<C>);

impl<C: Client> Bridge<C> {
    fn registry() -> Result<&'static Registry<C>> {
        let registry = NonNull::new(C::table().registry.load(Ordering::Acquire)).ok_or(ENODEV)?;
        // SAFETY: The registry is there as long as the client is registered, and the core's calls end before.
        Ok(unsafe { registry.as_ref() })
    }

    /// Has the client make its data of a device.
    fn make(
        scope: &Arc<Scope>,
        registry: &Registry<C>,
        sleep: &MaySleep,
    ) -> Result<ARef<Counted<Entry<C>>>> {
        let unvisited = KBox::pin_init(Completion::new(), GFP_KERNEL)?;
        let room = KBox::into_raw(KBox::<C::Data<'static>>::new_uninit(GFP_KERNEL)?);
        let free = kernel::types::ScopeGuard::new(|| {
            // SAFETY: It was allocated above, and there is no data in it.
            drop(unsafe { KBox::from_raw(room) });
        });
        let entry = Counted::new(Entry {
            scope: scope.clone(),
            data: NonNull::new(room.cast()).ok_or(ENOMEM)?,
            visitors: AtomicUsize::new(1),
            unvisited,
        })?;
        registry.list(&entry)?;
        // When the client has made its data, nothing fails any more.
        match C::add(&Device::of(scope), sleep) {
            // SAFETY: There is room, for data of any lifetime.
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
        // SAFETY: The registry's visit has not ended.
        unsafe { entry.with(|device, data| C::remove(device, data, sleep)) };
        entry.leave();
        entry.unvisited.wait(sleep);
        // SAFETY: It was allocated so, and written; there are no visitors, and never will be.
        drop(unsafe { KBox::from_raw(entry.data.as_ptr()) });
        entry.scope.wait(sleep);
    }

    fn renamed(_device: &DeviceView, entry: &Self::Data, sleep: &MaySleep) {
        // SAFETY: A device that has a new name is in the registry, and does not go meanwhile.
        unsafe { entry.with(|device, data| C::renamed(device, data, sleep)) };
    }
}

/// The client is registered while this is there. Dropping it, in process context, takes the client's devices away.
pub struct Registration<C: Client> {
    /// Dropped first.
    client: Option<registration::Registration<Bridge<C>>>,
    registry: Pin<KBox<Registry<C>>>,
    table: &'static Table<C>,
}

impl<C: Client> Registration<C> {
    /// Calls `f` with each device that the client has at this moment, until it answers something.
    ///
    /// A device does not go before `f` has returned: [`Client::remove`] is called meanwhile, but the data stays. Not in
    /// methods of the client.
    pub fn visit<R>(
        &self,
        mut f: impl for<'d> FnMut(&Device<'d>, &C::Data<'d>, &MaySleep) -> Option<R>,
        sleep: &MaySleep,
    ) -> Option<R> {
        sleep.check();
        let mut nth = 0;
        while let Some(entry) = self.registry.enter(&mut nth) {
            // SAFETY: It has just been entered.
            let answer = unsafe { entry.with(|device, data| f(device, data, sleep)) };
            entry.leave();
            if answer.is_some() {
                return answer;
            }
        }
        None
    }
}

impl<C: Client> Drop for Registration<C> {
    fn drop(&mut self) {
        drop(self.client.take());
        self.table.registry.store(null_mut(), Ordering::Release);
    }
}
