// SPDX-License-Identifier: GPL-2.0

//! Rates, speeds and the names of constants: constant tables and their lookup functions.
//!
//! C header: `include/rdma/ib_verbs.h`.

use kernel::{
    error::{code::EINVAL, Result},
    ffi::{c_char, c_int},
    str::CStrExt,
};
use kernel_ext::{bindings as c, entry::Out, export::export};

/// A static rate of a path, `enum ib_rate`.
struct Rate {
    rate: c::ib_rate,
    /// In units of 2.5 Gbit/s, as in the InfiniBand architecture.
    multiple: c_int,
    /// In Mbit/s, without the line coding.
    mbps: c_int,
}

const fn rate(rate: c::ib_rate, multiple: c_int, mbps: c_int) -> Rate {
    Rate {
        rate,
        multiple,
        mbps,
    }
}

const RATES: [Rate; 23] = [
    rate(c::IB_RATE_2_5_GBPS, 1, 2_500),
    rate(c::IB_RATE_5_GBPS, 2, 5_000),
    rate(c::IB_RATE_10_GBPS, 4, 10_000),
    rate(c::IB_RATE_20_GBPS, 8, 20_000),
    rate(c::IB_RATE_30_GBPS, 12, 30_000),
    rate(c::IB_RATE_40_GBPS, 16, 40_000),
    rate(c::IB_RATE_60_GBPS, 24, 60_000),
    rate(c::IB_RATE_80_GBPS, 32, 80_000),
    rate(c::IB_RATE_120_GBPS, 48, 120_000),
    rate(c::IB_RATE_14_GBPS, 6, 14_062),
    rate(c::IB_RATE_56_GBPS, 22, 56_250),
    rate(c::IB_RATE_112_GBPS, 45, 112_500),
    rate(c::IB_RATE_168_GBPS, 67, 168_750),
    rate(c::IB_RATE_25_GBPS, 10, 25_781),
    rate(c::IB_RATE_100_GBPS, 40, 103_125),
    rate(c::IB_RATE_200_GBPS, 80, 206_250),
    rate(c::IB_RATE_300_GBPS, 120, 309_375),
    rate(c::IB_RATE_28_GBPS, 11, 28_125),
    rate(c::IB_RATE_50_GBPS, 20, 53_125),
    rate(c::IB_RATE_400_GBPS, 160, 425_000),
    rate(c::IB_RATE_600_GBPS, 240, 637_500),
    rate(c::IB_RATE_800_GBPS, 320, 850_000),
    rate(c::IB_RATE_1600_GBPS, 640, 1_700_000),
];

fn find_rate(wanted: impl Fn(&Rate) -> bool) -> Option<&'static Rate> {
    RATES.iter().find(|rate| wanted(rate))
}

/// Returns a rate in units of 2.5 Gbit/s; -1 for an invalid rate.
#[export]
fn ib_rate_to_mult(rate: c::ib_rate) -> c_int {
    find_rate(|known| known.rate == rate).map_or(-1, |known| known.multiple)
}

/// Returns the rate for a multiple of 2.5 Gbit/s; `IB_RATE_PORT_CURRENT` if there is none.
#[export]
fn mult_to_ib_rate(mult: c_int) -> c::ib_rate {
    find_rate(|known| known.multiple == mult).map_or(c::IB_RATE_PORT_CURRENT, |known| known.rate)
}

/// Returns a rate in Mbit/s; -1 for an invalid rate.
#[export]
fn ib_rate_to_mbps(rate: c::ib_rate) -> c_int {
    find_rate(|known| known.rate == rate).map_or(-1, |known| known.mbps)
}

/// The speed of a lane, `enum ib_port_speed`: its name in sysfs, with a leading blank, and its rate in 100 Mbit/s.
const LANE_SPEEDS: [(c::ib_port_speed, &core::ffi::CStr, c_int); 9] = [
    (c::IB_SPEED_SDR, c" SDR", 25),
    (c::IB_SPEED_DDR, c" DDR", 50),
    (c::IB_SPEED_QDR, c" QDR", 100),
    (c::IB_SPEED_FDR10, c" FDR10", 100),
    (c::IB_SPEED_FDR, c" FDR", 140),
    (c::IB_SPEED_EDR, c" EDR", 250),
    (c::IB_SPEED_HDR, c" HDR", 500),
    (c::IB_SPEED_NDR, c" NDR", 1000),
    (c::IB_SPEED_XDR, c" XDR", 2000),
];

/// Returns the number of lanes of a width, `enum ib_port_width`.
const fn lanes(width: c::ib_port_width) -> Option<c_int> {
    match width {
        c::IB_WIDTH_1X => Some(1),
        c::IB_WIDTH_2X => Some(2),
        c::IB_WIDTH_4X => Some(4),
        c::IB_WIDTH_8X => Some(8),
        c::IB_WIDTH_12X => Some(12),
        _ => None,
    }
}

/// Speed of a port, for display.
pub(crate) struct Speed {
    /// Name of the lane speed, with a leading blank; SDR for an invalid speed.
    pub(crate) name: &'static core::ffi::CStr,
    /// Number of lanes. `None` for an invalid width.
    pub(crate) lanes: Option<c_int>,
    lane_rate: c_int,
}

impl Speed {
    pub(crate) fn of(attr: &c::ib_port_attr) -> Self {
        let speed = c::ib_port_speed::from(attr.active_speed);
        let (_, name, lane_rate) = LANE_SPEEDS
            .iter()
            .find(|(known, ..)| *known == speed)
            .unwrap_or(&LANE_SPEEDS[0]);
        Self {
            name,
            lanes: lanes(attr.active_width.into()),
            lane_rate: *lane_rate,
        }
    }

    /// The rate of all lanes, in 100 Mbit/s.
    pub(crate) fn rate(&self) -> c_int {
        self.lane_rate.wrapping_mul(self.lanes.unwrap_or(-1))
    }
}

/// Returns the speed of a port for display: the name of the lane speed, and the rate of all lanes in 100 Mbit/s.
///
/// An invalid speed counts as SDR.
///
/// # Errors
///
/// `EINVAL` for an invalid width.
#[export]
fn ib_port_attr_to_speed_info(
    attr: &mut c::ib_port_attr,
    info: Out<'_, c::ib_port_speed_info>,
) -> Result {
    let speed = Speed::of(attr);
    info.set(c::ib_port_speed_info {
        str_: speed.name.as_char_ptr(),
        rate: speed.rate(),
    });
    speed.lanes.map(|_| ()).ok_or(EINVAL)
}

/// Returns the transport of a node type, `enum rdma_node_type`.
#[export]
fn rdma_node_get_transport(node_type: u32) -> c::rdma_transport_type {
    match node_type {
        c::RDMA_NODE_USNIC => c::RDMA_TRANSPORT_USNIC,
        c::RDMA_NODE_USNIC_UDP => c::RDMA_TRANSPORT_USNIC_UDP,
        c::RDMA_NODE_RNIC => c::RDMA_TRANSPORT_IWARP,
        c::RDMA_NODE_UNSPECIFIED => c::RDMA_TRANSPORT_UNSPECIFIED,
        _ => c::RDMA_TRANSPORT_IB,
    }
}

/// Returns the name of an event for messages.
#[export]
fn ib_event_msg(event: c::ib_event_type) -> *const c_char {
    let name = match event {
        c::IB_EVENT_CQ_ERR => c"CQ error",
        c::IB_EVENT_QP_FATAL => c"QP fatal error",
        c::IB_EVENT_QP_REQ_ERR => c"QP request error",
        c::IB_EVENT_QP_ACCESS_ERR => c"QP access error",
        c::IB_EVENT_COMM_EST => c"communication established",
        c::IB_EVENT_SQ_DRAINED => c"send queue drained",
        c::IB_EVENT_PATH_MIG => c"path migration successful",
        c::IB_EVENT_PATH_MIG_ERR => c"path migration error",
        c::IB_EVENT_DEVICE_FATAL => c"device fatal error",
        c::IB_EVENT_PORT_ACTIVE => c"port active",
        c::IB_EVENT_PORT_ERR => c"port error",
        c::IB_EVENT_LID_CHANGE => c"LID change",
        c::IB_EVENT_PKEY_CHANGE => c"P_key change",
        c::IB_EVENT_SM_CHANGE => c"SM change",
        c::IB_EVENT_SRQ_ERR => c"SRQ error",
        c::IB_EVENT_SRQ_LIMIT_REACHED => c"SRQ limit reached",
        c::IB_EVENT_QP_LAST_WQE_REACHED => c"last WQE reached",
        c::IB_EVENT_CLIENT_REREGISTER => c"client reregister",
        c::IB_EVENT_GID_CHANGE => c"GID changed",
        c::IB_EVENT_DEVICE_SPEED_CHANGE => c"device speed change",
        _ => c"unrecognized event",
    };
    name.as_char_ptr()
}

/// Returns the name of a completion status for messages.
#[export]
fn ib_wc_status_msg(status: c::ib_wc_status) -> *const c_char {
    let name = match status {
        c::IB_WC_SUCCESS => c"success",
        c::IB_WC_LOC_LEN_ERR => c"local length error",
        c::IB_WC_LOC_QP_OP_ERR => c"local QP operation error",
        c::IB_WC_LOC_EEC_OP_ERR => c"local EE context operation error",
        c::IB_WC_LOC_PROT_ERR => c"local protection error",
        c::IB_WC_WR_FLUSH_ERR => c"WR flushed",
        c::IB_WC_MW_BIND_ERR => c"memory bind operation error",
        c::IB_WC_BAD_RESP_ERR => c"bad response error",
        c::IB_WC_LOC_ACCESS_ERR => c"local access error",
        c::IB_WC_REM_INV_REQ_ERR => c"remote invalid request error",
        c::IB_WC_REM_ACCESS_ERR => c"remote access error",
        c::IB_WC_REM_OP_ERR => c"remote operation error",
        c::IB_WC_RETRY_EXC_ERR => c"transport retry counter exceeded",
        c::IB_WC_RNR_RETRY_EXC_ERR => c"RNR retry counter exceeded",
        c::IB_WC_LOC_RDD_VIOL_ERR => c"local RDD violation error",
        c::IB_WC_REM_INV_RD_REQ_ERR => c"remote invalid RD request",
        c::IB_WC_REM_ABORT_ERR => c"operation aborted",
        c::IB_WC_INV_EECN_ERR => c"invalid EE context number",
        c::IB_WC_INV_EEC_STATE_ERR => c"invalid EE context state",
        c::IB_WC_FATAL_ERR => c"fatal error",
        c::IB_WC_RESP_TIMEOUT_ERR => c"response timeout error",
        c::IB_WC_GENERAL_ERR => c"general error",
        _ => c"unrecognized status",
    };
    name.as_char_ptr()
}

#[kernel::prelude::kunit_tests(ib_core_rates)]
mod tests {
    use super::*;

    #[test]
    fn each_multiple_leads_back_to_its_rate() {
        for known in &RATES {
            assert_eq!(mult_to_ib_rate(ib_rate_to_mult(known.rate)), known.rate);
        }
    }

    #[test]
    fn no_rate_is_slower_than_its_lanes() {
        for known in &RATES {
            // The rate of 64b/66b lanes exceeds the nominal one by up to 2.5 %; 14 Gbit/s counts as a multiple of 6.
            let nominal = known.multiple.wrapping_mul(2_500);
            let mbps = ib_rate_to_mbps(known.rate);
            assert!(mbps.wrapping_mul(10) >= nominal.wrapping_mul(9));
            assert!(mbps.wrapping_mul(10) <= nominal.wrapping_mul(11));
        }
    }

    #[test]
    fn what_is_none() {
        assert_eq!(ib_rate_to_mult(c::ib_rate::MAX), -1);
        assert_eq!(ib_rate_to_mbps(c::ib_rate::MAX), -1);
        assert_eq!(mult_to_ib_rate(3), c::IB_RATE_PORT_CURRENT);
        assert_eq!(mult_to_ib_rate(c_int::MIN), c::IB_RATE_PORT_CURRENT);
    }
}
