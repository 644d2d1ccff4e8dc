// SPDX-License-Identifier: GPL-2.0

//! Multicast groups whose events handlers handle.

use kernel::{
    prelude::*,
    sync::{Arc, Mutex},
};
use kernel_ext::sync::{new_mutex, Completion as Done};
use rdma::{
    client::{
        qp::{Qp, Rts, Ud},
        Device, Work,
    },
    MaySleep,
};
use rdma_cm::{
    datagram::{Attached, Endpoint, Membership},
    handler::{Handler, Handling, Id},
    Address, Event, Options, Remote, Udp,
};

use crate::{
    ensure,
    handlers::{At, Note, Notes},
    net, send, Parts, Waited,
};

/// A member of groups, with where to send to.
#[pin_data]
struct Member {
    notes: Arc<Notes>,
    /// The group that it joins in its handler, when it has joined the first one.
    second: Address,
    #[pin]
    joined: Mutex<KVec<Remote>>,
}

impl Member {
    fn new(second: Address) -> Result<(Pin<KBox<Self>>, Arc<Notes>)> {
        let notes = Notes::new()?;
        let told = notes.clone();
        let init = pin_init!(Self {
            notes,
            second,
            joined <- new_mutex!(KVec::new(), "Member::joined"),
        });
        Ok((KBox::pin_init(init, GFP_KERNEL)?, told))
    }
}

impl<'d> Handler<'d, Udp> for Member {
    fn event(&self, id: &Handling<'_, 'd, Udp>, event: Event, _sleep: &MaySleep) -> Result {
        let note = match event {
            Event::MulticastJoin(remote, number) => {
                self.joined.lock().push(remote, GFP_KERNEL)?;
                if number == FIRST {
                    id.join(&self.second, Membership::Full, SECOND)?;
                }
                Note::Joined(number)
            }
            Event::MulticastError(error, number) => Note::NotJoined(error.to_errno(), number),
            _ => Note::Other,
        };
        self.notes.add(note)
    }
}

const FIRST: usize = 1;
const SECOND: usize = 2;

/// Two groups are joined, one of them in a handler; the queue pair hears the second one, until it is left.
pub(crate) fn join(device: &Device<'_>, own: impl At, sleep: &MaySleep) -> Result {
    let (net, options, at) = (&net(device)?, Options::default(), own(0));
    let [first, second] = GROUPS;
    let parts = Parts::new(device, sleep)?;
    let (member, notes) = Member::new(second)?;
    let id = Id::bind(device, net, &options, (&at, member), sleep)?;
    let qp: Qp<'_, Ud, Rts> = id.ready(parts.qp(sleep)?, sleep)?;
    let qp = Arc::new(qp, GFP_KERNEL)?;
    let received = Arc::pin_init(Done::new(), GFP_KERNEL)?;
    for _ in 0..2 {
        qp.post_receive(Work::new(device, 256, Waited(received.clone()), sleep)?)?;
    }
    id.join(&first, Membership::SendOnly, FIRST, sleep)?;
    notes.expect(&[Note::Joined(FIRST), Note::Joined(SECOND)], sleep)?;
    let group = *id.handler().joined.lock().get(1).ok_or(EIO)?;
    let attached = Attached::new(qp.clone(), &group, sleep)?;

    let mut sender = Endpoint::bind(device, net, &options, (&at, parts.qp(sleep)?), sleep)?;
    let to = sender.join(&second, Membership::SendOnly, sleep)?;
    ensure!(to.path.grh == group.path.grh, "{to:?} and {group:?}");
    send(&sender, (device, &to, 1), sleep)?;
    ensure!(received.wait_timeout(5000, sleep), "not received");
    drop(attached);
    id.leave(&second, sleep)?;
    send(&sender, (device, &to, 1), sleep)?;
    ensure!(!received.wait_timeout(200, sleep), "received after leaving");
    ensure!(!id.has_ended(), "the member has ended");
    Ok(())
}

/// On InfiniBand the subnet administrator lets a port join, or not: what it says is logged.
pub(crate) fn join_ib(device: &Device<'_>, sleep: &MaySleep) -> Result {
    let (net, options, at) = (&net(device)?, Options::default(), IPOIB);
    let parts = Parts::new(device, sleep)?;
    let (member, notes) = Member::new(GROUPS[1])?;
    let id = Id::bind(device, net, &options, (&at, member), sleep)?;
    id.join(&GROUPS[0], Membership::Full, FIRST, sleep)?;
    let (joined, refused) = (
        [Note::Joined(FIRST), Note::Joined(SECOND)],
        [Note::NotJoined(EINVAL.to_errno(), FIRST)],
    );
    match notes.expect_either(&joined, &refused, sleep)? {
        true => pr_info!("told|a handler|two groups\n"),
        false => pr_info!("told|a handler|MulticastError\n"),
    }
    let mut waits = Endpoint::bind(device, net, &options, (&at, parts.qp(sleep)?), sleep)?;
    let waited = waits.join(&GROUPS[0], Membership::Full, sleep);
    pr_info!("told|who waits|{:?}\n", waited.err());
    Ok(())
}

/// The address of the net device that the script makes at an InfiniBand port.
const IPOIB: Address = Address::V4([10, 3, 0, 1], 0);

const GROUPS: [Address; 2] = [
    Address::V4([239, 1, 2, 5], 0),
    Address::V4([239, 1, 2, 6], 0),
];
