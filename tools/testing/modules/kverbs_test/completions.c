// SPDX-License-Identifier: GPL-2.0
/* When the handler of a completion queue is called: moderation. */
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
