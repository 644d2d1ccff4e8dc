// SPDX-License-Identifier: GPL-2.0
/*
 * What the samples of the manual's pages show, as short programs of our own: the ports of each device, objects, the states of each
 * service, events that are waited for and events that are asked for, requests of the extended interface.
 *
 *   verbs_samples DEVICE GID_INDEX
 */
#include "verbs.h"
#include <fcntl.h>

#define SIZE 4096
#define DEPTH 8

static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_srq *srq;
static struct ibv_mr *mr;
static char memory[2 * SIZE] __attribute__((aligned(SIZE)));

static void is(const char *name, bool good)
{
	verdict(name, good, false, strerror(errno));
}

/* ibv_query_port: all ports of all devices. */
static void ports(const char *wanted)
{
	int count, active = 0;
	struct ibv_device **list = ibv_get_device_list(&count);

	for (int i = 0; list && i < count; i++) {
		struct ibv_context *each = ibv_open_device(list[i]);
		struct ibv_device_attr device;

		if (!each || ibv_query_device(each, &device))
			die("ibv_query_device");
		for (int port = 1; port <= device.phys_port_cnt; port++) {
			struct ibv_port_attr attr;

			if (ibv_query_port(each, port, &attr))
				die("ibv_query_port");
			printf("%s, port %d: %s, MTU %d, %d GIDs\n", ibv_get_device_name(list[i]), port, ibv_port_state_str(attr.state),
			       128 << attr.active_mtu, attr.gid_tbl_len);
			active += !strcmp(ibv_get_device_name(list[i]), wanted) && attr.state == IBV_PORT_ACTIVE && attr.active_mtu > 0;
		}
		ibv_close_device(each);
	}
	ibv_free_device_list(list);
	is("ibv_query_port: the device has one port, which is active", active == 1);
}

static struct ibv_qp *create_qp(enum ibv_qp_type type, struct ibv_srq *shared)
{
	struct ibv_qp_init_attr init = {
		.qp_type = type, .send_cq = cq, .recv_cq = cq, .srq = shared, .cap = { DEPTH, DEPTH, 1, 1, 16 }, .sq_sig_all = 1,
	};

	return ibv_create_qp(pd, &init);
}

/* ibv_create_*, ibv_reg_mr: one object of each kind. */
static void objects(void)
{
	struct ibv_srq_init_attr shared = { .attr = { .max_wr = DEPTH, .max_sge = 1 } };
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = gid, .sgid_index = gid_index, .hop_limit = 64 } };
	struct { struct ibv_flow_attr attr; struct ibv_flow_spec_eth eth; } flow = {
		.attr = { .type = IBV_FLOW_ATTR_NORMAL, .size = sizeof(flow), .num_of_specs = 1, .port = 1 },
		.eth = { .type = IBV_FLOW_SPEC_ETH, .size = sizeof(flow.eth) },
	};
	struct ibv_ah *ah;
	struct ibv_qp *qp;

	channel = ibv_create_comp_channel(context);
	is("ibv_create_comp_channel", channel);
	cq = ibv_create_cq(context, 4 * DEPTH, NULL, channel, 0);
	is("ibv_create_cq", cq);
	mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	is("ibv_reg_mr", mr && mr->addr == memory && mr->length == sizeof(memory));
	srq = ibv_create_srq(pd, &shared);
	is("ibv_create_srq", srq && shared.attr.max_wr >= DEPTH);
	qp = create_qp(IBV_QPT_RC, srq);
	is("ibv_create_qp", qp && qp->qp_num && qp->srq == srq);
	ah = ibv_create_ah(pd, &attr);
	is("ibv_create_ah", ah && !ibv_destroy_ah(ah));
	errno = 0;
	is("ibv_create_flow: this device has none", qp && !ibv_create_flow(qp, &flow.attr) && errno == EOPNOTSUPP);
	is("ibv_destroy_qp", qp && !ibv_destroy_qp(qp));
}

static int to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .pkey_index = 0, .port_num = 1, .qkey = QKEY, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	int mask = qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | mask);
}

static int to_rtr(struct ibv_qp *qp, uint32_t peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer, .rq_psn = 77, .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = gid, .sgid_index = gid_index, .hop_limit = 64 } },
	};
	int mask = IBV_QP_STATE;

	if (qp->qp_type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return ibv_modify_qp(qp, &attr, mask);
}

static int to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .sq_psn = 77, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1 };
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	return ibv_modify_qp(qp, &attr, mask);
}

/* A queue pair that is its own peer. */
static struct ibv_qp *ready(struct ibv_qp *qp)
{
	if (!qp || to_init(qp) || to_rtr(qp, qp->qp_num) || to_rts(qp))
		die("a queue pair in RTS");
	return qp;
}

/* ibv_modify_qp: RESET to INIT to RTR to RTS. */
static void states(enum ibv_qp_type type, const char *name)
{
	struct ibv_qp *qp = create_qp(type, NULL);
	char title[40];

	snprintf(title, sizeof(title), "ibv_modify_qp: the states of %s", name);
	is(title, qp && qp_state_of(qp) == IBV_QPS_RESET && !to_init(qp) && qp_state_of(qp) == IBV_QPS_INIT && !to_rtr(qp, qp->qp_num) &&
	   qp_state_of(qp) == IBV_QPS_RTR && !to_rts(qp) && qp_state_of(qp) == IBV_QPS_RTS);
	ibv_destroy_qp(qp);
}

static void receive(struct ibv_qp *qp)
{
	struct ibv_sge sge = { (uintptr_t)memory + SIZE, SIZE, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 }, *bad;

	if (qp->srq ? ibv_post_srq_recv(qp->srq, &wr, &bad) : ibv_post_recv(qp, &wr, &bad))
		die("post a receive request");
}

static void send_message(struct ibv_qp *qp)
{
	struct ibv_sge sge = { (uintptr_t)memory, 100, mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;

	if (ibv_post_send(qp, &wr, &bad))
		die("post a send request");
}

/* So many completions, all good. */
static bool complete(int count)
{
	struct ibv_wc wc;
	long until = now_ms() + 3000;

	while (count && now_ms() < until)
		if (ibv_poll_cq(cq, 1, &wc) > 0) {
			if (wc.status)
				return false;
			count--;
		}
	return !count;
}

static void set_blocking(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);

	if (fcntl(fd, F_SETFL, on ? flags & ~O_NONBLOCK : flags | O_NONBLOCK))
		die("O_NONBLOCK");
}

static bool comes(int fd)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };

	return poll(&wait, 1, 3000) == 1;
}

/* ibv_get_cq_event: announced once, acknowledged, asked for again before the queue is emptied. */
static void cq_events(void)
{
	struct ibv_qp *qp = ready(create_qp(IBV_QPT_RC, NULL));
	struct ibv_cq *of = NULL;
	void *cookie;

	receive(qp);
	is("ibv_req_notify_cq", !ibv_req_notify_cq(cq, 0));
	send_message(qp);
	is("ibv_get_cq_event waits", !ibv_get_cq_event(channel, &of, &cookie) && of == cq);
	ibv_ack_cq_events(cq, 1);
	is("the completions of a message", !ibv_req_notify_cq(cq, 0) && complete(2));

	set_blocking(channel->fd, false);
	while (!ibv_get_cq_event(channel, &of, &cookie)) /* the second completion of the message */
		ibv_ack_cq_events(of, 1);
	is("ibv_get_cq_event does not wait", errno == EAGAIN && !ibv_req_notify_cq(cq, 0));
	receive(qp);
	send_message(qp);
	is("poll says that there is one", comes(channel->fd) && !ibv_get_cq_event(channel, &of, &cookie) && of == cq && complete(2));
	ibv_ack_cq_events(cq, 1);
	is("ibv_destroy_qp", !ibv_destroy_qp(qp));
}

/* A message that takes an SRQ below its limit. */
static void below_limit(struct ibv_qp *qp)
{
	struct ibv_srq_attr attr = { .srq_limit = DEPTH };

	receive(qp);
	if (ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT))
		die("a limit");
	send_message(qp);
	if (!complete(2))
		die("a message");
}

/* ibv_get_async_event. */
static void async_events(void)
{
	struct ibv_qp *qp = ready(create_qp(IBV_QPT_RC, srq));
	struct ibv_async_event event;

	set_blocking(context->async_fd, false);
	is("ibv_get_async_event does not wait", ibv_get_async_event(context, &event) == -1 && errno == EAGAIN);
	below_limit(qp);
	is("poll says that there is an event", comes(context->async_fd) && !ibv_get_async_event(context, &event) &&
	   event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && event.element.srq == srq);
	ibv_ack_async_event(&event);
	set_blocking(context->async_fd, true);
	below_limit(qp);
	is("ibv_get_async_event waits", !ibv_get_async_event(context, &event) && event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED);
	printf("%s\n", ibv_event_type_str(event.event_type));
	ibv_ack_async_event(&event);
	is("ibv_destroy_qp", !ibv_destroy_qp(qp));
}

/* ibv_wr_*: two WRITEs, of which the second one is inline and has an immediate. */
static void extended(void)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq, .pd = pd, .cap = { DEPTH, DEPTH, 1, 1, 16 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
	};
	struct ibv_qp *qp = ready(ibv_create_qp_ex(context, &init));
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

	memset(memory, 0, sizeof(memory));
	strcpy(memory, "by a list");
	receive(qp);
	ibv_wr_start(ex);
	ex->wr_id = 3;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(ex, mr->rkey, (uintptr_t)memory + SIZE);
	ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)memory, 10);
	ex->wr_id = 4;
	ex->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
	ibv_wr_rdma_write_imm(ex, mr->rkey, (uintptr_t)memory + SIZE + 100, 5);
	ibv_wr_set_inline_data(ex, "inline", 7);
	is("ibv_wr_complete", !ibv_wr_complete(ex));
	is("both requests and the immediate are completed", complete(3));
	is("the data are there", !strcmp(memory + SIZE, "by a list") && !strcmp(memory + SIZE + 100, "inline"));
	is("ibv_destroy_qp", !ibv_destroy_qp(qp));
}

int main(int argc, char **argv)
{
	open_device(argc, argv);
	ports(argv[1]);
	objects();
	states(IBV_QPT_UD, "UD");
	states(IBV_QPT_UC, "UC");
	states(IBV_QPT_RC, "RC");
	cq_events();
	async_events();
	extended();
	is("ibv_destroy_srq", !ibv_destroy_srq(srq));
	is("ibv_destroy_cq", !ibv_destroy_cq(cq));
	is("ibv_destroy_comp_channel", !ibv_destroy_comp_channel(channel));
	is("ibv_dereg_mr", !ibv_dereg_mr(mr));
	is("ibv_dealloc_pd", !ibv_dealloc_pd(pd));
	is("ibv_close_device", !ibv_close_device(context));
	return all_done();
}
