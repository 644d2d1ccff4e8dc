// SPDX-License-Identifier: GPL-2.0
/* What is asked of devices and ports, and events. */
#include <linux/hrtimer.h>
#include <linux/irq_work.h>
#include <linux/timer.h>
#include "kverbs.h"

static void gids(struct kv *kv, int table)
{
	int index, valid = 0, wrong = 0;

	for (index = 0; index < table; index++) {
		const struct ib_gid_attr *attr = rdma_get_gid_attr(kv->device, KV_PORT, index);
		const struct ib_gid_attr *found;
		union ib_gid gid;

		if (IS_ERR(attr)) {
			wrong += rdma_query_gid(kv->device, KV_PORT, index, &gid) == 0;
			continue;
		}
		valid++;
		wrong += rdma_query_gid(kv->device, KV_PORT, index, &gid) || memcmp(&gid, &attr->gid, sizeof(gid));
		found = rdma_find_gid(kv->device, &gid, attr->gid_type, NULL);
		wrong += IS_ERR(found) || found->index != attr->index;
		if (!IS_ERR(found))
			rdma_put_gid_attr(found);
		found = rdma_find_gid_by_port(kv->device, &gid, attr->gid_type, KV_PORT, attr->ndev);
		wrong += IS_ERR(found) || found->index != attr->index;
		if (!IS_ERR(found))
			rdma_put_gid_attr(found);
		rdma_put_gid_attr(attr);
	}
	CHECK("there are GIDs", valid > 0);
	CHECK_EQ("each GID is found, by its value too", 0, wrong);
	pr_info("value|gid0 %pI6\n", &kv->gid);
}

void kv_test_queries(struct kv *kv)
{
	struct ib_device *dev = kv->device;
	struct ib_port_attr attr;
	union ib_gid gid = kv->gid;
	u16 pkey = 0, index = 9;
	u32 port;

	CHECK_EQ("ib_query_port", 0, ib_query_port(dev, KV_PORT, &attr));
	CHECK_EQ("the port is active", IB_PORT_ACTIVE, attr.state);
	CHECK_EQ("port 0 is none", -EINVAL, ib_query_port(dev, 0, &attr));
	CHECK_EQ("port 2 is none", -EINVAL, ib_query_port(dev, 2, &attr));
	CHECK_EQ("rdma_port_get_link_layer", IB_LINK_LAYER_ETHERNET, rdma_port_get_link_layer(dev, KV_PORT));
	ib_query_port(dev, KV_PORT, &attr);
	gids(kv, attr.gid_tbl_len);
	CHECK_EQ("ib_find_gid is for InfiniBand", -ENOENT, ib_find_gid(dev, &gid, &port, &index));
	gid.raw[15] ^= 0x55;
	CHECK("a GID that is not there is not found", IS_ERR(rdma_find_gid(dev, &gid, IB_GID_TYPE_ROCE_UDP_ENCAP, NULL)));
	CHECK_EQ("ib_query_pkey", 0, ib_query_pkey(dev, KV_PORT, 0, &pkey));
	CHECK_EQ("the default P_Key", 0xffff, pkey);
	CHECK_EQ("ib_get_cached_pkey", 0, ib_get_cached_pkey(dev, KV_PORT, 0, &pkey));
	CHECK_EQ("the P_Key in the cache", 0xffff, pkey);
	CHECK_EQ("ib_find_pkey", 0, ib_find_pkey(dev, KV_PORT, 0x7fff, &index));
	CHECK_EQ("the index of the P_Key", 0, index);
	CHECK_EQ("a P_Key that is not there", -ENOENT, ib_find_pkey(dev, KV_PORT, 0x1234, &index));
	pr_info("value|node_guid %016llx\n", be64_to_cpu(dev->node_guid));
	pr_info("value|max_qp %d\n", dev->attrs.max_qp);
	pr_info("value|max_qp_wr %d\n", dev->attrs.max_qp_wr);
	pr_info("value|max_cq %d\n", dev->attrs.max_cq);
	pr_info("value|max_cqe %d\n", dev->attrs.max_cqe);
	pr_info("value|max_mr %d\n", dev->attrs.max_mr);
	pr_info("value|max_pd %d\n", dev->attrs.max_pd);
	pr_info("value|max_srq %d\n", dev->attrs.max_srq);
	pr_info("value|max_ah %d\n", dev->attrs.max_ah);
}

/* The table has the default P_Key of a limited member at index 0, and perhaps that of a full one: its index is found, or else the first. */
void kv_test_pkeys(const char *netdev, int wanted)
{
	struct ib_device *dev = kv_device_of(netdev);
	static const u16 pkeys[] = { 0x7fff, 0xffff };
	u16 pkey = 0, index;
	int nth;

	CHECK("the device", dev);
	if (!dev)
		return;
	CHECK_EQ("ib_query_pkey", 0, ib_query_pkey(dev, KV_PORT, 0, &pkey));
	CHECK_EQ("the limited member's P_Key", 0x7fff, pkey);
	for (nth = 0; nth < 2; nth++) {
		index = 99;
		CHECK_EQ("ib_find_pkey", 0, ib_find_pkey(dev, KV_PORT, pkeys[nth], &index));
		CHECK_EQ("the index that it finds", wanted, index);
		index = 99;
		CHECK_EQ("ib_find_cached_pkey", 0, ib_find_cached_pkey(dev, KV_PORT, pkeys[nth], &index));
		CHECK_EQ("the index in the cache", wanted, index);
	}
	ib_device_put(dev);
	pr_info("done\n");
}

struct events {
	struct ib_event_handler handler;
	struct ib_device *device;
	struct irq_work hard;
	struct timer_list soft;
	atomic_t in_process, elsewhere;
};

static void on_event(struct ib_event_handler *handler, struct ib_event *event)
{
	struct events *events = container_of(handler, struct events, handler);

	if (event->event != IB_EVENT_SM_CHANGE)
		return;
	if (in_task() && !irqs_disabled() && !in_atomic())
		atomic_inc(&events->in_process);
	else
		atomic_inc(&events->elsewhere);
}

static void raise(struct events *events)
{
	struct ib_event event = {
		.device = events->device, .event = IB_EVENT_SM_CHANGE, .element = { .port_num = KV_PORT },
	};

	ib_dispatch_event(&event);
}

static void raise_hard(struct irq_work *work)
{
	raise(container_of(work, struct events, hard));
}

static void raise_soft(struct timer_list *timer)
{
	raise(container_of(timer, struct events, soft));
}

void kv_test_events(struct kv *kv)
{
	struct events *events = kzalloc(sizeof(*events), GFP_KERNEL);
	int i;

	if (!events)
		return;
	events->device = kv->device;
	init_irq_work(&events->hard, raise_hard);
	timer_setup(&events->soft, raise_soft, 0);
	INIT_IB_EVENT_HANDLER(&events->handler, kv->device, on_event);
	ib_register_event_handler(&events->handler);
	raise(events);
	irq_work_queue(&events->hard);
	mod_timer(&events->soft, jiffies + 1);
	irq_work_sync(&events->hard);
	for (i = 0; i < 300 && atomic_read(&events->in_process) < 3; i++)
		msleep(10);
	timer_delete_sync(&events->soft);
	CHECK_EQ("events from process, softirq and hard interrupt context are delivered", 3,
		 atomic_read(&events->in_process));
	CHECK_EQ("all in process context", 0, atomic_read(&events->elsewhere));
	ib_unregister_event_handler(&events->handler);
	raise(events);
	msleep(100);
	CHECK_EQ("none after ib_unregister_event_handler", 3, atomic_read(&events->in_process));
	kfree(events);
}
