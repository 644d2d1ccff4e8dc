// SPDX-License-Identifier: GPL-2.0

//! The parameters of connections and of their queue pairs.
//!
//! C headers: `include/rdma/rdma_cm.h`, `include/rdma/rdma_cm_ib.h`, `include/rdma/ib_cm.h`.

use crate::errno::Errno;
use crate::port_space::PortSpace;

/// The Q_Key of `RDMA_PS_UDP` and of multicast groups: `RDMA_UDP_QKEY`.
pub const UDP_QKEY: u32 = 0x0123_4567;
/// How long a peer may take to answer: 4.096 µs times 2 to this power, about 4.3 s.
pub const RESPONSE_TIMEOUT: u8 = 20;
/// How often a message is sent again.
pub const MAX_RETRIES: u8 = 15;
/// The time between two tries of a service ID resolution, in milliseconds.
pub const SIDR_TIMEOUT_MS: u32 = 1 << (RESPONSE_TIMEOUT - 8);
/// The queue pair number of a multicast group's members.
pub const MULTICAST_QPN: u32 = 0x00ff_ffff;

/// The largest number of three bits.
const MAX_RETRY_COUNT: u8 = 7;
/// The largest code of five bits (IBTA volume 1, table 45).
const MAX_RNR_TIMER: u8 = 0x1f;

/// The service of a queue pair, as far as the connection manager minds: `enum ib_qp_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpType {
    /// `IB_QPT_RC`.
    Rc,
    /// `IB_QPT_UD`.
    Ud,
    /// `IB_QPT_XRC_INI`.
    XrcInitiator,
    /// `IB_QPT_XRC_TGT`.
    XrcTarget,
    /// Any other one.
    Other,
}

impl QpType {
    /// Checks whether a client may set the ACK timeout: the side that sends has it.
    ///
    /// # Errors
    ///
    /// `EINVAL`.
    pub const fn check_ack_timeout(self) -> Result<(), Errno> {
        match self {
            Self::Rc | Self::XrcInitiator => Ok(()),
            _ => Err(Errno::Invalid),
        }
    }

    /// Checks whether a client may set the RNR timer: the side that receives has it.
    ///
    /// # Errors
    ///
    /// `EINVAL`, also for what is no code.
    pub const fn check_rnr_timer(self, code: u8) -> Result<(), Errno> {
        match self {
            Self::Rc | Self::XrcTarget if code <= MAX_RNR_TIMER => Ok(()),
            _ => Err(Errno::Invalid),
        }
    }
}

/// Retry counts of a client, as a message carries them.
pub const fn retry_count(wanted: u8) -> u8 {
    match wanted > MAX_RETRY_COUNT {
        true => MAX_RETRY_COUNT,
        false => wanted,
    }
}

/// The first PSN of an identifier's connections.
pub const fn starting_psn(random: u32) -> u32 {
    random & 0x00ff_ffff
}

/// The Q_Key of an identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultQKey {
    /// This one.
    Is(u32),
    /// That of the broadcast group of IPoIB.
    OfBroadcastGroup,
    /// It stays what it is.
    Unchanged,
}

/// The Q_Key of an identifier whose client names none.
pub const fn default_qkey(space: Option<PortSpace>) -> DefaultQKey {
    match space {
        Some(PortSpace::Udp | PortSpace::Ib) => DefaultQKey::Is(UDP_QKEY),
        Some(PortSpace::IpOib) => DefaultQKey::OfBroadcastGroup,
        Some(PortSpace::Tcp) | None => DefaultQKey::Unchanged,
    }
}

/// The Q_Key of an identifier that has `own` (0: none yet), when its client or its peer names `named`.
///
/// # Errors
///
/// `EINVAL` for 0, and for another one than it has.
pub const fn set_qkey(own: u32, named: u32) -> Result<u32, Errno> {
    match named != 0 && (own == 0 || own == named) {
        true => Ok(named),
        false => Err(Errno::Invalid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_of_one_side() {
        let refused = Err(Errno::Invalid);
        assert_eq!(QpType::Rc.check_ack_timeout(), Ok(()));
        assert_eq!(QpType::XrcInitiator.check_ack_timeout(), Ok(()));
        assert_eq!(QpType::XrcTarget.check_ack_timeout(), refused);
        assert_eq!(QpType::Ud.check_ack_timeout(), refused);
        assert_eq!(QpType::Rc.check_rnr_timer(31), Ok(()));
        assert_eq!(QpType::Rc.check_rnr_timer(32), refused);
        assert_eq!(QpType::XrcTarget.check_rnr_timer(0), Ok(()));
        assert_eq!(QpType::XrcInitiator.check_rnr_timer(0), refused);
        assert_eq!(QpType::Other.check_rnr_timer(0), refused);
    }

    #[test]
    fn numbers_on_the_wire() {
        assert_eq!([0, 7, 8, 255].map(retry_count), [0, 7, 7, 7]);
        assert_eq!(starting_psn(0xfedc_ba98), 0x00dc_ba98);
        assert_eq!(SIDR_TIMEOUT_MS, 4096);
    }

    #[test]
    fn qkeys() {
        assert_eq!(
            default_qkey(Some(PortSpace::Udp)),
            DefaultQKey::Is(0x0123_4567)
        );
        assert_eq!(
            default_qkey(Some(PortSpace::Ib)),
            DefaultQKey::Is(0x0123_4567)
        );
        assert_eq!(
            default_qkey(Some(PortSpace::IpOib)),
            DefaultQKey::OfBroadcastGroup
        );
        assert_eq!(default_qkey(Some(PortSpace::Tcp)), DefaultQKey::Unchanged);
        assert_eq!(set_qkey(0, 5), Ok(5));
        assert_eq!(set_qkey(5, 5), Ok(5));
        assert_eq!(set_qkey(5, 6), Err(Errno::Invalid));
        assert_eq!(set_qkey(5, 0), Err(Errno::Invalid));
        assert_eq!(set_qkey(0, 0), Err(Errno::Invalid));
    }
}
