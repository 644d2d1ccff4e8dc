// SPDX-License-Identifier: GPL-2.0

//! The verbs, for users of RDMA in the kernel.
//!
//! 1. Implement [`Client`]: in [`add`](Client::add), make of a [`Device`] what is needed of it, and return that: the client's
//!    [data](Client::Data) of the device.
//! 2. Make a `static` [`table::Table`], register it, and keep the [`table::Registration`] in the module.
//!
//! | object | is | goes |
//! |---|---|---|
//! | [`Device`] | a handle, cloned | any context |
//! | [`Pd`], [`Cq`], [`Ah`], [`Mr`] | counted, or owned; destroyed by a work queue, when nothing uses it | any context |
//! | [`Qp`], [`Srq`] | owned, or counted; destroyed at once: waits, and calls handlers | process context alone |
//! | [`QpHandle`](qp::QpHandle), [`SrqHandle`](srq::SrqHandle) | for posting; keeps nothing | any context |
//! | [`Work`] | a request with its memory, owned by who may touch that | any context |
//! | [`dma::Buffer`], [`dma::Pages`] | memory that is mapped for the device | any context |
//!
//! # What the types say
//!
//! * All that is made of a device has the lifetime `'d` of that [`Device`], which is that of no other device and longer than
//!   no call of the client: so it can live in the client's data of this device and nowhere else, and the data is dropped
//!   before [`remove`](Client::remove) has returned. A QP with a CQ of another device does not compile.
//! * Objects keep what they need: a QP its PD and its CQs. The order in which they are dropped does not matter.
//! * What a driver does not destroy stays, with all that it needs, and is tried again when the device or the client goes, which
//!   waits for that.
//! * Creating and changing objects may sleep: that takes a [`MaySleep`]. Posting and polling do not. Handlers of completions,
//!   which may run in a softirq, have no token, and cannot own what waits when it is dropped ([`DropsAnywhere`]): so no object
//!   is made or destroyed in one.
//! * The [state](qp::State) of a QP is a part of its type: requests to receive are posted from [`Init`](qp::Init) on, requests
//!   to send in [`Rts`](qp::Rts). So is its [transport](qp::Transport), which says what may be asked of the peer.
//! * A request that is posted owns its memory until it is completed; memory that a peer may reach at any time is copied from
//!   and to, never borrowed. It has room for its completion, too: no completion queue overruns.
//!
//! # Example
//!
//! A client that has a protection domain and a completion queue of each RoCE device. `samples/client_rust.rs` is a whole module.
//!
//! ```
//! use kernel::{prelude::*, sync::Arc};
//! use rdma::{
//!     client::{table::Table, cq::PollContext, Client, Cq, Device, Pd},
//!     MaySleep,
//! };
//!
//! struct Example;
//!
//! struct Data<'d> {
//!     pd: Pd<'d>,
//!     cq: Arc<Cq<'d>>,
//! }
//!
//! static TABLE: Table<Example> = Table::new();
//!
//! impl Client for Example {
//!     type Data<'d> = Data<'d>;
//!
//!     const NAME: &'static CStr = c"example";
//!
//!     fn table() -> &'static Table<Self> {
//!         &TABLE
//!     }
//!
//!     fn add<'d>(device: &Device<'d>, sleep: &MaySleep) -> Result<Data<'d>> {
//!         if !device.is_roce(1) {
//!             return Err(ENODEV);
//!         }
//!         Ok(Data {
//!             pd: Pd::new(device, sleep)?,
//!             cq: Cq::new(device, 64, 0, PollContext::SoftIrq, sleep)?,
//!         })
//!     }
//!
//!     fn remove<'d>(device: &Device<'d>, data: &Data<'d>, _sleep: &MaySleep) {
//!         // What is begun elsewhere ends here. Then the data is dropped.
//!         pr_info!("{:?} goes\n", device.name());
//!         let _ = (&data.pd, &data.cq);
//!     }
//! }
//! ```
//!
//! All of this speaks the C contract, so it works on any `ib_core`.
//!
//! C header: `include/rdma/ib_verbs.h`.

pub mod ah;
pub mod chain;
pub mod cq;
mod deferred;
pub mod dma;
pub mod event;
mod fill;
mod held;
mod kept;
pub mod mr;
pub mod op;
pub mod pd;
pub mod qp;
pub mod registration;
mod request;
mod room;
mod slots;
mod source;
pub mod srq;
pub mod table;
pub mod timer;
pub mod work;

use core::{
    marker::PhantomData,
    ptr::NonNull,
    sync::atomic::{AtomicUsize, Ordering},
};

use kernel::{
    error::to_result,
    prelude::*,
    sync::{aref::ARef, Arc},
};
use rdma_bindings::{self as bindings, ib_device, workqueue_struct};

use self::kept::Kept;
use crate::{
    abi::{
        gid::{owned_gid_attr, GidAttr},
        port::PortAttr,
    },
    core::device::{DeviceName, Registered},
    DeviceAttr, MaySleep,
};

pub use ah::Ah;
pub use cq::Cq;
pub use mr::Mr;
pub use pd::Pd;
pub use qp::Qp;
pub use srq::Srq;
pub use table::Client;
pub use work::Work;

/// A value that may be dropped in any context: it owns nothing whose destruction waits.
///
/// # Safety
///
/// That is so. The compiler works it out for each type from what the type consists of; trait objects have to name it.
pub unsafe auto trait DropsAnywhere {}

/// Ties an object to its device: `'d` stands for the device, and neither grows nor shrinks.
type Brand<'d> = PhantomData<fn(&'d ()) -> &'d ()>;

/// What a client has of a device is counted here.
struct Scope {
    device: Registered,
    /// Whose objects of the device are.
    owner: &'static CStr,
    /// What is destroyed later is destroyed here. The queue goes when the client does.
    queue: NonNull<workqueue_struct>,
    /// How many handles there are.
    handles: AtomicUsize,
    /// What the driver has not destroyed.
    kept: Kept,
}

// SAFETY: Work queues may be used from any thread.
unsafe impl Send for Scope {}
// SAFETY: As above.
unsafe impl Sync for Scope {}

/// A device, as a client has it, and what the client makes of it too: from [`Client::add`] on until [`Client::remove`] has
/// returned. It is registered all that time.
pub struct Device<'d> {
    scope: Arc<Scope>,
    _brand: Brand<'d>,
}

impl Clone for Device<'_> {
    fn clone(&self) -> Self {
        self.scope.handles.fetch_add(1, Ordering::Relaxed);
        Self {
            scope: self.scope.clone(),
            _brand: PhantomData,
        }
    }
}

impl Drop for Device<'_> {
    fn drop(&mut self) {
        self.scope.handles.fetch_sub(1, Ordering::Release);
    }
}

impl Device<'_> {
    /// The C structure, which is there as long as `self`: for a connection manager.
    pub fn as_raw(&self) -> *mut ib_device {
        self.scope.device.as_raw()
    }

    /// Whose objects of the device are: the client's name.
    pub fn owner(&self) -> &'static CStr {
        self.scope.owner
    }

    /// The device's name at this moment, for messages.
    pub fn name(&self) -> DeviceName {
        self.scope.device.name()
    }

    /// The GUID of the node, in the order of the wire.
    pub fn node_guid(&self) -> [u8; 8] {
        self.scope.device.node_guid()
    }

    /// The numbers of the ports.
    pub fn ports(&self) -> core::ops::RangeInclusive<u32> {
        self.scope.device.ports()
    }

    /// Whether a port is of RoCE.
    pub fn is_roce(&self, port: u32) -> bool {
        self.scope.device.is_roce(port)
    }

    /// What the device can: `struct ib_device_attr`.
    pub fn attrs(&self) -> &DeviceAttr {
        self.scope.device.attrs()
    }

    /// How many completion vectors there are.
    pub fn completion_vectors(&self) -> u32 {
        // SAFETY: The member is constant once the device is registered.
        let count = unsafe { (*self.as_raw()).num_comp_vectors };
        u32::try_from(count).unwrap_or(0)
    }

    /// What a port is like at this moment.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a port that there is not, and what the driver answers.
    pub fn query_port(&self, port: u32, sleep: &MaySleep) -> Result<PortAttr> {
        sleep.check();
        let mut attr: PortAttr = pin_init::zeroed();
        // SAFETY: The device is registered; there is room for the answer.
        to_result(unsafe { bindings::ib_query_port(self.as_raw(), port, &mut attr) })?;
        Ok(attr)
    }

    /// An entry of a port's GID table. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a port or an index that there is not, `ENODATA` for an entry that is not valid.
    pub fn gid(&self, port: u32, index: u16) -> Result<ARef<GidAttr>> {
        // SAFETY: The device is registered.
        owned_gid_attr(unsafe { bindings::rdma_get_gid_attr(self.as_raw(), port, index.into()) })
    }
}

/// The address of an object of C's that was just made.
fn made<T>(raw: *mut T) -> Result<NonNull<T>> {
    NonNull::new(kernel::error::from_err_ptr(raw)?).ok_or(ENOMEM)
}
