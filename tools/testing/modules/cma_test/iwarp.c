// SPDX-License-Identifier: GPL-2.0
/* A device of iWARP: what is other there. */
#include "cma_test.h"

#define HERE "10.1.2.1"

static struct rt_end listener, active, passive;
static struct rt_queues queues;

static void over(void)
{
	if (active.id && active.id->qp)
		rdma_destroy_qp(active.id);
	if (passive.id && passive.id->qp)
		rdma_destroy_qp(passive.id);
	rt_down(&active);
	rt_down(&passive);
}

static bool ask(void)
{
	over();
	rt_forget(&passive);
	listener.for_child = &passive;
	return !rt_routed(&active, HERE, rt_port(listener.id)) && !rt_create_qp(&active, &queues) &&
	       !rt_connect(&active, "hello", 6) && rt_is_next(&passive, RDMA_CM_EVENT_CONNECT_REQUEST);
}

/* The stock siw drops what comes while it has locked the state of its queue pair. */
static bool three_tries(bool (*step)(void))
{
	return step() || step() || step();
}

static bool join(void)
{
	return ask() && !rt_create_qp(&passive, &queues) && !rt_accept(&passive, "well", 5) &&
	       rt_is_next(&active, RDMA_CM_EVENT_ESTABLISHED) && rt_is_next(&passive, RDMA_CM_EVENT_ESTABLISHED);
}

static bool refuse(void)
{
	return ask() && !rdma_reject(passive.id, "no", 3, 0) && rt_is_next(&active, RDMA_CM_EVENT_REJECTED);
}

static void errors(void)
{
	struct rdma_cm_event event = {
		.event = RDMA_CM_EVENT_REJECTED, .status = -ECONNREFUSED,
		.param.conn = { .private_data = &event, .private_data_len = 17 },
	};
	struct ib_qp_attr attr;
	u8 length = 99;

	rt_up_tcp(&active);
	CHECK_EQ("not InfiniBand", 0, rdma_restrict_node_type(active.id, RDMA_NODE_IB_CA));
	CHECK_EQ("no device of that kind", -ENODEV, rdma_bind_addr(active.id, rt_sa(HERE, 0)));
	CHECK_EQ("but iWARP", 0, rdma_restrict_node_type(active.id, RDMA_NODE_RNIC));
	CHECK_EQ("a device of that kind", 0, rdma_bind_addr(active.id, rt_sa(HERE, 0)));
	CHECK_EQ("its transport", RDMA_TRANSPORT_IWARP, active.id->route.addr.dev_addr.transport);
	CHECK("no identifier of iw_cm yet", !rdma_iw_cm_id(active.id));
	CHECK("a reason", !strcmp(rdma_reject_msg(active.id, -ECONNREFUSED), "refused by remote application"));
	CHECK("another", !strcmp(rdma_reject_msg(active.id, -ECONNRESET), "reset by remote host"));
	CHECK("none", !strcmp(rdma_reject_msg(active.id, IB_CM_REJ_CONSUMER_DEFINED), "unrecognized reason"));
	CHECK("data of the consumer", rdma_consumer_reject_data(active.id, &event, &length) == &event);
	CHECK_EQ("its length", 17, length);
	event.status = IB_CM_REJ_CONSUMER_DEFINED;
	CHECK("none for a reason of InfiniBand", !rdma_consumer_reject_data(active.id, &event, &length));
	CHECK_EQ("its length", 0, length);
	rt_down(&active);
	rt_up_udp(&active);
	CHECK_EQ("bound for datagrams", 0, rdma_bind_addr(active.id, rt_sa(HERE, 0)));
	CHECK_EQ("no groups", -ENOSYS, rdma_join_multicast(active.id, rt_sa("239.1.2.3", 0), BIT(FULLMEMBER_JOIN), NULL));
	rt_down(&active);
	CHECK_EQ("a route", 0, rt_routed(&active, HERE, RT_PORT));
	CHECK("which has no path", !active.id->route.path_rec && !active.id->route.num_pri_alt_paths);
	CHECK_EQ("attributes for INIT", IB_QP_STATE | IB_QP_ACCESS_FLAGS | IB_QP_PORT, rt_mask(active.id, IB_QPS_INIT, &attr));
	CHECK_EQ("the port", 1, attr.port_num);
	CHECK_EQ("no access yet", 0, attr.qp_access_flags);
	rt_down(&active);
}

static void check_joined(void)
{
	struct rt_event *request = &passive.events[0], *established = &active.events[2];

	CHECK("a device each", active.id && passive.id && active.id->device == passive.id->device);
	CHECK_EQ("private data of the request", 6, request->event.param.conn.private_data_len);
	CHECK("as it was sent", !strcmp(request->data, "hello"));
	CHECK_EQ("that of the answer", 5, established->event.param.conn.private_data_len);
	CHECK("as it was sent", !strcmp(established->data, "well"));
	CHECK_EQ("no errno", 0, established->event.status | request->event.status);
	CHECK("the address of here", passive.id && rt_is(&passive.id->route.addr.src_addr, HERE));
	CHECK("that of the peer", passive.id && rt_is(&passive.id->route.addr.dst_addr, HERE));
	CHECK("an identifier of iw_cm", active.id && rdma_iw_cm_id(active.id));
	CHECK("another of the peer", passive.id && rdma_iw_cm_id(passive.id) && rdma_iw_cm_id(passive.id) != rdma_iw_cm_id(active.id));
	CHECK_EQ("the queue pair can send", IB_QPS_RTS, active.id && active.id->qp ? rt_qp_state(active.id->qp) : -1);
	CHECK_EQ("nothing to notify", 0, active.id ? rdma_notify(active.id, IB_EVENT_COMM_EST) : -1);
}

void rt_test_iwarp(void)
{
	struct rt_event *told;

	errors();
	CHECK_EQ("a listener", 0, rt_listen(&listener, &passive, HERE, RT_PORT));
	CHECK("an identifier of iw_cm", rdma_iw_cm_id(listener.id));
	CHECK_EQ("queues", 0, rt_queues_up(&queues, listener.id->device));
	CHECK("a request", three_tries(ask));
	CHECK_EQ("no answer without parameters", -EINVAL, passive.id ? rt_go(&passive) : 0);
	CHECK("refuses", rt_is_next(&active, RDMA_CM_EVENT_REJECTED));
	CHECK("a refusal", three_tries(refuse));
	told = &active.events[2];
	CHECK_EQ("the errno, as siw has it", -ECONNRESET, told->event.status);
	CHECK_EQ("private data", 3, told->event.param.conn.private_data_len);
	CHECK("as it was sent", !strcmp(told->data, "no"));
	CHECK("a connection", three_tries(join));
	check_joined();
	CHECK_EQ("its end", 0, active.id ? rdma_disconnect(active.id) : -1);
	CHECK("which is told", rt_is_next(&active, RDMA_CM_EVENT_DISCONNECTED));
	CHECK("to both", rt_is_next(&passive, RDMA_CM_EVENT_DISCONNECTED));
	over();
	rt_queues_down(&queues);
	rt_down(&listener);
}
