// SPDX-License-Identifier: GPL-2.0

//! Cached routes: `struct dst_entry`, IPv4 or IPv6.

use kernel_ext::net::route::{Route4, Route6};

/// A cached route.
pub(crate) enum Route {
    /// Of IPv4.
    V4(Route4),
    /// Of IPv6.
    V6(Route6),
}

impl Route {
    /// Whether a new lookup would return the same route.
    pub(crate) fn is_valid(&self) -> bool {
        match self {
            Self::V4(route) => route.is_valid(),
            Self::V6(route) => route.is_valid(),
        }
    }
}
