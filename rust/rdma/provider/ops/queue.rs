// SPDX-License-Identifier: GPL-2.0

//! The C entry points for address handles, CQs, QPs and SRQs.

use kernel::{
    error::from_result,
    ffi::{c_int, c_uint},
    prelude::*,
};
use rdma_bindings::{
    self as bindings, ib_ah, ib_cq, ib_cq_init_attr, ib_gid, ib_qp, ib_qp_attr, ib_qp_init_attr,
    ib_recv_wr, ib_send_wr, ib_srq, ib_srq_attr, ib_srq_init_attr, ib_udata, ib_wc, rdma_ah_attr,
    rdma_ah_init_attr, uverbs_attr_bundle,
};

use super::{errno, no_handler, not_null, ProviderOps};
use crate::{
    abi::{qp::QpAttrMask, srq::SrqAttrMask},
    provider::{
        ah::AhAttrOut,
        event::Events,
        qp::{QpAttrOut, QpInitOut},
        srq::SrqInitAttr,
    },
    Ah, AhAttr, Cq, CqHandle, CqInitAttr, Gid, MaySleep, NotifyFlags, Provider, Qp, QpInitAttr,
    QpModify, QpType, RecvWrs, SendWrs, Srq, Udata, WcSink,
};

impl<P: Provider> ProviderOps<P> {
    // Address handles.

    /// The C entry point of [`Provider::create_ah`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn create_ah(
        ah: *mut ib_ah,
        init: *mut rdma_ah_init_attr,
        udata: *mut ib_udata,
    ) -> c_int {
        const SLEEPABLE: u32 = bindings::RDMA_CREATE_AH_SLEEPABLE;
        // SAFETY: By the contract of the table; the flag promises a context that may sleep.
        errno(unsafe {
            Ah::create(
                ah,
                (),
                |ah| {
                    let may_sleep = (*init).flags & SLEEPABLE != 0;
                    let sleep = may_sleep.then(|| MaySleep::assume());
                    let attr = AhAttr::from_raw(&*(*init).ah_attr);
                    let udata = Udata::from_raw(udata).filter(|_| may_sleep);
                    P::create_ah(ah, &attr, udata.as_ref(), sleep.as_ref())
                },
                no_handler,
            )
        })
    }

    /// The C entry point of [`Provider::modify_ah`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn modify_ah(ah: *mut ib_ah, attr: *mut rdma_ah_attr) -> c_int {
        // SAFETY: By the contract of the table.
        let (ah, attr) = unsafe { (Ah::from_raw(ah), AhAttr::from_raw(&*attr)) };
        errno(P::modify_ah(ah, &attr))
    }

    /// The C entry point of [`Provider::query_ah`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn query_ah(ah: *mut ib_ah, attr: *mut rdma_ah_attr) -> c_int {
        // SAFETY: By the contract of the table.
        let (ah, mut out) = unsafe { (Ah::from_raw(ah), AhAttrOut::new(attr)) };
        errno(P::query_ah(ah).map(|fields| out.set(&fields)))
    }

    /// The C entry point of [`Provider::destroy_ah`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn destroy_ah(ah: *mut ib_ah, flags: u32) -> c_int {
        const SLEEPABLE: u32 = bindings::RDMA_DESTROY_AH_SLEEPABLE;
        let release = |ah: &Ah<P>| {
            if !P::HAS_DESTROY_AH {
                return Ok(());
            }
            // SAFETY: By the contract of the table the flag promises a context that may sleep.
            let sleep = (flags & SLEEPABLE != 0).then(|| unsafe { MaySleep::assume() });
            P::destroy_ah(ah, sleep.as_ref())
        };
        // SAFETY: By the contract of the table.
        errno(unsafe { Ah::<P>::destroy(ah, release, no_handler) })
    }

    // Completion queues.

    /// The C entry point of [`Provider::create_cq`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn create_cq(
        cq: *mut ib_cq,
        attr: *const ib_cq_init_attr,
        attrs: *mut uverbs_attr_bundle,
    ) -> c_int {
        // SAFETY: By the contract of the table. `driver_udata` is the first member of the bundle.
        errno((|| unsafe {
            let handle = CqHandle::new(not_null(cq)?)?;
            Cq::create(
                cq,
                handle.clone(),
                |cq| {
                    let attr = CqInitAttr::from_raw(&*attr);
                    let udata = Udata::from_raw(attrs.cast());
                    P::create_cq(cq, &attr, handle, udata.as_ref(), &MaySleep::assume())
                },
                |handle| handle.close(),
            )
        })())
    }

    /// The C entry point of [`Provider::resize_cq`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn resize_user_cq(
        cq: *mut ib_cq,
        cqe: c_uint,
        udata: *mut ib_udata,
    ) -> c_int {
        // SAFETY: By the contract of the table.
        let (cq, udata, sleep) =
            unsafe { (Cq::from_raw(cq), Udata::from_raw(udata), MaySleep::assume()) };
        errno(
            udata
                .ok_or(EINVAL)
                .and_then(|udata| P::resize_cq(cq, cqe, &udata, &sleep)),
        )
    }

    /// The C entry point of [`Provider::modify_cq`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn modify_cq(cq: *mut ib_cq, count: u16, period: u16) -> c_int {
        // SAFETY: By the contract of the table.
        let (cq, sleep) = unsafe { (Cq::from_raw(cq), MaySleep::assume()) };
        errno(P::modify_cq(cq, count, period, &sleep))
    }

    /// Prevents further calls of a kernel CQ's completion handler, before the core cancels the work
    /// item that the handler queues.
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn pre_destroy_cq(cq: *mut ib_cq) -> c_int {
        // SAFETY: By the contract of the table.
        let cq = unsafe { Cq::<P>::from_raw(cq) };
        cq.handle().close_completion();
        0
    }

    /// The C entry point of [`Provider::destroy_cq`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn destroy_cq(cq: *mut ib_cq, _udata: *mut ib_udata) -> c_int {
        let release = |cq: &Cq<P>| {
            if !P::HAS_DESTROY_CQ {
                return Ok(());
            }
            // SAFETY: By the contract of the table.
            P::destroy_cq(cq, unsafe { &MaySleep::assume() })
        };
        // SAFETY: By the contract of the table.
        errno(unsafe { Cq::<P>::destroy(cq, release, |handle| handle.close()) })
    }

    /// The C entry point of [`Provider::poll_cq`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn poll_cq(cq: *mut ib_cq, count: c_int, wc: *mut ib_wc) -> c_int {
        let room = usize::try_from(count).unwrap_or(0);
        // SAFETY: By the contract of the table.
        let (cq, mut out) = unsafe { (Cq::from_raw(cq), WcSink::new(wc, room)) };
        match P::poll_cq(cq, &mut out) {
            Err(err) if out.written() == 0 => err.to_errno(),
            _ => out.written() as c_int,
        }
    }

    /// The C entry point of [`Provider::peek_cq`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn peek_cq(cq: *mut ib_cq, count: c_int) -> c_int {
        // SAFETY: By the contract of the table.
        let cq = unsafe { Cq::from_raw(cq) };
        let most = u32::try_from(count).unwrap_or(0);
        from_result(|| Ok(P::peek_cq(cq, most)? as c_int))
    }

    /// The C entry point of [`Provider::req_notify_cq`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn req_notify_cq(
        cq: *mut ib_cq,
        flags: bindings::ib_cq_notify_flags,
    ) -> c_int {
        // SAFETY: By the contract of the table.
        let cq = unsafe { Cq::from_raw(cq) };
        from_result(|| Ok(P::req_notify_cq(cq, NotifyFlags::from_bits(flags))?.into()))
    }

    // Queue pairs.

    /// The C entry point of [`Provider::create_qp`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn create_qp(
        qp: *mut ib_qp,
        init: *mut ib_qp_init_attr,
        udata: *mut ib_udata,
    ) -> c_int {
        // SAFETY: By the contract of the table.
        errno((|| unsafe {
            let handle = Events::new(not_null(qp)?)?;
            Qp::create(
                qp,
                handle.clone(),
                |qp| {
                    let mut init = QpInitAttr::from_raw(&mut *init);
                    let udata = Udata::from_raw(udata);
                    P::create_qp(qp, &mut init, handle, udata.as_ref(), &MaySleep::assume())
                },
                |handle| handle.close(),
            )
        })())
    }

    /// The C entry point of [`Provider::modify_qp`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn modify_qp(
        qp: *mut ib_qp,
        attr: *mut ib_qp_attr,
        mask: c_int,
        udata: *mut ib_udata,
    ) -> c_int {
        // SAFETY: By the contract of the table.
        let (qp, change, udata, sleep) = unsafe {
            let change = QpModify::from_raw(&*attr, mask as u32);
            (
                Qp::from_raw(qp),
                change,
                Udata::from_raw(udata),
                MaySleep::assume(),
            )
        };
        errno(change.and_then(|change| P::modify_qp(qp, &change, udata.as_ref(), &sleep)))
    }

    /// The C entry point of [`Provider::query_qp`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn query_qp(
        qp: *mut ib_qp,
        attr: *mut ib_qp_attr,
        mask: c_int,
        init: *mut ib_qp_init_attr,
    ) -> c_int {
        // SAFETY: By the contract of the table.
        let (qp, mut attr, mut init, sleep) = unsafe {
            let init = QpInitOut::new(&mut *init, qp);
            (
                Qp::from_raw(qp),
                QpAttrOut::new(&mut *attr),
                init,
                MaySleep::assume(),
            )
        };
        let mask = QpAttrMask::from_bits(mask as u32);
        errno(P::query_qp(qp, mask, &mut attr, &mut init, &sleep))
    }

    /// The C entry point of [`Provider::destroy_qp`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn destroy_qp(qp: *mut ib_qp, _udata: *mut ib_udata) -> c_int {
        let release = |qp: &Qp<P>| {
            if !P::HAS_DESTROY_QP {
                return Ok(());
            }
            // SAFETY: By the contract of the table.
            P::destroy_qp(qp, unsafe { &MaySleep::assume() })
        };
        // SAFETY: By the contract of the table.
        errno(unsafe { Qp::<P>::destroy(qp, release, |handle| handle.close()) })
    }

    /// The C entry point of [`Provider::post_send`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn post_send(
        qp: *mut ib_qp,
        wr: *const ib_send_wr,
        bad_wr: *mut *const ib_send_wr,
    ) -> c_int {
        // SAFETY: By the contract of the table.
        let qp = unsafe { Qp::<P>::from_raw(qp) };
        let qp_type = qp.base().qp_type().unwrap_or(QpType::Driver);
        // SAFETY: By the contract of the table; the type is that of the QP.
        let mut wrs = unsafe { SendWrs::new(wr, qp_type, qp.base().is_user()) };
        let posted = P::post_send(qp, &mut wrs);
        if posted.is_err() {
            // SAFETY: By the contract of the table.
            unsafe { bad_wr.write(wrs.bad()) };
        }
        errno(posted)
    }

    /// The C entry point of [`Provider::post_recv`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn post_recv(
        qp: *mut ib_qp,
        wr: *const ib_recv_wr,
        bad_wr: *mut *const ib_recv_wr,
    ) -> c_int {
        // SAFETY: By the contract of the table.
        let (qp, mut wrs) = unsafe { (Qp::from_raw(qp), RecvWrs::new(wr)) };
        let posted = P::post_recv(qp, &mut wrs);
        if posted.is_err() {
            // SAFETY: By the contract of the table.
            unsafe { bad_wr.write(wrs.bad()) };
        }
        errno(posted)
    }

    /// The C entry point of [`Provider::attach_mcast`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn attach_mcast(
        qp: *mut ib_qp,
        gid: *mut ib_gid,
        lid: u16,
    ) -> c_int {
        // SAFETY: By the contract of the table.
        let (qp, gid, sleep) =
            unsafe { (Qp::from_raw(qp), Gid::from_raw(&*gid), MaySleep::assume()) };
        errno(P::attach_mcast(qp, gid, lid, &sleep))
    }

    /// The C entry point of [`Provider::detach_mcast`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn detach_mcast(
        qp: *mut ib_qp,
        gid: *mut ib_gid,
        lid: u16,
    ) -> c_int {
        // SAFETY: By the contract of the table.
        let (qp, gid, sleep) =
            unsafe { (Qp::from_raw(qp), Gid::from_raw(&*gid), MaySleep::assume()) };
        errno(P::detach_mcast(qp, gid, lid, &sleep))
    }

    // Shared receive queues.

    /// The C entry point of [`Provider::create_srq`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn create_srq(
        srq: *mut ib_srq,
        init: *mut ib_srq_init_attr,
        udata: *mut ib_udata,
    ) -> c_int {
        // SAFETY: By the contract of the table.
        errno((|| unsafe {
            let handle = Events::new(not_null(srq)?)?;
            Srq::create(
                srq,
                handle.clone(),
                |srq| {
                    let mut init = SrqInitAttr::from_raw(&mut *init);
                    let udata = Udata::from_raw(udata);
                    P::create_srq(srq, &mut init, handle, udata.as_ref(), &MaySleep::assume())
                },
                |handle| handle.close(),
            )
        })())
    }

    /// The C entry point of [`Provider::modify_srq`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn modify_srq(
        srq: *mut ib_srq,
        attr: *mut ib_srq_attr,
        mask: bindings::ib_srq_attr_mask,
        udata: *mut ib_udata,
    ) -> c_int {
        // SAFETY: By the contract of the table.
        let (srq, attr, udata, sleep) = unsafe {
            (
                Srq::from_raw(srq),
                &*attr,
                Udata::from_raw(udata),
                MaySleep::assume(),
            )
        };
        let mask = SrqAttrMask::from_bits(mask);
        errno(P::modify_srq(srq, attr, mask, udata.as_ref(), &sleep))
    }

    /// The C entry point of [`Provider::query_srq`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn query_srq(srq: *mut ib_srq, attr: *mut ib_srq_attr) -> c_int {
        // SAFETY: By the contract of the table.
        let (srq, sleep) = unsafe { (Srq::from_raw(srq), MaySleep::assume()) };
        // SAFETY: By the contract of the table.
        errno(P::query_srq(srq, &sleep).map(|value| unsafe { attr.write(value) }))
    }

    /// The C entry point of [`Provider::destroy_srq`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn destroy_srq(srq: *mut ib_srq, _udata: *mut ib_udata) -> c_int {
        let release = |srq: &Srq<P>| {
            if !P::HAS_DESTROY_SRQ {
                return Ok(());
            }
            // SAFETY: By the contract of the table.
            P::destroy_srq(srq, unsafe { &MaySleep::assume() })
        };
        // SAFETY: By the contract of the table.
        errno(unsafe { Srq::<P>::destroy(srq, release, |handle| handle.close()) })
    }

    /// The C entry point of [`Provider::post_srq_recv`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn post_srq_recv(
        srq: *mut ib_srq,
        wr: *const ib_recv_wr,
        bad_wr: *mut *const ib_recv_wr,
    ) -> c_int {
        // SAFETY: By the contract of the table.
        let (srq, mut wrs) = unsafe { (Srq::from_raw(srq), RecvWrs::new(wr)) };
        let posted = P::post_srq_recv(srq, &mut wrs);
        if posted.is_err() {
            // SAFETY: By the contract of the table.
            unsafe { bad_wr.write(wrs.bad()) };
        }
        errno(posted)
    }
}
