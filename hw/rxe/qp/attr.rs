// SPDX-License-Identifier: GPL-2.0

//! The attributes of a queue pair: validation for `modify_qp`, and the result of `query_qp`.
//!
//! A call changes either all attributes or none: first they are validated and everything that may fail is done, then
//! they are applied.

use crate::ah::Av;
use crate::ids::GSI_QKEY;
use crate::limits;
use crate::path::Alternate;
use crate::pkeys::{Partition, PkeyIndex, Pkeys};
use crate::port_id::PortId;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::{
    abi::qp::{MigState, QpAttrMask, QpCap},
    provider::{ah::AhAttr, qp::QpAttrOut},
};
use rdma::{Access, AhFields, Mtu, QpModify, QpState, QpType};
use roce::migration::{Migration, Wanted};
use roce::pkey::Pkey;
use roce::psn::Psn;
use roce::state::{RecvAttr, RemoteAccess, SendAttr, Service};
use roce::timer::{AckTimeout, RnrTimer};
use roce::wire::Qpn;

/// Supported bits of `qp_access_flags`, as in the C driver.
const QP_ACCESS: Access = Access::LOCAL_WRITE
    .with(Access::REMOTE_WRITE)
    .with(Access::REMOTE_READ)
    .with(Access::REMOTE_ATOMIC)
    .with(Access::MW_BIND)
    .with(Access::ON_DEMAND)
    .with(Access::FLUSH_GLOBAL)
    .with(Access::FLUSH_PERSISTENT);

/// Maximum number of unacknowledged packets in flight, as in the C driver. Without congestion control a larger window
/// causes larger losses where a queue on the path is short.
pub(super) const WINDOW: u32 = 128;

/// The maximum of a timeout code.
const MAX_TIMEOUT: u8 = 31;

/// The alternate path.
#[derive(Clone, Copy)]
struct AltPath {
    av: AhFields,
    pkey_index: u16,
    port: PortId,
    timeout: u8,
}

/// The attributes of a queue pair, in the format of `struct ib_qp_attr`.
///
/// Protected by the mutex `attr` of the QP.
#[derive(Clone)]
pub(crate) struct Attr {
    en_sqd_async_notify: bool,
    access: Access,
    pkey_index: u16,
    port: PortId,
    qkey: u32,
    av: AhFields,
    path_mtu: Option<Mtu>,
    timeout: u8,
    retry_cnt: u8,
    rnr_retry: u8,
    rq_psn: u32,
    sq_psn: u32,
    max_rd_atomic: u8,
    max_dest_rd_atomic: u8,
    min_rnr_timer: u8,
    alt_path: Option<AltPath>,
    dest_qp_num: u32,
}

/// Immutable properties of the QP that are part of the engines' attributes.
#[derive(Clone, Copy)]
pub(crate) struct Fixed {
    /// The transport service.
    pub(crate) service: Service,
    /// The QP's number.
    pub(crate) qpn: u32,
    /// Whether every send request is signaled.
    pub(crate) signal_all: bool,
    /// The port's MTU, which limits datagrams.
    pub(crate) port_mtu: roce::mtu::Mtu,
}

/// Validates the requested sizes.
///
/// # Errors
///
/// `EINVAL` beyond the device's limits.
pub(crate) fn check_cap(cap: &QpCap, has_srq: bool) -> Result {
    let send_fits = cap.max_send_wr <= limits::MAX_QP_WR
        && cap.max_send_sge <= limits::MAX_SGE
        && cap.max_inline_data <= limits::MAX_INLINE;
    let recv_fits =
        has_srq || (cap.max_recv_wr <= limits::MAX_QP_WR && cap.max_recv_sge <= limits::MAX_SGE);
    if send_fits && recv_fits {
        Ok(())
    } else {
        Err(EINVAL)
    }
}

/// `Err(EINVAL)` unless `ok`.
fn require(ok: bool) -> Result {
    if ok {
        Ok(())
    } else {
        Err(EINVAL)
    }
}

/// Whether a value, if it is set, is at most `limit`.
fn at_most<T: PartialOrd>(value: Option<T>, limit: T) -> bool {
    value.is_none_or(|value| value <= limit)
}

/// Validates attributes for a QP in `state`, and returns its next state.
///
/// # Errors
///
/// `EINVAL` for an invalid transition, missing attributes, and values out of range.
pub(crate) fn check(
    modify: &QpModify<'_>,
    qp_type: QpType,
    state: QpState,
    draining: bool,
    has_srq: bool,
) -> Result<QpState> {
    require(modify.cur_state.is_none_or(|assumed| assumed == state))?;
    let next = modify.state.unwrap_or(state);
    require(state.may_become(next, qp_type, modify.mask))?;
    // A draining QP must be drained before it goes on, or go to ERR or RESET.
    require(!draining || modify.state.is_none() || matches!(next, QpState::Err | QpState::Reset))?;
    check_values(modify, qp_type)?;
    if let Some(cap) = &modify.cap {
        check_cap(cap, has_srq)?;
    }
    Ok(next)
}

fn check_values(modify: &QpModify<'_>, qp_type: QpType) -> Result {
    require(modify.access.is_none_or(|access| {
        let connected = [QpType::Rc, QpType::Uc, QpType::XrcIni, QpType::XrcTgt];
        connected.contains(&qp_type) && access.without(QP_ACCESS).is_empty()
    }))?;
    require(
        modify
            .alt_path
            .as_ref()
            .is_none_or(|alt| alt.timeout <= MAX_TIMEOUT),
    )?;
    let in_range = at_most(modify.timeout, MAX_TIMEOUT)
        && at_most(modify.min_rnr_timer, MAX_TIMEOUT)
        && at_most(modify.retry_cnt, 7)
        && at_most(modify.rnr_retry, 7)
        && at_most(modify.max_rd_atomic, limits::MAX_RD_ATOM as u8)
        && at_most(modify.max_dest_rd_atomic, limits::MAX_RD_ATOM as u8);
    require(in_range)
}

/// Validates the ports: the device has them, and each path is one of its port. `find` returns the port with a number.
///
/// # Errors
///
/// `EINVAL` for a port that there is not, and for a path of another port; also of a port alone, beside a path that stays.
pub(crate) fn check_ports(
    modify: &QpModify<'_>,
    (own, has_path): (&Attr, bool),
    find: impl Fn(u32) -> Option<PortId>,
) -> Result {
    let port = match modify.port_num {
        Some(number) => find(number).ok_or(EINVAL)?,
        None => own.port,
    };
    let is_of = |av: &AhAttr<'_>, port: PortId| {
        let source = av.sgid_attr();
        source.is_none_or(|source| source.port_num() == port.number())
    };
    match &modify.av {
        Some(av) => require(is_of(av, port))?,
        None => require(!has_path || port == own.port)?,
    }
    match &modify.alt_path {
        Some(alt) => require(is_of(&alt.av, find(alt.port_num).ok_or(EINVAL)?)),
        None => Ok(()),
    }
}

/// Validates the P_Key indices. The tables of all ports have one length.
///
/// # Errors
///
/// `EINVAL` beyond the table.
pub(crate) fn check_pkeys(modify: &QpModify<'_>, pkeys: &Pkeys) -> Result {
    let alt = modify.alt_path.as_ref().map(|alt| alt.pkey_index);
    let mut indices = [modify.pkey_index, alt].into_iter().flatten();
    require(indices.all(|index| pkeys.has(index)))
}

/// The path in the attributes, if they have one.
///
/// # Errors
///
/// `EINVAL` for a path that is not RoCE v2, `ENOMEM`.
pub(crate) fn new_path(modify: &QpModify<'_>) -> Result<Option<Arc<Av>>> {
    let Some(attr) = &modify.av else {
        return Ok(None);
    };
    Ok(Some(Av::new(attr)?))
}

/// The alternate path in the attributes, if they have one, to a queue pair of the peer.
///
/// # Errors
///
/// As for [`new_path`].
pub(crate) fn new_alternate(modify: &QpModify<'_>, dest_qpn: u32) -> Result<Option<Alternate>> {
    let Some(alt) = &modify.alt_path else {
        return Ok(None);
    };
    Ok(Some(Alternate {
        av: Av::new(&alt.av)?,
        dest_qpn,
        pkey_index: alt.pkey_index,
        ack_timeout: ack_timeout(alt.timeout),
    }))
}

/// The state of path migration in the attributes, if they have one. `has_alternate`: an alternate path was loaded before.
///
/// # Errors
///
/// `EINVAL` where the present state does not allow it, and for a state that needs an alternate path where there is none.
pub(crate) fn wanted_path(
    modify: &QpModify<'_>,
    migration: &Migration,
    has_alternate: bool,
) -> Result<Option<Wanted>> {
    let (wanted, needs_alternate) = match modify.path_mig_state {
        None => return Ok(None),
        Some(MigState::Migrated) => (Wanted::Migrated, false),
        Some(MigState::Rearm) => (Wanted::Rearm, true),
        Some(MigState::Armed) => return Err(EINVAL),
    };
    let has_alternate = has_alternate || modify.alt_path.is_some();
    require(migration.allows(wanted) && (has_alternate || !needs_alternate))?;
    Ok(Some(wanted))
}

/// The minimum ACK timeout, as a code: 4.2 ms. A software peer may need as long when its CPU is busy, and a shorter timeout would
/// exhaust the retries. The C driver's timeouts are no shorter, because it counts in jiffies.
const LEAST_TIMEOUT: u8 = 10;

/// The ACK timeout that a code stands for; code 0 means none.
fn ack_timeout(code: u8) -> AckTimeout {
    AckTimeout::new(match code {
        0 => 0,
        code => code.max(LEAST_TIMEOUT),
    })
}

impl Attr {
    /// The attributes of a QP in RESET, of a port until it is given another one.
    pub(crate) fn new(port: PortId) -> Self {
        Self {
            en_sqd_async_notify: false,
            access: Access::empty(),
            pkey_index: 0,
            port,
            qkey: 0,
            av: AhFields::default(),
            path_mtu: None,
            timeout: 0,
            retry_cnt: 0,
            rnr_retry: 0,
            rq_psn: 0,
            sq_psn: 0,
            max_rd_atomic: 0,
            max_dest_rd_atomic: 0,
            min_rnr_timer: 0,
            alt_path: None,
            dest_qp_num: 0,
        }
    }

    /// Applies validated attributes.
    pub(crate) fn apply(&mut self, modify: &QpModify<'_>) {
        fn set<T: Copy>(to: &mut T, from: Option<T>) {
            if let Some(value) = from {
                *to = value;
            }
        }
        if modify.state == Some(QpState::Sqd) {
            // The flag applies to one transition only.
            self.en_sqd_async_notify = false;
        }
        set(&mut self.en_sqd_async_notify, modify.en_sqd_async_notify);
        set(&mut self.access, modify.access);
        set(&mut self.pkey_index, modify.pkey_index);
        set(&mut self.port, modify.port_num.and_then(PortId::of));
        set(&mut self.qkey, modify.qkey);
        set(&mut self.av, modify.av.as_ref().map(|av| av.fields()));
        set(&mut self.path_mtu, modify.path_mtu.map(Some));
        set(&mut self.timeout, modify.timeout);
        set(&mut self.retry_cnt, modify.retry_cnt);
        set(&mut self.rnr_retry, modify.rnr_retry);
        set(&mut self.rq_psn, modify.rq_psn);
        set(&mut self.sq_psn, modify.sq_psn);
        set(&mut self.max_rd_atomic, modify.max_rd_atomic);
        set(&mut self.max_dest_rd_atomic, modify.max_dest_rd_atomic);
        set(&mut self.min_rnr_timer, modify.min_rnr_timer);
        set(&mut self.dest_qp_num, modify.dest_qp_num);
        if let Some(alt) = &modify.alt_path {
            self.alt_path = Some(AltPath {
                av: alt.av.fields(),
                pkey_index: alt.pkey_index,
                port: PortId::of(alt.port_num).unwrap_or(self.port),
                timeout: alt.timeout,
            });
        }
    }

    /// The alternate path is the primary one from now on.
    pub(crate) fn take_alternate(&mut self) {
        let Some(alt) = self.alt_path else {
            return;
        };
        self.av = alt.av;
        self.pkey_index = alt.pkey_index;
        self.port = alt.port;
        self.timeout = alt.timeout;
    }

    /// Whether the SQ_DRAINED event is raised.
    pub(crate) fn notifies_drained(&self) -> bool {
        self.en_sqd_async_notify
    }

    /// The access flags of the peer.
    pub(crate) fn access(&self) -> Access {
        self.access
    }

    /// The P_Keys of packets that the QP takes and sends.
    pub(crate) fn partition(&self, qp_type: QpType) -> Partition {
        match qp_type {
            QpType::Gsi => Partition::Any(self.port),
            _ => Partition::Entry(PkeyIndex {
                port: self.port,
                index: self.pkey_index,
            }),
        }
    }

    /// The peer's QPN.
    pub(crate) fn dest_qpn(&self) -> u32 {
        self.dest_qp_num
    }

    fn mtu(&self, fixed: &Fixed) -> roce::mtu::Mtu {
        match (fixed.service, self.path_mtu) {
            (Service::Ud, _) | (_, None) => fixed.port_mtu,
            (_, Some(mtu)) => roce::mtu::Mtu::from_ib(mtu.as_raw()).unwrap_or(fixed.port_mtu),
        }
    }

    fn qkey(&self, fixed: &Fixed) -> u32 {
        if fixed.qpn == Qpn::GSI.get() {
            GSI_QKEY
        } else {
            self.qkey
        }
    }

    /// The attributes of the requester.
    pub(crate) fn send(&self, fixed: &Fixed) -> SendAttr {
        SendAttr {
            service: fixed.service,
            mtu: self.mtu(fixed),
            qpn: Qpn::new(fixed.qpn),
            dest_qpn: Qpn::new(self.dest_qp_num),
            sq_psn: Psn::new(self.sq_psn),
            // The engine sets it before it runs.
            pkey: Pkey::NONE,
            qkey: self.qkey(fixed),
            signal_all: fixed.signal_all,
            ack_timeout: ack_timeout(self.timeout),
            retry_cnt: self.retry_cnt,
            rnr_retry: self.rnr_retry,
            max_rd_atomic: self.max_rd_atomic,
            window: WINDOW,
        }
    }

    /// The attributes of the responder.
    pub(crate) fn recv(&self, fixed: &Fixed) -> RecvAttr {
        RecvAttr {
            service: fixed.service,
            mtu: self.mtu(fixed),
            dest_qpn: Qpn::new(self.dest_qp_num),
            rq_psn: Psn::new(self.rq_psn),
            // The engine sets it before it runs.
            pkey: Pkey::NONE,
            qkey: self.qkey(fixed),
            // A peer with the C driver rounds its own limit up to a power of two.
            max_dest_rd_atomic: match self.max_dest_rd_atomic {
                0 => 0,
                some => some.checked_next_power_of_two().unwrap_or(some),
            },
            min_rnr_timer: RnrTimer::new(self.min_rnr_timer),
            access: RemoteAccess {
                write: self.access.contains(Access::REMOTE_WRITE),
                read: self.access.contains(Access::REMOTE_READ),
                atomic: self.access.contains(Access::REMOTE_ATOMIC),
            },
        }
    }

    /// Fills in the attributes for `query_qp`. The caller adds state and PSNs.
    pub(crate) fn answer(&self, out: &mut QpAttrOut<'_>) {
        out.set_path_mtu(self.path_mtu.unwrap_or(Mtu::B256));
        out.set_qkey(self.qkey);
        out.set_dest_qp_num(self.dest_qp_num);
        out.set_access(self.access);
        out.set_port(self.port.number(), self.pkey_index);
        out.set_av(&self.av);
        out.set_rd_atomic(self.max_rd_atomic, self.max_dest_rd_atomic);
        out.set_min_rnr_timer(self.min_rnr_timer);
        out.set_retries(self.timeout, self.retry_cnt, self.rnr_retry);
        out.set_en_sqd_async_notify(self.en_sqd_async_notify);
        if let Some(alt) = &self.alt_path {
            out.set_alt_path(&alt.av, alt.pkey_index, alt.port.number(), alt.timeout);
        }
    }
}

/// Whether all attributes in `mask` are defined by the specification; others are not supported.
pub(crate) fn is_standard(mask: QpAttrMask) -> bool {
    mask.without(QpAttrMask::STANDARD_BITS).is_empty()
}
