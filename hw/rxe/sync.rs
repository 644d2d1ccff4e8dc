// SPDX-License-Identifier: GPL-2.0

//! The atomics of files that are checked as models on the host (`tools/testing/host/handover`), where loom's take their place.

pub(crate) use core::sync::atomic::{AtomicBool, Ordering};
