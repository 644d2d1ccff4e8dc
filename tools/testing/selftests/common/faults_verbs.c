// SPDX-License-Identifier: GPL-2.0
/*
 * Verbs of libibverbs in which each allocation of the kernel fails in turn (faults.h).
 *
 *	faults_verbs DEVICE GID_INDEX GID_INDEX_6
 */
#include "faults.h"
#include "verbs.h"
#include "uverbs_raw.h"
#include <sys/mman.h>
#include <sys/wait.h>

#define LARGE (4 << 20)
#define MADE(pointer) ((pointer) ? 0 : errno ?: EIO)

static struct setup rc = { .type = IBV_QPT_RC }, uc = { .type = IBV_QPT_UC }, ud = { .type = IBV_QPT_UD };
static int gid_index_4, gid_index_6;
static union ibv_gid gid_4, gid_6;
static char *large;
static struct ibv_context *opened;
static struct ibv_pd *other_pd;
static struct ibv_mr *mr;
static struct ibv_mw *mw;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_srq *srq;
static struct ibv_qp *qp;
static struct ibv_ah *ah;
static struct ibv_xrcd *xrcd;
static struct ibv_flow *flow;
static struct end self;	/* its QP is connected to itself */

/* The device, PDs, memory
 * ------------------------------------------------------------------------------------------------------------------ */

static int open_(void) { return MADE(opened = ibv_open_device(context->device)); }
static void close_(void) { ibv_close_device(opened); }
static int alloc_pd(void) { return MADE(other_pd = ibv_alloc_pd(context)); }
static int dealloc_pd(void) { return ibv_dealloc_pd(other_pd); }
static void pd_gone(void) { dealloc_pd(); }

static int reg_mr(void) { return MADE(mr = ibv_reg_mr(pd, large, 4 * 4096, ACCESS_ALL)); }
static int reg_large(void) { return MADE(mr = ibv_reg_mr(pd, large, LARGE, ACCESS_ALL)); }
static int reg_bindable(void) { return MADE(mr = ibv_reg_mr(pd, large, 4096, ACCESS_ALL | IBV_ACCESS_MW_BIND)); }
static int dereg_mr(void) { return ibv_dereg_mr(mr); }
static void mr_gone(void) { dereg_mr(); }
/* By hand: rdma-core's provider has no rereg_mr. */
static int rereg(int what, const struct ibv_pd *to)
{
	struct ib_uverbs_rereg_mr request = {
		.mr_handle = mr->handle, .flags = what, .start = (uintptr_t)large + 8192, .length = 1 << 20,
		.hca_va = (uintptr_t)large + 8192, .pd_handle = to->handle, .access_flags = IBV_ACCESS_LOCAL_WRITE,
	};
	struct ib_uverbs_rereg_mr_resp response;

	return raw_write(context->cmd_fd, IB_USER_VERBS_CMD_REREG_MR, &request, sizeof(request), &response, sizeof(response));
}
static int rereg_access(void) { return rereg(IBV_REREG_MR_CHANGE_ACCESS, pd); }
static int rereg_place(void) { return rereg(IBV_REREG_MR_CHANGE_TRANSLATION, pd); }
static int rereg_pd(void)
{
	int error = alloc_pd();

	if (error)
		return error;
	error = rereg(IBV_REREG_MR_CHANGE_PD, other_pd);
	if (error)
		pd_gone();
	return error;
}
static void rereg_pd_undo(void) { mr_gone(); pd_gone(); mr = NULL; }
static void mr_gone_if_there(void) { if (mr) mr_gone(); }

static int alloc_mw_1(void) { return MADE(mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1)); }
static int alloc_mw_2(void) { return MADE(mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2)); }
static int dealloc_mw(void) { return ibv_dealloc_mw(mw); }
static void mw_gone(void) { dealloc_mw(); }

/* Queues
 * ------------------------------------------------------------------------------------------------------------------ */

static int create_channel(void) { return MADE(channel = ibv_create_comp_channel(context)); }
static int destroy_channel(void) { return ibv_destroy_comp_channel(channel); }
static void channel_gone(void) { destroy_channel(); }
static int create_cq(void) { return MADE(cq = ibv_create_cq(context, 100, NULL, NULL, 0)); }
static int create_cq_of_channel(void) { return MADE(cq = ibv_create_cq(context, 5000, NULL, channel, 0)); }
static int create_cq_ex(void)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 10, .channel = channel };

	return MADE(cq = (void *)ibv_create_cq_ex(context, &attr));
}
static int destroy_cq(void) { return ibv_destroy_cq(cq); }
static void cq_gone(void) { destroy_cq(); }
static int resize_up(void) { return ibv_resize_cq(cq, 4000) ? errno ?: EIO : 0; }
static int notify(void) { return ibv_req_notify_cq(cq, 0); }

static int create_srq(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 100, .max_sge = 4 } };

	return MADE(srq = ibv_create_srq(pd, &attr));
}
static int destroy_srq(void) { return ibv_destroy_srq(srq); }
static void srq_gone(void) { destroy_srq(); }
static int limit_srq(void) { return ibv_modify_srq(srq, &(struct ibv_srq_attr){ .srq_limit = 5 }, IBV_SRQ_LIMIT); }
static int resize_srq(void) { return ibv_modify_srq(srq, &(struct ibv_srq_attr){ .max_wr = 1000 }, IBV_SRQ_MAX_WR); }
static int query_srq(void) { struct ibv_srq_attr attr; return ibv_query_srq(srq, &attr); }

static int create_qp_of(enum ibv_qp_type type, struct ibv_srq *of)
{
	struct ibv_qp_init_attr attr = { .qp_type = type, .send_cq = self.cq, .recv_cq = self.cq, .srq = of, .cap = { 64, 64, 8, 8, 64 } };

	return MADE(qp = ibv_create_qp(pd, &attr));
}
static int create_rc(void) { return create_qp_of(IBV_QPT_RC, NULL); }
static int create_uc(void) { return create_qp_of(IBV_QPT_UC, NULL); }
static int create_ud(void) { return create_qp_of(IBV_QPT_UD, NULL); }
static int create_xrc(void) { return create_qp_of(IBV_QPT_XRC_SEND, NULL); }
static int create_rc_of_srq(void) { return create_qp_of(IBV_QPT_RC, srq); }
static int create_qp_ex(void)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC, .send_cq = self.cq, .recv_cq = self.cq, .cap = { 16, 16, 2, 2, 0 }, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .send_ops_flags = IBV_QP_EX_WITH_SEND,
	};

	return MADE(qp = ibv_create_qp_ex(context, &attr));
}
static int destroy_qp(void) { return ibv_destroy_qp(qp); }
static void qp_gone(void) { destroy_qp(); }
static int query_qp(void)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	return ibv_query_qp(qp, &attr, (IBV_QP_DEST_QPN << 1) - 1, &init);
}

/* States of a QP: before the call it is in the state below, afterwards it is destroyed. */
static int at(int (*create)(void), struct setup *setup, int state)
{
	int error = create();

	if (error || state < IBV_QPS_INIT)
		return error;
	return climb(qp, state, setup, qp->qp_num);
}
static int go(struct setup *setup, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr;
	int mask = step(state, setup, qp->qp_num, &attr);

	return ibv_modify_qp(qp, &attr, mask);
}
#define STATES(type) \
	static int type##_init(void) { return at(create_##type, &type, IBV_QPS_INIT); } \
	static int type##_rtr(void) { return at(create_##type, &type, IBV_QPS_RTR); } \
	static int type##_rts(void) { return at(create_##type, &type, IBV_QPS_RTS); } \
	static int type##_to_init(void) { return go(&type, IBV_QPS_INIT); } \
	static int type##_to_rtr(void) { return go(&type, IBV_QPS_RTR); } \
	static int type##_to_rts(void) { return go(&type, IBV_QPS_RTS); }
STATES(rc)
STATES(uc)
STATES(ud)
static int rc_to_rtr_6(void)
{
	int error;

	gid_index = gid_index_6;
	gid = gid_6;
	error = rc_to_rtr();
	gid_index = gid_index_4;
	gid = gid_4;
	return error;
}
static int to_sqd(void) { return move(qp, IBV_QPS_SQD); }
static int to_err(void) { return move(qp, IBV_QPS_ERR); }
static int to_reset(void) { return move(qp, IBV_QPS_RESET); }
static int new_address(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .ah_attr = address() };

	return ibv_modify_qp(qp, &attr, IBV_QP_AV);
}
static int rc_sqd(void) { return rc_rts() ?: to_sqd(); }

/* Addresses, groups, what rxe does not have
 * ------------------------------------------------------------------------------------------------------------------ */

static int create_ah_of(union ibv_gid to, int index)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = to, .sgid_index = index, .hop_limit = 1 } };

	return MADE(ah = ibv_create_ah(pd, &attr));
}
static int create_ah(void) { return create_ah_of(gid_4, gid_index_4); }
static int create_ah_6(void) { return create_ah_of(gid_6, gid_index_6); }
static int destroy_ah(void) { return ibv_destroy_ah(ah); }
static void ah_gone(void) { destroy_ah(); }

static const union ibv_gid group = { .raw = { 0xff, 0x0e, [10] = 0xff, 0xff, 239, 1, 2, 3 } };
static int attach(void) { return ibv_attach_mcast(qp, &group, 0); }
static int detach(void) { return ibv_detach_mcast(qp, &group, 0); }
static void detached(void) { detach(); }
static int ud_attached(void) { return ud_rts() ?: attach(); }

static int open_xrcd(void)
{
	struct ibv_xrcd_init_attr attr = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT };

	return MADE(xrcd = ibv_open_xrcd(context, &attr));
}
static void xrcd_gone(void) { ibv_close_xrcd(xrcd); }
static int create_flow(void)
{
	struct ibv_flow_attr attr = { .type = IBV_FLOW_ATTR_NORMAL, .size = sizeof(attr), .port = 1 };

	return MADE(flow = ibv_create_flow(qp, &attr));
}
static void flow_gone(void) { ibv_destroy_flow(flow); }

/* Queries
 * ------------------------------------------------------------------------------------------------------------------ */

static int query_device(void) { struct ibv_device_attr_ex attr; return ibv_query_device_ex(context, NULL, &attr); }
static int query_port(void) { struct ibv_port_attr attr; return ibv_query_port(context, 1, &attr); }
static int query_pkey(void) { uint16_t pkey; return ibv_query_pkey(context, 1, 0, &pkey) ? errno ?: EIO : 0; }
static int query_gid(void) { struct ibv_gid_entry entry; return ibv_query_gid_ex(context, 1, gid_index, &entry, 0); }
static int query_gids(void)
{
	struct ibv_gid_entry entries[32];
	ssize_t count = ibv_query_gid_table(context, entries, 32, 0);

	return count < 0 ? -count : 0;
}

/* Work requests: a message to itself arrives whatever has failed, for reliable transport means that.
 * ------------------------------------------------------------------------------------------------------------------ */

static int wait_both(int wanted)
{
	while (wanted--) {
		struct ibv_wc wc = wait_wc(&self, 10000);

		if (wc.status != IBV_WC_SUCCESS) {
			printf("a completion has status %d\n", (int)wc.status);
			return EIO;
		}
	}
	return 0;
}
static int send_message(enum ibv_wr_opcode opcode, uint32_t length, int receives)
{
	struct ibv_sge sge = { .length = length };
	struct ibv_send_wr wr = request(&self, &self, opcode, &sge);
	int error = receives ? post_receive(&self, 1, 128 * 1024, length) : 0;

	wr.wr.rdma.remote_addr += opcode == IBV_WR_SEND ? 0 : 64 * 1024;
	return error ?: post(&self, &wr) ?: wait_both(1 + receives);
}
static int send_(void) { return send_message(IBV_WR_SEND, 10000, 1); }
static int write_(void) { return send_message(IBV_WR_RDMA_WRITE, 10000, 0); }
static int read_(void) { return send_message(IBV_WR_RDMA_READ, 10000, 0); }
static int bind_(void)
{
	struct ibv_mw_bind bind = { .send_flags = IBV_SEND_SIGNALED, .bind_info = { mr, (uintptr_t)large, 4096, IBV_ACCESS_REMOTE_READ } };

	return ibv_bind_mw(self.qp, mw, &bind) ?: wait_both(1);
}
static int window(void) { return reg_bindable() ?: alloc_mw_1(); }
static void window_gone(void) { mw_gone(); mr_gone(); }
static int fork_(void)
{
	int status;
	pid_t child = fork();

	if (child < 0)
		return errno;
	if (!child)
		_exit(0);
	return waitpid(child, &status, 0) == child && !status ? 0 : EIO;
}

/* Name, what it needs, the call, what undoes it, what removes what it needs. */
static const struct call calls[] = {
	{ "open device", NULL, open_, close_ },
	{ "alloc_pd", NULL, alloc_pd, pd_gone },
	{ "dealloc_pd", alloc_pd, dealloc_pd },
	{ "reg_mr", NULL, reg_mr, mr_gone },
	{ "reg_mr of 4 MiB", NULL, reg_large, mr_gone },
	{ "dereg_mr", reg_large, dereg_mr },
	{ "rereg_mr, access", reg_mr, rereg_access, NULL, mr_gone },
	{ "rereg_mr, place", reg_mr, rereg_place, NULL, mr_gone },
	{ "rereg_mr, PD", reg_mr, rereg_pd, rereg_pd_undo, mr_gone_if_there },
	{ "alloc_mw of type 1", NULL, alloc_mw_1, mw_gone },
	{ "alloc_mw of type 2", NULL, alloc_mw_2, mw_gone },
	{ "dealloc_mw", alloc_mw_1, dealloc_mw },
	{ "create_comp_channel", NULL, create_channel, channel_gone },
	{ "destroy_comp_channel", create_channel, destroy_channel },
	{ "create_cq", NULL, create_cq, cq_gone },
	{ "create_cq with a channel", create_channel, create_cq_of_channel, cq_gone, channel_gone },
	{ "create_cq_ex", create_channel, create_cq_ex, cq_gone, channel_gone },
	{ "resize_cq", create_cq, resize_up, NULL, cq_gone },
	{ "req_notify_cq", create_cq, notify, NULL, cq_gone },
	{ "destroy_cq", create_cq, destroy_cq },
	{ "create_srq", NULL, create_srq, srq_gone },
	{ "modify_srq, limit", create_srq, limit_srq, NULL, srq_gone },
	{ "modify_srq, size", create_srq, resize_srq, NULL, srq_gone },
	{ "query_srq", create_srq, query_srq, NULL, srq_gone },
	{ "destroy_srq", create_srq, destroy_srq },
	{ "create_qp, RC", NULL, create_rc, qp_gone },
	{ "create_qp, UC", NULL, create_uc, qp_gone },
	{ "create_qp, UD", NULL, create_ud, qp_gone },
	{ "create_qp, XRC", NULL, create_xrc, qp_gone },
	{ "create_qp, RC with an SRQ", create_srq, create_rc_of_srq, qp_gone, srq_gone },
	{ "create_qp_ex", NULL, create_qp_ex, qp_gone },
	{ "destroy_qp", create_rc, destroy_qp },
	{ "destroy_qp in RTS", rc_rts, destroy_qp },
	{ "query_qp", rc_rts, query_qp, NULL, qp_gone },
	{ "modify_qp, RC to INIT", create_rc, rc_to_init, NULL, qp_gone },
	{ "modify_qp, RC to RTR", rc_init, rc_to_rtr, NULL, qp_gone },
	{ "modify_qp, RC to RTR over IPv6", rc_init, rc_to_rtr_6, NULL, qp_gone },
	{ "modify_qp, RC to RTS", rc_rtr, rc_to_rts, NULL, qp_gone },
	{ "modify_qp, RC to SQD", rc_rts, to_sqd, NULL, qp_gone },
	{ "modify_qp, RC in SQD, address", rc_sqd, new_address, NULL, qp_gone },
	{ "modify_qp, RC to ERR", rc_rts, to_err, NULL, qp_gone },
	{ "modify_qp, RC to RESET", rc_rts, to_reset, NULL, qp_gone },
	{ "modify_qp, UC to INIT", create_uc, uc_to_init, NULL, qp_gone },
	{ "modify_qp, UC to RTR", uc_init, uc_to_rtr, NULL, qp_gone },
	{ "modify_qp, UC to RTS", uc_rtr, uc_to_rts, NULL, qp_gone },
	{ "modify_qp, UC to ERR", uc_rts, to_err, NULL, qp_gone },
	{ "modify_qp, UD to INIT", create_ud, ud_to_init, NULL, qp_gone },
	{ "modify_qp, UD to RTR", ud_init, ud_to_rtr, NULL, qp_gone },
	{ "modify_qp, UD to RTS", ud_rtr, ud_to_rts, NULL, qp_gone },
	{ "modify_qp, UD to RESET", ud_rts, to_reset, NULL, qp_gone },
	{ "create_ah", NULL, create_ah, ah_gone },
	{ "create_ah over IPv6", NULL, create_ah_6, ah_gone },
	{ "destroy_ah", create_ah, destroy_ah },
	{ "attach_mcast", ud_rts, attach, detached, qp_gone },
	{ "detach_mcast", ud_attached, detach, NULL, qp_gone },
	{ "open_xrcd", NULL, open_xrcd, xrcd_gone },
	{ "create_flow", ud_rts, create_flow, flow_gone, qp_gone },
	{ "query_device", NULL, query_device },
	{ "query_port", NULL, query_port },
	{ "query_pkey", NULL, query_pkey },
	{ "query_gid", NULL, query_gid },
	{ "query_gid_table", NULL, query_gids },
	{ "a SEND", NULL, send_ },
	{ "an RDMA WRITE", NULL, write_ },
	{ "an RDMA READ", NULL, read_ },
	{ "bind_mw", window, bind_, NULL, window_gone },
	{ "fork with queues mapped", NULL, fork_ },
};

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	faults_init();
	nldev_open();
	open_device(argc, argv);
	gid_4 = gid;
	gid_index_4 = gid_index;
	gid_index_6 = atoi(argv[3]);
	if (ibv_query_gid(context, 1, gid_index_6, &gid_6))
		die("the other GID");
	large = aligned_alloc(4096, LARGE);
	memset(large, 1, LARGE);
	end_init(&self, &rc);
	if (climb(self.qp, IBV_QPS_RTS, &rc, self.qp->qp_num))
		die("connect a QP to itself");
	/* What the process itself allocates is there before, so that the faults are those of the calls. */
	mlockall(MCL_CURRENT | MCL_FUTURE);
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		each_allocation(&calls[i]);
	faults_done();
	return all_done();
}
