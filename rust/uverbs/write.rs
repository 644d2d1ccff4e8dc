// SPDX-License-Identifier: GPL-2.0

//! Write commands as C sees them: `struct uverbs_attr_bundle` with the buffers of the request and the response.
//!
//! C header: `include/rdma/uverbs_ioctl.h`.

use core::ptr::{null, null_mut, NonNull};

use kernel::{
    alloc::{allocator::KVmalloc, Allocator},
    types::Opaque,
    uaccess::UserPtr,
};
use rdma::core::{command::UverbsFile, AttrBundle};
use rdma_bindings::{self as c, bundle_alloc_head, bundle_priv, ib_udata};

/// A buffer in user space, which need not be valid.
#[derive(Clone, Copy)]
pub struct Span {
    /// The address.
    pub at: UserPtr,
    /// The length in bytes.
    pub len: usize,
}

impl Span {
    /// Whether the addresses are ones of user space (`access_ok`).
    pub fn is_user(&self) -> bool {
        // SAFETY: The function only checks the addresses.
        unsafe { c::user_access_ok(self.at.as_const_ptr(), self.len) }
    }

    /// Splits it after `len` bytes, or at its end if it is shorter.
    #[must_use]
    #[inline]
    pub fn split(self, len: usize) -> (Self, Self) {
        let len = len.min(self.len);
        let rest = Self {
            at: self.at.wrapping_byte_add(len),
            len: self.len - len,
        };
        (Self { len, ..self }, rest)
    }
}

/// The buffers of a command.
#[derive(Clone, Copy)]
pub struct Spans {
    /// The request.
    pub request: Span,
    /// The buffer for the response.
    pub response: Span,
    /// The driver's part of the request.
    pub driver_request: Span,
    /// The buffer for the driver's part of the response.
    pub driver_response: Span,
}

/// The `ib_udata` of a request and a response; the address of an empty one is null.
fn udata(request: Span, response: Span) -> ib_udata {
    let mut udata: ib_udata = pin_init::zeroed();
    udata.inlen = request.len;
    udata.outlen = response.len;
    udata.inbuf = if request.len == 0 {
        null()
    } else {
        request.at.as_const_ptr()
    };
    udata.outbuf = if response.len == 0 {
        null_mut()
    } else {
        response.at.as_mut_ptr()
    };
    udata
}

/// A write command: an [`AttrBundle`] without attributes.
///
/// The bundle is the member of a `struct bundle_priv`, as for an ioctl command, without a buffer for allocations.
/// Allocations of the command are freed with this value.
///
/// # Invariants
///
/// All allocations are in the list that begins with `allocated_mem`.
pub struct Command(Opaque<bundle_priv>);

impl Command {
    /// A command of a file with neither request nor response.
    pub(crate) fn empty(file: &UverbsFile) -> Self {
        let mut whole: bundle_priv = pin_init::zeroed();
        whole.bundle.ufile = file.as_raw();
        // INVARIANT: The list is empty.
        Self(Opaque::new(whole))
    }

    /// A command of a file.
    pub fn new(file: &UverbsFile, spans: &Spans) -> Self {
        let mut whole: bundle_priv = pin_init::zeroed();
        whole.bundle.ufile = file.as_raw();
        whole.bundle.ucore = udata(spans.request, spans.response);
        whole.bundle.driver_udata = udata(spans.driver_request, spans.driver_response);
        // INVARIANT: The list is empty.
        Self(Opaque::new(whole))
    }

    /// The command as handlers see it.
    pub fn bundle(&self) -> &AttrBundle {
        // SAFETY: The member is valid as long as `self`; a view is a transparent wrapper.
        unsafe { &*(&raw mut (*self.0.get()).bundle).cast() }
    }
}

impl Drop for Command {
    fn drop(&mut self) {
        // SAFETY: By the type invariants all allocations are in the list, and `self` owns the command. `kvfree` does not
        // use the size.
        unsafe {
            let mut next = (*self.0.get()).allocated_mem;
            while let Some(head) = NonNull::new(next) {
                next = (*head.as_ptr()).__bindgen_anon_1.__bindgen_anon_1.next;
                KVmalloc::free(head.cast(), core::alloc::Layout::new::<bundle_alloc_head>());
            }
        }
    }
}
