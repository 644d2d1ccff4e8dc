// SPDX-License-Identifier: GPL-2.0

//! Counters of a port in sysfs: `cm_tx_msgs`, `cm_tx_retries`, `cm_rx_msgs`, `cm_rx_duplicates`, each with one of every message.

use crate::messages::Attribute;
use core::ffi::CStr;

/// A folder of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// MADs sent, with their retries.
    Sent,
    /// Retries of them.
    Retries,
    /// MADs received.
    Received,
    /// Those of them that had come before.
    Duplicates,
}

impl Group {
    /// All, in the order of [`Group::index`].
    pub const ALL: [Self; 4] = [Self::Sent, Self::Retries, Self::Received, Self::Duplicates];

    /// Its place among all, from 0.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Name of the folder.
    pub const fn name(self) -> &'static CStr {
        match self {
            Self::Sent => c"cm_tx_msgs",
            Self::Retries => c"cm_tx_retries",
            Self::Received => c"cm_rx_msgs",
            Self::Duplicates => c"cm_rx_duplicates",
        }
    }
}

/// Name of a message's counter.
pub const fn name(message: Attribute) -> &'static CStr {
    match message {
        Attribute::Req => c"req",
        Attribute::Mra => c"mra",
        Attribute::Rej => c"rej",
        Attribute::Rep => c"rep",
        Attribute::Rtu => c"rtu",
        Attribute::Dreq => c"dreq",
        Attribute::Drep => c"drep",
        Attribute::SidrReq => c"sidr_req",
        Attribute::SidrRep => c"sidr_rep",
        Attribute::Lap => c"lap",
        Attribute::Apr => c"apr",
    }
}

/// What a MAD that was sent adds to [`Group::Sent`] and to [`Group::Retries`].
///
/// `retries` is how often the MAD layer has repeated it. An answer to a duplicate (`is_resent`) was sent before: it counts as one retry.
pub const fn sent(retries: u32, is_resent: bool) -> (u64, u64) {
    let retries = if is_resent { 1 } else { retries as u64 };
    (retries + 1, retries)
}
