// SPDX-License-Identifier: GPL-2.0

//! Checking and parsing one attribute of an ioctl command.
//!
//! C header: `include/uapi/rdma/rdma_user_ioctl_cmds.h`.

use kernel::prelude::*;
use kernel_ext::error::{EOPNOTSUPP, EPROTONOSUPPORT};
use rdma::MaySleep;
use rdma_uverbs::{
    api::{attr_index, Attr},
    bundle::{Bundle, Sent},
    definition::{Data, Kind},
};

/// Checks an attribute that user space sent against the method's table, and sets it in the command.
///
/// # Errors
///
/// `EPROTONOSUPPORT` for an unknown one with `UVERBS_ATTR_F_MANDATORY`; `EOPNOTSUPP` for data beyond the known structure, or an
/// unknown choice or type; `EINVAL` for a wrong length, or one that is sent twice; `EFAULT`, `ENOMEM`, and those of looking up or
/// beginning an object.
pub(crate) fn take(bundle: &mut Bundle<'_>, sent: &Sent, sleep: &MaySleep) -> Result {
    let method = bundle.method();
    let Some(attr) = attr_index(sent.id).and_then(|index| method.attr(index)) else {
        if sent.is_mandatory {
            return Err(EPROTONOSUPPORT);
        }
        return Ok(());
    };
    if bundle.has(attr) {
        return Err(EINVAL);
    }
    match &attr.kind {
        Kind::Enum(choices) => {
            let choice = choices.get(usize::from(sent.choice)).ok_or(EOPNOTSUPP)?;
            if sent.reserved != 0 {
                return Err(EINVAL);
            }
            let data = choice.as_ref().ok_or(EOPNOTSUPP)?;
            check_rest(data, sent)?;
            take_data(bundle, attr, data, sent)?;
        }
        Kind::In(data) => {
            check_rest(data, sent)?;
            check_plain(data, sent)?;
            take_data(bundle, attr, data, sent)?;
        }
        Kind::Out(data) => {
            check_plain(data, sent)?;
            take_data(bundle, attr, data, sent)?;
        }
        Kind::Idr(object) | Kind::Fd(object) => {
            check_empty(sent)?;
            bundle.set_object(attr, *object, sent, sleep)?;
        }
        Kind::RawFd => {
            check_empty(sent)?;
            i32::try_from(sent.data as i64).map_err(|_| EINVAL)?;
            bundle.set_data(attr, sent);
        }
        Kind::Idrs(object, count) => {
            check_list(sent, *count.start(), *count.end())?;
            bundle.set_objects(attr, *object, sent, sleep)?;
        }
        Kind::Unknown => return Err(EOPNOTSUPP),
    }
    bundle.set_present(attr);
    Ok(())
}

/// Checks that data beyond the structure that the kernel knows is zero.
fn check_rest(data: &Data, sent: &Sent) -> Result {
    if data.zero_trailing && sent.len > data.len && !sent.is_zero_after(data.len) {
        return Err(EOPNOTSUPP);
    }
    Ok(())
}

fn check_plain(data: &Data, sent: &Sent) -> Result {
    check_len(data, sent)?;
    if !sent.is_plain() {
        return Err(EINVAL);
    }
    Ok(())
}

fn check_len(data: &Data, sent: &Sent) -> Result {
    if sent.len < data.min || (!data.zero_trailing && sent.len > data.len) {
        return Err(EINVAL);
    }
    Ok(())
}

fn check_empty(sent: &Sent) -> Result {
    if !sent.is_plain() || sent.len != 0 {
        return Err(EINVAL);
    }
    Ok(())
}

fn check_list(sent: &Sent, min: u16, max: u16) -> Result {
    const HANDLE: u16 = size_of::<u32>() as u16;
    let is_whole = sent.len % HANDLE == 0;
    if !sent.is_plain() || !is_whole || !(min..=max).contains(&(sent.len / HANDLE)) {
        return Err(EINVAL);
    }
    Ok(())
}

fn take_data(bundle: &mut Bundle<'_>, attr: &Attr, data: &Data, sent: &Sent) -> Result {
    check_len(data, sent)?;
    if data.copied {
        return bundle.set_copied(attr, sent);
    }
    bundle.set_data(attr, sent);
    Ok(())
}
