// SPDX-License-Identifier: GPL-2.0

//! A device for the KUnit suites of the core, whose driver does nothing but record calls.
//!
//! | port | protocol | GIDs |
//! |---|---|---|
//! | [`ROCE`] | RoCE, both versions | [`GIDS`], in the core's table |
//! | [`IB`] | InfiniBand | as many, all of them zero |

use kernel::{
    new_spinlock,
    prelude::*,
    sync::{Arc, SpinLock},
};
use kernel_ext::{bindings as c, error::EOPNOTSUPP, net::device::NetDevice};
use rdma::{
    abi::{
        device::{DeviceAttr, DriverId, NODE_IB_CA},
        port::{PortAttr, PortImmutable, PortState},
    },
    core::Device as DeviceView,
    provider::{
        cq::{CqBase, CqHandle, CqInitAttr},
        qp::{QpBase, QpInitAttr},
        register::{unregister_driver, DeviceInfo},
        stats::{HwStats, StatDesc},
    },
    Device, Gid, MaySleep, NotifyFlags, PdBase, Provider, ProviderData, QpHandle, Udata,
};

use crate::registry::{self, DeviceFilter};

/// The RoCE port.
pub(crate) const ROCE: u32 = 1;

/// The InfiniBand port.
pub(crate) const IB: u32 = 2;

/// Number of GIDs of each port.
pub(crate) const GIDS: u16 = 8;

/// Maximum number of entries of a completion queue.
pub(crate) const MAX_CQE: u32 = 8192;

/// Moderation of a completion queue: number of completions, period in microseconds.
pub(crate) type Moderation = (u16, u16);

/// The driver.
pub(crate) struct Driver {
    log: Arc<Log>,
}

/// Calls that the driver has recorded.
#[pin_data]
pub(crate) struct Log {
    #[pin]
    moderations: SpinLock<KVec<Moderation>>,
}

impl Log {
    fn new() -> Result<Arc<Self>> {
        let room = KVec::with_capacity(64, GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                moderations <- new_spinlock!(room, "Log::moderations"),
            }),
            GFP_KERNEL,
        )
    }

    /// Records a moderation.
    fn add(&self, moderation: Moderation) -> Result {
        let mut moderations = self.moderations.lock();
        if moderations.len() < moderations.capacity() {
            moderations.push(moderation, GFP_ATOMIC)?;
        }
        Ok(())
    }

    /// Takes the moderations recorded.
    pub(crate) fn take(&self) -> Result<KVec<Moderation>> {
        let room = KVec::with_capacity(64, GFP_KERNEL)?;
        Ok(core::mem::replace(&mut *self.moderations.lock(), room))
    }
}

impl ProviderData for Driver {
    type Ucontext = ();
    type Pd = ();
    type Xrcd = ();
    type Dm = ();
    type Ah = ();
    type Cq = Arc<Log>;
    type Qp = ();
    type Srq = ();
    type Mr = ();
    type Mw = ();
    type Counter = ();
}

#[vtable]
impl Provider for Driver {
    // The ID of a driver that the kernel does not have any more.
    const DRIVER_ID: DriverId = DriverId::TEST;
    const ABI_VERSION: u32 = 1;
    const PORT_STATS: &'static [StatDesc] = &[StatDesc::new(c"one"), StatDesc::new(c"two")];

    fn module() -> &'static ThisModule {
        &crate::THIS_MODULE
    }

    fn query_device(_: &Device<Self>, attr: &mut DeviceAttr, _: &MaySleep) -> Result {
        attr.max_cqe = MAX_CQE as i32;
        Ok(())
    }

    fn query_port(_: &Device<Self>, _: u32, attr: &mut PortAttr, _: &MaySleep) -> Result {
        attr.state = PortState::Active.as_raw();
        attr.gid_tbl_len = GIDS.into();
        attr.pkey_tbl_len = 1;
        Ok(())
    }

    fn get_port_immutable(
        _: &Device<Self>,
        port: u32,
        immutable: &mut PortImmutable,
        _: &MaySleep,
    ) -> Result {
        immutable.core_cap_flags = match port {
            ROCE => c::RDMA_CORE_CAP_PROT_ROCE | c::RDMA_CORE_CAP_PROT_ROCE_UDP_ENCAP,
            _ => c::RDMA_CORE_CAP_PROT_IB,
        };
        immutable.gid_tbl_len = GIDS.into();
        immutable.pkey_tbl_len = 1;
        Ok(())
    }

    fn query_pkey(_: &Device<Self>, _: u32, _: u16, _: &MaySleep) -> Result<u16> {
        Ok(0xffff)
    }

    fn query_gid(_: &Device<Self>, _: u32, _: u32, _: &MaySleep) -> Result<Gid> {
        Ok(Gid::default())
    }

    fn get_hw_stats(
        _: &Device<Self>,
        stats: &mut HwStats<'_>,
        _: u32,
        _: Option<usize>,
        _: &MaySleep,
    ) -> Result<Option<usize>> {
        stats.set_all([1, 2]);
        Ok(None)
    }

    fn alloc_pd(_: &PdBase<Self>, _: Option<&Udata<'_>>, _: &MaySleep) -> Result {
        Ok(())
    }

    fn create_cq(
        cq: &CqBase<Self>,
        attr: &CqInitAttr,
        _: Arc<CqHandle>,
        _: Option<&Udata<'_>>,
        _: &MaySleep,
    ) -> Result<Arc<Log>> {
        cq.set_cqe(attr.cqe);
        Ok(cq.device().log.clone())
    }

    fn modify_cq(cq: &rdma::Cq<Self>, count: u16, period_us: u16, _: &MaySleep) -> Result {
        cq.data().add((count, period_us))
    }

    fn destroy_cq(_: &rdma::Cq<Self>, _: &MaySleep) -> Result {
        Ok(())
    }

    fn poll_cq(_: &rdma::Cq<Self>, _: &mut rdma::WcSink<'_>) -> Result {
        Ok(())
    }

    fn req_notify_cq(_: &rdma::Cq<Self>, _: NotifyFlags) -> Result<bool> {
        Ok(false)
    }

    fn create_qp(
        _: &QpBase<Self>,
        _: &mut QpInitAttr<'_, Self>,
        _: Arc<QpHandle>,
        _: Option<&Udata<'_>>,
        _: &MaySleep,
    ) -> Result {
        Err(EOPNOTSUPP)
    }
}

/// Runs a test with a registered device.
///
/// # Errors
///
/// Those of registering the device, and of the test.
pub(crate) fn with_device(test: impl FnOnce(&DeviceView, &Log, &MaySleep) -> Result) -> Result {
    with_device_over(None, test)
}

/// As [`with_device`], where [`IB`] has a net device.
pub(crate) fn with_device_over(
    ndev: Option<&NetDevice>,
    test: impl FnOnce(&DeviceView, &Log, &MaySleep) -> Result,
) -> Result {
    const NAME: &CStr = c"kunit_hca";
    let sleep = &MaySleep::of_test()?;
    // Also after a failed test, which leaves its objects behind.
    unregister_driver::<Driver>(sleep);
    let log = Log::new()?;
    let mut device = Device::alloc(Driver { log: log.clone() }, None, sleep)?;
    device.describe(&DeviceInfo {
        node_type: NODE_IB_CA,
        phys_port_cnt: IB,
        num_comp_vectors: 1,
        node_guid: [2, 0, 0, 0xff, 0xfe, 0, 0, 1],
        node_desc: b"of a test",
        local_dma_lkey: 0,
        uverbs_cmd_mask: 0,
    });
    if let Some(ndev) = ndev {
        device.set_netdev(ndev, IB, sleep)?;
    }
    device.register(NAME, sleep)?;
    let tested = registry::devices(DeviceFilter::Registered)
        .find(|device| *device.name() == *NAME)
        .ok_or(ENODEV)
        .and_then(|device| device.try_get().ok_or(ENODEV))
        .and_then(|device| test(&device, &log, sleep));
    unregister_driver::<Driver>(sleep);
    tested
}
