// SPDX-License-Identifier: GPL-2.0

//! The table of states: what leads where, and walks of clients, peers and devices at random.

use cm_rules::errno::Errno;
use cm_rules::event::Event;
use cm_rules::state::{call, look_up, From, Input, State, Tell, UnderWay, TRANSITIONS};
use proptest::prelude::*;

fn new_state(state: State, input: Input) -> State {
    look_up(state, input).map_or(state, |step| step.new)
}

fn walk(inputs: &[Input]) -> State {
    inputs.iter().fold(State::Idle, |state, input| {
        let step = look_up(state, *input);
        step.unwrap_or_else(|| panic!("{input:?} in {state:?}")).new
    })
}

#[test]
fn the_ways_of_both_sides() {
    use Input as I;
    let resolve = [
        I::Bind,
        I::ResolveAddr,
        I::AddrFound,
        I::ResolveRoute,
        I::RouteFound,
    ];
    assert_eq!(walk(&resolve), State::RouteResolved);
    let end = [
        I::Connect,
        I::Progress,
        I::Disconnected,
        I::TimewaitExit,
        I::Destroy,
    ];
    assert_eq!(walk(&[&resolve[..], &end].concat()), State::Destroying);
    assert_eq!(
        walk(&[I::Bind, I::Listen, I::Request, I::Request]),
        State::Listen
    );
    let service = [I::Bind, I::ResolveService, I::ServiceFound, I::ResolveRoute];
    assert_eq!(walk(&service), State::RouteQuery);
    // What is not found may be looked for again.
    let again = [
        I::Bind,
        I::ResolveAddr,
        I::AddrFailed,
        I::ResolveAddr,
        I::AddrFound,
    ];
    assert_eq!(walk(&again), State::AddrResolved);
    let again = [&again[..], &[I::ResolveRoute, I::RouteFailed, I::SetPath]].concat();
    assert_eq!(walk(&again), State::RouteResolved);
}

#[test]
fn numbers_are_those_of_netlink() {
    for (number, state) in (0..).zip(State::ALL) {
        assert_eq!(state as u32, number);
    }
}

#[test]
fn no_line_hides_another_one() {
    for state in State::ALL {
        for input in Input::ALL {
            let fits = |line: &&cm_rules::state::Transition| {
                line.input == input
                    && match line.from {
                        From::In(states) => states.contains(&state),
                        From::Alive => state.is_alive(),
                        From::NotDestroying => state != State::Destroying,
                    }
            };
            assert!(
                TRANSITIONS.iter().filter(fits).count() <= 1,
                "{input:?} in {state:?}"
            );
        }
    }
    for input in Input::ALL {
        assert!(
            TRANSITIONS.iter().any(|line| line.input == input),
            "{input:?}"
        );
    }
}

#[test]
fn each_state_is_reached() {
    let mut reached = vec![State::Idle];
    while let Some(new) = reached
        .iter()
        .flat_map(|state| Input::ALL.map(|input| new_state(*state, input)))
        .find(|state| !reached.contains(state))
    {
        reached.push(new);
    }
    assert_eq!(reached.len(), State::ALL.len());
}

#[test]
fn refusals() {
    let cases = [
        (State::AddrBound, Input::Restrict, Errno::Already),
        (State::AddrBound, Input::Bind, Errno::Invalid),
        (State::Idle, Input::Connect, Errno::Invalid),
        (State::AddrResolved, Input::Connect, Errno::Invalid),
        (State::Idle, Input::Accept, Errno::Invalid),
        (State::Listen, Input::Join, Errno::Invalid),
        (State::Destroying, Input::Request, Errno::ConnectionAborted),
        (State::AddrBound, Input::Request, Errno::ConnectionAborted),
    ];
    for (state, input, errno) in cases {
        assert_eq!(call(state, input), Err(errno), "{input:?} in {state:?}");
    }
}

#[test]
fn settings() {
    for state in State::ALL {
        let idle = state == State::Idle;
        assert_eq!(state.check_reuse(true).is_ok(), state != State::Listen);
        assert_eq!(state.check_reuse(false).is_ok(), idle);
        let bound = state == State::AddrBound;
        assert_eq!(state.check_family_only().is_ok(), idle || bound);
    }
    assert_eq!(State::AddrQuery.under_way(), UnderWay::Address);
    assert_eq!(State::RouteQuery.under_way(), UnderWay::Route);
    assert_eq!(State::Listen.under_way(), UnderWay::Listening);
    assert_eq!(State::AddrInfoQuery.under_way(), UnderWay::Nothing);
}

#[test]
fn a_call_that_fails_is_taken_back() {
    let step = call(State::AddrInfoResolved, Input::ResolveRoute).unwrap();
    assert_eq!(step.undone(State::RouteQuery), State::AddrInfoResolved);
    // The device has gone meanwhile.
    assert_eq!(step.undone(State::DeviceRemoval), State::DeviceRemoval);
    let step = call(State::RouteQuery, Input::RouteFound);
    assert_eq!(
        step.unwrap().undone(State::RouteResolved),
        State::RouteResolved
    );
}

proptest! {
    #[test]
    fn who_is_gone_hears_nothing(steps in prop::collection::vec((0..Input::ALL.len(), any::<bool>()), 0..200)) {
        let (mut state, mut removals, mut ended) = (State::Idle, 0, false);
        for (index, fails) in steps {
            let input = Input::ALL[index];
            let Some(step) = look_up(state, input) else { continue };
            prop_assert_eq!(step.old, state);
            prop_assert!(state != State::Destroying);
            if step.tell != Tell::Nothing {
                prop_assert!(state.is_alive());
            }
            removals += u32::from(step.tell == Tell::Event(Event::DeviceRemoval));
            prop_assert!(removals <= 1);
            if ended {
                prop_assert!(!matches!(step.new, State::Connect | State::RouteResolved));
            }
            ended |= step.new == State::Disconnect;
            state = if fails { step.undone(step.new) } else { step.new };
        }
        prop_assert_eq!(look_up(state, Input::Destroy).is_some(), state != State::Destroying);
    }
}
