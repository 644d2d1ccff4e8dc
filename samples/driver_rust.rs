// SPDX-License-Identifier: GPL-2.0

//! The smallest driver: a device with one InfiniBand port, which programs may query, and nothing more.
//!
//! Built with `FERROBAND_TESTS=m`; then, without `rdma_rxe`, `modprobe driver_rust`, and see `ibv_devinfo -d rxe_sample`. Its
//! driver ID is that of rxe, so libibverbs uses the rxe provider, which passes all queries to the kernel.

use kernel::{prelude::*, sync::Arc};
use kernel_ext::{
    error::EOPNOTSUPP,
    module::{process_module, ProcessModule},
};
use rdma::{
    abi::{
        device::{DeviceAttr, DriverId, NODE_IB_CA},
        port::{PortAttr, PortImmutable, PortState},
    },
    bindings,
    provider::{
        cq::{CqBase, CqHandle, CqInitAttr},
        qp::{QpBase, QpInitAttr},
        register::{unregister_driver, DeviceInfo},
        ucontext::{Ucontext, UcontextBase},
    },
    Device, Gid, MaySleep, Mtu, PdBase, Provider, ProviderData, QpHandle, Udata,
};

process_module! {
    type: Sample,
    name: "driver_rust",
    authors: ["Ferroband"],
    description: "The smallest RDMA driver, in Rust",
    license: "GPL",
}

const PORT: u32 = 1;
const GUID: [u8; 8] = [0x02, 0, 0, 0xff, 0xfe, 0, 0, 0x01];

/// The driver.
struct Driver;

fn check(port: u32, index: u32) -> Result {
    match (port, index) {
        (PORT, 0) => Ok(()),
        _ => Err(EINVAL),
    }
}

impl ProviderData for Driver {
    type Ucontext = ();
    type Pd = ();
    type Xrcd = ();
    type Dm = ();
    type Ah = ();
    type Cq = ();
    type Qp = ();
    type Srq = ();
    type Mr = ();
    type Mw = ();
    type Counter = ();
}

#[vtable]
impl Provider for Driver {
    const DRIVER_ID: DriverId = DriverId::RXE;
    const ABI_VERSION: u32 = 1;

    fn module() -> &'static ThisModule {
        &THIS_MODULE
    }

    fn query_device(_: &Device<Self>, attr: &mut DeviceAttr, _: &MaySleep) -> Result {
        attr.max_pd = 16;
        Ok(())
    }
    fn query_port(_: &Device<Self>, port: u32, attr: &mut PortAttr, _: &MaySleep) -> Result {
        check(port, 0)?;
        attr.state = PortState::Active.as_raw();
        attr.active_mtu = Mtu::B1024.as_raw();
        attr.gid_tbl_len = 1;
        attr.pkey_tbl_len = 1;
        attr.lid = 7;
        attr.active_width = bindings::IB_WIDTH_4X as u8;
        Ok(())
    }
    fn get_port_immutable(
        _: &Device<Self>,
        port: u32,
        immutable: &mut PortImmutable,
        _: &MaySleep,
    ) -> Result {
        check(port, 0)?;
        immutable.core_cap_flags = bindings::RDMA_CORE_CAP_PROT_IB;
        immutable.gid_tbl_len = 1;
        immutable.pkey_tbl_len = 1;
        Ok(())
    }
    fn query_pkey(_: &Device<Self>, port: u32, index: u16, _: &MaySleep) -> Result<u16> {
        check(port, index.into()).map(|()| 0xffff)
    }
    fn query_gid(_: &Device<Self>, port: u32, index: u32, _: &MaySleep) -> Result<Gid> {
        check(port, index)?;
        let mut gid = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        gid[8..].copy_from_slice(&GUID);
        Ok(Gid(gid))
    }
    fn alloc_ucontext(_: &UcontextBase<Self>, _: &Udata<'_>, _: &MaySleep) -> Result {
        Ok(())
    }
    fn dealloc_ucontext(_: &Ucontext<Self>, _: &MaySleep) {}

    fn alloc_pd(_: &PdBase<Self>, _: Option<&Udata<'_>>, _: &MaySleep) -> Result {
        Ok(())
    }

    fn create_cq(
        _: &CqBase<Self>,
        _: &CqInitAttr,
        _: Arc<CqHandle>,
        _: Option<&Udata<'_>>,
        _: &MaySleep,
    ) -> Result {
        Err(EOPNOTSUPP)
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

/// The module.
struct Sample;

impl ProcessModule for Sample {
    fn init(_module: &'static ThisModule, sleep: &MaySleep) -> Result<Self> {
        let mut device = Device::alloc(Driver, None, sleep)?;
        device.describe(&DeviceInfo {
            node_type: NODE_IB_CA,
            phys_port_cnt: PORT,
            num_comp_vectors: 1,
            node_guid: GUID,
            node_desc: b"the smallest driver",
            local_dma_lkey: 0,
            uverbs_cmd_mask: 0,
        });
        device.register(c"rxe_sample", sleep)?;
        Ok(Self)
    }

    fn exit(self, sleep: &MaySleep) {
        unregister_driver::<Driver>(sleep);
    }
}
