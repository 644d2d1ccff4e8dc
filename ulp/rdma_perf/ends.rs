// SPDX-License-Identifier: GPL-2.0

//! The two ends of a run, and how their queue pairs are connected: by hand, as both are in this kernel.

use kernel::{prelude::*, sync::Arc};
use rdma::{
    ah::GlobalRoute,
    verbs::{
        cq::PollContext,
        qp::{Config, ConnectedInit, Init, Peer, Rc, Rts, Sending},
        Cq, Device, Pd, Qp,
    },
    wr::Remote,
    Access, AhFields, MaySleep, Mtu,
};

use crate::{
    client::{Lane, ANSWERS},
    options::{Options, Poll},
    run::Run,
    server::{receives, Region, Seat},
};

const PORT: u32 = 1;
const HOP_LIMIT: u8 = 64;
/// READs and atomics of a queue pair that may be under way, as far as the device can.
const READS: u8 = 16;
/// A queue pair is asked one more thing at the beginning.
const REGISTRATIONS: u32 = 1;
/// Room in a completion queue for what a queue pair is drained with.
const DRAINS: u32 = 2;

/// What both ends have: the device, the index of the GID there, and where completions go.
struct Place<'d> {
    device: Device<'d>,
    gid: u16,
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
        gid: u16,
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
            gid,
            pd: Pd::new(device, sleep)?,
            cq: Cq::new(device, entries, 0, context, sleep)?,
            sends,
            receives,
        })
    }

    fn queue_pair(&self, sleep: &MaySleep) -> Result<Qp<'d, Rc, Init>> {
        let config = Config {
            send_cq: &self.cq,
            recv_cq: &self.cq,
            max_sends: self.sends,
            max_receives: self.receives,
            max_pieces: 1,
            srq: None,
            events: None,
        };
        let init = ConnectedInit {
            port: PORT,
            pkey_index: 0,
            access: Access::LOCAL_WRITE
                | Access::REMOTE_WRITE
                | Access::REMOTE_READ
                | Access::REMOTE_ATOMIC,
        };
        Ok(Qp::<Rc, _>::new(&self.pd, config, sleep)?.into_init(&init, sleep)?)
    }

    /// The path to the other end.
    fn path(&self, to: &Place<'_>) -> Result<AhFields> {
        let gid = to.device.gid(PORT, to.gid)?;
        Ok(AhFields {
            grh: Some(GlobalRoute {
                dgid: gid.gid(),
                sgid_index: u8::try_from(self.gid).map_err(|_| EINVAL)?,
                hop_limit: HOP_LIMIT,
                ..GlobalRoute::default()
            }),
            port_num: PORT,
            dmac: gid.mac()?,
            ..AhFields::default()
        })
    }

    /// Connects a queue pair to that of the other end with this number.
    fn connect(
        &self,
        qp: Qp<'d, Rc, Init>,
        to: &Place<'_>,
        qp_num: u32,
        options: &Options,
        sleep: &MaySleep,
    ) -> Result<Qp<'d, Rc, Rts>> {
        let peer = Peer {
            path: self.path(to)?,
            mtu: Mtu::fitting(options.mtu),
            qp_num,
            psn: 1,
            reads: READS,
            rnr_timer: 1,
        };
        let sending = Sending {
            psn: 1,
            reads: READS,
            timeout: 14,
            retries: 7,
            rnr_retries: 7,
        };
        Ok(qp.into_rtr(&peer, sleep)?.into_rts(&sending, sleep)?)
    }
}

/// The client's end. When it is dropped, its queue pairs go first.
pub(crate) struct Client<'d> {
    qps: KVec<Qp<'d, Rc, Rts>>,
    /// One for each queue pair.
    pub(crate) lanes: KVec<Arc<Lane<'d>>>,
    place: Place<'d>,
    run: Arc<Run>,
}

/// The server's end.
pub(crate) struct Server<'d> {
    qps: KVec<Qp<'d, Rc, Rts>>,
    seats: KVec<Arc<Seat<'d>>>,
    regions: KVec<Region<'d>>,
    place: Place<'d>,
    run: Arc<Run>,
}

impl<'d> Client<'d> {
    fn new(run: &Arc<Run>, device: &Device<'d>, sleep: &MaySleep) -> Result<Self> {
        let requests = (run.options.depth.max(ANSWERS), ANSWERS);
        Ok(Self {
            qps: KVec::new(),
            lanes: KVec::new(),
            place: Place::new(run, device, run.options.client_gid, requests, sleep)?,
            run: run.clone(),
        })
    }

    fn add(&mut self, qp: Qp<'d, Rc, Rts>, remote: Remote, sleep: &MaySleep) -> Result {
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
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        self.run.stop();
        self.qps.clear();
        self.lanes.iter().for_each(|lane| lane.close());
    }
}

impl<'d> Server<'d> {
    fn new(run: &Arc<Run>, device: &Device<'d>, sleep: &MaySleep) -> Result<Self> {
        let requests = (ANSWERS + REGISTRATIONS, receives(&run.options));
        Ok(Self {
            qps: KVec::new(),
            seats: KVec::new(),
            regions: KVec::new(),
            place: Place::new(run, device, run.options.server_gid, requests, sleep)?,
            run: run.clone(),
        })
    }

    /// Adds a queue pair. Returns where the memory is that the client reaches by it.
    fn add(&mut self, qp: Qp<'d, Rc, Rts>, sleep: &MaySleep) -> Result<Remote> {
        let index = self.seats.len();
        let handle = qp.handle();
        self.qps.push(qp, GFP_KERNEL)?;
        if self.run.options.op.is_remote() {
            let Place { pd, cq, .. } = &self.place;
            let region = Region::new(&self.run, index, pd, &handle, cq, sleep)?;
            let remote = region.remote()?;
            self.regions.push(region, GFP_KERNEL)?;
            let seat = Seat::new(&self.run, index, handle)?;
            self.seats.push(seat, GFP_KERNEL)?;
            return Ok(remote);
        }
        let seat = Seat::new(&self.run, index, handle)?;
        self.seats.push(seat.clone(), GFP_KERNEL)?;
        seat.open(&self.place.device, sleep)?;
        Ok(Remote::default())
    }

    /// Takes completions, if that is for the server to do.
    pub(crate) fn poll(&self, budget: u32) -> u32 {
        self.place.cq.poll(budget).unwrap_or(0)
    }

    /// Looks at the memory that the client has reached.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn check(&self, client: &Client<'_>) -> Result {
        let lanes = client.lanes.iter().zip(&self.regions).enumerate();
        for (index, (lane, region)) in lanes.filter(|(_, (lane, _))| lane.was_used()) {
            region.check(&self.run, index, lane.final_number())?;
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

/// Makes both ends, with their queue pairs connected.
///
/// # Errors
///
/// `ENODATA` for a GID that there is not, `ENOMEM`, and what the drivers answer.
pub(crate) fn connect<'a, 'b>(
    run: &Arc<Run>,
    on: &Device<'a>,
    to: &Device<'b>,
    sleep: &MaySleep,
) -> Result<(Client<'a>, Server<'b>)> {
    let mut client = Client::new(run, on, sleep)?;
    let mut server = Server::new(run, to, sleep)?;
    for _ in 0..run.options.qps {
        let (from, to) = (
            client.place.queue_pair(sleep)?,
            server.place.queue_pair(sleep)?,
        );
        let (from_num, to_num) = (from.number(), to.number());
        let options = &run.options;
        let to = server
            .place
            .connect(to, &client.place, from_num, options, sleep)?;
        let from = client
            .place
            .connect(from, &server.place, to_num, options, sleep)?;
        let remote = server.add(to, sleep)?;
        client.add(from, remote, sleep)?;
    }
    Ok((client, server))
}
