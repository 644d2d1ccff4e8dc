// SPDX-License-Identifier: GPL-2.0

//! Which ends of a run are in this kernel, and which keys a run has there.

use crate::wire;

/// Which ends of a run are in this kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Both.
    Both,
    /// The client's.
    Client,
    /// The server's.
    Server,
}

impl Role {
    /// The keys that may be written.
    pub(crate) fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Both => wire::BOTH,
            Self::Client => wire::CLIENT,
            Self::Server => wire::SERVER,
        }
    }

    /// Whether a key is a part of the result.
    pub(crate) fn shows(self, key: &str) -> bool {
        self.keys().contains(&key) || (self == Self::Server && wire::LEARNT.contains(&key))
    }
}
