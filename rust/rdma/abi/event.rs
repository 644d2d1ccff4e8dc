// SPDX-License-Identifier: GPL-2.0

//! Asynchronous events: `enum ib_event_type` of `include/rdma/ib_verbs.h`.

use rdma_bindings as bindings;

c_enum! {
    /// The events of a CQ.
    pub enum CqEvent {
        /// The CQ overran, or cannot be used for another reason.
        Err = bindings::IB_EVENT_CQ_ERR,
    }
}

c_enum! {
    /// The events of a QP.
    pub enum QpEvent {
        /// A local error which a completion could not report.
        Fatal = bindings::IB_EVENT_QP_FATAL,
        /// A request of the remote QP was invalid.
        ReqErr = bindings::IB_EVENT_QP_REQ_ERR,
        /// A request of the remote QP violated access rights.
        AccessErr = bindings::IB_EVENT_QP_ACCESS_ERR,
        /// The first packet arrived before the QP was in RTS.
        CommEst = bindings::IB_EVENT_COMM_EST,
        /// The send queue is drained after a transition to SQD.
        SqDrained = bindings::IB_EVENT_SQ_DRAINED,
        /// The connection has migrated to the alternate path.
        PathMig = bindings::IB_EVENT_PATH_MIG,
        /// The connection failed to migrate.
        PathMigErr = bindings::IB_EVENT_PATH_MIG_ERR,
        /// The last work request was taken from the SRQ for a QP in the error state.
        LastWqeReached = bindings::IB_EVENT_QP_LAST_WQE_REACHED,
    }
}

c_enum! {
    /// The events of an SRQ.
    pub enum SrqEvent {
        /// The SRQ cannot be used any more.
        Err = bindings::IB_EVENT_SRQ_ERR,
        /// Fewer work requests than the limit are left; the limit is disarmed.
        LimitReached = bindings::IB_EVENT_SRQ_LIMIT_REACHED,
    }
}

c_enum! {
    /// The events of a device or a port.
    pub enum DeviceEvent {
        /// The device cannot be used any more.
        Fatal = bindings::IB_EVENT_DEVICE_FATAL,
        /// The port became active.
        PortActive = bindings::IB_EVENT_PORT_ACTIVE,
        /// The port became inactive.
        PortErr = bindings::IB_EVENT_PORT_ERR,
        /// The port's LID has changed.
        LidChange = bindings::IB_EVENT_LID_CHANGE,
        /// The port's P_Key table has changed.
        PkeyChange = bindings::IB_EVENT_PKEY_CHANGE,
        /// The port's subnet manager has changed.
        SmChange = bindings::IB_EVENT_SM_CHANGE,
        /// Clients must re-register with the subnet administrator.
        ClientReregister = bindings::IB_EVENT_CLIENT_REREGISTER,
        /// The port's GID table has changed.
        GidChange = bindings::IB_EVENT_GID_CHANGE,
        /// The port's speed has changed.
        SpeedChange = bindings::IB_EVENT_DEVICE_SPEED_CHANGE,
    }
}
