// SPDX-License-Identifier: GPL-2.0

//! Write commands of address handles.
//!
//! C header: `include/uapi/rdma/ib_user_verbs.h`.

use kernel::prelude::*;
use kernel_ext::bindings as c;
use rdma::core::{
    user::{UserPath, UserRoute},
    Ah, Pd,
};
use rdma_uverbs::{
    lookup::{self, ReadLocked},
    new::NewObject,
    request::{zeroed, Call},
    verbs,
};

/// The path of an `ib_uverbs_ah_attr`.
fn path(attr: &c::ib_uverbs_ah_attr) -> UserPath {
    let grh = &attr.grh;
    UserPath {
        dlid: attr.dlid,
        sl: attr.sl,
        src_path_bits: attr.src_path_bits,
        static_rate: attr.static_rate,
        port_num: attr.port_num,
        route: (attr.is_global != 0).then_some(UserRoute {
            dgid: grh.dgid,
            flow_label: grh.flow_label,
            sgid_index: grh.sgid_index,
            hop_limit: grh.hop_limit,
            traffic_class: grh.traffic_class,
        }),
    }
}

/// `IB_USER_VERBS_CMD_CREATE_AH`.
///
/// # Errors
///
/// `EINVAL` for an invalid port, and as for [`verbs::create_ah`].
pub(super) fn create(
    call: &Call<'_>,
    request: c::ib_uverbs_create_ah,
) -> Result<c::ib_uverbs_create_ah_resp> {
    let new = NewObject::<Ah>::begin(call.command, call.sleep)?;
    let device = call.device()?;
    if !device.is_port_valid(request.attr.port_num.into()) {
        return Err(EINVAL);
    }
    let pd = ReadLocked::<Pd>::get(call.command, request.pd_handle, call.sleep)?;
    let mut vector = path(&request.attr).to_vector(device);
    let mut ah = verbs::create_ah(&pd, &mut vector, call.udata(), call.sleep)?;
    ah.set_uobject(new.link());
    new.uobject().set_user_handle(request.user_handle);
    let response = c::ib_uverbs_create_ah_resp {
        ah_handle: new.id(),
        ..zeroed()
    };
    new.complete(ah);
    Ok(response)
}

/// `IB_USER_VERBS_CMD_DESTROY_AH`.
///
/// # Errors
///
/// Those of the driver.
pub(super) fn destroy(call: &Call<'_>, request: c::ib_uverbs_destroy_ah) -> Result {
    lookup::destroy::<Ah>(call.command, request.ah_handle, call.sleep)
}
