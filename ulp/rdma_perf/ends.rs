// SPDX-License-Identifier: GPL-2.0

//! The two ends of a run. How their queue pairs are connected is the module's [`wire`](crate::wire) to say.

use kernel::{prelude::*, sync::Arc};
use rdma::{
    abi::wr::Remote,
    client::{
        cq::PollContext,
        qp::{Config, QpHandle, Rc, Reset, Rts},
        Cq, Device, Pd, Qp,
    },
    MaySleep,
};

use crate::{
    client::{Lane, ANSWERS},
    options::Poll,
    run::Run,
    server::{receives, Region, Seat},
    wire::joined::{is_left, Joined},
};

/// The port of the devices.
pub(crate) const PORT: u32 = 1;
/// READs and atomics of a queue pair that may be under way, as far as the device can.
pub(crate) const READS: u8 = 16;
/// A queue pair of the server is asked one more thing at the beginning.
const REGISTRATIONS: u32 = 1;
/// And one of the client at the end.
const ENDS: u32 = 1;
/// Room in a completion queue for what a queue pair is drained with.
const DRAINS: u32 = 2;

/// What both ends have: the device, and where completions go.
pub(crate) struct Place<'d> {
    pub(crate) device: Device<'d>,
    pd: Pd<'d>,
    cq: Arc<Cq<'d>>,
    /// Requests of a queue pair.
    sends: u32,
    receives: u32,
}

impl<'d> Place<'d> {
    fn new(
        run: &Run,
        device: &Device<'d>,
        (sends, receives): (u32, u32),
        sleep: &MaySleep,
    ) -> Result<Self> {
        let context = match run.options.poll {
            Poll::Direct => PollContext::Direct,
            Poll::SoftIrq => PollContext::SoftIrq,
            Poll::WorkQueue => PollContext::WorkQueue,
            Poll::Unbound => PollContext::UnboundWorkQueue,
        };
        let of_one = sends.saturating_add(receives).saturating_add(DRAINS);
        let entries = of_one.saturating_mul(run.options.qps);
        Ok(Self {
            device: device.clone(),
            pd: Pd::new(device, sleep)?,
            cq: Cq::new(device, entries, 0, context, sleep)?,
            sends,
            receives,
        })
    }

    /// A queue pair that nobody knows yet.
    pub(crate) fn queue_pair(&self, sleep: &MaySleep) -> Result<Qp<'d, Rc, Reset>> {
        let config = Config {
            send_cq: &self.cq,
            recv_cq: &self.cq,
            max_sends: self.sends,
            max_receives: self.receives,
            max_pieces: 1,
            srq: None,
            events: None,
        };
        Qp::new(&self.pd, config, sleep)
    }
}

/// The client's end. When it is dropped, its queue pairs go first.
pub(crate) struct Client<'d> {
    qps: KVec<Joined<'d>>,
    /// One for each queue pair.
    pub(crate) lanes: KVec<Arc<Lane<'d>>>,
    pub(crate) place: Place<'d>,
    run: Arc<Run>,
}

/// The server's end.
pub(crate) struct Server<'d> {
    qps: KVec<Joined<'d>>,
    seats: KVec<Arc<Seat<'d>>>,
    regions: KVec<Region<'d>>,
    pub(crate) place: Place<'d>,
    run: Arc<Run>,
}

impl<'d> Client<'d> {
    /// The client's end, without queue pairs.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and what the driver answers.
    pub(crate) fn new(run: &Arc<Run>, device: &Device<'d>, sleep: &MaySleep) -> Result<Self> {
        let sends = run.options.depth.max(ANSWERS).saturating_add(ENDS);
        let requests = (sends, ANSWERS);
        Ok(Self {
            qps: KVec::new(),
            lanes: KVec::new(),
            place: Place::new(run, device, requests, sleep)?,
            run: run.clone(),
        })
    }

    /// Adds a queue pair, which reaches the server's memory at `remote`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and what posting fails with.
    pub(crate) fn add(&mut self, qp: Joined<'d>, remote: Remote, sleep: &MaySleep) -> Result {
        let device = &self.place.device;
        let lane = Lane::new(
            &self.run,
            self.lanes.len(),
            device,
            qp.handle(),
            remote,
            sleep,
        )?;
        self.qps.push(qp, GFP_KERNEL)?;
        let pushed = self.lanes.push(lane.clone(), GFP_KERNEL);
        if pushed.is_err() {
            lane.close();
        }
        pushed?;
        if self.run.is_ping_pong() {
            lane.listen(device, sleep)?;
        }
        Ok(())
    }

    /// Takes completions, if that is for the client to do.
    pub(crate) fn poll(&self, budget: u32) -> u32 {
        self.place.cq.poll(budget).unwrap_or(0)
    }

    /// Tells a server in another kernel that no more comes.
    ///
    /// # Errors
    ///
    /// As for [`Lane::tell_end`].
    pub(crate) fn tell_end(&self, sleep: &MaySleep) -> Result {
        let mut lanes = self.lanes.iter();
        lanes.try_for_each(|lane| lane.tell_end(&self.place.cq, sleep))
    }
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        self.run.stop();
        self.qps.clear();
        self.lanes.iter().for_each(|lane| lane.close());
    }
}

impl<'d> Server<'d> {
    /// The server's end, without queue pairs.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and what the driver answers.
    pub(crate) fn new(run: &Arc<Run>, device: &Device<'d>, sleep: &MaySleep) -> Result<Self> {
        let requests = (ANSWERS + REGISTRATIONS, receives(&run.options));
        Ok(Self {
            qps: KVec::new(),
            seats: KVec::new(),
            regions: KVec::new(),
            place: Place::new(run, device, requests, sleep)?,
            run: run.clone(),
        })
    }

    /// Gets ready for a client by a queue pair that can send, and is to be [kept](Self::keep). Returns where the memory is that
    /// the client reaches by it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, what posting fails with; `EIO` if the memory cannot be registered.
    pub(crate) fn prepare(
        &mut self,
        qp: QpHandle<'d, Rc, Rts>,
        sleep: &MaySleep,
    ) -> Result<Remote> {
        let index = self.seats.len();
        let mut remote = Remote::default();
        if self.run.options.op.is_remote() {
            let Place { pd, cq, .. } = &self.place;
            let region = Region::new(&self.run, index, pd, &qp, cq, sleep)?;
            remote = region.remote()?;
            self.regions.push(region, GFP_KERNEL)?;
        }
        let seat = Seat::new(&self.run, index, qp)?;
        self.seats.push(seat.clone(), GFP_KERNEL)?;
        seat.open(&self.place.device, sleep)?;
        Ok(remote)
    }

    /// Keeps a queue pair that it is prepared for.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn keep(&mut self, qp: Joined<'d>) -> Result {
        Ok(self.qps.push(qp, GFP_KERNEL)?)
    }

    /// Whether a client in another kernel has said by all queue pairs that no more comes.
    pub(crate) fn has_end(&self) -> bool {
        self.seats.iter().all(|seat| seat.has_end())
    }

    /// Whether a connection has ended.
    pub(crate) fn is_left(&self, sleep: &MaySleep) -> bool {
        self.qps.iter().any(|qp| is_left(qp, sleep))
    }

    /// How many messages came.
    pub(crate) fn taken(&self) -> u64 {
        let taken = self.seats.iter().map(|seat| seat.taken());
        taken.fold(0, u64::saturating_add)
    }

    /// Takes completions, if that is for the server to do.
    pub(crate) fn poll(&self, budget: u32) -> u32 {
        self.place.cq.poll(budget).unwrap_or(0)
    }

    /// Looks at the memory that the client has reached: a client in this kernel, or one that has said what it did.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn check(&self, client: Option<&Client<'_>>) -> Result {
        for (index, (region, seat)) in self.regions.iter().zip(&self.seats).enumerate() {
            let number = match client.and_then(|client| client.lanes.get(index)) {
                Some(lane) => lane.was_used().then(|| lane.final_number()),
                None => seat.final_number(),
            };
            if let Some(number) = number {
                region.check(&self.run, index, number)?;
            }
        }
        Ok(())
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        self.run.stop();
        self.qps.clear();
        self.seats.iter().for_each(|seat| seat.close());
    }
}
