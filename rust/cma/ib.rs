// SPDX-License-Identifier: GPL-2.0

//! Identifiers of `ib_cm`, by its exported functions, so that any `ib_cm` will do.
//!
//! C header: `include/rdma/ib_cm.h`.

use core::{marker::PhantomData, mem::ManuallyDrop, ptr::NonNull};

use kernel::{
    error::{from_err_ptr, to_result},
    ffi::c_int,
    prelude::*,
    sync::{aref::ARef, rcu, Arc},
};
use kernel_ext::net::device::NetDevice;
use rdma::bindings::{
    self, ib_cm_event, ib_cm_id, ib_cm_rep_param, ib_cm_req_param, ib_cm_sidr_rep_param,
    ib_cm_sidr_req_param, ib_qp_attr,
};

use rdma::{
    core::{
        address_vector::{AddressVector, Sgid},
        cm::event::{length, Ece},
        cma::{event::Connection, id::Records},
        connection::PrivateData,
        path::Path,
        Device,
    },
    GidAttr, MaySleep,
};

/// An event of `ib_cm`.
///
/// # Invariants
///
/// The event is filled in as its type says, with all private data that the message has room for.
pub struct Event<'a>(&'a ib_cm_event);

/// An answer to the question for a queue pair.
pub struct Resolved<'a> {
    /// `enum ib_cm_sidr_status`.
    pub status: u32,
    /// The Q_Key.
    pub qkey: u32,
    /// The number of the queue pair.
    pub qpn: u32,
    sgid: Option<Sgid<'a>>,
}

/// A request of a peer.
pub struct Request<'a> {
    /// The port.
    pub port: u32,
    /// The partition key that is asked for.
    pub pkey: u16,
    /// The partition key of the datagram.
    pub bth_pkey: u16,
    /// The service, in network byte order.
    pub service_id: u64,
    /// The paths, for a connection.
    pub paths: Option<(&'a Path, Option<&'a Path>)>,
    /// `enum ib_qp_type`, for a connection.
    pub qp_type: Option<u32>,
    sgid: Option<&'a GidAttr>,
    device: *mut bindings::ib_device,
}

fn ece(raw: &bindings::rdma_ucm_ece) -> Ece {
    Ece {
        vendor_id: raw.vendor_id,
        attr_mod: raw.attr_mod,
    }
}

impl<'a> Event<'a> {
    /// `enum ib_cm_event_type`.
    pub fn kind(&self) -> u32 {
        self.0.event
    }

    /// The private data, in the length that the message has room for.
    pub fn private_data(&self) -> &'a [u8] {
        let length = match self.kind() {
            bindings::IB_CM_REQ_RECEIVED => length::REQ,
            bindings::IB_CM_REP_RECEIVED => length::REP,
            bindings::IB_CM_REJ_RECEIVED => length::REJ,
            bindings::IB_CM_SIDR_REQ_RECEIVED => length::SIDR_REQ,
            bindings::IB_CM_SIDR_REP_RECEIVED => length::SIDR_REP,
            _ => 0,
        };
        if length == 0 || self.0.private_data.is_null() {
            return &[];
        }
        // SAFETY: By the type invariants.
        unsafe { core::slice::from_raw_parts(self.0.private_data.cast(), length) }
    }

    /// The reason of a refusal.
    pub fn refusal(&self) -> Option<u32> {
        if self.kind() != bindings::IB_CM_REJ_RECEIVED {
            return None;
        }
        // SAFETY: By the type invariants the type says which parameters there are.
        Some(unsafe { self.0.param.rej_rcvd.reason })
    }

    /// What a peer says that agrees.
    pub fn reply(&self) -> Option<Connection<'a>> {
        if self.kind() != bindings::IB_CM_REP_RECEIVED {
            return None;
        }
        // SAFETY: By the type invariants the type says which parameters there are.
        let raw = unsafe { &self.0.param.rep_rcvd };
        Some(Connection {
            private_data: self.private_data(),
            responder_resources: raw.responder_resources,
            initiator_depth: raw.initiator_depth,
            flow_control: raw.flow_control() as u8,
            retry_count: 0,
            rnr_retry_count: raw.rnr_retry_count() as u8,
            srq: raw.srq() as u8,
            qp_num: raw.remote_qpn,
            ece: Some(ece(&raw.ece)),
        })
    }

    /// What a peer says that asks for a connection; the private data begins after so many bytes.
    pub fn asked(&self, offset: usize) -> Option<Connection<'a>> {
        if self.kind() != bindings::IB_CM_REQ_RECEIVED {
            return None;
        }
        // SAFETY: By the type invariants the type says which parameters there are.
        let raw = unsafe { &self.0.param.req_rcvd };
        let (mut rnr_retry_count, mut srq) = (0, false);
        // SAFETY: All are valid during the call.
        unsafe { bindings::cm_get_req_retries(raw, &mut rnr_retry_count, &mut srq) };
        Some(Connection {
            private_data: self.private_data().get(offset..).unwrap_or(&[]),
            responder_resources: raw.responder_resources,
            initiator_depth: raw.initiator_depth,
            flow_control: raw.flow_control() as u8,
            retry_count: raw.retry_count() as u8,
            rnr_retry_count,
            srq: srq.into(),
            qp_num: raw.remote_qpn,
            ece: Some(ece(&raw.ece)),
        })
    }

    /// What a peer answers which queue pair a service has.
    pub fn resolved(&self) -> Option<Resolved<'a>> {
        if self.kind() != bindings::IB_CM_SIDR_REP_RECEIVED {
            return None;
        }
        // SAFETY: By the type invariants the type says which parameters there are, and the GID is null or referenced.
        unsafe {
            let raw = &self.0.param.sidr_rep_rcvd;
            Some(Resolved {
                status: raw.status,
                qkey: raw.qkey,
                qpn: raw.qpn,
                sgid: Sgid::from_raw(raw.sgid_attr),
            })
        }
    }

    /// What a peer asks a listener for. `None` for other events.
    pub fn request(&self) -> Option<Request<'a>> {
        // SAFETY: By the type invariants the type says which parameters there are; pointers are null or valid, the paths and the listener
        // are there.
        unsafe {
            match self.kind() {
                bindings::IB_CM_REQ_RECEIVED => {
                    let raw = &self.0.param.req_rcvd;
                    let primary: &Path = raw.primary_path.cast::<Path>().as_ref()?;
                    let alternate = raw.alternate_path.cast::<Path>().as_ref();
                    Some(Request {
                        port: raw.port.into(),
                        pkey: u16::from_be(primary.raw().pkey),
                        bth_pkey: raw.bth_pkey,
                        service_id: primary.raw().service_id,
                        paths: Some((primary, alternate)),
                        qp_type: Some(raw.qp_type),
                        sgid: raw.ppath_sgid_attr.cast::<GidAttr>().as_ref(),
                        device: (*raw.listen_id).device,
                    })
                }
                bindings::IB_CM_SIDR_REQ_RECEIVED => {
                    let raw = &self.0.param.sidr_req_rcvd;
                    Some(Request {
                        port: raw.port.into(),
                        pkey: raw.pkey,
                        bth_pkey: raw.bth_pkey,
                        service_id: raw.service_id,
                        paths: None,
                        qp_type: None,
                        sgid: raw.sgid_attr.cast::<GidAttr>().as_ref(),
                        device: (*raw.listen_id).device,
                    })
                }
                _ => None,
            }
        }
    }
}

impl Resolved<'_> {
    /// The address of datagrams by a path.
    ///
    /// # Errors
    ///
    /// Those of resolving.
    pub fn vector(
        &self,
        device: &Device,
        port: u32,
        path: &mut Path,
        sleep: &MaySleep,
    ) -> Result<AddressVector> {
        AddressVector::of_path(device, port, path, self.sgid, sleep)
    }
}

impl Request<'_> {
    /// The net device of the local GID.
    pub fn net_device(&self) -> Option<ARef<NetDevice>> {
        let guard = rcu::read_lock();
        self.sgid?.ndev(&guard).ok().map(ARef::from)
    }

    /// Whether it has come to a device.
    pub fn is_for(&self, device: &Device) -> bool {
        self.device == device.as_raw()
    }

    /// The device that it has come to.
    pub fn device(&self) -> &Device {
        // SAFETY: The listener's device is registered as long as the event is told.
        unsafe { Device::from_raw(self.device) }
    }
}

/// Who is told the events of an identifier.
pub trait Receiver: Send + Sync + Sized + 'static {
    /// An event, in process context. What is returned is given up: `ib_cm` destroys it.
    fn event(this: &Arc<Self>, event: &Event<'_>, sleep: &MaySleep) -> Option<(IbCm<Self>, c_int)>;

    /// A request of a peer to a listener, in process context.
    ///
    /// # Errors
    ///
    /// What is returned to `ib_cm`, and the identifier of the peer if it was adopted: `ib_cm` destroys that.
    fn request(
        event: &Event<'_>,
        offered: Offered<'_, Self>,
        sleep: &MaySleep,
    ) -> Result<(), (c_int, Option<IbCm<Self>>)>;
}

/// The identifier of a peer, which nobody has yet.
pub struct Offered<'a, T>(
    NonNull<ib_cm_id>,
    PhantomData<&'a ()>,
    PhantomData<fn() -> T>,
);

/// An identifier. Dropping it destroys the identifier, and waits for its handler.
///
/// # Invariants
///
/// `raw` is valid, and its context is a reference to a `T`.
pub struct IbCm<T: Receiver> {
    raw: NonNull<ib_cm_id>,
    context: *const T,
}

// SAFETY: Identifiers may be used from any thread.
unsafe impl<T: Receiver> Send for IbCm<T> {}
// SAFETY: Identifiers may be used from any thread.
unsafe impl<T: Receiver> Sync for IbCm<T> {}

/// # Safety
///
/// `ib_cm` calls it with an identifier of an [`IbCm`], in process context.
unsafe extern "C" fn on_event<T: Receiver>(
    cm_id: *mut ib_cm_id,
    event: *const ib_cm_event,
) -> c_int {
    // SAFETY: By the safety requirements; the identifier keeps the reference while its handler runs.
    let (this, event, sleep) = unsafe {
        let this = ManuallyDrop::new(Arc::from_raw((*cm_id).context.cast::<T>()));
        (Arc::clone(&this), Event(&*event), MaySleep::assume())
    };
    match T::event(&this, &event, &sleep) {
        Some((given_up, code)) => given_up.disown(cm_id, code),
        None => 0,
    }
}

/// # Safety
///
/// `ib_cm` calls it for a request to a listener of [`IbListener::new`], in process context.
unsafe extern "C" fn on_request<T: Receiver>(
    cm_id: *mut ib_cm_id,
    event: *const ib_cm_event,
) -> c_int {
    // SAFETY: By the safety requirements.
    let (raw, event, sleep) = unsafe {
        (
            NonNull::new_unchecked(cm_id),
            Event(&*event),
            MaySleep::assume(),
        )
    };
    match T::request(&event, Offered(raw, PhantomData, PhantomData), &sleep) {
        Ok(()) => 0,
        Err((code, Some(given_up))) => given_up.disown(cm_id, code),
        Err((code, None)) => code,
    }
}

impl<T: Receiver> Offered<'_, T> {
    /// Adopts the identifier: its events are told to `this`.
    pub fn adopt(self, this: &Arc<T>) -> IbCm<T> {
        let context = Arc::into_raw(this.clone());
        // SAFETY: The identifier is valid, and by the header who is told a request sets these members.
        unsafe {
            (*self.0.as_ptr()).context = context.cast_mut().cast();
            (*self.0.as_ptr()).cm_handler = Some(on_event::<T>);
        }
        // INVARIANT: As above.
        IbCm {
            raw: self.0,
            context,
        }
    }
}

/// The parameters of a request that are not in the identifier.
pub struct ReqParam<'a> {
    /// The paths.
    pub records: &'a Records,
    /// The source GID.
    pub sgid: Option<&'a GidAttr>,
    /// The service, in network byte order.
    pub service_id: u64,
    /// The private data.
    pub private_data: &'a [u8],
    /// `enum ib_qp_type`.
    pub qp_type: u32,
    /// The first PSN.
    pub starting_psn: u32,
    /// How long the peer may take: 4.096 µs × 2^n.
    pub response_timeout: u8,
    /// How often messages are repeated.
    pub max_retries: u8,
    /// Whatever the client says.
    pub connection: Connection<'a>,
}

/// The parameters of a question for the queue pair of a service.
pub struct SidrReqParam<'a> {
    /// The path.
    pub path: &'a Path,
    /// The source GID.
    pub sgid: Option<&'a GidAttr>,
    /// The service, in network byte order.
    pub service_id: u64,
    /// The private data.
    pub private_data: &'a [u8],
    /// How long an answer is waited for, in milliseconds.
    pub timeout_ms: u32,
    /// How often the message is repeated.
    pub max_retries: u8,
}

fn data(bytes: &[u8]) -> (*const kernel::ffi::c_void, u8) {
    match bytes.is_empty() {
        true => (core::ptr::null(), 0),
        false => (
            bytes.as_ptr().cast(),
            u8::try_from(bytes.len()).unwrap_or(u8::MAX),
        ),
    }
}

fn path(path: Option<&Path>) -> *mut bindings::sa_path_rec {
    path.map_or(core::ptr::null_mut(), |path| {
        core::ptr::from_ref(path.raw()).cast_mut()
    })
}

fn gid(sgid: Option<&GidAttr>) -> *const bindings::ib_gid_attr {
    sgid.map_or(core::ptr::null(), |sgid| sgid.as_raw())
}

impl<T: Receiver> IbCm<T> {
    /// An identifier whose events are told to `this`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(device: &Device, this: &Arc<T>, _sleep: &MaySleep) -> Result<Self> {
        let context = Arc::into_raw(this.clone());
        // SAFETY: The device is valid; the context stays until the identifier is destroyed.
        let made = unsafe {
            from_err_ptr(bindings::ib_create_cm_id(
                device.as_raw(),
                Some(on_event::<T>),
                context.cast_mut().cast(),
            ))
        };
        match made.and_then(|raw| NonNull::new(raw).ok_or(ENOMEM)) {
            // INVARIANT: As above.
            Ok(raw) => Ok(Self { raw, context }),
            Err(error) => {
                // SAFETY: Nobody has taken the context.
                drop(unsafe { Arc::from_raw(context) });
                Err(error)
            }
        }
    }

    /// Gives the identifier up to `ib_cm`, in its handler, which returns the result. Any other one is destroyed, and 0 is the result.
    fn disown(self, cm_id: *mut ib_cm_id, code: c_int) -> c_int {
        if self.raw.as_ptr() != cm_id {
            return 0;
        }
        let this = ManuallyDrop::new(self);
        // SAFETY: By the type invariants the reference is the context's. `ib_cm` does not call the handler any more.
        drop(unsafe { Arc::from_raw(this.context) });
        code
    }

    pub(crate) fn as_raw(&self) -> NonNull<ib_cm_id> {
        self.raw
    }

    /// Asks for a connection.
    ///
    /// # Errors
    ///
    /// Those of `ib_cm`.
    pub fn send_req(&self, asked: &ReqParam<'_>, _sleep: &MaySleep) -> Result {
        let mut raw: ib_cm_req_param = pin_init::zeroed();
        let connection = &asked.connection;
        let (private_data, private_data_len) = data(asked.private_data);
        raw.primary_path = path(asked.records.paths.first());
        raw.alternate_path = path(asked.records.paths.get(1));
        raw.primary_path_inbound = path(asked.records.inbound.as_deref());
        raw.primary_path_outbound = path(asked.records.outbound.as_deref());
        raw.ppath_sgid_attr = gid(asked.sgid);
        raw.service_id = asked.service_id;
        raw.qp_num = connection.qp_num;
        raw.qp_type = asked.qp_type;
        raw.starting_psn = asked.starting_psn;
        raw.private_data = private_data;
        raw.private_data_len = private_data_len;
        raw.responder_resources = connection.responder_resources;
        raw.initiator_depth = connection.initiator_depth;
        raw.remote_cm_response_timeout = asked.response_timeout;
        raw.local_cm_response_timeout = asked.response_timeout;
        raw.flow_control = connection.flow_control;
        raw.retry_count = connection.retry_count;
        raw.rnr_retry_count = connection.rnr_retry_count;
        raw.max_cm_retries = asked.max_retries;
        raw.srq = connection.srq;
        if let Some(ece) = connection.ece {
            raw.ece.vendor_id = ece.vendor_id;
            raw.ece.attr_mod = ece.attr_mod;
        }
        // SAFETY: The identifier and all parameters are valid during the call.
        to_result(unsafe { bindings::ib_send_cm_req(self.raw.as_ptr(), &mut raw) })
    }

    /// Accepts a peer.
    ///
    /// # Errors
    ///
    /// Those of `ib_cm`.
    pub fn send_rep(
        &self,
        connection: &Connection<'_>,
        private_data: &PrivateData<'_>,
        starting_psn: u32,
        _sleep: &MaySleep,
    ) -> Result {
        let mut raw: ib_cm_rep_param = pin_init::zeroed();
        (raw.private_data, raw.private_data_len) = private_data.parts();
        raw.qp_num = connection.qp_num;
        raw.starting_psn = starting_psn;
        raw.responder_resources = connection.responder_resources;
        raw.initiator_depth = connection.initiator_depth;
        raw.flow_control = connection.flow_control;
        raw.rnr_retry_count = connection.rnr_retry_count;
        raw.srq = connection.srq;
        if let Some(ece) = connection.ece {
            raw.ece.vendor_id = ece.vendor_id;
            raw.ece.attr_mod = ece.attr_mod;
        }
        // SAFETY: The identifier and all parameters are valid during the call.
        to_result(unsafe { bindings::ib_send_cm_rep(self.raw.as_ptr(), &mut raw) })
    }

    /// Says that the connection is there.
    pub fn send_rtu(&self, _sleep: &MaySleep) -> Result {
        // SAFETY: The identifier is valid.
        to_result(unsafe { bindings::ib_send_cm_rtu(self.raw.as_ptr(), core::ptr::null(), 0) })
    }

    /// Disconnects.
    pub fn send_dreq(&self, _sleep: &MaySleep) -> Result {
        // SAFETY: The identifier is valid.
        to_result(unsafe { bindings::ib_send_cm_dreq(self.raw.as_ptr(), core::ptr::null(), 0) })
    }

    /// Agrees to disconnect.
    pub fn send_drep(&self, _sleep: &MaySleep) -> Result {
        // SAFETY: The identifier is valid.
        to_result(unsafe { bindings::ib_send_cm_drep(self.raw.as_ptr(), core::ptr::null(), 0) })
    }

    /// Refuses a peer.
    pub fn send_rej(&self, reason: u32, data: &PrivateData<'_>, _sleep: &MaySleep) -> Result {
        let (bytes, length) = data.parts();
        let none = core::ptr::null_mut();
        // SAFETY: The identifier and the private data are valid.
        to_result(unsafe {
            bindings::ib_send_cm_rej(self.raw.as_ptr(), reason, none, 0, bytes, length)
        })
    }

    /// Answers duplicates of the peer's message with an MRA from now on.
    pub fn prepare_mra(&self, _sleep: &MaySleep) {
        // SAFETY: The identifier is valid. If it cannot be, the peer repeats its message.
        unsafe { bindings::ib_prepare_cm_mra(self.raw.as_ptr()) };
    }

    /// Asks for the queue pair of a service.
    ///
    /// # Errors
    ///
    /// Those of `ib_cm`.
    pub fn send_sidr_req(&self, asked: &SidrReqParam<'_>, _sleep: &MaySleep) -> Result {
        let mut raw: ib_cm_sidr_req_param = pin_init::zeroed();
        (raw.private_data, raw.private_data_len) = data(asked.private_data);
        raw.path = path(Some(asked.path));
        raw.sgid_attr = gid(asked.sgid);
        raw.service_id = asked.service_id;
        raw.timeout_ms = asked.timeout_ms as usize;
        raw.max_cm_retries = asked.max_retries;
        // SAFETY: The identifier and all parameters are valid during the call.
        to_result(unsafe { bindings::ib_send_cm_sidr_req(self.raw.as_ptr(), &mut raw) })
    }

    /// Answers which queue pair a service has: `enum ib_cm_sidr_status`, its number and Q_Key.
    ///
    /// # Errors
    ///
    /// Those of `ib_cm`.
    pub fn send_sidr_rep(
        &self,
        status: u32,
        (qp_num, qkey): (u32, u32),
        vendor: Option<Ece>,
        private_data: &PrivateData<'_>,
        _sleep: &MaySleep,
    ) -> Result {
        let mut raw: ib_cm_sidr_rep_param = pin_init::zeroed();
        (raw.private_data, raw.private_data_len) = private_data.parts();
        raw.status = status;
        raw.qp_num = qp_num;
        raw.qkey = qkey;
        if let Some(ece) = vendor {
            raw.ece.vendor_id = ece.vendor_id;
            raw.ece.attr_mod = ece.attr_mod;
        }
        // SAFETY: The identifier and all parameters are valid during the call.
        to_result(unsafe { bindings::ib_send_cm_sidr_rep(self.raw.as_ptr(), &mut raw) })
    }

    /// The attributes of a queue pair for the state that is filled in.
    ///
    /// # Errors
    ///
    /// Those of `ib_cm`.
    pub fn init_qp_attr(&self, attr: &mut ib_qp_attr, mask: &mut c_int) -> Result {
        // SAFETY: The identifier and both results are valid.
        to_result(unsafe { bindings::ib_cm_init_qp_attr(self.raw.as_ptr(), attr, mask) })
    }
}

impl<T: Receiver> Drop for IbCm<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants. The handler does not run any more when the function returns, so that the context is given up.
        unsafe {
            bindings::ib_destroy_cm_id(self.raw.as_ptr());
            drop(Arc::from_raw(self.context));
        }
    }
}

/// A listener, which others of this module may share. Dropping it gives it up.
///
/// # Invariants
///
/// `self` owns a use of the listener.
pub struct IbListener(NonNull<ib_cm_id>);

// SAFETY: Listeners may be used from any thread.
unsafe impl Send for IbListener {}
// SAFETY: Listeners may be used from any thread.
unsafe impl Sync for IbListener {}

impl IbListener {
    /// Listens for a service, in network byte order. Requests are passed to `T`.
    ///
    /// # Errors
    ///
    /// Those of `ib_cm`.
    pub fn new<T: Receiver>(device: &Device, service_id: u64, _sleep: &MaySleep) -> Result<Self> {
        // SAFETY: The device is valid.
        let made = unsafe {
            from_err_ptr(bindings::ib_cm_insert_listen(
                device.as_raw(),
                Some(on_request::<T>),
                service_id,
            ))
        };
        // INVARIANT: The listener was just made, or counted.
        made.and_then(|raw| NonNull::new(raw).ok_or(ENOMEM))
            .map(Self)
    }
}

impl Drop for IbListener {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::ib_destroy_cm_id(self.0.as_ptr()) };
    }
}
