// SPDX-License-Identifier: GPL-2.0

//! Reasons of a REJ.
//!
//! IBTA volume 1, 12.6.7.2; C header: `include/rdma/ib_cm.h`, `enum ib_cm_rej_reason`.

use core::ffi::CStr;

macro_rules! reasons {
    ($( $(#[$doc:meta])* $name:ident = $number:literal, $text:literal; )*) => {
        /// Why a message is rejected.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        pub enum Reason {
            $( $(#[$doc])* $name = $number, )*
        }

        impl Reason {
            /// All reasons.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The reason of a number, if the specification has it. Messages may carry others: they are told as they are.
            pub const fn from_number(number: u16) -> Option<Self> {
                match number {
                    $( $number => Some(Self::$name), )*
                    _ => None,
                }
            }

            /// What it is called in logs (`ibcm_reject_msg()`).
            pub const fn text(self) -> &'static CStr {
                match self {
                    $( Self::$name => $text, )*
                }
            }
        }
    };
}

reasons! {
    /// There is no queue pair left.
    NoQp = 1, c"no QP";
    /// There is no end-to-end context left.
    NoEec = 2, c"no EEC";
    /// There are no resources.
    NoResources = 3, c"no resources";
    /// The peer has not answered in time.
    Timeout = 4, c"timeout";
    /// The message is not supported.
    Unsupported = 5, c"unsupported";
    /// The ID of the connection is none.
    InvalidCommId = 6, c"invalid comm ID";
    /// The ID of the connection is of another one.
    InvalidCommInstance = 7, c"invalid comm instance";
    /// Nobody listens.
    InvalidServiceId = 8, c"invalid service ID";
    /// The transport service is not supported.
    InvalidTransportType = 9, c"invalid transport type";
    /// The queue pair is of an old connection.
    StaleConn = 10, c"stale conn";
    /// There is no reliable datagram channel.
    RdcNotExist = 11, c"RDC not exist";
    /// Primary path: GID.
    InvalidGid = 12, c"invalid GID";
    /// Primary path: LID.
    InvalidLid = 13, c"invalid LID";
    /// Primary path: service level.
    InvalidSl = 14, c"invalid SL";
    /// Primary path: traffic class.
    InvalidTrafficClass = 15, c"invalid traffic class";
    /// Primary path: hop limit.
    InvalidHopLimit = 16, c"invalid hop limit";
    /// Primary path: rate.
    InvalidPacketRate = 17, c"invalid packet rate";
    /// Alternate path: GID.
    InvalidAltGid = 18, c"invalid alt GID";
    /// Alternate path: LID.
    InvalidAltLid = 19, c"invalid alt LID";
    /// Alternate path: service level.
    InvalidAltSl = 20, c"invalid alt SL";
    /// Alternate path: traffic class.
    InvalidAltTrafficClass = 21, c"invalid alt traffic class";
    /// Alternate path: hop limit.
    InvalidAltHopLimit = 22, c"invalid alt hop limit";
    /// Alternate path: rate.
    InvalidAltPacketRate = 23, c"invalid alt packet rate";
    /// Another port manages communication.
    PortCmRedirect = 24, c"port CM redirect";
    /// Another port has the service.
    PortRedirect = 25, c"port redirect";
    /// The MTU is too large.
    InvalidMtu = 26, c"invalid MTU";
    /// The peer serves too few RDMA reads and atomics.
    InsufficientRespResources = 27, c"insufficient resp resources";
    /// The client has rejected.
    ConsumerDefined = 28, c"consumer defined";
    /// Retries when the receiver is not ready.
    InvalidRnrRetry = 29, c"invalid RNR retry";
    /// Another connection has the ID.
    DuplicateLocalCommId = 30, c"duplicate local comm ID";
    /// The version of the class is not supported.
    InvalidClassVersion = 31, c"invalid class version";
    /// Primary path: flow label.
    InvalidFlowLabel = 32, c"invalid flow label";
    /// Alternate path: flow label.
    InvalidAltFlowLabel = 33, c"invalid alt flow label";
    /// ECE: the vendor's option is not supported.
    VendorOptionNotSupported = 35, c"vendor option is not supported";
}

/// What a number is called in logs, whether the specification has it or not.
pub fn text(number: i32) -> &'static CStr {
    let known = u16::try_from(number).ok().and_then(Reason::from_number);
    known.map_or(c"unrecognized reason", Reason::text)
}
