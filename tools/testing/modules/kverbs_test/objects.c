// SPDX-License-Identifier: GPL-2.0
/* Protection domains, completion queues, shared receive queues: made, counted, destroyed. */
#include <linux/completion.h>
#include <linux/kthread.h>
#include "kverbs.h"

/* The handle of a PD says which device it is of: what is made by a PD alone is of that device. */
static void one_handle(struct kv *kv)
{
	struct ib_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 1 }, .srq_type = IB_SRQT_BASIC };
	struct ib_mr *mr = ib_alloc_mr(kv->pd, IB_MR_TYPE_MEM_REG, 4);
	struct ib_srq *srq = ib_create_srq(kv->pd, &init);
	struct ib_qp *qp = kv_qp(kv, IB_QPT_UD, NULL);
	struct rdma_ah_attr attr;
	struct ib_ah *ah;

	kv_path(kv, &attr);
	ah = rdma_create_ah(kv->pd, &attr, RDMA_CREATE_AH_SLEEPABLE);
	CHECK("a PD is of its device", kv->pd->device == kv->device);
	CHECK("a region made by a PD is of its device", !IS_ERR(mr) && mr->device == kv->device && mr->pd == kv->pd);
	CHECK("so is an SRQ", !IS_ERR(srq) && srq->device == kv->device && srq->pd == kv->pd);
	CHECK("so is a queue pair", !IS_ERR(qp) && qp->device == kv->device && qp->pd == kv->pd);
	CHECK("so is an address handle", !IS_ERR(ah) && ah->device == kv->device && ah->pd == kv->pd);
	if (!IS_ERR(ah))
		rdma_destroy_ah(ah, RDMA_DESTROY_AH_SLEEPABLE);
	if (!IS_ERR(qp))
		ib_destroy_qp(qp);
	if (!IS_ERR(srq))
		ib_destroy_srq(srq);
	if (!IS_ERR(mr))
		ib_dereg_mr(mr);
}

/* A message from one side to the other, each with the key of its own PD: both complete in the one CQ, as those of their queue pairs. */
static void between_domains(struct kv *kv, struct ib_pd *pds[2], int from)
{
	struct ib_pd *own = kv->pd;
	int i, ret, sent = 0, received = 0;
	struct ib_wc wc;

	kv->pd = pds[!from];
	ret = kv_post_recv(kv, kv->qp[!from], !from, 21);
	kv->pd = pds[from];
	ret = ret ?: kv_post_send(kv, kv->qp[from], from, 22, 64);
	kv->pd = own;
	CHECK_EQ("a message from one PD to the other", 0, ret);
	for (i = 0; i < 2 && !kv_wait(kv->cq, &wc); i++) {
		sent += !wc.status && wc.qp == kv->qp[from] && wc.wr_id == 22;
		received += !wc.status && wc.qp == kv->qp[!from] && wc.wr_id == 21;
	}
	CHECK("both requests complete in the CQ", sent == 1 && received == 1);
}

/* A CQ is of a device and of no PD: queue pairs of two PDs have one in common. */
static void two_domains(struct kv *kv)
{
	struct ib_pd *pds[2] = { kv->pd, ib_alloc_pd(kv->device, 0) };
	int side, ret = 0;

	CHECK("a second PD", !IS_ERR(pds[1]));
	if (IS_ERR(pds[1]))
		return;
	kv_disconnect(kv);
	for (side = 0; side < 2; side++) {
		kv->pd = pds[side];
		kv->qp[side] = kv_qp(kv, IB_QPT_RC, NULL);
		kv->pd = pds[0];
		if (IS_ERR(kv->qp[side])) {
			ret = PTR_ERR(kv->qp[side]);
			kv->qp[side] = NULL;
		}
		ret = ret ?: kv_to_init(kv->qp[side]);
	}
	for (side = 0; side < 2; side++)
		ret = ret ?: kv_to_rtr(kv, kv->qp[side], kv->qp[!side]->qp_num) ?: kv_to_rts(kv->qp[side]);
	CHECK_EQ("queue pairs of two PDs have one CQ", 0, ret);
	if (!ret) {
		CHECK("each counts for its own PD", kv->qp[1]->pd == pds[1] && atomic_read(&pds[1]->usecnt) == 1);
		between_domains(kv, pds, 0);
		between_domains(kv, pds, 1);
	}
	kv_disconnect(kv);
	CHECK_EQ("nobody uses the second PD any more", 0, atomic_read(&pds[1]->usecnt));
	ib_dealloc_pd(pds[1]);
	CHECK_EQ("connected as before", 0, kv_connect(kv));
}

void kv_test_objects(struct kv *kv)
{
	struct ib_pd *pd = ib_alloc_pd(kv->device, 0);
	struct ib_qp *qp;

	CHECK("ib_alloc_pd", !IS_ERR(pd));
	if (IS_ERR(pd))
		return;
	CHECK("a PD has a key for memory of the kernel", pd->local_dma_lkey);
	CHECK_EQ("nobody uses a new PD", 0, atomic_read(&pd->usecnt));
	CHECK_EQ("it has no key for others", 0, pd->flags & IB_PD_UNSAFE_GLOBAL_RKEY);
	ib_dealloc_pd(pd);
	qp = kv_qp(kv, IB_QPT_UD, NULL);
	CHECK("a UD queue pair", !IS_ERR(qp));
	if (IS_ERR(qp))
		return;
	CHECK("numbers are unique", qp->qp_num != kv->qp[0]->qp_num && qp->qp_num != kv->qp[1]->qp_num &&
				    kv->qp[0]->qp_num != kv->qp[1]->qp_num);
	CHECK("a queue pair counts for its PD", atomic_read(&kv->pd->usecnt) >= 3);
	ib_destroy_qp(qp);
	one_handle(kv);
	two_domains(kv);
}

struct polled {
	struct ib_cqe cqe;
	struct completion done;
	enum ib_wc_status status;
};

static void polled_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct polled *polled = container_of(wc->wr_cqe, struct polled, cqe);

	polled->status = wc->status;
	complete(&polled->done);
}

/* A queue that ib_core polls: a receive is flushed to its handler. */
static void polled_cq(struct kv *kv, enum ib_poll_context context, const char *name)
{
	struct ib_cq *cq = ib_alloc_cq(kv->device, NULL, 16, 0, context), *own = kv->cq;
	struct polled polled = { .cqe.done = polled_done };
	struct ib_recv_wr wr = { .wr_cqe = &polled.cqe };
	struct ib_qp *qp;
	int i;

	if (IS_ERR(cq)) {
		kv_result(false, name, PTR_ERR(cq));
		return;
	}
	init_completion(&polled.done);
	kv->cq = cq;
	qp = kv_qp(kv, IB_QPT_RC, NULL);
	kv->cq = own;
	if (!IS_ERR(qp)) {
		kv_to_init(qp);
		ib_post_recv(qp, &wr, NULL);
		kv_to(qp, IB_QPS_ERR);
		if (context == IB_POLL_DIRECT)
			for (i = 0; i < 3000 && !ib_process_cq_direct(cq, -1); i++)
				usleep_range(500, 1000);
		wait_for_completion_timeout(&polled.done, 3 * HZ);
		CHECK_EQ(name, IB_WC_WR_FLUSH_ERR, polled.status);
		ib_destroy_qp(qp);
	}
	ib_free_cq(cq);
}

struct poller {
	struct ib_cq *cq;
	atomic_t *taken;
	struct completion go, end;
};

#define MESSAGES 48

static int poll_some(void *context)
{
	struct poller *poller = context;
	unsigned long end;
	struct ib_wc wc;

	wait_for_completion(&poller->go);
	end = jiffies + 2 * HZ;
	while (time_before(jiffies, end)) {
		if (ib_poll_cq(poller->cq, 1, &wc) == 1)
			atomic_inc(&poller->taken[wc.wr_id]);
		else
			usleep_range(50, 200);
	}
	complete(&poller->end);
	return 0;
}

/* Four threads poll one queue: each completion is taken once. */
static void concurrent(struct kv *kv)
{
	atomic_t *taken = kcalloc(2 * MESSAGES, sizeof(*taken), GFP_KERNEL);
	struct poller *pollers = kcalloc(4, sizeof(*pollers), GFP_KERNEL);
	int i, wrong = 0, started = 0;

	if (!taken || !pollers)
		goto out;
	for (i = 0; i < 4; i++) {
		pollers[i].cq = kv->cq;
		pollers[i].taken = taken;
		init_completion(&pollers[i].go);
		init_completion(&pollers[i].end);
		if (IS_ERR(kthread_run(poll_some, &pollers[i], "kverbs_poll/%d", i)))
			break;
		started++;
	}
	for (i = 0; i < MESSAGES; i++)
		wrong += kv_post_recv(kv, kv->qp[1], 1, i) != 0;
	for (i = 0; i < started; i++)
		complete(&pollers[i].go);
	for (i = 0; i < MESSAGES; i++)
		wrong += kv_post_send(kv, kv->qp[0], 0, MESSAGES + i, 64) != 0;
	for (i = 0; i < started; i++)
		wait_for_completion(&pollers[i].end);
	for (i = 0; i < 2 * MESSAGES; i++)
		wrong += atomic_read(&taken[i]) != 1;
	CHECK_EQ("four threads poll a CQ: each completion is taken once", 0, wrong);
out:
	kfree(pollers);
	kfree(taken);
}

static void announced(struct ib_cq *cq, void *context)
{
	complete(context);
}

void kv_test_cq(struct kv *kv)
{
	struct ib_cq_init_attr attr = { .cqe = 16 };
	DECLARE_COMPLETION_ONSTACK(told);
	struct ib_cq *cq, *own = kv->cq;
	struct ib_qp *qp;
	struct ib_wc wc;
	int ret;

	polled_cq(kv, IB_POLL_DIRECT, "a CQ that its client polls");
	polled_cq(kv, IB_POLL_SOFTIRQ, "a CQ that a softirq polls");
	polled_cq(kv, IB_POLL_WORKQUEUE, "a CQ that a work item polls");
	polled_cq(kv, IB_POLL_UNBOUND_WORKQUEUE, "a CQ that a work item polls anywhere");

	cq = ib_create_cq(kv->device, announced, NULL, &told, &attr);
	CHECK("ib_create_cq with a handler", !IS_ERR(cq));
	if (IS_ERR(cq))
		return;
	CHECK("it has as much room as was asked for", cq->cqe >= attr.cqe);
	CHECK("and is of the device", cq->device == kv->device && cq->cq_context == &told);
	CHECK_EQ("nobody uses a new CQ", 0, atomic_read(&cq->usecnt));
	kv->cq = cq;
	qp = kv_qp(kv, IB_QPT_RC, NULL);
	kv->cq = own;
	CHECK_EQ("an empty CQ misses nothing", 0, ib_req_notify_cq(cq, IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS));
	kv_to_init(qp);
	kv_post_recv(kv, qp, 0, 1);
	kv_post_recv(kv, qp, 0, 2);
	kv_to(qp, IB_QPS_ERR);
	CHECK("a completion is announced", wait_for_completion_timeout(&told, 3 * HZ) != 0);
	ret = ib_req_notify_cq(cq, IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS);
	CHECK("a CQ with completions says so", ret > 0);
	CHECK_EQ("completions come in order", 0, kv_wait(cq, &wc));
	CHECK_EQ("the first one", 1, wc.wr_id);
	CHECK_EQ("and the next one", 0, kv_wait(cq, &wc));
	CHECK_EQ("the second one", 2, wc.wr_id);
	ib_destroy_qp(qp);
	ib_destroy_cq(cq);

	concurrent(kv);
}

static void srq_event(struct ib_event *event, void *context)
{
	if (event->event == IB_EVENT_SRQ_LIMIT_REACHED)
		complete(context);
}

void kv_test_srq(struct kv *kv)
{
	DECLARE_COMPLETION_ONSTACK(limit);
	struct ib_srq_init_attr init = {
		.event_handler = srq_event,
		.srq_context = &limit,
		.attr = { .max_wr = 4, .max_sge = 1 },
		.srq_type = IB_SRQT_BASIC,
	};
	struct ib_recv_wr *list, *wr;
	const struct ib_recv_wr *bad = NULL;
	struct ib_sge sge = { .addr = kv->dma[1], .length = KV_SIZE, .lkey = kv->pd->local_dma_lkey };
	struct ib_srq_attr attr = {};
	struct ib_srq *srq;
	struct ib_qp *qp;
	struct ib_wc wc;
	int i, posted;

	srq = ib_create_srq(kv->pd, &init);
	CHECK("ib_create_srq", !IS_ERR(srq));
	if (IS_ERR(srq))
		return;
	CHECK_EQ("ib_query_srq", 0, ib_query_srq(srq, &attr));
	CHECK("it has as much room as was asked for", attr.max_wr >= 4);
	CHECK_EQ("no limit is armed", 0, attr.srq_limit);
	list = kcalloc(attr.max_wr + 1, sizeof(*list), GFP_KERNEL);
	if (!list)
		goto out;
	for (i = 0; i <= attr.max_wr; i++) {
		wr = &list[i];
		wr->wr_id = i;
		wr->sg_list = &sge;
		wr->num_sge = 1;
		wr->next = i < attr.max_wr ? &list[i + 1] : NULL;
	}
	CHECK_EQ("a list that is too long", -ENOMEM, ib_post_srq_recv(srq, list, &bad));
	posted = bad ? bad - list : -1;
	CHECK("says which request was the first to be rejected", posted > 0 && posted <= attr.max_wr);
	attr.srq_limit = posted - 1;
	CHECK_EQ("a limit is armed", 0, ib_modify_srq(srq, &attr, IB_SRQ_LIMIT));
	CHECK_EQ("ib_query_srq", 0, ib_query_srq(srq, &attr));
	CHECK_EQ("says so", posted - 1, attr.srq_limit);

	ib_destroy_qp(kv->qp[1]);
	qp = kv->qp[1] = kv_qp(kv, IB_QPT_RC, srq);
	CHECK("a queue pair with an SRQ", !IS_ERR(qp));
	CHECK_EQ("counts for it", 1, atomic_read(&srq->usecnt));
	CHECK_EQ("which cannot be destroyed then", -EBUSY, ib_destroy_srq_user(srq, NULL));
	ib_destroy_qp(kv->qp[0]);
	kv->qp[0] = kv_qp(kv, IB_QPT_RC, NULL);
	kv_to_init(kv->qp[0]);
	kv_to_init(qp);
	kv_to_rtr(kv, qp, kv->qp[0]->qp_num);
	kv_to_rtr(kv, kv->qp[0], qp->qp_num);
	kv_to_rts(kv->qp[0]);
	for (i = 0; i < 2; i++) {
		kv_post_send(kv, kv->qp[0], 0, 100, 64);
		CHECK_EQ("a message", 0, kv_wait(kv->cq, &wc));
		CHECK_EQ("is received through the SRQ", 0, kv_wait(kv->cq, &wc));
	}
	CHECK("the limit is reached", wait_for_completion_timeout(&limit, 3 * HZ) != 0);
	CHECK_EQ("ib_query_srq", 0, ib_query_srq(srq, &attr));
	CHECK_EQ("and is not armed any more", 0, attr.srq_limit);
	kv_disconnect(kv);
	CHECK_EQ("nobody uses the SRQ at the end", 0, atomic_read(&srq->usecnt));
	kfree(list);
out:
	ib_destroy_srq(srq);
	CHECK_EQ("connected again", 0, kv_connect(kv));
}
