// SPDX-License-Identifier: GPL-2.0
/*
 * On-demand paging: capabilities, every operation on memory that is not there, memory that goes while it is used, advice, and a
 * program that maps its memory anew while a peer writes and reads it.
 *
 *   verbs_odp DEVICE GID_INDEX [SECONDS [CHANGES]]	with SECONDS: what only our driver bears, the traffic for so long, and until the
 *							memory was changed so often
 */
#define _GNU_SOURCE
#include "process.h"
#include "verbs.h"
#include <pthread.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define PAGE 4096
#define PAGES 64
#define SIZE (PAGES * PAGE)
#define ODP IBV_ACCESS_ON_DEMAND
#define LW IBV_ACCESS_LOCAL_WRITE
#define ATOMIC_LEN 8
/* What a QP of ours may offer of annex A19; not in all libraries. */
#define FLUSH_GLOBAL (1 << 8)

static struct end a, b;
/* The memory of A and B that is paged on demand. */
static char *mine, *theirs;
static struct ibv_mr *my_mr, *their_mr;
/* The stock driver goes on using pages that the program has no more: what follows may fail there. */
static bool stale;

static void check(const char *name, bool good, const char *why)
{
	verdict(name, good, stale, why);
}

static void status_is(const char *name, int wanted, int got, bool known)
{
	char why[100];

	snprintf(why, sizeof(why), "wanted status %d, got %d", wanted, got);
	verdict(name, wanted == got, known || stale, why);
}

static void errno_is(const char *name, int wanted, int got, bool known)
{
	char why[100];

	snprintf(why, sizeof(why), "wanted %s, got %s", strerrorname_np(wanted) ?: "0", strerrorname_np(got) ?: "0");
	verdict(name, wanted == got, known || stale, why);
}

/* Memory
 * ------------------------------------------------------------------------------------------------------------------ */

static char *map(char *at, size_t size)
{
	char *memory = mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);

	if (memory == MAP_FAILED)
		die("mmap");
	return memory;
}

static struct ibv_mr *paged(char *at, size_t size, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, at, size, access | ODP);

	if (!mr)
		die("register memory that is paged on demand");
	return mr;
}

/* The pages of a range that the program has. */
static int present(char *at, int pages)
{
	unsigned char has[PAGES];
	int count = 0;

	if (mincore(at, pages * PAGE, has))
		return -1;
	for (int i = 0; i < pages; i++)
		count += has[i] & 1;
	return count;
}

static void fill(char *at, size_t size, int seed)
{
	for (size_t i = 0; i < size; i++)
		at[i] = seed + i / 7 + i / PAGE;
}

static bool filled(const char *at, size_t size, int seed)
{
	for (size_t i = 0; i < size; i++)
		if (at[i] != (char)(seed + i / 7 + i / PAGE))
			return false;
	return true;
}

/* Operations
 * ------------------------------------------------------------------------------------------------------------------ */

/* A timeout of seconds: faults may take long while the memory is mapped anew, and on a slow machine. */
static void anew(enum ibv_qp_type type)
{
	struct setup setup = { .type = type, .timeout = 18 };

	if (a.qp) {
		end_destroy(&a);
		end_destroy(&b);
	}
	pair_init(&a, &b, &setup);
}

static struct ibv_send_wr to_peer(enum ibv_wr_opcode opcode, struct ibv_sge *sge, char *here, char *there, uint32_t length)
{
	struct ibv_send_wr wr = request_at(opcode, sge, (uintptr_t)there, their_mr->rkey);

	*sge = (struct ibv_sge){ (uintptr_t)here, length, my_mr->lkey };
	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.compare_add = 5;
		wr.wr.atomic.swap = 9;
	}
	return wr;
}

/* The status of an operation between the paged memories of A and B. */
static int operate(enum ibv_wr_opcode opcode, char *here, char *there, uint32_t length)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = to_peer(opcode, &sge, here, there, length);

	return post(&a, &wr) ? -2 : (int)wait_wc(&a, 5000).status;
}

static void receive_into(char *at, uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)at, length, their_mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = 88, .sg_list = &sge, .num_sge = 1 }, *bad;

	if (ibv_post_recv(b.qp, &wr, &bad))
		die("post a receive");
}

/* A message from A to B: both statuses. */
static int send_to(char *here, char *there, uint32_t length, int *receiver)
{
	int status;

	receive_into(there, length);
	status = operate(IBV_WR_SEND, here, NULL, length);
	*receiver = wait_wc(&b, 1000).status;
	return status;
}

static void capabilities(void)
{
	struct ibv_device_attr_ex attr = { 0 };
	const int datagrams = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
	/* FLUSH and ATOMIC_WRITE are younger than the library's names. */
	const int all = datagrams | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC | 1 << 6 | 1 << 7;
	struct ibv_odp_caps *odp = &attr.odp_caps;

	if (ibv_query_device_ex(context, NULL, &attr))
		die("ibv_query_device_ex");
	check("explicit, not implicit", odp->general_caps == IBV_ODP_SUPPORT, "general capabilities");
	check("capabilities of RC", (int)odp->per_transport_caps.rc_odp_caps == all, "others");
	check("capabilities of UC: none", !odp->per_transport_caps.uc_odp_caps, "some");
	check("capabilities of UD", (int)odp->per_transport_caps.ud_odp_caps == datagrams, "others");
}

static int refused(void *at, size_t size, int access)
{
	struct ibv_mr *mr;

	errno = 0;
	mr = ibv_reg_mr(pd, at, size, access);
	if (mr)
		ibv_dereg_mr(mr);
	return mr ? 0 : errno;
}

static void regions(void)
{
	char *at = map(NULL, SIZE), *gone = map(NULL, SIZE);
	long before = pinned(), locked = in_status("VmLck");
	struct ibv_mr *mr;

	munmap(gone, SIZE);
	errno_is("implicit: not offered", EINVAL, refused(NULL, SIZE_MAX, LW | ODP), false);
	errno_is("no bytes", EINVAL, refused(at, 0, LW | ODP), false);
	errno_is("the end of the address space", EOVERFLOW, refused((void *)-PAGE, PAGE, LW | ODP), true);
	errno_is("memory that is not mapped", 0, refused(gone, SIZE, LW | ODP), false);
	errno_is("huge pages", EOPNOTSUPP, refused(at, SIZE, LW | ODP | IBV_ACCESS_HUGETLB), false);
	mr = paged(at, SIZE, ACCESS_ALL);
	check("nothing is pinned", pinned() == before && in_status("VmLck") == locked, "pages are");
	check("nothing is faulted in", present(at, PAGES) == 0, "pages are");
	ibv_dereg_mr(mr);
	munmap(at, SIZE);
}

/* Each operation on memory that neither side has touched. */
static void operations(enum ibv_qp_type type, const char *service)
{
	static const struct {
		const char *name;
		enum ibv_wr_opcode opcode;
		uint32_t length, at;
	} all[] = {
		{ "WRITE", IBV_WR_RDMA_WRITE, 20000, 0 },
		{ "WRITE across pages", IBV_WR_RDMA_WRITE, 20000, 100 },
		{ "WRITE of all", IBV_WR_RDMA_WRITE, SIZE, 0 },
		{ "READ", IBV_WR_RDMA_READ, 20000, 0 },
		{ "READ across pages", IBV_WR_RDMA_READ, 20000, 100 },
		{ "READ of all", IBV_WR_RDMA_READ, SIZE, 0 },
		{ "SEND", IBV_WR_SEND, 20000, 0 },
		{ "SEND across pages", IBV_WR_SEND, 20000, 100 },
		{ "SEND of all", IBV_WR_SEND, SIZE, 0 },
	};

	anew(type);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		bool reads = all[i].opcode == IBV_WR_RDMA_READ;
		char *from = reads ? theirs : mine, *to = reads ? mine : theirs, name[100], why[100];
		int status, receiver = 0;
		bool arrived;

		if (reads && type != IBV_QPT_RC)
			continue;
		map(mine, SIZE);
		map(theirs, SIZE);
		fill(from, SIZE, i);
		if (all[i].opcode == IBV_WR_SEND)
			status = send_to(mine + all[i].at, theirs + all[i].at, all[i].length - all[i].at, &receiver);
		else
			status = operate(all[i].opcode, mine + all[i].at, theirs + all[i].at, all[i].length - all[i].at);
		arrived = bytes_arrive(to + all[i].at, from + all[i].at, all[i].length - all[i].at, type);
		snprintf(name, sizeof(name), "%s %s", service, all[i].name);
		snprintf(why, sizeof(why), "statuses %d and %d, or data", status, receiver);
		verdict(name, !status && !receiver && arrived, true, why);
		if (status || receiver)
			anew(type);
	}
}

static void atomics(void)
{
	uint64_t *number = (void *)(theirs + 8 * PAGE + 64), *result = (void *)(mine + 3 * PAGE + 8);
	char *there = (void *)number, *here = (void *)result;

	anew(IBV_QPT_RC);
	map(mine, SIZE);
	map(theirs, SIZE);
	status_is("FETCH_ADD to memory that is not there", 0, operate(IBV_WR_ATOMIC_FETCH_AND_ADD, here, there, 8), false);
	check("it was 0, and is 5", *result == 0 && *number == 5, "values");
	madvise(mine, SIZE, MADV_DONTNEED);
	status_is("CMP_SWAP, the result to memory that is not there", 0, operate(IBV_WR_ATOMIC_CMP_AND_SWP, here, there, 8), false);
	check("it was 5, and is 9", *result == 5 && *number == 9, "values");
}

/* ATOMIC_WRITE and FLUSH: by a QP that has the operations. */
static void placement(void)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RC, .cap = { 16, 16, 1, 1, 16 }, .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_ATOMIC_WRITE,
	};
	static const struct setup usual = { .access = 1 + (ACCESS_ALL | FLUSH_GLOBAL), .timeout = 18 };
	struct ibv_mr *mr = ibv_reg_mr(pd, theirs, SIZE, ACCESS_ALL | ODP | FLUSH_GLOBAL);
	struct ibv_qp_ex *qp;

	anew(IBV_QPT_RC);
	ibv_destroy_qp(a.qp);
	ibv_destroy_qp(b.qp);
	init.pd = pd;
	init.send_cq = init.recv_cq = a.cq;
	a.qp = ibv_create_qp_ex(context, &init);
	init.send_cq = init.recv_cq = b.cq;
	b.qp = ibv_create_qp_ex(context, &init);
	if (!a.qp || !b.qp || !mr)
		die("create a QP with ATOMIC_WRITE and FLUSH");
	pair_connect(&a, &b, &usual);
	map(theirs, SIZE);
	qp = ibv_qp_to_qp_ex(a.qp);
	for (int flush = 0; flush < 2; flush++) {
		ibv_wr_start(qp);
		qp->wr_id = 7;
		qp->wr_flags = IBV_SEND_SIGNALED;
		if (flush)
			ibv_wr_flush(qp, mr->rkey, (uintptr_t)theirs, SIZE, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
		else
			ibv_wr_atomic_write(qp, mr->rkey, (uintptr_t)theirs + 5 * PAGE, "8 bytes");
		if (ibv_wr_complete(qp))
			die("post");
		status_is(flush ? "FLUSH of memory that is not there" : "ATOMIC_WRITE to memory that is not there", 0, wait_wc(&a, 5000).status, false);
	}
	check("ATOMIC_WRITE has written", !memcmp(theirs + 5 * PAGE, "8 bytes", 8), "other bytes");
	anew(IBV_QPT_RC);
	ibv_dereg_mr(mr);
}

static void datagrams(void)
{
	struct ibv_ah_attr attr = address();
	struct ibv_ah *ah;
	bool good = true;

	anew(IBV_QPT_UD);
	ah = ibv_create_ah(pd, &attr);
	for (int i = 0; i < 8 && good; i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr;
		/* The network header alone in a page, or both across pages. */
		char *at = theirs + 2 * PAGE - (i & 1 ? 40 : 20);

		map(mine, SIZE);
		map(theirs, SIZE);
		fill(mine + PAGE, 1000, i);
		wr = to_peer(IBV_WR_SEND, &sge, mine + PAGE, NULL, 1000);
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = b.qp->qp_num;
		wr.wr.ud.remote_qkey = QKEY;
		receive_into(at, 2000);
		good = !post(&a, &wr) && !wait_wc(&a, 5000).status && !wait_wc(&b, 5000).status && filled(at + 40, 1000, i) &&
		       at[20] == 0x45;
	}
	verdict("UD SEND, to memory that is not there", good, true, "status or data");
	ibv_destroy_ah(ah);
}

static void shared_receives(void)
{
	struct ibv_srq_init_attr init = { .attr = { 16, 1 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &init);
	struct ibv_qp_init_attr qp = { .qp_type = IBV_QPT_RC, .srq = srq, .cap = { 16, 0, 1, 0 } };
	struct ibv_sge sge = { (uintptr_t)theirs, SIZE, their_mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	static const struct setup usual;
	int status, receiver;

	anew(IBV_QPT_RC);
	ibv_destroy_qp(b.qp);
	qp.send_cq = qp.recv_cq = b.cq;
	b.qp = ibv_create_qp(pd, &qp);
	move(a.qp, IBV_QPS_RESET);
	if (!b.qp)
		die("create a QP with an SRQ");
	pair_connect(&a, &b, &usual);
	map(theirs, SIZE);
	fill(mine, SIZE, 3);
	if (ibv_post_srq_recv(srq, &wr, &bad))
		die("post to the SRQ");
	status = operate(IBV_WR_SEND, mine, NULL, SIZE);
	receiver = wait_wc(&b, 1000).status;
	verdict("SEND to a shared receive queue", !status && !receiver && filled(theirs, SIZE, 3), true, "status or data");
	anew(IBV_QPT_RC);
	ibv_destroy_srq(srq);
}

/* A region whose addresses for the device are others than the program's: the stock driver looks beyond its table. */
static void other_addresses(void)
{
	struct ibv_mr *mr = ibv_reg_mr_iova(pd, theirs + 100, SIZE - 100, 0x7000000000 + 100, ACCESS_ALL | ODP), *usual = their_mr;
	int status;

	if (!mr)
		die("ibv_reg_mr_iova");
	anew(IBV_QPT_RC);
	map(theirs, SIZE);
	fill(mine, 5000, 1);
	their_mr = mr;
	status = operate(IBV_WR_RDMA_WRITE, mine, (void *)(0x7000000000 + 100 + 3 * PAGE), 5000);
	their_mr = usual;
	verdict("a region with an address of its own", !status && filled(theirs + 100 + 3 * PAGE, 5000, 1), true, "status or data");
	ibv_dereg_mr(mr);
}

/* Memory that goes
 * ------------------------------------------------------------------------------------------------------------------ */

/* Data of a file that a page shows. */
static bool in_file(int fd, int page, int seed)
{
	char bytes[PAGE];

	return pread(fd, bytes, PAGE, page * PAGE) == PAGE && filled(bytes, PAGE, seed);
}

static void invalidations(void)
{
	int fd = memfd_create("odp", 0), pipes[2], status;
	char *moved, byte;
	pid_t child;

	anew(IBV_QPT_RC);
	map(mine, SIZE);
	fill(mine, PAGE, 1);
	if (fd < 0 || ftruncate(fd, SIZE) || mmap(theirs, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
		die("memfd");
	status_is("WRITE to a page of a file", 0, operate(IBV_WR_RDMA_WRITE, mine, theirs, PAGE), false);
	check("the file has it", in_file(fd, 0, 1), "other data");
	map(theirs, SIZE);
	fill(mine, PAGE, 2);
	status_is("the range is mapped anew: WRITE", 0, operate(IBV_WR_RDMA_WRITE, mine, theirs, PAGE), false);
	check("the new page has it", filled(theirs, PAGE, 2), "other data");
	check("the file has it not", in_file(fd, 0, 1), "it has");
	close(fd);

	madvise(theirs, SIZE, MADV_DONTNEED);
	status_is("MADV_DONTNEED: READ", 0, operate(IBV_WR_RDMA_READ, mine, theirs, PAGE), false);
	check("zeros are read", mine[0] == 0 && !memcmp(mine, mine + 1, PAGE - 1), "other data");
	fill(mine, PAGE, 3);
	status_is("after reading: WRITE", 0, operate(IBV_WR_RDMA_WRITE, mine, theirs, PAGE), false);
	check("it is there", filled(theirs, PAGE, 3), "other data");

	if (pipe(pipes))
		die("pipe");
	child = fork();
	if (!child) {
		bool old;

		close(pipes[1]);
		if (read(pipes[0], &byte, 1) < 0)
			_exit(2);
		old = filled(theirs, PAGE, 3);
		_exit(!old);
	}
	close(pipes[0]);
	fill(mine, PAGE, 4);
	status_is("fork: WRITE", 0, operate(IBV_WR_RDMA_WRITE, mine, theirs, PAGE), false);
	check("the parent has it", filled(theirs, PAGE, 4), "other data");
	close(pipes[1]);
	waitpid(child, &status, 0);
	check("the child has what was before", WIFEXITED(status) && !WEXITSTATUS(status), "the new data");

	mprotect(theirs, SIZE, PROT_READ);
	status_is("PROT_READ: READ", 0, operate(IBV_WR_RDMA_READ, mine, theirs, PAGE), false);
	status_is("PROT_READ: WRITE", IBV_WC_REM_ACCESS_ERR, operate(IBV_WR_RDMA_WRITE, mine, theirs, PAGE), false);
	mprotect(theirs, SIZE, PROT_READ | PROT_WRITE);
	check("nothing was written", filled(theirs, PAGE, 4), "other data");

	anew(IBV_QPT_RC);
	fill(mine, PAGE, 5);
	status_is("WRITE before mremap", 0, operate(IBV_WR_RDMA_WRITE, mine, theirs, PAGE), false);
	moved = mremap(theirs, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, map(NULL, SIZE));
	if (moved == MAP_FAILED)
		die("mremap");
	fill(mine, PAGE, 6);
	status = operate(IBV_WR_RDMA_WRITE, mine, theirs, PAGE);
	map(theirs, SIZE);
	status_is("mremap: WRITE", IBV_WC_REM_ACCESS_ERR, status, false);
	check("the page at its new address has what was before", filled(moved, PAGE, 5), "the new data");
	munmap(moved, SIZE);
}

/* Takes memory away that nothing else is put to: the queue pairs are new, and the program allocates nothing until it is mapped again. */
static void unmap(char *at, size_t size)
{
	anew(IBV_QPT_RC);
	munmap(at, size);
}

/* Memory that cannot be faulted in. */
static void errors(void)
{
	int sender, receiver;

	unmap(theirs, SIZE);
	sender = operate(IBV_WR_RDMA_READ, mine, theirs, PAGE);
	map(theirs, SIZE);
	status_is("munmap: READ", IBV_WC_REM_ACCESS_ERR, sender, false);
	unmap(theirs, SIZE);
	sender = operate(IBV_WR_ATOMIC_FETCH_AND_ADD, mine, theirs, 8);
	map(theirs, SIZE);
	status_is("munmap: FETCH_ADD", IBV_WC_REM_ACCESS_ERR, sender, false);
	unmap(theirs, SIZE);
	sender = send_to(mine, theirs, PAGE, &receiver);
	map(theirs, SIZE);
	status_is("munmap: SEND, at the sender", IBV_WC_REM_OP_ERR, sender, true);
	status_is("munmap: SEND, at the receiver", IBV_WC_LOC_PROT_ERR, receiver, true);
	unmap(mine, SIZE);
	sender = operate(IBV_WR_RDMA_WRITE, mine, theirs, PAGE);
	map(mine, SIZE);
	status_is("munmap here: WRITE", IBV_WC_LOC_PROT_ERR, sender, true);
	unmap(mine, SIZE);
	sender = operate(IBV_WR_RDMA_READ, mine, theirs, PAGE);
	map(mine, SIZE);
	status_is("munmap here: READ", IBV_WC_LOC_PROT_ERR, sender, true);
	unmap(theirs + 4 * PAGE, PAGE);
	sender = operate(IBV_WR_RDMA_WRITE, mine, theirs, 4 * PAGE);
	receiver = operate(IBV_WR_RDMA_WRITE, mine, theirs, 8 * PAGE);
	map(theirs, SIZE);
	status_is("a hole in the middle: WRITE before it", 0, sender, false);
	status_is("a hole in the middle: WRITE across it", IBV_WC_REM_ACCESS_ERR, receiver, false);
}

/* Advice
 * ------------------------------------------------------------------------------------------------------------------ */

static int advise(uint64_t advice, uint64_t flags, struct ib_uverbs_sge *list, int count)
{
	struct {
		struct ib_uverbs_ioctl_hdr header;
		struct ib_uverbs_attr attrs[4];
	} command = {
		.header = { .length = sizeof(command), .object_id = UVERBS_OBJECT_MR, .method_id = UVERBS_METHOD_ADVISE_MR, .num_attrs = 4,
			    .driver_id = RDMA_DRIVER_RXE },
		.attrs = {
			{ .attr_id = UVERBS_ATTR_ADVISE_MR_PD_HANDLE, .flags = UVERBS_ATTR_F_MANDATORY, .data = pd->handle },
			{ .attr_id = UVERBS_ATTR_ADVISE_MR_ADVICE, .len = 8, .flags = UVERBS_ATTR_F_MANDATORY, .data = advice },
			{ .attr_id = UVERBS_ATTR_ADVISE_MR_FLAGS, .len = 8, .flags = UVERBS_ATTR_F_MANDATORY, .data = flags },
			{ .attr_id = UVERBS_ATTR_ADVISE_MR_SGE_LIST, .len = count * sizeof(*list), .flags = UVERBS_ATTR_F_MANDATORY,
			  .data = count == 0 ? 0 : (uintptr_t)list },
		},
	};

	return ioctl(context->cmd_fd, RDMA_VERBS_IOCTL, &command) ? errno : 0;
}

static void advice(void)
{
	static const struct {
		const char *name;
		int advice, pages;
	} kinds[] = {
		{ "PREFETCH", IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH, 8 },
		{ "PREFETCH_WRITE", IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE, 8 },
		{ "PREFETCH_NO_FAULT", IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 0 },
	};
	struct ib_uverbs_sge sge[2] = { { (uintptr_t)theirs, 4 * PAGE, their_mr->lkey }, { (uintptr_t)theirs + 8 * PAGE + 5, 4 * PAGE - 9, their_mr->lkey } };
	struct ib_uverbs_sge bad;
	struct ibv_mr *pinned;
	const int flush = IB_UVERBS_ADVISE_MR_FLAG_FLUSH;
	const int prefetch = IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH, writing = IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	char name[100];
	int now, later;

	anew(IBV_QPT_RC);
	for (int sync = 1; sync >= 0; sync--)
		for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
			int count = 0;

			map(theirs, SIZE);
			snprintf(name, sizeof(name), "%s, %s", kinds[i].name, sync ? "at once" : "later");
			errno_is(name, 0, advise(kinds[i].advice, sync ? flush : 0, sge, 2), false);
			for (int wait = 0; wait < (sync ? 1 : 200) && count != kinds[i].pages; wait++) {
				count = present(theirs, PAGES);
				if (!sync)
					usleep(10000);
			}
			snprintf(name, sizeof(name), "%s, %s: the pages that it faults in", kinds[i].name, sync ? "at once" : "later");
			check(name, count == kinds[i].pages, "more or fewer");
		}
	bad = (struct ib_uverbs_sge){ (uintptr_t)theirs, PAGE, their_mr->lkey ^ 0x5500 };
	errno_is("a key that there is not", EINVAL, advise(prefetch, flush, &bad, 1), false);
	errno_is("a key that there is not, later", EINVAL, advise(prefetch, 0, &bad, 1), false);
	bad = (struct ib_uverbs_sge){ (uintptr_t)theirs + SIZE - PAGE, 2 * PAGE, their_mr->lkey };
	errno_is("beyond the region", EFAULT, advise(prefetch, flush, &bad, 1), false);
	errno_is("beyond the region, later", 0, advise(prefetch, 0, &bad, 1), false);
	errno_is("an advice that there is not", EOPNOTSUPP, advise(9, flush, sge, 1), false);
	errno_is("a flag that there is not", EINVAL, advise(prefetch, 2, sge, 1), false);
	errno_is("no ranges", EINVAL, advise(prefetch, flush, sge, 0), false);
	bad = (struct ib_uverbs_sge){ (uintptr_t)theirs, 0, their_mr->lkey };
	errno_is("a range of no bytes", EINVAL, advise(prefetch, flush, &bad, 1), false);
	munmap(theirs, SIZE);
	now = advise(prefetch, flush, sge, 1);
	later = advise(prefetch, 0, sge, 1);
	map(theirs, SIZE);
	errno_is("memory that is not mapped", EFAULT, now, false);
	errno_is("memory that is not mapped, later", 0, later, false);
	mprotect(theirs, SIZE, PROT_READ);
	errno_is("memory that may only be read, to write", EPERM, advise(writing, flush, sge, 1), false);
	errno_is("memory that may only be read, to read", 0, advise(prefetch, flush, sge, 1), false);
	mprotect(theirs, SIZE, PROT_READ | PROT_WRITE);
	pinned = ibv_reg_mr(pd, theirs, SIZE, 0);
	bad = (struct ib_uverbs_sge){ (uintptr_t)theirs, PAGE, pinned->lkey };
	errno_is("a region without the right to write", EINVAL, advise(prefetch, flush, &bad, 1), false);
	ibv_dereg_mr(pinned);
}

/* The stock driver takes a pinned region for one that is paged on demand, and goes wrong. */
static void advice_for_pinned_memory(void)
{
	const int flush = IB_UVERBS_ADVISE_MR_FLAG_FLUSH;
	struct ib_uverbs_sge sge = { (uintptr_t)b.buffer, PAGE, b.mr->lkey };

	errno_is("a region that is pinned", EINVAL, advise(IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH, flush, &sge, 1), false);
}

/* Traffic while memory is mapped anew
 * ------------------------------------------------------------------------------------------------------------------ */

#define MAGIC 0x0dd0000000000000

static int seconds;
static long changes;
static bool stop;
static const char *wrong;
/* Pages of a file that were mapped to the region: what they had when they were taken away. */
static int grave;
static long replaced, written, kept;

static uint64_t word_of(int page, uint32_t round)
{
	return MAGIC | (uint64_t)page << 32 | round;
}

/* Whether each word of a page is 0, or of this page. */
static bool belongs(const uint64_t *words, int page)
{
	for (size_t i = 0; i < PAGE / 8; i++)
		if (words[i] && words[i] >> 32 != word_of(page, 0) >> 32)
			return false;
	return true;
}

static uint32_t chance(uint64_t *state)
{
	*state = *state * 6364136223846793005 + 1442695040888963407;
	return *state >> 33;
}

/* Maps a page of the file to the region for a while, then another page, and watches what is left in the file. */
static void bury(int page)
{
	uint64_t before[PAGE / 8], after[PAGE / 8];

	if (mmap(theirs + page * PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, grave, page * PAGE) == MAP_FAILED)
		die("mmap a file");
	usleep(300);
	map(theirs + page * PAGE, PAGE);
	if (pread(grave, before, PAGE, page * PAGE) != PAGE)
		die("pread");
	usleep(200);
	if (pread(grave, after, PAGE, page * PAGE) != PAGE)
		die("pread");
	if (memcmp(before, after, PAGE))
		wrong = "a page was written to after it was taken away";
	if (!belongs(before, page))
		wrong = "a page has what was written to another one";
	kept += before[0] != 0;
}

static void *remap(void *unused)
{
	uint64_t state = 1;

	while (!stop) {
		int page = chance(&state) % (PAGES - 4), count = 1 + chance(&state) % 4;
		char *at = theirs + page * PAGE;
		pid_t child;

		switch (chance(&state) % 8) {
		case 0:
			madvise(at, count * PAGE, MADV_DONTNEED);
			break;
		case 1:
			map(at, count * PAGE);
			break;
		case 2:
			mremap(map(NULL, PAGE), PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at);
			break;
		case 3:
			madvise(theirs, SIZE, 25);	/* MADV_COLLAPSE */
			break;
		case 4:
			child = chance(&state) % 8 ? -1 : fork();
			if (!child)
				_exit(0);
			if (child > 0)
				waitpid(child, NULL, 0);
			break;
		case 5:
			madvise(at, count * PAGE, 21);		/* MADV_PAGEOUT */
			break;
		default:
			bury(page);
		}
		__atomic_fetch_add(&replaced, 1, __ATOMIC_RELAXED);
	}
	return unused;
}

static void storm(void)
{
	uint64_t state = 99;
	uint32_t round = 0;
	int outstanding = 0;
	long begin = now_ms(), until = begin + seconds * 1000;
	pthread_t thread;
	char why[100];

	grave = memfd_create("grave", 0);
	if (grave < 0 || ftruncate(grave, SIZE))
		die("memfd");
	anew(IBV_QPT_RC);
	map(mine, SIZE);
	map(theirs, SIZE);
	for (int page = 0; page < PAGES; page++)
		for (size_t i = 0; i < PAGE / 8; i++)
			((uint64_t *)(mine + page * PAGE))[i] = word_of(page, round);
	if (pthread_create(&thread, NULL, remap, NULL))
		die("pthread_create");
	while (!wrong && (now_ms() < until || __atomic_load_n(&replaced, __ATOMIC_RELAXED) < changes)) {
		int page = chance(&state) % (PAGES - 4), count = 1 + chance(&state) % 4;
		bool reads = chance(&state) % 4 == 0;
		struct ibv_sge sge;
		struct ibv_wc wc;
		/* Reads go to memory of A that is mapped anew, too. */
		struct ibv_send_wr wr = to_peer(reads ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, &sge, mine + page * PAGE, theirs + page * PAGE,
						count * PAGE);

		if (reads) {
			while (outstanding) {
				wc = wait_wc(&a, 5000);
				if (wc.status)
					break;
				outstanding--;
			}
			madvise(mine + page * PAGE, count * PAGE, MADV_DONTNEED);
		}
		if (post(&a, &wr))
			die("post");
		outstanding++;
		while (outstanding > (reads ? 0 : 8)) {
			wc = wait_wc(&a, 5000);
			if (wc.status) {
				snprintf(why, sizeof(why), "status %d", wc.status);
				wrong = why;
				break;
			}
			outstanding--;
		}
		for (int each = page; reads && each < page + count; each++) {
			uint64_t *words = (void *)(mine + each * PAGE);

			if (!belongs(words, each))
				wrong = "what was read is of another page";
			for (size_t i = 0; i < PAGE / 8; i++)
				words[i] = word_of(each, round);
		}
		round++;
		written++;
	}
	stop = true;
	pthread_join(thread, NULL);
	for (int page = 0; page < PAGES && !wrong; page++)
		if (!belongs((uint64_t *)(theirs + page * PAGE), page))
			wrong = "a page has what was written to another one";
	printf("# %ld changes, %ld operations, %ld pages of the file in %ld ms\n", replaced, written, kept, now_ms() - begin);
	verdict("memory is mapped anew while a peer writes and reads it", !wrong, true, wrong);
	verdict("it was: changes and operations met", replaced > 100 && written > 100 && kept > 0, true, "too few");
}

/* A region, and the process's memory, go while operations are under way. */
static void ends(void)
{
	bool good = true;

	for (int i = 0; i < 50 && good; i++) {
		struct ibv_mr *mr = paged(theirs, SIZE, ACCESS_ALL), *usual = their_mr;
		struct ibv_sge sge;
		struct ibv_send_wr wr;
		int status;

		anew(IBV_QPT_RC);
		map(theirs, SIZE);
		their_mr = mr;
		wr = to_peer(IBV_WR_RDMA_WRITE, &sge, mine, theirs, SIZE);
		their_mr = usual;
		if (post(&a, &wr))
			die("post");
		usleep(i * 20);
		ibv_dereg_mr(mr);
		status = wait_wc(&a, 5000).status;
		good = status == IBV_WC_SUCCESS || status == IBV_WC_REM_ACCESS_ERR;
	}
	verdict("a region goes while it is written to", good, true, "status");
	for (int i = 0; i < 20; i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr;

		anew(IBV_QPT_RC);
		map(theirs, SIZE);
		wr = to_peer(IBV_WR_RDMA_WRITE, &sge, mine, theirs, SIZE);
		if (post(&a, &wr))
			die("post");
	}
	check("queue pairs go while memory is faulted in", true, "");
}

int main(int argc, char **argv)
{
	open_device(argc, argv);
	mine = map(NULL, SIZE);
	theirs = map(NULL, SIZE);
	my_mr = paged(mine, SIZE, ACCESS_ALL);
	their_mr = paged(theirs, SIZE, ACCESS_ALL);
	if (argc > 3) {
		seconds = atoi(argv[3]);
		changes = argc > 4 ? atol(argv[4]) : 0;
		anew(IBV_QPT_RC);
		advice_for_pinned_memory();
		other_addresses();
		storm();
		ends();
		return all_done();
	}
	capabilities();
	regions();
	stale = true;
	operations(IBV_QPT_RC, "RC");
	operations(IBV_QPT_UC, "UC");
	atomics();
	placement();
	datagrams();
	shared_receives();
	invalidations();
	errors();
	stale = false;
	advice();
	return all_done();
}
