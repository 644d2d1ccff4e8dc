// SPDX-License-Identifier: GPL-2.0

//! A provider compiles that sleeps only where its caller says that it may.

#![allow(unused_imports)]

include!("common/provider.rs");

provider! {
    fn create_ah(
        ah: &AhBase<Self>,
        _: &AhAttr<'_>,
        _: Option<&Udata<'_>>,
        sleep: Option<&MaySleep>,
    ) -> Result {
        if let Some(sleep) = sleep {
            ah.device().query_port(1, sleep)?;
        }
        Ok(())
    }

    fn post_send(_: &Qp<Self>, wrs: &mut SendWrs<'_, Self>) -> Result {
        wrs.next().map_or(Ok(()), |_| Err(EINVAL))
    }
}
