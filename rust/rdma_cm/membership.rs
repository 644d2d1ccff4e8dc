// SPDX-License-Identifier: GPL-2.0

//! Members of multicast groups.
//!
//! C headers: `include/rdma/ib_sa.h`, `include/rdma/ib_verbs.h`.

use kernel::{error::to_result, prelude::*, sync::Arc};
use rdma::{
    abi::gid::Gid,
    bindings,
    client::{
        qp::{Qp, Rts, Ud},
        DropsAnywhere,
    },
    MaySleep,
};

use crate::Remote;

/// How a group is joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// For receiving and sending.
    Full,
    /// For sending alone: the switches are not asked for the group's datagrams.
    SendOnly,
}

impl Membership {
    pub(crate) fn join_state(self) -> u8 {
        let member = match self {
            Self::Full => bindings::FULLMEMBER_JOIN,
            Self::SendOnly => bindings::SENDONLY_FULLMEMBER_JOIN,
        };
        1 << member
    }
}

/// The GID of a group that is joined.
///
/// # Errors
///
/// `EINVAL` for what is no group.
pub(crate) fn gid_of(group: &Remote) -> Result<Gid> {
    Ok(group.path.grh.ok_or(EINVAL)?.dgid)
}

/// Lets a queue pair receive the datagrams of a group.
pub(crate) fn attach(qp: &Qp<'_, Ud, Rts>, group: Gid) -> Result {
    let mut gid = group.to_raw();
    // SAFETY: The queue pair is valid; the GID is copied.
    to_result(unsafe { bindings::ib_attach_mcast(qp.as_raw(), &mut gid, 0) })
}

/// Ends what [`attach`] has begun.
pub(crate) fn detach(qp: &Qp<'_, Ud, Rts>, group: Gid) -> Result {
    let mut gid = group.to_raw();
    // SAFETY: The queue pair is valid; the GID is copied. One that is not attached is an error.
    to_result(unsafe { bindings::ib_detach_mcast(qp.as_raw(), &mut gid, 0) })
}

/// A queue pair that receives the datagrams of a group, until this is dropped: for full members whose events are handled.
pub struct Attached<'d> {
    qp: Arc<Qp<'d, Ud, Rts>>,
    group: Gid,
}

impl !DropsAnywhere for Attached<'_> {}

impl<'d> Attached<'d> {
    /// Attaches a queue pair to a group that is joined, with what `Event::MulticastJoin` has told of it.
    ///
    /// # Errors
    ///
    /// `EINVAL` for what is no group, and those of the driver.
    pub fn new(qp: Arc<Qp<'d, Ud, Rts>>, group: &Remote, sleep: &MaySleep) -> Result<Self> {
        sleep.check();
        let group = gid_of(group)?;
        attach(&qp, group)?;
        Ok(Self { qp, group })
    }
}

impl Drop for Attached<'_> {
    fn drop(&mut self) {
        // The driver cannot refuse what it has attached; if it does, the queue pair is destroyed later.
        let _ = detach(&self.qp, self.group);
    }
}
