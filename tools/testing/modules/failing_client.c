// SPDX-License-Identifier: GPL-2.0
/*
 * A client in the kernel that makes one call at a time, in the process that asks for it: so that process may let the call's
 * allocations fail (tools/testing/selftests/clients/faults_client.c). It is C, so that it judges any ib_core and any driver alike.
 *
 *	modprobe failing_client device=rxe0
 *	cat /sys/module/failing_client/parameters/calls			the calls by name, one per line
 *	echo 'call ib_create_srq' > /sys/module/failing_client/parameters/run	fails as the call does
 *
 * "before NAME" makes what a call needs, "undo NAME" removes what a call has made that succeeded, and "after NAME" what
 * "before" has made.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/module.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>
#include <rdma/rw.h>

MODULE_DESCRIPTION("a client whose calls fail");
MODULE_LICENSE("GPL");

#define PORT 1
#define PAGES 4
#define QKEY 0x11111111

static char *device = "rxe0";
module_param(device, charp, 0444);
MODULE_PARM_DESC(device, "The device to use");

struct call {
	const char *name;
	int (*before)(void);
	int (*call)(void);
	void (*undo)(void);
	void (*after)(void);
};

/* What is there all the time. */
static struct ib_device *dev;
static struct ib_pd *pd;
static struct ib_cq *cq;
static struct page *pages[PAGES];
static struct scatterlist list[PAGES];
static union ib_gid gid;
static u8 mac[ETH_ALEN];

/* What calls make. */
static struct ib_pd *new_pd;
static struct ib_cq *new_cq;
static struct ib_mr *mr;
static struct ib_qp *qp;
static struct ib_srq *srq;
static struct ib_ah *ah;
static struct rdma_rw_ctx rw;

#define MADE(place, expression) \
	({ \
		typeof(place) made = (expression); \
		if (!IS_ERR(made)) \
			place = made; \
		PTR_ERR_OR_ZERO(made); \
	})

/* Protection domains, completion queues, memory regions
 * ------------------------------------------------------------------------------------------------------------------ */

static int alloc_pd(void) { return MADE(new_pd, ib_alloc_pd(dev, 0)); }
static int alloc_pd_rkey(void) { return MADE(new_pd, ib_alloc_pd(dev, IB_PD_UNSAFE_GLOBAL_RKEY)); }
static void pd_gone(void) { ib_dealloc_pd(new_pd); }
static int dealloc_pd(void) { ib_dealloc_pd(new_pd); return 0; }

static int alloc_cq_of(enum ib_poll_context context) { return MADE(new_cq, ib_alloc_cq(dev, NULL, 100, 0, context)); }
static int alloc_cq_direct(void) { return alloc_cq_of(IB_POLL_DIRECT); }
static int alloc_cq_softirq(void) { return alloc_cq_of(IB_POLL_SOFTIRQ); }
static int alloc_cq_work(void) { return alloc_cq_of(IB_POLL_WORKQUEUE); }
static int alloc_cq_unbound(void) { return alloc_cq_of(IB_POLL_UNBOUND_WORKQUEUE); }
static void cq_freed(void) { ib_free_cq(new_cq); }
static int free_cq(void) { ib_free_cq(new_cq); return 0; }
static void announced(struct ib_cq *of, void *context) { }
static int create_cq(void)
{
	struct ib_cq_init_attr attr = { .cqe = 100 };

	return MADE(new_cq, ib_create_cq(dev, announced, NULL, NULL, &attr));
}
static void cq_destroyed(void) { ib_destroy_cq(new_cq); }
static int destroy_cq(void) { ib_destroy_cq(new_cq); return 0; }

static int alloc_mr(void) { return MADE(mr, ib_alloc_mr(pd, IB_MR_TYPE_MEM_REG, 64)); }
static void mr_gone(void) { ib_dereg_mr(mr); }
static int dereg_mr(void) { return ib_dereg_mr(mr); }
static int map_mr(void)
{
	int mapped = ib_map_mr_sg(mr, list, PAGES, NULL, PAGE_SIZE);

	return mapped < 0 ? mapped : mapped == PAGES ? 0 : -EIO;
}

/* Receive queues, queue pairs
 * ------------------------------------------------------------------------------------------------------------------ */

static int create_srq(void)
{
	struct ib_srq_init_attr attr = { .attr = { .max_wr = 100, .max_sge = 4 } };

	return MADE(srq, ib_create_srq(pd, &attr));
}
static void srq_gone(void) { ib_destroy_srq(srq); }
static int destroy_srq(void) { ib_destroy_srq(srq); return 0; }
static int resize_srq(void)
{
	struct ib_srq_attr attr = { .max_wr = 1000 };

	return ib_modify_srq(srq, &attr, IB_SRQ_MAX_WR);
}
static int query_srq(void) { struct ib_srq_attr attr; return ib_query_srq(srq, &attr); }

static int create_qp(enum ib_qp_type type, struct ib_srq *of, u32 contexts)
{
	struct ib_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.srq = of,
		.cap = { .max_send_wr = 64, .max_recv_wr = of ? 0 : 64, .max_send_sge = 4, .max_recv_sge = 4,
			 .max_rdma_ctxs = contexts },
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = type,
		.port_num = PORT,
	};

	return MADE(qp, ib_create_qp(pd, &init));
}
static int rc_reset(void) { return create_qp(IB_QPT_RC, NULL, 0); }
static int rc_of_srq(void) { return create_qp(IB_QPT_RC, srq, 0); }
static int rc_of_rw(void) { return create_qp(IB_QPT_RC, NULL, 16); }
static int uc_reset(void) { return create_qp(IB_QPT_UC, NULL, 0); }
static int ud_reset(void) { return create_qp(IB_QPT_UD, NULL, 0); }
static void qp_gone(void) { ib_destroy_qp(qp); }
static int destroy_qp(void) { return ib_destroy_qp(qp); }
static int query_qp(void)
{
	struct ib_qp_attr attr;
	struct ib_qp_init_attr init;

	return ib_query_qp(qp, &attr, IB_QP_STATE, &init);
}

static int to_init(void)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_INIT, .port_num = PORT, .qkey = QKEY };
	int mask = IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT;

	return ib_modify_qp(qp, &attr, mask | (qp->qp_type == IB_QPT_UD ? IB_QP_QKEY : IB_QP_ACCESS_FLAGS));
}
static void path(struct rdma_ah_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->type = rdma_ah_find_type(dev, PORT);
	rdma_ah_set_port_num(attr, PORT);
	rdma_ah_set_grh(attr, &gid, 0, 0, 1, 0);
	memcpy(attr->roce.dmac, mac, ETH_ALEN);
}
/* To itself. */
static int to_rtr(void)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_RTR, .path_mtu = IB_MTU_1024, .dest_qp_num = qp->qp_num, .rq_psn = 1,
		.max_dest_rd_atomic = 1, .min_rnr_timer = IB_RNR_TIMER_000_01,
	};

	if (qp->qp_type == IB_QPT_UD)
		return ib_modify_qp(qp, &attr, IB_QP_STATE);
	path(&attr.ah_attr);
	return ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN |
				       IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER);
}
static int to_rts(void)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_RTS, .sq_psn = 1, .max_rd_atomic = 1, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
	};

	if (qp->qp_type == IB_QPT_UD)
		return ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_SQ_PSN);
	return ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_SQ_PSN | IB_QP_MAX_QP_RD_ATOMIC | IB_QP_TIMEOUT |
				       IB_QP_RETRY_CNT | IB_QP_RNR_RETRY);
}
static int to(enum ib_qp_state state)
{
	struct ib_qp_attr attr = { .qp_state = state };

	return ib_modify_qp(qp, &attr, IB_QP_STATE);
}
static int to_error(void) { return to(IB_QPS_ERR); }
static int to_reset(void) { return to(IB_QPS_RESET); }

/* In this state, or gone. */
static int reach(int (*create)(void), int (*const *steps)(void))
{
	int error = create();

	if (error)
		return error;
	while (!error && *steps)
		error = (*steps++)();
	if (error)
		qp_gone();
	return error;
}
#define STATES(type) \
	static int type##_init(void) { return reach(type##_reset, (int (*const[])(void)){ to_init, NULL }); } \
	static int type##_rtr(void) { return reach(type##_reset, (int (*const[])(void)){ to_init, to_rtr, NULL }); } \
	static int type##_rts(void) { return reach(type##_reset, (int (*const[])(void)){ to_init, to_rtr, to_rts, NULL }); }
STATES(rc)
STATES(ud)

/* Addresses, groups, requests
 * ------------------------------------------------------------------------------------------------------------------ */

static int create_ah_of(u32 flags)
{
	struct rdma_ah_attr attr;

	path(&attr);
	return MADE(ah, rdma_create_ah(pd, &attr, flags));
}
static int create_ah(void) { return create_ah_of(RDMA_CREATE_AH_SLEEPABLE); }
static int create_ah_atomic(void) { return create_ah_of(0); }
static void ah_gone(void) { rdma_destroy_ah(ah, RDMA_DESTROY_AH_SLEEPABLE); }
static int destroy_ah(void) { ah_gone(); return 0; }

static union ib_gid group = { .raw = { 0xff, 0x0e, [10] = 0xff, 0xff, 239, 1, 2, 3 } };
static int attach(void) { return ib_attach_mcast(qp, &group, 0); }
static int detach(void) { return ib_detach_mcast(qp, &group, 0); }
static void detached(void) { detach(); }
static int ud_attached(void)
{
	int error = ud_rts();

	if (error)
		return error;
	error = attach();
	if (error)
		qp_gone();
	return error;
}

static int rw_init(void)
{
	int requests = rdma_rw_ctx_init(&rw, qp, PORT, list, PAGES, 0, 0x1000, 1, DMA_TO_DEVICE);

	return requests < 0 ? requests : 0;
}
static void rw_gone(void) { rdma_rw_ctx_destroy(&rw, qp, PORT, list, PAGES, DMA_TO_DEVICE); }

static int wait_for(u64 id)
{
	struct ib_wc wc;
	int i;

	for (i = 0; i < 5000; i++) {
		if (ib_poll_cq(cq, 1, &wc) == 1) {
			if (wc.status != IB_WC_SUCCESS)
				return -EIO;
			if (wc.wr_id == id)
				return 0;
			continue;
		}
		usleep_range(500, 1000);
	}
	return -ETIMEDOUT;
}
/* A message to itself. */
static int send_message(void)
{
	u64 address = ib_dma_map_page(dev, pages[0], 0, PAGE_SIZE, DMA_BIDIRECTIONAL);
	struct ib_sge sge = { .addr = address, .length = PAGE_SIZE / 2, .lkey = pd->local_dma_lkey };
	struct ib_recv_wr recv = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 };
	struct ib_send_wr send = {
		.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IB_WR_SEND, .send_flags = IB_SEND_SIGNALED,
	};
	int error = ib_post_recv(qp, &recv, NULL);

	if (!error)
		error = ib_post_send(qp, &send, NULL);
	if (!error)
		error = wait_for(2);
	ib_dma_unmap_page(dev, address, PAGE_SIZE, DMA_BIDIRECTIONAL);
	return error;
}

/* Clients, queries
 * ------------------------------------------------------------------------------------------------------------------ */

static int other_add(struct ib_device *to);
static void other_remove(struct ib_device *from, void *data) { kfree(data); }
static struct ib_client other = { .name = "failing_other", .add = other_add, .remove = other_remove };
static int other_add(struct ib_device *to)
{
	void *data = kmalloc(100, GFP_KERNEL);

	if (!data)
		return -ENOMEM;
	ib_set_client_data(to, &other, data);
	return 0;
}
/* A client that has not got a device is one nevertheless, so this says what it has got. */
static int register_client(void)
{
	int error = ib_register_client(&other);

	if (error || ib_get_client_data(dev, &other))
		return error;
	ib_unregister_client(&other);
	return -ENODEV;
}
static void unregistered(void) { ib_unregister_client(&other); }
static int unregister_client(void) { unregistered(); return 0; }

static int query_port(void) { struct ib_port_attr attr; return ib_query_port(dev, PORT, &attr); }
static int query_pkey(void) { u16 pkey; return ib_query_pkey(dev, PORT, 0, &pkey); }
static int query_gid(void) { union ib_gid found; return rdma_query_gid(dev, PORT, 0, &found); }
static int find_gid(void)
{
	const struct ib_gid_attr *attr = rdma_find_gid(dev, &gid, IB_GID_TYPE_ROCE_UDP_ENCAP, NULL);

	if (!IS_ERR(attr))
		rdma_put_gid_attr(attr);
	return PTR_ERR_OR_ZERO(attr);
}

/* Name, what it needs, the call, what undoes it, what removes what it needs. */
static const struct call calls[] = {
	{ "ib_alloc_pd", NULL, alloc_pd, pd_gone },
	{ "ib_alloc_pd, global rkey", NULL, alloc_pd_rkey, pd_gone },
	{ "ib_dealloc_pd", alloc_pd_rkey, dealloc_pd },
	{ "ib_create_cq", NULL, create_cq, cq_destroyed },
	{ "ib_destroy_cq", create_cq, destroy_cq },
	{ "ib_alloc_cq, direct", NULL, alloc_cq_direct, cq_freed },
	{ "ib_alloc_cq, softirq", NULL, alloc_cq_softirq, cq_freed },
	{ "ib_alloc_cq, workqueue", NULL, alloc_cq_work, cq_freed },
	{ "ib_alloc_cq, unbound", NULL, alloc_cq_unbound, cq_freed },
	{ "ib_free_cq", alloc_cq_work, free_cq },
	{ "ib_alloc_mr", NULL, alloc_mr, mr_gone },
	{ "ib_map_mr_sg", alloc_mr, map_mr, NULL, mr_gone },
	{ "ib_dereg_mr", alloc_mr, dereg_mr },
	{ "ib_create_srq", NULL, create_srq, srq_gone },
	{ "ib_modify_srq, size", create_srq, resize_srq, NULL, srq_gone },
	{ "ib_query_srq", create_srq, query_srq, NULL, srq_gone },
	{ "ib_destroy_srq", create_srq, destroy_srq },
	{ "ib_create_qp, RC", NULL, rc_reset, qp_gone },
	{ "ib_create_qp, RC with an SRQ", create_srq, rc_of_srq, qp_gone, srq_gone },
	{ "ib_create_qp, RC with contexts", NULL, rc_of_rw, qp_gone },
	{ "ib_create_qp, UC", NULL, uc_reset, qp_gone },
	{ "ib_create_qp, UD", NULL, ud_reset, qp_gone },
	{ "ib_destroy_qp", rc_reset, destroy_qp },
	{ "ib_destroy_qp in RTS", rc_rts, destroy_qp },
	{ "ib_query_qp", rc_rts, query_qp, NULL, qp_gone },
	{ "ib_modify_qp, RC to INIT", rc_reset, to_init, NULL, qp_gone },
	{ "ib_modify_qp, RC to RTR", rc_init, to_rtr, NULL, qp_gone },
	{ "ib_modify_qp, RC to RTS", rc_rtr, to_rts, NULL, qp_gone },
	{ "ib_modify_qp, RC to ERR", rc_rts, to_error, NULL, qp_gone },
	{ "ib_modify_qp, RC to RESET", rc_rts, to_reset, NULL, qp_gone },
	{ "ib_modify_qp, UD to INIT", ud_reset, to_init, NULL, qp_gone },
	{ "ib_modify_qp, UD to RTR", ud_init, to_rtr, NULL, qp_gone },
	{ "ib_modify_qp, UD to RTS", ud_rtr, to_rts, NULL, qp_gone },
	{ "rdma_create_ah", NULL, create_ah, ah_gone },
	{ "rdma_create_ah, atomic", NULL, create_ah_atomic, ah_gone },
	{ "rdma_destroy_ah", create_ah, destroy_ah },
	{ "ib_attach_mcast", ud_rts, attach, detached, qp_gone },
	{ "ib_detach_mcast", ud_attached, detach, NULL, qp_gone },
	{ "rdma_rw_ctx_init", rc_of_rw, rw_init, rw_gone, qp_gone },
	{ "a SEND", rc_rts, send_message, NULL, qp_gone },
	{ "ib_register_client", NULL, register_client, unregistered },
	{ "ib_unregister_client", register_client, unregister_client },
	{ "ib_query_port", NULL, query_port },
	{ "ib_query_pkey", NULL, query_pkey },
	{ "rdma_query_gid", NULL, query_gid },
	{ "rdma_find_gid", NULL, find_gid },
};

static int run(const char *text, const struct kernel_param *param)
{
	const char *name = strchr(text, ' ');
	int i;

	for (i = 0; name && i < ARRAY_SIZE(calls); i++) {
		const struct call *call = &calls[i];

		if (!sysfs_streq(name + 1, call->name))
			continue;
		if (str_has_prefix(text, "before "))
			return call->before ? call->before() : 0;
		if (str_has_prefix(text, "call "))
			return call->call();
		if (str_has_prefix(text, "undo ") && call->undo)
			call->undo();
		if (str_has_prefix(text, "after ") && call->after)
			call->after();
		return 0;
	}
	return -ENOENT;
}
static const struct kernel_param_ops run_ops = { .set = run };
module_param_cb(run, &run_ops, NULL, 0200);
MODULE_PARM_DESC(run, "Makes a call, or what goes with it");

static int show_calls(char *text, const struct kernel_param *param)
{
	int i, length = 0;

	for (i = 0; i < ARRAY_SIZE(calls); i++)
		length += sysfs_emit_at(text, length, "%s\n", calls[i].name);
	return length;
}
static const struct kernel_param_ops calls_ops = { .get = show_calls };
module_param_cb(calls, &calls_ops, NULL, 0444);
MODULE_PARM_DESC(calls, "The calls there are");

static int find(struct ib_device *candidate)
{
	if (!strcmp(dev_name(&candidate->dev), device) && ib_device_try_get(candidate))
		dev = candidate;
	return 0;
}

static void close_device(void)
{
	int i;

	for (i = 0; i < PAGES; i++)
		if (pages[i])
			__free_page(pages[i]);
	if (!IS_ERR_OR_NULL(cq))
		ib_free_cq(cq);
	if (!IS_ERR_OR_NULL(pd))
		ib_dealloc_pd(pd);
	ib_device_put(dev);
}

static int open_device(void)
{
	const struct ib_gid_attr *attr = rdma_get_gid_attr(dev, PORT, 0);
	int i, error;

	if (IS_ERR(attr))
		return PTR_ERR(attr);
	gid = attr->gid;
	error = rdma_read_gid_l2_fields(attr, NULL, mac);
	rdma_put_gid_attr(attr);
	if (error)
		return error;
	pd = ib_alloc_pd(dev, 0);
	if (IS_ERR(pd))
		return PTR_ERR(pd);
	cq = ib_alloc_cq(dev, NULL, 256, 0, IB_POLL_DIRECT);
	if (IS_ERR(cq))
		return PTR_ERR(cq);
	sg_init_table(list, PAGES);
	for (i = 0; i < PAGES; i++) {
		pages[i] = alloc_page(GFP_KERNEL | __GFP_ZERO);
		if (!pages[i])
			return -ENOMEM;
		sg_set_page(&list[i], pages[i], PAGE_SIZE, 0);
	}
	if (ib_dma_map_sg(dev, list, PAGES, DMA_BIDIRECTIONAL) != PAGES)
		return -EIO;
	return 0;
}

static int __init failing_client_init(void)
{
	struct ib_client finder = { .name = "failing_client", .add = find };
	int error = ib_register_client(&finder);

	if (error)
		return error;
	ib_unregister_client(&finder);
	if (!dev)
		return -ENODEV;
	error = open_device();
	if (error)
		close_device();
	return error;
}

static void __exit failing_client_exit(void)
{
	ib_dma_unmap_sg(dev, list, PAGES, DMA_BIDIRECTIONAL);
	close_device();
}

module_init(failing_client_init);
module_exit(failing_client_exit);
