// SPDX-License-Identifier: GPL-2.0
/*
 * What verbs look like on the wire, between the devices of hosts A and B: the headers of each operation, timers, credits, the fields of
 * an address, and what a queue pair makes of packets that its peer did not send. Runs on A, watches vethA, forges packets on both.
 *
 *   verbs_wire headers|rules|pkeys|credits|migration|ports DEVICE_A GID_INDEX_A DEVICE_B GID_INDEX_B
 */
#define _GNU_SOURCE
#include "verbs.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <rdma/rdma_user_rxe.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <sched.h>
#include <sys/socket.h>

#define PORT 4791
#define NOBODY 0xabcdef
#define MTU 256
#define SLACK 3000	/* us, until an emulated processor runs what a timer wakes */
#define FLUSHES (IBV_ACCESS_FLUSH_GLOBAL)

static struct side {
	struct ibv_context *context;
	struct ibv_pd *pd;
	union ibv_gid gid;
	int gid_index, port, raw;
	char *device;
} A, B;
static struct end a, b;
static int watch;

/* Two hosts
 * ---------------------------------------------------------------------------------------------------------------------- */

static void use(const struct side *side)
{
	context = side->context;
	pd = side->pd;
	gid = side->gid;
	gid_index = side->gid_index;
	port_number = side->port;
}

static struct side side_open(char *device, char *index, const char *netns)
{
	char *argv[] = { "", device, index }, path[64];
	int here = open("/proc/self/ns/net", O_RDONLY), there, on = 1;
	struct side side;

	context = NULL;
	open_device(3, argv);
	side = (struct side){ context, pd, gid, gid_index, 1, .device = device };
	snprintf(path, sizeof(path), "/run/netns/%s", netns);
	there = open(path, O_RDONLY);
	if (there < 0 || setns(there, CLONE_NEWNET))
		die("enter a network namespace");
	side.raw = socket(AF_INET, SOCK_RAW, IPPROTO_RAW);
	if (side.raw < 0 || setsockopt(side.raw, IPPROTO_IP, IP_HDRINCL, &on, sizeof(on)) ||
	    setsockopt(side.raw, SOL_SOCKET, SO_BROADCAST, &on, sizeof(on)) || setns(here, CLONE_NEWNET))
		die("raw socket");
	close(here);
	close(there);
	return side;
}

/* The QP of one side, to a QP of the other. */
static void climb_to(struct end *end, const struct side *from, const struct side *to, const struct setup *setup, uint32_t qpn)
{
	use(from);
	gid = to->gid;
	if (climb(end->qp, IBV_QPS_RTS, setup, qpn))
		die("connect");
	use(from);
}

static void both_of(const struct side *one, const struct side *other, const struct setup *setup)
{
	use(one);
	end_init(&a, setup);
	use(other);
	end_init(&b, setup);
	climb_to(&b, other, one, setup, a.qp->qp_num);
	climb_to(&a, one, other, setup, b.qp->qp_num);
}

static void both(const struct setup *setup) { both_of(&A, &B, setup); }

static void none(void)
{
	end_destroy(&a);
	end_destroy(&b);
}

static int ask(enum ibv_wr_opcode opcode, uint32_t length, int flags)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(&a, &b, opcode, &sge);

	sge.length = length;
	wr.imm_data = htonl(0x12345678);
	wr.send_flags |= flags;
	return post(&a, &wr);
}

static int ports_of(const struct side *side)
{
	struct ibv_device_attr attr;

	if (ibv_query_device(side->context, &attr))
		die("query a device");
	return attr.phys_port_cnt;
}

/* The wire
 * ---------------------------------------------------------------------------------------------------------------------- */

struct packet {
	bool out, icrc;
	long us;
	uint8_t tos, ttl, opcode, flags, reserved, ack;
	uint16_t sport, pkey;
	uint32_t source, qpn, psn;
	int length;		/* behind the BTH, without the ICRC */
	uint8_t body[600];
};

static uint32_t crc32(const uint8_t *data, size_t length)
{
	uint32_t crc = ~0u;

	for (size_t i = 0; i < length; i++) {
		crc ^= data[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	return ~crc;
}

/* IBTA annex A17.3.3, of an IPv4 packet of so many bytes without its ICRC. */
static uint32_t icrc_of(const uint8_t *ip, size_t length)
{
	static const uint8_t masked[] = { 1, 8, 10, 11, 26, 27, 32 };	/* TOS, TTL, checksums, BTH's reserved byte */
	uint8_t copy[8 + 9000];

	memset(copy, 0xff, 8);
	memcpy(copy + 8, ip, length);
	for (size_t i = 0; i < sizeof(masked); i++)
		copy[8 + masked[i]] = 0xff;
	return crc32(copy, 8 + length);
}

static void watch_open(void)
{
	struct sockaddr_ll where = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL) };
	int on = 1, room = 8 << 20;

	/* With two ports, both are watched. */
	where.sll_ifindex = ports_of(&A) == 1 ? if_nametoindex("vethA") : 0;
	watch = socket(AF_PACKET, SOCK_DGRAM, htons(ETH_P_ALL));
	if (watch < 0 || bind(watch, (struct sockaddr *)&where, sizeof(where)) || setsockopt(watch, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on)))
		die("watch vethA");
	setsockopt(watch, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
}

/* The next RoCE packet that was seen. */
static bool next_packet(struct packet *p)
{
	uint8_t data[9000], control[256];
	struct sockaddr_ll from;
	struct iovec iov = { data, sizeof(data) };

	for (;;) {
		struct msghdr msg = { &from, sizeof(from), &iov, 1, control, sizeof(control), 0 };
		int length = recvmsg(watch, &msg, MSG_DONTWAIT);
		struct timespec *time;
		uint32_t icrc;

		if (length < 0)
			return false;
		if (length < 44 || data[0] != 0x45 || data[9] != 17 || (data[22] << 8 | data[23]) != PORT)
			continue;
		if ((data[2] << 8 | data[3]) > length)
			continue; /* many packets in a buffer */
		length = data[2] << 8 | data[3];
		time = (struct timespec *)CMSG_DATA(CMSG_FIRSTHDR(&msg));
		memcpy(&icrc, data + length - 4, 4);
		*p = (struct packet){
			.out = from.sll_pkttype == PACKET_OUTGOING, .icrc = icrc == icrc_of(data, length - 4),
			.us = time->tv_sec % 100000 * 1000000 + time->tv_nsec / 1000, .tos = data[1], .ttl = data[8],
			.source = (uint32_t)data[12] << 24 | data[13] << 16 | data[14] << 8 | data[15],
			.sport = data[20] << 8 | data[21], .opcode = data[28], .flags = data[29], .pkey = data[30] << 8 | data[31], .reserved = data[32] | (data[36] & 0x7f),
			.qpn = data[33] << 16 | data[34] << 8 | data[35], .ack = data[36] >> 7,
			.psn = data[37] << 16 | data[38] << 8 | data[39], .length = length - 44,
		};
		memcpy(p->body, data + 40, p->length < (int)sizeof(p->body) ? p->length : (int)sizeof(p->body));
		return true;
	}
}

static void forget(void)
{
	struct packet p;

	while (next_packet(&p))
		;
}

/* A packet from one address to another with a right ICRC, this P_Key, and M set or not. */
static uint16_t forged_pkey = 0xffff;
static uint8_t forged_flags = 0x40;

static void forge(const struct side *side, const char *source, const char *target, uint8_t opcode, uint32_t qpn, uint32_t psn,
		  const void *body, size_t length)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	uint8_t p[2000] = { 0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, 17 };
	size_t total = 20 + 8 + 12 + length;
	uint32_t icrc;

	p[2] = (total + 4) >> 8, p[3] = total + 4;
	inet_pton(AF_INET, source, p + 12);
	inet_pton(AF_INET, target, p + 16);
	p[20] = 0xc3, p[21] = 0x50, p[22] = PORT >> 8, p[23] = PORT & 0xff, p[24] = (total + 4 - 20) >> 8, p[25] = total + 4 - 20;
	p[28] = opcode, p[29] = forged_flags, p[30] = forged_pkey >> 8, p[31] = forged_pkey;
	p[33] = qpn >> 16, p[34] = qpn >> 8, p[35] = qpn, p[36] = 0x80, p[37] = psn >> 16, p[38] = psn >> 8, p[39] = psn;
	memcpy(p + 40, body, length);
	icrc = icrc_of(p, total);
	memcpy(p + total, &icrc, 4);
	inet_pton(AF_INET, target, &to.sin_addr);
	if (sendto(side->raw, p, total + 4, 0, (struct sockaddr *)&to, sizeof(to)) < 0)
		die("send a forged packet");
}

/* Headers, as they were recorded
 * ---------------------------------------------------------------------------------------------------------------------- */

static uint32_t be32(const uint8_t *p) { return (uint32_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3]; }
static uint64_t be64(const uint8_t *p) { return (uint64_t)be32(p) << 32 | be32(p + 4); }

/* The extended headers of a packet; random numbers are printed by what they stand for. */
static int print_extended(const struct packet *p, const uint8_t *at)
{
	const uint8_t *start = at;
	int op = p->opcode & 0x1f;

	if (p->opcode >> 5 == 3) {
		printf(" DETH qkey %x from %s", be32(at), (be32(at + 4) & 0xffffff) == a.qp->qp_num ? "A" : "?");
		at += 8;
	}
	if (op == 0x1c) {
		printf(" FETH %08x", be32(at));
		at += 4;
	}
	if (op == 6 || op == 0xa || op == 0xb || op == 0xc || op == 0x1c || op == 0x1d) {
		printf(" RETH +%llu %s", (unsigned long long)(be64(at) - (uintptr_t)b.buffer), be32(at + 8) == b.mr->rkey ? "key" : "?");
		printf(" %u", be32(at + 12));
		at += 16;
	}
	if (op == 0x13 || op == 0x14) {
		printf(" AtomicETH +%llu %s %llx %llx", (unsigned long long)(be64(at) - (uintptr_t)b.buffer),
		       be32(at + 8) == b.mr->rkey ? "key" : "?", (unsigned long long)be64(at + 12), (unsigned long long)be64(at + 20));
		at += 28;
	}
	if (op == 0xd || (op >= 0xf && op <= 0x12)) {
		printf(" AETH %02x %u", at[0], be32(at) & 0xffffff);
		at += 4;
	}
	if (op == 0x12) {
		printf(" AtomicAckETH %llx", (unsigned long long)be64(at));
		at += 8;
	}
	if (op == 3 || op == 5 || op == 9 || op == 0xb) {
		printf(" ImmDt %08x", be32(at));
		at += 4;
	}
	if (op == 0x16 || op == 0x17) {
		printf(" IETH %s", be32(at) ? "key" : "0");
		at += 4;
	}
	return at - start;
}

static void print_packets(void)
{
	struct packet p;

	usleep(100000);
	while (next_packet(&p)) {
		bool flush = p.opcode == 0x1c; /* stock has another ICRC in it than the specification says */
		uint32_t to = p.out ? b.qp->qp_num : a.qp->qp_num;
		int headers;

		printf("%s opcode %02x SE %d pad %d version %d pkey %04x reserved %02x ack %d psn +%u%s", p.out ? "A to B:" : "B to A:",
		       p.opcode, p.flags >> 7, p.flags >> 4 & 3, p.flags & 15, p.pkey, p.reserved, p.ack, p.psn, p.qpn == to ? "" : " another QP");
		headers = print_extended(&p, p.body);
		printf(" data %d%s\n", p.length - headers, p.icrc || flush ? "" : " wrong ICRC");
	}
	fflush(stdout);
}

/* The end gets a QP that has the extended interface, for requests that ibv_post_send has not. */
static struct ibv_qp_ex *extend(struct end *end)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RC, .send_cq = end->cq, .recv_cq = end->cq, .pd = end->mr->pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_ATOMIC_WRITE,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .cap = { 16, 16, 4, 4, 0 },
	};

	ibv_destroy_qp(end->qp);
	end->qp = ibv_create_qp_ex(end->mr->context, &init);
	if (!end->qp)
		die("ibv_create_qp_ex");
	return ibv_qp_to_qp_ex(end->qp);
}

/* A window that B has bound, for A to invalidate. */
static struct ibv_mw *window(void)
{
	struct ibv_mw *mw = ibv_alloc_mw(B.pd, IBV_MW_TYPE_2);
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED };

	ibv_dereg_mr(b.mr);
	b.mr = ibv_reg_mr(B.pd, b.buffer, BUFFER, ACCESS_ALL | IBV_ACCESS_MW_BIND);
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ b.mr, (uintptr_t)b.buffer, 64, IBV_ACCESS_REMOTE_READ };
	if (post(&b, &wr) || wait_wc(&b, 3000).status)
		die("bind a window");
	mw->rkey = wr.bind_mw.rkey;
	return mw;
}

static void headers_of(enum ibv_qp_type type, const char *name, int opcode, uint32_t length, int flags)
{
	static const char *const types[] = { [IBV_QPT_RC] = "RC", [IBV_QPT_UC] = "UC", [IBV_QPT_UD] = "UD" };
	struct setup setup = { .type = type, .mtu = IBV_MTU_256 };
	struct ibv_ah *ah = NULL;
	struct ibv_mw *mw = NULL;

	printf("== %s %s, %u bytes\n", types[type], name, length);
	both(&setup);
	if (opcode == IBV_WR_SEND_WITH_INV)
		mw = window();
	post_receive(&b, 1, 0, 4096);
	forget();
	if (type == IBV_QPT_UD) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = request(&a, &b, opcode, &sge);
		struct ibv_ah_attr attr;

		use(&A);
		gid = B.gid;
		attr = address();
		sge.length = length;
		wr.imm_data = htonl(0x12345678);
		wr.wr.ud.ah = ah = ibv_create_ah(A.pd, &attr);
		wr.wr.ud.remote_qpn = b.qp->qp_num;
		wr.wr.ud.remote_qkey = QKEY;
		if (!ah || post(&a, &wr))
			die("datagram");
	} else if (mw) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = request(&a, &b, opcode, &sge);

		sge.length = length;
		wr.invalidate_rkey = mw->rkey;
		if (post(&a, &wr))
			die("post");
	} else if (ask(opcode, length, flags)) {
		die("post");
	}
	printf("status %d\n", wait_wc(&a, 3000).status);
	print_packets();
	if (mw)
		ibv_dealloc_mw(mw);
	if (ah)
		ibv_destroy_ah(ah);
	none();
}

/* FLUSH and ATOMIC WRITE, which the 7.2 headers FETH and RETH carry. */
static void headers_extended(bool flush)
{
	static const struct setup setup = { .mtu = IBV_MTU_256 };
	struct ibv_qp_ex *qp;

	printf("== RC %s\n", flush ? "FLUSH" : "ATOMIC_WRITE");
	use(&A);
	end_init(&a, &setup);
	use(&B);
	end_init(&b, &setup);
	ibv_dereg_mr(b.mr);
	b.mr = ibv_reg_mr(B.pd, b.buffer, BUFFER, ACCESS_ALL | FLUSHES);
	qp = extend(&a);
	climb_to(&b, &B, &A, &(struct setup){ .mtu = IBV_MTU_256, .access = 1 + (ACCESS_ALL | FLUSHES) }, a.qp->qp_num);
	climb_to(&a, &A, &B, &setup, b.qp->qp_num);
	forget();
	ibv_wr_start(qp);
	qp->wr_flags = IBV_SEND_SIGNALED;
	if (flush)
		ibv_wr_flush(qp, b.mr->rkey, (uintptr_t)b.buffer, 100, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	else
		ibv_wr_atomic_write(qp, b.mr->rkey, (uintptr_t)b.buffer, "8 bytes");
	if (ibv_wr_complete(qp))
		die("extended request");
	printf("status %d\n", wait_wc(&a, 3000).status);
	print_packets();
	none();
}

static void headers(void)
{
	static const struct { const char *name; int opcode; uint32_t length; int flags; } rc[] = {
		{ "SEND", IBV_WR_SEND, 101, 0 }, { "SEND", IBV_WR_SEND, 700, 0 }, { "SEND, nothing", IBV_WR_SEND, 0, 0 },
		{ "SEND, solicited", IBV_WR_SEND, 300, IBV_SEND_SOLICITED }, { "SEND with immediate", IBV_WR_SEND_WITH_IMM, 102, 0 },
		{ "SEND with immediate", IBV_WR_SEND_WITH_IMM, 700, 0 }, { "SEND with invalidate", IBV_WR_SEND_WITH_INV, 103, 0 },
		{ "SEND with invalidate", IBV_WR_SEND_WITH_INV, 300, 0 },
		{ "WRITE", IBV_WR_RDMA_WRITE, 101, 0 }, { "WRITE", IBV_WR_RDMA_WRITE, 703, 0 }, { "WRITE, nothing", IBV_WR_RDMA_WRITE, 0, 0 },
		{ "WRITE with immediate", IBV_WR_RDMA_WRITE_WITH_IMM, 101, 0 }, { "WRITE with immediate", IBV_WR_RDMA_WRITE_WITH_IMM, 700, 0 },
		{ "READ", IBV_WR_RDMA_READ, 101, 0 }, { "READ", IBV_WR_RDMA_READ, 703, 0 }, { "READ, nothing", IBV_WR_RDMA_READ, 0, 0 },
		{ "COMPARE_AND_SWAP", IBV_WR_ATOMIC_CMP_AND_SWP, 8, 0 }, { "FETCH_AND_ADD", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rc); i++)
		headers_of(IBV_QPT_RC, rc[i].name, rc[i].opcode, rc[i].length, rc[i].flags);
	headers_extended(true);
	headers_extended(false);
	headers_of(IBV_QPT_UC, "SEND", IBV_WR_SEND, 700, 0);
	headers_of(IBV_QPT_UC, "SEND", IBV_WR_SEND, 102, 0);
	headers_of(IBV_QPT_UC, "SEND with immediate", IBV_WR_SEND_WITH_IMM, 700, 0);
	headers_of(IBV_QPT_UC, "SEND with immediate", IBV_WR_SEND_WITH_IMM, 7, 0);
	headers_of(IBV_QPT_UC, "WRITE", IBV_WR_RDMA_WRITE, 700, 0);
	headers_of(IBV_QPT_UC, "WRITE", IBV_WR_RDMA_WRITE, 101, 0);
	headers_of(IBV_QPT_UC, "WRITE with immediate", IBV_WR_RDMA_WRITE_WITH_IMM, 700, 0);
	headers_of(IBV_QPT_UC, "WRITE with immediate", IBV_WR_RDMA_WRITE_WITH_IMM, 101, 0);
	headers_of(IBV_QPT_UD, "SEND", IBV_WR_SEND, 101, 0);
	headers_of(IBV_QPT_UD, "SEND with immediate", IBV_WR_SEND_WITH_IMM, 101, 0);
}

/* Rules
 * ---------------------------------------------------------------------------------------------------------------------- */

static void delay(bool on)
{
	if (system(on ? "ip netns exec B tc qdisc replace dev vethB root netem delay 30ms" : "ip netns exec B tc qdisc del dev vethB root"))
		die("tc");
}

/* What a READ brings is sent on by the next request: with a fence what it brought, without one what was there before. */
static void fence(bool fenced)
{
	static const struct setup usual;
	struct ibv_sge in, out;
	struct ibv_send_wr read, send;
	char why[64];
	bool fresh;

	both(&usual);
	memset(a.buffer, 1, 4096);
	memset(b.buffer, 2, 4096);
	read = request(&a, &b, IBV_WR_RDMA_READ, &in);
	send = request(&a, &b, IBV_WR_SEND, &out);
	in.length = out.length = 1000;
	send.send_flags |= fenced ? IBV_SEND_FENCE : 0;
	read.next = &send;
	if (post_receive(&b, 1, 65536, 4096) || post(&a, &read) || wait_wc(&a, 5000).status || wait_wc(&a, 5000).status ||
	    wait_wc(&b, 5000).status)
		die("read and send");
	fresh = !memcmp(b.buffer, b.buffer + 65536, 1000);
	snprintf(why, sizeof(why), "the send carries %s data", fresh ? "new" : "old");
	verdict(fenced ? "a fenced SEND waits for the READ before it" : "a SEND without a fence does not", fresh == fenced, false, why);
	none();
}

/* The M bit of requests, responses and acknowledgements: a connection without path migration is in the state Migrated. */
static void migrated(void)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD };
	static const struct setup usual;
	int count[2] = { 0 }, set[2] = { 0 };
	struct packet p;
	char why[80];

	both(&usual);
	post_receive(&b, 1, 65536, 4096);
	forget();
	for (size_t i = 0; i < ARRAY_SIZE(opcodes); i++)
		if (ask(opcodes[i], 8, 0) || wait_wc(&a, 5000).status)
			die("a request");
	while (next_packet(&p)) {
		count[p.out]++;
		set[p.out] += p.flags >> 6 & 1;
	}
	snprintf(why, sizeof(why), "in %d of %d packets from A and %d of %d from B", set[1], count[1], set[0], count[0]);
	verdict("M, the path migration state, is set", count[1] >= 4 && set[1] == count[1] && count[0] >= 4 && set[0] == count[0], true, why);
	none();
}

/* Requests of several kinds leave in the order in which they were posted: so do their packets, whose PSNs go up by the packets of each. */
static void order(void)
{
	static const struct { enum ibv_wr_opcode opcode; uint32_t length; int first, packets; } kinds[] = {
		{ IBV_WR_SEND, 100, 0x04, 1 }, { IBV_WR_RDMA_WRITE, 600, 0x06, 3 }, { IBV_WR_RDMA_READ, 600, 0x0c, 3 },
		{ IBV_WR_RDMA_WRITE, 50, 0x0a, 1 }, { IBV_WR_SEND, 700, 0x00, 3 }, { IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 0x14, 1 },
	};
	static const struct setup small = { .mtu = IBV_MTU_256 };
	struct { int opcode; uint32_t psn; } seen[200], *at = seen;
	uint32_t psn = 0;
	struct packet p;
	char why[80] = "";
	int i, count;

	both(&small);
	for (i = 0; i < 20; i++)
		post_receive(&b, i, 65536, 4096);
	forget();
	for (i = 0; i < 42; i++)
		if (ask(kinds[i % 6].opcode, kinds[i % 6].length, 0))
			die("post");
	for (i = 0; i < 42; i++)
		if (wait_wc(&a, 5000).status)
			die("completion");
	usleep(50000);
	while (next_packet(&p)) {
		bool again = at > seen && p.psn <= at[-1].psn; /* that leaves a gap where it was not sent before */

		if (p.out && p.qpn == b.qp->qp_num && !again && at < seen + ARRAY_SIZE(seen))
			at->opcode = p.opcode, at++->psn = p.psn;
	}
	count = at - seen;
	at = seen;
	for (i = 0; i < 42 && !*why; i++) {
		int packets = kinds[i % 6].opcode == IBV_WR_RDMA_READ ? 1 : kinds[i % 6].packets;

		if (at + packets > seen + count || at->opcode != kinds[i % 6].first)
			snprintf(why, sizeof(why), "request %d: opcode %02x", i, at->opcode);
		for (int n = 0; n < packets && !*why; n++)
			if (at[n].psn != psn + n)
				snprintf(why, sizeof(why), "request %d: PSN %u, not %u", i, at[n].psn, psn + n);
		at += packets;
		psn += kinds[i % 6].packets;
	}
	verdict("packets have the order in which their requests were posted", !*why && at == seen + count, false, why);
	none();
}

/* At most max_rd_atomic requests are under way. */
static void depth(int wanted)
{
	static const struct setup usual = { .mtu = IBV_MTU_1024 };
	struct ibv_qp_attr attr;
	int under_way = 0, most = 0, count = 0, mask;
	struct packet p;
	char name[80], why[80];

	use(&A);
	end_init(&a, &usual);
	use(&B);
	end_init(&b, &usual);
	for (int i = 0; i < 2; i++) {
		struct end *end = i ? &a : &b;

		use(i ? &A : &B);
		gid = i ? B.gid : A.gid;
		for (int state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++) {
			mask = step(state, &usual, i ? b.qp->qp_num : a.qp->qp_num, &attr);
			attr.max_rd_atomic = attr.max_dest_rd_atomic = wanted;
			attr.timeout = 0;	/* a request that is sent again would count twice */
			if (ibv_modify_qp(end->qp, &attr, mask))
				die("modify_qp");
		}
	}
	forget();
	for (int i = 0; i < 20; i++)
		if (ask(i % 2 ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_RDMA_READ, 8, 0))
			die("post");
	for (int i = 0; i < 20; i++)
		if (wait_wc(&a, 20000).status)
			die("completion of a read");
	while (next_packet(&p)) {
		int op = p.opcode;

		if (p.out && (op == 0x0c || op == 0x13 || op == 0x14))
			under_way++, count++;
		else if (!p.out && (op == 0x10 || op == 0x12))
			under_way--;
		most = under_way > most ? under_way : most;
	}
	snprintf(name, sizeof(name), "max_rd_atomic %d: so many READs and atomics are under way", wanted);
	snprintf(why, sizeof(why), "%d of %d", most, count);
	verdict(name, most == wanted && count == 20, false, why);
	none();
}

/* 4.096 us * 2^timeout, up to four times that (IBTA 9.7.6.1.3); nothing comes back from a queue pair that is not there. Three retries
 * take at least so many hundredths of a timeout. */
static void ack_timeout(int timeout, int hundredths)
{
	static const struct setup usual;
	struct ibv_qp_attr attr;
	long first = 0, last = 0, shortest = 1 << 30, lower = 4096L * (1 << timeout) / 1000;
	struct packet p;
	char name[64], why[96];
	int count = 0, status;

	use(&A);
	end_init(&a, &usual);
	gid = B.gid;
	for (int state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++) {
		int mask = step(state, &usual, NOBODY, &attr);

		attr.timeout = timeout;
		if (ibv_modify_qp(a.qp, &attr, mask))
			die("modify_qp");
	}
	b = a;
	forget();
	ask(IBV_WR_RDMA_WRITE, 8, 0);
	status = wait_wc(&a, timeout ? 5000 : 1500).status;
	while (next_packet(&p)) {
		if (!p.out || p.qpn != NOBODY)
			continue;
		if (count++)
			shortest = p.us - last < shortest ? p.us - last : shortest;
		else
			first = p.us;
		last = p.us;
	}
	snprintf(name, sizeof(name), timeout ? "timeout %d" : "timeout %d: for ever", timeout);
	snprintf(why, sizeof(why), "%d packets in %ld us, at least %ld us apart (%ld), status %d", count, last - first, shortest, lower, status);
	/* A packet that is seen late is nearer to the next one: most of the time that all of them should take has to pass. */
	if (timeout)
		verdict(name, status == IBV_WC_RETRY_EXC_ERR && count == 4 && last - first >= lower * hundredths / 100 &&
			shortest <= lower * 4 + 10000, true, why);
	else
		verdict(name, status == -1 && count == 1, false, why);
	end_destroy(&a);
}

/* IBTA table 45. The best of some attempts, as an emulated processor may be late; stock's timers go by ticks. */
static bool rnr_timer(int code, bool last)
{
	static const int us[] = {
		655360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1280, 1920, 2560, 3840, 5120, 7680, 10240, 15360, 20480,
		30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520,
	};
	static const struct setup usual;
	struct ibv_qp_attr attr;
	long nak = 0, shortest = 1 << 30;
	bool right_code = true;
	int count = 0, status;
	struct packet p;
	char name[64], why[96];
	bool good;

	use(&A);
	end_init(&a, &usual);
	use(&B);
	end_init(&b, &usual);
	for (int i = 0; i < 2; i++) {
		use(i ? &A : &B);
		gid = i ? B.gid : A.gid;
		for (int state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++) {
			int mask = step(state, &usual, i ? b.qp->qp_num : a.qp->qp_num, &attr);

			attr.min_rnr_timer = code;
			attr.rnr_retry = us[code] > 200000 ? 1 : 3;
			attr.timeout = 20;
			if (ibv_modify_qp(i ? a.qp : b.qp, &attr, mask))
				die("modify_qp");
		}
	}
	forget();
	ask(IBV_WR_SEND, 8, 0);
	status = wait_wc(&a, 5000).status;
	while (next_packet(&p)) {
		if (!p.out && p.opcode == 0x11) {
			right_code = right_code && p.body[0] == (0x20 | code);
			nak = p.us;
			count++;
		} else if (p.out && nak) {
			shortest = p.us - nak < shortest ? p.us - nak : shortest;
		}
	}
	snprintf(name, sizeof(name), "min_rnr_timer %d: %d us", code, us[code]);
	snprintf(why, sizeof(why), "%d NAKs%s, %ld us, status %d", count, right_code ? "" : " of another code", shortest, status);
	none();
	good = status == IBV_WC_RNR_RETRY_EXC_ERR && right_code && count >= 2 && shortest >= us[code] * 9L / 10 &&
	       shortest <= us[code] * 11L / 10 + SLACK;
	if (good || last)
		verdict(name, good, right_code, why);
	return good;
}

/* A protection error is reported once, and nothing is sent again. */
static void no_retry(void)
{
	static const struct setup usual;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct packet p;
	int out = 0, naks = 0, others = 0, status;
	char why[80];

	both(&usual);
	wr = request(&a, &b, IBV_WR_RDMA_WRITE, &sge);
	sge.length = 8;
	wr.wr.rdma.rkey ^= 0x5500;
	forget();
	post(&a, &wr);
	status = wait_wc(&a, 3000).status;
	usleep(800000);
	while (next_packet(&p))
		if (p.out)
			out++;
		else if (p.opcode == 0x11 && p.body[0] == 0x62)
			naks++;
		else
			others++;
	snprintf(why, sizeof(why), "status %d, %d requests, %d NAKs, %d others", status, out, naks, others);
	verdict("a protection error is not retried", status == IBV_WC_REM_ACCESS_ERR && out == 1 && naks == 1 && !others, false, why);
	none();
}

/* A queue pair takes packets of its peer's address alone. */
static void strangers(void)
{
	static const struct setup usual;
	struct ibv_wc wc;

	both(&usual);
	post_receive(&b, 1, 0, 64);
	forge(&A, "10.0.0.9", "10.0.0.2", 0x04, b.qp->qp_num, 0, "a stranger's data", 16);
	verdict("a packet of another address is dropped", (int)wait_wc(&b, 300).status == -1, false, "received");
	forge(&A, "10.0.0.1", "10.0.0.2", 0x04, b.qp->qp_num + 0x1000, 0, "for another queue", 16);
	verdict("so is one for another queue pair", (int)wait_wc(&b, 300).status == -1, false, "received");
	forge(&A, "10.0.0.1", "10.0.0.2", 0x04, b.qp->qp_num, 0, "the peer's data..", 16);
	wc = wait_wc(&b, 2000);
	verdict("the same of the peer's address is taken", !wc.status && wc.byte_len == 16 && !memcmp(b.buffer, "the peer's data.", 16), false,
		"dropped");
	none();
}

/* A datagram to an address that the device's GID table has not is dropped: here of a broadcast, and of another net device. */
static void addresses(void)
{
	static const struct { const char *target, *name; bool taken; } cases[] = {
		{ "10.0.0.255", "a datagram to all of the subnet is dropped", false },
		{ "10.9.9.9", "so is one to an address of another net device", false },
		{ "10.0.0.2", "the same to the device's address is taken", true },
	};
	static const struct setup ud = { .type = IBV_QPT_UD };
	uint8_t body[8 + 16] = { QKEY >> 24, QKEY >> 16 & 0xff, QKEY >> 8 & 0xff, QKEY & 0xff, 0, 0, 0, 77, 1, 2, 3 };

	both(&ud);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct ibv_wc wc;
		char why[40];

		post_receive(&b, i, 0, 64);
		forge(&A, "10.0.0.1", cases[i].target, 0x64, b.qp->qp_num, 0, body, sizeof(body));
		wc = wait_wc(&b, cases[i].taken ? 3000 : 300);
		snprintf(why, sizeof(why), "status %d", (int)wc.status);
		verdict(cases[i].name, cases[i].taken ? !wc.status && wc.src_qp == 77 : (int)wc.status == -1, false, why);
	}
	none();
}

/* The provider's address handle. Without a number it writes the address to each request, as rdma-core before version 36 did. */
struct provider_ah {
	struct ibv_ah ibv_ah;
	struct rxe_av av;
	int ah_num;
};

/* A datagram whose request has the address: it comes from the source that the GID index says. */
static void address_in_request(int sgid_index, bool good)
{
	static const struct setup ud = { .type = IBV_QPT_UD };
	struct provider_ah *provider;
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct ibv_ah *ah;
	struct ibv_wc sent, got;
	char why[100];

	both(&ud);
	post_receive(&b, 1, 0, 4096);
	use(&A);
	gid = B.gid;
	ah = ibv_create_ah(pd, &(struct ibv_ah_attr){ .is_global = 1, .port_num = 1, .grh = address().grh });
	provider = (struct provider_ah *)ah;
	if (!ah || provider->ah_num <= 0)
		die("the provider's address handle");
	provider->ah_num = 0;
	provider->av = (struct rxe_av){
		.port_num = 1, .network_type = RXE_NETWORK_TYPE_IPV4, .grh = { .sgid_index = sgid_index, .hop_limit = 64 },
		.sgid_addr._sockaddr_in = { .sin_family = AF_INET, .sin_addr.s_addr = inet_addr("10.0.0.1") },
		.dgid_addr._sockaddr_in = { .sin_family = AF_INET, .sin_addr.s_addr = inet_addr("10.0.0.2") },
	};
	memcpy(&provider->av.grh.dgid, &B.gid, sizeof(B.gid));
	wr = request(&a, &b, IBV_WR_SEND, &sge);
	sge.length = 16;
	memset(a.buffer, 'm', 16);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = b.qp->qp_num;
	wr.wr.ud.remote_qkey = QKEY;
	post(&a, &wr);
	sent = wait_wc(&a, 3000);
	got = wait_wc(&b, good ? 3000 : 300);
	snprintf(why, sizeof(why), "sent with status %d, received with %d", (int)sent.status, (int)got.status);
	if (good)
		verdict("UD: the address in the request serves without a handle", !sent.status && !got.status && got.byte_len == 40 + 16 &&
			!memcmp(b.buffer + 32, "\x0a\0\0\1\x0a\0\0\2mmmmmmmmmmmmmmmm", 24), false, why);
	else
		verdict("UD: a source that is no GID is refused", sent.status == IBV_WC_LOC_QP_OP_ERR && (int)got.status == -1, true, why);
	ibv_destroy_ah(ah);
	none();
}

/* An answer to a READ that is none. */
static void bad_response(void)
{
	static const struct setup usual = { 0 };
	uint8_t body[12] = { 0x1f, 0, 0, 1 };
	struct ibv_wc wc;
	char why[40];

	use(&A);
	end_init(&a, &usual);
	climb_to(&a, &A, &B, &usual, NOBODY);
	b = a;
	ask(IBV_WR_RDMA_READ, 8, 0);
	usleep(5000);
	forge(&B, "10.0.0.2", "10.0.0.1", 0x12, a.qp->qp_num, 0, body, 12);
	wc = wait_wc(&a, 3000);
	snprintf(why, sizeof(why), "status %d", wc.status);
	verdict("BAD_RESP_ERR: an atomic's answer to a READ", wc.status == IBV_WC_BAD_RESP_ERR, true, why);
	end_destroy(&a);
}

/* Requests that the specification does not have, or not there. */
static void bad_request(const char *name, uint8_t opcode)
{
	static const struct setup usual = { .mtu = IBV_MTU_256 };
	static const char data[MTU];

	both(&usual);
	post_receive(&b, 1, 0, 4096);
	use(&B);
	while (wait_event(0) != -1)
		;
	forge(&A, "10.0.0.1", "10.0.0.2", opcode, b.qp->qp_num, 0, data, MTU);
	verdict(name, event_comes(IBV_EVENT_QP_REQ_ERR, 1000), true, "no event");
	none();
}

/* UC: what lacks a packet is lost as a whole, the next message comes. */
static void lost_middle(void)
{
	static const struct setup uc = { .type = IBV_QPT_UC, .mtu = IBV_MTU_256 };
	char data[MTU], why[64];
	struct ibv_wc wc;

	memset(data, 'x', sizeof(data));
	both(&uc);
	post_receive(&b, 1, 0, 4096);
	forge(&A, "10.0.0.1", "10.0.0.2", 0x20, b.qp->qp_num, 0, data, MTU);
	forge(&A, "10.0.0.1", "10.0.0.2", 0x22, b.qp->qp_num, 2, data, MTU);
	verdict("UC: a message without its middle is lost", (int)wait_wc(&b, 300).status == -1, false, "received");
	memset(data, 'y', sizeof(data));
	forge(&A, "10.0.0.1", "10.0.0.2", 0x20, b.qp->qp_num, 3, data, MTU);
	forge(&A, "10.0.0.1", "10.0.0.2", 0x21, b.qp->qp_num, 4, data, MTU);
	forge(&A, "10.0.0.1", "10.0.0.2", 0x22, b.qp->qp_num, 5, data, 100);
	wc = wait_wc(&b, 2000);
	snprintf(why, sizeof(why), "status %d, %u bytes", wc.status, wc.byte_len);
	verdict("UC: the next one comes", !wc.status && wc.wr_id == 1 && wc.byte_len == 2 * MTU + 100 && !memcmp(b.buffer, data, MTU) &&
		!memcmp(b.buffer + 2 * MTU, data, 100), true, why);
	none();
}

/* Traffic class, hop limit and flow label of an address are TOS, TTL and the source port. */
static void fields(uint32_t label, uint8_t traffic_class)
{
	static const struct setup usual;
	uint16_t port = (((label & 0xfc000) >> 14) ^ (label & 0x3fff)) | 0xc000;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr, now;
	struct packet p = { 0 };
	char why[128], name[64];

	use(&A);
	end_init(&a, &usual);
	use(&B);
	end_init(&b, &usual);
	climb_to(&b, &B, &A, &usual, a.qp->qp_num);
	use(&A);
	gid = B.gid;
	for (int state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++) {
		int mask = step(state, &usual, b.qp->qp_num, &attr);

		attr.ah_attr.grh.flow_label = label;
		attr.ah_attr.grh.traffic_class = traffic_class;
		if (ibv_modify_qp(a.qp, &attr, mask))
			die("modify_qp");
	}
	ibv_query_qp(a.qp, &now, IBV_QP_AV, &init);
	forget();
	ask(IBV_WR_RDMA_WRITE, 8, 0);
	wait_wc(&a, 3000);
	while (next_packet(&p) && !p.out)
		;
	snprintf(name, sizeof(name), "flow label %05x, traffic class %02x", label, traffic_class);
	snprintf(why, sizeof(why), "TOS %02x, TTL %d (hop limit %d), source port %x (%x)", p.tos, p.ttl, now.ah_attr.grh.hop_limit, p.sport, port);
	verdict(name, p.tos == traffic_class && p.ttl == now.ah_attr.grh.hop_limit && p.ttl && p.sport == port, false, why);
	none();
}

static void rules(int hundredths)
{
	delay(true);
	fence(true);
	fence(false);
	depth(1);
	depth(4);
	depth(16);
	delay(false);
	migrated();
	order();
	for (int timeout = 8; timeout <= 14; timeout++)
		ack_timeout(timeout, hundredths);
	ack_timeout(0, 0);
	for (int code = 0; code < 32; code++)
		for (int attempt = 0; attempt < 5 && !rnr_timer(code, attempt == 4); attempt++)
			;
	no_retry();
	strangers();
	addresses();
	address_in_request(A.gid_index, true);
	address_in_request(200, false);
	bad_response();
	bad_request("QP_REQ_ERR: the middle of no message", 0x01);
	bad_request("QP_REQ_ERR: the end of no message", 0x02);
	bad_request("QP_REQ_ERR: a reserved opcode", 0x15);
	bad_request("QP_REQ_ERR: the last reserved opcode", 0x1f);
	lost_middle();
	fields(0x12345, 0x28);
	fields(0xfedcb, 0x90);
}

/* P_Keys: entry 5 of A's table and entry 9 of B's
 * ---------------------------------------------------------------------------------------------------------------------- */

#define ENTRY_A 5
#define ENTRY_B 9

/* What the file says to a text: 0 or an errno. */
static int write_pkey(const struct side *side, const char *text)
{
	char path[96];
	int fd, error;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/set_pkey", side->device);
	fd = open(path, O_WRONLY);
	if (fd < 0)
		die("open set_pkey");
	error = write(fd, text, strlen(text)) < 0 ? errno : 0;
	close(fd);
	return error;
}

static void set_pkey(const struct side *side, int index, uint16_t pkey)
{
	char text[32];

	snprintf(text, sizeof(text), "%d 0x%04x\n", index, pkey);
	if (write_pkey(side, text))
		die("set a P_Key");
}

/* An entry in host byte order, -1 for none. */
static int pkey_at(const struct side *side, int index)
{
	uint16_t pkey;

	return ibv_query_pkey(side->context, 1, index, &pkey) ? -1 : ntohs(pkey);
}

static uint32_t violations(const struct side *side)
{
	struct ibv_port_attr attr;

	if (ibv_query_port(side->context, 1, &attr))
		die("ibv_query_port");
	return attr.bad_pkey_cntr;
}

/* As climb_to, with the P_Key at an index. */
static void climb_with(struct end *end, const struct side *from, const struct side *to, const struct setup *setup, uint32_t qpn, int index)
{
	use(from);
	gid = to->gid;
	for (int state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++) {
		struct ibv_qp_attr attr;
		int mask = step(state, setup, qpn, &attr);

		attr.pkey_index = index;
		attr.retry_cnt = 1;
		if (ibv_modify_qp(end->qp, &attr, mask))
			die("connect with a P_Key");
	}
	use(from);
}

static void both_with(const struct setup *setup)
{
	use(&A);
	end_init(&a, setup);
	use(&B);
	end_init(&b, setup);
	climb_with(&b, &B, &A, setup, a.qp->qp_num, ENTRY_B);
	climb_with(&a, &A, &B, setup, b.qp->qp_num, ENTRY_A);
}

/* A message of so many bytes from A to B, posted. The address handle of a datagram is to be destroyed. */
static struct ibv_ah *send_any(const struct setup *setup, uint32_t length)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(&a, &b, IBV_WR_SEND, &sge);
	struct ibv_ah *ah = NULL;
	struct ibv_ah_attr attr;

	sge.length = length;
	if (setup->type == IBV_QPT_UD) {
		use(&A);
		gid = B.gid;
		attr = address();
		wr.wr.ud.ah = ah = ibv_create_ah(A.pd, &attr);
		wr.wr.ud.remote_qpn = b.qp->qp_num;
		wr.wr.ud.remote_qkey = QKEY;
	}
	if (post(&a, &wr))
		die("post");
	return ah;
}

/* Whether a message arrives between holders of two keys; the keys in the packets, and what is counted. */
static bool whole;	/* packets are not cut, so that they cannot be seen */

static void membership(const struct setup *setup, const char *type, uint16_t key_a, uint16_t key_b, bool good)
{
	uint32_t before, counted;
	bool keys = true, arrived;
	struct ibv_ah *ah;
	struct packet p;
	int seen = 0;
	char name[80], why[120];

	set_pkey(&A, ENTRY_A, key_a);
	set_pkey(&B, ENTRY_B, key_b);
	both_with(setup);
	post_receive(&b, 1, 0, 65536);
	before = violations(&B);
	forget();
	/* Many packets in a buffer of the network, where there are any. */
	ah = send_any(setup, setup->type == IBV_QPT_UD ? 100 : 20000);
	arrived = !wait_wc(&b, good ? 3000 : 300).status;
	wait_wc(&a, 3000);
	usleep(50000);
	counted = violations(&B) - before;
	while (next_packet(&p))
		if (p.qpn == (p.out ? b.qp->qp_num : a.qp->qp_num)) {
			keys &= p.pkey == (p.out ? key_a : key_b);
			seen++;
		}
	snprintf(name, sizeof(name), "%s: P_Keys %04x and %04x: %s", type, key_a, key_b, good ? "taken" : "dropped and counted");
	snprintf(why, sizeof(why), "%s, %u counted, %d packets with %s keys", arrived ? "taken" : "dropped", counted, seen, keys ? "right" : "other");
	verdict(name, arrived == good && (good ? !counted : counted > 0) && keys && (seen || whole), false, why);
	if (ah)
		ibv_destroy_ah(ah);
	none();
}

/* The table: what a program sees of it, and what the file refuses. */
static void pkey_table(void)
{
	static const char *const bad[] = {
		"", "\n", " ", "1", "1 ", "1 8001", "1 0x", "1 0x10000", "1 0x8001 2", "64 0x8001", "65535 0x8001", "65536 0x8001", "-1 0x8001", "x 0x8001",
		"1  0x8001", "0x1 0x8001", "\xff\xfe 0x8001", "1\t0x8001",
	};
	struct ibv_port_attr attr;
	char why[80];
	int refused = 0;

	ibv_query_port(A.context, 1, &attr);
	snprintf(why, sizeof(why), "%d entries", attr.pkey_tbl_len);
	verdict("the table has 64 entries", attr.pkey_tbl_len == 64, false, why);
	snprintf(why, sizeof(why), "%x %x %x %x", pkey_at(&A, 0), pkey_at(&A, 1), pkey_at(&A, 63), pkey_at(&A, 64));
	verdict("the first is the default, the others are empty", pkey_at(&A, 0) == 0xffff && !pkey_at(&A, 1) && !pkey_at(&A, 63) &&
		pkey_at(&A, 64) == -1, false, why);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		refused += *bad[i] ? write_pkey(&A, bad[i]) == EINVAL : 1;
	snprintf(why, sizeof(why), "%d of %zu refused", refused, ARRAY_SIZE(bad));
	verdict("what is no entry is refused", refused == ARRAY_SIZE(bad) && !pkey_at(&A, 1), false, why);
	use(&A);
	while (wait_event(0) != -1)
		;
	set_pkey(&A, 63, 0x8077);
	verdict("PKEY_CHANGE is raised", event_comes(IBV_EVENT_PKEY_CHANGE, 2000), false, "no event");
	snprintf(why, sizeof(why), "%x, index %d", pkey_at(&A, 63), ibv_get_pkey_index(A.context, 1, htons(0x8077)));
	verdict("the entry is seen", pkey_at(&A, 63) == 0x8077 && ibv_get_pkey_index(A.context, 1, htons(0x8077)) == 63, false, why);
	set_pkey(&A, 63, 0x8077);
	verdict("the same again is no change", !event_comes(IBV_EVENT_PKEY_CHANGE, 300), false, "an event");
	set_pkey(&A, 63, 0);
}

/* An index beyond the table is refused. */
static void pkey_indices(const struct setup *setup, const char *type)
{
	static const struct { int index, error; } cases[] = { { 64, EINVAL }, { 65535, EINVAL }, { 63, 0 } };
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr, now;
	char name[64], why[64];

	use(&A);
	end_init(&a, setup);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int mask = step(IBV_QPS_INIT, setup, 0, &attr), error;

		attr.pkey_index = cases[i].index;
		error = ibv_modify_qp(a.qp, &attr, mask);
		snprintf(name, sizeof(name), "%s: P_Key index %d: errno %d", type, cases[i].index, cases[i].error);
		snprintf(why, sizeof(why), "%d", error);
		verdict(name, error == cases[i].error, false, why);
	}
	ibv_query_qp(a.qp, &now, IBV_QP_PKEY_INDEX, &init);
	verdict("query_qp tells it", now.pkey_index == 63, false, "another");
	end_destroy(&a);
}

/* A forged packet of another partition is dropped and counted; nothing else changes. */
static void pkey_forged(void)
{
	static const struct setup usual, ud = { .type = IBV_QPT_UD };
	static const uint16_t wrong[] = { 0xffff, 0x7fff, 0x8002, 0x0002, 0, 0x8000 };
	uint8_t nak[4] = { 0x62 }, datagram[8 + 16] = { QKEY >> 24, QKEY >> 16 & 0xff, QKEY >> 8 & 0xff, QKEY & 0xff };
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	uint32_t before;
	struct ibv_wc wc;
	char why[80];

	set_pkey(&A, ENTRY_A, 0x8001);
	set_pkey(&B, ENTRY_B, 0x8001);
	both_with(&usual);
	post_receive(&b, 1, 0, 64);
	use(&B);
	while (wait_event(0) != -1)
		;
	before = violations(&B);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		forged_pkey = wrong[i];
		forge(&A, "10.0.0.1", "10.0.0.2", 0x04, b.qp->qp_num, 0, "another partition", 16);
	}
	wc = wait_wc(&b, 500);
	ibv_query_qp(b.qp, &attr, IBV_QP_STATE | IBV_QP_RQ_PSN, &init);
	snprintf(why, sizeof(why), "status %d, %u counted, state %d, PSN %u", (int)wc.status, violations(&B) - before, attr.qp_state, attr.rq_psn);
	verdict("forged requests are dropped and counted", (int)wc.status == -1 && violations(&B) - before == ARRAY_SIZE(wrong) &&
		attr.qp_state == IBV_QPS_RTS && !attr.rq_psn && wait_event(0) == -1, false, why);
	forged_pkey = 0x0001;
	forge(&A, "10.0.0.1", "10.0.0.2", 0x04, b.qp->qp_num, 0, "a limited member", 16);
	wc = wait_wc(&b, 2000);
	verdict("the same of the partition is taken", !wc.status && wc.byte_len == 16, false, "dropped");
	none();

	/* A request waits for an answer; one of another partition is none. */
	use(&A);
	end_init(&a, &usual);
	climb_with(&a, &A, &B, &(struct setup){ .timeout = 20 }, NOBODY, ENTRY_A);
	b = a;
	before = violations(&A);
	ask(IBV_WR_RDMA_WRITE, 8, 0);
	usleep(5000);
	forged_pkey = 0xffff;
	forge(&B, "10.0.0.2", "10.0.0.1", 0x11, a.qp->qp_num, 0, nak, 4);
	wc = wait_wc(&a, 500);
	snprintf(why, sizeof(why), "status %d, %u counted", (int)wc.status, violations(&A) - before);
	verdict("a forged NAK is dropped and counted", (int)wc.status == -1 && violations(&A) - before == 1, false, why);
	forged_pkey = 0x8001;
	forge(&B, "10.0.0.2", "10.0.0.1", 0x11, a.qp->qp_num, 0, nak, 4);
	verdict("the same of the partition is taken", wait_wc(&a, 2000).status == IBV_WC_REM_ACCESS_ERR, false, "dropped");
	end_destroy(&a);

	both_with(&ud);
	post_receive(&b, 1, 0, 64);
	before = violations(&B);
	forged_pkey = 0xffff;
	forge(&A, "10.0.0.1", "10.0.0.2", 0x64, b.qp->qp_num, 0, datagram, sizeof(datagram));
	wc = wait_wc(&b, 500);
	verdict("a forged datagram is dropped and counted", (int)wc.status == -1 && violations(&B) - before == 1, false, "taken");
	none();

	/* QP1 takes the keys of all entries. */
	before = violations(&B);
	forged_pkey = 0x0001;
	forge(&A, "10.0.0.1", "10.0.0.2", 0x64, 1, 0, datagram, sizeof(datagram));
	forged_pkey = 0xffff;
	forge(&A, "10.0.0.1", "10.0.0.2", 0x64, 1, 0, datagram, sizeof(datagram));
	usleep(300000);
	verdict("QP1 takes packets of each partition of the table", violations(&B) == before, false, "counted");
	forged_pkey = 0x8055;
	forge(&A, "10.0.0.1", "10.0.0.2", 0x64, 1, 0, datagram, sizeof(datagram));
	usleep(300000);
	verdict("and of no other one", violations(&B) - before == 1, false, "taken");
	forged_pkey = 0xffff;
}

/* Entries that change while queue pairs use them. */
static void pkey_changes(void)
{
	static const struct setup uc = { .type = IBV_QPT_UC };
	static const struct { uint16_t a, b; bool good; } turns[] = {
		{ 0x8001, 0x8001, true }, { 0x8001, 0x8002, false }, { 0x8002, 0x8002, true }, { 2, 2, false }, { 2, 0x8002, true },
		{ 0, 0x8002, false }, { 0x8002, 0, false }, { 0x8001, 0x8001, true },
	};
	bool right = true;
	char why[80] = "";

	set_pkey(&A, ENTRY_A, 0x8001);
	set_pkey(&B, ENTRY_B, 0x8001);
	both_with(&uc);
	for (size_t i = 0; i < ARRAY_SIZE(turns) && right; i++) {
		uint32_t before = violations(&B);
		struct ibv_wc wc;

		set_pkey(&A, ENTRY_A, turns[i].a);
		set_pkey(&B, ENTRY_B, turns[i].b);
		post_receive(&b, i, 0, 4096);
		send_any(&uc, 100);
		wait_wc(&a, 2000);
		wc = wait_wc(&b, turns[i].good ? 2000 : 300);
		right = turns[i].good ? !wc.status : (int)wc.status == -1 && violations(&B) - before == 1;
		if (!right)
			snprintf(why, sizeof(why), "turn %zu: status %d, %u counted", i, (int)wc.status, violations(&B) - before);
	}
	verdict("an entry that changes counts from then on", right, false, why);
	none();
}

/* Between queue pairs of one device, whose messages take no packets. */
static void pkey_direct(enum ibv_qp_type type, const char *name)
{
	static const struct { uint16_t key_a, key_b; bool good; } cases[] = { { 0x8001, 1, true }, { 1, 1, false }, { 0x8001, 0x8002, false } };
	const struct setup setup = { .type = type };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint32_t before;
		struct ibv_wc wc;
		char what[80], why[80];

		set_pkey(&A, ENTRY_A, cases[i].key_a);
		set_pkey(&A, ENTRY_B, cases[i].key_b);
		use(&A);
		end_init(&a, &setup);
		end_init(&b, &setup);
		climb_with(&b, &A, &A, &setup, a.qp->qp_num, ENTRY_B);
		climb_with(&a, &A, &A, &setup, b.qp->qp_num, ENTRY_A);
		post_receive(&b, 1, 0, 65536);
		before = violations(&A);
		ask(IBV_WR_SEND, 20000, 0);
		wc = wait_wc(&b, cases[i].good ? 3000 : 300);
		wait_wc(&a, 3000);
		snprintf(what, sizeof(what), "%s on one device: P_Keys %04x and %04x", name, cases[i].key_a, cases[i].key_b);
		snprintf(why, sizeof(why), "status %d, %u counted", (int)wc.status, violations(&A) - before);
		verdict(what, cases[i].good ? !wc.status && violations(&A) == before : (int)wc.status == -1 && violations(&A) - before >= 20, false, why);
		none();
	}
	set_pkey(&A, ENTRY_B, 0);
}

static void pkeys(void)
{
	static const struct { enum ibv_qp_type type; const char *name; } types[] = {
		{ IBV_QPT_RC, "RC" }, { IBV_QPT_UC, "UC" }, { IBV_QPT_UD, "UD" },
	};
	static const struct { uint16_t a, b; bool good; } cases[] = {
		{ 0x7fff, 0xffff, true }, { 0xffff, 0x7fff, true }, { 0xffff, 0xffff, true }, { 0x7fff, 0x7fff, false }, { 0x8001, 0x0001, true },
		{ 0x0001, 0x0001, false }, { 0x8001, 0x8002, false }, { 0x8001, 0xffff, false }, { 0x8000, 0x8000, false },
	};

	whole = getenv("WHOLE");
	if (!whole)
		pkey_table();
	for (size_t t = 0; t < ARRAY_SIZE(types); t++) {
		const struct setup setup = { .type = types[t].type };

		if (!whole)
			pkey_indices(&setup, types[t].name);
		for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
			membership(&setup, types[t].name, cases[i].a, cases[i].b, cases[i].good);
	}
	if (whole)
		return;
	pkey_forged();
	pkey_changes();
	pkey_direct(IBV_QPT_RC, "RC");
	pkey_direct(IBV_QPT_UC, "UC");
}

/* Credits: what an acknowledge tells of the receives (IBTA 9.7.7.2), and what a sender makes of it
 * ---------------------------------------------------------------------------------------------------------------------- */

/* The code in the acknowledge of a message that takes one of so many receives. */
static void credit_code(int receives, int wanted)
{
	static const struct setup usual;
	char name[64], why[32];
	struct packet p;
	int code = -1;

	both(&usual);
	for (int i = 0; i < receives; i++)
		post_receive(&b, i, 65536, 64);
	forget();
	if (ask(IBV_WR_SEND, 8, 0) || wait_wc(&a, 3000).status)
		die("a message");
	while (next_packet(&p))
		if (!p.out && p.opcode == 0x11)
			code = p.body[0];
	snprintf(name, sizeof(name), "one of %d receives is taken: code %d", receives, wanted);
	snprintf(why, sizeof(why), "code %d", code);
	verdict(name, code == wanted, false, why);
	none();
}

/* Ten messages to a peer that has three receives: the last PSN that is sent until it has others; `good` of the messages arrive. */
static int sent_at_once(int *good)
{
	static const struct setup slow = { .min_rnr_timer = 23 };
	int furthest = 0;
	struct packet p;

	both(&slow);
	for (int i = 0; i < 4; i++)
		post_receive(&b, i, 65536, 64);
	if (ask(IBV_WR_SEND, 8, 0) || wait_wc(&a, 3000).status)
		die("a message");
	forget();
	for (int i = 0; i < 10; i++)
		if (ask(IBV_WR_SEND, 8, 0))
			die("post");
	usleep(15000);
	while (next_packet(&p))
		if (p.out && p.qpn == b.qp->qp_num && (int)p.psn > furthest)
			furthest = p.psn;
	for (int i = 0; i < 10; i++)
		post_receive(&b, i, 65536, 64);
	for (*good = 0; *good < 10 && !wait_wc(&a, 5000).status; ++*good)
		;
	none();
	return furthest;
}

/*
 * A peer that says so is sent three messages, and one more. Where it says nothing, all are sent, unless its answer that it is not ready
 * comes before the last ones are posted, as on a busy machine.
 */
static void credit_limit(bool told)
{
	int good, furthest, tries = told ? 1 : 5;
	char why[80];

	do
		furthest = sent_at_once(&good);
	while (good == 10 && furthest != 10 && --tries > 0);
	snprintf(why, sizeof(why), "the PSN %d was sent", furthest);
	verdict(told ? "a sender holds back what there are no receives for" : "a sender that is told nothing sends all",
		furthest == (told ? 4 : 10), false, why);
	snprintf(why, sizeof(why), "%d of 10", good);
	verdict("it goes on when there are others", good == 10, false, why);
}

/* Acknowledges that tell nonsense of a peer that has receives for all. */
static void credit_forged(void)
{
	static const struct { uint8_t code; uint32_t msn; } aeths[] = {
		{ 0, 0 }, { 0, 0xffffff }, { 0, 0x7fffff }, { 0, 0x800000 }, { 30, 0x800000 }, { 1, 1 }, { 0x1f, 0 }, { 0, 5 },
	};
	static const struct setup usual;
	int good = 0;
	char why[80];

	both(&usual);
	for (int i = 0; i < 60; i++)
		post_receive(&b, i, 65536, 64);
	for (int i = 0; i < 48; i++) {
		uint8_t body[4] = { aeths[i % 8].code, aeths[i % 8].msn >> 16, aeths[i % 8].msn >> 8, aeths[i % 8].msn };

		if (ask(IBV_WR_SEND, 8, 0))
			die("post");
		forge(&B, "10.0.0.2", "10.0.0.1", 0x11, a.qp->qp_num, i / 8 - 3, body, 4);
	}
	while (good < 48 && !wait_wc(&a, 5000).status)
		good++;
	snprintf(why, sizeof(why), "%d of 48", good);
	verdict("forged acknowledges stop nothing", good == 48, false, why);
	none();
}

static void credits(bool told)
{
	static const struct { int receives, code; } cases[] = { { 1, 0 }, { 2, 1 }, { 6, 4 }, { 7, 5 }, { 13, 7 }, { 63, 11 } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		credit_code(cases[i].receives, told ? cases[i].code : 31);
	credit_limit(told);
	credit_forged();
}

/* Path migration
 * ---------------------------------------------------------------------------------------------------------------------- */

#define APM (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE)
#define ALTERNATE_A "10.0.1.1"
#define ALTERNATE_B "10.0.1.2"

static const char *const path_states[] = { [IBV_MIG_MIGRATED] = "MIGRATED", [IBV_MIG_REARM] = "REARM", [IBV_MIG_ARMED] = "ARMED" };

/* Short timeouts: the retries of a path take less than a tenth of a second. */
static const struct setup quick = { .timeout = 8 };
static const struct setup quick_uc = { .type = IBV_QPT_UC };

/* An address as a GID, and where a device has it: the port and the index. */
static union ibv_gid gid_of(const char *address)
{
	union ibv_gid made = { .raw = { [10] = 0xff, [11] = 0xff } };

	inet_pton(AF_INET, address, made.raw + 12);
	return made;
}

static int gid_at(const struct side *side, const char *address, int *port)
{
	union ibv_gid wanted = gid_of(address);
	struct ibv_gid_entry entry;

	for (*port = 1; *port <= ports_of(side); ++*port)
		for (int i = 0; i < 16; i++)
			if (!ibv_query_gid_ex(side->context, *port, i, &entry, 0) && entry.gid_type == IBV_GID_TYPE_ROCE_V2 &&
			    !memcmp(&entry.gid, &wanted, sizeof(wanted)))
				return i;
	die("a GID of the alternate path");
	return -1;
}

/* Whether a path is from an address of a device. */
static bool is_from(const struct ibv_ah_attr *path, const struct side *side, const char *address)
{
	int port, index = gid_at(side, address, &port);

	return path->port_num == port && path->grh.sgid_index == index;
}

static struct ibv_qp_attr queried(struct end *end)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (ibv_query_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_TIMEOUT | APM, &init))
		die("query a queue pair");
	return attr;
}

static bool is_in(struct end *end, enum ibv_mig_state state) { return queried(end).path_mig_state == state; }

static int want(struct end *end, enum ibv_mig_state state)
{
	struct ibv_qp_attr attr = { .path_mig_state = state };

	return ibv_modify_qp(end->qp, &attr, IBV_QP_PATH_MIG_STATE);
}

/* The alternate path between two addresses. */
static struct ibv_qp_attr alternate(const struct side *side, const char *from, const char *to)
{
	struct ibv_qp_attr attr = { .alt_timeout = 14, .path_mig_state = IBV_MIG_REARM };
	int port, index = gid_at(side, from, &port);

	attr.alt_port_num = port;
	attr.alt_ah_attr = (struct ibv_ah_attr){
		.is_global = 1, .port_num = port, .grh = { .dgid = gid_of(to), .sgid_index = index, .hop_limit = 64 },
	};
	return attr;
}

static void rearm(struct end *end, const struct side *side, const char *from, const char *to)
{
	struct ibv_qp_attr attr = alternate(side, from, to);

	if (ibv_modify_qp(end->qp, &attr, APM))
		die("load an alternate path");
}

/* A message; both ends complete it. */
static bool message(struct end *from, struct end *to, uint32_t length)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(from, to, IBV_WR_SEND, &sge);

	sge.length = length;
	return !post_receive(to, 1, 65536, 65536) && !post(from, &wr) && !wait_wc(from, 5000).status && !wait_wc(to, 5000).status;
}

static bool messages(uint32_t length) { return message(&a, &b, length) && message(&b, &a, length); }

static bool tells(const struct side *side, enum ibv_event_type event, int ms)
{
	use(side);
	return event_comes(event, ms);
}

/* Both ends have loaded the alternate path and are armed. */
static void armed_of(const struct side *one, const struct side *other, const struct setup *setup, const char *from, const char *to)
{
	both_of(one, other, setup);
	rearm(&a, one, from, to);
	rearm(&b, other, to, from);
	if (!messages(8) || !is_in(&a, IBV_MIG_ARMED) || !is_in(&b, IBV_MIG_ARMED))
		die("arm a connection");
}

static void armed(const struct setup *setup) { armed_of(&A, &B, setup, ALTERNATE_A, ALTERNATE_B); }

/* What modify_qp takes and refuses, and what query_qp says. */
static void path_attributes(void)
{
	static const struct setup ud = { .type = IBV_QPT_UD };
	struct ibv_qp_attr attr, now;
	int errors[6];
	char why[120];

	both(&quick);
	errors[0] = want(&a, IBV_MIG_REARM);
	errors[1] = want(&a, IBV_MIG_ARMED);
	verdict("without an alternate path: MIGRATED, neither REARM nor ARMED",
		is_in(&a, IBV_MIG_MIGRATED) && errors[0] == EINVAL && errors[1] == EINVAL, false, "other errors");
	for (int i = 0; i < 5; i++) {
		attr = alternate(&A, ALTERNATE_A, ALTERNATE_B);
		if (i == 0)
			attr.alt_port_num = attr.alt_ah_attr.port_num = ports_of(&A) + 1;
		else if (i == 1)
			attr.alt_timeout = 32;
		else if (i == 2)
			attr.alt_pkey_index = 64;
		else if (i == 3)
			attr.alt_ah_attr.grh.sgid_index = 200;
		else
			attr.alt_ah_attr.is_global = 0;
		errors[i] = ibv_modify_qp(a.qp, &attr, APM);
	}
	snprintf(why, sizeof(why), "port %d, timeout %d, P_Key %d, GID %d, no GRH %d", errors[0], errors[1], errors[2], errors[3], errors[4]);
	verdict("wrong attributes of an alternate path are EINVAL and change nothing",
		errors[0] == EINVAL && errors[1] == EINVAL && errors[2] == EINVAL && errors[3] && errors[4] == EINVAL &&
		is_in(&a, IBV_MIG_MIGRATED) && want(&a, IBV_MIG_REARM) == EINVAL, false, why);
	attr = alternate(&A, ALTERNATE_A, ALTERNATE_B);
	errors[0] = ibv_modify_qp(a.qp, &attr, IBV_QP_ALT_PATH);
	now = queried(&a);
	verdict("an alternate path is loaded, and can be queried", !errors[0] && now.path_mig_state == IBV_MIG_MIGRATED && now.alt_timeout == 14 &&
		now.alt_port_num == attr.alt_port_num && now.alt_ah_attr.grh.sgid_index == attr.alt_ah_attr.grh.sgid_index &&
		!memcmp(&now.alt_ah_attr.grh.dgid, &attr.alt_ah_attr.grh.dgid, 16) && now.ah_attr.grh.sgid_index == A.gid_index, false, "not as set");
	errors[0] = want(&a, IBV_MIG_REARM);
	errors[1] = want(&a, IBV_MIG_MIGRATED);
	errors[2] = want(&a, IBV_MIG_REARM);
	verdict("then REARM, from where only the peer leads on", !errors[0] && errors[1] == EINVAL && !errors[2] && is_in(&a, IBV_MIG_REARM), false,
		path_states[queried(&a).path_mig_state]);
	none();
	both(&ud);
	attr = alternate(&A, ALTERNATE_A, ALTERNATE_B);
	verdict("a datagram queue pair has no alternate path", ibv_modify_qp(a.qp, &attr, APM) == EINVAL, false, "it has");
	none();
}

/* The M bit of what was seen from an address since the last look: how often it was set, of how many packets. */
static void bits(const char *source, int *set, int *count)
{
	uint32_t from;
	struct packet p;

	inet_pton(AF_INET, source, &from);
	*set = *count = 0;
	usleep(20000);
	while (next_packet(&p)) {
		if (p.source != ntohl(from))
			continue;
		*set += p.flags >> 6 & 1;
		++*count;
	}
}

/* REARM of one end is not enough; that of both is, and M tells. */
static void arming(void)
{
	int set, count;
	char why[80];

	both(&quick);
	rearm(&a, &A, ALTERNATE_A, ALTERNATE_B);
	forget();
	verdict("one end alone stays in REARM", messages(8) && is_in(&a, IBV_MIG_REARM) && is_in(&b, IBV_MIG_MIGRATED), false, "it does not");
	bits("10.0.0.1", &set, &count);
	snprintf(why, sizeof(why), "in %d of %d packets", set, count);
	verdict("its packets have M clear", count >= 2 && !set, false, why);
	rearm(&b, &B, ALTERNATE_B, ALTERNATE_A);
	forget();
	verdict("both ends become ARMED", messages(8) && is_in(&a, IBV_MIG_ARMED) && is_in(&b, IBV_MIG_ARMED), false,
		path_states[queried(&a).path_mig_state]);
	bits("10.0.0.2", &set, &count);
	snprintf(why, sizeof(why), "in %d of %d packets", set, count);
	verdict("the other end's packets have M clear too", count >= 2 && !set, false, why);
	verdict("an armed end is not armed again", want(&a, IBV_MIG_REARM) == EINVAL && is_in(&a, IBV_MIG_ARMED), false, "it is");
	use(&A);
	verdict("no event so far", wait_event(0) == -1 && tells(&B, IBV_EVENT_PATH_MIG, 0) == false, false, "one");
	none();
}

/* A program asks to migrate, and the peer follows. */
static void manual(const struct setup *setup, const char *type)
{
	struct ibv_qp_attr now;
	int set, count, error;
	char name[80], why[80];

	armed(setup);
	error = want(&a, IBV_MIG_MIGRATED);
	snprintf(name, sizeof(name), "%s: a program asks to migrate, and is told when that is done", type);
	verdict(name, !error && tells(&A, IBV_EVENT_PATH_MIG, 1000) && is_in(&a, IBV_MIG_MIGRATED), false, "no event");
	forget();
	snprintf(name, sizeof(name), "%s: messages go on, of one packet and of many", type);
	verdict(name, messages(100) && messages(60000), false, "they do not");
	snprintf(name, sizeof(name), "%s: the peer has followed", type);
	verdict(name, tells(&B, IBV_EVENT_PATH_MIG, 1000) && is_in(&b, IBV_MIG_MIGRATED), false, "no event");
	bits(ALTERNATE_A, &set, &count);
	snprintf(name, sizeof(name), "%s: packets take the alternate path, with M set", type);
	snprintf(why, sizeof(why), "in %d of %d packets", set, count);
	verdict(name, count >= 1 && set == count, false, why);
	now = queried(&b);
	snprintf(name, sizeof(name), "%s: the alternate path is the primary one", type);
	verdict(name, is_from(&now.ah_attr, &B, ALTERNATE_B) && now.port_num == now.ah_attr.port_num && (setup->type == IBV_QPT_UC || now.timeout == 14),
		false, "it is not");
	none();
}

/* Back to the first path, which is loaded as the alternate one. */
static void back(void)
{
	struct ibv_qp_attr now;
	bool good;

	armed(&quick);
	if (want(&a, IBV_MIG_MIGRATED) || !messages(8))
		die("migrate");
	rearm(&a, &A, "10.0.0.1", "10.0.0.2");
	rearm(&b, &B, "10.0.0.2", "10.0.0.1");
	verdict("both ends are armed again", messages(8) && is_in(&a, IBV_MIG_ARMED) && is_in(&b, IBV_MIG_ARMED), false, "they are not");
	good = !want(&b, IBV_MIG_MIGRATED) && message(&b, &a, 8) && messages(8);
	now = queried(&a);
	verdict("and migrate back", good && is_from(&now.ah_attr, &A, "10.0.0.1"), false, "they do not");
	none();
	while (tells(&A, IBV_EVENT_PATH_MIG, 0) || tells(&B, IBV_EVENT_PATH_MIG, 0))
		;
}

/* Whether packets for a primary address get to another host than they should. */
static void lose(bool on)
{
	static const char *const commands[2][2] = {
		{ "ip netns exec A ip neigh del 10.0.0.2 dev vethA", "ip netns exec B ip neigh del 10.0.0.1 dev vethB" },
		{ "ip netns exec A ip neigh replace 10.0.0.2 lladdr 02:00:00:de:ad:01 dev vethA nud permanent",
		  "ip netns exec B ip neigh replace 10.0.0.1 lladdr 02:00:00:de:ad:02 dev vethB nud permanent" },
	};

	if (system(commands[on][0]) || system(commands[on][1]))
		die("change neighbours");
}

/* The primary path fails while requests are under way. */
static void automatic(void)
{
	struct ibv_sge sge[3];
	struct ibv_send_wr read;
	bool good = true;

	armed(&quick);
	memset(b.buffer, 5, 1000);
	lose(true);
	post_receive(&b, 1, 65536, 65536);
	for (int i = 0; i < 2; i++) {
		struct ibv_send_wr wr = request(&a, &b, i ? IBV_WR_RDMA_WRITE : IBV_WR_SEND, &sge[i]);

		sge[i].length = 60000;
		sge[i].addr += 65536;
		wr.wr.rdma.remote_addr += 131072;
		good &= !post(&a, &wr);
	}
	read = request(&a, &b, IBV_WR_RDMA_READ, &sge[2]);
	sge[2].length = 1000;
	good &= !post(&a, &read);
	for (int i = 0; i < 3; i++)
		good &= !wait_wc(&a, 5000).status;
	verdict("a path fails: requests go on by the alternate one", good && !wait_wc(&b, 1000).status && a.buffer[999] == 5, false, "they do not");
	verdict("both ends say that they have migrated", tells(&A, IBV_EVENT_PATH_MIG, 1000) && tells(&B, IBV_EVENT_PATH_MIG, 1000) &&
		is_in(&a, IBV_MIG_MIGRATED) && is_in(&b, IBV_MIG_MIGRATED), false, "no event");
	verdict("messages of both ends", messages(8) && messages(60000), false, "do not go on");
	none();

	both(&quick);
	post_receive(&b, 1, 65536, 65536);
	verdict("without an alternate path the request fails",
		!ask(IBV_WR_SEND, 8, 0) && wait_wc(&a, 5000).status == IBV_WC_RETRY_EXC_ERR, false, "another status");
	none();
	lose(false);
}

/* The ends do not have the same alternate path. */
static void inconsistent(void)
{
	struct ibv_qp_attr other = alternate(&B, ALTERNATE_B, "10.0.1.9");

	armed(&quick);
	if (ibv_modify_qp(b.qp, &other, IBV_QP_ALT_PATH))
		die("load another path");
	if (want(&a, IBV_MIG_MIGRATED))
		die("migrate");
	post_receive(&b, 1, 65536, 65536);
	verdict("a path that the peer does not know leads nowhere",
		!ask(IBV_WR_SEND, 8, 0) && wait_wc(&a, 5000).status == IBV_WC_RETRY_EXC_ERR, false, "it does");
	verdict("the peer is told of it, once", tells(&B, IBV_EVENT_PATH_MIG_ERR, 1000) && !tells(&B, IBV_EVENT_PATH_MIG_ERR, 200) &&
		is_in(&b, IBV_MIG_ARMED), false, "it is not");
	none();
	tells(&A, IBV_EVENT_PATH_MIG, 0);
}

/* Packets of nobody with M set and clear. */
static void forged_bits(void)
{
	bool taken = true;
	int i;

	both(&quick);
	for (i = 0; i < 20; i++) {
		post_receive(&b, i, 0, 64);
		forged_flags = i & 1 ? 0x40 : 0;
		forge(&A, "10.0.0.1", "10.0.0.2", 0x04, b.qp->qp_num, i, "any M bit is fine", 16);
		taken &= !wait_wc(&b, 2000).status;
		forge(&A, ALTERNATE_A, ALTERNATE_B, 0x04, b.qp->qp_num, i + 1, "but not from here", 16);
	}
	forged_flags = 0x40;
	post_receive(&b, i, 0, 64);
	verdict("without an alternate path M means nothing", taken && (int)wait_wc(&b, 100).status == -1 && is_in(&b, IBV_MIG_MIGRATED) &&
		!tells(&B, IBV_EVENT_PATH_MIG_ERR, 0), false, "it does");
	none();

	armed(&quick);
	post_receive(&b, 1, 0, 64);
	for (i = 0; i < 50; i++) {
		forge(&A, "10.0.0.9", "10.0.0.2", 0x04, b.qp->qp_num, 1, "a stranger's path", 16);
		forge(&A, "10.0.0.1", "10.0.0.2", 0x04, b.qp->qp_num, 1, "the present path", 16);
	}
	forged_flags = 0;
	forge(&A, ALTERNATE_A, ALTERNATE_B, 0x04, b.qp->qp_num, 1, "too early here", 16);
	forged_flags = 0x40;
	verdict("an armed connection refuses other paths", (int)wait_wc(&b, 100).status == -1 && is_in(&b, IBV_MIG_ARMED), false, "it does not");
	verdict("of which its program is told once", tells(&B, IBV_EVENT_PATH_MIG_ERR, 1000) && !tells(&B, IBV_EVENT_PATH_MIG_ERR, 100), false, "it is not");
	none();
}

/* Both ends on one device, between which messages are copied. */
static void on_one_device(void)
{
	use(&A);
	pair_init(&a, &b, &quick);
	rearm(&a, &A, ALTERNATE_A, ALTERNATE_A);
	rearm(&b, &A, ALTERNATE_A, ALTERNATE_A);
	verdict("on one device: both ends become ARMED", messages(8) && is_in(&a, IBV_MIG_ARMED) && is_in(&b, IBV_MIG_ARMED), false, "they do not");
	verdict("and migrate", !want(&a, IBV_MIG_MIGRATED) && messages(8) && messages(60000) && is_in(&b, IBV_MIG_MIGRATED), false, "they do not");
	verdict("which both are told", tells(&A, IBV_EVENT_PATH_MIG, 1000) && tells(&A, IBV_EVENT_PATH_MIG, 1000), false, "they are not");
	none();
}

static void migration(void)
{
	path_attributes();
	arming();
	manual(&quick, "RC");
	manual(&quick_uc, "UC");
	back();
	automatic();
	inconsistent();
	forged_bits();
	on_one_device();
}

/* Two ports: the second ones have the alternate addresses, on the devices vethA2 and vethB2
 * ---------------------------------------------------------------------------------------------------------------------- */

static struct side A2, B2;

static struct side at_address(const struct side *side, const char *address)
{
	struct side other = *side;

	other.gid = gid_of(address);
	other.gid_index = gid_at(side, address, &other.port);
	return other;
}

static long sent_by(int port)
{
	char command[100], text[4096] = "", *at;
	FILE *said;

	snprintf(command, sizeof(command), "rdma statistic show link %s/%d", A.device, port);
	said = popen(command, "r");
	if (!said || !fread(text, 1, sizeof(text) - 1, said) || !(at = strstr(text, "sent_pkts ")))
		die("read a counter");
	pclose(said);
	return atol(at + strlen("sent_pkts "));
}

/* An event of a port, among others. */
static bool port_tells(const struct side *side, enum ibv_event_type wanted, int port, int ms)
{
	struct pollfd fd = { .fd = side->context->async_fd, .events = POLLIN };
	long until = now_ms() + ms;
	bool found = false;

	while (!found && now_ms() < until) {
		struct ibv_async_event event;

		if (poll(&fd, 1, until - now_ms()) != 1 || ibv_get_async_event(side->context, &event))
			break;
		found = event.event_type == wanted && event.element.port_num == port;
		ibv_ack_async_event(&event);
	}
	return found;
}

static enum ibv_port_state state_of(const struct side *side, int port)
{
	struct ibv_port_attr attr;

	if (ibv_query_port(side->context, port, &attr))
		die("query a port");
	return attr.state;
}

static void run(const char *command)
{
	if (system(command))
		die(command);
}

/* A forged packet leaves by a network device. */
static void forge_by(const char *netdev, const char *source, const char *target, uint8_t opcode, uint32_t psn, const void *body, size_t length)
{
	if (setsockopt(A.raw, SOL_SOCKET, SO_BINDTODEVICE, netdev, strlen(netdev) + 1))
		die("bind to a network device");
	forge(&A, source, target, opcode, b.qp->qp_num, psn, body, length);
	if (setsockopt(A.raw, SOL_SOCKET, SO_BINDTODEVICE, "", 1))
		die("bind to none");
}

static void second_port(void)
{
	long first = sent_by(1), second = sent_by(2);
	bool taken;

	both_of(&A2, &B2, &quick);
	verdict("a connection of the second ports: messages both ways", messages(8) && messages(60000), false, "they do not go on");
	verdict("it is the second port's", queried(&a).port_num == 2 && queried(&a).ah_attr.port_num == 2, false, "it is not");
	verdict("which its packets are counted for", sent_by(2) >= second + 60 && sent_by(1) == first, false, "they are not");
	none();
	both_of(&A2, &B2, &quick);
	post_receive(&b, 1, 0, 64);
	forge_by("vethA", ALTERNATE_A, ALTERNATE_B, 0x04, 0, "by another port", 16);
	taken = (int)wait_wc(&b, 200).status != -1;
	forge_by("vethA2", ALTERNATE_A, ALTERNATE_B, 0x04, 0, "by its own port", 16);
	verdict("it takes packets of its own port alone", !taken && !wait_wc(&b, 2000).status && !strcmp(b.buffer, "by its own port"), false,
		taken ? "of another one, too" : "of none");
	none();
}

static int send_datagram(const struct side *from, const struct side *to)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(&a, &b, IBV_WR_SEND, &sge);
	struct ibv_ah_attr attr;
	int status;

	use(from);
	gid = to->gid;
	attr = address();
	sge.length = 100;
	wr.wr.ud.ah = ibv_create_ah(A.pd, &attr);
	wr.wr.ud.remote_qpn = b.qp->qp_num;
	wr.wr.ud.remote_qkey = QKEY;
	if (!wr.wr.ud.ah || post(&a, &wr))
		die("datagram");
	status = wait_wc(&a, 3000).status;
	ibv_destroy_ah(wr.wr.ud.ah);
	return status;
}

static void second_port_datagrams(void)
{
	static const struct setup ud = { .type = IBV_QPT_UD };
	uint8_t body[8 + 16] = { QKEY >> 24, QKEY >> 16 & 0xff, QKEY >> 8 & 0xff, QKEY & 0xff, 0, 0, 0, 99 };
	bool taken;

	both_of(&A2, &B2, &ud);
	for (int i = 0; i < 4; i++)
		post_receive(&b, i, 0, 4096);
	verdict("datagrams of the second ports", !send_datagram(&A2, &B2) && !wait_wc(&b, 3000).status, false, "do not arrive");
	verdict("an address handle of another port is refused", send_datagram(&A, &B) == IBV_WC_LOC_QP_OP_ERR, false, "it is not");
	forge_by("vethA", ALTERNATE_A, ALTERNATE_B, 0x64, 0, body, sizeof(body));
	forge_by("vethA", "10.0.0.1", "10.0.0.2", 0x64, 0, body, sizeof(body));
	taken = (int)wait_wc(&b, 200).status != -1;
	forge_by("vethA2", ALTERNATE_A, ALTERNATE_B, 0x64, 0, body, sizeof(body));
	verdict("and packets of its own port alone are taken", !taken && !wait_wc(&b, 2000).status, false, taken ? "of another one, too" : "of none");
	none();
}

/* Whether a network device of A listens for an Ethernet address. */
static bool listens(const char *netdev, const char *mac)
{
	char line[200], name[32], address[64];
	FILE *file = fopen("/proc/net/dev_mcast", "r");
	bool found = false;

	while (file && fgets(line, sizeof(line), file))
		found |= sscanf(line, "%*d %31s %*d %*d %63s", name, address) == 2 && !strcmp(name, netdev) && !strcmp(address, mac);
	if (file)
		fclose(file);
	return found;
}

static void second_port_group(void)
{
	static const struct setup ud = { .type = IBV_QPT_UD };
	union ibv_gid group = gid_of("239.1.2.77");
	bool joined, left;

	both_of(&A2, &B2, &ud);
	joined = !ibv_attach_mcast(a.qp, &group, 0) && listens("vethA2", "01005e01024d") && !listens("vethA", "01005e01024d");
	left = !ibv_detach_mcast(a.qp, &group, 0) && !listens("vethA2", "01005e01024d");
	verdict("a multicast group of the second port is its net device's", joined && left, false, joined ? "it is not left" : "it is another's");
	none();
}

/* A connection that its program moves to other ports while its send queue is drained. */
static int to_port(struct end *end, const struct side *from, const struct side *to, int port, int mask)
{
	struct ibv_qp_attr attr = { .port_num = port };

	use(from);
	gid = to->gid;
	attr.ah_attr = address();
	use(from);
	return ibv_modify_qp(end->qp, &attr, mask);
}

static void moved_while_drained(void)
{
	int errors[3];
	bool good;

	both(&quick);
	good = messages(8) && !move(a.qp, IBV_QPS_SQD) && !move(b.qp, IBV_QPS_SQD);
	errors[0] = to_port(&a, &A2, &B2, 3, IBV_QP_AV | IBV_QP_PORT);
	errors[1] = to_port(&a, &A2, &B2, 1, IBV_QP_AV | IBV_QP_PORT);
	errors[2] = to_port(&a, &A2, &B2, 2, IBV_QP_PORT);
	verdict("SQD: a path of another port than the queue pair's is EINVAL",
		errors[0] == EINVAL && errors[1] == EINVAL && errors[2] == EINVAL && queried(&a).port_num == 1, false, "it is not");
	good &= !to_port(&a, &A2, &B2, 2, IBV_QP_AV | IBV_QP_PORT) && !to_port(&b, &B2, &A2, 2, IBV_QP_AV);
	good &= !move(a.qp, IBV_QPS_RTS) && !move(b.qp, IBV_QPS_RTS);
	forget();
	verdict("SQD: a connection changes its ports", good && messages(8) && messages(60000) && queried(&a).port_num == 2 && queried(&b).port_num == 2,
		false, "it does not");
	none();
}

/* The second entry of the second ports' P_Key tables is 0x8005. */
static void alternate_attributes(void)
{
	struct ibv_qp_attr to_b, to_a, loaded, taken;
	int count = 0, right = 0;
	struct packet p;
	uint32_t from;
	char why[80];

	both(&quick);
	to_b = alternate(&A, ALTERNATE_A, ALTERNATE_B);
	to_a = alternate(&B, ALTERNATE_B, ALTERNATE_A);
	to_a.alt_pkey_index = to_b.alt_pkey_index = 1;
	if (ibv_modify_qp(a.qp, &to_b, APM) || ibv_modify_qp(b.qp, &to_a, APM) || !messages(8))
		die("load an alternate path");
	loaded = queried(&a);
	verdict("an alternate path has a port, a P_Key and a timeout", loaded.alt_port_num == 2 && loaded.alt_pkey_index == 1 && loaded.alt_timeout == 14 &&
		loaded.port_num == 1 && loaded.pkey_index == 0 && loaded.timeout == 8, false, "not as set");
	forget();
	if (want(&a, IBV_MIG_MIGRATED) || !messages(8))
		die("migrate");
	taken = queried(&a);
	inet_pton(AF_INET, ALTERNATE_A, &from);
	usleep(20000);
	while (next_packet(&p)) {
		count += p.source == ntohl(from);
		right += p.source == ntohl(from) && p.pkey == 0x8005;
	}
	snprintf(why, sizeof(why), "port %d, P_Key %d, in %d of %d packets", taken.port_num, taken.pkey_index, right, count);
	verdict("after a migration they are the path's", taken.port_num == 2 && taken.pkey_index == 1 && taken.timeout == 14 && count && right == count,
		false, why);
	none();
	while (tells(&A, IBV_EVENT_PATH_MIG, 0) || tells(&B, IBV_EVENT_PATH_MIG, 0))
		;
}

/* The cable of the first ports is pulled out. */
static void carrier_lost(void)
{
	armed(&quick);
	while (wait_event(0) != -1)
		;
	run("ip netns exec B ip link set vethB down");
	verdict("without a carrier the first port tells that it is down", port_tells(&A, IBV_EVENT_PORT_ERR, 1, 5000) &&
		state_of(&A, 1) == IBV_PORT_DOWN && state_of(&A, 2) == IBV_PORT_ACTIVE, false, "it does not");
	verdict("messages go on by the second ports", messages(60000), false, "they do not");
	verdict("both ends say so", tells(&A, IBV_EVENT_PATH_MIG, 1000) && tells(&B, IBV_EVENT_PATH_MIG, 1000) &&
		queried(&a).port_num == 2 && queried(&b).port_num == 2, false, "they do not");
	run("ip netns exec B ip link set vethB up");
	verdict("the first port tells that it is up again", port_tells(&A, IBV_EVENT_PORT_ACTIVE, 1, 5000), false, "it does not");
	none();
}

/* The network device of the second port goes, with the other end of its cable. */
static void unplugged(void)
{
	struct ibv_port_attr attr = {};

	armed_of(&A2, &B2, &quick, "10.0.0.1", "10.0.0.2");
	run("ip netns exec A ip link del vethA2");
	verdict("without its network device the second port tells that it is down", port_tells(&A, IBV_EVENT_PORT_ERR, 2, 5000) &&
		!ibv_query_port(A.context, 2, &attr) && attr.state == IBV_PORT_DOWN && state_of(&B, 2) == IBV_PORT_DOWN &&
		state_of(&A, 1) == IBV_PORT_ACTIVE, false, "it does not");
	verdict("messages go on by the first ports", messages(60000) && queried(&a).port_num == 1 && tells(&B, IBV_EVENT_PATH_MIG, 1000), false,
		"they do not");
	none();
	use(&A2);
	end_init(&a, &quick);
	verdict("a connection over it is made no more", climb(a.qp, IBV_QPS_RTS, &quick, 1), false, "it is");
	end_destroy(&a);
}

static void two_ports(void)
{
	A2 = at_address(&A, ALTERNATE_A);
	B2 = at_address(&B, ALTERNATE_B);
	second_port();
	second_port_datagrams();
	second_port_group();
	moved_while_drained();
	alternate_attributes();
	carrier_lost();
	unplugged();
}

int main(int argc, char **argv)
{
	if (argc < 6)
		die("usage: headers|rules|pkeys|credits|migration|ports DEVICE_A GID_INDEX_A DEVICE_B GID_INDEX_B [HUNDREDTHS]");
	A = side_open(argv[2], argv[3], "A");
	B = side_open(argv[4], argv[5], "B");
	watch_open();
	if (!strcmp(argv[1], "headers")) {
		headers();
		return 0;
	}
	if (!strcmp(argv[1], "pkeys"))
		pkeys();
	else if (!strcmp(argv[1], "credits"))
		credits(argc > 6);
	else if (!strcmp(argv[1], "migration"))
		migration();
	else if (!strcmp(argv[1], "ports"))
		two_ports();
	else
		rules(argc > 6 ? atoi(argv[6]) : 270);
	return all_done();
}
