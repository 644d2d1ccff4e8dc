// SPDX-License-Identifier: GPL-2.0

//! The callbacks of RDMA netlink clients in other modules: `struct rdma_nl_cbs`.
//!
//! C header: `include/rdma/rdma_netlink.h`.

use core::{
    marker::PhantomData,
    ptr::{null_mut, NonNull},
    sync::atomic::{AtomicPtr, Ordering},
};

use kernel::prelude::*;
use kernel_ext::{entry::FromC, net::netlink::Request, rwsem::ReadGuard, static_lock::StaticRwSem};
use rdma_bindings::{self as bindings, rdma_nl_cbs};

use crate::MaySleep;

/// The table of callbacks that a client registers.
///
/// # Invariants
///
/// The table is valid until the client is unregistered. Its callbacks have the types of the header.
pub struct CallbackTable(NonNull<rdma_nl_cbs>);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for CallbackTable {
    type Raw = *const rdma_nl_cbs;

    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the table is valid.
        // INVARIANT: By the header the client keeps the table until it is unregistered.
        Self(unsafe { NonNull::new_unchecked(raw.cast_mut()) })
    }
}

/// The callbacks of a client, while it is registered: a static.
///
/// # Invariants
///
/// `table` is null, or that of a [`CallbackTable`] with `ops` entries, which is valid while `users` is
/// held.
pub struct ClientCallbacks {
    users: StaticRwSem,
    table: AtomicPtr<rdma_nl_cbs>,
    ops: u32,
}

impl ClientCallbacks {
    /// No callbacks, for `ops` commands.
    pub const fn new(ops: u32) -> Self {
        Self {
            users: StaticRwSem::new(),
            table: AtomicPtr::new(null_mut()),
            ops,
        }
    }

    /// The number of commands.
    pub fn ops(&self) -> u32 {
        self.ops
    }

    /// Whether callbacks are registered at the moment of the call.
    pub fn are_there(&self) -> bool {
        !self.table.load(Ordering::Acquire).is_null()
    }

    /// Registers the callbacks. Returns false if others are registered.
    ///
    /// # Safety
    ///
    /// The table has an entry for each command of this client.
    pub unsafe fn register(&self, table: CallbackTable) -> bool {
        let (order, failed) = (Ordering::AcqRel, Ordering::Acquire);
        // INVARIANT: By the safety requirements; `unregister` resets the pointer.
        self.table
            .compare_exchange(null_mut(), table.0.as_ptr(), order, failed)
            .is_ok()
    }

    /// Unregisters the callbacks; none is running when this returns.
    pub fn unregister(&'static self, sleep: &MaySleep) {
        let _alone = self.users.write(sleep);
        self.table.store(null_mut(), Ordering::Release);
    }

    /// Keeps the callbacks registered until the result is dropped.
    pub fn hold(&'static self, sleep: &MaySleep) -> CallbacksGuard {
        CallbacksGuard(self, self.users.read(sleep))
    }
}

/// A guard that keeps the callbacks of a client registered.
pub struct CallbacksGuard(
    &'static ClientCallbacks,
    #[expect(dead_code, reason = "it is a lock")] ReadGuard<'static>,
);

impl CallbacksGuard {
    /// The callbacks of a command. `None` if the client has none.
    pub fn command(&self, op: u32) -> Option<Callbacks<'_>> {
        let table = NonNull::new(self.0.table.load(Ordering::Acquire))?;
        if op >= self.0.ops {
            return None;
        }
        // SAFETY: By the invariants of `ClientCallbacks`, whose `users` is held, the table is valid
        // and has `ops` entries.
        let callbacks = unsafe { table.add(op as usize).as_ref() };
        let there = callbacks.doit.is_some() || callbacks.dump.is_some();
        there.then_some(Callbacks(callbacks, PhantomData))
    }
}

/// The callbacks of a command.
///
/// # Invariants
///
/// The callbacks are those of a client that is held for `'a`.
#[derive(Clone, Copy)]
pub struct Callbacks<'a>(&'a rdma_nl_cbs, PhantomData<&'a CallbacksGuard>);

impl Callbacks<'_> {
    /// Whether the sender needs `CAP_NET_ADMIN`.
    pub fn need_admin(&self) -> bool {
        u32::from(self.0.flags) & bindings::RDMA_NL_ADMIN_PERM != 0
    }

    /// Calls `doit` for a message.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the command only dumps, and those of the client.
    pub fn answer(&self, request: &Request<'_>, sleep: &MaySleep) -> Result {
        // SAFETY: By the type invariants the function handles such messages, and its module is loaded.
        unsafe { request.call(self.0.doit.ok_or(EINVAL)?, sleep) }
    }

    /// Starts a dump.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the command does not dump, and those of the client.
    pub fn dump(&self, request: &Request<'_>, sleep: &MaySleep) -> Result {
        // SAFETY: By the type invariants the function handles such messages. The socket holds a
        // reference to this module, which the client's module depends on.
        unsafe { request.start_dump(self.0.dump.ok_or(EINVAL)?, sleep) }
    }
}

/// Loads the module of a client of the RDMA netlink: `rdma-netlink-subsys-NUMBER`.
pub fn request_module(number: u32, _sleep: &MaySleep) {
    // SAFETY: The format has one conversion, for the number. The result is not needed: a loaded module has registered the client.
    unsafe { bindings::__request_module(true, c"rdma-netlink-subsys-%u".as_char_ptr(), number) };
}
