// SPDX-License-Identifier: GPL-2.0

//! Calls into a driver for connections, the methods `iw_*` of `struct ib_device_ops`, and the queue pair of a connection.
//!
//! A driver without a method is none for iWARP: the call returns `EOPNOTSUPP`.
//!
//! C headers: `include/rdma/ib_verbs.h`, `include/rdma/iw_cm.h`.

use core::{marker::PhantomData, ptr::NonNull};

use kernel::{error::to_result, ffi::c_int, prelude::*, sync::Arc};
use kernel_ext::{entry::FromC, error::EOPNOTSUPP};
use rdma_bindings::{self as bindings, ib_qp, iw_cm_conn_param};

use super::id::Receiver;
use crate::{
    core::{connection::PrivateData, mad::c_pointer, qp::QpAttr, Device},
    MaySleep,
};

/// Reads a method of an identifier's device; `EOPNOTSUPP` if the driver lacks it.
macro_rules! method {
    ($id:expr, $name:ident) => {
        $id.body().device().ops().$name.ok_or(EOPNOTSUPP)
    };
}

/// The parameters of a connection that a client passes.
///
/// # Invariants
///
/// They are filled in, with so much private data.
pub struct ConnParam<'a>(*mut iw_cm_conn_param, PhantomData<&'a mut ()>);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for ConnParam<'_> {
    type Raw = *mut iw_cm_conn_param;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // INVARIANT: By the header the parameters are filled in.
        Self(raw, PhantomData)
    }
}

impl ConnParam<'_> {
    /// The number of the queue pair.
    pub fn qpn(&self) -> u32 {
        // SAFETY: By the type invariants.
        unsafe { (*self.0).qpn }
    }
}

/// Lets the driver listen, with at most `backlog` peers that wait.
///
/// # Errors
///
/// Those of the driver, as for all following functions.
pub fn listen<T: Receiver>(id: &Arc<T>, backlog: c_int, _sleep: &MaySleep) -> Result {
    let call = method!(id, iw_create_listen)?;
    // SAFETY: The identifier is valid; the driver counts its references to it.
    to_result(unsafe { call(c_pointer(id), backlog) })
}

/// Lets the driver listen no more.
pub fn stop_listening<T: Receiver>(id: &Arc<T>, _sleep: &MaySleep) -> Result {
    let call = method!(id, iw_destroy_listen)?;
    // SAFETY: The identifier is valid; the driver counts its references to it.
    to_result(unsafe { call(c_pointer(id)) })
}

/// Lets the driver send a request to connect.
pub fn connect<T: Receiver>(id: &Arc<T>, param: &ConnParam<'_>, _sleep: &MaySleep) -> Result {
    let call = method!(id, iw_connect)?;
    // SAFETY: The identifier is valid, and so are the parameters, which the driver may change.
    to_result(unsafe { call(c_pointer(id), param.0) })
}

/// Lets the driver accept the peer that the identifier stands for.
pub fn accept<T: Receiver>(id: &Arc<T>, param: &ConnParam<'_>, _sleep: &MaySleep) -> Result {
    let call = method!(id, iw_accept)?;
    // SAFETY: The identifier is valid, and so are the parameters, which the driver may change.
    to_result(unsafe { call(c_pointer(id), param.0) })
}

/// Lets the driver refuse the peer that the identifier stands for.
pub fn reject<T: Receiver>(id: &Arc<T>, data: &PrivateData<'_>, _sleep: &MaySleep) -> Result {
    let call = method!(id, iw_reject)?;
    let (bytes, length) = data.parts();
    // SAFETY: The identifier is valid, and so is the private data.
    to_result(unsafe { call(c_pointer(id), bytes, length) })
}

/// The queue pair of a connection, of which the driver counts the reference.
///
/// # Invariants
///
/// The driver has counted a reference to the queue pair, and has `iw_rem_ref`.
pub struct ConnQp {
    qp: NonNull<ib_qp>,
    device: NonNull<bindings::ib_device>,
}

// SAFETY: Queue pairs may be used by any thread.
unsafe impl Send for ConnQp {}
// SAFETY: Queue pairs may be used by several threads at once.
unsafe impl Sync for ConnQp {}

impl ConnQp {
    /// Looks a queue pair of a device up.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is none with this number, `EOPNOTSUPP`.
    pub fn get(device: &Device, qpn: u32, _sleep: &MaySleep) -> Result<Self> {
        let find = device.ops().iw_get_qp.ok_or(EOPNOTSUPP)?;
        let count = device.ops().iw_add_ref.ok_or(EOPNOTSUPP)?;
        device.ops().iw_rem_ref.ok_or(EOPNOTSUPP)?;
        let device = NonNull::new(device.as_raw()).ok_or(EINVAL)?;
        // SAFETY: The device is valid. By the header the client keeps the queue pair that it names during the call.
        unsafe {
            let qp = NonNull::new(find(device.as_ptr(), qpn as c_int)).ok_or(EINVAL)?;
            count(qp.as_ptr());
            // INVARIANT: The reference was just counted.
            Ok(Self { qp, device })
        }
    }

    /// Changes the state of the queue pair: `enum ib_qp_state`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it cannot change so, and those of the driver.
    pub fn modify(&self, state: u32, _sleep: &MaySleep) -> Result {
        let mut attr = QpAttr::to_state(state);
        let mask = bindings::IB_QP_STATE as c_int;
        // SAFETY: By the type invariants the queue pair is valid; the attribute in the mask is filled in.
        to_result(unsafe { bindings::ib_modify_qp(self.qp.as_ptr(), attr.as_mut_ptr(), mask) })
    }
}

impl Drop for ConnQp {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the driver has the method, and has counted the reference that is given up here.
        unsafe {
            if let Some(put) = (*self.device.as_ptr()).ops.iw_rem_ref {
                put(self.qp.as_ptr());
            }
        }
    }
}
