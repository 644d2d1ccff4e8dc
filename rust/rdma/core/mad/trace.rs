// SPDX-License-Identifier: GPL-2.0

//! Tracepoints of management datagrams: `ib_mad:*`. Any context.
//!
//! A disabled tracepoint costs a test of its static key. The definitions are in `core/trace_mad.c`, so that only the core can
//! use this module, and all of it is inline.
//!
//! C header: `include/trace/events/ib_mad.h`.

use core::ptr::{from_mut, from_ref};

use kernel::ffi::c_int;
use rdma_bindings::{
    ib_mad_agent_private, ib_mad_hdr, ib_mad_port_private, ib_mad_qp_info, ib_mad_send_wr_private,
    ib_smp, ib_wc, opa_smp,
};

use super::{agent::AgentBody, recv::RecvMad, send::PostedBody};
use crate::core::{trace::tracepoints, Device, Qp};

/// The retry state of a MAD that is sent.
#[derive(Clone, Copy)]
pub struct Attempts {
    /// The transaction ID that it was posted with.
    pub tid: u64,
    /// The timeout for a response in jiffies.
    pub timeout: usize,
    /// The maximum number of retries.
    pub max_retries: u32,
    /// The number of retries left.
    pub retries_left: u32,
    /// Whether it is sent again because another one has failed.
    pub retry: bool,
}

/// A MAD that is sent.
pub struct Sent<'a> {
    /// The agent.
    pub agent: &'a AgentBody,
    /// The MAD.
    pub send: PostedBody<'a>,
    /// The retry state.
    pub attempts: Attempts,
}

impl Sent<'_> {
    /// The C structure that tracepoints take.
    fn private(&self) -> ib_mad_send_wr_private {
        let mut traced: ib_mad_send_wr_private = pin_init::zeroed();
        traced.mad_agent_priv = self.agent.as_private();
        // The tracepoints query the address handle, which is valid as long as `self`.
        traced.send_buf = self.send.copy();
        traced.send_wr.ah = traced.send_buf.ah;
        (traced.send_wr.remote_qpn, traced.send_wr.remote_qkey) = self.send.remote();
        let attempts = &self.attempts;
        traced.tid = attempts.tid.to_be();
        traced.timeout = attempts.timeout;
        traced.max_retries = attempts.max_retries as i32;
        traced.retries_left = attempts.retries_left as i32;
        traced.retry = attempts.retry.into();
        traced
    }
}

/// A queue pair that has received a MAD.
pub struct ReceivedAt<'a> {
    /// The device.
    pub device: &'a Device,
    /// The port.
    pub port_num: u32,
    /// The queue pair.
    pub qp: &'a Qp,
}

tracepoints! {
    /// A MAD is given to the queue pair.
    ib_mad_ib_send_mad(sent: &Sent<'_> => from_mut(&mut sent.private()), *mut ib_mad_send_wr_private;
        at: &AgentBody => at.qp_info(), *mut ib_mad_qp_info);
    /// A MAD is given to the queue pair that has waited for room.
    ib_mad_send_done_resend(sent: &Sent<'_> => from_mut(&mut sent.private()), *mut ib_mad_send_wr_private;
        at: &AgentBody => at.qp_info(), *mut ib_mad_qp_info);
    /// A MAD is given to the queue pair again, because another one has failed.
    ib_mad_error_handler(sent: &Sent<'_> => from_mut(&mut sent.private()), *mut ib_mad_send_wr_private;
        at: &AgentBody => at.qp_info(), *mut ib_mad_qp_info);
    /// The completion of a MAD was polled.
    ib_mad_send_done_handler(sent: &Sent<'_> => from_mut(&mut sent.private()), *mut ib_mad_send_wr_private;
        wc: &ib_wc => from_ref(wc).cast_mut(), *mut ib_wc);
    /// A MAD was received.
    ib_mad_recv_done_handler(at: &ReceivedAt<'_> => from_mut(&mut ib_mad_qp_info {
            port_priv: from_mut(&mut ib_mad_port_private {
                device: at.device.as_raw(),
                port_num: at.port_num as c_int,
            }),
            qp: at.qp.as_raw(),
        }), *mut ib_mad_qp_info;
        wc: &ib_wc => from_ref(wc).cast_mut(), *mut ib_wc;
        mad: &RecvMad => mad.mad().as_ptr().cast_mut().cast(), *mut ib_mad_hdr);
    /// The agent of that MAD.
    ib_mad_send_done_agent(agent: &AgentBody => agent.as_private(), *mut ib_mad_agent_private);
    /// The agent that gets a MAD.
    ib_mad_recv_done_agent(agent: &AgentBody => agent.as_private(), *mut ib_mad_agent_private);
    /// An agent was registered.
    ib_mad_create_agent(agent: &AgentBody => agent.as_private(), *mut ib_mad_agent_private);
    /// An agent is being unregistered.
    ib_mad_unregister_agent(agent: &AgentBody => agent.as_private(), *mut ib_mad_agent_private);
    /// An SMP was received.
    ib_mad_handle_ib_smi(smp: &RecvMad => smp.mad().as_ptr().cast_mut().cast(), *mut ib_smp);
    /// An SMP is posted.
    ib_mad_handle_out_ib_smi(smp: &RecvMad => smp.mad().as_ptr().cast_mut().cast(), *mut ib_smp);
    /// An SMP of Omni-Path was received.
    ib_mad_handle_opa_smi(smp: &RecvMad => smp.mad().as_ptr().cast_mut().cast(), *mut opa_smp);
    /// An SMP of Omni-Path is posted.
    ib_mad_handle_out_opa_smi(smp: &RecvMad => smp.mad().as_ptr().cast_mut().cast(), *mut opa_smp);
}
