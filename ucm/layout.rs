// SPDX-License-Identifier: GPL-2.0

//! The commands of programs as structures: each is read once, with the offsets of the header.
//!
//! C header: `include/uapi/rdma/rdma_user_cm.h`.

use core::mem::offset_of;

use kernel::transmute::FromBytes;
use kernel_ext::bindings;
use rdma_user_cm::{ConnParam, Ece, IbService, SocketAddress};

/// A member of a structure.
pub(crate) trait Field: Sized {
    /// Its size in bytes.
    const SIZE: usize;

    /// Reads it at an offset; zeros after the end.
    fn take(bytes: &[u8], at: usize) -> Self;
}

/// `N` bytes at the offset `at`; zeros after the end.
pub(crate) fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    found.copied().unwrap_or([0; N])
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Field for $type {
            const SIZE: usize = size_of::<Self>();

            fn take(bytes: &[u8], at: usize) -> Self {
                Self::from_ne_bytes(part(bytes, at))
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64);

impl<const N: usize> Field for [u8; N] {
    const SIZE: usize = N;

    fn take(bytes: &[u8], at: usize) -> Self {
        part(bytes, at)
    }
}

/// `struct sockaddr_storage`.
impl Field for SocketAddress {
    const SIZE: usize = SocketAddress::SIZE;

    fn take(bytes: &[u8], at: usize) -> Self {
        Self::new(bytes.get(at..).unwrap_or(&[]))
    }
}

/// `struct sockaddr_in6`, in which an IPv4 address may be.
pub(crate) struct IpAddress(SocketAddress);

impl IpAddress {
    const SIZE: usize = size_of::<bindings::sockaddr_in6>();

    /// The address.
    pub(crate) fn any(&self) -> SocketAddress {
        self.0
    }

    /// The size of the family's structure; 0 for a family that is not known, or has no room here.
    pub(crate) fn size(&self) -> usize {
        Some(self.0.size())
            .filter(|size| *size <= Self::SIZE)
            .unwrap_or(0)
    }
}

impl Field for IpAddress {
    const SIZE: usize = Self::SIZE;

    fn take(bytes: &[u8], at: usize) -> Self {
        let bytes: [u8; Self::SIZE] = part(bytes, at);
        Self(SocketAddress::new(&bytes))
    }
}

/// A structure of the header.
pub(crate) trait Layout: Sized {
    /// Its size in bytes.
    const SIZE: usize;
    /// An array of so many bytes.
    type Bytes: AsRef<[u8]> + AsMut<[u8]> + FromBytes;
    /// Zeros.
    const NONE: Self::Bytes;

    /// Reads it.
    fn read(bytes: &[u8]) -> Self;
}

/// Structures with the members that are used of them, which have the sizes that the header says.
macro_rules! layouts {
    ($($(#[$meta:meta])* $name:ident = $c:ident { $($member:ident: $type:ty,)* })*) => {$(
        $(#[$meta])*
        pub(crate) struct $name {
            $(pub(crate) $member: $type,)*
        }

        impl Layout for $name {
            const SIZE: usize = size_of::<bindings::$c>();
            type Bytes = [u8; size_of::<bindings::$c>()];
            const NONE: Self::Bytes = [0; size_of::<bindings::$c>()];

            fn read(bytes: &[u8]) -> Self {
                Self {
                    $($member: <$type as Field>::take(bytes, offset_of!(bindings::$c, $member)),)*
                }
            }
        }

        const _: () = {
            const fn size_of_member<S, F>(_member: fn(&S) -> &F) -> usize {
                size_of::<F>()
            }
            $(assert!(
                size_of_member::<bindings::$c, _>(|from| &from.$member) == <$type as Field>::SIZE
            );)*
        };
    )*};
}

layouts! {
    /// The head of a command.
    Head = rdma_ucm_cmd_hdr { cmd: u32, in_: u16, out: u16, }
    /// `RDMA_USER_CM_CMD_CREATE_ID`.
    CreateId = rdma_ucm_create_id { uid: u64, response: u64, ps: u16, qp_type: u8, }
    /// `RDMA_USER_CM_CMD_DESTROY_ID`, and `RDMA_USER_CM_CMD_LEAVE_MCAST`.
    DestroyId = rdma_ucm_destroy_id { response: u64, id: u32, }
    /// `RDMA_USER_CM_CMD_MIGRATE_ID`.
    MigrateId = rdma_ucm_migrate_id { response: u64, id: u32, fd: u32, }
    /// `RDMA_USER_CM_CMD_BIND_IP`.
    BindIp = rdma_ucm_bind_ip { addr: IpAddress, id: u32, }
    /// `RDMA_USER_CM_CMD_BIND`.
    Bind = rdma_ucm_bind { id: u32, addr_size: u16, reserved: u16, addr: SocketAddress, }
    /// `RDMA_USER_CM_CMD_RESOLVE_IP`.
    ResolveIp = rdma_ucm_resolve_ip {
        src_addr: IpAddress, dst_addr: IpAddress, id: u32, timeout_ms: u32,
    }
    /// `RDMA_USER_CM_CMD_RESOLVE_ADDR`.
    ResolveAddr = rdma_ucm_resolve_addr {
        id: u32, timeout_ms: u32, src_size: u16, dst_size: u16, reserved: u32,
        src_addr: SocketAddress, dst_addr: SocketAddress,
    }
    /// `RDMA_USER_CM_CMD_RESOLVE_ROUTE`.
    ResolveRoute = rdma_ucm_resolve_route { id: u32, timeout_ms: u32, }
    /// `RDMA_USER_CM_CMD_RESOLVE_IB_SERVICE`.
    ResolveIbService = rdma_ucm_resolve_ib_service { id: u32, ibs: IbService, }
    /// `RDMA_USER_CM_CMD_QUERY`, and `RDMA_USER_CM_CMD_QUERY_ROUTE`.
    Query = rdma_ucm_query { response: u64, id: u32, option: u32, }
    /// `RDMA_USER_CM_CMD_CONNECT`.
    Connect = rdma_ucm_connect { conn_param: Params, id: u32, ece: Ece, }
    /// `RDMA_USER_CM_CMD_LISTEN`.
    Listen = rdma_ucm_listen { id: u32, backlog: u32, }
    /// `RDMA_USER_CM_CMD_ACCEPT`.
    Accept = rdma_ucm_accept { uid: u64, conn_param: Params, id: u32, ece: Ece, }
    /// `RDMA_USER_CM_CMD_REJECT`.
    Reject = rdma_ucm_reject {
        id: u32, private_data_len: u8, reason: u8, private_data: [u8; 256],
    }
    /// `RDMA_USER_CM_CMD_DISCONNECT`.
    Disconnect = rdma_ucm_disconnect { id: u32, }
    /// `RDMA_USER_CM_CMD_INIT_QP_ATTR`.
    InitQpAttr = rdma_ucm_init_qp_attr { response: u64, id: u32, qp_state: u32, }
    /// `RDMA_USER_CM_CMD_GET_EVENT`.
    GetEvent = rdma_ucm_get_event { response: u64, }
    /// `RDMA_USER_CM_CMD_SET_OPTION`.
    SetOption = rdma_ucm_set_option { optval: u64, id: u32, level: u32, optname: u32, optlen: u32, }
    /// `RDMA_USER_CM_CMD_NOTIFY`.
    Notify = rdma_ucm_notify { id: u32, event: u32, }
    /// `RDMA_USER_CM_CMD_JOIN_IP_MCAST`.
    JoinIpMcast = rdma_ucm_join_ip_mcast { response: u64, uid: u64, addr: IpAddress, id: u32, }
    /// `RDMA_USER_CM_CMD_JOIN_MCAST`.
    JoinMcast = rdma_ucm_join_mcast {
        response: u64, uid: u64, id: u32, addr_size: u16, join_flags: u16, addr: SocketAddress,
    }
    /// `RDMA_USER_CM_CMD_WRITE_CM_EVENT`; the parameter is its first eight bytes.
    WriteCmEvent = rdma_ucm_write_cm_event { id: u32, event: u32, status: u32, param: EventParam, }
}

/// The parameters of a connection, if they are valid.
pub(crate) struct Params(pub(crate) Option<ConnParam>);

impl Field for Params {
    const SIZE: usize = size_of::<bindings::rdma_ucm_conn_param>();

    fn take(bytes: &[u8], at: usize) -> Self {
        use bindings::rdma_ucm_conn_param as C;
        let byte = |member: usize| u8::take(bytes, at.saturating_add(member));
        let word = |member: usize| u32::take(bytes, at.saturating_add(member));
        let param = ConnParam {
            qp_num: word(offset_of!(C, qp_num)),
            qkey: word(offset_of!(C, qkey)),
            private_data: part(bytes, at.saturating_add(offset_of!(C, private_data))),
            private_data_len: byte(offset_of!(C, private_data_len)),
            srq: byte(offset_of!(C, srq)),
            responder_resources: byte(offset_of!(C, responder_resources)),
            initiator_depth: byte(offset_of!(C, initiator_depth)),
            flow_control: byte(offset_of!(C, flow_control)),
            retry_count: byte(offset_of!(C, retry_count)),
            rnr_retry_count: byte(offset_of!(C, rnr_retry_count)),
        };
        Self((byte(offset_of!(C, valid)) != 0).then_some(param))
    }
}

impl Field for Ece {
    const SIZE: usize = size_of::<bindings::rdma_ucm_ece>();

    fn take(bytes: &[u8], at: usize) -> Self {
        use bindings::rdma_ucm_ece as C;
        Self {
            vendor_id: u32::take(bytes, at.saturating_add(offset_of!(C, vendor_id))),
            attr_mod: u32::take(bytes, at.saturating_add(offset_of!(C, attr_mod))),
        }
    }
}

impl Field for IbService {
    const SIZE: usize = size_of::<bindings::rdma_ucm_ib_service>();

    fn take(bytes: &[u8], at: usize) -> Self {
        use bindings::rdma_ucm_ib_service as C;
        Self {
            service_id: u64::take(bytes, at.saturating_add(offset_of!(C, service_id))),
            service_name: part(bytes, at.saturating_add(offset_of!(C, service_name))),
            flags: u32::take(bytes, at.saturating_add(offset_of!(C, flags))),
        }
    }
}

/// The parameter of an event that a program writes.
pub(crate) struct EventParam(pub(crate) u64);

impl Field for EventParam {
    const SIZE: usize = size_of::<bindings::rdma_ucm_write_cm_event__bindgen_ty_1>();

    fn take(bytes: &[u8], at: usize) -> Self {
        Self(u64::take(bytes, at))
    }
}
