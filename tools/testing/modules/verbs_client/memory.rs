// SPDX-License-Identifier: GPL-2.0

//! Fast registration, and the accesses of peers to the memory: writes, reads, atomics, invalidation.

use kernel::{prelude::*, sync::Arc};
use rdma::{
    abi::wr::Remote,
    client::{
        dma::{Bidirectional, Pages, ToDevice},
        mr::State,
        op::RcOp,
        Device, Mr,
    },
    Access, MaySleep, WcOpcode, WcStatus,
};

use crate::{
    ensure,
    probe::{has_bytes, Connection, Emptied, Outcome, Sink},
    report,
};

pub(crate) fn run(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) {
    report("RDMA writes and reads", || {
        writes_and_reads(from, to, sleep)
    });
    report("atomics", || atomics(from, to, sleep));
    report("a region is invalidated, and used again", || {
        local_invalidate(from, to, sleep)
    });
    report("a peer invalidates a region", || {
        remote_invalidate(from, to, sleep)
    });
    report("states of regions", || states(from, to, sleep));
    report("access that is not allowed", || {
        not_allowed(from, to, sleep)
    });
    report("pages by themselves", || pages(from, sleep));
}

const LENGTH: u32 = 3 * 4096;

/// The access that peers have.
const ACCESS: Access = Access::LOCAL_WRITE
    .with(Access::REMOTE_WRITE)
    .with(Access::REMOTE_READ)
    .with(Access::REMOTE_ATOMIC);

/// A connection, and a memory region of its target.
struct Target<'a, 'b> {
    pair: Connection<'a, 'b>,
    pages: Arc<Pages<'b>>,
    mr: Arc<Mr<'b>>,
}

impl<'a, 'b> Target<'a, 'b> {
    fn new(from: &Device<'a>, to: &Device<'b>, sleep: &MaySleep) -> Result<Self> {
        let pair = Connection::new(from, to, sleep)?;
        Ok(Self {
            pages: Pages::new(to, LENGTH, sleep)?,
            mr: Arc::new(Mr::new(&pair.to.pd, 3, sleep)?, GFP_KERNEL)?,
            pair,
        })
    }

    /// Its owner posts a request, and waits.
    fn by_owner(&self, op: RcOp<'_, 'b>, sleep: &MaySleep) -> Result<Outcome<'b>> {
        let work = self.pair.to.room(0, &self.pair.to.sent, sleep)?;
        self.pair.to_qp.post_send(work, op)?;
        self.pair.to.sent.wait(sleep)
    }

    fn register(&self, access: Access, sleep: &MaySleep) -> Result {
        self.mr.map(&self.pages, sleep)?;
        let mr = &*self.mr;
        let outcome = self.by_owner(RcOp::RegMr { mr, access }, sleep)?;
        ensure!(outcome.status == WcStatus::Success, "{:?}", outcome.status);
        ensure!(
            outcome.opcode == Some(WcOpcode::RegMr),
            "{:?}",
            outcome.opcode
        );
        ensure!(
            self.mr.state() == State::Registered,
            "{:?}",
            self.mr.state()
        );
        Ok(())
    }

    /// The peer posts a request with these bytes, and waits.
    fn by_peer(&self, bytes: &[u8], op: RcOp<'_, 'a>, sleep: &MaySleep) -> Result<Outcome<'a>> {
        let work = self.pair.from.message(bytes, sleep)?;
        self.pair.from_qp.post_send(work, op)?;
        self.pair.from.sent.wait(sleep)
    }

    /// The current bytes at an address.
    fn at<const N: usize>(&self, offset: usize) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.pages.read(offset, &mut bytes)?;
        Ok(bytes)
    }
}

fn is_success(outcome: &Outcome<'_>, opcode: WcOpcode) -> Result {
    ensure!(outcome.status == WcStatus::Success, "{:?}", outcome.status);
    ensure!(outcome.opcode == Some(opcode), "{:?}", outcome.opcode);
    Ok(())
}

fn writes_and_reads(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) -> Result {
    let target = Target::new(from, to, sleep)?;
    target.register(ACCESS, sleep)?;
    // Across a page boundary.
    let place = target.mr.remote(4090)?;
    let outcome = target.by_peer(b"written over there", RcOp::Write(place), sleep)?;
    is_success(&outcome, WcOpcode::RdmaWrite)?;
    ensure!(target.at(4090)? == *b"written over there", "other bytes");
    target.pages.write(8000, b"to be read")?;
    let outcome = target.by_peer(&[0; 10], RcOp::Read(target.mr.remote(8000)?), sleep)?;
    is_success(&outcome, WcOpcode::RdmaRead)?;
    let read = outcome.work.as_ref().map(|work| work.bytes());
    ensure!(read == Some(b"to be read"), "other bytes: {read:?}");
    target.pair.expect(0, sleep)?;
    let op = RcOp::WriteImm(target.mr.remote(0)?, [4, 3, 2, 1]);
    is_success(
        &target.by_peer(b"and told", op, sleep)?,
        WcOpcode::RdmaWrite,
    )?;
    let told = target.pair.to.received.success(sleep)?;
    ensure!(
        told.opcode == Some(WcOpcode::RecvRdmaWithImm),
        "{:?}",
        told.opcode
    );
    ensure!(
        told.immediate == Some([4, 3, 2, 1]) && told.length == 8,
        "{:?}",
        told.immediate
    );
    ensure!(target.at(0)? == *b"and told", "other bytes");
    ensure!(
        target.mr.remote(LENGTH.into()).is_err(),
        "a byte behind the end"
    );
    Ok(())
}

fn atomics(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) -> Result {
    let target = Target::new(from, to, sleep)?;
    target.register(ACCESS, sleep)?;
    let remote = target.mr.remote(64)?;
    let now = || -> Result<u64> { Ok(u64::from_ne_bytes(target.at(64)?)) };
    let before = |outcome: &Outcome<'_>| -> Option<u64> {
        let bytes = outcome.work.as_ref()?.bytes();
        Some(u64::from_ne_bytes(*bytes.first_chunk()?))
    };
    target.pages.write(64, &40u64.to_ne_bytes())?;
    let outcome = target.by_peer(&[0; 8], RcOp::FetchAdd { remote, add: 2 }, sleep)?;
    is_success(&outcome, WcOpcode::FetchAdd)?;
    ensure!(
        before(&outcome) == Some(40) && now()? == 42,
        "fetch and add"
    );
    let swap = |compare, swap| RcOp::CompareSwap {
        remote,
        compare,
        swap,
    };
    let outcome = target.by_peer(&[0; 8], swap(41, 1), sleep)?;
    is_success(&outcome, WcOpcode::CompSwap)?;
    ensure!(
        before(&outcome) == Some(42) && now()? == 42,
        "not equal, and swapped"
    );
    let outcome = target.by_peer(&[0; 8], swap(42, 7), sleep)?;
    is_success(&outcome, WcOpcode::CompSwap)?;
    ensure!(
        before(&outcome) == Some(42) && now()? == 7,
        "equal, and not swapped"
    );
    Ok(())
}

fn local_invalidate(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) -> Result {
    let target = Target::new(from, to, sleep)?;
    let mut last = target.mr.rkey();
    for _ in 0..3 {
        target.register(ACCESS, sleep)?;
        ensure!(target.mr.rkey() != last, "the same key again");
        last = target.mr.rkey();
        let place = target.mr.remote(0)?;
        is_success(
            &target.by_peer(b"x", RcOp::Write(place), sleep)?,
            WcOpcode::RdmaWrite,
        )?;
        let outcome = target.by_owner(RcOp::LocalInv(&target.mr), sleep)?;
        is_success(&outcome, WcOpcode::LocalInv)?;
        ensure!(target.mr.state() == State::Free, "{:?}", target.mr.state());
    }
    // The old key is invalid.
    let old = Remote {
        rkey: last,
        ..target.mr.remote(0)?
    };
    let outcome = target.by_peer(b"x", RcOp::Write(old), sleep)?;
    ensure!(
        outcome.status == WcStatus::RemAccessErr,
        "{:?}",
        outcome.status
    );
    Ok(())
}

fn remote_invalidate(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) -> Result {
    let target = Target::new(from, to, sleep)?;
    target.register(ACCESS, sleep)?;
    let to = &target.pair.to;
    let (mine, other) = (target.mr.clone(), Mr::new(&to.pd, 1, sleep)?);
    let other = Arc::new(other, GFP_KERNEL)?;
    let (sink, of_other) = (
        Emptied(Sink::watching(Some(mine))?),
        Emptied(Sink::watching(Some(other))?),
    );
    let key = target.mr.rkey();
    // One that invalidates nothing.
    target.pair.to_qp.post_receive(to.room(64, &sink, sleep)?)?;
    is_success(
        &target.by_peer(b"not yet", RcOp::Send, sleep)?,
        WcOpcode::Send,
    )?;
    sink.success(sleep)?;
    ensure!(sink.noted() == 0, "nothing was invalidated");
    ensure!(
        target.mr.state() == State::Registered,
        "{:?}",
        target.mr.state()
    );
    target.pair.to_qp.post_receive(to.room(64, &sink, sleep)?)?;
    let outcome = target.by_peer(b"done with it", RcOp::SendInv(key), sleep)?;
    is_success(&outcome, WcOpcode::Send)?;
    let received = sink.success(sleep)?;
    ensure!(has_bytes(&received, b"done with it"), "other bytes");
    ensure!(
        received.invalidated == Some(key),
        "{:?}",
        received.invalidated
    );
    ensure!(sink.noted() == 1, "its key");
    ensure!(target.mr.state() == State::Free, "{:?}", target.mr.state());
    // Another region does not take it for its own.
    target.register(ACCESS, sleep)?;
    target
        .pair
        .to_qp
        .post_receive(to.room(64, &of_other, sleep)?)?;
    let op = RcOp::SendInv(target.mr.rkey());
    is_success(&target.by_peer(b"not yours", op, sleep)?, WcOpcode::Send)?;
    of_other.success(sleep)?;
    ensure!(of_other.noted() == 0, "another key");
    Ok(())
}

fn states(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) -> Result {
    let target = Target::new(from, to, sleep)?;
    let busy = |op| -> Result<bool> {
        let work = target.pair.to.room(0, &target.pair.to.sent, sleep)?;
        let failed = target.pair.to_qp.post_send(work, op).err();
        Ok(failed.is_some_and(|failed| failed.error == EBUSY))
    };
    let (mr, access) = (&*target.mr, ACCESS);
    ensure!(busy(RcOp::RegMr { mr, access })?, "nothing is mapped");
    ensure!(busy(RcOp::LocalInv(mr))?, "nothing is registered");
    target.register(ACCESS, sleep)?;
    ensure!(busy(RcOp::RegMr { mr, access })?, "it is registered");
    ensure!(
        mr.map(&target.pages, sleep) == Err(EBUSY),
        "mapped while it is registered"
    );
    let more = Pages::<Bidirectional>::new(to, 4 * 4096, sleep)?;
    let small = Mr::new(&target.pair.to.pd, 1, sleep)?;
    ensure!(small.map(&more, sleep).is_err(), "four pages in one");
    let read_only = Pages::<ToDevice>::new(to, 4096, sleep)?;
    small.map(&read_only, sleep)?;
    let work = target.pair.to.room(0, &target.pair.to.sent, sleep)?;
    let failed = target
        .pair
        .to_qp
        .post_send(work, RcOp::RegMr { mr: &small, access });
    ensure!(
        failed.is_err_and(|failed| failed.error == EINVAL),
        "writes to what is only read"
    );
    // Both are dropped, one while it is registered.
    Ok(())
}

fn not_allowed(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) -> Result {
    let target = Target::new(from, to, sleep)?;
    target.register(Access::REMOTE_READ, sleep)?;
    let place = target.mr.remote(0)?;
    is_success(
        &target.by_peer(&[0; 4], RcOp::Read(place), sleep)?,
        WcOpcode::RdmaRead,
    )?;
    let outcome = target.by_peer(b"no", RcOp::Write(place), sleep)?;
    ensure!(
        outcome.status == WcStatus::RemAccessErr,
        "{:?}",
        outcome.status
    );
    // The queue pair is in error now: what is posted is flushed.
    let outcome = target.by_peer(b"no", RcOp::Send, sleep)?;
    ensure!(
        outcome.status == WcStatus::WrFlushErr,
        "{:?}",
        outcome.status
    );
    Ok(())
}

fn pages(device: &Device<'_>, sleep: &MaySleep) -> Result {
    ensure!(
        Pages::<Bidirectional>::new(device, 0, sleep).is_err(),
        "no pages"
    );
    let pages = Pages::<Bidirectional>::new(device, 5000, sleep)?;
    ensure!(
        pages.count() == 2 && pages.length() == 8192,
        "{} bytes",
        pages.length()
    );
    pages.write(4094, b"four")?;
    let mut four = [0; 6];
    pages.read(4093, &mut four)?;
    ensure!(four == *b"\0four\0", "{four:?}");
    ensure!(pages.write(8190, b"four") == Err(EINVAL), "over the end");
    ensure!(
        pages.read(usize::MAX, &mut four) == Err(EINVAL),
        "far over the end"
    );
    Ok(())
}
