// SPDX-License-Identifier: GPL-2.0

//! Multicast groups and the QPs attached to them (IBTA volume 1, section 10.5).
//!
//! A group is identified by its GID: an IPv6 multicast address or a mapped IPv4 one. The first attached QP adds the
//! group's Ethernet address to the net device; joining the group at the IP layer is left to others
//! (`rdma_join_multicast`). Loopback of multicast packets is also done by the IP layer.
//!
//! | lock | protects | taken in | inside |
//! |---|---|---|---|
//! | `Groups::change` | attaching QPs to groups and detaching them against each other | process | `Groups::table`, the net device's address list |
//! | `Groups::table` | the members of groups | process, softirq; softirqs off | `Backlog::state` |
//!
//! An attached QP cannot be destroyed, so a group never has the last reference to one.

use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNode};
use kernel::sync::{new_mutex, Arc, ArcBorrow, Mutex};
use kernel_ext::net::device::{MacAddress, NetDevice};
use kernel_ext::sync::{new_spinlock_bh, SpinLockBh};
use rdma::{Gid, MaySleep};

use crate::backlog::{Next, Waiting};
use crate::limits;

/// A member of groups: a QP.
pub(crate) trait Member {
    /// Counts an attachment.
    fn count_attached(&self);

    /// Counts a detachment.
    fn count_detached(&self);

    /// Adds a packet to the backlog, which the work item handles, or this thread as `next`. Softirq or process context, also with
    /// locks of other QPs held.
    fn enqueue(this: ArcBorrow<'_, Self>, packet: Waiting, next: Option<&mut Next>);
}

/// A QP in a group, which it leaves when it was detached as often as attached: a program attaches it once for each MLID, of which
/// RoCE knows nothing, and `ib_core` counts the calls.
struct Membership<Q> {
    qp: Arc<Q>,
    calls: u32,
}

impl<Q> Clone for Membership<Q> {
    fn clone(&self) -> Self {
        Self {
            qp: self.qp.clone(),
            calls: self.calls,
        }
    }
}

type Members<Q> = KVec<Membership<Q>>;

struct Table<Q> {
    groups: RBTree<Gid, Members<Q>>,
    /// Number of groups, and of members in all groups.
    group_count: u32,
    attachments: u32,
}

/// The multicast groups of a device.
#[pin_data]
pub(crate) struct Groups<Q> {
    #[pin]
    change: Mutex<()>,
    #[pin]
    table: SpinLockBh<Table<Q>>,
}

/// The position of `qp` in the members of a group.
fn position<Q>(members: &Members<Q>, qp: &Arc<Q>) -> Option<usize> {
    members
        .iter()
        .position(|member| Arc::ptr_eq(&member.qp, qp))
}

/// The Ethernet address of a group (RFC 1112, section 6.4; RFC 2464, section 7).
fn mac_of(gid: Gid) -> MacAddress {
    let [.., a, b, c, d] = gid.0;
    match gid.ipv4() {
        Some([_, b, c, d]) => [0x01, 0x00, 0x5e, b & 0x7f, c, d],
        None => [0x33, 0x33, a, b, c, d],
    }
}

impl<Q: Member> Groups<Q> {
    /// No groups.
    pub(crate) fn new() -> impl PinInit<Self> {
        let table = Table {
            groups: RBTree::new(),
            group_count: 0,
            attachments: 0,
        };
        pin_init!(Self {
            change <- new_mutex!((), "rxe_mcast::change"),
            table <- new_spinlock_bh!(table, "rxe_mcast::table"),
        })
    }

    /// Attaches a QP to a group on `ndev`: `attach_mcast`. Attached again, it gets each packet once.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if memory is short, and beyond the device's limits; errors of the net device.
    pub(crate) fn attach(&self, gid: Gid, qp: &Arc<Q>, ndev: &NetDevice, ctx: &MaySleep) -> Result {
        let change = self.change.lock();
        let mut table = self.table.lock();
        let present = table.groups.get(&gid).map_or(0, KVec::len);
        if let Some(membership) = table.membership(gid, qp) {
            membership.calls = membership.calls.saturating_add(1);
            return Ok(());
        }
        let room = table.attachments < limits::MAX_TOTAL_MCAST_ATTACH
            && present < limits::MAX_MCAST_ATTACH as usize
            && (present != 0 || table.group_count < limits::MAX_MCAST_GROUPS);
        drop(table);
        if !room {
            return Err(ENOMEM);
        }
        // `change` is held, so the group does not change meanwhile.
        let mut members = Members::with_capacity(present.saturating_add(1), GFP_KERNEL)?;
        let new = Membership {
            qp: qp.clone(),
            calls: 1,
        };
        let replaced = if present == 0 {
            members.push(new, GFP_KERNEL)?;
            let node = RBTreeNode::new(gid, members, GFP_KERNEL)?;
            ndev.add_multicast(&mac_of(gid), ctx)?;
            let mut table = self.table.lock();
            table.groups.insert(node);
            table.group_count = table.group_count.saturating_add(1);
            table.attached(qp);
            None
        } else {
            let mut table = self.table.lock();
            let old = table.groups.get_mut(&gid).ok_or(EINVAL)?;
            // Capacity was reserved above.
            for member in old.iter() {
                members.push(member.clone(), GFP_ATOMIC)?;
            }
            members.push(new, GFP_ATOMIC)?;
            let old = core::mem::replace(old, members);
            table.attached(qp);
            Some(old)
        };
        drop(change);
        drop(replaced);
        Ok(())
    }

    /// Detaches a QP from a group: `detach_mcast`; it stays there if it was attached more often. `ndev` is the net device, if it
    /// still exists.
    ///
    /// # Errors
    ///
    /// `EINVAL` where the QP is not attached.
    pub(crate) fn detach(
        &self,
        gid: Gid,
        qp: &Arc<Q>,
        ndev: Option<&NetDevice>,
        ctx: &MaySleep,
    ) -> Result {
        let change = self.change.lock();
        let mut table = self.table.lock();
        let membership = table.membership(gid, qp).ok_or(EINVAL)?;
        membership.calls = membership.calls.saturating_sub(1);
        if membership.calls != 0 {
            return Ok(());
        }
        let members = table.groups.get_mut(&gid).ok_or(EINVAL)?;
        let at = position(members, qp).ok_or(EINVAL)?;
        let member = members.remove(at);
        let empty = members.is_empty();
        table.attachments = table.attachments.saturating_sub(1);
        qp.count_detached();
        let group = if empty {
            table.group_count = table.group_count.saturating_sub(1);
            table.groups.remove_node(&gid)
        } else {
            None
        };
        drop(table);
        if let (true, Some(ndev)) = (empty, ndev) {
            ndev.remove_multicast(&mac_of(gid), ctx);
        }
        drop(change);
        drop((member, group));
        Ok(())
    }

    /// Calls `copy` for each member of a group, and adds the packet to the member's backlog; without memory the packet is lost for
    /// that member. Softirq context.
    pub(crate) fn deliver(&self, gid: Gid, copy: impl Fn() -> Option<Waiting>) {
        let table = self.table.lock();
        for member in table.groups.get(&gid).into_iter().flatten() {
            if let Some(packet) = copy() {
                Q::enqueue(member.qp.as_arc_borrow(), packet, None);
            }
        }
    }
}

impl<Q: Member> Table<Q> {
    /// The membership of a QP in a group.
    fn membership(&mut self, gid: Gid, qp: &Arc<Q>) -> Option<&mut Membership<Q>> {
        let members = self.groups.get_mut(&gid)?;
        let at = position(members, qp)?;
        members.get_mut(at)
    }

    fn attached(&mut self, qp: &Q) {
        self.attachments = self.attachments.saturating_add(1);
        qp.count_attached();
    }
}
