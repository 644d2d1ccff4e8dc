// SPDX-License-Identifier: GPL-2.0
/*
 * All methods that may be called from anywhere, called from everywhere: by a thread, under a spin lock with interrupts off,
 * in a softirq (timer, tasklet), in a hard interrupt; in one after the other, and then in all at the same time.
 *
 * The timer of the hard interrupt is not HRTIMER_MODE_HARD: with real-time preemption that is where not even spin locks may be
 * taken, and lockdep looks for that (PROVE_RAW_LOCK_NESTING) in any kernel.
 *
 * Each request that was posted must be completed once, whoever takes its completion.
 */
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/timer.h>
#include "rules.h"

static uint rounds = 50;
module_param(rounds, uint, 0644);
MODULE_PARM_DESC(rounds, "How often each method is called in each context");

enum place { THREAD, LOCKED, TIMER, TASKLET, HARD, PLACES };

static const char *const places[PLACES] = {
	"in a thread", "under a spin lock with interrupts off", "in a timer's softirq", "in a tasklet", "in a hard interrupt",
};

/* Requests to send have even numbers, those to receive odd ones. */
#define REQUESTS 8192

struct contexts {
	struct rules_device *on;
	struct ib_cq *cq;
	struct ib_srq *srq;
	struct rules_pair plain, shared;	/* the second one receives by an SRQ */
	struct rdma_ah_attr path;
	struct ib_event_handler handler;
	enum ib_event_type event;		/* the one that is dispatched */
	bool ah;				/* address handles too */
	spinlock_t lock;
	struct hrtimer hard;
	struct timer_list soft;
	struct tasklet_struct tasklet;
	struct completion done[PLACES];
	bool storm;
	atomic_t left[PLACES];			/* rounds to go, for those who start themselves again */
	atomic_t calls[PLACES], failures[PLACES], wrong_place[PLACES];
	atomic_t next, under_way, posted, completed, twice, unsuccessful;
	atomic_t dispatched, events, bad_events;
	DECLARE_BITMAP(seen, REQUESTS);
};

static bool is_in(enum place place)
{
	switch (place) {
	case THREAD:
		return in_task() && !irqs_disabled();
	case LOCKED:
		return in_task() && irqs_disabled();
	case TIMER:
	case TASKLET:
		return in_serving_softirq() && !in_hardirq();
	default:
		return in_hardirq();
	}
}

static int address_handle(struct contexts *all)
{
	struct rdma_ah_attr attr = all->path, got = {};
	struct ib_ah *ah = rdma_create_ah(all->on->pd, &attr, 0);
	int failures;

	if (IS_ERR(ah))
		return 1;
	failures = rdma_modify_ah(ah, &attr) != 0;
	failures += rdma_query_ah(ah, &got) != 0;
	failures += got.grh.hop_limit != attr.grh.hop_limit;
	rdma_destroy_ah_attr(&got);
	return failures + (rdma_destroy_ah_user(ah, 0, NULL) != 0);
}

/* A reference to a GID that was found: counted once more, and given back. */
static int put_found(const struct ib_gid_attr *attr)
{
	u8 mac[ETH_ALEN];
	int failures;

	if (IS_ERR(attr))
		return 1;
	rdma_hold_gid_attr(attr);
	failures = rdma_read_gid_l2_fields(attr, NULL, mac) != 0;
	rcu_read_lock();
	failures += IS_ERR(rdma_read_gid_attr_ndev_rcu(attr));
	rcu_read_unlock();
	rdma_put_gid_attr(attr);
	rdma_put_gid_attr(attr);
	return failures;
}

static int caches(struct contexts *all)
{
	struct ib_device *device = all->on->device;
	const union ib_gid *ours = &all->on->gid;
	enum ib_gid_type type = IB_GID_TYPE_ROCE_UDP_ENCAP;
	enum ib_port_state state;
	union ib_gid gid;
	int failures;
	u16 pkey, index;
	u8 lmc;

	failures = rdma_query_gid(device, RULES_PORT, 0, &gid) || memcmp(&gid, ours, sizeof(gid));
	failures += put_found(rdma_get_gid_attr(device, RULES_PORT, 0));
	failures += put_found(rdma_find_gid(device, ours, type, NULL));
	failures += put_found(rdma_find_gid_by_port(device, ours, type, RULES_PORT, NULL));
	failures += ib_get_cached_pkey(device, RULES_PORT, 0, &pkey) || pkey != 0xffff;
	failures += ib_find_cached_pkey(device, RULES_PORT, 0xffff, &index) || index != 0;
	failures += ib_get_cached_lmc(device, RULES_PORT, &lmc) != 0;
	return failures + (ib_get_cached_port_state(device, RULES_PORT, &state) != 0);
}

static int poll(struct contexts *all)
{
	struct ib_wc wc[4];
	int i, count = ib_poll_cq(all->cq, ARRAY_SIZE(wc), wc);

	for (i = 0; i < count; i++) {
		if (wc[i].status)
			atomic_inc(&all->unsuccessful);
		if (wc[i].wr_id >= REQUESTS || test_and_set_bit(wc[i].wr_id, all->seen))
			atomic_inc(&all->twice);
		atomic_inc(&all->completed);
		if (wc[i].wr_id % 2)
			atomic_dec(&all->under_way);
	}
	return count < 0;
}

/* A message, if there is room in the queues: both requests are completed, the one to receive after the other was posted. */
static int message(struct contexts *all, struct rules_pair *pair)
{
	int id, failures;

	if (atomic_inc_return(&all->under_way) >= RULES_DEPTH / 2) {
		atomic_dec(&all->under_way);
		return 0;
	}
	id = atomic_add_return(2, &all->next);
	if (id >= REQUESTS) {
		atomic_dec(&all->under_way);
		return 0;
	}
	atomic_add(2, &all->posted);
	failures = rules_receive(pair, id + 1, NULL) != 0;
	return failures + (rules_send(pair, id, NULL) != 0);
}

static int events(struct contexts *all)
{
	struct ib_event event = {
		.device = all->on->device, .event = all->event, .element.port_num = RULES_PORT,
	};

	atomic_inc(&all->dispatched);
	ib_dispatch_event(&event);
	return 0;
}

/* Calls each method that may be called in any context. */
static void call_all(struct contexts *all, enum place place)
{
	int failures = 0;

	if (!is_in(place))
		atomic_inc(&all->wrong_place[place]);
	if (all->ah)
		failures += address_handle(all);
	failures += caches(all);
	failures += message(all, &all->plain);
	failures += message(all, &all->shared);
	failures += ib_req_notify_cq(all->cq, IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS) < 0;
	failures += poll(all);
	failures += events(all);
	atomic_add(failures, &all->failures[place]);
	atomic_inc(&all->calls[place]);
}

/* Whether there is one more round to go; the last one completes the wait. */
static bool again(struct contexts *all, enum place place)
{
	if (atomic_dec_return(&all->left[place]) > 0)
		return true;
	complete(&all->done[place]);
	return false;
}

static enum hrtimer_restart in_hard(struct hrtimer *timer)
{
	struct contexts *all = container_of(timer, struct contexts, hard);

	call_all(all, HARD);
	if (!again(all, HARD))
		return HRTIMER_NORESTART;
	hrtimer_forward_now(timer, us_to_ktime(2000));
	return HRTIMER_RESTART;
}

static void in_timer(struct timer_list *timer)
{
	struct contexts *all = container_of(timer, struct contexts, soft);

	call_all(all, TIMER);
	if (again(all, TIMER))
		mod_timer(timer, jiffies + 1);
}

static void in_tasklet(struct tasklet_struct *tasklet)
{
	struct contexts *all = container_of(tasklet, struct contexts, tasklet);

	call_all(all, TASKLET);
	if (again(all, TASKLET))
		tasklet_schedule(tasklet);
}

static void start(struct contexts *all, enum place place)
{
	reinit_completion(&all->done[place]);
	atomic_set(&all->left[place], rounds);
	if (place == TIMER)
		mod_timer(&all->soft, jiffies + 1);
	else if (place == TASKLET)
		tasklet_schedule(&all->tasklet);
	else if (place == HARD)
		hrtimer_start(&all->hard, us_to_ktime(2000), HRTIMER_MODE_REL);
}

/* What the thread itself does. */
static void by_thread(struct contexts *all, enum place place)
{
	unsigned long flags;
	uint i;

	for (i = 0; i < rounds; i++) {
		if (place == LOCKED)
			spin_lock_irqsave(&all->lock, flags);
		call_all(all, place);
		if (place == LOCKED)
			spin_unlock_irqrestore(&all->lock, flags);
		usleep_range(200, 400);
	}
}

static void wait_until_idle(struct contexts *all)
{
	unsigned long end = jiffies + 10 * HZ;

	while (atomic_read(&all->completed) < atomic_read(&all->posted) && time_before(jiffies, end)) {
		poll(all);
		usleep_range(200, 1000);
	}
}

static void one_place(struct contexts *all, enum place place)
{
	if (place == THREAD || place == LOCKED) {
		by_thread(all, place);
	} else {
		start(all, place);
		wait_for_completion(&all->done[place]);
	}
	wait_until_idle(all);
	CHECK_EQ(places[place], "it is there", 0, atomic_read(&all->wrong_place[place]));
	CHECK_EQ(places[place], "as often as asked for", rounds, atomic_read(&all->calls[place]));
	CHECK_EQ(places[place], "all methods succeed", 0, atomic_read(&all->failures[place]));
	CHECK_EQ(places[place], "all requests are completed", atomic_read(&all->posted), atomic_read(&all->completed));
}

static void all_places(struct contexts *all, bool ah)
{
	int place, failures = 0;

	all->ah = ah;
	for (place = TIMER; place < PLACES; place++)
		start(all, place);
	by_thread(all, LOCKED);
	by_thread(all, THREAD);
	for (place = TIMER; place < PLACES; place++)
		wait_for_completion(&all->done[place]);
	wait_until_idle(all);
	for (place = 0; place < PLACES; place++)
		failures += atomic_read(&all->failures[place]);
	CHECK_EQ("everywhere at once", "all methods succeed", 0, failures);
	CHECK_EQ("everywhere at once", "all requests are completed", atomic_read(&all->posted), atomic_read(&all->completed));
}

static void on_event(struct ib_event_handler *handler, struct ib_event *event)
{
	struct contexts *all = container_of(handler, struct contexts, handler);

	if (event->event != all->event)
		return;
	if (!in_task() || irqs_disabled() || event->device != all->on->device || event->element.port_num != RULES_PORT)
		atomic_inc(&all->bad_events);
	atomic_inc(&all->events);
}

static void announced(struct ib_cq *cq, void *context)
{
}

static int prepare(struct contexts *all)
{
	struct ib_srq_init_attr srq = { .attr = { .max_wr = RULES_DEPTH, .max_sge = 1 }, .srq_type = IB_SRQT_BASIC };
	struct ib_cq_init_attr cq = { .cqe = 4 * RULES_DEPTH };
	int place, ret;

	all->cq = ib_create_cq(all->on->device, announced, NULL, NULL, &cq);
	all->srq = ib_create_srq(all->on->pd, &srq);
	ret = PTR_ERR_OR_ZERO(all->cq) ?: PTR_ERR_OR_ZERO(all->srq);
	ret = ret ?: rules_connect(&all->plain, all->on, all->cq, NULL, NULL, NULL);
	ret = ret ?: rules_connect(&all->shared, all->on, all->cq, all->srq, NULL, NULL);
	rules_path(all->on, &all->path);
	spin_lock_init(&all->lock);
	for (place = 0; place < PLACES; place++)
		init_completion(&all->done[place]);
	timer_setup(&all->soft, in_timer, 0);
	tasklet_setup(&all->tasklet, in_tasklet);
	hrtimer_setup(&all->hard, in_hard, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	INIT_IB_EVENT_HANDLER(&all->handler, all->on->device, on_event);
	ib_register_event_handler(&all->handler);
	return ret;
}

static void finish(struct contexts *all)
{
	timer_delete_sync(&all->soft);
	tasklet_kill(&all->tasklet);
	hrtimer_cancel(&all->hard);
	ib_unregister_event_handler(&all->handler);
	rules_disconnect(&all->plain);
	rules_disconnect(&all->shared);
	if (!IS_ERR_OR_NULL(all->srq))
		ib_destroy_srq(all->srq);
	if (!IS_ERR_OR_NULL(all->cq))
		ib_destroy_cq(all->cq);
}

static enum hrtimer_restart dispatch_in_hard(struct hrtimer *timer)
{
	struct contexts *all = container_of(timer, struct contexts, hard);
	int i;

	for (i = 0; i < 10; i++)
		events(all);
	if (!again(all, HARD))
		return HRTIMER_NORESTART;
	hrtimer_forward_now(timer, us_to_ktime(2000));
	return HRTIMER_RESTART;
}

/*
 * Events that are dispatched in a hard interrupt; with " fatal" that the device cannot be used any more. Where memory is short
 * (" lossy": somebody makes atomic allocations fail) some are lost, and nothing else happens.
 */
void rules_dispatch(struct rules_device *on, const char *how)
{
	struct contexts *all = kzalloc(sizeof(*all), GFP_KERNEL);
	bool lossy = strstr(how, " lossy");
	unsigned long end;

	if (!all)
		return;
	all->on = on;
	all->event = strstr(how, " fatal") ? IB_EVENT_DEVICE_FATAL : IB_EVENT_CLIENT_REREGISTER;
	init_completion(&all->done[HARD]);
	INIT_IB_EVENT_HANDLER(&all->handler, on->device, on_event);
	ib_register_event_handler(&all->handler);
	hrtimer_setup(&all->hard, dispatch_in_hard, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	start(all, HARD);
	wait_for_completion(&all->done[HARD]);
	hrtimer_cancel(&all->hard);
	end = jiffies + (lossy ? HZ : 5 * HZ);
	while (atomic_read(&all->events) < atomic_read(&all->dispatched) && time_before(jiffies, end))
		msleep(20);
	CHECK("dispatch", "no more events come than were dispatched",
	      atomic_read(&all->events) <= atomic_read(&all->dispatched));
	CHECK_EQ("dispatch", "in process context, as they were dispatched", 0, atomic_read(&all->bad_events));
	if (lossy)
		CHECK("dispatch", "some are lost", atomic_read(&all->events) < atomic_read(&all->dispatched));
	else
		CHECK_EQ("dispatch", "all come", atomic_read(&all->dispatched), atomic_read(&all->events));
	ib_unregister_event_handler(&all->handler);
	kfree(all);
}

void rules_contexts(struct rules_device *on, const char *how)
{
	struct contexts *all = kzalloc(sizeof(*all), GFP_KERNEL);
	unsigned long end = jiffies + 5 * HZ;
	int place, ret;

	if (!all)
		return;
	all->on = on;
	all->event = IB_EVENT_CLIENT_REREGISTER;
	all->ah = !strstr(how, " no-ah");
	ret = prepare(all);
	CHECK_EQ("contexts", "two pairs of queue pairs are connected", 0, ret);
	if (ret)
		goto out;
	for (place = 0; place < PLACES; place++)
		one_place(all, place);
	all_places(all, all->ah && !strstr(how, " no-storm-ah"));
	while (atomic_read(&all->events) < atomic_read(&all->dispatched) && time_before(jiffies, end))
		msleep(20);
	CHECK("contexts", "messages were sent", atomic_read(&all->posted) > 0);
	CHECK_EQ("contexts", "no completion came twice", 0, atomic_read(&all->twice));
	CHECK_EQ("contexts", "all requests were successful", 0, atomic_read(&all->unsuccessful));
	CHECK_EQ("contexts", "each event was delivered", atomic_read(&all->dispatched), atomic_read(&all->events));
	CHECK_EQ("contexts", "in process context, as it was dispatched", 0, atomic_read(&all->bad_events));
out:
	finish(all);
	kfree(all);
}
