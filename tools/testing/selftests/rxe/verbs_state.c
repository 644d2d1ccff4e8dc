// SPDX-License-Identifier: GPL-2.0
/*
 * The QP state machine with the attributes of each step, what query_qp says, and the errors of creating, registering
 * and destroying.
 *
 *   verbs_state DEVICE GID_INDEX
 */
#include "verbs.h"

/* Attributes of path migration: optional in the tables; a driver without it may refuse them. */
#define APM (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE)

/* IBTA specification volume 1, 11.2.5.2 and ibv_modify_qp(3): steps up, with required and optional attributes. */
static const struct transition {
	enum ibv_qp_type type;
	enum ibv_qp_state from, to;
	int required, optional;
} transitions[] = {
	{ IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0 },
	{ IBV_QPT_UC, IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0 },
	{ IBV_QPT_UD, IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0 },
	{ IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS },
	{ IBV_QPT_UC, IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS },
	{ IBV_QPT_UD, IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY },
	{ IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER, IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
	{ IBV_QPT_UC, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
	  IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
	{ IBV_QPT_UD, IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY },
	{ IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
	  IBV_QP_MAX_QP_RD_ATOMIC, IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
	  IBV_QP_PATH_MIG_STATE },
	{ IBV_QPT_UC, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN,
	  IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MIG_STATE },
	{ IBV_QPT_UD, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_QKEY },
	{ IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY },
	{ IBV_QPT_UC, IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY },
	{ IBV_QPT_UD, IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY },
	{ IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | APM },
	{ IBV_QPT_UC, IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | APM },
	{ IBV_QPT_UD, IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY },
	{ IBV_QPT_RC, IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
	  IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_MIN_RNR_TIMER | APM },
	{ IBV_QPT_UC, IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | APM },
	{ IBV_QPT_UD, IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY },
	{ IBV_QPT_RC, IBV_QPS_SQD, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | APM },
	{ IBV_QPT_UC, IBV_QPS_SQD, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | APM },
	{ IBV_QPT_UD, IBV_QPS_SQD, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY },
	{ IBV_QPT_UD, IBV_QPS_SQE, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY },
	{ IBV_QPT_UD, IBV_QPS_RTS, IBV_QPS_RESET, 0, 0 },
	{ IBV_QPT_UD, IBV_QPS_RTS, IBV_QPS_ERR, 0, 0 },
};

static const char *const type_names[] = { [IBV_QPT_RC] = "RC", [IBV_QPT_UC] = "UC", [IBV_QPT_UD] = "UD" };
static const char *const state_names[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };

/* A datagram from memory of no region stops the send queue. */
static void break_send_queue(struct end *end, struct ibv_qp *qp)
{
	struct ibv_ah_attr attr = address();
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);
	struct ibv_sge sge = { (uintptr_t)end->buffer, 8, end->mr->lkey ^ 0x5500 };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED, .wr.ud = { ah, qp->qp_num, QKEY },
	}, *bad;

	if (!ah || ibv_post_send(qp, &wr, &bad) || !wait_wc(end, 2000).status)
		die("break a send queue");
	ibv_destroy_ah(ah);
}

/* A QP in a state. */
static struct ibv_qp *qp_in(struct end *end, enum ibv_qp_type type, enum ibv_qp_state state)
{
	struct setup setup = { .type = type };
	struct ibv_qp_init_attr init = { .qp_type = type, .send_cq = end->cq, .recv_cq = end->cq, .cap = { 8, 8, 1, 1, 0 } };
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	enum ibv_qp_state up = state > IBV_QPS_RTS ? IBV_QPS_RTS : state;

	if (!qp || climb(qp, up, &setup, qp->qp_num) || (state > IBV_QPS_RTS && state != IBV_QPS_SQE && move(qp, state)))
		die("bring a QP to a state");
	if (state == IBV_QPS_SQE)
		break_send_queue(end, qp);
	for (int i = 0; state == IBV_QPS_SQD && i < 1000; i++) { /* until it is drained only ERR is legal */
		struct ibv_qp_attr attr;

		if (ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) || !attr.sq_draining)
			break;
		usleep(1000);
	}
	return qp;
}

/* The step works with each of its optional attributes. */
static void try_optional(struct end *end, const struct transition *t, char why[96])
{
	for (int bit = 1; bit <= IBV_QP_DEST_QPN; bit <<= 1) {
		struct setup setup = { .type = t->type };
		struct ibv_qp_attr attr;
		struct ibv_qp *qp;
		int error;

		if (!(bit & t->optional & ~APM))
			continue;
		qp = qp_in(end, t->type, t->from);
		step(t->to, &setup, qp->qp_num, &attr);
		attr.cur_qp_state = t->from;
		error = ibv_modify_qp(qp, &attr, IBV_QP_STATE | t->required | bit);
		if (error)
			snprintf(why, 96, "optional attribute 0x%x: error %d", bit, error);
		ibv_destroy_qp(qp);
	}
}

/* The step works; without one of its attributes, or with one more, it is EINVAL and changes nothing. */
static void try_transition(struct end *end, const struct transition *t)
{
	struct setup setup = { .type = t->type };
	struct ibv_qp_attr attr, now;
	struct ibv_qp_init_attr init;
	char name[64], why[96] = "";
	struct ibv_qp *qp = qp_in(end, t->type, t->from);
	int error;

	for (int bit = 1; bit <= IBV_QP_DEST_QPN; bit <<= 1) {
		int mask = (IBV_QP_STATE | t->required) ^ bit;

		step(t->to, &setup, qp->qp_num, &attr);
		attr.alt_ah_attr = attr.ah_attr;
		attr.cur_qp_state = t->from;
		if (bit == IBV_QP_STATE || bit == IBV_QP_CUR_STATE || (bit & t->optional))
			continue;
		error = ibv_modify_qp(qp, &attr, mask);
		if (error != EINVAL && !*why)
			snprintf(why, sizeof(why), "attribute 0x%x %s: error %d", bit, bit & t->required ? "missing" : "too many", error);
		if (ibv_query_qp(qp, &now, IBV_QP_STATE, &init) || now.qp_state != t->from) {
			snprintf(why, sizeof(why), "a failed modify with mask 0x%x changed the state to %d", mask, now.qp_state);
			break;
		}
	}
	step(t->to, &setup, qp->qp_num, &attr);
	attr.cur_qp_state = t->from;
	error = ibv_modify_qp(qp, &attr, IBV_QP_STATE | t->required);
	if (error)
		snprintf(why, sizeof(why), "error %d", error);
	try_optional(end, t, why);
	snprintf(name, sizeof(name), "%s %s to %s", type_names[t->type], state_names[t->from], state_names[t->to]);
	verdict(name, !*why, t->from >= IBV_QPS_SQD, why); /* stock drains no queue and stops none */
	ibv_destroy_qp(qp);
}

/* Any state to RESET and ERR is legal (but RESET to ERR, which the core's table lacks); what no table has is not. */
static void try_all_states(struct end *end, enum ibv_qp_type type)
{
	static const int states[] = { IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_ERR };
	char why[96] = "", name[64];

	for (size_t f = 0; f < ARRAY_SIZE(states); f++) {
		for (size_t t = 0; t < ARRAY_SIZE(states); t++) {
			int from = states[f], to = states[t];
			bool always = to == IBV_QPS_RESET || (to == IBV_QPS_ERR && from != IBV_QPS_RESET);
			bool never = to == IBV_QPS_RTR ? from != IBV_QPS_INIT :
				     to == IBV_QPS_INIT ? from > IBV_QPS_INIT :
				     to == IBV_QPS_SQD ? from < IBV_QPS_RTS || from == IBV_QPS_ERR :
				     to == IBV_QPS_RTS ? from < IBV_QPS_RTR || from == IBV_QPS_ERR : false;
			struct setup setup = { .type = type };
			struct ibv_qp_attr attr;
			struct ibv_qp *qp;
			int mask, error;

			if (!always && !never)
				continue;
			qp = qp_in(end, type, from);
			mask = step(to, &setup, qp->qp_num, &attr);
			error = ibv_modify_qp(qp, &attr, always ? IBV_QP_STATE : mask);
			if (error != (always ? 0 : EINVAL))
				snprintf(why, sizeof(why), "%s to %s: error %d", state_names[from], state_names[to], error);
			ibv_destroy_qp(qp);
		}
	}
	snprintf(name, sizeof(name), "%s: any to RESET and ERR, nothing else beside the table", type_names[type]);
	verdict(name, !*why, false, why);
}

static void try_values(struct end *end)
{
	static const struct { const char *name; enum ibv_qp_state from; int mask; struct ibv_qp_attr attr; int error; } t[] = {
		{ "port 0", IBV_QPS_RESET, 0, { .port_num = 0 }, EINVAL },
		{ "port 2", IBV_QPS_RESET, 0, { .port_num = 2 }, EINVAL },
		{ "wrong current state", IBV_QPS_RTR, IBV_QP_CUR_STATE, { .cur_qp_state = IBV_QPS_INIT }, EINVAL },
		{ "right current state", IBV_QPS_RTR, IBV_QP_CUR_STATE, { .cur_qp_state = IBV_QPS_RTR }, 0 },
		{ "path MTU above the port's", IBV_QPS_INIT, 0, { .path_mtu = 6 }, EINVAL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		struct setup setup = { 0 };
		struct ibv_qp *qp = qp_in(end, IBV_QPT_RC, t[i].from);
		struct ibv_qp_attr attr;
		int mask = step(t[i].from + 1, &setup, qp->qp_num, &attr) | t[i].mask, error;
		char name[64], why[32];

		if (t[i].from == IBV_QPS_RESET)
			attr.port_num = t[i].attr.port_num;
		if (t[i].attr.path_mtu)
			attr.path_mtu = t[i].attr.path_mtu;
		attr.cur_qp_state = t[i].attr.cur_qp_state;
		error = ibv_modify_qp(qp, &attr, mask);
		snprintf(name, sizeof(name), "modify_qp: %s", t[i].name);
		snprintf(why, sizeof(why), "error %d", error);
		verdict(name, error == t[i].error, false, why);
		ibv_destroy_qp(qp);
	}
}

static void try_query(struct end *end)
{
	struct setup setup = { .psn = 0x123456, .mtu = IBV_MTU_512, .min_rnr_timer = 12 };
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;
	struct ibv_qp *qp = end->qp;

	verdict("query_qp in RESET", !ibv_query_qp(qp, &a, IBV_QP_STATE | IBV_QP_CAP, &init) && a.qp_state == IBV_QPS_RESET &&
		a.cap.max_send_wr >= 64 && a.cap.max_recv_wr >= 64 && a.cap.max_send_sge >= 8 && a.cap.max_inline_data >= 64 &&
		init.qp_type == IBV_QPT_RC, false, "attributes");
	climb(qp, IBV_QPS_INIT, &setup, 0x4242);
	verdict("query_qp in INIT", !ibv_query_qp(qp, &a, IBV_QP_STATE | IBV_QP_PORT, &init) && a.qp_state == IBV_QPS_INIT &&
		a.port_num == 1 && a.pkey_index == 0 && a.qp_access_flags == ACCESS_ALL, false, "attributes");
	move(qp, IBV_QPS_RESET);
	climb(qp, IBV_QPS_RTR, &setup, 0x4242);
	verdict("query_qp in RTR", !ibv_query_qp(qp, &a, IBV_QP_AV | IBV_QP_STATE, &init) && a.qp_state == IBV_QPS_RTR &&
		a.path_mtu == IBV_MTU_512 && a.dest_qp_num == 0x4242 && a.rq_psn == 0x123456 && a.min_rnr_timer == 12 &&
		a.max_dest_rd_atomic == 4 && a.ah_attr.is_global && a.ah_attr.grh.sgid_index == gid_index &&
		!memcmp(&a.ah_attr.grh.dgid, &gid, 16), false, "attributes");
	move(qp, IBV_QPS_RESET);
	climb(qp, IBV_QPS_RTS, &setup, 0x4242);
	verdict("query_qp in RTS", !ibv_query_qp(qp, &a, IBV_QP_AV | IBV_QP_STATE, &init) && a.qp_state == IBV_QPS_RTS &&
		a.sq_psn == 0x123456 && a.timeout == 14 && a.retry_cnt == 3 && a.rnr_retry == 7 && a.max_rd_atomic == 4, false, "attributes");
}

static void try_destroy(void)
{
	static const struct setup usual;
	struct ibv_pd *other = ibv_alloc_pd(context);
	char page[4096] __attribute__((aligned(4096)));
	struct ibv_mr *mr = ibv_reg_mr(other, page, sizeof(page), IBV_ACCESS_LOCAL_WRITE);
	struct end end;

	verdict("dealloc_pd with an MR in it", ibv_dealloc_pd(other) == EBUSY, false, "not EBUSY");
	verdict("dereg_mr", mr && !ibv_dereg_mr(mr), false, strerror(errno));
	verdict("dealloc_pd of an empty one", !ibv_dealloc_pd(other), false, strerror(errno));
	end_init(&end, &usual);
	verdict("destroy_cq with a QP on it", ibv_destroy_cq(end.cq) == EBUSY, false, "not EBUSY");
	verdict("destroy_comp_channel with a CQ on it", ibv_destroy_comp_channel(end.channel) == EBUSY, false, "not EBUSY");
	verdict("destroy_qp", !ibv_destroy_qp(end.qp), false, strerror(errno));
	verdict("destroy_cq", !ibv_destroy_cq(end.cq), false, strerror(errno));
	verdict("destroy_comp_channel", !ibv_destroy_comp_channel(end.channel), false, strerror(errno));
	ibv_dereg_mr(end.mr);
}

static void try_limits(struct end *end)
{
	struct ibv_device_attr device;
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .send_cq = end->cq, .recv_cq = end->cq };
	static const struct { const char *name; struct ibv_qp_cap cap; } t[] = {
		{ "too many send requests", { 0x7fffffff, 1, 1, 1, 0 } }, { "too many receives", { 1, 0x7fffffff, 1, 1, 0 } },
		{ "too many send elements", { 1, 1, 0x7fff, 1, 0 } }, { "too many receive elements", { 1, 1, 1, 0x7fff, 0 } },
		{ "too much inline data", { 1, 1, 1, 1, 0x7fffff } },
	};

	ibv_query_device(context, &device);
	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		char name[64];
		struct ibv_qp *qp;

		init.cap = t[i].cap;
		errno = 0;
		qp = ibv_create_qp(pd, &init);
		snprintf(name, sizeof(name), "create_qp: %s", t[i].name);
		verdict(name, !qp && (errno == EINVAL || errno == ENOMEM), false, qp ? "created" : strerror(errno));
	}
	verdict("create_cq: 0 entries", !ibv_create_cq(context, 0, NULL, NULL, 0) && errno == EINVAL, false, strerror(errno));
	verdict("create_cq: more than max_cqe", !ibv_create_cq(context, device.max_cqe + 1, NULL, NULL, 0) && errno == EINVAL, false,
		strerror(errno));
	for (int vector = 0; vector < context->num_comp_vectors; vector++) {
		struct ibv_cq *cq = ibv_create_cq(context, 1, NULL, NULL, vector);

		if (!cq || ibv_destroy_cq(cq))
			verdict("create_cq: every completion vector", false, false, strerror(errno));
	}
	verdict("create_cq: no such completion vector", !ibv_create_cq(context, 1, NULL, NULL, context->num_comp_vectors) && errno == EINVAL,
		false, strerror(errno));
}

static void try_registration(void)
{
	static char memory[8192] __attribute__((aligned(4096)));
	static const char text[4096] __attribute__((aligned(4096))) = "read only";
	static const struct { const char *name; const void *address; size_t length; int access; bool works; } t[] = {
		{ "odd address and length", memory + 3, 4099, ACCESS_ALL, true },
		{ "read-only memory, for reading", text, 4096, IBV_ACCESS_REMOTE_READ, true },
		{ "read-only memory, for writing", text, 4096, IBV_ACCESS_LOCAL_WRITE, false },
		{ "REMOTE_WRITE without LOCAL_WRITE", memory, 4096, IBV_ACCESS_REMOTE_WRITE, false },
		{ "REMOTE_ATOMIC without LOCAL_WRITE", memory, 4096, IBV_ACCESS_REMOTE_ATOMIC, false },
		{ "nothing is mapped there", (void *)4096, 4096, IBV_ACCESS_LOCAL_WRITE, false },
		{ "address and length wrap", (void *)(UINTPTR_MAX - 4095), 8192, IBV_ACCESS_LOCAL_WRITE, false },
		{ "more memory than there is", memory, (size_t)1 << 46, IBV_ACCESS_LOCAL_WRITE, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		struct ibv_mr *mr = ibv_reg_mr(pd, (void *)t[i].address, t[i].length, t[i].access);
		char name[64];

		snprintf(name, sizeof(name), "reg_mr: %s", t[i].name);
		verdict(name, !!mr == t[i].works, false, mr ? "registered" : strerror(errno));
		if (mr)
			ibv_dereg_mr(mr);
	}
}

static void try_address(void)
{
	struct ibv_ah_attr attr = address();
	struct ibv_ah *ah;

	attr.is_global = 0;
	ah = ibv_create_ah(pd, &attr);
	verdict("create_ah without GRH", !ah && errno == EINVAL, false, ah ? "created" : strerror(errno));
	attr = address();
	attr.grh.sgid_index = 100000 & 0xff;
	ah = ibv_create_ah(pd, &attr);
	verdict("create_ah with an empty GID index", !ah, false, "created");
	attr = address();
	attr.port_num = 9;
	ah = ibv_create_ah(pd, &attr);
	verdict("create_ah with a bad port", !ah && errno == EINVAL, false, ah ? "created" : strerror(errno));
	attr = address();
	ah = ibv_create_ah(pd, &attr);
	verdict("create_ah and destroy_ah", ah && !ibv_destroy_ah(ah), false, strerror(errno));
}

/* The one P_Key that a RoCE port has. */
static void try_pkeys(void)
{
	__be16 pkey = 0, other = 0;
	struct ibv_port_attr port;
	char why[32];
	int error = ibv_query_pkey(context, 1, 0, &pkey);

	snprintf(why, sizeof(why), "error %d, P_Key %#x", error, be16toh(pkey));
	verdict("query_pkey: the default P_Key", !error && be16toh(pkey) == 0xffff, false, why);
	verdict("query_pkey: no other one", !ibv_query_port(context, 1, &port) && port.pkey_tbl_len == 1 &&
		ibv_query_pkey(context, 1, 1, &other) == -1, false, "there is");
	verdict("get_pkey_index: of the default P_Key", ibv_get_pkey_index(context, 1, htobe16(0xffff)) == 0, false, "another");
	verdict("get_pkey_index: of one that is not there", ibv_get_pkey_index(context, 1, htobe16(0x8001)) == -1, false, "an index");
}

int main(int argc, char **argv)
{
	static const struct setup usual;
	struct end end;

	open_device(argc, argv);
	end_init(&end, &usual);
	for (size_t i = 0; i < ARRAY_SIZE(transitions); i++)
		try_transition(&end, &transitions[i]);
	try_all_states(&end, IBV_QPT_RC);
	try_all_states(&end, IBV_QPT_UC);
	try_all_states(&end, IBV_QPT_UD);
	try_values(&end);
	try_query(&end);
	try_limits(&end);
	try_registration();
	try_address();
	try_pkeys();
	try_destroy();
	end_destroy(&end);
	return all_done();
}
