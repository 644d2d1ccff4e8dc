// SPDX-License-Identifier: GPL-2.0
// error: method `modify_ah` has 3 parameters but the declaration in trait
// error: method `query_ah` has 2 parameters but the declaration in trait
// error: method `poll_cq` has 3 parameters but the declaration in trait
// error: method `req_notify_cq` has 3 parameters but the declaration in trait
// error: method `post_send` has 3 parameters but the declaration in trait
// error: method `post_recv` has 3 parameters but the declaration in trait
// error: method `post_srq_recv` has 3 parameters but the declaration in trait

//! A provider whose atomic methods want a token: the methods that may be called from anywhere get none.

#![allow(unused_imports)]

include!("common/provider.rs");

provider! {
    fn modify_ah(_ah: &Ah<Self>, _attr: &AhAttr<'_>, _sleep: &MaySleep) -> Result {
        Ok(())
    }
    fn query_ah(_ah: &Ah<Self>, _sleep: &MaySleep) -> Result<AhFields> {
        Err(EINVAL)
    }
    fn poll_cq(_cq: &Cq<Self>, _out: &mut WcSink<'_>, _sleep: &MaySleep) -> Result {
        Ok(())
    }
    fn req_notify_cq(_cq: &Cq<Self>, _flags: NotifyFlags, _sleep: &MaySleep) -> Result<bool> {
        Ok(false)
    }
    fn post_send(_qp: &Qp<Self>, _wrs: &mut SendWrs<'_, Self>, _sleep: &MaySleep) -> Result {
        Ok(())
    }
    fn post_recv(_qp: &Qp<Self>, _wrs: &mut RecvWrs<'_>, _sleep: &MaySleep) -> Result {
        Ok(())
    }
    fn post_srq_recv(_srq: &Srq<Self>, _wrs: &mut RecvWrs<'_>, _sleep: &MaySleep) -> Result {
        Ok(())
    }
}
