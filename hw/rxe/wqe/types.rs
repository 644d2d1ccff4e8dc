// SPDX-License-Identifier: GPL-2.0

//! Work requests in kernel memory, as the engine takes them.

use crate::ah::{Ah, Av};
use crate::limits;
use crate::mr::Mr;
use crate::mw::BindInfo;
use kernel::sync::Arc;
use rdma::ProviderData;
use roce::memory::{SendOp, SendWr};
use roce::state::{Service, WcStatus};
use roce::wire::Srqn;

/// A driver whose memory regions and address handles are those of this device; its consumers' requests refer to them.
pub(crate) trait Objects: ProviderData<Mr = Arc<Mr>, Ah = Arc<Ah>> {}

impl<P: ProviderData<Mr = Arc<Mr>, Ah = Arc<Ah>>> Objects for P {}

/// Limits of a queue's requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The transport service.
    pub(crate) service: Service,
    /// Maximum number of scatter/gather elements.
    pub(crate) max_sge: u32,
    /// Maximum length of inline data, in bytes.
    pub(crate) max_inline: u32,
}

impl Limits {
    /// Maximum size of the list or inline data of a request, in bytes.
    pub(crate) fn data_len(&self) -> usize {
        (self.max_sge as usize * limits::SGE).max(self.max_inline as usize)
    }
}

/// The local part of an operation; see [`roce::memory::SendOps::local`].
pub(crate) enum Local {
    /// None: the request is sent.
    None,
    /// Invalidates a key.
    Invalidate(u32),
    /// Binds a memory window.
    Bind(BindInfo),
    /// Registers a fast registration region of a kernel consumer with a new key.
    Register {
        /// The region.
        mr: Arc<Mr>,
        /// Its new key.
        key: u32,
        /// Access flags of the key.
        access: rdma::Access,
        /// The address of its first byte.
        iova: u64,
    },
}

/// Location of a send request's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    /// Inline data.
    Inline,
    /// A list of this many elements.
    List(u32),
}

/// A send request in kernel memory. [`Slots`] has its list or inline data.
pub(crate) struct SendWqe {
    /// The ID in its completion.
    pub(crate) wr_id: u64,
    /// The request for the protocol.
    pub(crate) wr: SendWr,
    /// Location of the data.
    pub(crate) data: Data,
    /// Destination of a datagram.
    pub(crate) av: Option<Arc<Av>>,
    /// Local part of the operation.
    pub(crate) local: Local,
}

impl SendWqe {
    /// A request that fails with `status`.
    pub(crate) fn invalid(wr_id: u64, status: WcStatus) -> Self {
        Self {
            wr_id,
            wr: SendWr {
                op: SendOp::Invalid(status),
                length: 0,
                signaled: true,
                solicited: false,
                fence: false,
                srqn: Srqn::default(),
            },
            data: Data::List(0),
            av: None,
            local: Local::None,
        }
    }

    /// Lets the request fail with `status`, as an invalid one.
    pub(crate) fn fail(&mut self, status: WcStatus) {
        self.wr.op = SendOp::Invalid(status);
    }
}

/// A receive request in kernel memory.
pub(crate) struct RecvWqe {
    /// The ID in its completion.
    pub(crate) wr_id: u64,
    /// Number of elements, or the status of an invalid request.
    pub(crate) num_sge: Result<u32, WcStatus>,
}
