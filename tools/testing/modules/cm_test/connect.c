// SPDX-License-Identifier: GPL-2.0
/* Connections: their events in order with what they tell, the states, the attributes of queue pairs. Refusals. */
#include "cm_test.h"

static struct ct_end listener, active, passive;
static const struct ct_req usual = { .life_time = 12, .response = 18, .retries = 7, .data_len = 92 };

/* The retransmission of a request that nobody answers: some milliseconds. */
static const struct ct_req brief = { .life_time = 8, .response = 14, .retries = 3 };

#define ACCESS (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC)
#define INIT_MASK (IB_QP_STATE | IB_QP_ACCESS_FLAGS | IB_QP_PKEY_INDEX | IB_QP_PORT)
#define RTR_MASK (IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN | IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER)
#define RTS_MASK (IB_QP_STATE | IB_QP_SQ_PSN | IB_QP_RETRY_CNT | IB_QP_RNR_RETRY | IB_QP_MAX_QP_RD_ATOMIC | IB_QP_TIMEOUT)

static void check_request(struct ct_event *told)
{
	const struct ib_cm_req_event_param *param = &told->event.param.req_rcvd;
	const struct ib_gid_attr *gid = ct_gid();

	CHECK_EQ("the state then", IB_CM_REQ_RCVD, told->state);
	CHECK("its listener", told->has_listener && param->listen_id == listener.id);
	CHECK_EQ("the partition of the datagram", 0xffff, param->bth_pkey);
	CHECK_EQ("the port", 1, param->port);
	CHECK_EQ("no alternate path", false, told->has_alternate);
	CHECK_EQ("the port of the local GID", 1, told->gid_port);
	CHECK("who asks", param->remote_ca_guid == ct_device->node_guid);
	CHECK_EQ("its Q_Key", 0, param->remote_qkey);
	CHECK_EQ("its queue pair", ct_qpn - 1, param->remote_qpn);
	CHECK_EQ("of the type", IB_QPT_RC, param->qp_type);
	CHECK_EQ("its first PSN", 0xabcdef, param->starting_psn);
	CHECK_EQ("what it may be asked for", 3, param->initiator_depth);
	CHECK_EQ("what it may ask for", 5, param->responder_resources);
	CHECK_EQ("how long it may take", 18, param->local_cm_response_timeout);
	CHECK_EQ("how long the peer takes", 18, param->remote_cm_response_timeout);
	CHECK_EQ("flow control", 1, param->flow_control);
	CHECK_EQ("retries", 6, param->retry_count);
	CHECK_EQ("retries without a receive", 7, param->rnr_retry_count);
	CHECK_EQ("SRQ", 1, param->srq);
	CHECK_EQ("the vendor of options", 0x123456, param->ece.vendor_id);
	CHECK_EQ("the options", 0x789, param->ece.attr_mod);
	CHECK("private data", !strcmp(told->data, "a request"));
	CHECK_EQ("the type of the path", SA_PATH_REC_TYPE_ROCE_V2, told->path.rec_type);
	CHECK("its ends", gid && !memcmp(&told->path.sgid, &gid->gid, 16) && !memcmp(&told->path.dgid, &gid->gid, 16));
	CHECK_EQ("its partition", cpu_to_be16(0xffff), told->path.pkey);
	CHECK_EQ("its MTU", IB_MTU_1024, told->path.mtu);
	CHECK_EQ("its rate", IB_RATE_10_GBPS, told->path.rate);
	CHECK_EQ("its traffic class", 0x20, told->path.traffic_class);
	CHECK("its service", told->path.service_id == CT_SERVICE);
	CHECK_EQ("it can be used both ways", 1, told->path.reversible);
	if (gid)
		rdma_put_gid_attr(gid);
}

static void check_reply(struct ct_event *told)
{
	const struct ib_cm_rep_event_param *param = &told->event.param.rep_rcvd;

	CHECK_EQ("the state then", IB_CM_REP_RCVD, told->state);
	CHECK("who answers", param->remote_ca_guid == ct_device->node_guid);
	CHECK_EQ("its queue pair", ct_qpn - 1, param->remote_qpn);
	CHECK_EQ("its first PSN", 0x123456, param->starting_psn);
	CHECK_EQ("what it may be asked for", 2, param->initiator_depth);
	CHECK_EQ("what it may ask for", 4, param->responder_resources);
	CHECK_EQ("its delay", ct_device->attrs.local_ca_ack_delay, param->target_ack_delay);
	CHECK_EQ("whether it takes the alternate path", 1, param->failover_accepted);
	CHECK_EQ("flow control", 1, param->flow_control);
	CHECK_EQ("retries without a receive", 5, param->rnr_retry_count);
	CHECK_EQ("SRQ", 1, param->srq);
	CHECK_EQ("the vendor of options", 0x654321, param->ece.vendor_id);
	CHECK_EQ("the options", 0x987, param->ece.attr_mod);
	CHECK("private data", !strcmp(told->data, "a reply"));
}

static void check_attributes(struct ct_end *end, u32 qpn, u32 rq_psn, u32 sq_psn, int resources, int depth, int rnr)
{
	struct ib_qp_attr attr;

	CHECK_EQ("attributes for INIT", INIT_MASK, ct_mask(end->id, IB_QPS_INIT, &attr));
	CHECK_EQ("the access", ACCESS, attr.qp_access_flags & ACCESS);
	CHECK_EQ("the port", 1, attr.port_num);
	CHECK_EQ("the partition", 0, attr.pkey_index);
	CHECK_EQ("attributes for RTR", RTR_MASK, ct_mask(end->id, IB_QPS_RTR, &attr));
	CHECK_EQ("the MTU", IB_MTU_1024, attr.path_mtu);
	CHECK_EQ("the peer", qpn, attr.dest_qp_num);
	CHECK_EQ("the PSN that is expected", rq_psn, attr.rq_psn);
	CHECK_EQ("READs that come in", resources, attr.max_dest_rd_atomic);
	CHECK_EQ("the time without a receive", 0, attr.min_rnr_timer);
	CHECK_EQ("the kind of address", RDMA_AH_ATTR_TYPE_ROCE, attr.ah_attr.type);
	CHECK_EQ("with a route", IB_AH_GRH, attr.ah_attr.ah_flags);
	CHECK_EQ("from the port", 1, attr.ah_attr.port_num);
	CHECK("and its GID", attr.ah_attr.grh.sgid_attr && attr.ah_attr.grh.sgid_attr->port_num == 1);
	CHECK_EQ("attributes for RTS", RTS_MASK, ct_mask(end->id, IB_QPS_RTS, &attr));
	CHECK_EQ("the first PSN", sq_psn, attr.sq_psn);
	CHECK_EQ("retries", 6, attr.retry_cnt);
	CHECK_EQ("retries without a receive", rnr, attr.rnr_retry);
	CHECK_EQ("READs that go out", depth, attr.max_rd_atomic);
	CHECK("the time of an acknowledgement", attr.timeout >= 13 && attr.timeout <= 16);
	CHECK_EQ("attributes for SQD", -EINVAL, ct_mask(end->id, IB_QPS_SQD, &attr));
	CHECK_EQ("attributes for RESET", -EINVAL, ct_mask(end->id, IB_QPS_RESET, &attr));
}

static void establish(void)
{
	struct ct_event *told;
	struct ib_qp_attr attr;
	u32 active_qpn, passive_qpn;

	CHECK_EQ("a listener", 0, ct_listen(&listener, &passive));
	ct_up(&active);
	CHECK_EQ("a request", 0, ct_req(&active, &usual));
	CHECK_EQ("its state", IB_CM_REQ_SENT, active.id->state);
	CHECK("its service", active.id->service_id == CT_SERVICE);
	active_qpn = ct_qpn - 1;
	CHECK_EQ("it asks already", -EINVAL, ct_req(&active, &usual));
	ct_qpn = active_qpn + 1;
	CHECK_EQ("attributes for INIT", INIT_MASK, ct_mask(active.id, IB_QPS_INIT, &attr));
	CHECK_EQ("not for RTR", -EINVAL, ct_mask(active.id, IB_QPS_RTR, &attr));
	CHECK_EQ("nor RTS", -EINVAL, ct_mask(active.id, IB_QPS_RTS, &attr));
	told = ct_next(&passive);
	CHECK("the peer is told", told && told->event.event == IB_CM_REQ_RECEIVED);
	if (!told)
		return;
	check_request(told);
	CHECK("it knows who asks", passive.id->remote_id == active.id->local_id);
	CHECK("its service", passive.id->service_id == CT_SERVICE);
	CHECK_EQ("no RTU from it", -EINVAL, ib_send_cm_rtu(passive.id, NULL, 0));
	CHECK_EQ("it cannot ask", -EINVAL, ct_req(&passive, &usual));
	ct_qpn = active_qpn + 1;
	passive_qpn = ct_qpn;
	CHECK_EQ("a reply", 0, ct_rep(&passive));
	check_attributes(&passive, active_qpn, 0x123456, 0xabcdef, 2, 4, 7);
	told = ct_next(&active);
	CHECK("the answer is told", told && told->event.event == IB_CM_REP_RECEIVED);
	if (!told)
		return;
	check_reply(told);
	CHECK("it knows who has answered", active.id->remote_id == passive.id->local_id);
	check_attributes(&active, passive_qpn, 0xabcdef, 0x123456, 4, 2, 5);
	CHECK_EQ("no second reply", -EINVAL, ct_rep(&passive));
	CHECK_EQ("an RTU", 0, ib_send_cm_rtu(active.id, "go", 3));
	CHECK_EQ("it is there", IB_CM_ESTABLISHED, active.id->state);
	CHECK_EQ("no second RTU", -EINVAL, ib_send_cm_rtu(active.id, NULL, 0));
	told = ct_next(&passive);
	CHECK("the peer is told", told && told->event.event == IB_CM_RTU_RECEIVED);
	CHECK("private data", told && !strcmp(told->data, "go"));
	CHECK_EQ("it is there too", IB_CM_ESTABLISHED, passive.id->state);
	check_attributes(&active, passive_qpn, 0xabcdef, 0x123456, 4, 2, 5);
	CHECK_EQ("it is known to be there", -EISCONN, ib_cm_notify(passive.id, IB_EVENT_COMM_EST));
	CHECK_EQ("a connection is not refused", -EINVAL, ib_send_cm_rej(passive.id, 28, NULL, 0, NULL, 0));
	CHECK_EQ("nor delayed", -EINVAL, ib_prepare_cm_mra(passive.id));
}

static void disconnect(void)
{
	struct ib_qp_attr attr;
	struct ct_event *told;

	CHECK_EQ("it disconnects", 0, ib_send_cm_dreq(active.id, "bye", 4));
	CHECK_EQ("not twice", -EINVAL, ib_send_cm_dreq(active.id, NULL, 0));
	told = ct_next(&passive);
	CHECK("the peer is told", told && told->event.event == IB_CM_DREQ_RECEIVED);
	CHECK("private data", told && !strcmp(told->data, "bye"));
	CHECK_EQ("its state", IB_CM_DREQ_RCVD, passive.id->state);
	CHECK_EQ("no attributes", -EINVAL, ct_mask(passive.id, IB_QPS_RTS, &attr));
	CHECK_EQ("it does not disconnect", -EINVAL, ib_send_cm_dreq(passive.id, NULL, 0));
	CHECK_EQ("it agrees", 0, ib_send_cm_drep(passive.id, "so long", 8));
	CHECK_EQ("and waits", IB_CM_TIMEWAIT, passive.id->state);
	CHECK_EQ("it agrees once", -EINVAL, ib_send_cm_drep(passive.id, NULL, 0));
	CHECK_EQ("it cannot ask", -EINVAL, ct_req(&passive, &usual));
	told = ct_next(&active);
	CHECK("the other is told", told && told->event.event == IB_CM_DREP_RECEIVED);
	CHECK("private data", told && !strcmp(told->data, "so long"));
	CHECK("it may ask after a time", ct_is_next(&active, IB_CM_TIMEWAIT_EXIT));
	CHECK_EQ("its state", IB_CM_IDLE, active.id->state);
	CHECK("both", ct_is_next(&passive, IB_CM_TIMEWAIT_EXIT));
	CHECK_EQ("its state", IB_CM_IDLE, passive.id->state);
	CHECK("nothing more", ct_quiet(&active) && ct_quiet(&passive));
	CHECK_EQ("handlers come one at a time", 1, atomic_read(&active.most_inside));
	ct_down(&active);
	ct_down(&passive);
}

/* Both disconnect at once. */
static void cross(void)
{
	CHECK("a connection", ct_connect(&listener, &active, &passive));
	ib_send_cm_dreq(active.id, NULL, 0);
	ib_send_cm_dreq(passive.id, NULL, 0);
	CHECK("one is told", ct_is_next(&passive, IB_CM_DREQ_RECEIVED));
	ib_send_cm_drep(passive.id, NULL, 0);
	CHECK("it waits", ct_is_next(&passive, IB_CM_TIMEWAIT_EXIT));
	CHECK("the other hears of it", ct_next(&active));
	ct_down(&active);
	ct_down(&passive);
}

/* The client knows before the RTU. */
static void notified(void)
{
	memset(&passive, 0, sizeof(passive));
	listener.for_child = &passive;
	ct_up(&active);
	ct_req(&active, &usual);
	CHECK("a request", ct_is_next(&passive, IB_CM_REQ_RECEIVED));
	CHECK_EQ("it is not there", -EINVAL, ib_cm_notify(passive.id, IB_EVENT_COMM_EST));
	ct_rep(&passive);
	CHECK("a reply", ct_is_next(&active, IB_CM_REP_RECEIVED));
	CHECK_EQ("data has come", 0, ib_cm_notify(passive.id, IB_EVENT_COMM_EST));
	CHECK("it is there", ct_is_next(&passive, IB_CM_USER_ESTABLISHED));
	CHECK_EQ("its state", IB_CM_ESTABLISHED, passive.id->state);
	ib_send_cm_rtu(active.id, NULL, 0);
	CHECK("the RTU tells nothing more", ct_quiet(&passive));
	/* Stock takes the alternate path that is not there, and loses its reference to the GID of the primary one. */
	if (ct_strict)
		CHECK_EQ("there is no path to migrate to", -EINVAL, ib_cm_notify(passive.id, IB_EVENT_PATH_MIG));
	ct_down(&active);
	CHECK("the peer is told of the end", ct_is_next(&passive, IB_CM_DREQ_RECEIVED));
	ct_down(&passive);
}

/* The client knows before the RTU, and disconnects before it is told that it is there. */
static void notified_and_over(void)
{
	DECLARE_COMPLETION_ONSTACK(over);

	memset(&passive, 0, sizeof(passive));
	/* It is told of nothing until its handler of the request returns. */
	passive.wait_for = &over;
	listener.for_child = &passive;
	ct_up(&active);
	ct_req(&active, &usual);
	CHECK("a request", ct_is_next(&passive, IB_CM_REQ_RECEIVED));
	passive.wait_for = NULL;
	ct_rep(&passive);
	CHECK("a reply", ct_is_next(&active, IB_CM_REP_RECEIVED));
	CHECK_EQ("data has come", 0, ib_cm_notify(passive.id, IB_EVENT_COMM_EST));
	CHECK_EQ("it disconnects at once", 0, ib_send_cm_dreq(passive.id, NULL, 0));
	complete(&over);
	ct_down(&active);
	ct_down(&passive);
}

void ct_test_connect(void)
{
	establish();
	disconnect();
	cross();
	notified();
	notified_and_over();
	ct_down(&listener);
}

/* Asks, until the peer is told. */
static bool ask(const struct ct_req *how)
{
	memset(&passive, 0, sizeof(passive));
	listener.for_child = &passive;
	return !ct_up(&active) && !ct_req(&active, how) && ct_is_next(&passive, IB_CM_REQ_RECEIVED);
}

static struct ct_event *rejected(struct ct_end *end, int reason)
{
	struct ct_event *told = ct_next(end);

	CHECK("it is refused", told && told->event.event == IB_CM_REJ_RECEIVED);
	CHECK_EQ("the reason", reason, told ? told->event.param.rej_rcvd.reason : 0);
	return told;
}

void ct_test_refuse(void)
{
	struct ct_event *told;

	ct_up(&active);
	CHECK_EQ("a request to nobody", 0, ct_req(&active, &usual));
	rejected(&active, IB_CM_REJ_INVALID_SERVICE_ID);
	CHECK_EQ("it is idle", IB_CM_IDLE, active.id->state);
	CHECK_EQ("it may ask again", 0, ct_req(&active, &usual));
	rejected(&active, IB_CM_REJ_INVALID_SERVICE_ID);
	ct_down(&active);

	CHECK_EQ("a listener", 0, ct_listen(&listener, &passive));
	CHECK("a request", ask(&usual));
	CHECK_EQ("it is refused", 0, ib_send_cm_rej(passive.id, IB_CM_REJ_INVALID_MTU, "\003", 1, "no", 3));
	CHECK_EQ("the state of who refuses", IB_CM_IDLE, passive.id->state);
	CHECK_EQ("it refuses once", -EINVAL, ib_send_cm_rej(passive.id, IB_CM_REJ_INVALID_MTU, NULL, 0, NULL, 0));
	told = rejected(&active, IB_CM_REJ_INVALID_MTU);
	CHECK_EQ("the length of the information", 1, told ? told->event.param.rej_rcvd.ari_length : 0);
	CHECK("the information", told && told->info[0] == 3);
	CHECK("private data", told && !strcmp(told->data, "no"));
	ct_down(&active);
	ct_down(&passive);

	CHECK("a request", ask(&usual));
	ct_rep(&passive);
	CHECK("a reply", ct_is_next(&active, IB_CM_REP_RECEIVED));
	CHECK_EQ("it is refused", 0, ib_send_cm_rej(active.id, IB_CM_REJ_CONSUMER_DEFINED, NULL, 0, "late", 5));
	told = rejected(&passive, IB_CM_REJ_CONSUMER_DEFINED);
	CHECK("private data", told && !strcmp(told->data, "late"));
	CHECK_EQ("both are idle", IB_CM_IDLE, passive.id->state | active.id->state);
	ct_down(&active);
	ct_down(&passive);

	/* A handler that gives its identifier up. */
	memset(&passive, 0, sizeof(passive));
	passive.ret = -EPERM;
	ct_up(&active);
	ct_req(&active, &usual);
	CHECK("a handler that fails", ct_is_next(&passive, IB_CM_REQ_RECEIVED));
	rejected(&active, IB_CM_REJ_CONSUMER_DEFINED);
	ct_down(&active);

	/* A queue pair that has a connection. */
	CHECK("a connection", ct_connect(&listener, &active, &passive));
	{
		static struct ct_end again, nobody;
		struct ct_req same = usual;

		same.qpn = ct_qpn - 2;
		memset(&nobody, 0, sizeof(nobody));
		listener.for_child = &nobody;
		ct_up(&again);
		CHECK_EQ("its queue pair asks again", 0, ct_req(&again, &same));
		rejected(&again, IB_CM_REJ_STALE_CONN);
		CHECK("the old connection ends", ct_is_next(&active, IB_CM_DREQ_RECEIVED));
		CHECK_EQ("nobody is told of the request", 0, nobody.told);
		ib_send_cm_drep(active.id, NULL, 0);
		CHECK("for both", ct_is_next(&passive, IB_CM_DREP_RECEIVED));
		CHECK("who was refused waits, and may ask again", ct_is_next(&again, IB_CM_TIMEWAIT_EXIT));
		CHECK_EQ("it is idle", IB_CM_IDLE, again.id->state);
		ct_down(&again);
	}
	ct_down(&active);
	ct_down(&passive);
	ct_down(&listener);
}

static void slow_peers(void)
{
	struct ct_event *told;

	CHECK("a request", ask(&brief));
	told = ct_next(&active);
	CHECK("nobody answers", told && told->event.event == IB_CM_REQ_ERROR);
	CHECK_EQ("the status", IB_WC_RESP_TIMEOUT_ERR, told ? told->event.param.send_status : 0);
	CHECK_EQ("it is idle", IB_CM_IDLE, active.id->state);
	CHECK("the peer is told once", ct_quiet(&passive));
	ct_down(&active);
	ct_down(&passive);

	CHECK("a request", ask(&brief));
	ct_rep(&passive);
	CHECK("a reply", ct_is_next(&active, IB_CM_REP_RECEIVED));
	told = ct_next(&passive);
	CHECK("no RTU", told && told->event.event == IB_CM_REP_ERROR);
	CHECK_EQ("the status", IB_WC_RESP_TIMEOUT_ERR, told ? told->event.param.send_status : 0);
	CHECK_EQ("it is idle", IB_CM_IDLE, passive.id->state);
	CHECK_EQ("the other waits", IB_CM_REP_RCVD, active.id->state);
	ct_down(&active);
	ct_down(&passive);

	CHECK("a request", ask(&brief));
	ct_rep(&passive);
	CHECK("a reply", ct_is_next(&active, IB_CM_REP_RECEIVED));
	ib_send_cm_rtu(active.id, NULL, 0);
	CHECK("a connection", ct_is_next(&passive, IB_CM_RTU_RECEIVED));
	CHECK_EQ("it disconnects", 0, ib_send_cm_dreq(active.id, NULL, 0));
	CHECK("the peer is told", ct_is_next(&passive, IB_CM_DREQ_RECEIVED));
	told = ct_next(&active);
	CHECK("it does not agree", told && told->event.event == IB_CM_DREQ_ERROR);
	CHECK_EQ("the status", IB_WC_RESP_TIMEOUT_ERR, told ? told->event.param.send_status : 0);
	CHECK_EQ("the state", IB_CM_TIMEWAIT, told ? told->state : 0);
	CHECK("then it is over", ct_is_next(&active, IB_CM_TIMEWAIT_EXIT));
	CHECK("the peer is told once", ct_quiet(&passive));
	ct_down(&active);
	ct_down(&passive);
}

/* A peer that asks for time. */
static void delays(void)
{
	struct ct_event *told;

	CHECK("a request", ask(&brief));
	CHECK_EQ("it takes longer", 0, ib_prepare_cm_mra(passive.id));
	CHECK_EQ("its state", IB_CM_MRA_REQ_SENT, passive.id->state);
	CHECK_EQ("once", -EINVAL, ib_prepare_cm_mra(passive.id));
	told = ct_next(&active);
	CHECK("the other is told when it asks again", told && told->event.event == IB_CM_MRA_RECEIVED);
	CHECK_EQ("how long", 24, told ? told->event.param.mra_rcvd.service_timeout : 0);
	CHECK_EQ("its state", IB_CM_MRA_REQ_RCVD, active.id->state);
	CHECK("it waits", ct_quiet(&active));
	CHECK_EQ("a reply", 0, ct_rep(&passive));
	CHECK("which it hears", ct_is_next(&active, IB_CM_REP_RECEIVED));
	CHECK_EQ("it takes longer", 0, ib_prepare_cm_mra(active.id));
	CHECK_EQ("its state", IB_CM_MRA_REP_SENT, active.id->state);
	told = ct_next(&passive);
	CHECK("the other is told", told && told->event.event == IB_CM_MRA_RECEIVED);
	CHECK_EQ("its state", IB_CM_MRA_REP_RCVD, passive.id->state);
	CHECK_EQ("an RTU", 0, ib_send_cm_rtu(active.id, NULL, 0));
	CHECK("which it hears", ct_is_next(&passive, IB_CM_RTU_RECEIVED));
	ct_down(&active);
	CHECK("the end", ct_is_next(&passive, IB_CM_DREQ_RECEIVED));
	ct_down(&passive);

	CHECK("a request", ask(&brief));
	ib_prepare_cm_mra(passive.id);
	CHECK("the other is told", ct_is_next(&active, IB_CM_MRA_RECEIVED));
	CHECK_EQ("it is refused", 0, ib_send_cm_rej(passive.id, IB_CM_REJ_NO_RESOURCES, NULL, 0, NULL, 0));
	rejected(&active, IB_CM_REJ_NO_RESOURCES);
	ct_down(&active);
	ct_down(&passive);
}

void ct_test_time(void)
{
	CHECK_EQ("a listener", 0, ct_listen(&listener, &passive));
	slow_peers();
	delays();
	ct_down(&listener);
}
