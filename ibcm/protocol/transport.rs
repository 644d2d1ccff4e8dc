// SPDX-License-Identifier: GPL-2.0

//! Services of queue pairs that connections are made for.

use crate::messages::Req;

/// The service of the queue pair of this side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Extended reliable connection: the side that begins RDMA.
    XrcInitiator,
    /// Extended reliable connection: the side that serves RDMA.
    XrcTarget,
    /// Another one, which a REQ may carry: the C interface has 0 for it.
    Unknown,
}

impl Transport {
    /// The service of the receiver of a REQ.
    pub const fn of_receiver(req: &Req) -> Self {
        match (req.transport_service_type, req.extended_transport_type) {
            (0, _) => Self::Rc,
            (1, _) => Self::Uc,
            (3, 1) => Self::XrcTarget,
            _ => Self::Unknown,
        }
    }

    /// Writes the service of the sender to a REQ.
    pub const fn write(self, req: &mut Req) {
        (req.transport_service_type, req.extended_transport_type) = match self {
            Self::Uc => (1, 0),
            Self::XrcInitiator => (3, 1),
            Self::Rc | Self::XrcTarget | Self::Unknown => (0, 0),
        };
    }

    /// Whether a connection may be asked for.
    pub const fn can_connect(self) -> bool {
        matches!(self, Self::Rc | Self::Uc | Self::XrcInitiator)
    }
}
