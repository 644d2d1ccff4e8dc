// SPDX-License-Identifier: GPL-2.0

//! State transitions of a queue pair, with the required and the optional attributes of each.
//!
//! [`TRANSITIONS`] is the specification's table; other transitions are invalid. For types of queue pairs that a
//! transition does not list, it has no attributes. The new state and the rate limit are always allowed.
//!
//! This file has no imports: a host test compares all combinations with the C table (`tools/testing/host/qp_state`).
//!
//! C header: `include/rdma/ib_verbs.h` (`ib_modify_qp_is_ok`). InfiniBand Architecture Specification 1.7, volume 1, section
//! 11.2.5.2; annex A14 for XRC.

/// A set of attributes: `enum ib_qp_attr_mask`.
pub(crate) type Mask = u32;

macro_rules! constants {
    ($(#[$attr:meta])* $vis:vis mod $module:ident: $ty:ty { $($name:ident = $value:expr;)* }) => {
        $(#[$attr])*
        $vis mod $module {
            $(
                #[doc = concat!("`", stringify!($name), "` of the header.")]
                pub(crate) const $name: $ty = $value;
            )*
        }
    };
}

constants! {
    /// `enum ib_qp_state`, without the prefix `IB_QPS_`.
    pub(crate) mod state: u32 {
        RESET = 0;
        INIT = 1;
        RTR = 2;
        RTS = 3;
        SQD = 4;
        SQE = 5;
        ERR = 6;
    }
}

constants! {
    /// `enum ib_qp_type`, without the prefix `IB_QPT_`.
    pub(crate) mod kind: u32 {
        SMI = 0;
        GSI = 1;
        RC = 2;
        UC = 3;
        UD = 4;
        RAW_PACKET = 8;
        XRC_INI = 9;
        XRC_TGT = 10;
    }
}

constants! {
    /// `enum ib_qp_attr_mask`, without the prefix `IB_QP_`.
    pub(crate) mod attr: u32 {
        STATE = 1;
        CUR_STATE = 1 << 1;
        EN_SQD_ASYNC_NOTIFY = 1 << 2;
        ACCESS_FLAGS = 1 << 3;
        PKEY_INDEX = 1 << 4;
        PORT = 1 << 5;
        QKEY = 1 << 6;
        AV = 1 << 7;
        PATH_MTU = 1 << 8;
        TIMEOUT = 1 << 9;
        RETRY_CNT = 1 << 10;
        RNR_RETRY = 1 << 11;
        RQ_PSN = 1 << 12;
        MAX_QP_RD_ATOMIC = 1 << 13;
        ALT_PATH = 1 << 14;
        MIN_RNR_TIMER = 1 << 15;
        SQ_PSN = 1 << 16;
        MAX_DEST_RD_ATOMIC = 1 << 17;
        PATH_MIG_STATE = 1 << 18;
        DEST_QPN = 1 << 20;
        RATE_LIMIT = 1 << 25;
    }
}

use attr::*;
use kind::*;
use state::*;

/// Required and optional attributes of a transition, for some types of queue pairs.
struct Row {
    types: &'static [u32],
    required: Mask,
    optional: Mask,
}

/// A transition from any of some states to one.
struct Transition {
    from: &'static [u32],
    to: u32,
    rows: &'static [Row],
}

const NONE: Mask = 0;

const fn row(types: &'static [u32], required: Mask, optional: Mask) -> Row {
    Row {
        types,
        required,
        optional,
    }
}

/// Datagram queue pairs.
const DATAGRAM: &[u32] = &[UD, SMI, GSI];

/// Attributes of a path, required for RTR.
const PATH: Mask = AV | PATH_MTU | DEST_QPN | RQ_PSN;

/// Attributes of a responder, beyond its path.
const RESPONDER: Mask = MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER;

/// Attributes of a requester on a reliable service.
const REQUESTER: Mask = TIMEOUT | RETRY_CNT | RNR_RETRY | SQ_PSN | MAX_QP_RD_ATOMIC;

/// Attributes of a connection that may always be changed.
const CONNECTION: Mask = ALT_PATH | ACCESS_FLAGS | PATH_MIG_STATE;

/// Attributes of a drained connection that may be changed.
const DRAINED: Mask = CONNECTION | AV | PKEY_INDEX;

const TRANSITIONS: &[Transition] = &[
    Transition {
        from: &[RESET, INIT, RTR, RTS, SQD, SQE, ERR],
        to: RESET,
        rows: &[],
    },
    Transition {
        from: &[INIT, RTR, RTS, SQD, SQE, ERR],
        to: ERR,
        rows: &[],
    },
    Transition {
        from: &[RESET],
        to: INIT,
        rows: &[
            row(
                &[UC, RC, XRC_INI, XRC_TGT],
                PKEY_INDEX | PORT | ACCESS_FLAGS,
                NONE,
            ),
            row(&[UD], PKEY_INDEX | PORT | QKEY, NONE),
            row(&[SMI, GSI], PKEY_INDEX | QKEY, NONE),
            row(&[RAW_PACKET], PORT, NONE),
        ],
    },
    Transition {
        from: &[INIT],
        to: INIT,
        rows: &[
            row(
                &[UC, RC, XRC_INI, XRC_TGT],
                NONE,
                PKEY_INDEX | PORT | ACCESS_FLAGS,
            ),
            row(&[UD], NONE, PKEY_INDEX | PORT | QKEY),
            row(&[SMI, GSI], NONE, PKEY_INDEX | QKEY),
        ],
    },
    Transition {
        from: &[INIT],
        to: RTR,
        rows: &[
            row(&[UC, XRC_INI], PATH, ALT_PATH | ACCESS_FLAGS | PKEY_INDEX),
            row(
                &[RC, XRC_TGT],
                PATH | RESPONDER,
                ALT_PATH | ACCESS_FLAGS | PKEY_INDEX,
            ),
            row(DATAGRAM, NONE, PKEY_INDEX | QKEY),
        ],
    },
    Transition {
        from: &[RTR],
        to: RTS,
        rows: &[
            row(&[UC], SQ_PSN, CUR_STATE | CONNECTION),
            row(&[RC], REQUESTER, CUR_STATE | CONNECTION | MIN_RNR_TIMER),
            row(&[XRC_INI], REQUESTER, CUR_STATE | CONNECTION),
            row(
                &[XRC_TGT],
                TIMEOUT | SQ_PSN,
                CUR_STATE | CONNECTION | MIN_RNR_TIMER,
            ),
            row(DATAGRAM, SQ_PSN, CUR_STATE | QKEY),
        ],
    },
    Transition {
        from: &[RTS, SQD],
        to: RTS,
        rows: &[
            row(&[UC, XRC_INI], NONE, CUR_STATE | CONNECTION),
            row(&[RC, XRC_TGT], NONE, CUR_STATE | CONNECTION | MIN_RNR_TIMER),
            row(DATAGRAM, NONE, CUR_STATE | QKEY),
        ],
    },
    Transition {
        from: &[RTS],
        to: SQD,
        rows: &[
            row(&[UC, RC, XRC_INI, XRC_TGT], NONE, EN_SQD_ASYNC_NOTIFY),
            row(DATAGRAM, NONE, EN_SQD_ASYNC_NOTIFY),
        ],
    },
    Transition {
        from: &[SQD],
        to: SQD,
        rows: &[
            row(&[UC], NONE, DRAINED),
            row(
                &[RC],
                NONE,
                DRAINED | PORT | TIMEOUT | RETRY_CNT | RNR_RETRY | MAX_QP_RD_ATOMIC | RESPONDER,
            ),
            row(
                &[XRC_INI],
                NONE,
                DRAINED | PORT | TIMEOUT | RETRY_CNT | RNR_RETRY | MAX_QP_RD_ATOMIC,
            ),
            row(&[XRC_TGT], NONE, DRAINED | PORT | TIMEOUT | RESPONDER),
            row(DATAGRAM, NONE, PKEY_INDEX | QKEY),
        ],
    },
    Transition {
        from: &[SQE],
        to: RTS,
        rows: &[
            row(&[UC], NONE, CUR_STATE | ACCESS_FLAGS),
            row(DATAGRAM, NONE, CUR_STATE | QKEY),
        ],
    },
];

/// Whether a transition of a queue pair of a type is valid with a set of attributes.
///
/// The current state is an allowed attribute in the states from RTR to SQE, since the device changes only these without
/// a request.
pub(crate) fn is_ok(from: u32, to: u32, kind: u32, mask: Mask) -> bool {
    if mask & CUR_STATE != 0 && !matches!(from, RTR | RTS | SQD | SQE) {
        return false;
    }
    let mut transitions = TRANSITIONS.iter();
    let found = transitions.find(|change| change.to == to && change.from.contains(&from));
    let Some(change) = found else {
        return false;
    };
    let row = change.rows.iter().find(|row| row.types.contains(&kind));
    let (required, optional) = row.map_or((NONE, NONE), |row| (row.required, row.optional));
    let allowed = required | optional | STATE | RATE_LIMIT;
    mask & required == required && mask & !allowed == 0
}
