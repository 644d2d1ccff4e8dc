// SPDX-License-Identifier: GPL-2.0

//! Options of identifiers, among them a route that the program has found by itself.
//!
//! C header: `include/uapi/rdma/rdma_user_cm.h`.

use core::mem::offset_of;

use kernel::{
    alloc::flags::__GFP_NOWARN,
    prelude::*,
    uaccess::{UserPtr, UserSlice},
};
use kernel_ext::{
    bindings::{
        ib_path_rec_data, IB_PATH_BIDIRECTIONAL, IB_PATH_GMP, IB_PATH_PRIMARY,
        RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, RDMA_OPTION_ID,
        RDMA_OPTION_ID_ACK_TIMEOUT, RDMA_OPTION_ID_AFONLY, RDMA_OPTION_ID_REUSEADDR,
        RDMA_OPTION_ID_TOS,
    },
    error::ENOSYS,
};
use rdma_user_cm::{Response, Setting, PATH_SIZE};

use crate::{
    call::Call,
    context::Context,
    layout::{part, Field, SetOption},
    recipient::{About, Pending},
};

/// The size of the largest value in bytes: `KMALLOC_MAX_SIZE`.
const LARGEST: usize = 4 << 20;

/// The flags of a path that is used both ways.
const BOTH_WAYS: u32 = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;

/// A value of a size that fits the option.
fn value<T: Field>(bytes: &[u8]) -> Result<T> {
    match bytes.len() == T::SIZE {
        true => Ok(T::take(bytes, 0)),
        false => Err(EINVAL),
    }
}

fn setting(name: u32, bytes: &[u8]) -> Result<Setting> {
    let flag = || value::<u32>(bytes).map(|flag| flag != 0);
    match name {
        RDMA_OPTION_ID_TOS => Ok(Setting::Tos(value(bytes)?)),
        RDMA_OPTION_ID_REUSEADDR => Ok(Setting::ReuseAddr(flag()?)),
        RDMA_OPTION_ID_AFONLY => Ok(Setting::AfOnly(flag()?)),
        RDMA_OPTION_ID_ACK_TIMEOUT => Ok(Setting::AckTimeout(value(bytes)?)),
        _ => Err(ENOSYS),
    }
}

/// `RDMA_USER_CM_CMD_SET_OPTION`.
pub(crate) fn set(call: &Call<'_>) -> Result {
    let command: SetOption = call.read()?;
    let length = command.optlen as usize;
    if length > LARGEST {
        return Err(EINVAL);
    }
    let context = call.context(command.id)?;
    let entered = context.enter()?;
    let mut bytes = KVec::with_capacity(length, GFP_KERNEL | __GFP_NOWARN)?;
    let from = UserPtr::from_addr(command.optval as usize);
    UserSlice::new(from, length).read_all(&mut bytes, GFP_KERNEL)?;
    match (command.level, command.optname) {
        (RDMA_OPTION_ID, name) => {
            let setting = setting(name, &bytes)?;
            entered.lock(call.sleep).set(setting)
        }
        (RDMA_OPTION_IB, RDMA_OPTION_IB_PATH) => set_path(call, &context, &bytes),
        _ => Err(ENOSYS),
    }
}

/// Sets the route to the first path that is used both ways.
fn set_path(call: &Call<'_>, context: &Context, bytes: &[u8]) -> Result {
    let mut records = bytes.chunks_exact(PATH_SIZE);
    let is_both_ways =
        |record: &&[u8]| u32::take(record, offset_of!(ib_path_rec_data, flags)) == BOTH_WAYS;
    let found = records.find(is_both_ways);
    // There are whole records alone.
    if !records.remainder().is_empty() {
        return Err(EINVAL);
    }
    let record = part(found.ok_or(EINVAL)?, offset_of!(ib_path_rec_data, path_rec));
    let entered = context.enter()?;
    entered.lock(call.sleep).set_path(&record)?;
    let recipient = context.recipient();
    let _quiet = entered.quiet(call.sleep);
    if recipient.uid().is_some() {
        let tell = |response: &mut Response| response.set_kind(RDMA_CM_EVENT_ROUTE_RESOLVED);
        // Without memory for it the event is lost, as any other.
        if let Ok(pending) = Pending::new(recipient.clone(), About::Id, tell) {
            recipient.home().add(pending);
        }
    }
    Ok(())
}
