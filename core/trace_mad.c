// SPDX-License-Identifier: GPL-2.0
/*
 * The tracepoints of management datagrams, whose formats are those of the kernel's header. Rust fires them:
 * rust/rdma/core/mad/trace.rs.
 */
#include "../rust/bindings/core_private.h"

#define CREATE_TRACE_POINTS
#define CREATE_RUST_TRACE_POINTS
#include <trace/events/ib_mad.h>

/* Where a datagram goes. */
static void create_mad_addr_info(struct ib_mad_send_wr_private *send, struct ib_mad_qp_info *qp_info,
				 struct trace_event_raw_ib_mad_send_template *entry)
{
	struct rdma_ah_attr attr = {};

	if (send->send_wr.ah)
		rdma_query_ah(send->send_wr.ah, &attr);
	entry->sl = attr.sl;
	entry->dlid = rdma_ah_get_dlid(&attr);
	entry->rqpn = send->send_wr.remote_qpn;
	entry->rqkey = send->send_wr.remote_qkey;
}
