// SPDX-License-Identifier: GPL-2.0

//! Device memory and DMA handles: `struct ib_dm`, `struct ib_dmah`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use kernel::prelude::*;
use rdma_bindings::{self as bindings, ib_dmah};

use super::{
    object::{constants, driver_object, links, tracked, Fresh},
    uobject::ObjectLink,
    Device, Dm, Dmah,
};
use crate::MaySleep;

driver_object!(Dmah, size_ib_dmah; RDMA_RESTRACK_DMAH);
tracked!(Dmah);

impl Dm {
    links! {
        /// The device.
        device: Device = device;
    }
    constants! {
        /// Its length in bytes.
        length: u32 = length;
    }
}

/// The hints of a DMA handle; `None` for a hint that is not given.
#[derive(Clone, Copy)]
pub struct DmaHints {
    /// The CPU that accesses the memory.
    pub cpu: Option<u32>,
    /// The memory type: `enum tph_mem_type`.
    pub memory: Option<u32>,
    /// The TLP processing hint of PCI Express, two bits.
    pub hint: Option<u8>,
}

impl Dmah {
    links! {
        /// The device.
        device: Device = device;
    }
}

impl Fresh<Dmah> {
    /// Allocates a DMA handle with a user object.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new_dmah(
        device: &Device,
        object: ObjectLink<'_>,
        hints: DmaHints,
        sleep: &MaySleep,
    ) -> Result<Self> {
        let mut dmah = Self::alloc(device, Some(sleep))?;
        let raw: &mut ib_dmah = dmah.raw();
        raw.device = device.as_raw();
        raw.uobject = object.as_raw();
        if let Some(cpu) = hints.cpu {
            raw.cpu_id = cpu;
            raw.valid_fields |= 1 << bindings::IB_DMAH_CPU_ID_EXISTS;
        }
        if let Some(memory) = hints.memory {
            raw.mem_type = memory;
            raw.valid_fields |= 1 << bindings::IB_DMAH_MEM_TYPE_EXISTS;
        }
        if let Some(hint) = hints.hint {
            raw.ph = hint;
            raw.valid_fields |= 1 << bindings::IB_DMAH_PH_EXISTS;
        }
        Ok(dmah)
    }
}
