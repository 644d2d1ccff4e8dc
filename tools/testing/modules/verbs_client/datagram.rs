// SPDX-License-Identifier: GPL-2.0

//! Datagrams and address handles.

use kernel::{prelude::*, sync::Arc};
use rdma::{
    abi::ah::GlobalRoute,
    client::{
        ah::GRH_LENGTH,
        cq::PollContext,
        op::UdOp,
        qp::{DatagramInit, Qp, Rts, Ud, UdSending},
        Ah, Device, Srq,
    },
    AhFields, MaySleep, WcStatus,
};

use crate::{
    ensure,
    probe::{Node, Outcome, PortAddress},
    report, PORT,
};

/// The Q_Key of all queue pairs.
pub(crate) const QKEY: u32 = 0x1234_5678;

pub(crate) fn run(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) {
    report("datagrams", || datagrams(from, to, sleep));
    report("a datagram with another Q_Key is dropped", || {
        other_qkey(from, to, sleep)
    });
    report("an answer", || answer(from, to, sleep));
    report("addresses that cannot be", || impossible(from, sleep));
}

/// A queue pair for datagrams.
pub(crate) fn ready<'d>(
    node: &Node<'d>,
    srq: Option<&Arc<Srq<'d>>>,
    sleep: &MaySleep,
) -> Result<Qp<'d, Ud, Rts>> {
    let init = DatagramInit {
        port: PORT,
        pkey_index: 0,
        qkey: QKEY,
    };
    let qp = node.qp::<Ud>(srq, sleep)?.into_init(&init, sleep)?;
    Ok(qp
        .into_rtr(&(), sleep)?
        .into_rts(&UdSending { psn: 0 }, sleep)?)
}

/// The bytes behind the GRH.
fn payload<'a>(outcome: &'a Outcome<'_>) -> Option<&'a [u8]> {
    let bytes = outcome.work.as_ref()?.bytes();
    bytes.get(GRH_LENGTH..outcome.length as usize)
}

fn datagrams(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) -> Result {
    let (from, to) = Node::two(from, to, PollContext::WorkQueue, sleep)?;
    let (from_qp, to_qp) = (ready(&from, None, sleep)?, ready(&to, None, sleep)?);
    let path = PortAddress::of(&to.device)?.path();
    let handles = [
        Ah::new(&from.pd, &path, sleep)?,
        Ah::new_atomic(&from.pd, &path)?,
    ];
    for (nth, ah) in handles.iter().enumerate() {
        to_qp.post_receive(to.room(256, &to.received, sleep)?)?;
        let immediate = (nth == 1).then_some([1, 2, 3, 4]);
        let op = UdOp {
            ah,
            qp_num: to_qp.number(),
            qkey: QKEY,
            immediate,
        };
        from_qp.post_send(from.message(b"datagram", sleep)?, op)?;
        from.sent.success(sleep)?;
        let received = to.received.success(sleep)?;
        ensure!(payload(&received) == Some(b"datagram"), "other bytes");
        ensure!(received.immediate == immediate, "{:?}", received.immediate);
        ensure!(
            received.source.qp_num == from_qp.number(),
            "from {}",
            received.source.qp_num
        );
    }
    Ok(())
}

fn other_qkey(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) -> Result {
    let (from, to) = Node::two(from, to, PollContext::SoftIrq, sleep)?;
    let (from_qp, to_qp) = (ready(&from, None, sleep)?, ready(&to, None, sleep)?);
    let ah = Ah::new(&from.pd, &PortAddress::of(&to.device)?.path(), sleep)?;
    to_qp.post_receive(to.room(256, &to.received, sleep)?)?;
    for (qkey, bytes) in [(QKEY ^ 1, b"wrong"), (QKEY, b"right")] {
        let op = UdOp {
            ah: &ah,
            qp_num: to_qp.number(),
            qkey,
            immediate: None,
        };
        from_qp.post_send(from.message(bytes, sleep)?, op)?;
        from.sent.success(sleep)?;
    }
    // The handle may go before the datagram.
    drop(ah);
    let received = to.received.success(sleep)?;
    ensure!(payload(&received) == Some(b"right"), "other bytes");
    Ok(())
}

fn answer(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) -> Result {
    let (from, to) = Node::two(from, to, PollContext::WorkQueue, sleep)?;
    let (from_qp, to_qp) = (ready(&from, None, sleep)?, ready(&to, None, sleep)?);
    to_qp.post_receive(to.room(256, &to.received, sleep)?)?;
    from_qp.post_receive(from.room(256, &from.received, sleep)?)?;
    let ask = UdOp {
        ah: &Ah::new(&from.pd, &PortAddress::of(&to.device)?.path(), sleep)?,
        qp_num: to_qp.number(),
        qkey: QKEY,
        immediate: None,
    };
    from_qp.post_send(from.message(b"question", sleep)?, ask)?;
    let asked = to.received.success(sleep)?;
    let bytes = asked.work.as_ref().map(|work| work.bytes());
    let grh = bytes.and_then(|bytes| bytes.first_chunk::<GRH_LENGTH>());
    let back = Ah::for_reply(&to.pd, &asked.source, grh.ok_or(EIO)?, PORT, sleep)?;
    let answer = UdOp {
        ah: &back,
        qp_num: asked.source.qp_num,
        qkey: QKEY,
        immediate: None,
    };
    to_qp.post_send(to.message(b"answer", sleep)?, answer)?;
    let answered = from.received.success(sleep)?;
    ensure!(
        answered.status == WcStatus::Success,
        "{:?}",
        answered.status
    );
    ensure!(payload(&answered) == Some(b"answer"), "other bytes");
    Ok(())
}

fn impossible(device: &Device<'_>, sleep: &MaySleep) -> Result {
    let node = Node::new(device, PollContext::WorkQueue, sleep)?;
    let no_port = AhFields {
        port_num: 9,
        ..PortAddress::of(device)?.path()
    };
    ensure!(Ah::new(&node.pd, &no_port, sleep).is_err(), "port 9");
    let no_source = AhFields {
        grh: Some(GlobalRoute {
            sgid_index: 255,
            ..PortAddress::of(device)?.path().grh.unwrap_or_default()
        }),
        ..PortAddress::of(device)?.path()
    };
    ensure!(Ah::new_atomic(&node.pd, &no_source).is_err(), "GID 255");
    Ok(())
}
