// SPDX-License-Identifier: GPL-2.0

//! Clients as the core calls them: `struct ib_client`.
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

use super::{Client, Device};
use crate::MaySleep;

/// The data of a client for a device, as `ib_set_client_data` takes it.
///
/// To the core it is a word that it keeps and hands back.
#[derive(Clone, Copy)]
pub struct ClientData(*mut c_void);

// SAFETY: A `void *` in the header.
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
    /// `raw` must be a client that stays for `'a`.
    #[inline]
    pub unsafe fn from_raw<'a>(raw: *mut bindings::ib_client) -> &'a Self {
        // SAFETY: By the safety requirements; a view is a transparent wrapper.
        unsafe { &*raw.cast() }
    }

    /// The client's name.
    pub fn name(&self) -> &CStr {
        // SAFETY: The name is constant while the client is there.
        unsafe { CStr::from_char_ptr((*self.as_raw()).name) }
    }

    /// The number under which devices keep the client's data.
    #[inline]
    pub fn id(&self) -> u32 {
        // SAFETY: The number is set before the client's first callback.
        unsafe { (*self.as_raw()).client_id }
    }

    /// Gives the client its number. For the core, which calls nothing of the client yet.
    pub fn set_id(&self, id: u32) {
        // SAFETY: The client is being registered, and hears of no device yet.
        unsafe { (*self.as_raw()).client_id = id };
    }

    /// Whether the client wants devices too that lack methods which the kernel's users need.
    pub fn takes_any_device(&self) -> bool {
        // SAFETY: The field is constant while the client is there.
        unsafe { (*self.as_raw()).no_kverbs_req() != 0 }
    }

    /// Tells the client of a device that has come.
    ///
    /// # Safety
    ///
    /// The client does not have the device, nobody else tells it of it, and the device stays registered until the client was
    /// told that it goes.
    pub unsafe fn add(&self, device: &Device, _sleep: &MaySleep) -> Result {
        // SAFETY: The client is there.
        match unsafe { (*self.as_raw()).add } {
            // SAFETY: By the safety requirements.
            Some(add) => to_result(unsafe { add(device.as_raw()) }),
            None => Ok(()),
        }
    }

    /// Tells the client that a device goes. When this returns it has nothing left of it.
    ///
    /// # Safety
    ///
    /// The client has the device, none of its other callbacks runs for it, and nobody else tells it that the device goes. `data`
    /// is what it keeps of it.
    pub unsafe fn remove(&self, device: &Device, data: ClientData, _sleep: &MaySleep) {
        // SAFETY: By the safety requirements.
        unsafe {
            if let Some(remove) = (*self.as_raw()).remove {
                remove(device.as_raw(), data.0);
            }
        }
    }

    /// Tells the client that a device has a new name.
    ///
    /// # Safety
    ///
    /// The client has the device: it was told of it, and is not told that it goes until this returns. `data` is what it keeps of it.
    pub unsafe fn rename(&self, device: &Device, data: ClientData, _sleep: &MaySleep) {
        // SAFETY: By the safety requirements.
        unsafe {
            if let Some(rename) = (*self.as_raw()).rename {
                rename(device.as_raw(), data.0);
            }
        }
    }

    /// The client's net device for an address. `None` where it has none.
    ///
    /// # Safety
    ///
    /// The client has the device: it was told of it, and is not told that it goes until this returns. `data` is what it keeps of it.
    pub unsafe fn net_dev_by_params(
        &self,
        device: &Device,
        request: &NetDevRequest,
        data: ClientData,
        _sleep: &MaySleep,
    ) -> Option<ARef<NetDevice>> {
        // SAFETY: The client is there.
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

    /// What the client tells user space of a device. `None` where it tells nothing of any.
    ///
    /// # Errors
    ///
    /// What the client says; `EINVAL` where it names no character device.
    ///
    /// # Safety
    ///
    /// The client has the device: it was told of it, and is not told that it goes until this returns. `data` is what it keeps of it.
    pub unsafe fn nl_info(
        &self,
        device: &Device,
        data: ClientData,
        request: &ClientRequest<'_>,
        _sleep: &MaySleep,
    ) -> Option<Result<ClientInfo>> {
        // SAFETY: The client is there.
        let call = unsafe { (*self.as_raw()).get_nl_info }?;
        // SAFETY: By the safety requirements.
        Some(request.ask(|info| unsafe { call(device.as_raw(), data.0, info) }))
    }

    /// What the client tells user space without a device. `None` where it tells nothing.
    ///
    /// # Errors
    ///
    /// What the client says; `EINVAL` where it names no character device.
    pub fn global_nl_info(
        &self,
        request: &ClientRequest<'_>,
        _sleep: &MaySleep,
    ) -> Option<Result<ClientInfo>> {
        // SAFETY: The client is there.
        let call = unsafe { (*self.as_raw()).get_global_nl_info }?;
        // SAFETY: As above.
        Some(request.ask(|info| unsafe { call(info) }))
    }
}

/// What user space asks a client: which port is meant, and the message to which the client may add attributes.
pub struct ClientRequest<'a> {
    msg: *mut bindings::sk_buff,
    port: u32,
    _msg: PhantomData<&'a ()>,
}

impl ClientRequest<'_> {
    /// A request.
    ///
    /// # Safety
    ///
    /// `msg` is a netlink message that is being written, and nobody else writes it as long as the request is there.
    pub unsafe fn new(msg: *mut bindings::sk_buff, port: u32) -> Self {
        Self {
            msg,
            port,
            _msg: PhantomData,
        }
    }

    /// Has a callback of a client fill in its answer, and takes a reference to the character device.
    fn ask(&self, call: impl FnOnce(*mut ib_client_nl_info) -> c_int) -> Result<ClientInfo> {
        let mut info = ib_client_nl_info {
            nl_msg: self.msg,
            port: self.port,
            ..pin_init::zeroed()
        };
        match call(&mut info) {
            0 => {}
            // That is what the absence of a client is told by.
            ret if ret == ENOENT.to_errno() => return Err(EINVAL),
            ret => return Err(Error::from_errno(ret)),
        }
        let cdev = NonNull::new(info.cdev).ok_or(EINVAL)?;
        Ok(ClientInfo {
            port: info.port,
            abi: info.abi,
            // SAFETY: The client keeps its device at least until it is told that the RDMA device goes, or is unregistered:
            // whoever asks holds that up.
            cdev: unsafe { kernel::device::Device::get_device(cdev.as_ptr()) },
        })
    }
}

/// The number of a character device as user space knows it: 12 bits of the major number, 20 of the minor one.
pub fn chardev_number(cdev: &kernel::device::Device) -> u64 {
    // SAFETY: The device is there; its number is constant.
    let number = unsafe { (*super::device::raw_dev(cdev)).devt };
    let (major, minor) = (u64::from(number >> 20), u64::from(number & 0xf_ffff));
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// What a client tells user space of itself.
pub struct ClientInfo {
    /// The port that the character device is for, or that was asked for.
    pub port: u32,
    /// The version of the interface.
    pub abi: u64,
    /// The character device, referenced.
    pub cdev: ARef<kernel::device::Device>,
}

/// Which net device is asked for: that of a request to a connection manager.
#[derive(Clone, Copy)]
pub struct NetDevRequest {
    port: u32,
    pkey: u16,
    gid: *const ib_gid,
    addr: *const sockaddr,
}

impl NetDevRequest {
    /// A request that came to `port` with `pkey`, for the address `addr`, on a net device that uses `gid`; null: any.
    ///
    /// # Safety
    ///
    /// Both pointers are what the header asks for, as long as the request is there.
    pub unsafe fn new(port: u32, pkey: u16, gid: *const ib_gid, addr: *const sockaddr) -> Self {
        Self {
            port,
            pkey,
            gid,
            addr,
        }
    }
}

/// A client that C has registered: shared between the lists that it is in.
///
/// # Invariants
///
/// The client stays until `ib_unregister_client` returns, which waits until nobody has such a handle.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ClientRef(NonNull<bindings::ib_client>);

// SAFETY: Clients may be used from any thread.
unsafe impl Send for ClientRef {}
// SAFETY: As above.
unsafe impl Sync for ClientRef {}

impl ClientRef {
    /// A handle of a client.
    ///
    /// # Safety
    ///
    /// The caller sees to the invariants: it drops all handles before the client may go.
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

impl Device {
    /// Makes room for a client's data, which is null.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn reserve_client_data(&self, client: &Client, _sleep: &MaySleep) -> Result {
        // SAFETY: The array is there as long as the device.
        to_result(unsafe {
            let array = &raw mut (*self.as_raw()).client_data;
            bindings::xa_reserve_entry(array, client.id() as usize, bindings::GFP_KERNEL)
        })
    }

    /// A client's data. Any context.
    pub fn client_data(&self, client: &Client) -> ClientData {
        // SAFETY: The array is there as long as the device.
        unsafe {
            let array = &raw mut (*self.as_raw()).client_data;
            ClientData(bindings::xa_load(array, client.id() as usize))
        }
    }

    /// Sets a client's data.
    ///
    /// # Errors
    ///
    /// `ENOMEM` where there was no room made; `EINVAL` for a pointer that cannot be kept.
    pub fn set_client_data(&self, client: &Client, data: ClientData, _sleep: &MaySleep) -> Result {
        // SAFETY: The array is there as long as the device.
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

    /// Gives up the room of a client's data.
    pub fn erase_client_data(&self, client: &Client) {
        // SAFETY: The array is there as long as the device.
        unsafe {
            let array = &raw mut (*self.as_raw()).client_data;
            bindings::xa_erase(array, client.id() as usize);
        }
    }
}

/// Loads the module of a client that user space asks for: `rdma-client-NAME`.
pub fn request_module(name: &CStr, _sleep: &MaySleep) {
    // SAFETY: The name is a string. Whether there is a module shows in whether there is a client afterwards.
    unsafe {
        bindings::__request_module(true, c"rdma-client-%s".as_char_ptr(), name.as_char_ptr())
    };
}
