// SPDX-License-Identifier: GPL-2.0
/*
 * The tracepoints of the core, whose formats are those of the kernel's header. Rust fires them: rust/rdma/core/trace.rs.
 */
#define CREATE_TRACE_POINTS
#define CREATE_RUST_TRACE_POINTS
#include <trace/events/rdma_core.h>
