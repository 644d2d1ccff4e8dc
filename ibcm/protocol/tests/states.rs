// SPDX-License-Identifier: GPL-2.0

//! The table of states: nothing is forgotten, nothing hidden, and what it says fits together.
//!
//! concerns rows 6.031, 6.033, 6.034

use ib_cm_protocol::{
    messages::Attribute,
    states::{
        look_up, Action, Event, Input, LapState, Otherwise, Outcome, Refusal, State, To, ALL_LAPS,
        ALL_STATES, TABLE,
    },
};

const INPUTS: [Input; 36] = {
    use Input::*;
    [
        Listen,
        SendReq,
        SendRep,
        SendRtu,
        SendRej,
        PrepareMra,
        SendDreq,
        SendDrep,
        SendLap,
        SendApr,
        SendSidrReq,
        SendSidrRep,
        Establish,
        Migrate,
        Destroy,
        DestroyXrcTarget,
        DestroyNoMemory,
        Established,
        Req,
        ReqAgain,
        Rep,
        RepAgain,
        Rtu,
        MraReq,
        MraRep,
        MraOther,
        Rej,
        RejStale,
        Dreq,
        Drep,
        Lap,
        Apr,
        SidrReq,
        SidrRep,
        SendFailed,
        TimewaitExpired,
    ]
};

/// Every input has one rule; and the numbers are those of the C header.
#[test]
fn inputs_have_rules() {
    for (number, input) in INPUTS.into_iter().enumerate() {
        assert_eq!(input as usize, number);
        assert_eq!(
            TABLE.iter().filter(|rule| rule.input == input).count(),
            1,
            "{input:?}"
        );
    }
    assert_eq!(TABLE.len(), INPUTS.len());
    for (number, state) in ALL_STATES.into_iter().enumerate() {
        assert_eq!(state as usize, number);
    }
    for (number, lap) in ALL_LAPS.into_iter().enumerate() {
        assert_eq!(lap as usize, number);
    }
    assert_eq!(
        (
            Event::ReqError as u32,
            Event::TimewaitExit as u32,
            Event::SidrRepReceived as u32
        ),
        (0, 9, 17)
    );
}

/// A pair of states and an input have one line at most.
#[test]
fn no_line_is_hidden() {
    for rule in TABLE {
        for state in ALL_STATES {
            for lap in ALL_LAPS {
                let lines = rule
                    .lines
                    .iter()
                    .filter(|line| line.from.contains(&state) && line.lap.contains(&lap));
                assert!(lines.count() <= 1, "{:?} {state:?} {lap:?}", rule.input);
            }
        }
    }
}

/// The alternate path matters while the connection is established.
#[test]
fn alternate_paths_are_of_established_connections() {
    for line in TABLE.iter().flat_map(|rule| rule.lines) {
        let matters = line.lap.len() != ALL_LAPS.len() || matches!(line.to, To::Lap(_));
        assert!(!matters || line.from == [State::Established], "{line:?}");
    }
}

/// Destroying ends in the first state wherever it begins, and leaves no peer, no message that waits, no entry.
#[test]
fn destroying_ends_everything() {
    use State::*;
    for input in [
        Input::Destroy,
        Input::DestroyXrcTarget,
        Input::DestroyNoMemory,
    ] {
        for state in ALL_STATES {
            for lap in ALL_LAPS {
                let Outcome::Go(line) = look_up(state, lap, input) else {
                    panic!("{input:?} {state:?}")
                };
                assert_eq!(line.to, To::State(Idle));
                let does = |action| line.actions.contains(&action);
                let waits = matches!(
                    state,
                    ReqSent | MraReqRcvd | RepSent | MraRepRcvd | DreqSent | SidrReqSent
                );
                assert!(!waits || does(Action::Cancel), "{input:?} {state:?}");
                let peer = !matches!(state, Listen | SidrReqSent | SidrReqRcvd | Timewait | Idle);
                assert!(
                    !peer || does(Action::Forget) || does(Action::Timewait),
                    "{input:?} {state:?}"
                );
                assert_eq!(does(Action::ForgetSidr), state == SidrReqRcvd);
                assert_eq!(does(Action::Unlisten), state == Listen);
            }
        }
    }
}

/// The peer's entry waits exactly when the state does, but for identifiers that are destroyed.
#[test]
fn timewait_is_entered_with_its_entry() {
    for rule in TABLE {
        for line in rule.lines {
            let waits = line.actions.contains(&Action::Timewait);
            let destroys = matches!(rule.input, Input::Destroy);
            assert!(
                destroys || waits == (line.to == To::State(State::Timewait)),
                "{:?} {line:?}",
                rule.input
            );
        }
    }
}

/// Calls fail where nothing is said, messages do not; no message is answered by a call's error.
#[test]
fn only_calls_are_refused() {
    for rule in TABLE {
        let is_call = (rule.input as u32) < Input::Established as u32;
        let refuses = matches!(
            rule.otherwise,
            Otherwise::Refuse | Otherwise::As(Input::Destroy)
        );
        assert_eq!(is_call, refuses, "{:?}", rule.input);
        for line in rule.lines {
            assert!(!is_call || line.event.is_none(), "{:?}", rule.input);
        }
    }
}

/// In which states each call succeeds, as the C interface has it.
#[test]
fn calls_succeed_as_stock() {
    use State::*;
    let expected: &[(Input, &[State])] = &[
        (Input::Listen, &[Idle]),
        (Input::SendReq, &[Idle]),
        (Input::SendSidrReq, &[Idle]),
        (Input::SendRep, &[ReqRcvd, MraReqSent]),
        (Input::SendRtu, &[RepRcvd, MraRepSent]),
        (
            Input::SendRej,
            &[
                ReqSent, ReqRcvd, MraReqSent, MraReqRcvd, RepSent, RepRcvd, MraRepSent, MraRepRcvd,
            ],
        ),
        (Input::PrepareMra, &[ReqRcvd, RepRcvd]),
        (Input::SendDreq, &[Established]),
        (Input::SendDrep, &[DreqRcvd]),
        (Input::SendSidrRep, &[SidrReqRcvd]),
        (Input::Establish, &[RepSent, MraRepRcvd]),
        (Input::Migrate, &[Established]),
    ];
    for (input, states) in expected {
        for state in ALL_STATES {
            let goes = matches!(look_up(state, LapState::Uninit, *input), Outcome::Go(_));
            assert_eq!(goes, states.contains(&state), "{input:?} {state:?}");
        }
    }
    let again = look_up(Established, LapState::Uninit, Input::Establish);
    assert!(matches!(again, Outcome::Refused(Refusal::IsConnected)));
    let late = look_up(Idle, LapState::Uninit, Input::Establish);
    assert!(matches!(late, Outcome::Refused(Refusal::Invalid)));
}

/// Messages that have come again count as that, and are answered where there is an answer.
#[test]
fn duplicates() {
    use State::*;
    let answered = [
        (Input::ReqAgain, MraReqSent, Attribute::Req, Attribute::Mra),
        (Input::ReqAgain, Timewait, Attribute::Req, Attribute::Rej),
        (Input::RepAgain, Established, Attribute::Rep, Attribute::Rtu),
        (Input::RepAgain, MraRepSent, Attribute::Rep, Attribute::Mra),
        (Input::Dreq, Timewait, Attribute::Dreq, Attribute::Drep),
    ];
    for (input, state, message, answer) in answered {
        let Outcome::Go(line) = look_up(state, LapState::Uninit, input) else {
            panic!("{input:?}")
        };
        assert_eq!(
            line.actions,
            [Action::Duplicate(message), Action::Resend(answer)]
        );
        assert_eq!((line.to, line.event), (To::Same, None));
    }
    for state in [Idle, Established, DreqSent, Timewait] {
        let counted = look_up(state, LapState::Uninit, Input::Rtu);
        assert!(matches!(counted, Outcome::Ignored(Some(Attribute::Rtu))));
    }
    assert!(matches!(
        look_up(ReqRcvd, LapState::Uninit, Input::ReqAgain),
        Outcome::Ignored(Some(Attribute::Req))
    ));
}
