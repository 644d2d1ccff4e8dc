// SPDX-License-Identifier: GPL-2.0

// A provider that does as little as one may, and the methods that a test adds.

use kernel::{prelude::*, sync::Arc};
use kernel_ext::{
    context::MaySleep,
    module::{process_module, ProcessModule},
    sync::rcu,
};
use rdma::{
    abi::{
        ah::AhFields,
        cq::NotifyFlags,
        device::DeviceAttr,
        port::{PortAttr, PortImmutable},
    },
    provider::{
        ah::{Ah, AhAttr, AhBase},
        cq::{Cq, CqBase, CqHandle, CqInitAttr},
        qp::{Qp, QpBase, QpInitAttr},
        srq::Srq,
    },
    Device, PdBase, Provider, ProviderData, QpHandle, RecvWrs, SendWrs, Udata, WcSink,
};

process_module! {
    type: Example,
    name: "provider",
    authors: ["Ferroband"],
    description: "An example",
    license: "GPL",
}

struct Example;

impl ProcessModule for Example {
    fn init(_module: &'static ThisModule, _sleep: &MaySleep) -> Result<Self> {
        Ok(Self)
    }

    fn exit(self, _sleep: &MaySleep) {}
}

/// A device without objects.
pub(crate) struct Minimal;

macro_rules! provider {
    ($($methods:item)*) => {
        impl ProviderData for Minimal {
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
        impl Provider for Minimal {
            const DRIVER_ID: rdma::abi::device::DriverId = rdma::abi::device::DriverId::TEST;
            const ABI_VERSION: u32 = 0;

            fn module() -> &'static ThisModule {
                &THIS_MODULE
            }
            fn query_device(_: &Device<Self>, _: &mut DeviceAttr, _: &MaySleep) -> Result {
                Ok(())
            }
            fn query_port(_: &Device<Self>, _: u32, _: &mut PortAttr, _: &MaySleep) -> Result {
                Ok(())
            }
            fn get_port_immutable(
                _: &Device<Self>, _: u32, _: &mut PortImmutable, _: &MaySleep,
            ) -> Result {
                Ok(())
            }
            fn alloc_pd(_: &PdBase<Self>, _: Option<&Udata<'_>>, _: &MaySleep) -> Result {
                Ok(())
            }
            fn create_cq(
                _: &CqBase<Self>, _: &CqInitAttr, _: Arc<CqHandle>, _: Option<&Udata<'_>>, _: &MaySleep,
            ) -> Result {
                Ok(())
            }
            fn create_qp(
                _: &QpBase<Self>, _: &mut QpInitAttr<'_, Self>, _: Arc<QpHandle>, _: Option<&Udata<'_>>,
                _: &MaySleep,
            ) -> Result {
                Ok(())
            }
            $($methods)*
        }
    };
}
