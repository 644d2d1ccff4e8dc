// SPDX-License-Identifier: GPL-2.0
// error: this method takes 2 arguments but 1 argument was supplied
// error: query_port(1)

//! `peek_cq`, which may be called in any context, calls what may sleep.

#![allow(unused_imports)]

include!("common/provider.rs");

provider! {
    fn peek_cq(cq: &Cq<Self>, _: u32) -> Result<u32> {
        cq.base().device().query_port(1)?;
        Err(EINVAL)
    }
}
