// SPDX-License-Identifier: GPL-2.0

//! The kernel's RDMA netlink sockets, one in each network namespace, and the clients that handle messages.
//!
//! Two clients are part of this module: nldev and the local service. The other one is `iw_cm`.
//!
//! Locks
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `ClientCallbacks::users` | held for reading while a client's handler runs, so that its table stays | process context | what handlers take |
//!
//! C headers: `include/rdma/rdma_netlink.h`, `include/uapi/rdma/rdma_netlink.h`.

use kernel::{
    ffi::{c_int, c_uint, c_void},
    prelude::*,
    sync::{Arc, SetOnce},
};
use kernel_ext::{
    bindings,
    error::{ECONNREFUSED, EMSGSIZE},
    export::export,
    gfp::Gfp,
    net::{
        netlink::{KernelSocket, Message, Receiver, Request},
        ns::{self, impl_has_pernet_slot, NetNamespace, PerNamespace, PernetRegistration},
    },
};
use rdma::{
    core::netlink::{request_module, CallbackTable, ClientCallbacks},
    MaySleep,
};

/// Number of clients.
const CLIENTS_MAX: usize = bindings::RDMA_NL_NUM_CLIENTS as usize;

/// The message handler of a client in this module.
pub(crate) type Handler = fn(&Request<'_>, &MaySleep) -> Result;

/// A netlink client.
struct Client {
    /// The handler of a client in this module.
    own: SetOnce<Handler>,
    /// The callbacks of a client in another module.
    callbacks: ClientCallbacks,
}

impl Client {
    const fn new() -> Self {
        Self {
            own: SetOnce::new(),
            callbacks: ClientCallbacks::new(0),
        }
    }
}

/// The number of commands of a client; 0 for a number without a client.
const fn ops_of(client: u32) -> u32 {
    match client {
        bindings::RDMA_NL_IWCM => bindings::RDMA_NL_IWPM_NUM_OPS,
        bindings::RDMA_NL_LS => bindings::RDMA_NL_LS_NUM_OPS,
        bindings::RDMA_NL_NLDEV => bindings::RDMA_NLDEV_NUM_OPS,
        _ => 0,
    }
}

/// The clients by index.
static CLIENTS: [Client; CLIENTS_MAX] = {
    let mut clients = [const { Client::new() }; CLIENTS_MAX];
    let mut number = 0;
    while number < CLIENTS_MAX {
        clients[number].callbacks = ClientCallbacks::new(ops_of(number as u32));
        number += 1;
    }
    clients
};

/// Registers the clients in this module. Called once when the module is loaded.
pub(crate) fn init(own: &[(u32, Handler)]) {
    for (number, handler) in own {
        if let Some(client) = CLIENTS.get(*number as usize) {
            client.own.populate(*handler);
        }
    }
}

/// Keeps the sockets open until it is dropped.
pub(crate) type Registration = PernetRegistration<Socket>;

/// Opens the sockets.
pub(crate) fn register(sleep: &MaySleep) -> Result<Registration> {
    PernetRegistration::new(sleep)
}

/// The socket of a network namespace.
pub(crate) struct Socket(KernelSocket);

impl_has_pernet_slot! { impl HasPernetSlot for Socket }

/// How long sending waits for room in the receiver's socket: 10 s, in jiffies.
const SEND_TIMEOUT: usize = 10 * bindings::HZ as usize;

impl PerNamespace for Socket {
    fn new(net: &NetNamespace, sleep: &MaySleep) -> Result<Arc<Self>> {
        let protocol = bindings::NETLINK_RDMA;
        // SAFETY: The socket is closed when the namespace is deleted. Each other user has a socket of the namespace, or a
        // device in it, either of which keeps the namespace. The code is that of this module, which each user's socket
        // keeps loaded.
        let socket = unsafe { KernelSocket::open::<Clients>(net, protocol, SEND_TIMEOUT, sleep)? };
        Ok(Arc::new(Self(socket), GFP_KERNEL)?)
    }

    fn exit(_this: Arc<Self>, _sleep: &MaySleep) {}
}

/// The socket of a network namespace. `None` while the namespace is being deleted.
fn of(net: &NetNamespace) -> Option<Arc<Socket>> {
    ns::of(net)
}

/// Sends a reply.
///
/// # Errors
///
/// `ECONNREFUSED` where the receiver's socket is closed, `EAGAIN` where it is full.
pub(crate) fn send(net: &NetNamespace, reply: Message, portid: u32) -> Result {
    let socket = of(net).ok_or(ECONNREFUSED)?;
    socket.0.unicast(reply, portid, None)
}

/// Sends a message to the listeners of a group in a network namespace.
///
/// # Errors
///
/// `ENOBUFS` where a listener's socket is full. It is not an error if there are no listeners.
pub(crate) fn multicast(
    net: &NetNamespace,
    notice: Message,
    group: u32,
    sleep: &MaySleep,
) -> Result {
    match multicast_request(net, notice, group, Gfp::kernel(sleep)) {
        Err(ESRCH) => Ok(()),
        result => result,
    }
}

/// As [`multicast`], with allocation flags; it is an error if there are no listeners.
///
/// # Errors
///
/// `ESRCH` without listeners, `ENOBUFS` where a listener's socket is full.
pub(crate) fn multicast_request(
    net: &NetNamespace,
    request: Message,
    group: u32,
    flags: Gfp<'_>,
) -> Result {
    let socket = of(net).ok_or(ESRCH)?;
    socket.0.multicast(request, group, flags)
}

/// The receiver of messages, which passes them to the clients.
enum Clients {}

impl Receiver for Clients {
    fn wants(kind: u32) -> bool {
        client_of(kind) == bindings::RDMA_NL_LS
    }

    fn handle(request: &Request<'_>, sleep: &MaySleep) -> Result {
        handle(request, sleep)
    }
}

/// The message type of a client's command.
pub(crate) const fn message_kind(client: u32, op: u32) -> u32 {
    client << 10 | op
}

/// The command of a message type.
pub(crate) const fn op_of(kind: u32) -> u32 {
    kind & 0x3ff
}

/// The client of a message type.
fn client_of(kind: u32) -> u32 {
    (kind & (0x3f << 10)) >> 10
}

/// Handles a message.
fn handle(request: &Request<'_>, sleep: &MaySleep) -> Result {
    let number = client_of(request.kind());
    let op = op_of(request.kind());
    let client = CLIENTS.get(number as usize).ok_or(EINVAL)?;
    if op >= client.callbacks.ops() {
        return Err(EINVAL);
    }
    // The other clients do not support network namespaces.
    if number != bindings::RDMA_NL_NLDEV && request.net() != NetNamespace::init() {
        return Err(EINVAL);
    }
    if let Some(own) = client.own.as_ref() {
        return own(request, sleep);
    }
    if !client.callbacks.are_there() {
        request_module(number, sleep);
    }
    let held = client.callbacks.hold(sleep);
    let callbacks = held.command(op).ok_or(EINVAL)?;
    if callbacks.need_admin() && !request.may_admin() {
        return Err(EPERM);
    }
    // All commands of the iWARP port mapper are dumps.
    let is_dump = number == bindings::RDMA_NL_IWCM || request.flags() & bindings::NLM_F_DUMP != 0;
    if is_dump {
        return callbacks.dump(request, sleep);
    }
    callbacks.answer(request, sleep)
}

/// Registers the callbacks of a client: a table with an entry for each command, which stays valid until
/// `rdma_nl_unregister`.
///
/// C header: `include/rdma/rdma_netlink.h`.
#[export]
fn rdma_nl_register(index: c_uint, table: CallbackTable) {
    let client = CLIENTS.get(index as usize);
    let client =
        client.filter(|client| client.callbacks.ops() != 0 && client.own.as_ref().is_none());
    // SAFETY: The header says that the table is that of the client.
    if !client.is_some_and(|client| unsafe { client.callbacks.register(table) }) {
        pr_warn!("netlink client {index} is not one, or is there already\n");
    }
}

/// Unregisters the callbacks of a client; none is running when this returns. Process context.
#[export]
fn rdma_nl_unregister(index: c_uint, sleep: &MaySleep) {
    if let Some(client) = CLIENTS.get(index as usize) {
        client.callbacks.unregister(sleep);
    }
}

/// Returns whether a group has listeners in the initial network namespace. Any context.
pub(crate) fn has_listeners(group: u32) -> bool {
    of(NetNamespace::init()).is_some_and(|socket| socket.0.has_listeners(group))
}

/// Returns whether a group has listeners in the initial network namespace. Any context.
#[export]
fn rdma_nl_chk_listeners(group: c_uint) -> bool {
    has_listeners(group)
}

/// Sends a packet to a port without waiting for room, and consumes it. Returns `ECONNREFUSED` where the port does not
/// exist, `EAGAIN` where its socket is full.
#[export]
fn rdma_nl_unicast(net: &NetNamespace, skb: Message, pid: u32) -> Result {
    send(net, skb, pid)
}

/// As `rdma_nl_unicast`, but waits for room. Process context.
#[export]
fn rdma_nl_unicast_wait(net: &NetNamespace, skb: Message, pid: u32, sleep: &MaySleep) -> Result {
    let socket = of(net).ok_or(ECONNREFUSED)?;
    socket.0.unicast(skb, pid, Some(sleep))
}

/// Sends a packet to the listeners of a group, and consumes it. Returns `ESRCH` without listeners.
#[export]
fn rdma_nl_multicast(net: &NetNamespace, skb: Message, group: c_uint, flags: Gfp<'_>) -> Result {
    let socket = of(net).ok_or(ECONNREFUSED)?;
    socket.0.multicast(skb, group, flags)
}

/// Starts a message with a payload of `len` bytes, whose address is returned; null where there is no room.
///
/// # Safety
///
/// `skb` is being written, and `nlh` a place for the header's address.
#[export]
unsafe extern "C" fn ibnl_put_msg(
    skb: *mut bindings::sk_buff,
    nlh: *mut *mut bindings::nlmsghdr,
    seq: c_int,
    len: c_int,
    client: c_int,
    op: c_int,
    flags: c_int,
) -> *mut c_void {
    let kind = message_kind(client as u32, op as u32) as c_int;
    // SAFETY: By the safety requirements. The payload of a message follows its header.
    unsafe {
        let header = bindings::nlmsg_put(skb, 0, seq as u32, kind, len, flags);
        *nlh = header;
        if header.is_null() {
            core::ptr::null_mut()
        } else {
            header.add(1).cast()
        }
    }
}

/// Adds an attribute; without room, cancels the message and returns `EMSGSIZE`.
///
/// # Safety
///
/// `nlh` is a message in `skb` that is being written; there are `len` bytes at `data`.
#[export]
unsafe extern "C" fn ibnl_put_attr(
    skb: *mut bindings::sk_buff,
    nlh: *mut bindings::nlmsghdr,
    len: c_int,
    data: *mut c_void,
    attr: c_int,
) -> c_int {
    // SAFETY: By the safety requirements.
    unsafe {
        if bindings::nla_put(skb, attr, len, data) == 0 {
            return 0;
        }
        bindings::nlmsg_cancel(skb, nlh);
    }
    EMSGSIZE.to_errno()
}
