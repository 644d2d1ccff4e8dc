// SPDX-License-Identifier: GPL-2.0
/*
 * Objects of user space that no software driver has, on a device that does not exist (../modules/fake_verbs.c): how they are made
 * and destroyed, what keeps them, and how events are counted.
 *
 *   uverbs_fake NODE ours|stock
 */
#include "uverbs.h"
#include "process.h"
#include <poll.h>
#include <sched.h>

/* The ib_uverbs is ours. */
static bool is_ours;

#define EX(command) (IB_USER_VERBS_CMD_FLAG_EXTENDED | (command))
#define FAIL "/sys/module/fake_verbs/parameters/fail"

enum { ALLOC_DMAH_HANDLE, ALLOC_DMAH_CPU, ALLOC_DMAH_MEMORY, ALLOC_DMAH_HINT };
/* Of the driver's own namespace. */
enum { METHOD_ACTION_CREATE = 0x1000, ACTION_HANDLE = 0x1000, ACTION_ANSWER };
enum { EVENT_CQ_ERR = 0, EVENT_COMM_EST = 4, EVENT_SRQ_LIMIT_REACHED = 15, EVENT_WQ_FATAL = 19 };

static int async;

/* Lets the driver not destroy objects of a kind. */
static void let_fail(const char *kind)
{
	FILE *file = fopen(FAIL, "w");

	if (!file || fputs(kind, file) < 0 || fclose(file))
		die(FAIL, errno);
}

/* An object is destroyed, unless the driver fails: then it stays, and is destroyed the next time. */
static void expect_destroyed(const char *kind, uint16_t object, uint16_t method, uint32_t id)
{
	char name[60];

	/* The stock module counts a user then that an XRC domain has not: it could never be destroyed. */
	if (is_ours || strcmp(kind, "xrcd")) {
		snprintf(name, sizeof(name), "%s: it stays if the driver fails", kind);
		let_fail(kind);
		expect(name, EDEADLK, destroy(object, method, id));
		let_fail("none");
	}
	snprintf(name, sizeof(name), "%s: destroyed", kind);
	expect(name, 0, destroy(object, method, id));
	snprintf(name, sizeof(name), "%s: destroyed once", kind);
	expect(name, ENOENT, destroy(object, method, id));
}

/* The same for a class whose destroy method answers how many events were read, in so many numbers. */
static void expect_counted(const char *kind, uint16_t object, uint16_t method, uint32_t id, int numbers, uint32_t wanted)
{
	uint32_t counts[2] = { 77, 77 };
	struct ib_uverbs_attr attrs[] = { handle(0, id), data_out(1, counts, numbers * sizeof(counts[0])) };
	char name[60];

	/* The driver has one queue pair for all who have opened a target: nobody hears that it was not destroyed. */
	if (strcmp(kind, "target")) {
		snprintf(name, sizeof(name), "%s: it stays if the driver fails", kind);
		let_fail(kind);
		expect(name, EDEADLK, CALL(object, method, attrs));
		let_fail("none");
	}
	snprintf(name, sizeof(name), "%s: destroyed", kind);
	expect(name, 0, CALL(object, method, attrs));
	snprintf(name, sizeof(name), "%s: how many events were read", kind);
	verdict(name, counts[0] == wanted && (numbers < 2 || counts[1] == wanted), "another number");
}

static int open_async(void)
{
	struct ib_uverbs_attr attrs[] = { handle(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, 0) };
	int error = CALL(UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC, attrs);

	if (error)
		die("open an event file", error);
	fcntl(attrs[0].data, F_SETFL, O_NONBLOCK);
	return attrs[0].data;
}

static void expect_event(const char *name, int file, uint64_t element, uint32_t type)
{
	struct ib_uverbs_async_event_desc event = { 0 };

	verdict(name, read(file, &event, sizeof(event)) == sizeof(event) && event.element == element && event.event_type == type,
		"none, or another");
}

static void expect_no_event(const char *name, int file)
{
	struct ib_uverbs_async_event_desc event;

	verdict(name, read(file, &event, sizeof(event)) < 0 && errno == EAGAIN, "there is one");
}

/* Queues and their events
 * ------------------------------------------------------------------------------------------------------------------ */

static uint32_t create_cq(uint64_t user_handle, int channel)
{
	uint32_t room;
	struct ib_uverbs_attr attrs[] = {
		handle(UVERBS_ATTR_CREATE_CQ_HANDLE, 0), u32_in(UVERBS_ATTR_CREATE_CQ_CQE, 10),
		u64_in(UVERBS_ATTR_CREATE_CQ_USER_HANDLE, user_handle), u32_in(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, 1),
		data_out(UVERBS_ATTR_CREATE_CQ_RESP_CQE, &room, sizeof(room)),
		handle(UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, channel),
	};
	int error = call(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE, attrs, channel < 0 ? 5 : 6);

	if (error)
		die("create a completion queue", error);
	return attrs[0].data;
}

static int arm(uint32_t cq)
{
	struct ib_uverbs_req_notify_cq request = { cq, 1 };

	return invoke(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, &request, sizeof(request), NULL, 0);
}

/* Younger than the headers of the system: where the memory of a CQ is, in two ways. */
enum { CREATE_CQ_BUFFER_VA = UVERBS_ATTR_CREATE_CQ_EVENT_FD + 1, CREATE_CQ_BUFFER_LENGTH, CREATE_CQ_BUFFER_FD, CREATE_CQ_BUFFER_OFFSET,
       CREATE_CQ_BUF_UMEM };
struct buffer_desc {
	uint32_t type;	/* 0: a dma-buf, 1: an address */
	int32_t fd;
	uint32_t flags, optional_flags;
	uint64_t addr, length;
};

/* A CQ of ten completions with up to two more attributes. */
static int create_cq_in(const struct ib_uverbs_attr *more, size_t count, uint32_t *cq)
{
	uint32_t room;
	struct ib_uverbs_attr attrs[MAX_ATTRS] = {
		handle(UVERBS_ATTR_CREATE_CQ_HANDLE, 0), u32_in(UVERBS_ATTR_CREATE_CQ_CQE, 10), u64_in(UVERBS_ATTR_CREATE_CQ_USER_HANDLE, 0xc9),
		u32_in(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, 1), data_out(UVERBS_ATTR_CREATE_CQ_RESP_CQE, &room, sizeof(room)),
	};
	int error;

	memcpy(attrs + 5, more, count * sizeof(*more));
	error = call(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE, attrs, 5 + count);
	*cq = attrs[0].data;
	return error;
}

/* A CQ is made; then its completions are in the memory, which is the program's account, until it is destroyed. */
static void completes_in(const char *how, struct ib_uverbs_wc *memory, const struct ib_uverbs_attr *more, size_t count)
{
	long before = pinned();
	char name[80];
	uint32_t cq;

	memset(memory, 0, sizeof(*memory));
	snprintf(name, sizeof(name), "CQ in the program's memory, %s", how);
	expect(name, 0, create_cq_in(more, count, &cq));
	snprintf(name, sizeof(name), "CQ in the program's memory, %s: which is pinned", how);
	verdict(name, pinned() == before + 4, "another number of pages");
	arm(cq);
	snprintf(name, sizeof(name), "CQ in the program's memory, %s: a completion is there", how);
	verdict(name, memory->wr_id == 0x5ca1ab1e && memory->byte_len == 77, "none");
	expect_counted("cq", UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY, cq, 2, 0);
	snprintf(name, sizeof(name), "CQ in the program's memory, %s: it is not pinned any more", how);
	verdict(name, pinned() == before, "some is");
}

static void queues_in_memory(void)
{
	struct ib_uverbs_wc *memory = (void *)(buffer + 2 * PAGE + 128);
	uint64_t length = 10 * sizeof(*memory);
	struct buffer_desc desc = { .type = 1, .addr = (uintptr_t)memory, .length = length };
	struct ib_uverbs_attr more[] = { u64_in(CREATE_CQ_BUFFER_VA, (uintptr_t)memory), u64_in(CREATE_CQ_BUFFER_LENGTH, length) };
	struct ib_uverbs_attr umem = data_in(CREATE_CQ_BUF_UMEM, &desc, sizeof(desc)), both[3] = { more[0], more[1], umem };
	uint32_t cq;

	completes_in("by address", memory, more, 2);
	completes_in("by descriptor", memory, &umem, 1);
	expect("CQ in the program's memory: both ways", EINVAL, create_cq_in(both, 3, &cq));
	expect("CQ in the program's memory: an address alone", ENOENT, create_cq_in(more, 1, &cq));
	expect("CQ in the program's memory: a length alone", EINVAL, create_cq_in(more + 1, 1, &cq));
	more[1] = u64_in(CREATE_CQ_BUFFER_LENGTH, length - 1);
	expect("CQ in the program's memory: one byte too few", EINVAL, create_cq_in(more, 2, &cq));
	desc.addr = 8 * PAGE;
	expect("CQ in the program's memory: which is none", EFAULT, create_cq_in(&umem, 1, &cq));
	desc.type = 7;
	expect("CQ in the program's memory: of another kind", EINVAL, create_cq_in(&umem, 1, &cq));
}

static int create_srq(uint32_t pd, uint64_t type, uint32_t *srq, const struct ib_uverbs_attr *more, size_t count, uint32_t *max_wr)
{
	uint32_t max_sge;
	struct ib_uverbs_attr attrs[MAX_ATTRS] = {
		handle(UVERBS_ATTR_CREATE_SRQ_HANDLE, 0), handle(UVERBS_ATTR_CREATE_SRQ_PD_HANDLE, pd),
		u64_in(UVERBS_ATTR_CREATE_SRQ_TYPE, type), u64_in(UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, 0x5109),
		u32_in(UVERBS_ATTR_CREATE_SRQ_MAX_WR, 9), u32_in(UVERBS_ATTR_CREATE_SRQ_MAX_SGE, 2),
		u32_in(UVERBS_ATTR_CREATE_SRQ_LIMIT, 0), data_out(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, max_wr, 4),
		data_out(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, &max_sge, sizeof(max_sge)),
	};
	int ret;

	memcpy(attrs + 9, more, count * sizeof(*more));
	ret = call(UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_CREATE, attrs, 9 + count);
	*srq = attrs[0].data;
	return ret;
}

/* A queue pair: its attributes beside the type are the caller's. */
static int create_qp(uint64_t type, uint32_t *qp, uint32_t *answer, const struct ib_uverbs_attr *more, size_t count)
{
	struct ib_uverbs_qp_cap cap = { 5, 0, 1, 0, 0 };
	uint32_t number;
	struct ib_uverbs_attr attrs[MAX_ATTRS] = {
		handle(UVERBS_ATTR_CREATE_QP_HANDLE, 0), u64_in(UVERBS_ATTR_CREATE_QP_TYPE, type),
		data_in(UVERBS_ATTR_CREATE_QP_CAP, &cap, sizeof(cap)), u64_in(UVERBS_ATTR_CREATE_QP_USER_HANDLE, 0x9b),
		data_out(UVERBS_ATTR_CREATE_QP_RESP_CAP, &cap, sizeof(cap)),
		data_out(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, &number, sizeof(number)),
	};
	int ret;

	memcpy(attrs + 6, more, count * sizeof(*more));
	ret = call(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE, attrs, 6 + count);
	*qp = attrs[0].data;
	*answer = cap.max_inline_data;
	return ret;
}

static int modify_qp(uint32_t qp)
{
	struct ib_uverbs_modify_qp request = { .qp_handle = qp, .attr_mask = 1, .qp_state = 1 };

	return invoke(IB_USER_VERBS_CMD_MODIFY_QP, &request, sizeof(request), NULL, 0);
}

static void events(uint32_t pd)
{
	int channel = open_channel(), other = open_async();
	uint32_t cq = create_cq(0xc0, channel), srq, qp, answer;
	uint64_t completion = 0;
	struct ib_uverbs_modify_srq limit = { .srq_limit = 1, .attr_mask = 2 };
	struct ib_uverbs_attr links[] = {
		handle(UVERBS_ATTR_CREATE_QP_PD_HANDLE, pd), handle(UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, cq),
		handle(UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, cq), handle(UVERBS_ATTR_CREATE_QP_EVENT_FD, other),
		u32_in(UVERBS_ATTR_CREATE_QP_FLAGS, IB_UVERBS_QP_CREATE_SQ_SIG_ALL |
		       IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK),
	};

	fcntl(channel, F_SETFL, O_NONBLOCK);
	expect("events: a CQ is armed", 0, arm(cq));
	verdict("events: a completion", read(channel, &completion, 8) == 8 && completion == 0xc0, "none, or another");
	expect_event("events: of the CQ", async, 0xc0, EVENT_CQ_ERR);
	expect("events: the CQ is armed again", 0, arm(cq));

	expect("events: a QP with a file of its own", 0, create_qp(IB_UVERBS_QPT_UD, &qp, &answer, links, 5));
	verdict("QP: its flags, and that each send completes", answer == (IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK | 0 << 16),
		"other ones");
	expect("events: the QP is modified", 0, modify_qp(qp));
	expect_event("events: of the QP, in its file", other, 0x9b, EVENT_COMM_EST);
	expect("events: the QP is modified again", 0, modify_qp(qp));
	expect_counted("qp", UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY, qp, 1, 1);
	expect_no_event("events: the QP has taken the other along", other);

	expect("events: an SRQ", 0, create_srq(pd, IB_UVERBS_SRQT_BASIC, &srq, NULL, 0, &answer));
	limit.srq_handle = srq;
	expect("events: the SRQ is modified", 0, invoke(IB_USER_VERBS_CMD_MODIFY_SRQ, &limit, sizeof(limit), NULL, 0));
	expect_counted("srq", UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_DESTROY, srq, 1, 0);

	expect_counted("cq", UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY, cq, 2, 1);
	verdict("events: the CQ has taken its completion along", read(channel, &completion, 8) < 0 && errno == EAGAIN, "it has not");
	expect_no_event("events: no one has any", async);
	close(channel);
	close(other);
}

/* XRC domains
 * ------------------------------------------------------------------------------------------------------------------ */

static int open_xrcd(int fd, uint32_t oflags, uint32_t *xrcd)
{
	struct ib_uverbs_open_xrcd request = { .fd = fd, .oflags = oflags };
	struct ib_uverbs_open_xrcd_resp response = { 0 };
	int ret = invoke(IB_USER_VERBS_CMD_OPEN_XRCD, &request, sizeof(request), &response, sizeof(response));

	*xrcd = response.xrcd_handle;
	return ret;
}

static int close_xrcd(uint32_t xrcd)
{
	struct ib_uverbs_close_xrcd request = { xrcd };

	return invoke(IB_USER_VERBS_CMD_CLOSE_XRCD, &request, sizeof(request), NULL, 0);
}

/* How many objects the driver has. */
static int live(void)
{
	FILE *file = fopen("/sys/module/fake_verbs/parameters/live", "r");
	int count = -1;

	if (!file || fscanf(file, "%d", &count) != 1 || fclose(file))
		die("live", errno);
	return count;
}

/* A domain is identified by the inode of a file: opening the same file by another name gives the same domain. */
static void xrc_by_file(void)
{
	static const char path[] = "/run/fake-xrcd", other[] = "/run/fake-xrcd.link";
	int file, same, before = live();
	uint32_t one, two, three;

	unlink(other);
	file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (file < 0 || link(path, other))
		die(path, errno);
	same = open(other, O_RDONLY);
	expect("xrcd of a file: no such descriptor", EBADF, open_xrcd(999, O_CREAT, &one));
	expect("xrcd of a file: there is none yet", EAGAIN, open_xrcd(file, 0, &one));
	expect("xrcd of a file: O_CREAT makes it", 0, open_xrcd(file, O_CREAT, &one));
	expect("xrcd of a file: O_EXCL wants a new one", EINVAL, open_xrcd(same, O_CREAT | O_EXCL, &two));
	expect("xrcd of a file: by another name of it", 0, open_xrcd(same, 0, &two));
	expect("xrcd of a file: and once more", 0, open_xrcd(file, O_CREAT, &three));
	verdict("xrcd of a file: the driver has one, with three handles", live() == before + 1 && one != two && two != three, "more");
	expect("xrcd of a file: closed", 0, close_xrcd(one));
	expect("xrcd of a file: closed once", ENOENT, close_xrcd(one));
	expect("xrcd of a file: a second handle is closed", 0, close_xrcd(two));
	verdict("xrcd of a file: while there is a handle it stays", live() == before + 1, "it is gone");
	expect("xrcd of a file: the last is closed", 0, close_xrcd(three));
	verdict("xrcd of a file: it is gone", live() == before, "it stays");
	expect("xrcd of a file: there is none any more", EAGAIN, open_xrcd(file, 0, &one));
	expect("xrcd of a file: O_EXCL makes a new one", 0, open_xrcd(file, O_CREAT | O_EXCL, &one));
	expect("xrcd of a file: which is closed", 0, close_xrcd(one));
	close(same);
	close(file);
	unlink(other);
	unlink(path);
}

static void xrc(uint32_t pd)
{
	uint32_t cq = create_cq(0xc1, -1), srq, target, qp, answer, number = 0, xrcd;
	struct ib_uverbs_attr more[] = {
		handle(UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE, cq), handle(UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE, 0),
		data_out(UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, &number, sizeof(number)),
	};
	struct ib_uverbs_attr tags[] = { more[0], u32_in(UVERBS_ATTR_CREATE_SRQ_MAX_NUM_TAGS, 30) };
	struct ib_uverbs_attr of_target[1], of_rc[4];

	expect("xrcd: opened", 0, open_xrcd(-1, O_CREAT, &xrcd));
	more[1].data = xrcd;
	expect("xrcd: an SRQ", 0, create_srq(pd, IB_UVERBS_SRQT_XRC, &srq, more, 3, &answer));
	verdict("xrcd: the number of the SRQ", number == 77, "another");
	of_target[0] = handle(UVERBS_ATTR_CREATE_QP_XRCD_HANDLE, xrcd);
	expect("xrcd: a target QP", 0, create_qp(IB_UVERBS_QPT_XRC_TGT, &target, &answer, of_target, 1));
	of_rc[0] = handle(UVERBS_ATTR_CREATE_QP_PD_HANDLE, pd);
	of_rc[1] = handle(UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, cq);
	of_rc[2] = handle(UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, cq);
	of_rc[3] = handle(UVERBS_ATTR_CREATE_QP_SRQ_HANDLE, srq);
	expect("xrcd: its SRQ is not for RC", EINVAL, create_qp(IB_UVERBS_QPT_RC, &qp, &answer, of_rc, 4));
	expect("xrcd: it stays with both", EBUSY, destroy(UVERBS_OBJECT_XRCD, UVERBS_METHOD_XRCD_DESTROY, xrcd));
	expect_counted("target", UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY, target, 1, 0);
	expect("xrcd: it stays with the SRQ", EBUSY, destroy(UVERBS_OBJECT_XRCD, UVERBS_METHOD_XRCD_DESTROY, xrcd));
	expect_counted("srq", UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_DESTROY, srq, 1, 0);
	expect_destroyed("xrcd", UVERBS_OBJECT_XRCD, UVERBS_METHOD_XRCD_DESTROY, xrcd);

	expect("SRQ: one with tags", 0, create_srq(pd, IB_UVERBS_SRQT_TM, &srq, tags, 2, &answer));
	verdict("SRQ: how many tags", answer == 9 + 30, "another number");
	expect_counted("srq", UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_DESTROY, srq, 1, 0);
	expect_counted("cq", UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY, cq, 2, 0);
}

/* Work queues and their tables
 * ------------------------------------------------------------------------------------------------------------------ */

static int create_wq(uint32_t pd, uint32_t cq, uint64_t type, uint32_t flags, uint32_t *wq, uint32_t *answers)
{
	struct ib_uverbs_attr attrs[] = {
		handle(UVERBS_ATTR_CREATE_WQ_HANDLE, 0), handle(UVERBS_ATTR_CREATE_WQ_PD_HANDLE, pd),
		handle(UVERBS_ATTR_CREATE_WQ_CQ_HANDLE, cq), u64_in(UVERBS_ATTR_CREATE_WQ_USER_HANDLE, 0x39),
		u64_in(UVERBS_ATTR_CREATE_WQ_TYPE, type), u32_in(UVERBS_ATTR_CREATE_WQ_MAX_WR, 8),
		u32_in(UVERBS_ATTR_CREATE_WQ_MAX_SGE, 3), u32_in(UVERBS_ATTR_CREATE_WQ_FLAGS, flags),
		data_out(UVERBS_ATTR_CREATE_WQ_RESP_MAX_WR, answers, 4), data_out(UVERBS_ATTR_CREATE_WQ_RESP_MAX_SGE, answers + 1, 4),
		data_out(UVERBS_ATTR_CREATE_WQ_RESP_WQ_NUM, answers + 2, 4),
	};
	int ret = CALL(UVERBS_OBJECT_WQ, UVERBS_METHOD_WQ_CREATE, attrs);

	*wq = attrs[0].data;
	return ret;
}

static int destroy_wq(uint32_t wq)
{
	uint32_t reported;
	struct ib_uverbs_attr attrs[] = { handle(0, wq), data_out(1, &reported, sizeof(reported)) };

	return CALL(UVERBS_OBJECT_WQ, UVERBS_METHOD_WQ_DESTROY, attrs);
}

static void work_queues(uint32_t pd)
{
	struct { struct ib_uverbs_ex_create_rwq_ind_table head; uint32_t wqs[2]; } request = { { 0, 1 }, { 0 } };
	struct ib_uverbs_ex_create_rwq_ind_table_resp response = { 0 };
	struct ib_uverbs_ex_modify_wq modify = { .attr_mask = 1, .wq_state = 1 };
	uint32_t cq = create_cq(0xc2, -1), wqs[2], answers[3] = { 0 }, qp, answer, table;
	struct ib_uverbs_attr links[4];

	expect("wq: a type that there is not", EINVAL, create_wq(pd, cq, 1, 0, wqs, answers));
	expect("wq: a flag that there is not", EINVAL, create_wq(pd, cq, 0, 1 << 9, wqs, answers));
	expect("wq: a good one", 0, create_wq(pd, cq, 0, IB_UVERBS_WQ_FLAGS_SCATTER_FCS, wqs, answers));
	verdict("wq: its room and its number", answers[0] == 8 && answers[1] == 3 + IB_UVERBS_WQ_FLAGS_SCATTER_FCS && answers[2] == 5,
		"others");
	expect("wq: another", 0, create_wq(pd, cq, 0, 0, wqs + 1, answers));
	modify.wq_handle = wqs[0];
	expect("events: a WQ is modified", 0, invoke(EX(IB_USER_VERBS_EX_CMD_MODIFY_WQ), &modify, sizeof(modify), NULL, 0));
	expect_event("events: of the WQ", async, 0x39, EVENT_WQ_FATAL);

	memcpy(request.wqs, wqs, sizeof(wqs));
	expect("table: a good one", 0, invoke(EX(IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL), &request, sizeof(request), &response,
					      sizeof(response)));
	verdict("table: its number", response.ind_tbl_num == 3, "another");
	table = response.ind_tbl_handle;
	expect("wq: it stays with a table", EBUSY, destroy_wq(wqs[0]));
	links[0] = handle(UVERBS_ATTR_CREATE_QP_PD_HANDLE, pd);
	links[1] = handle(UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, cq);
	links[2] = handle(UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE, table);
	links[3] = handle(UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, cq);
	expect("QP: a table, and receives of its own", EINVAL, create_qp(IB_UVERBS_QPT_UD, &qp, &answer, links, 4));
	expect("QP: a table", 0, create_qp(IB_UVERBS_QPT_UD, &qp, &answer, links, 3));
	expect("table: it stays with a QP", EBUSY, destroy(UVERBS_OBJECT_RWQ_IND_TBL, UVERBS_METHOD_RWQ_IND_TBL_DESTROY, table));
	expect_counted("qp", UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY, qp, 1, 0);
	expect_destroyed("table", UVERBS_OBJECT_RWQ_IND_TBL, UVERBS_METHOD_RWQ_IND_TBL_DESTROY, table);
	expect_counted("wq", UVERBS_OBJECT_WQ, UVERBS_METHOD_WQ_DESTROY, wqs[0], 1, 1);
	expect_counted("wq", UVERBS_OBJECT_WQ, UVERBS_METHOD_WQ_DESTROY, wqs[1], 1, 0);
	expect_counted("cq", UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY, cq, 2, 0);
}

/* All events
 * ------------------------------------------------------------------------------------------------------------------ */

#define EVENT "/sys/module/fake_verbs/parameters/event"

enum element { OF_CQ, OF_QP, OF_SRQ, OF_WQ, OF_PORT, OF_DEVICE, OF_TABLE };

/* Each event of enum ib_event_type, in its order, and what it is about. That of the GIDs the core makes itself, where its table changes. */
static const struct { const char *name; enum element element; } all_events[] = {
	{ "CQ_ERR", OF_CQ }, { "QP_FATAL", OF_QP }, { "QP_REQ_ERR", OF_QP }, { "QP_ACCESS_ERR", OF_QP }, { "COMM_EST", OF_QP },
	{ "SQ_DRAINED", OF_QP }, { "PATH_MIG", OF_QP }, { "PATH_MIG_ERR", OF_QP }, { "DEVICE_FATAL", OF_DEVICE },
	{ "PORT_ACTIVE", OF_PORT }, { "PORT_ERR", OF_PORT }, { "LID_CHANGE", OF_PORT }, { "PKEY_CHANGE", OF_PORT }, { "SM_CHANGE", OF_PORT },
	{ "SRQ_ERR", OF_SRQ }, { "SRQ_LIMIT_REACHED", OF_SRQ }, { "QP_LAST_WQE_REACHED", OF_QP }, { "CLIENT_REREGISTER", OF_PORT },
	{ "GID_CHANGE", OF_TABLE }, { "WQ_FATAL", OF_WQ }, { "DEVICE_SPEED_CHANGE", OF_PORT },
};

/* The next event that the driver reports of an object, or, of the port and the device, that it reports at once; -1: the usual ones. */
static void let_report(int type)
{
	FILE *file = fopen(EVENT, "w");

	if (!file || fprintf(file, "%d", type) < 0 || fclose(file))
		die(EVENT, errno);
}

static void expect_one_event(const char *name, uint64_t element, uint32_t type)
{
	struct ib_uverbs_async_event_desc event = { 0 };
	struct pollfd ready = { .fd = async, .events = POLLIN };
	char why[100];

	if (poll(&ready, 1, 5000) != 1 || read(async, &event, sizeof(event)) != sizeof(event)) {
		verdict(name, false, "none");
		return;
	}
	snprintf(why, sizeof(why), "type %u of %#llx, not %u of %#llx", event.event_type, (unsigned long long)event.element, type,
		 (unsigned long long)element);
	verdict(name, event.element == element && event.event_type == type && !event.reserved, why);
}

/* A program gets each event that there is, with its type and its element: its own word for an object, the number of a port. */
static void every_event(uint32_t pd)
{
	static const uint64_t elements[] = { [OF_CQ] = 0xc4, [OF_QP] = 0x9b, [OF_SRQ] = 0x5109, [OF_WQ] = 0x39, [OF_PORT] = 1 };
	int channel = open_channel();
	uint32_t cq = create_cq(0xc4, channel), srq, qp, wq, answers[3], answer;
	struct ib_uverbs_attr links[] = {
		handle(UVERBS_ATTR_CREATE_QP_PD_HANDLE, pd), handle(UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, cq),
		handle(UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, cq),
	};
	struct ib_uverbs_modify_srq limit = { .srq_limit = 1, .attr_mask = 2 };
	struct ib_uverbs_ex_modify_wq modify = { .attr_mask = 1, .wq_state = 1 };
	uint32_t counts[OF_TABLE + 1] = { 0 };
	uint64_t completion = 0;

	expect("all events: a QP", 0, create_qp(IB_UVERBS_QPT_UD, &qp, &answer, links, 3));
	expect("all events: an SRQ", 0, create_srq(pd, IB_UVERBS_SRQT_BASIC, &srq, NULL, 0, &answer));
	expect("all events: a WQ", 0, create_wq(pd, cq, 0, 0, &wq, answers));
	limit.srq_handle = srq;
	modify.wq_handle = wq;
	for (uint32_t type = 0; type < sizeof(all_events) / sizeof(all_events[0]); type++) {
		enum element element = all_events[type].element;
		char name[60];
		int error = 0;

		let_report(type);
		switch (element) {
		case OF_CQ: error = arm(cq); break;
		case OF_QP: error = modify_qp(qp); break;
		case OF_SRQ: error = invoke(IB_USER_VERBS_CMD_MODIFY_SRQ, &limit, sizeof(limit), NULL, 0); break;
		case OF_WQ: error = invoke(EX(IB_USER_VERBS_EX_CMD_MODIFY_WQ), &modify, sizeof(modify), NULL, 0); break;
		default: break;
		}
		if (error)
			die(all_events[type].name, error);
		snprintf(name, sizeof(name), "all events: %s", all_events[type].name);
		if (element == OF_TABLE)
			expect_no_event("all events: GID_CHANGE, but not of a driver", async);
		else
			expect_one_event(name, element == OF_DEVICE ? 0 : elements[element], type);
		counts[element]++;
	}
	let_report(-1);
	expect_no_event("all events: each once", async);
	/* The events of an object that were read are counted for it. */
	expect_counted("wq", UVERBS_OBJECT_WQ, UVERBS_METHOD_WQ_DESTROY, wq, 1, counts[OF_WQ]);
	expect_counted("srq", UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_DESTROY, srq, 1, counts[OF_SRQ]);
	expect_counted("qp", UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY, qp, 1, counts[OF_QP]);
	verdict("all events: a completion", read(channel, &completion, 8) == 8 && completion == 0xc4, "none, or another");
	expect_counted("cq", UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY, cq, 2, 1);
	close(channel);
}

/* Memory
 * ------------------------------------------------------------------------------------------------------------------ */

static int alloc_dm(uint64_t length, uint32_t alignment, uint32_t *dm)
{
	struct ib_uverbs_attr attrs[] = {
		handle(UVERBS_ATTR_ALLOC_DM_HANDLE, 0), u64_in(UVERBS_ATTR_ALLOC_DM_LENGTH, length),
		u32_in(UVERBS_ATTR_ALLOC_DM_ALIGNMENT, alignment),
	};
	int ret = CALL(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC, attrs);

	*dm = attrs[0].data;
	return ret;
}

static int reg_dm(uint32_t pd, uint32_t dm, uint64_t offset, uint64_t length, uint32_t access, uint32_t *mr)
{
	uint32_t keys[2];
	struct ib_uverbs_attr attrs[] = {
		handle(UVERBS_ATTR_REG_DM_MR_HANDLE, 0), handle(UVERBS_ATTR_REG_DM_MR_PD_HANDLE, pd),
		handle(UVERBS_ATTR_REG_DM_MR_DM_HANDLE, dm), u64_in(UVERBS_ATTR_REG_DM_MR_OFFSET, offset),
		u64_in(UVERBS_ATTR_REG_DM_MR_LENGTH, length), u32_in(UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS, access),
		data_out(UVERBS_ATTR_REG_DM_MR_RESP_LKEY, keys, 4), data_out(UVERBS_ATTR_REG_DM_MR_RESP_RKEY, keys + 1, 4),
	};
	int ret = CALL(UVERBS_OBJECT_MR, UVERBS_METHOD_DM_MR_REG, attrs);

	*mr = attrs[0].data;
	return ret ?: keys[0] == 0x1000 && keys[1] == 0x2000 ? 0 : -1;
}

static void device_memory(uint32_t pd)
{
	const uint32_t zero_based = IB_UVERBS_ACCESS_ZERO_BASED;
	uint32_t dm, mr;

	expect("dm: what the driver refuses", ERANGE, alloc_dm(100, 5, &dm));
	expect("dm: a good one", 0, alloc_dm(100, 6, &dm));
	expect("dm: a region that is not zero-based", EINVAL, reg_dm(pd, dm, 0, 100, 1, &mr));
	expect("dm: a region that is too long", EINVAL, reg_dm(pd, dm, 90, 20, zero_based, &mr));
	expect("dm: a region behind the end", EINVAL, reg_dm(pd, dm, 101, 0, zero_based, &mr));
	expect("dm: a region that wraps", EINVAL, reg_dm(pd, dm, UINT64_MAX, 2, zero_based, &mr));
	expect("dm: a region", 0, reg_dm(pd, dm, 90, 10, zero_based, &mr));
	expect("dm: it stays with a region", EBUSY, destroy(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE, dm));
	expect_destroyed("mr", UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, mr);
	expect_destroyed("dm", UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE, dm);
}

static struct ib_uverbs_attr choice(uint16_t id, uint8_t which)
{
	struct ib_uverbs_attr attr = { .attr_id = id, .flags = UVERBS_ATTR_F_MANDATORY };

	attr.attr_data.enum_data.elem_id = which;
	return attr;
}

static int alloc_dmah_of(struct ib_uverbs_attr memory, uint32_t cpu, uint8_t hint, uint32_t *dmah)
{
	struct ib_uverbs_attr attrs[] = {
		handle(ALLOC_DMAH_HANDLE, 0), u32_in(ALLOC_DMAH_CPU, cpu), memory, data_in(ALLOC_DMAH_HINT, &hint, 1),
	};
	int ret = CALL(OBJECT_DMAH, 0, attrs);

	*dmah = attrs[0].data;
	return ret;
}

static int alloc_dmah(uint32_t cpu, uint8_t memory, uint8_t hint, uint32_t *dmah)
{
	return alloc_dmah_of(choice(ALLOC_DMAH_MEMORY, memory), cpu, hint, dmah);
}

static void hints(uint32_t pd)
{
	struct ib_uverbs_attr odd = choice(ALLOC_DMAH_MEMORY, 1);
	uint32_t dmah, mr, lkey;
	struct ib_uverbs_attr source[] = { u64_in(REG_MR_ADDR, 0x3010), handle(REG_MR_DMAH, 0) };
	cpu_set_t one, all;

	sched_getaffinity(0, sizeof(all), &all);
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	sched_setaffinity(0, sizeof(one), &one);
	expect("dmah: a CPU that there is not", EINVAL, alloc_dmah(100000, 0, 0, &dmah));
	expect("dmah: a CPU that is not ours", CPU_COUNT(&all) > 1 ? EPERM : EINVAL, alloc_dmah(1, 0, 0, &dmah));
	sched_setaffinity(0, sizeof(all), &all);
	expect("dmah: memory that there is not", EOPNOTSUPP, alloc_dmah(0, 2, 0, &dmah));
	expect("dmah: a hint that there is not", EINVAL, alloc_dmah(0, 1, 4, &dmah));
	odd.attr_data.enum_data.reserved = 1;
	expect("dmah: a reserved byte of a choice", EINVAL, alloc_dmah_of(odd, 0, 2, &dmah));
	expect("dmah: a good one", 0, alloc_dmah(0, 1, 2, &dmah));
	source[1].data = dmah;
	expect("dmah: a region with hints", 0, reg_mr(pd, source, 2, 0x7010, &mr, &lkey));
	verdict("dmah: the driver has seen them", lkey == (0x1000 | 7 << 4 | 2), "others");
	expect("dmah: it stays with a region", EBUSY, destroy(OBJECT_DMAH, 1, dmah));
	expect_destroyed("mr", UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, mr);
	expect_destroyed("dmah", OBJECT_DMAH, 1, dmah);
}

static int reg_dmabuf(uint32_t pd, uint64_t offset, uint32_t access, uint32_t *mr)
{
	uint32_t keys[2];
	struct ib_uverbs_attr attrs[] = {
		handle(UVERBS_ATTR_REG_DMABUF_MR_HANDLE, 0), handle(UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, pd),
		u64_in(UVERBS_ATTR_REG_DMABUF_MR_OFFSET, offset), u64_in(UVERBS_ATTR_REG_DMABUF_MR_LENGTH, 0x20),
		u64_in(UVERBS_ATTR_REG_DMABUF_MR_IOVA, 0x7010), u32_in(UVERBS_ATTR_REG_DMABUF_MR_FD, 9),
		u32_in(UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, access), data_out(UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, keys, 4),
		data_out(UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, keys + 1, 4),
	};
	int ret = CALL(UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR, attrs);

	*mr = attrs[0].data;
	return ret;
}

static void buffers(uint32_t pd)
{
	const struct ib_uverbs_attr source[] = { u64_in(REG_MR_FD_OFFSET, 0x3010), handle(REG_MR_FD, 9) };
	const struct ib_uverbs_sge pieces[] = { { 1, 2, 3 }, { 2, 3, 4 }, { 3, 4, 5 } };
	struct ib_uverbs_attr advise[] = {
		handle(UVERBS_ATTR_ADVISE_MR_PD_HANDLE, pd), u64_in(UVERBS_ATTR_ADVISE_MR_ADVICE, 1),
		u32_in(UVERBS_ATTR_ADVISE_MR_FLAGS, 1), data_in(UVERBS_ATTR_ADVISE_MR_SGE_LIST, pieces, sizeof(pieces)),
	};
	uint32_t mr, lkey;

	expect("mr: a buffer, another place in the page", EINVAL, reg_dmabuf(pd, 0x3000, 1, &mr));
	expect("mr: a buffer on demand", EINVAL, reg_dmabuf(pd, 0x3010, IB_UVERBS_ACCESS_ON_DEMAND, &mr));
	expect("mr: a buffer", 0, reg_dmabuf(pd, 0x3010, 1, &mr));
	expect_destroyed("mr", UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, mr);
	expect("mr: a buffer without an offset", EINVAL, reg_mr(pd, source + 1, 1, 0x7010, &mr, &lkey));
	expect("mr: a buffer, by the method for all", 0, reg_mr(pd, source, 2, 0x7010, &mr, &lkey));
	expect_destroyed("mr", UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, mr);
	expect("mr: advice about three pieces", 0, CALL(UVERBS_OBJECT_MR, UVERBS_METHOD_ADVISE_MR, advise));
	advise[3].len = sizeof(pieces[0]);
	expect("mr: advice about one piece, which the driver refuses", EDOM, CALL(UVERBS_OBJECT_MR, UVERBS_METHOD_ADVISE_MR, advise));
}

/* The handle stays, whether the driver changes the region or makes another one. */
static void again(uint32_t pd)
{
	const struct ib_uverbs_attr source[] = { u64_in(REG_MR_ADDR, 0x3010) };
	uint32_t mr, lkey, other = alloc_pd();

	expect("again: a region", 0, reg_mr(pd, source, 1, 0x7010, &mr, &lkey));
	expect("again: something else", EOPNOTSUPP, rereg_mr(mr, REREG_PLACE | 8, pd, &lkey));
	expect("again: a PD that there is not", ENOENT, rereg_mr(mr, REREG_PD, 12345, &lkey));
	expect("again: another PD and other rights", 0, rereg_mr(mr, REREG_PD | REREG_ACCESS, other, &lkey));
	verdict("again: the same region", lkey == 0x1000, "another");
	expect("again: it keeps its new PD", EBUSY, destroy_pd(other));
	expect("again: another place", 0, rereg_mr(mr, REREG_PLACE, pd, &lkey));
	verdict("again: another region", lkey == 0x1001, "the same");
	expect("again: that has its PD too", EBUSY, destroy_pd(other));
	expect("again: another place and PD", 0, rereg_mr(mr, REREG_PLACE | REREG_PD, pd, &lkey));
	verdict("again: a third region", lkey == 0x1002, "another");
	expect("again: the PD is free", 0, destroy_pd(other));
	expect_destroyed("mr", UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, mr);
}

static int alloc_dmabuf(uint64_t page, int *file)
{
	struct ib_uverbs_attr attrs[] = { handle(0, 0), u64_in(1, page) };
	int ret = CALL(OBJECT_DMABUF, 0, attrs);

	*file = attrs[0].data;
	return ret;
}

/* Returns one that stays open. */
static int dma_buffers(void)
{
	int file;

	expect("dmabuf: an offset that nothing begins at", EINVAL, alloc_dmabuf(5, &file));
	expect("dmabuf: an offset that there is not", EINVAL, alloc_dmabuf(1ULL << 40, &file));
	expect("dmabuf: a good one", 0, alloc_dmabuf(0, &file));
	verdict("dmabuf: its size", lseek(file, 0, SEEK_END) == 2 * PAGE, "another");
	verdict("dmabuf: closed", !close(file), "it is not");
	expect("dmabuf: another", 0, alloc_dmabuf(0, &file));
	return file;
}

/* Flows
 * ------------------------------------------------------------------------------------------------------------------ */

static int read_counters(uint32_t counters, void *values, uint16_t len)
{
	struct ib_uverbs_attr attrs[] = {
		handle(UVERBS_ATTR_READ_COUNTERS_HANDLE, counters), data_out(UVERBS_ATTR_READ_COUNTERS_BUFF, values, len),
		u32_in(UVERBS_ATTR_READ_COUNTERS_FLAGS, IB_UVERBS_READ_COUNTERS_PREFER_CACHED),
	};

	return CALL(UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_READ, attrs);
}

static void flows(uint32_t pd)
{
	struct __attribute__((packed)) {
		struct ib_uverbs_create_flow head;
		struct ib_uverbs_flow_spec_action_count count;
		struct ib_uverbs_flow_spec_action_handle action;
	} request = {
		.head.flow_attr = { .size = sizeof(request.count) + sizeof(request.action), .num_of_specs = 2, .port = 1 },
		.count = { .type = 0x1003, .size = sizeof(request.count) },
		.action = { .type = 0x1002, .size = sizeof(request.action) },
	};
	struct ib_uverbs_create_flow_resp response = { 0 };
	struct ib_uverbs_attr create[] = { handle(UVERBS_ATTR_CREATE_COUNTERS_HANDLE, 0) };
	uint32_t answer = 0, counters, action, cq = create_cq(0xc3, -1), qp;
	struct ib_uverbs_attr act[] = { handle(ACTION_HANDLE, 0), data_out(ACTION_ANSWER, &answer, sizeof(answer)) };
	struct ib_uverbs_attr links[] = {
		handle(UVERBS_ATTR_CREATE_QP_PD_HANDLE, pd), handle(UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, cq),
		handle(UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, cq),
	};
	uint64_t values[4] = { 0 };

	expect("action: a good one, by a method of the driver", 0, CALL(UVERBS_OBJECT_FLOW_ACTION, METHOD_ACTION_CREATE, act));
	verdict("action: what the driver answers", answer == 42, "something else");
	action = act[0].data;
	expect("counters: good ones", 0, CALL(UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_CREATE, create));
	counters = create[0].data;
	expect("counters: read before they count", EINVAL, read_counters(counters, values, sizeof(values)));
	if (create_qp(IB_UVERBS_QPT_UD, &qp, &answer, links, 3))
		die("create a queue pair", errno);
	request.head.qp_handle = qp;
	request.count.handle = counters;
	request.action.handle = action;
	expect("flow: a good one", 0, invoke(EX(IB_USER_VERBS_EX_CMD_CREATE_FLOW), &request, sizeof(request), &response,
					     sizeof(response)));
	expect("counters: read", 0, read_counters(counters, values, sizeof(values)));
	verdict("counters: their values", values[0] == 100 && values[3] == 103, "others");
	memset(values, 0, sizeof(values));
	expect("counters: not all are read", 0, read_counters(counters, values, 20));
	verdict("counters: so many values", values[1] == 101 && !values[2], "others");
	expect("counters: they stay with a flow", EBUSY, destroy(UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_DESTROY, counters));
	expect("action: it stays with a flow", EBUSY, destroy(UVERBS_OBJECT_FLOW_ACTION, UVERBS_METHOD_FLOW_ACTION_DESTROY, action));
	expect_destroyed("flow", UVERBS_OBJECT_FLOW, UVERBS_METHOD_FLOW_DESTROY, response.flow_handle);
	expect_destroyed("counters", UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_DESTROY, counters);
	expect_destroyed("action", UVERBS_OBJECT_FLOW_ACTION, UVERBS_METHOD_FLOW_ACTION_DESTROY, action);
	expect_counted("qp", UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY, qp, 1, 0);
	expect_counted("cq", UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY, cq, 2, 0);
}

/* The extended commands of what the ioctl methods above make and destroy, and the one that has no method. */
static void extended_commands(uint32_t pd)
{
	uint32_t cq = create_cq(0xc5, -1), qp, answer;
	struct ib_uverbs_ex_create_wq create_wq = { .user_handle = 0x39, .pd_handle = pd, .cq_handle = cq, .max_wr = 8, .max_sge = 3 };
	struct ib_uverbs_ex_create_wq_resp wq = { 0 };
	struct ib_uverbs_ex_modify_wq modify_wq = { .attr_mask = 1, .wq_state = 1 };
	struct ib_uverbs_ex_destroy_wq destroy_wq = { 0 };
	struct ib_uverbs_ex_destroy_wq_resp wq_gone = { .events_reported = 77 };
	struct { struct ib_uverbs_ex_create_rwq_ind_table head; uint32_t wqs[2]; } create_table = { { 0 } };
	struct ib_uverbs_ex_create_rwq_ind_table_resp table = { 0 };
	struct ib_uverbs_ex_destroy_rwq_ind_table destroy_table = { 0 };
	struct ib_uverbs_ex_modify_cq modify_cq = { .cq_handle = cq, .attr_mask = 1, .attr = { 3, 4 } };
	struct { struct ib_uverbs_create_flow head; struct ib_uverbs_flow_spec_action_drop drop; } create_flow = {
		.head.flow_attr = { .size = sizeof(create_flow.drop), .num_of_specs = 1, .port = 1 },
		.drop = { .type = 0x1001, .size = sizeof(create_flow.drop) },
	};
	struct ib_uverbs_create_flow_resp flow = { 0 };
	struct ib_uverbs_destroy_flow destroy_flow = { 0 };
	struct ib_uverbs_attr links[] = {
		handle(UVERBS_ATTR_CREATE_QP_PD_HANDLE, pd), handle(UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, cq),
		handle(UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, cq),
	};

#define EXTENDED(number, request, response) invoke(EX(IB_USER_VERBS_EX_CMD_##number), &(request), sizeof(request), &(response), sizeof(response))
#define EXTENDED_IN(number, request) invoke(EX(IB_USER_VERBS_EX_CMD_##number), &(request), sizeof(request), NULL, 0)
	expect("CREATE_WQ", 0, EXTENDED(CREATE_WQ, create_wq, wq));
	verdict("CREATE_WQ: its room and its number", wq.max_wr == 8 && wq.max_sge == 3 && wq.wqn == 5, "others");
	modify_wq.wq_handle = destroy_wq.wq_handle = create_table.wqs[0] = wq.wq_handle;
	expect("MODIFY_WQ", 0, EXTENDED_IN(MODIFY_WQ, modify_wq));
	expect_event("MODIFY_WQ: the driver was asked", async, 0x39, EVENT_WQ_FATAL);
	expect("CREATE_RWQ_IND_TBL", 0, EXTENDED(CREATE_RWQ_IND_TBL, create_table, table));
	destroy_table.ind_tbl_handle = table.ind_tbl_handle;
	expect("DESTROY_WQ: not while a table has it", EBUSY, EXTENDED(DESTROY_WQ, destroy_wq, wq_gone));
	expect("DESTROY_RWQ_IND_TBL", 0, EXTENDED_IN(DESTROY_RWQ_IND_TBL, destroy_table));
	expect("DESTROY_RWQ_IND_TBL: once", ENOENT, EXTENDED_IN(DESTROY_RWQ_IND_TBL, destroy_table));
	expect("DESTROY_WQ", 0, EXTENDED(DESTROY_WQ, destroy_wq, wq_gone));
	verdict("DESTROY_WQ: how many events were read", wq_gone.events_reported == 1, "another number");

	expect("MODIFY_CQ", 0, EXTENDED_IN(MODIFY_CQ, modify_cq));
	modify_cq.attr.cq_period = 5;
	expect("MODIFY_CQ: what the driver refuses", ERANGE, EXTENDED_IN(MODIFY_CQ, modify_cq));
	modify_cq.attr_mask = 2;
	expect("MODIFY_CQ: something else of it", EOPNOTSUPP, EXTENDED_IN(MODIFY_CQ, modify_cq));

	expect("CREATE_FLOW: a QP", 0, create_qp(IB_UVERBS_QPT_UD, &qp, &answer, links, 3));
	create_flow.head.qp_handle = qp;
	expect("CREATE_FLOW", 0, EXTENDED(CREATE_FLOW, create_flow, flow));
	destroy_flow.flow_handle = flow.flow_handle;
	expect("DESTROY_FLOW", 0, EXTENDED_IN(DESTROY_FLOW, destroy_flow));
	expect("DESTROY_FLOW: once", ENOENT, EXTENDED_IN(DESTROY_FLOW, destroy_flow));
	expect_counted("qp", UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY, qp, 1, 0);
	expect_counted("cq", UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY, cq, 2, 0);
}

/* A port that requires a GRH says so, and has no address handle without one. */
static void addresses(uint32_t pd)
{
	struct ib_uverbs_query_port query = { .port_num = 1 };
	struct ib_uverbs_query_port_resp port = { 0 };
	struct ib_uverbs_create_ah create = { .user_handle = 1, .pd_handle = pd, .attr = { .dlid = 3, .port_num = 1, .grh.hop_limit = 4 } };
	struct ib_uverbs_create_ah_resp made = { 0 };
	int before = live();

	create.attr.grh.dgid[15] = 9;
	expect("ah: the port", 0, invoke(IB_USER_VERBS_CMD_QUERY_PORT, &query, sizeof(query), &port, sizeof(port)));
	verdict("ah: it requires a GRH", port.flags & IB_UVERBS_QPF_GRH_REQUIRED, "it does not say so");
	expect("ah: none without a GRH", EINVAL, invoke(IB_USER_VERBS_CMD_CREATE_AH, &create, sizeof(create), &made, sizeof(made)));
	verdict("ah: which the driver was not asked for", live() == before, "it was");
	create.attr.is_global = 1;
	expect("ah: one with a GRH", 0, invoke(IB_USER_VERBS_CMD_CREATE_AH, &create, sizeof(create), &made, sizeof(made)));
	expect_destroyed("ah", UVERBS_OBJECT_AH, UVERBS_METHOD_AH_DESTROY, made.ah_handle);
}

int main(int argc, char **argv)
{
	uint32_t pd, dm, dmah;
	int file;

	if (argc != 3)
		return 2;
	is_ours = !strcmp(argv[2], "ours");
	open_context(argv[1]);
	async = open_async();
	pd = alloc_pd();
	queues_in_memory();
	events(pd);
	xrc(pd);
	xrc_by_file();
	every_event(pd);
	work_queues(pd);
	device_memory(pd);
	hints(pd);
	buffers(pd);
	again(pd);
	flows(pd);
	extended_commands(pd);
	addresses(pd);
	file = dma_buffers();
	expect_destroyed("pd", UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY, pd);
	expect("closing: memory of the device", 0, alloc_dm(1, 6, &dm));
	expect("closing: hints", 0, alloc_dmah(0, 0, 0, &dmah));
	close(node);
	close(async);
	verdict("dmabuf: closed after the device", !close(file), "it is not");
	return all_done();
}
