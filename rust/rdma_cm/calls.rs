// SPDX-License-Identifier: GPL-2.0

//! The calls of an identifier, for whoever has it: `struct rdma_cm_id`.
//!
//! C header: `include/rdma/rdma_cm.h`.

use core::{
    marker::PhantomData,
    ptr::{null_mut, NonNull},
};

use kernel::{
    error::{from_err_ptr, to_result},
    ffi::{c_int, c_ulong, c_void},
    prelude::*,
    types::Opaque,
};
use kernel_ext::{error::EOPNOTSUPP, net::ns::NetNamespace};
use rdma::{
    abi::qp::QpAttrMask,
    bindings::{self, ib_qp_attr, rdma_cm_event, rdma_cm_id, rdma_conn_param},
    client::{
        qp::{Qp, State},
        Device,
    },
    core::Device as DeviceView,
    MaySleep,
};

use crate::{membership::Membership, space::PortSpace, Address, Ece, Options, Reason};

/// What a client connects or accepts with.
pub(crate) struct Asked {
    pub(crate) param: rdma_conn_param,
    pub(crate) ece: Ece,
}

/// An identifier that a client of a device has: a view of the C structure.
#[repr(transparent)]
pub(crate) struct Calls<'d, K>(Opaque<rdma_cm_id>, PhantomData<fn(&'d (), K) -> &'d ()>);

// SAFETY: Identifiers may be used from several threads at once.
unsafe impl<K> Sync for Calls<'_, K> {}

/// The C entry point of events: `rdma_cm_event_handler`.
pub(crate) type EventHandler = unsafe extern "C" fn(*mut rdma_cm_id, *mut rdma_cm_event) -> c_int;

/// Creates an identifier in a network namespace, with its options.
///
/// # Errors
///
/// `ENOMEM`, and `EINVAL` for options that are out of range.
///
/// # Safety
///
/// The handler may be called with the context until the identifier is destroyed.
pub(crate) unsafe fn create<K: PortSpace>(
    owner: &'static CStr,
    net: &NetNamespace,
    options: &Options,
    handler: EventHandler,
    context: *mut c_void,
) -> Result<NonNull<rdma_cm_id>> {
    // SAFETY: By the safety requirements. The identifier holds a reference to the namespace; the name is constant.
    let raw = unsafe {
        bindings::__rdma_create_kernel_id(
            net.as_raw(),
            Some(handler),
            context,
            K::SPACE,
            K::QP_TYPE,
            owner.as_char_ptr(),
        )
    };
    let raw = NonNull::new(from_err_ptr(raw)?).ok_or(ENOMEM)?;
    // SAFETY: The identifier is valid. Nobody else has it, and it has no handler that runs.
    unsafe {
        options
            .apply(raw)
            .inspect_err(|_| bindings::rdma_destroy_id(raw.as_ptr()))?;
    }
    Ok(raw)
}

impl<'d, K: PortSpace> Calls<'d, K> {
    /// # Safety
    ///
    /// The identifier is of this port space, and valid for `'a`.
    pub(crate) unsafe fn from_raw<'a>(raw: NonNull<rdma_cm_id>) -> &'a Self {
        // SAFETY: By the safety requirements; the type is transparent.
        unsafe { raw.cast().as_ref() }
    }

    pub(crate) fn as_raw(&self) -> *mut rdma_cm_id {
        self.0.get()
    }

    /// Fails if the identifier is not bound to the device.
    pub(crate) fn check_device(&self, device: &Device<'d>) -> Result {
        // SAFETY: The identifier is valid, and its device is constant after it is bound.
        match unsafe { (*self.as_raw()).device } == device.as_raw() {
            true => Ok(()),
            false => Err(ENODEV),
        }
    }

    /// The device, if the identifier has one.
    pub(crate) fn device(&self) -> Option<&DeviceView> {
        // SAFETY: The identifier is valid. Its device is constant after it is bound, and stays registered until the identifier is
        // destroyed. A view is a transparent wrapper.
        unsafe { (*self.as_raw()).device.cast::<DeviceView>().as_ref() }
    }

    pub(crate) fn bind(&self, address: &Address) -> Result {
        let mut address = address.to_raw(K::SERVICES);
        // SAFETY: Both are valid during the call.
        to_result(unsafe { bindings::rdma_bind_addr(self.as_raw(), (&raw mut address).cast()) })
    }

    pub(crate) fn listen(&self, backlog: u16) -> Result {
        // SAFETY: The identifier is valid.
        to_result(unsafe { bindings::rdma_listen(self.as_raw(), backlog.into()) })
    }

    /// The port that the identifier is bound to.
    pub(crate) fn source_port(&self) -> u16 {
        // SAFETY: The identifier is valid. The family has one offset in addresses of all families, the port in those of IP.
        unsafe {
            let address = &raw const (*self.as_raw()).route.addr.src_addr;
            let ip = address.cast::<bindings::sockaddr_in>();
            match (&raw const (*ip).sin_family).read().into() {
                bindings::AF_IB => {
                    let service = &raw const (*address.cast::<bindings::sockaddr_ib>()).sib_sid;
                    u64::from_be(service.read()) as u16
                }
                _ => u16::from_be((&raw const (*ip).sin_port).read()),
            }
        }
    }

    pub(crate) fn resolve_address(
        &self,
        source: Option<&Address>,
        destination: &Address,
        timeout_ms: u32,
    ) -> Result {
        let mut source = source.map(|source| source.to_raw(K::SERVICES));
        let source = source.as_mut().map_or(null_mut(), |raw| &raw mut *raw);
        let destination = destination.to_raw(K::SERVICES);
        // SAFETY: All are valid during the call, which copies the addresses.
        to_result(unsafe {
            bindings::rdma_resolve_addr(
                self.as_raw(),
                source.cast(),
                (&raw const destination).cast(),
                timeout_ms as c_ulong,
            )
        })
    }

    pub(crate) fn resolve_route(&self, timeout_ms: u32) -> Result {
        // SAFETY: The identifier is valid.
        to_result(unsafe { bindings::rdma_resolve_route(self.as_raw(), timeout_ms as c_ulong) })
    }

    /// Asks the peer for a connection, or for its queue pair. Waits for handlers.
    pub(crate) fn connect(&self, mut asked: Asked) -> Result {
        let mut ece = asked.ece.to_raw();
        // SAFETY: The identifier is valid; the parameters are copied.
        to_result(unsafe { bindings::rdma_connect_ece(self.as_raw(), &mut asked.param, &mut ece) })
    }

    /// As [`Self::connect`], without options of a vendor: the C interface has no such call with them.
    ///
    /// # Safety
    ///
    /// This task has the handler lock.
    pub(crate) unsafe fn connect_locked(&self, mut asked: Asked) -> Result {
        if asked.ece != Ece::NONE {
            return Err(EOPNOTSUPP);
        }
        // SAFETY: By the safety requirements. The identifier is valid; the parameters are copied.
        to_result(unsafe { bindings::rdma_connect_locked(self.as_raw(), &mut asked.param) })
    }

    /// Accepts a request, or the reply of a peer. Waits for handlers.
    pub(crate) fn accept(&self, asked: Option<Asked>) -> Result {
        // SAFETY: The identifier is valid; the handler lock is held during the call.
        unsafe {
            bindings::rdma_lock_handler(self.as_raw());
            let accepted = self.accept_locked(asked);
            bindings::rdma_unlock_handler(self.as_raw());
            accepted
        }
    }

    /// As [`Self::accept`].
    ///
    /// # Safety
    ///
    /// This task has the handler lock.
    pub(crate) unsafe fn accept_locked(&self, asked: Option<Asked>) -> Result {
        // SAFETY: By the safety requirements. The identifier is valid; the parameters are copied.
        to_result(unsafe {
            match asked {
                Some(Asked { mut param, ece }) => {
                    bindings::rdma_accept_ece(self.as_raw(), &mut param, &mut ece.to_raw())
                }
                None => bindings::rdma_accept(self.as_raw(), null_mut()),
            }
        })
    }

    pub(crate) fn reject(&self, reason: Reason, why: &[u8]) -> Result {
        let length = u8::try_from(why.len()).map_err(|_| EINVAL)?;
        // SAFETY: The identifier is valid; the bytes are copied.
        to_result(unsafe {
            bindings::rdma_reject(self.as_raw(), why.as_ptr().cast(), length, reason.number())
        })
    }

    pub(crate) fn disconnect(&self) -> Result {
        // SAFETY: The identifier is valid.
        to_result(unsafe { bindings::rdma_disconnect(self.as_raw()) })
    }

    /// Changes the state of a queue pair with the attributes of the connection manager. `ENODEV` for one of another device.
    pub(crate) fn modify<S: State, N: State>(
        &self,
        qp: Qp<'d, K::Transport, S>,
        sleep: &MaySleep,
    ) -> Result<Qp<'d, K::Transport, N>> {
        self.check_device(qp.pd().device())?;
        let mut attr: ib_qp_attr = pin_init::zeroed();
        attr.qp_state = N::STATE.as_raw();
        let mut mask = 0;
        // SAFETY: The identifier is valid, and has a device; both results are valid for writes.
        to_result(unsafe { bindings::rdma_init_qp_attr(self.as_raw(), &mut attr, &mut mask) })?;
        // SAFETY: The connection manager has filled in the attributes in the mask, for the device of the queue pair.
        Ok(unsafe { qp.become_raw(&mut attr, QpAttrMask::from_bits(mask as u32), sleep) }?)
    }

    /// Joins a multicast group. Its event tells where to send to, and the number.
    pub(crate) fn join(&self, group: &Address, membership: Membership, number: usize) -> Result {
        let mut address = group.to_raw(K::SERVICES);
        // SAFETY: The identifier is valid; the address is copied; the context is for events alone.
        to_result(unsafe {
            bindings::rdma_join_multicast(
                self.as_raw(),
                (&raw mut address).cast(),
                membership.join_state(),
                core::ptr::without_provenance_mut(number),
            )
        })
    }

    /// Leaves the group that was joined last at an address.
    pub(crate) fn leave(&self, group: &Address) {
        let mut address = group.to_raw(K::SERVICES);
        // SAFETY: The identifier is valid; the address is valid during the call.
        unsafe { bindings::rdma_leave_multicast(self.as_raw(), (&raw mut address).cast()) };
    }
}
