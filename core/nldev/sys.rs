// SPDX-License-Identifier: GPL-2.0

//! Commands of system settings: `rdma system`.
//!
//! C header: `include/uapi/rdma/rdma_netlink.h`.

use core::sync::atomic::{AtomicBool, Ordering};

use kernel::prelude::*;
use kernel_ext::{
    bindings::{self as c},
    export::export,
    net::netlink::Writer,
};

use super::command::{Command, Query};
use crate::{device::compat, registry::netns};

/// The commands.
pub(super) const COMMANDS: &[Command] = &[
    Command::get(c::RDMA_NLDEV_CMD_SYS_GET, get),
    Command::set(c::RDMA_NLDEV_CMD_SYS_SET, set),
];

/// Whether unprivileged users may use privileged Q_Keys.
static PRIVILEGED_QKEY: AtomicBool = AtomicBool::new(false);

fn get(_query: &Query<'_>, writer: &mut Writer<'_>) -> Result {
    let qkey = PRIVILEGED_QKEY.load(Ordering::Relaxed);
    writer.u8(c::RDMA_NLDEV_SYS_ATTR_NETNS_MODE, netns::is_shared().into())?;
    writer.u8(c::RDMA_NLDEV_SYS_ATTR_PRIVILEGED_QKEY_MODE, qkey.into())?;
    writer.u8(c::RDMA_NLDEV_SYS_ATTR_MONITOR_MODE, 1)?;
    // The kernel copies pinned pages on fork.
    writer.u8(c::RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, 1)
}

fn switch(value: u8) -> Result<bool> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(EINVAL),
    }
}

fn set(query: &Query<'_>) -> Result {
    if let Some(mode) = query.attrs.u8(c::RDMA_NLDEV_SYS_ATTR_NETNS_MODE) {
        return compat::set_shared(switch(mode)?, query.sleep);
    }
    let mode = query.attrs.u8(c::RDMA_NLDEV_SYS_ATTR_PRIVILEGED_QKEY_MODE);
    PRIVILEGED_QKEY.store(switch(mode.ok_or(EINVAL)?)?, Ordering::Relaxed);
    Ok(())
}

/// Returns whether unprivileged users may use privileged Q_Keys. Any context.
#[export]
fn rdma_nl_get_privileged_qkey() -> bool {
    PRIVILEGED_QKEY.load(Ordering::Relaxed)
}
