// SPDX-License-Identifier: GPL-2.0

//! User capabilities (ucaps): character devices in `/dev/infiniband` that by default only root may open. A command that sends the
//! file descriptor of one has the capability.
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `UCAPS` | the class and the nodes | process context | what the driver model takes |
//!
//! C header: `include/rdma/ib_ucaps.h`.

use kernel::{ffi::c_int, prelude::*};
use kernel_ext::{
    bindings,
    chrdev::{ClassRegistration, NodeClass, Nodes, Numbers},
    export::export,
    static_lock::static_lock,
};
use rdma::MaySleep;
use rdma_uverbs::ucap::{Capability, Files, Node};

/// The names of the nodes, by capability.
const NAMES: [&CStr; bindings::RDMA_UCAP_MAX as usize] =
    [c"mlx5_perm_ctrl_local", c"mlx5_perm_ctrl_other_vhca"];

/// The class of the nodes.
struct InfinibandDirectory;

impl Nodes for InfinibandDirectory {
    const PATH: &'static CStr = c"infiniband/%s";
    const MODE: u16 = 0o600;
}

const CLASS_NAME: &CStr = c"infiniband_ucaps";

static CLASS: NodeClass<InfinibandDirectory> = NodeClass::new(CLASS_NAME);
static FILES: Files = Files::new(&crate::THIS_MODULE);

/// The class and device numbers of the nodes, which are created with the first node.
struct Common {
    _class: ClassRegistration<InfinibandDirectory>,
    numbers: Numbers,
}

impl Common {
    fn new(sleep: &MaySleep) -> Result<Self> {
        let _class = CLASS.register_bare(sleep)?;
        let numbers = Numbers::dynamic(NAMES.len() as u32, CLASS_NAME, sleep)?;
        Ok(Self { _class, numbers })
    }
}

/// A node, and the number of drivers that use it.
struct Ucap {
    _node: Node,
    number: u32,
    users: usize,
}

/// The nodes. They are dropped before their class.
struct Ucaps {
    nodes: [Option<Ucap>; NAMES.len()],
    common: Option<Common>,
}

static_lock! {
    static UCAPS: Mutex<Ucaps> = Ucaps { nodes: [const { None }; NAMES.len()], common: None };
}

/// The module's part. Dropping it unregisters the class.
pub(crate) struct Registration;

/// The owner of the capabilities. Made once when the module is loaded.
pub(crate) fn start() -> Registration {
    Registration
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut ucaps = UCAPS.lock();
        for node in &mut ucaps.nodes {
            kernel::warn_on!(node.is_some());
            *node = None;
        }
        ucaps.common = None;
    }
}

impl Ucaps {
    fn create(&mut self, capability: usize, sleep: &MaySleep) -> Result {
        let name = NAMES.get(capability).ok_or(EINVAL)?;
        if self.common.is_none() {
            self.common = Some(Common::new(sleep)?);
        }
        let common = self.common.as_ref().ok_or(ENODEV)?;
        let place = self.nodes.get_mut(capability).ok_or(EINVAL)?;
        if let Some(ucap) = place {
            ucap.users = ucap.users.checked_add(1).ok_or(EOVERFLOW)?;
            return Ok(());
        }
        let number = common.numbers.nth(capability as u32).ok_or(EINVAL)?;
        let _node = Node::new(&CLASS, number, name, &FILES, sleep)?;
        *place = Some(Ucap {
            _node,
            number,
            users: 1,
        });
        Ok(())
    }

    fn remove(&mut self, capability: usize) -> Result {
        let place = self.nodes.get_mut(capability).ok_or(EINVAL)?;
        let ucap = place.as_mut().ok_or(EINVAL)?;
        ucap.users = ucap.users.saturating_sub(1);
        if ucap.users == 0 {
            *place = None;
        }
        Ok(())
    }

    /// The bit of the capability that a file descriptor stands for.
    fn bit_of(&self, descriptor: c_int) -> Result<u64> {
        let number = FILES.number_of(descriptor)?;
        let is_it = |ucap: &Option<Ucap>| ucap.as_ref().is_some_and(|it| it.number == number);
        let capability = self.nodes.iter().position(is_it).ok_or(EINVAL)?;
        Ok(1 << capability)
    }
}

/// Creates the node of a capability, if there is none. `ib_remove_ucap` undoes each call. Process context.
///
/// # Errors
///
/// `EINVAL` for an unknown capability; `ENOMEM`; those of the driver model.
#[export]
fn ib_create_ucap(capability: Capability, sleep: &MaySleep) -> Result {
    UCAPS.lock().create(capability.0, sleep)
}

/// Undoes a call of `ib_create_ucap`; the last removes the node. Process context.
#[export]
fn ib_remove_ucap(capability: Capability, _sleep: &MaySleep) {
    kernel::warn_on!(UCAPS.lock().remove(capability.0).is_err());
}

/// The capabilities of file descriptors of the current process, a bit each. Process context.
///
/// # Errors
///
/// `EBADF` if one is no such node, `EINVAL` if its capability was removed.
///
/// # Safety
///
/// `fds` points to `fd_count` numbers, and `idx_mask` to a number that is written.
#[export(GPL, ns = "rdma_core")]
unsafe extern "C" fn ib_get_ucaps(fds: *mut c_int, fd_count: c_int, idx_mask: *mut u64) -> c_int {
    let ucaps = UCAPS.lock();
    let mut mask = 0;
    let mut result = 0;
    for nth in 0..usize::try_from(fd_count).unwrap_or(0) {
        // SAFETY: By the safety requirements.
        match ucaps.bit_of(unsafe { fds.add(nth).read() }) {
            Ok(bit) => mask |= bit,
            Err(error) => {
                result = error.to_errno();
                break;
            }
        }
    }
    // SAFETY: By the safety requirements.
    unsafe { idx_mask.write(mask) };
    result
}
