// SPDX-License-Identifier: GPL-2.0
// error: this method takes 1 argument but 0 arguments were supplied

//! A timer's callback, which runs in softirq context, that waits.

use kernel::prelude::*;
use kernel::sync::Arc;
use kernel_ext::{
    sync::Completion,
    timer::{impl_has_timer, OnTimer, Timer},
};

/// Has a timer.
#[pin_data]
pub struct Object {
    #[pin]
    timer: Timer<Object>,
    #[pin]
    done: Completion,
}

impl_has_timer! { impl HasTimer<0> for Object { self.timer } }

impl OnTimer for Object {
    fn expired(this: Arc<Self>) {
        this.done.wait();
    }
}
