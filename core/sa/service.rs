// SPDX-License-Identifier: GPL-2.0

//! Asking for services: a table of ServiceRecords (IBTA specification, volume 1, section 15.2.5.14), which is a message of
//! several MADs.

use kernel::prelude::*;
use kernel_ext::{bindings::sa_service_rec, error::ENODATA};
use rdma::{
    core::{
        mad::recv::RecvMad,
        sa::{SaQueryOut, ServiceCallback},
    },
    MaySleep,
};

use super::{
    path::Wanted,
    query::{self, attribute, Question, SA_DATA, SA_HEADER},
    record::SERVICE,
    state::{self, OnAnswer, Query},
};
use crate::mad::header::method;

/// How many bytes a packed service has.
const SERVICE_BYTES: usize = 176;

struct Answer(ServiceCallback);

/// The services in a message: they may begin in one MAD and end in the next.
fn services(answer: &RecvMad) -> Result<KVec<sa_service_rec>> {
    let count = answer.length().saturating_sub(SA_HEADER) / SERVICE_BYTES;
    if count == 0 {
        return Err(ENODATA);
    }
    let mut all = KVec::with_capacity(count, GFP_KERNEL)?;
    let mut bytes = [0; SERVICE_BYTES];
    let mut filled = 0;
    answer.for_each_segment(|segment| {
        let data = segment.get(SA_HEADER..).unwrap_or(&[]);
        for &byte in data.iter().take(SA_DATA) {
            if let Some(place) = bytes.get_mut(filled) {
                *place = byte;
            }
            filled = filled.wrapping_add(1);
            if filled == SERVICE_BYTES && all.len() < count {
                let mut service: sa_service_rec = pin_init::zeroed();
                // There are as many bytes as are needed, and there is room for so many services.
                let _ = SERVICE.unpack(&mut bytes, &mut service);
                let _ = all.push_within_capacity(service);
                filled = 0;
            }
        }
    });
    Ok(all)
}

impl OnAnswer for Answer {
    fn answered(&self, _query: &Query, status: Result, answer: Option<&RecvMad>, sleep: &MaySleep) {
        let Some(answer) = answer else {
            return self.0.answer(status, &mut [], sleep);
        };
        match services(answer) {
            Ok(mut services) => self.0.answer(status, &mut services, sleep),
            Err(error) => self.0.answer(Err(error), &mut [], sleep),
        }
    }
}

/// Asks for services. Returns the question's number.
///
/// # Errors
///
/// As for `ib_sa_service_rec_get`.
pub(super) fn get(
    wanted: &Wanted<'_>,
    service: &sa_service_rec,
    callback: ServiceCallback,
    place: &mut SaQueryOut<'_>,
) -> Result<u32> {
    let mut record = [0; SA_DATA];
    SERVICE.pack(service, &mut record)?;
    let question = Question {
        port: state::find_port(wanted.device, wanted.port_num).ok_or(ENODEV)?,
        client: Some(wanted.client.hold()),
        is_opa: false,
        method: method::GET_TABLE,
        attribute: attribute::SERVICE,
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
