// SPDX-License-Identifier: GPL-2.0

//! Address vectors, and the handles by which datagrams name them: `struct rdma_ah_attr` and `struct ib_ah` of
//! `<rdma/ib_verbs.h>`.

use core::net::IpAddr;
use core::net::{Ipv4Addr, Ipv6Addr};
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::Arc;
use kernel_ext::gfp::Gfp;
use kernel_ext::sync::{new_spinlock_irq, SpinLockIrq};
use kernel_ext::xarray::Table;
use rdma::{
    abi::ah::{AhFields, GlobalRoute},
    provider::ah::AhAttr,
};
use rdma::{Gid, GidAttr, GidType, MaySleep};

use crate::ids::PdId;
use crate::limits;

/// An address vector: from which GID to which IP address, and how.
pub(crate) struct Av {
    /// The source: its GID is the source address, its net device the way out.
    pub(crate) source: ARef<GidAttr>,
    /// The destination: IPv4 where the source GID is a mapped IPv4 address.
    pub(crate) destination: IpAddr,
    /// The rest: destination GID and MAC address, traffic class, hop limit, flow label.
    pub(crate) fields: AhFields,
}

impl Av {
    /// Takes the attributes of `modify_qp` or `create_ah` over. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` without a source GID of RoCE version 2.
    pub(crate) fn new(attr: &AhAttr<'_>) -> Result<Self> {
        let owned = attr.to_owned();
        let source = owned.sgid_attr.ok_or(EINVAL)?;
        let route = owned.fields.grh.ok_or(EINVAL)?;
        if source.gid_type() != GidType::RoceV2 {
            return Err(EINVAL);
        }
        let destination = match source.gid().ipv4() {
            // What is not a mapped address is cut, as in the stock driver.
            Some(_) => IpAddr::V4(Ipv4Addr::from(last_four(route.dgid))),
            None => IpAddr::V6(Ipv6Addr::from(route.dgid.0)),
        };
        Ok(Self {
            source,
            destination,
            fields: owned.fields,
        })
    }

    /// The route; an address vector of RoCE always has one.
    #[inline]
    pub(crate) fn route(&self) -> GlobalRoute {
        self.fields.grh.unwrap_or_default()
    }

    /// The source address.
    #[inline]
    pub(crate) fn source_address(&self) -> IpAddr {
        let gid = self.source.gid();
        match gid.ipv4() {
            Some(address) => IpAddr::V4(Ipv4Addr::from(address)),
            None => IpAddr::V6(Ipv6Addr::from(gid.0)),
        }
    }
}

fn last_four(gid: Gid) -> [u8; 4] {
    let [.., a, b, c, d] = gid.0;
    [a, b, c, d]
}

/// An address handle.
#[pin_data]
pub(crate) struct Ah {
    /// What user space names the handle by; 0 for kernel consumers, who name it by itself.
    number: u32,
    pd: PdId,
    /// Taken in any context; nothing is locked inside.
    #[pin]
    av: SpinLockIrq<Arc<Av>>,
}

impl Ah {
    /// A handle of a kernel consumer. Any context.
    ///
    /// # Errors
    ///
    /// As for [`Av::new`]; `ENOMEM`.
    pub(crate) fn for_kernel(pd: PdId, attr: &AhAttr<'_>) -> Result<Arc<Self>> {
        Self::new(0, pd, attr)
    }

    fn new(number: u32, pd: PdId, attr: &AhAttr<'_>) -> Result<Arc<Self>> {
        let av = Arc::new(Av::new(attr)?, GFP_ATOMIC)?;
        Arc::pin_init(
            pin_init!(Self { number, pd, av <- new_spinlock_irq!(av, "Ah::av") }),
            GFP_ATOMIC,
        )
    }

    /// The number that work requests of user space name the handle by; 0 for kernel consumers.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// The address vector, as it is now. Any context.
    #[inline]
    pub(crate) fn av(&self) -> Arc<Av> {
        self.av.lock().clone()
    }

    /// Replaces the address vector. Any context.
    ///
    /// # Errors
    ///
    /// As for [`Av::new`], or `ENOMEM`; the handle is as before then.
    pub(crate) fn modify(&self, attr: &AhAttr<'_>) -> Result {
        let mut av = Arc::new(Av::new(attr)?, GFP_ATOMIC)?;
        core::mem::swap(&mut *self.av.lock(), &mut av);
        Ok(())
    }
}

/// The address handles of user space by number.
#[pin_data]
pub(crate) struct Ahs {
    #[pin]
    table: Table<Ah>,
}

impl Ahs {
    /// An empty table.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self { table <- Table::new(limits::AH_NUMBERS) })
    }

    /// Makes a handle of user space.
    ///
    /// # Errors
    ///
    /// As for [`Av::new`]; `EBUSY` where all numbers are taken.
    pub(crate) fn create(&self, pd: PdId, attr: &AhAttr<'_>, ctx: &MaySleep) -> Result<Arc<Ah>> {
        let place = self.table.reserve(Gfp::kernel(ctx))?;
        let ah = Ah::new(place.index(), pd, attr)?;
        place.publish(ah.clone());
        Ok(ah)
    }

    /// Takes a handle of user space away: work requests do not find it any more.
    pub(crate) fn remove(&self, ah: &Ah, ctx: &MaySleep) {
        drop(self.table.remove(ah.number, ctx));
    }

    /// The address vector of handle `number`, if it belongs to `pd`. Any context.
    #[inline]
    pub(crate) fn find(&self, number: u32, pd: PdId) -> Option<Arc<Av>> {
        let guard = kernel::sync::rcu::read_lock();
        let ah = self.table.get(number, &guard)?;
        (ah.pd == pd).then(|| ah.av())
    }
}
