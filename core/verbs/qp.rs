// SPDX-License-Identifier: GPL-2.0

//! Queue pairs: creation, modification, destruction; shared XRC queue pairs.
//!
//! The creator of a queue pair counts the uses of other objects: this file for kernel clients, `ib_uverbs` for user
//! space (`ib_qp_usecnt_inc`). An XRC target queue pair is shared: creating and opening it return handles, and it is
//! destroyed with the last handle.
//!
//! C header: `include/rdma/ib_verbs.h` (`struct ib_qp`).

use kernel::{ffi::c_int, prelude::*};
use kernel_ext::{bindings as c, compat::limit::Limit, error::EOPNOTSUPP, export::export};
use rdma::{
    core::{
        object::{Fresh, Owned, OwnedOrErr, UdataView},
        qp::{Caller, Path, QpAttrArg, QpChange, QpInit, QpInitMut, QpMaskArg, QpOpen, UqpObject},
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

/// Mask of a PSN.
const PSN_MASK: u32 = 0xff_ffff;

/// The creator of a queue pair.
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
    let mut qp = Fresh::new_qp(device, pd, init, creator.uobject, sleep)?;
    if !qp.is_of_one_device() {
        return Err(EINVAL);
    }
    track::set_owner(&mut qp, creator.caller);
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
fn share(mut qp: Owned<Qp>, xrcd: &Xrcd, init: &QpInit, sleep: &MaySleep) -> Result<Owned<Qp>> {
    qp.make_shared(xrcd);
    let handle = match qp.open(init.handlers(), sleep) {
        Ok(handle) => handle,
        Err(error) => {
            destroy_shared(qp, sleep);
            return Err(error);
        }
    };
    if let Err(failed) = Xrcd::publish(qp, sleep) {
        handle.close()?;
        destroy_shared(failed.object, sleep);
        return Err(failed.error);
    }
    Ok(handle)
}

/// Destroys a shared queue pair without handles.
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
    let xrcd = init.xrcd().ok_or(EINVAL)?;
    let qp = create(device, pd, init, &creator, sleep)?;
    let mut handle = share(qp, xrcd, init, sleep)?;
    handle.set_uobject(uobject);
    Ok(handle)
}

fn create_kernel(
    pd: &Pd,
    mut init: QpInitMut<'_>,
    caller: Caller,
    sleep: &MaySleep,
) -> Result<Owned<Qp>> {
    let device = pd.device();
    let uses_rw = init.max_rdma_ctxs() != 0;
    if uses_rw {
        rw::make_room(device, &mut init);
    }
    let creator = Creator {
        bundle: None,
        uobject: None,
        caller,
    };
    let mut qp = create(device, Some(pd), &init, &creator, sleep)?;
    qp.used().for_each(|uses| uses.inc());
    if uses_rw {
        if let Err(error) = rw::fill_pools(&qp, &init, sleep) {
            let _ = destroy(qp, None, sleep);
            return Err(error);
        }
    }
    let max_sge_rd = device.attrs().max_sge_rd.most();
    let sges = init.max_send_sge();
    qp.set_limits(sges, sges.min(max_sge_rd), init.wants_integrity());
    Ok(qp)
}

/// Destroys a queue pair in the driver. Returns its memory, which still refers to the objects that it used.
fn destroy_real(qp: Owned<Qp>, udata: Option<&UdataView>, sleep: &MaySleep) -> Result<Fresh<Qp>> {
    let mut qp = track::destroy(qp, sleep, |qp| {
        if !qp.is_of_user() {
            rw::empty_pools(&qp, sleep);
        }
        counters::release(&qp, sleep);
        qp.driver_destroy(udata, sleep)
    })?;
    qp.set_source(Path::Alternate, None);
    qp.set_source(Path::Primary, None);
    // SAFETY: The queue pair, which `create` has counted, is destroyed.
    qp.used().for_each(|uses| unsafe { uses.dec() });
    qp.release_comp_cntrs();
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

/// Whether queue pairs of a type have an address vector.
fn is_connected(kind: u32) -> bool {
    matches!(
        kind,
        c::IB_QPT_UC | c::IB_QPT_RC | c::IB_QPT_XRC_INI | c::IB_QPT_XRC_TGT
    )
}

/// Whether connections through a port may have an alternate path.
fn migrates(device: &Device, port: u32) -> bool {
    let flags = device.attrs().device_cap_flags;
    device.is_ib(port) || (device.is_roce(port) && flags & c::IB_DEVICE_AUTO_PATH_MIG as u64 != 0)
}

/// A modification of a queue pair; `udata` is set if user space requests it.
struct Change<'a> {
    qp: &'a Qp,
    udata: Option<&'a UdataView>,
    sleep: &'a MaySleep,
}

impl Change<'_> {
    /// The port of the queue pair after the modification.
    fn port(&self, attr: &QpChange<'_>) -> u32 {
        if attr.has(c::IB_QP_PORT) {
            attr.raw().port_num
        } else {
            self.qp.port()
        }
    }

    /// Completes the address vector, if there is one: resolves the Ethernet address of user space's vector, and selects
    /// the port of a bond.
    fn with_path(&self, attr: &mut QpChange<'_>) -> Result {
        let device = self.qp.device();
        ah::with_source(
            device,
            attr,
            |attr| attr.vector(Path::Primary),
            |attr| {
                let Some(vector) = attr.vector(Path::Primary) else {
                    return attr.with_slave(None, |attr| self.with_alternate(attr));
                };
                let over_ethernet = vector.raw().type_ == c::RDMA_AH_ATTR_TYPE_ROCE;
                if !over_ethernet || !is_connected(self.qp.kind()) {
                    return attr.with_slave(None, |attr| self.with_alternate(attr));
                }
                if self.udata.is_some() {
                    ah::resolve(vector, self.sleep)?;
                }
                let slave = lag::slave_for(device, vector, Some(self.sleep))?;
                attr.with_slave(slave.as_ref(), |attr| self.with_alternate(attr))
            },
        )
    }

    /// Completes the alternate path, if there is one, like the primary one. It is supported on InfiniBand ports, and on RoCE ports of
    /// devices that say that they migrate.
    fn with_alternate(&self, attr: &mut QpChange<'_>) -> Result {
        let device = self.qp.device();
        ah::with_source(
            device,
            attr,
            |attr| attr.vector(Path::Alternate),
            |attr| {
                let port = self.port(attr);
                if let Some(alternate) = attr.vector(Path::Alternate) {
                    let other = alternate.raw().port_num;
                    if ![port, other].iter().all(|&port| migrates(device, port)) {
                        return Err(EINVAL);
                    }
                    let over_ethernet = alternate.raw().type_ == c::RDMA_AH_ATTR_TYPE_ROCE;
                    if over_ethernet && self.udata.is_some() {
                        ah::resolve(alternate, self.sleep)?;
                    }
                }
                self.complete(attr)
            },
        )
    }

    /// Truncates PSNs to 24 bits.
    fn limit_psns(&self, attr: &mut QpChange<'_>) {
        let device = self.qp.device();
        let port = self.port(attr);
        if !device.is_ib(port) && !device.is_roce(port) {
            return;
        }
        let cut = |name: &str, mask: u32, psn: u32| {
            if !attr.has(mask) || psn <= PSN_MASK {
                return psn;
            }
            printk::warn(device, fmt!("{name} overflow, masking to 24 bits\n"));
            psn & PSN_MASK
        };
        let rq_psn = cut("rq_psn", c::IB_QP_RQ_PSN, attr.raw().rq_psn);
        let sq_psn = cut("sq_psn", c::IB_QP_SQ_PSN, attr.raw().sq_psn);
        attr.set_psns(rq_psn, sq_psn);
    }

    /// Calls the driver, and updates the core's copy of the attributes.
    fn complete(&self, attr: &mut QpChange<'_>) -> Result {
        self.limit_psns(attr);
        let qp = self.qp;
        if attr.has(c::IB_QP_PORT | c::IB_QP_STATE) && attr.raw().qp_state == c::IB_QPS_INIT {
            // If this fails, the queue pair is included in the counters of the port only.
            let _ = counters::bind_auto(qp, attr.raw().port_num, self.sleep);
        }
        qp.driver_modify(attr, self.udata, self.sleep)?;
        if attr.has(c::IB_QP_PORT) {
            qp.set_port(attr.raw().port_num);
        }
        for path in [Path::Primary, Path::Alternate] {
            if let Some(vector) = attr.vector(path) {
                qp.set_source(path, vector.route_source());
            }
        }
        Ok(())
    }
}

/// Modifies a queue pair.
///
/// # Errors
///
/// `EINVAL` for paths that are invalid for the device, `EOPNOTSUPP`, and errors of the driver.
pub(crate) fn modify(
    qp: &Qp,
    mut attr: QpChange<'_>,
    udata: Option<&UdataView>,
    sleep: &MaySleep,
) -> Result {
    let change = Change {
        qp: qp.real(),
        udata,
        sleep,
    };
    change.with_path(&mut attr)
}

/// Queries the attributes of a queue pair; `mask` is `enum ib_qp_attr_mask`.
///
/// # Errors
///
/// `EOPNOTSUPP`, and errors of the driver.
pub(crate) fn query(
    qp: &Qp,
    attr: &mut c::ib_qp_attr,
    mask: c_int,
    init: &mut c::ib_qp_init_attr,
    sleep: &MaySleep,
) -> Result {
    qp.real().driver_query(attr, mask, init, sleep)
}

/// Creates a queue pair for user space, without counting uses. Process context.
///
/// # Errors
///
/// `EINVAL` for a protection domain, a completion queue or a shared receive queue of another device, `EOPNOTSUPP`, `ENOMEM`, and
/// errors of the driver.
#[export]
fn ib_create_qp_user(
    dev: &Device,
    pd: Option<&Pd>,
    attr: &QpInit,
    uattrs: Option<&AttrBundle>,
    uobj: Option<&UqpObject>,
    caller: Caller,
    sleep: &MaySleep,
) -> OwnedOrErr<Qp> {
    OwnedOrErr(create_user(dev, pd, attr, uattrs, uobj, caller, sleep))
}

/// Creates a queue pair for a kernel client, with resources for the RW API if it asks for them. Process context.
///
/// # Errors
///
/// `EINVAL` for a protection domain, a completion queue or a shared receive queue of another device, `EOPNOTSUPP`, `ENOMEM`, and
/// errors of the driver.
#[export]
fn ib_create_qp_kernel(
    pd: &Pd,
    attr: QpInitMut<'_>,
    caller: Caller,
    sleep: &MaySleep,
) -> OwnedOrErr<Qp> {
    OwnedOrErr(create_kernel(pd, attr, caller, sleep))
}

/// Increments the use counts of all objects that a queue pair uses. Any context.
#[export]
fn ib_qp_usecnt_inc(qp: &Qp) {
    qp.used().for_each(|count| count.inc());
}

/// Decrements the use counts of all objects that a queue pair uses. Any context.
#[export]
fn ib_qp_usecnt_dec(qp: &Qp) {
    // SAFETY: The header says that this ends what `ib_qp_usecnt_inc` began.
    qp.used().for_each(|count| unsafe { count.dec() });
}

/// Modifies a queue pair for user space. Resolves the Ethernet address of the next hop. Process context.
///
/// # Errors
///
/// As for `ib_modify_qp`; `ETIMEDOUT`, or routing errors such as `EHOSTUNREACH`.
#[export]
fn ib_modify_qp_with_udata(
    qp: &Qp,
    attr: QpAttrArg<'_>,
    attr_mask: QpMaskArg<'_>,
    udata: Option<&UdataView>,
    sleep: &MaySleep,
) -> Result {
    modify(qp, attr.change(attr_mask), udata, sleep)
}

/// Modifies a queue pair for a kernel client, with complete address vectors. Process context.
///
/// # Errors
///
/// `EINVAL` for paths that are invalid for the device, `EOPNOTSUPP`, and errors of the driver.
#[export]
fn ib_modify_qp(
    qp: &Qp,
    attr: QpAttrArg<'_>,
    attr_mask: QpMaskArg<'_>,
    sleep: &MaySleep,
) -> Result {
    modify(qp, attr.change(attr_mask), None, sleep)
}

/// For drivers: whether a transition of a queue pair of a type is valid with a set of attributes. Any context.
#[export]
fn ib_modify_qp_is_ok(
    cur_state: c::ib_qp_state,
    next_state: c::ib_qp_state,
    kind: c::ib_qp_type,
    mask: c::ib_qp_attr_mask,
) -> bool {
    qp_state::is_ok(cur_state, next_state, kind, mask)
}

// The constants of the table equal those of the C header.
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

/// Queries the attributes of a queue pair. Process context.
///
/// # Errors
///
/// `EOPNOTSUPP`, and errors of the driver.
#[export]
fn ib_query_qp(
    qp: &Qp,
    attr: &mut c::ib_qp_attr,
    attr_mask: c_int,
    init_attr: &mut c::ib_qp_init_attr,
    sleep: &MaySleep,
) -> Result {
    query(qp, attr, attr_mask, init_attr, sleep)
}

/// Opens a handle of a shared queue pair in an XRC domain. Process context.
///
/// # Errors
///
/// `EINVAL` if the queue pair does not exist, `ENOMEM`.
#[export]
fn ib_open_qp(xrcd: &Xrcd, attr: &QpOpen, sleep: &MaySleep) -> OwnedOrErr<Qp> {
    if attr.kind() != c::IB_QPT_XRC_TGT {
        return OwnedOrErr(Err(EINVAL));
    }
    let opened = xrcd.with_target(attr.qp_num(), sleep, |qp| qp.open(attr.handlers(), sleep));
    OwnedOrErr(opened.unwrap_or(Err(EINVAL)))
}

/// Closes a handle of a shared queue pair, which is not destroyed. Process context.
///
/// # Errors
///
/// `EINVAL` if it is not a handle.
#[export]
fn ib_close_qp(qp: Owned<Qp>, _sleep: &MaySleep) -> Result {
    qp.close()
}

/// Destroys a queue pair, or a handle of a shared one, which is destroyed with its last handle. Process context.
///
/// # Errors
///
/// `EBUSY` while multicast groups or flows use it, and errors of the driver: the queue pair is then not destroyed.
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
