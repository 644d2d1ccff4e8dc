// SPDX-License-Identifier: GPL-2.0

//! Address vectors and address handles: `struct rdma_ah_attr` and `struct ib_ah` of `<rdma/ib_verbs.h>`.
//!
//! | lock | protects | taken in | inside |
//! |---|---|---|---|
//! | `Ah::av` | the address vector | any, interrupts off | nothing |
//! | `Av::route` | the cached route | any, interrupts off | nothing |

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
use crate::port_id::PortId;
use crate::route::Route;

/// An address vector: the path from a source GID to a destination IP address.
#[pin_data]
pub(crate) struct Av {
    /// The source: its GID is the source address, its net device the egress device.
    pub(crate) source: ARef<GidAttr>,
    /// The destination: IPv4 where the source GID is a mapped IPv4 address.
    pub(crate) destination: IpAddr,
    /// Destination GID and MAC address, traffic class, hop limit, flow label.
    pub(crate) fields: AhFields,
    /// The route of the last datagram, while no path uses it.
    #[pin]
    route: SpinLockIrq<Option<Route>>,
}

impl Av {
    /// Converts the attributes of `modify_qp` or `create_ah`. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` without a RoCE v2 source GID; `ENOMEM`.
    pub(crate) fn new(attr: &AhAttr<'_>) -> Result<Arc<Self>> {
        let owned = attr.to_owned();
        Self::between(owned.sgid_attr.ok_or(EINVAL)?, owned.fields)
    }

    /// The path from an entry of the GID table to the destination in `fields`. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` without a RoCE v2 source GID, or without a global route; `ENOMEM`.
    pub(crate) fn between(source: ARef<GidAttr>, fields: AhFields) -> Result<Arc<Self>> {
        let route = fields.grh.ok_or(EINVAL)?;
        if source.gid_type() != GidType::RoceV2 {
            return Err(EINVAL);
        }
        let destination = match source.gid().ipv4() {
            // A destination that is not a mapped IPv4 address is truncated, as in the C driver.
            Some(_) => IpAddr::V4(Ipv4Addr::from(last_four(route.dgid))),
            None => IpAddr::V6(Ipv6Addr::from(route.dgid.0)),
        };
        let new = pin_init!(Self {
            source,
            destination,
            fields,
            route <- new_spinlock_irq!(None, "Av::route"),
        });
        Arc::pin_init(new, GFP_ATOMIC)
    }

    /// Takes the route that the vector keeps, if any. Any context.
    #[inline]
    pub(crate) fn take_route(&self) -> Option<Route> {
        self.route.lock().take()
    }

    /// Keeps a route until it is taken, or the vector is dropped. Any context.
    #[inline]
    pub(crate) fn keep_route(&self, route: Option<Route>) {
        // Another QP may have returned one. It is dropped after the lock.
        let _other = core::mem::replace(&mut *self.route.lock(), route);
    }

    /// The GRH fields; a RoCE address vector always has them.
    #[inline]
    pub(crate) fn route(&self) -> GlobalRoute {
        self.fields.grh.unwrap_or_default()
    }

    /// The port of the source.
    #[inline]
    pub(crate) fn port(&self) -> PortId {
        PortId::of(self.source.port_num()).unwrap_or(PortId::First)
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
    /// The number of a user handle in work requests; 0 for kernel consumers, who use the handle itself.
    number: u32,
    pd: PdId,
    /// Taken in any context; nothing is locked inside.
    #[pin]
    av: SpinLockIrq<Arc<Av>>,
}

impl Ah {
    /// Creates a handle of a kernel consumer. Any context.
    ///
    /// # Errors
    ///
    /// As for [`Av::new`]; `ENOMEM`.
    pub(crate) fn for_kernel(pd: PdId, attr: &AhAttr<'_>) -> Result<Arc<Self>> {
        Self::new(0, pd, attr)
    }

    fn new(number: u32, pd: PdId, attr: &AhAttr<'_>) -> Result<Arc<Self>> {
        let av = Av::new(attr)?;
        Arc::pin_init(
            pin_init!(Self { number, pd, av <- new_spinlock_irq!(av, "Ah::av") }),
            GFP_ATOMIC,
        )
    }

    /// The number of a user handle in work requests; 0 for kernel consumers.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// The current address vector. Any context.
    #[inline]
    pub(crate) fn av(&self) -> Arc<Av> {
        self.av.lock().clone()
    }

    /// Replaces the address vector. Any context.
    ///
    /// # Errors
    ///
    /// As for [`Av::new`], or `ENOMEM`; the handle is then unchanged.
    pub(crate) fn modify(&self, attr: &AhAttr<'_>) -> Result {
        let mut av = Av::new(attr)?;
        core::mem::swap(&mut *self.av.lock(), &mut av);
        Ok(())
    }
}

/// The address handles of user space, by number.
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

    /// Creates a user handle.
    ///
    /// # Errors
    ///
    /// As for [`Av::new`]; `EBUSY` where all numbers are in use.
    pub(crate) fn create(&self, pd: PdId, attr: &AhAttr<'_>, ctx: &MaySleep) -> Result<Arc<Ah>> {
        let place = self.table.reserve(Gfp::kernel(ctx))?;
        let ah = Ah::new(place.index(), pd, attr)?;
        place.publish(ah.clone());
        Ok(ah)
    }

    /// Removes a user handle from the table: work requests do not find it any more.
    pub(crate) fn remove(&self, ah: &Ah, ctx: &MaySleep) {
        drop(self.table.remove(ah.number, ctx));
    }

    /// The address vector of the handle with `number`, if it belongs to `pd`. Any context.
    #[inline]
    pub(crate) fn find(&self, number: u32, pd: PdId) -> Option<Arc<Av>> {
        let guard = kernel::sync::rcu::read_lock();
        let ah = self.table.get(number, &guard)?;
        (ah.pd == pd).then(|| ah.av())
    }
}
