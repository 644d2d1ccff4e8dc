// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of a device (ALLOC_DM) and regions in it: the library's driver has no ibv_alloc_dm, so both are asked for by ioctl.
 *
 *   verbs_dm DEVICE GID_INDEX PEER_DEVICE PEER_GID_INDEX KIB
 *
 * Each device, which may be the same one, has so much memory. Without any, the kernel has no such methods.
 */
#define _GNU_SOURCE
#include "verbs.h"
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#define PAGE 4096
#define LENGTH 50000		/* of a message */
#define START 104		/* of a region in its memory */
#define MEMORY (START + LENGTH + 16)
#define SLACK 24		/* behind a region, within the memory */
#define ZERO_BASED IBV_ACCESS_ZERO_BASED

/* A device, and the memory and regions there. */
static struct side {
	struct ibv_context *context;
	struct ibv_pd *pd;
	union ibv_gid gid;
	int gid_index;
	uint32_t dm;
	struct region { uint32_t handle, lkey, rkey; } region;
} own, peer;

static struct end a, b;

static void errno_is(const char *name, int wanted, int got)
{
	char why[100];

	snprintf(why, sizeof(why), "wanted %s, got %s", strerrorname_np(wanted) ?: "0", strerrorname_np(got) ?: "0");
	verdict(name, wanted == got, false, why);
}

/* Commands
 * ---------------------------------------------------------------------------------------------------------------------- */

static int call(const struct side *side, uint16_t object, uint16_t method, struct ib_uverbs_attr *attrs, unsigned int count)
{
	struct {
		struct ib_uverbs_ioctl_hdr header;
		struct ib_uverbs_attr attrs[10];
	} command = { .header = { .length = sizeof(command.header) + count * sizeof(*attrs), .object_id = object,
				  .method_id = method, .num_attrs = count, .driver_id = RDMA_DRIVER_RXE } };
	int error;

	memcpy(command.attrs, attrs, count * sizeof(*attrs));
	error = ioctl(side->context->cmd_fd, RDMA_VERBS_IOCTL, &command) ? errno : 0;
	memcpy(attrs, command.attrs, count * sizeof(*attrs));
	return error;
}

static struct ib_uverbs_attr attr(int id, int length, uint64_t data)
{
	return (struct ib_uverbs_attr){ .attr_id = id, .len = length, .flags = UVERBS_ATTR_F_MANDATORY, .data = data };
}

static int alloc(const struct side *side, uint64_t length, uint32_t alignment, uint32_t *dm)
{
	struct ib_uverbs_attr attrs[] = {
		attr(UVERBS_ATTR_ALLOC_DM_HANDLE, 0, 0), attr(UVERBS_ATTR_ALLOC_DM_LENGTH, 8, length),
		attr(UVERBS_ATTR_ALLOC_DM_ALIGNMENT, 4, alignment),
	};
	int error = call(side, UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC, attrs, ARRAY_SIZE(attrs));

	*dm = attrs[0].data;
	return error;
}

static int release(const struct side *side, uint32_t dm)
{
	struct ib_uverbs_attr attrs[] = { attr(UVERBS_ATTR_FREE_DM_HANDLE, 0, dm) };

	return call(side, UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE, attrs, 1);
}

static int reg(const struct side *side, uint32_t dm, uint64_t offset, uint64_t length, uint32_t access, struct region *region)
{
	struct ib_uverbs_attr attrs[] = {
		attr(UVERBS_ATTR_REG_DM_MR_HANDLE, 0, 0), attr(UVERBS_ATTR_REG_DM_MR_PD_HANDLE, 0, side->pd->handle),
		attr(UVERBS_ATTR_REG_DM_MR_DM_HANDLE, 0, dm), attr(UVERBS_ATTR_REG_DM_MR_OFFSET, 8, offset),
		attr(UVERBS_ATTR_REG_DM_MR_LENGTH, 8, length), attr(UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS, 4, access),
		attr(UVERBS_ATTR_REG_DM_MR_RESP_LKEY, 4, (uintptr_t)&region->lkey),
		attr(UVERBS_ATTR_REG_DM_MR_RESP_RKEY, 4, (uintptr_t)&region->rkey),
	};
	int error = call(side, UVERBS_OBJECT_MR, UVERBS_METHOD_DM_MR_REG, attrs, ARRAY_SIZE(attrs));

	region->handle = attrs[0].data;
	return error;
}

static int dereg(const struct side *side, const struct region *region)
{
	struct ib_uverbs_attr attrs[] = { attr(UVERBS_ATTR_DESTROY_MR_HANDLE, 0, region->handle) };

	return call(side, UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, attrs, 1);
}

/* Memory and regions
 * ---------------------------------------------------------------------------------------------------------------------- */

/* The errno of an allocation, which is freed again. */
static int try_alloc(uint64_t length, uint32_t alignment)
{
	uint32_t dm;
	int error = alloc(&own, length, alignment, &dm);

	return error ?: release(&own, dm);
}

static int try_reg(uint64_t offset, uint64_t length, uint32_t access)
{
	struct region region;
	int error = reg(&own, own.dm, offset, length, access, &region);

	return error ?: dereg(&own, &region);
}

/* Memory that a process still has when it is killed is the device's again. */
static bool returns_with_process(uint64_t size)
{
	uint32_t dm;
	int pipes[2], status;
	char byte;
	pid_t child;

	if (pipe(pipes))
		die("pipe");
	child = fork();
	if (!child) {
		struct side forked = { ibv_open_device(own.context->device) };

		if (forked.context && !alloc(&forked, size, 0, &dm) && write(pipes[1], "x", 1) == 1)
			pause();
		_exit(1);
	}
	close(pipes[1]);
	if (read(pipes[0], &byte, 1) != 1)
		return false;
	errno_is("what another process has is not there", ENOMEM, try_alloc(1, 0));
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	close(pipes[0]);
	for (int i = 0; i < 200 && try_alloc(size, 0); i++)
		usleep(10000);
	return !try_alloc(size, 0);
}

static void allocations(uint64_t size)
{
	struct ibv_alloc_dm_attr library = { .length = 64 };
	uint32_t dm, all[64];
	unsigned int each = (size / 16 - 1 + PAGE - 1) / PAGE, count = 0;
	int error = 0;

	errno = 0;
	number_is("the library has no device memory", 0, (long)(intptr_t)ibv_alloc_dm(own.context, &library));
	errno_is("as it says", EOPNOTSUPP, errno);
	errno_is("no memory", EINVAL, try_alloc(0, 0));
	errno_is("a byte", 0, try_alloc(1, 0));
	errno_is("all that the device has", 0, try_alloc(size, 0));
	errno_is("one byte more", ENOMEM, try_alloc(size + 1, 0));
	errno_is("more than 32 bits", ENOMEM, try_alloc(1ULL << 32, 0));
	errno_is("more than can be rounded up", ENOMEM, try_alloc(UINT64_MAX, 0));
	errno_is("at the beginning of a page", 0, try_alloc(1, 12));
	errno_is("and no more than that", EINVAL, try_alloc(1, 13));
	errno_is("an alignment that there is not", EINVAL, try_alloc(1, UINT32_MAX));
	while (count < ARRAY_SIZE(all) && !(error = alloc(&own, size / 16 - 1, 0, &all[count])))
		count++;
	errno_is("many allocations: until the memory is used up", ENOMEM, error);
	number_is("which are of whole pages", size / PAGE / each, count);
	for (unsigned int i = 0; i < count; i++)
		error |= release(&own, all[i]) ?: 0;
	errno_is("what is freed is there again", 0, try_alloc(size, 0));
	verdict("and what a process had that was killed", returns_with_process(size), false, "it is not");
	errno_is("memory that is freed", 0, alloc(&own, 1, 0, &dm) ?: release(&own, dm));
	errno_is("is not there any more", ENOENT, release(&own, dm));
}

static void registrations(void)
{
	const uint32_t all = ACCESS_ALL | ZERO_BASED;
	struct region region;

	if (alloc(&own, MEMORY, 0, &own.dm))
		die("allocate device memory");
	errno_is("a region of all", 0, try_reg(0, MEMORY, all));
	errno_is("of its last byte", 0, try_reg(MEMORY - 1, 1, all));
	errno_is("of nothing", EINVAL, try_reg(0, 0, all));
	errno_is("that ends behind it, in its last page", EINVAL, try_reg(0, MEMORY + 1, all));
	errno_is("that begins behind it", EINVAL, try_reg(MEMORY, 1, all));
	errno_is("that wraps", EINVAL, try_reg(8, UINT64_MAX - 4, all));
	errno_is("that begins at the end of all addresses", EINVAL, try_reg(UINT64_MAX, 1, all));
	errno_is("with addresses that are not offsets", EINVAL, try_reg(0, 8, ACCESS_ALL));
	errno_is("where peers write and we may not", EINVAL, try_reg(0, 8, IBV_ACCESS_REMOTE_WRITE | ZERO_BASED));
	errno_is("on demand", EOPNOTSUPP, try_reg(0, 8, all | IBV_ACCESS_ON_DEMAND));
	errno_is("for windows", EOPNOTSUPP, try_reg(0, 8, all | IBV_ACCESS_MW_BIND));
	errno_is("of memory that there is not", ENOENT, reg(&own, own.dm + 100, 0, 8, all, &region));
	errno_is("memory with a region", 0, reg(&own, own.dm, 0, 8, all, &region));
	errno_is("is not freed", EBUSY, release(&own, own.dm));
	errno_is("before that goes", 0, dereg(&own, &region) ?: release(&own, own.dm));
}

/* Traffic
 * ---------------------------------------------------------------------------------------------------------------------- */

static void use(const struct side *from, const struct side *to)
{
	context = from->context;
	pd = from->pd;
	gid_index = from->gid_index;
	gid = to->gid;
}

static void connect_anew(void)
{
	struct setup setup = { .access = 1 + ACCESS_ALL };

	if (a.qp) {
		end_destroy(&a);
		end_destroy(&b);
	}
	use(&peer, &own);
	end_init(&b, &setup);
	use(&own, &peer);
	end_init(&a, &setup);
	if (climb(a.qp, IBV_QPS_RTS, &setup, b.qp->qp_num))
		die("connect");
	use(&peer, &own);
	if (climb(b.qp, IBV_QPS_RTS, &setup, a.qp->qp_num))
		die("connect the peer");
	use(&own, &peer);
}

/* A request of A, from or to `lkey` at `local`, and of B's `rkey` at `remote`; its status. */
static int transfer(enum ibv_wr_opcode opcode, uint64_t local, uint32_t lkey, uint64_t remote, uint32_t rkey, uint32_t length)
{
	struct ibv_sge sge = { local, length, lkey };
	struct ibv_send_wr wr = request_at(opcode, &sge, remote, rkey);

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.compare_add = 7;
		wr.wr.atomic.swap = 99;
	}
	if (post(&a, &wr))
		die("post");
	return wait_wc(&a, 10000).status;
}

/* Reads `length` bytes of the peer's region to A's buffer. */
static int read_back(uint64_t from, uint32_t length)
{
	memset(a.buffer, 0xee, length);
	return transfer(IBV_WR_RDMA_READ, (uintptr_t)a.buffer, a.mr->lkey, from, peer.region.rkey, length);
}

static bool zeros(const char *at, size_t length)
{
	return !at[0] && !memcmp(at, at + 1, length - 1);
}

static void prepare(struct side *side)
{
	if (alloc(side, MEMORY + SLACK, 0, &side->dm) || reg(side, side->dm, START, LENGTH, ACCESS_ALL | ZERO_BASED, &side->region))
		die("device memory and a region");
}

static void traffic(void)
{
	struct region whole, reader, odd;
	uint64_t number;
	char *bytes = malloc(LENGTH);
	struct ibv_sge sge;
	struct ibv_recv_wr receive = { .sg_list = &sge, .num_sge = 1 }, *bad;

	prepare(&own);
	prepare(&peer);
	if (reg(&peer, peer.dm, 0, MEMORY + SLACK, ACCESS_ALL | ZERO_BASED, &whole) ||
	    reg(&peer, peer.dm, START, LENGTH, IBV_ACCESS_REMOTE_READ | ZERO_BASED, &reader) ||
	    reg(&peer, peer.dm, START + 4, LENGTH, ACCESS_ALL | ZERO_BASED, &odd))
		die("more regions");
	connect_anew();
	number_is("READ of new memory", 0, read_back(0, LENGTH));
	verdict("which is zeros", zeros(a.buffer, LENGTH), false, "something else");

	fill_pattern(bytes, LENGTH, 1);
	memcpy(a.buffer, bytes, LENGTH);
	number_is("WRITE to device memory", 0, transfer(IBV_WR_RDMA_WRITE, (uintptr_t)a.buffer, a.mr->lkey, 0, peer.region.rkey, LENGTH));
	number_is("READ of it", 0, read_back(0, LENGTH));
	verdict("has the bytes", !memcmp(a.buffer, bytes, LENGTH), false, "other bytes");
	number_is("READ of a part", 0, read_back(4001, 9999));
	verdict("has that part", !memcmp(a.buffer, bytes + 4001, 9999), false, "other bytes");
	memset(a.buffer, 0xee, MEMORY);
	number_is("READ of all the memory, by another region", 0,
		  transfer(IBV_WR_RDMA_READ, (uintptr_t)a.buffer, a.mr->lkey, 0, whole.rkey, MEMORY));
	verdict("has the bytes where the first region begins", !memcmp(a.buffer + START, bytes, LENGTH), false, "other bytes");
	verdict("and nothing beside them", zeros(a.buffer, START) && zeros(a.buffer + START + LENGTH, 16), false, "bytes beside them");

	number_is("READ to device memory", 0, transfer(IBV_WR_RDMA_READ, 0, own.region.lkey, 0, peer.region.rkey, LENGTH));
	number_is("WRITE from device memory", 0, transfer(IBV_WR_RDMA_WRITE, 0, own.region.lkey, (uintptr_t)b.buffer, b.mr->rkey, LENGTH));
	verdict("has the bytes of the peer's", !memcmp(b.buffer, bytes, LENGTH), false, "other bytes");
	fill_pattern(bytes, LENGTH, 2);
	memcpy(b.buffer, bytes, LENGTH);
	number_is("READ to device memory, of a buffer", 0,
		  transfer(IBV_WR_RDMA_READ, 0, own.region.lkey, (uintptr_t)b.buffer, b.mr->rkey, LENGTH));
	sge = (struct ibv_sge){ 0, LENGTH, peer.region.lkey };
	if (ibv_post_recv(b.qp, &receive, &bad))
		die("post a receive");
	number_is("SEND from device memory", 0, transfer(IBV_WR_SEND, 0, own.region.lkey, 0, 0, LENGTH));
	number_is("is received", 0, wait_wc(&b, 10000).status);
	number_is("in device memory", 0, read_back(0, LENGTH));
	verdict("with its bytes", !memcmp(a.buffer, bytes, LENGTH), false, "other bytes");

	memcpy(&number, bytes + 8, 8);
	number_is("FETCH_ADD", 0, transfer(IBV_WR_ATOMIC_FETCH_AND_ADD, (uintptr_t)a.buffer, a.mr->lkey, 8, peer.region.rkey, 8));
	verdict("returns the number", !memcmp(a.buffer, &number, 8), false, "another");
	number_is("and adds", 0, read_back(8, 8));
	number += 7;
	verdict("to it", !memcmp(a.buffer, &number, 8), false, "another number");
	memset(a.buffer, 0, 16);
	a.buffer[0] = 7;
	number_is("the number that CMP_SWP compares with", 0,
		  transfer(IBV_WR_RDMA_WRITE, (uintptr_t)a.buffer, a.mr->lkey, 16, peer.region.rkey, 8));
	number_is("CMP_SWP, its result to device memory", 0, transfer(IBV_WR_ATOMIC_CMP_AND_SWP, 24, own.region.lkey, 16, peer.region.rkey, 8));
	number_is("READ of the swapped number", 0, read_back(16, 8));
	number_is("it is the other one", 99, *(uint64_t *)a.buffer);

	connect_anew();
	number_is("an atomic operation where memory is not aligned", IBV_WC_REM_INV_REQ_ERR,
		  transfer(IBV_WR_ATOMIC_FETCH_AND_ADD, (uintptr_t)a.buffer, a.mr->lkey, 8, odd.rkey, 8));
	connect_anew();
	number_is("WRITE behind the region, within the memory", IBV_WC_REM_ACCESS_ERR,
		  transfer(IBV_WR_RDMA_WRITE, (uintptr_t)a.buffer, a.mr->lkey, LENGTH - 8, peer.region.rkey, 16));
	connect_anew();
	number_is("READ of addresses that wrap", IBV_WC_REM_ACCESS_ERR,
		  transfer(IBV_WR_RDMA_READ, (uintptr_t)a.buffer, a.mr->lkey, UINT64_MAX - 3, peer.region.rkey, 8));
	connect_anew();
	number_is("WRITE without the right", IBV_WC_REM_ACCESS_ERR,
		  transfer(IBV_WR_RDMA_WRITE, (uintptr_t)a.buffer, a.mr->lkey, 0, reader.rkey, 8));
	connect_anew();
	number_is("READ to what is behind the own region", IBV_WC_LOC_PROT_ERR,
		  transfer(IBV_WR_RDMA_READ, LENGTH - 4, own.region.lkey, (uintptr_t)b.buffer, b.mr->rkey, 8));
	errno_is("a region goes", 0, dereg(&peer, &peer.region));
	connect_anew();
	number_is("its key too", IBV_WC_REM_ACCESS_ERR,
		  transfer(IBV_WR_RDMA_WRITE, (uintptr_t)a.buffer, a.mr->lkey, 0, peer.region.rkey, 8));
	connect_anew();
	errno_is("the memory goes with the last region", 0, dereg(&peer, &whole) ?: dereg(&peer, &reader) ?: dereg(&peer, &odd) ?: release(&peer, peer.dm));
	prepare(&peer);
	number_is("READ of what is allocated then", 0, read_back(0, LENGTH));
	verdict("shows nothing of it", zeros(a.buffer, LENGTH), false, "old bytes");
	free(bytes);
}

/* Regions that come and go while peers write to them. */
static void race(void)
{
	int wrong = 0;

	for (int round = 0; round < 50; round++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr;
		int status;

		connect_anew();
		wr = request(&a, &b, IBV_WR_RDMA_WRITE, &sge);
		sge.length = LENGTH;
		wr.wr.rdma.remote_addr = 0;
		wr.wr.rdma.rkey = peer.region.rkey;
		if (post(&a, &wr))
			die("post");
		usleep(round * 10);
		wrong += dereg(&peer, &peer.region) || release(&peer, peer.dm);
		status = wait_wc(&a, 10000).status;
		wrong += status != IBV_WC_SUCCESS && status != IBV_WC_REM_ACCESS_ERR && status != IBV_WC_REM_OP_ERR;
		prepare(&peer);
	}
	number_is("memory goes while it is written to", 0, wrong);
}

static void open_side(struct side *side, char **name_and_index)
{
	char *args[] = { "", name_and_index[0], name_and_index[1] };

	context = NULL;
	open_device(3, args);
	*side = (struct side){ context, pd, gid, gid_index };
}

int main(int argc, char **argv)
{
	struct ibv_device_attr_ex attr = { 0 };
	uint64_t size;
	uint32_t dm;

	if (argc != 6)
		die("usage: DEVICE GID_INDEX PEER_DEVICE PEER_GID_INDEX KIB");
	size = strtoull(argv[5], NULL, 0) << 10;
	open_side(&own, argv + 1);
	open_side(&peer, argv + 3);
	if (ibv_query_device_ex(own.context, NULL, &attr))
		die("ibv_query_device_ex");
	number_is("how much there is", size, attr.max_dm_size);
	if (!size) {
		errno_is("no methods", EPROTONOSUPPORT, alloc(&own, 8, 0, &dm));
		return all_done();
	}
	allocations(size);
	registrations();
	traffic();
	race();
	return all_done();
}
