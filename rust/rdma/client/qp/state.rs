// SPDX-License-Identifier: GPL-2.0

//! The states of a queue pair as types: `enum ib_qp_state`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use crate::QpState;

/// Only this crate implements the traits of types of queue pairs.
pub trait Sealed {}

/// A state of a queue pair, as a type.
pub trait State: Sealed + Send + Sync + 'static {
    /// The state.
    const STATE: QpState;
}

/// A state in which requests to receive may be posted.
pub trait CanReceive: State {}

/// A state in which requests to send may be posted.
pub trait CanSend: CanReceive {}

macro_rules! states {
    ($($(#[$meta:meta])* $name:ident: $($can:ident)*;)*) => {
        $(
            $(#[$meta])*
            pub struct $name;

            impl Sealed for $name {}

            impl State for $name {
                const STATE: QpState = QpState::$name;
            }

            $(impl $can for $name {})*
        )*
    };
}

states! {
    /// Reset: it was just made.
    Reset:;
    /// Initialised.
    Init: CanReceive;
    /// Ready to receive.
    Rtr: CanReceive;
    /// Ready to send.
    Rts: CanReceive CanSend;
    /// Send queue drain: what was begun is ended, and nothing is begun.
    Sqd: CanReceive CanSend;
    /// Error.
    Err: CanReceive CanSend;
}
