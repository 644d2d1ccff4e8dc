// SPDX-License-Identifier: GPL-2.0
/*
 * Methods of user space that no software driver has, and those that libibverbs does not call, on the device of fake_verbs
 * (../modules/fake_verbs.c), with each allocation of the kernel failing in turn (faults.h).
 *
 *	faults_fake NODE
 */
#include "faults.h"
#include "uverbs.h"
#include <sys/mman.h>

#define EX(command) (IB_USER_VERBS_EX_CMD_##command | IB_USER_VERBS_CMD_FLAG_EXTENDED)
enum { ALLOC_DMAH_HANDLE, ALLOC_DMAH_CPU, ALLOC_DMAH_MEMORY, ALLOC_DMAH_HINT };
enum { METHOD_ACTION_CREATE = 0x1000, ACTION_HANDLE = 0x1000, ACTION_ANSWER };

static uint32_t pd, cq, xrcd, srq, qp, wq, table, dm, mr, dmah, counters, action, flow, values[16];
static int channel, async, dmabuf;

/* Queues
 * ------------------------------------------------------------------------------------------------------------------ */

static int make_channel(void)
{
	struct ib_uverbs_create_comp_channel request = { 0 };
	struct ib_uverbs_create_comp_channel_resp response = { 0 };
	int error = invoke(IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, &request, sizeof(request), &response, sizeof(response));

	channel = response.fd;
	return error;
}
static void channel_gone(void) { close(channel); }
static int make_async(void)
{
	struct ib_uverbs_attr attrs[] = { handle(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, 0) };
	int error = CALL(UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC, attrs);

	async = attrs[0].data;
	return error;
}
static void async_gone(void) { close(async); }
static int make_pd(void)
{
	struct ib_uverbs_alloc_pd request = { 0 };
	struct ib_uverbs_alloc_pd_resp response = { 0 };
	int error = invoke(IB_USER_VERBS_CMD_ALLOC_PD, &request, sizeof(request), &response, sizeof(response));

	values[0] = response.pd_handle;
	return error;
}
static void pd_gone(void) { destroy_pd(values[0]); }
static int make_cq_of(const struct ib_uverbs_attr *more, size_t count)
{
	struct ib_uverbs_attr attrs[MAX_ATTRS] = {
		handle(UVERBS_ATTR_CREATE_CQ_HANDLE, 0), u32_in(UVERBS_ATTR_CREATE_CQ_CQE, 10),
		u64_in(UVERBS_ATTR_CREATE_CQ_USER_HANDLE, 1), u32_in(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, 1),
		data_out(UVERBS_ATTR_CREATE_CQ_RESP_CQE, values, 4),
	};
	int error;

	memcpy(attrs + 5, more, count * sizeof(*more));
	error = call(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE, attrs, 5 + count);
	cq = attrs[0].data;
	return error;
}
static int make_cq(void) { return make_cq_of(NULL, 0); }
static int make_cq_with_files(void)
{
	struct ib_uverbs_attr files[] = {
		handle(UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, channel), handle(UVERBS_ATTR_CREATE_CQ_EVENT_FD, async),
	};

	return make_cq_of(files, 2);
}
static int counted(uint16_t object, uint16_t method, uint32_t id, int numbers)
{
	struct ib_uverbs_attr attrs[] = { handle(0, id), data_out(1, values + 1, numbers * 4) };

	return CALL(object, method, attrs);
}
static void cq_gone(void) { counted(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY, cq, 2); }
static int files(void) { return make_channel() ?: make_async(); }
static void files_gone(void) { channel_gone(); async_gone(); }

static int open_xrcd(void)
{
	struct ib_uverbs_open_xrcd request = { .fd = -1, .oflags = O_CREAT };
	struct ib_uverbs_open_xrcd_resp response = { 0 };
	int error = invoke(IB_USER_VERBS_CMD_OPEN_XRCD, &request, sizeof(request), &response, sizeof(response));

	xrcd = response.xrcd_handle;
	return error;
}
static void xrcd_gone(void) { destroy(UVERBS_OBJECT_XRCD, UVERBS_METHOD_XRCD_DESTROY, xrcd); }
/* Of a file: the domain is found by its inode. */
static int open_xrcd_of_file(void)
{
	struct ib_uverbs_open_xrcd request = { .fd = fail_nth, .oflags = O_CREAT };
	struct ib_uverbs_open_xrcd_resp response = { 0 };
	int error = invoke(IB_USER_VERBS_CMD_OPEN_XRCD, &request, sizeof(request), &response, sizeof(response));

	xrcd = response.xrcd_handle;
	return error;
}

static int make_srq(uint64_t type, const struct ib_uverbs_attr *more, size_t count)
{
	struct ib_uverbs_attr attrs[MAX_ATTRS] = {
		handle(UVERBS_ATTR_CREATE_SRQ_HANDLE, 0), handle(UVERBS_ATTR_CREATE_SRQ_PD_HANDLE, pd),
		u64_in(UVERBS_ATTR_CREATE_SRQ_TYPE, type), u64_in(UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, 0x5109),
		u32_in(UVERBS_ATTR_CREATE_SRQ_MAX_WR, 9), u32_in(UVERBS_ATTR_CREATE_SRQ_MAX_SGE, 2),
		u32_in(UVERBS_ATTR_CREATE_SRQ_LIMIT, 0), data_out(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, values, 4),
		data_out(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, values + 1, 4),
	};
	int error;

	memcpy(attrs + 9, more, count * sizeof(*more));
	error = call(UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_CREATE, attrs, 9 + count);
	srq = attrs[0].data;
	return error;
}
static int make_srq_xrc(void)
{
	struct ib_uverbs_attr more[] = {
		handle(UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE, cq), handle(UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE, xrcd),
		data_out(UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, values + 2, 4),
	};

	return make_srq(IB_UVERBS_SRQT_XRC, more, 3);
}
static int make_srq_tags(void)
{
	struct ib_uverbs_attr more[] = {
		handle(UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE, cq), u32_in(UVERBS_ATTR_CREATE_SRQ_MAX_NUM_TAGS, 30),
	};

	return make_srq(IB_UVERBS_SRQT_TM, more, 2);
}
static int make_srq_basic(void) { return make_srq(IB_UVERBS_SRQT_BASIC, NULL, 0); }
static void srq_gone(void) { counted(UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_DESTROY, srq, 1); }
static int domain(void) { return make_cq() ?: open_xrcd(); }
static void domain_gone(void) { xrcd_gone(); cq_gone(); }

static int make_qp(uint64_t type, const struct ib_uverbs_attr *more, size_t count)
{
	struct ib_uverbs_qp_cap cap = { 5, 0, 1, 0, 0 };
	struct ib_uverbs_attr attrs[MAX_ATTRS] = {
		handle(UVERBS_ATTR_CREATE_QP_HANDLE, 0), u64_in(UVERBS_ATTR_CREATE_QP_TYPE, type),
		data_in(UVERBS_ATTR_CREATE_QP_CAP, &cap, sizeof(cap)), u64_in(UVERBS_ATTR_CREATE_QP_USER_HANDLE, 0x9b),
		data_out(UVERBS_ATTR_CREATE_QP_RESP_CAP, &cap, sizeof(cap)), data_out(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, values, 4),
	};
	int error;

	memcpy(attrs + 6, more, count * sizeof(*more));
	error = call(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE, attrs, 6 + count);
	qp = attrs[0].data;
	return error;
}
static int make_target(void)
{
	struct ib_uverbs_attr more[] = { handle(UVERBS_ATTR_CREATE_QP_XRCD_HANDLE, xrcd) };

	return make_qp(IB_UVERBS_QPT_XRC_TGT, more, 1);
}
static int make_ud_with_file(void)
{
	struct ib_uverbs_attr more[] = {
		handle(UVERBS_ATTR_CREATE_QP_PD_HANDLE, pd), handle(UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, cq),
		handle(UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, cq), handle(UVERBS_ATTR_CREATE_QP_EVENT_FD, async),
	};

	return make_qp(IB_UVERBS_QPT_UD, more, 4);
}
static int make_ud(void)
{
	struct ib_uverbs_attr more[] = {
		handle(UVERBS_ATTR_CREATE_QP_PD_HANDLE, pd), handle(UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, cq),
		handle(UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, cq),
	};

	return make_qp(IB_UVERBS_QPT_UD, more, 3);
}
static void qp_gone(void) { counted(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY, qp, 1); }
/* It reports an event, whose record may be what could not be allocated. */
static int modify_qp(void)
{
	struct ib_uverbs_modify_qp request = { .qp_handle = qp, .attr_mask = 1, .qp_state = 1 };

	return invoke(IB_USER_VERBS_CMD_MODIFY_QP, &request, sizeof(request), NULL, 0);
}
static int arm_cq(void)
{
	struct ib_uverbs_req_notify_cq request = { cq, 1 };

	return invoke(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, &request, sizeof(request), NULL, 0);
}
static int modify_srq(void)
{
	struct ib_uverbs_modify_srq request = { .srq_handle = srq, .srq_limit = 1, .attr_mask = 2 };

	return invoke(IB_USER_VERBS_CMD_MODIFY_SRQ, &request, sizeof(request), NULL, 0);
}
static int cq_with_files(void) { return files() ?: make_cq_with_files(); }
static void cq_with_files_gone(void) { cq_gone(); files_gone(); }
static int ud_with_file(void) { return cq_with_files() ?: make_ud_with_file(); }
static void ud_with_file_gone(void) { qp_gone(); cq_with_files_gone(); }

static int make_wq(void)
{
	struct ib_uverbs_attr attrs[] = {
		handle(UVERBS_ATTR_CREATE_WQ_HANDLE, 0), handle(UVERBS_ATTR_CREATE_WQ_PD_HANDLE, pd),
		handle(UVERBS_ATTR_CREATE_WQ_CQ_HANDLE, cq), u64_in(UVERBS_ATTR_CREATE_WQ_USER_HANDLE, 0x39),
		u64_in(UVERBS_ATTR_CREATE_WQ_TYPE, 0), u32_in(UVERBS_ATTR_CREATE_WQ_MAX_WR, 8),
		u32_in(UVERBS_ATTR_CREATE_WQ_MAX_SGE, 3), u32_in(UVERBS_ATTR_CREATE_WQ_FLAGS, 0),
		data_out(UVERBS_ATTR_CREATE_WQ_RESP_MAX_WR, values, 4), data_out(UVERBS_ATTR_CREATE_WQ_RESP_MAX_SGE, values + 1, 4),
		data_out(UVERBS_ATTR_CREATE_WQ_RESP_WQ_NUM, values + 2, 4),
	};
	int error = CALL(UVERBS_OBJECT_WQ, UVERBS_METHOD_WQ_CREATE, attrs);

	wq = attrs[0].data;
	return error;
}
static void wq_gone(void) { counted(UVERBS_OBJECT_WQ, UVERBS_METHOD_WQ_DESTROY, wq, 1); }
static int wq_and_cq(void) { return make_cq() ?: make_wq(); }
static void wq_and_cq_gone(void) { wq_gone(); cq_gone(); }
static int modify_wq(void)
{
	struct ib_uverbs_ex_modify_wq request = { .attr_mask = 1, .wq_state = 1, .wq_handle = wq };

	return invoke(EX(MODIFY_WQ), &request, sizeof(request), NULL, 0);
}
static int make_table(void)
{
	struct { struct ib_uverbs_ex_create_rwq_ind_table head; uint32_t wqs[2]; } request = { { 0, 1 }, { wq, wq } };
	struct ib_uverbs_ex_create_rwq_ind_table_resp response = { 0 };
	int error = invoke(EX(CREATE_RWQ_IND_TBL), &request, sizeof(request), &response, sizeof(response));

	table = response.ind_tbl_handle;
	return error;
}
static void table_gone(void) { destroy(UVERBS_OBJECT_RWQ_IND_TBL, UVERBS_METHOD_RWQ_IND_TBL_DESTROY, table); }

/* Memory
 * ------------------------------------------------------------------------------------------------------------------ */

static int make_dm(void)
{
	struct ib_uverbs_attr attrs[] = {
		handle(UVERBS_ATTR_ALLOC_DM_HANDLE, 0), u64_in(UVERBS_ATTR_ALLOC_DM_LENGTH, 100),
		u32_in(UVERBS_ATTR_ALLOC_DM_ALIGNMENT, 6),
	};
	int error = CALL(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC, attrs);

	dm = attrs[0].data;
	return error;
}
static void dm_gone(void) { destroy(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE, dm); }
static int reg_dm(void)
{
	struct ib_uverbs_attr attrs[] = {
		handle(UVERBS_ATTR_REG_DM_MR_HANDLE, 0), handle(UVERBS_ATTR_REG_DM_MR_PD_HANDLE, pd),
		handle(UVERBS_ATTR_REG_DM_MR_DM_HANDLE, dm), u64_in(UVERBS_ATTR_REG_DM_MR_OFFSET, 0),
		u64_in(UVERBS_ATTR_REG_DM_MR_LENGTH, 100), u32_in(UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS, IB_UVERBS_ACCESS_ZERO_BASED),
		data_out(UVERBS_ATTR_REG_DM_MR_RESP_LKEY, values, 4), data_out(UVERBS_ATTR_REG_DM_MR_RESP_RKEY, values + 1, 4),
	};
	int error = CALL(UVERBS_OBJECT_MR, UVERBS_METHOD_DM_MR_REG, attrs);

	mr = attrs[0].data;
	return error;
}
static void mr_gone(void) { destroy(UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, mr); }
static int make_dmah(void)
{
	uint8_t hint = 2;
	struct ib_uverbs_attr attrs[] = {
		handle(ALLOC_DMAH_HANDLE, 0), u32_in(ALLOC_DMAH_CPU, 0),
		{ .attr_id = ALLOC_DMAH_MEMORY, .flags = UVERBS_ATTR_F_MANDATORY, .attr_data.enum_data.elem_id = 1 },
		data_in(ALLOC_DMAH_HINT, &hint, 1),
	};
	int error = CALL(OBJECT_DMAH, 0, attrs);

	dmah = attrs[0].data;
	return error;
}
static void dmah_gone(void) { destroy(OBJECT_DMAH, 1, dmah); }
static int make_mr(void)
{
	const struct ib_uverbs_attr source[] = { u64_in(REG_MR_ADDR, 0x3010) };

	return reg_mr(pd, source, 1, 0x7010, &mr, values);
}
static int make_mr_with_hints(void)
{
	const struct ib_uverbs_attr source[] = { u64_in(REG_MR_ADDR, 0x3010), handle(REG_MR_DMAH, dmah) };

	return reg_mr(pd, source, 2, 0x7010, &mr, values);
}
static int another_mr(void) { return rereg_mr(mr, REREG_PLACE, pd, values); }
static int make_dmabuf(void)
{
	struct ib_uverbs_attr attrs[] = { handle(0, 0), u64_in(1, 0) };
	int error = CALL(OBJECT_DMABUF, 0, attrs);

	dmabuf = attrs[0].data;
	return error;
}
static void dmabuf_gone(void) { close(dmabuf); }

/* Flows
 * ------------------------------------------------------------------------------------------------------------------ */

static int make_action(void)
{
	struct ib_uverbs_attr attrs[] = { handle(ACTION_HANDLE, 0), data_out(ACTION_ANSWER, values, 4) };
	int error = CALL(UVERBS_OBJECT_FLOW_ACTION, METHOD_ACTION_CREATE, attrs);

	action = attrs[0].data;
	return error;
}
static void action_gone(void) { destroy(UVERBS_OBJECT_FLOW_ACTION, UVERBS_METHOD_FLOW_ACTION_DESTROY, action); }
static int make_counters(void)
{
	struct ib_uverbs_attr attrs[] = { handle(UVERBS_ATTR_CREATE_COUNTERS_HANDLE, 0) };
	int error = CALL(UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_CREATE, attrs);

	counters = attrs[0].data;
	return error;
}
static void counters_gone(void) { destroy(UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_DESTROY, counters); }
static int make_flow(void)
{
	struct __attribute__((packed)) {
		struct ib_uverbs_create_flow head;
		struct ib_uverbs_flow_spec_action_count count;
		struct ib_uverbs_flow_spec_action_handle action;
	} request = {
		.head = { .qp_handle = qp,
			  .flow_attr = { .size = sizeof(request.count) + sizeof(request.action), .num_of_specs = 2, .port = 1 } },
		.count = { .type = 0x1003, .size = sizeof(request.count), .handle = counters },
		.action = { .type = 0x1002, .size = sizeof(request.action), .handle = action },
	};
	struct ib_uverbs_create_flow_resp response = { 0 };
	int error = invoke(EX(CREATE_FLOW), &request, sizeof(request), &response, sizeof(response));

	flow = response.flow_handle;
	return error;
}
static void flow_gone(void) { destroy(UVERBS_OBJECT_FLOW, UVERBS_METHOD_FLOW_DESTROY, flow); }
static int parts(void) { return make_cq() ?: make_ud() ?: make_action() ?: make_counters(); }
static void parts_gone(void) { counters_gone(); action_gone(); qp_gone(); cq_gone(); }
static int flow_and_parts(void) { return parts() ?: make_flow(); }
static void flow_and_parts_gone(void) { flow_gone(); parts_gone(); }
static int read_counters(void)
{
	uint64_t read[4];
	struct ib_uverbs_attr attrs[] = {
		handle(UVERBS_ATTR_READ_COUNTERS_HANDLE, counters), data_out(UVERBS_ATTR_READ_COUNTERS_BUFF, read, sizeof(read)),
		u32_in(UVERBS_ATTR_READ_COUNTERS_FLAGS, IB_UVERBS_READ_COUNTERS_PREFER_CACHED),
	};

	return CALL(UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_READ, attrs);
}

/* Closing takes all objects along, however many there are. */
static const char *path;
static int second(void)
{
	int first = node, error;

	node = open(path, O_RDWR | O_CLOEXEC);
	if (node < 0) {
		node = first;
		return errno;
	}
	values[15] = node;
	error = 0;
	{
		uint64_t support;
		struct ib_uverbs_attr attrs[] = {
			data_out(UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, values, 4),
			data_out(UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, &support, sizeof(support)),
		};

		error = CALL(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT, attrs) ?: make_pd() ?: make_cq() ?: make_dm();
	}
	if (error)
		close(node);
	node = first;
	return error;
}
static int close_second(void) { return close(values[15]) ? errno : 0; }
static void second_gone(void) { close_second(); }

static const struct call calls[] = {
	{ "open a device with objects", NULL, second, second_gone },
	{ "close a device with objects", second, close_second },
	{ "PD", NULL, make_pd, pd_gone },
	{ "completion channel", NULL, make_channel, channel_gone },
	{ "file of events", NULL, make_async, async_gone },
	{ "CQ", NULL, make_cq, cq_gone },
	{ "CQ with files", files, make_cq_with_files, cq_gone, files_gone },
	{ "CQ, armed: two events", cq_with_files, arm_cq, NULL, cq_with_files_gone },
	{ "XRC domain", NULL, open_xrcd, xrcd_gone },
	{ "XRC domain of a file", NULL, open_xrcd_of_file, xrcd_gone },
	{ "SRQ", NULL, make_srq_basic, srq_gone },
	{ "SRQ, modified: an event", make_srq_basic, modify_srq, NULL, srq_gone },
	{ "XRC SRQ", domain, make_srq_xrc, srq_gone, domain_gone },
	{ "SRQ with tags", domain, make_srq_tags, srq_gone, domain_gone },
	{ "XRC target QP", domain, make_target, qp_gone, domain_gone },
	{ "UD QP with a file", cq_with_files, make_ud_with_file, qp_gone, cq_with_files_gone },
	{ "UD QP, modified: an event", ud_with_file, modify_qp, NULL, ud_with_file_gone },
	{ "WQ", make_cq, make_wq, wq_gone, cq_gone },
	{ "WQ, modified: an event", wq_and_cq, modify_wq, NULL, wq_and_cq_gone },
	{ "table of WQs", wq_and_cq, make_table, table_gone, wq_and_cq_gone },
	{ "device memory", NULL, make_dm, dm_gone },
	{ "MR of device memory", make_dm, reg_dm, mr_gone, dm_gone },
	{ "DMA hints", NULL, make_dmah, dmah_gone },
	{ "MR with hints", make_dmah, make_mr_with_hints, mr_gone, dmah_gone },
	{ "MR, another in its place", make_mr, another_mr, NULL, mr_gone },
	{ "DMA buffer", NULL, make_dmabuf, dmabuf_gone },
	{ "flow action", NULL, make_action, action_gone },
	{ "counters", NULL, make_counters, counters_gone },
	{ "flow", parts, make_flow, flow_gone, parts_gone },
	{ "counters, read", flow_and_parts, read_counters, NULL, flow_and_parts_gone },
};

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	path = argv[1];
	faults_init();
	nldev_open();
	open_context(path);
	pd = alloc_pd();
	mlockall(MCL_CURRENT | MCL_FUTURE);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		each_allocation(&calls[i]);
	faults_done();
	return all_done();
}
