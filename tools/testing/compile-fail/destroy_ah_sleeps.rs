// SPDX-License-Identifier: GPL-2.0
// error: mismatched types
// error: expected `&MaySleep`, found `Option<&MaySleep>`

//! `destroy_ah` sleeps where its caller did not say that it may.

#![allow(unused_imports)]

include!("common/provider.rs");

provider! {
    fn destroy_ah(ah: &Ah<Self>, sleep: Option<&MaySleep>) -> Result {
        ah.base().device().query_port(1, sleep)?;
        Ok(())
    }
}
