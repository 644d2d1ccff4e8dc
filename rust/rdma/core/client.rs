// SPDX-License-Identifier: GPL-2.0

//! Calls of the core into its clients: `struct ib_client`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::{marker::PhantomData, ptr::NonNull};

use kernel::{
    error::to_result,
    ffi::{c_int, c_void},
    prelude::*,
    sync::aref::ARef,
};
use kernel_ext::{entry::FromC, net::device::NetDevice};
use rdma_bindings::{self as bindings, ib_client_nl_info, ib_gid, sockaddr};

use super::{Client, Device, DeviceMemory};
use crate::MaySleep;

/// The data of a client for a device, as `ib_set_client_data` takes it.
///
/// The core stores the pointer and returns it, and does not dereference it.
#[derive(Clone, Copy)]
pub struct ClientData(*mut c_void);

// SAFETY: `Raw` is the `void *` of the header.
unsafe impl FromC for ClientData {
    type Raw = *mut c_void;

    #[inline(always)]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw)
    }
}

impl Client {
    /// Borrows a client.
    ///
    /// # Safety
    ///
    /// `raw` must be a client that is valid for `'a`.
    #[inline]
    pub unsafe fn from_raw<'a>(raw: *mut bindings::ib_client) -> &'a Self {
        // SAFETY: By the safety requirements; a view is a transparent wrapper.
        unsafe { &*raw.cast() }
    }

    /// The client's name.
    pub fn name(&self) -> &CStr {
        // SAFETY: The name is constant while the client is registered, and `self` is.
        unsafe { CStr::from_char_ptr((*self.as_raw()).name) }
    }

    /// The index of the client's data in each device's array.
    #[inline]
    pub fn id(&self) -> u32 {
        // SAFETY: The core sets the member before the client's first callback.
        unsafe { (*self.as_raw()).client_id }
    }

    /// Whether the client is added to devices without all kernel verbs too (`no_kverbs_req`).
    pub fn takes_any_device(&self) -> bool {
        // SAFETY: The field is constant while the client is valid.
        unsafe { (*self.as_raw()).no_kverbs_req() != 0 }
    }

    /// Calls the client's `add` for a device.
    ///
    /// # Safety
    ///
    /// `add` was not called for the device, or `remove` was called since; no other thread calls `add` for it; the device stays
    /// registered until `remove` has returned.
    pub unsafe fn add(&self, device: &Device, _sleep: &MaySleep) -> Result {
        // SAFETY: `self` is a valid client, and its callbacks are constant.
        match unsafe { (*self.as_raw()).add } {
            // SAFETY: By the safety requirements.
            Some(add) => to_result(unsafe { add(device.as_raw()) }),
            None => Ok(()),
        }
    }

    /// Calls the client's `remove` for a device. When it returns, the client does not use the device any more.
    ///
    /// # Safety
    ///
    /// `add` has succeeded for the device, none of the client's other callbacks runs for it, and `remove` is called once. `data`
    /// is the client's data for the device.
    pub unsafe fn remove(&self, device: &Device, data: ClientData, _sleep: &MaySleep) {
        // SAFETY: By the safety requirements.
        unsafe {
            if let Some(remove) = (*self.as_raw()).remove {
                remove(device.as_raw(), data.0);
            }
        }
    }

    /// Calls the client's `rename` for a device that has a new name.
    ///
    /// # Safety
    ///
    /// `add` has succeeded for the device, and `remove` is not called before this returns. `data` is the client's data for the
    /// device.
    pub unsafe fn rename(&self, device: &Device, data: ClientData, _sleep: &MaySleep) {
        // SAFETY: By the safety requirements.
        unsafe {
            if let Some(rename) = (*self.as_raw()).rename {
                rename(device.as_raw(), data.0);
            }
        }
    }

    /// The net device to which the client maps an address, referenced. `None` where there is none.
    ///
    /// # Safety
    ///
    /// `add` has succeeded for the device, and `remove` is not called before this returns. `data` is the client's data for the
    /// device.
    pub unsafe fn net_dev_by_params(
        &self,
        device: &Device,
        request: &NetDevRequest,
        data: ClientData,
        _sleep: &MaySleep,
    ) -> Option<ARef<NetDevice>> {
        // SAFETY: `self` is a valid client, and its callbacks are constant.
        let call = unsafe { (*self.as_raw()).get_net_dev_by_params }?;
        let NetDevRequest {
            port,
            pkey,
            gid,
            addr,
        } = *request;
        // SAFETY: By the safety requirements; the net device that it returns is referenced.
        unsafe {
            let ndev = call(device.as_raw(), port, pkey, gid, addr, data.0);
            NetDevice::from_counted(ndev.cast())
        }
    }

    /// Queries the client for its character device of an RDMA device. `None` if the client has no `get_nl_info`.
    ///
    /// # Errors
    ///
    /// Those of the callback; `EINVAL` if it returns no character device.
    ///
    /// # Safety
    ///
    /// `add` has succeeded for the device, and `remove` is not called before this returns. `data` is the client's data for the
    /// device.
    pub unsafe fn nl_info(
        &self,
        device: &Device,
        data: ClientData,
        request: &ClientRequest<'_>,
        _sleep: &MaySleep,
    ) -> Option<Result<ClientInfo>> {
        // SAFETY: `self` is a valid client, and its callbacks are constant.
        let call = unsafe { (*self.as_raw()).get_nl_info }?;
        // SAFETY: By the safety requirements. A client keeps its character device of a device until `remove` is called.
        Some(unsafe { request.ask(|info| call(device.as_raw(), data.0, info)) })
    }
}

impl ClientRef {
    /// Queries the client for its character device that belongs to no RDMA device. `None` if the client has no
    /// `get_global_nl_info`.
    ///
    /// # Errors
    ///
    /// Those of the callback; `EINVAL` if it returns no character device.
    pub fn global_nl_info(
        &self,
        request: &ClientRequest<'_>,
        _sleep: &MaySleep,
    ) -> Option<Result<ClientInfo>> {
        // SAFETY: By the type invariants the client is valid, and its callbacks are constant.
        let call = unsafe { (*self.as_raw()).get_global_nl_info }?;
        // SAFETY: As above. A client keeps its character device until `ib_unregister_client` has returned, which by the type
        // invariants waits for `self`.
        Some(unsafe { request.ask(|info| call(info)) })
    }
}

/// A client that is being registered.
///
/// # Invariants
///
/// None of its callbacks was called, and no other thread refers to it.
pub struct NewClient<'a>(&'a Client);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for NewClient<'_> {
    type Raw = *mut bindings::ib_client;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the client is valid; a view is a transparent wrapper.
        // INVARIANT: By the header a client is registered once at a time, by one thread.
        Self(unsafe { &*raw.cast() })
    }
}

impl<'a> NewClient<'a> {
    /// Sets the index of the client's data.
    pub fn with_id(self, id: u32) -> &'a Client {
        // SAFETY: By the type invariants there is no other user.
        unsafe { (*self.0.as_raw()).client_id = id };
        self.0
    }
}

/// A query of user space to a client (`struct ib_client_nl_info`): the port, and the message to which the client may add
/// attributes.
pub struct ClientRequest<'a> {
    msg: *mut bindings::sk_buff,
    port: u32,
    _msg: PhantomData<&'a ()>,
}

impl ClientRequest<'_> {
    /// Creates a request.
    ///
    /// # Safety
    ///
    /// `msg` is a netlink message under construction, and only the request writes to it as long as the request exists.
    pub unsafe fn new(msg: *mut bindings::sk_buff, port: u32) -> Self {
        Self {
            msg,
            port,
            _msg: PhantomData,
        }
    }

    /// Calls a client's callback to fill in the reply, and takes a reference to the character device.
    ///
    /// # Safety
    ///
    /// The character device that `call` fills in stays until this returns.
    unsafe fn ask(&self, call: impl FnOnce(*mut ib_client_nl_info) -> c_int) -> Result<ClientInfo> {
        let mut info = ib_client_nl_info {
            nl_msg: self.msg,
            port: self.port,
            ..pin_init::zeroed()
        };
        match call(&mut info) {
            0 => {}
            // User space takes `ENOENT` as the absence of the client.
            ret if ret == ENOENT.to_errno() => return Err(EINVAL),
            ret => return Err(Error::from_errno(ret)),
        }
        let cdev = NonNull::new(info.cdev).ok_or(EINVAL)?;
        Ok(ClientInfo {
            port: info.port,
            abi: info.abi,
            // SAFETY: By the safety requirements.
            cdev: unsafe { kernel::device::Device::get_device(cdev.as_ptr()) },
        })
    }
}

/// The device number in the encoding of user space: 12 bits of the major number, 20 of the minor number.
pub fn chardev_number(cdev: &kernel::device::Device) -> u64 {
    // SAFETY: `cdev` is a valid device, whose number is constant.
    let number = unsafe { (*super::device::raw_dev(cdev)).devt };
    let (major, minor) = (u64::from(number >> 20), u64::from(number & 0xf_ffff));
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// The reply of a client: its character device and its ABI.
pub struct ClientInfo {
    /// The port that the character device belongs to, or that was queried.
    pub port: u32,
    /// The version of the ABI.
    pub abi: u64,
    /// The character device, referenced.
    pub cdev: ARef<kernel::device::Device>,
}

/// The parameters of `get_net_dev_by_params`: those of a request to the connection manager.
#[derive(Clone, Copy)]
pub struct NetDevRequest {
    port: u32,
    pkey: u16,
    gid: *const ib_gid,
    addr: *const sockaddr,
}

impl NetDevRequest {
    /// A request that was received on `port` with `pkey`, for the address `addr`, on a net device that has `gid`. A null pointer
    /// matches any.
    ///
    /// # Safety
    ///
    /// Both pointers are null or valid as long as the request exists, as the header demands.
    pub unsafe fn new(port: u32, pkey: u16, gid: *const ib_gid, addr: *const sockaddr) -> Self {
        Self {
            port,
            pkey,
            gid,
            addr,
        }
    }
}

/// A handle of a client that C has registered.
///
/// # Invariants
///
/// The client is valid: `ib_unregister_client` does not return before all handles are dropped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ClientRef(NonNull<bindings::ib_client>);

// SAFETY: Clients may be used from any thread.
unsafe impl Send for ClientRef {}
// SAFETY: Clients may be used from any thread.
unsafe impl Sync for ClientRef {}

impl ClientRef {
    /// Creates a handle of a client.
    ///
    /// # Safety
    ///
    /// All handles are dropped before `ib_unregister_client` returns for the client.
    pub unsafe fn new(client: &Client) -> Self {
        // INVARIANT: By the safety requirements.
        Self(NonNull::from(client).cast())
    }
}

impl core::ops::Deref for ClientRef {
    type Target = Client;

    #[inline]
    fn deref(&self) -> &Client {
        // SAFETY: By the type invariants.
        unsafe { Client::from_raw(self.0.as_ptr()) }
    }
}

impl DeviceMemory {
    /// Reserves an entry for a client's data, which is null at first.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn reserve_client_data(&self, client: &Client, _sleep: &MaySleep) -> Result {
        // SAFETY: The array is a member of the device, and has its own lock; `self` is a valid device.
        to_result(unsafe {
            let array = &raw mut (*self.as_raw()).client_data;
            bindings::xa_reserve_entry(array, client.id() as usize, bindings::GFP_KERNEL)
        })
    }

    /// The data of a client, null if none was set. Any context.
    pub fn client_data(&self, client: &Client) -> ClientData {
        // SAFETY: The array is a member of the device, and has its own lock; `self` is a valid device.
        unsafe {
            let array = &raw mut (*self.as_raw()).client_data;
            ClientData(bindings::xa_load(array, client.id() as usize))
        }
    }

    /// Sets the data of a client.
    ///
    /// # Errors
    ///
    /// `ENOMEM` where no entry was reserved; `EINVAL` for a pointer that an XArray cannot store.
    pub fn set_client_data(&self, client: &Client, data: ClientData, _sleep: &MaySleep) -> Result {
        // SAFETY: The array is a member of the device, and has its own lock; `self` is a valid device.
        to_result(unsafe {
            let array = &raw mut (*self.as_raw()).client_data;
            let index = client.id() as usize;
            bindings::xa_err(bindings::xa_store(
                array,
                index,
                data.0,
                bindings::GFP_KERNEL,
            ))
        })
    }

    /// Erases the entry of a client's data.
    pub fn erase_client_data(&self, client: &Client) {
        // SAFETY: The array is a member of the device, and has its own lock; `self` is a valid device.
        unsafe {
            let array = &raw mut (*self.as_raw()).client_data;
            bindings::xa_erase(array, client.id() as usize);
        }
    }
}

/// Loads the module of a client that user space has named: `rdma-client-NAME`.
pub fn request_module(name: &CStr, _sleep: &MaySleep) {
    // SAFETY: The name is a NUL-terminated string. The result is ignored: a lookup of the client follows.
    unsafe {
        bindings::__request_module(true, c"rdma-client-%s".as_char_ptr(), name.as_char_ptr())
    };
}
