// SPDX-License-Identifier: GPL-2.0

//! Queue pairs that are wired by hand: each end says what the other must know.
//!
//! Where both ends are in this kernel nobody else has a part in that. Where one is, its folder has two files more: `local` says
//! what the other end must know, `remote` takes what that says. The client speaks first, then the server, which has made room
//! in its memory meanwhile: see [`peer`](crate::peer) for the words.
//!
//! | lock | protects | context | taken inside |
//! |---|---|---|---|
//! | `Desk::state` | what an end says, and has heard | process | nothing |

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
    ends::{Client, Place, Server, PORT, READS},
    options::{self, Options, Word, TERMS},
    peer::{self, Peer, PeerQp},
    run::{Patience, Run},
};

pub(crate) mod joined;

use joined::Joined;

const HOP_LIMIT: u8 = 64;

/// The keys of a run with both ends here.
pub(crate) const BOTH: &[&str] = options::BOTH;
/// The keys of a run with the client's end here.
pub(crate) const CLIENT: &[&str] = &[
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
pub(crate) const SERVER: &[&str] = &["server", "server_gid", "post", "poll"];
/// What the server learns from the client.
pub(crate) const LEARNT: &[&str] = TERMS;

/// Where an end is.
#[derive(Clone, Copy)]
struct Whereabouts {
    gid: [u8; 16],
    mac: [u8; 6],
}

impl Whereabouts {
    fn new(device: &Device<'_>, gid: u16) -> Result<Self> {
        let gid = device.gid(PORT, gid)?;
        let (mac, Gid(gid)) = (gid.mac()?, gid.gid());
        Ok(Self { gid, mac })
    }
}

/// A queue pair that the other end does not know yet.
struct Loose<'d> {
    qp: Qp<'d, Rc, Init>,
    psn: u32,
}

impl<'d> Loose<'d> {
    fn new(place: &Place<'d>, sleep: &MaySleep) -> Result<Self> {
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
            qp: place.queue_pair(sleep)?.into_init(&init, sleep)?,
            psn: u32::from_ne_bytes(psn) >> 8,
        })
    }

    fn several(place: &Place<'d>, count: u32, sleep: &MaySleep) -> Result<KVec<Self>> {
        let mut all = KVec::new();
        for _ in 0..count {
            all.push(Self::new(place, sleep)?, GFP_KERNEL)?;
        }
        Ok(all)
    }

    /// What the other end must know of it.
    fn told(&self) -> PeerQp {
        PeerQp {
            qp_num: self.qp.number(),
            psn: self.psn,
            ..PeerQp::default()
        }
    }

    /// Connects it, from the entry `gid` of the GID table, to a queue pair that is there.
    fn join(
        self,
        gid: u16,
        there: &Whereabouts,
        peer: &PeerQp,
        options: &Options,
        sleep: &MaySleep,
    ) -> Result<Joined<'d>> {
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
        Ok(Joined::new(qp.into_rts(&sending, sleep)?))
    }
}

/// Makes both ends, with their queue pairs connected.
///
/// # Errors
///
/// `ENODATA` for a GID that there is not, `ENOMEM`, and what the drivers answer.
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
    let here = Whereabouts::new(on, from_gid)?;
    let there = Whereabouts::new(to, to_gid)?;
    for _ in 0..options.qps {
        let from = Loose::new(&client.place, sleep)?;
        let to = Loose::new(&server.place, sleep)?;
        let (from_told, to_told) = (from.told(), to.told());
        let to = to.join(to_gid, &here, &from_told, options, sleep)?;
        let from = from.join(from_gid, &there, &to_told, options, sleep)?;
        let remote = server.prepare(to.handle(), sleep)?;
        server.keep(to)?;
        client.add(from, remote, sleep)?;
    }
    Ok((client, server))
}

/// Makes the client's end, connected to a server that speaks at the desk.
///
/// # Errors
///
/// As for [`both`]; `EINTR` for a signal, `ENODEV` for a device that goes.
pub(crate) fn client<'d>(
    run: &Arc<Run>,
    device: &Device<'d>,
    desk: &Desk,
    patience: Patience<'_>,
    sleep: &MaySleep,
) -> Result<Client<'d>> {
    let options = &run.options;
    let mut client = Client::new(run, device, sleep)?;
    let loose = Loose::several(&client.place, options.qps, sleep)?;
    let here = Whereabouts::new(device, options.client_gid)?;
    let mut qps = KVec::new();
    for qp in &loose {
        qps.push(qp.told(), GFP_KERNEL)?;
    }
    desk.sit(Wanted::Server { qps: options.qps });
    desk.say(Said {
        terms: Some(*options),
        here,
        qps,
    });
    let heard = desk.hear(patience, sleep)?;
    for (from, to) in loose.into_iter().zip(&heard.qps) {
        let qp = from.join(options.client_gid, &heard.there(), to, options, sleep)?;
        let remote = Remote {
            addr: to.address,
            rkey: to.rkey,
        };
        client.add(qp, remote, sleep)?;
    }
    Ok(client)
}

/// Makes the server's end, connected to a client that speaks at the desk, and the run that this wants.
///
/// # Errors
///
/// As for [`client`].
pub(crate) fn server<'d>(
    own: &Options,
    device: &Device<'d>,
    desk: &Desk,
    patience: Patience<'_>,
    sleep: &MaySleep,
) -> Result<(Arc<Run>, Server<'d>)> {
    let here = Whereabouts::new(device, own.server_gid)?;
    desk.sit(Wanted::Client);
    let heard = desk.hear(patience, sleep)?;
    let options = own.on_terms_of(&heard.peer.terms.ok_or(EINVAL)?);
    let run = Run::new(options)?;
    let mut server = Server::new(&run, device, sleep)?;
    let mut qps = KVec::new();
    for from in &heard.qps {
        let to = Loose::new(&server.place, sleep)?;
        let told = to.told();
        let to = to.join(own.server_gid, &heard.there(), from, &options, sleep)?;
        let Remote { addr, rkey } = server.prepare(to.handle(), sleep)?;
        server.keep(to)?;
        let address = addr;
        qps.push(
            PeerQp {
                address,
                rkey,
                ..told
            },
            GFP_KERNEL,
        )?;
    }
    let terms = None;
    desk.say(Said { terms, here, qps });
    Ok((run, server))
}

/// Whom an end waits for.
#[derive(Clone, Copy)]
enum Wanted {
    Nobody,
    Client,
    Server { qps: u32 },
}

/// What an end says.
struct Said {
    terms: Option<Options>,
    here: Whereabouts,
    qps: KVec<PeerQp>,
}

/// What an end has heard.
struct Heard {
    peer: Peer,
    qps: KVec<PeerQp>,
}

impl Heard {
    fn there(&self) -> Whereabouts {
        let Peer { gid, mac, .. } = self.peer;
        Whereabouts { gid, mac }
    }
}

struct State {
    wanted: Wanted,
    said: Option<Said>,
    heard: Option<Heard>,
}

/// Where an end and what the user knows of the other one meet.
pub(crate) struct Desk {
    state: Pin<KBox<Mutex<State>>>,
    come: Pin<KBox<Completion>>,
}

impl Desk {
    /// A desk where nobody is.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        let state = State {
            wanted: Wanted::Nobody,
            said: None,
            heard: None,
        };
        Ok(Self {
            state: KBox::pin_init(new_mutex!(state, "Desk::state"), GFP_KERNEL)?,
            come: KBox::pin_init(Completion::new(), GFP_KERNEL)?,
        })
    }

    /// An end is there, and waits for the other one.
    fn sit(&self, wanted: Wanted) {
        self.state.lock().wanted = wanted;
    }

    /// Nobody is there any more.
    pub(crate) fn clear(&self) {
        let mut state = self.state.lock();
        state.wanted = Wanted::Nobody;
        state.said = None;
        state.heard = None;
    }

    /// Says something to who reads `local`.
    fn say(&self, said: Said) {
        self.state.lock().said = Some(said);
    }

    /// Waits until the user has said what the other end says.
    fn hear(&self, patience: Patience<'_>, sleep: &MaySleep) -> Result<Heard> {
        const TRY_MS: u32 = 50;
        loop {
            // A completion that nobody has waited for does no harm.
            let _ = self.come.wait_timeout(TRY_MS, sleep);
            let heard = self.state.lock().heard.take();
            match heard {
                Some(heard) => return Ok(heard),
                None => patience.check()?,
            }
        }
    }

    /// The user says what the other end says.
    ///
    /// # Errors
    ///
    /// `EINVAL` for what is not understood, or is not what is waited for; `EAGAIN` where nobody waits; `ENOMEM`.
    fn tell(&self, text: &[u8]) -> Result {
        let mut qps = KVec::with_capacity(options::MAX_QPS as usize, GFP_KERNEL)?;
        let on_qp = |qp| qps.push_within_capacity(qp).ok();
        let peer = peer::parse(text, on_qp).ok_or(EINVAL)?;
        let mut state = self.state.lock();
        let is_wanted = match state.wanted {
            Wanted::Nobody => return Err(EAGAIN),
            Wanted::Client => peer.terms.is_some(),
            Wanted::Server { qps } => peer.terms.is_none() && peer.qps == qps,
        };
        if !is_wanted {
            return Err(EINVAL);
        }
        state.wanted = Wanted::Nobody;
        state.heard = Some(Heard { peer, qps });
        drop(state);
        self.come.complete();
        Ok(())
    }

    fn print(&self, to: &SeqFile) {
        let state = self.state.lock();
        let Some(said) = &state.said else {
            return;
        };
        if let Some(options) = &said.terms {
            seq_print!(
                to,
                "op={} pattern={} ",
                options.op.word(),
                options.pattern.word()
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
        let [a, b, c, d, e, f] = said.here.mac;
        seq_print!(
            to,
            "gid={:?} mac={a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}\n",
            Ipv6Addr::from(said.here.gid)
        );
        for qp in &said.qps {
            seq_print!(to, "qpn={} psn={}", qp.qp_num, qp.psn);
            if said.terms.is_none() {
                seq_print!(to, " address={:#x} rkey={:#x}", qp.address, qp.rkey);
            }
            seq_print!(to, "\n");
        }
    }
}

/// The files `remote` and `local`.
pub(crate) struct DeskFiles(Arc<Desk>);

static DESK_FILES: debugfs::Table<DeskFiles> = debugfs::Table::new(&crate::THIS_MODULE);

impl Control for DeskFiles {
    const WRITTEN: &'static CStr = c"remote";
    const READ: &'static CStr = c"local";
    const MAX_TEXT: usize = peer::MAX_TEXT;

    fn table() -> &'static debugfs::Table<Self> {
        &DESK_FILES
    }

    fn write(&self, text: &[u8], _sleep: &MaySleep) -> Result {
        self.0.tell(text)
    }

    fn print(&self, to: &SeqFile, _sleep: &MaySleep) {
        self.0.print(to);
    }
}

/// What is in a folder besides, as long as this is there.
pub(crate) type MoreFiles = Files<DeskFiles>;

/// Makes what is in the folder of a single end besides.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn more_files(
    folder: &Arc<Dir>,
    desk: &Arc<Desk>,
    sleep: &MaySleep,
) -> Result<MoreFiles> {
    Files::new(folder, DeskFiles(desk.clone()), sleep)
}
