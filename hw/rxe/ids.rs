// SPDX-License-Identifier: GPL-2.0

//! Identifiers: protection domains, XRC domains, places of queue pairs, the Q_Key of QP1, the UDP port (IBTA volume 1, sections 9.2
//! and 10.9; annex A17).

use core::net::IpAddr;
use core::sync::atomic::{AtomicU64, Ordering};
use kernel_ext::bindings;
use roce::wire::Qpn;

use crate::port_id::PortId;

/// The place of a queue pair in the table of its device: its number, but for QP1 of the second port, whose place is beyond all
/// numbers.
#[inline]
pub(crate) fn place(qpn: u32, port: PortId) -> u32 {
    const BEYOND: u32 = 1 << 24;
    match port {
        PortId::Second if qpn == Qpn::GSI.get() => BEYOND | qpn,
        _ => qpn,
    }
}

/// The queue key of QP1 (IBTA volume 1, section 9.2.2).
pub(crate) const GSI_QKEY: u32 = 0x8001_0000;

/// The UDP port of RoCEv2.
pub(crate) const UDP_PORT: u16 = 4791;

/// The `enum rdma_network_type` of packets between such addresses.
pub(crate) fn network_type(address: IpAddr) -> u8 {
    let network = match address {
        IpAddr::V4(_) => bindings::RDMA_NETWORK_IPV4,
        IpAddr::V6(_) => bindings::RDMA_NETWORK_IPV6,
    };
    network as u8
}

/// The type of an ID that is never reused.
macro_rules! unique_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) struct $name(u64);

        impl $name {
            /// A new ID.
            pub(crate) fn new() -> Self {
                static LAST: AtomicU64 = AtomicU64::new(0);
                Self(LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1))
            }
        }
    };
}

unique_id! {
    /// Identifies a protection domain.
    PdId
}

unique_id! {
    /// Identifies an XRC domain.
    XrcdId
}

impl PdId {
    /// The number.
    pub(crate) fn into_raw(self) -> u64 {
        self.0
    }

    /// The ID that [`Self::into_raw`] returned.
    pub(crate) fn from_raw(raw: u64) -> Self {
        Self(raw)
    }
}
