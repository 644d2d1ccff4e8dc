// SPDX-License-Identifier: GPL-2.0

//! Received messages: `struct ib_mad_recv_wc`.
//!
//! C header: `include/rdma/ib_mad.h`.

use core::{marker::PhantomData, ptr::NonNull};

use kernel::{error::to_result, prelude::*};
use rdma_bindings::{self as bindings, ib_mad_recv_buf, ib_mad_recv_wc, list_head};

use super::view::AgentRef;
use crate::{
    abi::ah::GlobalRoute,
    core::{address_vector::AddressVector, Device},
    Gid, MaySleep,
};

/// A received message. It may be dropped in any context, also after its agent.
///
/// # Invariants
///
/// `self` owns the message. Its list begins with its first segment, and each segment has memory of `mad_seg_size` bytes.
pub struct Received(NonNull<ib_mad_recv_wc>);

// SAFETY: Messages may be used and freed by any thread.
unsafe impl Send for Received {}
// SAFETY: Shared references only read.
unsafe impl Sync for Received {}

/// The sender of a message.
#[derive(Clone, Copy)]
pub struct Source {
    /// The number of its queue pair.
    pub qp_num: u32,
    /// Its LID, of which an OPA device tells the lower half.
    pub lid: u16,
    /// The service level.
    pub sl: u8,
    /// The path bits of the destination LID.
    pub path_bits: u8,
    /// The index of the P_Key.
    pub pkey_index: u16,
    /// The route back to it, if the message has a GRH.
    pub route: Option<GlobalRoute>,
}

/// What the completion of a message tells beside the address.
#[derive(Clone, Copy)]
pub struct Completion {
    /// The index of the P_Key.
    pub pkey_index: u16,
    /// The LID of the sender.
    pub slid: u32,
    /// The service level.
    pub sl: u8,
    /// The path bits of the destination LID.
    pub dlid_path_bits: u8,
}

/// What tells the senders of messages apart: the GID, and the LID for those without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Its GID, if the message has one.
    pub gid: Option<Gid>,
    /// Its LID; 0 on RoCE.
    pub lid: u32,
}

impl Received {
    /// Takes a message over from the layer. `None` if it was not received well; it is freed then.
    ///
    /// # Safety
    ///
    /// The layer gives the message up.
    pub(super) unsafe fn from_raw(raw: *mut ib_mad_recv_wc) -> Option<Self> {
        // INVARIANT: By the safety requirements. The layer's messages are so.
        // SAFETY: The layer's messages are not null.
        let message = Self(unsafe { NonNull::new_unchecked(raw) });
        (message.wc().status == bindings::IB_WC_SUCCESS).then_some(message)
    }

    fn raw(&self) -> &ib_mad_recv_wc {
        // SAFETY: By the type invariants.
        unsafe { self.0.as_ref() }
    }

    fn wc(&self) -> &bindings::ib_wc {
        // SAFETY: The completion lies in the memory of the message.
        unsafe { &*self.raw().wc }
    }

    /// The length of the message in bytes: the headers once, and the data of all segments.
    pub fn length(&self) -> usize {
        usize::try_from(self.raw().mad_len).unwrap_or(0)
    }

    /// The length of each segment in bytes, with its headers.
    pub fn segment_size(&self) -> usize {
        self.raw().mad_seg_size
    }

    /// The segments, at least one, in order. The last one has bytes after the end of the message.
    pub fn segments(&self) -> Segments<'_> {
        let raw = self.0.as_ptr();
        Segments {
            // SAFETY: The members lie in the message.
            head: unsafe { &raw mut (*raw).rmpp_list },
            // SAFETY: As above.
            next: unsafe { &raw mut (*raw).recv_buf.list },
            size: self.segment_size(),
            _message: PhantomData,
        }
    }

    /// Who has sent it to the agent.
    ///
    /// # Errors
    ///
    /// Those of finding the route back: `EINVAL`, `ENOENT`, `ENODEV`.
    pub fn source(&self, agent: &AgentRef<'_>, sleep: &MaySleep) -> Result<Source> {
        let wc = self.wc();
        let has_route = wc.wc_flags as u32 & bindings::IB_WC_GRH != 0;
        Ok(Source {
            qp_num: wc.src_qp,
            lid: wc.slid as u16,
            sl: wc.sl,
            path_bits: wc.dlid_path_bits,
            pkey_index: wc.pkey_index,
            route: has_route.then(|| self.route(agent, sleep)).transpose()?,
        })
    }

    /// The first segment, which is all of a message without RMPP.
    pub fn bytes(&self) -> &[u8] {
        self.segments().next().unwrap_or_default()
    }

    /// The completion: the index of the partition key, the LID of the sender, the service level, and the bits of our LID.
    pub fn completion(&self) -> Completion {
        let wc = self.wc();
        Completion {
            pkey_index: wc.pkey_index,
            slid: wc.slid,
            sl: wc.sl,
            dlid_path_bits: wc.dlid_path_bits,
        }
    }

    /// Whom it is from, as far as the message tells it by itself.
    pub fn origin(&self) -> Origin {
        let wc = self.wc();
        let has_route = wc.wc_flags as u32 & bindings::IB_WC_GRH != 0;
        Origin {
            gid: has_route.then(|| self.source_gid()).flatten(),
            lid: wc.slid,
        }
    }

    /// The source of the header in front of a message that has one.
    fn source_gid(&self) -> Option<Gid> {
        let header = self.raw().recv_buf.grh.cast();
        let (mut source, mut destination) = (pin_init::zeroed(), pin_init::zeroed());
        // SAFETY: The header belongs to the message and is a `union rdma_network_hdr`. The functions read it, and write the GIDs.
        let result = unsafe {
            let network = match bindings::ib_get_rdma_header_version(header) {
                4 => bindings::RDMA_NETWORK_IPV4,
                _ => bindings::RDMA_NETWORK_IPV6,
            };
            bindings::ib_get_gids_from_rdma_hdr(header, network, &mut source, &mut destination)
        };
        to_result(result).ok()?;
        Some(Gid::from_raw(&source))
    }

    /// The address of the sender, from a port that has received the message.
    ///
    /// # Errors
    ///
    /// Those of finding the way back: `EINVAL`, `ENOENT`, `ENODEV`.
    pub fn sender(&self, device: &Device, port: u32, sleep: &MaySleep) -> Result<AddressVector> {
        sleep.check();
        device.check_port(port)?;
        let (wc, grh) = (self.raw().wc, self.raw().recv_buf.grh);
        // SAFETY: The device is registered during the call, by its type, and has the port; the completion and the GRH belong to the message. The function
        // fills the structure in, unless it fails.
        unsafe {
            AddressVector::with(|raw| {
                to_result(bindings::ib_init_ah_attr_from_wc(
                    device.as_raw(),
                    port,
                    wc,
                    grh,
                    raw,
                ))
            })
        }
    }

    fn route(&self, agent: &AgentRef<'_>, sleep: &MaySleep) -> Result<GlobalRoute> {
        sleep.check();
        let mut attr: bindings::rdma_ah_attr = pin_init::zeroed();
        let (device, port) = (agent.device().as_raw(), agent.port());
        // SAFETY: The device is registered as long as its agents. The completion and the GRH belong to the message. What the function
        // fills in is given back below.
        unsafe {
            let grh = self.raw().recv_buf.grh;
            to_result(bindings::ib_init_ah_attr_from_wc(
                device,
                port,
                self.raw().wc,
                grh,
                &mut attr,
            ))?;
            let route = GlobalRoute {
                dgid: Gid::from_raw(&attr.grh.dgid),
                flow_label: attr.grh.flow_label,
                sgid_index: attr.grh.sgid_index,
                hop_limit: attr.grh.hop_limit,
                traffic_class: attr.grh.traffic_class,
            };
            bindings::rdma_destroy_ah_attr(&mut attr);
            Ok(route)
        }
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::ib_free_recv_mad(self.0.as_ptr()) };
    }
}

/// An iterator over the bytes of a message's segments.
///
/// # Invariants
///
/// `next` is the link of a segment in the list `head`, or `head`.
pub struct Segments<'a> {
    head: *mut list_head,
    next: *mut list_head,
    size: usize,
    _message: PhantomData<&'a Received>,
}

impl<'a> Iterator for Segments<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.next == self.head {
            return None;
        }
        // SAFETY: By the type invariants the link is that of a segment, with so much memory. The list does not change as long as the
        // message is borrowed.
        unsafe {
            let segment: *mut ib_mad_recv_buf =
                kernel::container_of!(self.next, ib_mad_recv_buf, list);
            // INVARIANT: The next entry of a circular list.
            self.next = (*self.next).next;
            let bytes = (*segment).__bindgen_anon_1.mad;
            Some(core::slice::from_raw_parts(bytes.cast(), self.size))
        }
    }
}
