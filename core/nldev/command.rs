// SPDX-License-Identifier: GPL-2.0

//! What a command of user space is: how it is described, and what it comes with.

use kernel::prelude::*;
use kernel_ext::{
    bindings,
    net::{
        netlink::{self, Dump, Request, Writer},
        ns::NetNamespace,
    },
};
use rdma::{
    view::{Device, Registered},
    MaySleep,
};

use super::policy;
use crate::{device, netlink::message_kind};

/// The attributes of a request.
pub(super) type Attrs<'a> = netlink::Attrs<'a, { policy::COUNT }>;

/// How a command is carried out.
#[derive(Clone, Copy)]
pub(super) enum Doit {
    /// Answered with one message, of the command `.0`, that the function writes.
    Answer(u32, fn(&Query<'_>, &mut Writer<'_>) -> Result),
    /// Carried out, and acknowledged.
    Change(fn(&Query<'_>) -> Result),
}

/// A command.
pub(super) struct Command {
    /// `RDMA_NLDEV_CMD_*`.
    pub(super) op: u32,
    /// It is for administrators.
    pub(super) admin: bool,
    /// It takes no attributes that are not known, or longer than they should be.
    pub(super) strict: bool,
    /// What is done for one that asks for one answer.
    pub(super) doit: Option<Doit>,
    /// What is done for one that asks for all there is.
    pub(super) dump: Option<fn(&Query<'_>, &mut Dump<'_>) -> Result>,
}

impl Command {
    /// Tells of one thing, or of all.
    pub(super) const fn get_and_dump(
        op: u32,
        one: fn(&Query<'_>, &mut Writer<'_>) -> Result,
        all: fn(&Query<'_>, &mut Dump<'_>) -> Result,
    ) -> Self {
        Self {
            op,
            admin: false,
            strict: false,
            doit: Some(Doit::Answer(op, one)),
            dump: Some(all),
        }
    }

    /// Tells of one thing.
    pub(super) const fn get(op: u32, one: fn(&Query<'_>, &mut Writer<'_>) -> Result) -> Self {
        Self {
            op,
            admin: false,
            strict: false,
            doit: Some(Doit::Answer(op, one)),
            dump: None,
        }
    }

    /// Tells of all.
    pub(super) const fn dump(op: u32, all: fn(&Query<'_>, &mut Dump<'_>) -> Result) -> Self {
        Self {
            op,
            admin: false,
            strict: false,
            doit: None,
            dump: Some(all),
        }
    }

    /// Changes something, for administrators.
    pub(super) const fn set(op: u32, change: fn(&Query<'_>) -> Result) -> Self {
        Self {
            op,
            admin: true,
            strict: true,
            doit: Some(Doit::Change(change)),
            dump: None,
        }
    }

    /// Is for administrators.
    pub(super) const fn for_admins(mut self) -> Self {
        self.admin = true;
        self
    }

    /// Takes no attributes that are not known, or longer than they should be.
    pub(super) const fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Is answered with a message of another command.
    pub(super) const fn answered_as(mut self, op: u32) -> Self {
        if let Some(Doit::Answer(_, fill)) = self.doit {
            self.doit = Some(Doit::Answer(op, fill));
        }
        self
    }
}

/// A command that user space has sent.
pub(super) struct Query<'a> {
    pub(super) request: &'a Request<'a>,
    /// Whose namespace it is about.
    pub(super) net: &'a NetNamespace,
    pub(super) attrs: Attrs<'a>,
    pub(super) sleep: &'a MaySleep,
}

impl<'a> Query<'a> {
    pub(super) fn new(
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
    pub(super) fn device(&self) -> Result<Registered> {
        let index = self.attrs.u32(bindings::RDMA_NLDEV_ATTR_DEV_INDEX);
        device::get_by_index(self.net, index.ok_or(EINVAL)?).ok_or(EINVAL)
    }

    /// The port that is named, if one is.
    ///
    /// # Errors
    ///
    /// `EINVAL` where the device has no such port.
    pub(super) fn port(&self, device: &Device) -> Result<Option<u32>> {
        let port = self.attrs.u32(bindings::RDMA_NLDEV_ATTR_PORT_INDEX);
        match port {
            Some(port) if !device.is_port_valid(port) => Err(EINVAL),
            port => Ok(port),
        }
    }

    /// Whether the objects' driver details are asked for.
    pub(super) fn details(&self) -> bool {
        let asked = self.attrs.u8(bindings::RDMA_NLDEV_ATTR_DRIVER_DETAILS);
        asked.unwrap_or(0) != 0
    }
}

/// The number of the messages of a command.
pub(super) const fn kind_of(op: u32) -> u32 {
    message_kind(bindings::RDMA_NL_NLDEV, op)
}
