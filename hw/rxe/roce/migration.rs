// SPDX-License-Identifier: GPL-2.0

//! Automatic path migration: the states of a connection with an alternate path (IBTA volume 1, 10.4 and 17.2.8).
//!
//! A connection begins in [`PathState::Migrated`], and stays there if it has no alternate path. Its user loads one at both ends, and
//! asks for [`PathState::Rearm`]; each end that sees that the other one has done so is [`PathState::Armed`]. From then on either end may
//! migrate: if its user asks for that, or if its retries are exhausted. It takes the alternate path, and the other end follows when a
//! packet from there arrives.
//!
//! The ends tell each other by a bit of the base transport header, MigReq ([`Bth::migrated`](crate::wire::Bth)): it is set in
//! [`PathState::Migrated`] and clear in the others.

use crate::pkey::Pkey;
use crate::timer::AckTimeout;

/// The state of path migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathState {
    /// There is one path: none was loaded beside it, or the connection has migrated to that.
    Migrated,
    /// This end is ready to migrate, and waits for the other one.
    Rearm,
    /// Both ends are ready.
    Armed,
}

/// The state that the user asks for. It cannot ask for [`PathState::Armed`], to which both ends contribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The present path alone, or, where both ends are ready, the alternate one.
    Migrated,
    /// Ready to migrate.
    Rearm,
}

/// What changes the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    Wanted(Wanted),
    /// A packet on the primary path has MigReq clear.
    PeerReady,
    /// A packet on the alternate path has MigReq set.
    PeerMigrated,
    /// A packet on another path has MigReq set.
    PeerElsewhere,
    /// The retries of a request are exhausted.
    RetriesExhausted,
}

/// What an input leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// Nothing but the new state.
    None,
    /// The user's request is invalid.
    Invalid,
    /// Packets take the alternate path.
    TakeAlternate,
    /// The peer's request to migrate is refused.
    RefusePeer,
}

struct Rule {
    from: PathState,
    input: Input,
    to: PathState,
    effect: Effect,
}

const fn rule(from: PathState, input: Input, to: PathState, effect: Effect) -> Rule {
    Rule {
        from,
        input,
        to,
        effect,
    }
}

/// The state machine (IBTA volume 1, 17.2.8.1). What is not in the table changes nothing.
const RULES: [Rule; 8] = {
    use Effect as E;
    use Input as I;
    use PathState::{Armed, Migrated, Rearm};
    [
        rule(Migrated, I::Wanted(Wanted::Rearm), Rearm, E::None),
        rule(Rearm, I::PeerReady, Armed, E::None),
        rule(Rearm, I::Wanted(Wanted::Migrated), Rearm, E::Invalid),
        rule(Armed, I::Wanted(Wanted::Rearm), Armed, E::Invalid),
        rule(
            Armed,
            I::Wanted(Wanted::Migrated),
            Migrated,
            E::TakeAlternate,
        ),
        rule(Armed, I::PeerMigrated, Migrated, E::TakeAlternate),
        rule(Armed, I::RetriesExhausted, Migrated, E::TakeAlternate),
        rule(Armed, I::PeerElsewhere, Armed, E::RefusePeer),
    ]
};

/// What differs between paths for the requester.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathAttr {
    /// Partition key of sent packets.
    pub pkey: Pkey,
    /// Timeout for a response. RC only.
    pub ack_timeout: AckTimeout,
}

/// Where a packet has come from: between the addresses of which paths. Both, where the paths have the same addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The path that packets take.
    pub primary: bool,
    /// The alternate path.
    pub alternate: bool,
}

/// What is to be done with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is from the peer.
    Take,
    /// It is from the peer, which has migrated: packets take the alternate path from now on.
    Follow,
    /// It is dropped.
    Drop,
    /// It is dropped, and the user is told of a request to migrate that was refused: `IB_EVENT_PATH_MIG_ERR`.
    Refuse,
}

/// The state of path migration of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    state: PathState,
    /// Whether the user was told of a request of the peer that was refused: once in each Armed state, since anyone on the network
    /// can send such packets.
    refused: bool,
}

impl Default for Migration {
    fn default() -> Self {
        Self::new()
    }
}

impl Migration {
    /// The state of a new connection.
    pub const fn new() -> Self {
        Self {
            state: PathState::Migrated,
            refused: false,
        }
    }

    /// The state.
    #[inline]
    pub const fn state(&self) -> PathState {
        self.state
    }

    /// Whether packets are sent with MigReq set, and those that arrive need not be [judged](Self::judge).
    #[inline]
    pub const fn has_migrated(&self) -> bool {
        matches!(self.state, PathState::Migrated)
    }

    /// The state after an input, and its effect.
    fn after(&self, input: Input) -> (PathState, Effect) {
        RULES
            .iter()
            .find(|rule| rule.from == self.state && rule.input == input)
            .map_or((self.state, Effect::None), |rule| (rule.to, rule.effect))
    }

    fn enter(&mut self, input: Input) -> Effect {
        let (state, effect) = self.after(input);
        if state != self.state {
            self.refused = false;
        }
        self.state = state;
        effect
    }

    /// Whether the user may ask for a state now.
    pub fn allows(&self, wanted: Wanted) -> bool {
        self.after(Input::Wanted(wanted)).1 != Effect::Invalid
    }

    /// The user asks for a state. Returns whether packets take the alternate path from now on.
    #[must_use]
    pub fn ask(&mut self, wanted: Wanted) -> bool {
        self.enter(Input::Wanted(wanted)) == Effect::TakeAlternate
    }

    /// The retries of a request are exhausted. Returns whether packets take the alternate path from now on; otherwise the request
    /// fails.
    #[must_use]
    pub fn retries_exhausted(&mut self) -> bool {
        self.enter(Input::RetriesExhausted) == Effect::TakeAlternate
    }

    /// A packet has arrived, with MigReq set or clear.
    ///
    /// In the Armed state a packet with MigReq is valid on the alternate path, all others on the primary path (9.6.1.5).
    pub fn judge(&mut self, origin: Origin, migrated: bool) -> Verdict {
        let input = match (migrated, origin) {
            (
                true,
                Origin {
                    alternate: true, ..
                },
            ) => Input::PeerMigrated,
            (true, _) => Input::PeerElsewhere,
            (false, Origin { primary: true, .. }) => Input::PeerReady,
            (false, _) => return Verdict::Drop,
        };
        match self.enter(input) {
            Effect::TakeAlternate => Verdict::Follow,
            Effect::RefusePeer => self.refuse(),
            Effect::None | Effect::Invalid if origin.primary => Verdict::Take,
            Effect::None | Effect::Invalid => Verdict::Drop,
        }
    }

    fn refuse(&mut self) -> Verdict {
        match core::mem::replace(&mut self.refused, true) {
            true => Verdict::Drop,
            false => Verdict::Refuse,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use PathState::{Armed, Migrated, Rearm};

    const STATES: [PathState; 3] = [Migrated, Rearm, Armed];
    const NOWHERE: Origin = Origin {
        primary: false,
        alternate: false,
    };
    const PRIMARY: Origin = Origin {
        primary: true,
        ..NOWHERE
    };
    const ALTERNATE: Origin = Origin {
        alternate: true,
        ..NOWHERE
    };
    const BOTH: Origin = Origin {
        primary: true,
        alternate: true,
    };

    fn in_state(state: PathState) -> Migration {
        Migration {
            state,
            refused: false,
        }
    }

    /// What a user may ask for: 10.4.
    #[test]
    fn the_user_arms_and_migrates() {
        for (from, wanted, valid, takes, to) in [
            (Migrated, Wanted::Migrated, true, false, Migrated),
            (Migrated, Wanted::Rearm, true, false, Rearm),
            (Rearm, Wanted::Rearm, true, false, Rearm),
            (Rearm, Wanted::Migrated, false, false, Rearm),
            (Armed, Wanted::Migrated, true, true, Migrated),
            (Armed, Wanted::Rearm, false, false, Armed),
        ] {
            let mut migration = in_state(from);
            assert_eq!(migration.allows(wanted), valid, "{from:?} {wanted:?}");
            assert_eq!(migration.ask(wanted), takes, "{from:?} {wanted:?}");
            assert_eq!(migration.state(), to, "{from:?} {wanted:?}");
        }
    }

    #[test]
    fn exhausted_retries_migrate_an_armed_connection_once() {
        for from in STATES {
            let mut migration = in_state(from);
            assert_eq!(migration.retries_exhausted(), from == Armed, "{from:?}");
            let to = if from == Armed { Migrated } else { from };
            assert_eq!(migration.state(), to);
            assert!(!migration.retries_exhausted());
        }
    }

    #[test]
    fn packets_are_judged_by_state_path_and_bit() {
        use Verdict::{Drop, Follow, Refuse, Take};
        for (from, origin, migrated, verdict, to) in [
            (Migrated, PRIMARY, true, Take, Migrated),
            (Migrated, PRIMARY, false, Take, Migrated),
            (Migrated, BOTH, true, Take, Migrated),
            (Migrated, ALTERNATE, true, Drop, Migrated),
            (Migrated, ALTERNATE, false, Drop, Migrated),
            (Migrated, NOWHERE, true, Drop, Migrated),
            (Rearm, PRIMARY, true, Take, Rearm),
            (Rearm, PRIMARY, false, Take, Armed),
            (Rearm, BOTH, true, Take, Rearm),
            (Rearm, BOTH, false, Take, Armed),
            (Rearm, ALTERNATE, true, Drop, Rearm),
            (Rearm, ALTERNATE, false, Drop, Rearm),
            (Rearm, NOWHERE, false, Drop, Rearm),
            (Rearm, NOWHERE, true, Drop, Rearm),
            (Armed, PRIMARY, false, Take, Armed),
            (Armed, PRIMARY, true, Refuse, Armed),
            (Armed, BOTH, false, Take, Armed),
            (Armed, BOTH, true, Follow, Migrated),
            (Armed, ALTERNATE, true, Follow, Migrated),
            (Armed, ALTERNATE, false, Drop, Armed),
            (Armed, NOWHERE, true, Refuse, Armed),
            (Armed, NOWHERE, false, Drop, Armed),
        ] {
            let mut migration = in_state(from);
            let name = format!("{from:?} {origin:?} {migrated}");
            assert_eq!(migration.judge(origin, migrated), verdict, "{name}");
            assert_eq!(migration.state(), to, "{name}");
        }
    }

    /// Anyone can send such packets: the user is told once, and again when the connection was armed anew.
    #[test]
    fn a_refused_request_is_told_once() {
        let mut migration = in_state(Armed);
        assert_eq!(migration.judge(NOWHERE, true), Verdict::Refuse);
        assert_eq!(migration.judge(NOWHERE, true), Verdict::Drop);
        assert_eq!(migration.judge(PRIMARY, true), Verdict::Drop);
        assert_eq!(migration.judge(ALTERNATE, true), Verdict::Follow);
        assert!(!migration.ask(Wanted::Rearm));
        assert_eq!(migration.judge(PRIMARY, false), Verdict::Take);
        assert_eq!(migration.judge(PRIMARY, true), Verdict::Refuse);
    }

    #[test]
    fn only_a_connection_that_has_migrated_sets_the_bit() {
        for state in STATES {
            assert_eq!(in_state(state).has_migrated(), state == Migrated);
        }
        assert!(Migration::default().has_migrated());
    }
}
