// SPDX-License-Identifier: GPL-2.0

//! Messages that wait with their port until the address of their sender is found: requests, and those for nobody that are answered.
//!
//! C header: `include/rdma/ib_cm.h`.

use ib_cm_protocol::{counters::Group, field::Data, remote::sender_id};
use kernel::sync::Arc;
use kernel_ext::sleepable;
use rdma::{client::mad::Received, MaySleep};

use crate::{
    id::QUEUE,
    port::Port,
    requests::Mark,
    send::{data_of, header_of, Header},
};

/// The parts of a message; `None` if it is too short.
pub(crate) fn parts_of(received: &Received) -> Option<(Header, &Data)> {
    Some((header_of(received.bytes())?, data_of(received.bytes())?))
}

/// Lets a message wait. One that waits already is counted.
pub(crate) fn seek(port: &Arc<Port>, received: Received, sleep: &MaySleep) {
    let Some((header, data)) = parts_of(&received) else {
        return;
    };
    let attribute = header.attribute;
    let mark = Mark {
        origin: received.origin(),
        attribute,
        transaction: header.transaction,
        comm_id: sender_id(data),
    };
    let is_new = port.wait(received, mark, sleep, |search| {
        let _ = QUEUE.with(|queue| sleepable::enqueue(queue, search));
    });
    if !is_new {
        port.count(Group::Duplicates, attribute, 1);
    }
}
