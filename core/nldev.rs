// SPDX-License-Identifier: GPL-2.0

//! What user space asks and changes by netlink: the commands `RDMA_NLDEV_CMD_*`, which the program `rdma` sends.
//!
//! A command is a line of a constant table: whether it is for administrators, how strictly its attributes are checked, and
//! the function that answers. One engine, here, goes through all of them.
//!
//! | file | what |
//! |---|---|
//! | [`command`] | what a command is, and what user space has sent; [`policy`]: what attributes may be |
//! | [`put`] | attributes that drivers put too |
//! | [`dev`] | devices, ports, links, sub-devices; [`res`]: objects; [`sys`]: the machine |
//! | [`stat`] | what is counted; [`frmr`]: pools of handles for fast registration |
//! | [`monitor`] | what user space is told as it happens |
//!
//! C header: `include/uapi/rdma/rdma_netlink.h`.

use kernel::prelude::*;
use kernel_ext::{
    bindings,
    net::netlink::{Dump, Reply, Request},
};
use rdma::MaySleep;

use crate::{netlink, registry::notify};

mod command;
mod dev;
mod frmr;
mod monitor;
mod policy;
mod put;
mod res;
mod stat;
mod sys;

use command::{kind_of, Command, Doit, Query};

/// Makes the lock, and says who tells user space of what happens. The module's initialisation calls it, once.
pub(crate) fn init() {
    notify::init(monitor::notify);
    dev::init();
}

/// All commands, by who carries them out.
const COMMANDS: &[&[Command]] = &[
    dev::COMMANDS,
    res::COMMANDS,
    stat::COMMANDS,
    frmr::COMMANDS,
    sys::COMMANDS,
];

fn find(op: u32) -> Option<&'static Command> {
    let mut commands = COMMANDS.iter().copied().flatten();
    commands.find(|command| command.op == op)
}

/// What is wrong with the attributes is told as one error, but for a few commands.
fn unclear(op: u32) -> impl FnOnce(Error) -> Error {
    move |error| match op {
        bindings::RDMA_NLDEV_CMD_SYS_GET | bindings::RDMA_NLDEV_CMD_FRMR_POOLS_SET => error,
        _ if error == ENOMEM => error,
        _ => EINVAL,
    }
}

/// Carries a command out.
///
/// # Errors
///
/// `EINVAL` where there is no such command, or it makes no sense; `EPERM`; and what the command fails with.
pub(crate) fn handle(request: &Request<'_>, sleep: &MaySleep) -> Result {
    let command = find(netlink::op_of(request.kind())).ok_or(EINVAL)?;
    if command.admin && !request.may_admin() {
        return Err(EPERM);
    }
    if request.flags() & bindings::NLM_F_DUMP != 0 {
        command.dump.ok_or(EINVAL)?;
        return request.start_dump(dump, sleep);
    }
    let doit = command.doit.ok_or(EINVAL)?;
    let net = request.net();
    let query = Query::new(request, net, command.strict, sleep).map_err(unclear(command.op))?;
    match doit {
        Doit::Change(change) => change(&query),
        Doit::Answer(op, fill) => {
            let reply = Reply::to(request, kind_of(op), sleep, |writer| fill(&query, writer))?;
            netlink::send(net, reply, request.portid())
        }
    }
}

/// Fills the next packet of a dump.
fn continue_dump(dump: &mut Dump<'_>, sleep: &MaySleep) -> Result {
    let request = dump.request();
    let command = find(netlink::op_of(request.kind())).ok_or(EINVAL)?;
    let fill = command.dump.ok_or(EINVAL)?;
    let query = Query::new(&request, dump.net(), false, sleep).map_err(unclear(command.op))?;
    fill(&query, dump)
}

/// Fills the next packet of a dump, for C: returns how long it is.
///
/// # Safety
///
/// The kernel calls it for a dump that [`handle`] has started.
unsafe extern "C" fn dump(
    skb: *mut bindings::sk_buff,
    callback: *mut bindings::netlink_callback,
) -> kernel::ffi::c_int {
    // SAFETY: By the safety requirements; dumps go on in the process context of who reads.
    let (mut dump, sleep) = unsafe { (Dump::new(skb, callback), MaySleep::assume()) };
    match continue_dump(&mut dump, &sleep) {
        Ok(()) => dump.length(),
        Err(error) => error.to_errno(),
    }
}
