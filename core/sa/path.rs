// SPDX-License-Identifier: GPL-2.0

//! Queries for PathRecords (IBTA specification, volume 1, section 15.2.5.16).
//!
//! Clients on Omni-Path use path records with 32-bit LIDs. For an SA without such records the query is converted to an
//! InfiniBand record, with the LIDs in special GIDs.

use kernel::prelude::*;
use kernel_ext::bindings::{self as c, ib_gid, sa_path_rec};
use rdma::{
    core::{
        mad::{recv::RecvMad, send::SendFlags},
        path::{Path, PathKind},
        sa::{PathCallback, SaQueryOut},
        Device,
    },
    Gid, MaySleep,
};

use super::{
    local_service,
    query::{self, attribute, record_of, SaRequest, SA_DATA},
    record::{unpack_path, OPA_PATH, PATH, PATH_BYTES},
    state::{self, Query, QueryHandler, SaPort},
};
use crate::{mad::header::method, registry::port};

/// The first multicast LID.
const MULTICAST_LID: u32 = 0xc000;
/// OUI in the interface ID of a GID that contains an Omni-Path LID.
const OPA_SPECIAL_OUI: u64 = 0x00066a;
/// Capability of an SA that supports Omni-Path path records.
const OPA_PATHS: u32 = 1 << 26;
/// Shift of the capabilities in `cap_mask2_resp_time`.
const CAPABILITIES_SHIFT: u32 = 5;

/// Completion of a path query.
struct Answer {
    callback: PathCallback,
    /// Whether an InfiniBand record is converted to Omni-Path for the client.
    converts: bool,
}

impl QueryHandler for Answer {
    fn answered(&self, query: &Query, status: Result, answer: Option<&RecvMad>, sleep: &MaySleep) {
        let Some(answer) = answer else {
            return self.callback.answer(status, &mut [], sleep);
        };
        let mut bytes = record_of::<PATH_BYTES>(answer);
        let path = match query.is_opa {
            true => {
                let mut path: sa_path_rec = pin_init::zeroed();
                let _ = OPA_PATH.unpack(&mut bytes, &mut path);
                path.rec_type = c::SA_PATH_REC_TYPE_OPA;
                path
            }
            false if self.converts => to_opa(&unpack_path(&mut bytes)),
            false => unpack_path(&mut bytes),
        };
        self.callback.answer(status, &mut [path], sleep);
    }

    fn resolved(&self, _query: &Query, paths: &mut [sa_path_rec], sleep: &MaySleep) {
        if self.converts {
            for path in &mut *paths {
                *path = to_opa(path);
            }
        }
        self.callback.answer(Ok(()), paths, sleep);
    }
}

/// The GID that contains an Omni-Path LID.
fn opa_gid(prefix: [u8; 8], lid: u32) -> ib_gid {
    Gid::from_parts(prefix, OPA_SPECIAL_OUI << 40 | u64::from(lid)).to_raw()
}

/// Prefix and interface ID of a GID.
fn parts(gid: &ib_gid) -> ([u8; 8], u64) {
    let [a, b, c, d, e, f, g, h, id @ ..] = Gid::from_raw(gid).0;
    ([a, b, c, d, e, f, g, h], u64::from_be_bytes(id))
}

/// The LID that an Omni-Path GID contains.
fn lid_of(gid: &ib_gid) -> Option<u32> {
    let (_, id) = parts(gid);
    (id >> 40 == OPA_SPECIAL_OUI).then_some(id as u32)
}

/// Converts an Omni-Path record to InfiniBand.
fn to_ib(opa: &sa_path_rec) -> sa_path_rec {
    let mut path = *opa;
    path.rec_type = c::SA_PATH_REC_TYPE_IB;
    // SAFETY: The path is one of Omni-Path; all members are numbers.
    let from = unsafe { opa.__bindgen_anon_1.opa };
    let (dlid, slid) = (u32::from_be(from.dlid), u32::from_be(from.slid));
    let mut ib: c::sa_path_rec_ib = pin_init::zeroed();
    ib.raw_traffic = from.raw_traffic;
    if dlid >= MULTICAST_LID || slid >= MULTICAST_LID {
        let (prefix, _) = parts(&opa.dgid);
        path.dgid = opa_gid(prefix, dlid);
        path.sgid = opa_gid(prefix, slid);
    } else {
        ib.dlid = (dlid as u16).to_be();
        ib.slid = (slid as u16).to_be();
    }
    path.__bindgen_anon_1.ib = ib;
    path
}

/// Converts an InfiniBand record to Omni-Path.
fn to_opa(ib: &sa_path_rec) -> sa_path_rec {
    let mut path = *ib;
    path.rec_type = c::SA_PATH_REC_TYPE_OPA;
    // SAFETY: The path is one of InfiniBand; all members are numbers.
    let from = unsafe { ib.__bindgen_anon_1.ib };
    let in_gids = (lid_of(&ib.dgid), lid_of(&ib.sgid));
    let (dlid, slid) = match in_gids {
        (None, None) => (
            u16::from_be(from.dlid).into(),
            u16::from_be(from.slid).into(),
        ),
        (dlid, slid) => (dlid.unwrap_or(0), slid.unwrap_or(0)),
    };
    let mut opa: c::sa_path_rec_opa = pin_init::zeroed();
    opa.dlid = dlid.to_be();
    opa.slid = slid.to_be();
    opa.raw_traffic = from.raw_traffic;
    path.__bindgen_anon_1.opa = opa;
    path
}

/// Form of the record in a query.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Ib,
    Opa,
    /// The client's Omni-Path record is converted to InfiniBand.
    Converted,
}

/// The form of a query for an Omni-Path path.
fn opa_form(port: &SaPort, sleep: Option<&MaySleep>) -> Result<Form> {
    let attr = port::query(&port.device, port.port_num, sleep.ok_or(EINVAL)?)?;
    let known = port.capabilities.lock().known;
    let capabilities = known.map_or(0, |known| u32::from_be(known.cap_mask2_resp_time));
    if port.is_opa && capabilities >> CAPABILITIES_SHIFT & OPA_PATHS != 0 {
        return Ok(Form::Opa);
    }
    match attr.lid < MULTICAST_LID {
        true => Ok(Form::Converted),
        false => Err(EINVAL),
    }
}

/// Arguments of a client's query.
pub(super) struct ClientRequest<'a> {
    pub(super) device: &'a Device,
    pub(super) port_num: u32,
    pub(super) mask: u64,
    pub(super) timeout_ms: usize,
    pub(super) flags: &'a SendFlags<'a>,
}

/// Sends a query for a path. Returns its ID.
///
/// # Errors
///
/// As for `ib_sa_path_rec_get`.
pub(super) fn get(
    wanted: &ClientRequest<'_>,
    path: &Path,
    callback: PathCallback,
    place: &mut SaQueryOut<'_>,
) -> Result<u32> {
    let port = state::find_port(wanted.device, wanted.port_num).ok_or(ENODEV)?;
    let form = match path.kind() {
        PathKind::Ib => Form::Ib,
        PathKind::Opa => opa_form(&port, wanted.flags.sleep())?,
        _ => return Err(EINVAL),
    };
    let requested = match form {
        Form::Converted => to_ib(path.raw()),
        _ => *path.raw(),
    };
    let mut record = [0; SA_DATA];
    match form {
        Form::Opa => OPA_PATH.pack(&requested, &mut record)?,
        _ => PATH.pack(&requested, &mut record)?,
    }
    let answer = Answer {
        callback,
        converts: form == Form::Converted,
    };
    let request = SaRequest {
        port,
        is_opa: form == Form::Opa,
        method: method::GET,
        attribute: attribute::PATH,
        mask: wanted.mask,
        record: &record,
        timeout_ms: wanted.timeout_ms,
        handler: KBox::new(answer, wanted.flags.get())?,
    };
    let query = query::new(request, wanted.flags)?;
    place.set(query::cookie_of(&query));
    let id = query.id;
    let sent = match form {
        Form::Opa => query::send(&query),
        _ => local_service::resolve(&query, &requested, wanted.mask, wanted.flags),
    };
    sent.inspect_err(|_| place.set(0))?;
    Ok(id)
}
