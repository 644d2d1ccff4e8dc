// SPDX-License-Identifier: GPL-2.0

//! The netlink commands `RDMA_NLDEV_CMD_*` of the `rdma` tool.
//!
//! A command is an entry of a constant table: required capability, strictness of attribute validation, and the
//! functions that handle it. This file dispatches all of them.
//!
//! | file | what |
//! |---|---|
//! | [`command`] | the table entries and received requests; [`policy`]: attribute policies |
//! | [`put`] | attributes that drivers add to messages |
//! | [`dev`] | devices, ports, links, sub-devices; [`res`]: objects; [`sys`]: system settings |
//! | [`stat`] | counters; [`frmr`]: FRMR pools |
//! | [`monitor`] | notifications |
//!
//! C header: `include/uapi/rdma/rdma_netlink.h`.

use kernel::prelude::*;
use kernel_ext::{
    bindings,
    net::netlink::{Dump, Dumper, Message, Request},
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

/// Sets the sender of notifications. Called once when the module is loaded.
pub(crate) fn init() {
    notify::init(monitor::notify);
}

/// All commands.
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

/// For most commands, all errors of attribute parsing are reported as `EINVAL`.
fn attr_error(op: u32) -> impl FnOnce(Error) -> Error {
    move |error| match op {
        bindings::RDMA_NLDEV_CMD_SYS_GET | bindings::RDMA_NLDEV_CMD_FRMR_POOLS_SET => error,
        _ if error == ENOMEM => error,
        _ => EINVAL,
    }
}

/// Handles a command.
///
/// # Errors
///
/// `EINVAL` for an unknown command or invalid attributes; `EPERM`; and errors of the command.
pub(crate) fn handle(request: &Request<'_>, sleep: &MaySleep) -> Result {
    let command = find(netlink::op_of(request.kind())).ok_or(EINVAL)?;
    if command.admin && !request.may_admin() {
        return Err(EPERM);
    }
    if request.flags() & bindings::NLM_F_DUMP != 0 {
        command.dump.ok_or(EINVAL)?;
        return request.start_dump_by::<Commands>(sleep);
    }
    let doit = command.doit.ok_or(EINVAL)?;
    let net = request.net();
    let query = Query::new(request, net, command.strict, sleep).map_err(attr_error(command.op))?;
    match doit {
        Doit::Change(change) => change(&query),
        Doit::Answer(op, fill) => {
            let reply = Message::to(request, kind_of(op), sleep, |writer| fill(&query, writer))?;
            netlink::send(net, reply, request.portid())
        }
    }
}

/// The commands that dump.
enum Commands {}

impl Dumper for Commands {
    fn fill(dump: &mut Dump<'_>, sleep: &MaySleep) -> Result {
        let request = dump.request();
        let command = find(netlink::op_of(request.kind())).ok_or(EINVAL)?;
        let fill = command.dump.ok_or(EINVAL)?;
        let query =
            Query::new(&request, dump.net(), false, sleep).map_err(attr_error(command.op))?;
        fill(&query, dump)
    }
}
