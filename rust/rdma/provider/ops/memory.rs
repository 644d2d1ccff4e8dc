// SPDX-License-Identifier: GPL-2.0

//! The C entry points for memory regions and windows.

use kernel::{
    error::from_result,
    ffi::{c_int, c_uint},
};
use kernel_ext::error::EOPNOTSUPP;
use rdma_bindings::{
    self as bindings, ib_device, ib_dm, ib_dm_alloc_attr, ib_dm_mr_attr, ib_dmah, ib_mr, ib_mw,
    ib_pd, ib_sge, ib_ucontext, ib_udata, scatterlist, uverbs_attr_bundle,
};

use super::{err_ptr, errno, no_handler, ProviderOps};
use crate::{
    abi::mr::{Advice, AdviseFlags},
    provider::{
        dm::{Dm, DmAttr, DmMr},
        mr::{Rereg, SgList, UserMr},
        wr::sge_list,
    },
    Access, Device, MaySleep, Mr, MrType, Mw, Pd, Provider, Udata, VirtDma,
};

impl<P: Provider> ProviderOps<P> {
    /// The C entry point of [`Provider::get_dma_mr`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn get_dma_mr(pd: *mut ib_pd, access: c_int) -> *mut ib_mr {
        // SAFETY: By the contract of the table; only clients in the kernel have such MRs, and
        // guarantee the addresses that they use with them.
        let (pd, memory, sleep) = unsafe { (Pd::from_raw(pd), VirtDma::new(), MaySleep::assume()) };
        let access = Access::from_bits(access as u32);
        err_ptr(Mr::make(pd, || {
            P::get_dma_mr(pd, access, memory, &sleep).map(Some)
        }))
    }

    /// The C entry point of [`Provider::reg_user_mr`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn reg_user_mr(
        pd: *mut ib_pd,
        start: u64,
        length: u64,
        iova: u64,
        access: c_int,
        dmah: *mut ib_dmah,
        udata: *mut ib_udata,
    ) -> *mut ib_mr {
        if !dmah.is_null() {
            return EOPNOTSUPP.to_ptr();
        }
        // SAFETY: By the contract of the table.
        let (pd, udata, sleep) =
            unsafe { (Pd::from_raw(pd), Udata::from_raw(udata), MaySleep::assume()) };
        let memory = UserMr {
            start,
            length,
            iova,
            access: Access::from_bits(access as u32),
        };
        err_ptr(Mr::make(pd, || {
            P::reg_user_mr(pd, &memory, udata.as_ref(), &sleep).map(Some)
        }))
    }

    /// The C entry point of [`Provider::reg_user_mr_dmabuf`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn reg_user_mr_dmabuf(
        pd: *mut ib_pd,
        offset: u64,
        length: u64,
        iova: u64,
        fd: c_int,
        access: c_int,
        dmah: *mut ib_dmah,
        _attrs: *mut bindings::uverbs_attr_bundle,
    ) -> *mut ib_mr {
        if !dmah.is_null() {
            return EOPNOTSUPP.to_ptr();
        }
        // SAFETY: By the contract of the table.
        let (pd, sleep) = unsafe { (Pd::from_raw(pd), MaySleep::assume()) };
        let memory = UserMr {
            start: offset,
            length,
            iova,
            access: Access::from_bits(access as u32),
        };
        err_ptr(Mr::make(pd, || {
            P::reg_user_mr_dmabuf(pd, &memory, fd, &sleep).map(Some)
        }))
    }

    /// The C entry point of [`Provider::alloc_dm`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn alloc_dm(
        device: *mut ib_device,
        _context: *mut ib_ucontext,
        attr: *mut ib_dm_alloc_attr,
        _attrs: *mut uverbs_attr_bundle,
    ) -> *mut ib_dm {
        // SAFETY: By the contract of the table.
        let (dev, attr, sleep) = unsafe { (Device::from_raw(device), *attr, MaySleep::assume()) };
        let attr = DmAttr {
            length: attr.length,
            alignment: attr.alignment,
        };
        err_ptr(Dm::<P>::make(|| P::alloc_dm(dev, &attr, &sleep)))
    }

    /// Frees device memory.
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn dealloc_dm(
        dm: *mut ib_dm,
        _attrs: *mut uverbs_attr_bundle,
    ) -> c_int {
        // SAFETY: By the contract of the table it is not used any more, also by no MR.
        drop(unsafe { Dm::<P>::take(dm) });
        0
    }

    /// The C entry point of [`Provider::reg_dm_mr`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn reg_dm_mr(
        pd: *mut ib_pd,
        dm: *mut ib_dm,
        attr: *mut ib_dm_mr_attr,
        _attrs: *mut uverbs_attr_bundle,
    ) -> *mut ib_mr {
        // SAFETY: By the contract of the table.
        let (pd, dm, attr, sleep) = unsafe {
            (
                Pd::from_raw(pd),
                Dm::<P>::from_raw(dm),
                *attr,
                MaySleep::assume(),
            )
        };
        let range = DmMr {
            offset: attr.offset,
            length: attr.length,
            access: Access::from_bits(attr.access_flags),
        };
        err_ptr(Mr::make(pd, || {
            P::reg_dm_mr(pd, dm, &range, &sleep).map(Some)
        }))
    }

    /// The C entry point of [`Provider::rereg_user_mr`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn rereg_user_mr(
        mr: *mut ib_mr,
        flags: c_int,
        start: u64,
        length: u64,
        iova: u64,
        access: c_int,
        pd: *mut ib_pd,
        udata: *mut ib_udata,
    ) -> *mut ib_mr {
        let has = |flag: bindings::ib_mr_rereg_flags| flags as u32 & flag != 0;
        // SAFETY: By the contract of the table; `pd` is the new PD, or the current one.
        let (mr, pd, udata, sleep) = unsafe {
            (
                Mr::from_raw(mr),
                Pd::<P>::from_raw(pd),
                Udata::from_raw(udata),
                MaySleep::assume(),
            )
        };
        let change = Rereg {
            translation: has(bindings::IB_MR_REREG_TRANS).then_some((start, length, iova)),
            access: has(bindings::IB_MR_REREG_ACCESS).then_some(Access::from_bits(access as u32)),
            pd: has(bindings::IB_MR_REREG_PD).then_some(pd),
        };
        err_ptr(Mr::make(pd, || {
            P::rereg_user_mr(mr, &change, udata.as_ref(), &sleep)
        }))
    }

    /// The C entry point of [`Provider::dereg_mr`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn dereg_mr(mr: *mut ib_mr, _udata: *mut ib_udata) -> c_int {
        if P::HAS_DEREG_MR {
            // SAFETY: By the contract of the table.
            let (mr, sleep) = unsafe { (Mr::from_raw(mr), MaySleep::assume()) };
            if let Err(err) = P::dereg_mr(mr, &sleep) {
                return err.to_errno();
            }
        }
        // SAFETY: By the contract of the table the MR is not used any more.
        drop(unsafe { Mr::<P>::take(mr) });
        0
    }

    /// The C entry point of [`Provider::alloc_mr`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn alloc_mr(
        pd: *mut ib_pd,
        mr_type: bindings::ib_mr_type,
        max_num_sg: u32,
    ) -> *mut ib_mr {
        // SAFETY: By the contract of the table; only clients in the kernel have such MRs, and
        // guarantee the addresses that they use with them.
        let (pd, memory, sleep) = unsafe { (Pd::from_raw(pd), VirtDma::new(), MaySleep::assume()) };
        err_ptr(Mr::make(pd, || {
            let mr_type = MrType::try_from(mr_type)?;
            P::alloc_mr(pd, mr_type, max_num_sg, memory, &sleep).map(Some)
        }))
    }

    /// The C entry point of [`Provider::map_mr_sg`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn map_mr_sg(
        mr: *mut ib_mr,
        list: *mut scatterlist,
        nents: c_int,
        offset: *mut c_uint,
    ) -> c_int {
        // SAFETY: By the contract of the table.
        let (mr, list) = unsafe { (Mr::from_raw(mr), SgList::new(list, nents, offset)) };
        from_result(|| Ok(P::map_mr_sg(mr, list)? as c_int))
    }

    /// The C entry point of [`Provider::advise_mr`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn advise_mr(
        pd: *mut ib_pd,
        advice: bindings::ib_uverbs_advise_mr_advice,
        flags: u32,
        sg_list: *mut ib_sge,
        num_sge: u32,
        _attrs: *mut uverbs_attr_bundle,
    ) -> c_int {
        // SAFETY: By the contract of the table.
        let (pd, sg_list, sleep) = unsafe {
            let count = i32::try_from(num_sge).unwrap_or(0);
            (
                Pd::from_raw(pd),
                sge_list(sg_list, count),
                MaySleep::assume(),
            )
        };
        errno((|| {
            let advice = Advice::try_from(advice).map_err(|_| EOPNOTSUPP)?;
            P::advise_mr(pd, advice, AdviseFlags::from_bits(flags), sg_list, &sleep)
        })())
    }

    /// The C entry point of [`Provider::alloc_mw`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn alloc_mw(mw: *mut ib_mw, udata: *mut ib_udata) -> c_int {
        // SAFETY: By the contract of the table.
        errno(unsafe {
            Mw::create(
                mw,
                (),
                |mw| P::alloc_mw(mw, Udata::from_raw(udata).as_ref(), &MaySleep::assume()),
                no_handler,
            )
        })
    }

    /// The C entry point of [`Provider::dealloc_mw`].
    ///
    /// # Safety
    ///
    /// See [`ops`](crate::provider::ops).
    pub(super) unsafe extern "C" fn dealloc_mw(mw: *mut ib_mw) -> c_int {
        let release = |mw: &Mw<P>| {
            if !P::HAS_DEALLOC_MW {
                return Ok(());
            }
            // SAFETY: By the contract of the table.
            P::dealloc_mw(mw, unsafe { &MaySleep::assume() })
        };
        // SAFETY: By the contract of the table.
        errno(unsafe { Mw::<P>::destroy(mw, release, no_handler) })
    }
}
