// SPDX-License-Identifier: GPL-2.0

//! The events that a client is told: `enum rdma_cm_event_type`.
//!
//! C header: `include/rdma/rdma_cm.h`.

use core::ffi::CStr;

/// An event. The discriminants are those of the header, and of `include/uapi/rdma/rdma_user_cm.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
#[expect(missing_docs, reason = "the names are those of the header")]
pub enum Event {
    AddrResolved,
    AddrError,
    RouteResolved,
    RouteError,
    ConnectRequest,
    ConnectResponse,
    ConnectError,
    Unreachable,
    Rejected,
    Established,
    Disconnected,
    DeviceRemoval,
    MulticastJoin,
    MulticastError,
    AddrChange,
    TimewaitExit,
    AddrInfoResolved,
    AddrInfoError,
}

/// The events that have a text, in the order of their numbers. The blank at the end of one is stock's.
const MESSAGES: [&CStr; 16] = [
    c"address resolved",
    c"address error",
    c"route resolved ",
    c"route error",
    c"connect request",
    c"connect response",
    c"connect error",
    c"unreachable",
    c"rejected",
    c"established",
    c"disconnected",
    c"device removal",
    c"multicast join",
    c"multicast error",
    c"address change",
    c"timewait exit",
];

/// The text of an event's number, as `rdma_event_msg()` returns it.
pub fn message(number: u32) -> &'static CStr {
    let index = usize::try_from(number).ok();
    let text = index.and_then(|index| MESSAGES.get(index));
    text.copied().unwrap_or(c"unrecognized event")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts() {
        assert_eq!(message(Event::AddrResolved as u32), c"address resolved");
        assert_eq!(message(Event::RouteResolved as u32), c"route resolved ");
        assert_eq!(message(Event::DeviceRemoval as u32), c"device removal");
        assert_eq!(message(Event::TimewaitExit as u32), c"timewait exit");
        assert_eq!(
            message(Event::AddrInfoResolved as u32),
            c"unrecognized event"
        );
        assert_eq!(message(u32::MAX), c"unrecognized event");
        assert_eq!(Event::AddrInfoError as u32, 17);
    }
}
