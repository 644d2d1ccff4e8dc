// SPDX-License-Identifier: GPL-2.0

//! The actions and counters that a flow steering rule uses, for drivers and ib_uverbs. Process context.
//!
//! C header: `include/rdma/uverbs_std_types.h`.

use kernel::{ffi::c_void, prelude::*};
use kernel_ext::{
    bindings::{self, ib_uflow_resources},
    entry::FromC,
    export::export,
};
use rdma::core::{Counters, FlowAction};
use rdma_uverbs::flow::{FlowResources, MaybeResources, OwnedResources, Used};

/// Allocates the resources of a rule of `num_specs` specifications; null if there is no memory.
#[export]
fn flow_resources_alloc(num_specs: usize) -> MaybeResources {
    MaybeResources(OwnedResources::new(num_specs).ok())
}

/// Ends the use of a rule's actions and counters, and frees the resources. Null is ignored.
#[export]
fn ib_uverbs_flow_resources_free(uflow_res: MaybeResources) {
    drop(uflow_res);
}

/// Adds an action or counters that a rule uses, and counts the use.
///
/// # Safety
///
/// `uflow_res` is from `flow_resources_alloc`; `ibobj` is an object of the type.
#[export]
unsafe extern "C" fn flow_resources_add(
    uflow_res: *mut ib_uflow_resources,
    spec_type: bindings::ib_flow_spec_type,
    ibobj: *mut c_void,
) {
    // SAFETY: By the safety requirements.
    let added = unsafe {
        let resources = <&FlowResources>::from_c(uflow_res);
        match spec_type {
            bindings::IB_FLOW_SPEC_ACTION_HANDLE => {
                resources.add(Used::Action(<&FlowAction>::from_c(ibobj.cast())))
            }
            bindings::IB_FLOW_SPEC_ACTION_COUNT => {
                resources.add(Used::Counters(<&Counters>::from_c(ibobj.cast())))
            }
            _ => Err(EINVAL),
        }
    };
    kernel::warn_on!(added.is_err());
}
