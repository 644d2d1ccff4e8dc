// SPDX-License-Identifier: GPL-2.0

//! The object classes and their ioctl methods, one file a class; each has its `DEFINITIONS` for the API of a device.
//!
//! The functions that create and destroy objects, for ioctl and write commands, are in the crate `rdma_uverbs`.
//!
//! C headers: `include/rdma/uverbs_named_ioctl.h`, `include/uapi/rdma/ib_user_ioctl_cmds.h`.

use kernel::{prelude::*, sync::aref::ARef};
use rdma::core::AttrBundle;
use rdma_uverbs::{
    attrs::Attributes,
    event::{default_async, AsyncEvents, AsyncFile},
    table::Definition,
};

/// A class whose only method here is that which destroys: write commands or methods of drivers create its objects.
macro_rules! destroy_only {
    ($class:ty: $object:ident, $destroy:path, $method:ident($handle:ident), needs $op:ident) => {
        static TYPE: rdma_uverbs::table::IdrType =
            rdma_uverbs::table::IdrType::new::<$class, _>($destroy);

        static DESTROY: rdma_uverbs::table::Method = rdma_uverbs::table::Method::destroy(
            kernel_ext::bindings::$method,
            &[&rdma_uverbs::table::Attr::destroyed(
                kernel_ext::bindings::$handle,
                kernel_ext::bindings::$object,
            )],
        );

        static OBJECT: rdma_uverbs::table::Object =
            rdma_uverbs::table::Object::idr(kernel_ext::bindings::$object, &TYPE, &[&DESTROY]);

        pub(crate) static DEFINITIONS: [rdma_uverbs::table::Definition; 3] = [
            rdma_uverbs::table::Definition::tree(&OBJECT),
            rdma_uverbs::table::Definition::object_needs(core::mem::offset_of!(
                kernel_ext::bindings::ib_device_ops,
                $op
            )),
            rdma_uverbs::table::Definition::END,
        ];
    };
}

mod ah;
mod async_fd;
mod comp_channel;
mod counters;
mod cq;
mod device;
mod dm;
mod dmabuf;
mod dmah;
mod flow;
mod flow_action;
mod mr;
mod mw;
mod pd;
mod qp;
mod rwq_ind_table;
mod srq;
mod wq;
mod xrcd;

/// All objects.
pub(crate) static DEFINITIONS: [Definition; 20] = [
    Definition::chain(&async_fd::DEFINITIONS),
    Definition::chain(&counters::DEFINITIONS),
    Definition::chain(&cq::DEFINITIONS),
    Definition::chain(&device::DEFINITIONS),
    Definition::chain(&dm::DEFINITIONS),
    Definition::chain(&dmabuf::DEFINITIONS),
    Definition::chain(&dmah::DEFINITIONS),
    Definition::chain(&flow_action::DEFINITIONS),
    Definition::chain(&pd::DEFINITIONS),
    Definition::chain(&comp_channel::DEFINITIONS),
    Definition::chain(&ah::DEFINITIONS),
    Definition::chain(&mw::DEFINITIONS),
    Definition::chain(&flow::DEFINITIONS),
    Definition::chain(&rwq_ind_table::DEFINITIONS),
    Definition::chain(&xrcd::DEFINITIONS),
    Definition::chain(&mr::DEFINITIONS),
    Definition::chain(&qp::DEFINITIONS),
    Definition::chain(&srq::DEFINITIONS),
    Definition::chain(&wq::DEFINITIONS),
    Definition::END,
];

/// An optional attribute.
fn optional<T>(attr: Result<T>) -> Result<Option<T>> {
    match attr {
        Err(error) if error == ENOENT => Ok(None),
        attr => attr.map(Some),
    }
}

/// The async event file of an attribute; without one, the default of the device file.
fn async_file(command: &AttrBundle, id: u32) -> Result<Option<ARef<AsyncFile>>> {
    match optional(command.memory::<AsyncEvents>(id))? {
        Some(file) => Ok(Some(file.into())),
        None => Ok(default_async(command.file())),
    }
}
