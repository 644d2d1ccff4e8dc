// SPDX-License-Identifier: GPL-2.0

//! The values of the parameters that `module!` declares: `value()` returns a reference up to 7.2, a copy since 7.3.
//!
//! C header: `include/linux/moduleparam.h`.

use core::borrow::Borrow;
use kernel::module_param::{ModuleParam, ModuleParamAccess};

/// The value of a parameter: what was given when the module was loaded, or the default. Any context.
#[inline]
pub fn value<T: ModuleParam + Copy>(param: &ModuleParamAccess<T>) -> T {
    let value = param.value();
    *Borrow::<T>::borrow(&value)
}
