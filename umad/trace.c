// SPDX-License-Identifier: GPL-2.0
/*
 * The tracepoints of MADs in user space, whose formats are those of the kernel's header. Rust fires them:
 * rust/rdma/client/mad/trace.rs.
 */
#include "../rust/bindings/core_private.h"

#define CREATE_TRACE_POINTS
#define CREATE_RUST_TRACE_POINTS
#include <trace/events/ib_umad.h>
