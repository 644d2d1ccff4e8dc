// SPDX-License-Identifier: GPL-2.0

//! Address handles: `struct ib_ah`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::sync::atomic::{AtomicPtr, Ordering};

use kernel::{prelude::*, sync::aref::ARef};
use kernel_ext::{
    entry::{view_of, FromC},
    net::{
        device::{MacAddress, NetDevice},
        skb::SkBuff,
    },
};
use rdma_bindings::{self as bindings, ib_ah, ib_grh};

use super::{
    ah_attr::AhVector,
    gid::GidRef,
    network_header::NetworkHeader,
    object::{constants, driver_object, links, Fresh},
    Ah, Device, Pd,
};
use crate::{Gid, MaySleep};

driver_object!(Ah, size_ib_ah);

impl Ah {
    links! {
        /// The device.
        device: Device = device;
        /// The protection domain.
        pd: Pd = pd;
    }
    constants! {
        /// `enum rdma_ah_attr_type`. Constant.
        kind: u32 = type_;
    }

    /// Replaces the source GID entry of the handle, and drops the former one.
    ///
    /// # Safety
    ///
    /// No request uses the handle meanwhile.
    unsafe fn set_source(&self, source: Option<GidRef>) {
        let source = source.map_or(core::ptr::null(), GidRef::into_raw);
        // SAFETY: The member is a pointer that is exchanged atomically.
        let old = unsafe {
            let member = &raw mut (*self.as_raw()).sgid_attr;
            AtomicPtr::from_ptr(member.cast()).swap(source.cast_mut(), Ordering::AcqRel)
        };
        // SAFETY: The handle owned the reference, which the exchange has removed.
        drop((!old.is_null()).then(|| unsafe { GidRef::from_raw(old) }));
    }
}

impl Fresh<Ah> {
    /// Allocates an address handle for a vector, with a reference to the vector's source.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new_ah(pd: &Pd, vector: &AhVector, sleep: Option<&MaySleep>) -> Result<Self> {
        let mut ah = Self::alloc(pd.device(), sleep)?;
        let raw: &mut ib_ah = ah.raw();
        raw.device = pd.device().as_raw();
        raw.pd = pd.as_raw();
        raw.type_ = vector.raw().type_;
        ah.set_source(vector.route_source());
        Ok(ah)
    }

    /// Replaces the source GID entry of the handle, and drops the former one.
    pub fn set_source(&mut self, source: Option<GidRef>) {
        // SAFETY: The driver has not created the handle yet, or has destroyed it.
        unsafe { self.members().set_source(source) };
    }

    /// The protection domain.
    pub fn pd(&self) -> &Pd {
        // SAFETY: Only the member is read.
        unsafe { self.members() }.pd()
    }
}

/// An address handle that a client modifies, as an argument of C.
///
/// # Invariants
///
/// No request uses the handle during the call, and nobody else modifies it.
pub struct IdleAh<'a>(&'a Ah);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for IdleAh<'_> {
    type Raw = *mut ib_ah;

    #[inline]
    unsafe fn from_c(raw: *mut ib_ah) -> Self {
        // INVARIANT: By the verbs' contract a client modifies a handle alone, and only one that no request uses.
        // SAFETY: By the safety requirements.
        Self(unsafe { <&Ah>::from_c(raw) })
    }
}

impl core::ops::Deref for IdleAh<'_> {
    type Target = Ah;

    fn deref(&self) -> &Ah {
        self.0
    }
}

impl IdleAh<'_> {
    /// Replaces the source GID entry of the handle, and drops the former one.
    pub fn set_source(&self, source: Option<GidRef>) {
        // SAFETY: By the type invariants.
        unsafe { self.0.set_source(source) };
    }
}

view_of! {
    /// The 40 bytes in front of a received datagram: a GRH, or an IP header in its place.
    pub struct GrhView(ib_grh);
}

impl GrhView {
    /// The bytes, read once.
    #[inline]
    pub fn header(&self) -> NetworkHeader {
        // SAFETY: The header has 40 bytes. The volatile read tolerates concurrent writers.
        NetworkHeader::new(unsafe { self.as_raw().cast::<[u8; 40]>().read_volatile() })
    }
}

const _: () = assert!(size_of::<ib_grh>() == 40);

impl AhVector {
    /// Whether packets carry a GRH.
    #[inline]
    pub fn has_route(&self) -> bool {
        u32::from(self.raw().ah_flags) & bindings::IB_AH_GRH != 0
    }

    /// The destination GID.
    #[inline]
    pub fn dgid(&self) -> Gid {
        Gid::from_raw(&self.raw().grh.dgid)
    }

    /// The Ethernet address of the next hop. `None` for an address vector that is not for RoCE.
    #[inline]
    pub fn dmac(&self) -> Option<MacAddress> {
        if self.raw().type_ != bindings::RDMA_AH_ATTR_TYPE_ROCE {
            return None;
        }
        // SAFETY: Any bytes are a valid address, and `roce` is the member of the union for RoCE.
        Some(unsafe { self.raw().__bindgen_anon_1.roce.dmac })
    }

    /// Sets the Ethernet address of the next hop, of an address vector for RoCE.
    pub fn set_dmac(&mut self, dmac: MacAddress) {
        self.modify(|raw| {
            if raw.type_ == bindings::RDMA_AH_ATTR_TYPE_ROCE {
                raw.__bindgen_anon_1.roce = bindings::roce_ah_attr { dmac };
            }
        });
    }

    /// Sets the hop limit of the GRH.
    pub fn set_hop_limit(&mut self, hop_limit: u8) {
        self.modify(|raw| raw.grh.hop_limit = hop_limit);
    }

    /// Creates an address vector of a type (`enum rdma_ah_attr_type`) for a port.
    pub fn new(kind: u32, port_num: u32, sl: u8) -> Self {
        let mut vector = Self::zeroed();
        vector.modify(|raw| {
            raw.type_ = kind;
            raw.port_num = port_num;
            raw.sl = sl;
        });
        vector
    }

    /// Sets the destination LID and the path bits of the source LID.
    pub fn set_lids(&mut self, dlid: u32, path_bits: u8) {
        self.modify(|raw| match raw.type_ {
            bindings::RDMA_AH_ATTR_TYPE_OPA => {
                raw.__bindgen_anon_1.opa = bindings::opa_ah_attr {
                    dlid,
                    src_path_bits: path_bits,
                    make_grd: false,
                };
            }
            bindings::RDMA_AH_ATTR_TYPE_IB => {
                raw.__bindgen_anon_1.ib = bindings::ib_ah_attr {
                    dlid: dlid as u16,
                    src_path_bits: path_bits,
                };
            }
            _ => {}
        });
    }

    /// Sets `make_grd` of an Omni-Path address vector: the device creates a GRH.
    pub fn make_globally_routed(&mut self) {
        self.modify(|raw| {
            if raw.type_ == bindings::RDMA_AH_ATTR_TYPE_OPA {
                raw.__bindgen_anon_1.opa.make_grd = true;
            }
        });
    }

    /// Takes a reference to the source GID entry, if packets carry a GRH.
    pub fn route_source(&self) -> Option<GidRef> {
        if !self.has_route() {
            return None;
        }
        self.sgid().map(|sgid| sgid.hold())
    }
}

/// The context in which an address handle is created or destroyed: `enum rdma_create_ah_flags`, `enum
/// rdma_destroy_ah_flags`.
pub struct AhContext<'a> {
    flags: u32,
    sleep: Option<Token<'a>>,
}

/// The token of a context that may sleep.
enum Token<'a> {
    /// Borrowed from another C entry point.
    Borrowed(&'a MaySleep),
    /// Made from the flags.
    Own(MaySleep),
}

impl<'a> AhContext<'a> {
    /// A context that may sleep.
    pub fn sleepable(sleep: &'a MaySleep) -> Self {
        Self {
            flags: bindings::RDMA_CREATE_AH_SLEEPABLE,
            sleep: Some(Token::Borrowed(sleep)),
        }
    }

    /// The flags, as drivers take them.
    #[inline]
    pub fn flags(&self) -> u32 {
        self.flags
    }

    /// The token, if the context may sleep.
    #[inline]
    pub fn sleep(&self) -> Option<&MaySleep> {
        match self.sleep.as_ref()? {
            Token::Borrowed(sleep) => Some(sleep),
            Token::Own(sleep) => Some(sleep),
        }
    }
}

const _: () = assert!(bindings::RDMA_CREATE_AH_SLEEPABLE == bindings::RDMA_DESTROY_AH_SLEEPABLE);

// SAFETY: `Raw` is the `u32` of the header.
unsafe impl FromC for AhContext<'_> {
    type Raw = u32;

    #[inline]
    unsafe fn from_c(flags: u32) -> Self {
        let sleepable = flags & bindings::RDMA_CREATE_AH_SLEEPABLE != 0;
        // SAFETY: By the header the flag promises a context that may sleep.
        let sleep = sleepable.then(|| unsafe { MaySleep::assume() });
        if let Some(sleep) = &sleep {
            sleep.check();
        }
        Self {
            flags,
            sleep: sleep.map(Token::Own),
        }
    }
}

impl Device {
    /// The port of a bond that a packet would leave through, which is the same for all packets of a flow. `None` if there
    /// is none. Any context except for hard interrupts.
    ///
    /// The packet begins with an Ethernet header, which IPv4 or IPv6 without options and UDP follow.
    pub fn slave_of_bond(&self, bond: &NetDevice, packet: SkBuff) -> Option<ARef<NetDevice>> {
        // SAFETY: The device and the bond are valid; the helper reads the headers in the packet, and returns a counted
        // reference.
        unsafe {
            let slave =
                bindings::rdma_slave_of_bond(self.as_raw(), bond.as_raw().cast(), packet.as_raw());
            NetDevice::from_counted(slave.cast())
        }
    }
}
