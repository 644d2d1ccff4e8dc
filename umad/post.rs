// SPDX-License-Identifier: GPL-2.0

//! What `write()` sends: a header, and a MAD or a message of many segments.
//!
//! C headers: `include/uapi/rdma/ib_user_mad.h`, `include/rdma/ib_mad.h`.

use core::mem::offset_of;

use kernel::{prelude::*, uaccess::UserSliceReader};
use kernel_ext::bindings::{ib_mad_hdr, ib_rmpp_hdr, ETIMEDOUT, IB_MGMT_RMPP_FLAG_ACTIVE};
use rdma::{
    client::mad::{
        self,
        trace::{self, At},
        Message, HEADER, RMPP_HEADER,
    },
    MaySleep,
};

use crate::{
    agents::{Agent, Agents, Ticket, MAX},
    bytes::{part, set_part},
    header::Header,
    inbox::{Content, Packet},
    port::Port,
};

/// The beginning of a message, read once.
struct Start {
    header: Header,
    /// The headers that all MADs have, and those of RMPP in the classes that have one.
    mad: [u8; RMPP_HEADER],
    /// The number of bytes in the message, without the header of user space.
    length: usize,
}

impl Start {
    fn read(from: &mut UserSliceReader, agents: &Agents) -> Result<Self> {
        let layout = agents.shared().inbox.layout();
        let length = from.len().checked_sub(layout.size()).ok_or(EINVAL)?;
        if length < RMPP_HEADER {
            return Err(EINVAL);
        }
        let mut start = Self {
            header: Header::zeroed(),
            mad: [0; RMPP_HEADER],
            length,
        };
        from.read_slice(start.header.bytes_mut(layout))?;
        if start.header.id() as usize >= MAX {
            return Err(EINVAL);
        }
        from.read_slice(&mut start.mad)?;
        Ok(start)
    }

    fn byte(&self, at: usize) -> u8 {
        let [byte] = part(&self.mad, at);
        byte
    }

    fn class(&self) -> u8 {
        self.byte(offset_of!(ib_mad_hdr, mgmt_class))
    }

    /// Whether the RMPP header says that the message has segments.
    fn is_active(&self) -> bool {
        let flags = self.byte(HEADER + offset_of!(ib_rmpp_hdr, rmpp_rtime_flags));
        u32::from(flags) & IB_MGMT_RMPP_FLAG_ACTIVE != 0
    }

    /// The common header, where a request has the agent's own half of the transaction ID.
    fn common_header(&self, agent: &Agent) -> [u8; HEADER] {
        let mut header = part(&self.mad, 0);
        if !mad::is_response(&header) {
            let upper = agent.hi_tid().to_be_bytes();
            set_part(&mut header, offset_of!(ib_mad_hdr, tid), &upper);
        }
        header
    }
}

/// How a message is sent.
struct Form {
    /// Its class has an RMPP header.
    has_rmpp: bool,
    /// The layer executes RMPP for its agent, so that the header of RMPP is the layer's.
    by_layer: bool,
    /// It is sent in segments, by the layer.
    in_segments: bool,
}

impl Form {
    fn new(start: &Start, agent: &Agent) -> Self {
        let has_rmpp = mad::has_rmpp(start.class());
        let by_layer = has_rmpp && agent.has_kernel_rmpp();
        Self {
            has_rmpp,
            by_layer,
            in_segments: by_layer && start.is_active(),
        }
    }

    /// Segments that the program sends by itself have the transaction ID of their message in common.
    fn allows_duplicates(&self, start: &Start) -> bool {
        self.has_rmpp && !self.by_layer && start.is_active()
    }
}

/// Sends what a program writes: all bytes of `from`.
///
/// # Errors
///
/// `EFAULT`; `EINVAL` for a message that is too short or too long, for a number that no agent can have, and for a duplicate; `EIO` if
/// there is no such agent; `ENOMEM`, and those of the address.
pub(crate) fn write(
    port: &Port,
    agents: &Agents,
    mut from: UserSliceReader,
    sleep: &MaySleep,
) -> Result {
    let start = Start::read(&mut from, agents)?;
    let slots = agents.lock(sleep);
    let agent = slots.get(start.header.id()).ok_or(EIO)?;
    if let Some(device) = port.device() {
        let at = At {
            device: &device,
            port: port.number(),
        };
        trace::ib_umad_write(&at, start.header.all(), &part(&start.mad, 0));
    }
    let form = Form::new(&start, agent);
    let mad = start.common_header(agent);
    let message = compose(&start, agent, &form, &mad, &mut from, sleep)?;
    post(agents, &start, &form, mad, message, sleep)
}

/// Makes the message, and copies it from the program.
fn compose(
    start: &Start,
    agent: &Agent,
    form: &Form,
    mad: &[u8; HEADER],
    from: &mut UserSliceReader,
    sleep: &MaySleep,
) -> Result<Message<KBox<Ticket>>> {
    let address = agent.address(&start.header.address(), sleep)?;
    let headers = mad::data_offset(start.class());
    let layout = mad::Layout {
        remote_qpn: start.header.qp_num(),
        pkey_index: start.header.pkey_index(),
        is_rmpp: form.in_segments,
        headers,
        data: start.length.checked_sub(headers).ok_or(EINVAL)?,
        base_version: start.byte(offset_of!(ib_mad_hdr, base_version)),
    };
    let mut message = Message::new(address, &layout, sleep)?;
    message.set_patience(start.header.timeout_ms(), start.header.retries());
    let body = message.body();
    // The layer's own RMPP header stays.
    let known = if form.by_layer { HEADER } else { RMPP_HEADER };
    set_part(body, 0, start.mad.get(..known).unwrap_or(&[]));
    set_part(body, 0, mad);
    from.read_slice(body.get_mut(RMPP_HEADER..).unwrap_or(&mut []))?;
    message.fill_segments(|segment| from.read_slice(segment))?;
    Ok(message)
}

fn post(
    agents: &Agents,
    start: &Start,
    form: &Form,
    mad: [u8; HEADER],
    message: Message<KBox<Ticket>>,
    sleep: &MaySleep,
) -> Result {
    let mut unanswered = start.header;
    unanswered.set_status(ETIMEDOUT);
    let unanswered = Packet::new(unanswered, Content::Unanswered(mad))?;
    let under_way = &agents.shared().under_way;
    let ticket = KBox::<Ticket>::new_uninit(GFP_KERNEL)?;
    let serial = under_way.begin(&start.header, &mad, form.allows_duplicates(start))?;
    let ticket = ticket.write(Ticket { serial, unanswered });
    message.post(ticket, sleep).map_err(|(error, ticket)| {
        under_way.end(ticket.serial);
        error
    })
}
