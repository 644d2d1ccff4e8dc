// SPDX-License-Identifier: GPL-2.0

//! The kinds of objects of user space: which number, which memory, which object of the driver.

use rdma::core::{
    Ah, Counters, Cq, Dm, Dmah, Flow, FlowAction, Mr, Mw, Pd, Qp, RwqIndTable, Srq, Uobject, Wq,
    Xrcd,
};
use rdma_bindings as bindings;

use crate::{
    destroy::FlowObject,
    uevent::{CqObject, QpObject, SrqObject, WqObject, XrcdObject},
};

/// A kind of objects.
///
/// # Safety
///
/// The objects whose number is [`ID`](Self::ID) are described by a type whose `obj_size` is at least that of
/// [`Memory`](Self::Memory), which begins with the `ib_uobject`, is transparent or `repr(C)`, and may be zero. For a kind
/// with a [`View`](kernel_ext::door::View): their `object` is null or `Self`.
pub unsafe trait Class {
    /// The number, `UVERBS_OBJECT_*`.
    const ID: u16;

    /// What ib_uverbs keeps of each. It comes zeroed, and its memory just goes: nothing is dropped.
    type Memory: Sync;
}

/// Says of a type of the driver's objects which kind of objects of user space has it.
macro_rules! classes {
    ($($view:ty: $id:ident, $memory:ty;)*) => {$(
        // SAFETY: The descriptions of ib_uverbs say so.
        unsafe impl Class for $view {
            const ID: u16 = bindings::$id as u16;
            type Memory = $memory;
        }
    )*};
}

classes! {
    Pd: UVERBS_OBJECT_PD, Uobject;
    Cq: UVERBS_OBJECT_CQ, CqObject;
    Qp: UVERBS_OBJECT_QP, QpObject;
    Srq: UVERBS_OBJECT_SRQ, SrqObject;
    Ah: UVERBS_OBJECT_AH, Uobject;
    Mr: UVERBS_OBJECT_MR, Uobject;
    Mw: UVERBS_OBJECT_MW, Uobject;
    Flow: UVERBS_OBJECT_FLOW, FlowObject;
    Xrcd: UVERBS_OBJECT_XRCD, XrcdObject;
    RwqIndTable: UVERBS_OBJECT_RWQ_IND_TBL, Uobject;
    Wq: UVERBS_OBJECT_WQ, WqObject;
    FlowAction: UVERBS_OBJECT_FLOW_ACTION, Uobject;
    Dm: UVERBS_OBJECT_DM, Uobject;
    Counters: UVERBS_OBJECT_COUNTERS, Uobject;
    Dmah: UVERBS_OBJECT_DMAH, Uobject;
}
