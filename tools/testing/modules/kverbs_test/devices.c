// SPDX-License-Identifier: GPL-2.0
/* Objects of one device are none of another one's; datagrams from one device to the other. */
#include <linux/delay.h>
#include <linux/netdevice.h>
#include "kverbs.h"

/* What queue pairs are made of, of one device. */
struct parts {
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_srq *srq;
};

static void parts_free(struct parts *parts)
{
	if (!IS_ERR_OR_NULL(parts->srq))
		ib_destroy_srq(parts->srq);
	if (!IS_ERR_OR_NULL(parts->cq))
		ib_destroy_cq(parts->cq);
	if (!IS_ERR_OR_NULL(parts->pd))
		ib_dealloc_pd(parts->pd);
}

static bool parts_make(struct parts *parts, struct ib_device *device)
{
	struct ib_cq_init_attr attr = { .cqe = 8 };
	struct ib_srq_init_attr srq = { .attr = { .max_wr = 4, .max_sge = 1 }, .srq_type = IB_SRQT_BASIC };

	parts->pd = ib_alloc_pd(device, 0);
	parts->cq = ib_create_cq(device, NULL, NULL, NULL, &attr);
	parts->srq = IS_ERR(parts->pd) ? NULL : ib_create_srq(parts->pd, &srq);
	return !IS_ERR(parts->pd) && !IS_ERR(parts->cq) && !IS_ERR_OR_NULL(parts->srq);
}

static struct ib_qp *make(struct ib_pd *pd, struct ib_cq *send, struct ib_cq *recv, struct ib_srq *srq)
{
	struct ib_qp_init_attr init = {
		.send_cq = send, .recv_cq = recv, .srq = srq, .qp_type = IB_QPT_RC, .sq_sig_type = IB_SIGNAL_REQ_WR,
		.cap = { .max_send_wr = 1, .max_recv_wr = srq ? 0 : 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	return ib_create_qp(pd, &init);
}

/* Stock does not look at it. */
static void refused(const char *name, struct ib_qp *qp)
{
	if (qp == ERR_PTR(-EINVAL)) {
		kv_result(true, name, 0);
		return;
	}
	pr_info("known ib_core|%s|got %ld\n", name, IS_ERR(qp) ? PTR_ERR(qp) : 0);
	if (!IS_ERR(qp))
		ib_destroy_qp(qp);
}

static void try_all(struct parts *one, struct parts *other)
{
	struct ib_qp *own = make(one->pd, one->cq, one->cq, one->srq);

	CHECK("a queue pair of things of one device", !IS_ERR(own));
	if (!IS_ERR(own))
		ib_destroy_qp(own);
	refused("the CQ of its sends is another device's", make(one->pd, other->cq, one->cq, NULL));
	refused("the CQ of its receives is another device's", make(one->pd, one->cq, other->cq, NULL));
	refused("its SRQ is another device's", make(one->pd, one->cq, one->cq, other->srq));
	refused("all but its PD is another device's", make(one->pd, other->cq, other->cq, other->srq));
	CHECK_EQ("nothing of this device counts a use", 0, atomic_read(&one->pd->usecnt) + atomic_read(&one->cq->usecnt) - 1);
	CHECK_EQ("nor of the other one", 0, atomic_read(&other->cq->usecnt) + atomic_read(&other->srq->usecnt));
}

struct ib_device *kv_device_of(const char *name)
{
	struct net_device *netdev = dev_get_by_name(&init_net, name);
	struct ib_device *device;

	if (!netdev)
		return NULL;
	device = ib_device_get_by_netdev(netdev, RDMA_DRIVER_UNKNOWN);
	dev_put(netdev);
	return device;
}

/* A queue pair for datagrams with two receives. */
static struct ib_qp *datagrams(struct kv *kv)
{
	struct ib_qp *qp = kv_qp(kv, IB_QPT_UD, NULL);
	int ret;

	if (IS_ERR(qp))
		return NULL;
	ret = kv_to_init(qp) ?: kv_to_rtr(kv, qp, 0) ?: kv_to_rts(qp) ?: kv_post_recv(kv, qp, 1, 1) ?: kv_post_recv(kv, qp, 1, 1);
	CHECK_EQ("a queue pair for datagrams", 0, ret);
	return qp;
}

/* How many datagrams of that queue pair have come; `waits`: until there is one. */
static int received(struct kv *kv, u32 from, bool waits)
{
	int count = 0;
	struct ib_wc wc;

	while (waits && !count ? !kv_wait(kv->cq, &wc) : ib_poll_cq(kv->cq, 1, &wc) == 1)
		count += !wc.status && wc.opcode == IB_WC_RECV && wc.src_qp == from;
	return count;
}

/* Address handles at work: the one for the sender's own device is changed into one for the other device. */
static void change_address(struct kv kv[2], struct ib_qp *from, struct ib_qp *to)
{
	struct rdma_ah_attr attr, got = {};
	struct ib_ah *ah;

	kv_path(&kv[0], &attr);
	ah = rdma_create_ah(kv[0].pd, &attr, RDMA_CREATE_AH_SLEEPABLE);
	CHECK("an address handle for the device itself", !IS_ERR(ah));
	if (IS_ERR(ah))
		return;
	CHECK_EQ("a datagram", 0, kv_post_datagram(&kv[0], from, ah, from->qp_num));
	CHECK_EQ("comes back", 1, received(&kv[0], from->qp_num, true));
	rdma_ah_set_dgid_raw(&attr, &kv[1].gid);
	memcpy(attr.roce.dmac, kv[1].mac, ETH_ALEN);
	CHECK_EQ("rdma_modify_ah: another destination", 0, rdma_modify_ah(ah, &attr));
	CHECK_EQ("rdma_query_ah", 0, rdma_query_ah(ah, &got));
	CHECK("tells the new one", !memcmp(&got.grh.dgid, &kv[1].gid, sizeof(kv[1].gid)));
	rdma_destroy_ah_attr(&got);
	memset(kv[1].memory[1], 0, KV_SIZE);
	CHECK_EQ("the next datagram", 0, kv_post_datagram(&kv[0], from, ah, to->qp_num));
	CHECK_EQ("comes to the other device", 1, received(&kv[1], from->qp_num, true));
	CHECK("with that destination in its header", !memcmp(kv[1].memory[1] + 24, &kv[1].gid, sizeof(kv[1].gid)));
	msleep(100);
	CHECK_EQ("and not to the sender's", 0, received(&kv[0], from->qp_num, false));
	rdma_destroy_ah(ah, RDMA_DESTROY_AH_SLEEPABLE);
}

static void addresses(struct ib_device *devices[2])
{
	struct kv kv[2] = {};
	struct ib_qp *qps[2] = {};
	int nth;

	for (nth = 0; nth < 2; nth++) {
		CHECK_EQ("what datagrams need", 0, kv_open(&kv[nth], devices[nth]));
		qps[nth] = kv[nth].cq ? datagrams(&kv[nth]) : NULL;
	}
	if (qps[0] && qps[1])
		change_address(kv, qps[0], qps[1]);
	for (nth = 0; nth < 2; nth++) {
		if (qps[nth])
			ib_destroy_qp(qps[nth]);
		kv_close(&kv[nth]);
	}
}

void kv_test_two_devices(const char *first, const char *second)
{
	struct ib_device *devices[2] = { kv_device_of(first), kv_device_of(second) };
	struct parts parts[2] = {};
	int nth;

	CHECK("two devices", devices[0] && devices[1]);
	if (devices[0] && devices[1]) {
		CHECK("their parts", parts_make(&parts[0], devices[0]) & parts_make(&parts[1], devices[1]));
		if (!IS_ERR_OR_NULL(parts[0].srq) && !IS_ERR_OR_NULL(parts[1].srq))
			try_all(&parts[0], &parts[1]);
		addresses(devices);
	}
	for (nth = 0; nth < 2; nth++) {
		parts_free(&parts[nth]);
		if (devices[nth])
			ib_device_put(devices[nth]);
	}
	pr_info("done\n");
}
