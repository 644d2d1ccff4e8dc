// SPDX-License-Identifier: GPL-2.0

//! What is known of the port mapper, the mappings of our identifiers, and the peers that it has told us of.
//!
//! C headers: `include/rdma/iw_portmap.h`, `include/uapi/rdma/rdma_netlink.h`.
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `MAPPER` | the port mapper, the requests to it, the mappings and the peers | process context | `Question::answer`, the allocator |
//! | `Question::answer` | the answer of the port mapper | process context | nothing |

use core::num::NonZeroU32;

use kernel::{
    prelude::*,
    rbtree::{RBTree, RBTreeNode},
    sync::{Arc, Mutex},
};
use kernel_ext::{
    bindings,
    error::EAFNOSUPPORT,
    static_lock::static_lock,
    static_vec::StaticVec,
    sync::{new_mutex, Completion},
};
use rdma::core::iw::address::{Endpoint, SockAddr};

static_lock! {
    /// The port mapper.
    pub(crate) static MAPPER: Mutex<Mapper> = Mapper::new();
}

/// The most peers that the port mapper may tell us of in advance. One more replaces the oldest one.
const MOST_PEERS: usize = 1024;

/// Where the port mapper is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Address {
    /// Nobody knows.
    Unknown,
    /// Nobody has listened when it was looked for.
    Absent,
    /// At this netlink port.
    Port(NonZeroU32),
}

/// Whether the port mapper knows us.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Registered {
    /// It does not.
    No,
    /// It has said that it is there.
    Begun,
    /// It does.
    Yes,
}

/// The mapped end and the local end. A peer has both mapped ends.
type Pair = (Endpoint, Endpoint);

/// A mapping: how many identifiers have it, and its addresses and flags as the port mapper gets them.
struct MapInfo {
    count: u32,
    record: Record,
}

/// What the port mapper gets of a mapping.
#[derive(Clone, Copy)]
pub(super) struct Record {
    pub(super) local: SockAddr,
    pub(super) mapped: SockAddr,
    pub(super) flags: u32,
}

/// A peer that is about to connect.
struct Peer {
    remote: SockAddr,
    /// Which of all peers it is.
    nth: u64,
}

/// The port mapper, and what is known of it.
pub(crate) struct Mapper {
    pub(super) address: Address,
    pub(super) registered: Registered,
    pub(super) version: u16,
    /// The sequence number of its last message.
    pub(super) echo: u32,
    seq: u32,
    questions: StaticVec<Arc<Question>>,
    mappings: Option<RBTree<Pair, MapInfo>>,
    peers: Option<RBTree<Pair, Peer>>,
    peer_count: usize,
    next_peer: u64,
}

/// What the port mapper is asked for.
pub(super) enum Topic {
    /// To tell where it is.
    Register {
        /// The name of the device.
        device: [u8; bindings::IWPM_DEVNAME_SIZE as usize],
    },
    /// To map a local end.
    Add {
        /// The local end.
        local: SockAddr,
    },
    /// To map a local end, and to ask the port mapper of the peer for its mapping.
    Query {
        /// The local end.
        local: SockAddr,
        /// The end of the peer.
        remote: SockAddr,
    },
}

/// The ends of a connection as they are on the wire.
#[derive(Clone, Copy)]
pub(super) struct Mapped {
    pub(super) local: SockAddr,
    pub(super) remote: Option<SockAddr>,
}

/// What the port mapper has answered.
pub(super) enum Answer {
    /// It is there.
    Registered,
    /// A mapping.
    Mapped(KBox<Mapped>),
}

/// A request to the port mapper that it has not answered.
#[pin_data]
pub(super) struct Question {
    seq: u32,
    pub(super) topic: Topic,
    #[pin]
    pub(super) answered: Completion,
    #[pin]
    pub(super) answer: Mutex<Option<Result<Answer>>>,
}

impl Question {
    /// Answers it.
    pub(super) fn end(&self, answer: Result<Answer>) {
        *self.answer.lock() = Some(answer);
        self.answered.complete_all();
    }
}

impl Mapper {
    const fn new() -> Self {
        Self {
            address: Address::Unknown,
            registered: Registered::No,
            version: bindings::IWPM_UABI_VERSION_MIN as u16,
            echo: 0,
            seq: 0,
            questions: StaticVec::new(),
            mappings: None,
            peers: None,
            peer_count: 0,
            next_peer: 0,
        }
    }

    /// The port of the port mapper, if it is there.
    pub(super) fn port(&self) -> Option<NonZeroU32> {
        match self.address {
            Address::Port(port) => Some(port),
            Address::Unknown | Address::Absent => None,
        }
    }

    /// The next sequence number of a message.
    pub(super) fn next_seq(&mut self) -> u32 {
        self.seq = self.seq.wrapping_add(1);
        self.seq
    }

    /// Notes a request; returns it, and the sequence number of its message.
    pub(super) fn ask(&mut self, topic: Topic) -> Result<(Arc<Question>, u32)> {
        let seq = self.next_seq();
        let question = Arc::pin_init(
            pin_init!(Question {
                seq,
                topic,
                answered <- Completion::new(),
                answer <- new_mutex!(None, "Question::answer"),
            }),
            GFP_KERNEL,
        )?;
        self.questions.push(question.clone(), GFP_KERNEL)?;
        Ok((question, seq))
    }

    /// Takes the request with a sequence number, if `is_right` says that it is about the right thing.
    pub(super) fn take_question(
        &mut self,
        seq: u32,
        is_right: impl Fn(&Topic) -> bool,
    ) -> Option<Arc<Question>> {
        let mut all = self.questions.iter();
        let nth = all.position(|one| one.seq == seq && is_right(&one.topic))?;
        self.questions.remove(nth)
    }

    /// Forgets a request that is not waited for any more.
    pub(super) fn forget(&mut self, question: &Arc<Question>) {
        self.questions.retain(|one| !Arc::ptr_eq(one, question));
    }

    /// Notes a mapping of an identifier.
    ///
    /// # Errors
    ///
    /// `EAFNOSUPPORT` for other addresses than those of IP, `ENOMEM`.
    pub(super) fn add_mapping(&mut self, record: &Record) -> Result {
        let key = pair(&record.mapped, &record.local).ok_or(EAFNOSUPPORT)?;
        let all = self.mappings.get_or_insert_with(RBTree::new);
        if let Some(info) = all.get_mut(&key) {
            info.count = info.count.saturating_add(1);
            return Ok(());
        }
        let info = MapInfo {
            count: 1,
            record: *record,
        };
        all.try_create_and_insert(key, info, GFP_KERNEL)?;
        Ok(())
    }

    /// Forgets a mapping of an identifier.
    pub(super) fn remove_mapping(&mut self, record: &Record) {
        let (Some(key), Some(all)) = (pair(&record.mapped, &record.local), &mut self.mappings)
        else {
            return;
        };
        let Some(info) = all.get_mut(&key) else {
            return;
        };
        info.count = info.count.saturating_sub(1);
        if info.count == 0 {
            all.remove(&key);
        }
    }

    /// Copies all mappings.
    pub(super) fn mappings(&self) -> Result<KVVec<Record>> {
        let mut records = KVVec::new();
        for info in self.mappings.iter().flat_map(|all| all.values()) {
            records.push(info.record, GFP_KERNEL)?;
        }
        Ok(records)
    }

    /// Notes a peer that is about to connect: both ends on the wire, and where the peer really is.
    ///
    /// # Errors
    ///
    /// `EAFNOSUPPORT` for other addresses than those of IP, `ENOMEM`.
    pub(super) fn add_peer(
        &mut self,
        local: &SockAddr,
        mapped_remote: &SockAddr,
        remote: SockAddr,
    ) -> Result {
        let key = pair(local, mapped_remote).ok_or(EAFNOSUPPORT)?;
        let nth = self.next_peer;
        let node = RBTreeNode::new(key, Peer { remote, nth }, GFP_KERNEL)?;
        self.next_peer = nth.wrapping_add(1);
        let all = self.peers.get_or_insert_with(RBTree::new);
        if all.insert(node).is_some() {
            return Ok(());
        }
        self.peer_count = self.peer_count.saturating_add(1);
        if self.peer_count > MOST_PEERS {
            let oldest = all.iter().min_by_key(|(_, peer)| peer.nth);
            if let Some(key) = oldest.map(|(key, _)| *key) {
                all.remove(&key);
                self.peer_count = self.peer_count.saturating_sub(1);
            }
        }
        Ok(())
    }

    /// Takes a peer that has connected: where it really is.
    pub(super) fn take_peer(
        &mut self,
        local: &SockAddr,
        mapped_remote: &SockAddr,
    ) -> Option<SockAddr> {
        let key = pair(local, mapped_remote)?;
        let peer = self.peers.as_mut()?.remove(&key)?;
        self.peer_count = self.peer_count.saturating_sub(1);
        Some(peer.remote)
    }

    /// Forgets everything.
    pub(super) fn reset(&mut self) {
        *self = Self::new();
    }
}

/// Two ends, as a key.
fn pair(one: &SockAddr, other: &SockAddr) -> Option<Pair> {
    Some((one.endpoint()?, other.endpoint()?))
}
