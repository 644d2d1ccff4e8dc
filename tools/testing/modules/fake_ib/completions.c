// SPDX-License-Identifier: GPL-2.0
/* Completion queues. */
#include <linux/slab.h>
#include "fake_ib.h"

struct fake_cq {
	struct ib_cq ib;
	spinlock_t lock;
	struct list_head done;		/* of struct completed */
	u32 count;
	bool armed;
};

struct completed {
	struct list_head list;
	struct ib_wc wc;
};

void fake_ib_announce(struct ib_cq *ibcq)
{
	struct fake_cq *cq = container_of(ibcq, struct fake_cq, ib);
	unsigned long flags;
	bool tell;

	spin_lock_irqsave(&cq->lock, flags);
	tell = cq->armed && cq->count;
	if (tell)
		cq->armed = false;
	spin_unlock_irqrestore(&cq->lock, flags);
	if (tell)
		cq->ib.comp_handler(&cq->ib, cq->ib.cq_context);
}

void fake_ib_complete(struct ib_cq *ibcq, const struct ib_wc *wc)
{
	struct fake_cq *cq = container_of(ibcq, struct fake_cq, ib);
	struct completed *new = kmalloc_obj(*new, GFP_ATOMIC);
	unsigned long flags;

	if (WARN_ON(!new))
		return;
	new->wc = *wc;
	spin_lock_irqsave(&cq->lock, flags);
	list_add_tail(&new->list, &cq->done);
	WARN_ON(++cq->count > cq->ib.cqe);
	spin_unlock_irqrestore(&cq->lock, flags);
}

static int create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr, struct uverbs_attr_bundle *attrs)
{
	struct fake_cq *cq = container_of(ibcq, struct fake_cq, ib);

	spin_lock_init(&cq->lock);
	INIT_LIST_HEAD(&cq->done);
	ibcq->cqe = attr->cqe;
	return 0;
}

void fake_ib_forget(struct ib_cq *ibcq, struct ib_qp *of)
{
	struct fake_cq *cq = container_of(ibcq, struct fake_cq, ib);
	struct completed *this, *next;
	unsigned long flags;

	spin_lock_irqsave(&cq->lock, flags);
	list_for_each_entry_safe(this, next, &cq->done, list) {
		if (of && this->wc.qp != of)
			continue;
		list_del(&this->list);
		cq->count--;
		kfree(this);
	}
	spin_unlock_irqrestore(&cq->lock, flags);
}

static int destroy_cq(struct ib_cq *cq, struct ib_udata *udata)
{
	fake_ib_forget(cq, NULL);
	return 0;
}

static int poll_cq(struct ib_cq *ibcq, int entries, struct ib_wc *wc)
{
	struct fake_cq *cq = container_of(ibcq, struct fake_cq, ib);
	struct completed *this;
	unsigned long flags;
	int got = 0;

	spin_lock_irqsave(&cq->lock, flags);
	while (got < entries && !list_empty(&cq->done)) {
		this = list_first_entry(&cq->done, struct completed, list);
		wc[got++] = this->wc;
		list_del(&this->list);
		cq->count--;
		kfree(this);
	}
	spin_unlock_irqrestore(&cq->lock, flags);
	return got;
}

static int req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags how)
{
	struct fake_cq *cq = container_of(ibcq, struct fake_cq, ib);
	unsigned long flags;
	int missed;

	spin_lock_irqsave(&cq->lock, flags);
	cq->armed = true;
	missed = (how & IB_CQ_REPORT_MISSED_EVENTS) && cq->count;
	spin_unlock_irqrestore(&cq->lock, flags);
	return missed;
}

const struct ib_device_ops fake_ib_completion_ops = {
	.create_cq = create_cq,
	.destroy_cq = destroy_cq,
	.poll_cq = poll_cq,
	.req_notify_cq = req_notify_cq,
	INIT_RDMA_OBJ_SIZE(ib_cq, fake_cq, ib),
};
