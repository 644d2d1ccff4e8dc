// SPDX-License-Identifier: GPL-2.0

//! Identifiers whose client, driver and peer do at random what they may, and some of them what they must not.

use crate::states::{step, Action, Input, Outcome, State};

/// A generator of random numbers: xorshift.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[(self.next() % from.len() as u64) as usize]
    }
}

/// What all that have to do with an identifier know of it.
#[derive(Default)]
struct World {
    /// References to queue pairs that are counted.
    qps: i32,
    /// The driver listens for it.
    listens: bool,
    /// Peers that wait for an answer.
    unanswered: i32,
    /// What the client was told: connections that are there, and those that have ended.
    told_begun: u32,
    told_ended: u32,
    /// Calls of the client that the driver has begun, and not ended.
    begun: u32,
    /// Calls that wait.
    waits: u32,
}

/// One identifier, from its beginning to its end. Returns how many steps that took.
fn live(random: &mut Random, hostile: bool) -> u32 {
    let mut state = random.pick(&[State::Idle, State::Requested]);
    let mut world = World {
        unanswered: i32::from(state == State::Requested),
        ..World::default()
    };
    for count in 1.. {
        let input = next_input(random, state, &world, hostile);
        let outcome = step(state, input);
        match outcome {
            Outcome::Wait => world.waits += 1,
            Outcome::Refused => {}
            Outcome::To(next, action) => {
                happens(&mut world, (state, input, next, action));
                state = next;
            }
        }
        assert!(world.qps == i32::from(crate::has_qp(state)), "{state:?}");
        assert!(world.unanswered == i32::from(state == State::Requested));
        assert!(world.told_ended <= world.told_begun + world.begun);
        if state == State::Destroying {
            assert!(!world.listens && world.qps == 0);
            return count;
        }
        assert!(count < 10_000, "it does not end: {state:?}");
    }
    unreachable!()
}

/// What somebody does next. A driver that is not hostile says what fits; the client may try anything.
fn next_input(random: &mut Random, state: State, world: &World, hostile: bool) -> Input {
    use Input::*;
    if hostile && random.next() % 3 == 0 {
        return random.pick(&crate::INPUTS);
    }
    let client = [Listen, Connect, Accept, Reject, Disconnect, Destroy];
    let driver: &[Input] = match state {
        State::Starting => &[Done, Failed, Request],
        State::Listen => &[Request],
        State::Accepting => &[Failed, Connected, Closed],
        State::Rejecting => &[Done, Failed],
        State::Connecting => &[Failed, Replied, Refused, Closed],
        State::Established => &[PeerDisconnected, Closed],
        State::Closing => &[PeerDisconnected, Closed],
        State::Idle | State::Requested | State::Destroying => &client,
    };
    match world.waits > 0 || random.next() % 2 == 0 {
        true => random.pick(driver),
        false => random.pick(&client),
    }
}

fn happens(world: &mut World, (from, input, to, action): (State, Input, State, Action)) {
    if !to.is_busy() {
        world.waits = 0;
    }
    match action {
        Action::Begin => {
            world.begun += 1;
            world.qps += i32::from(matches!(input, Input::Connect | Input::Accept));
            world.unanswered -= i32::from(from == State::Requested);
        }
        Action::Release | Action::Abort => world.qps -= 1,
        Action::ReleaseAndTell => {
            world.qps -= 1;
            world.told_ended += 1;
        }
        Action::Tell => world.told_begun += 1,
        Action::Refuse => world.unanswered -= 1,
        Action::StopListening => world.listens = false,
        Action::Nothing | Action::Offer | Action::Disconnect => {}
    }
    if (from, to) == (State::Starting, State::Listen) {
        world.listens = true;
    }
}

/// Two million identifiers with drivers that keep to the header, and as many with drivers that do not.
#[test]
fn nothing_is_left() {
    for hostile in [false, true] {
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let steps: u64 = (0..2_000_000)
            .map(|_| u64::from(live(&mut random, hostile)))
            .sum();
        assert!(steps > 4_000_000);
    }
}
