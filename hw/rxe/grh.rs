// SPDX-License-Identifier: GPL-2.0

//! The network header in front of a datagram, as its receiver gets it (IBTA volume 1, section 11.4.1.2; annex A17).

/// The 40 bytes in front of the payload of a datagram in its receive: an IPv6 header, or 20 zeroes and an IPv4 header.
#[derive(Clone, Copy)]
pub(crate) struct Grh([u8; Grh::LEN]);

impl Grh {
    const LEN: usize = 40;

    /// That of a datagram with this header.
    pub(crate) fn of(header: &[u8]) -> Self {
        let mut area = [0; Self::LEN];
        let start = Self::LEN.checked_sub(header.len());
        if let Some(place) = start.and_then(|at| area.get_mut(at..)) {
            place.copy_from_slice(header);
        }
        Self(area)
    }

    /// The bytes.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}
