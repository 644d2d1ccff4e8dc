// SPDX-License-Identifier: GPL-2.0

//! Calls into a driver on the data path: posting, polling, mapping and draining.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::mem::MaybeUninit;

use kernel::{
    alloc::NumaNode,
    error::to_result,
    ffi::{c_int, c_uint},
    prelude::*,
    types::Opaque,
};
use kernel_ext::{error::EOPNOTSUPP, sync::Completion};
use rdma_bindings::{self as bindings, ib_cq, ib_cqe, ib_rdma_wr, ib_recv_wr, ib_send_wr, ib_wc};

use crate::{
    core::{
        mr::{DmaList, SgOffset},
        Cq, Device, Mr, Qp,
    },
    MaySleep,
};

impl Device {
    /// The NUMA node that the driver wants queue pairs on.
    pub(crate) fn numa_node(&self) -> NumaNode {
        let Some(call) = op!(self, get_numa_node) else {
            return NumaNode::NO_NODE;
        };
        // SAFETY: `self` is a valid device.
        let node = unsafe { call(self.as_raw()) };
        NumaNode::new(node).unwrap_or(NumaNode::NO_NODE)
    }
}

impl Cq {
    /// Polls completions, at most `room.len()`. Any context.
    #[inline]
    pub(crate) fn driver_poll<'a>(&self, room: &'a mut [MaybeUninit<ib_wc>]) -> &'a mut [ib_wc] {
        let Some(call) = op!(self.device(), poll_cq) else {
            return &mut [];
        };
        let most = c_int::try_from(room.len()).unwrap_or(c_int::MAX);
        let first = room.as_mut_ptr().cast::<ib_wc>();
        // SAFETY: `first` is valid for writes of `most` completions.
        let count = usize::try_from(unsafe { call(self.as_raw(), most, first) }).unwrap_or(0);
        // SAFETY: By the header the driver has filled in `count` completions, and `min` bounds them to the buffer.
        unsafe { core::slice::from_raw_parts_mut(first, count.min(room.len())) }
    }

    /// Requests a completion notification (`enum ib_cq_notify_flags`). Returns whether there may be completions that no
    /// notification will announce. Any context.
    #[inline]
    pub fn driver_req_notify(&self, flags: u32) -> bool {
        let Some(call) = op!(self.device(), req_notify_cq) else {
            return false;
        };
        // SAFETY: `self` is a valid queue.
        unsafe { call(self.as_raw(), flags) > 0 }
    }
}

impl Mr {
    /// Maps entries of a list into the region, and returns their number. Any context.
    #[inline]
    pub fn driver_map_sg(
        &self,
        list: DmaList<'_>,
        count: c_int,
        mut offset: SgOffset<'_>,
    ) -> Result<c_uint> {
        let call = op!(self.device(), map_mr_sg).ok_or(EOPNOTSUPP)?;
        list.has(count)?;
        // SAFETY: The list is valid, and was checked to have `count` entries.
        let ret = unsafe { call(self.as_raw(), list.as_raw(), count, offset.pointer()) };
        c_uint::try_from(ret).map_err(|_| Error::from_errno(ret))
    }

    /// Maps data and protection information into an integrity region. Any context.
    #[inline]
    pub fn driver_map_sg_pi(
        &self,
        data: (DmaList<'_>, c_int, SgOffset<'_>),
        meta: (DmaList<'_>, c_int, SgOffset<'_>),
    ) -> Result {
        let call = op!(self.device(), map_mr_sg_pi).ok_or(EOPNOTSUPP)?;
        let ((data, data_count, mut data_offset), (meta, meta_count, mut meta_offset)) =
            (data, meta);
        data.has(data_count)?;
        meta.has(meta_count)?;
        // SAFETY: The lists are valid, and were checked to have so many entries.
        to_result(unsafe {
            call(
                self.as_raw(),
                data.as_raw(),
                data_count,
                data_offset.pointer(),
                meta.as_raw(),
                meta_count,
                meta_offset.pointer(),
            )
        })
    }
}

/// The completion handler of a drain request, and the completion that the drainer waits for.
#[pin_data]
struct Marker {
    #[pin]
    cqe: Opaque<ib_cqe>,
    #[pin]
    done: Completion,
}

impl Marker {
    fn new() -> impl PinInit<Self> {
        let cqe = ib_cqe {
            done: Some(Self::completed),
        };
        pin_init!(Self {
            cqe: Opaque::new(cqe),
            done <- Completion::new(),
        })
    }

    /// # Safety
    ///
    /// `wc` is the completion of a request whose `wr_cqe` is the `cqe` of a marker.
    unsafe extern "C" fn completed(_cq: *mut ib_cq, wc: *mut ib_wc) {
        // SAFETY: By the safety requirements; `drain` waits until `done` is complete, so the marker is valid.
        unsafe {
            let cqe = Opaque::cast_from((*wc).__bindgen_anon_1.wr_cqe);
            let marker: *const Self = kernel::container_of!(cqe, Self, cqe);
            (*marker).done.complete();
        }
    }

    /// Posts a request, and waits for its completion. Calls `poll`, if any, every 100 ms.
    fn drain(
        post: impl FnOnce(*mut ib_cqe) -> c_int,
        poll: Option<&dyn Fn()>,
        sleep: &MaySleep,
    ) -> Result {
        pin_init::stack_pin_init!(let waiter = Self::new());
        // The pointer has the provenance of the whole marker, to which `completed` goes back.
        let whole = core::ptr::from_ref(&*waiter).cast_mut();
        let cqe = whole.wrapping_byte_add(core::mem::offset_of!(Self, cqe));
        to_result(post(cqe.cast()))?;
        // The request refers to the marker, so this may only return after its completion.
        match poll {
            None => waiter.done.wait(sleep),
            Some(poll) => {
                while !waiter.done.wait_timeout(100, sleep) {
                    poll();
                }
            }
        }
        Ok(())
    }
}

impl Qp {
    /// Posts a chain of send requests. Returns 0 or a negative errno. Any context.
    ///
    /// # Safety
    ///
    /// The requests, the memory that they refer to, and their completion handlers are valid as long as the header demands.
    #[inline]
    pub unsafe fn driver_post_send(&self, first: *const ib_send_wr) -> c_int {
        let Some(call) = op!(self.device(), post_send) else {
            return EOPNOTSUPP.to_errno();
        };
        let mut bad = core::ptr::null();
        // SAFETY: By the safety requirements.
        unsafe { call(self.as_raw(), first, &mut bad) }
    }

    /// Posts a chain of receive requests. Returns 0 or a negative errno. Any context.
    ///
    /// # Safety
    ///
    /// As for [`Self::driver_post_send`].
    #[inline]
    pub unsafe fn driver_post_recv(&self, first: *const ib_recv_wr) -> c_int {
        let Some(call) = op!(self.device(), post_recv) else {
            return EOPNOTSUPP.to_errno();
        };
        let mut bad = core::ptr::null();
        // SAFETY: By the safety requirements.
        unsafe { call(self.as_raw(), first, &mut bad) }
    }

    /// Posts a send request to a queue pair in the error state, and waits for its completion. All earlier send requests
    /// have completed then. Calls `poll`, if any, every 100 ms.
    ///
    /// # Errors
    ///
    /// Those of the driver's `post_send`.
    pub fn driver_flush_sends(&self, poll: Option<&dyn Fn()>, sleep: &MaySleep) -> Result {
        let mut request: ib_rdma_wr = pin_init::zeroed();
        request.wr.opcode = bindings::IB_WR_RDMA_WRITE;
        let post = |cqe| {
            request.wr.__bindgen_anon_1.wr_cqe = cqe;
            // SAFETY: The request has no data; `drain` keeps it and the marker until its completion.
            unsafe { self.driver_post_send(&request.wr) }
        };
        Marker::drain(post, poll, sleep)
    }

    /// As [`Self::driver_flush_sends`], for receive requests.
    pub fn driver_flush_receives(&self, poll: Option<&dyn Fn()>, sleep: &MaySleep) -> Result {
        let mut request: ib_recv_wr = pin_init::zeroed();
        let post = |cqe| {
            request.__bindgen_anon_1.wr_cqe = cqe;
            // SAFETY: The request has no data; `drain` keeps it and the marker until its completion.
            unsafe { self.driver_post_recv(&request) }
        };
        Marker::drain(post, poll, sleep)
    }

    /// Calls the driver's `drain_sq`; `None` where the driver lacks it.
    pub fn driver_drain_sq(&self, _sleep: &MaySleep) -> Option<()> {
        let call = op!(self.device(), drain_sq)?;
        // SAFETY: `self` is a valid queue pair.
        unsafe { call(self.as_raw()) };
        Some(())
    }

    /// Calls the driver's `drain_rq`; `None` where the driver lacks it.
    pub fn driver_drain_rq(&self, _sleep: &MaySleep) -> Option<()> {
        let call = op!(self.device(), drain_rq)?;
        // SAFETY: `self` is a valid queue pair.
        unsafe { call(self.as_raw()) };
        Some(())
    }
}
