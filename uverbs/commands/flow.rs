// SPDX-License-Identifier: GPL-2.0

//! Write commands of flow steering rules.
//!
//! C header: `include/uapi/rdma/ib_user_verbs.h`.

use kernel::prelude::*;
use kernel_ext::{bindings as c, error::EOPNOTSUPP};
use rdma::core::{
    flow::{Action, Filter, FlowAttr},
    Counters, Flow, FlowAction, Qp,
};
use rdma_uverbs::{
    flow::{OwnedResources, Used},
    lookup::{self, ReadLocked},
    new::NewObject,
    request::Call,
    verbs,
};

/// The length of the header of a specification: type, size, reserved.
const HEAD: usize = size_of::<c::ib_uverbs_flow_spec_hdr>();

/// The longest specification of user space.
const LONGEST: usize = size_of::<c::ib_uverbs_flow_spec_ipv6>();

/// A specification of user space.
struct Spec<'a> {
    kind: u32,
    body: &'a [u8],
}

/// Removes the next specification from `bytes`.
///
/// # Errors
///
/// `EINVAL` if there is none, or it is longer than the rest.
fn take<'a>(bytes: &mut &'a [u8]) -> Result<Spec<'a>> {
    let (head, _) = bytes.split_first_chunk::<HEAD>().ok_or(EINVAL)?;
    let [k0, k1, k2, k3, s0, s1, reserved @ ..] = *head;
    let size = usize::from(u16::from_ne_bytes([s0, s1]));
    if size < HEAD || reserved != [0; 2] {
        return Err(EINVAL);
    }
    let (spec, rest) = bytes.split_at_checked(size).ok_or(EINVAL)?;
    *bytes = rest;
    Ok(Spec {
        kind: u32::from_ne_bytes([k0, k1, k2, k3]),
        body: spec.get(HEAD..).ok_or(EINVAL)?,
    })
}

/// A number at an offset; 0 beyond the end.
fn number(filter: &[u8], offset: usize) -> u32 {
    filter
        .get(offset..)
        .and_then(|bytes| bytes.first_chunk())
        .map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// Adds a filter of packets: a value and a mask, which may be longer than the kernel's if the rest of the mask is 0.
fn add_filter(attr: &mut FlowAttr, spec: &Spec<'_>) -> Result {
    const INNER_TUNNEL: u32 = c::IB_FLOW_SPEC_INNER | c::IB_FLOW_SPEC_VXLAN_TUNNEL;
    let len = spec.body.len() / 2;
    let (value, mask) = spec.body.split_at_checked(len).ok_or(EINVAL)?;
    let mask = mask.get(..len).ok_or(EINVAL)?;
    if len % 4 != 0 || len == 0 || spec.kind == INNER_TUNNEL {
        return Err(EINVAL);
    }
    let kind = spec.kind & !c::IB_FLOW_SPEC_INNER;
    let filter = Filter::of(kind).ok_or(EINVAL)?;
    let unknown = mask.get(filter.len..).unwrap_or(&[]);
    if unknown.iter().any(|byte| *byte != 0) {
        return Err(EINVAL);
    }
    // Fields that have fewer bits in the packet than in the structure.
    let (offset, bits) = match kind {
        c::IB_FLOW_SPEC_IPV6 => (
            core::mem::offset_of!(c::ib_flow_ipv6_filter, flow_label),
            20,
        ),
        c::IB_FLOW_SPEC_VXLAN_TUNNEL => (
            core::mem::offset_of!(c::ib_flow_tunnel_filter, tunnel_id),
            24,
        ),
        _ => (usize::MAX, 31),
    };
    if [value, mask]
        .iter()
        .any(|bytes| number(bytes, offset) >= 1 << bits)
    {
        return Err(EINVAL);
    }
    attr.add_filter(spec.kind, filter, value, mask)
}

/// Adds an action on packets; the objects that it uses are counted as used by the rule.
fn add_action(
    call: &Call<'_>,
    attr: &mut FlowAttr,
    resources: &mut OwnedResources,
    spec: &Spec<'_>,
) -> Result {
    let words = |error: Error| {
        let body: &[u8; 8] = spec.body.try_into().map_err(|_| error)?;
        let [a, b, c, d, ..] = *body;
        Ok::<u32, Error>(u32::from_ne_bytes([a, b, c, d]))
    };
    match spec.kind {
        c::IB_FLOW_SPEC_ACTION_TAG => attr.add_action(&Action::Tag(words(EINVAL)?)),
        c::IB_FLOW_SPEC_ACTION_DROP if spec.body.is_empty() => attr.add_action(&Action::Drop),
        c::IB_FLOW_SPEC_ACTION_HANDLE => {
            let handle = words(EOPNOTSUPP)?;
            let action = ReadLocked::<FlowAction>::get(call.command, handle, call.sleep)?;
            resources.add(Used::Action(&action))?;
            attr.add_action(&Action::Handle(&action))
        }
        c::IB_FLOW_SPEC_ACTION_COUNT => {
            let counters = ReadLocked::<Counters>::get(call.command, words(EINVAL)?, call.sleep)?;
            resources.add(Used::Counters(&counters))?;
            attr.add_action(&Action::Count(&counters))
        }
        _ => Err(EINVAL),
    }
}

/// Checks the attributes of a rule without its specifications.
fn check(call: &Call<'_>, request: &c::ib_uverbs_create_flow) -> Result {
    if request.comp_mask != 0 {
        return Err(EINVAL);
    }
    if !verbs::has_raw_cap(call.command) {
        return Err(EPERM);
    }
    let attr = &request.flow_attr;
    let is_default = matches!(
        attr.type_,
        c::IB_FLOW_ATTR_ALL_DEFAULT | c::IB_FLOW_ATTR_MC_DEFAULT
    );
    if attr.flags >= c::IB_FLOW_ATTR_FLAGS_RESERVED
        || attr.flags & c::IB_FLOW_ATTR_FLAGS_DONT_TRAP != 0 && is_default
        || u32::from(attr.num_of_specs) > c::IB_FLOW_SPEC_SUPPORT_LAYERS
        || usize::from(attr.size) > usize::from(attr.num_of_specs) * LONGEST
        || attr.reserved != [0; 2]
    {
        return Err(EINVAL);
    }
    Ok(())
}

/// `IB_USER_VERBS_EX_CMD_CREATE_FLOW`: specifications follow the request.
///
/// # Errors
///
/// `EINVAL` for unknown bits and specifications, `EPERM` without `CAP_NET_RAW`, `ENOSPC` for a command that is too short,
/// `EOPNOTSUPP` for one that is too long, `ENOMEM`, and those of the driver.
pub(super) fn create(call: &Call<'_>) -> Result {
    let (request, mut tail) = call.head::<c::ib_uverbs_create_flow>()?;
    check(call, &request)?;
    let wanted = &request.flow_attr;
    let specs = tail.take(wanted.size.into())?.read_array::<u8>()?;
    tail.finish()?;

    let new = NewObject::<Flow>::begin(call.command, call.sleep)?;
    if !call.device()?.is_port_valid(wanted.port.into()) {
        return Err(EINVAL);
    }
    let qp = ReadLocked::<Qp>::get(call.command, request.qp_handle, call.sleep)?;
    if !matches!(qp.kind(), c::IB_QPT_UD | c::IB_QPT_RAW_PACKET) {
        return Err(EINVAL);
    }
    let mut resources = OwnedResources::new(wanted.num_of_specs.into())?;
    let mut attr = FlowAttr::new(
        wanted.type_,
        wanted.priority,
        wanted.flags,
        wanted.port.into(),
        wanted.num_of_specs,
        call.sleep,
    )?;
    let mut left = specs.as_slice();
    for _ in 0..wanted.num_of_specs {
        let spec = take(&mut left)?;
        if spec.kind >= c::IB_FLOW_SPEC_ACTION_TAG {
            add_action(call, &mut attr, &mut resources, &spec)?;
        } else {
            add_filter(&mut attr, &spec)?;
        }
    }
    if !left.is_empty() {
        return Err(EINVAL);
    }
    let mut flow = qp.driver_create_flow(&mut attr, call.udata(), call.sleep)?;
    flow.init(&qp, new.link());
    let response = c::ib_uverbs_create_flow_resp {
        comp_mask: 0,
        flow_handle: new.id(),
    };
    new.complete_flow(flow, resources);
    call.respond(&response)
}

/// `IB_USER_VERBS_EX_CMD_DESTROY_FLOW`.
///
/// # Errors
///
/// `EINVAL` for unknown bits, and those of the driver.
pub(super) fn destroy(call: &Call<'_>, request: c::ib_uverbs_destroy_flow) -> Result {
    if request.comp_mask != 0 {
        return Err(EINVAL);
    }
    lookup::destroy::<Flow>(call.command, request.flow_handle, call.sleep)
}
