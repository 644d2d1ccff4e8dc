// SPDX-License-Identifier: GPL-2.0

//! Attributes that methods of several classes have.
//!
//! C header: `include/rdma/uverbs_ioctl.h`.

use kernel::{prelude::*, sync::aref::ARef};
use rdma::core::AttrBundle;
use rdma_uverbs::{
    attrs::Attributes,
    event::{default_async, AsyncEvents, AsyncFile},
};

/// An optional attribute.
pub(super) fn optional<T>(attr: Result<T>) -> Result<Option<T>> {
    match attr {
        Err(error) if error == ENOENT => Ok(None),
        attr => attr.map(Some),
    }
}

/// The async event file of an attribute; without one, the default of the device file.
pub(super) fn async_file(command: &AttrBundle, id: u32) -> Result<Option<ARef<AsyncFile>>> {
    match optional(command.memory::<AsyncEvents>(id))? {
        Some(file) => Ok(Some(file.into())),
        None => Ok(default_async(command.file())),
    }
}
