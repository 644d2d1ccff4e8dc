// SPDX-License-Identifier: GPL-2.0

//! Answers that the core sends: those of the driver, and that a request is not supported.

use kernel::{prelude::*, sync::Arc, workqueue::WorkItem};
use kernel_ext::work;
use rdma::{view::mad::recv::RecvMad, MaySleep};

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

/// Sends an answer to the sender of what it answers.
///
/// # Errors
///
/// `ENODEV` where the port goes, those of making an address handle, and of posting.
fn send(answer: &Answer, sleep: &MaySleep) -> Result {
    let Answer {
        agent,
        to,
        mad,
        port_num,
    } = answer;
    let ah = agent.qp.address_of_sender(to, *port_num, sleep)?;
    let wanted = Wanted {
        remote_qpn: to.wc().src_qp,
        pkey_index: to.wc().pkey_index,
        rmpp: false,
        header: MAD_HEADER,
        data: mad.len().checked_sub(MAD_HEADER).ok_or(EINVAL)?,
        opa: mad.first() == Some(&OPA_BASE_VERSION),
    };
    let ah = Arc::new(ah, GFP_KERNEL)?;
    let send = build::new(agent, &wanted, Some(ah), build::may_sleep(sleep))?;
    send.body.write(0, mad);
    if agent.port.device.is_switch() {
        send.body.set_port_num(*port_num);
    }
    post::post(Origin::Core(send))
}

/// Answers over the queue pair that a MAD has come over, with `length` bytes of `answer`; soon, for it takes up to a second to
/// find a sender's address, and other MADs do not wait for that. An answer that cannot be sent is lost, as packets may be.
pub(super) fn answer(
    agent: Option<&Arc<Agent>>,
    to: RecvMad,
    answer: Option<&RecvMad>,
    (port_num, length): (u32, usize),
) {
    let Some(agent) = agent else {
        return;
    };
    let port = &agent.port;
    let whole = answer.unwrap_or(&to).mad();
    let opa = port.is_opa && whole.first() == Some(&OPA_BASE_VERSION);
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
        to,
        mad,
        port_num,
    };
    if wait(port, answer).is_ok() {
        work::enqueue(&port.answerer, port);
    }
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
            if let Err(error) = send(&first, sleep) {
                pr_debug!(
                    "no answer is sent from port {}: {:?}\n",
                    this.port_num,
                    error
                );
            }
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
