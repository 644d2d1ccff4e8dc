// SPDX-License-Identifier: GPL-2.0

//! The states of an identifier of an iWARP connection: [`TRANSITIONS`], and the function that looks a transition up.
//!
//! ```text
//!             listen                listening
//!    Idle ──────────────▶ Starting ──────────▶ Listen
//!     │ ▲
//!     │ │ refused, failed, closed
//!     │ └───────────────────────────┐
//!     │ connect            replied  │             disconnect
//!     ├──────────▶ Connecting ──────┼▶ Established ─────────▶ Closing ──▶ Idle
//!     │                             │      ▲
//!   (request) ──▶ Requested ──▶ Accepting ─┘
//!                     │ reject
//!                     └──────▶ Rejecting ──▶ Idle
//! ```
//!
//! A call that changes the state while the driver or the peer has the turn waits until it has not: [`State::is_busy`].
//!
//! This file has no imports: a host test walks the table (`tools/testing/host/iw_states`).
//!
//! C header: `include/rdma/iw_cm.h`.

/// The state of an identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing has been asked for, or all has ended.
    Idle,
    /// The driver is about to listen.
    Starting,
    /// The driver listens.
    Listen,
    /// A peer wants to connect, and its client has not answered.
    Requested,
    /// The client has accepted the peer; the driver has not said that the connection is there.
    Accepting,
    /// The driver is about to refuse the peer.
    Rejecting,
    /// The client wants to connect; the peer has not answered.
    Connecting,
    /// The connection is there.
    Established,
    /// One side has disconnected.
    Closing,
    /// The client has given the identifier up.
    Destroying,
}

impl State {
    /// Whether the driver or the peer has the turn, so that calls wait.
    pub(crate) const fn is_busy(self) -> bool {
        matches!(
            self,
            Self::Starting | Self::Accepting | Self::Rejecting | Self::Connecting
        )
    }

    /// Whether a client may ask for the attributes of the queue pair.
    pub(crate) const fn has_qp_attributes(self) -> bool {
        matches!(
            self,
            Self::Idle
                | Self::Connecting
                | Self::Requested
                | Self::Accepting
                | Self::Rejecting
                | Self::Established
        )
    }
}

/// What happens to an identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// The client wants to listen.
    Listen,
    /// The client wants to connect.
    Connect,
    /// The client accepts the peer.
    Accept,
    /// The client refuses the peer.
    Reject,
    /// The client disconnects.
    Disconnect,
    /// The client gives the identifier up.
    Destroy,
    /// The driver listens, or has refused the peer.
    Done,
    /// The driver cannot do what the client has asked for.
    Failed,
    /// Event: a peer wants to connect.
    Request,
    /// Event: the peer has accepted.
    Replied,
    /// Event: the peer has refused, or has not answered.
    Refused,
    /// Event: the accepted connection is there.
    Connected,
    /// Event: the peer disconnects.
    PeerDisconnected,
    /// Event: the connection has ended.
    Closed,
}

/// What is done about it after the state has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Nothing.
    Nothing,
    /// The driver begins what the client has asked for.
    Begin,
    /// The queue pair is not of a connection any more.
    Release,
    /// The client learns of the event.
    Tell,
    /// As [`Self::Release`], and then [`Self::Tell`].
    ReleaseAndTell,
    /// A new identifier stands for the peer.
    Offer,
    /// The driver refuses the peer.
    Refuse,
    /// The queue pair is disconnected, at once or in order.
    Disconnect,
    /// The queue pair is disconnected at once, and is not of a connection any more.
    Abort,
    /// The driver listens no more.
    StopListening,
}

/// What a transition leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The new state, and what is done.
    To(State, Action),
    /// The call waits until the state is another one.
    Wait,
    /// The call fails, or the event means nothing: the state stays.
    Refused,
}

/// A line of the table.
pub(crate) type Transition = (State, Input, State, Action);

/// All transitions. What is not here is refused; but disconnecting and destroying wait in a busy state.
#[rustfmt::skip]
pub(crate) const TRANSITIONS: &[Transition] = {
    use Action as A;
    use Input as I;
    use State as S;
    &[
        (S::Idle,        I::Listen,           S::Starting,    A::Begin),
        (S::Idle,        I::Connect,          S::Connecting,  A::Begin),
        (S::Idle,        I::Disconnect,       S::Idle,        A::Nothing),
        (S::Idle,        I::Destroy,          S::Destroying,  A::Nothing),

        (S::Starting,    I::Done,             S::Listen,      A::Nothing),
        (S::Starting,    I::Failed,           S::Idle,        A::Nothing),
        (S::Starting,    I::Request,          S::Starting,    A::Offer),

        (S::Listen,      I::Request,          S::Listen,      A::Offer),
        (S::Listen,      I::Destroy,          S::Destroying,  A::StopListening),

        (S::Requested,   I::Accept,           S::Accepting,   A::Begin),
        (S::Requested,   I::Reject,           S::Rejecting,   A::Begin),
        (S::Requested,   I::Disconnect,       S::Requested,   A::Nothing),
        (S::Requested,   I::Destroy,          S::Destroying,  A::Refuse),

        (S::Accepting,   I::Failed,           S::Idle,        A::Release),
        (S::Accepting,   I::Connected,        S::Established, A::Tell),
        (S::Accepting,   I::Closed,           S::Idle,        A::ReleaseAndTell),

        (S::Rejecting,   I::Done,             S::Idle,        A::Nothing),
        (S::Rejecting,   I::Failed,           S::Idle,        A::Nothing),

        (S::Connecting,  I::Failed,           S::Idle,        A::Release),
        (S::Connecting,  I::Replied,          S::Established, A::Tell),
        (S::Connecting,  I::Refused,          S::Idle,        A::ReleaseAndTell),
        (S::Connecting,  I::Closed,           S::Idle,        A::ReleaseAndTell),

        (S::Established, I::Disconnect,       S::Closing,     A::Disconnect),
        (S::Established, I::Destroy,          S::Destroying,  A::Abort),
        (S::Established, I::PeerDisconnected, S::Closing,     A::Nothing),
        (S::Established, I::Closed,           S::Idle,        A::ReleaseAndTell),

        (S::Closing,     I::Disconnect,       S::Closing,     A::Nothing),
        (S::Closing,     I::Destroy,          S::Destroying,  A::Release),
        (S::Closing,     I::Closed,           S::Idle,        A::ReleaseAndTell),
    ]
};

/// Looks up what an input leads to.
pub(crate) fn step(state: State, input: Input) -> Outcome {
    let mut lines = TRANSITIONS.iter();
    if let Some(line) = lines.find(|line| line.0 == state && line.1 == input) {
        return Outcome::To(line.2, line.3);
    }
    let waits = matches!(input, Input::Disconnect | Input::Destroy);
    match waits && state.is_busy() {
        true => Outcome::Wait,
        false => Outcome::Refused,
    }
}
