// SPDX-License-Identifier: GPL-2.0

//! Clients (`struct ib_client`), to which devices are added and removed.
//!
//! Rules for each client and device:
//!
//! 1. `add` is called once while both are registered: for a device in the order of the clients' registration, by the
//!    thread that registers one of them. Registration returns after that.
//! 2. `remove` is called once if `add` succeeded: for a device in the reverse order. Unregistration of either returns
//!    after that, whichever thread has called it.
//! 3. No lock is held in either: both may call any function, but must not wait for their own return.
//! 4. The other callbacks run after `add` and before `remove`, which waits for them.
//!
//! A device has a [`Binding`] for each client, with its phase. A thread that finds another one at work on it waits, and
//! then checks again.
//!
//! Locks
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `Bindings::state` | the bindings of a device | process context | `CLIENTS`, the allocator |
//! | `CLIENTS` | the list of clients | process context | the allocator |
//!
//! C header: `include/rdma/ib_verbs.h`.

use kernel::{
    prelude::*,
    sync::{aref::ARef, lock::mutex::MutexBackend, lock::Guard},
};
use kernel_ext::{
    bindings, error::EOPNOTSUPP, export::export, net::device::NetDevice, static_lock::static_lock,
    static_vec::StaticVec,
};
use rdma::{
    core::{
        client::{
            request_module, ClientData, ClientInfo, ClientRef, ClientRequest, NetDevRequest,
            NewClient,
        },
        Client, Device, DeviceMemory,
    },
    MaySleep,
};

use super::state::{Binding, BindingsState, Phase, TaskId};
use crate::{
    private::DeviceExt,
    registry::{self, DeviceFilter},
};

/// A client in the list.
struct ClientEntry {
    client: ClientRef,
    /// Whether the client is registered: devices may be added.
    active: bool,
}

static_lock! {
    /// The clients in ascending order of their IDs, which is the order of registration.
    static CLIENTS: Mutex<StaticVec<ClientEntry>> = StaticVec::new();
}

impl BindingsState {
    fn find(&mut self, client: ClientRef) -> Option<&mut Binding> {
        self.list
            .iter_mut()
            .find(|binding| binding.client == client)
    }

    fn forget(&mut self, client: ClientRef) {
        self.list.retain(|binding| binding.client != client);
    }

    /// The first client that matches the device and is not bound to it.
    fn next_client(&self, device: &DeviceMemory) -> Option<ClientRef> {
        let any = device.is_kverbs_provider();
        let clients = CLIENTS.lock();
        let last = self.list.last().map(|binding| binding.client.id());
        clients
            .iter()
            .filter(|listed| listed.active && (any || listed.client.takes_any_device()))
            .map(|listed| listed.client)
            .find(|client| last.is_none_or(|last| client.id() > last))
    }
}

type Locked<'a> = Guard<'a, BindingsState, MutexBackend>;

/// Allows adding a device to clients.
pub(crate) fn open(device: &Device) {
    device.core().clients.state.lock().open = true;
}

/// Adds a device to all matching clients that do not have it, or waits while another thread does.
///
/// Called from `add` of this device, it returns at once: the outer call continues with the other clients.
///
/// # Errors
///
/// `ENOMEM`. A client's failed `add` is not an error.
pub(crate) fn add_all(device: &DeviceMemory, sleep: &MaySleep) -> Result {
    let bindings = &device.core().clients;
    let mut state = bindings.state.lock();
    loop {
        match state.adder {
            Some(adder) if adder == TaskId::current() => return Ok(()),
            Some(_) => {
                bindings.progress.wait(&mut state);
                continue;
            }
            None => {}
        }
        if !state.open {
            return Ok(());
        }
        let Some(client) = state.next_client(device) else {
            return Ok(());
        };
        state.list.reserve(1, GFP_KERNEL)?;
        device.reserve_client_data(&client, sleep)?;
        let binding = Binding {
            client,
            phase: Phase::Adding,
            calls: 0,
        };
        state.list.push(binding, GFP_KERNEL)?;
        state.adder = Some(TaskId::current());
        drop(state);
        // SAFETY: `Phase::Adding` excludes other threads. Unregistration, which the driver waits for, removes the device from all of
        // its clients in `remove_all`: that waits for `adder`, and the device was open after the lock was taken.
        let added = unsafe { client.add(device.with_driver(), sleep) };
        if added.is_err() {
            device.erase_client_data(&client);
        }
        state = bindings.state.lock();
        state.adder = None;
        if let Some(binding) = state.find(client) {
            binding.phase = match added {
                Ok(()) => Phase::Added,
                Err(_) => Phase::Refused,
            };
        }
        bindings.progress.notify_all();
    }
}

/// Removes a device from all clients, in reverse order, and prevents further adds. When this returns, no client has it.
pub(crate) fn remove_all(device: &Device, sleep: &MaySleep) {
    let bindings = &device.core().clients;
    let mut state = bindings.state.lock();
    state.open = false;
    while state.adder.is_some() {
        bindings.progress.wait(&mut state);
    }
    while let Some(last) = state.list.last() {
        let client = last.client;
        state = remove_one(device, client, state, sleep);
    }
}

/// Removes a device from a client, or waits until another thread has done so.
fn remove_client(device: &DeviceMemory, client: ClientRef, sleep: &MaySleep) {
    let mut state = device.core().clients.state.lock();
    while state.find(client).is_some() {
        state = remove_one(device, client, state, sleep);
    }
}

/// One step of removing a device from a client: does the next action, or waits for the thread that does it.
fn remove_one<'a>(
    device: &'a DeviceMemory,
    client: ClientRef,
    mut state: Locked<'a>,
    sleep: &MaySleep,
) -> Locked<'a> {
    let bindings = &device.core().clients;
    let Some(binding) = state.find(client) else {
        return state;
    };
    match binding.phase {
        Phase::Adding | Phase::Removing => {
            bindings.progress.wait(&mut state);
            return state;
        }
        Phase::Refused => {
            state.forget(client);
            return state;
        }
        Phase::Added => binding.phase = Phase::Removing,
    }
    while state.find(client).is_some_and(|binding| binding.calls != 0) {
        bindings.progress.wait(&mut state);
    }
    drop(state);
    // SAFETY: The client had the device, no call runs, and `Phase::Removing` keeps others away; so unregistration, which the driver
    // waits for, does not get past `remove_all`.
    unsafe { client.remove(device.with_driver(), device.client_data(&client), sleep) };
    device.erase_client_data(&client);
    let mut state = bindings.state.lock();
    state.forget(client);
    bindings.progress.notify_all();
    state
}

/// Calls `f` with each client of the device, and its data, until `f` returns a value.
///
/// `remove` of a client is not called while `f` runs for it.
pub(crate) fn for_each<R>(
    device: &Device,
    mut f: impl FnMut(&Client, ClientData) -> Option<R>,
) -> Option<R> {
    let bindings = &device.core().clients;
    let mut last = None;
    loop {
        let mut state = bindings.state.lock();
        let client = {
            let binding = state.list.iter_mut().find(|binding| {
                binding.phase == Phase::Added && last.is_none_or(|last| binding.client.id() > last)
            })?;
            binding.calls = binding.calls.saturating_add(1);
            binding.client
        };
        drop(state);
        last = Some(client.id());
        let result = f(&client, device.client_data(&client));
        let mut state = bindings.state.lock();
        if let Some(binding) = state.find(client) {
            binding.calls = binding.calls.saturating_sub(1);
        }
        bindings.progress.notify_all();
        drop(state);
        if result.is_some() {
            return result;
        }
    }
}

/// Appends a client to the list, with an ID above all others.
fn list(client: NewClient<'_>) -> Result<ClientRef> {
    let mut clients = CLIENTS.lock();
    let id = match clients.last() {
        Some(last) => last.client.id().checked_add(1).ok_or(ENOSPC)?,
        None => 0,
    };
    // SAFETY: `ib_unregister_client` takes the client from the list and from all devices.
    let client = unsafe { ClientRef::new(client.with_id(id)) };
    let listed = ClientEntry {
        client,
        active: true,
    };
    clients.push(listed, GFP_KERNEL)?;
    Ok(client)
}

/// Removes all devices from a client; when this returns, its callbacks are not running and will not run.
fn unregister(client: ClientRef, sleep: &MaySleep) {
    {
        let mut clients = CLIENTS.lock();
        if let Some(listed) = clients.iter_mut().find(|listed| listed.client == client) {
            listed.active = false;
        }
    }
    for device in registry::devices(DeviceFilter::All) {
        remove_client(&device, client, sleep);
    }
    // Its ID is free from now on. Taking the lock waits for `global_nl_info`, which calls clients under it.
    CLIENTS.lock().retain(|listed| listed.client != client);
}

/// Gets the netlink information of client `name`: about a device, or global without one.
///
/// If the client is not registered, its module is loaded.
///
/// # Errors
///
/// `EOPNOTSUPP` where the client does not exist or has no information, `EINVAL` where the information is invalid, and
/// errors of the client.
pub(crate) fn nl_info(
    device: Option<&Device>,
    name: &CStr,
    request: &ClientRequest<'_>,
    sleep: &MaySleep,
) -> Result<ClientInfo> {
    let ask = || match device {
        Some(device) => device_nl_info(device, name, request, sleep),
        None => global_nl_info(name, request, sleep),
    };
    let answer = ask().or_else(|| {
        request_module(name, sleep);
        ask()
    });
    answer.unwrap_or(Err(EOPNOTSUPP))
}

/// `None` where the client does not have the device.
fn device_nl_info(
    device: &Device,
    name: &CStr,
    request: &ClientRequest<'_>,
    sleep: &MaySleep,
) -> Option<Result<ClientInfo>> {
    for_each(device, |client, data| {
        if client.name() != name {
            return None;
        }
        // SAFETY: `for_each` goes through clients that have the device, and counts the call.
        let answer = unsafe { client.nl_info(device, data, request, sleep) };
        Some(answer.unwrap_or(Err(EOPNOTSUPP)))
    })
}

/// `None` where the client does not exist.
fn global_nl_info(
    name: &CStr,
    request: &ClientRequest<'_>,
    sleep: &MaySleep,
) -> Option<Result<ClientInfo>> {
    let clients = CLIENTS.lock();
    let listed = clients
        .iter()
        .find(|listed| listed.active && listed.client.name() == name)?;
    let answer = listed.client.global_nl_info(request, sleep);
    Some(answer.unwrap_or(Err(EOPNOTSUPP)))
}

/// Calls `rename` of the device's clients.
pub(crate) fn renamed(device: &Device, sleep: &MaySleep) {
    for_each(device, |client, data| {
        // SAFETY: `for_each` goes through clients that have the device, and counts the call.
        unsafe { client.rename(device, data, sleep) };
        None::<()>
    });
}

/// Registers a client: all present and future devices are added to it. Process context.
///
/// # Errors
///
/// `ENOMEM`; no device was added then.
///
/// C header: `include/rdma/ib_verbs.h`.
#[export]
fn ib_register_client(client: NewClient<'_>, sleep: &MaySleep) -> Result {
    let client = list(client)?;
    for device in registry::devices(DeviceFilter::Registered) {
        if let Err(error) = add_all(&device, sleep) {
            unregister(client, sleep);
            return Err(error);
        }
    }
    Ok(())
}

/// Unregisters a client: all devices are removed from it. When this returns, its callbacks are not running and will not
/// run. Process context, not from a callback of the client.
#[export]
fn ib_unregister_client(client: &Client, sleep: &MaySleep) {
    // SAFETY: The handle is dropped when this returns.
    let client = unsafe { ClientRef::new(client) };
    unregister(client, sleep);
}

/// Sets the data that `ib_get_client_data` returns for a client and one of its devices. Process context.
#[export]
fn ib_set_client_data(device: &Device, client: &Client, data: ClientData, sleep: &MaySleep) {
    // The slot was allocated when the client got the device; an error pointer is not stored.
    if device.set_client_data(client, data, sleep).is_err() {
        pr_warn!(
            "{}: no data for {}\n",
            device.name().to_str().unwrap_or("?"),
            client.id()
        );
    }
}

/// Returns a reference to the net device that a client has for an address; null for none. Process context.
#[export]
fn ib_get_net_dev_by_params(
    dev: &Device,
    port: u32,
    pkey: u16,
    gid: *const bindings::ib_gid,
    addr: *const bindings::sockaddr,
    sleep: &MaySleep,
) -> Option<ARef<NetDevice>> {
    if !dev.is_ib(port) {
        return None;
    }
    // SAFETY: By the header the pointers are null or valid until this function returns.
    let request = unsafe { NetDevRequest::new(port, pkey, gid, addr) };
    for_each(dev, |client, data| {
        // SAFETY: `for_each` goes through clients that have the device, and counts the call.
        unsafe { client.net_dev_by_params(dev, &request, data, sleep) }
    })
}
