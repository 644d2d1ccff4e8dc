// SPDX-License-Identifier: GPL-2.0

//! Members of objects that ib_uverbs fills in before a driver creates them, and those that it reads and changes.
//!
//! Each has a `struct ib_uobject`, which outlives the object: ib_uverbs destroys the object before its user object.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::ptr::NonNull;

use kernel::prelude::*;
use rdma_bindings::{
    self as bindings, ib_mw, ib_pd, ib_rwq_ind_table, ib_ucontext, ib_wq, rdma_ah_attr,
};

use super::{
    ah_attr::AhVector,
    cgroup::CgroupObject,
    command::UverbsFile,
    mr::NewMr,
    object::{driver_object, links, tracked, Fresh, Owned},
    uobject::ObjectLink,
    Ah, Device, DeviceMemory, Flow, Mr, Mw, Pd, Qp, RwqIndTable, Ucontext, Wq,
};
use crate::MaySleep;

driver_object!(Mw, size_ib_mw);
driver_object!(RwqIndTable, size_ib_rwq_ind_table);
driver_object!(Ucontext, size_ib_ucontext; RDMA_RESTRACK_CTX);
tracked!(Ucontext);

impl Fresh<Ucontext> {
    /// Allocates the user context of an open device file.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new_ucontext(device: &Device, file: &UverbsFile, sleep: &MaySleep) -> Result<Self> {
        let mut context = Self::alloc(device, Some(sleep))?;
        let raw: &mut ib_ucontext = context.raw();
        raw.device = device.as_raw();
        raw.ufile = file.as_raw();
        // SAFETY: This function owns the memory, which is not moved.
        unsafe { bindings::ib_ucontext_init_members(raw) };
        Ok(context)
    }

    /// Sets the user capabilities of the file: bits of `enum rdma_user_cap`.
    pub fn set_enabled_caps(&mut self, caps: u64) {
        self.raw().enabled_caps = caps;
    }

    /// The device.
    pub fn device(&self) -> &Device {
        // SAFETY: Only the member is read.
        unsafe { self.members() }.device()
    }

    /// What the file has charged to the rdma cgroup.
    pub fn cgroup(&self) -> &CgroupObject {
        // SAFETY: Only the member is used.
        unsafe { self.members() }.cgroup()
    }
}

impl Ucontext {
    /// What the file has charged to the rdma cgroup.
    pub fn cgroup(&self) -> &CgroupObject {
        // SAFETY: The member is valid as long as the context; a view is a transparent wrapper.
        unsafe { &*(&raw mut (*self.as_raw()).cg_obj).cast() }
    }
}

impl Fresh<Pd> {
    /// Allocates a protection domain of user space.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new_user(device: &Device, uobject: ObjectLink<'_>, sleep: &MaySleep) -> Result<Self> {
        let mut pd = Self::alloc(device, Some(sleep))?;
        let raw: &mut ib_pd = pd.raw();
        raw.device = device.as_raw();
        raw.uobject = uobject.as_raw();
        Ok(pd)
    }
}

impl Fresh<Mw> {
    /// Allocates a memory window of user space; `kind` is `enum ib_mw_type`. The domain does not count it as a user.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new_user(pd: &Pd, uobject: ObjectLink<'_>, kind: u32, sleep: &MaySleep) -> Result<Self> {
        let mut mw = Self::alloc(pd.device(), Some(sleep))?;
        let raw: &mut ib_mw = mw.raw();
        raw.device = pd.device().as_raw();
        raw.pd = pd.as_raw();
        raw.uobject = uobject.as_raw();
        raw.type_ = kind;
        Ok(mw)
    }

    /// The protection domain.
    pub fn pd(&self) -> &Pd {
        // SAFETY: Only the member is read.
        unsafe { self.members() }.pd()
    }
}

impl Mw {
    links! {
        /// The device.
        device: Device = device;
        /// The protection domain.
        pd: Pd = pd;
    }

    /// The remote key. Binding the window changes it.
    #[inline]
    pub fn rkey(&self) -> u32 {
        // SAFETY: Any value is valid.
        unsafe { (&raw const (*self.as_raw()).rkey).read_volatile() }
    }
}

impl NewMr<'_> {
    /// Fills in the core's part of a user region that replaces another one.
    pub fn into_replacement(self, uobject: ObjectLink<'_>) -> Owned<Mr> {
        let mr = self.into_owned(bindings::IB_MR_TYPE_USER);
        // SAFETY: The region is new, and only this thread uses it.
        unsafe {
            *(&raw mut (*mr.as_raw()).__bindgen_anon_1).cast() = uobject.as_raw();
        }
        mr
    }
}

impl Mr {
    /// Whether it is a region of device memory.
    pub fn is_device_memory(&self) -> bool {
        // SAFETY: The member is constant after the region is made.
        unsafe { !(*self.as_raw()).dm.is_null() }
    }

    /// Moves the region to another protection domain, which counts it in place of `former`, the domain that it had before the
    /// driver was called.
    ///
    /// # Safety
    ///
    /// This thread has locked the region's user object exclusively. `former` counts the region, and no result of [`Self::pd`]
    /// is used any more.
    pub unsafe fn set_pd(&self, former: &Pd, pd: &Pd) {
        pd.uses().inc();
        // SAFETY: By the safety requirements there is no other writer, and readers use a single load; the former domain
        // counts the region, which has just left it.
        unsafe {
            (&raw mut (*self.as_raw()).pd).write_volatile(pd.as_raw());
            former.uses().dec();
        }
    }
}

impl Owned<Ah> {
    /// Sets the user object.
    pub fn set_uobject(&mut self, uobject: ObjectLink<'_>) {
        // SAFETY: Only the owner uses the member, and `self` is borrowed mutably. By the invariants of the link the object stays.
        unsafe { (*self.as_raw()).uobject = uobject.as_raw() };
    }
}

impl Flow {
    links! {
        /// The device.
        device: Device = device;
    }
}

impl Owned<Flow> {
    /// Fills in the core's part of a rule that a driver has created, and counts it as a user of the queue pair.
    pub fn init(&mut self, qp: &Qp, uobject: ObjectLink<'_>) {
        qp.uses().inc();
        // SAFETY: Only the owner uses the members, and `self` is borrowed mutably.
        unsafe {
            (*self.as_raw()).qp = qp.as_raw();
            (*self.as_raw()).device = qp.device().as_raw();
            (*self.as_raw()).uobject = uobject.as_raw();
        }
    }
}

/// The work queues of an indirection table, which count it as a user. The array is freed with `kfree` when the table is
/// destroyed.
pub struct WqArray(KVec<NonNull<ib_wq>>);

impl WqArray {
    /// Allocates room for `count` work queues.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn with_capacity(count: usize) -> Result<Self> {
        Ok(Self(KVec::with_capacity(count, GFP_KERNEL)?))
    }

    /// Adds a work queue, and counts the table as its user.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn push(&mut self, wq: &Wq) -> Result {
        let raw = NonNull::new(wq.as_raw()).ok_or(EINVAL)?;
        self.0.push(raw, GFP_KERNEL)?;
        wq.uses().inc();
        Ok(())
    }

    /// The argument of a driver's method.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut *mut ib_wq {
        self.0.as_mut_ptr().cast()
    }
}

impl Drop for WqArray {
    fn drop(&mut self) {
        for wq in &self.0 {
            // SAFETY: The work queue counts this entry as a user, and so is still valid.
            unsafe { (*wq.as_ptr().cast::<Wq>()).uses().dec() };
        }
    }
}

impl Fresh<RwqIndTable> {
    /// Allocates an indirection table of `1 << log_size` work queues.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new_user(
        device: &Device,
        uobject: ObjectLink<'_>,
        log_size: u32,
        sleep: &MaySleep,
    ) -> Result<Self> {
        let mut table = Self::alloc(device, Some(sleep))?;
        let raw: &mut ib_rwq_ind_table = table.raw();
        raw.device = device.as_raw();
        raw.uobject = uobject.as_raw();
        raw.log_ind_tbl_size = log_size;
        Ok(table)
    }

    /// The base-2 logarithm of the number of work queues.
    pub(crate) fn log_size(&mut self) -> u32 {
        self.raw().log_ind_tbl_size
    }

    /// Lends the array of work queues to the driver that creates the table.
    pub(crate) fn lend_queues(&mut self, queues: &mut WqArray) {
        self.raw().ind_tbl = queues.as_mut_ptr();
    }
}

impl Owned<RwqIndTable> {
    /// Gives the ownership of the array to the table.
    pub(crate) fn keep_queues(&self, queues: WqArray) {
        // `lend_queues` has set the same pointer.
        core::mem::forget(queues);
    }
}

impl RwqIndTable {
    links! {
        /// The device.
        device: Device = device;
    }

    /// The number that the driver has given the table.
    pub fn number(&self) -> u32 {
        // SAFETY: The member is constant after the table is made.
        unsafe { (*self.as_raw()).ind_tbl_num }
    }
}

impl Wq {
    /// `enum ib_wq_state`.
    pub fn state(&self) -> u32 {
        // SAFETY: The driver writes the number by a single store.
        unsafe { (&raw const (*self.as_raw()).state).read_volatile() }
    }
}

/// The path of an address handle or a queue pair in the user ABI.
#[derive(Clone, Copy, Default)]
pub struct UserPath {
    /// The destination LID; 0 over Ethernet.
    pub dlid: u16,
    /// The service level.
    pub sl: u8,
    /// The path bits of the source LID.
    pub src_path_bits: u8,
    /// `enum ib_rate`.
    pub static_rate: u8,
    /// The port.
    pub port_num: u8,
    /// The GRH, if there is one.
    pub route: Option<UserRoute>,
}

/// A GRH in the user ABI. Its source is an index.
#[derive(Clone, Copy, Default)]
pub struct UserRoute {
    /// The destination GID.
    pub dgid: [u8; 16],
    /// The flow label, 20 bits.
    pub flow_label: u32,
    /// The index of the source GID in the port's table.
    pub sgid_index: u8,
    /// The hop limit.
    pub hop_limit: u8,
    /// The traffic class.
    pub traffic_class: u8,
}

impl UserPath {
    /// The address vector of the path, for a valid port of the device. Its source is only an index.
    pub fn to_vector(self, device: &Device) -> AhVector {
        let mut vector = AhVector::zeroed();
        vector.modify(|raw| self.fill(device, raw));
        vector
    }

    /// Fills in an address vector with the path.
    pub fn fill(self, device: &Device, raw: &mut rdma_ah_attr) {
        let port = u32::from(self.port_num);
        raw.type_ = device.ah_type(port);
        raw.port_num = port;
        raw.sl = self.sl;
        raw.static_rate = self.static_rate;
        raw.ah_flags = 0;
        if let Some(route) = self.route {
            raw.ah_flags = bindings::IB_AH_GRH as u8;
            raw.grh.dgid = crate::Gid(route.dgid).to_raw();
            raw.grh.flow_label = route.flow_label;
            raw.grh.sgid_index = route.sgid_index;
            raw.grh.hop_limit = route.hop_limit;
            raw.grh.traffic_class = route.traffic_class;
        }
        match raw.type_ {
            bindings::RDMA_AH_ATTR_TYPE_IB => {
                raw.__bindgen_anon_1.ib = bindings::ib_ah_attr {
                    dlid: self.dlid,
                    src_path_bits: self.src_path_bits,
                }
            }
            bindings::RDMA_AH_ATTR_TYPE_OPA => {
                raw.__bindgen_anon_1.opa = bindings::opa_ah_attr {
                    dlid: self.dlid.into(),
                    src_path_bits: self.src_path_bits,
                    make_grd: false,
                }
            }
            _ => {}
        }
    }

    /// The path of an address vector.
    pub fn of(raw: &rdma_ah_attr) -> Self {
        let global = u32::from(raw.ah_flags) & bindings::IB_AH_GRH != 0;
        // SAFETY: The type selects the member of the union; the members are numbers.
        let (dlid, src_path_bits) = unsafe {
            match raw.type_ {
                bindings::RDMA_AH_ATTR_TYPE_IB => {
                    let ib = &raw.__bindgen_anon_1.ib;
                    (ib.dlid, ib.src_path_bits)
                }
                bindings::RDMA_AH_ATTR_TYPE_OPA => {
                    let opa = &raw.__bindgen_anon_1.opa;
                    (opa.dlid as u16, opa.src_path_bits)
                }
                _ => (0, 0),
            }
        };
        Self {
            dlid,
            sl: raw.sl,
            src_path_bits,
            static_rate: raw.static_rate,
            port_num: raw.port_num as u8,
            route: global.then(|| UserRoute {
                dgid: crate::Gid::from_raw(&raw.grh.dgid).0,
                flow_label: raw.grh.flow_label,
                sgid_index: raw.grh.sgid_index,
                hop_limit: raw.grh.hop_limit,
                traffic_class: raw.grh.traffic_class,
            }),
        }
    }
}

impl DeviceMemory {
    /// The type of a port's address vectors: `enum rdma_ah_attr_type`.
    pub fn ah_type(&self, port: u32) -> u32 {
        if self.is_roce(port) {
            return bindings::RDMA_AH_ATTR_TYPE_ROCE;
        }
        if self.is_ib(port) {
            if self.has_opa_addresses(port) {
                return bindings::RDMA_AH_ATTR_TYPE_OPA;
            }
            return bindings::RDMA_AH_ATTR_TYPE_IB;
        }
        if self.sub_type() == bindings::RDMA_DEVICE_TYPE_SMI {
            return bindings::RDMA_AH_ATTR_TYPE_IB;
        }
        bindings::RDMA_AH_ATTR_TYPE_UNDEFINED
    }

    /// Whether a port uses the extended LIDs of Omni-Path.
    pub fn has_opa_addresses(&self, port: u32) -> bool {
        self.port_caps(port) & bindings::RDMA_CORE_CAP_OPA_AH == bindings::RDMA_CORE_CAP_OPA_AH
    }
}
