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
        device::{DeviceAttr, DriverId},
        gid::GidAttr,
        mad::{MadInfo, MadResult},
        mr::{Advice, AdviseFlags, MrType},
        port::{LinkLayer, PortAttr, PortImmutable, PortModify, PortModifyMask},
        qp::QpAttrMask,
        srq::{SrqAttr, SrqAttrMask},
    },
    provider::{
        ah::{Ah, AhAttr, AhBase},
        counter::{Counter, NewCounter},
        cq::{Cq, CqBase, CqHandle, CqInitAttr},
        data::ProviderData,
        device::DeviceModify,
        dm::{Dm, DmAttr, DmMr},
        mr::{Mr, Mw, MwBase, NewMr, Rereg, SgList, UserMr},
        object::PdBase,
        qp::{Qp, QpAttrOut, QpBase, QpInitAttr, QpInitOut, QpModify},
        srq::{Srq, SrqBase, SrqInitAttr},
        stats::{HwStats, StatDesc},
        sysfs::AttributeGroup,
        ucontext::{Ucontext, UcontextBase},
        xrcd::{Xrcd, XrcdBase},
    },
    Device, Gid, MaySleep, Pd, QpHandle, RecvWrs, SendWrs, Sge, SrqHandle, Udata, VirtDma, Vma,
    WcSink,
};

/// A driver's type of RDMA devices.
///
/// It is implemented with `#[vtable]`. A method that is not implemented is null in `struct ib_device_ops`. The core
/// requires the methods without a default here, and those marked "kernel verbs" for a device that clients in the
/// kernel may use.
///
/// # Rules of the midlayer
///
/// * All methods may run concurrently, with each other and with themselves. The core does not destroy an object that
///   is in use, nor while a method runs on it. Commands of user space exclude each other per object.
/// * A method without a [`MaySleep`] may be called in any context, and must not sleep.
/// * A method never calls a completion or event handler, directly or not, except through the
///   handles; see [`event`](crate::provider::event).
/// * A device may be used from the call of `register` until its unregistration is complete. By then all its objects
///   are destroyed.
///
/// # Objects
///
/// A create method returns the driver's data, which lives in the core's object. When it fails, the core frees the
/// object. A destroy method releases the resources of the data; if it succeeds, the data is dropped afterwards, in
/// the same context. It fails only for reasons in the specification, and not after user space has closed the device:
/// the object would leak.
///
/// C header: `include/rdma/ib_verbs.h`; `Documentation/infiniband/core_locking.rst`.
#[vtable]
#[expect(unused_variables, reason = "the bodies of absent methods use none")]
pub trait Provider: ProviderData {
    /// The driver's identifier for user space: `enum rdma_driver_id`. Other providers may have the same one.
    const DRIVER_ID: DriverId;
    /// The version of the driver's own user ABI.
    const ABI_VERSION: u32;
    /// The device's own attributes in sysfs.
    const DEVICE_GROUP: Option<&'static AttributeGroup<Self>> = None;
    /// The names of the counters that [`get_hw_stats`](Self::get_hw_stats) fills.
    const PORT_STATS: &'static [StatDesc] = &[];

    /// The driver's module.
    fn module() -> &'static ThisModule;

    // The device and its ports.

    /// Fills in the attributes of the device. The fields of `attr` are zero at first.
    fn query_device(dev: &Device<Self>, attr: &mut DeviceAttr, sleep: &MaySleep) -> Result;

    /// Fills in the attributes of a port. The fields of `attr` are zero at first. `EINVAL` for an unknown port.
    fn query_port(
        dev: &Device<Self>,
        port_num: u32,
        attr: &mut PortAttr,
        sleep: &MaySleep,
    ) -> Result;

    /// Fills in the immutable data of a port. Called when the device is registered.
    fn get_port_immutable(
        dev: &Device<Self>,
        port_num: u32,
        immutable: &mut PortImmutable,
        sleep: &MaySleep,
    ) -> Result;

    /// Returns the link layer of a port.
    fn get_link_layer(dev: &Device<Self>, port_num: u32) -> LinkLayer {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Reads an entry of a port's P_Key table. `EINVAL` for an unknown entry.
    fn query_pkey(dev: &Device<Self>, port_num: u32, index: u16, sleep: &MaySleep) -> Result<u16> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Reads an entry of a port's GID table. Not called for a RoCE port, whose table the core keeps.
    fn query_gid(dev: &Device<Self>, port_num: u32, index: u32, sleep: &MaySleep) -> Result<Gid> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Called for a new entry of a RoCE port's GID table, which the core keeps. The entry is constant until
    /// [`del_gid`](Self::del_gid). The RTNL may be held. The core serialises the calls for a port.
    fn add_gid(dev: &Device<Self>, attr: &GidAttr, sleep: &MaySleep) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Called for an entry that is removed, after [`add_gid`](Self::add_gid) has succeeded for it. A driver
    /// implements both methods or none.
    fn del_gid(dev: &Device<Self>, attr: &GidAttr, sleep: &MaySleep) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Writes the firmware version, which is truncated to 31 bytes.
    fn get_dev_fw_str(dev: &Device<Self>, out: &mut dyn fmt::Write) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Modifies attributes of the device. `EOPNOTSUPP` for attributes that cannot be changed.
    fn modify_device(dev: &Device<Self>, change: &DeviceModify<'_>, sleep: &MaySleep) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Modifies attributes of a port.
    fn modify_port(
        dev: &Device<Self>,
        port_num: u32,
        mask: PortModifyMask,
        change: &PortModify,
        sleep: &MaySleep,
    ) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Called when the device is registered, before it is added to clients. An error fails the registration.
    fn enable_driver(dev: &Device<Self>, sleep: &MaySleep) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Called after the device is unregistered and all objects are destroyed, before the driver's data of the device
    /// is dropped.
    fn dealloc_driver(dev: &Device<Self>, sleep: &MaySleep) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Processes a MAD, and may answer it. Any context: a directed route MAD is processed while it is posted.
    fn process_mad(
        dev: &Device<Self>,
        info: &MadInfo,
        input: &crate::abi::mad::Mad,
        output: &mut crate::abi::mad::Mad,
    ) -> MadResult {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Updates counters of a port: the one at `index` of [`PORT_STATS`](Self::PORT_STATS), or all if `index` is
    /// `None`. It may update more. Returns the index of the updated counter, or `None` for all.
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

    /// Creates a user context, when a process opens the device.
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

    /// Disassociates a user context from the device, which is unregistered while the process still has it open.
    ///
    /// With this method unregistration destroys the objects of user space; without it, unregistration waits until all
    /// processes have closed the device. Mapped pages that belong to the process alone, like those of
    /// [`SharedMem`](kernel_ext::shared::SharedMem), may stay mapped.
    fn disassociate_ucontext(ctx: &Ucontext<Self>, sleep: &MaySleep) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Maps memory of the device, which `vma.offset()` selects. `EINVAL` for an offset that the driver has not
    /// returned in this context.
    fn mmap(ctx: &Ucontext<Self>, vma: &Vma<'_>, sleep: &MaySleep) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Creates a PD; kernel verbs. `udata` is `Some` for a PD of user space.
    fn alloc_pd(pd: &PdBase<Self>, udata: Option<&Udata<'_>>, sleep: &MaySleep)
        -> Result<Self::Pd>;

    /// Releases a PD.
    fn dealloc_pd(pd: &Pd<Self>, sleep: &MaySleep) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    // XRC domains.

    /// Allocates an XRC domain. `udata` is `Some` for one of user space.
    fn alloc_xrcd(
        xrcd: &XrcdBase<Self>,
        udata: Option<&Udata<'_>>,
        sleep: &MaySleep,
    ) -> Result<Self::Xrcd> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Releases an XRC domain, which no SRQ and no QP uses.
    fn dealloc_xrcd(xrcd: &Xrcd<Self>, sleep: &MaySleep) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    // Address handles.

    /// Creates an AH. It may sleep only with `sleep`; `udata` is `None` without `sleep`.
    fn create_ah(
        ah: &AhBase<Self>,
        attr: &AhAttr<'_>,
        udata: Option<&Udata<'_>>,
        sleep: Option<&MaySleep>,
    ) -> Result<Self::Ah> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Modifies an AH.
    fn modify_ah(ah: &Ah<Self>, attr: &AhAttr<'_>) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Returns the address vector of an AH.
    fn query_ah(ah: &Ah<Self>) -> Result<AhFields> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Releases an AH. It may sleep only with `sleep`.
    fn destroy_ah(ah: &Ah<Self>, sleep: Option<&MaySleep>) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    // Completion queues.

    /// Creates a CQ, and sets its size with `cq.set_cqe`; kernel verbs.
    fn create_cq(
        cq: &CqBase<Self>,
        attr: &CqInitAttr,
        handle: Arc<CqHandle>,
        udata: Option<&Udata<'_>>,
        sleep: &MaySleep,
    ) -> Result<Self::Cq>;

    /// Resizes a CQ of user space, and sets its size with `cq.base().set_cqe`.
    fn resize_cq(cq: &Cq<Self>, cqe: u32, udata: &Udata<'_>, sleep: &MaySleep) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Sets the moderation: the handler is called after `count` completions or `period_us` microseconds.
    fn modify_cq(cq: &Cq<Self>, count: u16, period_us: u16, sleep: &MaySleep) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Releases a CQ. Its handler may run once more before the data is dropped.
    fn destroy_cq(cq: &Cq<Self>, sleep: &MaySleep) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Polls completions from a CQ, as many as fit into `out`; kernel verbs. If completions were pushed before an
    /// error, they are returned and the error is dropped.
    fn poll_cq(cq: &Cq<Self>, out: &mut WcSink<'_>) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Counts the completions in a CQ, up to `most`.
    fn peek_cq(cq: &Cq<Self>, most: u32) -> Result<u32> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Arms a CQ. Returns whether completions may have been missed, if
    /// [`REPORT_MISSED_EVENTS`](NotifyFlags::REPORT_MISSED_EVENTS) is set.
    fn req_notify_cq(cq: &Cq<Self>, flags: NotifyFlags) -> Result<bool> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    // Queue pairs.

    /// Creates a QP, and sets its number with `qp.set_qp_num`; kernel verbs.
    fn create_qp(
        qp: &QpBase<Self>,
        init: &mut QpInitAttr<'_, Self>,
        handle: Arc<QpHandle>,
        udata: Option<&Udata<'_>>,
        sleep: &MaySleep,
    ) -> Result<Self::Qp>;

    /// Modifies a QP; kernel verbs. The core does not check the state transition.
    fn modify_qp(
        qp: &Qp<Self>,
        attr: &QpModify<'_>,
        udata: Option<&Udata<'_>>,
        sleep: &MaySleep,
    ) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Returns the attributes of a QP: at least those in `mask`, and the sizes in `init`.
    fn query_qp(
        qp: &Qp<Self>,
        mask: QpAttrMask,
        attr: &mut QpAttrOut<'_>,
        init: &mut QpInitOut<'_>,
        sleep: &MaySleep,
    ) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Releases a QP. After it returns, the QP generates no completions.
    fn destroy_qp(qp: &Qp<Self>, sleep: &MaySleep) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Posts requests to the send queue; kernel verbs. For a QP of user space the chain is empty, and the call is the
    /// doorbell of its ring.
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

    // Counters that QPs are bound to, with the values of `PORT_STATS`.

    /// Creates a counter of a port for QPs. With this method a driver has the others of counters too, and `get_hw_stats`, which
    /// leaves out what QPs count for a counter.
    fn counter_alloc(
        dev: &Device<Self>,
        port_num: u32,
        sleep: &MaySleep,
    ) -> Result<NewCounter<Self::Counter>> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Releases a counter, which no QP is bound to.
    fn counter_dealloc(counter: &Counter<Self>, sleep: &MaySleep) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Lets a QP count for `counter` instead of its port.
    fn counter_bind_qp(counter: &Counter<Self>, qp: &Qp<Self>, sleep: &MaySleep) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Lets a QP count for its port again. After it returns, the counter does not change by the QP.
    fn counter_unbind_qp(qp: &Qp<Self>, sleep: &MaySleep) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Updates the values of a counter.
    fn counter_update_stats(counter: &Counter<Self>, stats: &mut HwStats<'_>, sleep: &MaySleep) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    // Shared receive queues.

    /// Creates an SRQ.
    fn create_srq(
        srq: &SrqBase<Self>,
        init: &mut SrqInitAttr<'_, Self>,
        handle: Arc<SrqHandle>,
        udata: Option<&Udata<'_>>,
        sleep: &MaySleep,
    ) -> Result<Self::Srq> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Modifies the size or the limit of an SRQ.
    fn modify_srq(
        srq: &Srq<Self>,
        attr: &SrqAttr,
        mask: SrqAttrMask,
        udata: Option<&Udata<'_>>,
        sleep: &MaySleep,
    ) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Returns the attributes of an SRQ.
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

    /// Creates an MR of all kernel memory; kernel verbs. `memory` is the right to access it.
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

    /// Registers a range of the DMA buffer of a file descriptor; `memory.start` is the offset in the buffer.
    fn reg_user_mr_dmabuf(
        pd: &Pd<Self>,
        memory: &UserMr,
        fd: kernel::ffi::c_int,
        sleep: &MaySleep,
    ) -> Result<NewMr<Self::Mr>> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Allocates memory of the device, zeroed, for a program: for devices of
    /// [`offer_device_memory`](crate::NewDevice::offer_device_memory). It is released when the result is dropped, which may sleep;
    /// no MR is in it then. With this method a driver has [`reg_dm_mr`](Self::reg_dm_mr), too.
    fn alloc_dm(dev: &Device<Self>, attr: &DmAttr, sleep: &MaySleep) -> Result<Self::Dm> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Registers a range of device memory, which may have no bytes. It is within what the program has allocated.
    fn reg_dm_mr(
        pd: &Pd<Self>,
        dm: &Dm<Self>,
        range: &DmMr,
        sleep: &MaySleep,
    ) -> Result<NewMr<Self::Mr>> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Re-registers an MR of user space in place, or creates a new one that replaces it.
    fn rereg_user_mr(
        mr: &Mr<Self>,
        change: &Rereg<'_, Self>,
        udata: Option<&Udata<'_>>,
        sleep: &MaySleep,
    ) -> Result<Option<NewMr<Self::Mr>>> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Releases an MR. After it returns, its keys grant no access. `EINVAL` while windows are bound to it.
    fn dereg_mr(mr: &Mr<Self>, sleep: &MaySleep) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Creates an MR for fast registration, of up to `max_num_sg` pages. `memory` is the right to access the memory
    /// that is mapped to it.
    fn alloc_mr(
        pd: &Pd<Self>,
        mr_type: MrType,
        max_num_sg: u32,
        memory: VirtDma,
        sleep: &MaySleep,
    ) -> Result<NewMr<Self::Mr>> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Maps a scatter list to an MR for fast registration, with [`SgList::to_pages`]. Returns the number of mapped
    /// entries.
    fn map_mr_sg(mr: &Mr<Self>, list: SgList<'_>) -> Result<u32> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Handles advice about ranges of on-demand MRs.
    fn advise_mr(
        pd: &Pd<Self>,
        advice: Advice,
        flags: AdviseFlags,
        sg_list: &[Sge],
        sleep: &MaySleep,
    ) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Creates an MW, and sets its key with `mw.set_rkey`.
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
