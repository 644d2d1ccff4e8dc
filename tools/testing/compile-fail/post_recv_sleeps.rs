// SPDX-License-Identifier: GPL-2.0
// error: this method takes 2 arguments but 1 argument was supplied
// error: query_port(1)

//! `post_recv`, which may be called in any context, calls what may sleep.

#![allow(unused_imports)]

include!("common/provider.rs");

provider! {
    fn post_recv(qp: &Qp<Self>, _: &mut RecvWrs<'_>) -> Result {
        qp.base().device().query_port(1)?;
        Err(EINVAL)
    }
}
