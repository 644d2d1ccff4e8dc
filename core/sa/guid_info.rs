// SPDX-License-Identifier: GPL-2.0

//! Queries for GUIDInfoRecords: reading, setting and deleting GUIDs of virtual ports (IBTA specification, volume 1,
//! section 15.2.5.18).

use kernel::prelude::*;
use kernel_ext::bindings::ib_sa_guidinfo_rec;
use rdma::{
    core::{
        mad::recv::RecvMad,
        sa::{GuidInfoCallback, SaQueryOut},
    },
    MaySleep,
};

use super::{
    path::ClientRequest,
    query::{self, attribute, record_of, SaRequest, SA_DATA},
    record::GUID_INFO,
    state::{self, Query, QueryHandler},
};
use crate::mad::header::method;

/// Length of a packed GUIDInfoRecord, in bytes.
const GUID_INFO_BYTES: usize = 72;

struct Answer(GuidInfoCallback);

impl QueryHandler for Answer {
    fn answered(&self, _query: &Query, status: Result, answer: Option<&RecvMad>, sleep: &MaySleep) {
        let Some(answer) = answer else {
            return self.0.answer(status, &mut [], sleep);
        };
        let mut guids: ib_sa_guidinfo_rec = pin_init::zeroed();
        // The buffer has the record's length.
        let _ = GUID_INFO.unpack(&mut record_of::<GUID_INFO_BYTES>(answer), &mut guids);
        self.0.answer(status, &mut [guids], sleep);
    }
}

/// Sends a query for a GUIDInfoRecord. Returns its ID.
///
/// # Errors
///
/// As for `ib_sa_guid_info_rec_query`.
pub(super) fn query(
    wanted: &ClientRequest<'_>,
    guids: &ib_sa_guidinfo_rec,
    how: u8,
    callback: GuidInfoCallback,
    place: &mut SaQueryOut<'_>,
) -> Result<u32> {
    let port = state::find_port(wanted.device, wanted.port_num).ok_or(ENODEV)?;
    if !matches!(how, method::GET | method::SET | method::DELETE) {
        return Err(EINVAL);
    }
    let mut record = [0; SA_DATA];
    GUID_INFO.pack(guids, &mut record)?;
    let request = SaRequest {
        port,
        is_opa: false,
        method: how,
        attribute: attribute::GUID_INFO,
        mask: wanted.mask,
        record: &record,
        timeout_ms: wanted.timeout_ms,
        handler: KBox::new(Answer(callback), wanted.flags.get())?,
    };
    let query = query::new(request, wanted.flags)?;
    place.set(query::cookie_of(&query));
    query::send(&query).inspect_err(|_| place.set(0))?;
    Ok(query.id)
}
