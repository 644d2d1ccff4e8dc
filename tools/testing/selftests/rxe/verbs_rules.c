// SPDX-License-Identifier: GPL-2.0
/*
 * Rules of objects: protection domains keep theirs apart, one buffer has many regions, sizes are at least what was asked for, what fails
 * changes nothing, destroying waits for events, programs have no queue pairs of the kernel, and the kernel knows what a program has.
 *
 *   verbs_rules DEVICE GID_INDEX [ours]		(the stock driver follows a pointer that such a request does not have)
 */
#define _GNU_SOURCE
#include "verbs.h"
#include <pthread.h>

#define REGIONS 1000

static const struct setup usual;

static void is(const char *name, int wanted, int got, bool known)
{
	char why[64];

	snprintf(why, sizeof(why), "%d in place of %d", got, wanted);
	verdict(name, wanted == got, known, why);
}

/* The status of a request of A with keys of another region: its own memory and B's. */
static int operate(enum ibv_wr_opcode opcode, uint32_t lkey, uint32_t rkey)
{
	struct end a, b;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	int status = -2;

	pair_init(&a, &b, &usual);
	wr = request(&a, &b, opcode, &sge);
	sge.length = 64;
	if (lkey != ~0u)
		sge.lkey = lkey;
	if (rkey)
		wr.wr.rdma.rkey = rkey;
	post_receive(&b, 1, 0, 64);
	if (!post(&a, &wr))
		status = wait_wc(&a, 3000).status;
	end_destroy(&a);
	end_destroy(&b);
	return status;
}

/* A key of another PD is none, whose memory it is notwithstanding; nor is one of nothing. */
static void keys(void)
{
	struct ibv_pd *other = ibv_alloc_pd(context);
	struct ibv_mr *mr;
	struct end a, b;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	int local, remote;

	pair_init(&a, &b, &usual);
	mr = ibv_reg_mr(other, a.buffer, BUFFER, ACCESS_ALL);
	wr = request(&a, &b, IBV_WR_RDMA_WRITE, &sge);
	sge.length = 64;
	sge.lkey = mr->lkey;
	local = post(&a, &wr) ? -2 : (int)wait_wc(&a, 3000).status;
	end_destroy(&b);
	end_init(&b, &usual);
	move(a.qp, IBV_QPS_RESET);
	pair_connect(&a, &b, &usual);
	ibv_dereg_mr(mr);
	mr = ibv_reg_mr(other, b.buffer, BUFFER, ACCESS_ALL);
	wr = request(&a, &b, IBV_WR_RDMA_WRITE, &sge);
	sge.length = 64;
	wr.wr.rdma.rkey = mr->rkey;
	remote = post(&a, &wr) ? -2 : (int)wait_wc(&a, 3000).status;
	is("a local key of another PD", IBV_WC_LOC_PROT_ERR, local, true);
	is("a remote key of another PD", IBV_WC_REM_ACCESS_ERR, remote, false);
	is("a local key of 0", IBV_WC_LOC_PROT_ERR, operate(IBV_WR_SEND, 0, 0), true);
	is("keys of its own", 0, operate(IBV_WR_SEND, ~0u, 0), false);
	ibv_dereg_mr(mr);
	end_destroy(&a);
	end_destroy(&b);
	ibv_dealloc_pd(other);
}

/* A datagram with an address of another PD does not leave. */
static void addresses(void)
{
	static const struct setup ud = { .type = IBV_QPT_UD };
	struct ibv_pd *other = ibv_alloc_pd(context);
	struct ibv_ah_attr attr = address();
	struct ibv_ah *ah = ibv_create_ah(other, &attr);
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct end a, b;
	int status = -2;

	pair_init(&a, &b, &ud);
	wr = request(&a, &b, IBV_WR_SEND, &sge);
	sge.length = 64;
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = b.qp->qp_num;
	wr.wr.ud.remote_qkey = QKEY;
	post_receive(&b, 1, 0, 200);
	if (ah && !post(&a, &wr))
		status = wait_wc(&a, 3000).status;
	verdict("an address of another PD", status && status != -1, false, "sent");
	is("nothing arrives", -1, wait_wc(&b, 100).status, false);
	ibv_destroy_ah(ah);
	end_destroy(&a);
	end_destroy(&b);
	ibv_dealloc_pd(other);
}

static int by_value(const void *one, const void *other)
{
	uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;

	return a < b ? -1 : a > b;
}

static bool distinct(uint32_t *keys)
{
	qsort(keys, REGIONS, sizeof(*keys), by_value);
	for (int i = 1; i < REGIONS; i++)
		if (keys[i] == keys[i - 1])
			return false;
	return true;
}

/* One page, in two PDs, with different rights. */
static void many_regions(void)
{
	static const int access[] = { 0, IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ, ACCESS_ALL };
	static struct ibv_mr *mrs[REGIONS];
	static uint32_t lkeys[REGIONS], rkeys[REGIONS];
	struct ibv_pd *pds[] = { pd, ibv_alloc_pd(context) };
	char *page = aligned_alloc(4096, 4096);
	int made = 0, written, refused;

	for (; made < REGIONS; made++) {
		mrs[made] = ibv_reg_mr(pds[made & 1], page, 4096, access[made / 2 % 4]);
		if (!mrs[made])
			break;
		lkeys[made] = mrs[made]->lkey;
		rkeys[made] = mrs[made]->rkey;
	}
	is("1,000 regions of one page", REGIONS, made, false);
	verdict("each with a local key of its own", distinct(lkeys), false, "some are the same");
	verdict("and a remote one", distinct(rkeys), false, "some are the same");
	if (made < REGIONS)
		die("1,000 regions");
	written = refused = 0;
	for (int i = 0; i < 8; i += 2) {
		struct ibv_sge sge;
		struct ibv_send_wr wr;
		struct end a, b;
		int status;

		pair_init(&a, &b, &usual);
		wr = request(&a, &b, IBV_WR_RDMA_WRITE, &sge);
		sge.length = 64;
		wr.wr.rdma.remote_addr = (uintptr_t)page;
		wr.wr.rdma.rkey = mrs[i]->rkey;
		status = post(&a, &wr) ? -2 : (int)wait_wc(&a, 3000).status;
		written += !status;
		refused += status == IBV_WC_REM_ACCESS_ERR;
		end_destroy(&a);
		end_destroy(&b);
	}
	is("one of four can be written to by the peer", 1, written, false);
	is("the others cannot", 3, refused, false);
	while (made--)
		ibv_dereg_mr(mrs[made]);
	ibv_dealloc_pd(pds[1]);
	free(page);
}

static void sizes(void)
{
	static const int cqes[] = { 1, 7, 100, 1000 };
	char name[64];

	for (size_t i = 0; i < ARRAY_SIZE(cqes); i++) {
		struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { cqes[i], cqes[i] + 2, 3, 5, 40 } }, told = init;
		struct ibv_srq_init_attr srq_init = { .attr = { cqes[i], 3, 0 } };
		struct ibv_srq_attr srq_told = { 0 };
		struct ibv_cq *cq = ibv_create_cq(context, cqes[i], NULL, NULL, 0);
		struct ibv_srq *srq = ibv_create_srq(pd, &srq_init);
		struct ibv_qp_attr attr = { 0 };
		struct ibv_qp *qp;

		snprintf(name, sizeof(name), "a CQ for %d", cqes[i]);
		verdict(name, cq && cq->cqe >= cqes[i], false, "smaller");
		init.send_cq = init.recv_cq = cq;
		qp = ibv_create_qp(pd, &init);
		snprintf(name, sizeof(name), "a QP for %d", cqes[i]);
		verdict(name, qp && init.cap.max_send_wr >= told.cap.max_send_wr && init.cap.max_recv_wr >= told.cap.max_recv_wr &&
			init.cap.max_send_sge >= 3 && init.cap.max_recv_sge >= 5 && init.cap.max_inline_data >= 40, false, "smaller");
		snprintf(name, sizeof(name), "query_qp tells the same of a QP for %d", cqes[i]);
		verdict(name, qp && !ibv_query_qp(qp, &attr, IBV_QP_CAP, &told) && !memcmp(&attr.cap, &init.cap, sizeof(attr.cap)), false, "other sizes");
		snprintf(name, sizeof(name), "an SRQ for %d", cqes[i]);
		verdict(name, srq && !ibv_query_srq(srq, &srq_told) && srq_told.max_wr >= (uint32_t)cqes[i] && srq_told.max_sge >= 3 &&
			srq_init.attr.max_wr == srq_told.max_wr, false, "smaller");
		ibv_destroy_qp(qp);
		ibv_destroy_srq(srq);
		ibv_destroy_cq(cq);
	}
}

static struct ibv_qp_attr all_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	memset(&attr, 0, sizeof(attr));
	if (ibv_query_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_CAP, &init))
		die("query_qp");
	return attr;
}

/* Each has one attribute that is right and another that is not. */
static void failed_modify(void)
{
	static const struct { const char *name; int mask; struct ibv_qp_attr attr; bool known; } t[] = {
		{ "a step that there is not", IBV_QP_STATE | IBV_QP_ACCESS_FLAGS, { .qp_state = IBV_QPS_INIT } },
		{ "a wrong current state", IBV_QP_STATE | IBV_QP_CUR_STATE | IBV_QP_MIN_RNR_TIMER,
		  { .qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQD, .min_rnr_timer = 20 }, true },
		{ "an attribute that RTS has not", IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER | IBV_QP_TIMEOUT,
		  { .qp_state = IBV_QPS_RTS, .min_rnr_timer = 20, .timeout = 3 } },
		{ "a port that there is not", IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER | IBV_QP_PORT,
		  { .qp_state = IBV_QPS_RTS, .min_rnr_timer = 20, .port_num = 7 } },
	};
	struct end a, b;

	pair_init(&a, &b, &usual);
	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		struct ibv_qp_attr before = all_of(a.qp), attr = t[i].attr, after;
		char name[96];
		int error = ibv_modify_qp(a.qp, &attr, t[i].mask);

		after = all_of(a.qp);
		snprintf(name, sizeof(name), "a failed modify changes nothing: %s", t[i].name);
		verdict(name, error == EINVAL && !memcmp(&before, &after, sizeof(before)), t[i].known, error ? "changed" : "it did not fail");
	}
	end_destroy(&a);
	end_destroy(&b);
}

static bool same_srq(struct ibv_srq *srq, const struct ibv_srq_attr *as)
{
	struct ibv_srq_attr now = { 0 };

	return !ibv_query_srq(srq, &now) && now.max_wr == as->max_wr && now.max_sge == as->max_sge && now.srq_limit == as->srq_limit;
}

static void failed_modify_of_queues(void)
{
	struct ibv_srq_init_attr init = { .attr = { 100, 2, 0 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &init);
	struct ibv_cq *cq = ibv_create_cq(context, 10, NULL, NULL, 0);
	struct ibv_srq_attr before = { 0 }, attr = { .srq_limit = 20 };
	int cqe;

	if (!srq || !cq || ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT) || ibv_query_srq(srq, &before) || before.srq_limit != 20)
		die("an SRQ with a limit, a CQ");
	attr.max_wr = 10;
	verdict("a failed modify changes nothing: an SRQ smaller than its limit",
		ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR) == EINVAL && same_srq(srq, &before), false, "changed");
	attr = (struct ibv_srq_attr){ .max_wr = 30, .srq_limit = before.max_wr + 1 };
	verdict("a failed modify changes nothing: a limit above the size of an SRQ",
		ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT) == EINVAL && same_srq(srq, &before), false, "changed");
	cqe = cq->cqe;
	verdict("a failed modify changes nothing: a CQ of too many entries", ibv_resize_cq(cq, 1 << 30) && cq->cqe == cqe, false, "changed");
	ibv_destroy_cq(cq);
	ibv_destroy_srq(srq);
}

static void *destroy(void *qp)
{
	ibv_destroy_qp(qp);
	return NULL;
}

/* An event of the queue pair was taken and is not acknowledged. */
static void unacknowledged(void)
{
	struct ibv_async_event event;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct end a, b;
	pthread_t thread;
	volatile long began, ended;
	struct pollfd fd = { .fd = context->async_fd, .events = POLLIN };

	pair_init(&a, &b, &usual);
	while (wait_event(0) != -1)
		;
	wr = request(&a, &b, IBV_WR_RDMA_WRITE, &sge);
	sge.length = 8;
	wr.wr.rdma.rkey ^= 0x5500;
	post(&a, &wr);
	do {
		if (poll(&fd, 1, 3000) != 1 || ibv_get_async_event(context, &event))
			die("an event of a queue pair");
		if (event.event_type != IBV_EVENT_QP_ACCESS_ERR)
			ibv_ack_async_event(&event);
	} while (event.event_type != IBV_EVENT_QP_ACCESS_ERR);
	began = now_ms();
	if (pthread_create(&thread, NULL, destroy, b.qp))
		die("pthread_create");
	usleep(500000);
	ended = now_ms();
	verdict("destroy_qp waits for events that were taken", pthread_tryjoin_np(thread, NULL) == EBUSY && ended - began >= 500, false, "it did not");
	ibv_ack_async_event(&event);
	verdict("and ends when they are acknowledged", !pthread_join(thread, NULL), false, "it did not");
	ibv_destroy_cq(b.cq);
	ibv_destroy_comp_channel(b.channel);
	ibv_dereg_mr(b.mr);
	free(b.buffer);
	end_destroy(&a);
}

/* IB_WR_REG_MR is an opcode of the kernel alone. */
static void registration(void)
{
	struct end a, b;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	int status = IBV_WC_LOC_QP_OP_ERR;

	pair_init(&a, &b, &usual);
	wr = request(&a, &b, 0x20, &sge);
	sge.length = 8;
	if (!post(&a, &wr))
		status = wait_wc(&a, 3000).status;
	is("no registration by a request of a program", IBV_WC_LOC_QP_OP_ERR, status, false);
	end_destroy(&a);
	end_destroy(&b);
}

/* Queue pairs of the management. */
static void kernels_own(struct end *end)
{
	static const struct { const char *name; int type; } t[] = { { "SMI", 0 }, { "GSI", 1 } };

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		struct ibv_qp_init_attr init = { .qp_type = t[i].type, .send_cq = end->cq, .recv_cq = end->cq, .cap = { 4, 4, 1, 1, 0 } };
		struct ibv_qp *qp;
		char name[64];

		errno = 0;
		qp = ibv_create_qp(pd, &init);
		snprintf(name, sizeof(name), "no %s queue pair for a program", t[i].name);
		verdict(name, !qp && (errno == EINVAL || errno == EPERM || errno == EOPNOTSUPP), false, qp ? "made" : strerror(errno));
	}
}

/* Lines of `rdma resource show KIND` that are this process's. */
static int shown(const char *kind, const char *with)
{
	char command[160], line[64] = "";
	FILE *output;

	snprintf(command, sizeof(command), "rdma resource show %s | grep ' pid %d ' | grep -c '%s'", kind, getpid(), with);
	output = popen(command, "r");
	if (!output || !fgets(line, sizeof(line), output))
		line[0] = 0;
	if (output)
		pclose(output);
	return atoi(line);
}

static void tracked(void)
{
	static const char *const kinds[] = { "qp", "cq", "mr", "pd", "srq" };
	struct ibv_srq_init_attr srq = { .attr = { 8, 1, 0 } };
	struct ibv_srq *srqs[2];
	int before[ARRAY_SIZE(kinds)], made[] = { 2, 2, 3, 1, 2 };
	struct ibv_pd *other;
	struct ibv_mr *mr;
	struct end a, b;
	char name[64];

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		before[i] = shown(kinds[i], "");
	pair_init(&a, &b, &usual);
	other = ibv_alloc_pd(context);
	mr = ibv_reg_mr(other, a.buffer, 12345, IBV_ACCESS_LOCAL_WRITE);
	srqs[0] = ibv_create_srq(pd, &srq);
	srqs[1] = ibv_create_srq(pd, &srq);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		snprintf(name, sizeof(name), "rdma resource show %s: as many as were made", kinds[i]);
		is(name, made[i], shown(kinds[i], "") - before[i], false);
	}
	is("the region, with its length", 1, shown("mr", "mrlen 12345 "), false);
	ibv_dereg_mr(mr);
	ibv_dealloc_pd(other);
	ibv_destroy_srq(srqs[0]);
	ibv_destroy_srq(srqs[1]);
	end_destroy(&a);
	end_destroy(&b);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		snprintf(name, sizeof(name), "rdma resource show %s: as many as before", kinds[i]);
		is(name, before[i], shown(kinds[i], ""), false);
	}
}

static void read_only(void)
{
	static const char text[4096] __attribute__((aligned(4096))) = "read only";
	struct ibv_mr *mr;

	errno = 0;
	mr = ibv_reg_mr(pd, (void *)text, 4096, IBV_ACCESS_LOCAL_WRITE);
	verdict("no writable region of read-only memory", !mr && errno == EFAULT, false, mr ? "registered" : strerror(errno));
	mr = ibv_reg_mr(pd, (void *)text, 4096, IBV_ACCESS_REMOTE_READ);
	verdict("but one to be read", mr, false, strerror(errno));
	if (mr)
		ibv_dereg_mr(mr);
}

int main(int argc, char **argv)
{
	struct end end;

	open_device(argc, argv);
	keys();
	addresses();
	many_regions();
	sizes();
	failed_modify();
	failed_modify_of_queues();
	unacknowledged();
	end_init(&end, &usual);
	kernels_own(&end);
	if (argc > 3 && !strcmp(argv[3], "ours"))
		registration();
	end_destroy(&end);
	read_only();
	tracked();
	return all_done();
}
