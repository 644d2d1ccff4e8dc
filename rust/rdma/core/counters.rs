// SPDX-License-Identifier: GPL-2.0

//! Counters and actions of flow steering rules: `struct ib_counters`, `struct ib_flow_action`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use kernel::prelude::*;
use rdma_bindings::ib_counters;

use super::{
    object::{counted, driver_object, links, Fresh},
    uobject::ObjectLink,
    Counters, Device, FlowAction,
};
use crate::MaySleep;

driver_object!(Counters, size_ib_counters);
counted!(Counters);
counted!(FlowAction);

impl FlowAction {
    links! {
        /// The device.
        device: Device = device;
    }
}

impl Counters {
    links! {
        /// The device.
        device: Device = device;
    }
}

impl Fresh<Counters> {
    /// Allocates counters with a user object.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new_counters(device: &Device, object: ObjectLink<'_>, sleep: &MaySleep) -> Result<Self> {
        let mut counters = Self::alloc(device, Some(sleep))?;
        let raw: &mut ib_counters = counters.raw();
        raw.device = device.as_raw();
        raw.uobject = object.as_raw();
        Ok(counters)
    }
}
