// SPDX-License-Identifier: GPL-2.0

//! Allocating MADs to be sent (`ib_create_send_mad`).
//!
//! C header: `include/rdma/ib_mad.h`.

use kernel::{
    alloc::Flags,
    prelude::*,
    sync::{Arc, UniqueArc},
};
use rdma::{
    core::mad::{
        agent::set_agent,
        send::{OwnAh, SendBody, SendInit},
    },
    MaySleep,
};

use super::{
    header::{rmpp_flag, rmpp_type, MAD_SIZE, OPA_MAD_SIZE, RMPP_HEADER},
    state::{Agent, SendMad},
};

/// Attributes of a MAD to be sent.
pub(crate) struct SendBufAttr {
    /// The QPN of the peer.
    pub(crate) remote_qpn: u32,
    /// The index of the P_Key.
    pub(crate) pkey_index: u16,
    /// Whether RMPP is active: the message may have several packets.
    pub(crate) rmpp: bool,
    /// Length of the headers of each packet, in bytes.
    pub(crate) header: usize,
    /// Length of the data, in bytes.
    pub(crate) data: usize,
    /// Whether it is an Omni-Path MAD.
    pub(crate) opa: bool,
}

/// The flags of an allocation that may sleep.
pub(crate) fn may_sleep(_sleep: &MaySleep) -> Flags {
    GFP_KERNEL
}

/// How a message is divided into packets.
#[derive(Debug, PartialEq, Eq)]
struct Division {
    /// Bytes in a packet after the headers.
    room: usize,
    /// How many of them are payload.
    payload: usize,
    /// Number of RMPP segments; 0 without RMPP.
    segments: usize,
}

/// Divides a MAD of up to `size` bytes; `kernel_rmpp`: the core segments the message.
fn divide(wanted: &SendBufAttr, size: usize, kernel_rmpp: bool) -> Result<Division> {
    let room = size.checked_sub(wanted.header).ok_or(EINVAL)?;
    // A message without data has one packet, too.
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

/// Allocates a MAD, zeroed except for the RMPP header.
///
/// # Errors
///
/// `EINVAL` for invalid lengths, and for RMPP where the core does not do it for the agent; `ENODEV` while the agent is
/// being unregistered; `ENOMEM`.
pub(crate) fn new(
    agent: &Arc<Agent>,
    wanted: &SendBufAttr,
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
    let body = SendBody::new(&init, ah, flags)?;
    let version = agent.body.rmpp_version();
    let mut send = UniqueArc::pin_init(SendMad::new(body, agent), flags)?;
    set_agent(&mut send);
    let send: Arc<SendMad> = send.into();
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

    fn wanted(rmpp: bool, header: usize, data: usize) -> SendBufAttr {
        SendBufAttr {
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
