// SPDX-License-Identifier: GPL-2.0

//! The net device of a port.
//!
//! C header: `include/rdma/ib_verbs.h` (`ib_device_set_netdev`).

use kernel::{prelude::*, sync::aref::ARef};
use kernel_ext::{bindings, entry::Out, export::export, net::device::NetDevice};
use rdma::{
    core::{device::Registered, Device, DeviceMemory},
    MaySleep,
};

use super::notify::{self, NotifyEvent};
use crate::{private::DeviceExt, registry};

/// A reference to the net device of a port, from the driver or as set. Any context.
pub(crate) fn of(device: &Device, port: u32) -> Option<ARef<NetDevice>> {
    let state = device.core_port(port)?;
    if device.has_get_netdev() {
        device.driver_get_netdev(port)
    } else {
        state.netdev.get()
    }
}

/// The port of a net device.
pub(crate) fn port_of(device: &Device, ndev: &NetDevice) -> Option<u32> {
    let mut ports = device.ports();
    ports.find(|&port| of(device, port).is_some_and(|of| core::ptr::eq(&*of, ndev)))
}

/// Clears the net devices of all ports.
pub(crate) fn forget_all(device: &DeviceMemory) {
    for port in device.ports().map_while(|port| device.core_port(port)) {
        port.netdev.set(None);
    }
}

/// Sets or clears the net device of a port, before or after registration. Process context.
///
/// # Errors
///
/// `EINVAL` for an invalid port, `ENOMEM`.
///
/// C header: `include/rdma/ib_verbs.h`.
#[export]
fn ib_device_set_netdev(
    ib_dev: &Device,
    ndev: Option<&NetDevice>,
    port: u32,
    sleep: &MaySleep,
) -> Result {
    if !ib_dev.is_port_valid(port) {
        return Err(EINVAL);
    }
    ib_dev.make_ports(sleep)?;
    let state = ib_dev.core_port(port).ok_or(EINVAL)?;
    if state.netdev.set(ndev) && registry::contains(ib_dev) {
        let what = match ndev {
            Some(_) => NotifyEvent::NetdevAttached(port),
            None => NotifyEvent::NetdevDetached(port),
        };
        notify::notify(ib_dev, what, sleep);
    }
    Ok(())
}

/// Returns a reference to the net device of a port; null for none. Any context.
#[export]
fn ib_device_get_netdev(ib_dev: &Device, port: u32) -> Option<ARef<NetDevice>> {
    of(ib_dev, port)
}

/// Returns a registration reference to the device of a net device; null for none. Any context.
///
/// `driver_id` may be `RDMA_DRIVER_UNKNOWN` for any driver.
#[export]
fn ib_device_get_by_netdev(
    ndev: &NetDevice,
    driver_id: bindings::rdma_driver_id,
) -> *mut bindings::ib_device {
    registry::by_netdev(ndev, driver_id).map_or(core::ptr::null_mut(), Registered::into_raw)
}

/// Returns the port of a net device.
///
/// # Errors
///
/// `ENOENT`.
#[export]
fn ib_query_netdev_port(ibdev: &Device, ndev: &NetDevice, port: Out<'_, u32>) -> Result {
    port.set(port_of(ibdev, ndev).ok_or(ENOENT)?);
    Ok(())
}

#[kernel::prelude::kunit_tests(ib_core_netdev)]
mod tests {
    use kernel::sync::Arc;
    use kernel_ext::{error::EOPNOTSUPP, net::ns::NetNamespace};
    use rdma::{
        abi::{
            device::{DeviceAttr, DriverId},
            port::{PortAttr, PortImmutable},
        },
        provider::{
            cq::{CqBase, CqHandle, CqInitAttr},
            device::DeviceRef,
            qp::{QpBase, QpInitAttr},
        },
        Device, PdBase, Provider, ProviderData, QpHandle, Udata,
    };

    use super::*;
    use crate::kunit::{with_device_over, Driver};

    /// Another driver in this module, with the same identifier.
    struct Other;

    impl ProviderData for Other {
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
    impl Provider for Other {
        const DRIVER_ID: DriverId = DriverId::TEST;
        const ABI_VERSION: u32 = 1;

        fn module() -> &'static ThisModule {
            &crate::THIS_MODULE
        }

        fn query_device(_: &Device<Self>, _: &mut DeviceAttr, _: &MaySleep) -> Result {
            Ok(())
        }

        fn query_port(_: &Device<Self>, _: u32, _: &mut PortAttr, _: &MaySleep) -> Result {
            Ok(())
        }

        fn get_port_immutable(
            _: &Device<Self>,
            _: u32,
            _: &mut PortImmutable,
            _: &MaySleep,
        ) -> Result {
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

    #[test]
    fn a_device_is_of_one_driver() -> Result {
        let lo = NetDevice::by_name(NetNamespace::init(), c"lo").ok_or(ENODEV)?;
        with_device_over(Some(&lo), |_, _, _| {
            assert!(DeviceRef::<Driver>::by_netdev(&lo).is_some());
            assert!(DeviceRef::<Other>::by_netdev(&lo).is_none());
            Ok(())
        })
    }
}
