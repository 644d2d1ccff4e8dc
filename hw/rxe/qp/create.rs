// SPDX-License-Identifier: GPL-2.0

//! `create_qp`: creates a queue pair with its queues (`struct ib_qp_init_attr`), and adds it to the device's table.

use super::affinity::Affinity;
use super::attr::{self, Attr};
use super::congestion;
use super::faults::Faults;
use super::recv_queue::{RecvQueue, Source};
use super::send_queue::SendQueue;
use super::types::{Engine, Qp};
use super::wakeup::Scheduled;
use crate::backlog::Backlog;
use crate::cq::Cq;
use crate::device::Rxe;
use crate::doorbell::Deferred;
use crate::flight::Flight;
use crate::ids::{place, PdId, XrcdId};
use crate::limits;
use crate::mw::BinderId;
use crate::port_id::PortId;
use crate::ring::{Consumer, Mappings, MmapInfo, UserCommand};
use crate::srq::Srq;
use crate::wqe::{Inbox, Limits, RecvWqe, SendWqe};
use core::sync::atomic::{AtomicBool, AtomicU32};
use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, UniqueArc};
use kernel::workqueue::new_work;
use kernel_ext::compat::barrier::smp_mb;
use kernel_ext::error::EOPNOTSUPP;
use kernel_ext::gfp::Gfp;
use kernel_ext::sync::{new_spinlock_bh, new_spinlock_irq};
use kernel_ext::timer::Timer;
use rdma::{
    abi::qp::QpCap,
    provider::qp::{QpBase, QpInitAttr},
};
use rdma::{MaySleep, ProviderData, QpHandle, QpId, QpState, QpType, Udata};
use roce::state::Service;

/// Response of `create_qp` to user space: `struct rxe_create_qp_resp`.
#[derive(Clone, Copy, Default)]
struct Rings {
    recv: MmapInfo,
    send: MmapInfo,
}

impl Rings {
    /// The size of the structure.
    const SIZE: usize = 2 * MmapInfo::SIZE;

    fn to_bytes(self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        let (recv, send) = bytes.split_at_mut(MmapInfo::SIZE);
        recv.copy_from_slice(&self.recv.to_bytes());
        send.copy_from_slice(&self.send.to_bytes());
        bytes
    }
}

/// The transport service of a QP type.
///
/// # Errors
///
/// `EOPNOTSUPP` for unsupported types.
fn service_of(qp_type: QpType) -> Result<Service> {
    match qp_type {
        QpType::Rc => Ok(Service::Rc),
        QpType::Uc => Ok(Service::Uc),
        QpType::Ud | QpType::Gsi => Ok(Service::Ud),
        QpType::XrcIni => Ok(Service::XrcIni),
        QpType::XrcTgt => Ok(Service::XrcTgt),
        _ => Err(EOPNOTSUPP),
    }
}

/// The CQ of a queue, if the QP has that.
///
/// # Errors
///
/// `EINVAL` without a CQ.
fn cq_of<P: ProviderData<Cq = Arc<Cq>>>(
    has_queue: bool,
    cq: Option<&rdma::Cq<P>>,
) -> Result<Option<Arc<Cq>>> {
    match has_queue {
        true => Ok(Some(cq.ok_or(EINVAL)?.data().clone())),
        false => Ok(None),
    }
}

/// Validates the driver's part of the command.
fn check_udata(udata: &Udata<'_>) -> Result {
    if udata.inlen() != 0 || udata.outlen() < Rings::SIZE {
        return Err(EINVAL);
    }
    Ok(())
}

/// The new queues of a QP.
struct NewQueues {
    send: SendQueue,
    recv: RecvQueue,
    posted_sends: Inbox<SendWqe>,
    posted_recvs: Inbox<RecvWqe>,
    rings: Rings,
    cap: QpCap,
}

impl NewQueues {
    /// Creates queues of validated sizes; `cap` has their actual sizes afterwards.
    fn new(parts: &Parts<'_>, mut cap: QpCap, sleep: &MaySleep) -> Result<Self> {
        if parts.service == Service::XrcTgt {
            cap = QpCap {
                max_send_wr: 0,
                max_recv_wr: 0,
                max_send_sge: 0,
                max_recv_sge: 0,
                max_inline_data: 0,
                max_rdma_ctxs: 0,
            };
        }
        let list_len = cap.max_send_sge as usize * limits::SGE;
        let data_len = list_len.max(cap.max_inline_data as usize);
        cap.max_send_sge = (data_len / limits::SGE) as u32;
        cap.max_inline_data = data_len as u32;
        if parts.has_srq() {
            (cap.max_recv_wr, cap.max_recv_sge) = (0, 0);
        }
        let limits = Limits {
            service: parts.service,
            max_sge: cap.max_send_sge,
            max_inline: cap.max_inline_data,
        };
        let recv_len = cap.max_recv_sge as usize * limits::SGE;
        let mut rings = Rings::default();
        let Some(mappings) = parts.mappings else {
            let source = parts.source().unwrap_or(Source::Posted);
            return Ok(Self {
                send: SendQueue::new(None, cap.max_send_wr, limits)?,
                recv: RecvQueue::new(source, cap.max_recv_sge, parts.pd)?,
                posted_sends: Inbox::new(cap.max_send_wr, data_len)?,
                posted_recvs: Inbox::new(cap.max_recv_wr, recv_len)?,
                rings,
                cap,
            });
        };
        let element = limits::SEND_WQE + data_len;
        let send = Consumer::new(mappings, cap.max_send_wr, element, sleep)?;
        rings.send = send.mmap_info();
        cap.max_send_wr = send.capacity();
        let source = match parts.source() {
            Some(source) => source,
            None => {
                let element = limits::RECV_WQE + recv_len;
                let recv = Consumer::new(mappings, cap.max_recv_wr, element, sleep)?;
                rings.recv = recv.mmap_info();
                cap.max_recv_wr = recv.capacity();
                Source::Ring(recv)
            }
        };
        Ok(Self {
            send: SendQueue::new(Some(send), 0, limits)?,
            recv: RecvQueue::new(source, cap.max_recv_sge, parts.pd)?,
            posted_sends: Inbox::new(0, 0)?,
            posted_recvs: Inbox::new(0, 0)?,
            rings,
            cap,
        })
    }
}

/// Validated arguments of `create`.
struct Parts<'a> {
    rxe: &'a Arc<Rxe<Qp>>,
    pd: PdId,
    events: Arc<QpHandle>,
    /// The rings of user space, for its QPs.
    mappings: Option<&'a Arc<Mappings>>,
    qp_type: QpType,
    home: PortId,
    service: Service,
    signal_all: bool,
    send_cq: Option<Arc<Cq>>,
    recv_cq: Option<Arc<Cq>>,
    srq: Option<&'a Arc<Srq>>,
    /// The domain of a target of XRC.
    domain: Option<XrcdId>,
    /// The completion vector, or 0.
    vector: u32,
}

impl Parts<'_> {
    /// Whether no receives are posted to it.
    fn has_srq(&self) -> bool {
        self.srq.is_some() || self.service.is_xrc()
    }

    /// The source of receives, if it is not a receive queue of its own.
    fn source(&self) -> Option<Source> {
        match (self.service, self.domain, self.srq) {
            (Service::XrcIni, ..) => Some(Source::Nothing),
            (Service::XrcTgt, Some(domain), _) => Some(Source::Named { domain, srq: None }),
            (_, _, srq) => srq.map(|srq| Source::Shared(srq.clone())),
        }
    }
}

impl Qp {
    /// Creates a QP in RESET and adds it to the device's table: `create_qp`.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for an unsupported type or flag, `EINVAL` for sizes beyond the limits, a missing CQ, PD or XRC domain and a second
    /// QP1 of a port, `ENOMEM`, `EFAULT`.
    pub(crate) fn create<P>(
        rxe: &Arc<Rxe<Self>>,
        base: &QpBase<P>,
        init: &mut QpInitAttr<'_, P>,
        events: Arc<QpHandle>,
        user: Option<UserCommand<'_>>,
        sleep: &MaySleep,
    ) -> Result<Arc<Self>>
    where
        P: ProviderData<Pd = PdId, Xrcd = XrcdId, Cq = Arc<Cq>, Srq = Arc<Srq>>,
    {
        user.map_or(Ok(()), |user| check_udata(user.udata))?;
        let qp_type = init.qp_type()?;
        let service = service_of(qp_type)?;
        if init.create_flags() != 0 {
            return Err(EOPNOTSUPP);
        }
        let home = match qp_type {
            QpType::Gsi => rxe.port_id(init.port_num()).ok_or(EINVAL)?,
            _ => PortId::First,
        };
        let (sends, receives) = (service != Service::XrcTgt, !service.is_xrc());
        if sends {
            attr::check_cap(&init.cap(), init.srq().is_some() || !receives)?;
        }
        let mut parts = Parts {
            rxe,
            pd: match sends {
                true => *base.pd().ok_or(EINVAL)?.data(),
                false => PdId::new(),
            },
            events,
            mappings: user.map(|user| user.mappings),
            qp_type,
            home,
            service,
            signal_all: init.sq_sig_all(),
            send_cq: cq_of(sends, init.send_cq())?,
            recv_cq: cq_of(receives, init.recv_cq())?,
            srq: init.srq().map(|srq| srq.data()),
            domain: match sends {
                true => None,
                false => Some(*init.xrcd().ok_or(EINVAL)?.data()),
            },
            vector: 0,
        };
        let cqs = [&parts.send_cq, &parts.recv_cq].into_iter().flatten();
        let vector = cqs.map(|cq| cq.vector()).find(|vector| *vector != 0);
        parts.vector = vector.unwrap_or(0);
        let queues = NewQueues::new(&parts, init.cap(), sleep)?;
        init.set_cap(queues.cap);
        let answer = queues.rings.to_bytes();
        let qp = Self::publish(base, parts, queues, sleep)?;
        // Pairs with the barrier in `Qp::forget_routes`.
        smp_mb();
        qp.flight.attach(&qp);
        if let Some(Err(error)) = user.map(|user| user.udata.respond_all(&answer)) {
            qp.destroy(sleep)?;
            return Err(error);
        }
        Ok(qp)
    }

    /// Assigns the QP its number, and adds it to the table.
    fn publish<P: ProviderData>(
        base: &QpBase<P>,
        parts: Parts<'_>,
        queues: NewQueues,
        sleep: &MaySleep,
    ) -> Result<Arc<Self>> {
        const GSI: u32 = 1;
        let table = &parts.rxe.qps;
        if parts.qp_type == QpType::Gsi {
            base.set_qp_num(GSI);
            let place = place(GSI, parts.home);
            let qp = Self::build(base.id(), parts, queues)?;
            let inserted = table.insert_at(place, qp.clone(), Gfp::kernel(sleep));
            inserted.map_err(|error| if error == EBUSY { EINVAL } else { error })?;
            return Ok(qp);
        }
        let number = table.reserve(Gfp::kernel(sleep))?;
        base.set_qp_num(number.index());
        let qp = Self::build(base.id(), parts, queues)?;
        number.publish(qp.clone());
        Ok(qp)
    }

    fn build(id: QpId, parts: Parts<'_>, queues: NewQueues) -> Result<Arc<Self>> {
        let NewQueues {
            send,
            recv,
            posted_sends,
            posted_recvs,
            cap,
            ..
        } = queues;
        let send_limits = *send.limits();
        let congestion = congestion::of(parts.service)?;
        let counters = parts.rxe.port(parts.home).counters.own().clone();
        let engine = Engine::init((send, recv), congestion, counters, parts.home);
        let flight = Flight::new()?;
        // Memory first: passing the whole initializer to the allocating functions would copy it on each call.
        let qp = UniqueArc::new_uninit(GFP_KERNEL)?;
        let Ok(qp) = qp.pin_init_with(pin_init!(Self {
                rxe: parts.rxe.clone(),
                id,
                home: parts.home,
                qp_type: parts.qp_type,
                service: parts.service,
                pd: parts.pd,
                binder: BinderId::new(),
                user: parts.mappings.is_some(),
                signal_all: parts.signal_all,
                has_srq: parts.has_srq(),
                cap,
                send_limits,
                events: parts.events,
                send_cq: parts.send_cq,
                recv_cq: parts.recv_cq,
                state: AtomicU32::new(QpState::Reset.as_raw()),
                outstanding_sends: AtomicU32::new(0),
                outstanding_recvs: AtomicU32::new(0),
                cq_overrun: AtomicBool::new(false),
                groups: AtomicU32::new(0),
                deferred_doorbell: Deferred::new(),
                scheduled: Scheduled::new(),
                flight,
                affinity: Affinity::new(parts.vector, id.number()),
                backlog <- Backlog::new(),
                engine <- new_spinlock_bh!(engine, "rxe_qp::engine"),
                posted_sends <- new_spinlock_irq!(posted_sends, "rxe_qp::posted_sends"),
                posted_recvs <- new_spinlock_irq!(posted_recvs, "rxe_qp::posted_recvs"),
                attr <- new_mutex!(Attr::new(parts.home), "rxe_qp::attr"),
                work <- new_work!("rxe_qp::work"),
                faults <- Faults::new(),
                fault_work <- new_work!("rxe_qp::fault_work"),
                timer <- Timer::new(),
        }));
        Ok(qp.into())
    }
}
