// SPDX-License-Identifier: GPL-2.0

//! The atomic types of lock-free files. The model checks on the host (`tools/testing/host/handover`) replace them by those of loom.

pub(crate) use core::sync::atomic::{AtomicBool, Ordering};
