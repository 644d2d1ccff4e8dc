// SPDX-License-Identifier: GPL-2.0
/* Connections: what each end is told of the other, private data, refusals, the end. */
#include "cma_test.h"

#define REQUEST_DATA 56		/* what is left of a REQ behind the addresses */

static struct rt_end listener, active, passive;
static u8 data[256];

static bool same(struct rt_event *told, int length)
{
	int nth;

	for (nth = 0; nth < length; nth++) {
		if (told->data[nth] != data[nth])
			return false;
	}
	/* What was not sent is 0. */
	for (; nth < told->event.param.conn.private_data_len; nth++) {
		if (told->data[nth])
			return false;
	}
	return true;
}

static bool ask(int length)
{
	rt_forget(&passive);
	listener.for_child = &passive;
	return !rt_routed(&active, RT_HERE, rt_port(listener.id)) && !rt_connect(&active, data, length);
}

static void establish(void)
{
	struct rdma_conn_param *param;
	struct ib_qp_attr attr;
	u32 active_qpn, passive_qpn;
	struct rt_event *told;

	CHECK_EQ("a route", 0, rt_routed(&active, RT_HERE, rt_port(listener.id)));
	CHECK_EQ("attributes for INIT", IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT | IB_QP_ACCESS_FLAGS,
		 rt_mask(active.id, IB_QPS_INIT, &attr));
	CHECK_EQ("no access yet", 0, attr.qp_access_flags);
	CHECK_EQ("the port", 1, attr.port_num);
	rt_forget(&passive);
	active_qpn = atomic_read(&rt_qpn) + 1;
	CHECK_EQ("it asks", 0, rt_connect(&active, data, 20));
	told = rt_next(&passive);
	CHECK("the peer is told", told && told->event.event == RDMA_CM_EVENT_CONNECT_REQUEST);
	if (!told)
		return;
	param = &told->event.param.conn;
	CHECK_EQ("no errno", 0, told->event.status);
	CHECK_EQ("the length of private data", REQUEST_DATA, param->private_data_len);
	CHECK("private data", same(told, 20));
	CHECK_EQ("what it may be asked for", 5, param->responder_resources);
	CHECK_EQ("what it may ask for", 3, param->initiator_depth);
	CHECK_EQ("flow control", 1, param->flow_control);
	CHECK_EQ("retries", 6, param->retry_count);
	CHECK_EQ("retries without a receive", 7, param->rnr_retry_count);
	CHECK_EQ("SRQ", 1, param->srq);
	CHECK_EQ("the queue pair", active_qpn, param->qp_num);
	CHECK_EQ("no vendor of options", 0, told->event.ece.vendor_id);
	CHECK_EQ("no options", 0, told->event.ece.attr_mod);

	passive_qpn = atomic_read(&rt_qpn) + 1;
	CHECK_EQ("it is accepted", 0, rt_accept(&passive, data, 30));
	told = rt_next(&active);
	CHECK("the other is told", told && told->event.event == RDMA_CM_EVENT_CONNECT_RESPONSE);
	if (!told)
		return;
	param = &told->event.param.conn;
	CHECK_EQ("no errno", 0, told->event.status);
	CHECK_EQ("the length of private data", IB_CM_REP_PRIVATE_DATA_SIZE, param->private_data_len);
	CHECK("private data", same(told, 30));
	CHECK_EQ("what it may be asked for", 4, param->responder_resources);
	CHECK_EQ("what it may ask for", 2, param->initiator_depth);
	CHECK_EQ("flow control", 1, param->flow_control);
	CHECK_EQ("retries without a receive", 5, param->rnr_retry_count);
	CHECK_EQ("SRQ", 1, param->srq);
	CHECK_EQ("the queue pair", passive_qpn, param->qp_num);
	CHECK_EQ("attributes for RTR", 1, rt_mask(active.id, IB_QPS_RTR, &attr) > 0);
	CHECK_EQ("the peer", passive_qpn, attr.dest_qp_num);
	CHECK_EQ("READs that come in", 4, attr.max_dest_rd_atomic);
	CHECK_EQ("attributes for RTS", 1, rt_mask(active.id, IB_QPS_RTS, &attr) > 0);
	CHECK_EQ("READs that go out", 2, attr.max_rd_atomic);
	CHECK_EQ("attributes of the peer", 1, rt_mask(passive.id, IB_QPS_RTR, &attr) > 0);
	CHECK_EQ("its peer", active_qpn, attr.dest_qp_num);
	CHECK_EQ("the end that asks agrees", 0, rt_go(&active));
	told = rt_next(&passive);
	CHECK("the peer is told", told && told->event.event == RDMA_CM_EVENT_ESTABLISHED);
	CHECK_EQ("no errno", 0, told ? told->event.status : -1);
	CHECK("the end that asks is not", rt_quiet(&active));
	CHECK_EQ("handlers come one at a time", 1, atomic_read(&active.most_inside));
}

static void disconnect(void)
{
	struct rt_event *told;

	CHECK_EQ("it disconnects", 0, rdma_disconnect(active.id));
	told = rt_next(&passive);
	CHECK("the peer is told", told && told->event.event == RDMA_CM_EVENT_DISCONNECTED);
	CHECK_EQ("no errno", 0, told ? told->event.status : -1);
	CHECK_EQ("it agrees", 0, rdma_disconnect(passive.id));
	told = rt_next(&active);
	CHECK("the other is told", told && told->event.event == RDMA_CM_EVENT_DISCONNECTED);
	CHECK_EQ("no errno", 0, told ? told->event.status : -1);
	CHECK("it has waited", rt_is_next(&active, RDMA_CM_EVENT_TIMEWAIT_EXIT));
	CHECK("so has the peer", rt_is_next(&passive, RDMA_CM_EVENT_TIMEWAIT_EXIT));
	CHECK("nothing more", rt_quiet(&active) && rt_quiet(&passive));
	rt_down(&active);
	rt_down(&passive);
}

/* Private data of each message: of no length, of one, of the most, of more. */
static void lengths(void)
{
	static const int asked[] = { 0, 1, REQUEST_DATA - 1, REQUEST_DATA };
	static const int answered[] = { 0, 1, IB_CM_REP_PRIVATE_DATA_SIZE - 1, IB_CM_REP_PRIVATE_DATA_SIZE };
	static const int refused[] = { 0, 1, IB_CM_REJ_PRIVATE_DATA_SIZE - 1, IB_CM_REJ_PRIVATE_DATA_SIZE };
	struct rt_event *told;
	int nth;

	for (nth = 0; nth < ARRAY_SIZE(asked); nth++) {
		CHECK("a request", ask(asked[nth]));
		told = rt_next(&passive);
		CHECK("the peer is told", told && told->event.event == RDMA_CM_EVENT_CONNECT_REQUEST);
		CHECK("its private data", told && same(told, asked[nth]));
		CHECK_EQ("an answer", 0, rt_accept(&passive, data, answered[nth]));
		told = rt_next(&active);
		CHECK("the other is told", told && told->event.event == RDMA_CM_EVENT_CONNECT_RESPONSE);
		CHECK("its private data", told && same(told, answered[nth]));
		CHECK_EQ("a refusal", 0, rdma_reject(active.id, data, refused[nth], IB_CM_REJ_CONSUMER_DEFINED));
		told = rt_next(&passive);
		CHECK("which is told", told && told->event.event == RDMA_CM_EVENT_REJECTED);
		CHECK_EQ("the length of its private data", IB_CM_REJ_PRIVATE_DATA_SIZE,
			 told ? told->event.param.conn.private_data_len : -1);
		CHECK("its private data", told && same(told, refused[nth]));
		rt_down(&active);
		rt_down(&passive);
	}
	CHECK_EQ("a route", 0, rt_routed(&active, RT_HERE, rt_port(listener.id)));
	rt_forget(&passive);
	CHECK_EQ("a byte too much", -EINVAL, rt_connect(&active, data, REQUEST_DATA + 1));
	CHECK_EQ("the most that is too much", -EINVAL, rt_connect(&active, data, 255));
	CHECK_EQ("it may ask again", 0, rt_connect(&active, NULL, 4));
	told = rt_next(&passive);
	CHECK("the peer is told", told && told->event.event == RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK("no data is 0", told && same(told, 0));
	CHECK_EQ("a byte too much in a refusal", -EINVAL,
		 rdma_reject(passive.id, data, IB_CM_REJ_PRIVATE_DATA_SIZE + 1, IB_CM_REJ_CONSUMER_DEFINED));
	CHECK_EQ("a byte too much in an answer", -EINVAL, rt_accept(&passive, data, IB_CM_REP_PRIVATE_DATA_SIZE + 1));
	told = rt_next(&active);
	CHECK("refuses", told && told->event.event == RDMA_CM_EVENT_REJECTED);
	CHECK_EQ("the reason", IB_CM_REJ_CONSUMER_DEFINED, told ? told->event.status : 0);
	CHECK_EQ("it cannot be accepted then", -EINVAL, rt_accept(&passive, NULL, 0));
	rt_down(&active);
	rt_down(&passive);
}

static void options(void)
{
	struct rdma_ucm_ece asks = { .vendor_id = 0x123456, .attr_mod = 0x789 }, answers = { .vendor_id = 0x654321, .attr_mod = 0x987 };
	struct rdma_conn_param param;
	struct rt_event *told;
	struct ib_qp_attr attr;
	int mask;

	CHECK_EQ("a route", 0, rt_resolved(&active, RT_HERE, rt_port(listener.id)));
	rdma_set_service_type(active.id, 0x20);
	CHECK_EQ("a time-out", 0, rdma_set_ack_timeout(active.id, 19));
	CHECK_EQ("a time without a receive", 0, rdma_set_min_rnr_timer(active.id, 21));
	CHECK_EQ("a route", 0, rdma_resolve_route(active.id, 1000));
	CHECK("which is told", rt_is_next(&active, RDMA_CM_EVENT_ROUTE_RESOLVED));
	rt_forget(&passive);
	param = rt_param(NULL, 0);
	param.retry_count = 200;
	param.rnr_retry_count = 100;
	param.flow_control = 0;
	param.srq = 0;
	CHECK_EQ("it asks, with options", 0, rdma_connect_ece(active.id, &param, &asks));
	told = rt_next(&passive);
	CHECK("the peer is told", told && told->event.event == RDMA_CM_EVENT_CONNECT_REQUEST);
	if (!told)
		return;
	CHECK_EQ("their vendor", 0x123456, told->event.ece.vendor_id);
	CHECK_EQ("the options", 0x789, told->event.ece.attr_mod);
	CHECK_EQ("at most 7 retries", 7, told->event.param.conn.retry_count);
	CHECK_EQ("at most 7 without a receive", 7, told->event.param.conn.rnr_retry_count);
	CHECK_EQ("no flow control", 0, told->event.param.conn.flow_control);
	CHECK_EQ("no SRQ", 0, told->event.param.conn.srq);
	CHECK_EQ("the service type", 0x20, passive.id->route.path_rec->traffic_class);
	CHECK_EQ("a time-out of the peer", 0, rdma_set_ack_timeout(passive.id, 5));
	param = rt_param(NULL, 0);
	rdma_lock_handler(passive.id);
	CHECK_EQ("it accepts, with options", 0, rdma_accept_ece(passive.id, &param, &answers));
	rdma_unlock_handler(passive.id);
	told = rt_next(&active);
	CHECK("the other is told", told && told->event.event == RDMA_CM_EVENT_CONNECT_RESPONSE);
	if (!told)
		return;
	CHECK_EQ("their vendor", 0x654321, told->event.ece.vendor_id);
	CHECK_EQ("the options", 0x987, told->event.ece.attr_mod);
	mask = rt_mask(active.id, IB_QPS_RTR, &attr);
	CHECK("the time without a receive is for RTR", mask > 0 && (mask & IB_QP_MIN_RNR_TIMER));
	CHECK_EQ("which was set", 21, attr.min_rnr_timer);
	mask = rt_mask(active.id, IB_QPS_RTS, &attr);
	CHECK("the time-out is for RTS", mask > 0 && (mask & IB_QP_TIMEOUT));
	CHECK_EQ("which was set", 19, attr.timeout);
	mask = rt_mask(passive.id, IB_QPS_RTS, &attr);
	CHECK_EQ("that of the peer", 5, attr.timeout);
	mask = rt_mask(passive.id, IB_QPS_RTR, &attr);
	CHECK_EQ("it has not set the other", 0, attr.min_rnr_timer);
	rt_down(&active);
	rt_down(&passive);
}

static struct rt_event *rejected(struct rt_end *end, int reason)
{
	struct rt_event *told = rt_next(end);

	CHECK("it is refused", told && told->event.event == RDMA_CM_EVENT_REJECTED);
	CHECK_EQ("the reason", reason, told ? told->event.status : 0);
	return told;
}

static void refuse(void)
{
	struct rt_event *told;
	u8 length = 0;

	CHECK_EQ("nobody listens", 0, rt_routed(&active, RT_HERE, 1));
	CHECK_EQ("who is asked", 0, rt_connect(&active, data, 3));
	told = rejected(&active, IB_CM_REJ_INVALID_SERVICE_ID);
	CHECK("no data of a consumer", told && !rdma_consumer_reject_data(active.id, &told->event, &length));
	CHECK_EQ("it may not ask again", -EINVAL, rt_connect(&active, NULL, 0));
	CHECK_EQ("it may disconnect", 0, rdma_disconnect(active.id));
	rt_down(&active);

	CHECK("a request", ask(0));
	CHECK("which is told", rt_is_next(&passive, RDMA_CM_EVENT_CONNECT_REQUEST));
	CHECK_EQ("a refusal", 0, rdma_reject(passive.id, data, 9, IB_CM_REJ_CONSUMER_DEFINED));
	CHECK_EQ("one alone", -EINVAL, rdma_reject(passive.id, data, 9, IB_CM_REJ_CONSUMER_DEFINED));
	told = rejected(&active, IB_CM_REJ_CONSUMER_DEFINED);
	CHECK("private data", told && same(told, 9));
	CHECK("is that of a consumer", told && rdma_consumer_reject_data(active.id, &told->event, &length));
	CHECK_EQ("its length", IB_CM_REJ_PRIVATE_DATA_SIZE, length);
	rt_down(&active);
	rt_down(&passive);

	CHECK("a request", ask(0));
	CHECK("which is told", rt_is_next(&passive, RDMA_CM_EVENT_CONNECT_REQUEST));
	CHECK_EQ("a refusal for another reason", 0, rdma_reject(passive.id, NULL, 0, IB_CM_REJ_NO_RESOURCES));
	rejected(&active, IB_CM_REJ_NO_RESOURCES);
	rt_down(&active);
	rt_down(&passive);

	CHECK("a request", ask(0));
	CHECK("which is told", rt_is_next(&passive, RDMA_CM_EVENT_CONNECT_REQUEST));
	rt_down(&passive);
	rejected(&active, IB_CM_REJ_CONSUMER_DEFINED);
	rt_down(&active);

	CHECK("a request", ask(0));
	CHECK("which is told", rt_is_next(&passive, RDMA_CM_EVENT_CONNECT_REQUEST));
	rt_down(&active);
	rejected(&passive, IB_CM_REJ_TIMEOUT);
	rt_down(&passive);

	listener.for_child = NULL;
	CHECK_EQ("a route", 0, rt_routed(&active, RT_HERE, rt_port(listener.id)));
	CHECK_EQ("a request", 0, rt_connect(&active, NULL, 0));
	rejected(&active, IB_CM_REJ_CONSUMER_DEFINED);
	rt_down(&active);
}

/* The client knows before the RTU. */
static void notified(void)
{
	CHECK("a request", ask(0));
	CHECK("which is told", rt_is_next(&passive, RDMA_CM_EVENT_CONNECT_REQUEST));
	CHECK_EQ("it is not there", -EINVAL, rdma_notify(passive.id, IB_EVENT_COMM_EST));
	CHECK_EQ("an answer", 0, rt_accept(&passive, NULL, 0));
	CHECK("which is told", rt_is_next(&active, RDMA_CM_EVENT_CONNECT_RESPONSE));
	CHECK_EQ("data has come", 0, rdma_notify(passive.id, IB_EVENT_COMM_EST));
	CHECK("it is there", rt_is_next(&passive, RDMA_CM_EVENT_ESTABLISHED));
	CHECK_EQ("again", -EISCONN, rdma_notify(passive.id, IB_EVENT_COMM_EST));
	CHECK_EQ("the RTU", 0, rt_go(&active));
	CHECK("tells nothing more", rt_quiet(&passive));
	rt_down(&active);
	CHECK("the end is told", rt_is_next(&passive, RDMA_CM_EVENT_DISCONNECTED));
	rt_down(&passive);
}

void rt_test_connect(void)
{
	int nth;

	for (nth = 0; nth < sizeof(data); nth++)
		data[nth] = nth + 1;
	CHECK_EQ("a listener", 0, rt_listen(&listener, &passive, "0.0.0.0", 0));
	establish();
	disconnect();
	lengths();
	options();
	refuse();
	notified();
	rt_down(&listener);
}
