// SPDX-License-Identifier: GPL-2.0
/*
 * Everything by write() on the device file: no library, no ring that is mapped. Objects, their handles and their errors; two
 * queue pairs that talk to each other through POST_SEND, POST_RECV, POST_SRQ_RECV, POLL_CQ and REQ_NOTIFY_CQ.
 *
 *   uverbs_write DEVICE GID_INDEX [DATA]      with DATA: the driver takes requests that are posted so
 */
#define _GNU_SOURCE
#include "verbs.h"

#include "uverbs_raw.h"

#define SIZE 4096
#define MANY 64
#define RKEY_BAD 0x12345600

/* A response with the driver's part behind it. */
#define WITH_DRIVER(type) struct { struct type core; char driver[64]; }

static int fd, async_fd, channel = -1;
static uint32_t pd_handle, mr_handle, lkey, rkey;
static char *memory;
static void *absent;		/* a page that is not there */

struct queue_pair {
	uint32_t cq, handle, number;
};

static struct queue_pair a, b;
static uint32_t srq;

static int command(uint32_t number, void *request, size_t in, void *response, size_t out)
{
	return raw_write(fd, number, request, in, response, out);
}

#define RUN(number, request, response) command(IB_USER_VERBS_CMD_##number, &(request), sizeof(request), &(response), sizeof(response))
#define DO(number, request) command(IB_USER_VERBS_CMD_##number, &(request), sizeof(request), NULL, 0)

/* A case: which errno there was to be, and which there was. */
static bool is(const char *name, int wanted, int got)
{
	char why[128];

	snprintf(why, sizeof(why), "wanted %s", strerror(wanted));
	snprintf(why + strlen(why), sizeof(why) - strlen(why), " got %s", strerror(got));
	verdict(name, wanted == got, false, why);
	return wanted == got;
}

static void must(const char *what, int error)
{
	if (error) {
		errno = error;
		die(what);
	}
}

static void context_and_queries(const char *device)
{
	struct ib_uverbs_get_context get = {};
	struct ib_uverbs_get_context_resp got;
	struct ib_uverbs_query_device query = {};
	struct ib_uverbs_query_device_resp attributes = {};
	struct ib_uverbs_query_port port = { .port_num = 1 };
	struct ib_uverbs_query_port_resp state;
	struct ib_uverbs_ex_query_device more = {};
	struct ib_uverbs_ex_query_device_resp extended = {};
	struct ib_uverbs_alloc_pd alloc = {};
	struct ib_uverbs_alloc_pd_resp pd_made;

	fd = raw_open(device);
	if (fd < 0)
		die("open the device file");
	is("no query without a context", EINVAL, RUN(QUERY_DEVICE, query, attributes));
	is("no object without a context", EINVAL, RUN(ALLOC_PD, alloc, pd_made));
	is("a context", 0, RUN(GET_CONTEXT, get, got));
	async_fd = got.async_fd;
	verdict("it has a file of events and completion vectors", fcntl(async_fd, F_GETFD) >= 0 && got.num_comp_vectors > 0, false, "response");
	is("no second context", EINVAL, RUN(GET_CONTEXT, get, got));
	is("the device", 0, RUN(QUERY_DEVICE, query, attributes));
	verdict("its attributes", attributes.max_qp && attributes.max_cqe && attributes.phys_port_cnt == 1, false, "response");
	is("the device, extended", 0, raw_write_ex(fd, IB_USER_VERBS_EX_CMD_QUERY_DEVICE, &more, sizeof(more), &extended, sizeof(extended)));
	verdict("its attributes are the same", !memcmp(&extended.base, &attributes, sizeof(attributes)) &&
		extended.response_length == sizeof(extended), false, "response");
	extended.response_length = 0;
	is("the device, with little room", 0, raw_write_ex(fd, IB_USER_VERBS_EX_CMD_QUERY_DEVICE, &more, sizeof(more), &extended,
							    offsetof(struct ib_uverbs_ex_query_device_resp, odp_caps)));
	verdict("as much as there is room for", extended.response_length == offsetof(struct ib_uverbs_ex_query_device_resp, odp_caps),
		false, "response_length");
	is("the port", 0, RUN(QUERY_PORT, port, state));
	verdict("it is active", state.state == 4 && state.gid_tbl_len > 0 && state.link_layer == 2, false, "response");
	port.port_num = 2;
	is("no other port", EINVAL, RUN(QUERY_PORT, port, state));
}

static void headers(void)
{
	struct { struct ib_uverbs_cmd_hdr header; struct ib_uverbs_alloc_pd request; uint64_t more; } all = {};
	struct ib_uverbs_alloc_pd_resp response;
	struct ib_uverbs_dealloc_pd dealloc;
	static const uint32_t reserved[] = {
		IB_USER_VERBS_CMD_MODIFY_AH, IB_USER_VERBS_CMD_QUERY_AH, IB_USER_VERBS_CMD_REG_SMR, IB_USER_VERBS_CMD_QUERY_MR,
		IB_USER_VERBS_CMD_BIND_MW, IB_USER_VERBS_CMD_PEEK_CQ, 41, 63, 255,
	};
	bool refused = true;

	all.header = (struct ib_uverbs_cmd_hdr){ IB_USER_VERBS_CMD_ALLOC_PD, 4, 1 };
	all.request.response = (uintptr_t)&response;
	is("a header that is cut off", EINVAL, write(fd, &all, 7) < 0 ? errno : 0);
	is("a length that is not told", EINVAL, write(fd, &all, 20) < 0 ? errno : 0);
	all.header.in_words = 3;
	is("a request that is cut off", ENOSPC, write(fd, &all, 12) < 0 ? errno : 0);
	all.header = (struct ib_uverbs_cmd_hdr){ IB_USER_VERBS_CMD_ALLOC_PD, 4, 0 };
	is("no room for the response", ENOSPC, write(fd, &all, 16) < 0 ? errno : 0);
	all.header.out_words = 1;
	is("a header that is not there", EFAULT, write(fd, absent, 16) < 0 ? errno : 0);
	all.header.command = 0x40000000 | IB_USER_VERBS_CMD_ALLOC_PD;
	is("a flag that nobody knows", EINVAL, write(fd, &all, 16) < 0 ? errno : 0);
	all.header.command = IB_USER_VERBS_CMD_ALLOC_PD;
	is("a domain", 0, write(fd, &all, 16) < 0 ? errno : 0);
	dealloc.pd_handle = response.pd_handle;
	is("it goes", 0, DO(DEALLOC_PD, dealloc));
	is("once", ENOENT, DO(DEALLOC_PD, dealloc));
	all.request.response = 16;
	is("a response to nowhere", EFAULT, write(fd, &all, 16) < 0 ? errno : 0);
	is("which has left no domain", ENOENT, DO(DEALLOC_PD, dealloc));
	for (size_t i = 0; i < ARRAY_SIZE(reserved); i++) {
		all.header.command = reserved[i];
		all.request.response = (uintptr_t)&response;
		refused = refused && write(fd, &all, 16) < 0 && errno == EOPNOTSUPP;
	}
	verdict("commands that there are not", refused, false, strerror(errno));
}

/* What the stock driver has not, and ours neither but for XRC and MODIFY_CQ: well-formed commands, which fail before anybody looks at their handles. */
static void of_richer_devices(bool ours)
{
	struct ib_uverbs_open_xrcd xrcd = { .fd = -1, .oflags = O_CREAT };
	struct ib_uverbs_open_xrcd_resp xrcd_made;
	struct ib_uverbs_open_qp open_qp = { .user_handle = 1, .pd_handle = 0, .qpn = 17, .qp_type = IBV_QPT_XRC_RECV };
	WITH_DRIVER(ib_uverbs_create_qp_resp) qp_opened;
	struct ib_uverbs_close_xrcd close_xrcd = {};
	struct { struct ib_uverbs_create_flow head; struct ib_uverbs_flow_spec_action_drop drop; } flow = {
		.head.flow_attr = { .size = sizeof(flow.drop), .num_of_specs = 1, .port = 1 },
		.drop = { .type = IBV_FLOW_SPEC_ACTION_DROP, .size = sizeof(flow.drop) },
	};
	struct ib_uverbs_ex_create_wq wq = { .max_wr = 8, .max_sge = 1 };
	struct { struct ib_uverbs_ex_create_rwq_ind_table head; uint32_t wqs[2]; } table = { { 0 } };
	struct ib_uverbs_ex_modify_wq modify_wq = { .attr_mask = 1, .wq_state = 1 };
	struct ib_uverbs_ex_modify_cq modify_cq = { .cq_handle = ~0U, .attr_mask = 1, .attr = { 3, 4 } };
	uint64_t handle_alone = 0, response[16];
	const struct {
		const char *name;
		uint32_t command;
		const void *request;
		size_t in, out;
	} extended[] = {
#define CASE(number, request, out) { #number, IB_USER_VERBS_EX_CMD_##number, &(request), sizeof(request), out }
		CASE(CREATE_FLOW, flow, sizeof(struct ib_uverbs_create_flow_resp)), CASE(DESTROY_FLOW, handle_alone, 0),
		CASE(CREATE_WQ, wq, sizeof(struct ib_uverbs_ex_create_wq_resp)), CASE(MODIFY_WQ, modify_wq, 0),
		CASE(DESTROY_WQ, handle_alone, sizeof(struct ib_uverbs_ex_destroy_wq_resp)),
		CASE(CREATE_RWQ_IND_TBL, table, sizeof(struct ib_uverbs_ex_create_rwq_ind_table_resp)),
		CASE(DESTROY_RWQ_IND_TBL, handle_alone, 0),
	};
	struct ibv_xrcd_init_attr attr = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT };

	is("of our driver alone: OPEN_XRCD", ours ? 0 : EOPNOTSUPP, RUN(OPEN_XRCD, xrcd, xrcd_made));
	close_xrcd.xrcd_handle = ours ? xrcd_made.xrcd_handle : 0;
	is("of our driver alone: CLOSE_XRCD", ours ? 0 : EOPNOTSUPP, DO(CLOSE_XRCD, close_xrcd));
	is("OPEN_QP without a domain", ours ? EINVAL : EOPNOTSUPP,
	   command(IB_USER_VERBS_CMD_OPEN_QP, &open_qp, sizeof(open_qp), &qp_opened, sizeof(qp_opened.core) + 32));
	/* A command that is not there, and has a lower number than one that is, is read as one that is not extended. */
	is("MODIFY_CQ of no queue", ours ? ENOENT : EOPNOTSUPP,
	   raw_write_ex(fd, IB_USER_VERBS_EX_CMD_MODIFY_CQ, &modify_cq, sizeof(modify_cq), NULL, 0));
	for (size_t i = 0; i < ARRAY_SIZE(extended); i++) {
		char name[60];

		snprintf(name, sizeof(name), "not of this device: %s", extended[i].name);
		is(name, ours ? EINVAL : EOPNOTSUPP, raw_write_ex(fd, extended[i].command, extended[i].request, extended[i].in,
						  extended[i].out ? response : NULL, extended[i].out));
	}
	errno = 0;
	is("not of this device: ibv_open_xrcd", EOPNOTSUPP, ibv_open_xrcd(context, &attr) ? 0 : errno);
}

static void base_objects(void)
{
	struct ib_uverbs_alloc_pd alloc = {};
	struct ib_uverbs_alloc_pd_resp pd_made;
	struct ib_uverbs_reg_mr reg = { .length = 64 * SIZE, .access_flags = ACCESS_ALL };
	struct ib_uverbs_reg_mr_resp mr_made;
	struct ib_uverbs_rereg_mr rereg = {};
	struct ib_uverbs_rereg_mr_resp again;
	struct ib_uverbs_alloc_mw bind = { .mw_type = 1 };
	struct ib_uverbs_alloc_mw_resp mw_made;
	struct ib_uverbs_dealloc_pd dealloc;
	struct ib_uverbs_dereg_mr wrong;
	struct ib_uverbs_create_comp_channel make = {};
	struct ib_uverbs_create_comp_channel_resp made;

	must("a domain", RUN(ALLOC_PD, alloc, pd_made));
	pd_handle = pd_made.pd_handle;
	memory = mmap(NULL, 64 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	reg.pd_handle = pd_handle;
	reg.start = (uintptr_t)memory;
	reg.hca_va = (uintptr_t)memory + 1;
	is("a region at another place of the page", EINVAL, RUN(REG_MR, reg, mr_made));
	reg.hca_va = reg.start;
	reg.access_flags = IBV_ACCESS_REMOTE_WRITE;
	is("a region that peers alone may write", EINVAL, RUN(REG_MR, reg, mr_made));
	reg.access_flags = ACCESS_ALL;
	reg.start = reg.hca_va = 4096;
	is("a region of memory that is not there", EFAULT, RUN(REG_MR, reg, mr_made));
	reg.start = reg.hca_va = (uintptr_t)memory;
	is("a region", 0, RUN(REG_MR, reg, mr_made));
	mr_handle = mr_made.mr_handle;
	lkey = mr_made.lkey;
	rkey = mr_made.rkey;
	rereg.mr_handle = mr_handle;
	is("nothing to register anew", EINVAL, RUN(REREG_MR, rereg, again));
	rereg.flags = 8;
	is("something else to register anew", EOPNOTSUPP, RUN(REREG_MR, rereg, again));
	rereg = (struct ib_uverbs_rereg_mr){ .mr_handle = mr_handle, .flags = 4, .access_flags = ACCESS_ALL };
	is("the access anew", 0, RUN(REREG_MR, rereg, again));
	verdict("its keys", again.lkey == lkey && again.rkey == rkey, false, "others");
	dealloc.pd_handle = mr_handle;
	is("a region is no domain", EINVAL, DO(DEALLOC_PD, dealloc));
	dealloc.pd_handle = pd_handle;
	is("a domain that is used stays", EBUSY, DO(DEALLOC_PD, dealloc));
	wrong.mr_handle = 0x7fffffff;
	is("a handle of nothing", ENOENT, DO(DEREG_MR, wrong));
	bind.pd_handle = pd_handle;
	is("a memory window", 0, RUN(ALLOC_MW, bind, mw_made));
	verdict("its key", mw_made.rkey && mw_made.rkey != rkey, false, "none");
	is("it goes", 0, DO(DEALLOC_MW, ((struct ib_uverbs_dealloc_mw){ mw_made.mw_handle })));
	bind.mw_type = 3;
	is("no window of a third type", EINVAL, RUN(ALLOC_MW, bind, mw_made));
	is("a completion channel", 0, RUN(CREATE_COMP_CHANNEL, make, made));
	channel = made.fd;
}

static uint32_t make_cq(void)
{
	struct ib_uverbs_create_cq create = { .user_handle = 0xc0de, .cqe = 200, .comp_channel = channel };
	WITH_DRIVER(ib_uverbs_create_cq_resp) made;

	must("a completion queue", command(IB_USER_VERBS_CMD_CREATE_CQ, &create, sizeof(create), &made, sizeof(made.core) + 16));
	return made.core.cq_handle;
}

static void queues(void)
{
	struct ib_uverbs_create_cq create = { .cqe = 0, .comp_channel = -1 };
	WITH_DRIVER(ib_uverbs_create_cq_resp) made;
	struct ib_uverbs_destroy_cq destroy = {};
	struct ib_uverbs_destroy_cq_resp gone;
	struct ib_uverbs_resize_cq resize = {};
	WITH_DRIVER(ib_uverbs_resize_cq_resp) resized;
	size_t room = sizeof(made.core) + 16;

	is("no queue without room", EINVAL, command(IB_USER_VERBS_CMD_CREATE_CQ, &create, sizeof(create), &made, room));
	create = (struct ib_uverbs_create_cq){ .cqe = 10, .comp_channel = -1, .comp_vector = 99999 };
	is("no completion vector of that number", EINVAL, command(IB_USER_VERBS_CMD_CREATE_CQ, &create, sizeof(create), &made, room));
	create = (struct ib_uverbs_create_cq){ .cqe = 10, .comp_channel = fd };
	is("a device file is no channel", EBADF, command(IB_USER_VERBS_CMD_CREATE_CQ, &create, sizeof(create), &made, room));
	create.comp_channel = channel;
	is("a queue", 0, command(IB_USER_VERBS_CMD_CREATE_CQ, &create, sizeof(create), &made, room));
	resize.cq_handle = made.core.cq_handle;
	resize.cqe = 100;
	is("it grows", 0, command(IB_USER_VERBS_CMD_RESIZE_CQ, &resize, sizeof(resize), &resized, sizeof(resized.core) + 16));
	verdict("to what was asked for", resized.core.cqe >= 100, false, "response");
	resize.cqe = 0;
	is("not to nothing", EINVAL, command(IB_USER_VERBS_CMD_RESIZE_CQ, &resize, sizeof(resize), &resized, sizeof(resized.core) + 16));
	destroy.cq_handle = made.core.cq_handle;
	is("it goes", 0, RUN(DESTROY_CQ, destroy, gone));
	verdict("without events", !gone.comp_events_reported && !gone.async_events_reported, false, "response");
	a.cq = make_cq();
	b.cq = make_cq();
}

static void make_qp(struct queue_pair *pair, enum ibv_qp_type type, bool shared)
{
	struct ib_uverbs_create_qp create = {
		.user_handle = (uintptr_t)pair, .pd_handle = pd_handle, .send_cq_handle = pair->cq, .recv_cq_handle = pair->cq, .qp_type = type,
		.max_send_wr = 100, .max_recv_wr = shared ? 0 : 100, .max_send_sge = 4, .max_recv_sge = shared ? 0 : 4,
		.is_srq = shared, .srq_handle = srq,
	};
	WITH_DRIVER(ib_uverbs_create_qp_resp) made;

	must("a queue pair", command(IB_USER_VERBS_CMD_CREATE_QP, &create, sizeof(create), &made, sizeof(made.core) + 32));
	pair->handle = made.core.qp_handle;
	pair->number = made.core.qpn;
}

static int modify(const struct queue_pair *pair, uint32_t mask, struct ib_uverbs_modify_qp *attr)
{
	attr->qp_handle = pair->handle;
	attr->attr_mask = mask;
	return command(IB_USER_VERBS_CMD_MODIFY_QP, attr, sizeof(*attr), NULL, 0);
}

/* From RESET to RTS, towards a peer. */
static int climb_raw(const struct queue_pair *pair, const struct queue_pair *peer, bool datagrams)
{
	struct ib_uverbs_modify_qp init = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ACCESS_ALL, .qkey = QKEY };
	struct ib_uverbs_modify_qp rtr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer->number, .rq_psn = 7, .max_dest_rd_atomic = 4, .min_rnr_timer = 1,
		.dest = { .is_global = 1, .sgid_index = gid_index, .hop_limit = 64, .port_num = 1 },
	};
	struct ib_uverbs_modify_qp rts = {
		.qp_state = IBV_QPS_RTS, .sq_psn = 7, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4,
	};
	int error;

	memcpy(rtr.dest.dgid, &gid, 16);
	error = modify(pair, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (datagrams ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS), &init);
	if (!error)
		error = modify(pair, IBV_QP_STATE | (datagrams ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), &rtr);
	if (!error)
		error = modify(pair, IBV_QP_STATE | IBV_QP_SQ_PSN | (datagrams ? 0 : IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			       IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC), &rts);
	return error;
}

static uint8_t state_of(const struct queue_pair *pair)
{
	struct ib_uverbs_query_qp query = { .qp_handle = pair->handle, .attr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_CAP };
	struct ib_uverbs_query_qp_resp response = {};

	must("query a queue pair", RUN(QUERY_QP, query, response));
	return response.qp_state;
}

static uint32_t events_of(struct queue_pair *pair)
{
	struct ib_uverbs_destroy_qp destroy = { .qp_handle = pair->handle };
	struct ib_uverbs_destroy_qp_resp gone = { 99 };

	must("destroy a queue pair", RUN(DESTROY_QP, destroy, gone));
	return gone.events_reported;
}

/* IB_QP_CREATE_SOURCE_QPN of <rdma/ib_verbs.h>. */
#define CREATE_SOURCE_QPN (1 << 10)

static void queue_pairs(void)
{
	struct ib_uverbs_modify_qp attr = { .qp_state = IBV_QPS_INIT, .port_num = 9 };
	struct ib_uverbs_create_qp create = { .pd_handle = pd_handle, .send_cq_handle = a.cq, .recv_cq_handle = a.cq, .qp_type = IBV_QPT_RAW_PACKET };
	WITH_DRIVER(ib_uverbs_create_qp_resp) made;
	struct ib_uverbs_destroy_cq destroy = { .cq_handle = a.cq };
	struct ib_uverbs_destroy_cq_resp gone;
	struct ib_uverbs_attach_mcast group = { .gid = { 0xff, 0x0e, [15] = 9 } };
	struct ib_uverbs_detach_mcast leave;
	struct ib_uverbs_ex_create_qp more = {
		.pd_handle = pd_handle, .send_cq_handle = a.cq, .recv_cq_handle = a.cq, .qp_type = IBV_QPT_UD, .max_send_wr = 1, .max_recv_wr = 1,
		.max_send_sge = 1, .max_recv_sge = 1, .create_flags = CREATE_SOURCE_QPN, .source_qpn = 1,
	};
	struct ib_uverbs_ex_create_qp_resp more_made;

	is("no source QP number without CAP_NET_RAW", EPERM,
	   raw_write_ex(fd, IB_USER_VERBS_EX_CMD_CREATE_QP, &more, sizeof(more), &more_made, sizeof(more_made)));
	more.create_flags = 1u << 31;
	is("no flag that nobody knows", EINVAL,
	   raw_write_ex(fd, IB_USER_VERBS_EX_CMD_CREATE_QP, &more, sizeof(more), &more_made, sizeof(more_made)));
	create.qp_type = 77;
	is("no queue pair of a type that there is not", EINVAL,
	   command(IB_USER_VERBS_CMD_CREATE_QP, &create, sizeof(create), &made, sizeof(made.core) + 32));
	create.qp_type = IBV_QPT_RC;
	create.pd_handle = a.cq;
	is("a completion queue is no domain", EINVAL,
	   command(IB_USER_VERBS_CMD_CREATE_QP, &create, sizeof(create), &made, sizeof(made.core) + 32));
	make_qp(&a, IBV_QPT_RC, false);
	make_qp(&b, IBV_QPT_RC, false);
	is("a queue that is used stays", EBUSY, RUN(DESTROY_CQ, destroy, gone));
	is("no port of that number", EINVAL, modify(&a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, &attr));
	is("attributes that nobody knows", EOPNOTSUPP, modify(&a, 1 << 21, &attr));
	attr.qp_state = 99;
	is("a state that there is not", EINVAL, modify(&a, IBV_QP_STATE, &attr));
	is("to RTS", 0, climb_raw(&a, &b, false));
	is("the peer, too", 0, climb_raw(&b, &a, false));
	verdict("the state", state_of(&a) == IBV_QPS_RTS, false, "another");
	group.qp_handle = a.handle;
	is("no group of a queue pair of that type", EINVAL, DO(ATTACH_MCAST, group));
	memcpy(&leave, &group, sizeof(leave));
	is("none to leave", EINVAL, DO(DETACH_MCAST, leave));
}

/* A queue pair joins a group and leaves it: the network device listens for the group's address meanwhile, 33:33 and its last bytes. */
static void groups(void)
{
	struct ib_uverbs_attach_mcast group = { .gid = { 0xff, 0x0e, [15] = 9 } };
	struct queue_pair member = { .cq = a.cq };
	struct ib_uverbs_destroy_qp destroy;
	struct ib_uverbs_destroy_qp_resp gone;
	struct ib_uverbs_detach_mcast leave;

	make_qp(&member, IBV_QPT_UD, false);
	destroy.qp_handle = group.qp_handle = member.handle;
	memcpy(&leave, &group, sizeof(leave));
	is("no group is left that was not joined", EINVAL, DO(DETACH_MCAST, leave));
	is("a group is joined", 0, DO(ATTACH_MCAST, group));
	is("a member is in it already", 0, DO(ATTACH_MCAST, group));
	verdict("the network device listens for it", mcast_users("333300000009") == 1, false, "it does not");
	is("a member stays", EBUSY, RUN(DESTROY_QP, destroy, gone));
	is("the group is left", 0, DO(DETACH_MCAST, leave));
	verdict("nobody listens for it any more", mcast_users("333300000009") == 0, true, "somebody does");
	is("it is left once", EINVAL, DO(DETACH_MCAST, leave));
	is("and the queue pair goes", 0, RUN(DESTROY_QP, destroy, gone));
}

/* Posts `count` requests for receiving, each of `length` bytes, at `slot` and after; to the shared queue if there is no pair. */
static int post_recvs(const struct queue_pair *pair, uint32_t slot, uint32_t count, uint32_t length, uint32_t *bad)
{
	struct {
		struct ib_uverbs_post_recv head;
		struct ib_uverbs_recv_wr wr[MANY];
		struct ibv_sge sge[MANY];
	} request = { .head = { .qp_handle = pair ? pair->handle : srq, .wr_count = count, .sge_count = count, .wqe_size = sizeof(request.wr[0]) } };
	char packed[sizeof(request)], *at = packed;
	struct ib_uverbs_post_recv_resp response = { 77 };
	int error;

	for (uint32_t i = 0; i < count; i++) {
		request.wr[i] = (struct ib_uverbs_recv_wr){ .wr_id = 1000 + slot + i, .num_sge = 1 };
		request.sge[i] = (struct ibv_sge){ (uintptr_t)memory + (slot + i) * 256, length, lkey };
	}
	at = mempcpy(at, &request.head, sizeof(request.head));
	at = mempcpy(at, request.wr, count * sizeof(request.wr[0]));
	at = mempcpy(at, request.sge, count * sizeof(request.sge[0]));
	error = command(pair ? IB_USER_VERBS_CMD_POST_RECV : IB_USER_VERBS_CMD_POST_SRQ_RECV, packed, at - packed, &response, sizeof(response));
	*bad = response.bad_wr;
	return error;
}

static int post_sends(const struct queue_pair *pair, const struct ib_uverbs_send_wr *wr, uint32_t count, const struct ibv_sge *sge,
		      uint32_t sges, uint32_t *bad)
{
	struct ib_uverbs_post_send head = { .qp_handle = pair->handle, .wr_count = count, .sge_count = sges, .wqe_size = sizeof(*wr) };
	char packed[sizeof(head) + MANY * (sizeof(*wr) + sizeof(*sge))], *at = packed;
	struct ib_uverbs_post_send_resp response = { 77 };
	int error;

	at = mempcpy(at, &head, sizeof(head));
	at = mempcpy(at, wr, count * sizeof(*wr));
	at = mempcpy(at, sge, sges * sizeof(*sge));
	error = command(IB_USER_VERBS_CMD_POST_SEND, packed, at - packed, &response, sizeof(response));
	*bad = response.bad_wr;
	return error;
}

/* The most completions that one command has given. */
static uint32_t most_polled;

/* Polls until there are `count` completions, at most two seconds. */
static bool poll_raw(uint32_t cq, struct ib_uverbs_wc *wc, uint32_t count)
{
	struct { struct ib_uverbs_poll_cq_resp head; struct ib_uverbs_wc wc[MANY]; } response;
	struct ib_uverbs_poll_cq request = { .cq_handle = cq };
	uint32_t found = 0;

	for (int i = 0; i < 2000 && found < count; i++) {
		request.ne = count - found;
		must("poll a queue", command(IB_USER_VERBS_CMD_POLL_CQ, &request, sizeof(request), &response, sizeof(response)));
		memcpy(wc + found, response.wc, response.head.count * sizeof(*wc));
		found += response.head.count;
		if (response.head.count > most_polled)
			most_polled = response.head.count;
		if (found < count)
			usleep(1000);
	}
	return found == count;
}

static int arm(uint32_t cq, bool solicited)
{
	struct ib_uverbs_req_notify_cq request = { cq, solicited };

	return DO(REQ_NOTIFY_CQ, request);
}

/* The next completion event: what user space calls its queue; 0 if there is none for a while. */
static uint64_t next_event(int wait)
{
	struct ib_uverbs_comp_event_desc event = {};
	struct pollfd ready = { channel, POLLIN };

	if (poll(&ready, 1, wait) == 1 && read(channel, &event, sizeof(event)) == sizeof(event))
		return event.cq_handle;
	return 0;
}

static void errors_of_posting(void)
{
	struct ib_uverbs_send_wr wr = { .opcode = IB_UVERBS_WR_SEND, .num_sge = 2 };
	struct ibv_sge sge = { (uintptr_t)memory, 8, lkey };
	struct ib_uverbs_post_send bell = { .qp_handle = a.handle, .wqe_size = sizeof(wr) };
	struct ib_uverbs_post_send_resp rung = { 77 };
	struct queue_pair none = { .handle = 0x7ffffff };
	uint32_t bad;

	is("the bell", 0, RUN(POST_SEND, bell, rung));
	verdict("rings for none", rung.bad_wr == 0, false, "bad_wr");
	bell.wr_count = 1;
	is("a request that is missing", ENOSPC, RUN(POST_SEND, bell, rung));
	bell.wr_count = 0;
	bell.wqe_size = 8;
	is("requests that are too short", EINVAL, RUN(POST_SEND, bell, rung));
	is("memory that is missing", EINVAL, post_sends(&a, &wr, 1, &sge, 1, &bad));
	wr.num_sge = 1;
	wr.opcode = IB_UVERBS_WR_BIND_MW;
	is("an operation that cannot be posted so", EINVAL, post_sends(&a, &wr, 1, &sge, 1, &bad));
	is("a queue pair that there is not", ENOENT, post_sends(&none, &wr, 0, &sge, 0, &bad));
	is("a domain is no queue pair", EINVAL, post_sends(&(struct queue_pair){ .handle = pd_handle }, &wr, 0, &sge, 0, &bad));
}

static bool completed(const struct ib_uverbs_wc *wc, uint64_t id, uint32_t opcode, uint32_t length, const struct queue_pair *pair)
{
	return wc->wr_id == id && wc->status == IBV_WC_SUCCESS && wc->opcode == opcode && wc->byte_len == length && wc->qp_num == pair->number;
}

static void ping_pong(void)
{
	struct ib_uverbs_send_wr wr = { .opcode = IB_UVERBS_WR_SEND, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED };
	struct ib_uverbs_wc wc[MANY];
	bool good = true;
	uint32_t bad = 0;

	for (int i = 0; i < 200 && good; i++) {
		const struct queue_pair *from = i % 2 ? &b : &a, *to = i % 2 ? &a : &b;
		struct ibv_sge sge = { (uintptr_t)memory + 32 * SIZE, 200, lkey };

		memset(memory, 0, SIZE);
		memset(memory + 32 * SIZE, i + 1, 200);
		wr.wr_id = i;
		good = !arm(to->cq, false) && !post_recvs(to, 0, 1, 256, &bad) && !post_sends(from, &wr, 1, &sge, 1, &bad) &&
		       next_event(2000) == 0xc0de && poll_raw(to->cq, wc, 1) && completed(wc, 1000, IBV_WC_RECV, 200, to) &&
		       poll_raw(from->cq, wc, 1) && wc->wr_id == (uint64_t)i && wc->status == IBV_WC_SUCCESS && wc->qp_num == from->number &&
		       !memcmp(memory, memory + 32 * SIZE, 200) && memory[200] == 0;
	}
	verdict("a ping-pong of 200 messages, with completion events", good, false, "a message or its completion");
}

static void many_at_once(void)
{
	struct ib_uverbs_send_wr wr[MANY];
	struct ibv_sge sge[MANY];
	struct ib_uverbs_wc wc[MANY];
	uint32_t bad = 1;
	bool good;

	for (uint32_t i = 0; i < MANY; i++) {
		wr[i] = (struct ib_uverbs_send_wr){ .wr_id = i, .opcode = IB_UVERBS_WR_SEND_WITH_IMM, .num_sge = 1,
						     .send_flags = IBV_SEND_SIGNALED, .ex.imm_data = i };
		sge[i] = (struct ibv_sge){ (uintptr_t)memory + 32 * SIZE + i * 256, 100 + i, lkey };
		memset(memory + 32 * SIZE + i * 256, i, 256);
	}
	is("64 requests for receiving at once", 0, post_recvs(&b, 0, MANY, 256, &bad));
	is("64 requests for sending at once", 0, post_sends(&a, wr, MANY, sge, MANY, &bad));
	good = poll_raw(b.cq, wc, MANY);
	for (uint32_t i = 0; i < MANY && good; i++)
		good = completed(&wc[i], 1000 + i, IBV_WC_RECV, 100 + i, &b) && wc[i].wc_flags & IBV_WC_WITH_IMM && wc[i].ex.imm_data == i &&
		       !memcmp(memory + i * 256, memory + 32 * SIZE + i * 256, 100 + i);
	verdict("all arrive, in order, with their immediate data", good, false, "one does not");
	verdict("all are completed", poll_raw(a.cq, wc, MANY) && wc[MANY - 1].wr_id == MANY - 1, false, "one is not");
	bad = 0;
	for (uint32_t i = 0; i < 4 && !bad; i++)
		good = post_recvs(&a, 0, MANY, 256, &bad) == ENOMEM;
	verdict("a receive queue that is full says at which request", good && bad > 0 && bad <= MANY, false, "it does not");
}

static void remote_memory(void)
{
	char *here = memory + 40 * SIZE, *there = memory + 48 * SIZE;
	struct ib_uverbs_send_wr wr = { .wr_id = 1, .opcode = IB_UVERBS_WR_RDMA_WRITE, .num_sge = 2, .send_flags = IBV_SEND_SIGNALED,
					.wr.rdma = { (uintptr_t)there, rkey } };
	struct ibv_sge sge[2] = { { (uintptr_t)here, 1000, lkey }, { (uintptr_t)here + 2000, 1000, lkey } };
	struct ib_uverbs_wc wc;
	uint64_t *word = (uint64_t *)there;
	uint32_t bad;

	memset(here, 1, 1000);
	memset(here + 2000, 2, 1000);
	verdict("RDMA WRITE of two pieces", !post_sends(&a, &wr, 1, sge, 2, &bad) && poll_raw(a.cq, &wc, 1) &&
		completed(&wc, 1, IBV_WC_RDMA_WRITE, wc.byte_len, &a) && there[0] == 1 && there[999] == 1 && there[1000] == 2 && there[1999] == 2 &&
		there[2000] == 0, false, "not what was sent");
	memset(there, 3, 1000);
	wr.opcode = IB_UVERBS_WR_RDMA_READ;
	wr.num_sge = 1;
	verdict("RDMA READ", !post_sends(&a, &wr, 1, sge, 1, &bad) && poll_raw(a.cq, &wc, 1) && wc.status == IBV_WC_SUCCESS && here[0] == 3 &&
		here[999] == 3, false, "not what is there");
	*word = 40;
	wr.opcode = IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD;
	wr.wr.atomic.remote_addr = (uintptr_t)there;
	wr.wr.atomic.compare_add = 2;
	wr.wr.atomic.rkey = rkey;
	sge[0].length = 8;
	verdict("fetch and add", !post_sends(&a, &wr, 1, sge, 1, &bad) && poll_raw(a.cq, &wc, 1) && wc.status == IBV_WC_SUCCESS && *word == 42 &&
		*(uint64_t *)here == 40, false, "not the sum");
	wr.opcode = IB_UVERBS_WR_ATOMIC_CMP_AND_SWP;
	wr.wr.atomic.compare_add = 42;
	wr.wr.atomic.swap = 7;
	verdict("compare and swap", !post_sends(&a, &wr, 1, sge, 1, &bad) && poll_raw(a.cq, &wc, 1) && wc.status == IBV_WC_SUCCESS && *word == 7,
		false, "not swapped");
	wr.opcode = IB_UVERBS_WR_RDMA_WRITE;
	wr.wr.rdma.remote_addr = (uintptr_t)there;
	wr.wr.rdma.rkey = RKEY_BAD;
	verdict("a key that there is not", !post_sends(&a, &wr, 1, sge, 1, &bad) && poll_raw(a.cq, &wc, 1) && wc.status == IBV_WC_REM_ACCESS_ERR &&
		state_of(&a) == IBV_QPS_ERR, false, "no error");
	verdict("it goes without events unread", events_of(&a) == 0, false, "events");
	events_of(&b);
}

static void datagrams(void)
{
	struct ib_uverbs_create_ah create = { .pd_handle = pd_handle, .attr = { .is_global = 1, .port_num = 1, .grh = { .sgid_index = gid_index, .hop_limit = 64 } } };
	WITH_DRIVER(ib_uverbs_create_ah_resp) made;
	struct ib_uverbs_send_wr wr = { .wr_id = 5, .opcode = IB_UVERBS_WR_SEND, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_sge sge = { (uintptr_t)memory + 32 * SIZE, 100, lkey };
	struct ib_uverbs_wc wc;
	uint32_t bad;

	make_qp(&a, IBV_QPT_UD, false);
	make_qp(&b, IBV_QPT_UD, false);
	must("to RTS", climb_raw(&a, &b, true));
	must("to RTS", climb_raw(&b, &a, true));
	create.attr.port_num = 3;
	is("no address handle for a port that there is not", EINVAL,
	   command(IB_USER_VERBS_CMD_CREATE_AH, &create, sizeof(create), &made, sizeof(made.core) + 8));
	create.attr.port_num = 1;
	memcpy(create.attr.grh.dgid, &gid, 16);
	is("an address handle", 0, command(IB_USER_VERBS_CMD_CREATE_AH, &create, sizeof(create), &made, sizeof(made.core) + 8));
	wr.wr.ud.ah = made.core.ah_handle;
	wr.wr.ud.remote_qpn = b.number;
	wr.wr.ud.remote_qkey = QKEY;
	memset(memory + 32 * SIZE, 9, 100);
	verdict("a datagram", !post_recvs(&b, 0, 1, 256, &bad) && !post_sends(&a, &wr, 1, &sge, 1, &bad) && poll_raw(b.cq, &wc, 1) &&
		completed(&wc, 1000, IBV_WC_RECV, 140, &b) && wc.src_qp == a.number && wc.wc_flags & IBV_WC_GRH &&
		!memcmp(memory + 40, memory + 32 * SIZE, 100) && poll_raw(a.cq, &wc, 1), false, "it has not arrived");
	wr.wr.ud.ah = pd_handle;
	is("a domain is no address handle", EINVAL, post_sends(&a, &wr, 1, &sge, 1, &bad));
	is("it goes", 0, DO(DESTROY_AH, ((struct ib_uverbs_destroy_ah){ made.core.ah_handle })));
	events_of(&a);
	events_of(&b);
}

/* A limit that a shared queue is given; one that was made by the extended command. */
static void changed_queue(uint32_t handle)
{
	struct { struct ib_uverbs_modify_srq core; uint64_t driver; } modify = {
		.core = { .srq_handle = handle, .attr_mask = IBV_SRQ_LIMIT, .srq_limit = 7 },
	};
	struct ib_uverbs_query_srq query = { .srq_handle = handle };
	struct ib_uverbs_query_srq_resp attributes = {};
	struct ib_uverbs_create_xsrq create = { .srq_type = IB_UVERBS_SRQT_BASIC, .pd_handle = pd_handle, .max_wr = 20, .max_sge = 3 };
	WITH_DRIVER(ib_uverbs_create_srq_resp) made;
	struct ib_uverbs_destroy_srq destroy = {};
	struct ib_uverbs_destroy_srq_resp gone;

	is("a limit for it", 0, DO(MODIFY_SRQ, modify));
	verdict("which it has", !RUN(QUERY_SRQ, query, attributes) && attributes.srq_limit == 7, false, "another");
	modify.core.srq_limit = 100000;
	verdict("but none beyond its size", DO(MODIFY_SRQ, modify) == EINVAL && !RUN(QUERY_SRQ, query, attributes) && attributes.srq_limit == 7,
		false, "taken");
	modify.core.srq_handle = 0xfff0;
	is("no queue is changed that there is not", ENOENT, DO(MODIFY_SRQ, modify));
	is("a queue by CREATE_XSRQ", 0, command(IB_USER_VERBS_CMD_CREATE_XSRQ, &create, sizeof(create), &made, sizeof(made.core) + 24));
	query.srq_handle = destroy.srq_handle = made.core.srq_handle;
	verdict("is as was asked for", !RUN(QUERY_SRQ, query, attributes) && attributes.max_wr >= 20 && attributes.max_sge == 3, false, "response");
	is("and goes", 0, RUN(DESTROY_SRQ, destroy, gone));
	is("no more than once", ENOENT, RUN(DESTROY_SRQ, destroy, gone));
}

/* What is the driver's in a command: too short it is refused; what is more than anybody knows is zeros, in a request and in a response. */
static void driver_data(uint32_t handle)
{
	struct { struct ib_uverbs_modify_srq core; uint8_t driver[24]; } modify = {
		.core = { .srq_handle = handle, .attr_mask = IBV_SRQ_LIMIT, .srq_limit = 3 },
	};
	struct ib_uverbs_create_cq create = { .cqe = 10, .comp_channel = -1 };
	WITH_DRIVER(ib_uverbs_create_cq_resp) made;
	struct ib_uverbs_ex_query_device query = {};
	struct { struct ib_uverbs_ex_query_device_resp known; uint8_t more[64]; } extended;
	size_t core = sizeof(modify.core), zeros = 0;

	is("a request without the driver's data", EINVAL, command(IB_USER_VERBS_CMD_MODIFY_SRQ, &modify, core, NULL, 0));
	is("with less of it", EINVAL, command(IB_USER_VERBS_CMD_MODIFY_SRQ, &modify, core + 4, NULL, 0));
	is("with more zeros", 0, command(IB_USER_VERBS_CMD_MODIFY_SRQ, &modify, core + 24, NULL, 0));
	modify.driver[20] = 1;
	is("with more that says something", EOPNOTSUPP, command(IB_USER_VERBS_CMD_MODIFY_SRQ, &modify, core + 24, NULL, 0));
	is("no room for the driver's response", EINVAL, command(IB_USER_VERBS_CMD_CREATE_CQ, &create, sizeof(create), &made, sizeof(made.core)));
	is("too little", EINVAL, command(IB_USER_VERBS_CMD_CREATE_CQ, &create, sizeof(create), &made, sizeof(made.core) + 8));
	memset(&extended, 0xff, sizeof(extended));
	is("more room than the response takes", 0,
	   raw_write_ex(fd, IB_USER_VERBS_EX_CMD_QUERY_DEVICE, &query, sizeof(query), &extended, sizeof(extended)));
	for (size_t i = 0; i < sizeof(extended.more); i++)
		zeros += !extended.more[i];
	verdict("is filled with zeros", zeros == sizeof(extended.more) && extended.known.response_length == sizeof(extended.known), false, "it is not");
}

static void shared_queue(bool data)
{
	struct ib_uverbs_create_srq create = { .pd_handle = pd_handle, .max_wr = 50, .max_sge = 2 };
	WITH_DRIVER(ib_uverbs_create_srq_resp) made;
	struct ib_uverbs_query_srq query = {};
	struct ib_uverbs_query_srq_resp attributes;
	struct ib_uverbs_destroy_srq destroy = {};
	struct ib_uverbs_destroy_srq_resp gone;
	struct ib_uverbs_send_wr wr = { .wr_id = 6, .opcode = IB_UVERBS_WR_SEND, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_sge sge = { (uintptr_t)memory + 32 * SIZE, 100, lkey };
	struct ib_uverbs_wc wc;
	uint32_t bad;

	is("a shared receive queue", 0, command(IB_USER_VERBS_CMD_CREATE_SRQ, &create, sizeof(create), &made, sizeof(made.core) + 24));
	srq = query.srq_handle = destroy.srq_handle = made.core.srq_handle;
	is("what it is like", 0, RUN(QUERY_SRQ, query, attributes));
	verdict("as was asked for", attributes.max_wr >= 50 && attributes.max_sge == 2, false, "response");
	if (data) {
		changed_queue(srq);
		driver_data(srq);
	}
	make_qp(&a, IBV_QPT_RC, false);
	make_qp(&b, IBV_QPT_RC, true);
	is("while a queue pair uses it, it stays", EBUSY, RUN(DESTROY_SRQ, destroy, gone));
	if (data) {
		must("to RTS", climb_raw(&a, &b, false));
		must("to RTS", climb_raw(&b, &a, false));
		is("no requests of its own for such a queue pair", EINVAL, post_recvs(&b, 0, 1, 256, &bad));
		memset(memory + 32 * SIZE, 4, 100);
		verdict("a message to the shared queue", !post_recvs(NULL, 5, 3, 256, &bad) && !post_sends(&a, &wr, 1, &sge, 1, &bad) &&
			poll_raw(b.cq, &wc, 1) && completed(&wc, 1005, IBV_WC_RECV, 100, &b) && !memcmp(memory + 5 * 256, memory + 32 * SIZE, 100) &&
			poll_raw(a.cq, &wc, 1), false, "it has not arrived");
	}
	events_of(&a);
	events_of(&b);
	is("then it goes", 0, RUN(DESTROY_SRQ, destroy, gone));
}

/* What one process has, another has not: the same handles mean nothing in a file of one's own. */
static void others(const char *device)
{
	struct ib_uverbs_get_context get = {};
	struct ib_uverbs_get_context_resp got;
	struct ib_uverbs_dealloc_pd dealloc = { pd_handle };
	struct ib_uverbs_create_cq create = { .cqe = 10, .comp_channel = channel };
	WITH_DRIVER(ib_uverbs_create_cq_resp) made;
	int mine = fd;

	fd = raw_open(device);
	must("another context", RUN(GET_CONTEXT, get, got));
	is("handles of another file", ENOENT, DO(DEALLOC_PD, dealloc));
	is("a completion channel of another file", EBADF, command(IB_USER_VERBS_CMD_CREATE_CQ, &create, sizeof(create), &made, sizeof(made.core) + 16));
	close(got.async_fd);
	close(fd);
	fd = mine;
}

static void the_end(void)
{
	struct ib_uverbs_destroy_cq destroy = { .cq_handle = b.cq };
	struct ib_uverbs_destroy_cq_resp gone = {};
	struct ib_uverbs_dereg_mr dereg = { mr_handle };
	struct ib_uverbs_dealloc_pd dealloc = { pd_handle };

	is("a completion queue goes", 0, RUN(DESTROY_CQ, destroy, gone));
	destroy.cq_handle = a.cq;
	is("the other one, too", 0, RUN(DESTROY_CQ, destroy, gone));
	is("the region goes", 0, DO(DEREG_MR, dereg));
	is("the domain goes", 0, DO(DEALLOC_PD, dealloc));
}

int main(int argc, char **argv)
{
	bool data = argc > 3;
	uint32_t bad;

	open_device(argc, argv);
	absent = mmap(NULL, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	context_and_queries(argv[1]);
	headers();
	of_richer_devices(data);
	base_objects();
	queues();
	queue_pairs();
	groups();
	errors_of_posting();
	is("arm a queue", 0, arm(a.cq, false));
	if (data) {
		ping_pong();
		many_at_once();
		verdict("one command polls several completions", most_polled > 1, false, "one by one");
		remote_memory();
		datagrams();
	} else {
		post_recvs(&a, 0, 0, 0, &bad);
		events_of(&a);
		events_of(&b);
	}
	shared_queue(data);
	others(argv[1]);
	the_end();
	return all_done();
}
