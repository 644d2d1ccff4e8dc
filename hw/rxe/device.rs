// SPDX-License-Identifier: GPL-2.0

//! The device: what it is, and which part of the driver does what the verbs ask for.

use core::fmt;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicU8, Ordering};
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::workqueue::{impl_has_work, new_work, Work};
use kernel_ext::bindings;
use kernel_ext::error::EOPNOTSUPP;
use kernel_ext::net::device::NetDevice;
use kernel_ext::xarray::Table;
use rdma::ah::{Ah, AhAttr, AhFields};
use rdma::cq::{Cq, CqHandle, CqInitAttr, NotifyFlags};
use rdma::device::{cap, Device, DeviceAttr, DeviceModify};
use rdma::mad::{Mad, MadInfo, MadResult};
use rdma::mr::{Access, Mr, MrType, NewMr, Rereg, SgList, UserMr, VirtDma};
use rdma::object::{Base, Pd};
use rdma::port::{
    self, LinkLayer, PhysState, PortAttr, PortImmutable, PortModify, PortModifyMask, PortState,
};
use rdma::qp::{Qp, QpAttrMask, QpAttrOut, QpInitAttr, QpInitOut, QpModify};
use rdma::stats::{HwStats, StatDesc};
use rdma::sysfs::{AttributeGroup, DeviceAttribute};
use rdma::wr::{RecvWrs, SendWrs};
use rdma::{DeviceEvent, MaySleep, Provider, QpHandle, Ucontext, Udata, Umem, Vma, WcSink};
use roce::mtu::Mtu;

use crate::ah::Ahs;
use crate::counters::{self, Counter, Counters};
use crate::limits;
use crate::link::Link;
use crate::mr::{self, Mrs};
use crate::ring::{Mappings, MmapInfo};
use crate::rx::Backlog;
use crate::{mad, qp};

/// The only port.
pub(crate) const PORT: u32 = 1;

/// Which protection domain: equal for equal ones, and never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PdId(u64);

impl PdId {
    /// The number.
    pub(crate) fn into_raw(self) -> u64 {
        self.0
    }

    /// The protection domain of a number that [`Self::into_raw`] gave.
    pub(crate) fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1))
    }
}

/// What the parts of the driver share of a device.
///
/// It lives as long as anyone uses it, so that the receive path finds it and works on it without
/// regard to the core's device, which it never touches.
#[pin_data]
pub(crate) struct Rxe {
    /// QPs by number.
    #[pin]
    pub(crate) qps: Table<qp::Qp>,
    /// Memory regions.
    #[pin]
    pub(crate) mrs: Mrs,
    /// Address handles of user space.
    #[pin]
    pub(crate) ahs: Ahs,
    /// The port's counters.
    pub(crate) counters: Counters,
    mtu: AtomicU8,
    /// Packets to itself.
    #[pin]
    pub(crate) backlog: Backlog,
    /// Delivers them.
    #[pin]
    work: Work<Self>,
    bad_pkeys: AtomicU32,
    qkey_violations: AtomicU32,
    sys_image_guid: AtomicU64,
    guid: [u8; 8],
}

impl_has_work! { impl HasWork<Self> for Rxe { self.work } }

impl Rxe {
    /// What a device on `ndev` is made of.
    pub(crate) fn new(ndev: &NetDevice) -> Result<Arc<Self>> {
        let guid = guid_of(ndev);
        let backlog = Backlog::new()?;
        Arc::pin_init(
            pin_init!(Self {
                qps <- Table::new(limits::QP_NUMBERS),
                mrs <- Mrs::new(),
                ahs <- Ahs::new(),
                counters: Counters::default(),
                mtu: AtomicU8::new(mtu_of(ndev) as u8),
                backlog <- backlog,
                work <- new_work!("Rxe::work"),
                bad_pkeys: AtomicU32::new(0),
                qkey_violations: AtomicU32::new(0),
                sys_image_guid: AtomicU64::new(u64::from_ne_bytes(guid)),
                guid,
            }),
            GFP_KERNEL,
        )
    }

    /// The node's GUID in the order of the wire.
    pub(crate) fn guid(&self) -> [u8; 8] {
        self.guid
    }

    /// The port's MTU, which follows the net device's. Any context.
    #[inline]
    pub(crate) fn mtu(&self) -> Mtu {
        Mtu::from_ib(self.mtu.load(Ordering::Relaxed).into()).unwrap_or(Mtu::Mtu256)
    }

    /// Takes over the MTU of the net device.
    pub(crate) fn set_mtu_of(&self, ndev: &NetDevice) {
        self.mtu.store(mtu_of(ndev) as u8, Ordering::Relaxed);
    }

    /// A datagram came with a wrong Q_Key. The counter stops at its largest value.
    pub(crate) fn count_qkey_violation(&self) {
        count(&self.qkey_violations);
    }

    /// A packet came with a P_Key of another partition. The counter stops at its largest value.
    pub(crate) fn count_bad_pkey(&self) {
        count(&self.bad_pkeys);
    }
}

/// Counts up to the largest value of a port's counter, 16 bits (IBTA vol. 1, 14.2.5.6).
fn count(counter: &AtomicU32) {
    let more = |n| (n < u16::MAX.into()).then_some(n + 1);
    let _ = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
}

/// The MTU that a net device's leaves when all headers have room.
fn mtu_of(ndev: &NetDevice) -> Mtu {
    Mtu::fitting(ndev.mtu().saturating_sub(limits::MAX_HEADERS)).unwrap_or(Mtu::Mtu256)
}

/// A GUID from the hardware address (EUI-64, RFC 4291, appendix A), or a random one where there is no
/// address.
fn guid_of(ndev: &NetDevice) -> [u8; 8] {
    let mut mac = ndev.address();
    if mac == [0; 6] && !ndev.is_loopback() {
        kernel_ext::random::fill(&mut mac);
        // Locally administered, not a multicast address.
        mac[0] = mac[0] & 0xfe | 0x02;
    }
    let [a, b, c, d, e, f] = mac;
    [a ^ 0x02, b, c, 0xff, 0xfe, d, e, f]
}

/// The driver of a device: the core's methods.
pub(crate) struct Driver {
    /// What the parts of the driver share.
    pub(crate) rxe: Arc<Rxe>,
    /// The link that the device is.
    pub(crate) link: Link,
}

/// The file `parent` in sysfs, by which udev knows a RoCE device and scripts its net device.
struct Parent;

impl DeviceAttribute for Parent {
    const NAME: &'static CStr = c"parent";
    type Device = Driver;

    fn show(dev: &Device<Driver>, out: &mut dyn fmt::Write, ctx: &MaySleep) -> Result {
        let ndev = dev.netdev(PORT, ctx).ok_or(ENODEV)?;
        let name = ndev.name();
        let name = core::str::from_utf8(name.as_bytes()).map_err(|_| EINVAL)?;
        writeln!(out, "{name}").map_err(|_| EOVERFLOW)
    }
}

/// The counters' names for the core.
static STATS: [StatDesc; counters::COUNT] = {
    let mut descs = [const { StatDesc::new(c"") }; counters::COUNT];
    let mut at = 0;
    while at < counters::COUNT {
        descs[at] = StatDesc::new(counters::NAMES[at]);
        at += 1;
    }
    descs
};

/// Answers with where a ring is mapped; the room for it was checked.
fn respond_mmap(udata: &Udata<'_>, info: MmapInfo) -> Result {
    udata.respond_all(&info.to_bytes())
}

/// The rings of the process that gave the command.
pub(crate) fn mappings<'a>(udata: &Udata<'a>) -> Result<&'a Arc<Mappings>> {
    Ok(udata.context::<Driver>().ok_or(EINVAL)?.data())
}

fn check_port(port_num: u32) -> Result {
    if port_num != PORT {
        return Err(EINVAL);
    }
    Ok(())
}

/// What the core gets of a new memory region.
fn new_mr(mr: Arc<mr::Mr>) -> NewMr<Arc<mr::Mr>> {
    let key = mr.key();
    NewMr {
        data: mr,
        lkey: key,
        rkey: key,
    }
}

#[vtable]
impl Provider for Driver {
    const DRIVER_ID: u32 = bindings::RDMA_DRIVER_RXE;
    /// `RXE_UVERBS_ABI_VERSION`.
    const ABI_VERSION: u32 = 2;
    const DEVICE_GROUP: Option<&'static AttributeGroup> = Some(AttributeGroup::of::<Parent>());
    const PORT_STATS: &'static [StatDesc] = &STATS;

    type Ucontext = Arc<Mappings>;
    type Pd = PdId;
    type Ah = Arc<crate::ah::Ah>;
    type Cq = Arc<crate::cq::Cq>;
    type Qp = Arc<qp::Qp>;
    type Srq = ();
    type Mr = Arc<mr::Mr>;
    type Mw = ();

    fn module() -> &'static ThisModule {
        &crate::THIS_MODULE
    }

    // The device and its port.

    fn query_device(dev: &Device<Self>, attr: &mut DeviceAttr, _ctx: &MaySleep) -> Result {
        describe(attr);
        attr.sys_image_guid = dev.rxe.sys_image_guid.load(Ordering::Relaxed);
        Ok(())
    }

    fn query_port(
        dev: &Device<Self>,
        port_num: u32,
        attr: &mut PortAttr,
        ctx: &MaySleep,
    ) -> Result {
        check_port(port_num)?;
        let ndev = dev.netdev(PORT, ctx).ok_or(ENODEV)?;
        let state = port::state_of(&ndev);
        let phys_state = match state {
            PortState::Active => PhysState::LinkUp,
            _ if ndev.is_running() => PhysState::Polling,
            _ => PhysState::Disabled,
        };
        attr.state = state.as_raw();
        attr.phys_state = phys_state.as_raw() as u8;
        attr.max_mtu = port::Mtu::B4096.as_raw();
        attr.active_mtu = dev.rxe.mtu() as u32;
        attr.gid_tbl_len = limits::GID_TABLE as i32;
        attr.port_cap_flags = bindings::IB_PORT_CM_SUP;
        attr.max_msg_sz = limits::MAX_MESSAGE;
        attr.bad_pkey_cntr = dev.rxe.bad_pkeys.load(Ordering::Relaxed);
        attr.bad_pkey_cntr = dev.rxe.bad_pkeys.load(Ordering::Relaxed);
        attr.qkey_viol_cntr = dev.rxe.qkey_violations.load(Ordering::Relaxed);
        attr.pkey_tbl_len = 1;
        attr.max_vl_num = 1;
        (attr.active_speed, attr.active_width) = dev.eth_speed(PORT, ctx)?;
        Ok(())
    }

    fn get_port_immutable(
        dev: &Device<Self>,
        port_num: u32,
        immutable: &mut PortImmutable,
        ctx: &MaySleep,
    ) -> Result {
        check_port(port_num)?;
        let attr = dev.query_port(PORT, ctx)?;
        immutable.core_cap_flags = port::CORE_PORT_IBA_ROCE_UDP_ENCAP;
        immutable.pkey_tbl_len = attr.pkey_tbl_len.into();
        immutable.gid_tbl_len = attr.gid_tbl_len;
        immutable.max_mad_size = bindings::IB_MGMT_MAD_SIZE;
        Ok(())
    }

    fn get_link_layer(_dev: &Device<Self>, _port_num: u32) -> LinkLayer {
        LinkLayer::Ethernet
    }

    fn query_pkey(_dev: &Device<Self>, port_num: u32, index: u16, _ctx: &MaySleep) -> Result<u16> {
        check_port(port_num)?;
        if index != 0 {
            return Err(EINVAL);
        }
        Ok(qp::attr::PKEY)
    }

    fn modify_device(dev: &Device<Self>, change: &DeviceModify<'_>, _ctx: &MaySleep) -> Result {
        if change.other {
            return Err(EOPNOTSUPP);
        }
        if let Some(guid) = change.sys_image_guid {
            dev.rxe
                .sys_image_guid
                .store(guid.to_be(), Ordering::Relaxed);
        }
        if let Some(desc) = change.node_desc {
            dev.set_node_desc(desc);
        }
        Ok(())
    }

    fn dealloc_driver(dev: &Device<Self>, ctx: &MaySleep) {
        dev.link.close(ctx);
        Backlog::stop(&dev.rxe, ctx);
    }

    fn modify_port(
        dev: &Device<Self>,
        port_num: u32,
        mask: PortModifyMask,
        _change: &PortModify,
        _ctx: &MaySleep,
    ) -> Result {
        check_port(port_num)?;
        if !mask.without(PortModifyMask::RESET_QKEY_CNTR).is_empty() {
            return Err(EOPNOTSUPP);
        }
        if mask.contains(PortModifyMask::RESET_QKEY_CNTR) {
            dev.rxe.qkey_violations.store(0, Ordering::Relaxed);
        }
        Ok(())
    }

    fn enable_driver(dev: &Device<Self>, ctx: &MaySleep) -> Result {
        // Gone already where the net device is just being unregistered.
        let ndev = dev.netdev(PORT, ctx).ok_or(ENODEV)?;
        if port::state_of(&ndev) == PortState::Active {
            dev.dispatch_event(DeviceEvent::PortActive, PORT);
        } else {
            dev.rxe.counters.add(Counter::LinkDowned, 1);
            dev.dispatch_event(DeviceEvent::PortErr, PORT);
        }
        Ok(())
    }

    fn process_mad(
        dev: &Device<Self>,
        info: &MadInfo,
        input: &Mad,
        output: &mut Mad,
    ) -> MadResult {
        mad::process(&dev.rxe.counters, info.port_num, input, output)
    }

    fn get_hw_stats(
        dev: &Device<Self>,
        stats: &mut HwStats<'_>,
        port_num: u32,
        _index: Option<usize>,
        _ctx: &MaySleep,
    ) -> Result<Option<usize>> {
        check_port(port_num)?;
        stats.set_all(dev.rxe.counters.values());
        Ok(None)
    }

    // User contexts and protection domains.

    fn alloc_ucontext(
        _ctx: &Base<bindings::ib_ucontext, Self>,
        _udata: &Udata<'_>,
        _sleep: &MaySleep,
    ) -> Result<Arc<Mappings>> {
        Mappings::new()
    }

    fn disassociate_ucontext(_ctx: &Ucontext<Self>, _sleep: &MaySleep) {
        // Rings live as long as they are mapped.
    }

    fn mmap(ctx: &Ucontext<Self>, vma: &Vma<'_>, sleep: &MaySleep) -> Result {
        ctx.data().map(vma.offset(), vma, sleep)
    }

    fn alloc_pd(
        _pd: &Base<bindings::ib_pd, Self>,
        _udata: Option<&Udata<'_>>,
        _ctx: &MaySleep,
    ) -> Result<PdId> {
        Ok(PdId::new())
    }

    // Address handles.

    fn create_ah(
        ah: &Base<bindings::ib_ah, Self>,
        attr: &AhAttr<'_>,
        udata: Option<&Udata<'_>>,
        ctx: Option<&MaySleep>,
    ) -> Result<Self::Ah> {
        let pd = *ah.pd().data();
        let (Some(udata), Some(ctx)) = (udata, ctx) else {
            return crate::ah::Ah::for_kernel(pd, attr);
        };
        // Libraries of old have no room for the number, and put the vector into each request.
        let response = size_of::<bindings::rxe_create_ah_resp>();
        if udata.outlen() < response {
            return crate::ah::Ah::for_kernel(pd, attr);
        }
        let ahs = &ah.device().rxe.ahs;
        let new = ahs.create(pd, attr, ctx)?;
        if let Err(error) = udata.respond(&[new.number(), 0]) {
            ahs.remove(&new, ctx);
            return Err(error);
        }
        Ok(new)
    }

    fn modify_ah(ah: &Ah<Self>, attr: &AhAttr<'_>) -> Result {
        ah.data().modify(attr)
    }

    fn query_ah(ah: &Ah<Self>) -> Result<AhFields> {
        Ok(ah.data().av().fields)
    }

    fn destroy_ah(ah: &Ah<Self>, ctx: Option<&MaySleep>) -> Result {
        if let (Some(ctx), 1..) = (ctx, ah.data().number()) {
            ah.base().device().rxe.ahs.remove(ah.data(), ctx);
        }
        Ok(())
    }

    // Completion queues.

    fn create_cq(
        cq: &Base<bindings::ib_cq, Self>,
        attr: &CqInitAttr,
        handle: Arc<CqHandle>,
        udata: Option<&Udata<'_>>,
        ctx: &MaySleep,
    ) -> Result<Self::Cq> {
        if attr.flags.bits() != 0 {
            return Err(EOPNOTSUPP);
        }
        let new = match udata {
            None => crate::cq::Cq::for_kernel(&handle, attr.cqe, ctx)?,
            Some(udata) => {
                let mappings = mappings(udata)?;
                let (new, info) = crate::cq::Cq::for_user(&handle, attr.cqe, mappings, ctx)?;
                respond_mmap(udata, info)?;
                new
            }
        };
        cq.set_cqe(new.capacity());
        Ok(new)
    }

    fn resize_cq(cq: &Cq<Self>, cqe: u32, udata: &Udata<'_>, ctx: &MaySleep) -> Result {
        if udata.outlen() < MmapInfo::SIZE {
            return Err(EINVAL);
        }
        let (info, capacity) = cq.data().resize(cqe, mappings(udata)?, ctx)?;
        cq.base().set_cqe(capacity);
        respond_mmap(udata, info)
    }

    fn destroy_cq(_cq: &Cq<Self>, _ctx: &MaySleep) -> Result {
        // The core refuses while QPs use the CQ. The ring goes with the last reference.
        Ok(())
    }

    fn poll_cq(cq: &Cq<Self>, out: &mut WcSink<'_>) -> Result {
        cq.data().poll(out);
        Ok(())
    }

    fn req_notify_cq(cq: &Cq<Self>, flags: NotifyFlags) -> Result<bool> {
        Ok(cq.data().request_notify(flags))
    }

    // Queue pairs.

    fn create_qp(
        qp: &Base<bindings::ib_qp, Self>,
        init: &mut QpInitAttr<'_, Self>,
        handle: Arc<QpHandle>,
        udata: Option<&Udata<'_>>,
        ctx: &MaySleep,
    ) -> Result<Self::Qp> {
        qp::Qp::create(qp, init, handle, udata, ctx)
    }

    fn modify_qp(
        qp: &Qp<Self>,
        attr: &QpModify<'_>,
        _udata: Option<&Udata<'_>>,
        ctx: &MaySleep,
    ) -> Result {
        qp.data().modify(attr, ctx)
    }

    fn query_qp(
        qp: &Qp<Self>,
        mask: QpAttrMask,
        attr: &mut QpAttrOut<'_>,
        init: &mut QpInitOut<'_>,
        ctx: &MaySleep,
    ) -> Result {
        qp.data().query(mask, attr, init, ctx)
    }

    fn destroy_qp(qp: &Qp<Self>, ctx: &MaySleep) -> Result {
        qp.data().destroy(ctx)
    }

    fn post_send(qp: &Qp<Self>, wrs: &mut SendWrs<'_, Self>) -> Result {
        qp.data().post_send(wrs)
    }

    fn post_recv(qp: &Qp<Self>, wrs: &mut RecvWrs<'_>) -> Result {
        qp.data().post_recv(wrs)
    }

    // Memory.

    fn get_dma_mr(
        pd: &Pd<Self>,
        access: Access,
        memory: VirtDma,
        ctx: &MaySleep,
    ) -> Result<NewMr<Self::Mr>> {
        let rxe = &pd.base().device().rxe;
        Ok(new_mr(rxe.mrs.add_dma(*pd.data(), access, memory, ctx)?))
    }

    fn reg_user_mr(
        pd: &Pd<Self>,
        memory: &UserMr,
        _udata: Option<&Udata<'_>>,
        ctx: &MaySleep,
    ) -> Result<NewMr<Self::Mr>> {
        if !memory.access.without(mr::SUPPORTED).is_empty() {
            return Err(EOPNOTSUPP);
        }
        let dev = pd.base().device();
        let umem = Umem::new(dev, memory.start, memory.length, memory.access, ctx)?;
        Ok(new_mr(dev.rxe.mrs.add_user(
            *pd.data(),
            memory,
            umem,
            ctx,
        )?))
    }

    fn rereg_user_mr(
        mr: &Mr<Self>,
        change: &Rereg<'_, Self>,
        _udata: Option<&Udata<'_>>,
        _ctx: &MaySleep,
    ) -> Result<Option<NewMr<Self::Mr>>> {
        if change.translation.is_some() {
            return Err(EOPNOTSUPP);
        }
        mr.data()
            .change(change.pd.map(|pd| *pd.data()), change.access)?;
        Ok(None)
    }

    fn dereg_mr(mr: &Mr<Self>, ctx: &MaySleep) -> Result {
        mr.base().device().rxe.mrs.remove(mr.data(), ctx);
        Ok(())
    }

    fn alloc_mr(
        pd: &Pd<Self>,
        mr_type: MrType,
        max_num_sg: u32,
        memory: VirtDma,
        ctx: &MaySleep,
    ) -> Result<NewMr<Self::Mr>> {
        if mr_type != MrType::MemReg {
            return Err(EINVAL);
        }
        let rxe = &pd.base().device().rxe;
        Ok(new_mr(rxe.mrs.add_fast(
            *pd.data(),
            max_num_sg,
            memory,
            ctx,
        )?))
    }

    fn map_mr_sg(mr: &Mr<Self>, list: SgList<'_>) -> Result<u32> {
        mr.data().map_begin(mr.base().page_size())?;
        let mapped = list.to_pages(mr, |address| mr.data().map_page(address))?;
        mr.data().map_end(mr.base().iova(), mr.base().length())?;
        Ok(mapped)
    }
}

/// What the device can.
fn describe(attr: &mut DeviceAttr) {
    attr.vendor_id = limits::VENDOR_ID;
    attr.max_mr_size = u64::MAX;
    attr.page_size_cap = 0xffff_f000;
    attr.device_cap_flags = (cap::IB_DEVICE_BAD_PKEY_CNTR
        | cap::IB_DEVICE_BAD_QKEY_CNTR
        | cap::IB_DEVICE_CHANGE_PHY_PORT
        | cap::IB_DEVICE_UD_AV_PORT_ENFORCE
        | cap::IB_DEVICE_PORT_ACTIVE_EVENT
        | cap::IB_DEVICE_SYS_IMAGE_GUID
        | cap::IB_DEVICE_RC_RNR_NAK_GEN
        | cap::IB_DEVICE_MEM_MGT_EXTENSIONS) as u64;
    attr.kernel_cap_flags = u64::from(cap::IBK_ALLOW_USER_UNREG);
    attr.max_qp = limits::MAX_QP as i32;
    attr.max_qp_wr = limits::MAX_QP_WR as i32;
    attr.max_send_sge = limits::MAX_SGE as i32;
    attr.max_recv_sge = limits::MAX_SGE as i32;
    attr.max_sge_rd = limits::MAX_SGE as i32;
    attr.max_cq = limits::MAX_CQ as i32;
    attr.max_cqe = limits::MAX_CQE as i32;
    attr.max_mr = limits::MAX_MR as i32;
    attr.max_pd = limits::MAX_PD as i32;
    attr.max_qp_rd_atom = limits::MAX_RD_ATOM as i32;
    attr.max_qp_init_rd_atom = limits::MAX_RD_ATOM as i32;
    attr.max_res_rd_atom = limits::MAX_RES_RD_ATOM as i32;
    attr.atomic_cap = cap::IB_ATOMIC_HCA;
    attr.max_ah = limits::MAX_AH as i32;
    attr.max_fast_reg_page_list_len = limits::MAX_FAST_REG_PAGES;
    attr.max_pkeys = limits::MAX_PKEYS;
    attr.local_ca_ack_delay = limits::LOCAL_CA_ACK_DELAY;
}
