// SPDX-License-Identifier: GPL-2.0

//! Answers that the core sends: those of the driver, that a request is not supported, and the packets of RMPP.
//!
//! It takes up to a second to find a sender's address. What goes to one that is not known waits for that in a queue of its port,
//! so that other MADs are received meanwhile.

use kernel::{prelude::*, sync::Arc, workqueue::WorkItem};
use kernel_ext::work;
use rdma::{
    core::mad::{recv::RecvMad, send::OwnAh},
    MaySleep,
};

use super::{
    build::{self, Wanted},
    header::{
        method, Header, MAD_HEADER, MAD_SIZE, METHOD_AT, OPA_BASE_VERSION, STATUS_AT,
        STATUS_UNSUPPORTED,
    },
    post,
    state::{Agent, Answer, MadClient, Origin, Port, SendMad},
};

/// The client of the agents that answer: the answer is freed when it is sent.
pub(super) struct Responder;

impl MadClient for Responder {
    fn sent(&self, _send: &Arc<SendMad>, _status: u32, _sleep: &MaySleep) {}

    fn received(&self, _request: Option<&Arc<SendMad>>, _mad: RecvMad, _sleep: &MaySleep) {}
}

/// How many answers of a port may wait. More are lost, as packets may be.
const MAX_ANSWERS: usize = 64;

/// Finds the address that an answer goes to.
///
/// # Errors
///
/// `ENODEV` where the port goes, and those of making an address handle.
fn find(answer: &Answer, sleep: &MaySleep) -> Result<Arc<OwnAh>> {
    if let Some(known) = known(answer) {
        return Ok(known);
    }
    let qp = &answer.agent.qp;
    let ah = qp.address_of_sender(&answer.to, answer.port_num, sleep)?;
    let ah = Arc::new(ah, GFP_KERNEL)?;
    if let Some(message) = &answer.message {
        // Another answer of the message may have found it meanwhile.
        message.ah.populate(ah.clone());
    }
    Ok(ah)
}

fn known(answer: &Answer) -> Option<Arc<OwnAh>> {
    answer.message.as_ref()?.ah.as_ref().cloned()
}

/// Sends an answer to an address.
///
/// # Errors
///
/// `ENODEV` where the port goes, `ENOMEM`, and those of posting.
fn send(answer: &Answer, ah: Arc<OwnAh>, sleep: &MaySleep) -> Result {
    let Answer { agent, mad, .. } = answer;
    let header = if answer.is_rmpp {
        mad.len()
    } else {
        MAD_HEADER
    };
    let wanted = Wanted {
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

/// Sends an answer: at once to an address that is known, else soon. What cannot be sent is lost, as packets may be.
pub(super) fn send_or_wait(answer: Answer, sleep: &MaySleep) {
    if let Some(ah) = known(&answer) {
        return told(&answer, send(&answer, ah, sleep));
    }
    let port = answer.agent.port.clone();
    if wait(&port, answer).is_ok() {
        work::enqueue(&port.answerer, &port);
    }
}

fn told(answer: &Answer, sent: Result) {
    if let Err(error) = sent {
        pr_debug!(
            "no answer is sent from port {}: {:?}\n",
            answer.port_num,
            error
        );
    }
}

/// Answers over the queue pair that a MAD has come over, with `length` bytes of `answer`.
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

/// Lets an answer wait.
///
/// # Errors
///
/// The answer, where the port is closed, too many wait, or memory is short.
fn wait(port: &Port, answer: Answer) -> Result<(), Answer> {
    let mut answers = port.answers.lock();
    let open = Option::as_mut(&mut answers).filter(|open| open.len() < MAX_ANSWERS);
    let Some(open) = open else {
        return Err(answer);
    };
    if open.reserve(1, GFP_ATOMIC).is_err() {
        return Err(answer);
    }
    open.push_within_capacity(answer).map_err(|error| error.0)
}

impl WorkItem for Port {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        // SAFETY: Works of the queue run in process context.
        let sleep = &unsafe { MaySleep::assume() };
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
            told(&first, sent);
        }
    }
}

/// Forgets the answers of a port that closes. None is sent when this returns.
pub(super) fn close(port: &Arc<Port>, sleep: &MaySleep) {
    let rest = port.answers.lock().take();
    drop(rest);
    work::cancel_sync(port, sleep);
}

/// Turns a request that nobody takes into the answer that it is not supported, if it is one that has an answer.
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
