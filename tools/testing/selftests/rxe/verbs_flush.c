// SPDX-License-Identifier: GPL-2.0
/*
 * FLUSH to persistent memory: which access rights it needs, and which bytes are written back, by the calls of arch_wb_cache_pmem that a
 * probe counts (flush.sh). The memory is that of /dev/fake_pmem (../modules/fake_pmem.c).
 *
 *   verbs_flush DEVICE GID_INDEX
 */
#define _GNU_SOURCE
#include "verbs.h"
#include <fcntl.h>
#include <rdma/ib_user_verbs.h>
#include <sys/mman.h>

#define PAGE 4096
#define SIZE (16 * PAGE)
#define TRACE "/run/tracing/trace"
/* What a QP may offer of annex A19; not in all libraries. */
#define FLUSH_GLOBAL (1 << 8)
#define FLUSH_PERSISTENT (1 << 9)
#define BOTH (FLUSH_GLOBAL | FLUSH_PERSISTENT)
#define CAN_FLUSH_PERSISTENT (1ull << 39)

static struct end a, b;
static char *memory;

static void number_is_known(const char *name, long wanted, long got, bool known)
{
	char why[100];

	snprintf(why, sizeof(why), "wanted %ld, got %ld", wanted, got);
	verdict(name, wanted == got, known, why);
}

/* The bytes that were written back since the last call; of the first piece, where it begins in its page. */
static long written_back(long *first)
{
	FILE *trace = fopen(TRACE, "r");
	char line[512];
	long sum = 0;

	if (!trace)
		die("open the trace");
	*first = -1;
	while (fgets(line, sizeof(line), trace)) {
		unsigned long address, length;
		char *found = strstr(line, " address=");

		if (!strstr(line, "written_back:") || !found || sscanf(found, " address=%lx length=%lu", &address, &length) != 2)
			continue;
		if (*first < 0)
			*first = address % PAGE;
		sum += length;
	}
	fclose(trace);
	trace = fopen(TRACE, "w");
	if (!trace || fclose(trace))
		die("clear the trace");
	return sum;
}

/* A and B with new queue pairs, to which `access` is allowed. */
static void anew(int access)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RC, .cap = { 16, 16, 1, 1, 16 }, .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_RDMA_WRITE, .pd = pd,
	};
	struct setup setup = { .access = 1 + (ACCESS_ALL | access), .timeout = 18 };
	struct end *ends[] = { &a, &b };

	for (int i = 0; i < 2; i++) {
		if (ends[i]->qp)
			ibv_destroy_qp(ends[i]->qp);
		if (!ends[i]->cq)
			ends[i]->cq = ibv_create_cq(context, 16, NULL, NULL, 0);
		init.send_cq = init.recv_cq = ends[i]->cq;
		ends[i]->qp = ibv_create_qp_ex(context, &init);
		if (!ends[i]->qp)
			die("create a QP with FLUSH");
	}
	pair_connect(&a, &b, &setup);
}

static int flush(uint32_t rkey, char *at, uint32_t length, int type, int level)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(a.qp);
	struct ibv_wc wc;

	ibv_wr_start(qp);
	qp->wr_id = 7;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_flush(qp, rkey, (uintptr_t)at, length, type, level);
	if (ibv_wr_complete(qp))
		die("post");
	wc = wait_wc(&a, 5000);
	return wc.status;
}

static struct ibv_mr *registered(char *at, size_t size, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, at, size, access);

	if (!mr)
		die("register memory");
	return mr;
}

static int errno_of_registration(char *at, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, at, SIZE, access);

	if (!mr)
		return errno;
	ibv_dereg_mr(mr);
	return 0;
}

/* The library's driver has no ibv_rereg_mr. */
static int reregister(struct ibv_mr *mr, int access)
{
	struct ib_uverbs_rereg_mr_resp response;
	struct {
		struct ib_uverbs_cmd_hdr header;
		struct ib_uverbs_rereg_mr request;
	} command = {
		.header = { IB_USER_VERBS_CMD_REREG_MR, sizeof(command) / 4, sizeof(response) / 4 },
		.request = { .response = (uintptr_t)&response, .mr_handle = mr->handle, .flags = IBV_REREG_MR_CHANGE_ACCESS, .access_flags = access },
	};

	return write(context->cmd_fd, &command, sizeof(command)) == sizeof(command) ? 0 : errno;
}

static void registrations(void)
{
	char *ordinary = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_device_attr_ex attr;
	struct ibv_mr *mr;

	ibv_query_device_ex(context, NULL, &attr);
	verdict("the device flushes to persistent memory", attr.device_cap_flags_ex & CAN_FLUSH_PERSISTENT, false, "no capability");
	number_is_known("ordinary memory is not persistent", EINVAL, errno_of_registration(ordinary, ACCESS_ALL | FLUSH_PERSISTENT), false);
	number_is_known("persistent memory is", 0, errno_of_registration(memory, ACCESS_ALL | FLUSH_PERSISTENT), false);
	number_is_known("ordinary memory can be flushed to be seen", 0, errno_of_registration(ordinary, ACCESS_ALL | FLUSH_GLOBAL), false);
	mr = registered(ordinary, SIZE, ACCESS_ALL);
	number_is_known("ordinary memory does not become persistent", EINVAL, reregister(mr, ACCESS_ALL | FLUSH_PERSISTENT), true);
	ibv_dereg_mr(mr);
	munmap(ordinary, SIZE);
}

static void flushes(const char *kind, int access)
{
	struct ibv_mr *mr = registered(memory, SIZE, ACCESS_ALL | BOTH | access);
	char name[100];
	long first;

#define NAMED(...) (snprintf(name, sizeof(name), __VA_ARGS__), name)
	anew(BOTH);
	memset(memory, 0x5a, SIZE);
	written_back(&first);
	number_is_known(NAMED("%s: a range", kind), 0, flush(mr->rkey, memory + PAGE - 50, 100, IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE), false);
	number_is_known(NAMED("%s: its bytes are written back", kind), 100, written_back(&first), false);
	number_is_known(NAMED("%s: from its first one on", kind), PAGE - 50, first, false);
	number_is_known(NAMED("%s: to be seen and to last", kind), 0, flush(mr->rkey, memory, SIZE, IBV_FLUSH_PERSISTENT | IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE), false);
	number_is_known(NAMED("%s: all is written back", kind), SIZE, written_back(&first), false);
	number_is_known(NAMED("%s: the region", kind), 0, flush(mr->rkey, memory + 5, 5, IBV_FLUSH_PERSISTENT, IBV_FLUSH_MR), false);
	number_is_known(NAMED("%s: all of it is written back", kind), SIZE, written_back(&first), false);
	number_is_known(NAMED("%s: a byte", kind), 0, flush(mr->rkey, memory + SIZE - 1, 1, IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE), false);
	number_is_known(NAMED("%s: is written back alone", kind), 1, written_back(&first), false);
	number_is_known(NAMED("%s: to be seen", kind), 0, flush(mr->rkey, memory, SIZE, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE), false);
	number_is_known(NAMED("%s: needs no bytes written back", kind), 0, written_back(&first), false);
	number_is_known(NAMED("%s: beyond its end", kind), IBV_WC_REM_ACCESS_ERR,
		  flush(mr->rkey, memory + 1, SIZE, IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE), false);
	number_is_known(NAMED("%s: nothing is written back", kind), 0, written_back(&first), false);
	ibv_dereg_mr(mr);
}

static void rights(void)
{
	struct ibv_mr *seen = registered(memory, SIZE, ACCESS_ALL | FLUSH_GLOBAL), *lasts = registered(memory, SIZE, ACCESS_ALL | FLUSH_PERSISTENT);
	long first;

	anew(BOTH);
	number_is_known("a region that is only to be seen", IBV_WC_REM_ACCESS_ERR, flush(seen->rkey, memory, 8, IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE), false);
	anew(BOTH);
	number_is_known("that region as a whole", IBV_WC_REM_ACCESS_ERR, flush(seen->rkey, memory, 8, IBV_FLUSH_PERSISTENT, IBV_FLUSH_MR), false);
	anew(BOTH);
	number_is_known("one that is only to last", IBV_WC_REM_ACCESS_ERR,
		  flush(lasts->rkey, memory, 8, IBV_FLUSH_PERSISTENT | IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE), false);
	anew(FLUSH_GLOBAL);
	number_is_known("a queue pair without the right", IBV_WC_REM_INV_REQ_ERR, flush(lasts->rkey, memory, 8, IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE), false);
	number_is_known("nothing was written back", 0, written_back(&first), false);
	anew(FLUSH_PERSISTENT);
	number_is_known("a queue pair with it", 0, flush(lasts->rkey, memory, 8, IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE), false);
	number_is_known("the bytes are written back", 8, written_back(&first), false);
	ibv_dereg_mr(seen);
	seen = registered(memory, SIZE, ACCESS_ALL);
	number_is_known("persistent memory may get the right later", 0, reregister(seen, ACCESS_ALL | BOTH), false);
	number_is_known("then it is", 0, flush(seen->rkey, memory, 9, IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE), false);
	number_is_known("and its bytes are written back", 9, written_back(&first), false);
	ibv_dereg_mr(seen);
	ibv_dereg_mr(lasts);
}

/* The processors write back what a peer has written before its page goes. */
static void unmapped(void)
{
	struct ibv_mr *mr = registered(memory, SIZE, ACCESS_ALL | BOTH | IBV_ACCESS_ON_DEMAND);
	struct ibv_mr *own = registered(memory, SIZE, ACCESS_ALL);
	struct ibv_sge sge = { (uintptr_t)memory + 8 * PAGE, 2 * PAGE, own->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED };
	long first;

	anew(BOTH);
	wr.wr.rdma.remote_addr = (uintptr_t)memory;
	wr.wr.rdma.rkey = mr->rkey;
	number_is_known("two pages of memory that is paged on demand are written", 0, post(&a, &wr) ?: (int)wait_wc(&a, 5000).status, false);
	written_back(&first);
	munmap(memory, 4 * PAGE);
	number_is_known("when they go, they are written back", 2 * PAGE, written_back(&first), true);
	ibv_dereg_mr(own);
	ibv_dereg_mr(mr);
}

int main(int argc, char **argv)
{
	int fd = open("/dev/fake_pmem", O_RDWR);

	open_device(argc, argv);
	memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		die("map persistent memory");
	registrations();
	flushes("pinned", 0);
	flushes("on demand", IBV_ACCESS_ON_DEMAND);
	rights();
	unmapped();
	return all_done();
}
