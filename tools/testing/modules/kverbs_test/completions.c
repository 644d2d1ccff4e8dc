// SPDX-License-Identifier: GPL-2.0
/* When the handler of a completion queue is called: moderation, also the adaptive one. */
#include <linux/dim.h>
#include "kverbs.h"

/* The longest period, in microseconds. A busy machine may take longer: a case that is too late to tell is tried again. */
#define MOST 65535
#define TRIES 50

struct handler {
	atomic_t calls;
	struct completion called;
};

static void called(struct ib_cq *cq, void *context)
{
	struct handler *handler = context;

	atomic_inc(&handler->calls);
	complete(&handler->called);
}

/* So many requests that complete one after the other. */
static bool completions(struct kv *kv, int count)
{
	struct ib_wc wc;

	while (count-- > 0)
		if (kv_post_rdma(kv, IB_WR_RDMA_WRITE, kv->dma[1], kv->pd->unsafe_global_rkey, 8) || kv_wait(kv->cq, &wc) ||
		    wc.status != IB_WC_SUCCESS)
			return false;
	return true;
}

static ktime_t arm(struct kv *kv, struct handler *handler)
{
	/* What was announced before. */
	msleep(1);
	reinit_completion(&handler->called);
	atomic_set(&handler->calls, 0);
	ib_req_notify_cq(kv->cq, IB_CQ_NEXT_COMP);
	return ktime_get();
}

static bool too_late(ktime_t began)
{
	return ktime_us_delta(ktime_get(), began) > MOST - 5000;
}

static bool is_called(struct handler *handler)
{
	return wait_for_completion_timeout(&handler->called, 3 * HZ) != 0;
}

/* 0 if the handler was called as it should, 1 if not, -1 if the machine was too slow to tell. */
static int by_count(struct kv *kv, struct handler *handler)
{
	ktime_t began = arm(kv, handler);
	bool good = completions(kv, 15), early = atomic_read(&handler->calls);

	if (too_late(began))
		return -1;
	good = good && completions(kv, 1) && is_called(handler);
	return too_late(began) ? -1 : !(good && !early && atomic_read(&handler->calls) == 1);
}

static int at_once(struct kv *kv, struct handler *handler)
{
	ktime_t began = arm(kv, handler);
	bool good = completions(kv, 1) && is_called(handler);

	return too_late(began) ? -1 : !good;
}

static int tried(struct kv *kv, struct handler *handler, int (*one)(struct kv *kv, struct handler *handler))
{
	int result = -1, i;

	for (i = 0; i < TRIES && result < 0; i++)
		result = one(kv, handler);
	return result;
}

void kv_test_moderation(struct kv *kv)
{
	struct ib_cq_init_attr attr = { .cqe = 64 };
	struct ib_cq *cq, *own = kv->cq;
	struct handler handler = {};
	ktime_t began;
	int ret;

	init_completion(&handler.called);
	cq = ib_create_cq(kv->device, called, NULL, &handler, &attr);
	CHECK("a CQ with a handler", !IS_ERR(cq));
	if (IS_ERR(cq))
		return;
	ret = rdma_set_cq_moderation(cq, 16, MOST);
	if (ret == -EOPNOTSUPP) {
		kv_known("rdma_set_cq_moderation", ret);
		ib_destroy_cq(cq);
		return;
	}
	CHECK_EQ("rdma_set_cq_moderation", 0, ret);
	CHECK_EQ("the device tells how many completions at most", MOST, kv->device->attrs.cq_caps.max_cq_moderation_count);
	CHECK_EQ("and how long", MOST, kv->device->attrs.cq_caps.max_cq_moderation_period);
	kv_disconnect(kv);
	kv->cq = cq;
	CHECK_EQ("connected with the CQ", 0, kv_connect(kv));
	CHECK_EQ("the handler is called for 16 completions", 0, tried(kv, &handler, by_count));
	rdma_set_cq_moderation(cq, 1000, 20000);
	began = arm(kv, &handler);
	CHECK("for fewer it is called, too", completions(kv, 2) && is_called(&handler));
	CHECK("after the period", ktime_us_delta(ktime_get(), began) >= 20000);
	CHECK_EQ("once", 1, atomic_read(&handler.calls));
	rdma_set_cq_moderation(cq, 0, 0);
	CHECK_EQ("without moderation at once", 0, tried(kv, &handler, at_once));
	rdma_set_cq_moderation(cq, 1000, MOST);
	arm(kv, &handler);
	CHECK("a call is held back", completions(kv, 1));
	kv_disconnect(kv);
	kv->cq = own;
	ib_destroy_cq(cq);
	ret = atomic_read(&handler.calls);
	msleep(2 * MOST / 1000);
	CHECK_EQ("and does not come once the CQ is gone", ret, atomic_read(&handler.calls));
	CHECK_EQ("connected as before", 0, kv_connect(kv));
}

/* Requests that complete in a queue that ib_core polls. */
struct load {
	struct ib_cqe cqe;
	atomic_t left;
	atomic_t failures;
	struct completion done;
};

static void load_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct load *load = container_of(wc->wr_cqe, struct load, cqe);

	if (wc->status != IB_WC_SUCCESS)
		atomic_inc(&load->failures);
	if (atomic_dec_and_test(&load->left))
		complete(&load->done);
}

/* So many requests at once, up to their end. */
static bool burst(struct kv *kv, struct load *load, int count)
{
	struct ib_sge sge = { .addr = kv->dma[0], .length = 8, .lkey = kv->pd->local_dma_lkey };
	struct ib_rdma_wr wr = {
		.wr = { .wr_cqe = &load->cqe, .sg_list = &sge, .num_sge = 1, .opcode = IB_WR_RDMA_WRITE, .send_flags = IB_SEND_SIGNALED },
		.remote_addr = kv->dma[1],
		.rkey = kv->pd->unsafe_global_rkey,
	};

	reinit_completion(&load->done);
	atomic_set(&load->left, count);
	while (count--)
		if (ib_post_send(kv->qp[0], &wr.wr, NULL))
			return false;
	return wait_for_completion_timeout(&load->done, 3 * HZ) && !atomic_read(&load->failures);
}

/* Queues with few and with many completions at a time: within ten seconds DIM chooses another profile than the first one. */
static bool adapts(struct kv *kv, struct load *load, struct dim *dim, bool *all)
{
	unsigned long end = jiffies + 10 * HZ;
	int i;

	for (i = 0; *all && time_before(jiffies, end) && READ_ONCE(dim->profile_ix) == RDMA_DIM_START_PROFILE; i++)
		*all = burst(kv, load, i / 100 % 2 ? 48 : 1);
	return READ_ONCE(dim->profile_ix) != RDMA_DIM_START_PROFILE;
}

/* A queue that ib_core polls has adaptive moderation if the device's switch is on when it is made. */
void kv_test_adaptive(const char *netdev)
{
	struct load load = { .cqe.done = load_done };
	struct ib_device *device = kv_device_of(netdev);
	struct ib_cq *polled, *direct, *own;
	struct kv kv = {};
	bool wanted, all = true;
	int side;

	CHECK("the device", device);
	if (!device)
		return;
	wanted = device->ops.modify_cq && device->use_cq_dim;
	init_completion(&load.done);
	CHECK_EQ("what queues need", 0, kv_open(&kv, device));
	polled = ib_alloc_cq(device, NULL, 128, 0, IB_POLL_WORKQUEUE);
	direct = ib_alloc_cq(device, NULL, 128, 0, IB_POLL_DIRECT);
	CHECK("two queues", !IS_ERR(polled) && !IS_ERR(direct));
	if (!IS_ERR(polled) && !IS_ERR(direct) && kv.cq) {
		CHECK_EQ("whether a queue that ib_core polls adapts", wanted, !!polled->dim);
		CHECK("one that its client polls does not", !direct->dim);
		kv_disconnect(&kv);
		own = kv.cq;
		kv.cq = polled;
		CHECK_EQ("connected with the queue", 0, kv_connect(&kv));
		if (polled->dim)
			CHECK("another profile is chosen for it", adapts(&kv, &load, polled->dim, &all));
		CHECK("all is completed", all && burst(&kv, &load, 48) && burst(&kv, &load, 1));
		for (side = 0; side < 2; side++) {
			ib_destroy_qp(kv.qp[side]);
			kv.qp[side] = NULL;
		}
		kv.cq = own;
	}
	if (!IS_ERR(polled))
		ib_free_cq(polled);
	if (!IS_ERR(direct))
		ib_free_cq(direct);
	kv_close(&kv);
	ib_device_put(device);
	pr_info("done\n");
}
