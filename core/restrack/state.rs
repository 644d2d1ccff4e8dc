// SPDX-License-Identifier: GPL-2.0

//! Tables of a device's objects, by kind and ID.
//!
//! C header: `include/rdma/restrack.h`.

use kernel::{new_spinlock, prelude::*, rbtree::RBTree, sync::SpinLock};
use rdma::core::restrack::{Listed, KINDS};

/// The object with an ID.
pub(super) struct Slot {
    /// `None` while the object is being destroyed.
    pub(super) listed: Option<Listed>,
    /// Whether the object is shown only with driver details.
    pub(super) detail: bool,
}

/// The objects of a kind.
pub(super) struct Table {
    pub(super) slots: RBTree<u32, Slot>,
    /// The next ID to try.
    pub(super) next: u32,
}

impl Table {
    pub(super) fn new() -> Self {
        Self {
            slots: RBTree::new(),
            next: 0,
        }
    }
}

/// The objects of a device.
#[pin_data]
pub(crate) struct DeviceState {
    #[pin]
    pub(super) tables: SpinLock<[Table; KINDS]>,
}

impl DeviceState {
    pub(crate) fn new() -> impl PinInit<Self> {
        let tables = core::array::from_fn(|_| Table::new());
        pin_init!(Self {
            tables <- new_spinlock!(tables, "DeviceState::tables"),
        })
    }
}
