// SPDX-License-Identifier: GPL-2.0

//! Identifiers of `iw_cm`, by its exported functions, so that any `iw_cm` will do.
//!
//! C header: `include/rdma/iw_cm.h`.

use core::{marker::PhantomData, mem::ManuallyDrop, ptr::NonNull};

use kernel::{
    error::{from_err_ptr, to_result},
    ffi::c_int,
    prelude::*,
    sync::Arc,
};
use rdma::bindings::{self, ib_qp_attr, iw_cm_conn_param, iw_cm_event, iw_cm_id};

use rdma::{
    core::{connection::PrivateData, iw::address::SockAddr, Device},
    MaySleep,
};

/// An event of `iw_cm`.
///
/// # Invariants
///
/// The event is filled in.
pub struct Event<'a>(&'a iw_cm_event);

impl<'a> Event<'a> {
    /// `enum iw_cm_event_type`.
    pub fn kind(&self) -> u32 {
        self.0.event
    }

    /// 0, or the negative errno.
    pub fn status(&self) -> c_int {
        self.0.status
    }

    /// Both ends: the local one, and that of the peer.
    pub fn ends(&self) -> (SockAddr, SockAddr) {
        // SAFETY: By the type invariants; nobody writes to the addresses.
        unsafe {
            (
                SockAddr::load(&raw const self.0.local_addr),
                SockAddr::load(&raw const self.0.remote_addr),
            )
        }
    }

    /// The private data.
    pub fn private_data(&self) -> &'a [u8] {
        if self.0.private_data.is_null() || self.0.private_data_len == 0 {
            return &[];
        }
        // SAFETY: By the type invariants there are so many bytes.
        unsafe {
            core::slice::from_raw_parts(self.0.private_data.cast(), self.0.private_data_len.into())
        }
    }

    /// The numbers of outstanding READs that are received, and that are sent.
    pub fn depths(&self) -> (u8, u8) {
        (self.0.ird, self.0.ord)
    }
}

/// Who is told the events of an identifier.
pub trait Receiver: Send + Sync + Sized + 'static {
    /// An event, in process context. What is returned is given up: `iw_cm` destroys it.
    fn event(this: &Arc<Self>, event: &Event<'_>, sleep: &MaySleep) -> Option<(IwCm<Self>, c_int)>;

    /// A request of a peer to the listener `this`, in process context.
    ///
    /// # Errors
    ///
    /// What is returned to `iw_cm`, and the identifier of the peer if it was adopted: `iw_cm` destroys that.
    fn request(
        this: &Arc<Self>,
        event: &Event<'_>,
        offered: Offered<'_, Self>,
        sleep: &MaySleep,
    ) -> Result<(), (c_int, Option<IwCm<Self>>)>;
}

/// The identifier of a peer, which nobody has yet.
pub struct Offered<'a, T>(
    NonNull<iw_cm_id>,
    PhantomData<&'a ()>,
    PhantomData<fn() -> T>,
);

/// An identifier. Dropping it destroys the identifier, and waits for its handler.
///
/// # Invariants
///
/// `raw` is valid, and its context is a reference to a `T`.
pub struct IwCm<T: Receiver> {
    raw: NonNull<iw_cm_id>,
    context: *const T,
}

// SAFETY: Identifiers may be used from any thread.
unsafe impl<T: Receiver> Send for IwCm<T> {}
// SAFETY: Identifiers may be used from any thread.
unsafe impl<T: Receiver> Sync for IwCm<T> {}

/// # Safety
///
/// `iw_cm` calls it with an identifier of an [`IwCm`], in process context.
unsafe extern "C" fn on_event<T: Receiver>(cm_id: *mut iw_cm_id, event: *mut iw_cm_event) -> c_int {
    // SAFETY: By the safety requirements; the identifier keeps the reference while its handler runs.
    let (this, event, sleep) = unsafe {
        let this = ManuallyDrop::new(Arc::from_raw((*cm_id).context.cast::<T>()));
        (Arc::clone(&this), Event(&*event), MaySleep::assume())
    };
    match T::event(&this, &event, &sleep) {
        Some((given_up, code)) => given_up.disown(cm_id, code),
        None => 0,
    }
}

/// # Safety
///
/// `iw_cm` calls it with a listener of an [`IwCm`], or the identifier of a peer that has its context, in process context.
unsafe extern "C" fn on_request<T: Receiver>(
    cm_id: *mut iw_cm_id,
    event: *mut iw_cm_event,
) -> c_int {
    // SAFETY: By the safety requirements; the listener keeps the reference while its handler runs.
    let (listener, raw, event, sleep) = unsafe {
        let this = ManuallyDrop::new(Arc::from_raw((*cm_id).context.cast::<T>()));
        (
            Arc::clone(&this),
            NonNull::new_unchecked(cm_id),
            Event(&*event),
            MaySleep::assume(),
        )
    };
    if event.kind() != bindings::IW_CM_EVENT_CONNECT_REQUEST {
        return 0;
    }
    match T::request(
        &listener,
        &event,
        Offered(raw, PhantomData, PhantomData),
        &sleep,
    ) {
        Ok(()) => 0,
        Err((code, Some(given_up))) => given_up.disown(cm_id, code),
        Err((code, None)) => code,
    }
}

impl<T: Receiver> Offered<'_, T> {
    /// Adopts the identifier: its events are told to `this`.
    pub fn adopt(self, this: &Arc<T>) -> IwCm<T> {
        let context = Arc::into_raw(this.clone());
        // SAFETY: The identifier is valid, and by the header who is told a request sets these members. The context before was the listener's,
        // who has the reference.
        unsafe {
            (*self.0.as_ptr()).context = context.cast_mut().cast();
            (*self.0.as_ptr()).cm_handler = Some(on_event::<T>);
        }
        // INVARIANT: As above.
        IwCm {
            raw: self.0,
            context,
        }
    }
}

/// What an identifier has from the beginning.
pub struct Setting {
    /// The local end.
    pub local: SockAddr,
    /// The end of the peer.
    pub remote: Option<SockAddr>,
    /// The type of service, if the client has said.
    pub tos: Option<u8>,
    /// Whether a wildcard address is of its family alone.
    pub family_only: bool,
}

/// The parameters of a connection.
pub struct Param<'a> {
    /// The number of outstanding READs that are sent.
    pub ord: u32,
    /// The number of outstanding READs that are received.
    pub ird: u32,
    /// The number of the queue pair.
    pub qpn: u32,
    /// The private data.
    pub private_data: PrivateData<'a>,
}

impl Param<'_> {
    fn to_raw(&self) -> iw_cm_conn_param {
        let mut raw: iw_cm_conn_param = pin_init::zeroed();
        let (bytes, length) = self.private_data.parts();
        raw.private_data = bytes;
        raw.private_data_len = length.into();
        raw.ord = self.ord;
        raw.ird = self.ird;
        raw.qpn = self.qpn;
        raw
    }
}

impl<T: Receiver> IwCm<T> {
    fn make(
        device: &Device,
        this: &Arc<T>,
        setting: &Setting,
        handler: bindings::iw_cm_handler,
    ) -> Result<Self> {
        let context = Arc::into_raw(this.clone());
        // SAFETY: The device is valid; the context stays until the identifier is destroyed.
        let made = unsafe {
            from_err_ptr(bindings::iw_create_cm_id(
                device.as_raw(),
                handler,
                context.cast_mut().cast(),
            ))
        };
        match made.and_then(|raw| NonNull::new(raw).ok_or(ENOMEM)) {
            Ok(raw) => {
                // SAFETY: The identifier was just created; its client sets these members before it uses it.
                unsafe {
                    let id = raw.as_ptr();
                    (*id).tos = setting.tos.unwrap_or(0);
                    (*id).set_tos_set(setting.tos.is_some());
                    (*id).set_afonly(setting.family_only);
                    setting.local.store(&raw mut (*id).local_addr);
                    if let Some(remote) = &setting.remote {
                        remote.store(&raw mut (*id).remote_addr);
                    }
                }
                // INVARIANT: As above.
                Ok(Self { raw, context })
            }
            Err(error) => {
                // SAFETY: Nobody has taken the context.
                drop(unsafe { Arc::from_raw(context) });
                Err(error)
            }
        }
    }

    /// An identifier for a connection, whose events are told to `this`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(
        device: &Device,
        this: &Arc<T>,
        setting: &Setting,
        _sleep: &MaySleep,
    ) -> Result<Self> {
        Self::make(device, this, setting, Some(on_event::<T>))
    }

    /// A listener, whose requests are told to `this`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, those of `iw_cm`.
    pub fn listen(
        device: &Device,
        this: &Arc<T>,
        setting: &Setting,
        backlog: c_int,
        _sleep: &MaySleep,
    ) -> Result<Self> {
        let listener = Self::make(device, this, setting, Some(on_request::<T>))?;
        // SAFETY: The identifier is valid.
        to_result(unsafe { bindings::iw_cm_listen(listener.raw.as_ptr(), backlog) })?;
        Ok(listener)
    }

    fn disown(self, cm_id: *mut iw_cm_id, code: c_int) -> c_int {
        if self.raw.as_ptr() != cm_id {
            return 0;
        }
        let this = ManuallyDrop::new(self);
        // SAFETY: By the type invariants the reference is the context's. `iw_cm` does not call the handler any more.
        drop(unsafe { Arc::from_raw(this.context) });
        code
    }

    pub(crate) fn as_raw(&self) -> NonNull<iw_cm_id> {
        self.raw
    }

    /// Asks a peer for a connection.
    pub fn connect(&self, param: &Param<'_>, _sleep: &MaySleep) -> Result {
        // SAFETY: The identifier and the parameters are valid.
        to_result(unsafe { bindings::iw_cm_connect(self.raw.as_ptr(), &mut param.to_raw()) })
    }

    /// Accepts a peer.
    pub fn accept(&self, param: &Param<'_>, _sleep: &MaySleep) -> Result {
        // SAFETY: The identifier and the parameters are valid.
        to_result(unsafe { bindings::iw_cm_accept(self.raw.as_ptr(), &mut param.to_raw()) })
    }

    /// Refuses a peer.
    pub fn reject(&self, data: &PrivateData<'_>, _sleep: &MaySleep) -> Result {
        let (bytes, length) = data.parts();
        // SAFETY: The identifier and the private data are valid.
        to_result(unsafe { bindings::iw_cm_reject(self.raw.as_ptr(), bytes, length) })
    }

    /// Disconnects in order.
    pub fn disconnect(&self, _sleep: &MaySleep) -> Result {
        // SAFETY: The identifier is valid.
        to_result(unsafe { bindings::iw_cm_disconnect(self.raw.as_ptr(), 0) })
    }

    /// The attributes of a queue pair for the state that is filled in.
    ///
    /// # Errors
    ///
    /// Those of `iw_cm`.
    pub fn init_qp_attr(&self, attr: &mut ib_qp_attr, mask: &mut c_int) -> Result {
        // SAFETY: The identifier and both results are valid.
        to_result(unsafe { bindings::iw_cm_init_qp_attr(self.raw.as_ptr(), attr, mask) })
    }
}

impl<T: Receiver> Drop for IwCm<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants. The handler does not run any more when the function returns, so that the context is given up.
        unsafe {
            bindings::iw_destroy_cm_id(self.raw.as_ptr());
            drop(Arc::from_raw(self.context));
        }
    }
}
