// SPDX-License-Identifier: GPL-2.0

//! The role of a debugfs folder: which ends of a run are in this kernel, and its option keys.

use crate::connect;

/// Which ends of a run are in this kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Both.
    Both,
    /// The client's alone.
    Client,
    /// The server's alone.
    Server,
}

impl Role {
    /// The keys of the options that may be written to `run`.
    pub(crate) fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Both => connect::BOTH_KEYS,
            Self::Client => connect::CLIENT_KEYS,
            Self::Server => connect::SERVER_KEYS,
        }
    }

    /// Whether `result` has the key.
    pub(crate) fn shows(self, key: &str) -> bool {
        self.keys().contains(&key) || (self == Self::Server && connect::SHARED_KEYS.contains(&key))
    }
}
