// SPDX-License-Identifier: GPL-2.0

//! Work completions: `struct ib_wc`, and `struct ib_uverbs_wc` for rings that user space reads.
//!
//! C headers: `include/rdma/ib_verbs.h`, `include/uapi/rdma/ib_user_verbs.h`.

use core::{marker::PhantomData, ops::Deref, ptr};

use kernel::{
    alloc::Flags,
    prelude::*,
    rbtree::{RBTree, RBTreeNode},
    transmute::AsBytes,
    types::Opaque,
};
use rdma_bindings::{ib_qp, ib_uverbs_wc, ib_wc};

use crate::{
    abi::{
        qp::QpId,
        wc::{WcFlags, WcOpcode, WcStatus},
    },
    MaySleep,
};

/// The part of a completion besides the message's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WcExtra {
    /// Nothing.
    #[default]
    None,
    /// Immediate data, four bytes in wire order.
    Imm([u8; 4]),
    /// The R_Key that the message invalidated.
    Invalidated(u32),
}

/// A work completion.
#[derive(Clone, Copy, Debug)]
pub struct Wc {
    /// The identifier of the work request.
    pub wr_id: u64,
    /// The status.
    pub status: WcStatus,
    /// The opcode.
    pub opcode: WcOpcode,
    /// The driver-specific error code.
    pub vendor_err: u32,
    /// The number of bytes that were received or read.
    pub byte_len: u32,
    /// The QP.
    pub qp: QpId,
    /// Immediate data or an invalidated R_Key.
    pub ex: WcExtra,
    /// The sender's QP number; for datagrams only.
    pub src_qp: u32,
    /// The sender's LID.
    pub slid: u32,
    /// The flags, which also mark the fields that are valid.
    pub flags: WcFlags,
    /// The P_Key index; for QP1 only.
    pub pkey_index: u16,
    /// The service level.
    pub sl: u8,
    /// The low bits of the destination LID.
    pub dlid_path_bits: u8,
    /// The port; for MADs of switches only.
    pub port_num: u32,
    /// The sender's MAC address.
    pub smac: [u8; 6],
    /// The VLAN.
    pub vlan_id: u16,
    /// The type of the network header: `enum rdma_network_type`.
    pub network_hdr_type: u8,
}

impl Wc {
    /// Creates a completion of `wr_id` on `qp`; the other fields are zero.
    #[inline]
    pub const fn new(qp: QpId, wr_id: u64, status: WcStatus, opcode: WcOpcode) -> Self {
        Self {
            wr_id,
            status,
            opcode,
            vendor_err: 0,
            byte_len: 0,
            qp,
            ex: WcExtra::None,
            src_qp: 0,
            slid: 0,
            flags: WcFlags::empty(),
            pkey_index: 0,
            sl: 0,
            dlid_path_bits: 0,
            port_num: 0,
            smac: [0; 6],
            vlan_id: 0,
            network_hdr_type: 0,
        }
    }

    /// All flags, with those that [`Self::ex`] implies.
    #[inline]
    pub fn all_flags(&self) -> WcFlags {
        match self.ex {
            WcExtra::None => self.flags,
            WcExtra::Imm(_) => self.flags | WcFlags::WITH_IMM,
            WcExtra::Invalidated(_) => self.flags | WcFlags::WITH_INVALIDATE,
        }
    }

    /// The flags in the user ABI: `enum ibv_wc_flags` of libibverbs, which differs from the kernel's in the flag for
    /// invalidation.
    fn uverbs_flags(&self) -> u32 {
        const IBV_WC_WITH_INV: u32 = 1 << 3;
        let flags = self.all_flags();
        let same = flags.bits() & WcFlags::GRH.with(WcFlags::WITH_IMM).bits();
        match flags.contains(WcFlags::WITH_INVALIDATE) {
            true => same | IBV_WC_WITH_INV,
            false => same,
        }
    }

    /// The opcode in the user ABI.
    ///
    /// `enum ib_uverbs_wc_opcode` lacks the kernel's own requests, which user space cannot post.
    fn uverbs_opcode(&self) -> u32 {
        match self.opcode {
            WcOpcode::RegMr | WcOpcode::MaskedCompSwap | WcOpcode::MaskedFetchAdd => {
                WcOpcode::Send.as_raw()
            }
            opcode => opcode.as_raw(),
        }
    }

    /// The completion in the form that user space reads from a ring.
    pub fn to_uverbs(&self) -> UserWc {
        let mut wc = ib_uverbs_wc {
            wr_id: self.wr_id,
            status: self.status.as_raw(),
            opcode: self.uverbs_opcode(),
            vendor_err: self.vendor_err,
            byte_len: self.byte_len,
            qp_num: self.qp.number(),
            src_qp: self.src_qp,
            wc_flags: self.uverbs_flags(),
            pkey_index: self.pkey_index,
            slid: lid16(self.slid),
            sl: self.sl,
            dlid_path_bits: self.dlid_path_bits,
            port_num: u8::try_from(self.port_num).unwrap_or(0),
            ..pin_init::zeroed()
        };
        match self.ex {
            WcExtra::None => {}
            WcExtra::Imm(data) => wc.ex.imm_data = u32::from_ne_bytes(data),
            WcExtra::Invalidated(rkey) => wc.ex.invalidate_rkey = rkey,
        }
        UserWc(wc)
    }

    /// The completion in the form that clients in the kernel read.
    #[inline]
    pub fn to_kernel(&self) -> KernelWc {
        let mut wc = ib_wc {
            status: self.status.as_raw(),
            opcode: self.opcode.as_raw(),
            vendor_err: self.vendor_err,
            byte_len: self.byte_len,
            qp: self.qp.as_raw(),
            src_qp: self.src_qp,
            slid: self.slid,
            wc_flags: self.all_flags().bits() as i32,
            pkey_index: self.pkey_index,
            sl: self.sl,
            dlid_path_bits: self.dlid_path_bits,
            port_num: self.port_num,
            smac: self.smac,
            vlan_id: self.vlan_id,
            network_hdr_type: self.network_hdr_type,
            ..pin_init::zeroed()
        };
        wc.__bindgen_anon_1.wr_id = self.wr_id;
        match self.ex {
            WcExtra::None => {}
            WcExtra::Imm(data) => wc.ex.imm_data = u32::from_ne_bytes(data),
            WcExtra::Invalidated(rkey) => wc.ex.invalidate_rkey = rkey,
        }
        KernelWc(wc)
    }
}

/// A completion for clients in the kernel: `struct ib_wc`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct KernelWc(ib_wc);

// SAFETY: The type never dereferences the pointer to the queue pair.
unsafe impl Send for KernelWc {}
// SAFETY: The type never dereferences the pointer to the queue pair.
unsafe impl Sync for KernelWc {}

impl KernelWc {
    /// A zeroed completion.
    pub const NONE: Self = Self(pin_init::zeroed());
}

/// A completion in a ring that user space reads: `struct ib_uverbs_wc`, 48 bytes.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct UserWc(ib_uverbs_wc);

const _: () = assert!(size_of::<UserWc>() == 48);

// SAFETY: The header's structure has no padding, its last byte is a reserved field.
unsafe impl AsBytes for UserWc {}

impl Deref for UserWc {
    type Target = ib_uverbs_wc;

    #[inline]
    fn deref(&self) -> &ib_uverbs_wc {
        &self.0
    }
}

/// A LID in 16 bits. A longer one becomes the permissive LID, as in `ib_lid_cpu16`.
fn lid16(lid: u32) -> u16 {
    u16::try_from(lid).unwrap_or(u16::MAX)
}

/// The output argument of `poll_cq`: an array of completions.
///
/// # Invariants
///
/// All three point into one array or to its end, in the order `first`, `next`, `end`; the array is valid for writes from
/// `next` on.
pub struct WcSink<'a> {
    first: *mut ib_wc,
    next: *mut ib_wc,
    end: *mut ib_wc,
    _array: PhantomData<&'a mut ib_wc>,
}

impl WcSink<'_> {
    /// Wraps the array of `room` completions at `first`.
    ///
    /// # Safety
    ///
    /// `first` must be valid for writes of `room` completions as long as the result exists.
    #[inline]
    pub(crate) unsafe fn new(first: *mut ib_wc, room: usize) -> Self {
        Self {
            first,
            next: first,
            // SAFETY: By the safety requirements.
            end: unsafe { first.add(room) },
            _array: PhantomData,
        }
    }

    /// The number of completions that may still be pushed.
    #[inline]
    pub fn room(&self) -> usize {
        // SAFETY: By the type invariants both pointers are into one array.
        unsafe { self.end.offset_from(self.next) as usize }
    }

    /// The number of completions that were pushed.
    #[inline]
    pub fn written(&self) -> usize {
        // SAFETY: By the type invariants both pointers are into one array.
        unsafe { self.next.offset_from(self.first) as usize }
    }

    /// Pushes a completion.
    #[inline]
    pub fn push(&mut self, wc: &Wc) -> Result<(), BufferFull> {
        match self.extend(&[wc.to_kernel()]) {
            0 => Err(BufferFull),
            _ => Ok(()),
        }
    }

    /// Pushes the first of these completions, as many as fit. Returns their number.
    #[inline]
    pub fn extend(&mut self, wcs: &[KernelWc]) -> usize {
        let count = wcs.len().min(self.room());
        // SAFETY: By the type invariants there is room for `count` completions; the type is a transparent wrapper.
        unsafe {
            ptr::copy_nonoverlapping(wcs.as_ptr().cast(), self.next, count);
            self.next = self.next.add(count);
        }
        count
    }
}

/// The queue pairs to which completions refer that a process polls through the kernel, by number.
///
/// A completion refers to its queue pair by a pointer, through which ib_uverbs reads the number, possibly after the queue
/// pair was destroyed. An entry of the table takes the place of the queue pair: it only has the number, never changes, and
/// is valid as long as the table, which belongs to the completion queue. It is added when the first completion of its number
/// is polled.
///
/// A process can write arbitrary numbers to its ring, so the table has at most [`Self::MAX_ENTRIES`] entries. Further numbers, and
/// those for which memory is short, are reported as 0.
pub struct QpNumbers {
    none: KBox<QpNumber>,
    entries: RBTree<u32, KBox<QpNumber>>,
    len: usize,
}

/// A `struct ib_qp` of which only the number is set.
struct QpNumber(Opaque<ib_qp>);

// SAFETY: The structure is constant after it is made.
unsafe impl Send for QpNumber {}
// SAFETY: The structure is constant after it is made.
unsafe impl Sync for QpNumber {}

impl QpNumber {
    fn new(number: u32, flags: Flags) -> Result<KBox<Self>> {
        let mut qp: ib_qp = pin_init::zeroed();
        qp.qp_num = number;
        Ok(KBox::new(Self(Opaque::new(qp)), flags)?)
    }
}

impl QpNumbers {
    /// The maximum number of entries.
    const MAX_ENTRIES: usize = 4096;

    /// Creates an empty table.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(_ctx: &MaySleep) -> Result<Self> {
        Ok(Self {
            none: QpNumber::new(0, GFP_KERNEL)?,
            entries: RBTree::new(),
            len: 0,
        })
    }

    /// The entry of a number, which is valid as long as the table. Any context.
    fn name(&mut self, number: u32) -> *mut ib_qp {
        if self.entries.get(&number).is_none() && self.len < Self::MAX_ENTRIES {
            let entry = QpNumber::new(number, GFP_ATOMIC);
            let entry = entry.and_then(|qp| RBTreeNode::new(number, qp, GFP_ATOMIC));
            if let Ok(entry) = entry {
                self.entries.insert(entry);
                self.len = self.len.saturating_add(1);
            }
        }
        self.entries.get(&number).unwrap_or(&self.none).0.get()
    }
}

impl WcSink<'_> {
    /// Pushes a completion in the form that user space reads from a ring, whatever its content is.
    pub fn push_user(
        &mut self,
        user: &[u8; size_of::<UserWc>()],
        numbers: &mut QpNumbers,
    ) -> Result<(), BufferFull> {
        if self.next == self.end {
            return Err(BufferFull);
        }
        // SAFETY: Any bytes are a valid value of the structure.
        let user: ib_uverbs_wc = unsafe { user.as_ptr().cast::<ib_uverbs_wc>().read_unaligned() };
        let mut wc = ib_wc {
            status: user.status,
            opcode: user.opcode,
            vendor_err: user.vendor_err,
            byte_len: user.byte_len,
            qp: numbers.name(user.qp_num),
            src_qp: user.src_qp,
            slid: user.slid.into(),
            wc_flags: user.wc_flags as i32,
            pkey_index: user.pkey_index,
            sl: user.sl,
            dlid_path_bits: user.dlid_path_bits,
            port_num: user.port_num.into(),
            ..pin_init::zeroed()
        };
        wc.__bindgen_anon_1.wr_id = user.wr_id;
        // SAFETY: Both members of the union have 4 bytes.
        wc.ex.imm_data = unsafe { user.ex.imm_data };
        self.extend(&[KernelWc(wc)]);
        Ok(())
    }
}

/// The array of `poll_cq` is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferFull;
