// SPDX-License-Identifier: GPL-2.0
/* Queue pairs of identifiers: their states and attributes come with the connection. */
#include "cma_test.h"

static struct rt_end listener, active, passive;
static struct rt_queues queues;

static int completed(struct ib_cq *cq, struct ib_wc *wc)
{
	int tries, count = 0;

	for (tries = 0; tries < 1000 && !count; tries++) {
		count = ib_poll_cq(cq, 1, wc);
		if (!count)
			usleep_range(5000, 10000);
	}
	return count;
}

/* A message of no length, from one end to the other. */
static void message(void)
{
	struct ib_send_wr send = { .opcode = IB_WR_SEND, .send_flags = IB_SEND_SIGNALED, .wr_id = 1 };
	struct ib_recv_wr recv = { .wr_id = 2 };
	struct ib_wc wc = {};
	u64 seen = 0;
	int nth;

	CHECK_EQ("a receive", 0, ib_post_recv(passive.id->qp, &recv, NULL));
	CHECK_EQ("a message", 0, ib_post_send(active.id->qp, &send, NULL));
	for (nth = 0; nth < 2; nth++) {
		if (completed(queues.cq, &wc) == 1 && wc.status == IB_WC_SUCCESS)
			seen += wc.wr_id;
	}
	CHECK_EQ("it is sent, and comes", 3, seen);
}

static void check_attributes(struct ib_qp *qp, struct ib_qp *peer, int resources, int depth)
{
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;

	CHECK_EQ("the attributes of the queue pair", 0,
		 ib_query_qp(qp, &attr, IB_QP_STATE | IB_QP_DEST_QPN | IB_QP_MAX_QP_RD_ATOMIC | IB_QP_MAX_DEST_RD_ATOMIC, &init));
	CHECK_EQ("it can send", IB_QPS_RTS, attr.qp_state);
	CHECK_EQ("its peer", peer->qp_num, attr.dest_qp_num);
	CHECK_EQ("READs that come in", resources, attr.max_dest_rd_atomic);
	CHECK_EQ("READs that go out", depth, attr.max_rd_atomic);
	CHECK_EQ("retries", 6, attr.retry_cnt);
	CHECK_EQ("the MTU", IB_MTU_1024, attr.path_mtu);
}

static bool ask(void)
{
	rt_forget(&passive);
	listener.for_child = &passive;
	return !rt_routed(&active, RT_HERE, rt_port(listener.id)) && !rt_create_qp(&active, &queues) &&
	       !rt_connect(&active, NULL, 0) && rt_is_next(&passive, RDMA_CM_EVENT_CONNECT_REQUEST);
}

static void over(void)
{
	if (active.id && active.id->qp)
		rdma_destroy_qp(active.id);
	if (passive.id && passive.id->qp)
		rdma_destroy_qp(passive.id);
	rt_down(&active);
	rt_down(&passive);
}

static void establish(void)
{
	struct rt_event *told;
	struct ib_qp *qp;

	CHECK_EQ("a route", 0, rt_routed(&active, RT_HERE, rt_port(listener.id)));
	CHECK_EQ("a queue pair", 0, rt_create_qp(&active, &queues));
	qp = active.id->qp;
	CHECK("the identifier has it", qp);
	if (!qp)
		return;
	CHECK_EQ("it may receive", IB_QPS_INIT, rt_qp_state(qp));
	CHECK_EQ("its kind", IB_QPT_RC, qp->qp_type);
	rt_forget(&passive);
	CHECK_EQ("it asks", 0, rt_connect(&active, "hello", 6));
	told = rt_next(&passive);
	CHECK("the peer is told", told && told->event.event == RDMA_CM_EVENT_CONNECT_REQUEST);
	if (!told)
		return;
	CHECK_EQ("which queue pair", qp->qp_num, told->event.param.conn.qp_num);
	CHECK_EQ("it has no SRQ", 0, told->event.param.conn.srq);
	CHECK_EQ("a queue pair of the peer", 0, rt_create_qp(&passive, &queues));
	if (!passive.id->qp)
		return;
	CHECK_EQ("it may receive", IB_QPS_INIT, rt_qp_state(passive.id->qp));
	CHECK_EQ("it accepts", 0, rt_accept(&passive, "well", 5));
	CHECK_EQ("then it can send", IB_QPS_RTS, rt_qp_state(passive.id->qp));
	told = rt_next(&active);
	CHECK("the other is connected by that", told && told->event.event == RDMA_CM_EVENT_ESTABLISHED);
	if (!told)
		return;
	CHECK_EQ("no errno", 0, told->event.status);
	CHECK_EQ("which queue pair", passive.id->qp->qp_num, told->event.param.conn.qp_num);
	CHECK_EQ("it has no SRQ", 0, told->event.param.conn.srq);
	CHECK("private data", !strcmp(told->data, "well"));
	told = rt_next(&passive);
	CHECK("so is the peer", told && told->event.event == RDMA_CM_EVENT_ESTABLISHED);
	CHECK("without private data", told && !told->has_data);
	check_attributes(active.id->qp, passive.id->qp, 4, 2);
	check_attributes(passive.id->qp, active.id->qp, 2, 4);
	message();

	CHECK_EQ("it disconnects", 0, rdma_disconnect(active.id));
	CHECK_EQ("its queue pair ends", IB_QPS_ERR, rt_qp_state(active.id->qp));
	CHECK("the peer is told", rt_is_next(&passive, RDMA_CM_EVENT_DISCONNECTED));
	CHECK_EQ("its queue pair is as it was", IB_QPS_RTS, rt_qp_state(passive.id->qp));
	CHECK_EQ("it agrees", 0, rdma_disconnect(passive.id));
	CHECK_EQ("its queue pair ends", IB_QPS_ERR, rt_qp_state(passive.id->qp));
	CHECK("the other is told", rt_is_next(&active, RDMA_CM_EVENT_DISCONNECTED));
	rdma_destroy_qp(active.id);
	CHECK("the queue pair has gone", !active.id->qp);
	over();
}

static void errors(void)
{
	struct ib_qp_init_attr much = {
		.send_cq = queues.cq, .recv_cq = queues.cq, .qp_type = IB_QPT_RC, .cap = { .max_send_wr = 1 << 30, .max_send_sge = 1 },
	};
	struct rdma_conn_param param;
	struct rt_event *told;

	CHECK_EQ("a route", 0, rt_routed(&active, RT_HERE, rt_port(listener.id)));
	CHECK_EQ("a queue that is too long", -EINVAL, rdma_create_qp(active.id, queues.pd, &much));
	CHECK("there is none", !active.id->qp);
	CHECK_EQ("then one that is not", 0, rt_create_qp(&active, &queues));
	over();

	CHECK("a request", ask());
	CHECK_EQ("a refusal", 0, rdma_reject(passive.id, NULL, 0, IB_CM_REJ_CONSUMER_DEFINED));
	CHECK("which is told", rt_is_next(&active, RDMA_CM_EVENT_REJECTED));
	CHECK_EQ("its queue pair ends", IB_QPS_ERR, rt_qp_state(active.id->qp));
	over();

	/* The queue pair of who is asked cannot do what is promised. */
	CHECK("a request", ask());
	CHECK_EQ("a queue pair of the peer", 0, rt_create_qp(&passive, &queues));
	param = rt_param(NULL, 0);
	param.initiator_depth = 255;
	rdma_lock_handler(passive.id);
	CHECK_EQ("more READs than it can", -EINVAL, rdma_accept(passive.id, &param));
	rdma_unlock_handler(passive.id);
	CHECK_EQ("its queue pair ends", IB_QPS_ERR, rt_qp_state(passive.id->qp));
	told = rt_next(&active);
	CHECK("the other is refused", told && told->event.event == RDMA_CM_EVENT_REJECTED);
	CHECK_EQ("the reason", IB_CM_REJ_CONSUMER_DEFINED, told ? told->event.status : 0);
	over();

	/* That of who asks cannot do what the answer says. */
	CHECK("a request", ask());
	param = rt_param(NULL, 0);
	param.responder_resources = 255;
	rdma_lock_handler(passive.id);
	CHECK_EQ("an answer, without a queue pair", 0, rdma_accept(passive.id, &param));
	rdma_unlock_handler(passive.id);
	told = rt_next(&active);
	CHECK("it is an error", told && told->event.event == RDMA_CM_EVENT_CONNECT_ERROR);
	CHECK_EQ("the errno", -EINVAL, told ? told->event.status : 0);
	CHECK_EQ("its queue pair ends", IB_QPS_ERR, rt_qp_state(active.id->qp));
	told = rt_next(&passive);
	CHECK("the peer is refused", told && told->event.event == RDMA_CM_EVENT_REJECTED);
	CHECK_EQ("the reason", IB_CM_REJ_CONSUMER_DEFINED, told ? told->event.status : 0);
	over();

	/* The identifier goes before the connection is over. */
	CHECK("a request", ask());
	rdma_destroy_qp(active.id);
	rt_down(&active);
	CHECK("which is told", rt_is_next(&passive, RDMA_CM_EVENT_REJECTED));
	over();
}

static void datagrams(void)
{
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;

	CHECK_EQ("a route", 0, rt_routed_udp(&active, RT_HERE, RT_PORT));
	CHECK_EQ("attributes for INIT", IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT | IB_QP_QKEY,
		 rt_mask(active.id, IB_QPS_INIT, &attr));
	CHECK_EQ("the usual key", RDMA_UDP_QKEY, attr.qkey);
	CHECK_EQ("a queue pair", 0, rt_create_qp(&active, &queues));
	if (active.id->qp) {
		CHECK_EQ("its attributes", 0, ib_query_qp(active.id->qp, &attr, IB_QP_STATE | IB_QP_QKEY, &init));
		CHECK_EQ("it can send", IB_QPS_RTS, attr.qp_state);
		CHECK_EQ("the usual key", RDMA_UDP_QKEY, attr.qkey);
	}
	over();
}

void rt_test_qp(void)
{
	CHECK_EQ("a listener", 0, rt_listen(&listener, &passive, RT_HERE, 0));
	CHECK_EQ("queues", 0, rt_queues_up(&queues, listener.id->device));
	establish();
	errors();
	datagrams();
	rt_queues_down(&queues);
	rt_down(&listener);
}
