// SPDX-License-Identifier: GPL-2.0
/* The tracepoints of ib_cm. Rust fires them: rust/rdma/core/cm/trace.rs. */
#define CREATE_TRACE_POINTS
#define CREATE_RUST_TRACE_POINTS
#include "ib_cma.h"
