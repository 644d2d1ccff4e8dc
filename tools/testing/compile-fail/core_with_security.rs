// SPDX-License-Identifier: GPL-2.0
// source: core/ib_core.rs
// cfg: CONFIG_SECURITY_INFINIBAND
// error: CONFIG_SECURITY_INFINIBAND: queue pairs do not ask security modules which P_Keys they may use

//! `ib_core` for a kernel whose security modules decide who uses a P_Key.
