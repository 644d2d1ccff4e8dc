// SPDX-License-Identifier: GPL-2.0

//! Connecting queue pairs with `rdma_cm` (`<rdma/rdma_cm.h>`), one connection for each queue pair.
//!
//! The private data of the REQ has the options of the run, that of the REP the address of the server's memory, in big endian:
//!
//! | REQ | | REP | |
//! |---|---|---|---|
//! | 0 to 3 | [`REQUEST`] | 0 to 3 | [`REPLY`] |
//! | 4 to 11 | a random number, the same for all queue pairs of a run | 4 to 11 | the address of the memory |
//! | 12 to 15 | the index of the queue pair in the run, from 0 | 12 to 15 | its rkey |
//! | 16 to 31 | [`Options::shared_bytes`] | | |

use core::net::IpAddr;

use kernel::{prelude::*, sync::Arc};
use kernel_ext::{debugfs::Dir, net::ns::NetRef, random};
use rdma::{abi::wr::Remote, bindings, client::Device, Gid, MaySleep};
use rdma_cm::{Address, Ece, Listener, Params, Request, Route};

use crate::{
    ends::{Client, Server, PORT, READS},
    options::{Options, SHARED_LENGTH},
    run::{Cancel, Run},
};

pub(crate) mod connected;

/// The first bytes of the private data of a REQ.
const REQUEST: [u8; 4] = *b"rpfq";
/// The first bytes of the private data of a REP.
const REPLY: [u8; 4] = *b"rpfa";
/// The private data of the REJ for another client, and for an invalid request.
const BUSY: &[u8] = b"busy";
const REQUEST_LENGTH: usize = 16 + SHARED_LENGTH;
const REPLY_LENGTH: usize = 16;
/// The maximum number of pending connection requests.
const BACKLOG: u16 = 64;
/// The timeout for a request of a client in this kernel, and for each further request of a client.
const NEXT_MS: u32 = 10_000;

/// The keys of a run with both ends here.
pub(crate) const BOTH_KEYS: &[&str] = &[
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
    "verify",
    "address",
    "port",
];
/// The keys of a run with the server's end here.
pub(crate) const SERVER_KEYS: &[&str] = &["server", "server_gid", "post", "poll", "port"];
/// The keys of the options that the server takes from the client.
pub(crate) const SHARED_KEYS: &[&str] = &["op", "pattern", "size", "depth", "qps", "verify"];

/// The private data of a REQ.
#[derive(Clone, Copy)]
struct RequestData {
    run: [u8; 8],
    index: u32,
    shared: [u8; SHARED_LENGTH],
}

impl RequestData {
    fn new(options: &Options) -> Self {
        let mut run = [0; 8];
        random::fill(&mut run);
        Self {
            run,
            index: 0,
            shared: options.shared_bytes(),
        }
    }

    fn to_bytes(self) -> [u8; REQUEST_LENGTH] {
        join([&REQUEST, &self.run, &self.index.to_be_bytes(), &self.shared])
    }

    /// Parses private data. `None` if it is not that of this protocol.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk()?;
        let (run, rest) = rest.split_first_chunk()?;
        let (index, rest) = rest.split_first_chunk()?;
        let data = Self {
            run: *run,
            index: u32::from_be_bytes(*index),
            shared: *rest.first_chunk()?,
        };
        (*head == REQUEST).then_some(data)
    }

    /// Whether this is the request of the queue pair `index` in the run of `other`.
    fn is_next(&self, other: &Self, index: u32) -> bool {
        self.run == other.run && self.shared == other.shared && self.index == index
    }
}

/// Concatenates `parts` into an array of `N` bytes, padded with zeroes.
fn join<const N: usize, const PARTS: usize>(parts: [&[u8]; PARTS]) -> [u8; N] {
    let mut bytes = [0; N];
    let all = parts.into_iter().flatten();
    bytes.iter_mut().zip(all).for_each(|(to, from)| *to = *from);
    bytes
}

fn reply(remote: Remote) -> [u8; REPLY_LENGTH] {
    let (addr, rkey) = (remote.addr.to_be_bytes(), remote.rkey.to_be_bytes());
    join([&REPLY, &addr, &rkey])
}

/// Parses the private data of a REP.
fn parse_reply(bytes: &[u8]) -> Result<Remote> {
    let read = || {
        let (head, rest) = bytes.split_first_chunk()?;
        let (addr, rest) = rest.split_first_chunk()?;
        let remote = Remote {
            addr: u64::from_be_bytes(*addr),
            rkey: u32::from_be_bytes(*rest.first_chunk()?),
        };
        (*head == REPLY).then_some(remote)
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
        ece: Ece::NONE,
    }
}

/// The address of an end: its GID, and the network namespace of the GID.
struct EndAddress {
    gid: Gid,
    net: NetRef,
}

impl EndAddress {
    fn new(device: &Device<'_>, gid: u16) -> Result<Self> {
        let gid = device.gid(PORT, gid)?;
        Ok(Self {
            gid: gid.gid(),
            net: gid.namespace()?,
        })
    }

    /// The socket address with that port.
    fn address(&self, port: u16) -> Address {
        Address::of_gid(self.gid, port)
    }
}

fn address(of: IpAddr, port: u16) -> Address {
    match of {
        IpAddr::V4(address) => Address::V4(address.octets(), port),
        IpAddr::V6(address) => Address::V6(address.octets(), port, 0),
    }
}

impl<'d> Server<'d> {
    /// Accepts a request. The caller waits for the connection with `finish`.
    fn accept(&mut self, request: Request<'d>, sleep: &MaySleep) -> Result<rdma_cm::Accepting<'d>> {
        let qp = request.init(self.resources.queue_pair(sleep)?, sleep)?;
        let ready = request.ready(qp, sleep)?;
        let remote = self.prepare(ready.handle(), sleep)?;
        ready.accept(&params(&reply(remote)), sleep)
    }

    /// Accepts a request, waits for the connection and keeps it.
    fn accept_and_keep(&mut self, request: Request<'d>, sleep: &MaySleep) -> Result {
        let connection = self.accept(request, sleep)?.finish(sleep)?;
        self.keep(connection)
    }
}

/// Creates both ends, with their queue pairs connected.
///
/// # Errors
///
/// `ENODATA` for an empty GID table entry, `ENOMEM`, and the errors of the connection manager and the drivers.
pub(crate) fn both<'a, 'b>(
    run: &Arc<Run>,
    on: &Device<'a>,
    to: &Device<'b>,
    sleep: &MaySleep,
) -> Result<(Client<'a>, Server<'b>)> {
    let options = &run.options;
    let mut client = Client::new(run, on, sleep)?;
    let mut server = Server::new(run, to, sleep)?;
    let here = EndAddress::new(on, options.client_gid)?;
    let there = EndAddress::new(to, options.server_gid)?;
    let listener = Listener::new(to, &there.net, &there.address(0), BACKLOG, sleep)?;
    let (source, target) = (here.address(0), there.address(listener.port()));
    let mut data = RequestData::new(options);
    for index in 0..options.qps {
        data.index = index;
        let route = Route::resolve(on, &here.net, Some(&source), &target, sleep)?;
        let qp = route.init(client.resources.queue_pair(sleep)?, sleep)?;
        let connecting = route.begin(qp, &params(&data.to_bytes()), sleep)?;
        let request = next(&listener, |found| found.is_next(&data, index), sleep)?.0;
        let accepting = server.accept(request, sleep)?;
        let (connection, private_data) = connecting.finish(sleep)?;
        server.keep(accepting.finish(sleep)?)?;
        client.add(connection, parse_reply(&private_data)?, sleep)?;
    }
    Ok((client, server))
}

/// Waits for the expected request, with a timeout. Other requests are rejected.
fn next<'d>(
    listener: &Listener<'d>,
    is_wanted: impl Fn(&RequestData) -> bool,
    sleep: &MaySleep,
) -> Result<(Request<'d>, RequestData)> {
    loop {
        let request = listener.next(NEXT_MS, sleep)?;
        match RequestData::from_bytes(request.private_data()) {
            Some(data) if is_wanted(&data) => return Ok((request, data)),
            _ => request.reject(BUSY, sleep)?,
        }
    }
}

/// Creates the client's end, connected to the server that listens at the address.
///
/// # Errors
///
/// As for [`both`]; `EINVAL` without an address, `ECONNREFUSED` if no server listens or it serves another client, `EPROTO` if
/// the listener is no `rdma_perf_cm`.
pub(crate) fn client<'d>(
    run: &Arc<Run>,
    device: &Device<'d>,
    _exchange: &Exchange,
    cancel: Cancel<'_>,
    sleep: &MaySleep,
) -> Result<Client<'d>> {
    let options = &run.options;
    let target = address(options.address.ok_or(EINVAL)?, options.port);
    let mut client = Client::new(run, device, sleep)?;
    let here = EndAddress::new(device, options.client_gid)?;
    let source = here.address(0);
    let mut data = RequestData::new(options);
    for index in 0..options.qps {
        cancel.check()?;
        data.index = index;
        let route = Route::resolve(device, &here.net, Some(&source), &target, sleep)?;
        let qp = route.init(client.resources.queue_pair(sleep)?, sleep)?;
        let (connection, private_data) = route.connect(qp, &params(&data.to_bytes()), sleep)?;
        client.add(connection, parse_reply(&private_data)?, sleep)?;
    }
    Ok(client)
}

/// Creates the server's end, connected to the first client that comes, and the run with that client's options.
///
/// # Errors
///
/// As for [`both`]; `EADDRINUSE`; `EINTR` for a signal, `ENODEV` if the device is removed.
pub(crate) fn server<'d>(
    own: &Options,
    device: &Device<'d>,
    _exchange: &Exchange,
    cancel: Cancel<'_>,
    sleep: &MaySleep,
) -> Result<(Arc<Run>, Server<'d>)> {
    let here = EndAddress::new(device, own.server_gid)?;
    let address = here.address(own.port);
    let listener = Listener::new(device, &here.net, &address, BACKLOG, sleep)?;
    let (request, first, theirs) = first(&listener, cancel, sleep)?;
    let run = Run::new(own.with_shared_of(&theirs))?;
    let mut server = Server::new(&run, device, sleep)?;
    server.accept_and_keep(request, sleep)?;
    for index in 1..theirs.qps {
        let (request, _) = next(&listener, |found| found.is_next(&first, index), sleep)?;
        server.accept_and_keep(request, sleep)?;
    }
    Ok((run, server))
}

/// Waits for the first request of a client, without a timeout.
fn first<'d>(
    listener: &Listener<'d>,
    cancel: Cancel<'_>,
    sleep: &MaySleep,
) -> Result<(Request<'d>, RequestData, Options)> {
    const TRY_MS: u32 = 50;
    loop {
        cancel.check()?;
        let request = match listener.next(TRY_MS, sleep) {
            Err(error) if error == ETIMEDOUT => continue,
            request => request?,
        };
        let data = RequestData::from_bytes(request.private_data()).filter(|data| data.index == 0);
        let theirs = data.and_then(|data| Options::from_shared_bytes(data.shared));
        match (data, theirs) {
            (Some(data), Some(theirs)) => return Ok((request, data, theirs)),
            _ => request.reject(BUSY, sleep)?,
        }
    }
}

/// No exchange: the connection manager carries all information.
pub(crate) struct Exchange;

impl Exchange {
    /// An empty exchange.
    ///
    /// # Errors
    ///
    /// None.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self)
    }

    /// Does nothing.
    pub(crate) fn clear(&self) {}
}

/// No more files.
pub(crate) struct ExtraFiles;

/// Creates no more files.
///
/// # Errors
///
/// None.
pub(crate) fn extra_files(
    _folder: &Arc<Dir>,
    _exchange: &Arc<Exchange>,
    _sleep: &MaySleep,
) -> Result<ExtraFiles> {
    Ok(ExtraFiles)
}
