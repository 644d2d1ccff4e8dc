// SPDX-License-Identifier: GPL-2.0

//! Queue pairs: making, changing and destroying them; and shared ones.
//!
//! What a queue pair uses is counted by who makes it: here for clients in the kernel, in `ib_uverbs` for user space
//! (`ib_qp_usecnt_inc`). An XRC target queue pair is shared: who makes it gets a handle, as does who opens it; it is destroyed
//! with the last handle.

use kernel::{ffi::c_int, prelude::*};
use kernel_ext::{bindings as c, error::EOPNOTSUPP, export::export};
use rdma::{
    view::{
        object::{Fresh, Made, Owned, UdataView, UseCount},
        qp::{Caller, Path, QpAttr, QpInit, QpOpen, UqpObject},
        AttrBundle, Device, Pd, Qp, Xrcd,
    },
    MaySleep,
};

use super::ah;
use crate::{
    counters,
    registry::printk,
    restrack::track,
    verbs::{lag, qp_state, rw},
};

/// PSNs have so many bits.
const PSN_MASK: u32 = 0xff_ffff;

/// Counts for all that a queue pair uses.
fn count_uses(qp: &Qp, count: fn(UseCount<'_>)) {
    let uses = [
        qp.pd().map(|pd| pd.uses()),
        qp.send_cq().map(|cq| cq.uses()),
        qp.recv_cq().map(|cq| cq.uses()),
        qp.srq().map(|srq| srq.uses()),
        qp.rwq_ind_tbl().map(|table| table.uses()),
    ];
    uses.into_iter().flatten().for_each(count);
}

/// Who makes a queue pair.
struct Creator<'a> {
    bundle: Option<&'a AttrBundle>,
    uobject: Option<&'a UqpObject>,
    caller: Caller,
}

fn create(
    device: &Device,
    pd: Option<&Pd>,
    init: &QpInit,
    creator: &Creator<'_>,
    sleep: &MaySleep,
) -> Result<Owned<Qp>> {
    if !device.has_create_qp() {
        return Err(EOPNOTSUPP);
    }
    let qp = Fresh::new_qp(device, pd, init, creator.uobject, sleep)?;
    track::begin(&qp, c::RDMA_RESTRACK_QP, creator.caller);
    let udata = creator.bundle.map(AttrBundle::driver_udata);
    let qp = qp
        .driver_create(init, udata, sleep)
        .map_err(track::discard)?;
    // SAFETY: The driver has just created the queue pair.
    unsafe { qp.restore_cqs(init) };
    track::add(&qp);
    Ok(qp)
}

/// Makes a queue pair shared, and opens its first handle.
fn share(qp: Owned<Qp>, init: &QpInit, sleep: &MaySleep) -> Result<Owned<Qp>> {
    let xrcd = init.xrcd();
    qp.make_shared(xrcd);
    let opened = qp.open(init.handlers(), sleep).and_then(|handle| {
        if let Err(error) = xrcd.publish(&qp, sleep) {
            handle.close()?;
            return Err(error);
        }
        Ok(handle)
    });
    match opened {
        Ok(handle) => {
            // From now on the handles own it.
            let _ = qp.into_raw();
            Ok(handle)
        }
        Err(error) => {
            destroy_shared(qp, sleep);
            Err(error)
        }
    }
}

/// Destroys a queue pair that has no handle.
fn destroy_shared(qp: Owned<Qp>, sleep: &MaySleep) {
    match destroy_real(qp, None, sleep) {
        Ok(memory) => {
            if let Some(xrcd) = memory.xrcd() {
                // SAFETY: The queue pair, which was counted when it was made, is destroyed.
                unsafe { xrcd.uses().dec() };
            }
        }
        Err(error) => pr_warn!("a shared queue pair stays: {}\n", error.to_errno()),
    }
}

fn create_user(
    device: &Device,
    pd: Option<&Pd>,
    init: &QpInit,
    bundle: Option<&AttrBundle>,
    uobject: Option<&UqpObject>,
    caller: Caller,
    sleep: &MaySleep,
) -> Result<Owned<Qp>> {
    if init.kind() != c::IB_QPT_XRC_TGT {
        let creator = Creator {
            bundle,
            uobject,
            caller: Caller::PROCESS,
        };
        return create(device, pd, init, &creator, sleep);
    }
    let creator = Creator {
        bundle: None,
        uobject: None,
        caller,
    };
    let handle = share(create(device, pd, init, &creator, sleep)?, init, sleep)?;
    handle.set_uobject(uobject);
    Ok(handle)
}

fn create_kernel(pd: &Pd, init: &QpInit, caller: Caller, sleep: &MaySleep) -> Result<Owned<Qp>> {
    let device = pd.device();
    let uses_rw = init.max_rdma_ctxs() != 0;
    if uses_rw {
        rw::make_room(device, init);
    }
    let creator = Creator {
        bundle: None,
        uobject: None,
        caller,
    };
    let qp = create(device, Some(pd), init, &creator, sleep)?;
    count_uses(&qp, |uses| uses.inc());
    if uses_rw {
        if let Err(error) = rw::fill_pools(&qp, init, sleep) {
            let _ = destroy(qp, None, sleep);
            return Err(error);
        }
    }
    let max_sge_rd = u32::try_from(device.attrs().max_sge_rd).unwrap_or(0);
    let sges = init.max_send_sge();
    qp.set_limits(sges, sges.min(max_sge_rd), init.wants_integrity());
    Ok(qp)
}

/// Destroys a queue pair that the driver knows. Returns its memory, where what it used is still named.
fn destroy_real(qp: Owned<Qp>, udata: Option<&UdataView>, sleep: &MaySleep) -> Result<Fresh<Qp>> {
    let qp = track::destroy(qp, sleep, |qp| {
        if !qp.is_of_user() {
            rw::empty_pools(&qp, sleep);
        }
        counters::release(&qp, sleep);
        qp.driver_destroy(udata, sleep)
    })?;
    qp.set_source(Path::Alternate, None);
    qp.set_source(Path::Primary, None);
    // SAFETY: The queue pair, which `create` has counted, is destroyed.
    count_uses(&qp, |uses| unsafe { uses.dec() });
    Ok(qp)
}

fn destroy(qp: Owned<Qp>, udata: Option<&UdataView>, sleep: &MaySleep) -> Result {
    if qp.mrs_used() > 0 {
        kernel::pr_warn_once!("a queue pair goes while regions of its pools are lent\n");
    }
    if qp.uses().is_used() {
        return Err(EBUSY);
    }
    if !qp.is_handle() {
        destroy_real(qp, udata, sleep)?;
        return Ok(());
    }
    if let Some(real) = qp.close_shared(sleep)? {
        destroy_shared(real, sleep);
    }
    Ok(())
}

/// Whether queue pairs of a type have a path of their own.
fn is_connected(kind: u32) -> bool {
    matches!(
        kind,
        c::IB_QPT_UC | c::IB_QPT_RC | c::IB_QPT_XRC_INI | c::IB_QPT_XRC_TGT
    )
}

/// A change of a queue pair.
struct Change<'a> {
    qp: &'a Qp,
    mask: u32,
    udata: Option<&'a UdataView>,
    sleep: &'a MaySleep,
}

impl Change<'_> {
    fn has(&self, attr: u32) -> bool {
        self.mask & attr == attr
    }

    /// The port that the queue pair has afterwards.
    fn port(&self, attr: &QpAttr) -> u32 {
        if self.has(c::IB_QP_PORT) {
            attr.raw().port_num
        } else {
            self.qp.port()
        }
    }

    /// Completes the path, if there is one: a path from user space has no Ethernet address, and on a bond packets leave
    /// by one of its devices.
    fn with_path(&self, attr: &mut QpAttr) -> Result {
        attr.set_slave(None);
        if !self.has(c::IB_QP_AV) {
            return self.with_alternate(attr);
        }
        let device = self.qp.device();
        ah::with_source(
            device,
            attr,
            |attr| attr.vector(Path::Primary),
            |attr| {
                let vector = attr.vector(Path::Primary);
                let over_ethernet = vector.raw().type_ == c::RDMA_AH_ATTR_TYPE_ROCE;
                if !over_ethernet || !is_connected(self.qp.kind()) {
                    return self.with_alternate(attr);
                }
                if self.udata.is_some() {
                    ah::resolve(vector, self.sleep)?;
                }
                let slave = lag::slave_for(device, vector, Some(self.sleep))?;
                attr.set_slave(slave.as_ref());
                let result = self.with_alternate(attr);
                attr.set_slave(None);
                result
            },
        )
    }

    /// Completes the alternate path, if there is one: between ports of InfiniBand alone.
    fn with_alternate(&self, attr: &mut QpAttr) -> Result {
        if !self.has(c::IB_QP_ALT_PATH) {
            return self.complete(attr);
        }
        let device = self.qp.device();
        ah::with_source(
            device,
            attr,
            |attr| attr.vector(Path::Alternate),
            |attr| {
                let alternate = attr.raw().alt_ah_attr.port_num;
                if !device.is_ib(alternate) || !device.is_ib(self.port(attr)) {
                    return Err(EINVAL);
                }
                self.complete(attr)
            },
        )
    }

    /// Cuts PSNs off to what there is on the wire.
    fn limit_psns(&self, attr: &mut QpAttr) {
        let device = self.qp.device();
        let port = self.port(attr);
        if !device.is_ib(port) && !device.is_roce(port) {
            return;
        }
        let cut = |name: &str, mask: u32, psn: u32| {
            if !self.has(mask) || psn <= PSN_MASK {
                return psn;
            }
            printk::warn(device, fmt!("{name} overflow, masking to 24 bits\n"));
            psn & PSN_MASK
        };
        let rq_psn = cut("rq_psn", c::IB_QP_RQ_PSN, attr.raw().rq_psn);
        let sq_psn = cut("sq_psn", c::IB_QP_SQ_PSN, attr.raw().sq_psn);
        attr.set_psns(rq_psn, sq_psn);
    }

    /// Lets the driver change the queue pair, and keeps what the core knows of it.
    fn complete(&self, attr: &mut QpAttr) -> Result {
        self.limit_psns(attr);
        let qp = self.qp;
        if self.has(c::IB_QP_PORT | c::IB_QP_STATE) && attr.raw().qp_state == c::IB_QPS_INIT {
            // Without a counter of its own it counts for the port.
            let _ = counters::bind_auto(qp, attr.raw().port_num, self.sleep);
        }
        qp.driver_modify(attr, self.mask as c_int, self.udata, self.sleep)?;
        if self.has(c::IB_QP_PORT) {
            qp.set_port(attr.raw().port_num);
        }
        if self.has(c::IB_QP_AV) {
            qp.set_source(Path::Primary, attr.vector(Path::Primary).route_source());
        }
        if self.has(c::IB_QP_ALT_PATH) {
            let source = attr.vector(Path::Alternate).route_source();
            qp.set_source(Path::Alternate, source);
        }
        Ok(())
    }
}

/// Changes a queue pair; `mask` is `enum ib_qp_attr_mask`.
///
/// # Errors
///
/// `EINVAL` for paths that the device cannot have, `EOPNOTSUPP`, and what the driver answers.
pub(crate) fn modify(
    qp: &Qp,
    attr: &mut QpAttr,
    mask: c_int,
    udata: Option<&UdataView>,
    sleep: &MaySleep,
) -> Result {
    let change = Change {
        qp: qp.real(),
        mask: mask as u32,
        udata,
        sleep,
    };
    change.with_path(attr)
}

/// Asks what a queue pair is like; `mask` is `enum ib_qp_attr_mask`.
///
/// # Errors
///
/// `EOPNOTSUPP`, and what the driver answers.
pub(crate) fn query(
    qp: &Qp,
    attr: &mut QpAttr,
    mask: c_int,
    init: &mut c::ib_qp_init_attr,
    sleep: &MaySleep,
) -> Result {
    attr.forget_sources();
    qp.real().driver_query(attr, mask, init, sleep)
}

/// Makes a queue pair for user space. What it uses is not counted. Process context.
///
/// # Errors
///
/// `EOPNOTSUPP`, `ENOMEM`, and what the driver answers.
#[export]
fn ib_create_qp_user(
    dev: &Device,
    pd: Option<&Pd>,
    attr: &QpInit,
    uattrs: Option<&AttrBundle>,
    uobj: Option<&UqpObject>,
    caller: Caller,
    sleep: &MaySleep,
) -> Made<Qp> {
    Made(create_user(dev, pd, attr, uattrs, uobj, caller, sleep))
}

/// Makes a queue pair for a client in the kernel; with room for the RW API, where it asks for that. Process context.
///
/// # Errors
///
/// `EOPNOTSUPP`, `ENOMEM`, and what the driver answers.
#[export]
fn ib_create_qp_kernel(pd: &Pd, attr: &QpInit, caller: Caller, sleep: &MaySleep) -> Made<Qp> {
    Made(create_kernel(pd, attr, caller, sleep))
}

/// Counts for all that a queue pair uses. Any context.
#[export]
fn ib_qp_usecnt_inc(qp: &Qp) {
    count_uses(qp, |uses| uses.inc());
}

/// Ends that. Any context.
#[export]
fn ib_qp_usecnt_dec(qp: &Qp) {
    // SAFETY: The header says that this ends what `ib_qp_usecnt_inc` began.
    count_uses(qp, |uses| unsafe { uses.dec() });
}

/// Changes a queue pair for user space. Finds the Ethernet address of the next hop. Process context.
///
/// # Errors
///
/// As for `ib_modify_qp`; `ETIMEDOUT`, `EHOSTUNREACH` … where the destination cannot be reached.
#[export]
fn ib_modify_qp_with_udata(
    qp: &Qp,
    attr: &mut QpAttr,
    attr_mask: c_int,
    udata: Option<&UdataView>,
    sleep: &MaySleep,
) -> Result {
    modify(qp, attr, attr_mask, udata, sleep)
}

/// Changes a queue pair for a client in the kernel, which gives complete paths. Process context.
///
/// # Errors
///
/// `EINVAL` for paths that the device cannot have, `EOPNOTSUPP`, and what the driver answers.
#[export]
fn ib_modify_qp(qp: &Qp, attr: &mut QpAttr, attr_mask: c_int, sleep: &MaySleep) -> Result {
    modify(qp, attr, attr_mask, None, sleep)
}

/// For drivers: whether a queue pair of a type may go from a state to another one, with a set of attributes. Any context.
#[export]
fn ib_modify_qp_is_ok(
    cur_state: c::ib_qp_state,
    next_state: c::ib_qp_state,
    kind: c::ib_qp_type,
    mask: c::ib_qp_attr_mask,
) -> bool {
    qp_state::is_ok(cur_state, next_state, kind, mask)
}

// The table has numbers of its own: they are those of the header.
const _: () = {
    use qp_state::{attr, kind, state};
    assert!(state::RESET == c::IB_QPS_RESET && state::INIT == c::IB_QPS_INIT);
    assert!(state::RTR == c::IB_QPS_RTR && state::RTS == c::IB_QPS_RTS);
    assert!(state::SQD == c::IB_QPS_SQD && state::SQE == c::IB_QPS_SQE);
    assert!(state::ERR == c::IB_QPS_ERR);
    assert!(kind::SMI == c::IB_QPT_SMI && kind::GSI == c::IB_QPT_GSI);
    assert!(kind::RC == c::IB_QPT_RC && kind::UC == c::IB_QPT_UC && kind::UD == c::IB_QPT_UD);
    assert!(kind::RAW_PACKET == c::IB_QPT_RAW_PACKET);
    assert!(kind::XRC_INI == c::IB_QPT_XRC_INI && kind::XRC_TGT == c::IB_QPT_XRC_TGT);
    assert!(attr::STATE == c::IB_QP_STATE && attr::CUR_STATE == c::IB_QP_CUR_STATE);
    assert!(attr::EN_SQD_ASYNC_NOTIFY == c::IB_QP_EN_SQD_ASYNC_NOTIFY);
    assert!(attr::ACCESS_FLAGS == c::IB_QP_ACCESS_FLAGS && attr::PORT == c::IB_QP_PORT);
    assert!(attr::PKEY_INDEX == c::IB_QP_PKEY_INDEX && attr::QKEY == c::IB_QP_QKEY);
    assert!(attr::AV == c::IB_QP_AV && attr::PATH_MTU == c::IB_QP_PATH_MTU);
    assert!(attr::TIMEOUT == c::IB_QP_TIMEOUT && attr::RETRY_CNT == c::IB_QP_RETRY_CNT);
    assert!(attr::RNR_RETRY == c::IB_QP_RNR_RETRY && attr::RQ_PSN == c::IB_QP_RQ_PSN);
    assert!(attr::MAX_QP_RD_ATOMIC == c::IB_QP_MAX_QP_RD_ATOMIC);
    assert!(attr::ALT_PATH == c::IB_QP_ALT_PATH && attr::SQ_PSN == c::IB_QP_SQ_PSN);
    assert!(attr::MIN_RNR_TIMER == c::IB_QP_MIN_RNR_TIMER);
    assert!(attr::MAX_DEST_RD_ATOMIC == c::IB_QP_MAX_DEST_RD_ATOMIC);
    assert!(attr::PATH_MIG_STATE == c::IB_QP_PATH_MIG_STATE);
    assert!(attr::DEST_QPN == c::IB_QP_DEST_QPN && attr::RATE_LIMIT == c::IB_QP_RATE_LIMIT);
};

/// Asks what a queue pair is like. Process context.
///
/// # Errors
///
/// `EOPNOTSUPP`, and what the driver answers.
#[export]
fn ib_query_qp(
    qp: &Qp,
    attr: &mut QpAttr,
    attr_mask: c_int,
    init_attr: &mut c::ib_qp_init_attr,
    sleep: &MaySleep,
) -> Result {
    query(qp, attr, attr_mask, init_attr, sleep)
}

/// Opens a handle of a shared queue pair of an XRC domain. Process context.
///
/// # Errors
///
/// `EINVAL` if there is no such queue pair, `ENOMEM`.
#[export]
fn ib_open_qp(xrcd: &Xrcd, attr: &QpOpen, sleep: &MaySleep) -> Made<Qp> {
    if attr.kind() != c::IB_QPT_XRC_TGT {
        return Made(Err(EINVAL));
    }
    let opened = xrcd.with_target(attr.qp_num(), sleep, |qp| qp.open(attr.handlers(), sleep));
    Made(opened.unwrap_or(Err(EINVAL)))
}

/// Closes a handle of a shared queue pair, which stays. Process context.
///
/// # Errors
///
/// `EINVAL` if it is no handle.
#[export]
fn ib_close_qp(qp: Owned<Qp>, _sleep: &MaySleep) -> Result {
    qp.close()
}

/// Destroys a queue pair; of a shared one, the handle: with the last one, the queue pair. Process context.
///
/// # Errors
///
/// `EBUSY` while it is used by multicast groups or flows, and what the driver answers: then the queue pair stays.
#[export]
fn ib_destroy_qp_user(qp: Owned<Qp>, udata: Option<&UdataView>, sleep: &MaySleep) -> Result {
    destroy(qp, udata, sleep)
}

#[kernel::prelude::kunit_tests(ib_core_qp_state)]
mod tests {
    use super::*;
    use qp_state::{attr, is_ok, kind, state};

    const STATES: [u32; 7] = [
        state::RESET,
        state::INIT,
        state::RTR,
        state::RTS,
        state::SQD,
        state::SQE,
        state::ERR,
    ];
    const KINDS: [u32; 5] = [kind::RC, kind::UC, kind::UD, kind::SMI, kind::GSI];

    #[test]
    fn from_everywhere_to_reset_and_from_all_but_reset_to_error() {
        for from in STATES {
            for kind in KINDS {
                assert!(is_ok(from, state::RESET, kind, attr::STATE));
                assert_eq!(
                    is_ok(from, state::ERR, kind, attr::STATE),
                    from != state::RESET
                );
            }
        }
    }

    #[test]
    fn nothing_else_comes_along_on_the_way_to_reset() {
        for bit in 1..32 {
            let mask = attr::STATE | 1 << bit;
            let ok = is_ok(state::RTS, state::RESET, kind::RC, mask);
            assert_eq!(ok, 1 << bit == attr::RATE_LIMIT);
        }
    }

    #[test]
    fn states_and_types_that_are_none() {
        for number in 7..64 {
            assert!(!is_ok(number, state::INIT, kind::RC, attr::STATE));
            assert!(!is_ok(state::INIT, number, kind::RC, attr::STATE));
        }
        assert!(!is_ok(u32::MAX, u32::MAX, u32::MAX, u32::MAX));
    }

    #[test]
    fn each_attribute_of_a_path_is_needed() {
        let whole = attr::STATE
            | attr::AV
            | attr::PATH_MTU
            | attr::DEST_QPN
            | attr::RQ_PSN
            | attr::MAX_DEST_RD_ATOMIC
            | attr::MIN_RNR_TIMER;
        assert!(is_ok(state::INIT, state::RTR, kind::RC, whole));
        for bit in 1..32 {
            if whole & 1 << bit != 0 {
                assert!(!is_ok(
                    state::INIT,
                    state::RTR,
                    kind::RC,
                    whole & !(1 << bit)
                ));
            }
        }
    }
}
