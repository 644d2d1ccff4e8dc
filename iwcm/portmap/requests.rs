// SPDX-License-Identifier: GPL-2.0

//! Messages to the port mapper, and waiting for its answers.
//!
//! C headers: `include/rdma/iw_portmap.h`, `include/uapi/rdma/rdma_netlink.h`.

use kernel::{prelude::*, sync::Arc};
use kernel_ext::{
    bindings as c,
    gfp::Gfp,
    net::netlink::{Message, Series, Writer},
};
use rdma::{
    client::netlink::{iwpm_kind, multicast, unicast},
    core::iw::address::SockAddr,
    MaySleep,
};

use super::state::{Address, Answer, Mapped, Question, Record, Registered, Topic, MAPPER};

/// How long an answer is waited for, in milliseconds.
const TIMEOUT_MS: u32 = 10_000;

/// The name by which kernel and port mapper know that they speak the same.
pub(super) const LIBRARY: [u8; c::IWPM_ULIBNAME_SIZE as usize] = padded(b"iWarpPortMapperUser");

/// The oldest version of the messages, which has no flags.
const WITHOUT_FLAGS: u16 = c::IWPM_UABI_VERSION_MIN as u16;

/// The number of mappings in a packet, so that they fit into any.
const RECORDS_PER_PACKET: usize = 10;

/// Text in a member of fixed size, with zeros behind it.
const fn padded<const N: usize>(text: &[u8]) -> [u8; N] {
    let mut bytes = [0; N];
    let mut nth = 0;
    while nth < text.len() && nth < N {
        bytes[nth] = text[nth];
        nth += 1;
    }
    bytes
}

/// The names of a device and of its net device.
pub(super) struct Names {
    pub(super) device: [u8; c::IWPM_DEVNAME_SIZE as usize],
    pub(super) interface: [u8; c::IWPM_IFNAME_SIZE as usize],
}

impl Names {
    /// The names as the port mapper gets them.
    ///
    /// # Errors
    ///
    /// `EINVAL` for one that is too long.
    pub(super) fn new(
        device: &CStr,
        interface: [u8; c::IWPM_IFNAME_SIZE as usize],
    ) -> Result<Self> {
        let name = device.to_bytes();
        let is_short = name.len() < c::IWPM_DEVNAME_SIZE as usize && interface.contains(&0);
        is_short
            .then(|| Self {
                device: padded(name),
                interface,
            })
            .ok_or(EINVAL)
    }
}

/// Sends what `send` sends, and waits for the answer.
fn ask(
    op: u32,
    topic: Topic,
    fill: impl FnOnce(&mut Writer<'_>, &Topic, u32) -> Result,
    send: impl FnOnce(Message) -> Result,
    sleep: &MaySleep,
) -> Result<Answer> {
    let (question, seq, echo) = {
        let mut mapper = MAPPER.lock();
        let (question, seq) = mapper.ask(topic)?;
        (question, seq, mapper.echo)
    };
    let sent = Message::request(iwpm_kind(op), seq, Gfp::kernel(sleep), |writer| {
        fill(writer, &question.topic, echo)
    });
    let answer = match sent.and_then(send) {
        Ok(()) => wait(&question, sleep),
        Err(error) => Err(error),
    };
    if answer.is_err() {
        MAPPER.lock().forget(&question);
    }
    answer
}

/// Waits for the answer.
fn wait(question: &Arc<Question>, sleep: &MaySleep) -> Result<Answer> {
    // An answer that comes at the last moment is there, too.
    let _ = question.answered.wait_timeout(TIMEOUT_MS, sleep);
    question.answer.lock().take().unwrap_or(Err(ETIMEDOUT))
}

/// Lets a port mapper that listens say where it is, unless that is known, or nobody has listened before.
///
/// # Errors
///
/// `ESRCH` where nobody listens; `ETIMEDOUT`.
#[inline(never)]
pub(super) fn register(names: &Names, sleep: &MaySleep) -> Result {
    {
        let mapper = MAPPER.lock();
        if mapper.registered == Registered::Yes || mapper.address == Address::Absent {
            return Ok(());
        }
    }
    let fill = |writer: &mut Writer<'_>, _: &Topic, echo| {
        writer.u32(c::IWPM_NLA_REG_PID_SEQ, echo)?;
        writer.bytes(c::IWPM_NLA_REG_IF_NAME, &names.interface)?;
        writer.bytes(c::IWPM_NLA_REG_IBDEV_NAME, &names.device)?;
        writer.bytes(c::IWPM_NLA_REG_ULIB_NAME, &LIBRARY)
    };
    let send = |message| {
        multicast(message, c::RDMA_NL_GROUP_IWPM, sleep).inspect_err(|_| {
            MAPPER.lock().address = Address::Absent;
        })
    };
    let device = names.device;
    ask(
        c::RDMA_NL_IWPM_REG_PID,
        Topic::Register { device },
        fill,
        send,
        sleep,
    )?;
    Ok(())
}

/// Sends a message to the port mapper, which is not there any more if that fails.
fn to_mapper(message: Message, sleep: &MaySleep) -> Result {
    let port = MAPPER.lock().port().ok_or(ENOENT)?;
    unicast(message, port.get(), Some(sleep)).inspect_err(|_| {
        let mut mapper = MAPPER.lock();
        // A new one may have come meanwhile.
        if mapper.port() == Some(port) {
            mapper.address = Address::Unknown;
        }
    })
}

/// Adds the flags of a mapping to a message, if its version has any.
fn put_flags(writer: &mut Writer<'_>, attr: u32, flags: u32) -> Result {
    let version = MAPPER.lock().version;
    match (version > WITHOUT_FLAGS, flags) {
        (true, flags) => writer.u32(attr, flags),
        (false, 0) => Ok(()),
        (false, _) => Err(EINVAL),
    }
}

/// Lets the port mapper map a local end.
///
/// # Errors
///
/// `EINVAL` for flags that the port mapper does not know, `ETIMEDOUT`, that of the port mapper.
#[inline(never)]
pub(super) fn add(local: &SockAddr, flags: u32, sleep: &MaySleep) -> Result<KBox<Mapped>> {
    let fill = |writer: &mut Writer<'_>, _: &Topic, echo| {
        writer.u32(c::IWPM_NLA_MANAGE_MAPPING_SEQ, echo)?;
        writer.bytes(c::IWPM_NLA_MANAGE_ADDR, local.as_bytes())?;
        put_flags(writer, c::IWPM_NLA_MANAGE_FLAGS, flags)
    };
    let topic = Topic::Add { local: *local };
    let send = |message| to_mapper(message, sleep);
    mapped(ask(c::RDMA_NL_IWPM_ADD_MAPPING, topic, fill, send, sleep)?)
}

/// Lets the port mapper map a local end, and ask for that of the peer. The errors are those of [`add`].
#[inline(never)]
pub(super) fn query(
    local: &SockAddr,
    remote: &SockAddr,
    flags: u32,
    sleep: &MaySleep,
) -> Result<KBox<Mapped>> {
    let fill = |writer: &mut Writer<'_>, _: &Topic, echo| {
        writer.u32(c::IWPM_NLA_QUERY_MAPPING_SEQ, echo)?;
        writer.bytes(c::IWPM_NLA_QUERY_LOCAL_ADDR, local.as_bytes())?;
        writer.bytes(c::IWPM_NLA_QUERY_REMOTE_ADDR, remote.as_bytes())?;
        put_flags(writer, c::IWPM_NLA_QUERY_FLAGS, flags)
    };
    let topic = Topic::Query {
        local: *local,
        remote: *remote,
    };
    let send = |message| to_mapper(message, sleep);
    mapped(ask(
        c::RDMA_NL_IWPM_QUERY_MAPPING,
        topic,
        fill,
        send,
        sleep,
    )?)
}

fn mapped(answer: Answer) -> Result<KBox<Mapped>> {
    match answer {
        Answer::Mapped(mapped) => Ok(mapped),
        Answer::Registered => Err(EINVAL),
    }
}

/// Lets the port mapper forget a local end. There is no answer.
pub(super) fn remove(local: &SockAddr, sleep: &MaySleep) {
    let (seq, echo) = {
        let mut mapper = MAPPER.lock();
        if mapper.port().is_none() || mapper.registered == Registered::No {
            return;
        }
        (mapper.next_seq(), mapper.echo)
    };
    let kind = iwpm_kind(c::RDMA_NL_IWPM_REMOVE_MAPPING);
    let message = Message::request(kind, seq, Gfp::kernel(sleep), |writer| {
        writer.u32(c::IWPM_NLA_MANAGE_MAPPING_SEQ, echo)?;
        writer.bytes(c::IWPM_NLA_MANAGE_ADDR, local.as_bytes())
    });
    // Nobody can be told.
    let _ = message.and_then(|message| to_mapper(message, sleep));
}

/// Sends a message to a port that has just sent one, which does not wait.
fn reply(
    op: u32,
    port: u32,
    fill: impl FnOnce(&mut Writer<'_>) -> Result,
    sleep: &MaySleep,
) -> Result {
    let seq = MAPPER.lock().next_seq();
    let message = Message::request(iwpm_kind(op), seq, Gfp::kernel(sleep), fill)?;
    unicast(message, port, None)
}

/// Says to a port mapper which version of the messages we have.
pub(super) fn say_hello(port: u32, version: u16, sleep: &MaySleep) -> Result {
    let fill = |writer: &mut Writer<'_>| writer.u16(c::IWPM_NLA_HELLO_ABI_VERSION, version);
    reply(c::RDMA_NL_IWPM_HELLO, port, fill, sleep)
}

/// Sends all mappings to a port mapper that has begun later than we, and how many they are.
pub(super) fn send_mappings(port: u32, sleep: &MaySleep) -> Result {
    let (records, version) = {
        let mapper = MAPPER.lock();
        (mapper.mappings()?, mapper.version)
    };
    if records.is_empty() {
        return Ok(());
    }
    let kind = iwpm_kind(c::RDMA_NL_IWPM_MAPINFO);
    for some in records.chunks(RECORDS_PER_PACKET) {
        let mut packet = Series::new(Gfp::kernel(sleep))?;
        for record in some {
            packet.add(kind, |writer| put_record(writer, record, version))?;
        }
        unicast(packet.end()?, port, None)?;
    }
    let count = u32::try_from(records.len()).unwrap_or(u32::MAX);
    let fill = |writer: &mut Writer<'_>| {
        writer.u32(c::IWPM_NLA_MAPINFO_SEQ, 0)?;
        writer.u32(c::IWPM_NLA_MAPINFO_SEND_NUM, count)
    };
    reply(c::RDMA_NL_IWPM_MAPINFO_NUM, port, fill, sleep)
}

fn put_record(writer: &mut Writer<'_>, record: &Record, version: u16) -> Result {
    writer.bytes(c::IWPM_NLA_MAPINFO_LOCAL_ADDR, record.local.as_bytes())?;
    writer.bytes(c::IWPM_NLA_MAPINFO_MAPPED_ADDR, record.mapped.as_bytes())?;
    match version > WITHOUT_FLAGS {
        true => writer.u32(c::IWPM_NLA_MAPINFO_FLAGS, record.flags),
        false => Ok(()),
    }
}
