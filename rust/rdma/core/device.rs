// SPDX-License-Identifier: GPL-2.0

//! Devices: `struct ib_device`, its references, and its members that are constant or synchronised.
//!
//! A device has two reference counts. An [`ARef<DeviceMemory>`] keeps the memory (`get_device`). A [`Registered`] keeps the device
//! registered (`ib_device_try_get`), and unregistration waits until none is left. What reads the memory alone is a method of
//! [`DeviceMemory`]; what calls the driver is a method of [`Device`], which dereferences to it.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::{
    mem::ManuallyDrop,
    ops::Deref,
    ops::RangeInclusive,
    ptr::NonNull,
    sync::atomic::{AtomicU8, Ordering},
};

use kernel::{
    alloc::{allocator::Kmalloc, Allocator},
    prelude::*,
    sync::{
        aref::{ARef, AlwaysRefCounted},
        rcu,
    },
};
use kernel_ext::{
    compat::pin_init::initialize,
    entry::FromC,
    net::ns::{NetNamespace, NetRef},
};
use rdma_bindings::{self as bindings, ib_device};

use super::{Device, DeviceMemory};
use crate::abi::port::PortImmutable;

/// The `write()` commands that all devices support: `uverbs_cmd_mask`.
const DEFAULT_COMMANDS: u64 = {
    let commands = [
        bindings::IB_USER_VERBS_CMD_ALLOC_MW,
        bindings::IB_USER_VERBS_CMD_ALLOC_PD,
        bindings::IB_USER_VERBS_CMD_ATTACH_MCAST,
        bindings::IB_USER_VERBS_CMD_CLOSE_XRCD,
        bindings::IB_USER_VERBS_CMD_CREATE_AH,
        bindings::IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL,
        bindings::IB_USER_VERBS_CMD_CREATE_CQ,
        bindings::IB_USER_VERBS_CMD_CREATE_QP,
        bindings::IB_USER_VERBS_CMD_CREATE_SRQ,
        bindings::IB_USER_VERBS_CMD_CREATE_XSRQ,
        bindings::IB_USER_VERBS_CMD_DEALLOC_MW,
        bindings::IB_USER_VERBS_CMD_DEALLOC_PD,
        bindings::IB_USER_VERBS_CMD_DEREG_MR,
        bindings::IB_USER_VERBS_CMD_DESTROY_AH,
        bindings::IB_USER_VERBS_CMD_DESTROY_CQ,
        bindings::IB_USER_VERBS_CMD_DESTROY_QP,
        bindings::IB_USER_VERBS_CMD_DESTROY_SRQ,
        bindings::IB_USER_VERBS_CMD_DETACH_MCAST,
        bindings::IB_USER_VERBS_CMD_GET_CONTEXT,
        bindings::IB_USER_VERBS_CMD_MODIFY_QP,
        bindings::IB_USER_VERBS_CMD_MODIFY_SRQ,
        bindings::IB_USER_VERBS_CMD_OPEN_QP,
        bindings::IB_USER_VERBS_CMD_OPEN_XRCD,
        bindings::IB_USER_VERBS_CMD_QUERY_DEVICE,
        bindings::IB_USER_VERBS_CMD_QUERY_PORT,
        bindings::IB_USER_VERBS_CMD_QUERY_QP,
        bindings::IB_USER_VERBS_CMD_QUERY_SRQ,
        bindings::IB_USER_VERBS_CMD_REG_MR,
        bindings::IB_USER_VERBS_CMD_REREG_MR,
        bindings::IB_USER_VERBS_CMD_RESIZE_CQ,
    ];
    let mut mask = 0;
    let mut nth = 0;
    while nth < commands.len() {
        mask |= 1 << commands[nth];
        nth += 1;
    }
    mask
};

/// The size of a device name in bytes, the terminating NUL included.
const NAME_MAX: usize = bindings::IB_DEVICE_NAME_MAX as usize;

/// A copy of a device name, terminated with NUL.
pub struct DeviceName([u8; NAME_MAX]);

impl Deref for DeviceName {
    type Target = CStr;

    #[inline]
    fn deref(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or_default()
    }
}

impl kernel::fmt::Display for DeviceName {
    fn fmt(&self, f: &mut kernel::fmt::Formatter<'_>) -> kernel::fmt::Result {
        kernel::fmt::Display::fmt(&**self, f)
    }
}

impl core::fmt::Debug for DeviceName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Debug::fmt(&**self, f)
    }
}

/// The core's private data of a device, which lies in front of it in memory.
///
/// # Safety
///
/// Exactly one type implements it, in the core, and every `&Device` in the core refers to a device from [`allocate`] for this
/// type.
pub unsafe trait Private: Send + Sync {}

/// The core's private data, which precedes the `ib_device` in an allocation.
#[repr(C, align(64))]
struct Prefix<T>(T);

/// The offset of the device in an allocation, in bytes.
const fn device_offset<T>() -> usize {
    core::mem::size_of::<Prefix<T>>()
}

/// The layout of an allocation whose device has `size` bytes, the driver's data included.
fn layout<T>(size: usize) -> Result<core::alloc::Layout> {
    let total = device_offset::<T>().checked_add(size).ok_or(EOVERFLOW)?;
    let align = core::mem::align_of::<Prefix<T>>();
    let layout = core::alloc::Layout::from_size_align(total, align).map_err(|_| EOVERFLOW)?;
    Ok(layout.pad_to_align())
}

/// Allocates a device with the core's private data. Both are zeroed, then `init` initialises the private data.
///
/// `size` is the size in bytes of the device and of the driver's data behind it.
///
/// # Errors
///
/// `EINVAL` where `size` is less than that of a device, `ENOMEM`, and those of `init`.
pub fn allocate<T: Private, E>(size: usize, init: impl PinInit<T, E>) -> Result<NonNull<Device>>
where
    Error: From<E>,
{
    if size < core::mem::size_of::<ib_device>() {
        return Err(EINVAL);
    }
    let layout = layout::<T>(size)?;
    let flags = GFP_KERNEL | __GFP_ZERO;
    let memory = Kmalloc::alloc(layout, flags, kernel::alloc::NumaNode::NO_NODE)?.cast::<u8>();
    // SAFETY: There is room for a `T`, which is not moved until `free`.
    if let Err(error) = unsafe { initialize(memory.as_ptr().cast::<T>(), init) } {
        // SAFETY: The memory is from `Kmalloc::alloc` with this layout.
        unsafe { Kmalloc::free(memory, layout) };
        return Err(error.into());
    }
    // SAFETY: The device lies inside the allocation.
    Ok(unsafe { memory.add(device_offset::<T>()) }.cast())
}

/// Frees a device, and drops the core's private data.
///
/// # Safety
///
/// The device is from [`allocate`] for this type, and is not used any more.
pub unsafe fn free<T: Private>(device: NonNull<Device>) {
    // SAFETY: By the safety requirements the device is at `device_offset::<T>()` in an allocation that begins with a `T`.
    unsafe {
        let memory = device.cast::<u8>().sub(device_offset::<T>());
        core::ptr::drop_in_place(memory.as_ptr().cast::<T>());
        // `kfree` does not look at the size.
        Kmalloc::free(memory, core::alloc::Layout::new::<Prefix<T>>());
    }
}

// SAFETY: `get_device` and `put_device` count references; the memory stays until there is none.
unsafe impl AlwaysRefCounted for DeviceMemory {
    fn inc_ref(&self) {
        // SAFETY: `self` is a valid device.
        unsafe { bindings::get_device(self.as_dev()) };
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: By the safety requirements of the trait a reference is given up.
        unsafe { bindings::put_device(obj.as_ref().as_dev()) };
    }
}

/// The C structure of a device of the driver model.
pub fn raw_dev(dev: &kernel::device::Device) -> *mut bindings::device {
    core::ptr::from_ref(dev).cast_mut().cast()
}

/// Reads a field that is constant while the device is shared, or whose readers take any value.
macro_rules! field {
    ($device:expr, $($member:tt)+) => {{
        let raw: *mut ib_device = $device.as_raw();
        // SAFETY: `$raw` is a valid device; any value of the field's type is valid, and a concurrent writer uses a single
        // store.
        unsafe { (&raw const (*raw).$($member)+).read_volatile() }
    }};
}

/// The flags of a device, which share a byte.
#[derive(Clone, Copy)]
enum Flag {
    IsSwitch,
    KverbsProvider,
    UseCqDim,
    CcDmaBounce,
}

impl Flag {
    #[inline]
    fn mask(self) -> u8 {
        let flag = |is: bool| u16::from(is);
        let flags = ib_device::new_bitfield_1(
            flag(matches!(self, Self::IsSwitch)),
            flag(matches!(self, Self::KverbsProvider)),
            flag(matches!(self, Self::UseCqDim)),
            flag(matches!(self, Self::CcDmaBounce)),
        );
        flags.get(0, 8) as u8
    }
}

impl DeviceMemory {
    /// Borrows a device.
    ///
    /// # Safety
    ///
    /// `raw` must be a device that is valid for `'a`.
    #[inline]
    pub unsafe fn from_raw<'a>(raw: *mut ib_device) -> &'a Self {
        // SAFETY: By the safety requirements; a view is a transparent wrapper.
        unsafe { &*raw.cast() }
    }

    /// The `struct device` of the device's own namespace, as a pointer.
    #[inline]
    pub fn as_dev(&self) -> *mut bindings::device {
        // SAFETY: The field lies in the device, which is valid as `self` is.
        unsafe { (&raw mut (*self.as_raw()).__bindgen_anon_1.dev).cast() }
    }

    /// The `struct device` of the device's own namespace.
    #[inline]
    pub fn dev(&self) -> &kernel::device::Device {
        // SAFETY: It is a member of the device, and so valid as long as `self`.
        unsafe { kernel::device::Device::from_raw(self.as_dev()) }
    }

    /// Takes a reference that keeps the memory. Any context.
    #[inline]
    pub fn hold(&self) -> ARef<Self> {
        self.into()
    }

    /// The device with its driver.
    ///
    /// # Safety
    ///
    /// The driver has the device until the result is not used any more: `ib_unregister_device` has not returned, or C lends the
    /// device.
    #[inline]
    pub unsafe fn with_driver(&self) -> &Device {
        // SAFETY: `self` is a valid device. INVARIANT: By the safety requirements the driver is there.
        unsafe { Device::from_raw(self.as_raw()) }
    }

    /// The core's private data of the device.
    #[inline]
    pub fn private<T: Private>(&self) -> &T {
        // SAFETY: By the safety requirements of `Private` the device is from `allocate` for this type.
        unsafe { &*self.as_raw().byte_sub(device_offset::<T>()).cast::<T>() }
    }

    /// The bytes of the name.
    fn name_bytes(&self) -> &[AtomicU8; NAME_MAX] {
        // SAFETY: The array is a member of the device. Only the core writes it, byte by byte, in
        // Rust; C reads it alone.
        unsafe { &*(&raw const (*self.as_raw()).name).cast() }
    }

    /// A copy of the name. While the device is being renamed, the copy may be a mixture of the old name and the new one.
    pub fn name(&self) -> DeviceName {
        let mut bytes = [0; NAME_MAX];
        // The last byte stays NUL.
        for (to, from) in bytes
            .iter_mut()
            .zip(self.name_bytes().iter().take(NAME_MAX - 1))
        {
            match from.load(Ordering::Relaxed) {
                0 => break,
                byte => *to = byte,
            }
        }
        DeviceName(bytes)
    }

    /// The index of the device among all devices, from 0. Constant from registration on.
    #[inline]
    pub fn index(&self) -> u32 {
        field!(self, index)
    }

    /// Sets the index of the device. A concurrent reader gets the old one or the new one.
    pub fn set_index(&self, index: u32) {
        // SAFETY: Any value is valid, and a single store writes it.
        unsafe { (&raw mut (*self.as_raw()).index).write_volatile(index) };
    }

    /// Sets the member `name`, truncated to 63 bytes. A concurrent reader may get a mixture of the old name and the new one, and
    /// so does the device if two threads set it.
    pub fn set_name_field(&self, name: &CStr) {
        let name = name.to_bytes();
        // The last byte is NUL, and stays so.
        for (nth, to) in self.name_bytes().iter().enumerate().take(NAME_MAX - 1) {
            to.store(name.get(nth).copied().unwrap_or(0), Ordering::Relaxed);
        }
    }

    /// `enum rdma_node_type`. Constant from registration on.
    #[inline]
    pub fn node_type(&self) -> u32 {
        field!(self, node_type).into()
    }

    /// The node GUID, big endian.
    #[inline]
    pub fn node_guid(&self) -> [u8; 8] {
        field!(self, node_guid).to_ne_bytes()
    }

    /// The byte of the device's flags, of which `use_cq_dim` may change at any time.
    #[inline]
    fn flags(&self) -> &AtomicU8 {
        // SAFETY: The member is one byte, which is valid as long as the device, and is accessed atomically.
        unsafe { AtomicU8::from_ptr((&raw mut (*self.as_raw())._bitfield_1).cast()) }
    }

    #[inline]
    fn has_flag(&self, flag: Flag) -> bool {
        self.flags().load(Ordering::Relaxed) & flag.mask() != 0
    }

    /// Whether the device is an InfiniBand switch, whose only port here is its management port 0.
    #[inline]
    pub fn is_switch(&self) -> bool {
        self.has_flag(Flag::IsSwitch)
    }

    /// The number of physical ports.
    #[inline]
    pub fn phys_port_cnt(&self) -> u32 {
        field!(self, phys_port_cnt)
    }

    /// The port numbers.
    #[inline]
    pub fn ports(&self) -> RangeInclusive<u32> {
        if self.is_switch() {
            0..=0
        } else {
            1..=self.phys_port_cnt()
        }
    }

    /// Whether the device has this port.
    #[inline]
    pub fn is_port_valid(&self, port: u32) -> bool {
        self.ports().contains(&port)
    }

    /// Functions of the core look no port up that the device has not.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the device has no such port.
    #[inline]
    pub(crate) fn check_port(&self, port: u32) -> Result {
        match self.is_port_valid(port) {
            true => Ok(()),
            false => Err(EINVAL),
        }
    }

    /// The immutable data of a port. `None` if there is no such port, or if the registration of the device has not begun.
    pub fn immutable(&self, port: u32) -> Option<PortImmutable> {
        let data = self.port_data(port)?;
        // SAFETY: `data` is an entry of the port array; its member is constant from registration on.
        Some(unsafe { (&raw const (*data.as_ptr()).immutable).read_volatile() })
    }

    /// The `struct ib_port_data` of a port; `None` as for [`Self::immutable`].
    pub fn port_data(&self, port: u32) -> Option<NonNull<bindings::ib_port_data>> {
        if !self.is_port_valid(port) {
            return None;
        }
        let array = NonNull::new(field!(self, port_data))?;
        // SAFETY: The array has an entry for each port.
        Some(unsafe { array.add(port as usize) })
    }

    /// `core_cap_flags` (`RDMA_CORE_CAP_*`) of a port; 0 where there is no such port.
    #[inline]
    pub fn port_caps(&self, port: u32) -> u32 {
        self.immutable(port).map_or(0, |port| port.core_cap_flags)
    }

    /// Whether the protocol of a port is InfiniBand.
    #[inline]
    pub fn is_ib(&self, port: u32) -> bool {
        self.port_caps(port) & bindings::RDMA_CORE_CAP_PROT_IB != 0
    }

    /// Whether the protocol of a port is RoCE, of either version.
    #[inline]
    pub fn is_roce(&self, port: u32) -> bool {
        let roce = bindings::RDMA_CORE_CAP_PROT_ROCE | bindings::RDMA_CORE_CAP_PROT_ROCE_UDP_ENCAP;
        self.port_caps(port) & roce != 0
    }

    /// Whether the protocol of a port is iWARP.
    #[inline]
    pub fn is_iwarp(&self, port: u32) -> bool {
        self.port_caps(port) & bindings::RDMA_CORE_CAP_PROT_IWARP != 0
    }

    /// Whether a port has management datagrams.
    #[inline]
    pub fn has_mads(&self, port: u32) -> bool {
        self.port_caps(port) & bindings::RDMA_CORE_CAP_IB_MAD != 0
    }

    /// Whether a port has the connection manager of InfiniBand.
    #[inline]
    pub fn has_ib_cm(&self, port: u32) -> bool {
        self.port_caps(port) & bindings::RDMA_CORE_CAP_IB_CM != 0
    }

    /// Whether a port has a subnet management interface: QP0.
    #[inline]
    pub fn has_smi(&self, port: u32) -> bool {
        self.port_caps(port) & bindings::RDMA_CORE_CAP_IB_SMI != 0
    }

    /// Whether the current process may use the device: one of its network namespace, or any in shared mode.
    pub fn is_accessible(&self, _sleep: &crate::MaySleep) -> bool {
        // SAFETY: The device is valid. A thread in process context has a network namespace.
        unsafe { bindings::rdma_dev_access_netns(self.as_raw(), bindings::current_net()) }
    }

    /// The attributes of the device (`struct ib_device_attr`), as the driver reported them at registration.
    pub fn attrs(&self) -> &bindings::ib_device_attr {
        // SAFETY: The attributes are constant from registration on.
        unsafe { &(*self.as_raw()).attrs }
    }

    /// The methods of the driver.
    #[inline]
    pub fn ops(&self) -> &bindings::ib_device_ops {
        // SAFETY: The methods are constant from registration on.
        unsafe { &(*self.as_raw()).ops }
    }

    /// `enum rdma_driver_id`.
    #[inline]
    pub fn driver_id(&self) -> u32 {
        self.ops().driver_id
    }

    /// Whether the driver has all methods that clients in the kernel need.
    #[inline]
    pub fn is_kverbs_provider(&self) -> bool {
        self.has_flag(Flag::KverbsProvider)
    }

    /// Whether completion queues use dynamic interrupt moderation (DIM).
    #[inline]
    pub fn uses_dim(&self) -> bool {
        self.has_flag(Flag::UseCqDim)
    }

    /// Sets whether completion queues that are created from now on use dynamic interrupt moderation.
    pub fn set_dim(&self, on: bool) {
        let mask = Flag::UseCqDim.mask();
        match on {
            true => self.flags().fetch_or(mask, Ordering::Relaxed),
            false => self.flags().fetch_and(!mask, Ordering::Relaxed),
        };
    }

    /// Whether DMA goes through bounce buffers, since the memory of a confidential guest is encrypted.
    pub fn bounces_dma(&self) -> bool {
        self.has_flag(Flag::CcDmaBounce)
    }

    /// The device that does the DMA. `None` for a software device, where the CPU copies.
    pub fn dma_device(&self) -> Option<&kernel::device::Device> {
        let raw = NonNull::new(field!(self, dma_device))?;
        // SAFETY: By the contract of `set_dma_device` it is there as long as the device.
        Some(unsafe { kernel::device::Device::from_raw(raw.as_ptr()) })
    }

    fn raw_net(&self) -> *mut kernel_ext::bindings::net {
        // SAFETY: The pointer is set when the device is made, and written by a single store when the device moves.
        unsafe {
            let coredev = &raw const (*self.as_raw()).__bindgen_anon_1.coredev;
            let net = &raw const (*coredev.cast::<bindings::ib_core_device>()).rdma_net.net;
            net.read_volatile().cast()
        }
    }

    /// Calls `f` with the network namespace that the device is in, which exists during the call. `f` must not sleep.
    pub fn with_namespace<R>(&self, f: impl FnOnce(&NetNamespace) -> R) -> R {
        let _guard = rcu::read_lock();
        // SAFETY: A namespace that is deleted waits for the device to leave it, and leaving waits for RCU readers:
        // `ModelEntry::set_net`. By the contract of `Class::initialize` the namespace exists until the device is in the driver model.
        f(unsafe { NetNamespace::from_raw(self.raw_net()) })
    }

    /// Returns a counted reference to the network namespace that the device is in, unless that is being deleted. Any context.
    pub fn namespace(&self) -> Option<NetRef> {
        self.with_namespace(NetNamespace::get)
    }

    /// Whether the device is in a network namespace. Any context.
    #[inline]
    pub fn is_in(&self, net: &NetNamespace) -> bool {
        core::ptr::eq(self.raw_net().cast(), net.as_raw())
    }

    /// The link type of the device, which `rdma link delete` calls. Null for none.
    #[inline]
    pub fn link_ops(&self) -> *const bindings::rdma_link_ops {
        field!(self, link_ops)
    }

    /// `enum rdma_nl_dev_type`, for a sub-device.
    #[inline]
    pub fn sub_type(&self) -> u32 {
        field!(self, type_)
    }

    /// `enum rdma_nl_name_assign_type`: whether user space has set the name.
    #[inline]
    pub fn name_assign_type(&self) -> u32 {
        field!(self, name_assign_type)
    }

    /// Sets the device that does the DMA; `None` for a software device. Called during registration.
    ///
    /// # Safety
    ///
    /// The device is being registered by this thread alone, and no other code reads the members that are set here yet. The DMA
    /// device outlives the device, or stays until this is called again.
    pub unsafe fn set_dma_device(&self, dma_device: Option<&kernel::device::Device>) {
        let raw = dma_device.map_or(core::ptr::null_mut(), raw_dev);
        // SAFETY: By the safety requirements.
        unsafe {
            (*self.as_raw()).dma_device = raw;
            let encrypted = bindings::rdma_memory_is_encrypted();
            ib_device::set_cc_dma_bounce_raw(self.as_raw(), (!raw.is_null() && encrypted).into());
        }
    }

    /// Enables the commands that all devices support. Called for a new device.
    ///
    /// # Safety
    ///
    /// The device is being made or registered by this thread alone, and no other code reads the members that are set here yet.
    pub unsafe fn set_default_commands(&self) {
        // SAFETY: By the safety requirements.
        unsafe { (*self.as_raw()).uverbs_cmd_mask = DEFAULT_COMMANDS };
    }

    /// Takes a reference that keeps the device registered; `None` if the device is not registered. Any context.
    #[inline]
    pub fn try_get(&self) -> Option<Registered> {
        // SAFETY: `self` is a valid device.
        let got = unsafe { bindings::ib_device_try_get(self.as_raw()) };
        // INVARIANT: The reference was just counted.
        got.then(|| Registered(NonNull::from(self).cast()))
    }

    /// Whether the device is registered at the moment of the call.
    pub fn is_registered(&self) -> bool {
        self.registrations()
            .as_atomic()
            .load(kernel::sync::atomic::Relaxed)
            != 0
    }

    /// The count of registration references.
    fn registrations(&self) -> &kernel::sync::Refcount {
        // SAFETY: `Refcount` is a transparent wrapper of the field, which C uses atomically too.
        unsafe { &*(&raw const (*self.as_raw()).refcount).cast() }
    }
}

impl Deref for Device {
    type Target = DeviceMemory;

    #[inline(always)]
    fn deref(&self) -> &DeviceMemory {
        // SAFETY: `self` is a valid device.
        unsafe { DeviceMemory::from_raw(self.as_raw()) }
    }
}

impl Device {
    /// Borrows a device.
    ///
    /// # Safety
    ///
    /// `raw` must be a device that is valid for `'a`, and whose driver is there as long.
    #[inline]
    pub unsafe fn from_raw<'a>(raw: *mut ib_device) -> &'a Self {
        // SAFETY: By the safety requirements; a view is a transparent wrapper.
        unsafe { &*raw.cast() }
    }

    /// The parent in the driver model.
    pub fn parent_dev(&self) -> Option<&kernel::device::Device> {
        // SAFETY: The field is constant from registration on, and a driver unregisters the device before its parent goes.
        unsafe {
            let parent = NonNull::new((*self.as_dev()).parent)?;
            Some(kernel::device::Device::from_raw(parent.as_ptr()))
        }
    }

    /// Queries the driver for the device's attributes, and stores them. Called during registration.
    ///
    /// # Safety
    ///
    /// The device is being made or registered by this thread alone, and no other code reads the members that are set here yet.
    pub unsafe fn fill_attrs(&self, sleep: &crate::MaySleep) -> Result {
        // SAFETY: By the safety requirements.
        let attrs = unsafe { &mut (*self.as_raw()).attrs };
        *attrs = pin_init::zeroed();
        self.driver_query_device(attrs, sleep)
    }

    /// Sets the count of registration references from 0 to 1: the device is registered from now on. `None` if the count is not
    /// 0.
    pub fn first_registered(&self) -> Option<(Registered, NewlyRegistered<'_>)> {
        let count = self.registrations().as_atomic();
        count.cmpxchg(0, 1, kernel::sync::atomic::Full).ok()?;
        // INVARIANT: The reference was just counted, as the first.
        Some((Registered(NonNull::from(self)), NewlyRegistered(self)))
    }
}

/// A device that was just registered.
///
/// # Invariants
///
/// There is one value for each time that the device is registered.
pub struct NewlyRegistered<'a>(&'a Device);

impl<'a> NewlyRegistered<'a> {
    pub(super) fn into_device(self) -> &'a Device {
        self.0
    }
}

/// A reference that keeps a device registered. Unregistration waits for it, so it is held for a short time only.
///
/// # Invariants
///
/// The device is registered, and `self` owns one registration reference.
pub struct Registered(NonNull<Device>);

// SAFETY: Devices may be used from any thread.
unsafe impl Send for Registered {}
// SAFETY: Devices may be used from any thread.
unsafe impl Sync for Registered {}

impl Registered {
    /// Takes over a reference that C code counted.
    ///
    /// # Safety
    ///
    /// The caller hands over a registration reference of the device.
    pub unsafe fn from_counted(device: &Device) -> Self {
        // INVARIANT: By the safety requirements.
        Self(NonNull::from(device))
    }

    /// Takes one more reference. Any context.
    pub fn again(&self) -> Self {
        self.registrations().inc();
        // INVARIANT: `self` keeps the device registered; the new reference was just counted.
        Self(self.0)
    }

    /// Gives up the reference, and calls `last` if it was the last one. Unregistration waits until `last` has completed it.
    /// Only the core calls this; other code drops the reference.
    pub fn put(self, last: impl FnOnce(&Device)) {
        let device = core::mem::ManuallyDrop::new(self);
        // Unregistration waits for `last`, so the device is valid until then.
        if device.registrations().dec_and_test() {
            last(&device);
        }
    }

    /// Hands the reference over to C code.
    pub fn into_raw(self) -> *mut ib_device {
        let raw = self.as_raw();
        core::mem::forget(self);
        raw
    }
}

// SAFETY: `Raw` is the type in the header.
unsafe impl FromC for Registered {
    type Raw = *mut ib_device;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // INVARIANT: The header says that the caller gives up a registration reference.
        // SAFETY: By the safety requirements there is a device.
        Self(unsafe { NonNull::new_unchecked(raw) }.cast())
    }
}

impl Deref for Registered {
    type Target = Device;

    #[inline]
    fn deref(&self) -> &Device {
        // SAFETY: By the type invariants; a registered device has its memory.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the device is valid.
        unsafe { bindings::ib_device_put(self.as_raw()) };
    }
}

/// Whether the current process has `CAP_NET_RAW` in a namespace.
pub fn has_raw_cap(net: &NetNamespace) -> bool {
    // SAFETY: `net` is a valid namespace.
    unsafe { bindings::net_raw_capable(net.as_raw().cast()) }
}

/// A sub-device that a driver has added to a parent device: `add_sub_dev`.
///
/// If it is dropped instead of [deleted](Self::delete), the sub-device and its parent stay registered for good.
///
/// # Invariants
///
/// The driver of `parent` has added `sub` to it, which is valid until `delete` is called. `parent` is registered as long.
pub struct SubDevice {
    sub: NonNull<Device>,
    parent: ManuallyDrop<Registered>,
}

// SAFETY: Devices may be used from any thread.
unsafe impl Send for SubDevice {}

impl SubDevice {
    /// Lets the driver of `parent` add a sub-device. `parent` stays registered as long as the sub-device.
    pub fn add(
        parent: Registered,
        sub_type: u32,
        name: &CStr,
        sleep: &crate::MaySleep,
    ) -> Result<Self> {
        let sub = parent.driver_add_sub_dev(sub_type, name, sleep)?;
        // SAFETY: The driver has just made the device. Readers use single loads.
        unsafe {
            let raw = sub.as_ref().as_raw();
            (&raw mut (*raw).type_).write_volatile(sub_type);
            (&raw mut (*raw).parent).write_volatile(parent.as_raw());
        }
        // INVARIANT: By the header the driver keeps the device until `del_sub_dev`.
        let parent = ManuallyDrop::new(parent);
        Ok(Self { sub, parent })
    }

    /// Whether `device` is this sub-device.
    pub fn is(&self, device: &Device) -> bool {
        self.sub == NonNull::from(device)
    }

    /// Lets the driver unregister and deallocate the sub-device. Returns the reference to the parent.
    pub fn delete(self, sleep: &crate::MaySleep) -> Registered {
        let parent = ManuallyDrop::into_inner(self.parent);
        // SAFETY: By the type invariants, and `self` is consumed.
        unsafe { parent.driver_del_sub_dev(self.sub, sleep) };
        parent
    }
}

impl Registered {
    /// The parent of a sub-device, which stays registered as long as the sub-device; `None` for any other device.
    pub fn parent(&self) -> Option<&Device> {
        let parent = NonNull::new(field!(self, parent))?;
        // SAFETY: `SubDevice::add` alone sets the member. By its invariants the parent is registered until `SubDevice::delete` has
        // unregistered the sub-device, which waits for `self`.
        Some(unsafe { Device::from_raw(parent.as_ptr()) })
    }
}
