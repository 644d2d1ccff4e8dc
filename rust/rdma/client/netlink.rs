// SPDX-License-Identifier: GPL-2.0

//! RDMA netlink for a client in a module of its own: `iw_cm`, whose commands are dumps.
//!
//! C header: `include/rdma/rdma_netlink.h`.

use kernel::{error::to_result, prelude::*};
use kernel_ext::{
    gfp::Gfp,
    net::{
        netlink::{DumpEntry, Message},
        ns::NetNamespace,
    },
};
use rdma_bindings::{self as bindings, rdma_nl_cbs};

use crate::MaySleep;

/// The number of commands of the port mapper.
pub const IWPM_OPS: usize = bindings::RDMA_NL_IWPM_NUM_OPS as usize;

/// The functions of `iw_cm` for the commands of the port mapper: a static.
pub struct IwpmTable([rdma_nl_cbs; IWPM_OPS]);

// SAFETY: The table is constant.
unsafe impl Sync for IwpmTable {}

impl IwpmTable {
    /// A table by command, without those that user space does not send. They need `CAP_NET_ADMIN`.
    pub const fn new(entries: [Option<DumpEntry>; IWPM_OPS]) -> Self {
        let mut table = [const {
            rdma_nl_cbs {
                doit: None,
                dump: None,
                flags: bindings::RDMA_NL_ADMIN_PERM as u8,
            }
        }; IWPM_OPS];
        let mut op = 0;
        while op < IWPM_OPS {
            if let Some(entry) = &entries[op] {
                table[op].dump = Some(entry.as_raw());
            }
            op += 1;
        }
        Self(table)
    }

    /// Registers the functions.
    pub fn register(&'static self) -> Registration {
        // SAFETY: The table is static, and has an entry for each command of this client.
        unsafe { bindings::rdma_nl_register(bindings::RDMA_NL_IWCM, self.0.as_ptr()) };
        Registration(())
    }
}

/// The functions are registered until this is dropped, which waits for those that run.
pub struct Registration(());

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: `register` has registered them.
        unsafe { bindings::rdma_nl_unregister(bindings::RDMA_NL_IWCM) };
    }
}

/// The message type of a command of the port mapper.
pub const fn iwpm_kind(op: u32) -> u32 {
    bindings::RDMA_NL_IWCM << 10 | op
}

/// Sends a message to a port in the initial network namespace; with `wait`, waits for room in its socket.
///
/// # Errors
///
/// `ECONNREFUSED` where the port does not exist, `EAGAIN` where its socket is full.
pub fn unicast(message: Message, portid: u32, wait: Option<&MaySleep>) -> Result {
    let (net, skb) = (NetNamespace::init().as_raw(), message.into_raw());
    // SAFETY: The functions take over the packet, and the one that waits is called with a token.
    to_result(unsafe {
        match wait {
            Some(_) => bindings::rdma_nl_unicast_wait(net, skb, portid),
            None => bindings::rdma_nl_unicast(net, skb, portid),
        }
    })
}

/// Sends a message to the listeners of a group in the initial network namespace.
///
/// # Errors
///
/// `ESRCH` without listeners, `ENOBUFS` where a listener's socket is full.
pub fn multicast(message: Message, group: u32, sleep: &MaySleep) -> Result {
    let (net, skb) = (NetNamespace::init().as_raw(), message.into_raw());
    let flags = Gfp::kernel(sleep).as_raw();
    // SAFETY: The function takes over the packet; by their type the flags fit the context.
    to_result(unsafe { bindings::rdma_nl_multicast(net, skb, group, flags) })
}
