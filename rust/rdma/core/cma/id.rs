// SPDX-License-Identifier: GPL-2.0

//! Identifiers as clients see them: `struct rdma_cm_id`, in front of what resource tracking reads of them.
//!
//! Clients read the structure at any time. What it points to belongs to the [`IdBody`]: the device, the source GID, the paths and the
//! records of services are there as long as they are set.
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `IdBody::tracking` | whether the identifier is in the list of its device, and so whether it may have another one | process context | `IdBody::owned`, what resource tracking takes and waits for |
//! | `IdBody::owned` | what the structure points to | any, interrupts off | nothing |
//!
//! C header: `include/rdma/rdma_cm.h`.

use core::{
    ptr::{null, null_mut},
    sync::atomic::{AtomicBool, Ordering},
};

use kernel::{
    error::to_result,
    ffi::{c_char, c_int},
    prelude::*,
    sync::{aref::ARef, new_mutex, Mutex},
    types::Opaque,
};
use kernel_ext::{
    cmutex::CMutex,
    entry::FromC,
    net::{device::NetDevice, ns::NetRef, resolve::HardwareAddress},
    sync::{new_spinlock_irq, SpinLockIrq},
};
use rdma_bindings::{
    self as bindings, rdma_cm_event_handler, rdma_cm_id, rdma_dev_addr, rdma_id_private,
    sa_service_rec,
};

use crate::{
    abi::gid::GidAttr,
    core::{
        address_vector::Sgid,
        callback::{Callback, Context, Handler},
        device::Registered,
        iw::address::SockAddr,
        mad::Body,
        path::Path,
        Device,
    },
    Gid, MaySleep,
};

/// The paths of an identifier.
pub struct Records {
    /// The path, and the alternate one.
    pub paths: KVec<Path>,
    /// The path from the peer, as the subnet administrator knows it.
    pub inbound: Option<KBox<Path>>,
    /// The path to the peer for data, as the subnet administrator knows it.
    pub outbound: Option<KBox<Path>>,
}

impl Records {
    /// Paths that are the same in both directions.
    pub fn new(paths: KVec<Path>) -> Self {
        Self {
            paths,
            inbound: None,
            outbound: None,
        }
    }
}

/// Records of services, as the subnet administrator has told them.
pub struct Services(pub(super) KVec<sa_service_rec>);

// SAFETY: Records are plain data.
unsafe impl Send for Services {}

/// How far resource tracking is with an identifier.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tracking {
    /// It is not listed yet: it has no device, or listing it has failed.
    Unlisted,
    /// It is in the list of its device, which finds it there again by `id.device`.
    Listed,
    /// It is listed no more, and its owner is forgotten.
    Over,
}

/// What the structure points to.
struct Owned {
    device: Option<Registered>,
    sgid: Option<ARef<GidAttr>>,
    records: Option<KBox<Records>>,
    services: Option<Services>,
}

/// The C structure of an identifier.
///
/// Its client owns a reference to it, which comes back as [`OwnedArg`](crate::core::mad::OwnedArg), or as the result of
/// [`tell`](super::handler::tell).
///
/// # Invariants
///
/// The structure is initialised. Its pointers are null, or those of `owned` and `net`. While `has_client` is set C has a reference to the
/// identifier. Only who holds `tracking` uses the entry of resource tracking, but for its readers, and only with it the device changes:
/// that of a listed identifier stays. The entry has its owner until `tracking` is `Over`.
#[pin_data(PinnedDrop)]
#[repr(C)]
pub struct IdBody {
    #[pin]
    raw: Opaque<rdma_id_private>,
    #[pin]
    owned: SpinLockIrq<Owned>,
    net: NetRef,
    #[pin]
    tracking: Mutex<Tracking>,
    has_client: AtomicBool,
}

// SAFETY: Members that change are written as numbers that have no invalid value; the rest belongs to C alone, or to a lock.
unsafe impl Send for IdBody {}
// SAFETY: As above.
unsafe impl Sync for IdBody {}

// SAFETY: The structure begins with a `rdma_id_private`, and that with an `rdma_cm_id`.
unsafe impl Body for IdBody {
    type C = rdma_cm_id;

    unsafe fn given(&self) {
        // INVARIANT: By the safety requirements.
        self.has_client.store(true, Ordering::Release);
    }

    fn taken(&self) {
        self.has_client.store(false, Ordering::Relaxed);
    }
}

/// The client's handler of events, and the context that it finds in the identifier.
pub struct Client(Callback<rdma_cm_event_handler>);

impl Client {
    /// The handler and the context of one call of C.
    pub fn new<'a>(handler: Handler<'a, rdma_cm_event_handler>, context: Context<'a>) -> Self {
        Self(handler.with(context))
    }
}

/// The name of a module, which stays as long as the identifiers that it creates.
pub struct ModuleName<'a>(*const c_char, core::marker::PhantomData<&'a ()>);

// SAFETY: `Raw` is the type in the header.
unsafe impl FromC for ModuleName<'_> {
    type Raw = *const c_char;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw, core::marker::PhantomData)
    }
}

/// Whom resource tracking names as the owner of an identifier.
pub enum Owner<'a> {
    /// A module.
    Module(ModuleName<'a>),
    /// The current process.
    Process,
    /// Who owns another identifier.
    Of(&'a IdBody),
}

/// A member of the C structure. In unsafe code: the place is that of a valid structure.
macro_rules! member {
    ($self:expr, $($member:tt)+) => {
        &raw mut (*$self.raw.get()).$($member)+
    };
}

/// Writes functions that read and write a number, which C may read at any time.
macro_rules! numbers {
    ($($(#[$doc:meta])* $get:ident, $set:ident: $type:ty = $($member:ident).+;)*) => {$(
        $(#[$doc])*
        #[inline]
        pub fn $get(&self) -> $type {
            // SAFETY: The member is valid, and any value of it is.
            unsafe { (member!(self, $($member).+)).read_volatile() }
        }

        $(#[$doc])*
        #[inline]
        pub fn $set(&self, value: $type) {
            // SAFETY: The member is valid, and any value of it is; readers use single loads.
            unsafe { (member!(self, $($member).+)).write_volatile(value) };
        }
    )*};
}

impl IdBody {
    /// An identifier of a port space and a type of queue pairs, in a namespace.
    pub fn new<'a>(
        net: NetRef,
        client: &'a Client,
        (space, qp_type): (u32, u32),
        owner: Owner<'a>,
    ) -> impl PinInit<Self> + 'a {
        let (handler, context) = client.0.parts();
        let raw_net = net.as_raw();
        let fill = move |slot: *mut rdma_id_private| {
            // SAFETY: The slot is valid for writes, and pinned; zeroes are valid for all members.
            unsafe {
                slot.write_bytes(0, 1);
                bindings::cma_init_locks(slot);
                (*slot).id.event_handler = handler;
                (*slot).id.context = context;
                (*slot).id.ps = space;
                (*slot).id.qp_type = qp_type;
                (*slot).id.route.addr.dev_addr.net = raw_net.cast();
                let res = &raw mut (*slot).res;
                bindings::rdma_restrack_new(res, bindings::RDMA_RESTRACK_CM_ID);
                match owner {
                    Owner::Module(name) => bindings::rdma_restrack_set_name(res, name.0),
                    Owner::Process => bindings::rdma_restrack_set_name(res, null()),
                    Owner::Of(other) => other.name_as_owner_of(res),
                }
            }
        };
        let owned = Owned {
            device: None,
            sgid: None,
            records: None,
            services: None,
        };
        // INVARIANT: The pointers are null but for the namespace, and C has no reference.
        pin_init!(Self {
            raw <- Opaque::ffi_init(fill),
            owned <- new_spinlock_irq!(owned, "IdBody::owned"),
            net,
            tracking <- new_mutex!(Tracking::Unlisted, "IdBody::tracking"),
            has_client: AtomicBool::new(false),
        })
    }

    /// Gives an entry that is being made the owner of this identifier, or this module if that is forgotten.
    ///
    /// # Safety
    ///
    /// The entry is initialised, and nobody else uses it.
    unsafe fn name_as_owner_of(&self, res: *mut bindings::rdma_restrack_entry) {
        let tracking = self.tracking.lock();
        // SAFETY: By the safety requirements; by the type invariants the entry of `self` has its owner, who stays while it is locked. The
        // other name is a constant.
        unsafe {
            match *tracking {
                Tracking::Over => {
                    bindings::rdma_restrack_set_name(res, c"rdma_cm".as_char_ptr());
                }
                _ => bindings::rdma_restrack_parent_name(res, &(*self.raw.get()).res),
            }
        }
    }

    /// The C structure.
    pub(super) fn as_raw(&self) -> *mut rdma_id_private {
        self.raw.get()
    }

    pub(super) fn dev_addr(&self) -> *mut rdma_dev_addr {
        // SAFETY: The structure is a member of `self`; the place is only computed.
        unsafe { member!(self, id.route.addr.dev_addr) }
    }

    pub(super) fn source(&self) -> *mut bindings::__kernel_sockaddr_storage {
        // SAFETY: The structure is a member of `self`; the place is only computed.
        unsafe { member!(self, id.route.addr.src_addr) }
    }

    /// Whether the client has had a reference, which is the caller's from now on.
    pub(super) fn take_from_client(&self) -> bool {
        self.has_client.swap(false, Ordering::AcqRel)
    }

    /// The handler lock.
    pub(super) fn handler_mutex(&self) -> &CMutex {
        // SAFETY: The mutex is initialised with the structure, and stays as long as `self`.
        unsafe { CMutex::from_raw(member!(self, handler_mutex)) }
    }

    /// The namespace.
    pub fn net(&self) -> &NetRef {
        &self.net
    }

    /// The client, for an identifier that is to have the same.
    pub fn client(&self) -> Client {
        // SAFETY: The members are valid; a client that changes them does so while nothing is told.
        let (handler, context) = unsafe {
            (
                (member!(self, id.event_handler)).read_volatile(),
                (member!(self, id.context)).read_volatile(),
            )
        };
        // SAFETY: By the header the handler is called with the identifier, of which it finds the context there.
        Client(unsafe { Callback::of_structure(handler, context) })
    }

    numbers! {
        /// `enum rdma_ucm_port_space`.
        space, set_space: u32 = id.ps;
        /// `enum ib_qp_type`.
        qp_type, set_qp_type: u32 = id.qp_type;
        /// The port of the device; 0 before it is known.
        port, set_port: u32 = id.port_num;
        /// `enum rdma_cm_state`.
        state, set_state: c_int = state;
        /// The number of the queue pair.
        qp_num, set_qp_num: u32 = qp_num;
        /// The type of service.
        tos, set_tos: u8 = tos;
        /// The type of the net device: `ARPHRD_*`.
        link_type, set_link_type: u16 = id.route.addr.dev_addr.dev_type;
        /// The index of the net device; 0 for any.
        net_device, set_net_device: c_int = id.route.addr.dev_addr.bound_dev_if;
        /// The kind of the network: `enum rdma_network_type`.
        network, set_network: u32 = id.route.addr.dev_addr.network;
        /// The hop limit of the route.
        hop_limit, set_hop_limit: c_int = id.route.addr.dev_addr.hoplimit;
    }

    /// Shows the address of the identifier, and that of the peer.
    pub fn show_addresses(&self, source: &SockAddr, destination: &SockAddr) {
        let _owned = self.owned.lock();
        // SAFETY: The members are valid. Only this function writes to them, one call after the other.
        unsafe {
            source.store(member!(self, id.route.addr.src_addr));
            destination.store(member!(self, id.route.addr.dst_addr));
        }
    }

    /// The net device of the address, which is looked up in the namespace.
    ///
    /// # Errors
    ///
    /// `ENODEV`, `EADDRNOTAVAIL` if no net device has it.
    pub fn translate(&self, address: &SockAddr, sleep: &MaySleep) -> Result {
        sleep.check();
        let raw = address.to_raw();
        // SAFETY: Both are valid during the call, which fills the latter in.
        to_result(unsafe { bindings::rdma_translate_ip((&raw const raw).cast(), self.dev_addr()) })
    }

    /// Takes the link-layer address of a net device.
    pub fn copy_source_of(&self, ndev: &NetDevice) {
        // SAFETY: Both are valid during the call.
        unsafe { bindings::rdma_copy_src_l2_addr(self.dev_addr(), ndev.as_raw().cast()) };
    }

    /// The source GID that the link-layer address has, and the destination's.
    pub fn gids(&self) -> (Gid, Gid) {
        let (mut source, mut destination) = (pin_init::zeroed(), pin_init::zeroed());
        // SAFETY: All are valid during the calls.
        unsafe {
            bindings::rdma_addr_get_sgid(self.dev_addr(), &mut source);
            bindings::rdma_addr_get_dgid(self.dev_addr(), &mut destination);
        }
        (Gid::from_raw(&source), Gid::from_raw(&destination))
    }

    /// Sets the source GID of the link-layer address.
    pub fn set_source_gid(&self, gid: Gid) {
        // SAFETY: Both are valid during the call.
        unsafe { bindings::rdma_addr_set_sgid(self.dev_addr(), &mut gid.to_raw()) };
    }

    /// Sets the destination GID of the link-layer address.
    pub fn set_destination_gid(&self, gid: Gid) {
        // SAFETY: Both are valid during the call.
        unsafe { bindings::rdma_addr_set_dgid(self.dev_addr(), &mut gid.to_raw()) };
    }

    /// The partition key of the link-layer address.
    pub fn pkey(&self) -> u16 {
        // SAFETY: The structure is valid.
        unsafe { bindings::ib_addr_get_pkey(self.dev_addr()) }
    }

    /// Sets the partition key of the link-layer address.
    pub fn set_pkey(&self, pkey: u16) {
        // SAFETY: The structure is valid.
        unsafe { bindings::ib_addr_set_pkey(self.dev_addr(), pkey) };
    }

    /// The link-layer addresses of the net device and of the next hop.
    pub fn hardware(&self) -> (HardwareAddress, HardwareAddress) {
        let raw = self.dev_addr();
        // SAFETY: The structure is valid, and any bytes are an address.
        unsafe {
            (
                (&raw const (*raw).src_dev_addr).read_volatile(),
                (&raw const (*raw).dst_dev_addr).read_volatile(),
            )
        }
    }

    /// The link-layer broadcast address of the net device.
    pub fn broadcast(&self) -> HardwareAddress {
        // SAFETY: The structure is valid, and any bytes are an address.
        unsafe { (&raw const (*self.dev_addr()).broadcast).read_volatile() }
    }

    /// Sets the device. Clients use it as long as it is set. The former one is the result.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the identifier is in the list of another device.
    pub fn set_device(&self, device: Registered, sleep: &MaySleep) -> Result<Option<Registered>> {
        sleep.check();
        let tracking = self.tracking.lock();
        let old = self.shown_device();
        let is_same = old.is_some_and(|old| core::ptr::eq(old.as_raw(), device.as_raw()));
        if *tracking == Tracking::Listed && !is_same {
            return Err(EBUSY);
        }
        // SAFETY: It is locked, and the identifier is in the list of this device, or in none.
        Ok(unsafe { self.replace_device(Some(device)) })
    }

    /// Takes the device, and before that the identifier out of its list, if it is there: then it is listed no more.
    pub fn take_device(&self, sleep: &MaySleep) -> Option<Registered> {
        sleep.check();
        let mut tracking = self.tracking.lock();
        // SAFETY: It is locked, and then the identifier is in no list.
        unsafe {
            if *tracking == Tracking::Listed {
                self.forget(&mut tracking);
            }
            self.replace_device(None)
        }
    }

    /// Shows a device, or none. The former one is the result.
    ///
    /// # Safety
    ///
    /// `tracking` is locked, and the identifier is not in the list of another device.
    unsafe fn replace_device(&self, device: Option<Registered>) -> Option<Registered> {
        let mut owned = self.owned.lock();
        let raw = device.as_ref().map_or(null_mut(), |device| device.as_raw());
        // SAFETY: The members are valid. The device is registered as long as `owned` has it.
        unsafe {
            (member!(self, id.device)).write_volatile(raw);
            if let Some(device) = &device {
                (*self.dev_addr()).transport =
                    bindings::rdma_node_get_transport(device.node_type());
            }
        }
        core::mem::replace(&mut owned.device, device)
    }

    /// The device that clients see.
    pub fn shown_device(&self) -> Option<Registered> {
        self.owned.lock().device.as_ref().map(Registered::again)
    }

    /// Sets the source GID, or none. The former one is the result.
    pub fn set_sgid(&self, sgid: Option<ARef<GidAttr>>) -> Option<ARef<GidAttr>> {
        let mut owned = self.owned.lock();
        let raw = sgid.as_ref().map_or(null_mut(), |sgid| sgid.as_raw());
        // SAFETY: The member is valid. The entry is referenced as long as `owned` has it.
        unsafe { (&raw mut (*self.dev_addr()).sgid_attr).write_volatile(raw) };
        core::mem::replace(&mut owned.sgid, sgid)
    }

    /// The source GID.
    pub fn sgid(&self) -> Option<ARef<GidAttr>> {
        self.owned.lock().sgid.clone()
    }

    /// Sets the paths, or none. The former ones are the result.
    pub fn set_records(&self, mut records: Option<KBox<Records>>) -> Option<KBox<Records>> {
        let mut owned = self.owned.lock();
        let (mut paths, mut inbound, mut outbound, mut count) =
            (null_mut(), null_mut(), null_mut(), 0);
        if let Some(records) = &mut records {
            let first = |path: &mut Option<KBox<Path>>| {
                path.as_mut().map_or(null_mut(), |path| path.as_raw())
            };
            count = records.paths.len().min(2) as c_int;
            paths = records
                .paths
                .first_mut()
                .map_or(null_mut(), |path| path.as_raw());
            inbound = first(&mut records.inbound);
            outbound = first(&mut records.outbound);
        }
        // SAFETY: The members are valid. What they point to stays as long as `owned` has it; a path is transparent.
        unsafe {
            let route = member!(self, id.route);
            (&raw mut (*route).path_rec).write_volatile(paths);
            (&raw mut (*route).path_rec_inbound).write_volatile(inbound);
            (&raw mut (*route).path_rec_outbound).write_volatile(outbound);
            (&raw mut (*route).num_pri_alt_paths).write_volatile(count);
        }
        core::mem::replace(&mut owned.records, records)
    }

    /// Calls `f` with the paths. `f` must not sleep.
    pub fn with_records<R>(&self, f: impl FnOnce(Option<&Records>) -> R) -> R {
        f(self.owned.lock().records.as_deref())
    }

    /// Sets the records of services, unless there are some.
    ///
    /// # Errors
    ///
    /// `EALREADY`.
    pub fn set_services(&self, mut services: Services) -> Result {
        let mut owned = self.owned.lock();
        if owned.services.is_some() {
            drop(owned);
            return Err(kernel_ext::error::EALREADY);
        }
        // SAFETY: The members are valid. The records stay as long as `owned` has them.
        unsafe {
            let route = member!(self, id.route);
            let count = u32::try_from(services.0.len()).unwrap_or(u32::MAX);
            (&raw mut (*route).service_recs).write_volatile(services.0.as_mut_ptr());
            (&raw mut (*route).num_service_recs).write_volatile(count);
        }
        owned.services = Some(services);
        Ok(())
    }

    /// Lists the identifier among those of its device. Without a device, nothing is done.
    pub fn track(&self, sleep: &MaySleep) {
        sleep.check();
        let mut tracking = self.tracking.lock();
        if *tracking != Tracking::Unlisted || self.shown_device().is_none() {
            return;
        }
        // SAFETY: By the type invariants nobody else uses the entry, which is initialised and not listed, and the device, which is
        // registered, does not change.
        let is_listed = unsafe {
            bindings::rdma_restrack_add(member!(self, res));
            (*self.as_raw()).res.valid
        };
        if is_listed {
            // INVARIANT: As long as this is so, the device stays.
            *tracking = Tracking::Listed;
        }
    }

    /// Takes the identifier out of the list, once. Its owner is forgotten.
    pub fn untrack(&self, sleep: &MaySleep) {
        sleep.check();
        // SAFETY: It is locked.
        unsafe { self.forget(&mut self.tracking.lock()) };
    }

    /// Takes the identifier out of the list, unless it was. Its owner is forgotten.
    ///
    /// # Safety
    ///
    /// `tracking` is that of `self`, and locked.
    unsafe fn forget(&self, tracking: &mut Tracking) {
        if *tracking != Tracking::Over {
            // SAFETY: By the safety requirements nobody else uses the entry, but its readers, who are waited for. It is initialised, and
            // not deleted yet; by the type invariants the device of a listed one is that of the list.
            unsafe { bindings::rdma_restrack_del(member!(self, res)) };
            *tracking = Tracking::Over;
        }
    }
}

/// The source GID of an identifier, for a call.
pub fn sgid_of(attr: &GidAttr) -> Option<Sgid<'_>> {
    // SAFETY: The entry is referenced as long as the borrow.
    unsafe { Sgid::from_raw(attr.as_raw()) }
}

#[pinned_drop]
impl PinnedDrop for IdBody {
    fn drop(self: Pin<&mut Self>) {
        // Nobody else has it any more.
        if let Some(mut tracking) = self.tracking.try_lock() {
            // SAFETY: It is locked.
            unsafe { self.forget(&mut tracking) };
        }
    }
}

/// Whether a namespace may use a device.
pub fn may_use(device: &Device, net: &NetRef) -> bool {
    // SAFETY: Both are valid during the call.
    unsafe { bindings::rdma_dev_access_netns(device.as_raw(), net.as_raw().cast()) }
}
