/* SPDX-License-Identifier: GPL-2.0 */
/* The tracepoints of rdma_cm. Their names, fields and formats are contract: drivers/infiniband/core/cma_trace.h. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM rdma_cma

#if !defined(FERROBAND_RDMA_CMA_H) || defined(TRACE_HEADER_MULTI_READ)
#define FERROBAND_RDMA_CMA_H

#include <linux/tracepoint.h>
#include <rdma/ib_cm.h>
#include <trace/misc/rdma.h>

/* Both addresses of an identifier: the fields, and their values. */
#define ADDRESS_FIELDS							\
	__array(unsigned char, srcaddr, sizeof(struct sockaddr_in6))	\
	__array(unsigned char, dstaddr, sizeof(struct sockaddr_in6))
#define ASSIGN_ADDRESSES(id)									\
	memcpy(__entry->srcaddr, &(id)->route.addr.src_addr, sizeof(struct sockaddr_in6));	\
	memcpy(__entry->dstaddr, &(id)->route.addr.dst_addr, sizeof(struct sockaddr_in6))

/* Values of enum ib_qp_type: each(NAME) for all but the last, last(NAME) for that. */
#define FOR_QP_TYPES(each, last)							\
	each(SMI) each(GSI) each(RC) each(UC) each(UD) each(RAW_IPV6)			\
	each(RAW_ETHERTYPE) each(RAW_PACKET) each(XRC_INI) last(XRC_TGT)

#define DEFINED(name) TRACE_DEFINE_ENUM(IB_QPT_##name);
#define SYMBOL(name) { IB_QPT_##name, #name },
#define LAST_SYMBOL(name) { IB_QPT_##name, #name }

FOR_QP_TYPES(DEFINED, DEFINED)

#define show_qp_type(value) __print_symbolic(value, FOR_QP_TYPES(SYMBOL, LAST_SYMBOL))

/* What an identifier does. */
DECLARE_EVENT_CLASS(cma_fsm_class,
	TP_PROTO(const struct rdma_id_private *id_priv),
	TP_ARGS(id_priv),
	TP_STRUCT__entry(
		__field(u32, cm_id)
		__field(u32, tos)
		ADDRESS_FIELDS
	),
	TP_fast_assign(
		__entry->cm_id = id_priv->res.id;
		__entry->tos = id_priv->tos;
		ASSIGN_ADDRESSES(&id_priv->id);
	),
	TP_printk("cm.id=%u src=%pISpc dst=%pISpc tos=%u",
		  __entry->cm_id, __entry->srcaddr, __entry->dstaddr, __entry->tos)
);

#define OF_ID(name) DEFINE_EVENT(cma_fsm_class, name, TP_PROTO(const struct rdma_id_private *id_priv), TP_ARGS(id_priv))

OF_ID(cm_send_rtu);
OF_ID(cm_send_rej);
OF_ID(cm_prepare_mra);
OF_ID(cm_send_sidr_req);
OF_ID(cm_send_sidr_rep);
OF_ID(cm_disconnect);
OF_ID(cm_sent_drep);
OF_ID(cm_sent_dreq);
OF_ID(cm_id_destroy);

TRACE_EVENT(cm_id_attach,
	TP_PROTO(const struct rdma_id_private *id_priv, const struct ib_device *device),
	TP_ARGS(id_priv, device),
	TP_STRUCT__entry(
		__field(u32, cm_id)
		ADDRESS_FIELDS
		__string(devname, device->name)
	),
	TP_fast_assign(
		__entry->cm_id = id_priv->res.id;
		ASSIGN_ADDRESSES(&id_priv->id);
		__assign_str(devname);
	),
	TP_printk("cm.id=%u src=%pISpc dst=%pISpc device=%s",
		  __entry->cm_id, __entry->srcaddr, __entry->dstaddr, __get_str(devname))
);

/* What an identifier with a queue pair does. */
DECLARE_EVENT_CLASS(cma_qp_class,
	TP_PROTO(const struct rdma_id_private *id_priv),
	TP_ARGS(id_priv),
	TP_STRUCT__entry(
		__field(u32, cm_id)
		__field(u32, tos)
		__field(u32, qp_num)
		ADDRESS_FIELDS
	),
	TP_fast_assign(
		__entry->cm_id = id_priv->res.id;
		__entry->tos = id_priv->tos;
		__entry->qp_num = id_priv->qp_num;
		ASSIGN_ADDRESSES(&id_priv->id);
	),
	TP_printk("cm.id=%u src=%pISpc dst=%pISpc tos=%u qp_num=%u",
		  __entry->cm_id, __entry->srcaddr, __entry->dstaddr, __entry->tos, __entry->qp_num)
);

#define OF_QP(name) DEFINE_EVENT(cma_qp_class, name, TP_PROTO(const struct rdma_id_private *id_priv), TP_ARGS(id_priv))

OF_QP(cm_send_req);
OF_QP(cm_send_rep);
OF_QP(cm_qp_destroy);

TRACE_EVENT(cm_qp_create,
	TP_PROTO(const struct rdma_id_private *id_priv, const struct ib_pd *pd, const struct ib_qp_init_attr *qp_init_attr, int rc),
	TP_ARGS(id_priv, pd, qp_init_attr, rc),
	TP_STRUCT__entry(
		__field(u32, cm_id)
		__field(u32, pd_id)
		__field(u32, tos)
		__field(u32, qp_num)
		__field(u32, send_wr)
		__field(u32, recv_wr)
		__field(int, rc)
		__field(unsigned long, qp_type)
		ADDRESS_FIELDS
	),
	TP_fast_assign(
		__entry->cm_id = id_priv->res.id;
		__entry->pd_id = pd->res.id;
		__entry->tos = id_priv->tos;
		__entry->qp_num = rc ? 0 : id_priv->qp_num;
		__entry->send_wr = qp_init_attr->cap.max_send_wr;
		__entry->recv_wr = qp_init_attr->cap.max_recv_wr;
		__entry->rc = rc;
		__entry->qp_type = rc ? 0 : id_priv->id.qp_type;
		ASSIGN_ADDRESSES(&id_priv->id);
	),
	TP_printk("cm.id=%u src=%pISpc dst=%pISpc tos=%u pd.id=%u qp_type=%s send_wr=%u recv_wr=%u qp_num=%u rc=%d",
		  __entry->cm_id, __entry->srcaddr, __entry->dstaddr, __entry->tos, __entry->pd_id,
		  show_qp_type(__entry->qp_type), __entry->send_wr, __entry->recv_wr, __entry->qp_num, __entry->rc)
);

TRACE_EVENT(cm_req_handler,
	TP_PROTO(const struct rdma_id_private *id_priv, int event),
	TP_ARGS(id_priv, event),
	TP_STRUCT__entry(
		__field(u32, cm_id)
		__field(u32, tos)
		__field(unsigned long, event)
		ADDRESS_FIELDS
	),
	TP_fast_assign(
		__entry->cm_id = id_priv->res.id;
		__entry->tos = id_priv->tos;
		__entry->event = event;
		ASSIGN_ADDRESSES(&id_priv->id);
	),
	TP_printk("cm.id=%u src=%pISpc dst=%pISpc tos=%u %s (%lu)",
		  __entry->cm_id, __entry->srcaddr, __entry->dstaddr, __entry->tos,
		  rdma_show_ib_cm_event(__entry->event), __entry->event)
);

TRACE_EVENT(cm_event_handler,
	TP_PROTO(const struct rdma_id_private *id_priv, const struct rdma_cm_event *event),
	TP_ARGS(id_priv, event),
	TP_STRUCT__entry(
		__field(u32, cm_id)
		__field(u32, tos)
		__field(unsigned long, event)
		__field(int, status)
		ADDRESS_FIELDS
	),
	TP_fast_assign(
		__entry->cm_id = id_priv->res.id;
		__entry->tos = id_priv->tos;
		__entry->event = event->event;
		__entry->status = event->status;
		ASSIGN_ADDRESSES(&id_priv->id);
	),
	TP_printk("cm.id=%u src=%pISpc dst=%pISpc tos=%u %s (%lu/%d)",
		  __entry->cm_id, __entry->srcaddr, __entry->dstaddr, __entry->tos,
		  rdma_show_cm_event(__entry->event), __entry->event, __entry->status)
);

TRACE_EVENT(cm_event_done,
	TP_PROTO(const struct rdma_id_private *id_priv, const struct rdma_cm_event *event, int result),
	TP_ARGS(id_priv, event, result),
	TP_STRUCT__entry(
		__field(u32, cm_id)
		__field(u32, tos)
		__field(unsigned long, event)
		__field(int, result)
		ADDRESS_FIELDS
	),
	TP_fast_assign(
		__entry->cm_id = id_priv->res.id;
		__entry->tos = id_priv->tos;
		__entry->event = event->event;
		__entry->result = result;
		ASSIGN_ADDRESSES(&id_priv->id);
	),
	TP_printk("cm.id=%u src=%pISpc dst=%pISpc tos=%u %s consumer returns %d",
		  __entry->cm_id, __entry->srcaddr, __entry->dstaddr, __entry->tos,
		  rdma_show_cm_event(__entry->event), __entry->result)
);

/* Devices. */
DECLARE_EVENT_CLASS(cma_client_class,
	TP_PROTO(const struct ib_device *device),
	TP_ARGS(device),
	TP_STRUCT__entry(__string(name, device->name)),
	TP_fast_assign(__assign_str(name);),
	TP_printk("device name=%s", __get_str(name))
);

#define OF_DEVICE(name) DEFINE_EVENT(cma_client_class, name, TP_PROTO(const struct ib_device *device), TP_ARGS(device))

OF_DEVICE(cm_add_one);
OF_DEVICE(cm_remove_one);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE rdma_cma
#include <trace/define_trace.h>
