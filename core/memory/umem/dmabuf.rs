// SPDX-License-Identifier: GPL-2.0

//! User memory in a dma-buf.
//!
//! A buffer's reservation lock (`dma_resv`), shared with its exporter and other importers, protects the state of a
//! range: mapped, pinned, revoked. It is taken in process context, and held while the exporter's methods and the
//! driver's revoke callback are called.
//!
//! C headers: `include/rdma/ib_umem.h`, `include/linux/dma-buf.h`.

use kernel::{
    ffi::{c_int, c_ulong},
    prelude::*,
};
use kernel_ext::{bindings::ib_umem_dmabuf, entry::ErrPtr, export::export};
use rdma::{
    core::{
        umem::{
            dmabuf::{
                AttachOps, Dmabuf, DmabufUmem, Locked, LockedByCaller, OwnOps, RevokeArg,
                RevokeCallback,
            },
            AccessFlags,
        },
        Device,
    },
    MaySleep,
};

/// Attachment of a pinned range.
static PINNED: OwnOps = OwnOps::pinned();
/// Attachment of a range that may be revoked.
static REVOCABLE: OwnOps = OwnOps::revocable();

/// A range of a buffer: offset, length, file descriptor.
type Range = (usize, usize, c_int);

/// Attaches, pins and maps a range; with `keep_locked` the buffer stays locked.
fn pin(
    device: &Device,
    dma_device: Option<&kernel::device::Device>,
    range: Range,
    access: AccessFlags,
    ops: AttachOps,
    keep_locked: bool,
    sleep: &MaySleep,
) -> Result<Dmabuf> {
    let memory = Dmabuf::attach(device, dma_device, range, access, ops, sleep)?;
    let locked = memory.range().lock(sleep);
    locked.pin()?;
    locked.map()?;
    if keep_locked {
        locked.leave();
    } else {
        drop(locked);
    }
    Ok(memory)
}

/// Attaches, pins and maps a range.
///
/// # Errors
///
/// `EINVAL`, `EBADF`, `ENOMEM`, those of the exporter.
pub(crate) fn get_pinned(
    device: &Device,
    range: Range,
    access: AccessFlags,
    sleep: &MaySleep,
) -> Result<Dmabuf> {
    pin(
        device,
        device.dma_device(),
        range,
        access,
        PINNED.get(),
        false,
        sleep,
    )
}

/// Attaches a device to a range, which the driver maps itself. Process context.
///
/// # Errors
///
/// `EINVAL`, `EBADF`, `ENOMEM`, those of the exporter.
#[export]
fn ib_umem_dmabuf_get(
    device: &Device,
    offset: c_ulong,
    size: usize,
    fd: c_int,
    access: c_int,
    ops: AttachOps,
    sleep: &MaySleep,
) -> ErrPtr<ib_umem_dmabuf> {
    let (dma_device, access) = (device.dma_device(), AccessFlags(access));
    let memory = Dmabuf::attach(device, dma_device, (offset, size, fd), access, ops, sleep);
    ErrPtr(memory.map(Dmabuf::into_raw))
}

/// Attaches, pins and maps a range. Process context.
///
/// # Errors
///
/// `EINVAL`, `EBADF`, `ENOMEM`, those of the exporter.
#[export]
fn ib_umem_dmabuf_get_pinned(
    device: &Device,
    offset: c_ulong,
    size: usize,
    fd: c_int,
    access: c_int,
    sleep: &MaySleep,
) -> ErrPtr<ib_umem_dmabuf> {
    let memory = get_pinned(device, (offset, size, fd), AccessFlags(access), sleep);
    ErrPtr(memory.map(Dmabuf::into_raw))
}

/// As `ib_umem_dmabuf_get_pinned`, with another DMA device. Process context.
///
/// # Errors
///
/// As for `ib_umem_dmabuf_get_pinned`.
#[export]
fn ib_umem_dmabuf_get_pinned_with_dma_device(
    device: &Device,
    dma_device: Option<&kernel::device::Device>,
    offset: c_ulong,
    size: usize,
    fd: c_int,
    access: c_int,
    sleep: &MaySleep,
) -> ErrPtr<ib_umem_dmabuf> {
    let (range, access) = ((offset, size, fd), AccessFlags(access));
    let memory = pin(
        device,
        dma_device,
        range,
        access,
        PINNED.get(),
        false,
        sleep,
    );
    ErrPtr(memory.map(Dmabuf::into_raw))
}

/// Attaches, pins and maps a revocable range, and leaves the buffer locked, so that the driver can set its revoke
/// callback. Process context.
///
/// # Errors
///
/// As for `ib_umem_dmabuf_get_pinned`.
#[export]
fn ib_umem_dmabuf_get_pinned_revocable_and_lock(
    device: &Device,
    offset: c_ulong,
    size: usize,
    fd: c_int,
    access: c_int,
    sleep: &MaySleep,
) -> ErrPtr<ib_umem_dmabuf> {
    let (range, access) = ((offset, size, fd), AccessFlags(access));
    let memory = pin(
        device,
        device.dma_device(),
        range,
        access,
        REVOCABLE.get(),
        true,
        sleep,
    );
    ErrPtr(memory.map(Dmabuf::into_raw))
}

/// Sets the callback for the revocation of a range. The caller has locked the buffer.
#[export]
fn ib_umem_dmabuf_set_revoke_locked(
    umem_dmabuf: LockedByCaller<'_>,
    revoke: RevokeCallback<'_>,
    private: RevokeArg<'_>,
) {
    umem_dmabuf.on_revoke(revoke.with(private));
}

/// Maps a range. The caller has locked the buffer; process context.
///
/// # Errors
///
/// `EINVAL` if it was revoked, `ETIMEDOUT`, those of the exporter.
#[export]
fn ib_umem_dmabuf_map_pages(umem_dmabuf: LockedByCaller<'_>) -> Result {
    umem_dmabuf.map()
}

/// Unmaps a range. The caller has locked the buffer; process context.
#[export]
fn ib_umem_dmabuf_unmap_pages(umem_dmabuf: LockedByCaller<'_>) {
    umem_dmabuf.unmap();
}

/// Locks the buffer. Process context.
#[export]
fn ib_umem_dmabuf_revoke_lock(umem_dmabuf: &DmabufUmem, sleep: &MaySleep) {
    umem_dmabuf.lock(sleep).leave();
}

/// Unlocks the buffer, which the caller has locked.
#[export]
fn ib_umem_dmabuf_revoke_unlock(umem_dmabuf: Locked<'_>) {
    drop(umem_dmabuf);
}

/// Revokes a range permanently. Process context.
#[export]
fn ib_umem_dmabuf_revoke(umem_dmabuf: &DmabufUmem, sleep: &MaySleep) {
    umem_dmabuf.lock(sleep).revoke();
}
