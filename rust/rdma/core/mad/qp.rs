// SPDX-License-Identifier: GPL-2.0

//! The special queue pairs of a port, QP0 for subnet management (SMI) and QP1 for general services (GSI), and their
//! completion queue, which work items poll.
//!
//! A receive buffer that is posted belongs to its queue pair until its completion, or until queue pair and completion queue
//! are destroyed. For a MAD that is posted for sending the queue pair holds a reference until its completion.
//!
//! IBTA specification, volume 1, sections 3.9.5 and 13.4.
//!
//! C header: `include/rdma/ib_mad.h`.

use core::{
    marker::PhantomPinned,
    ptr::{null_mut, NonNull},
};

use kernel::{
    error::{from_err_ptr, to_result},
    ffi::c_int,
    prelude::*,
    sync::{aref::ARef, Arc, Mutex},
    types::Opaque,
};
use kernel_ext::error::ENOBUFS;
use kernel_ext::sync::{new_mutex, new_spinlock_irq, SpinLockIrq};
use rdma_bindings::{
    self as bindings, ib_cq, ib_cqe, ib_pd, ib_qp, ib_qp_attr, ib_qp_init_attr, ib_recv_wr, ib_sge,
    ib_wc,
};

use super::{
    recv::{LocalCompletion, Raw, RecvMad, Sender},
    send::{Addressed, OwnAh, SendBody},
    Embeds,
};
use crate::{
    core::{ah_attr::AhVector, device::Registered, object::Owned, DeviceMemory, Qp},
    MaySleep,
};

/// The DMA direction of receive buffers.
const FROM_DEVICE: bindings::dma_data_direction = bindings::DMA_FROM_DEVICE;

/// The owner of the queue pairs in resource tracking.
const OWNER: &CStr = c"ib_core";

/// The layer that uses special queue pairs: the core's.
pub trait MadLayer: Sized + 'static {
    /// A MAD to be sent.
    type Send: Embeds<Body = SendBody>;
    /// The layer's data of a queue pair.
    type Queue: Send + Sync;

    /// Called when a MAD was sent, or its sending has failed.
    fn sent(qp: &Arc<SpecialQp<Self>>, send: Addressed<Self::Send>, wc: &ib_wc, sleep: &MaySleep);

    /// Called when a MAD was received.
    fn received(qp: &SpecialQp<Self>, mad: RecvMad, sleep: &MaySleep);
}

/// The kind of a special queue pair.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SpecialKind {
    /// QP0: subnet management.
    Smi,
    /// QP1: general services.
    Gsi,
}

impl SpecialKind {
    /// `enum ib_qp_type`.
    pub const fn qp_type(self) -> u32 {
        match self {
            Self::Smi => bindings::IB_QPT_SMI,
            Self::Gsi => bindings::IB_QPT_GSI,
        }
    }

    /// The number of the queue pair.
    const fn number(self) -> u32 {
        match self {
            Self::Smi => 0,
            Self::Gsi => 1,
        }
    }

    /// The Q_Key of the queue pair.
    const fn qkey(self) -> u32 {
        match self {
            Self::Smi => 0,
            Self::Gsi => bindings::IB_QP1_QKEY,
        }
    }
}

/// The posted receive buffers, by their slot.
struct Receives {
    slots: KVec<Option<RecvMad>>,
    free: KVec<usize>,
}

/// The queue pair for posting, in any context.
///
/// # Invariants
///
/// If `qp` is `Some`, the queue pair is valid, and its device is registered.
struct Open {
    qp: Option<NonNull<ib_qp>>,
}

// SAFETY: A queue pair may be used from any thread.
unsafe impl Send for Open {}

/// A constant structure for drivers, which has no more than the numbers of a queue pair.
struct Label(Opaque<ib_qp>);

// SAFETY: The structure is constant.
unsafe impl Send for Label {}
// SAFETY: The structure is constant.
unsafe impl Sync for Label {}

/// A special queue pair.
#[pin_data]
pub struct SpecialQp<L: MadLayer> {
    device: ARef<DeviceMemory>,
    kind: SpecialKind,
    lkey: u32,
    /// The layer's data.
    #[pin]
    pub queue: L::Queue,
    #[pin]
    open: SpinLockIrq<Open>,
    #[pin]
    receives: SpinLockIrq<Receives>,
    /// What MADs have as their queue pair for `process_mad`: drivers read its number and its type. Constant.
    label: Label,
    /// The queue pair for its owner. Modifying or destroying it takes the lock.
    #[pin]
    owned: Mutex<Open>,
    #[pin]
    _pinned: PhantomPinned,
}

/// The sizes of the queues in requests.
#[derive(Clone, Copy)]
pub struct Depths {
    /// The number of MADs that may be posted for sending.
    pub send: u32,
    /// The number of receive buffers.
    pub recv: u32,
}

/// The resources that the special queue pairs of a port share. While there are any, the device stays registered.
struct Shared {
    device: Registered,
    pd: NonNull<ib_pd>,
    cq: NonNull<ib_cq>,
}

/// The special queue pairs of a port.
pub struct SpecialQps<L: MadLayer> {
    qps: KVec<Arc<SpecialQp<L>>>,
    shared: Option<Shared>,
}

// SAFETY: The queue pairs and their resources may be used from any thread.
unsafe impl<L: MadLayer> Send for SpecialQps<L> {}
// SAFETY: Shared references only read the members.
unsafe impl<L: MadLayer> Sync for SpecialQps<L> {}

fn made<T>(object: *mut T) -> Result<NonNull<T>> {
    NonNull::new(from_err_ptr(object)?).ok_or(EINVAL)
}

impl<L: MadLayer> SpecialQps<L> {
    /// Creates the special queue pairs of a port, in the reset state. The device stays registered until [`Self::close`].
    ///
    /// `queue` initialises the layer's data of each.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of the driver.
    pub fn new<I: PinInit<L::Queue, Error>>(
        device: Registered,
        port: u32,
        kinds: &[SpecialKind],
        depths: Depths,
        queue: impl Fn(SpecialKind) -> I,
        sleep: &MaySleep,
    ) -> Result<Self> {
        let name = OWNER.as_char_ptr();
        let count = u32::try_from(kinds.len()).unwrap_or(1).max(1);
        let completions = depths
            .send
            .saturating_add(depths.recv)
            .saturating_mul(count);
        // SAFETY: The device is registered until `close`, which destroys the resources; process context.
        let (pd, cq) = unsafe {
            let pd = made(bindings::__ib_alloc_pd(device.as_raw(), 0, name))?;
            let cq = made(bindings::__ib_alloc_cq(
                device.as_raw(),
                null_mut(),
                completions as c_int,
                0,
                bindings::IB_POLL_UNBOUND_WORKQUEUE,
                name,
            ))
            .inspect_err(|_| {
                bindings::ib_dealloc_pd_user(pd.as_ptr(), null_mut());
            })?;
            (pd, cq)
        };
        let mut qps = Self {
            qps: KVec::new(),
            shared: Some(Shared { device, pd, cq }),
        };
        for &kind in kinds {
            if let Err(error) = qps.add(port, kind, depths, queue(kind)) {
                let _ = qps.close(sleep);
                return Err(error);
            }
        }
        Ok(qps)
    }

    fn add(
        &mut self,
        port: u32,
        kind: SpecialKind,
        depths: Depths,
        queue: impl PinInit<L::Queue, Error>,
    ) -> Result {
        let shared = self.shared.as_ref().ok_or(EINVAL)?;
        self.qps.reserve(1, GFP_KERNEL)?;
        let room = depths.recv as usize;
        let mut slots = KVec::with_capacity(room, GFP_KERNEL)?;
        let mut free = KVec::with_capacity(room, GFP_KERNEL)?;
        for nth in 0..room {
            slots.push(None, GFP_KERNEL)?;
            free.push(nth, GFP_KERNEL)?;
        }
        // SAFETY: The domain is valid: `shared` owns it.
        let lkey = unsafe { (*shared.pd.as_ptr()).local_dma_lkey };
        let mut label: ib_qp = pin_init::zeroed();
        label.device = shared.device.as_raw();
        label.qp_num = kind.number();
        label.qp_type = kind.qp_type();
        label.port = port;
        let init = try_pin_init!(SpecialQp {
            device: shared.device.hold(),
            label: Label(Opaque::new(label)),
            kind,
            lkey,
            queue <- queue,
            open <- new_spinlock_irq!(Open { qp: None }, "SpecialQp::open"),
            receives <- new_spinlock_irq!(Receives { slots, free }, "SpecialQp::receives"),
            owned <- new_mutex!(Open { qp: None }, "SpecialQp::owned"),
            _pinned: PhantomPinned,
        }? Error);
        let this = Arc::pin_init(init, GFP_KERNEL)?;
        let mut attr: ib_qp_init_attr = pin_init::zeroed();
        attr.send_cq = shared.cq.as_ptr();
        attr.recv_cq = shared.cq.as_ptr();
        attr.sq_sig_type = bindings::IB_SIGNAL_ALL_WR;
        attr.cap.max_send_wr = depths.send;
        attr.cap.max_recv_wr = depths.recv;
        attr.cap.max_send_sge = 2;
        attr.cap.max_recv_sge = 1;
        attr.qp_type = kind.qp_type();
        attr.port_num = port;
        // SAFETY: The domain and the completion queue are valid until `close`, which destroys the queue pair first.
        let qp = made(unsafe {
            bindings::ib_create_qp_kernel(shared.pd.as_ptr(), &mut attr, OWNER.as_char_ptr())
        })?;
        // INVARIANT: `close` takes the pointer out before it destroys the queue pair.
        this.owned.lock().qp = Some(qp);
        this.open.lock().qp = Some(qp);
        self.qps.push(this, GFP_KERNEL).map_err(Into::into)
    }

    /// The queue pair of a kind, if the port has one.
    pub fn get(&self, kind: SpecialKind) -> Option<&Arc<SpecialQp<L>>> {
        self.qps.iter().find(|qp| qp.kind == kind)
    }

    /// All special queue pairs of the port.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<SpecialQp<L>>> {
        self.qps.iter()
    }

    /// Moves the queue pairs to the ready-to-send state.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub fn start(&self, pkey_index: u16, sleep: &MaySleep) -> Result {
        for qp in &self.qps {
            qp.start(pkey_index, sleep)?;
        }
        Ok(())
    }

    /// Destroys the queue pairs. Nothing is posted or completed any more when this returns.
    ///
    /// # Errors
    ///
    /// Those of the driver. Then all memory that the device may still write to is leaked.
    pub fn close(&mut self, _sleep: &MaySleep) -> Result {
        let Some(shared) = self.shared.take() else {
            return Ok(());
        };
        for qp in &self.qps {
            let mut owned = qp.owned.lock();
            qp.open.lock().qp = None;
            if let Some(raw) = owned.qp.take() {
                // SAFETY: The pointer was taken out under both locks, and every user of the queue pair holds one of them.
                let ret = unsafe { bindings::ib_destroy_qp_user(raw.as_ptr(), null_mut()) };
                if let Err(error) = to_result(ret) {
                    drop(owned);
                    self.leak();
                    return Err(error);
                }
            }
        }
        // SAFETY: `new` has created the resources, and no queue pair uses them any more. Freeing the completion queue waits
        // for its poller.
        unsafe {
            bindings::ib_free_cq(shared.cq.as_ptr());
            bindings::ib_dealloc_pd_user(shared.pd.as_ptr(), null_mut());
        }
        for qp in self.qps.drain_all() {
            qp.forget_receives();
        }
        Ok(())
    }
}

impl<L: MadLayer> SpecialQps<L> {
    /// Leaks the memory that the device may still write to. Nothing is posted any more.
    fn leak(&self) {
        for qp in &self.qps {
            let mut owned = qp.owned.lock();
            qp.open.lock().qp = None;
            owned.qp = None;
            drop(owned);
            core::mem::forget(qp.clone());
        }
    }
}

impl<L: MadLayer> Drop for SpecialQps<L> {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.take() {
            // The queue pairs are still there: so the device stays registered for good.
            core::mem::forget(shared);
            self.leak();
        }
    }
}

impl<L: MadLayer> SpecialQp<L> {
    /// The device.
    #[inline]
    pub fn device(&self) -> &DeviceMemory {
        &self.device
    }

    /// The kind of the queue pair.
    #[inline]
    pub fn kind(&self) -> SpecialKind {
        self.kind
    }

    /// The local key of all memory.
    #[inline]
    pub fn lkey(&self) -> u32 {
        self.lkey
    }

    /// Calls `f` with the queue pair, if it is not destroyed. Any context; `f` runs under a spin lock.
    pub fn with<R>(&self, f: impl FnOnce(&Qp) -> R) -> Option<R> {
        let open = self.open.lock();
        // SAFETY: By the invariants of `Open` the queue pair is valid while the lock is held.
        let qp = open.qp.map(|qp| unsafe { qp.cast::<Qp>().as_ref() })?;
        Some(f(qp))
    }

    fn modify(&self, attr: &mut ib_qp_attr, mask: u32, _sleep: &MaySleep) -> Result {
        let owned = self.owned.lock();
        let qp = owned.qp.ok_or(ENODEV)?;
        // SAFETY: By the invariants of `Open` the queue pair is valid while the lock is held; the attributes in the mask
        // are set.
        to_result(unsafe { bindings::ib_modify_qp(qp.as_ptr(), attr, mask as c_int) })
    }

    fn start(&self, pkey_index: u16, sleep: &MaySleep) -> Result {
        let mut attr: ib_qp_attr = pin_init::zeroed();
        attr.qp_state = bindings::IB_QPS_INIT;
        attr.pkey_index = pkey_index;
        attr.qkey = self.kind.qkey();
        let state = bindings::IB_QP_STATE;
        let keys = bindings::IB_QP_PKEY_INDEX | bindings::IB_QP_QKEY;
        self.modify(&mut attr, state | keys, sleep)?;
        attr.qp_state = bindings::IB_QPS_RTR;
        self.modify(&mut attr, state, sleep)?;
        attr.qp_state = bindings::IB_QPS_RTS;
        attr.sq_psn = 0;
        self.modify(&mut attr, state | bindings::IB_QP_SQ_PSN, sleep)
    }

    /// Moves the queue pair back to the ready-to-send state after a send has failed.
    ///
    /// # Errors
    ///
    /// `ENODEV` after the queue pair was destroyed, and those of the driver.
    pub fn recover(&self, sleep: &MaySleep) -> Result {
        let mut attr: ib_qp_attr = pin_init::zeroed();
        attr.qp_state = bindings::IB_QPS_RTS;
        attr.cur_qp_state = bindings::IB_QPS_SQE;
        let mask = bindings::IB_QP_STATE | bindings::IB_QP_CUR_STATE;
        self.modify(&mut attr, mask, sleep)
    }

    /// Creates the address handle for a reply. Waits at most one second for the sender's neighbour entry.
    ///
    /// # Errors
    ///
    /// As for `ib_create_ah_from_wc`.
    pub fn address_of_sender(&self, to: &Sender, port: u32, _sleep: &MaySleep) -> Result<OwnAh> {
        let owned = self.owned.lock();
        let qp = owned.qp.ok_or(ENODEV)?;
        // SAFETY: By the invariants of `Open` the queue pair is valid while the lock is held; the completion and the header
        // are those of a MAD.
        unsafe {
            let ah = bindings::ib_create_ah_from_wc((*qp.as_ptr()).pd, &to.wc, &to.grh, port);
            Ok(OwnAh::new(Owned::from_raw(made(ah)?)))
        }
    }

    /// Creates the address handle of an address vector.
    ///
    /// # Errors
    ///
    /// As for `rdma_create_ah`.
    pub fn address(&self, vector: &mut AhVector, _sleep: &MaySleep) -> Result<OwnAh> {
        let owned = self.owned.lock();
        let qp = owned.qp.ok_or(ENODEV)?;
        let flags = bindings::RDMA_CREATE_AH_SLEEPABLE;
        // SAFETY: By the invariants of `Open` the queue pair is valid while the lock is held; the wrapper of the vector is
        // transparent.
        unsafe {
            let vector = core::ptr::from_mut(vector).cast();
            let ah = bindings::rdma_create_ah((*qp.as_ptr()).pd, vector, flags);
            Ok(OwnAh::new(Owned::from_raw(made(ah)?)))
        }
    }

    /// Posts a MAD for sending. [`MadLayer::sent`] is called once, unless this fails. Any context.
    ///
    /// # Errors
    ///
    /// `ENODEV` after the queue pair was destroyed, `EINVAL` for a MAD without an address, or of another device, `EBUSY` for
    /// one that is posted already, `ENOMEM`, and those of the driver. The MAD comes back.
    pub fn post_send(
        self: &Arc<Self>,
        send: Addressed<L::Send>,
    ) -> Result<(), (Error, Addressed<L::Send>)> {
        let queue = Arc::into_raw(self.clone());
        let failed = match send.body().enter_queue(queue.cast()) {
            Ok(()) => match self.post_claimed(send) {
                // The completion takes the reference to the queue pair back.
                Ok(()) => return Ok(()),
                Err((error, send)) => {
                    send.body().leave_queue();
                    (error, send)
                }
            },
            Err(error) => (error, send),
        };
        // SAFETY: This is the reference from above: the MAD was not posted, and so has no completion.
        drop(unsafe { Arc::from_raw(queue) });
        Err(failed)
    }

    /// Posts a MAD that is claimed for this queue pair.
    fn post_claimed(&self, send: Addressed<L::Send>) -> Result<(), (Error, Addressed<L::Send>)> {
        // The driver takes objects of its own devices alone.
        let is_own = |device: &DeviceMemory| core::ptr::eq(device, &*self.device);
        let ah = send.posted().ah().filter(|ah| is_own(ah.device()));
        let Some(ah) = ah.filter(|_| is_own(send.body().device())) else {
            return Err((EINVAL, send));
        };
        if let Err(error) = send.body().map() {
            return Err((error, send));
        }
        let mut pieces = send.body().pieces();
        let mut request = send.body().request(&mut pieces, ah);
        let done = cqe_of(&send);
        request.wr.__bindgen_anon_1.wr_cqe = done;
        // SAFETY: The MAD was claimed, and is not posted yet, so its completion handler is unused.
        unsafe { (*done).done = Some(sent::<L>) };
        let open = self.open.lock();
        let Some(qp) = open.qp else {
            send.body().unmap();
            return Err((ENODEV, send));
        };
        // The completion takes it back.
        let raw = send.into_raw();
        // SAFETY: By the invariants of `Open` the queue pair is valid while the lock is held. `raw` keeps the MAD, its
        // memory, its handler and its address handle until the completion.
        let ret = unsafe { qp.cast::<Qp>().as_ref().driver_post_send(&request.wr) };
        drop(open);
        to_result(ret).map_err(|error| {
            // SAFETY: The request was not posted, so this function still owns the value.
            let send = unsafe { Addressed::from_raw(raw) };
            send.body().unmap();
            (error, send)
        })
    }

    /// Lets the driver process a MAD (`process_mad`), which has `local` as its completion if it came in no packet. The driver may
    /// write a response to `answer`. Returns the result (`enum ib_mad_result`), the length of the response, and the index of its
    /// P_Key; `None` without the method, and for the queue pair of another device. Any context.
    pub fn driver_process(
        &self,
        device: &Registered,
        request: &RecvMad,
        local: Option<&LocalCompletion>,
        port: u32,
        answer: &mut RecvMad,
    ) -> Option<(u32, usize, u16)> {
        if !core::ptr::eq(&***device, &*self.device) {
            return None;
        }
        let (mut length, mut pkey_index) = (answer.mad().len(), 0);
        let room = length;
        let label = self.label.0.get();
        let (wc, grh) = match local {
            Some(local) => (local.wc(label), core::ptr::null()),
            None => (request.completion(label), request.grh()),
        };
        // SAFETY: The device is registered. The driver reads the request and its completion, of whose queue pair it reads the number
        // and the type, and writes at most the length of the answer that it is passed. By the header it does not sleep.
        let ret = unsafe {
            let call = (*self.device.as_raw()).ops.process_mad?;
            call(
                self.device.as_raw(),
                0,
                port,
                &wc,
                grh,
                request.mad().as_ptr().cast(),
                answer.mad_mut().as_mut_ptr().cast(),
                &mut length,
                &mut pkey_index,
            )
        };
        Some((ret as u32, length.min(room), pkey_index))
    }

    /// Posts a receive buffer. [`MadLayer::received`] is called with it at most once. Any context.
    ///
    /// # Errors
    ///
    /// `ENOBUFS` where all slots are in use, `ENODEV` after the queue pair was destroyed, `ENOMEM`, and those of the
    /// driver.
    pub fn post_recv(&self, mad: RecvMad) -> Result {
        let open = self.open.lock();
        let qp = open.qp.ok_or(ENODEV)?;
        let slot = self.receives.lock().free.pop().ok_or(ENOBUFS)?;
        let give_back = |error| {
            let mut receives = self.receives.lock();
            // The vector has room: the slot was taken from it.
            let _ = receives.free.push_within_capacity(slot);
            let mad = receives.slots.get_mut(slot).and_then(Option::take);
            drop(receives);
            (mad, error)
        };
        let (area, length) = mad.area();
        let raw = mad.as_ptr();
        // SAFETY: This function owns the memory until it is posted; then the slot owns it.
        let address = unsafe {
            let device = self.device.as_raw();
            let address = bindings::ib_dma_map_single(device, area.cast(), length, FROM_DEVICE);
            if bindings::ib_dma_mapping_error(device, address) != 0 {
                return Err(give_back(ENOMEM).1);
            }
            (*raw).cqe.done = Some(received::<L>);
            (*raw).queue = core::ptr::from_ref(self).cast();
            (*raw).slot = slot;
            (*raw).address = address;
            address
        };
        if let Some(place) = self.receives.lock().slots.get_mut(slot) {
            *place = Some(mad);
        }
        let mut piece = ib_sge {
            addr: address,
            length: length as u32,
            lkey: self.lkey,
        };
        let mut request: ib_recv_wr = pin_init::zeroed();
        // SAFETY: The slot keeps the memory until the completion, or until queue pair and completion queue are destroyed.
        let ret = unsafe {
            request.__bindgen_anon_1.wr_cqe = &raw mut (*raw).cqe;
            request.sg_list = &mut piece;
            request.num_sge = 1;
            qp.cast::<Qp>().as_ref().driver_post_recv(&request)
        };
        to_result(ret).map_err(|error| {
            let (mad, error) = give_back(error);
            if let Some(mad) = &mad {
                self.unmap(mad);
            }
            error
        })
    }

    /// The number of free slots for receive buffers.
    pub fn free_receives(&self) -> usize {
        self.receives.lock().free.len()
    }

    fn unmap(&self, mad: &RecvMad) {
        let (_, length) = mad.area();
        // SAFETY: `post_recv` has mapped the memory.
        unsafe {
            let address = (*mad.as_ptr()).address;
            bindings::ib_dma_unmap_single(self.device.as_raw(), address, length, FROM_DEVICE);
        }
    }

    /// Takes back the receive buffer of a completion.
    fn take(&self, slot: usize) -> Option<RecvMad> {
        let mut receives = self.receives.lock();
        let mad = receives.slots.get_mut(slot)?.take()?;
        // The vector has room: the slot was taken from it.
        let _ = receives.free.push_within_capacity(slot);
        drop(receives);
        self.unmap(&mad);
        Some(mad)
    }

    /// Frees all posted receive buffers, after queue pair and completion queue were destroyed.
    fn forget_receives(&self) {
        let slots = core::mem::take(&mut self.receives.lock().slots);
        for mad in slots.into_iter().flatten() {
            self.unmap(&mad);
        }
    }
}

/// The `wr_cqe` of a MAD. The pointer has the provenance of the whole object, to which [`sent`] goes back.
fn cqe_of<T: Embeds<Body = SendBody>>(send: &Arc<T>) -> *mut ib_cqe {
    let offset = T::OFFSET + core::mem::offset_of!(SendBody, cqe);
    Arc::as_ptr(send)
        .wrapping_byte_add(offset)
        .cast_mut()
        .cast()
}

/// # Safety
///
/// `wc` is the completion of a MAD that `post_send` has posted, delivered once, in process context.
unsafe extern "C" fn sent<L: MadLayer>(_cq: *mut ib_cq, wc: *mut ib_wc) {
    // SAFETY: By the safety requirements these are the references that `post_send` has leaked.
    unsafe {
        let cqe = kernel::types::Opaque::cast_from((*wc).__bindgen_anon_1.wr_cqe);
        let body: *const SendBody = kernel::container_of!(cqe, SendBody, cqe);
        let raw = body.byte_sub(<L::Send as Embeds>::OFFSET).cast::<L::Send>();
        let send = Addressed::from_raw(raw);
        send.body().unmap();
        let qp = Arc::from_raw(send.body().leave_queue().cast::<SpecialQp<L>>());
        L::sent(&qp, send, &*wc, &MaySleep::assume());
    }
}

/// # Safety
///
/// `wc` is the completion of a buffer that `post_recv` has posted, delivered once, in process context.
unsafe extern "C" fn received<L: MadLayer>(_cq: *mut ib_cq, wc: *mut ib_wc) {
    // SAFETY: By the safety requirements the buffer is still posted. The structure of the queue pair is valid at least
    // until the completion queue is destroyed.
    unsafe {
        let cqe = (*wc).__bindgen_anon_1.wr_cqe;
        let raw: *mut Raw = kernel::container_of!(cqe, Raw, cqe);
        let qp = &*(*raw).queue.cast::<SpecialQp<L>>();
        let Some(mut mad) = qp.take((*raw).slot) else {
            return;
        };
        mad.set_wc(&*wc);
        L::received(qp, mad, &MaySleep::assume());
    }
}
