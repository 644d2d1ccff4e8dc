// SPDX-License-Identifier: GPL-2.0

//! Kernel sockets that do not keep their network namespace alive: they must be closed before it is deleted.
//!
//! The namespace has a list that owns them, and the opener has a handle. Either of them closes the socket.
//!
//! | lock | protects | taken in | inside |
//! |---|---|---|---|
//! | `Sockets::open` | the open sockets of a namespace; held while one is opened or closed | process | what opening and closing takes |

use super::ns::{NetNamespace, PerNamespace};
use crate::{bindings, context::MaySleep, sync::new_mutex};
use core::ptr::NonNull;
use kernel::{
    error::to_result,
    prelude::*,
    sync::{Arc, Mutex},
};

/// The C function that closes and releases a socket.
pub(super) type Release = unsafe extern "C" fn(*mut bindings::sock);

/// An open UDP tunnel socket. Dropping it closes it, and may sleep.
///
/// # Invariants
///
/// `sock` is the socket of a UDP tunnel, which `self` owns, and `release` is the function that closes it. `hook` is registered in the
/// socket's namespace, and valid.
pub(super) struct Socket {
    sock: NonNull<bindings::sock>,
    release: Release,
    hook: Option<NonNull<bindings::nf_hook_ops>>,
}

// SAFETY: Sockets may be used and closed on any thread.
unsafe impl Send for Socket {}

impl Socket {
    /// Takes over a socket. The function is a parameter, since it is in a module that most users do not need.
    ///
    /// # Safety
    ///
    /// `sock` is the socket of a UDP tunnel, which the caller hands over, and `release` is
    /// `udp_tunnel_sock_release`.
    pub(super) unsafe fn from_raw(sock: NonNull<bindings::sock>, release: Release) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            sock,
            release,
            hook: None,
        }
    }

    /// Registers a hook, which is given the socket, until the socket is closed. From now on the network stack may
    /// merge single datagrams (GRO).
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    ///
    /// # Safety
    ///
    /// `hook` has all members but the function and its argument, is used for nothing else, and is valid until a grace period after the
    /// socket was closed. So is what `function` accesses.
    pub(super) unsafe fn register(
        mut self,
        hook: *mut bindings::nf_hook_ops,
        function: bindings::nf_hookfn,
    ) -> Result<Self> {
        let hook = NonNull::new(hook).ok_or(EINVAL)?;
        // SAFETY: By the safety requirements; the socket has a namespace, which it does not outlive.
        unsafe {
            (*hook.as_ptr()).hook = function;
            (*hook.as_ptr()).priv_ = self.sock.as_ptr().cast();
            let net = bindings::sock_net(self.sock.as_ptr());
            to_result(bindings::nf_register_net_hook(net, hook.as_ptr()))?;
            bindings::udp_enable_gro(self.sock.as_ptr());
        }
        // INVARIANT: It is registered.
        self.hook = Some(hook);
        Ok(self)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // SAFETY: By the type invariants `self` owns the socket, and the hook is registered. A packet that arrives for the socket from
        // here on is dropped.
        unsafe {
            if let Some(hook) = self.hook {
                let net = bindings::sock_net(self.sock.as_ptr());
                bindings::nf_unregister_net_hook(net, hook.as_ptr());
            }
            bindings::udp_tunnel_stop(self.sock.as_ptr());
            (self.release)(self.sock.as_ptr());
        }
    }
}

/// The open sockets of a namespace; `None` once all must be closed.
#[pin_data]
pub(super) struct Sockets {
    #[pin]
    open: Mutex<Option<KVec<Socket>>>,
}

crate::impl_has_pernet_slot! { impl HasPernetSlot for Sockets }

impl PerNamespace for Sockets {
    fn new(_net: &NetNamespace, _may_sleep: &MaySleep) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                open <- new_mutex!(Some(KVec::new()), "Sockets::open"),
            }),
            GFP_KERNEL,
        )
    }

    /// Closes all sockets, and prevents opening new ones.
    fn exit(this: Arc<Self>, _may_sleep: &MaySleep) {
        let mut list = this.open.lock();
        drop((*list).take());
    }
}

impl Sockets {
    /// Opens a socket with `open`, unless the namespace is being deleted; the deletion waits for `open`.
    pub(super) fn add(
        &self,
        _may_sleep: &MaySleep,
        open: impl FnOnce() -> Result<Socket>,
    ) -> Result<NonNull<bindings::sock>> {
        let mut list = self.open.lock();
        let list = (*list).as_mut().ok_or(ENODEV)?;
        list.reserve(1, GFP_KERNEL)?;
        let socket = open()?;
        let sock = socket.sock;
        list.push(socket, GFP_KERNEL)?;
        Ok(sock)
    }

    /// Closes a socket, unless it was closed with the namespace; then that has finished when this returns.
    pub(super) fn close(&self, sock: NonNull<bindings::sock>) {
        let mut list = self.open.lock();
        let Some(list) = (*list).as_mut() else {
            return;
        };
        if let Some(index) = list.iter().position(|socket| socket.sock == sock) {
            drop(list.remove(index));
        }
    }
}
