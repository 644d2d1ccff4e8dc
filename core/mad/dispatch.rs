// SPDX-License-Identifier: GPL-2.0

//! Finding the agent of a received MAD: of a response by its transaction ID, of a request by class, class version,
//! method and vendor OUI.
//!
//! IBTA specification, volume 1, section 13.4.6; 13.4.4 for the classes.

use kernel::{prelude::*, sync::Arc};
use rdma::core::mad::agent::RegistrationRequest;

use super::{
    header::{class, method, Header, OUI_AT},
    registry,
    state::{Agent, AgentUse, Port, Registered},
};

/// Number of vendors of a class that may have agents at a port.
const MAX_OUIS: usize = 8;

/// What dispatch of requests looks at.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Kind {
    mgmt_class: u8,
    class_version: u8,
    /// The vendor's OUI; zero for classes without vendors.
    oui: [u8; 3],
}

impl Kind {
    fn new(mgmt_class: u8, class_version: u8, oui: [u8; 3]) -> Self {
        let has_vendor = class::VENDOR_RANGE2.contains(&mgmt_class);
        Self {
            mgmt_class,
            class_version,
            oui: if has_vendor { oui } else { [0; 3] },
        }
    }

    fn of(request: &RegistrationRequest) -> Self {
        Self::new(request.mgmt_class(), request.class_version(), request.oui())
    }

    fn has_vendor(&self) -> bool {
        class::VENDOR_RANGE2.contains(&self.mgmt_class)
    }

    fn is_same_class(&self, other: &Self) -> bool {
        (self.mgmt_class, self.class_version) == (other.mgmt_class, other.class_version)
    }
}

/// Whether the table of vendors of a class is full.
fn has_no_room(registered: &[Registered], kind: &Kind) -> bool {
    let others = registered
        .iter()
        .map(|one| Kind::of(&one.request))
        .filter(|other| other.is_same_class(kind));
    let mut ouis = [[0; 3]; MAX_OUIS];
    let mut count = 0;
    for other in others {
        if other.oui == kind.oui {
            return false;
        }
        if ouis.iter().take(count).any(|oui| *oui == other.oui) {
            continue;
        }
        match ouis.get_mut(count) {
            Some(place) => *place = other.oui,
            None => return true,
        }
        count = count.saturating_add(1);
    }
    count >= MAX_OUIS
}

/// Registers an agent for the requests that it has asked for.
///
/// # Errors
///
/// `EINVAL` where another agent is registered for one of them; `ENOMEM`, also where the table of vendors is full.
pub(super) fn register(agent: &Arc<Agent>, request: RegistrationRequest) -> Result {
    let kind = Kind::of(&request);
    let mut registered = agent.port.registrations.lock();
    let is_taken = |one: &Registered| {
        Kind::of(&one.request) == kind && one.request.methods() & request.methods() != 0
    };
    if registered.iter().any(is_taken) {
        return Err(EINVAL);
    }
    if kind.has_vendor() && has_no_room(&registered, &kind) {
        return Err(ENOMEM);
    }
    let new = Registered {
        request,
        agent: agent.clone(),
    };
    registered.push(new, GFP_ATOMIC)?;
    Ok(())
}

/// Unregisters an agent for requests.
pub(super) fn unregister(agent: &Arc<Agent>) {
    let mut registered = agent.port.registrations.lock();
    let place = registered
        .iter()
        .position(|one| Arc::ptr_eq(&one.agent, agent));
    let taken = place.and_then(|nth| registered.remove(nth).ok());
    drop(registered);
    drop(taken);
}

/// The agent that is registered for a request.
fn find_for_request(port: &Port, header: &Header, oui: [u8; 3]) -> Option<AgentUse> {
    let kind = Kind::new(header.mgmt_class, header.class_version, oui);
    let bit = 1u128 << (header.method & !method::RESP);
    let registered = port.registrations.lock();
    let mut all = registered.iter();
    let found = all.find(|one| Kind::of(&one.request) == kind && one.request.methods() & bit != 0);
    found?.agent.try_use()
}

/// The agent of a MAD, whose first bytes are `bytes`.
pub(super) fn find(port: &Arc<Port>, header: &Header, bytes: &[u8]) -> Option<AgentUse> {
    let agent = if header.is_response() {
        // The transaction ID may be forged: the agent must be of this port.
        registry::find_agent(header.hi_tid()).filter(|agent| Arc::ptr_eq(&agent.port, port))
    } else {
        let oui = bytes.get(OUI_AT..).and_then(|rest| rest.first_chunk());
        find_for_request(port, header, oui.copied().unwrap_or([0; 3]))
    };
    agent.filter(|agent| agent.receives)
}
