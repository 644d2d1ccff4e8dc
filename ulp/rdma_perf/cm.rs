// SPDX-License-Identifier: GPL-2.0

//! Queue pairs that are connected by the connection manager, each by a connection of its own.
//!
//! The client's request says what is to be done, the server's answer where its memory is: bytes in the order of the wire.
//!
//! | request | | answer | |
//! |---|---|---|---|
//! | 0 to 3 | [`REQUEST`] | 0 to 3 | [`ANSWER`] |
//! | 4 to 11 | a number of the run, the same for all of its queue pairs | 4 to 11 | the address of the memory |
//! | 12 to 15 | which queue pair of the run, from 0 | 12 to 15 | its key |
//! | 16 to 31 | [`Options::terms`] | | |

use core::net::IpAddr;

use kernel::{
    prelude::*,
    sync::{rcu, Arc},
};
use kernel_ext::{debugfs::Dir, net::ns::NetRef, random};
use rdma::{abi::wr::Remote, bindings, client::Device, Gid, MaySleep};
use rdma_cm::{Address, Listener, Params, Request, Route};

use crate::{
    ends::{Client, Server, PORT, READS},
    options::{Options, TERMS_LENGTH},
    run::{Patience, Run},
};

pub(crate) mod joined;

/// What a request begins with.
const REQUEST: [u8; 4] = *b"rpfq";
/// What an answer begins with.
const ANSWER: [u8; 4] = *b"rpfa";
/// What a client is told that is not the one that is served, or is not understood.
const BUSY: &[u8] = b"busy";
const REQUEST_LENGTH: usize = 16 + TERMS_LENGTH;
const ANSWER_LENGTH: usize = 16;
/// How many requests may wait.
const BACKLOG: u16 = 64;
/// How long a request of a client in this kernel, or of one whose first request has come, is waited for.
const NEXT_MS: u32 = 10_000;

/// The keys of a run with both ends here.
pub(crate) const BOTH: &[&str] = &[
    "client",
    "server",
    "client_gid",
    "server_gid",
    "op",
    "pattern",
    "size",
    "depth",
    "qps",
    "iterations",
    "seconds",
    "post",
    "poll",
    "verify",
];
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
    "verify",
    "address",
    "port",
];
/// The keys of a run with the server's end here.
pub(crate) const SERVER: &[&str] = &["server", "server_gid", "post", "poll", "port"];
/// What the server learns from the client.
pub(crate) const LEARNT: &[&str] = &["op", "pattern", "size", "depth", "qps", "verify"];

/// What a client asks for, by each queue pair.
#[derive(Clone, Copy)]
struct Asked {
    run: [u8; 8],
    index: u32,
    terms: [u8; TERMS_LENGTH],
}

impl Asked {
    fn new(options: &Options) -> Self {
        let mut run = [0; 8];
        random::fill(&mut run);
        Self {
            run,
            index: 0,
            terms: options.terms(),
        }
    }

    fn to_bytes(self) -> [u8; REQUEST_LENGTH] {
        join([&REQUEST, &self.run, &self.index.to_be_bytes(), &self.terms])
    }

    /// What a client has asked for. `None` where it is none.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk()?;
        let (run, rest) = rest.split_first_chunk()?;
        let (index, rest) = rest.split_first_chunk()?;
        let asked = Self {
            run: *run,
            index: u32::from_be_bytes(*index),
            terms: *rest.first_chunk()?,
        };
        (*head == REQUEST).then_some(asked)
    }

    /// Whether a client asks for more of the same.
    fn is_next(&self, other: &Self, index: u32) -> bool {
        self.run == other.run && self.terms == other.terms && self.index == index
    }
}

/// So many bytes one after the other; zeroes where there are too few.
fn join<const N: usize, const PARTS: usize>(parts: [&[u8]; PARTS]) -> [u8; N] {
    let mut bytes = [0; N];
    let all = parts.into_iter().flatten();
    bytes.iter_mut().zip(all).for_each(|(to, from)| *to = *from);
    bytes
}

fn answer(remote: Remote) -> [u8; ANSWER_LENGTH] {
    let (addr, rkey) = (remote.addr.to_be_bytes(), remote.rkey.to_be_bytes());
    join([&ANSWER, &addr, &rkey])
}

/// What a server has answered.
fn answered(bytes: &[u8]) -> Result<Remote> {
    let read = || {
        let (head, rest) = bytes.split_first_chunk()?;
        let (addr, rest) = rest.split_first_chunk()?;
        let remote = Remote {
            addr: u64::from_be_bytes(*addr),
            rkey: u32::from_be_bytes(*rest.first_chunk()?),
        };
        (*head == ANSWER).then_some(remote)
    };
    read().ok_or_else(|| Error::from_errno(-(bindings::EPROTO as i32)))
}

fn params(private_data: &[u8]) -> Params<'_> {
    Params {
        private_data,
        responder_resources: READS,
        initiator_depth: READS,
        retries: 7,
        rnr_retries: 7,
    }
}

/// Where an end is: its address, and the namespace that has it.
struct Whereabouts {
    gid: Gid,
    net: NetRef,
}

impl Whereabouts {
    fn new(device: &Device<'_>, gid: u16) -> Result<Self> {
        let gid = device.gid(PORT, gid)?;
        let net = {
            let inside = rcu::read_lock();
            gid.ndev(&inside)?.namespace().ok_or(ENODEV)?
        };
        Ok(Self {
            gid: gid.gid(),
            net,
        })
    }

    /// The address of a port there.
    fn address(&self, port: u16) -> Address {
        match self.gid.ipv4() {
            Some(address) => Address::V4(address, port),
            None => Address::V6(self.gid.0, port, 0),
        }
    }
}

fn address(of: IpAddr, port: u16) -> Address {
    match of {
        IpAddr::V4(address) => Address::V4(address.octets(), port),
        IpAddr::V6(address) => Address::V6(address.octets(), port, 0),
    }
}

impl<'d> Server<'d> {
    /// Lets a peer connect. Returns what is to be finished, where the peer is waited for.
    fn accept(&mut self, request: Request<'d>, sleep: &MaySleep) -> Result<rdma_cm::Accepting<'d>> {
        let qp = request.init(self.place.queue_pair(sleep)?, sleep)?;
        let ready = request.ready(qp, sleep)?;
        let remote = self.prepare(ready.handle(), sleep)?;
        ready.accept(&params(&answer(remote)), sleep)
    }

    /// Lets a peer connect, and keeps the connection.
    fn join(&mut self, request: Request<'d>, sleep: &MaySleep) -> Result {
        let connection = self.accept(request, sleep)?.finish(sleep)?;
        self.keep(connection)
    }
}

/// Makes both ends, with their queue pairs connected.
///
/// # Errors
///
/// `ENODATA` for a GID that there is not, `ENOMEM`, and what the connection manager and the drivers answer.
pub(crate) fn both<'a, 'b>(
    run: &Arc<Run>,
    on: &Device<'a>,
    to: &Device<'b>,
    sleep: &MaySleep,
) -> Result<(Client<'a>, Server<'b>)> {
    let options = &run.options;
    let mut client = Client::new(run, on, sleep)?;
    let mut server = Server::new(run, to, sleep)?;
    let here = Whereabouts::new(on, options.client_gid)?;
    let there = Whereabouts::new(to, options.server_gid)?;
    let listener = Listener::new(to, &there.net, &there.address(0), BACKLOG, sleep)?;
    let (source, target) = (here.address(0), there.address(listener.port()));
    let mut asked = Asked::new(options);
    for index in 0..options.qps {
        asked.index = index;
        let route = Route::resolve(on, &here.net, Some(&source), &target, sleep)?;
        let qp = route.init(client.place.queue_pair(sleep)?, sleep)?;
        let connecting = route.begin(qp, &params(&asked.to_bytes()), sleep)?;
        let request = next(&listener, |found| found.is_next(&asked, index), sleep)?.0;
        let accepting = server.accept(request, sleep)?;
        let (connection, said) = connecting.finish(sleep)?;
        server.keep(accepting.finish(sleep)?)?;
        client.add(connection, answered(&said)?, sleep)?;
    }
    Ok((client, server))
}

/// Waits for a request, not longer than usual. Others are rejected.
fn next<'d>(
    listener: &Listener<'d>,
    is_wanted: impl Fn(&Asked) -> bool,
    sleep: &MaySleep,
) -> Result<(Request<'d>, Asked)> {
    loop {
        let request = listener.next(NEXT_MS, sleep)?;
        match Asked::from_bytes(request.private_data()) {
            Some(asked) if is_wanted(&asked) => return Ok((request, asked)),
            _ => request.reject(BUSY, sleep)?,
        }
    }
}

/// Makes the client's end, connected to the server that listens at the address.
///
/// # Errors
///
/// As for [`both`]; `EINVAL` without an address, `ECONNREFUSED` where no server listens or it serves another client, `EPROTO`
/// for one that is none.
pub(crate) fn client<'d>(
    run: &Arc<Run>,
    device: &Device<'d>,
    _desk: &Desk,
    patience: Patience<'_>,
    sleep: &MaySleep,
) -> Result<Client<'d>> {
    let options = &run.options;
    let target = address(options.address.ok_or(EINVAL)?, options.port);
    let mut client = Client::new(run, device, sleep)?;
    let here = Whereabouts::new(device, options.client_gid)?;
    let source = here.address(0);
    let mut asked = Asked::new(options);
    for index in 0..options.qps {
        patience.check()?;
        asked.index = index;
        let route = Route::resolve(device, &here.net, Some(&source), &target, sleep)?;
        let qp = route.init(client.place.queue_pair(sleep)?, sleep)?;
        let (connection, said) = route.connect(qp, &params(&asked.to_bytes()), sleep)?;
        client.add(connection, answered(&said)?, sleep)?;
    }
    Ok(client)
}

/// Makes the server's end, connected to the first client that comes, and the run that this wants.
///
/// # Errors
///
/// As for [`both`]; `EADDRINUSE`; `EINTR` for a signal, `ENODEV` for a device that goes.
pub(crate) fn server<'d>(
    own: &Options,
    device: &Device<'d>,
    _desk: &Desk,
    patience: Patience<'_>,
    sleep: &MaySleep,
) -> Result<(Arc<Run>, Server<'d>)> {
    let here = Whereabouts::new(device, own.server_gid)?;
    let address = here.address(own.port);
    let listener = Listener::new(device, &here.net, &address, BACKLOG, sleep)?;
    let (request, first, theirs) = first(&listener, patience, sleep)?;
    let run = Run::new(own.on_terms_of(&theirs))?;
    let mut server = Server::new(&run, device, sleep)?;
    server.join(request, sleep)?;
    for index in 1..theirs.qps {
        let (request, _) = next(&listener, |found| found.is_next(&first, index), sleep)?;
        server.join(request, sleep)?;
    }
    Ok((run, server))
}

/// Waits for the first request of a client, as long as it takes.
fn first<'d>(
    listener: &Listener<'d>,
    patience: Patience<'_>,
    sleep: &MaySleep,
) -> Result<(Request<'d>, Asked, Options)> {
    const TRY_MS: u32 = 50;
    loop {
        patience.check()?;
        let request = match listener.next(TRY_MS, sleep) {
            Err(error) if error == ETIMEDOUT => continue,
            request => request?,
        };
        let asked = Asked::from_bytes(request.private_data()).filter(|asked| asked.index == 0);
        let theirs = asked.and_then(|asked| Options::from_terms(asked.terms));
        match (asked, theirs) {
            (Some(asked), Some(theirs)) => return Ok((request, asked, theirs)),
            _ => request.reject(BUSY, sleep)?,
        }
    }
}

/// The connection manager needs no help of the user's.
pub(crate) struct Desk;

impl Desk {
    /// A desk.
    ///
    /// # Errors
    ///
    /// None.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self)
    }

    /// Nobody is there any more.
    pub(crate) fn clear(&self) {}
}

/// There are no more files.
pub(crate) struct MoreFiles;

/// Makes what is in the folder of a single end besides: nothing.
///
/// # Errors
///
/// None.
pub(crate) fn more_files(
    _folder: &Arc<Dir>,
    _desk: &Arc<Desk>,
    _sleep: &MaySleep,
) -> Result<MoreFiles> {
    Ok(MoreFiles)
}
