// SPDX-License-Identifier: GPL-2.0

//! The messages: which there are, and the fields of each.
//!
//! A message is read once, into a structure of its numbers: `Req::read(&data)`. `write` puts them into the data of a MAD. The
//! bytes that belong to clients stay where they are: `Req::PRIVATE_DATA.get(&data)`.
//!
//! IBTA volume 1, 12.6 to 12.11; C header: `include/rdma/ibta_vol1_c12.h`.

use crate::field::{Data, Field, Gid, Room, Value};

/// Class of the MADs (`IB_MGMT_CLASS_CM`).
pub const MGMT_CLASS: u8 = 0x07;
/// Version of the class: that of the specification from 1.2 on.
pub const CLASS_VERSION: u8 = 2;

/// The messages, by the attribute of their MADs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u16)]
pub enum Attribute {
    /// Request for communication.
    Req = 0x10,
    /// Receipt of a message: its answer will take time.
    Mra,
    /// Reject.
    Rej,
    /// Reply to a request.
    Rep,
    /// Ready to use.
    Rtu,
    /// Request to disconnect.
    Dreq,
    /// Reply to a request to disconnect.
    Drep,
    /// Request for the queue pair of a service.
    SidrReq,
    /// Reply to a request for the queue pair of a service.
    SidrRep,
    /// Load an alternate path.
    Lap,
    /// Response to an alternate path.
    Apr,
}

impl Attribute {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 11] = [
        Self::Req,
        Self::Mra,
        Self::Rej,
        Self::Rep,
        Self::Rtu,
        Self::Dreq,
        Self::Drep,
        Self::SidrReq,
        Self::SidrRep,
        Self::Lap,
        Self::Apr,
    ];

    /// The message of an attribute ID in host order, if there is one.
    pub fn from_id(id: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.id() == id)
    }

    /// The attribute ID in host order.
    pub const fn id(self) -> u16 {
        self as u16
    }

    /// Its place among all, from 0.
    pub const fn index(self) -> usize {
        (self as u16 - Self::Req as u16) as usize
    }
}

/// Which message an MRA or a REJ is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum About {
    /// A REQ.
    Req,
    /// A REP.
    Rep,
    /// A LAP; or none in particular.
    Other,
}

impl About {
    /// From the field of the message.
    pub const fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            0 => Some(Self::Req),
            1 => Some(Self::Rep),
            2 => Some(Self::Other),
            _ => None,
        }
    }
}

/// Makes a structure of numbers, the table of their places, and the rooms of a message.
macro_rules! message {
    (
        $(#[$doc:meta])*
        $name:ident {
            $( $(#[$field_doc:meta])* $field:ident: $kind:ty = ($byte:expr, $bit:expr, $width:expr), )*
        }
        $( $(#[$room_doc:meta])* $room:ident = ($start:expr, $size:expr); )*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $( $(#[$field_doc])* pub $field: $kind, )*
        }

        impl $name {
            /// Fields by name, in the order of the structure.
            pub const FIELDS: &'static [(&'static str, Field)] =
                &[$( (stringify!($field), Field::new($byte, $bit, $width)), )*];

            $( $(#[$room_doc])* pub const $room: Room = Room::new($start, $size); )*

            /// Reads the numbers; any bytes have some.
            pub fn read(data: &Data) -> Self {
                Self { $( $field: Value::read(const { Field::new($byte, $bit, $width) }, data), )* }
            }

            /// Writes the numbers; what is reserved or of a client stays.
            pub fn write(&self, data: &mut Data) {
                $( Value::write(self.$field, const { Field::new($byte, $bit, $width) }, data); )*
            }
        }
    };
}

message! {
    /// REQ: table 106.
    Req {
        /// The sender's ID of the connection.
        local_comm_id: u32 = (0, 0, 32),
        /// ECE: vendor.
        vendor_id: u32 = (5, 0, 24),
        /// The service that is asked for.
        service_id: u64 = (8, 0, 64),
        /// GUID of the sender's device.
        local_ca_guid: u64 = (16, 0, 64),
        /// Q_Key, of reliable datagrams.
        local_q_key: u32 = (28, 0, 32),
        /// The sender's queue pair.
        local_qpn: u32 = (32, 0, 24),
        /// RDMA reads and atomics that the sender serves at once.
        responder_resources: u8 = (35, 0, 8),
        /// End-to-end context, of reliable datagrams.
        local_eecn: u32 = (36, 0, 24),
        /// RDMA reads and atomics that the sender wants to begin at once.
        initiator_depth: u8 = (39, 0, 8),
        /// The receiver's end-to-end context.
        remote_eecn: u32 = (40, 0, 24),
        /// Time in which the receiver is to answer, encoded.
        remote_cm_response_timeout: u8 = (43, 0, 5),
        /// Service of the queue pairs: see [`crate::transport::Transport`].
        transport_service_type: u8 = (43, 5, 2),
        /// End-to-end flow control.
        end_to_end_flow_control: bool = (43, 7, 1),
        /// PSN of the first packet to the sender.
        starting_psn: u32 = (44, 0, 24),
        /// Time in which the sender answers, encoded.
        local_cm_response_timeout: u8 = (47, 0, 5),
        /// Retries of packets.
        retry_count: u8 = (47, 5, 3),
        /// P_Key.
        partition_key: u16 = (48, 0, 16),
        /// MTU, encoded.
        path_packet_payload_mtu: u8 = (50, 0, 4),
        /// Reliable datagram channel exists.
        rdc_exists: bool = (50, 4, 1),
        /// Retries when the receiver is not ready.
        rnr_retry_count: u8 = (50, 5, 3),
        /// Retries of messages of communication management.
        max_cm_retries: u8 = (51, 0, 4),
        /// The sender's queue pair has a shared receive queue.
        srq: bool = (51, 4, 1),
        /// Extension of the service of the queue pairs.
        extended_transport_type: u8 = (51, 5, 3),
        /// Primary path: the sender's LID.
        primary_local_port_lid: u16 = (52, 0, 16),
        /// Primary path: the receiver's LID.
        primary_remote_port_lid: u16 = (54, 0, 16),
        /// Primary path: the sender's GID.
        primary_local_port_gid: Gid = (56, 0, 128),
        /// Primary path: the receiver's GID.
        primary_remote_port_gid: Gid = (72, 0, 128),
        /// Primary path: flow label.
        primary_flow_label: u32 = (88, 0, 20),
        /// Primary path: rate, encoded.
        primary_packet_rate: u8 = (91, 2, 6),
        /// Primary path: traffic class.
        primary_traffic_class: u8 = (92, 0, 8),
        /// Primary path: hop limit.
        primary_hop_limit: u8 = (93, 0, 8),
        /// Primary path: service level.
        primary_sl: u8 = (94, 0, 4),
        /// Primary path: both ports are in one subnet.
        primary_subnet_local: bool = (94, 4, 1),
        /// Primary path: time to wait for an acknowledge, encoded.
        primary_local_ack_timeout: u8 = (95, 0, 5),
        /// Alternate path: the sender's LID.
        alternate_local_port_lid: u16 = (96, 0, 16),
        /// Alternate path: the receiver's LID.
        alternate_remote_port_lid: u16 = (98, 0, 16),
        /// Alternate path: the sender's GID.
        alternate_local_port_gid: Gid = (100, 0, 128),
        /// Alternate path: the receiver's GID.
        alternate_remote_port_gid: Gid = (116, 0, 128),
        /// Alternate path: flow label.
        alternate_flow_label: u32 = (132, 0, 20),
        /// Alternate path: rate, encoded.
        alternate_packet_rate: u8 = (135, 2, 6),
        /// Alternate path: traffic class.
        alternate_traffic_class: u8 = (136, 0, 8),
        /// Alternate path: hop limit.
        alternate_hop_limit: u8 = (137, 0, 8),
        /// Alternate path: service level.
        alternate_sl: u8 = (138, 0, 4),
        /// Alternate path: both ports are in one subnet.
        alternate_subnet_local: bool = (138, 4, 1),
        /// Alternate path: time to wait for an acknowledge, encoded.
        alternate_local_ack_timeout: u8 = (139, 0, 5),
        /// Suggested alternate paths are supported.
        sap_supported: bool = (139, 5, 1),
    }
    /// Private data.
    PRIVATE_DATA = (140, 92);
}

message! {
    /// MRA: table 107.
    Mra {
        /// The sender's ID of the connection.
        local_comm_id: u32 = (0, 0, 32),
        /// The receiver's ID of the connection.
        remote_comm_id: u32 = (4, 0, 32),
        /// Which message has come: see [`About`].
        message_mraed: u8 = (8, 0, 2),
        /// Time that the answer takes, encoded.
        service_timeout: u8 = (9, 0, 5),
    }
    /// Private data.
    PRIVATE_DATA = (10, 222);
}

message! {
    /// REJ: table 108.
    Rej {
        /// The sender's ID of the connection.
        local_comm_id: u32 = (0, 0, 32),
        /// The receiver's ID of the connection.
        remote_comm_id: u32 = (4, 0, 32),
        /// Which message is rejected: see [`About`].
        message_rejected: u8 = (8, 0, 2),
        /// Bytes of additional information.
        rejected_info_length: u8 = (9, 0, 7),
        /// Why: see [`crate::reject::Reason`].
        reason: u16 = (10, 0, 16),
    }
    /// Additional information.
    ARI = (12, 72);
    /// Private data.
    PRIVATE_DATA = (84, 148);
}

message! {
    /// REP: table 110.
    Rep {
        /// The sender's ID of the connection.
        local_comm_id: u32 = (0, 0, 32),
        /// The receiver's ID of the connection.
        remote_comm_id: u32 = (4, 0, 32),
        /// Q_Key, of reliable datagrams.
        local_q_key: u32 = (8, 0, 32),
        /// The sender's queue pair.
        local_qpn: u32 = (12, 0, 24),
        /// ECE: vendor, high byte.
        vendor_id_h: u8 = (15, 0, 8),
        /// End-to-end context; the sender's queue pair, of XRC.
        local_ee_context_number: u32 = (16, 0, 24),
        /// ECE: vendor, middle byte.
        vendor_id_m: u8 = (19, 0, 8),
        /// PSN of the first packet to the sender.
        starting_psn: u32 = (20, 0, 24),
        /// ECE: vendor, low byte.
        vendor_id_l: u8 = (23, 0, 8),
        /// RDMA reads and atomics that the sender serves at once.
        responder_resources: u8 = (24, 0, 8),
        /// RDMA reads and atomics that the sender begins at once.
        initiator_depth: u8 = (25, 0, 8),
        /// Time that the sender takes for an acknowledge, encoded.
        target_ack_delay: u8 = (26, 0, 5),
        /// What has become of the alternate path.
        failover_accepted: u8 = (26, 5, 2),
        /// End-to-end flow control.
        end_to_end_flow_control: bool = (26, 7, 1),
        /// Retries when the receiver is not ready.
        rnr_retry_count: u8 = (27, 0, 3),
        /// The sender's queue pair has a shared receive queue.
        srq: bool = (27, 3, 1),
        /// GUID of the sender's device.
        local_ca_guid: u64 = (28, 0, 64),
    }
    /// Private data.
    PRIVATE_DATA = (36, 196);
}

impl Rep {
    /// ECE: vendor.
    pub const fn vendor_id(&self) -> u32 {
        u32::from_be_bytes([0, self.vendor_id_h, self.vendor_id_m, self.vendor_id_l])
    }

    /// Sets the vendor; of a larger number than fits, the lower bits.
    pub const fn set_vendor_id(&mut self, id: u32) {
        [_, self.vendor_id_h, self.vendor_id_m, self.vendor_id_l] = id.to_be_bytes();
    }
}

message! {
    /// RTU: table 111.
    Rtu {
        /// The sender's ID of the connection.
        local_comm_id: u32 = (0, 0, 32),
        /// The receiver's ID of the connection.
        remote_comm_id: u32 = (4, 0, 32),
    }
    /// Private data.
    PRIVATE_DATA = (8, 224);
}

message! {
    /// DREQ: table 112.
    Dreq {
        /// The sender's ID of the connection.
        local_comm_id: u32 = (0, 0, 32),
        /// The receiver's ID of the connection.
        remote_comm_id: u32 = (4, 0, 32),
        /// The receiver's queue pair.
        remote_qpn_eecn: u32 = (8, 0, 24),
    }
    /// Private data.
    PRIVATE_DATA = (12, 220);
}

message! {
    /// DREP: table 113.
    Drep {
        /// The sender's ID of the connection.
        local_comm_id: u32 = (0, 0, 32),
        /// The receiver's ID of the connection.
        remote_comm_id: u32 = (4, 0, 32),
    }
    /// Private data.
    PRIVATE_DATA = (8, 224);
}

message! {
    /// LAP: table 115.
    Lap {
        /// The sender's ID of the connection.
        local_comm_id: u32 = (0, 0, 32),
        /// The receiver's ID of the connection.
        remote_comm_id: u32 = (4, 0, 32),
        /// The receiver's queue pair.
        remote_qpn_eecn: u32 = (12, 0, 24),
        /// Time in which the receiver is to answer, encoded.
        remote_cm_response_timeout: u8 = (15, 0, 5),
        /// The sender's LID.
        alternate_local_port_lid: u16 = (20, 0, 16),
        /// The receiver's LID.
        alternate_remote_port_lid: u16 = (22, 0, 16),
        /// The sender's GID.
        alternate_local_port_gid: Gid = (24, 0, 128),
        /// The receiver's GID.
        alternate_remote_port_gid: Gid = (40, 0, 128),
        /// Flow label.
        alternate_flow_label: u32 = (56, 0, 20),
        /// Traffic class.
        alternate_traffic_class: u8 = (59, 0, 8),
        /// Hop limit.
        alternate_hop_limit: u8 = (60, 0, 8),
        /// Rate, encoded.
        alternate_packet_rate: u8 = (61, 2, 6),
        /// Service level.
        alternate_sl: u8 = (62, 0, 4),
        /// Both ports are in one subnet.
        alternate_subnet_local: bool = (62, 4, 1),
        /// Time to wait for an acknowledge, encoded.
        alternate_local_ack_timeout: u8 = (63, 0, 5),
    }
    /// Private data.
    PRIVATE_DATA = (64, 168);
}

message! {
    /// APR: table 116.
    Apr {
        /// The sender's ID of the connection.
        local_comm_id: u32 = (0, 0, 32),
        /// The receiver's ID of the connection.
        remote_comm_id: u32 = (4, 0, 32),
        /// Bytes of additional information.
        additional_information_length: u8 = (8, 0, 8),
        /// The answer.
        ar_status: u8 = (9, 0, 8),
    }
    /// Additional information.
    ADDITIONAL_INFORMATION = (12, 72);
    /// Private data.
    PRIVATE_DATA = (84, 148);
}

message! {
    /// SIDR_REQ: table 119.
    SidrReq {
        /// The sender's ID of the request.
        requestid: u32 = (0, 0, 32),
        /// P_Key.
        partition_key: u16 = (4, 0, 16),
        /// The service that is asked for.
        serviceid: u64 = (8, 0, 64),
    }
    /// Private data.
    PRIVATE_DATA = (16, 216);
}

message! {
    /// SIDR_REP: table 120.
    SidrRep {
        /// The receiver's ID of the request.
        requestid: u32 = (0, 0, 32),
        /// The answer: see [`SidrStatus`].
        status: u8 = (4, 0, 8),
        /// Bytes of additional information.
        additional_information_length: u8 = (5, 0, 8),
        /// ECE: vendor, high bytes.
        vendor_id_h: u16 = (6, 0, 16),
        /// The queue pair.
        qpn: u32 = (8, 0, 24),
        /// ECE: vendor, low byte.
        vendor_id_l: u8 = (11, 0, 8),
        /// The service that was asked for.
        serviceid: u64 = (12, 0, 64),
        /// Q_Key of the queue pair.
        q_key: u32 = (20, 0, 32),
    }
    /// Additional information.
    ADDITIONAL_INFORMATION = (24, 72);
    /// Private data.
    PRIVATE_DATA = (96, 136);
}

/// Answers of [`SidrRep`] (`enum ib_cm_sidr_status`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SidrStatus {
    /// The queue pair is told.
    Success,
    /// There is no such service.
    Unsupported,
    /// The service refuses.
    Reject,
    /// There is no queue pair.
    NoQp,
    /// Ask somewhere else.
    Redirect,
    /// The version is unknown.
    UnsupportedVersion,
}

/// A path of a REQ or a LAP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// The sender's LID.
    pub local_lid: u16,
    /// The receiver's LID.
    pub remote_lid: u16,
    /// The sender's GID.
    pub local_gid: Gid,
    /// The receiver's GID.
    pub remote_gid: Gid,
    /// Flow label.
    pub flow_label: u32,
    /// Rate, encoded.
    pub packet_rate: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Service level.
    pub sl: u8,
    /// Both ports are in one subnet.
    pub is_subnet_local: bool,
    /// Time to wait for an acknowledge, encoded.
    pub local_ack_timeout: u8,
}

/// The LID of a port of another subnet, which the sender of a message does not know (`IB_LID_PERMISSIVE`).
pub const PERMISSIVE: u16 = 0xffff;

impl Path {
    /// The path as its receiver has it: between subnets the numbers of the datagram that has told it stand for LIDs that are
    /// [`PERMISSIVE`]: the LID of its sender, with its service level, and the path bits of ours.
    ///
    /// IBTA volume 1, 12.7.
    pub const fn routed(mut self, slid: u16, sl: u8, path_bits: u8) -> Self {
        if self.is_subnet_local {
            return self;
        }
        if self.local_lid == PERMISSIVE {
            (self.local_lid, self.sl) = (slid, sl);
        }
        if self.remote_lid == PERMISSIVE {
            self.remote_lid = path_bits as u16;
        }
        self
    }
}

macro_rules! paths {
    ($message:ident $( $(#[$doc:meta])* $get:ident $set:ident: $local_lid:ident $remote_lid:ident $local_gid:ident
        $remote_gid:ident $flow_label:ident $packet_rate:ident $traffic_class:ident $hop_limit:ident $sl:ident
        $subnet_local:ident $ack_timeout:ident; )*) => {
        impl $message { $(
            $(#[$doc])*
            pub const fn $get(&self) -> Path {
                Path {
                    local_lid: self.$local_lid,
                    remote_lid: self.$remote_lid,
                    local_gid: self.$local_gid,
                    remote_gid: self.$remote_gid,
                    flow_label: self.$flow_label,
                    packet_rate: self.$packet_rate,
                    traffic_class: self.$traffic_class,
                    hop_limit: self.$hop_limit,
                    sl: self.$sl,
                    is_subnet_local: self.$subnet_local,
                    local_ack_timeout: self.$ack_timeout,
                }
            }

            /// Sets it.
            pub const fn $set(&mut self, path: &Path) {
                self.$local_lid = path.local_lid;
                self.$remote_lid = path.remote_lid;
                self.$local_gid = path.local_gid;
                self.$remote_gid = path.remote_gid;
                self.$flow_label = path.flow_label;
                self.$packet_rate = path.packet_rate;
                self.$traffic_class = path.traffic_class;
                self.$hop_limit = path.hop_limit;
                self.$sl = path.sl;
                self.$subnet_local = path.is_subnet_local;
                self.$ack_timeout = path.local_ack_timeout;
            }
        )* }
    };
}

paths! { Req
    /// The primary path.
    primary set_primary: primary_local_port_lid primary_remote_port_lid primary_local_port_gid primary_remote_port_gid
        primary_flow_label primary_packet_rate primary_traffic_class primary_hop_limit primary_sl primary_subnet_local
        primary_local_ack_timeout;
    /// The alternate path; it is one if [`Req::has_alternate`].
    alternate set_alternate: alternate_local_port_lid alternate_remote_port_lid alternate_local_port_gid
        alternate_remote_port_gid alternate_flow_label alternate_packet_rate alternate_traffic_class alternate_hop_limit
        alternate_sl alternate_subnet_local alternate_local_ack_timeout;
}

paths! { Lap
    /// The path that is offered.
    path set_path: alternate_local_port_lid alternate_remote_port_lid alternate_local_port_gid alternate_remote_port_gid
        alternate_flow_label alternate_packet_rate alternate_traffic_class alternate_hop_limit alternate_sl
        alternate_subnet_local alternate_local_ack_timeout;
}

impl Req {
    /// Whether there is an alternate path: its LID is one, or its GID is of an OmniPath port (`ib_is_opa_gid()`).
    pub const fn has_alternate(&self) -> bool {
        let [.., a, b, c, _, _, _, _, _] = self.alternate_local_port_gid.0;
        self.alternate_local_port_lid != 0 || matches!([a, b, c], [0x00, 0x06, 0x6a])
    }
}
