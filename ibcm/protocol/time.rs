// SPDX-License-Identifier: GPL-2.0

//! Times: encoded as 4.096 µs · 2^n in messages, in milliseconds for timers.
//!
//! IBTA volume 1, 12.7.

/// The time that an MRA of ours asks for, encoded: 69 s.
pub const MRA_SERVICE_TIMEOUT: u8 = 24;

/// The longest that a timer is set to, in ms.
const LONGEST: u32 = 1 << 30;

/// Milliseconds of an encoded time, by 2^8 · 4.096 µs ≈ 1 ms; 1 at least.
pub const fn milliseconds(encoded: u8) -> u32 {
    match encoded {
        0..=8 => 1,
        9..=38 => 1 << (encoded - 8),
        _ => LONGEST,
    }
}

/// How long a queue pair waits for an acknowledge, encoded: 4.096 µs · (2^`ack_delay` + 2 · 2^`packet_life_time`), rounded up when
/// the smaller part is half of the larger one or more.
pub const fn ack_timeout(ack_delay: u8, packet_life_time: u8) -> u8 {
    let there_and_back = packet_life_time.saturating_add(1);
    let (more, less) = match there_and_back >= ack_delay {
        true => (there_and_back, ack_delay),
        false => (ack_delay, there_and_back),
    };
    let sum = more.saturating_add((less >= more.saturating_sub(1)) as u8);
    match sum {
        0..=31 => sum,
        _ => 31,
    }
}

/// Packet life time of a path, from the acknowledge timeout that a message tells.
pub const fn packet_life_time(ack_timeout: u8) -> u8 {
    ack_timeout.saturating_sub(1)
}

/// How long the sender of a REQ waits for the answer, in ms.
pub const fn answer(packet_life_time: u8, remote_cm_response_timeout: u8) -> u32 {
    let there_and_back = milliseconds(packet_life_time).saturating_mul(2);
    there_and_back.saturating_add(milliseconds(remote_cm_response_timeout))
}

/// How long to wait for the answer after an MRA, in ms. `path` is the acknowledge timeout of the path.
pub const fn after_mra(service_timeout: u8, path: u8) -> u32 {
    milliseconds(service_timeout).saturating_add(milliseconds(path))
}
