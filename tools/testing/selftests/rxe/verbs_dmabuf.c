// SPDX-License-Identifier: GPL-2.0
/*
 * Memory regions in DMA buffers: of udmabuf, and of an exporter that revokes them (../modules/fake_dmabuf.c). The library's driver has
 * no ibv_reg_dmabuf_mr, so regions are registered by ioctl.
 *
 *   verbs_dmabuf DEVICE GID_INDEX
 */
#define _GNU_SOURCE
#include "verbs.h"
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <pthread.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#define PAGE 4096
#define SIZE (64 * PAGE)
#define REVOCATIONS 200
#define DEPTH 8

struct region {
	uint32_t handle, lkey, rkey;
};

static struct end a, b;
static char *memory;

static int call(uint16_t method, struct ib_uverbs_attr *attrs, unsigned int count)
{
	struct {
		struct ib_uverbs_ioctl_hdr header;
		struct ib_uverbs_attr attrs[10];
	} command = { .header = { .length = sizeof(command.header) + count * sizeof(*attrs), .object_id = UVERBS_OBJECT_MR,
				  .method_id = method, .num_attrs = count, .driver_id = RDMA_DRIVER_RXE } };
	int error;

	memcpy(command.attrs, attrs, count * sizeof(*attrs));
	error = ioctl(context->cmd_fd, RDMA_VERBS_IOCTL, &command) ? errno : 0;
	memcpy(attrs, command.attrs, count * sizeof(*attrs));
	return error;
}

static struct ib_uverbs_attr attr(int id, int length, uint64_t data)
{
	return (struct ib_uverbs_attr){ .attr_id = id, .len = length, .flags = UVERBS_ATTR_F_MANDATORY, .data = data };
}

static int reg(struct region *region, int fd, uint64_t offset, uint64_t length, uint64_t iova, uint32_t access)
{
	struct ib_uverbs_attr attrs[] = {
		attr(UVERBS_ATTR_REG_DMABUF_MR_HANDLE, 0, 0), attr(UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, 0, pd->handle),
		attr(UVERBS_ATTR_REG_DMABUF_MR_OFFSET, 8, offset), attr(UVERBS_ATTR_REG_DMABUF_MR_LENGTH, 8, length),
		attr(UVERBS_ATTR_REG_DMABUF_MR_IOVA, 8, iova), attr(UVERBS_ATTR_REG_DMABUF_MR_FD, 4, (uint32_t)fd),
		attr(UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, 4, access),
		attr(UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, 4, (uintptr_t)&region->lkey),
		attr(UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, 4, (uintptr_t)&region->rkey),
	};
	int error = call(UVERBS_METHOD_REG_DMABUF_MR, attrs, ARRAY_SIZE(attrs));

	region->handle = attrs[0].data;
	return error;
}

static int dereg(struct region *region)
{
	struct ib_uverbs_attr attrs[] = { attr(UVERBS_ATTR_DESTROY_MR_HANDLE, 0, region->handle) };

	return call(UVERBS_METHOD_MR_DESTROY, attrs, 1);
}

static int udmabuf(void)
{
	struct udmabuf_create create = { .flags = UDMABUF_FLAGS_CLOEXEC, .size = SIZE };
	int device = open("/dev/udmabuf", O_RDWR), fd;

	create.memfd = memfd_create("dmabuf", MFD_ALLOW_SEALING);
	if (device < 0 || (int)create.memfd < 0 || ftruncate(create.memfd, SIZE) || fcntl(create.memfd, F_ADD_SEALS, F_SEAL_SHRINK))
		die("udmabuf");
	memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, create.memfd, 0);
	fd = ioctl(device, UDMABUF_CREATE, &create);
	if (fd < 0 || memory == MAP_FAILED)
		die("create a udmabuf");
	close(device);
	close(create.memfd);
	return fd;
}

static int try(int fd, uint64_t offset, uint64_t length, uint64_t iova, uint32_t access)
{
	struct region region;
	int error = reg(&region, fd, offset, length, iova, access);

	if (!error)
		dereg(&region);
	return error;
}

static void registrations(int fd)
{
	int file = open("/dev/null", O_RDWR);

	number_is("a whole buffer", 0, try(fd, 0, SIZE, 0, ACCESS_ALL));
	number_is("any part of it", 0, try(fd, PAGE + 100, 10, 100, 0));
	number_is("one that ends behind it", EINVAL, try(fd, PAGE, SIZE, 0, ACCESS_ALL));
	number_is("one that begins behind it", EINVAL, try(fd, SIZE, 1, 0, ACCESS_ALL));
	number_is("one that wraps", EINVAL, try(fd, PAGE, -PAGE, 0, ACCESS_ALL));
	number_is("nothing of it", EINVAL, try(fd, 0, 0, 0, ACCESS_ALL));
	number_is("another place in the page", EINVAL, try(fd, 8, PAGE, 0, ACCESS_ALL));
	number_is("peers write where we may not", EINVAL, try(fd, 0, PAGE, 0, IBV_ACCESS_REMOTE_WRITE));
	number_is("access that DMA buffers do not have", EINVAL, try(fd, 0, PAGE, 0, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND));
	number_is("a file that is not a buffer", EINVAL, try(file, 0, PAGE, 0, ACCESS_ALL));
	number_is("no file", EBADF, try(1000, 0, PAGE, 0, ACCESS_ALL));
	close(file);
}

/* A request of A, whose memory is `lkey` at `local`, for `remote` of B; its status. */
static int transfer(enum ibv_wr_opcode opcode, uint64_t local, uint32_t lkey, uint64_t remote, uint32_t rkey, uint32_t length)
{
	struct ibv_sge sge = { local, length, lkey };
	struct ibv_send_wr wr = request_at(opcode, &sge, remote, rkey);

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		wr.wr.atomic.compare_add = 7;
	if (post(&a, &wr))
		die("post");
	return wait_wc(&a, 10000).status;
}

static void connect(void)
{
	struct setup setup = { .access = 1 + ACCESS_ALL };

	if (a.qp) {
		end_destroy(&a);
		end_destroy(&b);
	}
	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	pair_init(&a, &b, &setup);
}

static void traffic(int fd)
{
	const uint64_t iova = 0x70000000, at = iova + 100;
	const uint32_t length = 50000;
	char *bytes = memory + PAGE + 100;
	struct region whole, read_only;
	struct ibv_recv_wr receive = { .num_sge = 1 }, *bad;
	struct ibv_sge sge;
	uint64_t old;

	if (reg(&whole, fd, PAGE, SIZE - PAGE, iova, ACCESS_ALL) || reg(&read_only, fd, PAGE, SIZE - PAGE, iova, IBV_ACCESS_REMOTE_READ))
		die("register");
	/* A region keeps its buffer. */
	close(fd);
	connect();
	fill_pattern(a.buffer, length, 1);
	number_is("WRITE to a buffer", 0, transfer(IBV_WR_RDMA_WRITE, (uintptr_t)a.buffer, a.mr->lkey, at, whole.rkey, length));
	verdict("the program sees it", !memcmp(bytes, a.buffer, length), false, "other bytes");
	verdict("and nothing beside it", !bytes[-1] && !bytes[length], false, "bytes beside it");
	memset(a.buffer, 0, length);
	number_is("READ of a buffer", 0, transfer(IBV_WR_RDMA_READ, (uintptr_t)a.buffer, a.mr->lkey, at, read_only.rkey, length));
	verdict("the peer has the bytes", !memcmp(bytes, a.buffer, length), false, "other bytes");
	memset(b.buffer, 0, length);
	number_is("WRITE from a buffer", 0, transfer(IBV_WR_RDMA_WRITE, at, read_only.lkey, (uintptr_t)b.buffer, b.mr->rkey, length));
	verdict("the peer has these", !memcmp(bytes, b.buffer, length), false, "other bytes");
	fill_pattern(b.buffer, length, 2);
	number_is("READ to a buffer", 0, transfer(IBV_WR_RDMA_READ, at, whole.lkey, (uintptr_t)b.buffer, b.mr->rkey, length));
	verdict("the program has these", !memcmp(bytes, b.buffer, length), false, "other bytes");
	sge = (struct ibv_sge){ at, length, whole.lkey };
	receive.sg_list = &sge;
	fill_pattern(a.buffer, length, 3);
	if (ibv_post_recv(b.qp, &receive, &bad))
		die("post a receive");
	number_is("SEND", 0, transfer(IBV_WR_SEND, (uintptr_t)a.buffer, a.mr->lkey, 0, 0, length));
	number_is("arrives in a buffer", 0, wait_wc(&b, 10000).status);
	verdict("with its bytes", !memcmp(bytes, a.buffer, length), false, "other bytes");
	memcpy(&old, memory + PAGE, 8);
	old += 5;
	memcpy(memory + PAGE, &old, 8);
	number_is("an atomic operation", 0, transfer(IBV_WR_ATOMIC_FETCH_AND_ADD, (uintptr_t)a.buffer, a.mr->lkey, iova, whole.rkey, 8));
	verdict("returns the number", !memcmp(a.buffer, &old, 8), false, "another");
	verdict("and adds to it", *(uint64_t *)(memory + PAGE) == old + 7, false, "another number");
	connect();
	number_is("WRITE behind the end", IBV_WC_REM_ACCESS_ERR,
		  transfer(IBV_WR_RDMA_WRITE, (uintptr_t)a.buffer, a.mr->lkey, iova + SIZE - PAGE - 8, whole.rkey, 16));
	connect();
	number_is("WRITE without the right", IBV_WC_REM_ACCESS_ERR,
		  transfer(IBV_WR_RDMA_WRITE, (uintptr_t)a.buffer, a.mr->lkey, iova, read_only.rkey, 8));
	connect();
	number_is("READ to it without the right", IBV_WC_LOC_PROT_ERR,
		  transfer(IBV_WR_RDMA_READ, iova, read_only.lkey, (uintptr_t)b.buffer, b.mr->rkey, 8));
	number_is("a region goes", 0, dereg(&whole));
	connect();
	number_is("its key too", IBV_WC_REM_ACCESS_ERR,
		  transfer(IBV_WR_RDMA_WRITE, (uintptr_t)a.buffer, a.mr->lkey, iova, whole.rkey, 8));
	number_is("the other one goes", 0, dereg(&read_only));
}

static struct {
	uint32_t rkey;
	_Atomic int done, revoked;
	int late, wrong;
} writes;

static void post_write(void)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(&a, &b, IBV_WR_RDMA_WRITE, &sge);

	sge.length = 60000;
	wr.wr.rdma.remote_addr = 16;
	wr.wr.rdma.rkey = writes.rkey;
	if (post(&a, &wr))
		die("post");
}

/*
 * Keeps DEPTH requests in flight until one fails: a revocation always meets some. Those that were posted before it may succeed.
 */
static void *write_until_revoked(void *unused)
{
	int left = DEPTH;

	for (int i = 0; i < DEPTH; i++)
		post_write();
	while (left) {
		int was_revoked = writes.revoked;
		int status = wait_wc(&a, 10000).status;

		left--;
		if (status == IBV_WC_SUCCESS && left == DEPTH - 1 && writes.late <= DEPTH) {
			writes.done++;
			writes.late += was_revoked;
			post_write();
			left++;
		} else if (status != IBV_WC_REM_ACCESS_ERR && status != IBV_WC_REM_OP_ERR && status != IBV_WC_WR_FLUSH_ERR) {
			writes.wrong++;
		}
	}
	return unused;
}

/* A buffer is revoked while a peer writes to it: then no byte of it changes, and its key is no key. */
static void revocation(void)
{
	int succeeded = 0, wrong = 0, changed = 0, registered = 0;

	for (int round = 0; round < REVOCATIONS; round++) {
		int device = open("/dev/fake_dmabuf", O_RDWR), fd;
		struct region region;
		pthread_t writer;

		if (device < 0 || read(device, &fd, sizeof(fd)) != sizeof(fd) || reg(&region, fd, 0, SIZE, 0, ACCESS_ALL))
			die("register what can be revoked");
		connect();
		memset(a.buffer, round, 60000);
		memset(&writes, 0, sizeof(writes));
		writes.rkey = region.rkey;
		if (pthread_create(&writer, NULL, write_until_revoked, NULL))
			die("a thread");
		while (writes.done <= round % 16)
			sched_yield();
		if (write(device, "revoke", 6) != 6)
			die("revoke");
		writes.revoked = 1;
		pthread_join(writer, NULL);
		succeeded += writes.done;
		wrong += writes.wrong;
		connect();
		wrong += transfer(IBV_WR_RDMA_WRITE, (uintptr_t)a.buffer, a.mr->lkey, 16, region.rkey, 8) != IBV_WC_REM_ACCESS_ERR;
		changed += write(device, "check", 5) != 5;
		registered += !try(fd, 0, SIZE, 0, ACCESS_ALL);
		if (round % 2)
			dereg(&region);
		close(fd);
		close(device);
	}
	printf("# %d requests were before %d revocations\n", succeeded, REVOCATIONS);
	number_is("requests fail once a buffer is revoked", 0, wrong);
	number_is("it is not written to any more", 0, changed);
	number_is("nor registered", 0, registered);
}

int main(int argc, char **argv)
{
	int fd;

	open_device(argc, argv);
	fd = udmabuf();
	registrations(fd);
	traffic(fd);
	revocation();
	return all_done();
}
