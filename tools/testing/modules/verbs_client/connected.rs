// SPDX-License-Identifier: GPL-2.0

//! Connected queue pairs: messages, immediate data, chains of requests, scatter/gather lists.

use kernel::prelude::*;
use rdma::{
    abi::wr::SendFlags,
    client::{
        cq::PollContext,
        dma::Buffer,
        op::{RcOp, UcOp},
        qp::{Config, Rc, Uc, UcPeer, UcSending},
        Device, Qp,
    },
    MaySleep, Mtu, WcOpcode,
};

use crate::{
    ensure,
    probe::{has_bytes, Connection, Node, PortAddress, Request, CONNECTED},
    report,
};

pub(crate) fn run(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) {
    report("messages of many sizes", || sizes(from, to, sleep));
    report("immediate data", || immediate(from, to, sleep));
    report("several pieces of memory", || pieces(from, to, sleep));
    report("a part of the memory", || part(from, to, sleep));
    report("chains", || chains(from, to, sleep));
    report("a chain that does not fit", || long_chain(to, sleep));
    report("an unreliable connection", || unreliable(from, to, sleep));
    report("memory in each direction", || directions(from));
}

fn sizes(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) -> Result {
    let pair = Connection::new(from, to, sleep)?;
    for length in [0usize, 1, 255, 1024, 1025, 65536] {
        pair.expect(65536, sleep)?;
        let mut work = pair.from.room(length as u32, &pair.from.sent, sleep)?;
        for (nth, byte) in work.as_mut().bytes_mut().iter_mut().enumerate() {
            *byte = nth as u8;
        }
        work.as_mut()
            .set_flags(SendFlags::SOLICITED | SendFlags::FENCE);
        pair.from_qp.post_send(work, RcOp::Send)?;
        let sent = pair.from.sent.success(sleep)?;
        let received = pair.to.received.success(sleep)?;
        let bytes = sent.work.as_ref().map(|work| work.bytes());
        ensure!(
            has_bytes(&received, bytes.unwrap_or_default()),
            "{length} bytes"
        );
    }
    Ok(())
}

fn immediate(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) -> Result {
    let pair = Connection::new(from, to, sleep)?;
    pair.expect(64, sleep)?;
    let work = pair.from.message(b"more", sleep)?;
    pair.from_qp.post_send(work, RcOp::SendImm([1, 2, 3, 4]))?;
    let received = pair.to.received.success(sleep)?;
    ensure!(
        received.immediate == Some([1, 2, 3, 4]),
        "{:?}",
        received.immediate
    );
    ensure!(has_bytes(&received, b"more"), "other bytes");
    Ok(())
}

/// A request with this scatter/gather list.
fn in_pieces<'d>(node: &Node<'d>, pieces: &[&[u8]], sleep: &MaySleep) -> Result<Request<'d>> {
    let (first, more) = pieces.split_first().ok_or(EINVAL)?;
    let mut work = node.message(first, sleep)?;
    for bytes in more {
        let mut piece = Buffer::new(&node.device, bytes.len() as u32, GFP_KERNEL)?;
        piece.write(bytes);
        work.as_mut().add_piece(piece).map_err(|_| ENOSPC)?;
    }
    Ok(work)
}

fn pieces(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) -> Result {
    let pair = Connection::new(from, to, sleep)?;
    pair.expect(64, sleep)?;
    let mut work = in_pieces(&pair.from, &[b"one ", b"and ", b"ano", b"ther"], sleep)?;
    let fifth = Buffer::new(from, 1, GFP_KERNEL)?;
    ensure!(work.as_mut().add_piece(fifth).is_err(), "five pieces");
    pair.from_qp.post_send(work, RcOp::Send)?;
    ensure!(
        has_bytes(&pair.to.received.success(sleep)?, b"one and another"),
        "other bytes"
    );
    let mut work = pair.from.sent.success(sleep)?.work.ok_or(EIO)?;
    ensure!(
        work.piece(3).is_some_and(|piece| piece.bytes() == b"ther"),
        "another piece"
    );
    ensure!(work.as_mut().take_piece().is_some(), "no last piece");
    // The same, received in pieces.
    let mut room = pair.to.room(4, &pair.to.received, sleep)?;
    let rest = Buffer::new(to, 60, GFP_KERNEL)?;
    room.as_mut().add_piece(rest).map_err(|_| ENOSPC)?;
    pair.to_qp.post_receive(room)?;
    pair.from_qp.post_send(work, RcOp::Send)?;
    let received = pair.to.received.success(sleep)?;
    let rest = received.work.as_ref().and_then(|work| work.piece(1));
    let rest = rest.and_then(|piece| piece.bytes().get(..7));
    ensure!(
        received.length == 11 && rest == Some(b"and ano"),
        "other bytes: {rest:?}"
    );
    Ok(())
}

fn part(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) -> Result {
    let pair = Connection::new(from, to, sleep)?;
    pair.expect(64, sleep)?;
    let mut work = pair.from.message(b"all of it", sleep)?;
    work.as_mut().set_length(3);
    pair.from_qp.post_send(work, RcOp::Send)?;
    ensure!(
        has_bytes(&pair.to.received.success(sleep)?, b"all"),
        "other bytes"
    );
    Ok(())
}

fn chains(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) -> Result {
    let pair = Connection::new(from, to, sleep)?;
    let mut receives = pair.to_qp.receive_chain::<_, 4>();
    for _ in 0..4 {
        receives.push(pair.to.room(64, &pair.to.received, sleep)?)?;
    }
    let fifth = receives.push(pair.to.room(64, &pair.to.received, sleep)?);
    ensure!(
        fifth.is_err_and(|failed| failed.error == ENOSPC),
        "a fifth of four"
    );
    receives.post()?;
    let mut sends = pair.from_qp.send_chain::<_, 4>();
    for nth in 0..4u8 {
        sends.push(pair.from.message(&[nth; 16], sleep)?, RcOp::Send)?;
    }
    sends.post()?;
    for nth in 0..4u8 {
        ensure!(
            has_bytes(&pair.to.received.success(sleep)?, &[nth; 16]),
            "not in order"
        );
        pair.from.sent.success(sleep)?;
    }
    // A chain that is dropped without being posted releases its requests.
    let mut unposted = pair.from_qp.send_chain::<_, 2>();
    unposted.push(pair.from.message(b"never", sleep)?, RcOp::Send)?;
    ensure!(unposted.len() == 1 && !unposted.is_empty(), "its length");
    drop(unposted);
    pair.from_qp
        .send_chain::<crate::probe::Probe<'_>, 1>()
        .post()?;
    Ok(())
}

/// A chain has at most the length of the queue. A request that the driver rejects is returned with all that follow it.
fn long_chain(device: &Device<'_>, sleep: &MaySleep) -> Result {
    const MANY: usize = 40;
    const ROOM: usize = 16;
    const GOOD: usize = 10;
    let node = Node::new(device, PollContext::WorkQueue, sleep)?;
    let config = Config {
        send_cq: &node.cq,
        recv_cq: &node.cq,
        max_sends: 1,
        max_receives: ROOM as u32,
        max_pieces: 1,
        srq: None,
        events: None,
    };
    let qp = Qp::<Rc, _>::new(&node.pd, config, sleep)?.into_init(&CONNECTED, sleep)?;
    let mut receives = KBox::new(qp.receive_chain::<_, MANY>(), GFP_KERNEL)?;
    for nth in 0..ROOM {
        let mut work = node.room(64, &node.received, sleep)?;
        if nth >= GOOD {
            let piece = Buffer::new(device, 64, GFP_KERNEL)?;
            work.as_mut().add_piece(piece).map_err(|_| ENOSPC)?;
        }
        receives.push(work)?;
    }
    let more = receives.push(node.room(64, &node.received, sleep)?);
    let more = more.map_err(|failed| failed.error);
    ensure!(more == Err(ENOMEM), "one more: {more:?}");
    let Err(failed) = KBox::into_inner(receives).post() else {
        pr_info!("  more pieces than the queue has\n");
        return Err(EIO);
    };
    ensure!(failed.error == EINVAL, "{:?}", failed.error);
    let left = failed.rest.iter().flatten().count();
    ensure!(left == ROOM.wrapping_sub(GOOD), "{left} were not posted");
    let received = node.received.clone();
    drop(qp);
    ensure!(received.count() == GOOD, "{} flushed", received.count());
    Ok(())
}

fn unreliable(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) -> Result {
    let (from, to) = Node::two(from, to, PollContext::WorkQueue, sleep)?;
    let from_qp = from.qp::<Uc>(None, sleep)?.into_init(&CONNECTED, sleep)?;
    let to_qp = to.qp::<Uc>(None, sleep)?.into_init(&CONNECTED, sleep)?;
    let peer = |place: PortAddress, qp_num| UcPeer {
        path: place.path(),
        mtu: Mtu::B256,
        qp_num,
        psn: 7,
    };
    let (number, place) = (from_qp.number(), PortAddress::of(&from.device)?);
    let from_qp = from_qp.into_rtr(&peer(PortAddress::of(&to.device)?, to_qp.number()), sleep)?;
    let to_qp = to_qp.into_rtr(&peer(place, number), sleep)?;
    // A queue pair that only receives need not be in RTS.
    let from_qp = from_qp.into_rts(&UcSending { psn: 7 }, sleep)?;
    to_qp.post_receive(to.room(1024, &to.received, sleep)?)?;
    let work = from.message(&[9; 1000], sleep)?;
    from_qp.post_send(work, UcOp::SendImm([5, 6, 7, 8]))?;
    let received = to.received.success(sleep)?;
    ensure!(has_bytes(&received, &[9; 1000]), "other bytes");
    ensure!(
        received.immediate == Some([5, 6, 7, 8]),
        "{:?}",
        received.immediate
    );
    ensure!(
        from.sent.success(sleep)?.opcode == Some(WcOpcode::Send),
        "another opcode"
    );
    Ok(())
}

fn directions(device: &Device<'_>) -> Result {
    use rdma::client::dma::{FromDevice, ToDevice};
    let mut bytes = KVec::new();
    bytes.extend_from_slice(b"bytes", GFP_KERNEL)?;
    let buffer = Buffer::<ToDevice>::map(device, bytes)?;
    ensure!(
        buffer.length() == 5 && buffer.bytes() == b"bytes",
        "other bytes"
    );
    ensure!(*buffer.unmap() == *b"bytes", "other bytes");
    let buffer = Buffer::<FromDevice>::new(device, 3, GFP_KERNEL)?;
    ensure!(buffer.bytes() == [0; 3], "not zero");
    Ok(())
}
