// SPDX-License-Identifier: GPL-2.0

//! An open device file for KUnit suites, of a device without objects.

use core::{marker::PhantomData, ptr::null_mut, sync::atomic::AtomicPtr};

use kernel::{error::to_result, prelude::*, sync::Arc};
use kernel_ext::error::EOPNOTSUPP;
use rdma::{
    abi::{
        device::{DeviceAttr, DriverId, NODE_IB_CA},
        port::{PortAttr, PortImmutable},
    },
    core::{
        command::UverbsFile,
        uobject::{ApiObject, RemoveReason},
        Uobject,
    },
    provider::{
        cq::{CqBase, CqHandle, CqInitAttr},
        qp::{QpBase, QpInitAttr},
        register::{unregister_driver, DeviceInfo},
    },
    Device, MaySleep, PdBase, Provider, ProviderData, QpHandle, Udata,
};
use rdma_bindings as c;

use crate::{file::File, life::LockedFile, table::IdrType};

/// The module that a suite is in.
pub trait TestModule: Send + Sync + 'static {
    /// The module.
    fn module() -> &'static ThisModule;
}

/// The driver of a device without objects.
struct Driver<M>(PhantomData<M>);

impl<M: TestModule> ProviderData for Driver<M> {
    type Ucontext = ();
    type Pd = ();
    type Xrcd = ();
    type Dm = ();
    type Ah = ();
    type Cq = ();
    type Qp = ();
    type Srq = ();
    type Mr = ();
    type Mw = ();
    type Counter = ();
}

#[vtable]
impl<M: TestModule> Provider for Driver<M> {
    // The kernel's driver of this device was removed.
    const DRIVER_ID: DriverId = DriverId::TEST;
    const ABI_VERSION: u32 = 1;

    fn module() -> &'static ThisModule {
        M::module()
    }

    fn query_device(_: &Device<Self>, _: &mut DeviceAttr, _: &MaySleep) -> Result {
        Ok(())
    }

    fn query_port(_: &Device<Self>, _: u32, _: &mut PortAttr, _: &MaySleep) -> Result {
        Ok(())
    }

    fn get_port_immutable(
        _: &Device<Self>,
        _: u32,
        immutable: &mut PortImmutable,
        _: &MaySleep,
    ) -> Result {
        immutable.core_cap_flags = c::RDMA_CORE_CAP_PROT_USNIC;
        Ok(())
    }

    fn alloc_pd(_: &PdBase<Self>, _: Option<&Udata<'_>>, _: &MaySleep) -> Result {
        Ok(())
    }

    fn create_cq(
        _: &CqBase<Self>,
        _: &CqInitAttr,
        _: Arc<CqHandle>,
        _: Option<&Udata<'_>>,
        _: &MaySleep,
    ) -> Result {
        Err(EOPNOTSUPP)
    }

    fn create_qp(
        _: &QpBase<Self>,
        _: &mut QpInitAttr<'_, Self>,
        _: Arc<QpHandle>,
        _: Option<&Udata<'_>>,
        _: &MaySleep,
    ) -> Result {
        Err(EOPNOTSUPP)
    }
}

/// An open device file, with a context.
///
/// # Invariants
///
/// The structures are initialised, and refer to each other and to a registered device.
pub struct TestFile {
    file: KBox<c::ib_uverbs_file>,
    device: KBox<c::ib_uverbs_device>,
    _context: KBox<c::ib_ucontext>,
}

impl TestFile {
    /// # Safety
    ///
    /// `ib_dev` is registered as long as the result exists.
    unsafe fn new(ib_dev: *mut c::ib_device) -> Result<Self> {
        let mut device = KBox::init(pin_init::init_zeroed::<c::ib_uverbs_device>(), GFP_KERNEL)?;
        let mut context = KBox::init(pin_init::init_zeroed::<c::ib_ucontext>(), GFP_KERNEL)?;
        let mut file = KBox::init(pin_init::init_zeroed::<c::ib_uverbs_file>(), GFP_KERNEL)?;
        device.ib_dev = ib_dev;
        context.device = ib_dev;
        file.device = &raw mut *device;
        file.ucontext = &raw mut *context;
        context.ufile = &raw mut *file;
        // SAFETY: The file is zeroed, is not moved, and only this function uses it.
        unsafe {
            c::ib_uverbs_file_init_members(&raw mut *file);
            c::setup_ufile_idr_uobject(&raw mut *file);
        }
        // INVARIANT: The structures were just initialised; by the safety requirements the device is
        // registered.
        Ok(Self {
            file,
            device,
            _context: context,
        })
    }

    /// The file.
    pub fn get(&self) -> &File {
        let file = core::ptr::from_ref(&*self.file).cast::<UverbsFile>();
        // SAFETY: By the type invariants; a view is a transparent wrapper.
        File::of(unsafe { &*file })
    }

    /// The file, for the destruction of its objects.
    pub fn locked(&self) -> LockedFile<'_> {
        // SAFETY: The file is that of a test, which is one thread: a `TestFile` is neither `Send` nor `Sync`.
        unsafe { LockedFile::new(self.get()) }
    }

    /// Calls `f` with another file of the device.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of `f`.
    pub fn with_another(&self, f: impl FnOnce(&Self) -> Result) -> Result {
        // SAFETY: By the type invariants the device is registered as long as `self`, which outlives the other file.
        let other = unsafe { Self::new(self.device.ib_dev) }?;
        f(&other)
    }

    /// Clears the device of the file, as its removal does.
    pub fn lose_device(&self) {
        let member = (&raw const self.device.ib_dev).cast_mut();
        // SAFETY: The member is a pointer that is accessed atomically.
        unsafe { AtomicPtr::from_ptr(member) }
            .store(null_mut(), core::sync::atomic::Ordering::Release);
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        let file = &raw mut *self.file;
        // SAFETY: By the type invariants `self` owns the structures.
        let _ = to_result(unsafe {
            c::__uverbs_cleanup_ufile(file, RemoveReason::DriverFailure as u32)
        });
        // SAFETY: By the type invariants `self` owns the structures.
        unsafe {
            crate::handles::Handles::of(self.get()).destroy();
            c::mutex_destroy(&raw mut (*file).umap_lock);
            c::mutex_destroy(&raw mut (*file).ucontext_lock);
        }
    }
}

/// A class of objects with handles.
///
/// # Invariants
///
/// The members are set.
pub struct TestKind(KBox<c::uverbs_api_object>);

impl TestKind {
    /// The class of a type, with an ID.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(idr_type: &'static IdrType, id: u32) -> Result<Self> {
        let mut kind = KBox::init(pin_init::init_zeroed::<c::uverbs_api_object>(), GFP_KERNEL)?;
        kind.id = id;
        kind.type_attrs = idr_type.as_type();
        kind.type_class = &raw const c::uverbs_idr_class;
        // INVARIANT: The members were just set.
        Ok(Self(kind))
    }

    /// The class.
    pub fn get(&self) -> &ApiObject {
        let kind = core::ptr::from_ref(&*self.0).cast::<ApiObject>();
        // SAFETY: By the type invariants; a view is a transparent wrapper.
        unsafe { &*kind }
    }
}

/// Sets the `object` of an object, so that its `destroy_object` is called.
///
/// # Safety
///
/// The type's `destroy_object` does not use the pointer.
pub unsafe fn give(object: &Uobject) {
    // SAFETY: By the safety requirements.
    unsafe { object.set_object(object.as_raw().cast()) };
}

/// Calls a test with a device file.
///
/// # Errors
///
/// Those of registering the device, and those of `test`.
pub fn with_file<M: TestModule>(test: impl FnOnce(&TestFile, &MaySleep) -> Result) -> Result {
    let sleep = &MaySleep::of_test()?;
    // Removes the devices that an aborted test has left.
    unregister_driver::<Driver<M>>(sleep);
    let mut device = Device::alloc(Driver::<M>(PhantomData), None, sleep)?;
    device.describe(&DeviceInfo {
        node_type: NODE_IB_CA,
        phys_port_cnt: 1,
        num_comp_vectors: 1,
        node_guid: [2, 0, 0, 0xff, 0xfe, 0, 0, 1],
        node_desc: b"of a test",
        local_dma_lkey: 0,
        uverbs_cmd_mask: 0,
    });
    let raw = device.as_raw();
    device.register(c"kunit_hca", sleep)?;
    // SAFETY: The device stays until `unregister_driver` below.
    let file = unsafe { TestFile::new(raw) };
    let tested = file.and_then(|file| test(&file, sleep));
    unregister_driver::<Driver<M>>(sleep);
    tested
}
