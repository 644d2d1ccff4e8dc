// SPDX-License-Identifier: GPL-2.0

//! Calls into a driver with data of user space (`struct ib_udata`), and posting and polling through the kernel.
//!
//! ib_uverbs offers a command only where the driver has the method.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::ptr::null;

use kernel::{
    error::{from_err_ptr, to_result},
    ffi::c_int,
    prelude::*,
};
use kernel_ext::error::EOPNOTSUPP;
use rdma_bindings::{
    ib_device_attr, ib_recv_wr, ib_rwq_ind_table_init_attr, ib_send_wr, ib_srq_attr, ib_wc,
    ib_wq_attr,
};

use super::objects::{create, destroy};
use crate::{
    core::{
        flow::FlowAttr,
        mr::NewMr,
        object::{Created, Destroyed, Failed, Fresh, Owned, UdataView},
        user::WqArray,
        Cq, Device, Flow, Mr, Mw, Pd, Qp, RwqIndTable, Srq, Ucontext, Wq,
    },
    MaySleep,
};

impl Device {
    /// Queries the attributes of the device, with user data.
    pub fn driver_query_device_user(
        &self,
        attr: &mut ib_device_attr,
        udata: &UdataView,
        _sleep: &MaySleep,
    ) -> Result {
        let call = op!(self, query_device).ok_or(EOPNOTSUPP)?;
        // SAFETY: All structures are valid during the call.
        to_result(unsafe { call(self.as_raw(), attr, udata.as_raw()) })
    }
}

impl Fresh<Ucontext> {
    /// Lets the driver allocate a user context.
    pub fn driver_alloc(self, udata: &UdataView, _sleep: &MaySleep) -> Created<Ucontext> {
        create!(self.alloc_ucontext(udata.as_raw()))
    }
}

impl Fresh<Mw> {
    /// Lets the driver allocate a memory window.
    pub fn driver_alloc(self, udata: &UdataView, _sleep: &MaySleep) -> Created<Mw> {
        create!(self.alloc_mw(udata.as_raw()))
    }
}

impl Owned<Mw> {
    /// Lets the driver deallocate a memory window.
    pub fn driver_dealloc(self, _sleep: &MaySleep) -> Destroyed<Mw> {
        destroy!(self.dealloc_mw())
    }
}

/// The arguments of `rereg_user_mr`.
pub struct Rereg<'a> {
    /// `enum ib_mr_rereg_flags`: which of the members change.
    pub flags: u32,
    /// The start address in the current process.
    pub start: u64,
    /// The length in bytes.
    pub length: u64,
    /// The I/O virtual address.
    pub iova: u64,
    /// `enum ib_access_flags`.
    pub access: u32,
    /// The protection domain.
    pub pd: &'a Pd,
}

impl Mr {
    /// Lets the driver re-register a region. The driver may return a new region that replaces it.
    ///
    /// # Safety
    ///
    /// The user object of the region is locked exclusively by this thread.
    pub unsafe fn driver_rereg_user<'a>(
        &self,
        rereg: &Rereg<'a>,
        udata: &UdataView,
        _sleep: &MaySleep,
    ) -> Result<Option<NewMr<'a>>> {
        let call = op!(self.device(), rereg_user_mr).ok_or(EOPNOTSUPP)?;
        // SAFETY: By the safety requirements; by the header the driver returns an errno, null or a new region of the domain.
        unsafe {
            let mr = from_err_ptr(call(
                self.as_raw(),
                rereg.flags as c_int,
                rereg.start,
                rereg.length,
                rereg.iova,
                rereg.access as c_int,
                rereg.pd.as_raw(),
                udata.as_raw(),
            ))?;
            if mr.is_null() {
                return Ok(None);
            }
            NewMr::from_driver(rereg.pd, mr).map(Some)
        }
    }
}

/// A polled completion, with the number of its queue pair. The queue pair itself may be destroyed at any time.
pub struct PolledWc {
    wc: ib_wc,
    qp_num: u32,
}

impl PolledWc {
    /// The completion. Its pointer to the queue pair may dangle.
    #[inline]
    pub fn wc(&self) -> &ib_wc {
        &self.wc
    }

    /// The number of the queue pair; 0 where the driver has set none.
    #[inline]
    pub fn qp_num(&self) -> u32 {
        self.qp_num
    }
}

impl Cq {
    /// Lets the driver resize a completion queue to `cqe` completions.
    pub fn driver_resize_user(&self, cqe: u32, udata: &UdataView, _sleep: &MaySleep) -> Result {
        let call = op!(self.device(), resize_user_cq).ok_or(EOPNOTSUPP)?;
        // SAFETY: `self` is a valid queue.
        to_result(unsafe { call(self.as_raw(), cqe, udata.as_raw()) })
    }

    /// Polls one completion; `None` if there is none.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub fn driver_poll_one(&self) -> Result<Option<PolledWc>> {
        let call = op!(self.device(), poll_cq).ok_or(EOPNOTSUPP)?;
        let mut wc: ib_wc = pin_init::zeroed();
        // SAFETY: `wc` is valid for writes of one completion.
        let ret = unsafe { call(self.as_raw(), 1, &mut wc) };
        if ret < 0 {
            return Err(Error::from_errno(ret));
        }
        // SAFETY: By the header the driver sets the queue pair of a completion, which is valid when `poll_cq` returns.
        let qp_num = unsafe { wc.qp.as_ref() }.map_or(0, |qp| qp.qp_num);
        Ok((ret > 0).then_some(PolledWc { wc, qp_num }))
    }
}

impl Srq {
    /// Lets the driver modify a shared receive queue, with user data.
    pub fn driver_modify_user(
        &self,
        attr: &mut ib_srq_attr,
        mask: u32,
        udata: &UdataView,
        _sleep: &MaySleep,
    ) -> Result {
        let call = op!(self.device(), modify_srq).ok_or(EOPNOTSUPP)?;
        // SAFETY: Both structures are valid during the call.
        to_result(unsafe { call(self.as_raw(), attr, mask, udata.as_raw()) })
    }
}

impl Wq {
    /// Lets the driver modify a work queue, with user data.
    pub fn driver_modify_user(
        &self,
        attr: &mut ib_wq_attr,
        mask: u32,
        udata: &UdataView,
        _sleep: &MaySleep,
    ) -> Result {
        let call = op!(self.device(), modify_wq).ok_or(EOPNOTSUPP)?;
        // SAFETY: Both structures are valid during the call.
        to_result(unsafe { call(self.as_raw(), attr, mask, udata.as_raw()) })
    }
}

impl Fresh<RwqIndTable> {
    /// Lets the driver create an indirection table, which owns the array of work queues afterwards.
    pub fn driver_create(
        mut self,
        mut queues: WqArray,
        udata: &UdataView,
        _sleep: &MaySleep,
    ) -> Created<RwqIndTable> {
        self.lend_queues(&mut queues);
        let mut init = ib_rwq_ind_table_init_attr {
            log_ind_tbl_size: self.log_size(),
            ind_tbl: queues.as_mut_ptr(),
        };
        let table = create!(self.create_rwq_ind_table(&mut init, udata.as_raw()))?;
        table.keep_queues(queues);
        Ok(table)
    }
}

impl Qp {
    /// Lets the driver create a rule that steers packets to the queue pair.
    pub fn driver_create_flow(
        &self,
        attr: &mut FlowAttr,
        udata: &UdataView,
        _sleep: &MaySleep,
    ) -> Result<Owned<Flow>> {
        let call = op!(self.device(), create_flow).ok_or(EOPNOTSUPP)?;
        // SAFETY: The queue pair is valid, and the attributes are complete; by the header the driver returns a new rule or
        // an errno.
        unsafe {
            let flow = from_err_ptr(call(self.as_raw(), attr.as_raw(), udata.as_raw()))?;
            let flow = core::ptr::NonNull::new(flow).ok_or(EINVAL)?;
            Ok(Owned::from_raw(flow))
        }
    }

    /// Posts a chain of send requests, which may be empty. On failure the first request that was not posted is returned too.
    ///
    /// # Safety
    ///
    /// The requests and what they refer to are valid during the call, and the chain ends with null.
    pub unsafe fn driver_post_user_sends(
        &self,
        first: *const ib_send_wr,
    ) -> Result<(), (Error, *const ib_send_wr)> {
        let mut bad = null();
        let Some(call) = op!(self.device(), post_send) else {
            return Err((EOPNOTSUPP, first));
        };
        // SAFETY: By the safety requirements.
        let ret = unsafe { call(self.as_raw(), first, &mut bad) };
        to_result(ret).map_err(|error| (error, bad))
    }

    /// As [`Self::driver_post_user_sends`], for receive requests.
    ///
    /// # Safety
    ///
    /// Those of [`Qp::driver_post_user_sends`].
    pub unsafe fn driver_post_user_recvs(
        &self,
        first: *const ib_recv_wr,
    ) -> Result<(), (Error, *const ib_recv_wr)> {
        let mut bad = null();
        let Some(call) = op!(self.device(), post_recv) else {
            return Err((EOPNOTSUPP, first));
        };
        // SAFETY: By the safety requirements.
        let ret = unsafe { call(self.as_raw(), first, &mut bad) };
        to_result(ret).map_err(|error| (error, bad))
    }
}

impl Srq {
    /// As [`Qp::driver_post_user_recvs`].
    ///
    /// # Safety
    ///
    /// Those of [`Qp::driver_post_user_sends`].
    pub unsafe fn driver_post_user_recvs(
        &self,
        first: *const ib_recv_wr,
    ) -> Result<(), (Error, *const ib_recv_wr)> {
        let mut bad = null();
        let Some(call) = op!(self.device(), post_srq_recv) else {
            return Err((EOPNOTSUPP, first));
        };
        // SAFETY: By the safety requirements.
        let ret = unsafe { call(self.as_raw(), first, &mut bad) };
        to_result(ret).map_err(|error| (error, bad))
    }
}
