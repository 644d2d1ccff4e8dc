// SPDX-License-Identifier: GPL-2.0
/* The rules of Documentation/infiniband/core_locking.rst, and what the specification says of work and completion queues. */
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/timer.h>
#include "kverbs.h"

static uint many = 5000;
module_param(many, uint, 0444);
MODULE_PARM_DESC(many, "How often what is done many times is done");

static uint queue_pairs = 100000;
module_param(queue_pairs, uint, 0444);
MODULE_PARM_DESC(queue_pairs, "How many queue pairs are made, one after the other");

static bool rearm;
module_param(rearm, bool, 0444);
MODULE_PARM_DESC(rearm, "A handler asks for the next completion to be announced: stock rdma_rxe calls it with its lock held");

struct anywhere {
	struct kv *kv;
	struct rdma_ah_attr attr;
	struct hrtimer hard;
	struct timer_list soft;
	struct completion done;
	int failures;
};

/* Calls each verb that may be called in any context; counts those that fail. */
static int call_all(struct anywhere *any)
{
	struct kv *kv = any->kv;
	struct rdma_ah_attr attr = any->attr, got = {};
	struct ib_ah *ah = rdma_create_ah(kv->pd, &attr, 0);
	struct ib_wc wc;
	int failures;

	if (IS_ERR(ah))
		return 100;
	failures = rdma_modify_ah(ah, &attr) != 0;
	failures += rdma_query_ah(ah, &got) != 0;
	rdma_destroy_ah_attr(&got);
	failures += rdma_destroy_ah_user(ah, 0, NULL) != 0;
	failures += kv_post_recv(kv, kv->qp[1], 1, 1) != 0;
	failures += kv_post_send(kv, kv->qp[0], 0, 2, 16) != 0;
	failures += ib_req_notify_cq(kv->cq, IB_CQ_NEXT_COMP) != 0;
	failures += ib_poll_cq(kv->cq, 1, &wc) < 0;
	return failures;
}

static enum hrtimer_restart in_hard(struct hrtimer *timer)
{
	struct anywhere *any = container_of(timer, struct anywhere, hard);

	any->failures = call_all(any);
	complete(&any->done);
	return HRTIMER_NORESTART;
}

static void in_soft(struct timer_list *timer)
{
	struct anywhere *any = container_of(timer, struct anywhere, soft);

	any->failures = call_all(any);
	complete(&any->done);
}

static void contexts(struct kv *kv)
{
	struct anywhere *any = kzalloc(sizeof(*any), GFP_KERNEL);
	unsigned long flags;
	spinlock_t lock;

	if (!any)
		return;
	spin_lock_init(&lock);
	any->kv = kv;
	kv_path(kv, &any->attr);
	init_completion(&any->done);

	spin_lock_irqsave(&lock, flags);
	any->failures = call_all(any);
	spin_unlock_irqrestore(&lock, flags);
	CHECK_EQ("all verbs for any context, under a lock with interrupts off", 0, any->failures);

	timer_setup(&any->soft, in_soft, 0);
	mod_timer(&any->soft, jiffies + 1);
	wait_for_completion(&any->done);
	timer_delete_sync(&any->soft);
	CHECK_EQ("all verbs for any context, in a softirq", 0, any->failures);

	hrtimer_setup(&any->hard, in_hard, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	hrtimer_start(&any->hard, ms_to_ktime(1), HRTIMER_MODE_REL);
	wait_for_completion(&any->done);
	hrtimer_cancel(&any->hard);
	CHECK_EQ("all verbs for any context, in a hard interrupt", 0, any->failures);
	kfree(any);
	msleep(100);
	kv_drop_completions(kv->cq);
}

struct handled {
	atomic_t calls, running, at_once, in_chain;
	int posting_on;			/* which CPU posts with interrupts off; -1: none */
};

static void on_completion(struct ib_cq *cq, void *context)
{
	struct handled *handled = context;

	if (READ_ONCE(handled->posting_on) == raw_smp_processor_id())
		atomic_inc(&handled->in_chain);
	/* From now on the next call may come. */
	if (rearm)
		ib_req_notify_cq(cq, IB_CQ_NEXT_COMP);
	if (atomic_inc_return(&handled->running) > 1)
		atomic_inc(&handled->at_once);
	udelay(1000);
	atomic_dec(&handled->running);
	atomic_inc(&handled->calls);
}

static void handlers(struct kv *kv)
{
	struct handled *handled = kzalloc(sizeof(*handled), GFP_KERNEL);
	struct ib_cq_init_attr attr = { .cqe = 256 };
	struct ib_cq *own = kv->cq, *cq;
	unsigned long flags;
	struct ib_wc wc;
	int i, got = 0;

	if (!handled)
		return;
	handled->posting_on = -1;
	cq = ib_create_cq(kv->device, on_completion, NULL, handled, &attr);
	if (IS_ERR(cq))
		goto out;
	kv_disconnect(kv);
	kv->cq = cq;
	CHECK_EQ("connected, with a handler of completions", 0, kv_connect(kv));
	ib_req_notify_cq(cq, IB_CQ_NEXT_COMP);
	for (i = 0; i < 50; i++) {
		kv_post_recv(kv, kv->qp[1], 1, i);
		local_irq_save(flags);
		WRITE_ONCE(handled->posting_on, smp_processor_id());
		kv_post_send(kv, kv->qp[0], 0, i, 16);
		WRITE_ONCE(handled->posting_on, -1);
		local_irq_restore(flags);
		ib_req_notify_cq(cq, IB_CQ_NEXT_COMP);
		if (i % 10 == 9)
			msleep(20);
	}
	while (got < 100 && !kv_wait(cq, &wc))
		got++;
	CHECK_EQ("all is completed", 100, got);
	msleep(20);
	CHECK("the handler is called", atomic_read(&handled->calls) > 0);
	CHECK_EQ("one handler of a CQ runs at a time", 0, atomic_read(&handled->at_once));
	CHECK_EQ("none in the call chain of ib_post_send", 0, atomic_read(&handled->in_chain));
	kv_disconnect(kv);
	kv->cq = own;
	ib_destroy_cq(cq);
	CHECK_EQ("connected anew", 0, kv_connect(kv));
out:
	kfree(handled);
}

static int write_one(struct kv *kv, u64 id, bool signaled)
{
	struct ib_sge sge = { .addr = kv->dma[0], .length = 8, .lkey = kv->pd->local_dma_lkey };
	struct ib_rdma_wr wr = {
		.wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = IB_WR_RDMA_WRITE,
			.send_flags = signaled ? IB_SEND_SIGNALED : 0 },
		.remote_addr = kv->dma[1],
		.rkey = kv->pd->unsafe_global_rkey,
	};

	return ib_post_send(kv->qp[0], &wr.wr, NULL);
}

/* 63 requests without a completion and one with: that one gives back all places, so it goes on for ever. */
static void unsignaled(struct kv *kv)
{
	int round, i, failures = 0;
	struct ib_wc wc;

	for (round = 0; round < 50 && !failures; round++) {
		for (i = 0; i < 64; i++)
			failures += write_one(kv, i, i == 63) != 0;
		failures += kv_wait(kv->cq, &wc) || wc.status || wc.wr_id != 63;
	}
	CHECK_EQ("a completion gives back the places of the requests before it", 0, failures);
}

/* Completions come in the order of the requests. */
static void in_order(struct kv *kv)
{
	u64 posted = 0, taken = 0;
	int wrong = 0, count, i;
	struct ib_wc wc[16];
	unsigned long end = jiffies + 60 * HZ;

	while (taken < many && time_before(jiffies, end)) {
		while (posted < many && posted - taken < 48 && !write_one(kv, posted, true))
			posted++;
		count = ib_poll_cq(kv->cq, ARRAY_SIZE(wc), wc);
		for (i = 0; i < count; i++)
			wrong += wc[i].wr_id != taken++ || wc[i].status;
		if (count <= 0)
			cond_resched();
	}
	CHECK_EQ("many requests are completed", many, taken);
	CHECK_EQ("in their order", 0, wrong);
}

#define LIVE 32

/* Queue pairs that are there at the same time have different numbers, and the number of one that has gone is not the next one's. */
static void numbers(struct kv *kv)
{
	struct ib_qp *live[LIVE] = {};
	int wrong = 0, reused = 0;
	u32 i, j, gone = 0;

	for (i = 0; i < queue_pairs; i++) {
		struct ib_qp *qp = kv_qp(kv, IB_QPT_UD, NULL);

		if (IS_ERR(qp)) {
			wrong++;
			break;
		}
		for (j = 0; j < LIVE; j++)
			wrong += live[j] && live[j]->qp_num == qp->qp_num;
		reused += qp->qp_num == gone;
		if (live[i % LIVE]) {
			gone = live[i % LIVE]->qp_num;
			ib_destroy_qp(live[i % LIVE]);
		}
		live[i % LIVE] = qp;
		cond_resched();
	}
	for (j = 0; j < LIVE; j++)
		if (live[j])
			ib_destroy_qp(live[j]);
	CHECK_EQ("many queue pairs: no two have the same number", 0, wrong);
	CHECK_EQ("and none the number of the last one that went", 0, reused);
}

/* An address handle that goes as soon as the request is posted that uses it: that harms nobody. */
static void early_destroy(struct kv *kv)
{
	struct ib_sge sge = { .addr = kv->dma[0], .length = 64, .lkey = kv->pd->local_dma_lkey };
	struct ib_ud_wr wr = {
		.wr = { .sg_list = &sge, .num_sge = 1, .opcode = IB_WR_SEND, .send_flags = IB_SEND_SIGNALED },
		.remote_qkey = 0x11111111,
	};
	struct ib_qp *qp = kv_qp(kv, IB_QPT_UD, NULL);
	int i, sent = 0, failures = 0;
	struct rdma_ah_attr attr;
	struct ib_ah *ah;
	struct ib_wc wc;

	if (IS_ERR(qp))
		return;
	kv_to_init(qp);
	kv_to_rtr(kv, qp, 0);
	kv_to_rts(qp);
	kv_path(kv, &attr);
	for (i = 0; i < 100; i++) {
		kv_post_recv(kv, qp, 1, 1000);
		ah = rdma_create_ah(kv->pd, &attr, RDMA_CREATE_AH_SLEEPABLE);
		if (IS_ERR(ah))
			break;
		wr.ah = ah;
		wr.remote_qpn = qp->qp_num;
		failures += ib_post_send(qp, &wr.wr, NULL) != 0;
		rdma_destroy_ah(ah, RDMA_DESTROY_AH_SLEEPABLE);
		/* What was received is in between. */
		while (!kv_wait(kv->cq, &wc))
			if (wc.wr_id == 0)
				break;
		sent += wc.wr_id == 0;
	}
	CHECK_EQ("datagrams whose address handle goes at once are posted", 0, failures);
	CHECK_EQ("and completed, whether or not they were sent", 100, sent);
	ib_destroy_qp(qp);
	kv_drop_completions(kv->cq);
}

void kv_test_rules(struct kv *kv)
{
	CHECK_EQ("connected anew", 0, kv_connect(kv));
	contexts(kv);
	handlers(kv);
	unsignaled(kv);
	in_order(kv);
	numbers(kv);
	early_destroy(kv);
}
