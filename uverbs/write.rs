// SPDX-License-Identifier: GPL-2.0

//! Parsing and dispatch of write commands. A header has the command and the lengths of request and response:
//!
//! | | header | lengths | the response goes to |
//! |---|---|---|---|
//! | command | `struct ib_uverbs_cmd_hdr` | words of 4 bytes, with the header | the address that the request begins with |
//! | extended command | that and `struct ib_uverbs_ex_cmd_hdr` | words of 8 bytes, without; the driver's separately | the address in the header |
//!
//! C header: `include/uapi/rdma/ib_user_verbs.h`.

use kernel::{prelude::*, uaccess::UserPtr};
use kernel_ext::bindings as c;
use rdma::MaySleep;
use rdma_uverbs::{
    definition::WriteMethod,
    file::File,
    lookup::Acquired,
    node::Node,
    request::Bytes,
    write::{Command, Span, Spans},
};

/// The length of the header of all commands.
const HEADER: usize = size_of::<c::ib_uverbs_cmd_hdr>();

/// The length of the header of extended commands.
const EXTENDED_HEADER: usize = HEADER + size_of::<c::ib_uverbs_ex_cmd_hdr>();

/// Runs a command. Returns its length in bytes.
///
/// # Errors
///
/// `EINVAL` for lengths that are inconsistent, `ENOSPC` for lengths that are too short, `EOPNOTSUPP` for a command that does not
/// exist, `EFAULT`; those of the command.
pub(crate) fn write(file: &File, from: UserPtr, len: usize, sleep: &MaySleep) -> Result<usize> {
    if len < HEADER {
        return Err(EINVAL);
    }
    let whole = Span { at: from, len };
    let bytes = Bytes::new(from, len);
    let header: c::ib_uverbs_cmd_hdr = bytes.get(0)?;
    let node = Node::of(file);
    let method = node.api().write_method(header.command)?;
    let spans = if method.is_ex {
        extended(whole, &bytes, &header)?
    } else {
        plain(whole, &bytes, &header, method)?
    };

    let _device_stays = node.access();
    let command = Command::new(file, &spans);
    // SAFETY: The method is from the API of the file's device, and `_device_stays` holds `disassociate_srcu`.
    let result = unsafe { method.call(command.bundle(), sleep) };
    if let Some(object) = Acquired::completed(command.bundle()) {
        object.finish(true, result.is_ok(), sleep);
    }
    result.map(|()| len)
}

/// The buffers of a command. Its request begins with the address of the response, if there is one.
fn plain(
    whole: Span,
    bytes: &Bytes<'_>,
    header: &c::ib_uverbs_cmd_hdr,
    method: &WriteMethod,
) -> Result<Spans> {
    let in_bytes = |words: u16| usize::from(words) * size_of::<u32>();
    if in_bytes(header.in_words) != whole.len {
        return Err(EINVAL);
    }
    let (_, mut sent) = whole.split(HEADER);
    let mut room = in_bytes(header.out_words);
    let (request, response) = (method.req_size.into(), method.resp_size.into());
    if sent.len < request {
        // The libraries of two releases send a length that is too short for this command, though they send all bytes.
        if header.command != c::IB_USER_VERBS_CMD_DESTROY_CQ || whole.len != 16 {
            return Err(ENOSPC);
        }
        sent.len = request;
    } else if room < response {
        return Err(ENOSPC);
    }
    let mut to = UserPtr::from_addr(0);
    if method.has_resp {
        to = UserPtr::from_addr(bytes.get::<u64>(HEADER)? as usize);
    } else if method.has_udata {
        room = 0;
    }
    let room = Span { at: to, len: room };
    let (mut spans, rest) = (
        Spans {
            request: sent,
            response: room,
            driver_request: sent.split(sent.len).1,
            driver_response: room.split(room.len).1,
        },
        (sent.split(request), room.split(response)),
    );
    if method.has_udata {
        (
            (spans.request, spans.driver_request),
            (spans.response, spans.driver_response),
        ) = rest;
    }
    Ok(spans)
}

/// The buffers of an extended command: the driver's follow those of the core.
fn extended(whole: Span, bytes: &Bytes<'_>, header: &c::ib_uverbs_cmd_hdr) -> Result<Spans> {
    if whole.len < EXTENDED_HEADER {
        return Err(EINVAL);
    }
    let more: c::ib_uverbs_ex_cmd_hdr = bytes.get(HEADER)?;
    let in_bytes = |words: u16| usize::from(words) * size_of::<u64>();
    let (_, sent) = whole.split(EXTENDED_HEADER);
    let request = in_bytes(header.in_words);
    if request + in_bytes(more.provider_in_words) != sent.len || more.cmd_hdr_reserved != 0 {
        return Err(EINVAL);
    }
    let response = in_bytes(header.out_words);
    let room = Span {
        at: UserPtr::from_addr(more.response as usize),
        len: response + in_bytes(more.provider_out_words),
    };
    if (more.response == 0) != (room.len == 0) {
        return Err(EINVAL);
    }
    if !room.is_user() {
        return Err(EFAULT);
    }
    let (request, driver_request) = sent.split(request);
    let (response, driver_response) = room.split(response);
    Ok(Spans {
        request,
        response,
        driver_request,
        driver_response,
    })
}
