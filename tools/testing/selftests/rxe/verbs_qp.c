// SPDX-License-Identifier: GPL-2.0
/*
 * Queue pairs: which requests a service has, what each state lets happen, what a reset clears, SQD and SQE, what query_qp tells after
 * each step.
 *
 *   verbs_qp DEVICE GID_INDEX
 */
#include "verbs.h"

static const char *const type_names[] = { [IBV_QPT_RC] = "RC", [IBV_QPT_UC] = "UC", [IBV_QPT_UD] = "UD" };
static const char *const state_names[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };

/* A request of any opcode from A to B, to an address where the service needs one. */
static int ask(struct end *a, struct end *b, enum ibv_qp_type type, int opcode, uint64_t id, uint32_t lkey_xor)
{
	static struct ibv_ah *ah;
	struct ibv_ah_attr attr = address();
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(a, b, opcode, &sge);

	sge.length = 8;
	sge.lkey ^= lkey_xor;
	wr.wr_id = id;
	wr.imm_data = 5;
	if (type == IBV_QPT_UD) {
		if (!ah)
			ah = ibv_create_ah(pd, &attr);
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = b->qp->qp_num;
		wr.wr.ud.remote_qkey = QKEY;
	}
	return post(a, &wr);
}

/* The manual's table of opcodes and services. */
static void opcodes(void)
{
	enum { RC = 1, UC = 2, UD = 4 };
	static const struct { const char *name; int opcode, services; } t[] = {
		{ "SEND", IBV_WR_SEND, RC | UC | UD }, { "SEND_WITH_IMM", IBV_WR_SEND_WITH_IMM, RC | UC | UD },
		{ "RDMA_WRITE", IBV_WR_RDMA_WRITE, RC | UC }, { "RDMA_WRITE_WITH_IMM", IBV_WR_RDMA_WRITE_WITH_IMM, RC | UC },
		{ "RDMA_READ", IBV_WR_RDMA_READ, RC }, { "ATOMIC_CMP_AND_SWP", IBV_WR_ATOMIC_CMP_AND_SWP, RC },
		{ "ATOMIC_FETCH_AND_ADD", IBV_WR_ATOMIC_FETCH_AND_ADD, RC }, { "TSO", IBV_WR_TSO, 0 },
		{ "an opcode that is none", 99, 0 },
	};
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };

	for (size_t i = 0; i < ARRAY_SIZE(t) * 3; i++) {
		enum ibv_qp_type type = types[i % 3];
		bool has = t[i / 3].services & 1 << i % 3;
		struct setup setup = { .type = type };
		struct ibv_wc wc = { .status = -2 };
		struct end a, b;
		char name[64], why[64];
		bool good;

		pair_init(&a, &b, &setup);
		post_receive(&b, 1, 0, 64);
		if (!ask(&a, &b, type, t[i / 3].opcode, 7, 0))
			wc = wait_wc(&a, 3000);
		snprintf(name, sizeof(name), "%s: %s%s", type_names[type], has ? "" : "no ", t[i / 3].name);
		snprintf(why, sizeof(why), "status %d", wc.status);
		good = has ? !wc.status : (int)wc.status == -2 || wc.status == IBV_WC_LOC_QP_OP_ERR;
		verdict(name, good && (has || (int)wait_wc(&b, 0).status == -1), !has, why);
		end_destroy(&a);
		end_destroy(&b);
	}
}

/* Services that a device like this has not: the kernel is asked. */
static void creation(struct end *end)
{
	static const struct { const char *name; int type, error; } t[] = {
		{ "raw IPv6", 5, EINVAL }, { "raw Ethertype", 6, EINVAL }, { "RAW_PACKET", IBV_QPT_RAW_PACKET, EOPNOTSUPP },
		{ "DRIVER", IBV_QPT_DRIVER, EOPNOTSUPP },
	};
	struct ibv_device_attr attr = { .max_raw_ipv6_qp = 1 };

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		struct ibv_qp_init_attr init = { .qp_type = t[i].type, .send_cq = end->cq, .recv_cq = end->cq, .cap = { 4, 4, 1, 1, 0 } };
		struct ibv_qp *qp;
		char name[64];

		errno = 0;
		qp = ibv_create_qp(pd, &init);
		snprintf(name, sizeof(name), "create_qp: no %s", t[i].name);
		verdict(name, !qp && errno == t[i].error, false, qp ? "created" : strerror(errno));
	}
	ibv_query_device(context, &attr);
	verdict("no raw queue pairs in the device's attributes", !attr.max_raw_ipv6_qp && !attr.max_raw_ethy_qp, false, "some");
}

/* What B's state does with a request and a receive of its own, and with a request of A. */
static void behaviour(void)
{
	enum { NO = -2, WAITS = -1, OK = 0, FLUSH = IBV_WC_WR_FLUSH_ERR };
	static const struct { int state, post_receive, post_send, incoming; bool known; } t[] = {
		{ IBV_QPS_RESET, NO, NO, WAITS }, { IBV_QPS_INIT, WAITS, NO, WAITS }, { IBV_QPS_RTR, OK, NO, OK }, { IBV_QPS_RTS, OK, OK, OK },
		{ IBV_QPS_SQD, OK, WAITS, OK, true }, { IBV_QPS_SQE, OK, FLUSH, OK, true }, { IBV_QPS_ERR, FLUSH, FLUSH, WAITS },
	};

	for (size_t i = 0; i < ARRAY_SIZE(t) * 2; i++) {
		enum ibv_qp_type type = i % 2 ? IBV_QPT_UD : IBV_QPT_UC;
		int s = i / 2, receives = NO, sends = NO, incoming = WAITS;
		struct setup setup = { .type = type };
		struct end a, b;
		char name[64], why[96];
		struct ibv_wc wc;

		if (t[s].state == IBV_QPS_SQE && type != IBV_QPT_UD)
			continue;
		end_init(&a, &setup), end_init(&b, &setup);
		climb(a.qp, IBV_QPS_RTS, &setup, b.qp->qp_num);
		if (t[s].state != IBV_QPS_RESET)
			climb(b.qp, t[s].state < IBV_QPS_RTS ? t[s].state : IBV_QPS_RTS, &setup, a.qp->qp_num);
		if (t[s].state == IBV_QPS_SQE)
			ask(&b, &a, type, IBV_WR_SEND, 1, 0x5500), wait_wc(&b, 2000);
		else if (t[s].state > IBV_QPS_RTS)
			move(b.qp, t[s].state), usleep(20000);

		if (!post_receive(&b, 2, 4096, 64))
			receives = WAITS;
		post_receive(&a, 3, 4096, 64);
		ask(&a, &b, type, IBV_WR_SEND, 4, 0);
		wait_wc(&a, 2000);
		wc = wait_wc(&b, 100);
		if (receives == WAITS && (int)wc.status != -1)
			receives = wc.status, incoming = wc.status == IBV_WC_WR_FLUSH_ERR ? WAITS : (int)wc.status;
		else if ((int)wc.status != -1)
			receives = 1000 + wc.status;
		if (!ask(&b, &a, type, IBV_WR_SEND, 5, 0)) {
			wc = wait_wc(&b, 100);
			sends = wc.status;
			if (sends == OK && (wc.wr_id != 5 || wait_wc(&a, 2000).wr_id != 3))
				sends = 1000;
		}
		snprintf(name, sizeof(name), "%s in %s: receives, requests, packets", type_names[type], state_names[t[s].state]);
		snprintf(why, sizeof(why), "receive %d, request %d, packet %d; state %d", receives, sends, incoming, qp_state_of(b.qp));
		verdict(name, receives == t[s].post_receive && sends == t[s].post_send && incoming == t[s].incoming &&
			qp_state_of(b.qp) == t[s].state, t[s].known, why);
		end_destroy(&a);
		end_destroy(&b);
	}
}

/* Whether the event comes within so many milliseconds, of that queue pair and no other one. */
static bool is_established(struct ibv_qp *qp, int ms)
{
	struct pollfd fd = { .fd = context->async_fd, .events = POLLIN };
	struct ibv_async_event event;
	long until = now_ms() + ms;
	int of_it = 0, of_others = 0;

	while (poll(&fd, 1, until > now_ms() ? until - now_ms() : 0) == 1 && !ibv_get_async_event(context, &event)) {
		if (event.event_type == IBV_EVENT_COMM_EST)
			++*(event.element.qp == qp ? &of_it : &of_others);
		ibv_ack_async_event(&event);
	}
	return of_it == 1 && !of_others;
}

/* In RTR a queue pair answers and sends nothing of its own; the first packet that it gets is told, no other one, and none in RTS. */
static void first_packet(enum ibv_qp_type type)
{
	struct setup setup = { .type = type };
	const char *name = type_names[type];
	struct ibv_qp_attr attr;
	struct end a, b;
	char text[96];
	int mask;

#define NAMED(what) (snprintf(text, sizeof(text), "%s in RTR: %s", name, what), text)
	end_init(&a, &setup);
	end_init(&b, &setup);
	climb(a.qp, IBV_QPS_RTS, &setup, b.qp->qp_num);
	climb(b.qp, IBV_QPS_RTR, &setup, a.qp->qp_num);
	while (wait_event(0) != -1)
		;
	for (int i = 0; i < 3; i++)
		post_receive(&b, i, 4096, 64);
	verdict(NAMED("no event before a packet"), !event_comes(IBV_EVENT_COMM_EST, 100), false, "an event");
	ask(&a, &b, type, IBV_WR_SEND, 1, 0);
	verdict(NAMED("it receives"), !wait_wc(&b, 3000).status && !wait_wc(&a, 3000).status, false, "no message");
	verdict(NAMED("the first packet is COMM_EST"), is_established(b.qp, 1000), true, "no event");
	ask(&a, &b, type, IBV_WR_SEND, 2, 0);
	verdict(NAMED("it receives more"), !wait_wc(&b, 3000).status && !wait_wc(&a, 3000).status, false, "no message");
	verdict(NAMED("which is no event"), !event_comes(IBV_EVENT_COMM_EST, 200), false, "an event");
	verdict(NAMED("it takes no request"), ask(&b, &a, type, IBV_WR_SEND, 3, 0), false, "posted");
	mask = step(IBV_QPS_RTS, &setup, a.qp->qp_num, &attr);
	post_receive(&a, 4, 4096, 64);
	verdict(NAMED("but in RTS"), !ibv_modify_qp(b.qp, &attr, mask) && !ask(&b, &a, type, IBV_WR_SEND, 5, 0) &&
		!wait_wc(&b, 3000).status && wait_wc(&a, 3000).wr_id == 4, false, "not sent");
	move(a.qp, IBV_QPS_RESET);
	move(b.qp, IBV_QPS_RESET);
	pair_connect(&a, &b, &setup);
	post_receive(&b, 6, 4096, 64);
	ask(&a, &b, type, IBV_WR_SEND, 7, 0);
	snprintf(text, sizeof(text), "%s in RTS: the first packet is no event", name);
	verdict(text, !wait_wc(&b, 3000).status && !event_comes(IBV_EVENT_COMM_EST, 200), false, "an event, or no message");
#undef NAMED
	end_destroy(&a);
	end_destroy(&b);
}

/* RESET takes back the attributes and the requests. Completions that nobody has polled stay in the program's ring. */
static void reset(void)
{
	static const struct setup usual;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	struct end a, b;
	struct ibv_wc wc;

	pair_init(&a, &b, &usual);
	for (int i = 0; i < 20; i++)
		post_receive(&b, i, 0, 64);
	for (int i = 0; i < 10; i++)
		ask(&a, &b, IBV_QPT_RC, IBV_WR_SEND, i, 0);
	usleep(500000);
	verdict("reset: 1 of 10 completions is polled before", ibv_poll_cq(b.cq, 1, &wc) == 1 && !wc.status, false, "none");
	move(b.qp, IBV_QPS_RESET);
	verdict("reset: the state", qp_state_of(b.qp) == IBV_QPS_RESET, false, "another");
	ibv_query_qp(b.qp, &attr, IBV_QP_AV | IBV_QP_STATE, &init);
	verdict("reset: the attributes", !attr.dest_qp_num && !attr.rq_psn && !attr.sq_psn && !attr.qp_access_flags && !attr.timeout, true, "kept");
	while (ibv_poll_cq(a.cq, 1, &wc) > 0 || ibv_poll_cq(b.cq, 1, &wc) > 0)
		;
	move(a.qp, IBV_QPS_RESET);
	pair_connect(&a, &b, &usual);
	post_receive(&b, 99, 0, 64);
	ask(&a, &b, IBV_QPT_RC, IBV_WR_SEND, 98, 0);
	wc = wait_wc(&b, 3000);
	verdict("reset: the receives of before are gone", !wc.status && wc.wr_id == 99, false, "an old one");
	end_destroy(&a);
	end_destroy(&b);
}

/* A request that waits for B's receive keeps A draining; what is posted in SQD is held; a drained queue can be given attributes. */
static void drained(void)
{
	static const struct setup usual = { .min_rnr_timer = 12 };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct ibv_qp_init_attr init;
	struct end a, b;
	struct ibv_wc wc;
	bool held, told_early;

	pair_init(&a, &b, &usual);
	while (wait_event(0) != -1)
		;
	ask(&a, &b, IBV_QPT_RC, IBV_WR_SEND, 1, 0);
	usleep(50000);
	verdict("SQD: modify", !ibv_modify_qp(a.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), false, "refused");
	ibv_query_qp(a.qp, &attr, IBV_QP_STATE, &init);
	verdict("SQD: draining", attr.qp_state == IBV_QPS_SQD && attr.sq_draining, true, "drained already");
	told_early = wait_event(50) != -1;
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_SQD, .timeout = 18 };
	verdict("SQD: no attributes while it drains", ibv_modify_qp(a.qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT), true, "taken");
	ask(&a, &b, IBV_QPT_RC, IBV_WR_RDMA_WRITE, 2, 0);
	post_receive(&b, 3, 4096, 64);
	wc = wait_wc(&a, 5000);
	verdict("SQD: a request that was begun ends well", !wc.status && wc.wr_id == 1, true, ibv_wc_status_str(wc.status));
	verdict("SQD: SQ_DRAINED comes then, not before", event_comes(IBV_EVENT_SQ_DRAINED, 2000) && !told_early, true, "no event");
	held = (int)wait_wc(&a, 100).status == -1;
	verdict("SQD: a new request is held", held, true, "sent");
	ibv_query_qp(a.qp, &attr, IBV_QP_STATE, &init);
	verdict("SQD: drained", attr.qp_state == IBV_QPS_SQD && !attr.sq_draining, false, "draining");
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_SQD, .timeout = 18 };
	verdict("SQD: attributes when it is drained", !ibv_modify_qp(a.qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT) &&
		!ibv_query_qp(a.qp, &attr, IBV_QP_TIMEOUT, &init) && attr.timeout == 18, true, "not taken");
	verdict("SQD: back to RTS", !move(a.qp, IBV_QPS_RTS), true, "refused");
	wc = wait_wc(&a, 3000);
	verdict("SQD: the request that was held is sent", held && !wc.status && wc.wr_id == 2, true, ibv_wc_status_str(wc.status));
	move(b.qp, IBV_QPS_SQD);
	verdict("SQD: no event without IBV_QP_EN_SQD_ASYNC_NOTIFY", !event_comes(IBV_EVENT_SQ_DRAINED, 300), true, "an event");
	move(a.qp, IBV_QPS_SQD);
	verdict("SQD: nor after a transition that had it", !event_comes(IBV_EVENT_SQ_DRAINED, 300), true, "an event");
	end_destroy(&a);
	end_destroy(&b);
}

static void send_queue_error(void)
{
	static const struct setup ud = { .type = IBV_QPT_UD };
	struct end a, b;
	struct ibv_wc wc;

	pair_init(&a, &b, &ud);
	post_receive(&a, 2, 4096, 64);
	ask(&a, &b, IBV_QPT_UD, IBV_WR_SEND, 1, 0x5500);
	wc = wait_wc(&a, 2000);
	verdict("SQE: LOC_PROT_ERR", wc.status == IBV_WC_LOC_PROT_ERR && wc.wr_id == 1, true, ibv_wc_status_str(wc.status));
	verdict("SQE: the state after it", qp_state_of(a.qp) == IBV_QPS_SQE, true, "another");
	ask(&b, &a, IBV_QPT_UD, IBV_WR_SEND, 3, 0);
	wc = wait_wc(&a, 2000);
	verdict("SQE: it receives", !wc.status && wc.wr_id == 2, true, ibv_wc_status_str(wc.status));
	verdict("SQE: back to RTS", !move(a.qp, IBV_QPS_RTS) && qp_state_of(a.qp) == IBV_QPS_RTS, true, "refused");
	post_receive(&b, 4, 4096, 64);
	wait_wc(&b, 2000);
	ask(&a, &b, IBV_QPT_UD, IBV_WR_SEND, 5, 0);
	wc = wait_wc(&a, 2000);
	verdict("SQE: it sends again", !wc.status && wc.wr_id == 5, true, ibv_wc_status_str(wc.status));
	wc = wait_wc(&b, 2000);
	verdict("SQE: what it sends arrives", !wc.status && wc.wr_id == 4, true, ibv_wc_status_str(wc.status));
	end_destroy(&a);
	end_destroy(&b);
}

/* After each step query_qp returns what was set up to it. */
static const char *differs(const struct ibv_qp_attr *now, const struct ibv_qp_attr *set, int mask)
{
	if (mask & IBV_QP_PORT && now->port_num != set->port_num)
		return "port_num";
	if (mask & IBV_QP_PKEY_INDEX && now->pkey_index != set->pkey_index)
		return "pkey_index";
	if (mask & IBV_QP_QKEY && now->qkey != set->qkey)
		return "qkey";
	if (mask & IBV_QP_ACCESS_FLAGS && now->qp_access_flags != set->qp_access_flags)
		return "qp_access_flags";
	if (mask & IBV_QP_PATH_MTU && now->path_mtu != set->path_mtu)
		return "path_mtu";
	if (mask & IBV_QP_DEST_QPN && now->dest_qp_num != set->dest_qp_num)
		return "dest_qp_num";
	if (mask & IBV_QP_RQ_PSN && now->rq_psn != set->rq_psn)
		return "rq_psn";
	if (mask & IBV_QP_SQ_PSN && now->sq_psn != set->sq_psn)
		return "sq_psn";
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC && now->max_dest_rd_atomic != set->max_dest_rd_atomic)
		return "max_dest_rd_atomic";
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC && now->max_rd_atomic != set->max_rd_atomic)
		return "max_rd_atomic";
	if (mask & IBV_QP_MIN_RNR_TIMER && now->min_rnr_timer != set->min_rnr_timer)
		return "min_rnr_timer";
	if (mask & IBV_QP_TIMEOUT && now->timeout != set->timeout)
		return "timeout";
	if (mask & IBV_QP_RETRY_CNT && now->retry_cnt != set->retry_cnt)
		return "retry_cnt";
	if (mask & IBV_QP_RNR_RETRY && now->rnr_retry != set->rnr_retry)
		return "rnr_retry";
	if (!(mask & IBV_QP_AV))
		return NULL;
	if (memcmp(&now->ah_attr.grh.dgid, &set->ah_attr.grh.dgid, 16) || now->ah_attr.grh.sgid_index != set->ah_attr.grh.sgid_index)
		return "GIDs";
	if (now->ah_attr.grh.traffic_class != set->ah_attr.grh.traffic_class)
		return "traffic_class";
	if (now->ah_attr.grh.flow_label != set->ah_attr.grh.flow_label)
		return "flow_label";
	if (now->ah_attr.port_num != set->ah_attr.port_num || !now->ah_attr.is_global)
		return "port_num";
	return NULL;
}

static void queried(enum ibv_qp_type type)
{
	struct setup setup = { .type = type, .psn = 0x123456, .mtu = IBV_MTU_2048, .min_rnr_timer = 13, .access = 1 + IBV_ACCESS_REMOTE_READ };
	int so_far = 0;
	struct end a;

	end_init(&a, &setup);
	for (int state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++) {
		struct ibv_qp_attr set, now;
		struct ibv_qp_init_attr init;
		int mask = step(state, &setup, 0x4242, &set);
		const char *why = NULL;
		char name[64];

		set.ah_attr.grh.traffic_class = 0x28;
		set.ah_attr.grh.flow_label = 0x12345;
		set.ah_attr.grh.hop_limit = 17;
		if (ibv_modify_qp(a.qp, &set, mask))
			why = "modify";
		so_far |= mask;
		memset(&now, 0xff, sizeof(now));
		if (!why && ibv_query_qp(a.qp, &now, so_far, &init))
			why = "query";
		if (!why && (now.qp_state != (enum ibv_qp_state)state || now.cur_qp_state != (enum ibv_qp_state)state))
			why = "state";
		why = why ? why : differs(&now, &set, so_far);
		if (!why && (init.qp_type != type || init.send_cq != a.cq || init.recv_cq != a.cq || init.srq || now.cap.max_send_wr < 64 ||
			     now.cap.max_recv_wr < 64 || now.cap.max_send_sge < 8 || now.cap.max_recv_sge < 8 || now.cap.max_inline_data < 64))
			why = "what it was created with";
		snprintf(name, sizeof(name), "query_qp: %s in %s", type_names[type], state_names[state]);
		verdict(name, !why, false, why);
	}
	end_destroy(&a);
}

/* The size of a live queue pair stays. */
static void resized(void)
{
	static const struct setup usual;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .cap = { 1000, 1000, 1, 1, 0 } };
	struct ibv_device_attr device;
	struct end a, b;
	int error;
	char why[32];

	pair_init(&a, &b, &usual);
	ibv_query_device(context, &device);
	error = ibv_modify_qp(a.qp, &attr, IBV_QP_STATE | IBV_QP_CAP);
	snprintf(why, sizeof(why), "error %d", error);
	verdict("modify_qp: no other size", error == EINVAL || error == EOPNOTSUPP, false, why);
	verdict("the device does not claim it", !(device.device_cap_flags & IBV_DEVICE_RESIZE_MAX_WR), false, "it does");
	end_destroy(&a);
	end_destroy(&b);
}

int main(int argc, char **argv)
{
	static const struct setup usual;
	struct end end;

	open_device(argc, argv);
	opcodes();
	end_init(&end, &usual);
	creation(&end);
	end_destroy(&end);
	behaviour();
	first_packet(IBV_QPT_RC);
	first_packet(IBV_QPT_UC);
	reset();
	drained();
	send_queue_error();
	queried(IBV_QPT_RC);
	queried(IBV_QPT_UC);
	queried(IBV_QPT_UD);
	resized();
	return all_done();
}
