// SPDX-License-Identifier: GPL-2.0

//! Mapping of ports. A program, `iwpmd`, reserves a TCP port for each end of an iWARP connection, so that it is not taken by a socket,
//! and asks the program of the peer which port that has.
//!
//! Without the program, or an answer of it in time, ports are not mapped.
//!
//! | file | contents |
//! |---|---|
//! | `commands` | messages of the port mapper |
//! | `requests` | messages to it, and waiting for the answers |
//! | `state` | what is known of it; the mappings |
//!
//! C headers: `include/rdma/iw_portmap.h`, `include/uapi/rdma/rdma_netlink.h`.

mod commands;
mod requests;
mod state;

use kernel::prelude::*;
use kernel_ext::{bindings as c, net::netlink::DumpEntry};
use rdma::{
    client::netlink::{IwpmTable, IWPM_OPS},
    core::iw::{address::SockAddr, id::IdBody},
    MaySleep,
};

use commands::Commands;
use requests::Names;
use state::{Record, MAPPER};

/// The messages that a port mapper may send.
pub(crate) static COMMANDS: IwpmTable = {
    let mut entries = [Some(DumpEntry::of::<Commands>()); IWPM_OPS];
    entries[c::RDMA_NL_IWPM_REMOVE_MAPPING as usize] = None;
    IwpmTable::new(entries)
};

/// Which side asks for a mapping.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The one that connects.
    Active,
    /// The one that listens.
    Passive,
}

/// A mapping of an identifier, which the port mapper knows.
#[must_use]
pub(crate) struct Mapping(KBox<Record>);

impl Mapping {
    /// Forgets it, and so does the port mapper.
    pub(crate) fn remove(self, sleep: &MaySleep) {
        MAPPER.lock().remove_mapping(&self.0);
        requests::remove(&self.0.local, sleep);
    }
}

/// Lets the port mapper map the ends of an identifier, and sets them. `None` without a port mapper.
///
/// # Errors
///
/// `EINVAL` for a device with a long name, `EAFNOSUPPORT` for addresses that are not those of IP, `ENOMEM`.
pub(crate) fn map(body: &IdBody, side: Side, sleep: &MaySleep) -> Result<Option<Mapping>> {
    let (local, remote) = body.ends();
    let (interface, keeps_ports) = body.interface();
    let names = Names::new(&body.device().name(), interface)?;
    body.set_mapped_ends(&local, &remote);
    let is_known = requests::register(&names, sleep).is_ok() && MAPPER.lock().port().is_some();
    if !is_known {
        return Ok(None);
    }
    body.set_mapped();
    let flags = match keeps_ports {
        true => c::IWPM_FLAGS_NO_PORT_MAP,
        false => 0,
    };
    let answer = match side {
        Side::Active => requests::query(&local, &remote, flags, sleep),
        Side::Passive => requests::add(&local, flags, sleep),
    };
    // Who gets no mapping has the ends that it has asked for.
    let mut mapped_local = local;
    if let Ok(mapped) = answer {
        mapped_local = mapped.local;
        let mapped_remote = mapped.remote.map(|end| match end.is_any() {
            true => end.with_ip_of(&remote),
            false => end,
        });
        body.set_mapped_ends(&mapped_local, &mapped_remote.unwrap_or(remote));
    }
    let mapping = Mapping(KBox::new(
        Record {
            local,
            mapped: mapped_local,
            flags,
        },
        GFP_KERNEL,
    )?);
    let noted = MAPPER.lock().add_mapping(&mapping.0);
    if let Err(error) = noted {
        requests::remove(&local, sleep);
        return Err(error);
    }
    Ok(Some(mapping))
}

/// Where a peer really is that has connected to a listener, if the port mapper has said so.
pub(crate) fn remote_of(listens_at: &SockAddr, mapped: &SockAddr) -> Option<SockAddr> {
    MAPPER.lock().take_peer(listens_at, mapped)
}

/// Nothing is known of a port mapper before this, and nothing kept when it is dropped.
pub(crate) struct Registration(());

/// Begins with nothing.
pub(crate) fn start() -> Registration {
    Registration(())
}

impl Drop for Registration {
    fn drop(&mut self) {
        MAPPER.lock().reset();
    }
}
