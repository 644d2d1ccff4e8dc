// SPDX-License-Identifier: GPL-2.0

//! Multicast groups that an identifier joins: over Ethernet by IGMP, on InfiniBand by the subnet administrator.
//!
//! C headers: `include/rdma/rdma_cm.h`, `include/rdma/ib_sa.h`.

use cm_rules::{
    address::Address,
    multicast::{ib_gid, Broadcast, RoceJoin},
    param::MULTICAST_QPN,
    path::mtu,
    port_space::PortSpace,
    state::{look_up, Input},
};
use kernel::{
    impl_has_work, new_work,
    prelude::*,
    sync::{new_mutex, Arc, Mutex},
    workqueue::Work,
};
use kernel_ext::{
    bindings::{
        IB_QPT_UD, RDMA_CM_EVENT_MULTICAST_ERROR, RDMA_CM_EVENT_MULTICAST_JOIN, RDMA_PS_IPOIB,
    },
    error::{EAFNOSUPPORT, ENOSYS},
    net::device::NetDevice,
    sleepable::{self, Sleepable, SleepableWork},
};
use rdma::{
    core::{
        cma::{
            device::{group_address, igmp},
            event::{Datagram, Event, GroupContext},
            handler::inform,
            multicast::{self, Joins, Member},
        },
        iw::address::SockAddr,
    },
    Gid, MaySleep,
};

use crate::{
    address::{error, gid_of, parse},
    attach,
    connect::take_qkey,
    devices::has_sa,
    id::{Bound, CmId, Leaves, Membership},
    jobs::QUEUE,
    qp::set_default_qkey,
    tables,
};

/// A group over Ethernet.
#[pin_data]
struct Ethernet {
    id: Arc<CmId>,
    context: GroupContext,
    join: RoceJoin,
    /// What is told.
    #[pin]
    datagram: Mutex<Option<Result<Datagram<'static>>>>,
    #[pin]
    work: Work<Sleepable<Ethernet>>,
}

impl_has_work! {
    impl HasWork<Sleepable<Self>> for Ethernet { self.work }
}

/// The event of a group.
fn event(context: GroupContext, joined: Result<Datagram<'static>>) -> Event<'static> {
    match joined {
        Ok(datagram) => Event::of_group(RDMA_CM_EVENT_MULTICAST_JOIN, 0, context, datagram),
        Err(error) => {
            let none = Datagram::default();
            let status = error.to_errno();
            Event::of_group(RDMA_CM_EVENT_MULTICAST_ERROR, status, context, none)
        }
    }
}

/// Where datagrams to a group are sent to.
fn datagram(id: &CmId, bound: &Bound, member: &mut Member) -> Result<Datagram<'static>> {
    let ndev = attach::net_device(id);
    let kind = bound.dev.gid_type(bound.port) as u32;
    let record = member.raw_mut();
    let vector = group_address(&bound.device, bound.port, record, ndev.as_deref(), kind)?;
    Ok(Datagram {
        private_data: &[],
        vector: Some(vector),
        qp_num: MULTICAST_QPN,
        qkey: id.with(|inner| inner.qkey),
    })
}

/// Tells the event of a group. A client that returns an error for it is ignored: it cannot give the identifier up so.
fn tell_joined(id: &Arc<CmId>, mut event: Event<'_>, sleep: &MaySleep) {
    let handling = id.body.handling(sleep);
    if look_up(id.state(), Input::Multicast).is_none() {
        return;
    }
    if inform(id, &mut event, &handling, sleep) != 0 {
        kernel::pr_warn_once!("the handler of a group's event has failed\n");
    }
}

impl SleepableWork for Ethernet {
    fn run(this: Arc<Self>, sleep: &MaySleep) {
        let datagram = this.datagram.lock().take();
        if let Some(joined) = datagram {
            tell_joined(&this.id, event(this.context, joined), sleep);
        }
    }
}

/// A group over Ethernet that an identifier has joined.
struct OverEthernet {
    group: Arc<Ethernet>,
    /// The index of the net device on which it was joined.
    net_device: u32,
}

impl Leaves for OverEthernet {
    fn leave(&self, id: &CmId, sleep: &MaySleep) {
        let ndev = NetDevice::by_index(id.body.net(), self.net_device);
        if let (Some(ndev), true) = (ndev, self.group.join.igmp) {
            let [.., a, b, c, d] = self.group.join.gid;
            igmp(&ndev, [a, b, c, d], false, sleep);
        }
        sleepable::cancel_sync(&self.group, sleep);
    }
}

fn join_ethernet(
    id: &Arc<CmId>,
    bound: &Bound,
    (address, join_state): (&Address, u8),
    context: GroupContext,
    sleep: &MaySleep,
) -> Result<KBox<dyn Leaves>> {
    let kind = bound.dev.gid_type(bound.port);
    // A group without a net device is none, whatever the address is, unless that is no address.
    if address.is_zero() {
        return Err(EINVAL);
    }
    let ndev = attach::net_device(id).ok_or(ENODEV)?;
    let join = RoceJoin::new(address, join_state, kind).map_err(error)?;
    let init = pin_init!(Ethernet {
        id: id.clone(),
        context,
        join,
        datagram <- new_mutex!(None, "Ethernet::datagram"),
        work <- new_work!("Ethernet::work"),
    });
    let group = Arc::pin_init(init, GFP_KERNEL)?;
    let over = OverEthernet {
        group: group.clone(),
        net_device: ndev.index(),
    };
    let boxed: KBox<dyn Leaves> = KBox::new(over, GFP_KERNEL)?;
    let (hop_limit, [.., a, b, c, d]) = (group.join.hop_limit, group.join.gid);
    if group.join.igmp && !igmp(&ndev, [a, b, c, d], true, sleep) {
        return Err(ENODEV);
    }
    let Some(mtu) = mtu(ndev.mtu()) else {
        boxed.leave(id, sleep);
        return Err(EINVAL);
    };
    if id.with(|inner| inner.qkey) == 0 {
        let _ = set_default_qkey(id, bound);
    }
    let source = id.ends().0.as_ref().and_then(gid_of).unwrap_or_default();
    let mut member = Member::over_ethernet(Gid(group.join.gid), source, (mtu, hop_limit));
    *group.datagram.lock() = Some(datagram(id, bound, &mut member));
    QUEUE.with(|queue| sleepable::enqueue(queue, &group));
    Ok(boxed)
}

/// A group on InfiniBand.
struct OnInfiniBand {
    id: Arc<CmId>,
    context: GroupContext,
}

impl Joins for OnInfiniBand {
    fn joined(this: &Arc<Self>, result: Result, mut member: Member, sleep: &MaySleep) {
        // Stock keeps the Q_Key of a group before it looks whether it was joined.
        if take_qkey(&this.id, member.qkey()).is_err() {
            return;
        }
        let Some(bound) = this.id.bound() else { return };
        let joined = result.and_then(|()| datagram(&this.id, &bound, &mut member));
        tell_joined(&this.id, event(this.context, joined), sleep);
    }
}

/// A group on InfiniBand that an identifier has joined.
struct Joined(Kept);

/// The membership, until it is left.
type Kept = Pin<KBox<Mutex<Option<multicast::Membership<OnInfiniBand>>>>>;

impl Leaves for Joined {
    fn leave(&self, _id: &CmId, _sleep: &MaySleep) {
        let membership = self.0.lock().take();
        drop(membership);
    }
}

fn join_infiniband(
    id: &Arc<CmId>,
    bound: &Bound,
    (address, join_state): (&Address, u8),
    context: GroupContext,
    sleep: &MaySleep,
) -> Result<KBox<dyn Leaves>> {
    let mut member = Member::of_broadcast(&bound.device, bound.port, &id.body)?;
    if id.with(|inner| inner.qkey) == 0 {
        set_default_qkey(id, bound)?;
    }
    let broadcast = id.body.broadcast();
    let hardware: &[u8; 20] = broadcast.first_chunk().ok_or(EINVAL)?;
    let on = Broadcast::from_hardware(hardware);
    let group = ib_gid(address, PortSpace::from_raw(id.body.space()), &on);
    let qkey = id.with(|inner| inner.qkey);
    member.ask(
        Gid(group),
        id.body.gids().0,
        (id.body.pkey(), qkey, join_state),
    );
    let this = Arc::new(
        OnInfiniBand {
            id: id.clone(),
            context,
        },
        GFP_KERNEL,
    )?;
    let client = tables::sa(sleep)?;
    let is_ipoib = id.body.space() == RDMA_PS_IPOIB;
    let place = (&*bound.device, bound.port);
    // Nothing fails behind the join, whose event may have been told by then.
    let kept = KBox::pin_init(new_mutex!(None, "Joined"), GFP_KERNEL)?;
    let joined = KBox::new(Joined(kept), GFP_KERNEL)?;
    let membership = multicast::join(&client, place, &mut member, is_ipoib, &this, sleep)?;
    *joined.0.lock() = Some(membership);
    Ok(joined)
}

/// Joins a group. Where datagrams are sent to is an event.
///
/// # Errors
///
/// `EINVAL` for a queue pair of the kernel, in a wrong state, and without datagrams; `ENODEV`, `ENOTSUPP`, `ENOSYS`, those of the subnet
/// administrator.
pub(crate) fn join(
    id: &Arc<CmId>,
    address: Option<SockAddr>,
    join_state: u8,
    context: GroupContext,
    sleep: &MaySleep,
) -> Result {
    if id.body.has_qp() {
        return Err(EINVAL);
    }
    let bound = id.device()?;
    id.call(Input::Join)?;
    if id.body.qp_type() != IB_QPT_UD {
        return Err(EINVAL);
    }
    let address = address.as_ref().and_then(parse).ok_or(EAFNOSUPPORT)?;
    let wanted = (&address, join_state);
    let joined = if bound.device.is_roce(bound.port) {
        join_ethernet(id, &bound, wanted, context, sleep)?
    } else if has_sa(&bound.device, bound.port) {
        join_infiniband(id, &bound, wanted, context, sleep)?
    } else {
        return Err(ENOSYS);
    };
    let mut groups = id.groups.lock();
    if let Err(error) = groups.reserve(1, GFP_KERNEL) {
        drop(groups);
        joined.leave(id, sleep);
        return Err(error.into());
    }
    let _ = groups.push_within_capacity(Membership { address, joined });
    Ok(())
}

/// Leaves the group of an address that was joined last. Its event is not told any more when this returns.
pub(crate) fn leave(id: &CmId, address: Option<SockAddr>, sleep: &MaySleep) {
    let Some(address) = address.as_ref().and_then(parse) else {
        return;
    };
    let mut groups = id.groups.lock();
    let at = groups.iter().rposition(|group| group.address == address);
    let group = at.and_then(|at| groups.remove(at).ok());
    drop(groups);
    if let Some(group) = group {
        group.joined.leave(id, sleep);
    }
}
