// SPDX-License-Identifier: GPL-2.0

//! What the events of `ib_cm` and `iw_cm` are for an identifier, and which of its own the client is told.
//!
//! C headers: `include/rdma/ib_cm.h`, `include/rdma/iw_cm.h`.

use crate::errno::Errno;
use crate::event::Event;
use crate::state::Input;

/// An event of `ib_cm` about a connection: `enum ib_cm_event_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IbCm {
    /// `IB_CM_REQ_ERROR`, `IB_CM_REP_ERROR`: the peer has not answered.
    NoAnswer,
    /// `IB_CM_REP_RECEIVED`: the peer accepts.
    Rep,
    /// `IB_CM_RTU_RECEIVED`, `IB_CM_USER_ESTABLISHED`: the accepted connection is there.
    Rtu,
    /// `IB_CM_DREQ_ERROR`: the peer has not answered that this side disconnects.
    DreqError,
    /// `IB_CM_DREQ_RECEIVED`, `IB_CM_DREP_RECEIVED`: the connection has ended.
    Dreq,
    /// `IB_CM_TIMEWAIT_EXIT`: nothing of the connection is on the wire any more.
    TimewaitExit,
    /// `IB_CM_MRA_RECEIVED`: the peer needs more time.
    Mra,
    /// `IB_CM_REJ_RECEIVED`, with its reason: the peer refuses.
    Rej(u16),
    /// `IB_CM_SIDR_REQ_ERROR`: nobody has answered.
    SidrNoAnswer,
    /// `IB_CM_SIDR_REP_RECEIVED`, with its status: 0 is success.
    SidrRep(u8),
}

/// An event of `iw_cm` about a connection: `enum iw_cm_event_type`, with its status, 0 or a negative errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IwCm {
    /// `IW_CM_EVENT_CONNECT_REPLY`.
    ConnectReply(i32),
    /// `IW_CM_EVENT_ESTABLISHED`.
    Established(i32),
    /// `IW_CM_EVENT_CLOSE`.
    Close(i32),
}

/// Who moves the queue pair of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpOwner {
    /// The identifier: it has the queue pair.
    Identifier,
    /// The client.
    Client,
}

/// What is done before the client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prepare {
    /// Nothing.
    Nothing,
    /// The queue pair goes to RTS and the peer is told; if that fails, the connection is refused and the event is
    /// [`Event::ConnectError`] with that status.
    Establish,
    /// The queue pair goes to the error state.
    QpError,
    /// The Q_Key of the reply is kept; if it is not the one that the identifier has, the event is [`Event::AddrError`] with that status.
    KeepQKey,
}

/// What becomes of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// What it is for the table of states.
    pub input: Input,
    /// What is done first.
    pub prepare: Prepare,
    /// What the client is told.
    pub event: Event,
    /// Its status.
    pub status: i32,
}

impl Told {
    const fn new(event: Event, status: i32) -> Self {
        Self {
            input: Input::Progress,
            prepare: Prepare::Nothing,
            event,
            status,
        }
    }
}

impl IbCm {
    /// What the client is told; `None` for an event that means nothing to it.
    pub const fn told(self, owner: QpOwner) -> Option<Told> {
        let timed_out = Errno::TimedOut.to_return();
        Some(match self {
            Self::Mra => return None,
            Self::NoAnswer | Self::SidrNoAnswer => Told::new(Event::Unreachable, timed_out),
            Self::Rep => match owner {
                QpOwner::Client => Told::new(Event::ConnectResponse, 0),
                QpOwner::Identifier => Told {
                    prepare: Prepare::Establish,
                    ..Told::new(Event::Established, 0)
                },
            },
            Self::Rtu => Told::new(Event::Established, 0),
            Self::Dreq | Self::DreqError => {
                let status = match self {
                    Self::DreqError => timed_out,
                    _ => 0,
                };
                Told {
                    input: Input::Disconnected,
                    ..Told::new(Event::Disconnected, status)
                }
            }
            Self::TimewaitExit => Told {
                input: Input::TimewaitExit,
                ..Told::new(Event::TimewaitExit, 0)
            },
            Self::Rej(reason) => Told {
                prepare: Prepare::QpError,
                ..Told::new(Event::Rejected, reason as i32)
            },
            Self::SidrRep(0) => Told {
                prepare: Prepare::KeepQKey,
                ..Told::new(Event::Established, 0)
            },
            Self::SidrRep(status) => Told::new(Event::Unreachable, status as i32),
        })
    }
}

const RESET: i32 = -104;
const REFUSED: i32 = -111;
const TIMED_OUT: i32 = Errno::TimedOut.to_return();

impl IwCm {
    /// What the client is told.
    ///
    /// The state stays when an iWARP connection ends: `iw_cm` tells nothing after that.
    pub const fn told(self) -> Told {
        match self {
            Self::ConnectReply(status) => {
                let event = match status {
                    0 => Event::Established,
                    RESET | REFUSED => Event::Rejected,
                    TIMED_OUT => Event::Unreachable,
                    _ => Event::ConnectError,
                };
                Told::new(event, status)
            }
            Self::Established(status) => Told::new(Event::Established, status),
            Self::Close(status) => Told::new(Event::Disconnected, status),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_ib_cm() {
        use Event as E;
        let cases = [
            (IbCm::NoAnswer, E::Unreachable, -110),
            (IbCm::Rtu, E::Established, 0),
            (IbCm::Dreq, E::Disconnected, 0),
            (IbCm::DreqError, E::Disconnected, -110),
            (IbCm::TimewaitExit, E::TimewaitExit, 0),
            (IbCm::Rej(28), E::Rejected, 28),
            (IbCm::SidrNoAnswer, E::Unreachable, -110),
            (IbCm::SidrRep(0), E::Established, 0),
            (IbCm::SidrRep(1), E::Unreachable, 1),
        ];
        for (event, told, status) in cases {
            for owner in [QpOwner::Identifier, QpOwner::Client] {
                let found = event.told(owner).unwrap();
                assert_eq!((found.event, found.status), (told, status), "{event:?}");
            }
        }
        assert_eq!(IbCm::Mra.told(QpOwner::Client), None);
    }

    #[test]
    fn a_reply_is_for_who_has_the_queue_pair() {
        let told = |owner| IbCm::Rep.told(owner).unwrap();
        assert_eq!(told(QpOwner::Client).event, Event::ConnectResponse);
        assert_eq!(told(QpOwner::Client).prepare, Prepare::Nothing);
        assert_eq!(told(QpOwner::Identifier).event, Event::Established);
        assert_eq!(told(QpOwner::Identifier).prepare, Prepare::Establish);
    }

    #[test]
    fn of_iw_cm() {
        use Event as E;
        let cases = [
            (IwCm::ConnectReply(0), E::Established),
            (IwCm::ConnectReply(-104), E::Rejected),
            (IwCm::ConnectReply(-111), E::Rejected),
            (IwCm::ConnectReply(-110), E::Unreachable),
            (IwCm::ConnectReply(-22), E::ConnectError),
            (IwCm::Established(0), E::Established),
            (IwCm::Close(0), E::Disconnected),
        ];
        for (event, told) in cases {
            assert_eq!(event.told().event, told, "{event:?}");
        }
        assert_eq!(IwCm::ConnectReply(-22).told().status, -22);
    }
}
