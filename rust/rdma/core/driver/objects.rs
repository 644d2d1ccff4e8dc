// SPDX-License-Identifier: GPL-2.0

//! Calls into a driver that create, modify, query and destroy objects.
//!
//! Create methods take memory and return an object, destroy methods the reverse: see [`crate::core::object`].
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::ptr::null_mut;

use kernel::{error::to_result, ffi::c_int, prelude::*, sync::aref::ARef};
use kernel_ext::{error::EOPNOTSUPP, net::device::NetDevice};
use rdma_bindings::{
    ib_gid, ib_mr_status, ib_qp_attr, ib_qp_init_attr, ib_srq_attr, ifla_vf_guid, ifla_vf_info,
    ifla_vf_stats, rdma_ah_attr, rdma_ah_init_attr,
};

use crate::{
    core::{
        ah::AhContext,
        ah_attr::AhVector,
        cq::{CqInit, NewCq},
        mr::{InternalMr, NewMr, RangeCount, Ranges, SigAttrs},
        object::{Created, Destroyed, Failed, Fresh, Owned, UdataView},
        qp::{self, QpChange, QpInit},
        srq::{SrqInit, WqInit},
        Ah, Cq, Device, Mr, Pd, Qp, Srq, Wq, Xrcd,
    },
    Gid, MaySleep,
};

/// Calls a create method on allocated memory. Without the method it fails with `EOPNOTSUPP`.
macro_rules! create {
    ($object:ident.$op:ident($($argument:expr),*)) => {{
        // SAFETY: Only the device is read.
        let object = unsafe { $object.members() };
        match op!(object.device(), $op) {
            // SAFETY: The memory has the size that the driver declares, with the core's members set. An object that is created is
            // valid until the driver destroys it.
            Some(call) => unsafe { $object.create(|raw| call(raw, $($argument),*)) },
            None => Err(Failed { object: $object, error: EOPNOTSUPP }),
        }
    }};
}

/// Calls a destroy method that does not free the memory.
macro_rules! destroy {
    ($object:ident.$op:ident($($argument:expr),*)) => {{
        match op!($object.device(), $op) {
            // SAFETY: By the invariants of `Owned` the driver has created the object, and its owner gives it up.
            Some(call) => unsafe { $object.destroy(|raw| call(raw, $($argument),*)) },
            None => Err(Failed { object: $object, error: EOPNOTSUPP }),
        }
    }};
}

/// Calls a method that destroys an object and frees it too.
macro_rules! free {
    ($object:ident.$op:ident($($argument:expr),*)) => {{
        let Some(call) = op!($object.device(), $op) else {
            return Err(Failed { object: $object, error: EOPNOTSUPP });
        };
        // SAFETY: By the invariants of `Owned` the driver has created the object, and its owner gives it up.
        let ret = unsafe { call($object.as_raw(), $($argument),*) };
        to_result(ret).map_err(|error| Failed { object: $object, error })
    }};
}
pub(super) use {create, destroy, free};

impl Fresh<Pd> {
    /// Lets the driver allocate a protection domain.
    pub fn driver_alloc(self, udata: Option<&UdataView>, _sleep: &MaySleep) -> Created<Pd> {
        create!(self.alloc_pd(UdataView::pointer(udata)))
    }
}

impl Owned<Pd> {
    /// Lets the driver deallocate a protection domain.
    pub fn driver_dealloc(self, udata: Option<&UdataView>, _sleep: &MaySleep) -> Destroyed<Pd> {
        destroy!(self.dealloc_pd(UdataView::pointer(udata)))
    }
}

impl Fresh<Xrcd> {
    /// Lets the driver allocate an XRC domain.
    pub fn driver_alloc(self, udata: Option<&UdataView>, _sleep: &MaySleep) -> Created<Xrcd> {
        create!(self.alloc_xrcd(UdataView::pointer(udata)))
    }
}

impl Owned<Xrcd> {
    /// Lets the driver deallocate an XRC domain.
    pub fn driver_dealloc(self, udata: Option<&UdataView>, _sleep: &MaySleep) -> Destroyed<Xrcd> {
        destroy!(self.dealloc_xrcd(UdataView::pointer(udata)))
    }
}

impl Device {
    /// Whether clients in the kernel can have address handles.
    pub fn has_create_ah(&self) -> bool {
        op!(self, create_ah).is_some()
    }

    /// Whether the driver supports XRC domains.
    pub fn has_alloc_xrcd(&self) -> bool {
        op!(self, alloc_xrcd).is_some()
    }

    /// Whether the driver supports queue pairs.
    pub fn has_create_qp(&self) -> bool {
        op!(self, create_qp).is_some()
    }

    /// Whether completion queues can be moderated.
    pub fn has_modify_cq(&self) -> bool {
        op!(self, modify_cq).is_some()
    }

    /// Whether queue pairs can join multicast groups, and leave them.
    pub fn has_mcast(&self) -> (bool, bool) {
        (
            op!(self, attach_mcast).is_some(),
            op!(self, detach_mcast).is_some(),
        )
    }

    /// Whether the driver has `alloc_mr`.
    pub fn has_alloc_mr(&self) -> bool {
        op!(self, alloc_mr).is_some()
    }

    /// Whether the driver has `map_mr_sg`.
    pub fn has_map_mr_sg(&self) -> bool {
        op!(self, map_mr_sg).is_some()
    }

    /// Whether the driver has `alloc_mr_integrity`.
    pub fn has_integrity(&self) -> bool {
        op!(self, alloc_mr_integrity).is_some() && self.has_map_mr_sg_pi()
    }

    /// Whether the driver has `map_mr_sg_pi`.
    pub fn has_map_mr_sg_pi(&self) -> bool {
        op!(self, map_mr_sg_pi).is_some()
    }
}

/// The argument of a driver for a new address handle.
fn ah_init(
    vector: &mut AhVector,
    context: &AhContext<'_>,
    slave: Option<&ARef<NetDevice>>,
) -> rdma_ah_init_attr {
    rdma_ah_init_attr {
        ah_attr: core::ptr::from_mut(vector).cast::<rdma_ah_attr>(),
        flags: context.flags(),
        xmit_slave: slave.map_or(null_mut(), |slave| slave.as_raw().cast()),
    }
}

impl Fresh<Ah> {
    /// Lets the driver create an address handle for a client in the kernel. Sleeps only if the context may.
    pub fn driver_create(
        self,
        vector: &mut AhVector,
        context: &AhContext<'_>,
        slave: Option<&ARef<NetDevice>>,
    ) -> Created<Ah> {
        let mut init = ah_init(vector, context, slave);
        create!(self.create_ah(&mut init, null_mut()))
    }

    /// Lets the driver create an address handle for user space.
    pub fn driver_create_user(
        self,
        vector: &mut AhVector,
        context: &AhContext<'_>,
        udata: &UdataView,
    ) -> Created<Ah> {
        let mut init = ah_init(vector, context, None);
        create!(self.create_user_ah(&mut init, udata.as_raw()))
    }
}

impl Owned<Ah> {
    /// Lets the driver destroy an address handle. Sleeps only if the context may.
    pub fn driver_destroy(self, context: &AhContext<'_>) -> Destroyed<Ah> {
        destroy!(self.destroy_ah(context.flags()))
    }
}

impl Ah {
    /// Lets the driver modify an address handle. Any context.
    pub fn driver_modify(&self, vector: &mut AhVector) -> Result {
        let call = op!(self.device(), modify_ah).ok_or(EOPNOTSUPP)?;
        // SAFETY: Both structures are valid during the call.
        to_result(unsafe { call(self.as_raw(), core::ptr::from_mut(vector).cast()) })
    }

    /// Queries the address vector from the driver. Any context.
    pub fn driver_query(&self, vector: &mut rdma_ah_attr) -> Result {
        let call = op!(self.device(), query_ah).ok_or(EOPNOTSUPP)?;
        // SAFETY: Both structures are valid during the call.
        to_result(unsafe { call(self.as_raw(), vector) })
    }
}

impl Fresh<Cq> {
    /// Lets the driver create a completion queue with its client's handlers; `EINVAL` for a polled queue.
    pub fn driver_create(self, init: &CqInit, _sleep: &MaySleep) -> Created<Cq> {
        // SAFETY: Only the member is read.
        if unsafe { self.members() }.of_client().is_some() {
            return Err(Failed {
                object: self,
                error: EINVAL,
            });
        }
        create!(self.create_cq(init.as_raw(), null_mut()))
    }

    /// Lets the driver create a queue from `new_polled`; `EINVAL` for any other. If it fails, the batch is freed.
    pub fn driver_create_polled(
        self,
        init: &CqInit,
        _sleep: &MaySleep,
    ) -> Result<NewCq, Failed<Self>> {
        // SAFETY: Only the member is read.
        if unsafe { self.members() }.of_client().is_none() {
            return Err(Failed {
                object: self,
                error: EINVAL,
            });
        }
        let create = || create!(self.create_cq(init.as_raw(), null_mut()));
        match create() {
            // SAFETY: The driver has just created the queue, which has a batch, and so is from `new_polled`.
            Ok(cq) => Ok(unsafe { NewCq::new(cq) }),
            Err(mut failed) => {
                failed.object.free_batch();
                Err(failed)
            }
        }
    }
}

impl Owned<Cq> {
    /// Lets the driver destroy a completion queue; `EINVAL` for one from `new_polled`.
    pub fn driver_destroy(self, udata: Option<&UdataView>, _sleep: &MaySleep) -> Destroyed<Cq> {
        if self.is_polled() {
            return Err(Failed {
                object: self,
                error: EINVAL,
            });
        }
        destroy!(self.destroy_cq(UdataView::pointer(udata)))
    }

    /// Calls the driver's `pre_destroy_cq`, if it has one, after the queue's poller was stopped.
    pub(in crate::core) fn driver_pre_destroy(&self, _sleep: &MaySleep) -> Result {
        match op!(self.device(), pre_destroy_cq) {
            // SAFETY: The owner is destroying the queue, and its poller was stopped.
            Some(call) => to_result(unsafe { call(self.as_raw()) }),
            None => Ok(()),
        }
    }

    /// Lets the driver destroy a completion queue whose poller was stopped, after `pre_destroy_cq`, and frees the batch.
    pub(in crate::core) fn driver_destroy_polled(self, _sleep: &MaySleep) -> Destroyed<Cq> {
        let destroyed = match op!(self.device(), post_destroy_cq) {
            None => destroy!(self.destroy_cq(null_mut())),
            Some(call) => {
                let destroy = |raw| {
                    // SAFETY: By the invariants of `Owned` the driver has created the queue, and its owner gives it up.
                    unsafe { call(raw) };
                    0
                };
                // SAFETY: By the header the driver does not use the queue after `destroy_cq` or `post_destroy_cq` has returned 0.
                unsafe { self.destroy(destroy) }
            }
        };
        let mut memory = destroyed?;
        memory.free_batch();
        Ok(memory)
    }
}

impl Cq {
    /// Lets the driver set the moderation of a completion queue: `count` completions or `period` microseconds.
    pub fn driver_modify(&self, count: u16, period: u16, _sleep: &MaySleep) -> Result {
        let call = op!(self.device(), modify_cq).ok_or(EOPNOTSUPP)?;
        // SAFETY: `self` is a valid queue.
        to_result(unsafe { call(self.as_raw(), count, period) })
    }
}

impl Fresh<Srq> {
    /// Lets the driver create a shared receive queue.
    pub fn driver_create(
        self,
        init: &SrqInit,
        udata: Option<&UdataView>,
        _sleep: &MaySleep,
    ) -> Created<Srq> {
        create!(self.create_srq(init.as_raw(), UdataView::pointer(udata)))
    }
}

impl Owned<Srq> {
    /// Lets the driver destroy a shared receive queue.
    pub fn driver_destroy(self, udata: Option<&UdataView>, _sleep: &MaySleep) -> Destroyed<Srq> {
        destroy!(self.destroy_srq(UdataView::pointer(udata)))
    }
}

impl Srq {
    /// Lets the driver modify a shared receive queue.
    pub fn driver_modify(&self, attr: &mut ib_srq_attr, mask: u32, _sleep: &MaySleep) -> Result {
        let call = op!(self.device(), modify_srq).ok_or(EOPNOTSUPP)?;
        // SAFETY: Both structures are valid during the call.
        to_result(unsafe { call(self.as_raw(), attr, mask, null_mut()) })
    }

    /// Queries the attributes of a shared receive queue from the driver.
    pub fn driver_query(&self, attr: &mut ib_srq_attr, _sleep: &MaySleep) -> Result {
        let call = op!(self.device(), query_srq).ok_or(EOPNOTSUPP)?;
        // SAFETY: Both structures are valid during the call.
        to_result(unsafe { call(self.as_raw(), attr) })
    }
}

impl Fresh<Qp> {
    /// Lets the driver create a queue pair.
    pub fn driver_create(
        self,
        init: &QpInit,
        udata: Option<&UdataView>,
        _sleep: &MaySleep,
    ) -> Created<Qp> {
        create!(self.create_qp(init.as_raw(), UdataView::pointer(udata)))
    }
}

impl Owned<Qp> {
    /// Lets the driver destroy a queue pair; `EINVAL` for a handle, which only the core uses.
    pub fn driver_destroy(self, udata: Option<&UdataView>, _sleep: &MaySleep) -> Destroyed<Qp> {
        if self.is_handle() {
            return Err(Failed {
                object: self,
                error: EINVAL,
            });
        }
        destroy!(self.destroy_qp(UdataView::pointer(udata)))
    }
}

impl Qp {
    /// Lets the driver modify a queue pair. For a handle this is the shared queue pair.
    pub fn driver_modify(
        &self,
        change: &mut QpChange<'_>,
        udata: Option<&UdataView>,
        _sleep: &MaySleep,
    ) -> Result {
        let call = op!(self.device(), modify_qp).ok_or(EOPNOTSUPP)?;
        let (attr, mask) = change.for_driver();
        let qp = self.real().as_raw();
        // SAFETY: All structures are valid; by the invariants of `QpChange` the attributes in the mask are filled in.
        to_result(unsafe { call(qp, attr, mask, UdataView::pointer(udata)) })
    }

    /// Queries the attributes of a queue pair from the driver. For a handle this is the shared queue pair.
    ///
    /// The sources of the address vectors are null afterwards.
    pub fn driver_query(
        &self,
        attr: &mut ib_qp_attr,
        mask: c_int,
        init: &mut ib_qp_init_attr,
        _sleep: &MaySleep,
    ) -> Result {
        let call = op!(self.device(), query_qp).ok_or(EOPNOTSUPP)?;
        qp::forget_sources(attr);
        // SAFETY: All structures are valid during the call.
        to_result(unsafe { call(self.real().as_raw(), attr, mask, init) })
    }

    /// Lets the driver attach the queue pair to a multicast group.
    pub fn driver_attach_mcast(&self, gid: Gid, lid: u16, _sleep: &MaySleep) -> Result {
        let call = op!(self.device(), attach_mcast).ok_or(EOPNOTSUPP)?;
        let mut gid: ib_gid = gid.to_raw();
        // SAFETY: Both structures are valid during the call.
        to_result(unsafe { call(self.real().as_raw(), &mut gid, lid) })
    }

    /// Lets the driver detach the queue pair from a multicast group.
    pub fn driver_detach_mcast(&self, gid: Gid, lid: u16, _sleep: &MaySleep) -> Result {
        let call = op!(self.device(), detach_mcast).ok_or(EOPNOTSUPP)?;
        let mut gid: ib_gid = gid.to_raw();
        // SAFETY: Both structures are valid during the call.
        to_result(unsafe { call(self.real().as_raw(), &mut gid, lid) })
    }
}

impl Pd {
    /// Lets the driver create a DMA region of all memory (`get_dma_mr`).
    pub fn driver_get_dma_mr(&self, access: c_int, _sleep: &MaySleep) -> Result<NewMr<'_>> {
        let call = op!(self.device(), get_dma_mr).ok_or(EOPNOTSUPP)?;
        // SAFETY: The domain is valid; by the header the driver returns a new region in it or an errno.
        unsafe { NewMr::from_driver(self, call(self.as_raw(), access)) }
    }

    /// Lets the driver allocate a region for later mapping (`alloc_mr`).
    pub fn driver_alloc_mr(
        &self,
        kind: u32,
        max_num_sg: u32,
        _sleep: &MaySleep,
    ) -> Result<NewMr<'_>> {
        let call = op!(self.device(), alloc_mr).ok_or(EOPNOTSUPP)?;
        // SAFETY: The domain is valid; by the header the driver returns a new region in it or an errno.
        unsafe { NewMr::from_driver(self, call(self.as_raw(), kind, max_num_sg)) }
    }

    /// Lets the driver allocate an integrity region (`alloc_mr_integrity`).
    pub fn driver_alloc_mr_integrity(
        &self,
        max_data_sg: u32,
        max_meta_sg: u32,
        _sleep: &MaySleep,
    ) -> Result<NewMr<'_>> {
        let call = op!(self.device(), alloc_mr_integrity).ok_or(EOPNOTSUPP)?;
        // SAFETY: The domain is valid; by the header the driver returns a new region in it or an errno.
        unsafe { NewMr::from_driver(self, call(self.as_raw(), max_data_sg, max_meta_sg)) }
    }

    /// Passes advice about ranges of memory to the driver (`advise_mr`).
    pub fn driver_advise_mr<'a>(
        &self,
        advice: u32,
        flags: u32,
        ranges: Ranges<'a>,
        count: RangeCount<'a>,
        _sleep: &MaySleep,
    ) -> Result {
        let call = op!(self.device(), advise_mr).ok_or(EOPNOTSUPP)?;
        let (ranges, count) = ranges.for_driver(count);
        // SAFETY: The domain is valid, and `ranges` has `count` elements, since C has passed both in one call.
        to_result(unsafe { call(self.as_raw(), advice, flags, ranges, count, null_mut()) })
    }

    /// Whether the driver has `advise_mr`.
    pub fn has_advise_mr(&self) -> bool {
        op!(self.device(), advise_mr).is_some()
    }
}

impl Owned<Mr> {
    /// Lets the driver deregister and free a region. Then the attributes of an integrity region are freed, and the use counts of
    /// the region's parents decremented.
    pub fn driver_dereg(
        self,
        udata: Option<&UdataView>,
        _sleep: &MaySleep,
    ) -> Result<(), Failed<Self>> {
        let (attrs, used) = (SigAttrs::pointer(&self), self.parent_counts());
        free!(self.dereg_mr(UdataView::pointer(udata)))?;
        // SAFETY: The attributes and the counts belonged to the region, which is destroyed.
        unsafe {
            drop(SigAttrs::of_gone(attrs));
            used.release();
        }
        Ok(())
    }
}

impl InternalMr {
    /// Lets the driver deregister and free the region.
    pub fn driver_dereg(self, _sleep: &MaySleep) -> Result<(), Failed<Self>> {
        let mr = self.0;
        let dereg = || free!(mr.dereg_mr(UdataView::pointer(None)));
        dereg().map_err(|Failed { object, error }| Failed {
            object: Self(object),
            error,
        })
    }
}

impl Mr {
    /// Queries from the driver whether data integrity errors were found (`check_mr_status`).
    pub fn driver_check_status(&self, mask: u32, status: &mut ib_mr_status) -> Result {
        let call = op!(self.device(), check_mr_status).ok_or(EOPNOTSUPP)?;
        // SAFETY: Both structures are valid during the call.
        to_result(unsafe { call(self.as_raw(), mask, status) })
    }
}

impl Pd {
    /// Lets the driver create a work queue of a client in the kernel, and fills in the core's part. Domain and completion queue
    /// count it as a user.
    pub fn driver_create_wq(&self, init: &WqInit, _sleep: &MaySleep) -> Result<Owned<Wq>> {
        let call = op!(self.device(), create_wq).ok_or(EOPNOTSUPP)?;
        // SAFETY: Both structures are valid; by the header the driver returns a new queue or an errno.
        unsafe {
            let wq = kernel::error::from_err_ptr(call(self.as_raw(), init.as_raw(), null_mut()))?;
            let wq = core::ptr::NonNull::new(wq).ok_or(EINVAL)?;
            let (raw, init) = (wq.as_ptr(), init.as_raw());
            (*raw).event_handler = (*init).event_handler;
            (*raw).wq_context = (*init).wq_context;
            (*raw).wq_type = (*init).wq_type;
            (*raw).cq = (*init).cq;
            (*raw).device = self.device().as_raw();
            (*raw).pd = self.as_raw();
            (*raw).uobject = null_mut();
            (*raw).usecnt = pin_init::zeroed();
            let wq = Owned::<Wq>::from_raw(wq);
            wq.count_parents();
            Ok(wq)
        }
    }
}

impl Owned<Wq> {
    /// Lets the driver destroy and free a work queue. Then the use counts of its parents are decremented.
    pub fn driver_destroy(
        self,
        udata: Option<&UdataView>,
        _sleep: &MaySleep,
    ) -> Result<(), Failed<Self>> {
        let used = self.parent_counts();
        free!(self.destroy_wq(UdataView::pointer(udata)))?;
        // SAFETY: The queue is destroyed.
        unsafe { used.release() };
        Ok(())
    }
}

impl Device {
    /// Lets the driver set the state of a virtual function's link.
    pub fn driver_set_vf_link_state(&self, vf: c_int, port: u32, state: c_int) -> Result {
        let call = op!(self, set_vf_link_state).ok_or(EOPNOTSUPP)?;
        // SAFETY: `self` is a valid device, and the arguments are valid during the call.
        to_result(unsafe { call(self.as_raw(), vf, port, state) })
    }

    /// Queries the configuration of a virtual function.
    pub fn driver_get_vf_config(&self, vf: c_int, port: u32, info: &mut ifla_vf_info) -> Result {
        let call = op!(self, get_vf_config).ok_or(EOPNOTSUPP)?;
        // SAFETY: `self` is a valid device, and the arguments are valid during the call.
        to_result(unsafe { call(self.as_raw(), vf, port, info) })
    }

    /// Queries the statistics of a virtual function.
    pub fn driver_get_vf_stats(&self, vf: c_int, port: u32, stats: &mut ifla_vf_stats) -> Result {
        let call = op!(self, get_vf_stats).ok_or(EOPNOTSUPP)?;
        // SAFETY: `self` is a valid device, and the arguments are valid during the call.
        to_result(unsafe { call(self.as_raw(), vf, port, stats) })
    }

    /// Lets the driver set a GUID of a virtual function.
    pub fn driver_set_vf_guid(&self, vf: c_int, port: u32, guid: u64, kind: c_int) -> Result {
        let call = op!(self, set_vf_guid).ok_or(EOPNOTSUPP)?;
        // SAFETY: `self` is a valid device, and the arguments are valid during the call.
        to_result(unsafe { call(self.as_raw(), vf, port, guid, kind) })
    }

    /// Queries the GUIDs of a virtual function.
    pub fn driver_get_vf_guid(
        &self,
        vf: c_int,
        port: u32,
        node: &mut ifla_vf_guid,
        port_guid: &mut ifla_vf_guid,
    ) -> Result {
        let call = op!(self, get_vf_guid).ok_or(EOPNOTSUPP)?;
        // SAFETY: `self` is a valid device, and the arguments are valid during the call.
        to_result(unsafe { call(self.as_raw(), vf, port, node, port_guid) })
    }
}
