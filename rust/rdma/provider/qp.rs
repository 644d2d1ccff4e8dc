// SPDX-License-Identifier: GPL-2.0

//! Queue pairs, and the attributes that they are created and modified with: `struct ib_qp`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use kernel::{prelude::*, sync::Arc};
use rdma_bindings::{self as bindings, ib_qp, ib_qp_attr, ib_qp_init_attr, rdma_counter};

use crate::{
    abi::{
        access::Access,
        ah::AhFields,
        port::Mtu,
        qp::{MigState, QpAttrMask, QpCap, QpId, QpState, QpType},
    },
    provider::{
        ah::{AhAttr, AhAttrOut},
        data::ProviderData,
        object::{Base, Object},
        xrcd::Xrcd,
    },
    Cq, Device, Pd, QpHandle, Srq,
};

/// A queue pair of a device of `P`.
pub type Qp<P> = Object<ib_qp, P, <P as ProviderData>::Qp, Arc<QpHandle>>;

/// The core's part of a QP.
pub type QpBase<P> = Base<ib_qp, P>;

impl<P: ProviderData> Base<ib_qp, P> {
    /// The device that the QP belongs to.
    #[inline]
    pub fn device(&self) -> &Device<P> {
        // SAFETY: The core has set `device`, which outlives its objects.
        unsafe { Device::from_raw((*self.as_raw()).device) }
    }

    /// The PD that the QP belongs to; an XRC target QP has none.
    #[inline]
    pub fn pd(&self) -> Option<&Pd<P>> {
        // SAFETY: The core has set `pd`, which outlives the QPs in it.
        let raw = unsafe { (*self.as_raw()).pd };
        // SAFETY: The core has set `pd`, which outlives the QPs in it.
        (!raw.is_null()).then(|| unsafe { Pd::from_raw(raw) })
    }

    /// Whether the QP belongs to user space.
    #[inline]
    pub fn is_user(&self) -> bool {
        // SAFETY: By the type invariants; the field is constant, and set before the create method.
        unsafe { !(*self.as_raw()).uobject.is_null() }
    }

    /// The transport service type.
    #[inline]
    pub fn qp_type(&self) -> Result<QpType> {
        // SAFETY: By the type invariants; the field is constant.
        QpType::try_from(unsafe { (*self.as_raw()).qp_type })
    }

    /// The QP's number.
    #[inline]
    pub fn qp_num(&self) -> u32 {
        // SAFETY: By the type invariants the QP is valid; any value is valid, and a concurrent
        // writer uses a single store.
        unsafe { (&raw const (*self.as_raw()).qp_num).read_volatile() }
    }

    /// Sets the QP number, 24 bits.
    ///
    /// The create method must call it. The number is not read before.
    #[inline]
    pub fn set_qp_num(&self, qp_num: u32) {
        // SAFETY: By the type invariants the QP is valid; any value is valid.
        unsafe { (&raw mut (*self.as_raw()).qp_num).write_volatile(qp_num) };
    }

    /// Sets the counter that the QP is bound to, or none.
    #[inline]
    pub(crate) fn set_counter(&self, counter: Option<&Base<rdma_counter, P>>) {
        let counter = counter.map_or(core::ptr::null_mut(), Base::as_raw);
        // SAFETY: By the type invariants the QP is valid, and the core reads the pointer by single loads.
        unsafe { (&raw mut (*self.as_raw()).counter).write_volatile(counter) };
    }

    /// The identity of the QP in completions. Valid after the number is set.
    #[inline]
    pub fn id(&self) -> QpId {
        // SAFETY: By the type invariants the QP is the driver's; the header says that the driver completes requests of a QP only
        // as long as it is there.
        unsafe { QpId::new(self.as_raw(), self.qp_num()) }
    }
}

/// The attributes of a QP that is to be created: `struct ib_qp_init_attr`.
///
/// The driver may raise [`cap`](Self::set_cap) to the actual sizes.
pub struct QpInitAttr<'a, P> {
    raw: &'a mut ib_qp_init_attr,
    _provider: core::marker::PhantomData<fn() -> P>,
}

impl<'a, P: ProviderData> QpInitAttr<'a, P> {
    /// Borrows the attributes.
    ///
    /// # Safety
    ///
    /// The objects that `raw` refers to must belong to devices of `P`, and be valid for `'a`.
    #[inline]
    pub(crate) unsafe fn from_raw(raw: &'a mut ib_qp_init_attr) -> Self {
        Self {
            raw,
            _provider: core::marker::PhantomData,
        }
    }

    /// The transport service type.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a type that is not in the header.
    #[inline]
    pub fn qp_type(&self) -> Result<QpType> {
        QpType::try_from(self.raw.qp_type)
    }

    /// The requested sizes.
    #[inline]
    pub fn cap(&self) -> QpCap {
        self.raw.cap
    }

    /// Sets the actual sizes.
    #[inline]
    pub fn set_cap(&mut self, cap: QpCap) {
        self.raw.cap = cap;
    }

    /// Whether each request on the send queue generates a completion.
    #[inline]
    pub fn sq_sig_all(&self) -> bool {
        self.raw.sq_sig_type == bindings::IB_SIGNAL_ALL_WR
    }

    /// `enum ib_qp_create_flags`.
    #[inline]
    pub fn create_flags(&self) -> u32 {
        self.raw.create_flags
    }

    /// The port, for QP 0 and QP 1.
    #[inline]
    pub fn port_num(&self) -> u32 {
        self.raw.port_num
    }

    /// The CQ of the send queue.
    #[inline]
    pub fn send_cq(&self) -> Option<&'a Cq<P>> {
        let raw = self.raw.send_cq;
        // SAFETY: By the safety requirements of `from_raw`.
        (!raw.is_null()).then(|| unsafe { Cq::from_raw(raw) })
    }

    /// The CQ of the receive queue.
    #[inline]
    pub fn recv_cq(&self) -> Option<&'a Cq<P>> {
        let raw = self.raw.recv_cq;
        // SAFETY: By the safety requirements of `from_raw`.
        (!raw.is_null()).then(|| unsafe { Cq::from_raw(raw) })
    }

    /// The SRQ that takes the place of the receive queue.
    #[inline]
    pub fn srq(&self) -> Option<&'a Srq<P>> {
        let raw = self.raw.srq;
        // SAFETY: By the safety requirements of `from_raw`.
        (!raw.is_null()).then(|| unsafe { Srq::from_raw(raw) })
    }

    /// The XRC domain of the target of an extended reliable connection.
    #[inline]
    pub fn xrcd(&self) -> Option<&'a Xrcd<P>> {
        let raw = self.raw.xrcd;
        // SAFETY: By the safety requirements of `from_raw`.
        (!raw.is_null()).then(|| unsafe { Xrcd::from_raw(raw) })
    }
}

/// The alternate path of a QP.
#[derive(Clone, Copy)]
pub struct AltPath<'a> {
    /// The address vector of the path.
    pub av: AhAttr<'a>,
    /// The P_Key index.
    pub pkey_index: u16,
    /// The port.
    pub port_num: u32,
    /// The acknowledgement timeout, encoded as in [`QpModify::timeout`].
    pub timeout: u8,
}

/// The attributes that a call of `modify_qp` sets; `None` for an attribute that does not change.
///
/// Enumerations are checked; the driver checks the ranges of numbers.
#[derive(Default)]
pub struct QpModify<'a> {
    /// The mask of the attributes that are set.
    pub mask: QpAttrMask,
    /// The next state.
    pub state: Option<QpState>,
    /// The state that the caller assumes the QP to be in.
    pub cur_state: Option<QpState>,
    /// Whether the event `IB_EVENT_SQ_DRAINED` is raised.
    pub en_sqd_async_notify: Option<bool>,
    /// The access that the remote QP has.
    pub access: Option<Access>,
    /// The P_Key index.
    pub pkey_index: Option<u16>,
    /// The port.
    pub port_num: Option<u32>,
    /// The Q_Key.
    pub qkey: Option<u32>,
    /// The address vector of the primary path.
    pub av: Option<AhAttr<'a>>,
    /// The path MTU.
    pub path_mtu: Option<Mtu>,
    /// The acknowledgement timeout: 4.096 us times two to the power of this value; 0 for none.
    pub timeout: Option<u8>,
    /// The number of retries, 0 to 7.
    pub retry_cnt: Option<u8>,
    /// The number of retries after an RNR NAK, 0 to 6; 7 for unlimited.
    pub rnr_retry: Option<u8>,
    /// The initial PSN of the receive queue.
    pub rq_psn: Option<u32>,
    /// The number of RDMA READs and atomics that this side may have outstanding.
    pub max_rd_atomic: Option<u8>,
    /// The alternate path.
    pub alt_path: Option<AltPath<'a>>,
    /// The minimum RNR NAK timer: `enum ib_rnr_timeout`.
    pub min_rnr_timer: Option<u8>,
    /// The initial PSN of the send queue.
    pub sq_psn: Option<u32>,
    /// The number of RDMA READs and atomics that the remote QP may have outstanding.
    pub max_dest_rd_atomic: Option<u8>,
    /// The state of path migration.
    pub path_mig_state: Option<MigState>,
    /// The sizes.
    pub cap: Option<QpCap>,
    /// The number of the remote QP.
    pub dest_qp_num: Option<u32>,
}

impl<'a> QpModify<'a> {
    /// Reads the attributes in `mask`.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an enumeration out of range.
    ///
    /// # Safety
    ///
    /// The source GID entries of the paths must be referenced during `'a`.
    pub(crate) unsafe fn from_raw(raw: &'a ib_qp_attr, mask: u32) -> Result<Self> {
        let mask = QpAttrMask::from_bits(mask);
        let has = |flag| mask.contains(flag);
        fn get<T: TryFrom<u32, Error = Error>>(has: bool, raw: u32) -> Result<Option<T>> {
            has.then(|| T::try_from(raw)).transpose()
        }
        Ok(Self {
            mask,
            state: get(has(QpAttrMask::STATE), raw.qp_state)?,
            cur_state: get(has(QpAttrMask::CUR_STATE), raw.cur_qp_state)?,
            en_sqd_async_notify: has(QpAttrMask::EN_SQD_ASYNC_NOTIFY)
                .then_some(raw.en_sqd_async_notify != 0),
            access: has(QpAttrMask::ACCESS_FLAGS)
                .then_some(Access::from_bits(raw.qp_access_flags as u32)),
            pkey_index: has(QpAttrMask::PKEY_INDEX).then_some(raw.pkey_index),
            port_num: has(QpAttrMask::PORT).then_some(raw.port_num),
            qkey: has(QpAttrMask::QKEY).then_some(raw.qkey),
            av: if has(QpAttrMask::AV) {
                // SAFETY: By the safety requirements.
                Some(unsafe { AhAttr::from_raw(&raw.ah_attr) })
            } else {
                None
            },
            path_mtu: get(has(QpAttrMask::PATH_MTU), raw.path_mtu)?,
            timeout: has(QpAttrMask::TIMEOUT).then_some(raw.timeout),
            retry_cnt: has(QpAttrMask::RETRY_CNT).then_some(raw.retry_cnt),
            rnr_retry: has(QpAttrMask::RNR_RETRY).then_some(raw.rnr_retry),
            rq_psn: has(QpAttrMask::RQ_PSN).then_some(raw.rq_psn),
            max_rd_atomic: has(QpAttrMask::MAX_QP_RD_ATOMIC).then_some(raw.max_rd_atomic),
            alt_path: has(QpAttrMask::ALT_PATH).then(|| AltPath {
                // SAFETY: By the safety requirements.
                av: unsafe { AhAttr::from_raw(&raw.alt_ah_attr) },
                pkey_index: raw.alt_pkey_index,
                port_num: raw.alt_port_num,
                timeout: raw.alt_timeout,
            }),
            min_rnr_timer: has(QpAttrMask::MIN_RNR_TIMER).then_some(raw.min_rnr_timer),
            sq_psn: has(QpAttrMask::SQ_PSN).then_some(raw.sq_psn),
            max_dest_rd_atomic: has(QpAttrMask::MAX_DEST_RD_ATOMIC)
                .then_some(raw.max_dest_rd_atomic),
            path_mig_state: get(has(QpAttrMask::PATH_MIG_STATE), raw.path_mig_state)?,
            cap: has(QpAttrMask::CAP).then_some(raw.cap),
            dest_qp_num: has(QpAttrMask::DEST_QPN).then_some(raw.dest_qp_num),
        })
    }
}

/// The output argument of `query_qp` for the attributes at creation.
pub struct QpInitOut<'a>(&'a mut ib_qp_init_attr);

impl<'a> QpInitOut<'a> {
    /// Fills in the attributes that the core knows.
    ///
    /// # Safety
    ///
    /// `qp` must be a valid QP.
    pub(crate) unsafe fn new(raw: &'a mut ib_qp_init_attr, qp: *const ib_qp) -> Self {
        // SAFETY: By the safety requirements; the fields are constant.
        *raw = unsafe {
            ib_qp_init_attr {
                event_handler: (*qp).event_handler,
                qp_context: (*qp).qp_context,
                send_cq: (*qp).send_cq,
                recv_cq: (*qp).recv_cq,
                srq: (*qp).srq,
                qp_type: (*qp).qp_type,
                ..pin_init::zeroed()
            }
        };
        Self(raw)
    }

    /// Sets the sizes.
    pub fn set_cap(&mut self, cap: QpCap) {
        self.0.cap = cap;
    }

    /// Whether each request on the send queue generates a completion.
    pub fn set_sq_sig_all(&mut self, all: bool) {
        self.0.sq_sig_type = if all {
            bindings::IB_SIGNAL_ALL_WR
        } else {
            bindings::IB_SIGNAL_REQ_WR
        };
    }
}

/// The output argument of `query_qp` for the current attributes. All fields are zero at first.
pub struct QpAttrOut<'a>(&'a mut ib_qp_attr);

impl<'a> QpAttrOut<'a> {
    #[inline]
    pub(crate) fn new(raw: &'a mut ib_qp_attr) -> Self {
        *raw = pin_init::zeroed();
        Self(raw)
    }

    /// Sets the state, and whether the send queue is still draining.
    pub fn set_state(&mut self, state: QpState, sq_draining: bool) {
        self.0.qp_state = state.as_raw();
        self.0.cur_qp_state = state.as_raw();
        self.0.sq_draining = sq_draining.into();
    }

    /// The path MTU.
    pub fn set_path_mtu(&mut self, mtu: Mtu) {
        self.0.path_mtu = mtu.as_raw();
    }

    /// The state of path migration.
    pub fn set_path_mig_state(&mut self, state: MigState) {
        self.0.path_mig_state = state.as_raw();
    }

    /// The Q_Key.
    pub fn set_qkey(&mut self, qkey: u32) {
        self.0.qkey = qkey;
    }

    /// Sets the next PSNs of the receive queue and the send queue.
    pub fn set_psns(&mut self, rq_psn: u32, sq_psn: u32) {
        self.0.rq_psn = rq_psn;
        self.0.sq_psn = sq_psn;
    }

    /// The number of the remote QP.
    pub fn set_dest_qp_num(&mut self, qp_num: u32) {
        self.0.dest_qp_num = qp_num;
    }

    /// The access that the remote QP has.
    pub fn set_access(&mut self, access: Access) {
        self.0.qp_access_flags = access.bits() as i32;
    }

    /// The sizes.
    pub fn set_cap(&mut self, cap: QpCap) {
        self.0.cap = cap;
    }

    /// The path.
    pub fn set_av(&mut self, av: &AhFields) {
        // SAFETY: The field is valid for writes.
        unsafe { AhAttrOut::new(&mut self.0.ah_attr) }.set(av);
    }

    /// The alternate path.
    pub fn set_alt_path(&mut self, av: &AhFields, pkey_index: u16, port_num: u32, timeout: u8) {
        // SAFETY: The field is valid for writes.
        unsafe { AhAttrOut::new(&mut self.0.alt_ah_attr) }.set(av);
        self.0.alt_pkey_index = pkey_index;
        self.0.alt_port_num = port_num;
        self.0.alt_timeout = timeout;
    }

    /// Sets the port and the P_Key index.
    pub fn set_port(&mut self, port_num: u32, pkey_index: u16) {
        self.0.port_num = port_num;
        self.0.pkey_index = pkey_index;
    }

    /// Sets the numbers of RDMA READs and atomics that this side and the remote QP may have
    /// outstanding.
    pub fn set_rd_atomic(&mut self, max_rd_atomic: u8, max_dest_rd_atomic: u8) {
        self.0.max_rd_atomic = max_rd_atomic;
        self.0.max_dest_rd_atomic = max_dest_rd_atomic;
    }

    /// Sets the minimum RNR NAK timer: `enum ib_rnr_timeout`.
    pub fn set_min_rnr_timer(&mut self, timer: u8) {
        self.0.min_rnr_timer = timer;
    }

    /// Sets the acknowledgement timeout and the numbers of retries.
    pub fn set_retries(&mut self, timeout: u8, retry_cnt: u8, rnr_retry: u8) {
        self.0.timeout = timeout;
        self.0.retry_cnt = retry_cnt;
        self.0.rnr_retry = rnr_retry;
    }

    /// Whether the event `IB_EVENT_SQ_DRAINED` is raised.
    pub fn set_en_sqd_async_notify(&mut self, enabled: bool) {
        self.0.en_sqd_async_notify = enabled.into();
    }
}
