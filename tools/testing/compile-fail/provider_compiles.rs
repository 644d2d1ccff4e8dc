// SPDX-License-Identifier: GPL-2.0

//! A provider compiles that sleeps only where its caller says that it may.

use kernel::{prelude::*, sync::Arc};
use rdma::*;

/// A device.
pub struct Example;

#[vtable]
impl Provider for Example {
    const DRIVER_ID: u32 = 0;
    const ABI_VERSION: u32 = 1;

    type Ucontext = ();
    type Pd = ();
    type Ah = ();
    type Cq = ();
    type Qp = ();
    type Srq = ();
    type Mr = ();
    type Mw = ();

    fn module() -> &'static ThisModule {
        // SAFETY: A null module is one that is built in.
        const BUILT_IN: ThisModule = unsafe { ThisModule::from_ptr(core::ptr::null_mut()) };
        &BUILT_IN
    }

    fn query_device(_: &Device<Self>, _: &mut DeviceAttr, _: &MaySleep) -> Result {
        Ok(())
    }

    fn query_port(_: &Device<Self>, _: u32, _: &mut PortAttr, _: &MaySleep) -> Result {
        Ok(())
    }

    fn get_port_immutable(_: &Device<Self>, _: u32, _: &mut PortImmutable, _: &MaySleep) -> Result {
        Ok(())
    }

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
        Ok(())
    }

    fn create_qp(
        _: &QpBase<Self>,
        _: &mut QpInitAttr<'_, Self>,
        _: Arc<QpHandle>,
        _: Option<&Udata<'_>>,
        _: &MaySleep,
    ) -> Result {
        Ok(())
    }

    fn create_ah(
        ah: &AhBase<Self>,
        _: &AhAttr<'_>,
        _: Option<&Udata<'_>>,
        sleep: Option<&MaySleep>,
    ) -> Result {
        if let Some(sleep) = sleep {
            ah.device().query_port(1, sleep)?;
        }
        Ok(())
    }

    fn post_send(_: &Qp<Self>, wrs: &mut SendWrs<'_, Self>) -> Result {
        wrs.next().map_or(Ok(()), |_| Err(EINVAL))
    }
}
