// SPDX-License-Identifier: GPL-2.0

//! The states of a queue pair as types: `enum ib_qp_state`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use crate::QpState;

/// Seals the traits of queue pair types: only this crate implements them.
pub trait Sealed {}

/// A state of a queue pair, as a type.
pub trait State: Sealed + Send + Sync + 'static {
    /// The state.
    const STATE: QpState;
}

/// A state in which receive requests may be posted.
pub trait CanReceive: State {}

/// A state in which send requests may be posted.
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
    /// Reset.
    Reset:;
    /// Initialised.
    Init: CanReceive;
    /// Ready to receive.
    Rtr: CanReceive;
    /// Ready to send.
    Rts: CanReceive CanSend;
    /// Send queue drain: requests under way are finished, and no others are started.
    Sqd: CanReceive CanSend;
    /// Error.
    Err: CanReceive CanSend;
}
