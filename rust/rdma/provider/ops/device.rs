// SPDX-License-Identifier: GPL-2.0

//! The C entry points for devices, ports, user contexts, PDs and XRC domains.

use kernel::{
    bindings::vm_area_struct,
    error::from_result,
    ffi::{c_char, c_int, c_void},
    prelude::*,
};
use rdma_bindings::{
    self as bindings, ib_device, ib_device_attr, ib_device_modify, ib_gid, ib_gid_attr, ib_grh,
    ib_mad, ib_pd, ib_port_attr, ib_port_immutable, ib_port_modify, ib_ucontext, ib_udata, ib_wc,
    ib_xrcd, rdma_hw_stats,
};

use super::{counter::alloc_stats, errno, no_handler, ProviderOps};
use crate::{
    abi::{
        gid::GidAttr,
        mad::{Mad, MadInfo},
        port::PortModifyMask,
    },
    provider::{device::DeviceModify, stats::HwStats, sysfs::Bounded, xrcd::Xrcd},
    Device, MaySleep, Pd, Provider, Ucontext, Udata, Vma,
};

impl<P: Provider> ProviderOps<P> {
    /// The C entry point of [`Provider::query_device`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn query_device(
        dev: *mut ib_device,
        attr: *mut ib_device_attr,
        udata: *mut ib_udata,
    ) -> c_int {
        // SAFETY: By the contract of the table.
        let (dev, attr, udata, sleep) = unsafe {
            attr.write(pin_init::zeroed());
            (
                Device::from_raw(dev),
                &mut *attr,
                Udata::from_raw(udata),
                MaySleep::assume(),
            )
        };
        errno((|| {
            if let Some(udata) = &udata {
                udata.no_request()?;
            }
            P::query_device(dev, attr, &sleep)?;
            udata.map_or(Ok(()), |udata| udata.respond_empty())
        })())
    }

    /// The C entry point of [`Provider::query_port`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn query_port(
        dev: *mut ib_device,
        port_num: u32,
        attr: *mut ib_port_attr,
    ) -> c_int {
        // SAFETY: By the contract of the table.
        let (dev, attr, sleep) = unsafe { (Device::from_raw(dev), &mut *attr, MaySleep::assume()) };
        errno(P::query_port(dev, port_num, attr, &sleep))
    }

    /// The C entry point of [`Provider::get_port_immutable`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn get_port_immutable(
        dev: *mut ib_device,
        port_num: u32,
        immutable: *mut ib_port_immutable,
    ) -> c_int {
        // SAFETY: By the contract of the table.
        let (dev, immutable, sleep) =
            unsafe { (Device::from_raw(dev), &mut *immutable, MaySleep::assume()) };
        errno(P::get_port_immutable(dev, port_num, immutable, &sleep))
    }

    /// The C entry point of [`Provider::get_link_layer`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn get_link_layer(
        dev: *mut ib_device,
        port_num: u32,
    ) -> bindings::rdma_link_layer {
        // SAFETY: By the contract of the table.
        let dev = unsafe { Device::from_raw(dev) };
        P::get_link_layer(dev, port_num).as_raw()
    }

    /// The C entry point of [`Provider::query_pkey`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn query_pkey(
        dev: *mut ib_device,
        port_num: u32,
        index: u16,
        pkey: *mut u16,
    ) -> c_int {
        // SAFETY: By the contract of the table.
        let (dev, pkey, sleep) = unsafe { (Device::from_raw(dev), &mut *pkey, MaySleep::assume()) };
        errno(P::query_pkey(dev, port_num, index, &sleep).map(|value| *pkey = value))
    }

    /// The C entry point of [`Provider::query_gid`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn query_gid(
        dev: *mut ib_device,
        port_num: u32,
        index: c_int,
        gid: *mut ib_gid,
    ) -> c_int {
        // SAFETY: By the contract of the table.
        let (dev, sleep) = unsafe { (Device::from_raw(dev), MaySleep::assume()) };
        errno((|| {
            let value = P::query_gid(dev, port_num, u32::try_from(index)?, &sleep)?;
            // SAFETY: By the contract of the table.
            unsafe { gid.write(value.to_raw()) };
            Ok(())
        })())
    }

    /// The C entry point of [`Provider::add_gid`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn add_gid(
        attr: *const ib_gid_attr,
        _context: *mut *mut c_void,
    ) -> c_int {
        // SAFETY: By the contract of the table; the core holds a reference to the entry, whose `device` is
        // that of `P`.
        let (dev, attr, sleep) = unsafe {
            (
                Device::from_raw((*attr).device),
                GidAttr::from_raw(attr),
                MaySleep::assume(),
            )
        };
        errno(P::add_gid(dev, attr, &sleep))
    }

    /// The C entry point of [`Provider::del_gid`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn del_gid(
        attr: *const ib_gid_attr,
        _context: *mut *mut c_void,
    ) -> c_int {
        // SAFETY: By the contract of the table; the core holds a reference to the entry, whose `device` is
        // that of `P`.
        let (dev, attr, sleep) = unsafe {
            (
                Device::from_raw((*attr).device),
                GidAttr::from_raw(attr),
                MaySleep::assume(),
            )
        };
        errno(P::del_gid(dev, attr, &sleep))
    }

    /// The C entry point of [`Provider::get_dev_fw_str`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn get_dev_fw_str(dev: *mut ib_device, text: *mut c_char) {
        // SAFETY: By the contract of the table; the length is that of the header.
        let (dev, mut out) = unsafe {
            let size = bindings::ETHTOOL_FWVERS_LEN as usize;
            (Device::from_raw(dev), Bounded::new(text.cast(), size))
        };
        P::get_dev_fw_str(dev, &mut out);
    }

    /// The C entry point of [`Provider::modify_device`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn modify_device(
        dev: *mut ib_device,
        mask: c_int,
        change: *mut ib_device_modify,
    ) -> c_int {
        // SAFETY: By the contract of the table.
        let (dev, change, sleep) = unsafe { (Device::from_raw(dev), &*change, MaySleep::assume()) };
        errno(P::modify_device(
            dev,
            &DeviceModify::from_raw(change, mask),
            &sleep,
        ))
    }

    /// The C entry point of [`Provider::modify_port`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn modify_port(
        dev: *mut ib_device,
        port_num: u32,
        mask: c_int,
        change: *mut ib_port_modify,
    ) -> c_int {
        // SAFETY: By the contract of the table.
        let (dev, change, sleep) = unsafe { (Device::from_raw(dev), &*change, MaySleep::assume()) };
        let mask = PortModifyMask::from_bits(mask as u32);
        errno(P::modify_port(dev, port_num, mask, change, &sleep))
    }

    /// The C entry point of [`Provider::enable_driver`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn enable_driver(dev: *mut ib_device) -> c_int {
        // SAFETY: By the contract of the table.
        let (dev, sleep) = unsafe { (Device::from_raw(dev), MaySleep::assume()) };
        errno(P::enable_driver(dev, &sleep))
    }

    /// The C entry point of [`Provider::dealloc_driver`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn dealloc_driver(dev: *mut ib_device) {
        // SAFETY: By the contract of the table.
        let (this, sleep) = unsafe { (Device::<P>::from_raw(dev), MaySleep::assume()) };
        if P::HAS_DEALLOC_DRIVER {
            P::dealloc_driver(this, &sleep);
        }
        // SAFETY: By the contract of the table this is the last method that the core calls, after all objects
        // were destroyed.
        unsafe { Device::<P>::drop_data(dev) };
    }

    /// The C entry point of [`Provider::process_mad`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn process_mad(
        dev: *mut ib_device,
        flags: c_int,
        port_num: u32,
        _wc: *const ib_wc,
        _grh: *const ib_grh,
        input: *const ib_mad,
        output: *mut ib_mad,
        _output_size: *mut usize,
        _output_pkey_index: *mut u16,
    ) -> c_int {
        // SAFETY: By the contract of the table.
        let (dev, input, output) = unsafe { (Device::from_raw(dev), &*input, &mut *output) };
        let info = MadInfo {
            port_num,
            flags: flags as u32,
        };
        let (input, output) = (Mad::from_raw(input), Mad::from_raw_mut(output));
        P::process_mad(dev, &info, input, output).bits() as c_int
    }

    /// Allocates the values of [`Provider::PORT_STATS`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn alloc_hw_port_stats(
        _dev: *mut ib_device,
        _port_num: u32,
    ) -> *mut rdma_hw_stats {
        alloc_stats::<P>()
    }

    /// The C entry point of [`Provider::get_hw_stats`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn get_hw_stats(
        dev: *mut ib_device,
        stats: *mut rdma_hw_stats,
        port_num: u32,
        index: c_int,
    ) -> c_int {
        // SAFETY: By the contract of the table; the core holds the lock that protects the values.
        let (dev, mut stats, sleep) = unsafe {
            (
                Device::from_raw(dev),
                HwStats::from_raw(stats),
                MaySleep::assume(),
            )
        };
        let count = P::PORT_STATS.len();
        from_result(|| {
            let index = Some(usize::try_from(index)?).filter(|index| *index < count);
            let updated = P::get_hw_stats(dev, &mut stats, port_num, index, &sleep)?;
            Ok(updated.unwrap_or(count) as c_int)
        })
    }

    /// The C entry point of [`Provider::alloc_ucontext`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn alloc_ucontext(
        ctx: *mut ib_ucontext,
        udata: *mut ib_udata,
    ) -> c_int {
        // SAFETY: By the contract of the table.
        errno(unsafe {
            Ucontext::create(
                ctx,
                (),
                |ctx| {
                    let udata = Udata::from_raw_no_context(udata).ok_or(EINVAL)?;
                    P::alloc_ucontext(ctx, &udata, &MaySleep::assume())
                },
                no_handler,
            )
        })
    }

    /// The C entry point of [`Provider::dealloc_ucontext`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn dealloc_ucontext(ctx: *mut ib_ucontext) {
        let release = |ctx: &Ucontext<P>| {
            if P::HAS_DEALLOC_UCONTEXT {
                // SAFETY: By the contract of the table.
                P::dealloc_ucontext(ctx, unsafe { &MaySleep::assume() });
            }
            Ok(())
        };
        // SAFETY: By the contract of the table.
        let _: Result = unsafe { Ucontext::<P>::destroy(ctx, release, no_handler) };
    }

    /// The C entry point of [`Provider::disassociate_ucontext`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn disassociate_ucontext(ctx: *mut ib_ucontext) {
        // SAFETY: By the contract of the table.
        unsafe { P::disassociate_ucontext(Ucontext::from_raw(ctx), &MaySleep::assume()) };
    }

    /// The C entry point of [`Provider::mmap`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn mmap(ctx: *mut ib_ucontext, vma: *mut vm_area_struct) -> c_int {
        // SAFETY: By the contract of the table.
        let (ctx, vma, sleep) = unsafe {
            (
                Ucontext::from_raw(ctx),
                Vma::from_raw(vma),
                MaySleep::assume(),
            )
        };
        errno(P::mmap(ctx, &vma, &sleep))
    }

    /// The C entry point of [`Provider::alloc_pd`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn alloc_pd(pd: *mut ib_pd, udata: *mut ib_udata) -> c_int {
        // SAFETY: By the contract of the table.
        errno(unsafe {
            Pd::create(
                pd,
                (),
                |pd| P::alloc_pd(pd, Udata::from_raw(udata).as_ref(), &MaySleep::assume()),
                no_handler,
            )
        })
    }

    /// The C entry point of [`Provider::dealloc_pd`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn dealloc_pd(pd: *mut ib_pd, _udata: *mut ib_udata) -> c_int {
        let release = |pd: &Pd<P>| {
            if !P::HAS_DEALLOC_PD {
                return Ok(());
            }
            // SAFETY: By the contract of the table.
            P::dealloc_pd(pd, unsafe { &MaySleep::assume() })
        };
        // SAFETY: By the contract of the table.
        errno(unsafe { Pd::<P>::destroy(pd, release, no_handler) })
    }

    /// The C entry point of [`Provider::alloc_xrcd`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn alloc_xrcd(xrcd: *mut ib_xrcd, udata: *mut ib_udata) -> c_int {
        // SAFETY: By the contract of the table.
        errno(unsafe {
            Xrcd::create(
                xrcd,
                (),
                |xrcd| P::alloc_xrcd(xrcd, Udata::from_raw(udata).as_ref(), &MaySleep::assume()),
                no_handler,
            )
        })
    }

    /// The C entry point of [`Provider::dealloc_xrcd`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn dealloc_xrcd(
        xrcd: *mut ib_xrcd,
        _udata: *mut ib_udata,
    ) -> c_int {
        let release = |xrcd: &Xrcd<P>| {
            if !P::HAS_DEALLOC_XRCD {
                return Ok(());
            }
            // SAFETY: By the contract of the table.
            P::dealloc_xrcd(xrcd, unsafe { &MaySleep::assume() })
        };
        // SAFETY: By the contract of the table.
        errno(unsafe { Xrcd::<P>::destroy(xrcd, release, no_handler) })
    }
}
