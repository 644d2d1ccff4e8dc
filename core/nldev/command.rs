// SPDX-License-Identifier: GPL-2.0

//! Entries of the command tables, and received requests.
//!
//! C header: `include/uapi/rdma/rdma_netlink.h`.

use kernel::prelude::*;
use kernel_ext::{
    bindings,
    net::{
        netlink::{self, Dump, Request, Writer},
        ns::NetNamespace,
    },
};
use rdma::{
    core::{device::Registered, Device},
    MaySleep,
};

use super::policy;
use crate::{device, netlink::message_kind};

/// The attributes of a request.
pub(super) type Attrs<'a> = netlink::Attrs<'a, { policy::COUNT }>;

/// The `doit` handler of a command.
#[derive(Clone, Copy)]
pub(super) enum Doit {
    /// Replies with one message of command `.0`, written by the function.
    Answer(u32, fn(&Query<'_>, &mut Writer<'_>) -> Result),
    /// Changes something, and is only acknowledged.
    Change(fn(&Query<'_>) -> Result),
}

/// An entry of a command table.
pub(super) struct Command {
    /// `RDMA_NLDEV_CMD_*`.
    pub(super) op: u32,
    /// Whether it requires CAP_NET_ADMIN.
    pub(super) admin: bool,
    /// Whether unknown attributes and wrong lengths are rejected.
    pub(super) strict: bool,
    /// The handler of requests without `NLM_F_DUMP`.
    pub(super) doit: Option<Doit>,
    /// The handler of requests with `NLM_F_DUMP`.
    pub(super) dump: Option<fn(&Query<'_>, &mut Dump<'_>) -> Result>,
}

impl Command {
    /// A command that gets one object, or dumps all.
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

    /// A command that gets one object.
    pub(super) const fn get(op: u32, one: fn(&Query<'_>, &mut Writer<'_>) -> Result) -> Self {
        Self {
            op,
            admin: false,
            strict: false,
            doit: Some(Doit::Answer(op, one)),
            dump: None,
        }
    }

    /// A command that dumps all objects.
    pub(super) const fn dump(op: u32, all: fn(&Query<'_>, &mut Dump<'_>) -> Result) -> Self {
        Self {
            op,
            admin: false,
            strict: false,
            doit: None,
            dump: Some(all),
        }
    }

    /// A command that changes something; it requires CAP_NET_ADMIN.
    pub(super) const fn set(op: u32, change: fn(&Query<'_>) -> Result) -> Self {
        Self {
            op,
            admin: true,
            strict: true,
            doit: Some(Doit::Change(change)),
            dump: None,
        }
    }

    /// Requires CAP_NET_ADMIN.
    pub(super) const fn for_admins(mut self) -> Self {
        self.admin = true;
        self
    }

    /// Rejects unknown attributes and wrong lengths.
    pub(super) const fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Replies with messages of another command.
    pub(super) const fn answered_as(mut self, op: u32) -> Self {
        if let Some(Doit::Answer(_, fill)) = self.doit {
            self.doit = Some(Doit::Answer(op, fill));
        }
        self
    }
}

/// A received request.
pub(super) struct Query<'a> {
    pub(super) request: &'a Request<'a>,
    /// The sender's network namespace.
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

    /// The device with the index in the request.
    ///
    /// # Errors
    ///
    /// `EINVAL` without an index, or a device that the namespace may access.
    pub(super) fn device(&self) -> Result<Registered> {
        let index = self.attrs.u32(bindings::RDMA_NLDEV_ATTR_DEV_INDEX);
        device::get_by_index(self.net, index.ok_or(EINVAL)?).ok_or(EINVAL)
    }

    /// The port in the request, if there is one.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an invalid port.
    pub(super) fn port(&self, device: &Device) -> Result<Option<u32>> {
        let port = self.attrs.u32(bindings::RDMA_NLDEV_ATTR_PORT_INDEX);
        match port {
            Some(port) if !device.is_port_valid(port) => Err(EINVAL),
            port => Ok(port),
        }
    }

    /// Whether driver details are requested.
    pub(super) fn details(&self) -> bool {
        let asked = self.attrs.u8(bindings::RDMA_NLDEV_ATTR_DRIVER_DETAILS);
        asked.unwrap_or(0) != 0
    }
}

/// The message type of a command.
pub(super) const fn kind_of(op: u32) -> u32 {
    message_kind(bindings::RDMA_NL_NLDEV, op)
}
