// SPDX-License-Identifier: GPL-2.0

//! The two ends of a run, client and server. [`connect`](crate::connect) connects their queue pairs.

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
    client::{ClientQp, RESPONSES},
    connect::connected::{is_disconnected, ConnectedQp},
    options::Poll,
    run::Run,
    server::{receives, Region, ServerQp},
};

/// The port of the devices.
pub(crate) const PORT: u32 = 1;
/// The maximum number of outstanding READs and atomics of a queue pair; the device may limit it further.
pub(crate) const READS: u8 = 16;
/// Send requests of a server's queue pair besides the responses: the registration of its memory region.
const REGISTRATIONS: u32 = 1;
/// Send requests of a client's queue pair besides the operations: the message that ends the run.
const ENDS: u32 = 1;
/// Completion queue entries for draining a queue pair.
const DRAINS: u32 = 2;

/// The verbs objects that each end has: the device, a PD and a CQ.
pub(crate) struct EndResources<'d> {
    pub(crate) device: Device<'d>,
    pd: Pd<'d>,
    cq: Arc<Cq<'d>>,
    /// The send and receive queue sizes of a queue pair.
    sends: u32,
    receives: u32,
}

impl<'d> EndResources<'d> {
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
        let per_qp = sends.saturating_add(receives).saturating_add(DRAINS);
        let entries = per_qp.saturating_mul(run.options.qps);
        Ok(Self {
            device: device.clone(),
            pd: Pd::new(device, sleep)?,
            cq: Cq::new(device, entries, 0, context, sleep)?,
            sends,
            receives,
        })
    }

    /// Creates a queue pair.
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

/// The client's end. Its queue pairs are dropped first.
pub(crate) struct Client<'d> {
    qps: KVec<ConnectedQp<'d>>,
    /// One for each queue pair.
    pub(crate) client_qps: KVec<Arc<ClientQp<'d>>>,
    pub(crate) resources: EndResources<'d>,
    run: Arc<Run>,
}

/// The server's end.
pub(crate) struct Server<'d> {
    qps: KVec<ConnectedQp<'d>>,
    server_qps: KVec<Arc<ServerQp<'d>>>,
    regions: KVec<Region<'d>>,
    pub(crate) resources: EndResources<'d>,
    run: Arc<Run>,
}

impl<'d> Client<'d> {
    /// The client's end, without queue pairs.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and what the driver answers.
    pub(crate) fn new(run: &Arc<Run>, device: &Device<'d>, sleep: &MaySleep) -> Result<Self> {
        let sends = run.options.depth.max(RESPONSES).saturating_add(ENDS);
        let requests = (sends, RESPONSES);
        Ok(Self {
            qps: KVec::new(),
            client_qps: KVec::new(),
            resources: EndResources::new(run, device, requests, sleep)?,
            run: run.clone(),
        })
    }

    /// Adds a queue pair, which accesses the server's memory at `remote`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and what posting fails with.
    pub(crate) fn add(&mut self, qp: ConnectedQp<'d>, remote: Remote, sleep: &MaySleep) -> Result {
        let device = &self.resources.device;
        let client_qp = ClientQp::new(
            &self.run,
            self.client_qps.len(),
            device,
            qp.handle(),
            remote,
            sleep,
        )?;
        self.qps.push(qp, GFP_KERNEL)?;
        let pushed = self.client_qps.push(client_qp.clone(), GFP_KERNEL);
        if pushed.is_err() {
            client_qp.close();
        }
        pushed?;
        if self.run.is_ping_pong() {
            client_qp.listen(device, sleep)?;
        }
        Ok(())
    }

    /// Polls the completion queue if `poll=direct`.
    pub(crate) fn poll(&self, budget: u32) -> u32 {
        self.resources.cq.poll(budget).unwrap_or(0)
    }

    /// Tells a server in another kernel that the run has ended.
    ///
    /// # Errors
    ///
    /// As for [`ClientQp::send_end`].
    pub(crate) fn send_end(&self, sleep: &MaySleep) -> Result {
        let mut client_qps = self.client_qps.iter();
        client_qps.try_for_each(|client_qp| client_qp.send_end(&self.resources.cq, sleep))
    }
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        self.run.stop();
        self.qps.clear();
        self.client_qps
            .iter()
            .for_each(|client_qp| client_qp.close());
    }
}

impl<'d> Server<'d> {
    /// The server's end, without queue pairs.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and what the driver answers.
    pub(crate) fn new(run: &Arc<Run>, device: &Device<'d>, sleep: &MaySleep) -> Result<Self> {
        let requests = (RESPONSES + REGISTRATIONS, receives(&run.options));
        Ok(Self {
            qps: KVec::new(),
            server_qps: KVec::new(),
            regions: KVec::new(),
            resources: EndResources::new(run, device, requests, sleep)?,
            run: run.clone(),
        })
    }

    /// Registers the memory of a queue pair in RTS and posts its receives; the caller then [keeps](Self::keep) the queue pair.
    /// Returns the address and the rkey of the memory.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, what posting fails with; `EIO` if the memory cannot be registered.
    pub(crate) fn prepare(
        &mut self,
        qp: QpHandle<'d, Rc, Rts>,
        sleep: &MaySleep,
    ) -> Result<Remote> {
        let index = self.server_qps.len();
        let mut remote = Remote::default();
        if self.run.options.op.is_remote() {
            let EndResources { pd, cq, .. } = &self.resources;
            let region = Region::new(&self.run, index, pd, &qp, cq, sleep)?;
            remote = region.remote()?;
            self.regions.push(region, GFP_KERNEL)?;
        }
        let server_qp = ServerQp::new(&self.run, index, qp)?;
        self.server_qps.push(server_qp.clone(), GFP_KERNEL)?;
        server_qp.open(&self.resources.device, sleep)?;
        Ok(remote)
    }

    /// Keeps a queue pair that was [prepared](Self::prepare).
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn keep(&mut self, qp: ConnectedQp<'d>) -> Result {
        Ok(self.qps.push(qp, GFP_KERNEL)?)
    }

    /// Whether a client in another kernel has ended the run on all queue pairs.
    pub(crate) fn has_ended(&self) -> bool {
        self.server_qps
            .iter()
            .all(|server_qp| server_qp.has_ended())
    }

    /// Whether the peer has closed a connection.
    pub(crate) fn is_disconnected(&self, sleep: &MaySleep) -> bool {
        self.qps.iter().any(|qp| is_disconnected(qp, sleep))
    }

    /// The number of messages received.
    pub(crate) fn received(&self) -> u64 {
        let received = self.server_qps.iter().map(|server_qp| server_qp.received());
        received.fold(0, u64::saturating_add)
    }

    /// Polls the completion queue if `poll=direct`.
    pub(crate) fn poll(&self, budget: u32) -> u32 {
        self.resources.cq.poll(budget).unwrap_or(0)
    }

    /// Compares the memory that the client has accessed with what is expected. `client` is the client in this kernel; a client
    /// in another kernel has sent the expected number in its last message.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn check(&self, client: Option<&Client<'_>>) -> Result {
        for (index, (region, server_qp)) in self.regions.iter().zip(&self.server_qps).enumerate() {
            let number = match client.and_then(|client| client.client_qps.get(index)) {
                Some(qp) => qp.was_used().then(|| qp.final_number()),
                None => server_qp.final_number(),
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
        self.server_qps
            .iter()
            .for_each(|server_qp| server_qp.close());
    }
}
