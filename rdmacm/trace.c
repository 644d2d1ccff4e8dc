// SPDX-License-Identifier: GPL-2.0
/* The tracepoints of rdma_cm. Rust fires them: rust/rdma/core/cma/trace.rs. */
#include "../rust/bindings/core_private.h"

#define CREATE_TRACE_POINTS
#define CREATE_RUST_TRACE_POINTS
#include "rdma_cma.h"
