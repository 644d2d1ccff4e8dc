// SPDX-License-Identifier: GPL-2.0

//! Why a peer has no connection: `enum ib_cm_rej_reason`, `enum ib_cm_sidr_status`.
//!
//! C header: `include/rdma/ib_cm.h`.

use core::fmt;

use rdma::bindings;

/// The reason of a rejection, as in the message REJ.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Reason(u8);

/// Defines the reasons, with their texts.
macro_rules! reasons {
    ($($name:ident = $raw:ident, $text:literal;)*) => {
        impl Reason {
            $(
                #[doc = concat!("The reason `", stringify!($raw), "`: ", $text, ".")]
                pub const $name: Self = Self(bindings::$raw as u8);
            )*

            /// What it means.
            pub fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                    _ => "unknown reason",
                }
            }
        }
    };
}

reasons! {
    NO_QP = IB_CM_REJ_NO_QP, "no queue pair";
    NO_EEC = IB_CM_REJ_NO_EEC, "no end-to-end context";
    NO_RESOURCES = IB_CM_REJ_NO_RESOURCES, "no resources";
    TIMEOUT = IB_CM_REJ_TIMEOUT, "timeout";
    UNSUPPORTED = IB_CM_REJ_UNSUPPORTED, "unsupported request";
    INVALID_COMM_ID = IB_CM_REJ_INVALID_COMM_ID, "invalid communication identifier";
    INVALID_SERVICE_ID = IB_CM_REJ_INVALID_SERVICE_ID, "nobody listens";
    INVALID_TRANSPORT_TYPE = IB_CM_REJ_INVALID_TRANSPORT_TYPE, "invalid transport";
    STALE_CONN = IB_CM_REJ_STALE_CONN, "stale connection";
    RDC_NOT_EXIST = IB_CM_REJ_RDC_NOT_EXIST, "no reliable datagram channel";
    INVALID_GID = IB_CM_REJ_INVALID_GID, "invalid GID of the primary path";
    INVALID_LID = IB_CM_REJ_INVALID_LID, "invalid LID of the primary path";
    INVALID_SL = IB_CM_REJ_INVALID_SL, "invalid service level of the primary path";
    INVALID_TRAFFIC_CLASS = IB_CM_REJ_INVALID_TRAFFIC_CLASS, "invalid traffic class of the primary path";
    INVALID_PACKET_RATE = IB_CM_REJ_INVALID_PACKET_RATE, "invalid packet rate of the primary path";
    INVALID_ALT_GID = IB_CM_REJ_INVALID_ALT_GID, "invalid GID of the alternate path";
    INVALID_ALT_LID = IB_CM_REJ_INVALID_ALT_LID, "invalid LID of the alternate path";
    INVALID_ALT_SL = IB_CM_REJ_INVALID_ALT_SL, "invalid service level of the alternate path";
    INVALID_ALT_TRAFFIC_CLASS = IB_CM_REJ_INVALID_ALT_TRAFFIC_CLASS, "invalid traffic class of the alternate path";
    INVALID_ALT_HOP_LIMIT = IB_CM_REJ_INVALID_ALT_HOP_LIMIT, "invalid hop limit of the alternate path";
    INVALID_ALT_PACKET_RATE = IB_CM_REJ_INVALID_ALT_PACKET_RATE, "invalid packet rate of the alternate path";
    PORT_CM_REDIRECT = IB_CM_REJ_PORT_CM_REDIRECT, "redirected by the port and the connection manager";
    PORT_REDIRECT = IB_CM_REJ_PORT_REDIRECT, "redirected by the port";
    INVALID_MTU = IB_CM_REJ_INVALID_MTU, "invalid MTU";
    INSUFFICIENT_RESP_RESOURCES = IB_CM_REJ_INSUFFICIENT_RESP_RESOURCES, "too few responder resources";
    CONSUMER_DEFINED = IB_CM_REJ_CONSUMER_DEFINED, "the consumer refuses";
    INVALID_RNR_RETRY = IB_CM_REJ_INVALID_RNR_RETRY, "invalid number of RNR retries";
    DUPLICATE_LOCAL_COMM_ID = IB_CM_REJ_DUPLICATE_LOCAL_COMM_ID, "duplicate communication identifier";
    INVALID_CLASS_VERSION = IB_CM_REJ_INVALID_CLASS_VERSION, "invalid class version";
    INVALID_FLOW_LABEL = IB_CM_REJ_INVALID_FLOW_LABEL, "invalid flow label of the primary path";
    INVALID_ALT_FLOW_LABEL = IB_CM_REJ_INVALID_ALT_FLOW_LABEL, "invalid flow label of the alternate path";
    VENDOR_OPTION = IB_CM_REJ_VENDOR_OPTION_NOT_SUPPORTED, "vendor option not supported";
}

impl Reason {
    /// The number in the message.
    pub fn number(self) -> u8 {
        self.0
    }

    pub(crate) fn of_status(status: i32) -> Option<Self> {
        u8::try_from(status).ok().map(Self)
    }
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.0, self.text())
    }
}
