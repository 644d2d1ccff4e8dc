// SPDX-License-Identifier: GPL-2.0

//! iw_cm's table of states, as `iwcm/states.rs` has it, and a model of those that walk it: a client, a driver, a peer.
#![cfg(test)]

#[path = "../../../../iwcm/states.rs"]
mod states;

mod walk;

use states::{step, Action, Input, Outcome, State, TRANSITIONS};

const STATES: [State; 10] = [
    State::Idle,
    State::Starting,
    State::Listen,
    State::Requested,
    State::Accepting,
    State::Rejecting,
    State::Connecting,
    State::Established,
    State::Closing,
    State::Destroying,
];

const INPUTS: [Input; 14] = [
    Input::Listen,
    Input::Connect,
    Input::Accept,
    Input::Reject,
    Input::Disconnect,
    Input::Destroy,
    Input::Done,
    Input::Failed,
    Input::Request,
    Input::Replied,
    Input::Refused,
    Input::Connected,
    Input::PeerDisconnected,
    Input::Closed,
];

/// The states in which an identifier has a queue pair.
fn has_qp(state: State) -> bool {
    use State::*;
    matches!(state, Accepting | Connecting | Established | Closing)
}

/// A pair of state and input stands in the table once.
#[test]
fn no_line_is_hidden() {
    for (nth, line) in TRANSITIONS.iter().enumerate() {
        let before = &TRANSITIONS[..nth];
        let hidden = before
            .iter()
            .any(|other| (other.0, other.1) == (line.0, line.1));
        assert!(!hidden, "{line:?}");
    }
}

/// Nothing leads out of the last state, and into it leads nothing but the client that gives the identifier up.
#[test]
fn the_end_is_the_end() {
    for input in INPUTS {
        assert_eq!(
            step(State::Destroying, input),
            Outcome::Refused,
            "{input:?}"
        );
    }
    for line in TRANSITIONS {
        assert_eq!(
            line.2 == State::Destroying,
            line.1 == Input::Destroy,
            "{line:?}"
        );
    }
}

/// Wherever it is, a client may give an identifier up or disconnect it; in busy states, and in them alone, it waits. A listener and an
/// identifier that is given up cannot be disconnected.
#[test]
fn clients_wait_in_busy_states() {
    for state in STATES {
        let (end, cut) = (step(state, Input::Destroy), step(state, Input::Disconnect));
        assert_eq!(end == Outcome::Wait, state.is_busy(), "{state:?}");
        assert_eq!(cut == Outcome::Wait, state.is_busy(), "{state:?}");
        let refuses = matches!(state, State::Listen | State::Destroying);
        assert_eq!(cut == Outcome::Refused, refuses, "{state:?}");
        assert_eq!(
            end == Outcome::Refused,
            state == State::Destroying,
            "{state:?}"
        );
    }
}

/// A busy state is left by what the driver says, each in one step, so that nobody waits for ever.
#[test]
fn busy_states_end() {
    use Input::*;
    let answers = [Done, Failed, Replied, Refused, Connected, Closed];
    for state in STATES.into_iter().filter(|state| state.is_busy()) {
        let ends = answers.iter().any(|&input| match step(state, input) {
            Outcome::To(next, _) => !next.is_busy(),
            _ => false,
        });
        assert!(ends, "{state:?}");
        let fails = matches!(step(state, Failed), Outcome::To(State::Idle, _));
        assert!(fails, "{state:?}");
    }
}

/// A queue pair is released by exactly those steps that leave the states that have one.
#[test]
fn queue_pairs_are_released() {
    for &(from, input, to, action) in TRANSITIONS {
        let releases = matches!(
            action,
            Action::Release | Action::ReleaseAndTell | Action::Abort
        );
        assert_eq!(has_qp(from) && !has_qp(to), releases, "{from:?} {input:?}");
        let begins = matches!(input, Input::Connect | Input::Accept);
        assert_eq!(!has_qp(from) && has_qp(to), begins, "{from:?} {input:?}");
    }
}

/// A peer that its client has not answered is answered by the step that leaves the state.
#[test]
fn peers_are_answered() {
    for &(from, input, to, action) in TRANSITIONS {
        if from == State::Requested && to != State::Requested {
            assert!(
                matches!(action, Action::Begin | Action::Refuse),
                "{input:?}"
            );
        }
        assert_eq!(
            action == Action::Refuse,
            from == State::Requested && input == Input::Destroy
        );
    }
}

/// What only a listener has to do with: peers come to it alone, and it is told nothing else.
#[test]
fn listeners_are_apart() {
    for &(from, input, to, action) in TRANSITIONS {
        let listens = matches!(from, State::Starting | State::Listen);
        assert_eq!(action == Action::Offer, input == Input::Request, "{from:?}");
        assert!(input != Input::Request || listens && to == from);
        assert_eq!(
            action == Action::StopListening,
            from == State::Listen && to == State::Destroying
        );
        let told = matches!(action, Action::Tell | Action::ReleaseAndTell);
        assert!(!(listens && told), "{from:?} {input:?}");
    }
}

/// The attributes of a queue pair are there as stock has it: not for a listener, nor after a disconnect.
#[test]
fn attributes_as_stock() {
    use State::*;
    for state in STATES {
        let none = matches!(state, Starting | Listen | Closing | Destroying);
        assert_eq!(state.has_qp_attributes(), !none, "{state:?}");
    }
}
