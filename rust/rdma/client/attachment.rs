// SPDX-License-Identifier: GPL-2.0

//! Clients whose files and agents use a device for as long as it is there, without its lifetime in their types.
//!
//! Between a client's `add` and the end of its `remove` the device may be used. An [`Attached`] is a use that may be stored
//! anywhere: `remove` ends when the last one is dropped. So an object with an [`Attached`] never outlives the client's stay at the
//! device, nor what the core has for its clients there, such as the layer of management datagrams.
//!
//! ```text
//! add() with an Attached  →  Data  →  remove() drops all uses; what is left is waited for
//! ```
//!
//! C header: `include/rdma/ib_verbs.h` (`struct ib_client`).

use core::{marker::PhantomData, ops::Deref};

use kernel::{
    error::to_result,
    prelude::*,
    sync::{aref::ARef, Arc},
};
use kernel_ext::{
    error::EOPNOTSUPP,
    uses::{Use, Used, Uses},
};
use rdma_bindings as bindings;

use super::registration::{self, ClientTable, Counted, NlInfo};
use crate::{
    core::{device::Registered, Device},
    MaySleep,
};

/// The stay of a client at a device.
#[pin_data]
struct Stay {
    device: Registered,
    #[pin]
    uses: Uses,
}

// SAFETY: It is the member.
unsafe impl Used for Stay {
    fn uses(&self) -> &Uses {
        &self.uses
    }
}

/// A use of a device by a client, whose removal waits until this is dropped, in any context.
pub struct Attached(Use<Stay>);

impl Attached {
    /// One more use. `None` if the client is leaving the device and all other uses have been dropped. Any context.
    pub fn another(&self) -> Option<Self> {
        Use::new(&self.0).map(Self)
    }

    /// Changes the capabilities that a port announces: sets some and clears some, `enum ib_port_capability_mask_bits`.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown port, and those of the driver.
    pub fn modify_port(&self, port: u32, set: u32, clear: u32, sleep: &MaySleep) -> Result {
        sleep.check();
        let mut change: bindings::ib_port_modify = pin_init::zeroed();
        change.set_port_cap_mask = set;
        change.clr_port_cap_mask = clear;
        // SAFETY: The device is registered as long as `self`.
        to_result(unsafe { bindings::ib_modify_port(self.as_raw(), port, 0, &mut change) })
    }
}

impl Deref for Attached {
    type Target = Device;

    #[inline]
    fn deref(&self) -> &Device {
        &self.0.device
    }
}

/// A client. `add` and `remove` may sleep, and are not called concurrently for one device.
pub trait Client: Sized + 'static {
    /// The client's data of a device.
    type Data: Send + Sync;

    /// The client's name, for the alias `rdma-client-NAME`.
    const NAME: &'static CStr;

    /// The client's only table.
    fn table() -> &'static Table<Self>;

    /// Called for a device that is registered, when the device or the client is registered.
    ///
    /// # Errors
    ///
    /// Any error: the client does not use the device.
    fn add(device: &Attached, sleep: &MaySleep) -> Result<Self::Data>;

    /// Called when the device or the client is unregistered. All uses of the device must be on their way to be dropped when it
    /// returns: they are waited for. The data is dropped afterwards.
    fn remove(data: &Self::Data, sleep: &MaySleep);

    /// Called when user space queries the client's character device.
    ///
    /// # Errors
    ///
    /// Any error; it is returned to user space.
    fn nl_info<'a>(_device: &Device, _data: &'a Self::Data, _info: &mut NlInfo<'a>) -> Result {
        Err(EOPNOTSUPP)
    }
}

/// A client's table: a `static`.
pub struct Table<C: Client>(ClientTable<Bridge<C>>);

impl<C: Client> Table<C> {
    /// Creates a table.
    #[expect(clippy::new_without_default, reason = "it is for statics")]
    pub const fn new() -> Self {
        Self(ClientTable::new())
    }

    /// Registers the client. `add` is called for all registered devices before this returns.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a table other than the client's, `EBUSY` for a registered one, `ENOMEM`.
    pub fn register(&'static self, sleep: &MaySleep) -> Result<Registration<C>> {
        Ok(Registration(self.0.register(sleep)?))
    }
}

/// The registration of a client. Dropping it, in process context, unregisters the client and removes all its devices.
pub struct Registration<C: Client>(
    #[expect(dead_code, reason = "it is dropped")] registration::Registration<Bridge<C>>,
);

/// The adapter of a client for the core.
struct Bridge<C>(PhantomData<fn() -> C>);

/// The stay at a device, and the client's data of it.
struct Entry<C: Client> {
    stay: Arc<Stay>,
    data: C::Data,
}

impl<C: Client> registration::Client for Bridge<C> {
    type Data = Counted<Entry<C>>;

    const NAME: &'static CStr = C::NAME;
    const ANY_DEVICE: bool = false;

    fn table() -> &'static ClientTable<Self> {
        &C::table().0
    }

    fn add(device: &Device, sleep: &MaySleep) -> Result<ARef<Self::Data>> {
        let stay = Arc::pin_init(
            pin_init!(Stay {
                device: device.try_get().ok_or(ENODEV)?,
                uses <- Uses::new(),
            }? Error),
            GFP_KERNEL,
        )?;
        // The client that has been added is not told of a lack of memory.
        let place = Counted::place()?;
        let attached = Attached(Use::new(&stay).ok_or(ENODEV)?);
        let added = C::add(&attached, sleep);
        drop(attached);
        match added {
            Ok(data) => Ok(place.fill(Entry { stay, data })),
            Err(error) => {
                stay.uses.end(sleep);
                Err(error)
            }
        }
    }

    fn remove(_device: &Device, entry: ARef<Self::Data>, sleep: &MaySleep) {
        C::remove(&entry.data, sleep);
        entry.stay.uses.end(sleep);
    }

    fn nl_info<'a>(device: &Device, entry: &'a Self::Data, info: &mut NlInfo<'a>) -> Result {
        C::nl_info(device, &entry.data, info)
    }
}
