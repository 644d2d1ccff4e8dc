// SPDX-License-Identifier: GPL-2.0

//! Address and capabilities of a subnet's SA: read from the port attributes, and updated on events that may change
//! them.
//!
//! IBTA specification, volume 1, sections 14.4.4 and 15.4.

use kernel::{prelude::*, sync::Arc};
use kernel_ext::{
    bindings as c, delayed,
    sleepable::{self, SleepableWork},
};
use rdma::{
    core::{
        ah_attr::AhVector,
        mad::{recv::RecvMad, send::SendFlags},
    },
    Gid, MaySleep,
};

use super::{
    query::{self, attribute, record_of, SaRequest},
    record::CLASS_PORT_INFO,
    state::{Address, Capabilities, Query, QueryHandler, SaPort},
};
use crate::{device::queue::ib_wq, gid::cache, mad::header::method, registry::port, verbs::ah};

/// The P_Key of full members of the default partition.
const DEFAULT_PKEY: u16 = 0xffff;
/// The well-known GUID of the SA.
const WELL_KNOWN_GUID: u64 = 1 << 57 | 2;
/// The first multicast LID.
const MULTICAST_LID: u32 = 0xc000;
/// The permissive LID.
const PERMISSIVE_LID: u32 = 0xffff;
/// Delay of a query for the SA's capabilities, and of its retries.
const ASK_AFTER_MS: u32 = 1000;
/// Number of retries.
const MAX_RETRIES: u32 = 3;
/// Timeout of the query.
const TIMEOUT_MS: usize = 3000;

/// The address vector of the SA.
fn vector_of(port: &SaPort, attr: &c::ib_port_attr) -> AhVector {
    let (device, port_num) = (&port.device, port.port_num);
    let kind = ah::kind_of(device, port_num);
    let needs_route = device.port_caps(port_num) & c::RDMA_CORE_PORT_IB_GRH_REQUIRED != 0;
    let mut vector = AhVector::new(kind, port_num, attr.sm_sl);
    vector.set_lids(attr.sm_lid, 0);
    if needs_route || attr.sm_lid == PERMISSIVE_LID {
        vector.make_globally_routed();
    }
    if needs_route && kind == c::RDMA_AH_ATTR_TYPE_IB {
        let dgid = Gid::from_parts(attr.subnet_prefix.to_be_bytes(), WELL_KNOWN_GUID);
        vector.modify(|vector| {
            vector.ah_flags = c::IB_AH_GRH as u8;
            vector.grh.dgid = dgid.to_raw();
        });
    }
    vector
}

/// Creates the address of the SA.
///
/// # Errors
///
/// Errors of the driver, `ENOMEM`.
fn find(port: &SaPort, sleep: &MaySleep) -> Result<Address> {
    let (device, port_num) = (&port.device, port.port_num);
    let attr = port::query(device, port_num, sleep)?;
    let pkey = cache::of(device, port_num).and_then(|port| {
        let found = port.known.with(|known| known.find_pkey(DEFAULT_PKEY));
        found.flatten()
    });
    let mut vector = vector_of(port, &attr);
    let is_ib = vector.raw().type_ == c::RDMA_AH_ATTR_TYPE_IB;
    let ah = port.agent.qp.address(&mut vector, sleep)?;
    Ok(Address {
        ah: Arc::new(ah, GFP_KERNEL)?,
        pkey_index: pkey.unwrap_or(0),
        is_valid: !is_ib || (1..MULTICAST_LID).contains(&attr.sm_lid),
    })
}

/// Updates the address of the SA; on failure it stays as it was.
pub(super) fn update(port: &SaPort, sleep: &MaySleep) {
    match find(port, sleep).and_then(|found| Ok(Arc::new(found, GFP_KERNEL)?)) {
        Ok(found) => {
            let old = port.address.lock().replace(found);
            drop(old);
        }
        Err(error) => kernel::pr_warn_once!("a subnet administrator is not found: {:?}\n", error),
    }
}

impl SleepableWork<1> for SaPort {
    fn run(this: Arc<Self>, sleep: &MaySleep) {
        update(&this, sleep);
    }
}

/// Handles an event: the address of the SA is unknown until updated; with `is_another`, its capabilities too.
pub(super) fn changed(port: &Arc<SaPort>, is_another: bool) {
    let old = port.address.lock().take();
    drop(old);
    if is_another {
        *port.capabilities.lock() = Capabilities::default();
        ask_later(port);
    }
    ib_wq.with(|workers| sleepable::enqueue::<_, 1>(workers, port));
}

/// Completion of the ClassPortInfo query.
struct Answer;

/// Schedules a retry of the ClassPortInfo query, a limited number of times.
fn retry_later(port: &Arc<SaPort>) {
    let mut capabilities = port.capabilities.lock();
    if capabilities.known.is_some() {
        return;
    }
    capabilities.retries = capabilities.retries.saturating_add(1);
    if capabilities.retries > MAX_RETRIES {
        return;
    }
    drop(capabilities);
    ask_later(port);
}

/// Schedules the ClassPortInfo query.
fn ask_later(port: &Arc<SaPort>) {
    let delay = kernel::time::msecs_to_jiffies(ASK_AFTER_MS);
    ib_wq.with(|workers| delayed::enqueue::<_, 2>(workers, port, delay));
}

impl QueryHandler for Answer {
    fn answered(&self, query: &Query, status: Result, answer: Option<&RecvMad>, _sleep: &MaySleep) {
        if let (Ok(()), Some(answer)) = (status, answer) {
            let mut info = Default::default();
            // The buffer has the record's length.
            let _ = CLASS_PORT_INFO.unpack(&mut record_of::<8>(answer), &mut info);
            query.port.capabilities.lock().known = Some(info);
        }
        // A port that is being closed sends no more queries.
        if status != Err(EINTR) {
            retry_later(&query.port);
        }
    }
}

/// Queries the SA's ClassPortInfo.
fn get_class_port_info(port: &Arc<SaPort>, flags: &SendFlags<'_>) -> Result {
    let request = SaRequest {
        port: port.clone(),
        is_opa: port.is_opa,
        method: method::GET,
        attribute: attribute::CLASS_PORT_INFO,
        mask: 0,
        record: &[],
        timeout_ms: TIMEOUT_MS,
        handler: KBox::new(Answer, GFP_KERNEL)?,
    };
    query::send(&query::new(request, flags)?)
}

impl SleepableWork<2> for SaPort {
    fn run(this: Arc<Self>, sleep: &MaySleep) {
        if this.capabilities.lock().known.is_some() {
            return;
        }
        if get_class_port_info(&this, &SendFlags::Borrowed(sleep)).is_err() {
            retry_later(&this);
        }
    }
}
