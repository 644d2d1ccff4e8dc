// SPDX-License-Identifier: GPL-2.0
// error: mismatched types
// error: expected `&MaySleep`, found `Option<&MaySleep>`

//! `create_ah` sleeps where its caller did not say that it may.

#![allow(unused_imports)]

include!("common/provider.rs");

provider! {
    fn create_ah(
        ah: &AhBase<Self>,
        _: &AhAttr<'_>,
        _: Option<&Udata<'_>>,
        sleep: Option<&MaySleep>,
    ) -> Result {
        ah.device().query_port(1, sleep)?;
        Ok(())
    }
}
