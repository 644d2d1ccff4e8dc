// SPDX-License-Identifier: GPL-2.0

//! Calls into a driver that create and destroy user objects.
//!
//! As in [`super::objects`], create methods take memory and return an object, destroy methods the reverse.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::ptr::{null_mut, NonNull};

use kernel::{
    error::{from_err_ptr, to_result},
    ffi::c_int,
    prelude::*,
};
use kernel_ext::error::EOPNOTSUPP;
use rdma_bindings::{
    ib_counters_read_attr, ib_dm_alloc_attr, ib_dm_mr_attr, ib_dmah, ib_rwq_ind_table, ib_sge,
    ib_wq_init_attr,
};

use super::objects::{create, destroy, free};
use crate::{
    core::{
        cq::CqInit,
        mr::NewMr,
        object::{optional_links, Created, Destroyed, Failed, Fresh, Owned, UdataView},
        AttrBundle, Counters, Cq, Device, Dm, Dmah, Flow, FlowAction, Mr, Pd, Qp, RwqIndTable,
        Ucontext, Wq,
    },
    MaySleep,
};

impl Device {
    /// Whether user space can create completion queues.
    pub fn has_user_cq(&self) -> bool {
        let create = op!(self, create_cq).is_some() || op!(self, create_user_cq).is_some();
        create && op!(self, destroy_cq).is_some()
    }

    /// Whether the driver has `create_counters`.
    pub fn has_create_counters(&self) -> bool {
        op!(self, create_counters).is_some()
    }

    /// Whether DMA buffers can be registered.
    pub fn has_reg_dmabuf(&self) -> bool {
        op!(self, reg_user_mr_dmabuf).is_some()
    }

    /// Whether device memory can be registered.
    pub fn has_reg_dm(&self) -> bool {
        op!(self, reg_dm_mr).is_some()
    }

    /// Whether device memory can be allocated.
    pub fn has_alloc_dm(&self) -> bool {
        op!(self, alloc_dm).is_some()
    }
}

impl Fresh<Cq> {
    /// Lets the driver create a completion queue of user space.
    pub fn driver_create_user(
        self,
        init: &CqInit,
        command: &AttrBundle,
        _sleep: &MaySleep,
    ) -> Created<Cq> {
        // SAFETY: Only the device is read.
        let cq = unsafe { self.members() };
        if op!(cq.device(), create_user_cq).is_some() {
            return create!(self.create_user_cq(init.as_raw(), command.as_raw()));
        }
        create!(self.create_cq(init.as_raw(), command.as_raw()))
    }
}

impl Pd {
    /// Checks that what the driver takes together with the domain is of its device too, since a driver finds its own data behind it.
    fn of_one_device(&self, other: &Device) -> Result {
        match core::ptr::eq(self.device(), other) {
            true => Ok(()),
            false => Err(EINVAL),
        }
    }

    /// The DMA handle for the driver; null for none.
    fn handle(&self, dmah: Option<&Dmah>) -> Result<*mut ib_dmah> {
        let Some(dmah) = dmah else {
            return Ok(null_mut());
        };
        self.of_one_device(dmah.device())?;
        Ok(dmah.as_raw())
    }

    /// Lets the driver create a work queue of user space. Domain and completion queue count it as a user. The caller sets its
    /// user object.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a completion queue of another device, `EOPNOTSUPP`, and those of the driver.
    pub fn driver_create_user_wq(
        &self,
        init: &mut ib_wq_init_attr,
        cq: &Cq,
        udata: &UdataView,
        _sleep: &MaySleep,
    ) -> Result<Owned<Wq>> {
        self.of_one_device(cq.device())?;
        let call = op!(self.device(), create_wq).ok_or(EOPNOTSUPP)?;
        init.cq = cq.as_raw();
        // SAFETY: All structures are valid; by the header the driver returns a new queue or an errno.
        unsafe {
            let wq = from_err_ptr(call(self.as_raw(), init, udata.as_raw()))?;
            let wq = NonNull::new(wq).ok_or(EINVAL)?;
            let raw = wq.as_ptr();
            (*raw).device = self.device().as_raw();
            (*raw).pd = self.as_raw();
            (*raw).cq = cq.as_raw();
            (*raw).usecnt = pin_init::zeroed();
            let wq = Owned::<Wq>::from_raw(wq);
            wq.count_parents();
            Ok(wq)
        }
    }

    /// Lets the driver register memory of the current process, for user space or for a client in the kernel.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a DMA handle of another device, `EOPNOTSUPP`, and those of the driver.
    pub fn driver_reg_user(
        &self,
        (start, length, iova): (u64, u64, u64),
        access: u32,
        dmah: Option<&Dmah>,
        udata: Option<&UdataView>,
        _sleep: &MaySleep,
    ) -> Result<NewMr<'_>> {
        let call = op!(self.device(), reg_user_mr).ok_or(EOPNOTSUPP)?;
        let dmah = self.handle(dmah)?;
        let (pd, access) = (self.as_raw(), access as c_int);
        let udata = UdataView::pointer(udata);
        // SAFETY: All structures are valid; by the header the driver returns a new region in the domain or an errno.
        unsafe {
            let mr = call(pd, start, length, iova, access, dmah, udata);
            NewMr::from_driver(self, mr)
        }
    }

    /// Lets the driver register a range of a DMA buffer.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a DMA handle of another device, `EOPNOTSUPP`, and those of the driver.
    pub fn driver_reg_dmabuf(
        &self,
        (offset, length, iova): (u64, u64, u64),
        fd: c_int,
        access: u32,
        dmah: Option<&Dmah>,
        command: &AttrBundle,
        _sleep: &MaySleep,
    ) -> Result<NewMr<'_>> {
        let call = op!(self.device(), reg_user_mr_dmabuf).ok_or(EOPNOTSUPP)?;
        let dmah = self.handle(dmah)?;
        let (pd, access, command) = (self.as_raw(), access as c_int, command.as_raw());
        // SAFETY: All structures are valid; by the header the driver returns a new region in the domain or an errno.
        unsafe {
            let mr = call(pd, offset, length, iova, fd, access, dmah, command);
            NewMr::from_driver(self, mr)
        }
    }

    /// Lets the driver register device memory.
    ///
    /// # Errors
    ///
    /// `EINVAL` for memory of another device, `EOPNOTSUPP`, and those of the driver.
    pub fn driver_reg_dm(
        &self,
        dm: &Dm,
        attr: &mut ib_dm_mr_attr,
        command: &AttrBundle,
        _sleep: &MaySleep,
    ) -> Result<NewMr<'_>> {
        self.of_one_device(dm.device())?;
        let call = op!(self.device(), reg_dm_mr).ok_or(EOPNOTSUPP)?;
        // SAFETY: All structures are valid; by the header the driver returns a new region in the domain or an errno.
        unsafe {
            let mr = call(self.as_raw(), dm.as_raw(), attr, command.as_raw());
            NewMr::from_driver(self, mr)
        }
    }

    /// Passes advice of user space about ranges of memory to the driver.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP`, and those of the driver.
    pub fn driver_advise_user(
        &self,
        advice: u32,
        flags: u32,
        ranges: &mut [ib_sge],
        command: &AttrBundle,
        _sleep: &MaySleep,
    ) -> Result {
        let call = op!(self.device(), advise_mr).ok_or(EOPNOTSUPP)?;
        let count = u32::try_from(ranges.len())?;
        let (pd, ranges, command) = (self.as_raw(), ranges.as_mut_ptr(), command.as_raw());
        // SAFETY: All structures are valid, and `ranges` has `count` elements.
        to_result(unsafe { call(pd, advice, flags, ranges, count, command) })
    }
}

impl Owned<RwqIndTable> {
    /// Lets the driver destroy an indirection table. Then its work queues do not count it as a user any more.
    pub fn driver_destroy(self, _sleep: &MaySleep) -> Destroyed<RwqIndTable> {
        let mut memory = destroy!(self.destroy_rwq_ind_table())?;
        let raw: &mut ib_rwq_ind_table = memory.raw();
        let queues = core::mem::replace(&mut raw.ind_tbl, null_mut());
        let count = 1usize.checked_shl(raw.log_ind_tbl_size).unwrap_or(0);
        if !queues.is_null() {
            // SAFETY: The table owned the array, which `kmalloc` has allocated for `count` queues.
            let queues = unsafe { KVec::from_raw_parts(queues, count, count) };
            for wq in &queues {
                // SAFETY: The queue counts the destroyed table as a user, and so is still valid.
                unsafe { (*wq.cast::<Wq>()).uses().dec() };
            }
        }
        Ok(memory)
    }
}

impl Flow {
    optional_links! {
        /// The queue pair that packets go to.
        qp: Qp = qp;
    }
}

impl Owned<Flow> {
    /// Lets the driver destroy and free a flow.
    pub fn driver_destroy(self, _sleep: &MaySleep) -> Result<(), Failed<Self>> {
        free!(self.destroy_flow())
    }
}

impl Owned<FlowAction> {
    /// Lets the driver destroy and free a flow action.
    pub fn driver_destroy(self, _sleep: &MaySleep) -> Result<(), Failed<Self>> {
        free!(self.destroy_flow_action())
    }
}

impl Ucontext {
    /// Lets the driver allocate device memory. The caller sets its user object.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP`, and those of the driver.
    pub fn driver_alloc_dm(
        &self,
        attr: &mut ib_dm_alloc_attr,
        command: &AttrBundle,
        _sleep: &MaySleep,
    ) -> Result<Owned<Dm>> {
        let device = self.device();
        let call = op!(device, alloc_dm).ok_or(EOPNOTSUPP)?;
        // SAFETY: All structures are valid; by the header the driver returns new device memory or an errno.
        unsafe {
            let dm = call(device.as_raw(), self.as_raw(), attr, command.as_raw());
            let dm = NonNull::new(from_err_ptr(dm)?).ok_or(EINVAL)?;
            (*dm.as_ptr()).device = device.as_raw();
            (*dm.as_ptr()).usecnt = pin_init::zeroed();
            Ok(Owned::from_raw(dm))
        }
    }
}

impl Owned<Dm> {
    /// Lets the driver free device memory.
    pub fn driver_dealloc(
        self,
        command: &AttrBundle,
        _sleep: &MaySleep,
    ) -> Result<(), Failed<Self>> {
        free!(self.dealloc_dm(command.as_raw()))
    }
}

impl Owned<Mr> {
    /// Sets the device memory of the region, and counts the region as its user.
    ///
    /// # Safety
    ///
    /// The driver has just created the region, and only this thread uses it.
    pub unsafe fn set_dm(&self, dm: &Dm) {
        dm.uses().inc();
        // SAFETY: By the safety requirements.
        unsafe { (*self.as_raw()).dm = dm.as_raw() };
    }

    /// Sets the DMA handle of the region, and counts the region as its user.
    ///
    /// # Safety
    ///
    /// The driver has just created the region, and only this thread uses it.
    pub unsafe fn set_dmah(&self, dmah: &Dmah) {
        dmah.uses().inc();
        // SAFETY: By the safety requirements.
        unsafe { (*self.as_raw()).dmah = dmah.as_raw() };
    }
}

impl Fresh<Dmah> {
    /// Lets the driver allocate a DMA handle.
    pub fn driver_alloc(self, command: &AttrBundle, _sleep: &MaySleep) -> Created<Dmah> {
        create!(self.alloc_dmah(command.as_raw()))
    }
}

impl Owned<Dmah> {
    /// Lets the driver free a DMA handle.
    pub fn driver_dealloc(self, command: &AttrBundle, _sleep: &MaySleep) -> Destroyed<Dmah> {
        destroy!(self.dealloc_dmah(command.as_raw()))
    }
}

impl Fresh<Counters> {
    /// Lets the driver create flow counters.
    pub fn driver_create(self, command: &AttrBundle, _sleep: &MaySleep) -> Created<Counters> {
        create!(self.create_counters(command.as_raw()))
    }
}

impl Owned<Counters> {
    /// Lets the driver destroy flow counters.
    pub fn driver_destroy(self, _sleep: &MaySleep) -> Destroyed<Counters> {
        destroy!(self.destroy_counters())
    }
}

impl Counters {
    /// Whether the counters can be read.
    pub fn has_read(&self) -> bool {
        op!(self.device(), read_counters).is_some()
    }

    /// Reads counters. `flags` is `enum ib_read_counters_flags`.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP`, and those of the driver.
    pub fn driver_read(
        &self,
        values: &mut [u64],
        flags: u32,
        command: &AttrBundle,
        _sleep: &MaySleep,
    ) -> Result {
        let call = op!(self.device(), read_counters).ok_or(EOPNOTSUPP)?;
        let mut attr = ib_counters_read_attr {
            counters_buff: values.as_mut_ptr(),
            ncounters: u32::try_from(values.len())?,
            flags,
        };
        // SAFETY: All structures are valid, and the buffer has room for the number of values in `attr`.
        to_result(unsafe { call(self.as_raw(), &mut attr, command.as_raw()) })
    }
}
