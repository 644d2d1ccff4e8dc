// SPDX-License-Identifier: GPL-2.0
/*
 * Memory regions: every combination of rights against every operation, every kind of memory, a region that goes before its receive,
 * and regions of many small pages.
 *
 *   verbs_memory DEVICE GID_INDEX [PAGES | fork]	with PAGES: one region of so many pages, and no more; with fork: regions of who forks
 */
#define _GNU_SOURCE
#include "process.h"
#include "verbs.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define LW IBV_ACCESS_LOCAL_WRITE
#define RW IBV_ACCESS_REMOTE_WRITE
#define RR IBV_ACCESS_REMOTE_READ
#define RA IBV_ACCESS_REMOTE_ATOMIC
#define MB IBV_ACCESS_MW_BIND

static struct end a, b;

static void anew(void)
{
	static const struct setup usual;

	if (a.qp) {
		end_destroy(&a);
		end_destroy(&b);
	}
	pair_init(&a, &b, &usual);
}

/* The status of an operation of `from`, its local side in `here`, its remote side at `there`. */
static int operate(struct end *from, enum ibv_wr_opcode opcode, struct ibv_sge here, uint64_t there, uint32_t rkey)
{
	struct ibv_send_wr wr = request_at(opcode, &here, there, rkey);

	return post(from, &wr) ? -2 : (int)wait_wc(from, 3000).status;
}

static int bind_window(struct ibv_mr *mr)
{
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED };
	int status;

	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ mr, (uintptr_t)b.buffer, 64, RR };
	status = post(&b, &wr) ? -2 : (int)wait_wc(&b, 3000).status;
	ibv_dealloc_mw(mw);
	return status;
}

/* What each right is for: a region has it or the operation fails. */
static void rights(void)
{
	static const struct { const char *name; int right, error; } operations[] = {
		{ "local write", LW, IBV_WC_LOC_PROT_ERR }, { "remote write", RW, IBV_WC_REM_ACCESS_ERR },
		{ "remote read", RR, IBV_WC_REM_ACCESS_ERR }, { "remote atomic", RA, IBV_WC_REM_ACCESS_ERR },
		{ "bind of a window", MB, IBV_WC_MW_BIND_ERR },
	};

	for (int access = 0; access < 32; access++) {
		char name[80], why[80] = "", bind_why[80] = "";
		struct ibv_mr *mr;
		bool allowed = !(access & (RW | RA)) || access & LW;

		snprintf(name, sizeof(name), "a region with access 0x%x", access);
		anew();
		errno = 0;
		mr = ibv_reg_mr(pd, b.buffer, 4096, access);
		if (!mr || !allowed) {
			snprintf(why, sizeof(why), "%s", mr ? "registered" : strerror(errno));
			verdict(name, !mr && !allowed && errno == EINVAL, false, why);
			continue;
		}
		for (size_t i = 0; i < ARRAY_SIZE(operations); i++) {
			struct ibv_sge a_side = { (uintptr_t)a.buffer, 8, a.mr->lkey }, b_side = { (uintptr_t)b.buffer, 8, mr->lkey };
			int status = i == 0 ? operate(&b, IBV_WR_RDMA_READ, b_side, (uintptr_t)a.buffer, a.mr->rkey) :
				     i == 1 ? operate(&a, IBV_WR_RDMA_WRITE, a_side, b_side.addr, mr->rkey) :
				     i == 2 ? operate(&a, IBV_WR_RDMA_READ, a_side, b_side.addr, mr->rkey) :
				     i == 3 ? operate(&a, IBV_WR_ATOMIC_FETCH_AND_ADD, a_side, b_side.addr, mr->rkey) : bind_window(mr);
			bool has = access & operations[i].right;

			if (has ? status != 0 : status != operations[i].error)
				snprintf(i == 4 ? bind_why : why, sizeof(why), "%s: status %d", operations[i].name, status);
			if (status) {
				ibv_dereg_mr(mr);
				anew();
				mr = ibv_reg_mr(pd, b.buffer, 4096, access);
			}
		}
		verdict(name, !*why, false, why);
		snprintf(name, sizeof(name), "a window on a region with access 0x%x", access);
		verdict(name, !*bind_why, true, bind_why);
		ibv_dereg_mr(mr);
	}
}

/* A region whose addresses are offsets from its start, for the peer and for the program itself. */
static void zero_based(int more, const char *how)
{
	static char memory[8192];
	struct ibv_mr *mr = ibv_reg_mr(pd, memory + 100, 5000, ACCESS_ALL | IBV_ACCESS_ZERO_BASED | more);
	struct ibv_sge here;
	char name[80];
	int status;

#define NAMED(what) (snprintf(name, sizeof(name), "addresses from zero on%s: %s", how, what), name)
	verdict(NAMED("a region"), mr, true, strerror(errno));
	if (!mr)
		return;
	anew();
	here = (struct ibv_sge){ (uintptr_t)a.buffer, 10, a.mr->lkey };
	strcpy(a.buffer, "9 letters");
	status = operate(&a, IBV_WR_RDMA_WRITE, here, 4990, mr->rkey);
	verdict(NAMED("a peer writes to its end"), !status && !memcmp(memory + 5090, "9 letters", 10), false, "status or bytes");
	strcpy(memory + 100, "its start");
	status = operate(&a, IBV_WR_RDMA_READ, here, 0, mr->rkey);
	verdict(NAMED("a peer reads its start"), !status && !strcmp(a.buffer, "its start"), false, "status or bytes");
	here = (struct ibv_sge){ 12, 10, mr->lkey };
	status = operate(&b, IBV_WR_RDMA_READ, here, (uintptr_t)a.buffer, a.mr->rkey);
	verdict(NAMED("its owner reads into it"), !status && !strcmp(memory + 112, "its start"), false, "status or bytes");
	here = (struct ibv_sge){ (uintptr_t)a.buffer, 10, a.mr->lkey };
	status = operate(&a, IBV_WR_RDMA_WRITE, here, 4991, mr->rkey);
	verdict(NAMED("a byte too far"), status == IBV_WC_REM_ACCESS_ERR, false, "another status");
	anew();
	here = (struct ibv_sge){ (uintptr_t)a.buffer, 10, a.mr->lkey };
	status = operate(&a, IBV_WR_RDMA_WRITE, here, (uintptr_t)memory + 100, mr->rkey);
	verdict(NAMED("the program's address is none of its own"), status == IBV_WC_REM_ACCESS_ERR, false, "another status");
	ibv_dereg_mr(mr);
}

/* Writes into it and reads it back, from an odd address on; the owner of the memory sees it. */
static void kind(const char *what, char *memory, size_t length)
{
	struct ibv_mr *mr = memory == MAP_FAILED ? NULL : ibv_reg_mr(pd, memory, length, ACCESS_ALL);
	struct ibv_sge here = { (uintptr_t)a.buffer, 5000, a.mr->lkey };
	uint64_t there = (uintptr_t)memory + length - 5001;
	char name[64], why[64] = "";
	int status;

	snprintf(name, sizeof(name), "a region of %s", what);
	if (!mr) {
		verdict(name, false, false, strerror(errno));
		return;
	}
	fill_pattern(a.buffer, 10000, 0);
	status = operate(&a, IBV_WR_RDMA_WRITE, here, there, mr->rkey);
	if (status || memcmp((char *)there, a.buffer, 5000))
		snprintf(why, sizeof(why), "write: status %d", status);
	*(char *)there = 99;
	here.addr += 5000;
	status = operate(&a, IBV_WR_RDMA_READ, here, there, mr->rkey);
	if (status || memcmp((char *)there, a.buffer + 5000, 5000))
		snprintf(why, sizeof(why), "read: status %d", status);
	verdict(name, !*why, false, why);
	ibv_dereg_mr(mr);
}

static void kinds(void)
{
	static char data[20000] = "data";
	char stack[20000];
	int shared = memfd_create("shared", 0), huge = open("/proc/sys/vm/nr_hugepages", O_WRONLY);
	const char *text = (const char *)((uintptr_t)&kinds & ~4095UL);
	char file_name[] = "/tmp/verbs_memoryXXXXXX";
	int file = mkstemp(file_name);
	struct ibv_mr *mr;
	struct ibv_sge here;
	int status;

	unlink(file_name);
	anew();
	kind("malloc", malloc(20001), 20001);
	kind("the data of the program", data, sizeof(data));
	kind("the stack", stack, sizeof(stack));
	kind("mmap", mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 65536);
	kind("shared mmap", mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), 65536);
	if (ftruncate(shared, 65536) || ftruncate(file, 65536))
		die("make files");
	kind("a memfd", mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0), 65536);
	kind("a private file", mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0), 65536);
	if (write(huge, "4", 1) != 1)
		die("huge pages");
	kind("huge pages", mmap(NULL, 2 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0), 2 << 20);
	verdict("no writable region of code", !ibv_reg_mr(pd, (void *)text, 4096, ACCESS_ALL), false, "registered");
	mr = ibv_reg_mr(pd, (void *)text, 4096, RR);
	here = (struct ibv_sge){ (uintptr_t)a.buffer, 4096, a.mr->lkey };
	status = mr ? operate(&a, IBV_WR_RDMA_READ, here, (uintptr_t)text, mr->rkey) : -3;
	verdict("a region of code", !status && !memcmp(text, a.buffer, 4096), false, "read");
	if (mr)
		ibv_dereg_mr(mr);
}

/* The region of a receive is gone when the message comes: both sides get an error. */
static void gone(const char *name, bool with_write)
{
	struct ibv_mr *mr;
	struct ibv_sge sge, receive;
	struct ibv_recv_wr wr = { .wr_id = 7, .sg_list = &receive, .num_sge = 1 }, *bad;
	struct ibv_send_wr send;
	struct ibv_wc at_a, at_b;
	char why[80];

	anew();
	mr = ibv_reg_mr(pd, b.buffer, 4096, ACCESS_ALL);
	receive = (struct ibv_sge){ (uintptr_t)b.buffer, 4096, mr->lkey };
	send = request(&a, &b, with_write ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND, &sge);
	sge.length = 100;
	if (with_write)
		send.wr.rdma.rkey = mr->rkey;
	if (ibv_post_recv(b.qp, &wr, &bad) || ibv_dereg_mr(mr) || post(&a, &send))
		die("post");
	at_a = wait_wc(&a, 3000);
	at_b = wait_wc(&b, 1000);
	snprintf(why, sizeof(why), "sender %d, receiver %d", at_a.status, at_b.status);
	if (with_write)
		verdict(name, at_a.status == IBV_WC_REM_ACCESS_ERR && at_b.status == IBV_WC_LOC_ACCESS_ERR, true, why);
	else
		verdict(name, at_a.status == IBV_WC_REM_OP_ERR && at_b.status == IBV_WC_LOC_PROT_ERR, true, why);
}

static bool all_are(const char *bytes, char value, size_t length)
{
	return bytes[0] == value && !memcmp(bytes, bytes + 1, length - 1);
}

/* After a fork the device and the parent have the same memory, and the child has what was there at the fork. */
static void forked(const char *what, char *memory, size_t length)
{
	struct ibv_mr *mr = memory == MAP_FAILED ? NULL : ibv_reg_mr(pd, memory, length, ACCESS_ALL);
	struct ibv_sge here = { (uintptr_t)a.buffer, 3 * 4096, a.mr->lkey };
	int go[2], read_back, written, of_child = -1;
	char name[64], byte;
	pid_t child;

	if (!mr || pipe(go))
		die(what);
	memset(memory, 1, here.length);
	child = fork();
	if (!child) {
		close(go[1]);
		_exit(read(go[0], &byte, 1) || !all_are(memory, 1, here.length));
	}
	close(go[0]);
	memset(memory, 2, here.length);
	read_back = operate(&a, IBV_WR_RDMA_READ, here, (uintptr_t)memory, mr->rkey);
	snprintf(name, sizeof(name), "fork, %s: the device reads what the parent writes", what);
	verdict(name, child > 0 && !read_back && all_are(a.buffer, 2, here.length), false, read_back ? "status" : "older bytes");
	memset(a.buffer, 3, here.length);
	written = operate(&a, IBV_WR_RDMA_WRITE, here, (uintptr_t)memory, mr->rkey);
	snprintf(name, sizeof(name), "fork, %s: the parent reads what the device writes", what);
	verdict(name, !written && all_are(memory, 3, here.length), false, written ? "status" : "older bytes");
	close(go[1]);
	waitpid(child, &of_child, 0);
	snprintf(name, sizeof(name), "fork, %s: the child has what was there before", what);
	verdict(name, !of_child, false, "something else");
	ibv_dereg_mr(mr);
}

/* The kernel copies what is pinned when a process forks, so that the library has nothing to do. */
static void forks(void)
{
	int huge = open("/proc/sys/vm/nr_hugepages", O_WRONLY);

	verdict("fork: the library leaves it to the kernel", ibv_is_fork_initialized() == IBV_FORK_UNNEEDED, false, "it does not");
	anew();
	forked("small pages", mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 65536);
	if (write(huge, "4", 1) != 1)
		die("huge pages");
	forked("huge pages", mmap(NULL, 2 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0), 2 << 20);
	end_destroy(&a);
	end_destroy(&b);
}

/* Memory of small pages, each of which is there and has its own content. */
static uint64_t *small_pages(size_t pages, uint64_t content)
{
	uint64_t *memory = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED || madvise(memory, pages * 4096, MADV_NOHUGEPAGE))
		die("small pages");
	for (size_t i = 0; i < pages * 512; i++)
		memory[i] = content ? content + i : 0;
	return memory;
}

static void one_region(size_t pages)
{
	long before = pinned();
	struct ibv_mr *mr = ibv_reg_mr(pd, small_pages(pages, 0), pages * 4096, LW);
	char name[64], why[64];

	snprintf(name, sizeof(name), "a region of %zu small pages counts with them", pages);
	snprintf(why, sizeof(why), "%ld KiB, then %ld", before, pinned());
	verdict(name, mr && pinned() == before + (long)pages * 4, false, why);
	verdict("it counts no more when it is gone", mr && !ibv_dereg_mr(mr) && pinned() == before, false, "it does");
}

/* All that such a region has arrives in another one, each page at its place. */
static void many_pages(size_t pages)
{
	uint64_t *here = small_pages(pages, 0x100000000), *there = small_pages(pages, 0);
	struct ibv_mr *from = ibv_reg_mr(pd, here, pages * 4096, LW), *to = ibv_reg_mr(pd, there, pages * 4096, LW | RW);
	struct ibv_sge sge = { (uintptr_t)here, pages * 4096, from ? from->lkey : 0 };
	char name[64];
	int status = -2;

	anew();
	if (from && to)
		status = operate(&a, IBV_WR_RDMA_WRITE, sge, (uintptr_t)there, to->rkey);
	snprintf(name, sizeof(name), "a WRITE from %zu small pages to as many", pages);
	verdict(name, !status && !memcmp(here, there, pages * 4096), false, status ? ibv_wc_status_str(status) : "other bytes");
	if (from)
		ibv_dereg_mr(from);
	if (to)
		ibv_dereg_mr(to);
	munmap(here, pages * 4096);
	munmap(there, pages * 4096);
}

/* A region counts with its pages; without the privilege no more than RLIMIT_MEMLOCK. The process has none afterwards. */
static void locked(void)
{
	static const struct rlimit limit = { 64 << 10, 64 << 10 };
	char *memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), why[64];
	long before = pinned(), with;
	struct ibv_mr *mr, *small;

	setrlimit(RLIMIT_MEMLOCK, &limit);
	mr = ibv_reg_mr(pd, memory, 1 << 20, LW);
	with = pinned();
	snprintf(why, sizeof(why), "%ld KiB, then %ld", before, with);
	verdict("pinned: with the privilege beyond the limit", mr && with == before + 1024, false, why);
	verdict("pinned: nothing after dereg_mr", mr && !ibv_dereg_mr(mr) && pinned() == before, false, "some");
	mr = ibv_reg_mr(pd, memory, 1 << 20, LW);
	small = ibv_reg_mr(pd, memory, 1 << 20, LW);
	verdict("pinned: the same memory counts twice", mr && small && pinned() == before + 2048, false, "once");
	verdict("pinned: and not after two dereg_mr", !ibv_dereg_mr(mr) && !ibv_dereg_mr(small) && pinned() == before, false, "some");
	if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
		die("drop privileges");
	prctl(PR_SET_DUMPABLE, 1); /* so that /proc/self can be read */
	errno = 0;
	mr = ibv_reg_mr(pd, memory, 1 << 20, LW);
	verdict("pinned: without it 1 MiB is ENOMEM", !mr && errno == ENOMEM && pinned() == before, false, mr ? "registered" : strerror(errno));
	small = ibv_reg_mr(pd, memory, 40 << 10, LW);
	verdict("pinned: 40 of 64 KiB", small && pinned() == before + 40, false, strerror(errno));
	errno = 0;
	mr = ibv_reg_mr(pd, memory + (64 << 10), 40 << 10, LW);
	verdict("pinned: 40 more are ENOMEM", !mr && errno == ENOMEM, false, mr ? "registered" : strerror(errno));
	ibv_dereg_mr(small);
	mr = ibv_reg_mr(pd, memory + (64 << 10), 40 << 10, LW);
	verdict("pinned: but not when the first are given back", mr, false, strerror(errno));
	if (mr)
		ibv_dereg_mr(mr);
}

int main(int argc, char **argv)
{
	open_device(argc, argv);
	if (argc > 3 && !strcmp(argv[3], "fork")) {
		forks();
		return all_done();
	}
	if (argc > 3) {
		one_region(strtoul(argv[3], NULL, 0));
		return all_done();
	}
	rights();
	zero_based(0, "");
	zero_based(IBV_ACCESS_ON_DEMAND, ", on demand");
	kinds();
	gone("SEND into a region that is gone", false);
	gone("WRITE with immediate into a region that is gone", true);
	many_pages(512);
	many_pages(513);
	many_pages(1025);
	end_destroy(&a);
	end_destroy(&b);
	locked();
	return all_done();
}
