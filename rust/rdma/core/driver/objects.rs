// SPDX-License-Identifier: GPL-2.0

//! Calls into a driver that create, change, query and destroy objects.
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

/// Calls a create method that fills memory in; without the method, fails as the header says.
macro_rules! create {
    ($object:ident.$op:ident($($argument:expr),*)) => {{
        match op!($object.device(), $op) {
            // SAFETY: The memory has the driver's size, and the members are set; what is created stays until the driver
            // destroys it.
            Some(call) => unsafe { $object.create(|raw| call(raw, $($argument),*)) },
            None => Err(Failed { object: $object, error: EOPNOTSUPP }),
        }
    }};
}

/// Calls a destroy method that leaves the memory behind.
macro_rules! destroy {
    ($object:ident.$op:ident($($argument:expr),*)) => {{
        match op!($object.device(), $op) {
            // SAFETY: The driver has created the object, and the owner gives it up.
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
        // SAFETY: The driver has created the object, and the owner gives it up.
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

    /// Whether there are XRC domains.
    pub fn has_alloc_xrcd(&self) -> bool {
        op!(self, alloc_xrcd).is_some()
    }

    /// Whether there are queue pairs.
    pub fn has_create_qp(&self) -> bool {
        op!(self, create_qp).is_some()
    }

    /// Whether completion queues can be moderated.
    pub fn has_modify_cq(&self) -> bool {
        op!(self, modify_cq).is_some()
    }

    /// Whether there are multicast groups to join and to leave.
    pub fn has_mcast(&self) -> (bool, bool) {
        (
            op!(self, attach_mcast).is_some(),
            op!(self, detach_mcast).is_some(),
        )
    }

    /// Whether there are regions that memory is mapped into later.
    pub fn has_alloc_mr(&self) -> bool {
        op!(self, alloc_mr).is_some()
    }

    /// Whether memory can be mapped into regions.
    pub fn has_map_mr_sg(&self) -> bool {
        op!(self, map_mr_sg).is_some()
    }

    /// Whether there are regions that check the integrity of data.
    pub fn has_integrity(&self) -> bool {
        op!(self, alloc_mr_integrity).is_some() && self.has_map_mr_sg_pi()
    }

    /// Whether memory can be mapped into regions that check the integrity of data.
    pub fn has_map_mr_sg_pi(&self) -> bool {
        op!(self, map_mr_sg_pi).is_some()
    }
}

/// What drivers get for a new address handle.
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
    /// Lets the driver make an address handle for a client in the kernel. Sleeps only where the context says so.
    pub fn driver_create(
        self,
        vector: &mut AhVector,
        context: &AhContext<'_>,
        slave: Option<&ARef<NetDevice>>,
    ) -> Created<Ah> {
        let mut init = ah_init(vector, context, slave);
        create!(self.create_ah(&mut init, null_mut()))
    }

    /// Lets the driver make an address handle for user space.
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
    /// Lets the driver destroy an address handle. Sleeps only where the context says so.
    pub fn driver_destroy(self, context: &AhContext<'_>) -> Destroyed<Ah> {
        destroy!(self.destroy_ah(context.flags()))
    }
}

impl Ah {
    /// Lets the driver change an address handle. Any context.
    pub fn driver_modify(&self, vector: &mut AhVector) -> Result {
        let call = op!(self.device(), modify_ah).ok_or(EOPNOTSUPP)?;
        // SAFETY: Both are there.
        to_result(unsafe { call(self.as_raw(), core::ptr::from_mut(vector).cast()) })
    }

    /// Asks the driver for the address vector. Any context.
    pub fn driver_query(&self, vector: &mut rdma_ah_attr) -> Result {
        let call = op!(self.device(), query_ah).ok_or(EOPNOTSUPP)?;
        // SAFETY: Both are there.
        to_result(unsafe { call(self.as_raw(), vector) })
    }
}

impl Fresh<Cq> {
    /// Lets the driver make a completion queue for a client in the kernel, which has handlers of its own; `EINVAL` for another.
    pub fn driver_create(self, init: &CqInit, _sleep: &MaySleep) -> Created<Cq> {
        if self.of_client().is_some() {
            return Err(Failed {
                object: self,
                error: EINVAL,
            });
        }
        create!(self.create_cq(init.as_raw(), null_mut()))
    }

    /// Lets the driver make a completion queue that is polled for its client; `EINVAL` for another. Where it fails, the batch is
    /// freed.
    pub fn driver_create_polled(
        self,
        init: &CqInit,
        _sleep: &MaySleep,
    ) -> Result<NewCq, Failed<Self>> {
        if self.of_client().is_none() {
            return Err(Failed {
                object: self,
                error: EINVAL,
            });
        }
        let create = || create!(self.create_cq(init.as_raw(), null_mut()));
        match create() {
            // SAFETY: The driver has just created the queue, and it is from `new_polled`, as it has a batch.
            Ok(cq) => Ok(unsafe { NewCq::new(cq) }),
            Err(mut failed) => {
                failed.object.free_batch();
                Err(failed)
            }
        }
    }
}

impl Owned<Cq> {
    /// Lets the driver destroy a completion queue; `EINVAL` for one that is polled.
    pub fn driver_destroy(self, udata: Option<&UdataView>, _sleep: &MaySleep) -> Destroyed<Cq> {
        if self.is_polled() {
            return Err(Failed {
                object: self,
                error: EINVAL,
            });
        }
        destroy!(self.destroy_cq(UdataView::pointer(udata)))
    }

    /// Tells the driver that nobody will poll the queue any more, if it wants to hear of that.
    pub(in crate::core) fn driver_pre_destroy(&self, _sleep: &MaySleep) -> Result {
        match op!(self.device(), pre_destroy_cq) {
            // SAFETY: The owner takes the queue down.
            Some(call) => to_result(unsafe { call(self.as_raw()) }),
            None => Ok(()),
        }
    }

    /// Lets the driver destroy a completion queue that nobody polls any more, and that it may have taken down already; then frees
    /// the batch.
    pub(in crate::core) fn driver_destroy_polled(self, _sleep: &MaySleep) -> Destroyed<Cq> {
        let destroyed = match op!(self.device(), post_destroy_cq) {
            None => destroy!(self.destroy_cq(null_mut())),
            Some(call) => {
                let destroy = |raw| {
                    // SAFETY: The owner gives the queue up.
                    unsafe { call(raw) };
                    0
                };
                // SAFETY: The driver does not know the queue afterwards.
                unsafe { self.destroy(destroy) }
            }
        };
        let mut memory = destroyed?;
        memory.free_batch();
        Ok(memory)
    }
}

impl Cq {
    /// Lets the driver moderate a completion queue.
    pub fn driver_modify(&self, count: u16, period: u16, _sleep: &MaySleep) -> Result {
        let call = op!(self.device(), modify_cq).ok_or(EOPNOTSUPP)?;
        // SAFETY: The queue is there.
        to_result(unsafe { call(self.as_raw(), count, period) })
    }
}

impl Fresh<Srq> {
    /// Lets the driver make a shared receive queue.
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
    /// Lets the driver change a shared receive queue.
    pub fn driver_modify(&self, attr: &mut ib_srq_attr, mask: u32, _sleep: &MaySleep) -> Result {
        let call = op!(self.device(), modify_srq).ok_or(EOPNOTSUPP)?;
        // SAFETY: Both are there.
        to_result(unsafe { call(self.as_raw(), attr, mask, null_mut()) })
    }

    /// Asks the driver what a shared receive queue is like.
    pub fn driver_query(&self, attr: &mut ib_srq_attr, _sleep: &MaySleep) -> Result {
        let call = op!(self.device(), query_srq).ok_or(EOPNOTSUPP)?;
        // SAFETY: Both are there.
        to_result(unsafe { call(self.as_raw(), attr) })
    }
}

impl Fresh<Qp> {
    /// Lets the driver make a queue pair.
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
    /// Lets the driver destroy a queue pair; `EINVAL` for a handle, which no driver knows.
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
    /// Lets the driver change a queue pair; a handle stands for the one that the driver knows.
    pub fn driver_modify(
        &self,
        change: &mut QpChange<'_>,
        udata: Option<&UdataView>,
        _sleep: &MaySleep,
    ) -> Result {
        let call = op!(self.device(), modify_qp).ok_or(EOPNOTSUPP)?;
        let (attr, mask) = change.for_driver();
        let qp = self.real().as_raw();
        // SAFETY: All are there; by the invariants of the change what the mask names is filled in.
        to_result(unsafe { call(qp, attr, mask, UdataView::pointer(udata)) })
    }

    /// Asks the driver what a queue pair is like; a handle stands for the one that the driver knows.
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
        // SAFETY: All are there.
        to_result(unsafe { call(self.real().as_raw(), attr, mask, init) })
    }

    /// Lets the driver join a multicast group.
    pub fn driver_attach_mcast(&self, gid: Gid, lid: u16, _sleep: &MaySleep) -> Result {
        let call = op!(self.device(), attach_mcast).ok_or(EOPNOTSUPP)?;
        let mut gid: ib_gid = gid.to_raw();
        // SAFETY: Both are there.
        to_result(unsafe { call(self.real().as_raw(), &mut gid, lid) })
    }

    /// Lets the driver leave a multicast group.
    pub fn driver_detach_mcast(&self, gid: Gid, lid: u16, _sleep: &MaySleep) -> Result {
        let call = op!(self.device(), detach_mcast).ok_or(EOPNOTSUPP)?;
        let mut gid: ib_gid = gid.to_raw();
        // SAFETY: Both are there.
        to_result(unsafe { call(self.real().as_raw(), &mut gid, lid) })
    }
}

impl Pd {
    /// Lets the driver make the region of all memory.
    pub fn driver_get_dma_mr(&self, access: c_int, _sleep: &MaySleep) -> Result<NewMr<'_>> {
        let call = op!(self.device(), get_dma_mr).ok_or(EOPNOTSUPP)?;
        // SAFETY: The domain is there; the driver returns a new region or an errno.
        unsafe { NewMr::from_driver(self, call(self.as_raw(), access)) }
    }

    /// Lets the driver make a region that memory is mapped into later.
    pub fn driver_alloc_mr(
        &self,
        kind: u32,
        max_num_sg: u32,
        _sleep: &MaySleep,
    ) -> Result<NewMr<'_>> {
        let call = op!(self.device(), alloc_mr).ok_or(EOPNOTSUPP)?;
        // SAFETY: The domain is there; the driver returns a new region or an errno.
        unsafe { NewMr::from_driver(self, call(self.as_raw(), kind, max_num_sg)) }
    }

    /// Lets the driver make a region that checks the integrity of data.
    pub fn driver_alloc_mr_integrity(
        &self,
        max_data_sg: u32,
        max_meta_sg: u32,
        _sleep: &MaySleep,
    ) -> Result<NewMr<'_>> {
        let call = op!(self.device(), alloc_mr_integrity).ok_or(EOPNOTSUPP)?;
        // SAFETY: The domain is there; the driver returns a new region or an errno.
        unsafe { NewMr::from_driver(self, call(self.as_raw(), max_data_sg, max_meta_sg)) }
    }

    /// Tells the driver how memory will be used.
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
        // SAFETY: The domain is there, and there are so many ranges: C has passed both in one call.
        to_result(unsafe { call(self.as_raw(), advice, flags, ranges, count, null_mut()) })
    }

    /// Whether the driver wants to hear how memory will be used.
    pub fn has_advise_mr(&self) -> bool {
        op!(self.device(), advise_mr).is_some()
    }
}

impl Owned<Mr> {
    /// Lets the driver deregister a region, and free it. The attributes of an integrity region are freed, too, and what the region
    /// has used is counted down.
    pub fn driver_dereg(
        self,
        udata: Option<&UdataView>,
        _sleep: &MaySleep,
    ) -> Result<(), Failed<Self>> {
        let (attrs, used) = (SigAttrs::pointer(&self), self.parent_counts());
        free!(self.dereg_mr(UdataView::pointer(udata)))?;
        // SAFETY: They were those of the region, which is gone.
        unsafe {
            drop(SigAttrs::of_gone(attrs));
            used.release();
        }
        Ok(())
    }
}

impl InternalMr {
    /// Lets the driver deregister the region, and free it.
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
    /// Asks the driver whether the integrity of data was found to be broken.
    pub fn driver_check_status(&self, mask: u32, status: &mut ib_mr_status) -> Result {
        let call = op!(self.device(), check_mr_status).ok_or(EOPNOTSUPP)?;
        // SAFETY: Both are there.
        to_result(unsafe { call(self.as_raw(), mask, status) })
    }
}

impl Pd {
    /// Lets the driver make a work queue of a client in the kernel, and fills in what the client knows of it. Domain and completion
    /// queue count it.
    pub fn driver_create_wq(&self, init: &WqInit, _sleep: &MaySleep) -> Result<Owned<Wq>> {
        let call = op!(self.device(), create_wq).ok_or(EOPNOTSUPP)?;
        // SAFETY: Both are there; the driver returns a new queue or an errno.
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
    /// Lets the driver destroy a work queue, and free it. What it has used is counted down.
    pub fn driver_destroy(
        self,
        udata: Option<&UdataView>,
        _sleep: &MaySleep,
    ) -> Result<(), Failed<Self>> {
        let used = self.parent_counts();
        free!(self.destroy_wq(UdataView::pointer(udata)))?;
        // SAFETY: The queue is gone.
        unsafe { used.release() };
        Ok(())
    }
}

impl Device {
    /// Lets the driver set the state of a virtual function's link.
    pub fn driver_set_vf_link_state(&self, vf: c_int, port: u32, state: c_int) -> Result {
        let call = op!(self, set_vf_link_state).ok_or(EOPNOTSUPP)?;
        // SAFETY: The device is there.
        to_result(unsafe { call(self.as_raw(), vf, port, state) })
    }

    /// Asks the driver what a virtual function is like.
    pub fn driver_get_vf_config(&self, vf: c_int, port: u32, info: &mut ifla_vf_info) -> Result {
        let call = op!(self, get_vf_config).ok_or(EOPNOTSUPP)?;
        // SAFETY: The device is there.
        to_result(unsafe { call(self.as_raw(), vf, port, info) })
    }

    /// Asks the driver for what a virtual function has counted.
    pub fn driver_get_vf_stats(&self, vf: c_int, port: u32, stats: &mut ifla_vf_stats) -> Result {
        let call = op!(self, get_vf_stats).ok_or(EOPNOTSUPP)?;
        // SAFETY: The device is there.
        to_result(unsafe { call(self.as_raw(), vf, port, stats) })
    }

    /// Lets the driver set a GUID of a virtual function.
    pub fn driver_set_vf_guid(&self, vf: c_int, port: u32, guid: u64, kind: c_int) -> Result {
        let call = op!(self, set_vf_guid).ok_or(EOPNOTSUPP)?;
        // SAFETY: The device is there.
        to_result(unsafe { call(self.as_raw(), vf, port, guid, kind) })
    }

    /// Asks the driver for the GUIDs of a virtual function.
    pub fn driver_get_vf_guid(
        &self,
        vf: c_int,
        port: u32,
        node: &mut ifla_vf_guid,
        port_guid: &mut ifla_vf_guid,
    ) -> Result {
        let call = op!(self, get_vf_guid).ok_or(EOPNOTSUPP)?;
        // SAFETY: The device is there.
        to_result(unsafe { call(self.as_raw(), vf, port, node, port_guid) })
    }
}
