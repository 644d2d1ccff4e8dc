// SPDX-License-Identifier: GPL-2.0
/*
 * Clients that come and go without end, for storm.sh: each of some threads registers a client of its own, lets it be for a
 * moment, and unregisters it. A client creates objects on every device that it is added to, and destroys them when the device
 * is removed.
 *
 * Counters in /sys/module/storm_client/parameters: rounds, added, removed, renamed, events, and faults: what must not be.
 */
#define pr_fmt(fmt) "storm_client: " fmt

#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>

#define THREADS 3

#define COUNTER(name)                                                          \
	static atomic_t name = ATOMIC_INIT(0);                                 \
	module_param_cb(name, &counter_ops, &name, 0444)

static int counter_get(char *buffer, const struct kernel_param *param)
{
	return sysfs_emit(buffer, "%d\n", atomic_read((atomic_t *)param->arg));
}

static const struct kernel_param_ops counter_ops = { .get = counter_get };
COUNTER(rounds);
COUNTER(added);
COUNTER(removed);
COUNTER(renamed);
COUNTER(events);
COUNTER(faults);

#define EXPECT(condition)                                                      \
	do {                                                                   \
		if (!(condition)) {                                            \
			pr_err("line %d: not so: %s\n", __LINE__, #condition); \
			atomic_inc(&faults);                                   \
		}                                                              \
	} while (0)

/* What a client has of a device. */
struct use {
	struct ib_device *device;
	struct ib_event_handler handler;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_qp *qp;
	struct ib_mr *mr;
	const struct ib_gid_attr *gid;
};

static struct task_struct *threads[THREADS];

static void on_event(struct ib_event_handler *handler, struct ib_event *event)
{
	struct use *use = container_of(handler, struct use, handler);

	EXPECT(event->device == use->device);
	atomic_inc(&events);
}

static void free_use(struct use *use)
{
	if (!IS_ERR_OR_NULL(use->gid))
		rdma_put_gid_attr(use->gid);
	if (!IS_ERR_OR_NULL(use->mr))
		EXPECT(!ib_dereg_mr(use->mr));
	if (!IS_ERR_OR_NULL(use->qp))
		EXPECT(!ib_destroy_qp(use->qp));
	if (!IS_ERR_OR_NULL(use->cq))
		ib_free_cq(use->cq);
	if (!IS_ERR_OR_NULL(use->pd))
		ib_dealloc_pd(use->pd);
	kfree(use);
}

/* The completions that a queue pair's end flushes out. */
static void flushed(struct ib_cq *cq, struct ib_wc *wc)
{
	EXPECT(wc->status == IB_WC_WR_FLUSH_ERR);
}

static struct ib_cqe flushed_cqe = { .done = flushed };

static int make_objects(struct use *use)
{
	struct ib_qp_init_attr init = {
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1 },
		.sq_sig_type = IB_SIGNAL_ALL_WR,
		.qp_type = IB_QPT_RC,
	};
	struct ib_qp_attr attr = { .qp_state = IB_QPS_INIT, .port_num = 1, .qp_access_flags = IB_ACCESS_REMOTE_WRITE };
	struct ib_recv_wr receive = { .wr_cqe = &flushed_cqe };
	const struct ib_recv_wr *bad;

	use->pd = ib_alloc_pd(use->device, 0);
	if (IS_ERR(use->pd))
		return PTR_ERR(use->pd);
	use->cq = ib_alloc_cq_any(use->device, use, 16, IB_POLL_WORKQUEUE);
	if (IS_ERR(use->cq))
		return PTR_ERR(use->cq);
	init.send_cq = use->cq;
	init.recv_cq = use->cq;
	use->qp = ib_create_qp(use->pd, &init);
	if (IS_ERR(use->qp))
		return PTR_ERR(use->qp);
	use->mr = ib_alloc_mr(use->pd, IB_MR_TYPE_MEM_REG, 16);
	if (IS_ERR(use->mr))
		return PTR_ERR(use->mr);
	EXPECT(!ib_modify_qp(use->qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT | IB_QP_ACCESS_FLAGS));
	EXPECT(!ib_post_recv(use->qp, &receive, &bad));
	use->gid = rdma_get_gid_attr(use->device, 1, 0);
	return 0;
}

static int add(struct ib_client *client, struct ib_device *device)
{
	struct ib_port_attr port;
	struct use *use;
	int ret;

	EXPECT(!ib_get_client_data(device, client));
	EXPECT(!ib_query_port(device, 1, &port));
	if (get_random_u32_below(8) == 0)
		return -ENODEV;
	use = kzalloc(sizeof(*use), GFP_KERNEL);
	if (!use)
		return -ENOMEM;
	use->device = device;
	ret = make_objects(use);
	EXPECT(!ret);
	if (ret) {
		free_use(use);
		return ret;
	}
	INIT_IB_EVENT_HANDLER(&use->handler, device, on_event);
	ib_register_event_handler(&use->handler);
	ib_set_client_data(device, client, use);
	atomic_inc(&added);
	if (get_random_u32_below(4) == 0)
		msleep(1);
	return 0;
}

static void remove(struct ib_device *device, void *data)
{
	struct ib_event event = { .event = IB_EVENT_CLIENT_REREGISTER, .element.port_num = 1, .device = device };
	struct ib_qp_attr error = { .qp_state = IB_QPS_ERR };
	struct use *use = data;

	EXPECT(use && use->device == device);
	if (!use)
		return;
	ib_dispatch_event(&event);
	ib_unregister_event_handler(&use->handler);
	EXPECT(!ib_modify_qp(use->qp, &error, IB_QP_STATE));
	if (get_random_u32_below(4) == 0)
		msleep(1);
	ib_drain_rq(use->qp);
	free_use(use);
	atomic_inc(&removed);
}

static void rename_device(struct ib_device *device, void *data)
{
	EXPECT(!data || ((struct use *)data)->device == device);
	atomic_inc(&renamed);
}

/* "add" is not told for whom: one function for each client. */
static struct ib_client clients[THREADS];
#define CLIENT_ADD(n)                                    \
	static int add_##n(struct ib_device *device)     \
	{                                                \
		return add(&clients[n], device);         \
	}
CLIENT_ADD(0)
CLIENT_ADD(1)
CLIENT_ADD(2)

static struct ib_client clients[THREADS] = {
	{ .name = "storm0", .add = add_0, .remove = remove, .rename = rename_device },
	{ .name = "storm1", .add = add_1, .remove = remove, .rename = rename_device },
	{ .name = "storm2", .add = add_2, .remove = remove, .rename = rename_device },
};

static int come_and_go(void *data)
{
	struct ib_client *client = data;

	while (!kthread_should_stop()) {
		EXPECT(!ib_register_client(client));
		msleep(get_random_u32_below(20));
		ib_unregister_client(client);
		atomic_inc(&rounds);
		cond_resched();
	}
	return 0;
}

static int __init storm_client_init(void)
{
	int i;

	for (i = 0; i < THREADS; i++) {
		threads[i] = kthread_run(come_and_go, &clients[i], "storm/%d", i);
		if (IS_ERR(threads[i])) {
			while (i--)
				kthread_stop(threads[i]);
			return -ENOMEM;
		}
	}
	return 0;
}

static void __exit storm_client_exit(void)
{
	int i;

	for (i = 0; i < THREADS; i++)
		kthread_stop(threads[i]);
	EXPECT(atomic_read(&added) == atomic_read(&removed));
	pr_info("%d rounds, %d times a device, %d faults\n", atomic_read(&rounds), atomic_read(&added), atomic_read(&faults));
}

module_init(storm_client_init);
module_exit(storm_client_exit);
MODULE_DESCRIPTION("RDMA clients that come and go");
MODULE_LICENSE("GPL");
