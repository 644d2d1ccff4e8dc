// SPDX-License-Identifier: GPL-2.0

//! Responses that the core sends: the driver's, "unsupported", and RMPP packets.
//!
//! Resolving a sender's address takes up to a second. A response to an unresolved address waits in a queue of its port,
//! so that other MADs are received meanwhile.
//!
//! C header: `include/rdma/ib_mad.h`.

use kernel::{prelude::*, sync::Arc};
use kernel_ext::sleepable::{self, SleepableWork};
use rdma::{
    core::mad::{recv::RecvMad, send::OwnAh},
    MaySleep,
};

use super::{
    build::{self, SendBufAttr},
    header::{
        method, Header, MAD_HEADER, MAD_SIZE, METHOD_AT, OPA_BASE_VERSION, STATUS_AT,
        STATUS_UNSUPPORTED,
    },
    post,
    state::{Agent, Answer, MadClient, Origin, Port, SendMad},
};

/// The client of the responding agents: it frees a response when it is sent.
pub(super) struct Responder;

impl MadClient for Responder {
    fn sent(&self, _send: &Arc<SendMad>, _status: u32, _sleep: &MaySleep) {}

    fn received(&self, _request: Option<&Arc<SendMad>>, _mad: RecvMad, _sleep: &MaySleep) {}
}

/// Number of responses of a port that may wait for an address. Further ones are dropped, as packets may be.
const MAX_ANSWERS: usize = 64;

/// Resolves the address of a response.
///
/// # Errors
///
/// `ENODEV` while the port closes, and those of creating an address handle.
fn find(answer: &Answer, sleep: &MaySleep) -> Result<Arc<OwnAh>> {
    if let Some(known) = known(answer) {
        return Ok(known);
    }
    let qp = &answer.agent.qp;
    let ah = qp.address_of_sender(&answer.to, answer.port_num, sleep)?;
    let ah = Arc::new(ah, GFP_KERNEL)?;
    if let Some(message) = &answer.message {
        // Another response of the message may have set it meanwhile.
        message.ah.populate(ah.clone());
    }
    Ok(ah)
}

fn known(answer: &Answer) -> Option<Arc<OwnAh>> {
    answer.message.as_ref()?.ah.as_ref().cloned()
}

/// Sends a response to an address.
///
/// # Errors
///
/// `ENODEV` while the port closes, `ENOMEM`, and those of posting.
fn send(answer: &Answer, ah: Arc<OwnAh>, sleep: &MaySleep) -> Result {
    let Answer { agent, mad, .. } = answer;
    let header = if answer.is_rmpp {
        mad.len()
    } else {
        MAD_HEADER
    };
    let wanted = SendBufAttr {
        remote_qpn: answer.to.wc().src_qp,
        pkey_index: answer.to.wc().pkey_index,
        rmpp: answer.is_rmpp,
        header,
        data: mad.len().checked_sub(header).ok_or(EINVAL)?,
        opa: !answer.is_rmpp && mad.first() == Some(&OPA_BASE_VERSION),
    };
    let send = build::new(agent, &wanted, Some(ah), build::may_sleep(sleep))?;
    send.body.write(0, mad);
    if agent.port.device.is_switch() {
        send.body.set_port_num(answer.port_num);
    }
    post::post(match answer.is_rmpp {
        true => Origin::Layer(send),
        false => Origin::Core(send),
    })
}

/// Sends a response, now if the address is known, else when it is resolved. On failure it is dropped, as packets may
/// be.
pub(super) fn send_or_wait(answer: Answer, sleep: &MaySleep) {
    if let Some(ah) = known(&answer) {
        return log_failure(&answer, send(&answer, ah, sleep));
    }
    let port = answer.agent.port.clone();
    if wait(&port, answer).is_none() {
        sleepable::enqueue(&port.answerer, &port);
    }
}

fn log_failure(answer: &Answer, sent: Result) {
    if let Err(error) = sent {
        pr_debug!(
            "no answer is sent from port {}: {:?}\n",
            answer.port_num,
            error
        );
    }
}

/// Responds over the queue pair that a MAD was received on, with `length` bytes of `answer`.
pub(super) fn answer(
    agent: Option<&Arc<Agent>>,
    to: &RecvMad,
    answer: Option<&RecvMad>,
    (port_num, length): (u32, usize),
    sleep: &MaySleep,
) {
    let (Some(agent), Some(sender)) = (agent, to.sender()) else {
        return;
    };
    let whole = answer.unwrap_or(to).mad();
    let opa = agent.port.is_opa && whole.first() == Some(&OPA_BASE_VERSION);
    let length = if opa { length } else { MAD_SIZE };
    let mut mad = KVec::new();
    let copied = whole
        .get(..length)
        .map(|part| mad.extend_from_slice(part, GFP_KERNEL));
    if !matches!(copied, Some(Ok(()))) {
        return;
    }
    let answer = Answer {
        agent: agent.clone(),
        to: sender,
        mad,
        is_rmpp: false,
        message: None,
        port_num,
    };
    send_or_wait(answer, sleep);
}

/// Queues a response until its address is resolved. Gives it back where the port is closed, the queue is full, or memory is short.
fn wait(port: &Port, answer: Answer) -> Option<Answer> {
    let mut answers = port.answers.lock();
    let open = Option::as_mut(&mut answers).filter(|open| open.len() < MAX_ANSWERS);
    let Some(open) = open else {
        return Some(answer);
    };
    if open.reserve(1, GFP_ATOMIC).is_err() {
        return Some(answer);
    }
    let refused = open.push_within_capacity(answer).err();
    refused.map(|error| error.0)
}

impl SleepableWork for Port {
    fn run(this: Arc<Self>, sleep: &MaySleep) {
        loop {
            let first = {
                let mut answers = this.answers.lock();
                let open = Option::as_mut(&mut answers).filter(|open| !open.is_empty());
                open.and_then(|open| open.remove(0).ok())
            };
            let Some(first) = first else {
                return;
            };
            let sent = find(&first, sleep).and_then(|ah| send(&first, ah, sleep));
            log_failure(&first, sent);
        }
    }
}

/// Drops the queued responses of a port. None is sent after this returns.
pub(super) fn close(port: &Arc<Port>, sleep: &MaySleep) {
    let rest = port.answers.lock().take();
    drop(rest);
    sleepable::cancel_sync(port, sleep);
}

/// Builds the "unsupported" response to a request, if requests of this method have a response.
pub(super) fn unsupported(request: &RecvMad, answer: &mut RecvMad) -> bool {
    let header = Header::parse(&request.bytes::<MAD_HEADER>(0));
    if !matches!(header.method, method::GET | method::SET) {
        return false;
    }
    let mut put = |at: usize, bytes: &[u8]| {
        for (to, from) in answer.mad_mut().iter_mut().skip(at).zip(bytes) {
            *to = *from;
        }
    };
    put(0, request.mad());
    put(METHOD_AT, &[method::GET_RESP]);
    let direction = if header.is_directed_route() {
        0x8000
    } else {
        0
    };
    let status: u16 = STATUS_UNSUPPORTED | direction;
    put(STATUS_AT, &status.to_be_bytes());
    true
}
