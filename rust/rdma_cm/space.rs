// SPDX-License-Identifier: GPL-2.0

//! Port spaces: `enum rdma_ucm_port_space`. An identifier has one in its type, and with it the transport of its queue pair.
//!
//! C header: `include/uapi/rdma/rdma_user_cm.h`.

use kernel::prelude::*;
use rdma::{
    bindings::{self, ib_qp_type, rdma_ucm_port_space},
    client::qp::{Rc, Transport, Ud},
};

use crate::{Event, Offer};

mod sealed {
    pub trait Sealed {}
}

/// A port space.
pub trait PortSpace: sealed::Sealed + Send + Sync + Sized + 'static {
    /// The transport of the queue pairs.
    type Transport: Transport;
    /// What a request carries.
    type Request;
    /// The number of the port space.
    #[doc(hidden)]
    const SPACE: rdma_ucm_port_space;
    /// The service ID of its port 0.
    #[doc(hidden)]
    const SERVICES: u64;
    /// The type of the queue pairs.
    #[doc(hidden)]
    const QP_TYPE: ib_qp_type;

    /// What a request carries, if the event is one.
    #[doc(hidden)]
    fn request(event: Event) -> Option<Self::Request>;
}

/// Connections (RC): `RDMA_PS_TCP`.
pub struct Tcp;

impl sealed::Sealed for Tcp {}

impl PortSpace for Tcp {
    type Transport = Rc;
    type Request = Offer;
    const SPACE: rdma_ucm_port_space = bindings::RDMA_PS_TCP;
    const SERVICES: u64 = bindings::RDMA_IB_IP_PS_TCP as u64;
    const QP_TYPE: ib_qp_type = bindings::IB_QPT_RC;

    fn request(event: Event) -> Option<Offer> {
        match event {
            Event::ConnectRequest(offer) => Some(offer),
            _ => None,
        }
    }
}

/// Datagrams (UD): `RDMA_PS_UDP`.
pub struct Udp;

impl sealed::Sealed for Udp {}

impl PortSpace for Udp {
    type Transport = Ud;
    /// The private data: 180 bytes, padded at the end.
    type Request = KVec<u8>;
    const SPACE: rdma_ucm_port_space = bindings::RDMA_PS_UDP;
    const SERVICES: u64 = bindings::RDMA_IB_IP_PS_UDP as u64;
    const QP_TYPE: ib_qp_type = bindings::IB_QPT_UD;

    fn request(event: Event) -> Option<KVec<u8>> {
        match event {
            Event::Lookup(private_data) => Some(private_data),
            _ => None,
        }
    }
}
