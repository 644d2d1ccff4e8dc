// SPDX-License-Identifier: GPL-2.0

//! The methods that a driver implements: `struct ib_device_ops`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::fmt;

use kernel::{error::VTABLE_DEFAULT_ERROR, prelude::*, sync::Arc};

use crate::{
    abi::{
        access::Access,
        ah::AhFields,
        cq::NotifyFlags,
        device::DeviceAttr,
        gid::GidAttr,
        mad::{MadInfo, MadResult},
        mr::{Advice, AdviseFlags, MrType},
        port::{LinkLayer, PortAttr, PortImmutable, PortModify, PortModifyMask},
        qp::QpAttrMask,
        srq::{SrqAttr, SrqAttrMask},
    },
    provider::{
        ah::{Ah, AhAttr, AhBase},
        cq::{Cq, CqBase, CqHandle, CqInitAttr},
        data::ProviderData,
        device::DeviceModify,
        mr::{Mr, Mw, MwBase, NewMr, Rereg, SgList, UserMr},
        object::PdBase,
        qp::{Qp, QpAttrOut, QpBase, QpInitAttr, QpInitOut, QpModify},
        srq::{Srq, SrqBase, SrqInitAttr},
        stats::{HwStats, StatDesc},
        sysfs::AttributeGroup,
        ucontext::{Ucontext, UcontextBase},
    },
    Device, Gid, MaySleep, Pd, QpHandle, RecvWrs, SendWrs, Sge, SrqHandle, Udata, VirtDma, Vma,
    WcSink,
};

/// A kind of RDMA device.
///
/// Implement it with `#[vtable]`. A method that is not implemented is absent for the core.
/// The core wants those that have no default here, and those marked "kernel verbs" for a device
/// that clients in the kernel may use.
///
/// # Laws of the midlayer
///
/// * All methods may run at once, with each other and with themselves. The core serialises
///   little: it does not destroy an object that is in use, nor while a method runs on it; user
///   space's commands exclude each other per object.
/// * A method without a [`MaySleep`] may be called in any context, and must not sleep.
/// * A method never calls a completion or event handler, directly or not, except through the
///   handles; see [`event`](crate::provider::event).
/// * A device may be used from the call of `register` until its unregistration is complete, then
///   all objects are destroyed.
///
/// # Objects
///
/// A create method returns the driver's data, which lives in the core's object. When it fails,
/// the core frees the object. A destroy method releases what the data holds for others; if it
/// succeeds, the data is dropped afterwards, in the same context. It may fail only for a reason
/// that the specification knows, and not once user space is gone: the object would leak.
///
/// C header: `include/rdma/ib_verbs.h`; `Documentation/infiniband/core_locking.rst`.
#[vtable]
#[expect(unused_variables, reason = "the bodies of absent methods use none")]
pub trait Provider: ProviderData {
    /// Which driver this is for user space: `enum rdma_driver_id`. A module has one provider for
    /// a number.
    const DRIVER_ID: u32;
    /// The version of the driver's own ABI towards user space.
    const ABI_VERSION: u32;
    /// The device's own attributes in sysfs.
    const DEVICE_GROUP: Option<&'static AttributeGroup> = None;
    /// The names of the counters that [`get_hw_stats`](Self::get_hw_stats) fills.
    const PORT_STATS: &'static [StatDesc] = &[];

    /// The driver's module.
    fn module() -> &'static ThisModule;

    // The device and its ports.

    /// Says what the device can. The fields of `attr` are zero.
    fn query_device(dev: &Device<Self>, attr: &mut DeviceAttr, sleep: &MaySleep) -> Result;

    /// Says what a port is. The fields of `attr` are zero. `EINVAL` for a port that is not there.
    fn query_port(
        dev: &Device<Self>,
        port_num: u32,
        attr: &mut PortAttr,
        sleep: &MaySleep,
    ) -> Result;

    /// Says what of a port never changes, when the device is registered.
    fn get_port_immutable(
        dev: &Device<Self>,
        port_num: u32,
        immutable: &mut PortImmutable,
        sleep: &MaySleep,
    ) -> Result;

    /// Says what carries a port's packets.
    fn get_link_layer(dev: &Device<Self>, port_num: u32) -> LinkLayer {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Reads an entry of a port's P_Key table. `EINVAL` for one that is not there.
    fn query_pkey(dev: &Device<Self>, port_num: u32, index: u16, sleep: &MaySleep) -> Result<u16> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Reads an entry of a port's GID table; the core keeps the table of RoCE itself.
    fn query_gid(dev: &Device<Self>, port_num: u32, index: u32, sleep: &MaySleep) -> Result<Gid> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Adds an entry to a port's GID table, which the core keeps: a port of RoCE. The entry does not change until
    /// [`del_gid`](Self::del_gid). RTNL may be held. Calls for a port are serialised by the core.
    fn add_gid(dev: &Device<Self>, attr: &GidAttr, sleep: &MaySleep) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Removes an entry that [`add_gid`](Self::add_gid) has added. A driver that has one of the two methods has both.
    fn del_gid(dev: &Device<Self>, attr: &GidAttr, sleep: &MaySleep) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Writes the version of the firmware; what is longer than 31 bytes is cut off.
    fn get_dev_fw_str(dev: &Device<Self>, out: &mut dyn fmt::Write) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Changes what a user may change of a device. `EOPNOTSUPP` for anything else.
    fn modify_device(dev: &Device<Self>, change: &DeviceModify<'_>, sleep: &MaySleep) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Changes a port.
    fn modify_port(
        dev: &Device<Self>,
        port_num: u32,
        mask: PortModifyMask,
        change: &PortModify,
        sleep: &MaySleep,
    ) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Runs when the device is registered, before clients are told of it. When it fails, so does
    /// the registration.
    fn enable_driver(dev: &Device<Self>, sleep: &MaySleep) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Runs when the device is unregistered and all objects are destroyed, before the driver's
    /// data of the device is dropped.
    fn dealloc_driver(dev: &Device<Self>, sleep: &MaySleep) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Answers a MAD. Any context: a directed route is answered while it is posted.
    fn process_mad(
        dev: &Device<Self>,
        info: &MadInfo,
        input: &crate::abi::mad::Mad,
        output: &mut crate::abi::mad::Mad,
    ) -> MadResult {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Updates counters of a port: the one at `index` of [`PORT_STATS`](Self::PORT_STATS), or
    /// all if `index` is `None`, or more than was asked for. Returns what was updated in the
    /// same way.
    fn get_hw_stats(
        dev: &Device<Self>,
        stats: &mut HwStats<'_>,
        port_num: u32,
        index: Option<usize>,
        sleep: &MaySleep,
    ) -> Result<Option<usize>> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    // User contexts and PDs.

    /// Makes a user context: a process has opened the device.
    fn alloc_ucontext(
        ctx: &UcontextBase<Self>,
        udata: &Udata<'_>,
        sleep: &MaySleep,
    ) -> Result<Self::Ucontext> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Releases a user context.
    fn dealloc_ucontext(ctx: &Ucontext<Self>, sleep: &MaySleep) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Lets go of what a user context has mapped, for the device goes while the process still has it open.
    ///
    /// With this method the device's unregistration destroys the objects of user space itself, without
    /// it, it waits until all processes have closed the device. What is mapped and belongs to the
    /// process alone, like the pages of [`SharedMem`](kernel_ext::shared::SharedMem), may stay.
    fn disassociate_ucontext(ctx: &Ucontext<Self>, sleep: &MaySleep) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Maps memory of the device, `vma.offset()` says which. `EINVAL` for an offset that the
    /// driver has not given out in this context.
    fn mmap(ctx: &Ucontext<Self>, vma: &Vma<'_>, sleep: &MaySleep) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Makes a PD; kernel verbs. `udata` is there for a PD of user space.
    fn alloc_pd(pd: &PdBase<Self>, udata: Option<&Udata<'_>>, sleep: &MaySleep)
        -> Result<Self::Pd>;

    /// Releases a PD.
    fn dealloc_pd(pd: &Pd<Self>, sleep: &MaySleep) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    // Address handles.

    /// Makes an AH. It may sleep only with `sleep`; there is `udata` only with `sleep`.
    fn create_ah(
        ah: &AhBase<Self>,
        attr: &AhAttr<'_>,
        udata: Option<&Udata<'_>>,
        sleep: Option<&MaySleep>,
    ) -> Result<Self::Ah> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Changes an AH.
    fn modify_ah(ah: &Ah<Self>, attr: &AhAttr<'_>) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Says what an AH is.
    fn query_ah(ah: &Ah<Self>) -> Result<AhFields> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Releases an AH. It may sleep only with `sleep`.
    fn destroy_ah(ah: &Ah<Self>, sleep: Option<&MaySleep>) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    // Completion queues.

    /// Makes a CQ, which must tell its size with `cq.set_cqe`; kernel verbs.
    fn create_cq(
        cq: &CqBase<Self>,
        attr: &CqInitAttr,
        handle: Arc<CqHandle>,
        udata: Option<&Udata<'_>>,
        sleep: &MaySleep,
    ) -> Result<Self::Cq>;

    /// Resizes a CQ of user space, which must tell its size with `cq.base().set_cqe`.
    fn resize_cq(cq: &Cq<Self>, cqe: u32, udata: &Udata<'_>, sleep: &MaySleep) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Sets after how many completions, or how many microseconds, the handler is called.
    fn modify_cq(cq: &Cq<Self>, count: u16, period_us: u16, sleep: &MaySleep) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Releases a CQ. Its handler may run once more before the data is dropped.
    fn destroy_cq(cq: &Cq<Self>, sleep: &MaySleep) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Takes completions from a CQ, as many as there are and there is room for; kernel verbs.
    /// What was pushed before an error counts, and the error is lost.
    fn poll_cq(cq: &Cq<Self>, out: &mut WcSink<'_>) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Counts the completions in a CQ, up to `most`.
    fn peek_cq(cq: &Cq<Self>, most: u32) -> Result<u32> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Arms a CQ. Whether completions may have been missed, if
    /// [`REPORT_MISSED_EVENTS`](NotifyFlags::REPORT_MISSED_EVENTS) asks for that.
    fn req_notify_cq(cq: &Cq<Self>, flags: NotifyFlags) -> Result<bool> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    // Queue pairs.

    /// Makes a QP, which must get its number by `qp.set_qp_num`; kernel verbs.
    fn create_qp(
        qp: &QpBase<Self>,
        init: &mut QpInitAttr<'_, Self>,
        handle: Arc<QpHandle>,
        udata: Option<&Udata<'_>>,
        sleep: &MaySleep,
    ) -> Result<Self::Qp>;

    /// Changes a QP; kernel verbs. The core does not check the transition.
    fn modify_qp(
        qp: &Qp<Self>,
        attr: &QpModify<'_>,
        udata: Option<&Udata<'_>>,
        sleep: &MaySleep,
    ) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Says what a QP is: at least what `mask` names, and in `init` the sizes.
    fn query_qp(
        qp: &Qp<Self>,
        mask: QpAttrMask,
        attr: &mut QpAttrOut<'_>,
        init: &mut QpInitOut<'_>,
        sleep: &MaySleep,
    ) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Releases a QP: when it returns, the QP makes no completion any more.
    fn destroy_qp(qp: &Qp<Self>, sleep: &MaySleep) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Posts requests to the send queue; kernel verbs. For a QP of user space the chain is
    /// empty: this is the doorbell of its ring.
    fn post_send(qp: &Qp<Self>, wrs: &mut SendWrs<'_, Self>) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Posts requests to the receive queue; kernel verbs.
    fn post_recv(qp: &Qp<Self>, wrs: &mut RecvWrs<'_>) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Attaches a QP to a multicast group.
    fn attach_mcast(qp: &Qp<Self>, gid: Gid, lid: u16, sleep: &MaySleep) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Detaches a QP from a multicast group.
    fn detach_mcast(qp: &Qp<Self>, gid: Gid, lid: u16, sleep: &MaySleep) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    // Shared receive queues.

    /// Makes an SRQ.
    fn create_srq(
        srq: &SrqBase<Self>,
        init: &mut SrqInitAttr<'_>,
        handle: Arc<SrqHandle>,
        udata: Option<&Udata<'_>>,
        sleep: &MaySleep,
    ) -> Result<Self::Srq> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Changes the size or the limit of an SRQ.
    fn modify_srq(
        srq: &Srq<Self>,
        attr: &SrqAttr,
        mask: SrqAttrMask,
        udata: Option<&Udata<'_>>,
        sleep: &MaySleep,
    ) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Says what an SRQ is.
    fn query_srq(srq: &Srq<Self>, sleep: &MaySleep) -> Result<SrqAttr> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Releases an SRQ.
    fn destroy_srq(srq: &Srq<Self>, sleep: &MaySleep) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Posts requests to an SRQ.
    fn post_srq_recv(srq: &Srq<Self>, wrs: &mut RecvWrs<'_>) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    // Memory.

    /// Makes an MR of all of the kernel's memory; kernel verbs. `memory` is the right to it.
    fn get_dma_mr(
        pd: &Pd<Self>,
        access: Access,
        memory: VirtDma,
        sleep: &MaySleep,
    ) -> Result<NewMr<Self::Mr>> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Registers memory of the calling process; kernel verbs.
    fn reg_user_mr(
        pd: &Pd<Self>,
        memory: &UserMr,
        udata: Option<&Udata<'_>>,
        sleep: &MaySleep,
    ) -> Result<NewMr<Self::Mr>> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Changes an MR of user space in place, or makes a new one to replace it.
    fn rereg_user_mr(
        mr: &Mr<Self>,
        change: &Rereg<'_, Self>,
        udata: Option<&Udata<'_>>,
        sleep: &MaySleep,
    ) -> Result<Option<NewMr<Self::Mr>>> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Releases an MR: when it returns, its keys grant nothing any more. `EINVAL` while windows
    /// are bound to it.
    fn dereg_mr(mr: &Mr<Self>, sleep: &MaySleep) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Makes an MR for fast registration, of up to `max_num_sg` pages. What is mapped to it is
    /// accessed with `memory`.
    fn alloc_mr(
        pd: &Pd<Self>,
        mr_type: MrType,
        max_num_sg: u32,
        memory: VirtDma,
        sleep: &MaySleep,
    ) -> Result<NewMr<Self::Mr>> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Maps a scatter list to an MR for fast registration, with [`SgList::to_pages`]. Returns
    /// how many entries are mapped.
    fn map_mr_sg(mr: &Mr<Self>, list: SgList<'_>) -> Result<u32> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Takes advice about memory of on-demand MRs.
    fn advise_mr(
        pd: &Pd<Self>,
        advice: Advice,
        flags: AdviseFlags,
        sg_list: &[Sge],
        sleep: &MaySleep,
    ) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Makes an MW, which must get its key by `mw.set_rkey`.
    fn alloc_mw(
        mw: &MwBase<Self>,
        udata: Option<&Udata<'_>>,
        sleep: &MaySleep,
    ) -> Result<Self::Mw> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Releases an MW.
    fn dealloc_mw(mw: &Mw<Self>, sleep: &MaySleep) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }
}
