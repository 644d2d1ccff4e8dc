// SPDX-License-Identifier: GPL-2.0

//! Object classes whose only ioctl method destroys an object.
//!
//! C header: `include/rdma/uverbs_named_ioctl.h` (`DECLARE_UVERBS_NAMED_METHOD_DESTROY`).

/// Defines a class whose only method here destroys an object; write commands or methods of drivers create the objects.
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
