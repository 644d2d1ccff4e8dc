// SPDX-License-Identifier: GPL-2.0

//! The opcode-specific part of a send request: `struct ib_rdma_wr`, `ib_atomic_wr`, `ib_ud_wr` and `ib_reg_wr`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::mem::ManuallyDrop;

use kernel::prelude::*;
use rdma_bindings::{ib_atomic_wr, ib_rdma_wr, ib_reg_wr, ib_send_wr, ib_ud_wr};

use super::{device::Brand, resources::Resources};
use crate::abi::wr::Remote;

/// A send request of any opcode.
#[repr(C)]
pub(super) union AnySend {
    send: ManuallyDrop<ib_send_wr>,
    pub(super) rdma: ManuallyDrop<ib_rdma_wr>,
    pub(super) atomic: ManuallyDrop<ib_atomic_wr>,
    pub(super) ud: ManuallyDrop<ib_ud_wr>,
    pub(super) reg: ManuallyDrop<ib_reg_wr>,
}

impl AnySend {
    pub(super) fn send(&mut self) -> &mut ib_send_wr {
        // SAFETY: All members of the union begin with this one, which was zeroed at first, and is valid with
        // any values of its members.
        unsafe { &mut self.send }
    }
}

/// An operation of a transport.
#[allow(
    unreachable_pub,
    reason = "a part of a sealed public trait, which newer compilers see"
)]
pub trait Fill<'d> {
    /// Fills in a new request. Returns the resources that it needs until its completion.
    fn fill(self, request: &mut Filled<'d>) -> Result<Resources<'d>>;
}

/// A send request without its scatter/gather list.
#[allow(
    unreachable_pub,
    reason = "a part of a sealed public trait, which newer compilers see"
)]
pub struct Filled<'d> {
    pub(super) wr: AnySend,
    /// Whether it transfers memory of the work.
    pub(super) has_memory: bool,
    _device: Brand<'d>,
}

impl Filled<'_> {
    /// A zeroed request.
    #[inline]
    pub(super) fn new() -> Self {
        Self {
            // SAFETY: Zeros are a valid value of each member.
            wr: unsafe { core::mem::zeroed() },
            has_memory: true,
            _device: core::marker::PhantomData,
        }
    }

    #[inline]
    pub(super) fn opcode(&mut self, opcode: u32) {
        self.wr.send().opcode = opcode;
    }

    #[inline]
    pub(super) fn immediate(&mut self, data: [u8; 4]) {
        self.wr.send().ex.imm_data = u32::from_ne_bytes(data);
    }

    #[inline]
    pub(super) fn invalidate(&mut self, key: u32) {
        self.wr.send().ex.invalidate_rkey = key;
    }

    #[inline]
    pub(super) fn remote(&mut self, remote: Remote) {
        // SAFETY: The request is zeroed, except for the `ib_send_wr` at the beginning, which all members of the
        // union share.
        let rdma = unsafe { &mut *self.wr.rdma };
        rdma.remote_addr = remote.addr;
        rdma.rkey = remote.rkey;
    }

    #[inline]
    pub(super) fn atomic(&mut self, remote: Remote, compare_add: u64, swap: u64) {
        // SAFETY: The request is zeroed, except for the `ib_send_wr` at the beginning, which all members of the
        // union share.
        let atomic = unsafe { &mut *self.wr.atomic };
        atomic.remote_addr = remote.addr;
        atomic.rkey = remote.rkey;
        atomic.compare_add = compare_add;
        atomic.swap = swap;
    }
}
