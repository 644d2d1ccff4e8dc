// SPDX-License-Identifier: GPL-2.0

//! Questions to the subnet administrator: paths and records of services.
//!
//! C header: `include/rdma/ib_sa.h`.

use core::{ptr::null_mut, ptr::NonNull};

use kernel::{
    error::to_result,
    ffi::{c_int, c_uint, c_ulong, c_void},
    prelude::*,
    sync::Arc,
    types::Opaque,
};
use rdma_bindings::{self as bindings, ib_sa_client, ib_sa_query, sa_path_rec, sa_service_rec};

use super::id::Services;
use crate::{
    core::{path::Path, Device},
    Gid, MaySleep,
};

/// A component of a record: `IB_SA_COMP_MASK()`.
pub(super) const fn component(number: u32) -> u64 {
    (1u64 << number).to_be()
}

const IB_SA_PATH_REC_DGID: u64 = component(2);
const IB_SA_PATH_REC_NUMB_PATH: u64 = component(12);
const IB_SA_PATH_REC_PKEY: u64 = component(13);
const IB_SA_PATH_REC_QOS_CLASS: u64 = component(14);
const IB_SA_PATH_REC_REVERSIBLE: u64 = component(11);
const IB_SA_PATH_REC_SERVICE_ID: u64 = component(0) | component(1);
const IB_SA_PATH_REC_SGID: u64 = component(3);
const IB_SA_PATH_REC_TRAFFIC_CLASS: u64 = component(10);
const IB_SA_SERVICE_REC_SERVICE_ID: u64 = component(0);
const IB_SA_SERVICE_REC_SERVICE_NAME: u64 = component(6);

/// A client of the subnet administrator. Dropping it waits until all its questions are answered.
///
/// # Invariants
///
/// The client is registered.
#[pin_data(PinnedDrop)]
pub struct SaClient {
    #[pin]
    raw: Opaque<ib_sa_client>,
}

// SAFETY: Clients may be used from any thread.
unsafe impl Send for SaClient {}
// SAFETY: Clients may be used from any thread.
unsafe impl Sync for SaClient {}

impl SaClient {
    /// Registers a client.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn register(_sleep: &MaySleep) -> Result<Arc<Self>> {
        let begin = |slot: *mut ib_sa_client| {
            // SAFETY: The slot is valid for writes, and pinned until the client is unregistered.
            unsafe {
                slot.write_bytes(0, 1);
                bindings::ib_sa_register_client(slot);
            }
        };
        // INVARIANT: The client was just registered.
        Arc::pin_init(
            pin_init!(Self { raw <- Opaque::ffi_init(begin) }),
            GFP_KERNEL,
        )
    }

    pub(super) fn as_raw(&self) -> *mut ib_sa_client {
        self.raw.get()
    }
}

#[pinned_drop]
impl PinnedDrop for SaClient {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariants. The owner drops it in process context.
        unsafe { bindings::ib_sa_unregister_client(self.raw.get()) };
    }
}

/// A question that is under way.
#[derive(Clone, Copy)]
pub struct Query {
    number: c_int,
    raw: *mut ib_sa_query,
}

// SAFETY: The core compares the pointer, and does not use it unless the question is under way.
unsafe impl Send for Query {}
// SAFETY: As above.
unsafe impl Sync for Query {}

impl Query {
    /// Cancels the question: it is answered with `EINTR`, unless it is answered already. Any context.
    pub fn cancel(self) {
        // SAFETY: The function looks for the question by its number, and compares the pointer under its lock.
        unsafe { bindings::ib_sa_cancel_query(self.number, self.raw) };
    }
}

/// Who is told the paths. Process context.
pub trait PathAsker: Send + Sync + 'static {
    /// The answer: paths, with their flags (`IB_PATH_*`).
    fn answered(this: Arc<Self>, result: Result, paths: &[Path]);
}

/// Who is told the records of services. Process context.
pub trait ServiceAsker: Send + Sync + 'static {
    /// The answer.
    fn answered(this: Arc<Self>, result: Result, answer: Option<ServiceAnswer>);
}

/// What is asked for a path.
pub struct PathQuestion {
    /// Whether the port is one of Omni-Path.
    pub is_opa: bool,
    /// The source GID.
    pub sgid: Gid,
    /// The destination GID.
    pub dgid: Gid,
    /// The partition key.
    pub pkey: u16,
    /// The service, in network byte order.
    pub service_id: u64,
    /// The class of service, for IPv4.
    pub qos_class: Option<u16>,
    /// The traffic class, for other addresses.
    pub traffic_class: Option<u8>,
}

/// The first record of a service, and all of them.
pub struct ServiceAnswer {
    /// The GID.
    pub gid: Gid,
    /// The partition key.
    pub pkey: u16,
    /// The service ID, in network byte order.
    pub service_id: u64,
    /// All records.
    pub records: Services,
}

/// Asks for the path between two GIDs.
///
/// # Errors
///
/// Those of the core: `ENODEV`, `EAGAIN` while the port has no address, `ENOMEM`.
pub fn ask_path<A: PathAsker>(
    client: &SaClient,
    (device, port): (&Device, u32),
    question: &PathQuestion,
    timeout_ms: usize,
    asker: &Arc<A>,
    _sleep: &MaySleep,
) -> Result<Query> {
    let mut raw: sa_path_rec = pin_init::zeroed();
    raw.rec_type = match question.is_opa {
        true => bindings::SA_PATH_REC_TYPE_OPA,
        false => bindings::SA_PATH_REC_TYPE_IB,
    };
    raw.sgid = question.sgid.to_raw();
    raw.dgid = question.dgid.to_raw();
    raw.pkey = question.pkey.to_be();
    raw.numb_path = 1;
    raw.reversible = 1;
    raw.service_id = question.service_id;
    let mut mask = IB_SA_PATH_REC_DGID
        | IB_SA_PATH_REC_SGID
        | IB_SA_PATH_REC_PKEY
        | IB_SA_PATH_REC_NUMB_PATH
        | IB_SA_PATH_REC_REVERSIBLE
        | IB_SA_PATH_REC_SERVICE_ID;
    if let Some(class) = question.qos_class {
        raw.qos_class = class.to_be();
        mask |= IB_SA_PATH_REC_QOS_CLASS;
    }
    if let Some(class) = question.traffic_class {
        raw.traffic_class = class;
        mask |= IB_SA_PATH_REC_TRAFFIC_CLASS;
    }
    device.check_port(port)?;
    let context = Arc::into_raw(asker.clone());
    let mut query = null_mut();
    // SAFETY: The client is registered, the device valid, and the port one of it. The context stays until the callback takes it over.
    let number = unsafe {
        bindings::ib_sa_path_rec_get(
            client.as_raw(),
            device.as_raw(),
            port,
            &mut raw,
            mask,
            timeout_ms as c_ulong,
            kernel::bindings::GFP_KERNEL,
            Some(on_paths::<A>),
            context.cast_mut().cast(),
            &mut query,
        )
    };
    begun(number, query, context)
}

/// What the core has made of a question.
fn begun<A>(number: c_int, raw: *mut ib_sa_query, context: *const A) -> Result<Query> {
    if number < 0 {
        // SAFETY: The context is from `Arc::into_raw`, and the core does not call back.
        drop(unsafe { Arc::from_raw(context) });
        return Err(to_result(number).err().unwrap_or(EINVAL));
    }
    Ok(Query { number, raw })
}

/// # Safety
///
/// The core calls it once with the context of the question, and so many paths unless it has failed.
unsafe extern "C" fn on_paths<A: PathAsker>(
    status: c_int,
    paths: *mut sa_path_rec,
    count: c_uint,
    context: *mut c_void,
) {
    // SAFETY: By the safety requirements the reference is that of the question.
    let asker: Arc<A> = unsafe { Arc::from_raw(context.cast()) };
    let paths = match NonNull::new(paths).filter(|_| status == 0) {
        // SAFETY: By the safety requirements; a path is a transparent wrapper.
        Some(paths) => unsafe {
            core::slice::from_raw_parts(paths.cast::<Path>().as_ptr(), count as usize)
        },
        None => &[],
    };
    A::answered(asker, to_result(status), paths);
}

/// Asks for the records of a service with a name, or an ID.
///
/// # Errors
///
/// As for [`ask_path`].
pub fn ask_service<A: ServiceAsker>(
    client: &SaClient,
    (device, port): (&Device, u32),
    (service_id, name): (Option<u64>, Option<&[u8]>),
    timeout_ms: usize,
    asker: &Arc<A>,
    _sleep: &MaySleep,
) -> Result<Query> {
    let mut raw: sa_service_rec = pin_init::zeroed();
    let mut mask = 0;
    if let Some(id) = service_id {
        raw.id = id.to_be();
        mask |= IB_SA_SERVICE_REC_SERVICE_ID;
    }
    if let Some(name) = name {
        let last = raw.name.len().saturating_sub(1);
        for (to, from) in raw.name.iter_mut().take(last).zip(name) {
            if *from == 0 {
                break;
            }
            *to = *from;
        }
        mask |= IB_SA_SERVICE_REC_SERVICE_NAME;
    }
    device.check_port(port)?;
    let context = Arc::into_raw(asker.clone());
    let mut query = null_mut();
    // SAFETY: The client is registered, the device valid, and the port one of it. The context stays until the callback takes it over.
    let number = unsafe {
        bindings::ib_sa_service_rec_get(
            client.as_raw(),
            device.as_raw(),
            port,
            &mut raw,
            mask,
            timeout_ms as c_ulong,
            kernel::bindings::GFP_KERNEL,
            Some(on_services::<A>),
            context.cast_mut().cast(),
            &mut query,
        )
    };
    begun(number, query, context)
}

/// # Safety
///
/// The core calls it once with the context of the question, and so many records unless it has failed.
unsafe extern "C" fn on_services<A: ServiceAsker>(
    status: c_int,
    records: *mut sa_service_rec,
    count: c_uint,
    context: *mut c_void,
) {
    // SAFETY: By the safety requirements the reference is that of the question.
    let asker: Arc<A> = unsafe { Arc::from_raw(context.cast()) };
    let answer = || -> Result<Option<ServiceAnswer>> {
        to_result(status)?;
        let mut all = KVec::new();
        for index in 0..count as usize {
            // SAFETY: By the safety requirements there are so many.
            all.push(unsafe { records.wrapping_add(index).read() }, GFP_KERNEL)?;
        }
        let Some(first) = all.first() else {
            return Ok(None);
        };
        Ok(Some(ServiceAnswer {
            gid: Gid(first.gid),
            pkey: u16::from_be(first.pkey),
            service_id: first.id,
            records: Services(all),
        }))
    };
    match answer() {
        Ok(answer) => A::answered(asker, Ok(()), answer),
        Err(error) => A::answered(asker, Err(error), None),
    }
}
