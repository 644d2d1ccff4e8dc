// SPDX-License-Identifier: GPL-2.0

//! The driver's methods, `struct ib_device_ops`, which call the parts of the driver.

use core::fmt;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel_ext::bindings;
use kernel_ext::error::EOPNOTSUPP;
use kernel_ext::module::ModuleRef;
use kernel_ext::net::device::NetDevice;
use rdma::abi::gid::GidAttr;
use rdma::abi::mad::{Mad, MadInfo, MadResult};
use rdma::abi::port::{
    self, LinkLayer, PhysState, PortAttr, PortImmutable, PortModify, PortModifyMask, PortState,
};
use rdma::provider::counter::{self, NewCounter};
use rdma::provider::dm::{Dm, DmAttr, DmMr};
use rdma::provider::dmabuf::Dmabuf;
use rdma::provider::object::{Base, Pd};
use rdma::provider::odp::OdpUmem;
use rdma::provider::stats::{HwStats, StatDesc};
use rdma::provider::sysfs::{AttributeGroup, DeviceAttribute, DeviceCommand};
use rdma::provider::wr::{RecvWrs, SendWrs};
use rdma::provider::xrcd::XrcdBase;
use rdma::{
    abi::ah::AhFields,
    provider::ah::{Ah, AhAttr},
};
use rdma::{
    abi::cq::NotifyFlags,
    provider::cq::{Cq, CqHandle, CqInitAttr},
};
use rdma::{
    abi::device::{DeviceAttr, DriverId},
    provider::device::{Device, DeviceModify},
};
use rdma::{
    abi::qp::QpAttrMask,
    provider::qp::{Qp, QpAttrOut, QpInitAttr, QpInitOut, QpModify},
};
use rdma::{
    abi::srq::{SrqAttr, SrqAttrMask},
    provider::srq::{Srq, SrqBase, SrqInitAttr},
};
use rdma::{
    abi::{
        access::Access,
        mr::{Advice, AdviseFlags, MrType},
    },
    provider::mr::{Mr, Mw, MwBase, NewMr, Rereg, SgList, UserMr, VirtDma},
};
use rdma::{
    DeviceEvent, Gid, MaySleep, Provider, ProviderData, QpHandle, Sge, SrqHandle, Ucontext, Udata,
    Umem, Vma, WcSink,
};

use crate::counters::{self, Counter, Counters};
use crate::device::Rxe;
use crate::fault_inject::{self, Fault};
use crate::ids::{PdId, XrcdId};
use crate::limits;
use crate::link::Link;
use crate::pkeys::Pkeys;
use crate::port::Port;
use crate::port_id::PortId;
use crate::ring::{Mappings, MmapInfo, UserCommand};
use crate::{dm, mad, mr, qp};

/// The driver's data of a `struct ib_device`.
pub(crate) struct Driver {
    /// Data that the parts of the driver share.
    pub(crate) rxe: Arc<Rxe<qp::Qp>>,
    /// The link of the first port.
    pub(crate) link: Link,
    /// That of the second port, if there is one.
    pub(crate) second: Option<Link>,
}

impl Driver {
    /// The links of all ports.
    pub(crate) fn links(&self) -> impl Iterator<Item = &Link> {
        Iterator::chain(core::iter::once(&self.link), &self.second)
    }

    /// Closes the links of all ports. May be called repeatedly, and under RTNL.
    pub(crate) fn close(&self, ctx: &MaySleep) {
        self.links().for_each(|link| link.close(ctx));
    }

    /// The port with a number.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the device has none.
    fn port_id(&self, number: u32) -> Result<PortId> {
        self.rxe.port_id(number).ok_or(EINVAL)
    }

    /// As [`Self::port_id`], its data.
    fn port(&self, number: u32) -> Result<&Port<qp::Qp>> {
        Ok(self.rxe.port(self.port_id(number)?))
    }
}

/// A user context.
pub(crate) struct Context {
    /// Its rings that are not mapped yet.
    mappings: Arc<Mappings>,
    /// Keeps the module loaded while user space has the device open.
    _module: ModuleRef,
}

/// The sysfs file `parent`, by which udev recognizes a RoCE device and scripts find its net device.
struct Parent;

impl DeviceAttribute for Parent {
    const NAME: &'static CStr = c"parent";
    type Device = Driver;

    fn show(dev: &Device<Driver>, out: &mut dyn fmt::Write, ctx: &MaySleep) -> Result {
        let ndev = dev.netdev(PortId::First.number(), ctx).ok_or(ENODEV)?;
        let name = ndev.name();
        let name = core::str::from_utf8(name.as_bytes()).map_err(|_| EINVAL)?;
        writeln!(out, "{name}").map_err(|_| EOVERFLOW)
    }
}

/// The sysfs file `set_pkey`, which takes the index and the value of an entry of a P_Key table, and the number of a port other than
/// the first one. A device whose tables have only the default P_Key has none.
struct SetPkey;

impl DeviceCommand for SetPkey {
    const NAME: &'static CStr = c"set_pkey";
    type Device = Driver;

    fn exists(dev: &Device<Driver>) -> bool {
        dev.rxe.port(PortId::First).pkeys.len() > 1
    }

    fn store(dev: &Device<Driver>, text: &[u8], _ctx: &MaySleep) -> Result {
        let (index, pkey, port_num) = Pkeys::parse_entry(text).ok_or(EINVAL)?;
        if dev.port(port_num)?.pkeys.set(index, pkey)? {
            // The core updates its cache before it tells the users.
            dev.dispatch_event(DeviceEvent::PkeyChange, port_num);
        }
        Ok(())
    }
}

/// The sysfs file `fault_inject`, which takes a fault of send requests. Devices have it if the module parameter says so.
struct InjectFault;

impl DeviceCommand for InjectFault {
    const NAME: &'static CStr = c"fault_inject";
    type Device = Driver;

    fn exists(_dev: &Device<Driver>) -> bool {
        fault_inject::is_offered()
    }

    fn store(dev: &Device<Driver>, text: &[u8], _ctx: &MaySleep) -> Result {
        dev.rxe.fault_inject.set(Fault::parse(text).ok_or(EINVAL)?);
        Ok(())
    }
}

/// The counters' descriptors for the core.
static STATS: [StatDesc; counters::COUNT] = {
    let mut descs = [const { StatDesc::new(c"") }; counters::COUNT];
    let mut at = 0;
    while at < counters::COUNT {
        descs[at] = StatDesc::new(counters::NAMES[at]);
        at += 1;
    }
    descs
};

/// Writes the location of a ring to the response, whose length was checked.
fn respond_mmap(udata: &Udata<'_>, info: MmapInfo) -> Result {
    udata.respond_all(&info.to_bytes())
}

/// The rings of the user context of a command.
fn mappings<'a>(udata: &Udata<'a>) -> Result<&'a Arc<Mappings>> {
    Ok(&udata.context::<Driver>().ok_or(EINVAL)?.data().mappings)
}

/// The command of user space, if there is one.
fn command<'a>(udata: Option<&'a Udata<'a>>) -> Result<Option<UserCommand<'a>>> {
    let command = |udata| {
        let mappings = mappings(udata)?;
        Ok(UserCommand { udata, mappings })
    };
    udata.map(command).transpose()
}

/// The state of a port on a net device, which may have gone.
fn port_state(ndev: Option<&NetDevice>) -> (PortState, PhysState) {
    let Some(ndev) = ndev else {
        return (PortState::Down, PhysState::Disabled);
    };
    let state = port::state_of(ndev);
    let phys_state = match state {
        PortState::Active => PhysState::LinkUp,
        _ if ndev.is_running() => PhysState::Polling,
        _ => PhysState::Disabled,
    };
    (state, phys_state)
}

/// Attributes of a new memory region for the core.
fn new_mr(mr: Arc<mr::Mr>) -> NewMr<Arc<mr::Mr>> {
    let key = mr.key();
    NewMr {
        data: mr,
        lkey: key,
        rkey: key,
    }
}

/// Registers memory that is paged on demand.
fn reg_paged(pd: &Pd<Driver>, memory: &UserMr, ctx: &MaySleep) -> Result<NewMr<Arc<mr::Mr>>> {
    // The whole address space: `IB_ODP_SUPPORT_IMPLICIT` is not offered.
    if (memory.start, memory.length) == (0, u64::MAX) {
        return Err(EINVAL);
    }
    let dev = pd.base().device();
    let umem = OdpUmem::new(dev, memory.start, memory.length, memory.access, ctx)?;
    let mrs = &dev.rxe.mrs;
    Ok(new_mr(mrs.add_paged(*pd.data(), memory, umem, ctx)?))
}

impl ProviderData for Driver {
    type Ucontext = Context;
    type Pd = PdId;
    type Xrcd = XrcdId;
    type Dm = Arc<dm::Dm>;
    type Ah = Arc<crate::ah::Ah>;
    type Cq = Arc<crate::cq::Cq>;
    type Qp = Arc<qp::Qp>;
    type Srq = Arc<crate::srq::Srq>;
    type Mr = Arc<mr::Mr>;
    type Mw = Arc<crate::mw::Mw>;
    type Counter = Arc<Counters>;
}

#[vtable]
impl Provider for Driver {
    const DRIVER_ID: DriverId = DriverId::RXE;
    /// `RXE_UVERBS_ABI_VERSION`.
    const ABI_VERSION: u32 = 2;
    const DEVICE_GROUP: Option<&'static AttributeGroup<Self>> =
        Some(AttributeGroup::of::<Parent, SetPkey, InjectFault>());
    const PORT_STATS: &'static [StatDesc] = &STATS;

    fn module() -> &'static ThisModule {
        &crate::THIS_MODULE
    }

    // The device and its port.

    fn query_device(dev: &Device<Self>, attr: &mut DeviceAttr, _ctx: &MaySleep) -> Result {
        limits::describe(attr);
        attr.max_dm_size = dev.rxe.memory.size();
        attr.sys_image_guid = dev.rxe.sys_image_guid();
        Ok(())
    }

    fn query_port(
        dev: &Device<Self>,
        port_num: u32,
        attr: &mut PortAttr,
        ctx: &MaySleep,
    ) -> Result {
        let id = dev.port_id(port_num)?;
        let data = dev.rxe.port(id);
        let ndev = dev.netdev(port_num, ctx);
        if ndev.is_none() && id == PortId::First {
            return Err(ENODEV);
        }
        let (state, phys_state) = port_state(ndev.as_deref());
        attr.state = state.as_raw();
        attr.phys_state = phys_state.as_raw() as u8;
        attr.max_mtu = port::Mtu::B4096.as_raw();
        attr.active_mtu = data.mtu() as u32;
        attr.gid_tbl_len = limits::GID_TABLE as i32;
        attr.port_cap_flags = data.capabilities();
        attr.max_msg_sz = limits::MAX_MESSAGE;
        attr.bad_pkey_cntr = data.bad_pkeys();
        attr.qkey_viol_cntr = data.qkey_violations();
        attr.pkey_tbl_len = data.pkeys.len();
        attr.max_vl_num = 1;
        (attr.active_speed, attr.active_width) = match dev.eth_speed(port_num, ctx) {
            // The net device has gone, perhaps just now.
            Err(error) if error == ENODEV && id == PortId::Second => limits::LOWEST_SPEED,
            speed => speed?,
        };
        Ok(())
    }

    fn get_port_immutable(
        dev: &Device<Self>,
        port_num: u32,
        immutable: &mut PortImmutable,
        ctx: &MaySleep,
    ) -> Result {
        dev.port_id(port_num)?;
        let attr = dev.query_port(port_num, ctx)?;
        immutable.core_cap_flags = port::CORE_PORT_IBA_ROCE_UDP_ENCAP;
        immutable.pkey_tbl_len = attr.pkey_tbl_len.into();
        immutable.gid_tbl_len = attr.gid_tbl_len;
        immutable.max_mad_size = bindings::IB_MGMT_MAD_SIZE;
        Ok(())
    }

    fn get_link_layer(_dev: &Device<Self>, _port_num: u32) -> LinkLayer {
        LinkLayer::Ethernet
    }

    fn query_pkey(dev: &Device<Self>, port_num: u32, index: u16, _ctx: &MaySleep) -> Result<u16> {
        let pkey = dev.port(port_num)?.pkeys.get(index).ok_or(EINVAL)?;
        Ok(pkey.get())
    }

    fn add_gid(dev: &Device<Self>, attr: &GidAttr, _ctx: &MaySleep) -> Result {
        dev.port(attr.port_num())?.addresses.add(attr)
    }

    fn del_gid(dev: &Device<Self>, attr: &GidAttr, _ctx: &MaySleep) -> Result {
        dev.port(attr.port_num())?.addresses.remove(attr);
        Ok(())
    }

    fn modify_device(dev: &Device<Self>, change: &DeviceModify<'_>, _ctx: &MaySleep) -> Result {
        if change.other {
            return Err(EOPNOTSUPP);
        }
        if let Some(guid) = change.sys_image_guid {
            dev.rxe.set_sys_image_guid(guid.to_be());
        }
        if let Some(desc) = change.node_desc {
            dev.set_node_desc(desc);
        }
        Ok(())
    }

    fn dealloc_driver(dev: &Device<Self>, ctx: &MaySleep) {
        dev.close(ctx);
        dev.rxe.stop(ctx);
    }

    fn modify_port(
        dev: &Device<Self>,
        port_num: u32,
        mask: PortModifyMask,
        change: &PortModify,
        _ctx: &MaySleep,
    ) -> Result {
        let port = dev.port(port_num)?;
        if !mask.without(PortModifyMask::RESET_QKEY_CNTR).is_empty() {
            return Err(EOPNOTSUPP);
        }
        port.announce(change.set_port_cap_mask, change.clr_port_cap_mask);
        if mask.contains(PortModifyMask::RESET_QKEY_CNTR) {
            port.reset_qkey_violations();
        }
        Ok(())
    }

    fn enable_driver(dev: &Device<Self>, ctx: &MaySleep) -> Result {
        for &port in dev.rxe.ports() {
            let number = port.number();
            let ndev = dev.netdev(number, ctx).ok_or(ENODEV)?;
            // From here on the netdevice notifier finds the device. An unregistration before that was not notified.
            if !ndev.is_registered() {
                return Err(ENODEV);
            }
            if port::state_of(&ndev) == PortState::Active {
                dev.dispatch_event(DeviceEvent::PortActive, number);
            } else {
                let counters = dev.rxe.port(port).counters.own();
                counters.add(Counter::LinkDowned, 1);
                dev.dispatch_event(DeviceEvent::PortErr, number);
            }
        }
        Ok(())
    }

    fn process_mad(dev: &Device<Self>, info: &MadInfo, input: &Mad, output: &mut Mad) -> MadResult {
        match dev.port(info.port_num) {
            Ok(port) => mad::process(&port.counters, input, output),
            Err(_) => MadResult::empty(),
        }
    }

    fn get_hw_stats(
        dev: &Device<Self>,
        stats: &mut HwStats<'_>,
        port_num: u32,
        _index: Option<usize>,
        _ctx: &MaySleep,
    ) -> Result<Option<usize>> {
        stats.set_all(dev.port(port_num)?.counters.own().values());
        Ok(None)
    }

    // User contexts and protection domains.

    fn alloc_ucontext(
        _ctx: &Base<bindings::ib_ucontext, Self>,
        _udata: &Udata<'_>,
        _sleep: &MaySleep,
    ) -> Result<Context> {
        let _module = ModuleRef::get(Self::module()).ok_or(ENODEV)?;
        Ok(Context {
            mappings: Mappings::new()?,
            _module,
        })
    }

    fn disassociate_ucontext(_ctx: &Ucontext<Self>, _sleep: &MaySleep) {
        // Mapped rings are kept by their mappings.
    }

    fn mmap(ctx: &Ucontext<Self>, vma: &Vma<'_>, sleep: &MaySleep) -> Result {
        ctx.data().mappings.map(vma.offset(), vma, sleep)
    }

    fn alloc_pd(
        _pd: &Base<bindings::ib_pd, Self>,
        _udata: Option<&Udata<'_>>,
        _ctx: &MaySleep,
    ) -> Result<PdId> {
        Ok(PdId::new())
    }

    // XRC domains.

    fn alloc_xrcd(
        _xrcd: &XrcdBase<Self>,
        _udata: Option<&Udata<'_>>,
        _ctx: &MaySleep,
    ) -> Result<XrcdId> {
        Ok(XrcdId::new())
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
        // Old libraries have no room for the number, and put the address vector into each request.
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
            None => crate::cq::Cq::for_kernel(&handle, attr, ctx)?,
            Some(udata) => {
                let mappings = mappings(udata)?;
                let has_channel = cq.has_channel();
                let (new, info) =
                    crate::cq::Cq::for_user(&handle, attr, has_channel, mappings, ctx)?;
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

    fn modify_cq(cq: &Cq<Self>, count: u16, period_us: u16, _ctx: &MaySleep) -> Result {
        cq.data().moderate(count, period_us);
        Ok(())
    }

    fn destroy_cq(cq: &Cq<Self>, ctx: &MaySleep) -> Result {
        // The core rejects this while QPs use the CQ. The ring is freed with its last reference.
        cq.data().destroy(ctx);
        Ok(())
    }

    fn poll_cq(cq: &Cq<Self>, out: &mut WcSink<'_>) -> Result {
        cq.data().poll(out);
        Ok(())
    }

    fn peek_cq(cq: &Cq<Self>, most: u32) -> Result<u32> {
        Ok(cq.data().pending().min(most))
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
        let rxe = &qp.device().rxe;
        qp::Qp::create(rxe, qp, init, handle, command(udata)?, ctx)
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

    fn attach_mcast(qp: &Qp<Self>, gid: Gid, _lid: u16, ctx: &MaySleep) -> Result {
        let dev = qp.base().device();
        let port = qp.data().port();
        let ndev = dev.netdev(port.number(), ctx).ok_or(ENODEV)?;
        let groups = &dev.rxe.port(port).groups;
        groups.attach(gid, qp.data(), &ndev, ctx)
    }

    fn detach_mcast(qp: &Qp<Self>, gid: Gid, _lid: u16, ctx: &MaySleep) -> Result {
        let dev = qp.base().device();
        // The port may have changed since it was attached.
        let detach = |port: &PortId| {
            let ndev = dev.netdev(port.number(), ctx);
            let groups = &dev.rxe.port(*port).groups;
            groups.detach(gid, qp.data(), ndev.as_deref(), ctx)
        };
        let mut tried = dev.rxe.ports().iter().map(detach);
        tried.find(Result::is_ok).ok_or(EINVAL)?
    }

    // Counters that queue pairs are bound to.

    fn counter_alloc(
        dev: &Device<Self>,
        port_num: u32,
        ctx: &MaySleep,
    ) -> Result<NewCounter<Self::Counter>> {
        let counters = &dev.port(port_num)?.counters;
        let (number, data) = counters.add(&dev.rxe.last_counter, ctx)?;
        Ok(NewCounter { number, data })
    }

    fn counter_dealloc(counter: &counter::Counter<Self>, _ctx: &MaySleep) {
        let counter = counter.base();
        let rxe = &counter.device().rxe;
        for &port in rxe.ports() {
            rxe.port(port).counters.remove(counter.number());
        }
    }

    fn counter_bind_qp(counter: &counter::Counter<Self>, qp: &Qp<Self>, _ctx: &MaySleep) {
        qp.data().count_for(Some(counter.data().clone()));
    }

    fn counter_unbind_qp(qp: &Qp<Self>, _ctx: &MaySleep) {
        qp.data().count_for(None);
    }

    fn counter_update_stats(
        counter: &counter::Counter<Self>,
        stats: &mut HwStats<'_>,
        _ctx: &MaySleep,
    ) {
        stats.set_all(counter.data().values());
    }

    // Shared receive queues.

    fn create_srq(
        srq: &SrqBase<Self>,
        init: &mut SrqInitAttr<'_, Self>,
        handle: Arc<SrqHandle>,
        udata: Option<&Udata<'_>>,
        ctx: &MaySleep,
    ) -> Result<Self::Srq> {
        let (table, pd) = (&srq.device().rxe.srqs, *srq.pd().data());
        let new = crate::srq::Srq::create(table, pd, init, handle, command(udata)?, ctx)?;
        if new.cq().is_some() {
            srq.set_xrc_number(new.number());
        }
        Ok(new)
    }

    fn modify_srq(
        srq: &Srq<Self>,
        attr: &SrqAttr,
        mask: SrqAttrMask,
        udata: Option<&Udata<'_>>,
        ctx: &MaySleep,
    ) -> Result {
        srq.data().modify(attr, mask, command(udata)?, ctx)
    }

    fn query_srq(srq: &Srq<Self>, _ctx: &MaySleep) -> Result<SrqAttr> {
        Ok(srq.data().query())
    }

    fn destroy_srq(srq: &Srq<Self>, ctx: &MaySleep) -> Result {
        // The core rejects this while QPs use the SRQ, other than targets of XRC, which name it by its number. The ring is freed with
        // its last reference.
        let rxe = &srq.base().device().rxe;
        drop(rxe.srqs.remove(srq.data().number(), ctx));
        if srq.data().cq().is_some() {
            qp::Qp::forget_srq(rxe, srq.data());
        }
        Ok(())
    }

    fn post_srq_recv(srq: &Srq<Self>, wrs: &mut RecvWrs<'_>) -> Result {
        srq.data().post(wrs)
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
        if memory.access.contains(Access::ON_DEMAND) {
            return reg_paged(pd, memory, ctx);
        }
        let umem = Umem::new(dev, memory.start, memory.length, memory.access, ctx)?;
        Ok(new_mr(dev.rxe.mrs.add_user(
            *pd.data(),
            memory,
            umem,
            ctx,
        )?))
    }

    fn reg_user_mr_dmabuf(
        pd: &Pd<Self>,
        memory: &UserMr,
        fd: c_int,
        ctx: &MaySleep,
    ) -> Result<NewMr<Self::Mr>> {
        if !memory.access.without(mr::DMABUF).is_empty() {
            return Err(EOPNOTSUPP);
        }
        let dev = pd.base().device();
        let range = (memory.start, memory.length, fd);
        let buffer = Dmabuf::new(dev, range, memory.access.is_writable(), ctx)?;
        Ok(new_mr(dev.rxe.mrs.add_dmabuf(
            *pd.data(),
            memory,
            buffer,
            ctx,
        )?))
    }

    fn alloc_dm(dev: &Device<Self>, attr: &DmAttr, sleep: &MaySleep) -> Result<Self::Dm> {
        dm::Dm::new(&dev.rxe.memory, attr, sleep)
    }

    fn reg_dm_mr(
        pd: &Pd<Self>,
        dm: &Dm<Self>,
        range: &DmMr,
        ctx: &MaySleep,
    ) -> Result<NewMr<Self::Mr>> {
        if !range.access.without(mr::DEVICE).is_empty() {
            return Err(EOPNOTSUPP);
        }
        let mrs = &pd.base().device().rxe.mrs;
        Ok(new_mr(mrs.add_device(*pd.data(), dm, range, ctx)?))
    }

    fn rereg_user_mr(
        mr: &Mr<Self>,
        change: &Rereg<'_, Self>,
        _udata: Option<&Udata<'_>>,
        ctx: &MaySleep,
    ) -> Result<Option<NewMr<Self::Mr>>> {
        if change.translation.is_some() {
            return Err(EOPNOTSUPP);
        }
        let pd = change.pd.map(|pd| *pd.data());
        mr.data().change(pd, change.access, ctx)?;
        Ok(None)
    }

    fn dereg_mr(mr: &Mr<Self>, ctx: &MaySleep) -> Result {
        mr.base().device().rxe.mrs.remove(mr.data(), ctx)
    }

    fn advise_mr(
        pd: &Pd<Self>,
        advice: Advice,
        flags: AdviseFlags,
        list: &[Sge],
        ctx: &MaySleep,
    ) -> Result {
        let rxe = &pd.base().device().rxe;
        let later = (!flags.contains(AdviseFlags::FLUSH)).then_some(&rxe.prefetches);
        rxe.mrs.advise(*pd.data(), advice, list, later, ctx)
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

    fn alloc_mw(mw: &MwBase<Self>, _udata: Option<&Udata<'_>>, ctx: &MaySleep) -> Result<Self::Mw> {
        let new = mw
            .device()
            .rxe
            .mws
            .add(*mw.pd().data(), mw.mw_type()?, ctx)?;
        mw.set_rkey(new.key());
        Ok(new)
    }

    fn dealloc_mw(mw: &Mw<Self>, ctx: &MaySleep) -> Result {
        mw.base().device().rxe.mws.remove(mw.data(), ctx);
        Ok(())
    }

    fn map_mr_sg(mr: &Mr<Self>, list: SgList<'_>) -> Result<u32> {
        mr.data().map_begin(mr.base().page_size())?;
        let mapped = list.to_pages(mr, |address| mr.data().map_page(address))?;
        mr.data().map_end(mr.base().iova(), mr.base().length())?;
        Ok(mapped)
    }
}
