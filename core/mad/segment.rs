// SPDX-License-Identifier: GPL-2.0

//! Sending an RMPP message: segments within the receiver's window.
//!
//! IBTA specification, volume 1, section 13.6.3.

use kernel::prelude::*;
use kernel_ext::bindings as c;

use super::{
    header::{rmpp_flag, rmpp_type, RMPP_HEADER},
    state::{Entry, Progress},
    transmit::transmit,
};

/// Maximum timeout for an ACK, in milliseconds.
const ACK_TIMEOUT_MS: u32 = 2000;

/// Bytes of a packet after the RMPP header.
fn segment_bytes(entry: &Entry) -> u32 {
    let body = &entry.send().body;
    let whole = body.header_length().saturating_add(body.payload_length());
    whole.saturating_sub(RMPP_HEADER) as u32
}

/// Padding bytes of the last packet.
fn padding(entry: &Entry) -> u32 {
    let body = &entry.send().body;
    let room = body
        .payload_length()
        .saturating_mul(body.segments() as usize);
    room.saturating_sub(body.data_length()) as u32
}

/// Sends the next segment.
///
/// # Errors
///
/// As for [`transmit`]; the segment counts as sent.
pub(super) fn send_next(entry: &mut Entry) -> Result {
    let send = entry.send().clone();
    let count = send.body.segments();
    let nth = entry.progress.segment.wrapping_add(1);
    entry.progress.segment = nth;
    let whole = segment_bytes(entry);
    let mut flags = rmpp_flag::ACTIVE;
    let mut length = 0;
    if nth == 1 {
        flags |= rmpp_flag::FIRST;
        length = count.saturating_mul(whole).saturating_sub(padding(entry));
    }
    if nth == count {
        flags |= rmpp_flag::LAST;
        length = whole.saturating_sub(padding(entry));
    }
    let mut rmpp = send.rmpp();
    rmpp.set_flags(flags);
    rmpp.segment = nth;
    rmpp.length_or_window = length;
    send.set_rmpp(&rmpp);
    send.body.select(nth.wrapping_sub(1));
    if !(1..=ACK_TIMEOUT_MS).contains(&send.body.timeout_ms()) {
        entry.timeout_ms = ACK_TIMEOUT_MS;
    }
    transmit(entry.origin.addressed()?)
}

/// Sends the first segment; `window` is the last one that may be sent without an ACK.
///
/// # Errors
///
/// As for [`transmit`].
pub(super) fn send_first(entry: &mut Entry, window: u32) -> Result {
    entry.progress = Progress {
        window,
        ..Progress::default()
    };
    send_next(entry)
}

/// Next step of a message when a segment's send completion has arrived.
pub(super) enum AfterSend {
    /// The next segment is posted.
    Next,
    /// It waits for an ACK or the response, or has ended: with `enum ib_wc_status`.
    Done(u32),
}

/// Handles the send completion of a segment.
pub(super) fn after_send(entry: &mut Entry, status: u32) -> AfterSend {
    let send = entry.send().clone();
    let ended = status != c::IB_WC_SUCCESS || entry.canceled || entry.answered;
    if send.rmpp().kind != rmpp_type::DATA || ended || entry.timeout_ms == 0 {
        return AfterSend::Done(status);
    }
    let count = send.body.segments();
    let Progress {
        segment,
        last_ack,
        window,
    } = entry.progress;
    if last_ack == count {
        entry.timeout_ms = send.body.timeout_ms();
        return AfterSend::Done(status);
    }
    if segment >= window || segment >= count {
        return AfterSend::Done(status);
    }
    match send_next(entry) {
        Ok(()) => AfterSend::Next,
        Err(_) => AfterSend::Done(c::IB_WC_GENERAL_ERR),
    }
}

/// Repeats the segments after the last acknowledged one. `None`: all are acknowledged.
pub(super) fn send_again(entry: &mut Entry) -> Option<Result> {
    if entry.progress.last_ack == entry.send().body.segments() {
        return None;
    }
    entry.progress.segment = entry.progress.last_ack;
    Some(send_next(entry))
}
