// SPDX-License-Identifier: GPL-2.0

//! Error numbers that `kernel::error::code` lacks.
//!
//! C headers: `include/uapi/asm-generic/errno.h`, `include/linux/errno.h`.

use kernel::error::Error;

macro_rules! declare_errors {
    ($($name:ident $doc:literal,)*) => {
        $(
            #[doc = $doc]
            pub const $name: Error = from_c(crate::bindings::$name);
        )*
    };
}

/// Returns the error for an errno of the C headers. Unlike `Error::from_errno` it is a `const fn`.
const fn from_c(errno: u32) -> Error {
    assert!(errno > 0 && errno <= crate::bindings::MAX_ERRNO);
    // SAFETY: `Error` is a wrapper of the negative number, a `NonZeroI32` from `-MAX_ERRNO` to -1.
    unsafe { core::mem::transmute::<i32, Error>(-(errno as i32)) }
}

declare_errors! {
    EADDRINUSE "Address already in use.",
    EADDRNOTAVAIL "Cannot assign requested address.",
    EAFNOSUPPORT "Address family not supported.",
    EALREADY "Operation already in progress.",
    ECONNABORTED "Connection aborted.",
    ECONNREFUSED "Connection refused.",
    EHOSTUNREACH "No route to host.",
    EISCONN "Transport endpoint is connected.",
    EMSGSIZE "Message too long.",
    ENETUNREACH "Network is unreachable.",
    ENODATA "No data available.",
    ENOBUFS "No buffer space available.",
    ENOMSG "No message of desired type.",
    ENOSYS "Function not implemented.",
    ENOTCONN "Not connected.",
    ENOTSOCK "Socket operation on non-socket.",
    EOPNOTSUPP "Operation not supported.",
    EPROTO "Protocol error.",
    EPROTOTYPE "Protocol wrong type for socket.",
    EPROTONOSUPPORT "Protocol not supported.",
    ESHUTDOWN "Cannot send after transport endpoint shutdown.",
}
