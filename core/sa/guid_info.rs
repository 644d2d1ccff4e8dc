// SPDX-License-Identifier: GPL-2.0

//! Asking for the GUIDs of ports, and setting those of virtual ones: GUIDInfoRecord (IBTA specification, volume 1, section
//! 15.2.5.18).

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
    path::Wanted,
    query::{self, attribute, record_of, Question, SA_DATA},
    record::GUID_INFO,
    state::{self, OnAnswer, Query},
};
use crate::mad::header::method;

/// How many bytes packed GUIDs have.
const GUID_INFO_BYTES: usize = 72;

struct Answer(GuidInfoCallback);

impl OnAnswer for Answer {
    fn answered(&self, _query: &Query, status: Result, answer: Option<&RecvMad>, sleep: &MaySleep) {
        let Some(answer) = answer else {
            return self.0.answer(status, &mut [], sleep);
        };
        let mut guids: ib_sa_guidinfo_rec = pin_init::zeroed();
        // There are as many bytes as are needed.
        let _ = GUID_INFO.unpack(&mut record_of::<GUID_INFO_BYTES>(answer), &mut guids);
        self.0.answer(status, &mut [guids], sleep);
    }
}

/// Asks for GUIDs, or sets or deletes them. Returns the question's number.
///
/// # Errors
///
/// As for `ib_sa_guid_info_rec_query`.
pub(super) fn query(
    wanted: &Wanted<'_>,
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
    let question = Question {
        port,
        client: Some(wanted.client.hold()),
        is_opa: false,
        method: how,
        attribute: attribute::GUID_INFO,
        mask: wanted.mask,
        record: &record,
        timeout_ms: wanted.timeout_ms,
        on_answer: KBox::new(Answer(callback), wanted.flags.get())?,
    };
    let query = query::new(question, wanted.flags)?;
    place.set(query::name_of(&query));
    query::ask(&query).inspect_err(|_| place.set(0))?;
    Ok(query.id)
}
