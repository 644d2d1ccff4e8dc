// SPDX-License-Identifier: GPL-2.0
/*
 * The rules for callbacks. A lock that is held while requests are posted may be taken by the completion handler: the driver does not
 * call handlers from the call chain of a method. And one handler of a completion queue runs at a time, however long it takes.
 *
 * A handler that finds that its own call chain has the lock says so, instead of waiting for itself.
 */
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/mutex.h>
#include "rules.h"

static uint messages = 200;
module_param(messages, uint, 0644);
MODULE_PARM_DESC(messages, "How many messages are sent for each way to poll");

/* How long a handler takes, in microseconds. */
#define LONG 300
#define POSTERS 2
#define SLOTS 8

enum lock_kind { MUTEX, SPIN, SPIN_BH, SPIN_IRQ };

/* A way to take completions. */
struct way {
	const char *name;
	bool raw;			/* by a completion handler of the client's own, with ib_create_cq() */
	enum ib_poll_context context;
	enum lock_kind lock;
};

/* Where the context of handlers is not defined, only the last kind of lock is right. */
static const struct way ways[] = {
	{ "own handler, interrupts off", true, 0, SPIN_IRQ },
	{ "IB_POLL_DIRECT, mutex", false, IB_POLL_DIRECT, MUTEX },
	{ "IB_POLL_DIRECT, interrupts off", false, IB_POLL_DIRECT, SPIN_IRQ },
	{ "IB_POLL_SOFTIRQ, softirqs off", false, IB_POLL_SOFTIRQ, SPIN_BH },
	{ "IB_POLL_SOFTIRQ, interrupts off", false, IB_POLL_SOFTIRQ, SPIN_IRQ },
	{ "IB_POLL_WORKQUEUE, mutex", false, IB_POLL_WORKQUEUE, MUTEX },
	{ "IB_POLL_WORKQUEUE, spin lock", false, IB_POLL_WORKQUEUE, SPIN },
	{ "IB_POLL_UNBOUND_WORKQUEUE, mutex", false, IB_POLL_UNBOUND_WORKQUEUE, MUTEX },
};

static struct lock_class_key lock_classes[ARRAY_SIZE(ways)];

struct callbacks;

/* A message and its answer: the slot is free again when both requests are completed. */
struct slot {
	struct callbacks *all;
	struct ib_cqe sent, received;
	atomic_t busy;
};

struct callbacks {
	struct rules_device *on;
	const struct way *way;
	bool rearm;
	struct ib_cq *cq;
	struct rules_pair pair;
	struct mutex mutex;
	spinlock_t spin;
	/* The task that posts under the lock, and its CPU for locks that keep it there. */
	struct task_struct *holder;
	int holder_cpu;
	struct slot slots[SLOTS];
	struct completion finished;
	atomic_t posters, finished_posters, posted, handled, unsuccessful, failures, in_chain, running, at_once, entered;
};

static unsigned long lock(struct callbacks *all)
{
	unsigned long flags = 0;

	if (all->way->lock == MUTEX)
		mutex_lock(&all->mutex);
	else if (all->way->lock == SPIN)
		spin_lock(&all->spin);
	else if (all->way->lock == SPIN_BH)
		spin_lock_bh(&all->spin);
	else
		spin_lock_irqsave(&all->spin, flags);
	return flags;
}

static void unlock(struct callbacks *all, unsigned long flags)
{
	if (all->way->lock == MUTEX)
		mutex_unlock(&all->mutex);
	else if (all->way->lock == SPIN)
		spin_unlock(&all->spin);
	else if (all->way->lock == SPIN_BH)
		spin_unlock_bh(&all->spin);
	else
		spin_unlock_irqrestore(&all->spin, flags);
}

/* Whether this runs inside of a post: the task is the holder or, with a spin lock, whatever runs on its CPU. */
static bool is_in_chain(struct callbacks *all)
{
	if (all->way->lock == MUTEX)
		return READ_ONCE(all->holder) == current;
	return READ_ONCE(all->holder_cpu) == raw_smp_processor_id();
}

/* What a client does where a request is completed. */
static void handle(struct callbacks *all, struct ib_wc *wc)
{
	unsigned long flags;

	if (wc->status)
		atomic_inc(&all->unsuccessful);
	if (is_in_chain(all)) {
		atomic_inc(&all->in_chain);
	} else {
		flags = lock(all);
		unlock(all, flags);
	}
	atomic_inc(&all->handled);
}

/* Around what must not run twice at once: it takes long. */
static void enter(struct callbacks *all)
{
	if (atomic_inc_return(&all->running) > 1)
		atomic_inc(&all->at_once);
	atomic_inc(&all->entered);
}

static void leave(struct callbacks *all)
{
	udelay(LONG);
	atomic_dec(&all->running);
}

static void sent(struct ib_cq *cq, struct ib_wc *wc)
{
	struct slot *slot = container_of(wc->wr_cqe, struct slot, sent);

	enter(slot->all);
	handle(slot->all, wc);
	leave(slot->all);
	atomic_dec(&slot->busy);
}

static void received(struct ib_cq *cq, struct ib_wc *wc)
{
	struct slot *slot = container_of(wc->wr_cqe, struct slot, received);

	enter(slot->all);
	handle(slot->all, wc);
	leave(slot->all);
	atomic_dec(&slot->busy);
}

/* A completion handler of the client's own: completions are announced anew at once, then taken, which takes long. */
static void announced(struct ib_cq *cq, void *context)
{
	struct callbacks *all = context;
	struct ib_wc wc;
	unsigned long flags;

	if (is_in_chain(all)) {
		atomic_inc(&all->in_chain);
		return;
	}
	if (all->rearm)
		ib_req_notify_cq(cq, IB_CQ_NEXT_COMP);
	enter(all);
	flags = lock(all);
	unlock(all, flags);
	/* A driver that has its queue locked meanwhile would wait for itself. */
	while (all->rearm && ib_poll_cq(cq, 1, &wc) == 1) {
		struct slot *slot = &all->slots[wc.wr_id % SLOTS];

		handle(all, &wc);
		atomic_dec(&slot->busy);
	}
	leave(all);
}

static void hold(struct callbacks *all, bool held)
{
	WRITE_ONCE(all->holder, held ? current : NULL);
	WRITE_ONCE(all->holder_cpu, held && all->way->lock != MUTEX ? smp_processor_id() : -1);
}

static void post(struct callbacks *all, int index)
{
	struct slot *slot = &all->slots[index];
	unsigned long flags;

	atomic_set(&slot->busy, 2);
	atomic_add(2, &all->posted);
	flags = lock(all);
	hold(all, true);
	if (rules_receive(&all->pair, index, all->way->raw ? NULL : &slot->received))
		atomic_inc(&all->failures);
	if (rules_send(&all->pair, index, all->way->raw ? NULL : &slot->sent))
		atomic_inc(&all->failures);
	/* Whatever the post has set off has time to go wrong. */
	udelay(20);
	hold(all, false);
	unlock(all, flags);
}

/* Takes completions where the client does that itself. */
static void take(struct callbacks *all)
{
	struct ib_wc wc;

	if (all->way->raw && !all->rearm) {
		while (ib_poll_cq(all->cq, 1, &wc) == 1) {
			handle(all, &wc);
			atomic_dec(&all->slots[wc.wr_id % SLOTS].busy);
		}
		ib_req_notify_cq(all->cq, IB_CQ_NEXT_COMP);
	}
	if (!all->way->raw && all->way->context == IB_POLL_DIRECT)
		ib_process_cq_direct(all->cq, -1);
}

static bool wait_for(struct callbacks *all, int index, bool polls)
{
	unsigned long end = jiffies + 10 * HZ;

	while (atomic_read(&all->slots[index].busy)) {
		if (time_after(jiffies, end))
			return false;
		if (polls)
			take(all);
		usleep_range(50, 100);
	}
	return true;
}

/* Posts messages, from a half of the slots; the first poster polls as well, where that is for the client to do. */
static int poster(void *data)
{
	struct callbacks *all = data;
	int number = atomic_dec_return(&all->posters);
	int from = number * SLOTS / POSTERS, index = from;
	uint i;

	for (i = 0; i < messages / POSTERS; i++) {
		if (!wait_for(all, index, number == 0))
			break;
		post(all, index);
		index = index + 1 == from + SLOTS / POSTERS ? from : index + 1;
	}
	/* Number 0 polls for the others too, until they have all back. */
	while (number == 0 && atomic_read(&all->finished_posters) < POSTERS - 1) {
		take(all);
		usleep_range(50, 100);
	}
	for (index = from; index < from + SLOTS / POSTERS; index++)
		wait_for(all, index, number == 0);
	atomic_inc(&all->finished_posters);
	complete(&all->finished);
	return 0;
}

static int prepare(struct callbacks *all)
{
	struct ib_cq_init_attr attr = { .cqe = 4 * RULES_DEPTH };
	int i;

	mutex_init(&all->mutex);
	spin_lock_init(&all->spin);
	/* Each way takes the lock in contexts of its own. */
	lockdep_set_class(&all->spin, &lock_classes[all->way - ways]);
	init_completion(&all->finished);
	atomic_set(&all->posters, POSTERS);
	all->holder_cpu = -1;
	for (i = 0; i < SLOTS; i++) {
		all->slots[i].all = all;
		all->slots[i].sent.done = sent;
		all->slots[i].received.done = received;
	}
	if (all->way->raw)
		all->cq = ib_create_cq(all->on->device, announced, NULL, all, &attr);
	else
		all->cq = ib_alloc_cq(all->on->device, all, attr.cqe, 0, all->way->context);
	if (IS_ERR(all->cq))
		return PTR_ERR(all->cq);
	if (all->way->raw)
		ib_req_notify_cq(all->cq, IB_CQ_NEXT_COMP);
	return rules_connect(&all->pair, all->on, all->cq, NULL, NULL, NULL);
}

static void free_callbacks(struct callbacks *all)
{
	rules_disconnect(&all->pair);
	if (!IS_ERR_OR_NULL(all->cq)) {
		if (all->way->raw)
			ib_destroy_cq(all->cq);
		else
			ib_free_cq(all->cq);
	}
	kfree(all);
}

static void one_way(struct rules_device *on, const struct way *way, bool rearm)
{
	struct callbacks *all = kzalloc(sizeof(*all), GFP_KERNEL);
	struct task_struct *threads[POSTERS];
	int i, ret;

	if (!all)
		return;
	all->on = on;
	all->way = way;
	all->rearm = rearm;
	ret = prepare(all);
	CHECK_EQ(way->name, "a pair of queue pairs is connected", 0, ret);
	if (ret)
		goto out;
	for (i = 0; i < POSTERS; i++) {
		threads[i] = kthread_run_on_cpu(poster, all, i % num_online_cpus(), "poster/%u");
		if (IS_ERR(threads[i])) {
			CHECK_EQ(way->name, "there is a thread to post", 0, PTR_ERR(threads[i]));
			atomic_inc(&all->finished_posters);
			complete(&all->finished);
		}
	}
	for (i = 0; i < POSTERS; i++)
		wait_for_completion(&all->finished);
	CHECK_EQ(way->name, "all is posted", 0, atomic_read(&all->failures));
	CHECK_EQ(way->name, "all is completed", atomic_read(&all->posted), atomic_read(&all->handled));
	CHECK_EQ(way->name, "with success", 0, atomic_read(&all->unsuccessful));
	CHECK(way->name, "handlers were called", atomic_read(&all->entered) > 0);
	CHECK_EQ(way->name, "none from the call chain of a post, so the lock is there", 0, atomic_read(&all->in_chain));
	CHECK_EQ(way->name, "one handler of a CQ at a time", 0, atomic_read(&all->at_once));
out:
	free_callbacks(all);
}

void rules_callbacks(struct rules_device *on, const char *how)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(ways); i++)
		one_way(on, &ways[i], !strstr(how, " no-rearm"));
}
