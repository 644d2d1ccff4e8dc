// SPDX-License-Identifier: GPL-2.0
/* Queue pairs and address handles at work. */
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/timer.h>
#include "kverbs.h"

static int state_of(struct ib_qp *qp)
{
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr = {};
	int ret = ib_query_qp(qp, &attr, IB_QP_STATE, &init);

	return ret ?: attr.qp_state;
}

/* A queue pair that is destroyed in a state, with requests posted. */
static void destroy_in(struct kv *kv, enum ib_qp_state state, const char *name)
{
	struct ib_qp *qp = kv_qp(kv, IB_QPT_RC, NULL);
	int ret = 0;

	if (IS_ERR(qp)) {
		kv_result(false, name, PTR_ERR(qp));
		return;
	}
	if (state != IB_QPS_RESET) {
		ret = kv_to_init(qp);
		ret = ret ?: kv_post_recv(kv, qp, 0, 1);
	}
	if (state == IB_QPS_RTR || state == IB_QPS_RTS || state == IB_QPS_SQD)
		ret = ret ?: kv_to_rtr(kv, qp, 0xfffff);
	if (state == IB_QPS_RTS || state == IB_QPS_SQD) {
		ret = ret ?: kv_to_rts(qp);
		ret = ret ?: kv_post_send(kv, qp, 0, 2, 64);
	}
	if (state == IB_QPS_SQD || state == IB_QPS_ERR)
		ret = ret ?: kv_to(qp, state);
	CHECK_EQ(name, 0, ret ?: ib_destroy_qp(qp));
	kv_drop_completions(kv->cq);
}

struct hard {
	struct hrtimer timer;
	struct completion done;
	struct kv *kv;
	int ret;
	bool in_irq;
};

/* Not with a "hard" timer: its callback may take raw spin locks alone. */
static enum hrtimer_restart post_hard(struct hrtimer *timer)
{
	struct hard *hard = container_of(timer, struct hard, timer);

	hard->in_irq = in_hardirq();
	hard->ret = kv_post_send(hard->kv, hard->kv->qp[0], 0, 7, 128);
	complete(&hard->done);
	return HRTIMER_NORESTART;
}

/* A message that is posted in a hard interrupt. */
static void post_in_interrupt(struct kv *kv)
{
	struct hard hard = { .kv = kv };
	struct ib_wc wc;
	int i, sent = 0, received = 0;

	init_completion(&hard.done);
	memset(kv->memory[0], 0x5a, 128);
	memset(kv->memory[1], 0, KV_SIZE);
	ib_dma_sync_single_for_device(kv->device, kv->dma[0], KV_SIZE, DMA_BIDIRECTIONAL);
	kv_post_recv(kv, kv->qp[1], 1, 8);
	hrtimer_setup_on_stack(&hard.timer, post_hard, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	hrtimer_start(&hard.timer, ms_to_ktime(1), HRTIMER_MODE_REL);
	wait_for_completion(&hard.done);
	hrtimer_cancel(&hard.timer);
	destroy_hrtimer_on_stack(&hard.timer);
	CHECK("the timer runs in a hard interrupt", hard.in_irq);
	CHECK_EQ("ib_post_send in a hard interrupt", 0, hard.ret);
	for (i = 0; i < 2 && !kv_wait(kv->cq, &wc); i++) {
		sent += wc.wr_id == 7 && !wc.status && wc.opcode == IB_WC_SEND;
		received += wc.wr_id == 8 && !wc.status && wc.opcode == IB_WC_RECV && wc.byte_len == 128;
	}
	ib_dma_sync_single_for_cpu(kv->device, kv->dma[1], KV_SIZE, DMA_BIDIRECTIONAL);
	CHECK_EQ("the message is sent", 1, sent);
	CHECK_EQ("and received", 1, received);
	CHECK("as it was sent", !memchr_inv(kv->memory[1], 0x5a, 128));
}

/* Completions that are counted before they are polled. */
static void peek(struct kv *kv)
{
	int (*count)(struct ib_cq *cq, int most) = kv->device->ops.peek_cq;
	int i;

	CHECK("completions can be counted", count);
	if (!count)
		return;
	CHECK_EQ("there are none", 0, count(kv->cq, 100));
	kv_post_recv(kv, kv->qp[1], 1, 8);
	kv_post_send(kv, kv->qp[0], 0, 7, 64);
	for (i = 0; i < 1000 && count(kv->cq, 100) < 2; i++)
		usleep_range(1000, 2000);
	CHECK_EQ("there are two of a message", 2, count(kv->cq, 100));
	CHECK_EQ("or as many as were asked for", 1, count(kv->cq, 1));
	kv_drop_completions(kv->cq);
	CHECK_EQ("and none that were polled", 0, count(kv->cq, 100));
}

void kv_test_qp(struct kv *kv)
{
	struct ib_qp *qp;
	int got, wanted = 0;

	CHECK_EQ("connected anew", 0, kv_connect(kv));
	post_in_interrupt(kv);
	peek(kv);

	qp = kv_qp(kv, IB_QPT_RC, NULL);
	CHECK("a queue pair", !IS_ERR(qp));
	if (IS_ERR(qp))
		return;
	CHECK_EQ("is reset at first", IB_QPS_RESET, state_of(qp));
	CHECK("a reset queue pair takes no request to receive", kv_post_recv(kv, qp, 0, 1) != 0);
	CHECK_EQ("RESET to INIT", 0, kv_to_init(qp));
	CHECK_EQ("is told", IB_QPS_INIT, state_of(qp));
	CHECK_EQ("an initialised one takes one", 0, kv_post_recv(kv, qp, 0, 1));
	CHECK("but no request to send", kv_post_send(kv, qp, 0, 1, 64) != 0);
	CHECK_EQ("INIT to RTR", 0, kv_to_rtr(kv, qp, 0xfffff));
	CHECK_EQ("is told too", IB_QPS_RTR, state_of(qp));
	CHECK_EQ("RTR to RTS", 0, kv_to_rts(qp));
	CHECK_EQ("as this is", IB_QPS_RTS, state_of(qp));
	CHECK_EQ("RTS to INIT is no transition", -EINVAL, kv_to_init(qp));
	CHECK_EQ("RTS to ERR", 0, kv_to(qp, IB_QPS_ERR));
	CHECK_EQ("and this", IB_QPS_ERR, state_of(qp));
	CHECK_EQ("ERR to RESET", 0, kv_to(qp, IB_QPS_RESET));
	CHECK_EQ("and that", IB_QPS_RESET, state_of(qp));
	ib_destroy_qp(qp);
	kv_drop_completions(kv->cq);

	destroy_in(kv, IB_QPS_RESET, "a queue pair is destroyed in RESET");
	destroy_in(kv, IB_QPS_INIT, "a queue pair is destroyed in INIT, with a request");
	destroy_in(kv, IB_QPS_RTR, "a queue pair is destroyed in RTR, with a request");
	destroy_in(kv, IB_QPS_RTS, "a queue pair is destroyed in RTS, with requests under way");
	destroy_in(kv, IB_QPS_SQD, "a queue pair is destroyed in SQD, with requests under way");
	destroy_in(kv, IB_QPS_ERR, "a queue pair is destroyed in ERR, with flushed requests");

	got = ib_modify_qp_is_ok(IB_QPS_RESET, IB_QPS_INIT, IB_QPT_RC,
				 IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT | IB_QP_ACCESS_FLAGS);
	CHECK_EQ("ib_modify_qp_is_ok takes what is right", 1, got);
	got = ib_modify_qp_is_ok(IB_QPS_RESET, IB_QPS_RTS, IB_QPT_RC, IB_QP_STATE);
	CHECK_EQ("and not what is wrong", wanted, got);
}

/* An address handle that is made and destroyed in a softirq. */
struct soft {
	struct timer_list timer;
	struct completion done;
	struct kv *kv;
	struct rdma_ah_attr attr;
	int made, destroyed;
};

static void ah_soft(struct timer_list *timer)
{
	struct soft *soft = container_of(timer, struct soft, timer);
	struct ib_ah *ah = rdma_create_ah(soft->kv->pd, &soft->attr, 0);

	soft->made = PTR_ERR_OR_ZERO(ah);
	soft->destroyed = IS_ERR(ah) ? -1 : rdma_destroy_ah_user(ah, 0, NULL);
	complete(&soft->done);
}

static void ah_in_softirq(struct kv *kv)
{
	struct soft *soft = kzalloc(sizeof(*soft), GFP_KERNEL);

	if (!soft)
		return;
	soft->kv = kv;
	init_completion(&soft->done);
	kv_path(kv, &soft->attr);
	timer_setup(&soft->timer, ah_soft, 0);
	mod_timer(&soft->timer, jiffies + 1);
	wait_for_completion(&soft->done);
	timer_delete_sync(&soft->timer);
	CHECK_EQ("an address handle is made in a softirq", 0, soft->made);
	CHECK_EQ("and destroyed", 0, soft->destroyed);
	kfree(soft);
}

/* Waits for what one datagram completes: its sending, and its receiving, which is returned. */
static int wait_datagram(struct kv *kv, struct ib_wc *received)
{
	struct ib_wc wc;
	int i, ret = -ENODATA;

	for (i = 0; i < 2; i++) {
		if (kv_wait(kv->cq, &wc))
			return -ETIMEDOUT;
		if (wc.status)
			return -EIO;
		if (wc.opcode == IB_WC_RECV) {
			*received = wc;
			ret = 0;
		}
	}
	return ret;
}

void kv_test_ah(struct kv *kv)
{
	struct rdma_ah_attr attr, got = {};
	struct ib_qp *from, *to;
	struct ib_ah *ah, *back;
	struct ib_wc wc;

	ah_in_softirq(kv);
	kv_path(kv, &attr);
	ah = rdma_create_ah(kv->pd, &attr, RDMA_CREATE_AH_SLEEPABLE);
	CHECK("an address handle is made in process context", !IS_ERR(ah));
	from = kv_qp(kv, IB_QPT_UD, NULL);
	to = kv_qp(kv, IB_QPT_UD, NULL);
	if (IS_ERR(ah) || IS_ERR(from) || IS_ERR(to))
		return;
	CHECK_EQ("rdma_query_ah", 0, rdma_query_ah(ah, &got));
	CHECK("tells how it was made", !memcmp(&got.grh.dgid, &attr.grh.dgid, sizeof(union ib_gid)) &&
				       rdma_ah_get_port_num(&got) == KV_PORT && got.grh.hop_limit == 1);
	kv_to_init(from);
	kv_to_init(to);
	kv_to_rtr(kv, from, 0);
	kv_to_rtr(kv, to, 0);
	kv_to_rts(from);
	kv_to_rts(to);
	kv_post_recv(kv, to, 1, 5);
	CHECK_EQ("a datagram is posted", 0, kv_post_datagram(kv, from, ah, to->qp_num));
	CHECK_EQ("and received", 0, wait_datagram(kv, &wc));
	CHECK_EQ("its sender is told", from->qp_num, wc.src_qp);
	memset(&got, 0, sizeof(got));
	CHECK_EQ("ib_init_ah_attr_from_wc", 0, ib_init_ah_attr_from_wc(kv->device, KV_PORT, &wc, kv->memory[1], &got));
	CHECK("finds the sender", !memcmp(&got.grh.dgid, &kv->gid, sizeof(union ib_gid)));
	rdma_destroy_ah_attr(&got);
	back = ib_create_ah_from_wc(kv->pd, &wc, kv->memory[1], KV_PORT);
	CHECK("ib_create_ah_from_wc", !IS_ERR(back));
	if (!IS_ERR(back)) {
		kv_post_recv(kv, from, 1, 6);
		CHECK_EQ("a reply is posted", 0, kv_post_datagram(kv, to, back, wc.src_qp));
		CHECK_EQ("and received by the sender", 0, wait_datagram(kv, &wc));
		CHECK_EQ("from who has replied", to->qp_num, wc.src_qp);
		rdma_destroy_ah(back, RDMA_DESTROY_AH_SLEEPABLE);
	}
	rdma_destroy_ah(ah, RDMA_DESTROY_AH_SLEEPABLE);
	ib_destroy_qp(from);
	ib_destroy_qp(to);
	kv_drop_completions(kv->cq);
}
