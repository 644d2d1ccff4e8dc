/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The tracepoints of ib_cm. Their names, fields and formats are contract: drivers/infiniband/core/cm_trace.h. The state of an identifier is an
 * argument, because Rust tells of it before C sees it.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM ib_cma

#if !defined(FERROBAND_IB_CMA_H) || defined(TRACE_HEADER_MULTI_READ)
#define FERROBAND_IB_CMA_H

#include <linux/tracepoint.h>
#include <rdma/ib_cm.h>
#include <trace/misc/rdma.h>

/* Calls each(NAME) for all but the last value, and last(NAME) for that. */
#define FOR_STATES(each, last)								\
	each(IDLE) each(LISTEN) each(REQ_SENT) each(REQ_RCVD) each(MRA_REQ_SENT)	\
	each(MRA_REQ_RCVD) each(REP_SENT) each(REP_RCVD) each(MRA_REP_SENT)		\
	each(MRA_REP_RCVD) each(ESTABLISHED) each(DREQ_SENT) each(DREQ_RCVD)		\
	each(TIMEWAIT) each(SIDR_REQ_SENT) last(SIDR_REQ_RCVD)

#define FOR_LAP_STATES(each, last)							\
	each(LAP_UNINIT) each(LAP_IDLE) each(LAP_SENT) each(LAP_RCVD)			\
	each(MRA_LAP_SENT) last(MRA_LAP_RCVD)

#define FOR_REASONS(each, last)								\
	each(REJ_NO_QP) each(REJ_NO_EEC) each(REJ_NO_RESOURCES) each(REJ_TIMEOUT)	\
	each(REJ_UNSUPPORTED) each(REJ_INVALID_COMM_ID)					\
	each(REJ_INVALID_COMM_INSTANCE) each(REJ_INVALID_SERVICE_ID)			\
	each(REJ_INVALID_TRANSPORT_TYPE) each(REJ_STALE_CONN) each(REJ_RDC_NOT_EXIST)	\
	each(REJ_INVALID_GID) each(REJ_INVALID_LID) each(REJ_INVALID_SL)		\
	each(REJ_INVALID_TRAFFIC_CLASS) each(REJ_INVALID_HOP_LIMIT)			\
	each(REJ_INVALID_PACKET_RATE) each(REJ_INVALID_ALT_GID)				\
	each(REJ_INVALID_ALT_LID) each(REJ_INVALID_ALT_SL)				\
	each(REJ_INVALID_ALT_TRAFFIC_CLASS) each(REJ_INVALID_ALT_HOP_LIMIT)		\
	each(REJ_INVALID_ALT_PACKET_RATE) each(REJ_PORT_CM_REDIRECT)			\
	each(REJ_PORT_REDIRECT) each(REJ_INVALID_MTU)					\
	each(REJ_INSUFFICIENT_RESP_RESOURCES) each(REJ_CONSUMER_DEFINED)		\
	each(REJ_INVALID_RNR_RETRY) each(REJ_DUPLICATE_LOCAL_COMM_ID)			\
	each(REJ_INVALID_CLASS_VERSION) each(REJ_INVALID_FLOW_LABEL)			\
	each(REJ_INVALID_ALT_FLOW_LABEL) last(REJ_VENDOR_OPTION_NOT_SUPPORTED)

#define DEFINED(name) TRACE_DEFINE_ENUM(IB_CM_##name);
#define SYMBOL(name) { IB_CM_##name, #name },
#define LAST_SYMBOL(name) { IB_CM_##name, #name }

FOR_STATES(DEFINED, DEFINED)
FOR_LAP_STATES(DEFINED, DEFINED)
FOR_REASONS(DEFINED, DEFINED)

#define show_state(value) __print_symbolic(value, FOR_STATES(SYMBOL, LAST_SYMBOL))
#define show_lap_state(value) __print_symbolic(value, FOR_LAP_STATES(SYMBOL, LAST_SYMBOL))
#define show_reason(value) __print_symbolic(value, FOR_REASONS(SYMBOL, LAST_SYMBOL))

/* An identifier. */
DECLARE_EVENT_CLASS(icm_id_class,
	TP_PROTO(const struct ib_cm_id *cm_id, u32 state),
	TP_ARGS(cm_id, state),
	TP_STRUCT__entry(
		__field(const void *, cm_id)
		__field(unsigned int, local_id)
		__field(unsigned int, remote_id)
		__field(unsigned long, state)
		__field(unsigned long, lap_state)
	),
	TP_fast_assign(
		__entry->cm_id = cm_id;
		__entry->local_id = be32_to_cpu(cm_id->local_id);
		__entry->remote_id = be32_to_cpu(cm_id->remote_id);
		__entry->state = state;
		__entry->lap_state = cm_id->lap_state;
	),
	TP_printk("local_id=%u remote_id=%u state=%s lap_state=%s", __entry->local_id, __entry->remote_id,
		  show_state(__entry->state), show_lap_state(__entry->lap_state))
);

#define OF_ID(name) \
	DEFINE_EVENT(icm_id_class, name, TP_PROTO(const struct ib_cm_id *cm_id, u32 state), TP_ARGS(cm_id, state))

OF_ID(icm_send_req);
OF_ID(icm_send_rep);
OF_ID(icm_send_dup_req);
OF_ID(icm_send_dup_rep);
OF_ID(icm_send_rtu);
OF_ID(icm_send_mra);
OF_ID(icm_send_sidr_req);
OF_ID(icm_send_sidr_rep);
OF_ID(icm_send_dreq);
OF_ID(icm_send_drep);
OF_ID(icm_send_cm_rtu_err);
OF_ID(icm_establish_err);
OF_ID(icm_no_listener_err);
OF_ID(icm_send_drep_err);
OF_ID(icm_dreq_unknown_err);
OF_ID(icm_send_unknown_rej_err);
OF_ID(icm_rej_unknown_err);
OF_ID(icm_prepare_mra_unknown_err);
OF_ID(icm_mra_unknown_err);
OF_ID(icm_qp_init_err);
OF_ID(icm_qp_rtr_err);
OF_ID(icm_qp_rts_err);
OF_ID(icm_dreq_skipped);

TRACE_EVENT(icm_send_rej,
	TP_PROTO(const struct ib_cm_id *cm_id, u32 state, u32 reason),
	TP_ARGS(cm_id, state, reason),
	TP_STRUCT__entry(
		__field(const void *, cm_id)
		__field(u32, local_id)
		__field(u32, remote_id)
		__field(unsigned long, state)
		__field(unsigned long, reason)
	),
	TP_fast_assign(
		__entry->cm_id = cm_id;
		__entry->local_id = be32_to_cpu(cm_id->local_id);
		__entry->remote_id = be32_to_cpu(cm_id->remote_id);
		__entry->state = state;
		__entry->reason = reason;
	),
	TP_printk("local_id=%u remote_id=%u state=%s reason=%s", __entry->local_id, __entry->remote_id,
		  show_state(__entry->state), show_reason(__entry->reason))
);

/* Numbers of a message that is for no identifier. */
DECLARE_EVENT_CLASS(icm_local_class,
	TP_PROTO(unsigned int local_id, unsigned int remote_id),
	TP_ARGS(local_id, remote_id),
	TP_STRUCT__entry(
		__field(unsigned int, local_id)
		__field(unsigned int, remote_id)
	),
	TP_fast_assign(
		__entry->local_id = local_id;
		__entry->remote_id = remote_id;
	),
	TP_printk("local_id=%u remote_id=%u", __entry->local_id, __entry->remote_id)
);

#define OF_NUMBERS(name) \
	DEFINE_EVENT(icm_local_class, name, TP_PROTO(unsigned int local_id, unsigned int remote_id), TP_ARGS(local_id, remote_id))

OF_NUMBERS(icm_issue_rej);
OF_NUMBERS(icm_issue_drep);
OF_NUMBERS(icm_staleconn_err);
OF_NUMBERS(icm_no_priv_err);

DECLARE_EVENT_CLASS(icm_remote_class,
	TP_PROTO(u32 remote_id),
	TP_ARGS(remote_id),
	TP_STRUCT__entry(__field(u32, remote_id)),
	TP_fast_assign(__entry->remote_id = remote_id;),
	TP_printk("remote_id=%u", __entry->remote_id)
);

#define OF_REMOTE(name) DEFINE_EVENT(icm_remote_class, name, TP_PROTO(u32 remote_id), TP_ARGS(remote_id))

OF_REMOTE(icm_remote_no_priv_err);
OF_REMOTE(icm_insert_failed_err);

TRACE_EVENT(icm_send_rep_err,
	TP_PROTO(__be32 local_id, u32 state),
	TP_ARGS(local_id, state),
	TP_STRUCT__entry(
		__field(unsigned int, local_id)
		__field(unsigned long, state)
	),
	TP_fast_assign(
		__entry->local_id = be32_to_cpu(local_id);
		__entry->state = state;
	),
	TP_printk("local_id=%u state=%s", __entry->local_id, show_state(__entry->state))
);

TRACE_EVENT(icm_rep_unknown_err,
	TP_PROTO(unsigned int local_id, unsigned int remote_id, u32 state),
	TP_ARGS(local_id, remote_id, state),
	TP_STRUCT__entry(
		__field(unsigned int, local_id)
		__field(unsigned int, remote_id)
		__field(unsigned long, state)
	),
	TP_fast_assign(
		__entry->local_id = local_id;
		__entry->remote_id = remote_id;
		__entry->state = state;
	),
	TP_printk("local_id=%u remote_id=%u state=%s", __entry->local_id, __entry->remote_id, show_state(__entry->state))
);

TRACE_EVENT(icm_handler_err,
	TP_PROTO(enum ib_cm_event_type event),
	TP_ARGS(event),
	TP_STRUCT__entry(__field(unsigned long, event)),
	TP_fast_assign(__entry->event = event;),
	TP_printk("unhandled event=%s", rdma_show_ib_cm_event(__entry->event))
);

TRACE_EVENT(icm_mad_send_err,
	TP_PROTO(u32 state, enum ib_wc_status wc_status),
	TP_ARGS(state, wc_status),
	TP_STRUCT__entry(
		__field(unsigned long, state)
		__field(unsigned long, wc_status)
	),
	TP_fast_assign(
		__entry->state = state;
		__entry->wc_status = wc_status;
	),
	TP_printk("state=%s completion status=%s", show_state(__entry->state), rdma_show_wc_status(__entry->wc_status))
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE ib_cma
#include <trace/define_trace.h>
