// SPDX-License-Identifier: GPL-2.0

//! Timers and their references.

use super::*;
use kernel_ext::timer::now_ns;

const FAR: u64 = 10_000_000_000;

pub(super) fn test(may_sleep: &MaySleep) -> Result {
    let object = Object::new(1)?;
    let began = now_ns();
    Timer::arm(&object, began + 2_000_000);
    check!(object.timer.is_armed());
    check!(object.called.wait_timeout(1000, may_sleep));
    check!(now_ns() - began >= 2_000_000);
    check!(object.calls.load(SeqCst) == 1 && !object.timer.is_armed());

    // An earlier deadline replaces the timer's, a later one does not.
    Timer::arm(&object, now_ns() + FAR);
    Timer::arm(&object, now_ns() + 1_000_000);
    Timer::arm(&object, now_ns() + FAR);
    check!(object.called.wait_timeout(1000, may_sleep));
    check!(object.calls.load(SeqCst) == 2);

    Timer::arm(&object, now_ns() + FAR);
    check!(Timer::cancel(&object) && !Timer::cancel(&object));
    Timer::arm(&object, now_ns() + FAR);
    Timer::cancel_sync(&object, may_sleep);
    Timer::arm(&object, now_ns() + FAR);
    Timer::shut_down(&object, may_sleep);
    Timer::arm(&object, now_ns());
    check!(!object.timer.is_armed());
    drop(object);
    check!(LIVE.load(SeqCst) == 0);

    // The last reference is the timer's.
    Timer::arm(&Object::new(2)?, now_ns() + 5_000_000);
    check!(LIVE.load(SeqCst) == 1);
    pause(100, may_sleep)?;
    check!(LIVE.load(SeqCst) == 0);
    Ok(())
}

/// Arms a timer anew while it expires, and cancels it while it runs.
pub(super) fn storm(may_sleep: &MaySleep) -> Result {
    let object = Object::new(1)?;
    for round in 0..20_000 {
        Timer::arm(&object, now_ns() + 40_000 - (round % 40) * 1000);
        Timer::arm(&object, now_ns() + 5_000);
        if round % 7 == 0 {
            Timer::cancel_sync(&object, may_sleep);
        }
    }
    // On a busy host none may have expired yet.
    Timer::arm(&object, now_ns() + 1_000_000);
    pause(100, may_sleep)?;
    Timer::shut_down(&object, may_sleep);
    check!(object.calls.load(SeqCst) > 0 && LIVE.load(SeqCst) == 1);
    drop(object);
    check!(LIVE.load(SeqCst) == 0);
    Ok(())
}
