// SPDX-License-Identifier: GPL-2.0
/*
 * Shared receive queues: sizes, limits and events, resizing, QPs that share one, RC, UC and UD.
 *
 *   verbs_srq DEVICE GID_INDEX
 */
#include "verbs.h"
#include "uverbs_raw.h"
#include <rdma/rdma_user_rxe.h>

#define WRS 16

static struct ibv_srq *srq;
static struct end b1, b2, a1, a2;

static int post_shared(struct end *end, uint64_t id, uint32_t offset, uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)end->buffer + offset, length, end->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_srq_recv(srq, &wr, &bad);
}

/* A QP in RTS that receives from the SRQ, in place of the one that `end` has. */
static void share(struct end *end, struct end *peer, const struct setup *setup)
{
	struct ibv_qp_init_attr init = {
		.qp_type = setup->type ? setup->type : IBV_QPT_RC, .send_cq = end->cq, .recv_cq = end->cq, .srq = srq,
		.cap = { .max_send_wr = 16, .max_send_sge = 1 },
	};

	ibv_destroy_qp(end->qp);
	end->qp = ibv_create_qp(pd, &init);
	if (!end->qp)
		die("create a QP with an SRQ");
	if (climb(end->qp, IBV_QPS_RTS, setup, peer->qp->qp_num) || climb(peer->qp, IBV_QPS_RTS, setup, end->qp->qp_num))
		die("connect a QP with an SRQ");
}

static bool sizes_are(uint32_t max_wr, uint32_t max_sge, uint32_t limit)
{
	struct ibv_srq_attr attr;

	return !ibv_query_srq(srq, &attr) && attr.max_wr >= max_wr && attr.max_sge == max_sge && attr.srq_limit == limit;
}

static int modify(int mask, uint32_t max_wr, uint32_t limit)
{
	struct ibv_srq_attr attr = { .max_wr = max_wr, .srq_limit = limit };

	return ibv_modify_srq(srq, &attr, mask);
}

static bool refused(uint32_t max_wr, uint32_t max_sge)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = max_wr, .max_sge = max_sge } };
	struct ibv_srq *made = ibv_create_srq(pd, &init);

	if (made)
		ibv_destroy_srq(made);
	return !made;
}

/* The errno of an ibv_create_srq_ex, 0 if an SRQ was made. */
static int error_of_ex(struct ibv_srq_init_attr_ex init)
{
	struct ibv_srq *made;

	errno = 0;
	made = ibv_create_srq_ex(context, &init);
	if (made)
		ibv_destroy_srq(made);
	return made ? 0 : errno;
}

/* The extended call: a basic SRQ, which is then the one of all cases below; the other types are of richer devices. */
static void extended_creation(uint32_t max_srq_wr)
{
	struct ibv_srq_init_attr_ex init = {
		.attr = { .max_wr = WRS - 1, .max_sge = 2 }, .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_BASIC, .pd = pd, .srq_context = &srq,
	}, other = init;
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	struct ib_uverbs_create_xsrq create = { .srq_type = IBV_SRQT_XRC, .max_wr = WRS, .max_sge = 2 };
	struct { struct ib_uverbs_create_srq_resp core; char driver[64]; } made = { { 0 } };
	struct ib_uverbs_destroy_srq destroy = { 0 };
	struct ib_uverbs_destroy_srq_resp gone;
	int error;

	srq = ibv_create_srq_ex(context, &init);
	if (!srq)
		die("create an SRQ by the extended call");
	verdict("the extended call: the sizes of a new SRQ", init.attr.max_wr >= WRS - 1 && init.attr.max_sge == 2 && sizes_are(WRS - 1, 2, 0),
		false, "query");
	verdict("the extended call: its PD and its context", srq->pd == pd && srq->srq_context == &srq, false, "others");
	other.comp_mask = IBV_SRQ_INIT_ATTR_PD;
	error = error_of_ex(other);
	verdict("the extended call: without a type it is a basic one", !error, false, strerror(error));
	other = init;
	other.attr.max_wr = max_srq_wr + 1;
	error = error_of_ex(other);
	verdict("the extended call: EINVAL beyond max_srq_wr", error == EINVAL, false, strerror(error));
	other = init;
	other.srq_type = IBV_SRQT_TM;
	other.comp_mask |= IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM;
	other.cq = cq;
	other.tm_cap = (struct ibv_tm_cap){ .max_num_tags = 4, .max_ops = 4 };
	error = error_of_ex(other);
	verdict("the extended call: EOPNOTSUPP: tags", error == EOPNOTSUPP, false, strerror(error));
	/* Without a domain, which this device has not, the library would not send it. */
	create.pd_handle = pd->handle;
	create.cq_handle = cq->handle;
	error = raw_write(context->cmd_fd, IB_USER_VERBS_CMD_CREATE_XSRQ, &create, sizeof(create), &made, sizeof(made));
	verdict("CREATE_XSRQ: EINVAL: no XRC", error == EINVAL, false, strerror(error));
	create.srq_type = IBV_SRQT_BASIC;
	error = raw_write(context->cmd_fd, IB_USER_VERBS_CMD_CREATE_XSRQ, &create, sizeof(create), &made, sizeof(made));
	verdict("CREATE_XSRQ: a basic one", !error && made.core.max_wr >= WRS && made.core.max_sge == 2, false, strerror(error));
	destroy.srq_handle = made.core.srq_handle;
	error = raw_write(context->cmd_fd, IB_USER_VERBS_CMD_DESTROY_SRQ, &destroy, sizeof(destroy), &gone, sizeof(gone));
	verdict("CREATE_XSRQ: which goes", !error, false, strerror(error));
	ibv_destroy_cq(cq);
}

static void creation(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = WRS - 1, .max_sge = 2 } };
	struct ibv_device_attr attr;

	ibv_query_device(context, &attr);
	verdict("the device has SRQs and resizes them", attr.max_srq > 0 && attr.max_srq_wr > 0 && attr.max_srq_sge > 0 &&
		attr.device_cap_flags & IBV_DEVICE_SRQ_RESIZE, false, "attributes");
	verdict("no SRQ of no requests", refused(0, 1), false, "made");
	verdict("no SRQ beyond max_srq_wr", refused(attr.max_srq_wr + 1, 1), false, "made");
	verdict("no SRQ beyond max_srq_sge", refused(16, attr.max_srq_sge + 1), false, "made");
	srq = ibv_create_srq(pd, &init);
	if (!srq)
		die("create an SRQ");
	verdict("the sizes of a new SRQ", init.attr.max_wr >= WRS - 1 && init.attr.max_sge == 2 && sizes_are(WRS - 1, 2, 0), false, "query");
	ibv_destroy_srq(srq);
	extended_creation(attr.max_srq_wr);
	verdict("no limit above the size", modify(IBV_SRQ_LIMIT, 0, 1000) && sizes_are(WRS - 1, 2, 0), false, "accepted");
	verdict("no size of 0", modify(IBV_SRQ_MAX_WR, 0, 0) && sizes_are(WRS - 1, 2, 0), false, "accepted");
}

/* Sends `count` messages of growing length from `from`; the SRQ's requests have ids from `first` on. */
static const char *messages(struct end *from, struct end *to, uint64_t first, int count)
{
	for (int i = 0; i < count; i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = request(from, to, IBV_WR_SEND_WITH_IMM, &sge);
		struct ibv_wc wc;

		sge.length = 100 + i;
		wr.imm_data = i;
		memset(from->buffer, i + 1, sge.length);
		if (post(from, &wr) || wait_wc(from, 3000).status)
			return "send";
		wc = wait_wc(to, 3000);
		if (wc.status || wc.wr_id != first + i || wc.byte_len != sge.length || wc.imm_data != (uint32_t)i ||
		    wc.qp_num != to->qp->qp_num)
			return "completion";
		if (to->buffer[wc.wr_id * 2048] != (char)(i + 1))
			return "data";
	}
	return NULL;
}

static void sharing(void)
{
	static const struct setup rc = { .min_rnr_timer = 12 };
	const char *why;
	struct ibv_sge sge = { 0 };
	struct ibv_recv_wr wr = { .sg_list = &sge }, *bad;

	end_init(&a1, &rc), end_init(&a2, &rc), end_init(&b1, &rc), end_init(&b2, &rc);
	share(&b1, &a1, &rc);
	share(&b2, &a2, &rc);
	verdict("no receives of its own", ibv_post_recv(b1.qp, &wr, &bad), false, "posted");
	verdict("EBUSY: an SRQ with QPs", ibv_destroy_srq(srq) == EBUSY, false, "destroyed");
	for (int i = 0; i < 8; i++)
		post_shared(&b1, i, i * 2048, 2048);
	b2.buffer = b1.buffer;
	why = messages(&a1, &b1, 0, 3);
	why = why ? why : messages(&a2, &b2, 3, 3);
	why = why ? why : messages(&a1, &b1, 6, 2);
	verdict("two QPs take from one SRQ in its order", !why, false, why);
}

static void late(void)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(&a2, &b2, IBV_WR_SEND, &sge);
	struct ibv_wc wc;

	sge.length = 10;
	post(&a2, &wr);
	usleep(20000);
	post_shared(&b1, 8, 8 * 2048, 2048);
	wc = wait_wc(&b2, 3000);
	verdict("RNR: a late receive is waited for", !wc.status && wc.wr_id == 8 && !wait_wc(&a2, 3000).status, false,
		ibv_wc_status_str(wc.status));
}

static void limit(void)
{
	const char *why;

	for (int i = 0; i < 6; i++)
		post_shared(&b1, i, i * 2048, 2048);
	verdict("a limit is armed", !modify(IBV_SRQ_LIMIT, 0, 4) && sizes_are(WRS - 1, 2, 4), false, "query");
	verdict("no size below the limit", modify(IBV_SRQ_MAX_WR, 3, 0) && sizes_are(WRS - 1, 2, 4), false, "accepted");
	why = messages(&a1, &b1, 0, 2);
	verdict("no event at the limit", !why && wait_event(100) == -1, false, why ? why : "event");
	why = messages(&a1, &b1, 2, 1);
	verdict("SRQ_LIMIT_REACHED below it", !why && event_comes(IBV_EVENT_SRQ_LIMIT_REACHED, 2000), false, why ? why : "no event");
	verdict("the limit is disarmed", sizes_are(WRS - 1, 2, 0), false, "query");
	why = messages(&a2, &b2, 3, 2);
	verdict("one event only", !why && wait_event(100) == -1, false, why ? why : "event");
}

/* One request is posted when this begins: number 5. */
static void resize(void)
{
	const char *why;
	int error = modify(IBV_SRQ_MAX_WR, 100, 0), posted;

	verdict("a larger size", !error && sizes_are(100, 2, 0), false, strerror(error));
	for (posted = 6; posted < 100 && !post_shared(&b1, posted, posted * 2048, 2048);)
		posted++;
	verdict("the larger queue holds more", posted == 100, false, "full");
	why = messages(&a1, &b1, 5, 20);
	verdict("what was posted stays in order", !why, false, why);
	verdict("no size that what is posted does not fit", modify(IBV_SRQ_MAX_WR, 10, 0) && sizes_are(100, 2, 0), false, "accepted");
	why = messages(&a2, &b2, 25, 70);
	error = modify(IBV_SRQ_MAX_WR, 15, 0);
	verdict("a smaller size", !why && !error && sizes_are(15, 2, 0), false, why ? why : strerror(error));
	why = messages(&a2, &b2, 95, 5);
	verdict("what was posted stays in order, again", !why, false, why);
	for (posted = 0; posted < 100 && !post_shared(&b1, posted, posted * 2048, 2048);)
		posted++;
	verdict("ENOMEM when it is full", posted >= 15 && posted < 100 && post_shared(&b1, 0, 0, 10) == ENOMEM, false, "posted");
}

static void last_wqe(void)
{
	const char *why;

	while (wait_event(0) != -1)
		;
	move(b1.qp, IBV_QPS_ERR);
	verdict("QP_LAST_WQE_REACHED", event_comes(IBV_EVENT_QP_LAST_WQE_REACHED, 2000), false, "no event");
	verdict("the other QP takes what is left", (int)wait_wc(&b1, 50).status == -1 && !(why = messages(&a2, &b2, 0, 4)), false, "flushed");
}

static void unreliable(void)
{
	static const struct setup uc = { .type = IBV_QPT_UC };
	struct end a, b;
	const char *why;

	end_init(&a, &uc), end_init(&b, &uc);
	b.buffer = b1.buffer;
	share(&b, &a, &uc);
	why = messages(&a, &b, 4, 4);
	verdict("UC takes from an SRQ", !why, false, why);
	ibv_destroy_qp(b.qp);
	ibv_destroy_qp(a.qp);
}

static void datagrams(void)
{
	static const struct setup ud = { .type = IBV_QPT_UD };
	struct ibv_ah_attr attr = address();
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ibv_wc wc;
	struct end a, b;

	end_init(&a, &ud), end_init(&b, &ud);
	share(&b, &a, &ud);
	wr = request(&a, &b, IBV_WR_SEND, &sge);
	sge.length = 500;
	wr.wr.ud.ah = ibv_create_ah(pd, &attr);
	wr.wr.ud.remote_qpn = b.qp->qp_num;
	wr.wr.ud.remote_qkey = QKEY;
	memset(a.buffer, 0x77, 500);
	post(&a, &wr);
	wc = wait_wc(&b, 3000);
	verdict("UD takes from an SRQ", !wc.status && wc.wr_id == 8 && wc.byte_len == 540 && wc.src_qp == a.qp->qp_num &&
		!memcmp(a.buffer, b1.buffer + 8 * 2048 + 40, 500), false, ibv_wc_status_str(wc.status));
	ibv_destroy_ah(wr.wr.ud.ah);
	ibv_destroy_qp(b.qp);
	ibv_destroy_qp(a.qp);
}

static void lists(void)
{
	struct ibv_sge sge[3] = { { (uintptr_t)b1.buffer, 10, b1.mr->lkey }, { (uintptr_t)b1.buffer, 10, b1.mr->lkey } };
	struct ibv_recv_wr three = { .sg_list = sge, .num_sge = 3 }, one = { .sg_list = sge, .num_sge = 1, .next = &three }, *bad = NULL;
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 8, .max_sge = 2 } };
	struct ibv_srq *other = ibv_create_srq(pd, &init);
	int error = ibv_post_srq_recv(other, &one, &bad);

	verdict("a list that is too long is the bad one", error && bad == &three, false, "posted");
	verdict("an SRQ goes with what is posted", !ibv_destroy_srq(other), false, "destroy");
}

/* The ring of this process that has so many entries. */
static struct rxe_queue_buf *ring_with(uint32_t mask)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	struct rxe_queue_buf *found = NULL;
	unsigned long start;
	char line[512];

	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, "uverbs") && sscanf(line, "%lx-", &start) == 1 && ((struct rxe_queue_buf *)start)->index_mask == mask)
			found = (struct rxe_queue_buf *)start;
	if (maps)
		fclose(maps);
	return found;
}

/* An index that no library writes: nobody knows what is posted. The SRQ and all of its QPs are in error, and others are not. */
static void broken(void)
{
	static const struct setup rc;
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 2000, .max_sge = 2 } };
	struct ibv_srq *usual = srq;
	struct rxe_queue_buf *ring;
	struct ibv_async_event event;
	struct pollfd fd = { .fd = context->async_fd, .events = POLLIN };
	struct end c1, c2, d1, d2, a, b;
	int srq_errors = 0, first = 0, second = 0, others = 0, status;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	srq = ibv_create_srq(pd, &init);
	ring = ring_with(2047);
	if (!srq || !ring)
		die("an SRQ and its ring");
	end_init(&c1, &rc), end_init(&c2, &rc), end_init(&d1, &rc), end_init(&d2, &rc);
	share(&d1, &c1, &rc);
	share(&d2, &c2, &rc);
	srq = usual;
	pair_init(&a, &b, &rc);
	while (wait_event(0) != -1)
		;
	ring->producer_index = 1 << 20 | 1;
	wr = request(&c1, &d1, IBV_WR_SEND, &sge);
	sge.length = 10;
	post(&c1, &wr);
	status = wait_wc(&c1, 3000).status;
	verdict("an SRQ of which nobody knows what is posted: its peer is told", status == IBV_WC_REM_OP_ERR, true, ibv_wc_status_str(status));
	while (poll(&fd, 1, 500) == 1 && !ibv_get_async_event(context, &event)) {
		srq_errors += event.event_type == IBV_EVENT_SRQ_ERR && event.element.srq == d1.qp->srq;
		first += event.event_type == IBV_EVENT_QP_FATAL && event.element.qp == d1.qp;
		second += event.event_type == IBV_EVENT_QP_FATAL && event.element.qp == d2.qp;
		others += event.event_type == IBV_EVENT_QP_FATAL && event.element.qp != d1.qp && event.element.qp != d2.qp;
		ibv_ack_async_event(&event);
	}
	verdict("SRQ_ERR, once", srq_errors == 1, true, "no event");
	verdict("QP_FATAL for the QP that has found it", first == 1, true, "no event");
	verdict("QP_FATAL for the other QP of the SRQ", second == 1, true, "no event");
	verdict("and for no further one", !others, false, "events");
	verdict("both are in error", qp_state_of(d1.qp) == IBV_QPS_ERR && qp_state_of(d2.qp) == IBV_QPS_ERR, true, "other states");
	verdict("a QP without the SRQ is not", qp_state_of(b.qp) == IBV_QPS_RTS && qp_state_of(b2.qp) != IBV_QPS_ERR, false, "other states");
	usual = d1.qp->srq;
	end_destroy(&c1), end_destroy(&c2), end_destroy(&d1), end_destroy(&d2), end_destroy(&a), end_destroy(&b);
	verdict("it goes after its QPs", !ibv_destroy_srq(usual), false, "destroy");
}

int main(int argc, char **argv)
{
	open_device(argc, argv);
	creation();
	sharing();
	late();
	limit();
	resize();
	last_wqe();
	unreliable();
	datagrams();
	lists();
	broken();
	ibv_destroy_qp(b1.qp);
	ibv_destroy_qp(b2.qp);
	verdict("the SRQ goes after its QPs", !ibv_destroy_srq(srq), false, "destroy");
	return all_done();
}
