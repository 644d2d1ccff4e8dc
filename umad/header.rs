// SPDX-License-Identifier: GPL-2.0

//! The header of a MAD in user space: who sends it to whom, `struct ib_user_mad_hdr`.
//!
//! Programs that have not asked for the index of the P_Key use the first bytes of it alone: `struct ib_user_mad_hdr_old`.
//!
//! C header: `include/uapi/rdma/ib_user_mad.h`.

use core::mem::offset_of;

use kernel_ext::bindings::{ib_user_mad_hdr, ib_user_mad_hdr_old};
use rdma::{
    abi::ah::GlobalRoute,
    client::mad::{Address, Source},
    Gid,
};

use crate::bytes::{part, set_part};

/// The layout of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Without the index of the P_Key.
    Old,
    /// With it.
    WithPkey,
}

impl Layout {
    /// The length of the header in bytes.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::Old => size_of::<ib_user_mad_hdr_old>(),
            Self::WithPkey => size_of::<ib_user_mad_hdr>(),
        }
    }
}

const SIZE: usize = size_of::<ib_user_mad_hdr>();

/// A header. In the old layout the bytes that it has not are zero.
#[derive(Clone, Copy)]
pub(crate) struct Header([u8; SIZE]);

/// Accessors of numbers in CPU byte order.
macro_rules! number {
    ($($(#[$attr:meta])* $get:ident $($set:ident)?: $type:ty = $member:ident;)*) => {$(
        $(#[$attr])*
        pub(crate) fn $get(&self) -> $type {
            <$type>::from_ne_bytes(self.get(offset_of!(ib_user_mad_hdr, $member)))
        }

        $(
            /// Sets it.
            pub(crate) fn $set(&mut self, value: $type) {
                self.set(offset_of!(ib_user_mad_hdr, $member), value.to_ne_bytes());
            }
        )?
    )*};
}

impl Header {
    /// A header of zeros.
    pub(crate) fn zeroed() -> Self {
        Self([0; SIZE])
    }

    /// The bytes of a layout.
    pub(crate) fn bytes(&self, layout: Layout) -> &[u8] {
        self.0.get(..layout.size()).unwrap_or(&[])
    }

    /// The bytes of a layout, to be filled in.
    pub(crate) fn bytes_mut(&mut self, layout: Layout) -> &mut [u8] {
        self.0.get_mut(..layout.size()).unwrap_or(&mut [])
    }

    /// All bytes.
    pub(crate) fn all(&self) -> &[u8; SIZE] {
        &self.0
    }

    fn get<const N: usize>(&self, at: usize) -> [u8; N] {
        part(&self.0, at)
    }

    fn set<const N: usize>(&mut self, at: usize, value: [u8; N]) {
        set_part(&mut self.0, at, &value);
    }

    number! {
        /// The number of the agent.
        id set_id: u32 = id;
        /// The time in milliseconds in which an answer should come.
        timeout_ms: u32 = timeout_ms;
        /// How often a request is repeated.
        retries: u32 = retries;
        /// The index of the P_Key.
        pkey_index: u16 = pkey_index;
    }

    /// Sets the status: 0, or a positive errno.
    pub(crate) fn set_status(&mut self, status: u32) {
        self.set(offset_of!(ib_user_mad_hdr, status), status.to_ne_bytes());
    }

    /// The number of the remote queue pair.
    pub(crate) fn qp_num(&self) -> u32 {
        u32::from_be_bytes(self.get(offset_of!(ib_user_mad_hdr, qpn)))
    }

    /// The remote LID.
    pub(crate) fn lid(&self) -> u16 {
        u16::from_be_bytes(self.get(offset_of!(ib_user_mad_hdr, lid)))
    }

    /// The remote GID, if the MAD has a GRH.
    pub(crate) fn gid(&self) -> Option<Gid> {
        let [has_grh] = self.get(offset_of!(ib_user_mad_hdr, grh_present));
        (has_grh != 0).then(|| Gid(self.get(offset_of!(ib_user_mad_hdr, gid))))
    }

    /// The destination of a MAD that is sent.
    pub(crate) fn address(&self) -> Address {
        let byte = |at| u8::from_ne_bytes(self.get(at));
        let route = self.gid().map(|dgid| GlobalRoute {
            dgid,
            flow_label: u32::from_be_bytes(self.get(offset_of!(ib_user_mad_hdr, flow_label))),
            sgid_index: byte(offset_of!(ib_user_mad_hdr, gid_index)),
            hop_limit: byte(offset_of!(ib_user_mad_hdr, hop_limit)),
            traffic_class: byte(offset_of!(ib_user_mad_hdr, traffic_class)),
        });
        Address {
            lid: self.lid(),
            sl: byte(offset_of!(ib_user_mad_hdr, sl)),
            path_bits: byte(offset_of!(ib_user_mad_hdr, path_bits)),
            route,
        }
    }

    /// The header of a MAD that was received by the agent `id`: `length` bytes, this header included.
    pub(crate) fn received(id: u32, length: usize, source: &Source) -> Self {
        let mut header = Self::zeroed();
        header.set_id(id);
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        header.set(offset_of!(ib_user_mad_hdr, length), length.to_ne_bytes());
        header.set(
            offset_of!(ib_user_mad_hdr, qpn),
            source.qp_num.to_be_bytes(),
        );
        header.set(offset_of!(ib_user_mad_hdr, lid), source.lid.to_be_bytes());
        header.set(offset_of!(ib_user_mad_hdr, sl), [source.sl]);
        header.set(offset_of!(ib_user_mad_hdr, path_bits), [source.path_bits]);
        header.set(
            offset_of!(ib_user_mad_hdr, pkey_index),
            source.pkey_index.to_ne_bytes(),
        );
        if let Some(route) = &source.route {
            header.set_route(route);
        }
        header
    }

    fn set_route(&mut self, route: &GlobalRoute) {
        self.set(offset_of!(ib_user_mad_hdr, grh_present), [1]);
        self.set(offset_of!(ib_user_mad_hdr, gid), route.dgid.0);
        self.set(offset_of!(ib_user_mad_hdr, gid_index), [route.sgid_index]);
        self.set(offset_of!(ib_user_mad_hdr, hop_limit), [route.hop_limit]);
        self.set(
            offset_of!(ib_user_mad_hdr, traffic_class),
            [route.traffic_class],
        );
        let flow_label = route.flow_label.to_be_bytes();
        self.set(offset_of!(ib_user_mad_hdr, flow_label), flow_label);
    }
}
