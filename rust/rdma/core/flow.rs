// SPDX-License-Identifier: GPL-2.0

//! Flow steering rules: `struct ib_flow_attr` and the specifications behind it.
//!
//! C header: `include/rdma/ib_verbs.h`.

use kernel::prelude::*;
use kernel_ext::zeroed::zeroed;
use rdma_bindings::{
    self as bindings, atomic_t, ib_flow_attr, ib_flow_spec, ib_flow_spec_action_count,
    ib_flow_spec_action_drop, ib_flow_spec_action_handle, ib_flow_spec_action_tag,
};

use super::{object::UseCount, Counters, FlowAction};

/// The filter of a specification: the length of value and mask, and their offsets in the kernel's specification,
/// which begins with its type and its size.
#[derive(Clone, Copy)]
pub struct Filter {
    /// The length of the value in bytes, and of the mask.
    pub len: usize,
    value: usize,
    mask: usize,
    size: usize,
}

macro_rules! filter {
    ($spec:ident, $filter:ident) => {{
        use core::mem::offset_of;
        Filter {
            len: size_of::<bindings::$filter>(),
            value: offset_of!(bindings::$spec, val),
            mask: offset_of!(bindings::$spec, mask),
            size: size_of::<bindings::$spec>(),
        }
    }};
}

impl Filter {
    /// The filter of a type, `enum ib_flow_spec_type` without `IB_FLOW_SPEC_INNER`.
    pub fn of(kind: u32) -> Option<Self> {
        Some(match kind {
            bindings::IB_FLOW_SPEC_ETH => filter!(ib_flow_spec_eth, ib_flow_eth_filter),
            bindings::IB_FLOW_SPEC_IPV4 => filter!(ib_flow_spec_ipv4, ib_flow_ipv4_filter),
            bindings::IB_FLOW_SPEC_IPV6 => filter!(ib_flow_spec_ipv6, ib_flow_ipv6_filter),
            bindings::IB_FLOW_SPEC_TCP | bindings::IB_FLOW_SPEC_UDP => {
                filter!(ib_flow_spec_tcp_udp, ib_flow_tcp_udp_filter)
            }
            bindings::IB_FLOW_SPEC_VXLAN_TUNNEL => {
                filter!(ib_flow_spec_tunnel, ib_flow_tunnel_filter)
            }
            bindings::IB_FLOW_SPEC_ESP => filter!(ib_flow_spec_esp, ib_flow_esp_filter),
            bindings::IB_FLOW_SPEC_GRE => filter!(ib_flow_spec_gre, ib_flow_gre_filter),
            bindings::IB_FLOW_SPEC_MPLS => filter!(ib_flow_spec_mpls, ib_flow_mpls_filter),
            _ => return None,
        })
    }
}

/// An action for the packets that a rule matches.
pub enum Action<'a> {
    /// Marks them with a tag.
    Tag(u32),
    /// Drops them.
    Drop,
    /// Applies a flow action of user space.
    Handle(&'a FlowAction),
    /// Counts them.
    Count(&'a Counters),
}

/// The attributes of a flow steering rule, for a driver.
///
/// # Invariants
///
/// The words begin with a `struct ib_flow_attr`. Their first `size` bytes are in use, by that structure and
/// whole specifications. The objects that specifications refer to count this value as a user; `used` has their
/// use counts.
pub struct FlowAttr {
    words: KVec<u64>,
    size: usize,
    used: KVec<*mut atomic_t>,
}

impl Drop for FlowAttr {
    fn drop(&mut self) {
        for count in &self.used {
            // SAFETY: By the type invariants the count is valid, and counts this value.
            unsafe { UseCount::new(*count).dec() };
        }
    }
}

impl FlowAttr {
    /// Allocates a rule with room for `specs` specifications.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(
        kind: u32,
        priority: u16,
        flags: u32,
        port: u32,
        specs: u8,
        _sleep: &crate::MaySleep,
    ) -> Result<Self> {
        let head = size_of::<ib_flow_attr>();
        let room = head + usize::from(specs) * size_of::<ib_flow_spec>();
        const { assert!(align_of::<ib_flow_spec>() <= align_of::<u64>()) };
        let words = zeroed(room.div_ceil(size_of::<u64>()), GFP_KERNEL)?;
        let mut attr = Self {
            words,
            size: head,
            used: KVec::new(),
        };
        // SAFETY: The words are owned exclusively, and begin with the structure.
        let raw = unsafe { &mut *attr.words.as_mut_ptr().cast::<ib_flow_attr>() };
        raw.type_ = kind;
        raw.priority = priority;
        raw.flags = flags;
        raw.port = port;
        raw.num_of_specs = specs;
        Ok(attr)
    }

    /// The argument of a driver's method.
    pub(crate) fn as_raw(&mut self) -> *mut ib_flow_attr {
        let raw = self.words.as_mut_ptr().cast::<ib_flow_attr>();
        // SAFETY: The words are owned exclusively, and begin with the structure.
        unsafe { (*raw).size = self.size as u16 };
        raw
    }

    /// Reserves room for another specification of `size` bytes.
    fn room(&mut self, size: usize) -> Result<*mut u8> {
        let end = self.size.checked_add(size).ok_or(EINVAL)?;
        if end.div_ceil(size_of::<u64>()) > self.words.len() {
            return Err(EINVAL);
        }
        // SAFETY: The offset lies within the words.
        let place = unsafe { self.words.as_mut_ptr().cast::<u8>().add(self.size) };
        self.size = end;
        Ok(place)
    }

    /// Adds a specification of the type `kind` with its `filter`, and the first bytes of its value and mask.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no room.
    pub fn add_filter(&mut self, kind: u32, filter: Filter, value: &[u8], mask: &[u8]) -> Result {
        let place = self.room(filter.size)?;
        let copy = |offset: usize, bytes: &[u8]| {
            let len = bytes.len().min(filter.len);
            // SAFETY: Value and mask lie within the specification, for which `room` has reserved the memory.
            unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), place.add(offset), len) };
        };
        copy(filter.value, value);
        copy(filter.mask, mask);
        // SAFETY: Every specification begins with its type and its size.
        unsafe {
            place.cast::<u32>().write_unaligned(kind);
            place
                .add(size_of::<u32>())
                .cast::<u16>()
                .write_unaligned(filter.size as u16);
        }
        Ok(())
    }

    /// Counts this value as a user of an object.
    ///
    /// # Safety
    ///
    /// `count` is the valid use count of an object that is not destroyed while it has users.
    unsafe fn hold(&mut self, count: *mut atomic_t) -> Result {
        self.used.push(count, GFP_KERNEL)?;
        // SAFETY: By the safety requirements.
        unsafe { UseCount::new(count).inc() };
        Ok(())
    }

    /// Adds an action. An object that it refers to is valid as long as `self`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no room, `ENOMEM`.
    pub fn add_action(&mut self, action: &Action<'_>) -> Result {
        macro_rules! put {
            ($kind:ident, $spec:ident { $($member:ident: $value:expr),* }) => {{
                let size = size_of::<$spec>();
                let place = self.room(size)?.cast::<$spec>();
                let spec = $spec {
                    type_: bindings::$kind,
                    size: size as u16,
                    $($member: $value,)*
                };
                // SAFETY: `room` has reserved the memory.
                unsafe { place.write_unaligned(spec) };
            }};
        }
        match *action {
            Action::Tag(tag) => {
                put!(
                    IB_FLOW_SPEC_ACTION_TAG,
                    ib_flow_spec_action_tag { tag_id: tag }
                )
            }
            Action::Drop => put!(IB_FLOW_SPEC_ACTION_DROP, ib_flow_spec_action_drop {}),
            Action::Handle(action) => {
                // SAFETY: The action is valid, and is not destroyed while it has users.
                unsafe { self.hold(&raw mut (*action.as_raw()).usecnt)? };
                put!(
                    IB_FLOW_SPEC_ACTION_HANDLE,
                    ib_flow_spec_action_handle {
                        act: action.as_raw()
                    }
                )
            }
            Action::Count(counters) => {
                // SAFETY: The counters are valid, and are not destroyed while they have users.
                unsafe { self.hold(&raw mut (*counters.as_raw()).usecnt)? };
                put!(
                    IB_FLOW_SPEC_ACTION_COUNT,
                    ib_flow_spec_action_count {
                        counters: counters.as_raw()
                    }
                )
            }
        }
        Ok(())
    }
}
