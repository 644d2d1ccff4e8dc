// SPDX-License-Identifier: GPL-2.0

//! Groups of InfiniBand, which the subnet administrator keeps, and their records.
//!
//! C header: `include/rdma/ib_sa.h`.

use core::ptr::NonNull;

use kernel::{
    error::{from_err_ptr, to_result},
    ffi::c_int,
    prelude::*,
    sync::Arc,
};
use rdma_bindings::{self as bindings, ib_sa_mcmember_rec, ib_sa_multicast};

use super::{
    id::IdBody,
    query::{component, SaClient},
};
use crate::{core::Device, Gid, MaySleep};

const IB_SA_MCMEMBER_REC_FLOW_LABEL: u64 = component(13);
const IB_SA_MCMEMBER_REC_HOP_LIMIT: u64 = component(14);
const IB_SA_MCMEMBER_REC_JOIN_STATE: u64 = component(16);
const IB_SA_MCMEMBER_REC_MGID: u64 = component(0);
const IB_SA_MCMEMBER_REC_MTU: u64 = component(5);
const IB_SA_MCMEMBER_REC_MTU_SELECTOR: u64 = component(4);
const IB_SA_MCMEMBER_REC_PKEY: u64 = component(7);
const IB_SA_MCMEMBER_REC_PORT_GID: u64 = component(1);
const IB_SA_MCMEMBER_REC_QKEY: u64 = component(2);
const IB_SA_MCMEMBER_REC_RATE: u64 = component(9);
const IB_SA_MCMEMBER_REC_RATE_SELECTOR: u64 = component(8);
const IB_SA_MCMEMBER_REC_SL: u64 = component(12);
const IB_SA_MCMEMBER_REC_TRAFFIC_CLASS: u64 = component(6);

/// The record of a group's member, as it is joined and as it is known.
pub struct Member(pub(super) ib_sa_mcmember_rec);

impl Member {
    /// A record over Ethernet, where nobody keeps it.
    pub fn over_ethernet(group: Gid, port: Gid, (mtu, hop_limit): (u8, u8)) -> Self {
        let mut raw: ib_sa_mcmember_rec = pin_init::zeroed();
        raw.mgid = group.to_raw();
        raw.port_gid = port.to_raw();
        raw.pkey = 0xffffu16.to_be();
        raw.rate = bindings::IB_RATE_PORT_CURRENT as u8;
        raw.hop_limit = hop_limit;
        raw.mtu = mtu;
        Self(raw)
    }

    /// The record of the broadcast group of IPoIB on the net device of an identifier.
    ///
    /// # Errors
    ///
    /// `EADDRNOTAVAIL` if nobody has joined it.
    pub fn of_broadcast(device: &Device, port: u32, body: &IdBody) -> Result<Self> {
        device.check_port(port)?;
        let mut raw: ib_sa_mcmember_rec = pin_init::zeroed();
        // SAFETY: All are valid during the calls, and the device has the port.
        to_result(unsafe {
            bindings::ib_addr_get_mgid(body.dev_addr(), &mut raw.mgid);
            let mut mgid = raw.mgid;
            bindings::ib_sa_get_mcmember_rec(device.as_raw(), port, &mut mgid, &mut raw)
        })?;
        Ok(Self(raw))
    }

    /// The Q_Key.
    pub fn qkey(&self) -> u32 {
        u32::from_be(self.0.qkey)
    }

    /// The record, to make an address of.
    pub fn raw_mut(&mut self) -> &mut ib_sa_mcmember_rec {
        &mut self.0
    }

    /// Sets what is asked for.
    pub fn ask(&mut self, group: Gid, port: Gid, (pkey, qkey, join_state): (u16, u32, u8)) {
        self.0.mgid = group.to_raw();
        self.0.port_gid = port.to_raw();
        self.0.pkey = pkey.to_be();
        self.0.qkey = qkey.to_be();
        self.0.join_state = join_state;
    }
}

/// Who has joined a group.
pub trait Joins: Send + Sync + 'static {
    /// The group is joined, or not. Process context.
    fn joined(this: &Arc<Self>, result: Result, member: Member, sleep: &MaySleep);
}

/// A group that is joined. Dropping it leaves the group, and waits for the callback.
///
/// # Invariants
///
/// The core has the group, whose context is a reference to a `J`.
pub struct Membership<J: Joins>(NonNull<ib_sa_multicast>, *const J);

// SAFETY: Groups may be left by any thread.
unsafe impl<J: Joins> Send for Membership<J> {}
// SAFETY: As above.
unsafe impl<J: Joins> Sync for Membership<J> {}

/// Joins a group. `is_ipoib`: what the broadcast group has counts, too.
///
/// # Errors
///
/// Those of the core.
pub fn join<J: Joins>(
    client: &SaClient,
    (device, port): (&Device, u32),
    member: &mut Member,
    is_ipoib: bool,
    this: &Arc<J>,
    _sleep: &MaySleep,
) -> Result<Membership<J>> {
    let mut mask = IB_SA_MCMEMBER_REC_MGID
        | IB_SA_MCMEMBER_REC_PORT_GID
        | IB_SA_MCMEMBER_REC_PKEY
        | IB_SA_MCMEMBER_REC_JOIN_STATE
        | IB_SA_MCMEMBER_REC_QKEY
        | IB_SA_MCMEMBER_REC_SL
        | IB_SA_MCMEMBER_REC_FLOW_LABEL
        | IB_SA_MCMEMBER_REC_TRAFFIC_CLASS;
    if is_ipoib {
        mask |= IB_SA_MCMEMBER_REC_RATE
            | IB_SA_MCMEMBER_REC_RATE_SELECTOR
            | IB_SA_MCMEMBER_REC_MTU_SELECTOR
            | IB_SA_MCMEMBER_REC_MTU
            | IB_SA_MCMEMBER_REC_HOP_LIMIT;
    }
    device.check_port(port)?;
    let context = Arc::into_raw(this.clone());
    // SAFETY: The client is registered, the device valid, and the port one of it. The context stays until the group is left.
    let made = unsafe {
        from_err_ptr(bindings::ib_sa_join_multicast(
            client.as_raw(),
            device.as_raw(),
            port,
            &mut member.0,
            mask,
            kernel::bindings::GFP_KERNEL,
            Some(on_joined::<J>),
            context.cast_mut().cast(),
        ))
    };
    match made.and_then(|raw| NonNull::new(raw).ok_or(EINVAL)) {
        // INVARIANT: The group was just joined with this context.
        Ok(raw) => Ok(Membership(raw, context)),
        Err(error) => {
            // SAFETY: The core has refused, and does not call back.
            drop(unsafe { Arc::from_raw(context) });
            Err(error)
        }
    }
}

/// # Safety
///
/// The core calls it with a group of [`join`], in process context.
unsafe extern "C" fn on_joined<J: Joins>(status: c_int, multicast: *mut ib_sa_multicast) -> c_int {
    // SAFETY: By the safety requirements the context is a reference, which stays until the group is left.
    let (this, member) = unsafe {
        let this = core::mem::ManuallyDrop::new(Arc::from_raw((*multicast).context.cast::<J>()));
        (Arc::clone(&this), Member((*multicast).rec))
    };
    // SAFETY: Process context.
    J::joined(&this, to_result(status), member, &unsafe {
        MaySleep::assume()
    });
    0
}

impl<J: Joins> Drop for Membership<J> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants. The callback does not run any more when the function returns, so that the reference is given up.
        unsafe {
            bindings::ib_sa_free_multicast(self.0.as_ptr());
            drop(Arc::from_raw(self.1));
        }
    }
}
