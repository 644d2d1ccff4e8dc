// SPDX-License-Identifier: GPL-2.0
/*
 * The ioctl methods of objects, attribute by attribute, as a program sends them that knows no library: what they answer to what
 * is right, and with which errno to what is wrong.
 *
 *   uverbs_ioctl NODE GID_INDEX ours|stock
 */
#include "uverbs.h"
#include <linux/capability.h>
#include <sys/syscall.h>

/* The ib_uverbs is ours. */
static bool is_ours, has_our_driver;

/* Completion queues
 * ------------------------------------------------------------------------------------------------------------------ */

/* The attributes of a good one; a case changes one of them. */
static uint32_t cq_room;
static char cq_udata[64];
enum { CQ_HANDLE, CQ_CQE, CQ_USER, CQ_VECTOR, CQ_RESP, CQ_UHW, CQ_COUNT };
#define GOOD_CQ { \
	handle(UVERBS_ATTR_CREATE_CQ_HANDLE, 0), u32_in(UVERBS_ATTR_CREATE_CQ_CQE, 10), \
	u64_in(UVERBS_ATTR_CREATE_CQ_USER_HANDLE, 0x1122334455667788), u32_in(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, 0), \
	data_out(UVERBS_ATTR_CREATE_CQ_RESP_CQE, &cq_room, sizeof(cq_room)), \
	data_out(UVERBS_ATTR_UHW_OUT, cq_udata, sizeof(cq_udata)), { 0 } }

static int create_cq(struct ib_uverbs_attr *attrs, size_t count)
{
	return call(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE, attrs, count);
}

static uint32_t good_cq(void)
{
	struct ib_uverbs_attr attrs[] = GOOD_CQ;
	int error = create_cq(attrs, CQ_COUNT);

	if (error)
		die("create a completion queue", error);
	return attrs[CQ_HANDLE].data;
}

static int destroy_cq(uint32_t cq, struct ib_uverbs_destroy_cq_resp *response, size_t size)
{
	struct ib_uverbs_attr attrs[] = {
		handle(UVERBS_ATTR_DESTROY_CQ_HANDLE, cq), data_out(UVERBS_ATTR_DESTROY_CQ_RESP, response, size),
	};

	return CALL(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY, attrs);
}

static int remove_cq(uint32_t cq)
{
	struct ib_uverbs_destroy_cq_resp response;

	return destroy_cq(cq, &response, sizeof(response));
}

static void bad_cq(const char *name, int wanted, int which, struct ib_uverbs_attr attr)
{
	struct ib_uverbs_attr attrs[] = GOOD_CQ;

	attrs[which] = attr;
	expect(name, wanted, create_cq(attrs, which == CQ_COUNT ? CQ_COUNT + 1 : CQ_COUNT));
}

static void completion_queues(void)
{
	struct ib_uverbs_attr attrs[] = GOOD_CQ;
	struct ib_uverbs_destroy_cq_resp counts = { 77, 77 };
	int channel = open_channel(), pipes[2];
	uint32_t cq, pd = alloc_pd();

	if (pipe(pipes))
		die("pipe", errno);
	bad_cq("CQ: no room", EINVAL, CQ_CQE, u32_in(UVERBS_ATTR_CREATE_CQ_CQE, 0));
	bad_cq("CQ: a length that is wrong", EINVAL, CQ_CQE, u64_in(UVERBS_ATTR_CREATE_CQ_CQE, 10));
	bad_cq("CQ: a vector that there is not", EINVAL, CQ_VECTOR, u32_in(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, 100000));
	bad_cq("CQ: a flag that there is not", EINVAL, CQ_COUNT, u32_in(UVERBS_ATTR_CREATE_CQ_FLAGS, 1 << 30));
	bad_cq("CQ: a flag beyond 32 bits", EINVAL, CQ_COUNT, u64_in(UVERBS_ATTR_CREATE_CQ_FLAGS, 1ULL << 40));
	bad_cq("CQ: with timestamps", EOPNOTSUPP, CQ_COUNT, u64_in(UVERBS_ATTR_CREATE_CQ_FLAGS, IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION));
	bad_cq("CQ: that ignores an overrun", EOPNOTSUPP, CQ_COUNT, u64_in(UVERBS_ATTR_CREATE_CQ_FLAGS, IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN));
	bad_cq("CQ: a channel that is none", EBADF, CQ_COUNT, handle(UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, pipes[0]));
	bad_cq("CQ: a channel that is not open", EBADF, CQ_COUNT, handle(UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, 999));
	bad_cq("CQ: an event file that is a channel", EBADF, CQ_COUNT, handle(UVERBS_ATTR_CREATE_CQ_EVENT_FD, channel));
	bad_cq("CQ: the same attribute twice", EINVAL, CQ_COUNT, u32_in(UVERBS_ATTR_CREATE_CQ_CQE, 10));
	bad_cq("CQ: an attribute that nobody knows", EPROTONOSUPPORT, CQ_COUNT, u32_in(31, 0));
	bad_cq("CQ: no response wanted", EINVAL, CQ_RESP, u32_in(UVERBS_ATTR_CREATE_CQ_FLAGS, 0));
	bad_cq("CQ: a response to nowhere", EFAULT, CQ_RESP, data_out(UVERBS_ATTR_CREATE_CQ_RESP_CQE, (void *)8, 4));

	attrs[CQ_COUNT] = handle(UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, channel);
	expect("CQ: a good one with a channel", 0, create_cq(attrs, CQ_COUNT + 1));
	verdict("CQ: as much room as was asked for", cq_room >= 10, "less");
	verdict("CQ: the response is marked", attrs[CQ_RESP].flags & UVERBS_ATTR_F_VALID_OUTPUT, "it is not");
	cq = attrs[CQ_HANDLE].data;
	close(channel);

	expect("CQ: a handle that there is not", ENOENT, remove_cq(UNKNOWN_HANDLE));
	expect("CQ: the handle of a protection domain", EINVAL, remove_cq(pd));
	expect("CQ: a response that is too short", EINVAL, destroy_cq(cq, &counts, 4));
	expect("CQ: destroyed", 0, destroy_cq(cq, &counts, sizeof(counts)));
	verdict("CQ: no events were read", !counts.comp_events_reported && !counts.async_events_reported, "some were");
	expect("CQ: destroyed once", ENOENT, remove_cq(cq));
	verdict("CQ: the lowest handle is used again", good_cq() == cq, "another one");
	remove_cq(cq);
	destroy_pd(pd);
	close(pipes[0]);
	close(pipes[1]);
}

/* Shared receive queues
 * ------------------------------------------------------------------------------------------------------------------ */

static uint32_t srq_wr, srq_sge;
static char srq_udata[64];
enum { SRQ_HANDLE, SRQ_PD, SRQ_TYPE, SRQ_COUNT = 10 };

static int create_srq(uint32_t pd, uint64_t type, uint32_t *srq, struct ib_uverbs_attr *more, size_t count)
{
	struct ib_uverbs_attr attrs[MAX_ATTRS] = {
		handle(UVERBS_ATTR_CREATE_SRQ_HANDLE, 0), handle(UVERBS_ATTR_CREATE_SRQ_PD_HANDLE, pd),
		u64_in(UVERBS_ATTR_CREATE_SRQ_TYPE, type), u64_in(UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, 1),
		u32_in(UVERBS_ATTR_CREATE_SRQ_MAX_WR, 9), u32_in(UVERBS_ATTR_CREATE_SRQ_MAX_SGE, 2),
		u32_in(UVERBS_ATTR_CREATE_SRQ_LIMIT, 0),
		data_out(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, &srq_wr, sizeof(srq_wr)),
		data_out(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, &srq_sge, sizeof(srq_sge)),
		data_out(UVERBS_ATTR_UHW_OUT, srq_udata, sizeof(srq_udata)),
	};
	int ret;

	memcpy(attrs + SRQ_COUNT, more, count * sizeof(*more));
	ret = call(UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_CREATE, attrs, SRQ_COUNT + count);
	*srq = attrs[SRQ_HANDLE].data;
	return ret;
}

static int destroy_srq(uint32_t srq)
{
	struct ib_uverbs_destroy_srq_resp response = { 77 };
	struct ib_uverbs_attr attrs[] = {
		handle(UVERBS_ATTR_DESTROY_SRQ_HANDLE, srq),
		data_out(UVERBS_ATTR_DESTROY_SRQ_RESP, &response, sizeof(response)),
	};
	int ret = CALL(UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_DESTROY, attrs);

	return ret ?: response.events_reported ? -1 : 0;
}

static void shared_receive_queues(void)
{
	uint32_t pd = alloc_pd(), cq = good_cq(), srq;
	struct ib_uverbs_attr of_cq[] = { handle(UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE, cq) };
	struct ib_uverbs_attr of_tags[] = { of_cq[0], u32_in(UVERBS_ATTR_CREATE_SRQ_MAX_NUM_TAGS, 4) };

	expect("SRQ: a type that there is not", EINVAL, create_srq(pd, 7, &srq, NULL, 0));
	expect("SRQ: a type beyond 32 bits", EINVAL, create_srq(pd, 1ULL << 32, &srq, NULL, 0));
	expect("SRQ: XRC without a CQ", ENOENT, create_srq(pd, IB_UVERBS_SRQT_XRC, &srq, NULL, 0));
	expect("SRQ: XRC without a domain", ENOENT, create_srq(pd, IB_UVERBS_SRQT_XRC, &srq, of_cq, 1));
	expect("SRQ: tags, but not how many", ENOENT, create_srq(pd, IB_UVERBS_SRQT_TM, &srq, of_cq, 1));
	expect("SRQ: tags, which the driver does not know", EOPNOTSUPP, create_srq(pd, IB_UVERBS_SRQT_TM, &srq, of_tags, 2));
	expect("SRQ: a PD that there is not", ENOENT, create_srq(UNKNOWN_HANDLE, IB_UVERBS_SRQT_BASIC, &srq, NULL, 0));
	expect("SRQ: a PD that is a CQ", EINVAL, create_srq(cq, IB_UVERBS_SRQT_BASIC, &srq, NULL, 0));
	expect("SRQ: a good one", 0, create_srq(pd, IB_UVERBS_SRQT_BASIC, &srq, NULL, 0));
	verdict("SRQ: as much room as was asked for", srq_wr >= 9 && srq_sge >= 2, "less");
	expect("SRQ: its PD stays", EBUSY, destroy_pd(pd));
	expect("SRQ: destroyed", 0, destroy_srq(srq));
	expect("SRQ: destroyed once", ENOENT, destroy_srq(srq));
	remove_cq(cq);
	expect("SRQ: its PD may go", 0, destroy_pd(pd));
}

/* Queue pairs
 * ------------------------------------------------------------------------------------------------------------------ */

static struct { struct ib_uverbs_qp_cap cap; uint32_t more; } qp_cap;
static struct ib_uverbs_qp_cap qp_resp;
static uint32_t qp_number;
static char qp_udata[64];
enum { QP_HANDLE, QP_PD, QP_SEND, QP_RECV, QP_TYPE, QP_CAP, QP_COUNT = 10 };

static void set_qp(struct ib_uverbs_attr *attrs, uint32_t pd, uint32_t cq, uint64_t type)
{
	struct ib_uverbs_attr good[] = {
		handle(UVERBS_ATTR_CREATE_QP_HANDLE, 0), handle(UVERBS_ATTR_CREATE_QP_PD_HANDLE, pd),
		handle(UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, cq), handle(UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, cq),
		u64_in(UVERBS_ATTR_CREATE_QP_TYPE, type), data_in(UVERBS_ATTR_CREATE_QP_CAP, &qp_cap, sizeof(qp_cap.cap)),
		u64_in(UVERBS_ATTR_CREATE_QP_USER_HANDLE, 2),
		data_out(UVERBS_ATTR_CREATE_QP_RESP_CAP, &qp_resp, sizeof(qp_resp)),
		data_out(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, &qp_number, sizeof(qp_number)),
		data_out(UVERBS_ATTR_UHW_OUT, qp_udata, sizeof(qp_udata)),
	};

	qp_cap.cap = (struct ib_uverbs_qp_cap){ 5, 6, 1, 2, 16 };
	qp_cap.more = 0;
	memcpy(attrs, good, sizeof(good));
}

static int create_qp(struct ib_uverbs_attr *attrs, size_t count)
{
	return call(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE, attrs, count);
}

static int destroy_qp(uint32_t qp)
{
	struct ib_uverbs_destroy_qp_resp response = { 77 };
	struct ib_uverbs_attr attrs[] = {
		handle(UVERBS_ATTR_DESTROY_QP_HANDLE, qp),
		data_out(UVERBS_ATTR_DESTROY_QP_RESP, &response, sizeof(response)),
	};
	int ret = CALL(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY, attrs);

	return ret ?: response.events_reported ? -1 : 0;
}

/* One that differs from a good one in an attribute, or has one more. */
static void other_qp(const char *name, int wanted, uint32_t pd, uint32_t cq, uint64_t type, int which, struct ib_uverbs_attr attr)
{
	struct ib_uverbs_attr attrs[MAX_ATTRS];
	int got;

	set_qp(attrs, pd, cq, type);
	attrs[which] = attr;
	got = create_qp(attrs, which == QP_COUNT ? QP_COUNT + 1 : QP_COUNT);
	expect(name, wanted, got);
	if (!got)
		destroy_qp(attrs[QP_HANDLE].data);
}

/* Has or lacks CAP_NET_RAW from now on. */
static void may_send_raw(bool may)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &header, data))
		die("capget", errno);
	if (may)
		data[CAP_TO_INDEX(CAP_NET_RAW)].effective |= CAP_TO_MASK(CAP_NET_RAW);
	else
		data[CAP_TO_INDEX(CAP_NET_RAW)].effective &= ~CAP_TO_MASK(CAP_NET_RAW);
	if (syscall(SYS_capset, &header, data))
		die("capset", errno);
}

static void queue_pairs(void)
{
	struct ib_uverbs_attr attrs[MAX_ATTRS], none = u32_in(UVERBS_ATTR_CREATE_QP_FLAGS, 0);
	struct ib_uverbs_attr source = u32_in(UVERBS_ATTR_CREATE_QP_SOURCE_QPN, 1);
	uint32_t pd = alloc_pd(), cq = good_cq(), srq, qp;

	if (create_srq(pd, IB_UVERBS_SRQT_BASIC, &srq, NULL, 0))
		die("create a shared receive queue", errno);
#define OTHER(name, wanted, type, which, attr) other_qp("QP: " name, wanted, pd, cq, type, which, attr)
	OTHER("a type that there is not", EINVAL, 55, QP_COUNT, none);
	OTHER("a flag that there is not", EINVAL, IB_UVERBS_QPT_RC, QP_COUNT, u32_in(UVERBS_ATTR_CREATE_QP_FLAGS, 1 << 20));
	OTHER("a flag for raw packets on RC", EINVAL, IB_UVERBS_QPT_RC, QP_COUNT,
	      u64_in(UVERBS_ATTR_CREATE_QP_FLAGS, IB_UVERBS_QP_CREATE_SCATTER_FCS));
	OTHER("a flag for raw packets on UD", EINVAL, IB_UVERBS_QPT_UD, QP_COUNT,
	      u32_in(UVERBS_ATTR_CREATE_QP_FLAGS, IB_UVERBS_QP_CREATE_CVLAN_STRIPPING));
	OTHER("each send completes", 0, IB_UVERBS_QPT_RC, QP_COUNT,
	      u32_in(UVERBS_ATTR_CREATE_QP_FLAGS, IB_UVERBS_QP_CREATE_SQ_SIG_ALL));
	OTHER("no PD", ENOENT, IB_UVERBS_QPT_RC, QP_PD, none);
	OTHER("no CQ for sends", ENOENT, IB_UVERBS_QPT_RC, QP_SEND, none);
	OTHER("no CQ for receives", ENOENT, IB_UVERBS_QPT_UD, QP_RECV, none);
	OTHER("a CQ that is a PD", EINVAL, IB_UVERBS_QPT_RC, QP_SEND, handle(UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, pd));
	OTHER("an XRC target with a PD", EINVAL, IB_UVERBS_QPT_XRC_TGT, QP_COUNT, none);
	OTHER("an XRC initiator with an SRQ", EINVAL, IB_UVERBS_QPT_XRC_INI, QP_COUNT,
	      handle(UVERBS_ATTR_CREATE_QP_SRQ_HANDLE, srq));
	OTHER("an SRQ that there is not", ENOENT, IB_UVERBS_QPT_RC, QP_COUNT,
	      handle(UVERBS_ATTR_CREATE_QP_SRQ_HANDLE, UNKNOWN_HANDLE));
	OTHER("capabilities that are too short", EINVAL, IB_UVERBS_QPT_RC, QP_CAP, data_in(UVERBS_ATTR_CREATE_QP_CAP, &qp_cap, 16));
	OTHER("longer capabilities, zero", 0, IB_UVERBS_QPT_RC, QP_CAP,
	      data_in(UVERBS_ATTR_CREATE_QP_CAP, &qp_cap, sizeof(qp_cap)));
	OTHER("capabilities from nowhere", EFAULT, IB_UVERBS_QPT_RC, QP_CAP,
	      data_in(UVERBS_ATTR_CREATE_QP_CAP, (void *)8, sizeof(qp_cap.cap)));

	/* The driver has no such queue pairs. */
	OTHER("the number of another queue pair", EOPNOTSUPP, IB_UVERBS_QPT_UD, QP_COUNT, source);
	may_send_raw(false);
	OTHER("the number of another queue pair, without CAP_NET_RAW", is_ours ? EPERM : EOPNOTSUPP, IB_UVERBS_QPT_UD, QP_COUNT, source);
	may_send_raw(true);

	set_qp(attrs, pd, cq, IB_UVERBS_QPT_RC);
	attrs[QP_CAP] = data_in(UVERBS_ATTR_CREATE_QP_CAP, &qp_cap, sizeof(qp_cap));
	qp_cap.more = 1;
	expect("QP: longer capabilities, not zero", EOPNOTSUPP, create_qp(attrs, QP_COUNT));

	set_qp(attrs, pd, cq, IB_UVERBS_QPT_XRC_TGT);
	attrs[QP_PD] = attrs[QP_SEND] = attrs[QP_RECV] = none;
	memmove(attrs + QP_SEND, attrs + QP_TYPE, (QP_COUNT - QP_TYPE) * sizeof(attrs[0]));
	expect("QP: an XRC target without a domain", ENOENT, create_qp(attrs, QP_COUNT - 2));

	set_qp(attrs, pd, cq, IB_UVERBS_QPT_RC);
	attrs[QP_COUNT] = handle(UVERBS_ATTR_CREATE_QP_SRQ_HANDLE, srq);
	expect("QP: a good one with an SRQ", 0, create_qp(attrs, QP_COUNT + 1));
	qp = attrs[QP_HANDLE].data;
	verdict("QP: as much room as was asked for", qp_resp.max_send_wr >= 5 && qp_resp.max_send_sge >= 1 &&
		qp_resp.max_inline_data >= 16, "less");
	verdict("QP: it has a number", qp_number > 1, "it has none");
	expect("QP: its CQ stays", EBUSY, remove_cq(cq));
	expect("QP: its SRQ stays", EBUSY, destroy_srq(srq));
	expect("QP: its PD stays", EBUSY, destroy_pd(pd));
	expect("QP: destroyed", 0, destroy_qp(qp));
	expect("QP: destroyed once", ENOENT, destroy_qp(qp));
	expect("QP: its CQ may go", 0, remove_cq(cq));
	expect("QP: its SRQ may go", 0, destroy_srq(srq));
	expect("QP: its PD may go", 0, destroy_pd(pd));
}

/* Memory regions
 * ------------------------------------------------------------------------------------------------------------------ */

static uint32_t mr_lkey, mr_rkey;
enum { MR_HANDLE, MR_PD, MR_IOVA, MR_LENGTH, MR_ACCESS, MR_ADDR, MR_COUNT = 8 };

static void set_mr(struct ib_uverbs_attr *attrs, uint32_t pd)
{
	struct ib_uverbs_attr good[] = {
		handle(REG_MR_HANDLE, 0), handle(REG_MR_PD, pd), u64_in(REG_MR_IOVA, 0x10000000), u64_in(REG_MR_LENGTH, 3 * PAGE),
		u32_in(REG_MR_ACCESS, IB_UVERBS_ACCESS_LOCAL_WRITE), u64_in(REG_MR_ADDR, (uintptr_t)buffer),
		data_out(REG_MR_LKEY, &mr_lkey, sizeof(mr_lkey)), data_out(REG_MR_RKEY, &mr_rkey, sizeof(mr_rkey)),
	};

	memcpy(attrs, good, sizeof(good));
}

static int reg_mr_with(struct ib_uverbs_attr *attrs, size_t count) { return call(UVERBS_OBJECT_MR, METHOD_REG_MR, attrs, count); }

static int destroy_mr(uint32_t mr) { return destroy(UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, mr); }

static void other_mr(const char *name, int wanted, uint32_t pd, int which, struct ib_uverbs_attr attr)
{
	struct ib_uverbs_attr attrs[MAX_ATTRS];

	set_mr(attrs, pd);
	attrs[which] = attr;
	expect(name, wanted, reg_mr_with(attrs, which == MR_COUNT ? MR_COUNT + 1 : MR_COUNT));
}

static int query_mr(uint32_t mr, uint32_t *keys, uint64_t *place, bool with_iova)
{
	struct ib_uverbs_attr attrs[] = {
		handle(UVERBS_ATTR_QUERY_MR_HANDLE, mr), data_out(UVERBS_ATTR_QUERY_MR_RESP_LKEY, keys, 4),
		data_out(UVERBS_ATTR_QUERY_MR_RESP_RKEY, keys + 1, 4), data_out(UVERBS_ATTR_QUERY_MR_RESP_LENGTH, place, 8),
		data_out(UVERBS_ATTR_QUERY_MR_RESP_IOVA, place + 1, 8),
	};

	return call(UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR, attrs, with_iova ? 5 : 4);
}

static int advise_mr(uint32_t pd, uint64_t advice, uint32_t flags, const void *list, uint16_t len)
{
	struct ib_uverbs_attr attrs[] = {
		handle(UVERBS_ATTR_ADVISE_MR_PD_HANDLE, pd), u64_in(UVERBS_ATTR_ADVISE_MR_ADVICE, advice),
		u32_in(UVERBS_ATTR_ADVISE_MR_FLAGS, flags), data_in(UVERBS_ATTR_ADVISE_MR_SGE_LIST, list, len),
	};

	return CALL(UVERBS_OBJECT_MR, UVERBS_METHOD_ADVISE_MR, attrs);
}

static int reg_dmabuf_mr(uint32_t pd, uint64_t offset, uint64_t iova, uint32_t access)
{
	struct ib_uverbs_attr attrs[] = {
		handle(UVERBS_ATTR_REG_DMABUF_MR_HANDLE, 0), handle(UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, pd),
		u64_in(UVERBS_ATTR_REG_DMABUF_MR_OFFSET, offset), u64_in(UVERBS_ATTR_REG_DMABUF_MR_LENGTH, PAGE),
		u64_in(UVERBS_ATTR_REG_DMABUF_MR_IOVA, iova), u32_in(UVERBS_ATTR_REG_DMABUF_MR_FD, 1),
		u32_in(UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, access),
		data_out(UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, &mr_lkey, 4), data_out(UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, &mr_rkey, 4),
	};

	return CALL(UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR, attrs);
}

static void memory_regions(void)
{
	struct ib_uverbs_attr attrs[MAX_ATTRS];
	struct ib_uverbs_sge pieces[2] = { { (uintptr_t)buffer, PAGE, 0 }, { (uintptr_t)buffer, PAGE, 0 } };
	uint32_t pd = alloc_pd(), keys[2] = { 0 }, mr;
	uint64_t place[2] = { 0 };

#define OTHER_MR(name, wanted, which, attr) other_mr("MR: " name, wanted, pd, which, attr)
	OTHER_MR("another place in the page", EINVAL, MR_IOVA, u64_in(REG_MR_IOVA, 0x10000008));
	OTHER_MR("no address", EINVAL, MR_ADDR, u64_in(REG_MR_FD_OFFSET, 0));
	OTHER_MR("an address and an offset", EINVAL, MR_COUNT, u64_in(REG_MR_FD_OFFSET, 0));
	OTHER_MR("a buffer that is none, or that the driver does not know", has_our_driver ? EINVAL : EOPNOTSUPP, MR_COUNT, handle(REG_MR_FD, 1));
	OTHER_MR("hints, which the driver does not know", EINVAL, MR_COUNT, handle(REG_MR_DMAH, 0));
	OTHER_MR("access that there is not", EINVAL, MR_ACCESS, u64_in(REG_MR_ACCESS, 1ULL << 40));
	OTHER_MR("peers write where we may not", EINVAL, MR_ACCESS, u32_in(REG_MR_ACCESS, IB_UVERBS_ACCESS_REMOTE_WRITE));
	OTHER_MR("memory that there is not", EFAULT, MR_ADDR, u64_in(REG_MR_ADDR, 0x10000));
	OTHER_MR("a length that wraps", EINVAL, MR_LENGTH, u64_in(REG_MR_LENGTH, UINT64_MAX - PAGE));
	OTHER_MR("a PD that there is not", ENOENT, MR_PD, handle(REG_MR_PD, UNKNOWN_HANDLE));

	set_mr(attrs, pd);
	expect("MR: a good one", 0, reg_mr_with(attrs, MR_COUNT));
	mr = attrs[MR_HANDLE].data;
	verdict("MR: it has a key", mr_lkey, "it has none");
	expect("MR: asked for", 0, query_mr(mr, keys, place, true));
	verdict("MR: its keys", keys[0] == mr_lkey && keys[1] == mr_rkey, "others");
	/* Drivers leave that to ib_uverbs. The stock one forgets it in this method. */
	if (is_ours)
		verdict("MR: its place", place[0] == 3 * PAGE && place[1] == 0x10000000, "another");
	expect("MR: asked for without its address", 0, query_mr(mr, keys, place, false));
	expect("MR: another is asked for", ENOENT, query_mr(UNKNOWN_HANDLE, keys, place, false));
	expect("MR: its PD stays", EBUSY, destroy_pd(pd));
	if (advise_mr(pd, 0, 1, pieces, sizeof(pieces)) != EOPNOTSUPP) {
		expect("MR: advice with a flag that there is not", EINVAL, advise_mr(pd, 0, 2, pieces, sizeof(pieces)));
		expect("MR: advice about half a piece", EINVAL, advise_mr(pd, 0, 1, pieces, 24));
		expect("MR: advice about what is not on demand", EINVAL, advise_mr(pd, 0, 1, pieces, sizeof(pieces)));
	}
	expect("MR: advice that there is not", EOPNOTSUPP, advise_mr(pd, 99, 1, pieces, sizeof(pieces)));
	expect("MR: a buffer that is none, or that the driver does not know, by its own method", has_our_driver ? EINVAL : EOPNOTSUPP,
	       reg_dmabuf_mr(pd, 0, 0, IB_UVERBS_ACCESS_LOCAL_WRITE));
	expect("MR: destroyed", 0, destroy_mr(mr));
	expect("MR: destroyed once", ENOENT, destroy_mr(mr));
	expect("MR: its PD may go", 0, destroy_pd(pd));
}

/* Memory windows and address handles, which only write makes
 * ------------------------------------------------------------------------------------------------------------------ */

static void windows_and_addresses(int gid_index)
{
	struct ib_uverbs_alloc_mw window = { 0 };
	struct ib_uverbs_alloc_mw_resp mw = { 0 };
	struct ib_uverbs_create_ah address = { 0 };
	struct ib_uverbs_create_ah_resp ah = { 0 };
	uint32_t pd = alloc_pd();

	window.pd_handle = pd;
	window.mw_type = 1;
	expect("MW: a good one", 0, invoke(IB_USER_VERBS_CMD_ALLOC_MW, &window, sizeof(window), &mw, sizeof(mw)));
	expect("MW: its PD stays", EBUSY, destroy_pd(pd));
	expect("MW: one that there is not", ENOENT, destroy(UVERBS_OBJECT_MW, UVERBS_METHOD_MW_DESTROY, UNKNOWN_HANDLE));
	expect("MW: destroyed", 0, destroy(UVERBS_OBJECT_MW, UVERBS_METHOD_MW_DESTROY, mw.mw_handle));
	expect("MW: destroyed once", ENOENT, destroy(UVERBS_OBJECT_MW, UVERBS_METHOD_MW_DESTROY, mw.mw_handle));

	address.pd_handle = pd;
	address.attr.is_global = 1;
	address.attr.port_num = 1;
	address.attr.grh.sgid_index = gid_index;
	address.attr.grh.hop_limit = 64;
	memcpy(address.attr.grh.dgid, (uint8_t[16]){ [10] = 0xff, 0xff, 10, 0, 0, 1 }, 16);
	expect("AH: a good one", 0, invoke(IB_USER_VERBS_CMD_CREATE_AH, &address, sizeof(address), &ah, sizeof(ah)));
	expect("AH: its PD stays", EBUSY, destroy_pd(pd));
	expect("AH: destroyed", 0, destroy(UVERBS_OBJECT_AH, UVERBS_METHOD_AH_DESTROY, ah.ah_handle));
	expect("AH: destroyed once", ENOENT, destroy(UVERBS_OBJECT_AH, UVERBS_METHOD_AH_DESTROY, ah.ah_handle));
	expect("PD: it may go", 0, destroy_pd(pd));
	expect("PD: destroyed once", ENOENT, destroy_pd(pd));
	expect("PD: one method, no more", EPROTONOSUPPORT, destroy(UVERBS_OBJECT_PD, 1, pd));
}

/* What the driver has not is as if there were no such method. */
static void absent(void)
{
	static const struct { const char *name; uint16_t object, method; } methods[] = {
		{ "absent: WQ", UVERBS_OBJECT_WQ, UVERBS_METHOD_WQ_CREATE },
		{ "absent: table of WQs", UVERBS_OBJECT_RWQ_IND_TBL, UVERBS_METHOD_RWQ_IND_TBL_DESTROY },
		{ "absent: flow", UVERBS_OBJECT_FLOW, UVERBS_METHOD_FLOW_DESTROY },
		{ "absent: flow action", UVERBS_OBJECT_FLOW_ACTION, UVERBS_METHOD_FLOW_ACTION_DESTROY },
		{ "absent: device memory", UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC },
		{ "absent: device memory as MR", UVERBS_OBJECT_MR, UVERBS_METHOD_DM_MR_REG },
		{ "absent: counters", UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_CREATE },
		{ "absent: hints for DMA", OBJECT_DMAH, 0 },
		{ "absent: DMA buffer", OBJECT_DMABUF, 0 },
		{ "absent: a class that nobody has", 19, 0 },
		{ "absent: a method of channels", UVERBS_OBJECT_COMP_CHANNEL, 0 },
	};

	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		expect(methods[i].name, EPROTONOSUPPORT, destroy(methods[i].object, methods[i].method, 0));
	expect("XRC domain: of our driver alone, and none is there", has_our_driver ? ENOENT : EPROTONOSUPPORT,
	       destroy(UVERBS_OBJECT_XRCD, UVERBS_METHOD_XRCD_DESTROY, 0));
}

/* Objects of each class, which go with the file. */
static void leave_all(void)
{
	struct ib_uverbs_attr attrs[MAX_ATTRS];
	uint32_t pd = alloc_pd(), cq = good_cq(), srq;

	set_qp(attrs, pd, cq, IB_UVERBS_QPT_UD);
	expect("closing: a QP", 0, create_qp(attrs, QP_COUNT));
	set_mr(attrs, pd);
	expect("closing: an MR", 0, reg_mr_with(attrs, MR_COUNT));
	expect("closing: an SRQ", 0, create_srq(pd, IB_UVERBS_SRQT_BASIC, &srq, NULL, 0));
}

int main(int argc, char **argv)
{
	if (argc != 5)
		return 2;
	is_ours = !strcmp(argv[3], "ours");
	has_our_driver = !strcmp(argv[4], "ours");
	driver_id = RDMA_DRIVER_RXE;
	open_context(argv[1]);
	completion_queues();
	shared_receive_queues();
	queue_pairs();
	memory_regions();
	windows_and_addresses(atoi(argv[2]));
	absent();
	leave_all();
	close(node);
	return all_done();
}
