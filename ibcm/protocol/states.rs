// SPDX-License-Identifier: GPL-2.0

//! The states of an identifier, and [`TABLE`]: what each input does in each of them.
//!
//! ```text
//!  active side                                           passive side
//!  Idle ─▶ ReqSent ────────────▶ RepRcvd ──▶ Established ◀── RepSent ◀──────────── ReqRcvd ◀─ Idle
//!             └▶ MraReqRcvd ─┘    └▶ MraRepSent ─┘    └─ MraRepRcvd ◀┘   └─ MraReqSent ◀┘
//!
//!  Established ─▶ DreqSent ─▶ Timewait ─▶ Idle        Established ─▶ DreqRcvd ─▶ Timewait ─▶ Idle
//!  Idle ─▶ SidrReqSent ─▶ Idle                        Idle ─▶ SidrReqRcvd ─▶ Idle
//! ```
//!
//! The state of an alternate path ([`LapState`]) has a meaning while the connection is established: lines that need one say so.
//! Peer-to-peer connections are not there: stock has none, a REQ finds a listener or nobody.
//!
//! IBTA volume 1, 12.9; C header: `include/rdma/ib_cm.h`.

use crate::messages::Attribute;

/// The state of an identifier (`enum ib_cm_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// Nothing has begun, or all has ended.
    Idle,
    /// It listens.
    Listen,
    /// A REQ was sent.
    ReqSent,
    /// A REQ has come; the client has not answered.
    ReqRcvd,
    /// As [`Self::ReqRcvd`]: a duplicate is answered with an MRA.
    MraReqSent,
    /// As [`Self::ReqSent`]: the peer takes its time.
    MraReqRcvd,
    /// A REP was sent.
    RepSent,
    /// A REP has come; the client has not answered.
    RepRcvd,
    /// As [`Self::RepRcvd`]: a duplicate is answered with an MRA.
    MraRepSent,
    /// As [`Self::RepSent`]: the peer takes its time.
    MraRepRcvd,
    /// The connection is there.
    Established,
    /// A DREQ was sent.
    DreqSent,
    /// A DREQ has come; the client has not answered.
    DreqRcvd,
    /// The connection has ended; packets of it may be on their way.
    Timewait,
    /// A SIDR_REQ was sent.
    SidrReqSent,
    /// A SIDR_REQ has come; the client has not answered.
    SidrReqRcvd,
}

/// The state of an alternate path (`enum ib_cm_lap_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum LapState {
    /// None was loaded since the connection began.
    Uninit,
    /// One was loaded or refused.
    Idle,
    /// A LAP was sent.
    Sent,
    /// A LAP has come; the client has not answered.
    Rcvd,
    /// As [`Self::Rcvd`]: a duplicate is answered with an MRA.
    MraSent,
    /// As [`Self::Sent`]: the peer takes its time.
    MraRcvd,
}

/// What happens to an identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Call: listen.
    Listen,
    /// Call: ask for a connection.
    SendReq,
    /// Call: accept the REQ.
    SendRep,
    /// Call: accept the REP.
    SendRtu,
    /// Call: reject.
    SendRej,
    /// Call: answer duplicates with an MRA.
    PrepareMra,
    /// Call: disconnect.
    SendDreq,
    /// Call: answer the DREQ.
    SendDrep,
    /// Call: ask for an alternate path. The C interface has no such call any more.
    SendLap,
    /// Call: answer the LAP. The C interface has no such call any more.
    SendApr,
    /// Call: ask for the queue pair of a service.
    SendSidrReq,
    /// Call: answer the SIDR_REQ.
    SendSidrRep,
    /// Call: the queue pair has received a packet, so the RTU was lost or is late.
    Establish,
    /// Call: the queue pair has migrated to the alternate path.
    Migrate,
    /// Call: the identifier is given up.
    Destroy,
    /// As [`Self::Destroy`]: the identifier is of an XRC target, whose queue pair others share.
    DestroyXrcTarget,
    /// As [`Self::Destroy`], by a handler without memory: a retry of the REQ may find some.
    DestroyNoMemory,
    /// The work after [`Self::Establish`].
    Established,
    /// A REQ made this identifier.
    Req,
    /// The REQ has come again.
    ReqAgain,
    /// A REP that names no remote ID yet.
    Rep,
    /// The REP has come again.
    RepAgain,
    /// An RTU.
    Rtu,
    /// An MRA for a REQ.
    MraReq,
    /// An MRA for a REP.
    MraRep,
    /// An MRA for a LAP.
    MraOther,
    /// A REJ.
    Rej,
    /// A REJ that says that the connection is stale.
    RejStale,
    /// A DREQ for the queue pair.
    Dreq,
    /// A DREP.
    Drep,
    /// A LAP.
    Lap,
    /// An APR.
    Apr,
    /// A SIDR_REQ made this identifier.
    SidrReq,
    /// A SIDR_REP.
    SidrRep,
    /// The MAD that waits for an answer has none after all retries, or could not be sent.
    SendFailed,
    /// The time of [`State::Timewait`] is over.
    TimewaitExpired,
}

impl Input {
    /// How many there are.
    const COUNT: usize = Self::TimewaitExpired as usize + 1;
}

/// What the client is told (`enum ib_cm_event_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Event {
    /// Nobody has answered the REQ.
    ReqError,
    /// A REQ has come.
    ReqReceived,
    /// Nobody has answered the REP.
    RepError,
    /// A REP has come.
    RepReceived,
    /// An RTU has come.
    RtuReceived,
    /// The client has said so.
    UserEstablished,
    /// Nobody has answered the DREQ.
    DreqError,
    /// A DREQ has come.
    DreqReceived,
    /// A DREP has come.
    DrepReceived,
    /// The queue pair can be used for other connections.
    TimewaitExit,
    /// An MRA has come.
    MraReceived,
    /// A REJ has come.
    RejReceived,
    /// Nobody has answered the LAP.
    LapError,
    /// A LAP has come.
    LapReceived,
    /// An APR has come.
    AprReceived,
    /// Nobody has answered the SIDR_REQ.
    SidrReqError,
    /// A SIDR_REQ has come.
    SidrReqReceived,
    /// A SIDR_REP has come.
    SidrRepReceived,
}

/// What is done, in this order, before the state changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sends a message, again and again until it is answered.
    Request(Attribute),
    /// Sends a message once.
    Send(Attribute),
    /// Sends the answer again, to where the duplicate came from.
    Resend(Attribute),
    /// The message that waits for an answer needs none.
    Cancel,
    /// The message that waits for an answer waits for longer; if it does not wait, the input is ignored.
    Extend,
    /// The peer's entry goes.
    Forget,
    /// The peer's entry leaves the tables; its time of waiting begins.
    Timewait,
    /// Clients do not find the listener any more.
    Unlisten,
    /// The entry of the SIDR_REQ goes.
    ForgetSidr,
    /// Private data of the client is kept for duplicates.
    Keep,
    /// None is kept.
    KeepNone,
    /// Answers carry the transaction ID of this message.
    TakeTransaction,
    /// The alternate path becomes the primary one.
    SwitchPath,
    /// A message has come again.
    Duplicate(Attribute),
}

/// Where a line leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// To a state.
    State(State),
    /// To a state of the alternate path.
    Lap(LapState),
    /// Nowhere.
    Same,
    /// Nowhere: the call fails.
    Refused(Refusal),
}

/// What becomes of the state when a message cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsent {
    /// It stays.
    Stays,
    /// It changes all the same.
    Goes,
    /// The connection has ended.
    Timewait,
}

/// Why a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The state does not allow it (`-EINVAL`).
    Invalid,
    /// The connection is there (`-EISCONN`).
    IsConnected,
}

/// What an input does in some states.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// In these states,
    pub from: &'static [State],
    /// with these ones of the alternate path.
    pub lap: &'static [LapState],
    /// The next state.
    pub to: To,
    /// What is done.
    pub actions: &'static [Action],
    /// What the client is told.
    pub event: Option<Event>,
    /// When a message cannot be sent.
    pub unsent: Unsent,
}

impl Line {
    const fn new(from: &'static [State], to: To, actions: &'static [Action]) -> Self {
        Self {
            from,
            lap: &ALL_LAPS,
            to,
            actions,
            event: None,
            unsent: Unsent::Stays,
        }
    }

    const fn with(self, lap: &'static [LapState]) -> Self {
        Self { lap, ..self }
    }

    const fn tells(self, event: Event) -> Self {
        Self {
            event: Some(event),
            ..self
        }
    }

    const fn unsent(self, unsent: Unsent) -> Self {
        Self { unsent, ..self }
    }
}

/// What an input does where no line says anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Otherwise {
    /// The call fails.
    Refuse,
    /// Nothing.
    Ignore,
    /// It counts as a duplicate.
    Duplicate(Attribute),
    /// What another input does.
    As(Input),
}

/// All that an input does.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The input.
    pub input: Input,
    /// Where something happens.
    pub lines: &'static [Line],
    /// What happens elsewhere.
    pub otherwise: Otherwise,
}

/// All states.
pub const ALL_STATES: [State; 16] = {
    use State::*;
    [
        Idle,
        Listen,
        ReqSent,
        ReqRcvd,
        MraReqSent,
        MraReqRcvd,
        RepSent,
        RepRcvd,
        MraRepSent,
        MraRepRcvd,
        Established,
        DreqSent,
        DreqRcvd,
        Timewait,
        SidrReqSent,
        SidrReqRcvd,
    ]
};

/// All states of an alternate path.
pub const ALL_LAPS: [LapState; 6] = {
    use LapState::*;
    [Uninit, Idle, Sent, Rcvd, MraSent, MraRcvd]
};

/// No LAP waits for an answer.
const LAP_QUIET: &[LapState] = &[
    LapState::Uninit,
    LapState::Idle,
    LapState::Rcvd,
    LapState::MraSent,
];
/// A LAP waits for an answer.
const LAP_WAITS: &[LapState] = &[LapState::Sent, LapState::MraRcvd];
/// A LAP may begin.
const LAP_FREE: &[LapState] = &[LapState::Uninit, LapState::Idle];

/// The rules of all inputs.
#[rustfmt::skip]
pub const TABLE: &[Rule] = {
    use {Action as A, Attribute as M, Event as E, Input as I, LapState as L, Otherwise as O, State as S};
    const fn rule(input: Input, lines: &'static [Line], otherwise: Otherwise) -> Rule {
        Rule { input, lines, otherwise }
    }
    const fn line(from: &'static [State], to: State, actions: &'static [Action]) -> Line {
        Line::new(from, To::State(to), actions)
    }
    const fn lap(lap: &'static [LapState], to: LapState, actions: &'static [Action]) -> Line {
        Line::new(&[S::Established], To::Lap(to), actions).with(lap)
    }
    const fn same(from: &'static [State], actions: &'static [Action]) -> Line {
        Line::new(from, To::Same, actions)
    }
    &[
        // Calls
        rule(I::Listen, &[line(&[S::Idle], S::Listen, &[])], O::Refuse),
        rule(I::SendReq, &[line(&[S::Idle], S::ReqSent, &[A::Request(M::Req)])], O::Refuse),
        rule(I::SendRep, &[line(&[S::ReqRcvd, S::MraReqSent], S::RepSent, &[A::Request(M::Rep)])], O::Refuse),
        rule(I::SendRtu, &[line(&[S::RepRcvd, S::MraRepSent], S::Established, &[A::Send(M::Rtu), A::Keep])], O::Refuse),
        rule(I::SendRej, &[
            line(&[S::ReqSent, S::MraReqRcvd, S::ReqRcvd, S::MraReqSent, S::RepRcvd, S::MraRepSent], S::Idle,
                &[A::Forget, A::Send(M::Rej)]).unsent(Unsent::Goes),
            line(&[S::RepSent, S::MraRepRcvd], S::Timewait, &[A::Timewait, A::Send(M::Rej)]).unsent(Unsent::Goes),
        ], O::Refuse),
        rule(I::PrepareMra, &[
            line(&[S::ReqRcvd], S::MraReqSent, &[A::KeepNone]),
            line(&[S::RepRcvd], S::MraRepSent, &[A::KeepNone]),
            lap(&[L::Rcvd], L::MraSent, &[A::KeepNone]),
        ], O::Refuse),
        rule(I::SendDreq, &[
            line(&[S::Established], S::DreqSent, &[A::Cancel, A::Request(M::Dreq)]).with(LAP_WAITS).unsent(Unsent::Timewait),
            line(&[S::Established], S::DreqSent, &[A::Request(M::Dreq)]).with(LAP_QUIET).unsent(Unsent::Timewait),
        ], O::Refuse),
        rule(I::SendDrep, &[
            line(&[S::DreqRcvd], S::Timewait, &[A::Keep, A::Timewait, A::Send(M::Drep)]).unsent(Unsent::Goes),
        ], O::Refuse),
        rule(I::SendLap, &[lap(LAP_FREE, L::Sent, &[A::Request(M::Lap)])], O::Refuse),
        rule(I::SendApr, &[lap(&[L::Rcvd, L::MraSent], L::Idle, &[A::Send(M::Apr)])], O::Refuse),
        rule(I::SendSidrReq, &[line(&[S::Idle], S::SidrReqSent, &[A::Request(M::SidrReq)])], O::Refuse),
        rule(I::SendSidrRep, &[line(&[S::SidrReqRcvd], S::Idle, &[A::Send(M::SidrRep), A::ForgetSidr])], O::Refuse),
        rule(I::Establish, &[
            line(&[S::RepSent, S::MraRepRcvd], S::Established, &[]),
            Line::new(&[S::Established], To::Refused(Refusal::IsConnected), &[]),
        ], O::Refuse),
        rule(I::Migrate, &[lap(LAP_FREE, L::Idle, &[A::SwitchPath])], O::Refuse),
        rule(I::Destroy, &[
            line(&[S::Listen], S::Idle, &[A::Unlisten]),
            line(&[S::SidrReqSent], S::Idle, &[A::Cancel]),
            line(&[S::SidrReqRcvd], S::Idle, &[A::Send(M::SidrRep), A::ForgetSidr]).unsent(Unsent::Goes),
            line(&[S::ReqSent, S::MraReqRcvd], S::Idle, &[A::Cancel, A::Forget, A::Send(M::Rej)]).unsent(Unsent::Goes),
            line(&[S::ReqRcvd, S::MraReqSent, S::RepRcvd, S::MraRepSent], S::Idle,
                &[A::Forget, A::Send(M::Rej)]).unsent(Unsent::Goes),
            line(&[S::RepSent, S::MraRepRcvd], S::Idle, &[A::Cancel, A::Timewait, A::Send(M::Rej)]).unsent(Unsent::Goes),
            line(&[S::Established], S::Idle, &[A::Send(M::Dreq), A::Timewait]).with(LAP_QUIET).unsent(Unsent::Goes),
            line(&[S::Established], S::Idle, &[A::Cancel, A::Send(M::Dreq), A::Timewait]).with(LAP_WAITS).unsent(Unsent::Goes),
            line(&[S::DreqSent], S::Idle, &[A::Cancel, A::Timewait]),
            line(&[S::DreqRcvd], S::Idle, &[A::Timewait, A::Send(M::Drep)]).unsent(Unsent::Goes),
            // What an attempt has left that went wrong before its message was sent.
            line(&[S::Timewait, S::Idle], S::Idle, &[A::Forget]),
        ], O::Refuse),
        rule(I::DestroyXrcTarget, &[line(&[S::Established], S::Idle, &[A::Forget])], O::As(I::Destroy)),
        rule(I::DestroyNoMemory, &[line(&[S::ReqRcvd], S::Idle, &[A::Forget])], O::As(I::Destroy)),
        rule(I::Established, &[same(&[S::Established], &[A::Cancel]).tells(E::UserEstablished)], O::Ignore),

        // Messages
        rule(I::Req, &[line(&[S::Idle], S::ReqRcvd, &[]).tells(E::ReqReceived)], O::Ignore),
        rule(I::ReqAgain, &[
            same(&[S::MraReqSent], &[A::Duplicate(M::Req), A::Resend(M::Mra)]),
            same(&[S::Timewait], &[A::Duplicate(M::Req), A::Resend(M::Rej)]),
        ], O::Duplicate(M::Req)),
        rule(I::Rep, &[line(&[S::ReqSent, S::MraReqRcvd], S::RepRcvd, &[A::Cancel]).tells(E::RepReceived)], O::Ignore),
        rule(I::RepAgain, &[
            same(&[S::Established], &[A::Duplicate(M::Rep), A::Resend(M::Rtu)]),
            same(&[S::MraRepSent], &[A::Duplicate(M::Rep), A::Resend(M::Mra)]),
        ], O::Duplicate(M::Rep)),
        rule(I::Rtu, &[
            line(&[S::RepSent, S::MraRepRcvd], S::Established, &[A::Cancel]).tells(E::RtuReceived),
        ], O::Duplicate(M::Rtu)),
        rule(I::MraReq, &[
            line(&[S::ReqSent], S::MraReqRcvd, &[A::Extend]).tells(E::MraReceived),
            same(&[S::MraReqRcvd, S::MraRepRcvd], &[A::Duplicate(M::Mra)]),
            same(&[S::Established], &[A::Duplicate(M::Mra)]).with(&[L::MraRcvd]),
        ], O::Ignore),
        rule(I::MraRep, &[
            line(&[S::RepSent], S::MraRepRcvd, &[A::Extend]).tells(E::MraReceived),
            same(&[S::MraReqRcvd, S::MraRepRcvd], &[A::Duplicate(M::Mra)]),
            same(&[S::Established], &[A::Duplicate(M::Mra)]).with(&[L::MraRcvd]),
        ], O::Ignore),
        rule(I::MraOther, &[
            lap(&[L::Sent], L::MraRcvd, &[A::Extend]).tells(E::MraReceived),
            same(&[S::MraReqRcvd, S::MraRepRcvd], &[A::Duplicate(M::Mra)]),
            same(&[S::Established], &[A::Duplicate(M::Mra)]).with(&[L::MraRcvd]),
        ], O::Ignore),
        rule(I::Rej, &[
            line(&[S::ReqSent, S::MraReqRcvd, S::RepSent, S::MraRepRcvd], S::Idle, &[A::Cancel, A::Forget]).tells(E::RejReceived),
            line(&[S::ReqRcvd, S::MraReqSent], S::Idle, &[A::Forget]).tells(E::RejReceived),
            line(&[S::RepRcvd, S::MraRepSent], S::Timewait, &[A::Timewait]).tells(E::RejReceived),
            line(&[S::DreqSent], S::Timewait, &[A::Cancel, A::Timewait]).tells(E::RejReceived),
            line(&[S::Established], S::Timewait, &[A::Timewait]).with(&[L::Uninit]).tells(E::RejReceived),
            line(&[S::Established], S::Timewait, &[A::Cancel, A::Timewait]).with(&[L::Sent]).tells(E::RejReceived),
        ], O::Ignore),
        rule(I::RejStale, &[
            line(&[S::ReqSent, S::MraReqRcvd, S::RepSent, S::MraRepRcvd], S::Timewait,
                &[A::Cancel, A::Timewait]).tells(E::RejReceived),
            line(&[S::ReqRcvd, S::MraReqSent], S::Timewait, &[A::Timewait]).tells(E::RejReceived),
        ], O::As(I::Rej)),
        rule(I::Dreq, &[
            line(&[S::RepSent, S::MraRepRcvd, S::DreqSent], S::DreqRcvd, &[A::Cancel, A::TakeTransaction]).tells(E::DreqReceived),
            line(&[S::Established], S::DreqRcvd, &[A::Cancel, A::TakeTransaction]).with(LAP_WAITS).tells(E::DreqReceived),
            line(&[S::Established], S::DreqRcvd, &[A::TakeTransaction]).with(LAP_QUIET).tells(E::DreqReceived),
            same(&[S::Timewait], &[A::Duplicate(M::Dreq), A::Resend(M::Drep)]),
            same(&[S::DreqRcvd], &[A::Duplicate(M::Dreq)]),
        ], O::Ignore),
        rule(I::Drep, &[
            line(&[S::DreqSent, S::DreqRcvd], S::Timewait, &[A::Timewait, A::Cancel]).tells(E::DrepReceived),
        ], O::Ignore),
        rule(I::Lap, &[
            lap(LAP_FREE, L::Rcvd, &[A::TakeTransaction]).tells(E::LapReceived),
            same(&[S::Established], &[A::Duplicate(M::Lap), A::Resend(M::Mra)]).with(&[L::MraSent]),
            same(&[S::Established], &[A::Duplicate(M::Lap)]).with(&[L::Rcvd]),
        ], O::Ignore),
        rule(I::Apr, &[lap(LAP_WAITS, L::Idle, &[A::Cancel]).tells(E::AprReceived)], O::Ignore),
        rule(I::SidrReq, &[line(&[S::Idle], S::SidrReqRcvd, &[]).tells(E::SidrReqReceived)], O::Ignore),
        rule(I::SidrRep, &[line(&[S::SidrReqSent], S::Idle, &[A::Cancel]).tells(E::SidrRepReceived)], O::Ignore),

        // Times
        rule(I::SendFailed, &[
            line(&[S::ReqSent, S::MraReqRcvd], S::Idle, &[A::Forget]).tells(E::ReqError),
            line(&[S::RepSent, S::MraRepRcvd], S::Idle, &[A::Forget]).tells(E::RepError),
            line(&[S::DreqSent], S::Timewait, &[A::Timewait]).tells(E::DreqError),
            line(&[S::SidrReqSent], S::Idle, &[]).tells(E::SidrReqError),
        ], O::Ignore),
        rule(I::TimewaitExpired, &[line(&[S::Timewait], S::Idle, &[]).tells(E::TimewaitExit)], O::Ignore),
    ]
};

/// What an input does.
#[derive(Clone, Copy, Debug)]
pub enum Outcome {
    /// What a line says.
    Go(&'static Line),
    /// The call fails.
    Refused(Refusal),
    /// Nothing; a duplicate is counted.
    Ignored(Option<Attribute>),
}

/// The rule of each input, by its number in [`Input`].
const RULES: [Option<&Rule>; Input::COUNT] = {
    let mut rules = [None; Input::COUNT];
    let mut at = 0;
    while at < TABLE.len() {
        let rule = &TABLE[at];
        rules[rule.input as usize] = Some(rule);
        at += 1;
    }
    rules
};

fn rule_of(input: Input) -> Option<&'static Rule> {
    RULES.get(input as usize).copied().flatten()
}

/// Looks up what an input does.
pub fn look_up(state: State, lap: LapState, input: Input) -> Outcome {
    let Some(rule) = rule_of(input) else {
        return Outcome::Ignored(None);
    };
    let line = find(rule, state, lap);
    match (line, rule.otherwise) {
        (
            Some(Line {
                to: To::Refused(why),
                ..
            }),
            _,
        ) => Outcome::Refused(*why),
        (Some(line), _) => Outcome::Go(line),
        (None, Otherwise::Refuse) => Outcome::Refused(Refusal::Invalid),
        (None, Otherwise::Ignore) => Outcome::Ignored(None),
        (None, Otherwise::Duplicate(message)) => Outcome::Ignored(Some(message)),
        (None, Otherwise::As(other)) => {
            let line = rule_of(other).and_then(|rule| find(rule, state, lap));
            line.map_or(Outcome::Ignored(None), Outcome::Go)
        }
    }
}

fn find(rule: &'static Rule, state: State, lap: LapState) -> Option<&'static Line> {
    let mut lines = rule.lines.iter();
    lines.find(|line| line.from.contains(&state) && line.lap.contains(&lap))
}
