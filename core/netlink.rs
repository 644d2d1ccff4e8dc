// SPDX-License-Identifier: GPL-2.0

//! What user space asks and changes by netlink: the commands `RDMA_NLDEV_CMD_*`, which the program `rdma` sends.
//!
//! A command is a line of a constant table: whether it is for administrators, how strictly its attributes are checked, and
//! the function that answers. One engine, here, goes through all of them.
//!
//! | file | what |
//! |---|---|
//! | [`socket`] | the kernel's sockets, and who is behind them; [`policy`]: what attributes may be |
//! | [`put`] | attributes that drivers put too |
//! | [`dev`] | devices, ports, links, sub-devices; [`res`]: objects; [`sys`]: the machine |
//! | [`stat`] | what is counted; [`frmr`]: pools of handles for fast registration |
//! | [`monitor`] | what user space is told as it happens; [`ls`]: what it answers |
//!
//! C header: `include/uapi/rdma/rdma_netlink.h`.

use kernel::prelude::*;
use kernel_ext::{
    bindings,
    net::{
        netlink::{self, Dump, Reply, Request, Writer},
        ns::NetNamespace,
    },
};
use rdma::{
    view::{Device, Registered},
    MaySleep,
};

use crate::{device, notice};

pub(crate) mod dev;
mod frmr;
pub(crate) mod ls;
pub(crate) mod monitor;
mod policy;
mod put;
mod res;
pub(crate) mod socket;
mod stat;
mod sys;

/// Makes the locks, and this module's messages known. The module's initialisation calls it, once.
pub(crate) fn init() {
    socket::init(&[
        (bindings::RDMA_NL_NLDEV, handle),
        (bindings::RDMA_NL_LS, ls::handle),
    ]);
    notice::init(monitor::tell);
    dev::init();
}

/// The attributes of a request.
type Attrs<'a> = netlink::Attrs<'a, { policy::COUNT }>;

/// How a command is carried out.
#[derive(Clone, Copy)]
enum Act {
    /// Answered with one message, of the command `.0`, that the function writes.
    Answer(u32, fn(&Query<'_>, &mut Writer<'_>) -> Result),
    /// Carried out, and acknowledged.
    Change(fn(&Query<'_>) -> Result),
}

/// A command.
struct Command {
    /// `RDMA_NLDEV_CMD_*`.
    op: u32,
    /// It is for administrators.
    admin: bool,
    /// It takes no attributes that are not known, or longer than they should be.
    strict: bool,
    /// What is done for one that asks for one answer.
    act: Option<Act>,
    /// What is done for one that asks for all there is.
    dump: Option<fn(&Query<'_>, &mut Dump<'_>) -> Result>,
}

impl Command {
    /// Tells of one thing, or of all.
    const fn show(
        op: u32,
        one: fn(&Query<'_>, &mut Writer<'_>) -> Result,
        all: fn(&Query<'_>, &mut Dump<'_>) -> Result,
    ) -> Self {
        Self {
            op,
            admin: false,
            strict: false,
            act: Some(Act::Answer(op, one)),
            dump: Some(all),
        }
    }

    /// Tells of one thing.
    const fn tell(op: u32, one: fn(&Query<'_>, &mut Writer<'_>) -> Result) -> Self {
        Self {
            op,
            admin: false,
            strict: false,
            act: Some(Act::Answer(op, one)),
            dump: None,
        }
    }

    /// Tells of all.
    const fn list(op: u32, all: fn(&Query<'_>, &mut Dump<'_>) -> Result) -> Self {
        Self {
            op,
            admin: false,
            strict: false,
            act: None,
            dump: Some(all),
        }
    }

    /// Changes something, for administrators.
    const fn change(op: u32, change: fn(&Query<'_>) -> Result) -> Self {
        Self {
            op,
            admin: true,
            strict: true,
            act: Some(Act::Change(change)),
            dump: None,
        }
    }

    /// Is for administrators.
    const fn for_admins(mut self) -> Self {
        self.admin = true;
        self
    }

    /// Takes no attributes that are not known, or longer than they should be.
    const fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Is answered with a message of another command.
    const fn answered_as(mut self, op: u32) -> Self {
        if let Some(Act::Answer(_, fill)) = self.act {
            self.act = Some(Act::Answer(op, fill));
        }
        self
    }
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

/// A command that user space has sent.
struct Query<'a> {
    request: &'a Request<'a>,
    /// Whose namespace it is about.
    net: &'a NetNamespace,
    attrs: Attrs<'a>,
    sleep: &'a MaySleep,
}

impl<'a> Query<'a> {
    fn new(
        request: &'a Request<'a>,
        net: &'a NetNamespace,
        strict: bool,
        sleep: &'a MaySleep,
    ) -> Result<Self> {
        Ok(Self {
            request,
            net,
            attrs: request.attrs(&policy::TABLE, strict)?,
            sleep,
        })
    }

    /// The device that is named.
    ///
    /// # Errors
    ///
    /// `EINVAL` where none is named, or there is none that the namespace sees.
    fn device(&self) -> Result<Registered> {
        let index = self.attrs.u32(bindings::RDMA_NLDEV_ATTR_DEV_INDEX);
        device::get_by_index(self.net, index.ok_or(EINVAL)?).ok_or(EINVAL)
    }

    /// The port that is named, if one is.
    ///
    /// # Errors
    ///
    /// `EINVAL` where the device has no such port.
    fn port(&self, device: &Device) -> Result<Option<u32>> {
        let port = self.attrs.u32(bindings::RDMA_NLDEV_ATTR_PORT_INDEX);
        match port {
            Some(port) if !device.is_port_valid(port) => Err(EINVAL),
            port => Ok(port),
        }
    }

    /// Whether the objects' driver details are asked for.
    fn details(&self) -> bool {
        let asked = self.attrs.u8(bindings::RDMA_NLDEV_ATTR_DRIVER_DETAILS);
        asked.unwrap_or(0) != 0
    }
}

/// The number of the messages of a command.
const fn kind_of(op: u32) -> u32 {
    socket::message_kind(bindings::RDMA_NL_NLDEV, op)
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
fn handle(request: &Request<'_>, sleep: &MaySleep) -> Result {
    let command = find(socket::op_of(request.kind())).ok_or(EINVAL)?;
    if command.admin && !request.may_admin() {
        return Err(EPERM);
    }
    if request.flags() & bindings::NLM_F_DUMP != 0 {
        command.dump.ok_or(EINVAL)?;
        return request.start_dump(dump, sleep);
    }
    let act = command.act.ok_or(EINVAL)?;
    let net = request.net();
    let query = Query::new(request, net, command.strict, sleep).map_err(unclear(command.op))?;
    match act {
        Act::Change(change) => change(&query),
        Act::Answer(op, fill) => {
            let reply = Reply::to(request, kind_of(op), sleep, |writer| fill(&query, writer))?;
            socket::send(net, reply, request.portid())
        }
    }
}

/// Fills the next packet of a dump.
fn continue_dump(dump: &mut Dump<'_>, sleep: &MaySleep) -> Result {
    let request = dump.request();
    let command = find(socket::op_of(request.kind())).ok_or(EINVAL)?;
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
