// SPDX-License-Identifier: GPL-2.0

//! The states of an identifier: [`TRANSITIONS`], and the functions that look one up.
//!
//! ```text
//!                     resolve_ib_service
//!            bind        ┌─────────────▶ AddrInfoQuery ──▶ AddrInfoResolved ───────┐
//!    Idle ────────▶ AddrBound                                                      │ resolve_route
//!                     │  │ resolve_addr                    resolve_route           ▼
//!              listen │  └────────────▶ AddrQuery ──▶ AddrResolved ──────▶ RouteQuery ──▶ RouteResolved
//!                     ▼                                     │ set_ib_path                  ▲  │
//!                   Listen                                  └──────────────────────────────┘  │ connect
//!                     ┊ request: a new identifier                                             ▼
//!                     └┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄▶ Connect ──▶ Disconnect
//! ```
//!
//! From each state an identifier goes to `DeviceRemoval` when its device does, and to `Destroying` when its client gives it
//! up; nothing is told any more after that. Which calls begin a transition and fail take it back: [`Step::undone`].
//!
//! C headers: `include/rdma/rdma_cm.h`; the numbers are those that netlink tells of an identifier (`RDMA_NLDEV_ATTR_RES_STATE`).

use crate::errno::Errno;
use crate::event::Event;

/// The state of an identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum State {
    /// Nothing has been asked for.
    Idle,
    /// The address of the peer is being looked for.
    AddrQuery,
    /// The address of the peer is known, and the device.
    AddrResolved,
    /// The route is being looked for.
    RouteQuery,
    /// The route is known.
    RouteResolved,
    /// A connection begins or is there.
    Connect,
    /// The connection has ended.
    Disconnect,
    /// It has a port, and a device if its address is no wildcard.
    AddrBound,
    /// It listens.
    Listen,
    /// Its device goes, or has gone.
    DeviceRemoval,
    /// Its client has given it up.
    Destroying,
    /// The record of a service is being looked for.
    AddrInfoQuery,
    /// The record of a service has told the address of the peer.
    AddrInfoResolved,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Idle,
        Self::AddrQuery,
        Self::AddrResolved,
        Self::RouteQuery,
        Self::RouteResolved,
        Self::Connect,
        Self::Disconnect,
        Self::AddrBound,
        Self::Listen,
        Self::DeviceRemoval,
        Self::Destroying,
        Self::AddrInfoQuery,
        Self::AddrInfoResolved,
    ];

    /// Whether its client may be told something.
    pub const fn is_alive(self) -> bool {
        !matches!(self, Self::DeviceRemoval | Self::Destroying)
    }

    /// What is under way in this state, and has to be cancelled by who takes an identifier out of it for good.
    pub const fn under_way(self) -> UnderWay {
        match self {
            Self::AddrQuery => UnderWay::Address,
            Self::RouteQuery => UnderWay::Route,
            Self::Listen => UnderWay::Listening,
            _ => UnderWay::Nothing,
        }
    }

    /// Checks whether its client may say if others may have the same address.
    ///
    /// # Errors
    ///
    /// `EINVAL`.
    pub fn check_reuse(self, reuse: bool) -> Result<(), Errno> {
        match self == Self::Idle || (reuse && self != Self::Listen) {
            true => Ok(()),
            false => Err(Errno::Invalid),
        }
    }

    /// Checks whether its client may say if a wildcard address is of its family alone.
    ///
    /// # Errors
    ///
    /// `EINVAL`.
    pub const fn check_family_only(self) -> Result<(), Errno> {
        match self {
            Self::Idle | Self::AddrBound => Ok(()),
            _ => Err(Errno::Invalid),
        }
    }
}

/// What is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnderWay {
    /// Nothing.
    Nothing,
    /// The resolution of an address.
    Address,
    /// The query for a path.
    Route,
    /// The listening on each device, if the address is a wildcard.
    Listening,
}

/// What happens to an identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// `rdma_restrict_node_type()`.
    Restrict,
    /// `rdma_bind_addr()`.
    Bind,
    /// `rdma_listen()`.
    Listen,
    /// `rdma_resolve_addr()`.
    ResolveAddr,
    /// `rdma_resolve_ib_service()`.
    ResolveService,
    /// `rdma_resolve_route()`.
    ResolveRoute,
    /// `rdma_set_ib_path()`.
    SetPath,
    /// `rdma_connect()`.
    Connect,
    /// `rdma_accept()`.
    Accept,
    /// `rdma_join_multicast()`.
    Join,
    /// `rdma_destroy_id()`, or a handler that returns other than 0.
    Destroy,
    /// The device goes.
    Remove,
    /// A request has come in to the listener.
    Request,
    /// The address has been found, and a device for it.
    AddrFound,
    /// The address has not been found.
    AddrFailed,
    /// The record of a service has been found.
    ServiceFound,
    /// The record of a service has not been found.
    ServiceFailed,
    /// The route has been found.
    RouteFound,
    /// The route has not been found.
    RouteFailed,
    /// `ib_cm` or `iw_cm` tells of the connection.
    Progress,
    /// `ib_cm` tells that the connection has ended.
    Disconnected,
    /// `ib_cm` tells that nothing of the connection is on the wire any more.
    TimewaitExit,
    /// A group has been joined, or not.
    Multicast,
    /// The hardware address of the net device has changed.
    AddrChange,
    /// The neighbour has another hardware address.
    NeighbourChange,
}

impl Input {
    /// All of them.
    pub const ALL: [Self; 25] = [
        Self::Restrict,
        Self::Bind,
        Self::Listen,
        Self::ResolveAddr,
        Self::ResolveService,
        Self::ResolveRoute,
        Self::SetPath,
        Self::Connect,
        Self::Accept,
        Self::Join,
        Self::Destroy,
        Self::Remove,
        Self::Request,
        Self::AddrFound,
        Self::AddrFailed,
        Self::ServiceFound,
        Self::ServiceFailed,
        Self::RouteFound,
        Self::RouteFailed,
        Self::Progress,
        Self::Disconnected,
        Self::TimewaitExit,
        Self::Multicast,
        Self::AddrChange,
        Self::NeighbourChange,
    ];

    /// What a call returns, and the sender of a request is answered, in a state in which it may not be; `None` for what means
    /// nothing then.
    pub const fn refusal(self) -> Option<Errno> {
        match self {
            Self::Bind
            | Self::Listen
            | Self::ResolveAddr
            | Self::ResolveService
            | Self::ResolveRoute
            | Self::SetPath
            | Self::Connect
            | Self::Accept
            | Self::Join => Some(Errno::Invalid),
            Self::Restrict => Some(Errno::Already),
            Self::Request => Some(Errno::ConnectionAborted),
            _ => None,
        }
    }
}

/// What the client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tell {
    /// Nothing.
    Nothing,
    /// This event.
    Event(Event),
    /// The event that the cause has, see [`crate::lower`] for those of `ib_cm` and `iw_cm`.
    Cause,
}

/// The states in which an input may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// One of these.
    In(&'static [State]),
    /// Each in which the client may be told something.
    Alive,
    /// Each but `Destroying`.
    NotDestroying,
}

impl From {
    fn has(self, state: State) -> bool {
        match self {
            Self::In(states) => states.contains(&state),
            Self::Alive => state.is_alive(),
            Self::NotDestroying => state != State::Destroying,
        }
    }
}

/// What an input leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The state stays.
    Same,
    /// The state becomes this one. The call takes it back if it fails later.
    Try(State),
    /// The state becomes this one.
    To(State),
}

/// A line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// In which states.
    pub from: From,
    /// What happens.
    pub input: Input,
    /// What it leads to.
    pub next: Next,
    /// What the client is told.
    pub tell: Tell,
}

const fn line(from: From, input: Input, next: Next, tell: Tell) -> Transition {
    Transition {
        from,
        input,
        next,
        tell,
    }
}

/// All transitions. What is not here is refused with [`Input::refusal`], or means nothing.
///
/// `rdma_listen()` and `rdma_resolve_addr()` bind an identifier that is `Idle` first.
#[rustfmt::skip]
pub const TRANSITIONS: &[Transition] = {
    use self::From::{Alive, In, NotDestroying};
    use Input as I;
    use Next::{Same, To, Try};
    use State as S;
    use Tell::{Cause, Nothing};
    &[
        // Calls.
        line(In(&[S::Idle]),                             I::Restrict,        Same,                     Nothing),
        line(In(&[S::Idle]),                             I::Bind,            Try(S::AddrBound),        Nothing),
        line(In(&[S::AddrBound]),                        I::Listen,          Try(S::Listen),           Nothing),
        line(In(&[S::AddrBound]),                        I::ResolveAddr,     Try(S::AddrQuery),        Nothing),
        line(In(&[S::AddrBound]),                        I::ResolveService,  Try(S::AddrInfoQuery),    Nothing),
        line(In(&[S::AddrResolved, S::AddrInfoResolved]), I::ResolveRoute,   Try(S::RouteQuery),       Nothing),
        line(In(&[S::AddrResolved]),                     I::SetPath,         Try(S::RouteResolved),    Nothing),
        line(In(&[S::RouteResolved]),                    I::Connect,         Try(S::Connect),          Nothing),
        line(In(&[S::Connect]),                          I::Accept,          Same,                     Nothing),
        line(In(&[S::AddrBound, S::AddrResolved]),       I::Join,            Same,                     Nothing),
        line(NotDestroying,                              I::Destroy,         To(S::Destroying),        Nothing),
        // The device.
        line(Alive,                                      I::Remove,          To(S::DeviceRemoval),     Tell::Event(Event::DeviceRemoval)),
        // What resolution finds.
        line(In(&[S::AddrQuery]),                        I::AddrFound,       To(S::AddrResolved),      Tell::Event(Event::AddrResolved)),
        line(In(&[S::AddrQuery]),                        I::AddrFailed,      To(S::AddrBound),         Tell::Event(Event::AddrError)),
        line(In(&[S::AddrInfoQuery]),                    I::ServiceFound,    To(S::AddrInfoResolved),  Tell::Event(Event::AddrInfoResolved)),
        line(In(&[S::AddrInfoQuery]),                    I::ServiceFailed,   To(S::AddrBound),         Tell::Event(Event::AddrInfoError)),
        line(In(&[S::RouteQuery]),                       I::RouteFound,      To(S::RouteResolved),     Tell::Event(Event::RouteResolved)),
        line(In(&[S::RouteQuery]),                       I::RouteFailed,     To(S::AddrResolved),      Tell::Event(Event::RouteError)),
        // The connection. The new identifier of a request, which begins in `Connect`, is told, not the listener.
        line(In(&[S::Listen]),                           I::Request,         Same,                     Nothing),
        line(In(&[S::Connect]),                          I::Progress,        Same,                     Cause),
        line(In(&[S::Connect]),                          I::Disconnected,    To(S::Disconnect),        Cause),
        line(In(&[S::Disconnect]),                       I::TimewaitExit,    Same,                     Cause),
        // What may come at any time.
        line(Alive,                                      I::Multicast,       Same,                     Cause),
        line(Alive,                                      I::AddrChange,      Same,                     Tell::Event(Event::AddrChange)),
        line(Alive,                                      I::NeighbourChange, Same,                     Tell::Event(Event::Unreachable)),
    ]
};

/// What happens in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The state before.
    pub old: State,
    /// The state after.
    pub new: State,
    /// What the client is told.
    pub tell: Tell,
    /// Whether the call takes it back if it fails later.
    tried: bool,
}

impl Step {
    /// The state after the call has failed, if the identifier is still in the state that the step led to; otherwise somebody
    /// else has taken it further, and it stays.
    pub fn undone(&self, state: State) -> State {
        match self.tried && state == self.new {
            true => self.old,
            false => state,
        }
    }
}

/// The first line of each input in [`TRANSITIONS`], by its number in [`Input`]; the end for an input without any.
const FIRST: [usize; Input::ALL.len()] = {
    let mut first = [TRANSITIONS.len(); Input::ALL.len()];
    let mut at = TRANSITIONS.len();
    while at > 0 {
        at -= 1;
        first[TRANSITIONS[at].input as usize] = at;
    }
    first
};

/// What an input leads to; `None` if it may not be in this state.
pub fn look_up(state: State, input: Input) -> Option<Step> {
    let first = *FIRST.get(input as usize)?;
    let mut lines = TRANSITIONS.get(first..)?.iter();
    let line = lines.find(|line| line.input == input && line.from.has(state))?;
    let (new, tried) = match line.next {
        Next::Same => (state, false),
        Next::Try(new) => (new, true),
        Next::To(new) => (new, false),
    };
    Some(Step {
        old: state,
        new,
        tell: line.tell,
        tried,
    })
}

/// What a call leads to.
///
/// # Errors
///
/// [`Input::refusal`] in a state in which it may not be.
pub fn call(state: State, input: Input) -> Result<Step, Errno> {
    look_up(state, input).ok_or(input.refusal().unwrap_or(Errno::Invalid))
}
