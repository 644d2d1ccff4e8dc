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

    /// Lets the handle have the source of an address vector, in place of the one that it had.
    ///
    /// The callers of verbs see to it that a handle is not changed while it is used.
    pub fn set_source(&self, source: Option<GidRef>) {
        let source = source.map_or(core::ptr::null(), GidRef::into_raw);
        // SAFETY: The member is a pointer, which is swapped whole.
        let old = unsafe {
            let member = &raw mut (*self.as_raw()).sgid_attr;
            AtomicPtr::from_ptr(member.cast()).swap(source.cast_mut(), Ordering::AcqRel)
        };
        // SAFETY: The handle owned that reference, if there was one; one swap returns it.
        drop((!old.is_null()).then(|| unsafe { GidRef::from_raw(old) }));
    }
}

impl Fresh<Ah> {
    /// Memory for an address handle for a vector, with a reference to the vector's source.
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
}

view_of! {
    /// The header in front of a datagram, as it was received: a GRH or what stands in its place.
    pub struct GrhView(ib_grh);
}

impl GrhView {
    /// The bytes, read once.
    #[inline]
    pub fn header(&self) -> NetworkHeader {
        // SAFETY: The header has 40 bytes; the memory may be anybody's.
        NetworkHeader::new(unsafe { self.as_raw().cast::<[u8; 40]>().read_volatile() })
    }
}

const _: () = assert!(size_of::<ib_grh>() == 40);

impl AhVector {
    /// Whether packets carry a global route.
    #[inline]
    pub fn has_route(&self) -> bool {
        u32::from(self.raw().ah_flags) & bindings::IB_AH_GRH != 0
    }

    /// The destination of the global route.
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
        // SAFETY: Any bytes are an address, and an address vector for RoCE has that member of the union.
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

    /// Sets the hop limit of the global route.
    pub fn set_hop_limit(&mut self, hop_limit: u8) {
        self.modify(|raw| raw.grh.hop_limit = hop_limit);
    }

    /// An address vector of a kind, `enum rdma_ah_attr_type`, from a port.
    pub fn new(kind: u32, port_num: u32, sl: u8) -> Self {
        let mut vector = Self::zeroed();
        vector.modify(|raw| {
            raw.type_ = kind;
            raw.port_num = port_num;
            raw.sl = sl;
        });
        vector
    }

    /// Sets where packets go in the subnet, and what of the path's source is not in the port's LID.
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

    /// Says that packets are to carry a global route that the device makes, for Omni-Path.
    pub fn make_globally_routed(&mut self) {
        self.modify(|raw| {
            if raw.type_ == bindings::RDMA_AH_ATTR_TYPE_OPA {
                raw.__bindgen_anon_1.opa.make_grd = true;
            }
        });
    }

    /// A reference to the source, if packets carry a global route.
    pub fn route_source(&self) -> Option<GidRef> {
        if !self.has_route() {
            return None;
        }
        self.sgid().map(|sgid| sgid.hold())
    }
}

/// In which context an address handle is made or destroyed: `enum rdma_create_ah_flags`, `enum rdma_destroy_ah_flags`.
pub struct AhContext<'a> {
    flags: u32,
    sleep: Option<Token<'a>>,
}

/// The token of a context.
enum Token<'a> {
    /// Another C entry point has made it.
    Borrowed(&'a MaySleep),
    /// The flags say so.
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

    /// The token, where the caller may sleep.
    #[inline]
    pub fn sleep(&self) -> Option<&MaySleep> {
        match self.sleep.as_ref()? {
            Token::Borrowed(sleep) => Some(sleep),
            Token::Own(sleep) => Some(sleep),
        }
    }
}

const _: () = assert!(bindings::RDMA_CREATE_AH_SLEEPABLE == bindings::RDMA_DESTROY_AH_SLEEPABLE);

// SAFETY: The header has `u32 flags`.
unsafe impl FromC for AhContext<'_> {
    type Raw = u32;

    #[inline]
    unsafe fn from_c(flags: u32) -> Self {
        let sleepable = flags & bindings::RDMA_CREATE_AH_SLEEPABLE != 0;
        // SAFETY: By the flag the caller says that it may sleep.
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
    /// The device of a bond that a packet would leave through: all of a flow do. `None` if there is none. Any context but
    /// hard interrupts.
    ///
    /// The packet begins with an Ethernet header, which IPv4 or IPv6 without options and UDP follow.
    pub fn slave_of_bond(&self, bond: &NetDevice, packet: SkBuff) -> Option<ARef<NetDevice>> {
        // SAFETY: The device and the bond are there; the helper looks at the headers that are in the packet, and returns a
        // reference.
        unsafe {
            let slave =
                bindings::rdma_slave_of_bond(self.as_raw(), bond.as_raw().cast(), packet.as_raw());
            NetDevice::from_counted(slave.cast())
        }
    }
}
