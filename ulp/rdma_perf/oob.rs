// SPDX-License-Identifier: GPL-2.0

//! Connecting queue pairs by an out-of-band exchange: through debugfs files, or directly where both ends are in this kernel.
//!
//! The folder of a single end has two more files: `local` has the information for the other end, and the other end's is
//! written to `remote`. The client's information comes first, then the server's, which registers its memory in between. See
//! [`peer`](crate::peer) for the format.
//!
//! | lock | protects | context | taken inside |
//! |---|---|---|---|
//! | `Exchange::state` | the information of both ends | process | nothing |

use core::net::Ipv6Addr;

use kernel::{
    new_mutex,
    prelude::*,
    seq_file::SeqFile,
    seq_print,
    sync::{Arc, Mutex},
};
use kernel_ext::{
    debugfs::{self, Control, Dir, Files},
    random,
    sync::Completion,
};
use rdma::{
    abi::{ah::GlobalRoute, wr::Remote},
    client::{
        qp::{ConnectedInit, Init, Peer as PeerOfQp, Qp, Rc, Sending},
        Device,
    },
    Access, AhFields, Gid, MaySleep, Mtu,
};

use crate::{
    ends::{Client, EndResources, Server, PORT, READS},
    options::{self, Options, ValueEnum},
    peer::{self, Peer, PeerQp},
    run::{Cancel, Run},
};

pub(crate) mod connected;

use connected::ConnectedQp;

const HOP_LIMIT: u8 = 64;

/// The keys of a run with both ends here.
pub(crate) const BOTH_KEYS: &[&str] = options::BOTH_KEYS;
/// The keys of a run with the client's end here.
pub(crate) const CLIENT_KEYS: &[&str] = &[
    "client",
    "client_gid",
    "op",
    "pattern",
    "size",
    "depth",
    "qps",
    "iterations",
    "seconds",
    "post",
    "poll",
    "mtu",
    "verify",
];
/// The keys of a run with the server's end here.
pub(crate) const SERVER_KEYS: &[&str] = &["server", "server_gid", "post", "poll"];
/// The keys of the options that the server takes from the client.
pub(crate) const SHARED_KEYS: &[&str] = options::SHARED_KEYS;

/// The GID and the MAC address of an end's port.
#[derive(Clone, Copy)]
struct PortAddress {
    gid: [u8; 16],
    mac: [u8; 6],
}

impl PortAddress {
    fn new(device: &Device<'_>, gid: u16) -> Result<Self> {
        let gid = device.gid(PORT, gid)?;
        let (mac, Gid(gid)) = (gid.mac()?, gid.gid());
        Ok(Self { gid, mac })
    }
}

/// A queue pair in INIT, with its initial PSN.
struct UnconnectedQp<'d> {
    qp: Qp<'d, Rc, Init>,
    psn: u32,
}

impl<'d> UnconnectedQp<'d> {
    fn new(resources: &EndResources<'d>, sleep: &MaySleep) -> Result<Self> {
        let init = ConnectedInit {
            port: PORT,
            pkey_index: 0,
            access: Access::LOCAL_WRITE
                | Access::REMOTE_WRITE
                | Access::REMOTE_READ
                | Access::REMOTE_ATOMIC,
        };
        let mut psn = [0; 4];
        random::fill(&mut psn);
        Ok(Self {
            qp: resources.queue_pair(sleep)?.into_init(&init, sleep)?,
            psn: u32::from_ne_bytes(psn) >> 8,
        })
    }

    fn new_many(resources: &EndResources<'d>, count: u32, sleep: &MaySleep) -> Result<KVec<Self>> {
        let mut all = KVec::new();
        for _ in 0..count {
            all.push(Self::new(resources, sleep)?, GFP_KERNEL)?;
        }
        Ok(all)
    }

    /// The information for the other end.
    fn info(&self) -> PeerQp {
        PeerQp {
            qp_num: self.qp.number(),
            psn: self.psn,
            ..PeerQp::default()
        }
    }

    /// Connects the queue pair, with the source GID at index `gid`, to the peer's queue pair at `there`.
    fn connect(
        self,
        gid: u16,
        there: &PortAddress,
        peer: &PeerQp,
        options: &Options,
        sleep: &MaySleep,
    ) -> Result<ConnectedQp<'d>> {
        let path = AhFields {
            grh: Some(GlobalRoute {
                dgid: Gid(there.gid),
                sgid_index: u8::try_from(gid).map_err(|_| EINVAL)?,
                hop_limit: HOP_LIMIT,
                ..GlobalRoute::default()
            }),
            port_num: PORT,
            dmac: there.mac,
            ..AhFields::default()
        };
        let receiving = PeerOfQp {
            path,
            mtu: Mtu::fitting(options.mtu),
            qp_num: peer.qp_num,
            psn: peer.psn,
            reads: READS,
            rnr_timer: 1,
        };
        let sending = Sending {
            psn: self.psn,
            reads: READS,
            timeout: 14,
            retries: 7,
            rnr_retries: 7,
        };
        let qp = self.qp.into_rtr(&receiving, sleep)?;
        Ok(ConnectedQp::new(qp.into_rts(&sending, sleep)?))
    }
}

/// Creates both ends, with their queue pairs connected.
///
/// # Errors
///
/// `ENODATA` for an empty GID table entry, `ENOMEM`, and the errors of the drivers.
pub(crate) fn both<'a, 'b>(
    run: &Arc<Run>,
    on: &Device<'a>,
    to: &Device<'b>,
    sleep: &MaySleep,
) -> Result<(Client<'a>, Server<'b>)> {
    let options = &run.options;
    let mut client = Client::new(run, on, sleep)?;
    let mut server = Server::new(run, to, sleep)?;
    let (from_gid, to_gid) = (options.client_gid, options.server_gid);
    let here = PortAddress::new(on, from_gid)?;
    let there = PortAddress::new(to, to_gid)?;
    for _ in 0..options.qps {
        let from = UnconnectedQp::new(&client.resources, sleep)?;
        let to = UnconnectedQp::new(&server.resources, sleep)?;
        let (from_info, to_info) = (from.info(), to.info());
        let to = to.connect(to_gid, &here, &from_info, options, sleep)?;
        let from = from.connect(from_gid, &there, &to_info, options, sleep)?;
        let remote = server.prepare(to.handle(), sleep)?;
        server.keep(to)?;
        client.add(from, remote, sleep)?;
    }
    Ok((client, server))
}

/// Creates the client's end, connected to the server whose information is written to `remote`.
///
/// # Errors
///
/// As for [`both`]; `EINTR` for a signal, `ENODEV` if the device is removed.
pub(crate) fn client<'d>(
    run: &Arc<Run>,
    device: &Device<'d>,
    exchange: &Exchange,
    cancel: Cancel<'_>,
    sleep: &MaySleep,
) -> Result<Client<'d>> {
    let options = &run.options;
    let mut client = Client::new(run, device, sleep)?;
    let unconnected = UnconnectedQp::new_many(&client.resources, options.qps, sleep)?;
    let here = PortAddress::new(device, options.client_gid)?;
    let mut qps = KVec::new();
    for qp in &unconnected {
        qps.push(qp.info(), GFP_KERNEL)?;
    }
    exchange.expect(Expected::Server { qps: options.qps });
    exchange.publish(LocalInfo {
        options: Some(*options),
        here,
        qps,
    });
    let server = exchange.wait(cancel, sleep)?;
    for (from, to) in unconnected.into_iter().zip(&server.qps) {
        let qp = from.connect(options.client_gid, &server.address(), to, options, sleep)?;
        let remote = Remote {
            addr: to.address,
            rkey: to.rkey,
        };
        client.add(qp, remote, sleep)?;
    }
    Ok(client)
}

/// Creates the server's end, connected to the client whose information is written to `remote`, and the run with the client's
/// options.
///
/// # Errors
///
/// As for [`client`].
pub(crate) fn server<'d>(
    own: &Options,
    device: &Device<'d>,
    exchange: &Exchange,
    cancel: Cancel<'_>,
    sleep: &MaySleep,
) -> Result<(Arc<Run>, Server<'d>)> {
    let here = PortAddress::new(device, own.server_gid)?;
    exchange.expect(Expected::Client);
    let client = exchange.wait(cancel, sleep)?;
    let options = own.with_shared_of(&client.peer.options.ok_or(EINVAL)?);
    let run = Run::new(options)?;
    let mut server = Server::new(&run, device, sleep)?;
    let mut qps = KVec::new();
    for from in &client.qps {
        let to = UnconnectedQp::new(&server.resources, sleep)?;
        let info = to.info();
        let to = to.connect(own.server_gid, &client.address(), from, &options, sleep)?;
        let Remote { addr, rkey } = server.prepare(to.handle(), sleep)?;
        server.keep(to)?;
        let address = addr;
        qps.push(
            PeerQp {
                address,
                rkey,
                ..info
            },
            GFP_KERNEL,
        )?;
    }
    let options = None;
    exchange.publish(LocalInfo { options, here, qps });
    Ok((run, server))
}

/// The end whose information is expected in `remote`.
#[derive(Clone, Copy)]
enum Expected {
    Nothing,
    Client,
    Server { qps: u32 },
}

/// The information in `local`. A client's has its options.
struct LocalInfo {
    options: Option<Options>,
    here: PortAddress,
    qps: KVec<PeerQp>,
}

/// The information that was written to `remote`.
struct RemoteInfo {
    peer: Peer,
    qps: KVec<PeerQp>,
}

impl RemoteInfo {
    fn address(&self) -> PortAddress {
        let Peer { gid, mac, .. } = self.peer;
        PortAddress { gid, mac }
    }
}

struct State {
    expected: Expected,
    local: Option<LocalInfo>,
    remote: Option<RemoteInfo>,
}

/// The exchange of an end with the user, who carries the information between the two ends.
pub(crate) struct Exchange {
    state: Pin<KBox<Mutex<State>>>,
    written: Pin<KBox<Completion>>,
}

impl Exchange {
    /// An exchange that expects nothing.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        let state = State {
            expected: Expected::Nothing,
            local: None,
            remote: None,
        };
        Ok(Self {
            state: KBox::pin_init(new_mutex!(state, "Exchange::state"), GFP_KERNEL)?,
            written: KBox::pin_init(Completion::new(), GFP_KERNEL)?,
        })
    }

    /// Accepts the other end's information in `remote` from now on.
    fn expect(&self, expected: Expected) {
        self.state.lock().expected = expected;
    }

    /// Ends the exchange: `local` is empty, and `remote` is rejected.
    pub(crate) fn clear(&self) {
        let mut state = self.state.lock();
        state.expected = Expected::Nothing;
        state.local = None;
        state.remote = None;
    }

    /// Makes the information readable in `local`.
    fn publish(&self, local: LocalInfo) {
        self.state.lock().local = Some(local);
    }

    /// Waits until the other end's information is written to `remote`.
    fn wait(&self, cancel: Cancel<'_>, sleep: &MaySleep) -> Result<RemoteInfo> {
        const TRY_MS: u32 = 50;
        loop {
            // The state is read below, whether or not the wait timed out.
            let _ = self.written.wait_timeout(TRY_MS, sleep);
            let remote = self.state.lock().remote.take();
            match remote {
                Some(remote) => return Ok(remote),
                None => cancel.check()?,
            }
        }
    }

    /// Handles a write to `remote`.
    ///
    /// # Errors
    ///
    /// `EINVAL` for invalid text, and for information of the wrong end; `EAGAIN` if none is expected; `ENOMEM`.
    fn write(&self, text: &[u8]) -> Result {
        let mut qps = KVec::with_capacity(options::MAX_QPS as usize, GFP_KERNEL)?;
        let on_qp = |qp| qps.push_within_capacity(qp).ok();
        let peer = peer::parse(text, on_qp).ok_or(EINVAL)?;
        let mut state = self.state.lock();
        let is_expected = match state.expected {
            Expected::Nothing => return Err(EAGAIN),
            Expected::Client => peer.options.is_some(),
            Expected::Server { qps } => peer.options.is_none() && peer.qps == qps,
        };
        if !is_expected {
            return Err(EINVAL);
        }
        state.expected = Expected::Nothing;
        state.remote = Some(RemoteInfo { peer, qps });
        drop(state);
        self.written.complete();
        Ok(())
    }

    fn print(&self, to: &SeqFile) {
        let state = self.state.lock();
        let Some(local) = &state.local else {
            return;
        };
        if let Some(options) = &local.options {
            seq_print!(
                to,
                "op={} pattern={} ",
                options.op.name(),
                options.pattern.name()
            );
            seq_print!(
                to,
                "size={} depth={} qps={} mtu={} verify={}\n",
                options.size,
                options.depth,
                options.qps,
                options.mtu,
                u8::from(options.verify)
            );
        }
        let [a, b, c, d, e, f] = local.here.mac;
        seq_print!(
            to,
            "gid={:?} mac={a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}\n",
            Ipv6Addr::from(local.here.gid)
        );
        for qp in &local.qps {
            seq_print!(to, "qpn={} psn={}", qp.qp_num, qp.psn);
            if local.options.is_none() {
                seq_print!(to, " address={:#x} rkey={:#x}", qp.address, qp.rkey);
            }
            seq_print!(to, "\n");
        }
    }
}

/// The files `remote` and `local`.
pub(crate) struct ExchangeFiles(Arc<Exchange>);

static EXCHANGE_FILES: debugfs::Table<ExchangeFiles> = debugfs::Table::new(&crate::THIS_MODULE);

impl Control for ExchangeFiles {
    const WRITTEN: &'static CStr = c"remote";
    const READ: &'static CStr = c"local";
    const MAX_TEXT: usize = peer::MAX_TEXT;

    fn table() -> &'static debugfs::Table<Self> {
        &EXCHANGE_FILES
    }

    fn write(&self, text: &[u8], _sleep: &MaySleep) -> Result {
        self.0.write(text)
    }

    fn print(&self, to: &SeqFile, _sleep: &MaySleep) {
        self.0.print(to);
    }
}

/// The files `remote` and `local` of a folder, which exist until this is dropped.
pub(crate) type ExtraFiles = Files<ExchangeFiles>;

/// Creates the files `remote` and `local` in the folder of a single end.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn extra_files(
    folder: &Arc<Dir>,
    exchange: &Arc<Exchange>,
    sleep: &MaySleep,
) -> Result<ExtraFiles> {
    Files::new(folder, ExchangeFiles(exchange.clone()), sleep)
}
