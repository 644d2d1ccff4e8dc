// SPDX-License-Identifier: GPL-2.0

//! Messages of the port mapper: its answers, and what it says by itself.
//!
//! Each is validated by a table, and has all attributes of its kind.
//!
//! C headers: `include/rdma/iw_portmap.h`, `include/uapi/rdma/rdma_netlink.h`.

use core::num::NonZeroU32;

use kernel::prelude::*;
use kernel_ext::{
    bindings as c,
    error::EPROTO,
    net::netlink::{Attrs, Dump, Dumper, Policy, Request},
};
use rdma::{
    core::iw::address::{SockAddr, SIZE},
    MaySleep,
};

use super::{
    requests::{say_hello, send_mappings, LIBRARY},
    state::{Address, Answer, Mapped, Mapper, Registered, Topic, MAPPER},
};

/// The messages of the port mapper. None is answered by packets of a dump.
pub(super) enum Commands {}

type Handler = fn(&Request<'_>, &MaySleep) -> Result;

/// The functions for the messages.
const HANDLERS: [(u32, Handler); 8] = [
    (c::RDMA_NL_IWPM_REG_PID, registered),
    (c::RDMA_NL_IWPM_ADD_MAPPING, added),
    (c::RDMA_NL_IWPM_QUERY_MAPPING, queried),
    (c::RDMA_NL_IWPM_REMOTE_INFO, peer_comes),
    (c::RDMA_NL_IWPM_HANDLE_ERR, failed),
    (c::RDMA_NL_IWPM_MAPINFO, began),
    (c::RDMA_NL_IWPM_MAPINFO_NUM, mappings_arrived),
    (c::RDMA_NL_IWPM_HELLO, hello),
];

impl Dumper for Commands {
    fn fill(dump: &mut Dump<'_>, sleep: &MaySleep) -> Result {
        let request = dump.request();
        let op = request.kind() & 0x3ff;
        let handler = HANDLERS.iter().find(|(number, _)| *number == op);
        handler.ok_or(EINVAL)?.1(&request, sleep)
    }
}

/// The policies of a message: `(attribute, type, length)`.
const fn policies<const N: usize>(attrs: &[(u32, u32, u16)]) -> [Policy; N] {
    let mut table = [const { Policy::NONE }; N];
    let mut nth = 0;
    while nth < attrs.len() {
        let (attr, kind, length) = attrs[nth];
        table[attr as usize] = Policy::new(kind, length);
        nth += 1;
    }
    table
}

/// The length of the text in an attribute of so many bytes.
const fn text(size: u32) -> u16 {
    (size as u16).saturating_sub(1)
}

const ADDRESS: u16 = SIZE as u16;

static REGISTERED: [Policy; c::IWPM_NLA_RREG_PID_MAX as usize] = policies(&[
    (c::IWPM_NLA_RREG_PID_SEQ, c::NLA_U32, 0),
    (
        c::IWPM_NLA_RREG_IBDEV_NAME,
        c::NLA_NUL_STRING,
        text(c::IWPM_DEVNAME_SIZE),
    ),
    (
        c::IWPM_NLA_RREG_ULIB_NAME,
        c::NLA_NUL_STRING,
        text(c::IWPM_ULIBNAME_SIZE),
    ),
    (c::IWPM_NLA_RREG_ULIB_VER, c::NLA_U16, 0),
    (c::IWPM_NLA_RREG_PID_ERR, c::NLA_U16, 0),
]);
static ADDED: [Policy; c::IWPM_NLA_RMANAGE_MAPPING_MAX as usize] = policies(&[
    (c::IWPM_NLA_RMANAGE_MAPPING_SEQ, c::NLA_U32, 0),
    (c::IWPM_NLA_RMANAGE_ADDR, c::NLA_UNSPEC, ADDRESS),
    (c::IWPM_NLA_RMANAGE_MAPPED_LOC_ADDR, c::NLA_UNSPEC, ADDRESS),
    (c::IWPM_NLA_RMANAGE_MAPPING_ERR, c::NLA_U16, 0),
]);
static QUERIED: [Policy; c::IWPM_NLA_RQUERY_MAPPING_MAX as usize] = policies(&[
    (c::IWPM_NLA_RQUERY_MAPPING_SEQ, c::NLA_U32, 0),
    (c::IWPM_NLA_RQUERY_LOCAL_ADDR, c::NLA_UNSPEC, ADDRESS),
    (c::IWPM_NLA_RQUERY_REMOTE_ADDR, c::NLA_UNSPEC, ADDRESS),
    (c::IWPM_NLA_RQUERY_MAPPED_LOC_ADDR, c::NLA_UNSPEC, ADDRESS),
    (c::IWPM_NLA_RQUERY_MAPPED_REM_ADDR, c::NLA_UNSPEC, ADDRESS),
    (c::IWPM_NLA_RQUERY_MAPPING_ERR, c::NLA_U16, 0),
]);
static BEGAN: [Policy; c::IWPM_NLA_MAPINFO_REQ_MAX as usize] = policies(&[
    (
        c::IWPM_NLA_MAPINFO_ULIB_NAME,
        c::NLA_NUL_STRING,
        text(c::IWPM_ULIBNAME_SIZE),
    ),
    (c::IWPM_NLA_MAPINFO_ULIB_VER, c::NLA_U16, 0),
]);
static ARRIVED: [Policy; c::IWPM_NLA_MAPINFO_NUM_MAX as usize] = policies(&[
    (c::IWPM_NLA_MAPINFO_SEQ, c::NLA_U32, 0),
    (c::IWPM_NLA_MAPINFO_SEND_NUM, c::NLA_U32, 0),
    (c::IWPM_NLA_MAPINFO_ACK_NUM, c::NLA_U32, 0),
]);
static FAILED: [Policy; c::IWPM_NLA_ERR_MAX as usize] = policies(&[
    (c::IWPM_NLA_ERR_SEQ, c::NLA_U32, 0),
    (c::IWPM_NLA_ERR_CODE, c::NLA_U16, 0),
]);
static HELLO: [Policy; c::IWPM_NLA_HELLO_MAX as usize] =
    policies(&[(c::IWPM_NLA_HELLO_ABI_VERSION, c::NLA_U16, 0)]);

/// The attributes of a message, all of which are there.
fn attrs<'a, const N: usize>(
    request: &Request<'a>,
    policy: &'static [Policy; N],
) -> Result<Attrs<'a, N>> {
    let attrs = request.attrs(policy, false).map_err(|_| EINVAL)?;
    let all = (1..N as u32).all(|attr| attrs.has(attr));
    all.then_some(attrs).ok_or(EINVAL)
}

/// An address in a message.
fn address<const N: usize>(attrs: &Attrs<'_, N>, attr: u32) -> Result<SockAddr> {
    attrs.array(attr).map(SockAddr::from_bytes).ok_or(EINVAL)
}

/// A name in a message, in a member of fixed size.
fn name<const N: usize>(attrs: &Attrs<'_, N>, attr: u32) -> Result<[u8; NAME]> {
    let text = attrs.text::<NAME>(attr).ok_or(EINVAL)?;
    let mut bytes = [0; NAME];
    for (to, from) in bytes.iter_mut().zip(text.to_bytes()) {
        *to = *from;
    }
    Ok(bytes)
}

/// The size of the names.
const NAME: usize = c::IWPM_ULIBNAME_SIZE as usize;
const _: () = assert!(NAME == c::IWPM_DEVNAME_SIZE as usize);

/// The oldest version that is understood.
const OLDEST: u16 = c::IWPM_UABI_VERSION_MIN as u16;

/// The port mapper is the sender of a message.
fn is_at(mapper: &mut Mapper, request: &Request<'_>, registered: Registered) {
    mapper.echo = request.seq();
    mapper.registered = registered;
    if let Some(port) = NonZeroU32::new(request.portid()) {
        mapper.address = Address::Port(port);
    }
}

/// The port mapper answers to `RDMA_NL_IWPM_REG_PID`.
fn registered(request: &Request<'_>, _sleep: &MaySleep) -> Result {
    let attrs = attrs(request, &REGISTERED)?;
    let seq = attrs.u32(c::IWPM_NLA_RREG_PID_SEQ).ok_or(EINVAL)?;
    let version = attrs.u16(c::IWPM_NLA_RREG_ULIB_VER).ok_or(EINVAL)?;
    let library = name(&attrs, c::IWPM_NLA_RREG_ULIB_NAME)?;
    let wanted = name(&attrs, c::IWPM_NLA_RREG_IBDEV_NAME)?;
    let mut mapper = MAPPER.lock();
    let question = mapper
        .take_question(seq, |topic| matches!(topic, Topic::Register { .. }))
        .ok_or(EINVAL)?;
    let is_right = match &question.topic {
        Topic::Register { device } => *device == wanted,
        _ => false,
    };
    let answer = if is_right && library == LIBRARY && version >= OLDEST {
        is_at(&mut mapper, request, Registered::Yes);
        mapper.version = version;
        Ok(Answer::Registered)
    } else {
        Err(EPROTO)
    };
    question.end(answer);
    Ok(())
}

/// A mapping is right if it is of what was asked for, and of the same families.
fn check(asked: &SockAddr, told: &SockAddr, mapped: &SockAddr) -> Result {
    let is_right = asked.is_same_end(told) && mapped.family() == told.family();
    is_right.then_some(()).ok_or(EPROTO)
}

/// The answer that has these ends.
fn mapped(local: &SockAddr, remote: Option<&SockAddr>) -> Result<Answer> {
    let (local, remote) = (*local, remote.copied());
    Ok(Answer::Mapped(KBox::new(
        Mapped { local, remote },
        GFP_KERNEL,
    )?))
}

/// The port mapper answers to `RDMA_NL_IWPM_ADD_MAPPING`.
fn added(request: &Request<'_>, _sleep: &MaySleep) -> Result {
    let attrs = attrs(request, &ADDED)?;
    let seq = attrs.u32(c::IWPM_NLA_RMANAGE_MAPPING_SEQ).ok_or(EINVAL)?;
    let told = address(&attrs, c::IWPM_NLA_RMANAGE_ADDR)?;
    let mapped_end = address(&attrs, c::IWPM_NLA_RMANAGE_MAPPED_LOC_ADDR)?;
    let mut mapper = MAPPER.lock();
    mapper.echo = request.seq();
    let question = mapper
        .take_question(seq, |topic| matches!(topic, Topic::Add { .. }))
        .ok_or(EINVAL)?;
    let answer = match &question.topic {
        Topic::Add { local } => check(local, &told, &mapped_end),
        _ => Err(EPROTO),
    };
    question.end(answer.and_then(|()| mapped(&mapped_end, None)));
    Ok(())
}

/// The four addresses of a connection.
struct Addresses {
    local: SockAddr,
    remote: SockAddr,
    mapped_local: SockAddr,
    mapped_remote: SockAddr,
}

impl Addresses {
    fn of(attrs: &Attrs<'_, { c::IWPM_NLA_RQUERY_MAPPING_MAX as usize }>) -> Result<Self> {
        Ok(Self {
            local: address(attrs, c::IWPM_NLA_RQUERY_LOCAL_ADDR)?,
            remote: address(attrs, c::IWPM_NLA_RQUERY_REMOTE_ADDR)?,
            mapped_local: address(attrs, c::IWPM_NLA_RQUERY_MAPPED_LOC_ADDR)?,
            mapped_remote: address(attrs, c::IWPM_NLA_RQUERY_MAPPED_REM_ADDR)?,
        })
    }

    /// Whether what is mapped is of the families of what it is mapped to.
    fn has_right_families(&self) -> bool {
        self.mapped_local.family() == self.local.family()
            && self.mapped_remote.family() == self.remote.family()
    }
}

/// The port mapper answers to `RDMA_NL_IWPM_QUERY_MAPPING`.
fn queried(request: &Request<'_>, _sleep: &MaySleep) -> Result {
    let attrs = attrs(request, &QUERIED)?;
    let seq = attrs.u32(c::IWPM_NLA_RQUERY_MAPPING_SEQ).ok_or(EINVAL)?;
    let status = attrs.u16(c::IWPM_NLA_RQUERY_MAPPING_ERR).ok_or(EINVAL)?;
    let told = Addresses::of(&attrs)?;
    let mut mapper = MAPPER.lock();
    mapper.echo = request.seq();
    let question = mapper
        .take_question(seq, |topic| matches!(topic, Topic::Query { .. }))
        .ok_or(EINVAL)?;
    let is_right = match &question.topic {
        Topic::Query { local, remote } => {
            local.is_same_end(&told.local) && remote.is_same_end(&told.remote)
        }
        _ => false,
    };
    let is_rejected = u32::from(status) == c::IWPM_REMOTE_QUERY_REJECT;
    question.end(if is_right && told.has_right_families() && !is_rejected {
        mapped(&told.mapped_local, Some(&told.mapped_remote))
    } else {
        Err(EPROTO)
    });
    Ok(())
}

/// The port mapper says who is about to connect: `RDMA_NL_IWPM_REMOTE_INFO`.
fn peer_comes(request: &Request<'_>, _sleep: &MaySleep) -> Result {
    let attrs = attrs(request, &QUERIED)?;
    let told = Addresses::of(&attrs)?;
    let mut mapper = MAPPER.lock();
    mapper.echo = request.seq();
    if !told.has_right_families() {
        return Err(EINVAL);
    }
    mapper.add_peer(&told.mapped_local, &told.mapped_remote, told.remote)
}

/// The port mapper cannot do what it was asked for: `RDMA_NL_IWPM_HANDLE_ERR`.
fn failed(request: &Request<'_>, _sleep: &MaySleep) -> Result {
    let attrs = attrs(request, &FAILED)?;
    let seq = attrs.u32(c::IWPM_NLA_ERR_SEQ).ok_or(EINVAL)?;
    let mut mapper = MAPPER.lock();
    // Not each error is one of a request.
    if let Some(question) = mapper.take_question(seq, |_| true) {
        mapper.echo = request.seq();
        question.end(Err(EPROTO));
    }
    Ok(())
}

/// A port mapper has begun, and wants to know our mappings: `RDMA_NL_IWPM_MAPINFO`.
fn began(request: &Request<'_>, sleep: &MaySleep) -> Result {
    let attrs = attrs(request, &BEGAN)?;
    let version = attrs.u16(c::IWPM_NLA_MAPINFO_ULIB_VER).ok_or(EINVAL)?;
    if name(&attrs, c::IWPM_NLA_MAPINFO_ULIB_NAME)? != LIBRARY || version < OLDEST {
        return Err(EINVAL);
    }
    is_at(&mut MAPPER.lock(), request, Registered::Begun);
    send_mappings(request.portid(), sleep)
}

/// The port mapper has got our mappings: `RDMA_NL_IWPM_MAPINFO_NUM`.
fn mappings_arrived(request: &Request<'_>, _sleep: &MaySleep) -> Result {
    attrs(request, &ARRIVED)?;
    MAPPER.lock().echo = request.seq();
    Ok(())
}

/// A port mapper says which version of the messages it has: `RDMA_NL_IWPM_HELLO`.
fn hello(request: &Request<'_>, sleep: &MaySleep) -> Result {
    let attrs = attrs(request, &HELLO)?;
    let theirs = attrs.u16(c::IWPM_NLA_HELLO_ABI_VERSION).ok_or(EINVAL)?;
    let version = theirs.min(c::IWPM_UABI_VERSION as u16);
    {
        let mut mapper = MAPPER.lock();
        is_at(&mut mapper, request, Registered::Begun);
        mapper.version = version;
    }
    say_hello(request.portid(), version, sleep)
}
