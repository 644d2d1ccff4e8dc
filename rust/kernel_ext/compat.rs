// SPDX-License-Identifier: GPL-2.0

//! Differences between the kernels that the modules are for: `Documentation/porting.md`.
//!
//! Each is a module here, under the name of what it is about, with one interface for all kernels.

pub mod barrier;
pub mod enumeration;
pub mod limit;
pub mod module_param;
pub mod nldev;
pub mod pin_init;
pub mod this_module;
pub mod va_list;
