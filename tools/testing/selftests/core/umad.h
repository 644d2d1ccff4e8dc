/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the umad_*.c programs share: the files /dev/infiniband/umadN without a library, MADs and their addresses on RoCE
 * (QP 1, a GRH), and a peer in the same process.
 */
#ifndef UMAD_H
#define UMAD_H

#include "verbs.h"
#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <rdma/ib_user_mad.h>
#include <rdma/rdma_user_ioctl.h>
#include <sys/ioctl.h>

enum {
	MAD = 256, HEADER = sizeof(struct ib_user_mad_hdr), OLD_HEADER = sizeof(struct ib_user_mad_hdr_old), WHOLE = HEADER + MAD,
	MAD_HEADER = 24, RMPP_HEADER = 36, VENDOR_HEADER = 40, SA_HEADER = 56, DEVICE_HEADER = 64,
	AGENTS = 32,
};
#define GSI_QKEY 0x80010000u

/* Classes (IBTA volume 1, 13.4.4) and methods (13.4.5). */
enum { SUBN_LID = 0x01, SUBN_ADM = 0x03, PERFORMANCE = 0x04, DEVICE_MGMT = 0x06, CM = 0x07, VENDOR_OLD = 0x09, DEVICE_ADM = 0x10, BIS = 0x12,
       VENDOR = 0x30, SUBN_DIRECTED = 0x81 };
enum { GET = 0x01, SET = 0x02, SEND = 0x03, TRAP = 0x05, TRAP_REPRESS = 0x07, GET_TABLE = 0x12, RESPONSE = 0x80, GET_RESPONSE = 0x81 };
enum { UNSUPPORTED = 0x000c };
enum { RMPP_DATA = 1, RMPP_ACK, RMPP_STOP, RMPP_ABORT };
enum { RMPP_ACTIVE = 1, RMPP_FIRST = 2, RMPP_LAST = 4 };

#define OUI 0x0002c9

/* One MAD with its header of RMPP and OUI, as it is on the wire. */
struct mad {
	uint8_t base_version, mgmt_class, class_version, method;
	uint16_t status, class_specific;
	uint64_t tid;
	uint16_t attribute, reserved;
	uint32_t modifier;
	uint8_t rmpp_version, rmpp_type, rmpp_flags, rmpp_status;
	uint32_t segment, length;	/* the length is the window in an ACK */
	uint32_t oui;			/* of vendor classes */
	uint8_t data[MAD - VENDOR_HEADER];
} __attribute__((packed, aligned(8)));

/* What write() takes and read() gives, for one MAD. */
struct message {
	struct ib_user_mad_hdr hdr;
	struct mad mad;
};
_Static_assert(sizeof(struct message) == WHOLE, "there is a gap");

/* A device with the file of its port, and the GIDs of its addresses. */
struct node {
	const char *device;
	int fd;
	int gid_index;
	union ibv_gid gid;
};

/* What an agent wants; zero means the usual: QP 1, class VENDOR with OUI, class version 1, no RMPP. */
struct wish {
	uint8_t mgmt_class, version, rmpp, qpn_other;
	uint32_t oui, flags;
	uint64_t methods[2];
	bool send_only, no_oui;
};

#define METHOD(m) (1ull << (m))

static inline void is(const char *name, bool good, const char *why) { verdict(name, good, false, why); }

/* Where a stock module is known to be wrong; `told` allows it to be when it is the one that is loaded. */
static inline void is_not_on_stock(const char *module, const char *name, bool good, const char *why)
{
	if (good)
		printf("pass|%s\n", name);
	else
		printf("known %s|%s|%s\n", module, name, why);
	fflush(stdout);
}

/* Times are longer on a kernel that is slow (lib.sh). */
static inline int paced(int ms)
{
	const char *slowness = getenv("SLOWNESS");

	return slowness && atoi(slowness) > 1 ? 3 * ms : ms;
}

static inline void read_line(const char *path, char *line, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, line, size - 1);

	if (fd >= 0)
		close(fd);
	line[got < 0 ? 0 : got] = 0;
	line[strcspn(line, "\n")] = 0;
}

/* Opens the file of a device's port; -1 where there is none. */
static inline int umad_open(const char *device, int flags)
{
	char path[128], line[64];

	for (int n = 0; n < 64; n++) {
		snprintf(path, sizeof(path), "/sys/class/infiniband_mad/umad%d/ibdev", n);
		read_line(path, line, sizeof(line));
		if (strcmp(line, device))
			continue;
		snprintf(path, sizeof(path), "/dev/infiniband/umad%d", n);
		return open(path, O_RDWR | O_CLOEXEC | flags);
	}
	return -1;
}

/* A node with the layout that has a P_Key index. */
static inline void node_open(struct node *node, const char *device, const char *gid_index)
{
	char path[128], line[64];

	node->device = device;
	node->gid_index = atoi(gid_index);
	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/gids/%d", device, node->gid_index);
	read_line(path, line, sizeof(line));
	if (inet_pton(AF_INET6, line, node->gid.raw) != 1)
		die("read a GID");
	node->fd = umad_open(device, 0);
	if (node->fd < 0 || ioctl(node->fd, IB_USER_MAD_ENABLE_PKEY))
		die("open a umad file");
}

/* A number of an agent, or a negative errno value. */
static inline int agent_new(int fd, struct wish wish)
{
	struct ib_user_mad_reg_req2 request = {
		.qpn = wish.qpn_other ? wish.qpn_other - 1 : 1, .flags = wish.flags, .rmpp_version = wish.rmpp,
		.mgmt_class = wish.send_only ? 0 : wish.mgmt_class ? wish.mgmt_class : VENDOR,
		.mgmt_class_version = wish.version ? wish.version : 1,
		.oui = wish.no_oui ? 0 : wish.oui ? wish.oui : OUI,
		.method_mask = { wish.methods[0], wish.methods[1] },
	};

	return ioctl(fd, IB_USER_MAD_REGISTER_AGENT2, &request) ? -errno : (int)request.id;
}

static inline int agent_gone(int fd, uint32_t id)
{
	return ioctl(fd, IB_USER_MAD_UNREGISTER_AGENT, &id) ? -errno : 0;
}

/* An agent that must come to be. */
static inline int agent(int fd, struct wish wish)
{
	int id = agent_new(fd, wish);

	if (id < 0) {
		errno = -id;
		die("register an agent");
	}
	return id;
}

/* A MAD of class VENDOR from an agent of one node to QP 1 of another. */
static inline struct message message(int agent, const struct node *from, const struct node *to, uint8_t method, uint32_t tid)
{
	struct message message = {
		.hdr = { .id = agent, .qpn = htonl(1), .qkey = htonl(GSI_QKEY), .grh_present = 1, .gid_index = from->gid_index, .hop_limit = 64,
			 .length = WHOLE },
		.mad = { .base_version = 1, .mgmt_class = VENDOR, .class_version = 1, .method = method, .tid = htobe64(tid),
			 .attribute = htons(0x55), .oui = htonl(OUI) },
	};

	memcpy(message.hdr.gid, to->gid.raw, 16);
	return message;
}

/* 0 or a negative errno value. */
static inline int put(int fd, const void *buffer, size_t size)
{
	ssize_t written = write(fd, buffer, size);

	return written == (ssize_t)size ? 0 : written < 0 ? -errno : -EIO;
}

static inline int put_message(int fd, const struct message *message) { return put(fd, message, sizeof(*message)); }

static inline bool readable(int fd, int ms)
{
	struct pollfd poller = { .fd = fd, .events = POLLIN };

	return poll(&poller, 1, ms) == 1 && poller.revents & POLLIN;
}

/* Bytes, or a negative errno value; -EAGAIN when nothing comes within so many milliseconds. */
static inline int take(int fd, void *buffer, size_t size, int ms)
{
	ssize_t got;

	if (!readable(fd, ms))
		return -EAGAIN;
	got = read(fd, buffer, size);
	return got < 0 ? -errno : got;
}

static inline int take_message(int fd, struct message *message, int ms) { return take(fd, message, sizeof(*message), ms); }

/* Whether nothing comes, after long enough. */
static inline bool silent(int fd) { return !readable(fd, paced(200)); }

/* Throws away all that has come, or is about to. */
static inline int drain(int fd)
{
	static char buffer[1 << 20];
	int count = 0;

	while (take(fd, buffer, sizeof(buffer), paced(30)) > 0)
		count++;
	return count;
}

/* Turns what was received into its answer. */
static inline void answer_to(struct message *message, int agent)
{
	message->hdr.id = agent;
	message->hdr.timeout_ms = message->hdr.retries = 0;
	message->mad.method |= RESPONSE;
}

static inline uint32_t low(const struct mad *mad) { return be64toh(mad->tid); }
static inline uint32_t high(const struct mad *mad) { return be64toh(mad->tid) >> 32; }

static inline void equal(const char *name, long wanted, long got)
{
	char why[80];

	snprintf(why, sizeof(why), "wanted %ld, got %ld", wanted, got);
	is(name, wanted == got, why);
}

#endif
