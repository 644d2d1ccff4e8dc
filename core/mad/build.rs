// SPDX-License-Identifier: GPL-2.0

//! Making MADs to be sent.

use kernel::{alloc::Flags, prelude::*, sync::Arc};
use rdma::{
    core::mad::{
        c_pointer,
        send::{OwnAh, SendBody, SendInit},
    },
    MaySleep,
};

use super::{
    header::{rmpp_flag, rmpp_type, MAD_SIZE, OPA_MAD_SIZE, RMPP_HEADER},
    state::{Agent, SendMad},
};

/// What a MAD is to be like.
pub(crate) struct Wanted {
    /// The number of the peer's queue pair.
    pub(crate) remote_qpn: u32,
    /// The index of the P_Key.
    pub(crate) pkey_index: u16,
    /// It is a message of RMPP, which may have several packets.
    pub(crate) rmpp: bool,
    /// How many bytes each packet begins with.
    pub(crate) header: usize,
    /// How many bytes of data there are.
    pub(crate) data: usize,
    /// It is one of Omni-Path.
    pub(crate) opa: bool,
}

/// The flags of an allocation that may sleep.
pub(crate) fn may_sleep(_sleep: &MaySleep) -> Flags {
    GFP_KERNEL
}

/// How the bytes of a MAD are divided.
#[derive(Debug, PartialEq, Eq)]
struct Division {
    /// How many bytes follow the header in a packet.
    room: usize,
    /// How many of them are sent.
    payload: usize,
    /// How many packets of RMPP there are; 0: none.
    segments: usize,
}

/// Divides a MAD of up to `size` bytes; `kernel_rmpp`: messages may have several packets.
fn divide(wanted: &Wanted, size: usize, kernel_rmpp: bool) -> Result<Division> {
    let room = size.checked_sub(wanted.header).ok_or(EINVAL)?;
    // Without data there is one packet, too.
    let packets = match room {
        0 if wanted.data == 0 => 1,
        0 => return Err(EINVAL),
        room => wanted
            .data
            .checked_sub(1)
            .map_or(1, |last| (last / room).saturating_add(1)),
    };
    let is_allowed = match wanted.rmpp {
        true => kernel_rmpp && wanted.header >= RMPP_HEADER && room != 0,
        false => packets == 1,
    };
    if !is_allowed {
        return Err(EINVAL);
    }
    let payload = match wanted.opa && !wanted.rmpp {
        true => wanted.data.min(room),
        false => room,
    };
    Ok(Division {
        room,
        payload,
        segments: if wanted.rmpp { packets } else { 0 },
    })
}

/// Makes a MAD, which is zero but for the header of RMPP.
///
/// # Errors
///
/// `EINVAL` for lengths that there cannot be, and for RMPP where the agent's client does it, or nobody; `ENODEV` where the
/// agent goes; `ENOMEM`.
pub(crate) fn new(
    agent: &Arc<Agent>,
    wanted: &Wanted,
    ah: Option<Arc<OwnAh>>,
    flags: Flags,
) -> Result<Arc<SendMad>> {
    let opa = wanted.opa && agent.port.is_opa;
    let size = if opa { OPA_MAD_SIZE } else { MAD_SIZE };
    let division = divide(wanted, size, agent.is_kernel_rmpp())?;
    let init = SendInit {
        device: &agent.port.device,
        lkey: agent.qp.lkey(),
        remote_qpn: wanted.remote_qpn,
        pkey_index: wanted.pkey_index,
        header: wanted.header,
        payload: division.payload,
        room: division.room,
        data: wanted.data,
        segments: division.segments,
    };
    let agent = agent.try_use().ok_or(ENODEV)?;
    let mut body = SendBody::new(&init, ah, flags)?;
    body.set_agent(c_pointer(&**agent));
    let version = agent.body.rmpp_version();
    let send = Arc::new(SendMad::new(body, agent), flags)?;
    if wanted.rmpp {
        let mut rmpp = send.rmpp();
        rmpp.version = version;
        rmpp.kind = rmpp_type::DATA;
        rmpp.set_flags(rmpp_flag::ACTIVE);
        send.set_rmpp(&rmpp);
    }
    Ok(send)
}

#[kernel::prelude::kunit_tests(ib_core_mad_build)]
mod tests {
    use super::*;

    fn wanted(rmpp: bool, header: usize, data: usize) -> Wanted {
        Wanted {
            remote_qpn: 1,
            pkey_index: 0,
            rmpp,
            header,
            data,
            opa: false,
        }
    }

    #[test]
    fn one_packet_has_all_its_room() {
        for data in [0, 1, 232] {
            let divided = divide(&wanted(false, 24, data), MAD_SIZE, false);
            let expected = Division {
                room: 232,
                payload: 232,
                segments: 0,
            };
            assert_eq!(divided, Ok(expected));
        }
        assert_eq!(divide(&wanted(false, 24, 233), MAD_SIZE, true), Err(EINVAL));
        assert!(divide(&wanted(false, 256, 0), MAD_SIZE, true).is_ok());
        assert_eq!(divide(&wanted(false, 256, 1), MAD_SIZE, true), Err(EINVAL));
        assert_eq!(divide(&wanted(false, 257, 0), MAD_SIZE, true), Err(EINVAL));
    }

    #[test]
    fn a_message_has_as_many_packets_as_its_data_needs() {
        for (data, segments) in [(0, 1), (1, 1), (200, 1), (201, 2), (400, 2), (10_000, 50)] {
            let divided = divide(&wanted(true, 56, data), MAD_SIZE, true);
            assert_eq!(divided.map(|divided| divided.segments), Ok(segments));
        }
    }

    #[test]
    fn only_the_core_divides_messages() {
        assert_eq!(divide(&wanted(true, 56, 10), MAD_SIZE, false), Err(EINVAL));
        assert_eq!(divide(&wanted(true, 24, 10), MAD_SIZE, true), Err(EINVAL));
    }
}
