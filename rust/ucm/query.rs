// SPDX-License-Identifier: GPL-2.0

//! What the connection manager knows of an identifier's addresses and routes, in the layouts of programs.
//!
//! C headers: `include/rdma/rdma_cm.h`, `include/uapi/rdma/rdma_user_cm.h`.

use core::{
    cell::UnsafeCell,
    mem::offset_of,
    ptr::{null_mut, NonNull},
};

use kernel::transmute::AsBytes;
use rdma::{
    bindings::{
        self, __kernel_sockaddr_storage, ib_gid, ib_path_rec_data, ib_qp_attr, ib_user_path_rec,
        ib_user_service_rec, ib_uverbs_qp_attr, rdma_dev_addr, rdma_route,
        rdma_ucm_query_addr_resp, rdma_ucm_query_route_resp, sa_path_rec, sa_service_rec,
        sockaddr_ib, sockaddr_in, sockaddr_in6,
    },
    core::Device,
};

use crate::{live::Live, SocketAddress};

/// The size of a path in bytes: `struct ib_path_rec_data`.
pub const PATH_SIZE: usize = size_of::<ib_path_rec_data>();

/// The size of a path record as on the wire, in bytes.
pub const PATH_RECORD: usize = 64;

/// The size of a service in bytes: `struct ib_user_service_rec`.
pub const SERVICE_SIZE: usize = size_of::<ib_user_service_rec>();

const _: () = assert!(size_of::<sa_service_rec>() == SERVICE_SIZE);

/// A structure of the ABI that is given to a program.
///
/// # Invariants
///
/// All its bytes are initialised: it was zeroed, and what was written since then has no padding.
pub struct Answer<T>(T);

// SAFETY: By the type invariants; nothing in a structure of the ABI changes through a shared reference.
unsafe impl<T> AsBytes for Answer<T> {}

impl Answer<ib_uverbs_qp_attr> {
    pub(crate) fn of_qp_attr(device: Option<&Device>, mask: u32, attr: &mut ib_qp_attr) -> Self {
        let mut to: ib_uverbs_qp_attr = pin_init::zeroed();
        to.qp_attr_mask = mask;
        let device = device.map_or(null_mut(), Device::as_raw);
        // SAFETY: All are valid during the call.
        unsafe { bindings::ib_copy_qp_attr_to_user(device, &mut to, attr) };
        Self(to)
    }
}

/// The addresses and the route of an identifier. What the connection manager has not finished may be read in part.
///
/// # Invariants
///
/// No other call of the identifier is made for `'a`.
pub struct Route<'a>(Live<'a>);

impl<'a> Route<'a> {
    /// # Safety
    ///
    /// No other call of the identifier is made for `'a`.
    pub(crate) unsafe fn new(id: Live<'a>) -> Self {
        // INVARIANT: By the safety requirements.
        Self(id)
    }

    fn raw(&self) -> *mut rdma_route {
        // SAFETY: The identifier is valid.
        unsafe { &raw mut (*self.0.raw()).route }
    }

    fn dev_addr(&self) -> *mut rdma_dev_addr {
        // SAFETY: The identifier is valid.
        unsafe { &raw mut (*self.raw()).addr.dev_addr }
    }

    /// The local address; of the family 0 if there is none.
    pub fn source(&self) -> SocketAddress {
        // SAFETY: The identifier is valid, whose address has room for any family. In Rust `show_addresses` alone writes to it, by `store`.
        unsafe { SocketAddress::read((&raw const (*self.raw()).addr.src_addr).cast()) }
    }

    /// The address of the peer; of the family 0 if there is none.
    pub fn destination(&self) -> SocketAddress {
        // SAFETY: The identifier is valid, whose address has room for any family. In Rust `show_addresses` alone writes to it, by `store`.
        unsafe { SocketAddress::read((&raw const (*self.raw()).addr.dst_addr).cast()) }
    }

    fn pkey(&self) -> u16 {
        // SAFETY: The identifier is valid.
        unsafe { bindings::ib_addr_get_pkey(self.dev_addr()) }.to_be()
    }

    /// The paths that are known: at most a primary and an alternate one.
    fn path_records(&self) -> (u32, &[UnsafeCell<sa_path_rec>]) {
        // SAFETY: By the type invariants. The connection manager allocates as many records as it counts. It frees them with the
        // identifier, or in a call, and there is no other one.
        unsafe {
            let count = (&raw const (*self.raw()).num_pri_alt_paths).read_volatile();
            let first = (&raw const (*self.raw()).path_rec).read_volatile();
            let count = u32::try_from(count).unwrap_or(0);
            let records = match NonNull::new(first) {
                Some(first) => core::slice::from_raw_parts(first.as_ptr().cast(), count as usize),
                None => &[],
            };
            (count, records)
        }
    }

    /// `struct rdma_ucm_query_route_resp`.
    pub fn answer(&self) -> Answer<rdma_ucm_query_route_resp> {
        let mut to: rdma_ucm_query_route_resp = pin_init::zeroed();
        to.src_addr = ip_address(&self.source());
        to.dst_addr = ip_address(&self.destination());
        if let Some(device) = self.0.device() {
            to.node_guid = u64::from_ne_bytes(device.node_guid());
            to.ibdev_index = device.index();
            let port = self.0.port();
            to.port_num = port as u8;
            let caps = device.port_caps(port);
            if caps & bindings::RDMA_CORE_CAP_IB_SA != 0 {
                self.fill(&mut to, |first| {
                    self.fill_gids(first);
                    first.pkey = self.pkey();
                });
            } else if device.is_roce(port) {
                self.fill(&mut to, |first| {
                    first.sgid = ip_gid(&self.source());
                    first.dgid = ip_gid(&self.destination());
                    first.pkey = u16::MAX;
                });
            } else if device.is_iwarp(port) {
                let [first, _] = &mut to.ib_route;
                self.fill_gids(first);
            }
        }
        Answer(to)
    }

    /// Fills in the paths; without one, what is known of the first.
    fn fill(
        &self,
        to: &mut rdma_ucm_query_route_resp,
        without: impl FnOnce(&mut ib_user_path_rec),
    ) {
        let (count, records) = self.path_records();
        to.num_paths = count;
        if count == 0 {
            let [first, _] = &mut to.ib_route;
            without(first);
            return;
        }
        for (to, record) in to.ib_route.iter_mut().zip(records) {
            // SAFETY: Both are valid during the call, which copies.
            unsafe { bindings::ib_copy_path_rec_to_user(to, record.get()) };
        }
    }

    /// The GIDs of an InfiniBand port's addresses.
    fn fill_gids(&self, to: &mut ib_user_path_rec) {
        let (mut source, mut destination) = (ib_gid { raw: [0; 16] }, ib_gid { raw: [0; 16] });
        // SAFETY: The identifier is valid; both results are valid for writes, and any bytes are a GID.
        unsafe {
            bindings::rdma_addr_get_sgid(self.dev_addr(), &mut source);
            bindings::rdma_addr_get_dgid(self.dev_addr(), &mut destination);
            to.sgid = source.raw;
            to.dgid = destination.raw;
        }
    }

    fn start(&self) -> rdma_ucm_query_addr_resp {
        let mut to: rdma_ucm_query_addr_resp = pin_init::zeroed();
        if let Some(device) = self.0.device() {
            to.node_guid = u64::from_ne_bytes(device.node_guid());
            to.ibdev_index = device.index();
            to.port_num = self.0.port() as u8;
            to.pkey = self.pkey();
        }
        to
    }

    /// The addresses: `struct rdma_ucm_query_addr_resp`.
    pub fn addresses(&self) -> Answer<rdma_ucm_query_addr_resp> {
        let mut to = self.start();
        let (source, destination) = (self.source(), self.destination());
        to.src_size = source.size() as u16;
        to.dst_size = destination.size() as u16;
        to.src_addr = storage(&source);
        to.dst_addr = storage(&destination);
        Answer(to)
    }

    /// The addresses as GIDs, of the family `AF_IB`.
    pub fn gids(&self) -> Answer<rdma_ucm_query_addr_resp> {
        let mut to = self.start();
        let (mut source, mut destination) = (ib_gid { raw: [0; 16] }, ib_gid { raw: [0; 16] });
        // SAFETY: The identifier is valid; both results are valid for writes, and any bytes are a GID.
        let (source, destination) = unsafe {
            bindings::rdma_read_gids(self.0.raw(), &mut source, &mut destination);
            (source.raw, destination.raw)
        };
        to.src_size = size_of::<sockaddr_ib>() as u16;
        to.dst_size = to.src_size;
        to.src_addr = storage(&self.as_ib(self.source(), source, to.pkey));
        to.dst_addr = storage(&self.as_ib(self.destination(), destination, to.pkey));
        Answer(to)
    }

    /// An address of the family `AF_IB` as it is, another one as the GID that it has.
    fn as_ib(&self, mut address: SocketAddress, gid: [u8; 16], pkey: u16) -> SocketAddress {
        if address.family() == bindings::AF_IB as u16 {
            return address;
        }
        // SAFETY: The identifier is valid; the address has room for any family, and is read.
        let service = unsafe { bindings::rdma_get_service_id(self.0.raw(), address.as_raw()) };
        let mut bytes = [0; SocketAddress::SIZE];
        let mut put = |at: usize, part: &[u8]| {
            for (to, byte) in bytes.iter_mut().skip(at).zip(part) {
                *to = *byte;
            }
        };
        put(
            offset_of!(sockaddr_ib, sib_family),
            &(bindings::AF_IB as u16).to_ne_bytes(),
        );
        put(offset_of!(sockaddr_ib, sib_pkey), &pkey.to_ne_bytes());
        put(offset_of!(sockaddr_ib, sib_addr), &gid);
        put(offset_of!(sockaddr_ib, sib_sid), &service.to_ne_bytes());
        SocketAddress::new(&bytes)
    }

    /// How many paths there are, and the first `room` of them: `struct ib_path_rec_data`.
    pub fn paths(&self, room: usize) -> (u32, impl Iterator<Item = Answer<ib_path_rec_data>> + '_) {
        let (count, records) = self.path_records();
        let paths = records.iter().take(room).map(|record| {
            let mut to: ib_path_rec_data = pin_init::zeroed();
            to.flags =
                bindings::IB_PATH_GMP | bindings::IB_PATH_PRIMARY | bindings::IB_PATH_BIDIRECTIONAL;
            // SAFETY: The record is valid, and is read; the result has the size of a packed one.
            unsafe {
                bindings::sa_path_pack(record.get(), to.path_rec.as_mut_ptr().cast());
            }
            Answer(to)
        });
        (count, paths)
    }

    /// The services of the fabric that were found: `struct ib_user_service_rec`; `None` before they were looked up.
    pub fn services(&self) -> Option<&'a [[u8; SERVICE_SIZE]]> {
        // SAFETY: The identifier is valid. The connection manager allocates as many records as it counts, before it tells that it has
        // them, and frees them with the identifier alone. The structure has no padding.
        unsafe {
            let first = (&raw const (*self.raw()).service_recs).read_volatile();
            let count = (&raw const (*self.raw()).num_service_recs).read_volatile();
            let first = NonNull::new(first)?;
            Some(core::slice::from_raw_parts(
                first.as_ptr().cast(),
                count as usize,
            ))
        }
    }
}

/// An IP address in the place of `struct sockaddr_in6`.
fn ip_address(from: &SocketAddress) -> sockaddr_in6 {
    let mut to: sockaddr_in6 = pin_init::zeroed();
    let length = match from.family().into() {
        bindings::AF_INET => size_of::<sockaddr_in>(),
        _ => size_of::<sockaddr_in6>(),
    };
    // SAFETY: Both are valid for `length` bytes, and any bytes are such a structure.
    unsafe {
        let to: *mut u8 = (&raw mut to).cast();
        core::ptr::copy_nonoverlapping(from.bytes().as_ptr(), to, length);
    }
    to
}

fn storage(from: &SocketAddress) -> __kernel_sockaddr_storage {
    // SAFETY: The sizes are equal, and any bytes are such a structure.
    unsafe { core::mem::transmute::<SocketAddress, __kernel_sockaddr_storage>(only_known(from)) }
}

/// An address without what is behind its family's structure.
fn only_known(from: &SocketAddress) -> SocketAddress {
    SocketAddress::new(from.bytes().get(..from.size()).unwrap_or(&[]))
}

/// The GID of an IP address: the address itself, of IPv4 as it is mapped to IPv6.
fn ip_gid(from: &SocketAddress) -> [u8; 16] {
    let mut gid = [0; 16];
    let bytes = from.bytes();
    match from.family().into() {
        bindings::AF_INET => {
            let at = offset_of!(sockaddr_in, sin_addr);
            let mapped = [0xff, 0xff].iter().chain(bytes.iter().skip(at).take(4));
            gid.iter_mut()
                .skip(10)
                .zip(mapped)
                .for_each(|(to, byte)| *to = *byte);
        }
        bindings::AF_INET6 => {
            let at = offset_of!(sockaddr_in6, sin6_addr);
            gid.iter_mut()
                .zip(bytes.iter().skip(at))
                .for_each(|(to, byte)| *to = *byte);
        }
        _ => {}
    }
    gid
}
