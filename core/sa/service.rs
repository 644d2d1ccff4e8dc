// SPDX-License-Identifier: GPL-2.0

//! Queries for ServiceRecords (IBTA specification, volume 1, section 15.2.5.14); the response is an RMPP message.

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
    path::ClientRequest,
    query::{self, attribute, SaRequest, SA_DATA, SA_HEADER},
    record::SERVICE,
    state::{self, Query, QueryHandler},
};
use crate::mad::header::method;

/// Length of a packed ServiceRecord, in bytes.
const SERVICE_BYTES: usize = 176;

struct Answer(ServiceCallback);

/// The services of a message: a record may span two segments.
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
                // The buffer has the record's length, and capacity was reserved.
                let _ = SERVICE.unpack(&mut bytes, &mut service);
                let _ = all.push_within_capacity(service);
                filled = 0;
            }
        }
    });
    Ok(all)
}

impl QueryHandler for Answer {
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

/// Sends a query for services. Returns its ID.
///
/// # Errors
///
/// As for `ib_sa_service_rec_get`.
pub(super) fn get(
    wanted: &ClientRequest<'_>,
    service: &sa_service_rec,
    callback: ServiceCallback,
    place: &mut SaQueryOut<'_>,
) -> Result<u32> {
    let mut record = [0; SA_DATA];
    SERVICE.pack(service, &mut record)?;
    let request = SaRequest {
        port: state::find_port(wanted.device, wanted.port_num).ok_or(ENODEV)?,
        is_opa: false,
        method: method::GET_TABLE,
        attribute: attribute::SERVICE,
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
