// SPDX-License-Identifier: GPL-2.0

//! The ports of a device, which has one or two, and where packets come in.

/// A port of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortId {
    /// The one that each device has.
    First,
    /// The one that a device has if an administrator has asked for it.
    Second,
}

impl PortId {
    /// All that a device may have, in the order of their numbers.
    pub(crate) const ALL: [Self; 2] = [Self::First, Self::Second];

    /// The number, as `port_num` of the verbs.
    #[inline]
    pub(crate) const fn number(self) -> u32 {
        match self {
            Self::First => 1,
            Self::Second => 2,
        }
    }

    /// The port with a number, which a device may have.
    #[inline]
    pub(crate) const fn of(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::First),
            2 => Some(Self::Second),
            _ => None,
        }
    }
}

/// Where a packet has come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ingress {
    /// The port of its net device.
    pub(crate) port: PortId,
    /// The VLAN that it came through.
    pub(crate) vlan_id: Option<u16>,
}
