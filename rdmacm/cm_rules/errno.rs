// SPDX-License-Identifier: GPL-2.0

//! The errors that the connection manager's calls return.

/// An error, by its number in Linux's `<uapi/asm-generic/errno.h>` and `<linux/errno.h>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Errno {
    /// `EACCES`: a privileged port without the privilege.
    Access = 13,
    /// `ENODEV`: no device has the address.
    NoDevice = 19,
    /// `EINVAL`: the call is not for this state, or an argument is out of range.
    Invalid = 22,
    /// `EPROTONOSUPPORT`: there is no such port space for the address.
    ProtocolNotSupported = 93,
    /// `EOPNOTSUPP`: the device cannot do this.
    OperationNotSupported = 95,
    /// `EAFNOSUPPORT`: neither IPv4, IPv6 nor `AF_IB`.
    FamilyNotSupported = 97,
    /// `EADDRINUSE`: another one has this address and port.
    AddressInUse = 98,
    /// `EADDRNOTAVAIL`: a wildcard address, of this one or of another one, covers the address and port.
    AddressNotAvailable = 99,
    /// `ECONNABORTED`: the listener listens no more.
    ConnectionAborted = 103,
    /// `ETIMEDOUT`: the peer does not answer.
    TimedOut = 110,
    /// `EHOSTUNREACH`: the request cannot have come from where it says.
    HostUnreachable = 113,
    /// `EALREADY`: too late, the identifier is bound.
    Already = 114,
    /// `ENOTSUPP`: multicast that this GID type does not have.
    NotSupported = 524,
}

impl Errno {
    /// The return value of a C function: the number, negative.
    pub const fn to_return(self) -> i32 {
        (self as i32).wrapping_neg()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returned_values_are_negative() {
        assert_eq!(Errno::Invalid.to_return(), -22);
        assert_eq!(Errno::NotSupported.to_return(), -524);
    }
}
