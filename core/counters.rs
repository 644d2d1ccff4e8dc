// SPDX-License-Identifier: GPL-2.0

//! Counters that queue pairs are bound to: `rdma statistic qp`.
//!
//! In auto mode a user queue pair is bound on the transition to INIT, to the counter of the queue pairs that match it;
//! in manual mode the administrator selects the counter. When the last queue pair is unbound from a counter, its values
//! are added to the port's history, which is part of the port's totals.
//!
//! Locks
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `DeviceState::state` | the counters of a device and their bindings; held while drivers bind, unbind and read | process context | a counter's own lock, what drivers take, `restrack` |
//!
//! The lock of a port's counters (`struct rdma_hw_stats`) is taken outside of it.
//!
//! C header: `include/rdma/rdma_counter.h`.

pub(crate) mod state;

use kernel::prelude::*;
use kernel_ext::{bindings as c, error::EOPNOTSUPP, zeroed::zeroed};
use rdma::{
    core::{
        counter::{CounterMode, NewCounter, OwnedCounter},
        object::Tracked,
        restrack::{EntryRef, Owner, Unlisted},
        stats::DeviceCounters,
        Device, Qp,
    },
    MaySleep,
};

use crate::{
    private::DeviceExt,
    registry::netns,
    restrack::{self, track},
};
use state::{BoundCounter, Mode, Port, State};

/// The supported criteria of auto mode.
const ALL_MASKS: u32 = c::RDMA_COUNTER_MASK_QP_TYPE | c::RDMA_COUNTER_MASK_PID;

impl Mode {
    const NONE: Self = Self {
        mode: CounterMode::None,
        with_optional: false,
    };
    const MANUAL: Self = Self {
        mode: CounterMode::Manual,
        with_optional: true,
    };

    fn is_auto(self) -> bool {
        matches!(self.mode, CounterMode::Auto(_))
    }
}

/// Binds a queue pair to a counter of its device.
fn bind_to(counter: &OwnedCounter, qp: &Qp, port: u32, sleep: &MaySleep) -> Result {
    // SAFETY: Only queue pairs of the counter's own device are bound to it. A counter is dropped only after `unbind` has
    // removed its last queue pair, or if no queue pair was bound to it.
    unsafe { counter.driver_bind(qp, port, sleep) }
}

impl State {
    fn port(&mut self, number: u32) -> Result<&mut Port> {
        let mut ports = self.ports.iter_mut();
        ports.find(|port| port.number == number).ok_or(EINVAL)
    }

    /// The number of counters of a port.
    fn count(&self, port: u32) -> usize {
        let of_port = self.live.iter().filter(|live| live.counter.port() == port);
        of_port.count()
    }

    /// The counter of a port that matches a queue pair by `mask`.
    fn find_match(&mut self, qp: &Qp, port: u32, mask: u32) -> Option<&mut BoundCounter> {
        self.live.iter_mut().find(|live| {
            let counter = &live.counter;
            counter.port() == port
                && (mask & c::RDMA_COUNTER_MASK_QP_TYPE == 0 || counter.qp_type() == qp.kind())
                && (mask & c::RDMA_COUNTER_MASK_PID == 0 || counter.res().is_of_task_of(qp.res()))
        })
    }

    /// Makes a counter and binds a queue pair to it. Returns its ID.
    fn make(&mut self, port: u32, qp: &Qp, mode: Mode, sleep: &MaySleep) -> Result<u32> {
        let device = qp.device();
        if !device.has_counters() {
            return Err(ENOMEM);
        }
        self.live.reserve(1, GFP_KERNEL)?;
        let mut counter = NewCounter::new(device, port, sleep)?;
        let by_type = mode.mode.mask() & c::RDMA_COUNTER_MASK_QP_TYPE != 0;
        let qp_type = if by_type { qp.kind() } else { 0 };
        counter.set_mode(mode.mode, qp_type, mode.with_optional);
        if let Err(error) = bind_to(&counter, qp, port, sleep) {
            counter.unlisted().abandon();
            return Err(error);
        }
        track::set_owner_of(&mut counter, qp);
        let counter = counter.into_owned();
        track::add(&counter);
        let number = counter.number();
        self.live
            .push(BoundCounter { counter, users: 1 }, GFP_KERNEL)?;
        Ok(number)
    }

    /// Unbinds a queue pair from its counter; with `force` even if the driver fails. Returns the counter if it was the
    /// last queue pair.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the queue pair is not bound, and errors of the driver.
    fn unbind(
        &mut self,
        qp: &Qp,
        port: u32,
        force: bool,
        sleep: &MaySleep,
    ) -> Result<Option<OwnedCounter>> {
        let mut all = self.live.iter();
        let nth = all.position(|live| qp.counter_is(&live.counter));
        let nth = nth.ok_or(EINVAL)?;
        let live = self.live.get_mut(nth).ok_or(EINVAL)?;
        match force {
            true => live.counter.driver_unbind_last(qp, port, sleep)?,
            false => live.counter.driver_unbind(qp, port, sleep)?,
        }
        live.users = live.users.saturating_sub(1);
        if live.users != 0 {
            return Ok(None);
        }
        let counter = self.live.remove(nth).map_err(|_| EINVAL)?.counter;
        self.retire(&counter, sleep);
        Ok(Some(counter))
    }

    /// Adds the values of a removed counter to the history.
    fn retire(&mut self, counter: &OwnedCounter, sleep: &MaySleep) {
        let was_last = self.count(counter.port()) == 0;
        let Ok(port) = self.port(counter.port()) else {
            return;
        };
        if was_last && port.mode.mode == CounterMode::Manual {
            port.mode = Mode::NONE;
        }
        if let Some(history) = &mut port.history {
            // If the update fails, the last known values are used.
            let _ = counter.driver_update(sleep);
            for (nth, value) in (0..).zip(history.iter_mut()) {
                *value = value.wrapping_add(counter.stats().peek(nth));
            }
        }
    }
}

/// Frees a counter without queue pairs.
fn finish(counter: Option<OwnedCounter>, sleep: &MaySleep) {
    if let Some(counter) = counter {
        track::remove(&counter, sleep);
        // The counter is freed even if the driver fails.
        let _ = counter.driver_dealloc(sleep);
    }
}

/// The queue pair with a number, for an administrator. Raw packet queue pairs require CAP_NET_RAW.
fn find_qp(device: &Device, number: u32) -> Result<EntryRef> {
    let found = restrack::find(device, c::RDMA_RESTRACK_QP, number).ok_or(ENOENT)?;
    match found.owner() {
        Some(Owner::Qp(qp)) if qp.kind() != c::IB_QPT_RAW_PACKET => Ok(found),
        Some(Owner::Qp(_)) if netns::has_raw_cap(device) => Ok(found),
        _ => Err(ENOENT),
    }
}

/// The queue pair of an entry from [`find_qp`].
fn qp_of(entry: &EntryRef) -> Result<&Qp> {
    match entry.owner() {
        Some(Owner::Qp(qp)) => Ok(qp),
        _ => Err(ENOENT),
    }
}

/// Whether a queue pair may be bound to counters of a port: it is on that port, or on none yet.
fn may_bind(device: &Device, qp: &Qp, port: u32) -> bool {
    !device.is_port_valid(qp.port()) || qp.port() == port
}

/// Initialises the ports of a device that is being registered.
pub(crate) fn set_up(device: &Device, sleep: &MaySleep) -> Result {
    let mut ports = KVec::with_capacity(device.ports().count(), GFP_KERNEL)?;
    let mut works = true;
    for number in device.ports() {
        let counters = match device.driver_alloc_stats(Some(number), sleep) {
            Some(Ok(counters)) => Some(counters),
            Some(Err(_)) => {
                works = false;
                None
            }
            None => None,
        };
        let count = counters.map(|counters| usize::try_from(counters.count()).unwrap_or(0));
        let history = count.map(|count| zeroed(count, GFP_KERNEL));
        let port = Port {
            number,
            mode: Mode::NONE,
            history: history.transpose()?,
        };
        ports.push(port, GFP_KERNEL)?;
    }
    if !works {
        // Either all ports have counters, or none.
        ports.iter_mut().for_each(|port| port.history = None);
    }
    device.core().counters.state.lock().ports = ports;
    Ok(())
}

/// Frees the ports of a device without queue pairs.
pub(crate) fn clean_up(device: &Device, _sleep: &MaySleep) {
    let ports = core::mem::take(&mut device.core().counters.state.lock().ports);
    drop(ports);
}

/// The binding mode of a port.
///
/// # Errors
///
/// `EINVAL` for an invalid port.
pub(crate) fn mode(device: &Device, port: u32) -> Result<Mode> {
    Ok(device.core().counters.state.lock().port(port)?.mode)
}

/// Enables auto mode for a port, by the criteria in `mask`; 0 disables it.
///
/// # Errors
///
/// `EOPNOTSUPP` if the port has no counters, `EINVAL` for unsupported criteria, `EBUSY` while any queue pair is bound.
pub(crate) fn set_auto(device: &Device, port: u32, mask: u32, with_optional: bool) -> Result {
    let mut state = device.core().counters.state.lock();
    let has_counters = state.count(port) != 0;
    let port = state.port(port)?;
    if port.history.is_none() {
        return Err(EOPNOTSUPP);
    }
    let mode = match mask {
        0 if has_counters => CounterMode::Manual,
        0 => CounterMode::None,
        mask => CounterMode::Auto(mask),
    };
    let wanted = Mode {
        mode,
        with_optional,
    };
    if port.mode == wanted {
        return Ok(());
    }
    if mask & !ALL_MASKS != 0 {
        return Err(EINVAL);
    }
    if wanted.is_auto() && has_counters {
        return Err(EBUSY);
    }
    port.mode = wanted;
    Ok(())
}

/// Binds a user queue pair on its transition to INIT, if the port is in auto mode.
///
/// # Errors
///
/// `ENOMEM`, also where the driver has no more counters, `EINVAL`, and errors of the driver.
pub(crate) fn bind_auto(qp: &Qp, port: u32, sleep: &MaySleep) -> Result {
    if qp.has_counter() || !qp.res().is_tracked() || !qp.res().is_user() {
        return Ok(());
    }
    let mut state = qp.device().core().counters.state.lock();
    if qp.has_counter() {
        // Another thread that modifies the queue pair has bound it.
        return Ok(());
    }
    let mode = state.port(port)?.mode;
    let CounterMode::Auto(mask) = mode.mode else {
        return Ok(());
    };
    match state.find_match(qp, port, mask) {
        Some(live) => {
            bind_to(&live.counter, qp, port, sleep)?;
            live.users = live.users.saturating_add(1);
        }
        None => {
            state.make(port, qp, mode, sleep)?;
        }
    }
    Ok(())
}

/// Binds a queue pair to a counter, by their numbers.
///
/// # Errors
///
/// `EINVAL` in auto mode, if the two differ in the port or in being of user space, or if the queue pair is bound
/// already; `ENOENT` if one does not exist; errors of the driver.
pub(crate) fn bind(
    device: &Device,
    port: u32,
    qp_num: u32,
    number: u32,
    sleep: &MaySleep,
) -> Result {
    let mut state = device.core().counters.state.lock();
    if state.port(port)?.mode.is_auto() {
        return Err(EINVAL);
    }
    let entry = find_qp(device, qp_num)?;
    let qp = qp_of(&entry)?;
    let mut all = state.live.iter_mut();
    let live = all.find(|live| live.counter.number() == number);
    let live = live.ok_or(ENOENT)?;
    let counter = &live.counter;
    if counter.res().is_user() != qp.res().is_user() || counter.port() != qp.port() {
        return Err(EINVAL);
    }
    bind_to(counter, qp, port, sleep)?;
    live.users = live.users.saturating_add(1);
    Ok(())
}

/// Binds a queue pair to a new counter of a port, whose ID is returned.
///
/// # Errors
///
/// `EOPNOTSUPP` if the port has no counters, `EINVAL` in auto mode or for a queue pair of another port, `ENOENT` for an
/// unknown queue pair, `ENOMEM` for all other failures.
pub(crate) fn bind_new(device: &Device, port: u32, qp_num: u32, sleep: &MaySleep) -> Result<u32> {
    let mut state = device.core().counters.state.lock();
    let of_port = state.port(port)?;
    if of_port.history.is_none() {
        return Err(EOPNOTSUPP);
    }
    if of_port.mode.is_auto() {
        return Err(EINVAL);
    }
    let entry = find_qp(device, qp_num)?;
    let qp = qp_of(&entry)?;
    if !may_bind(device, qp, port) {
        return Err(EINVAL);
    }
    let made = state.make(port, qp, Mode::MANUAL, sleep);
    let number = made.map_err(|_| ENOMEM)?;
    state.port(port)?.mode = Mode::MANUAL;
    Ok(number)
}

/// Unbinds a queue pair from a counter, by their numbers.
///
/// # Errors
///
/// `ENOENT` for an unknown queue pair, `EINVAL` if it is not manually bound to the counter, and errors of the driver.
pub(crate) fn unbind(
    device: &Device,
    port: u32,
    qp_num: u32,
    number: u32,
    sleep: &MaySleep,
) -> Result {
    let mut state = device.core().counters.state.lock();
    let entry = find_qp(device, qp_num)?;
    let qp = qp_of(&entry)?;
    let bound = state.live.iter().any(|live| {
        let counter = &live.counter;
        counter.number() == number && qp.counter_is(counter)
    });
    let by_hand = state.port(port)?.mode.mode == CounterMode::Manual;
    if !may_bind(device, qp, port) || !bound || !by_hand {
        return Err(EINVAL);
    }
    let last = state.unbind(qp, port, false, sleep)?;
    drop(state);
    finish(last, sleep);
    Ok(())
}

/// Unbinds a queue pair that is about to be destroyed.
pub(crate) fn release(qp: &Qp, sleep: &MaySleep) {
    if !qp.has_counter() {
        return;
    }
    let mut state = qp.device().core().counters.state.lock();
    let last = state.unbind(qp, qp.port(), true, sleep);
    drop(state);
    finish(last.ok().flatten(), sleep);
}

/// Sum of the values of all counters of a port, including removed ones, for the hardware counter with index `nth`.
pub(crate) fn total(device: &Device, port: u32, nth: u32, sleep: &MaySleep) -> u64 {
    let mut state = device.core().counters.state.lock();
    let Ok(of_port) = state.port(port) else {
        return 0;
    };
    let Some(history) = &of_port.history else {
        return 0;
    };
    let gone = history.get(nth as usize).copied().unwrap_or(0);
    let all = state.live.iter().map(|live| &live.counter);
    let of_port = all.filter(|counter| counter.port() == port);
    let told = of_port.filter(|counter| counter.driver_update(sleep).is_ok());
    told.fold(gone, |sum, counter| {
        sum.wrapping_add(counter.stats().peek(nth))
    })
}

/// Enables or disables an optional hardware counter of a port.
///
/// # Errors
///
/// `EOPNOTSUPP` without driver support, `EINVAL` for one that is not optional, and errors of the driver.
pub(crate) fn set_enabled(
    device: &Device,
    counters: &DeviceCounters,
    nth: u32,
    on: bool,
    sleep: &MaySleep,
) -> Result {
    if !device.has_modify_hw_stat() {
        return Err(EOPNOTSUPP);
    }
    if !counters.is_optional(nth) {
        return Err(EINVAL);
    }
    let locked = counters.lock(sleep);
    if counters.is_enabled(nth) != on {
        counters.driver_modify(device, nth, on, sleep)?;
        counters.set_enabled(nth, on, &locked);
    }
    Ok(())
}

#[kernel::prelude::kunit_tests(ib_core_counter_modes)]
mod tests {
    use super::*;
    use crate::kunit::{with_device, IB, ROCE};

    const TYPE: u32 = c::RDMA_COUNTER_MASK_QP_TYPE;

    #[test]
    fn a_port_binds_by_its_mode() -> Result {
        with_device(|device, _, _| {
            assert!(mode(device, ROCE)? == Mode::NONE);
            assert_eq!(set_auto(device, ROCE, ALL_MASKS, true), Ok(()));
            let now = mode(device, ROCE)?;
            assert!(now.mode == CounterMode::Auto(ALL_MASKS) && now.with_optional);
            // Each port has a mode of its own.
            assert!(mode(device, IB)? == Mode::NONE);
            assert_eq!(set_auto(device, ROCE, TYPE, false), Ok(()));
            assert!(mode(device, ROCE)?.mode == CounterMode::Auto(TYPE));
            assert_eq!(set_auto(device, ROCE, 0, false), Ok(()));
            assert!(mode(device, ROCE)? == Mode::NONE);
            Ok(())
        })
    }

    #[test]
    fn unsupported_criteria_are_rejected() -> Result {
        with_device(|device, _, _| {
            assert_eq!(set_auto(device, ROCE, ALL_MASKS + 1, false), Err(EINVAL));
            assert_eq!(set_auto(device, ROCE, u32::MAX, false), Err(EINVAL));
            assert!(mode(device, ROCE)? == Mode::NONE);
            Ok(())
        })
    }

    #[test]
    fn invalid_ports_are_rejected() -> Result {
        with_device(|device, _, sleep| {
            for port in [0, 3, u32::MAX] {
                assert_eq!(mode(device, port).err(), Some(EINVAL));
                assert_eq!(set_auto(device, port, 0, false), Err(EINVAL));
                assert_eq!(total(device, port, 0, sleep), 0);
            }
            Ok(())
        })
    }

    #[test]
    fn unknown_objects_are_not_bound() -> Result {
        with_device(|device, _, sleep| {
            assert_eq!(bind(device, ROCE, 7, 1, sleep), Err(ENOENT));
            assert_eq!(bind_new(device, ROCE, 7, sleep), Err(ENOENT));
            assert_eq!(unbind(device, ROCE, 7, 1, sleep), Err(ENOENT));
            assert_eq!(set_auto(device, ROCE, TYPE, false), Ok(()));
            assert_eq!(bind(device, ROCE, 7, 1, sleep), Err(EINVAL));
            assert_eq!(bind_new(device, ROCE, 7, sleep), Err(EINVAL));
            assert_eq!(total(device, ROCE, 0, sleep), 0);
            Ok(())
        })
    }
}
