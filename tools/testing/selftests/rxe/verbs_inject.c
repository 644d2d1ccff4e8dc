// SPDX-License-Identifier: GPL-2.0
/*
 * Faults that are injected into send requests: each status, which requests fail, and what becomes of those behind them.
 *
 *   verbs_inject DEVICE GID_INDEX PEER_DEVICE PEER_GID_INDEX
 *
 * The devices, which may be the same one, have the file fault_inject.
 */
#include <fcntl.h>
#include <stdarg.h>
#include "verbs.h"

#define MOST 32			/* requests that are posted together */
#define SHORT 16
#define LONG 100000
#define LAST_STATUS IBV_WC_GENERAL_ERR	/* of the kernel's enum ib_wc_status */

static struct side {
	const char *name;
	struct ibv_context *context;
	struct ibv_pd *pd;
	union ibv_gid gid;
	int gid_index;
} own, peer;

/* Two connected queue pairs (A's device is the own one, B's the peer's), and two others. */
static struct end a, b, c, d;
static struct ibv_ah *ah;	/* B's address */
static enum ibv_qp_type type;

/* Queue pairs
 * ---------------------------------------------------------------------------------------------------------------------- */

static void use(const struct side *from, const struct side *to)
{
	context = from->context;
	pd = from->pd;
	gid_index = from->gid_index;
	gid = to->gid;
}

static void climb_both(struct end *x, struct end *y)
{
	struct setup setup = { .type = type, .access = 1 + ACCESS_ALL };

	use(&peer, &own);
	if (climb(y->qp, IBV_QPS_RTS, &setup, x->qp->qp_num))
		die("connect the peer");
	use(&own, &peer);
	if (climb(x->qp, IBV_QPS_RTS, &setup, y->qp->qp_num))
		die("connect");
}

static void connect_two(struct end *x, struct end *y)
{
	struct setup setup = { .type = type, .access = 1 + ACCESS_ALL };

	if (x->qp) {
		end_destroy(x);
		end_destroy(y);
	}
	use(&peer, &own);
	end_init(y, &setup);
	use(&own, &peer);
	end_init(x, &setup);
	climb_both(x, y);
}

static void connect_anew(void)
{
	connect_two(&a, &b);
}

/* The same queue pairs, with their numbers, from RESET. */
static void connect_again(void)
{
	if (move(a.qp, IBV_QPS_RESET) || move(b.qp, IBV_QPS_RESET))
		die("reset");
	climb_both(&a, &b);
}

/* Requests and faults
 * ---------------------------------------------------------------------------------------------------------------------- */

/* Posts a list of SENDs, numbered from 0, and as many receives at the other end. */
static void post_sends(struct end *from, struct end *to, int count, uint32_t length)
{
	struct ibv_send_wr wrs[MOST];
	struct ibv_sge sges[MOST];

	for (int i = 0; i < count; i++) {
		wrs[i] = request(from, to, IBV_WR_SEND, &sges[i]);
		sges[i].length = length;
		wrs[i].wr_id = i;
		wrs[i].next = i + 1 < count ? &wrs[i + 1] : NULL;
		if (type == IBV_QPT_UD) {
			wrs[i].wr.ud.ah = ah;
			wrs[i].wr.ud.remote_qpn = to->qp->qp_num;
			wrs[i].wr.ud.remote_qkey = QKEY;
		}
		if (post_receive(to, i, 0, length + 40))
			die("post a receive");
	}
	if (post(from, wrs))
		die("post");
}

/* Writes a text to the device's file; an errno value. */
static int put(const struct side *side, const char *text)
{
	char path[100];
	int file, error = 0;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/fault_inject", side->name);
	file = open(path, O_WRONLY);
	if (file < 0)
		die("open the file fault_inject");
	if (write(file, text, strlen(text)) < 0)
		error = errno;
	close(file);
	return error;
}

__attribute__((format(printf, 1, 2))) static void arm(const char *format, ...)
{
	char text[100];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (put(&own, text))
		die(text);
}

/* The statuses of so many completions of requests from 0 on, in their order; "?" where something else is wrong. */
static const char *statuses(struct end *end, int count)
{
	static char text[400];
	struct ibv_wc wc;

	*text = 0;
	for (int i = 0; i < count; i++) {
		wc = wait_wc(end, 3000);
		sprintf(text + strlen(text), "%s%d", i ? " " : "", (int)wc.status);
		if ((int)wc.wr_id != i || wc.qp_num != end->qp->qp_num || wc.vendor_err)
			strcat(text, "?");
	}
	if (ibv_poll_cq(end->cq, 1, &wc))
		strcat(text, " and more");
	return text;
}

static void text_is(const char *name, const char *wanted, const char *got)
{
	char why[1000];

	snprintf(why, sizeof(why), "wanted %s, got %s", wanted, got);
	verdict(name, !strcmp(wanted, got), false, why);
}

/* Posts as many SENDs as there are statuses, which they are to have. */
static void sends_end(const char *name, const char *wanted, struct end *from, struct end *to, uint32_t length)
{
	int count = 1;

	for (const char *at = wanted; (at = strchr(at, ' ')); at++)
		count++;
	post_sends(from, to, count, length);
	text_is(name, wanted, statuses(from, count));
}

/* How many messages arrive; one that is wanted has more time. */
static int arrived(struct end *end, int wanted)
{
	int count = 0;

	while (wait_wc(end, count < wanted ? 1000 : 30).status == IBV_WC_SUCCESS)
		count++;
	return count;
}

/* What is tested
 * ---------------------------------------------------------------------------------------------------------------------- */

static const char *type_name(void)
{
	return type == IBV_QPT_RC ? "RC" : type == IBV_QPT_UC ? "UC" : "UD";
}

/* The second of three requests fails, signaled or not. */
static void each_status(enum ibv_qp_type of_type)
{
	enum ibv_qp_state after = of_type == IBV_QPT_RC ? IBV_QPS_ERR : IBV_QPS_SQE;
	char name[100], wanted[40], got[500];

	type = of_type;
	connect_anew();
	for (int status = 1; status <= LAST_STATUS; status++) {
		connect_again();
		arm("status=%d qpn=%u skip=1", status, a.qp->qp_num);
		post_sends(&a, &b, 3, SHORT);
		snprintf(wanted, sizeof(wanted), "0 %d 5, state %d, 1 arrives", status, after);
		snprintf(got, sizeof(got), "%s, state %d, ", statuses(&a, 3), qp_state_of(a.qp));
		sprintf(got + strlen(got), "%d arrives", arrived(&b, 1));
		snprintf(name, sizeof(name), "%s: %s", type_name(), ibv_wc_status_str(status));
		text_is(name, wanted, got);
	}
	number_is("the peer's queue pair is as before", IBV_QPS_RTS, qp_state_of(b.qp));
	number_is("no event tells of it", -1, wait_event(100));
	if (of_type == IBV_QPT_RC)
		return;
	number_is("back to RTS", 0, move(a.qp, IBV_QPS_RTS));
	sends_end("requests succeed again", "0 0", &a, &b, SHORT);
}

/* No operation of a request that fails is executed. */
static void operations(void)
{
	static const struct {
		const char *name;
		enum ibv_wr_opcode opcode;
		unsigned int flags;
	} list[] = {
		{ "SEND", IBV_WR_SEND }, { "SEND, inline", IBV_WR_SEND, IBV_SEND_INLINE }, { "SEND with immediate", IBV_WR_SEND_WITH_IMM },
		{ "WRITE", IBV_WR_RDMA_WRITE }, { "WRITE with immediate", IBV_WR_RDMA_WRITE_WITH_IMM }, { "READ", IBV_WR_RDMA_READ },
		{ "compare and swap", IBV_WR_ATOMIC_CMP_AND_SWP }, { "fetch and add", IBV_WR_ATOMIC_FETCH_AND_ADD },
		{ "LOCAL_INV", IBV_WR_LOCAL_INV },
	};
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	char got[500], name[100];

	connect_anew();
	for (unsigned int i = 0; i < ARRAY_SIZE(list); i++) {
		connect_again();
		memset(a.buffer, 0x11, 8);
		memset(b.buffer, 0x22, 8);
		post_receive(&b, 0, 0, SHORT);
		wr = request(&a, &b, list[i].opcode, &sge);
		sge.length = 8;
		/* Not signaled: an error completes. */
		wr.send_flags = list[i].flags;
		wr.wr.atomic.compare_add = 0x2222222222222222;
		if (list[i].opcode == IBV_WR_LOCAL_INV) {
			wr.invalidate_rkey = a.mr->rkey;
			wr.num_sge = 0;
		}
		arm("status=%d", IBV_WC_FATAL_ERR);
		if (post(&a, &wr))
			die("post");
		snprintf(got, sizeof(got), "%s, %d arrives, %02x %02x", statuses(&a, 1), arrived(&b, 0), a.buffer[0], b.buffer[0]);
		snprintf(name, sizeof(name), "%s fails, and is not executed", list[i].name);
		text_is(name, "19, 0 arrives, 11 22", got);
	}
}

/* A READ and two WRITEs, which have these flags too. */
static void post_read_and_writes(uint32_t length, unsigned int flags)
{
	struct ibv_sge sges[3];
	struct ibv_send_wr wrs[3];

	for (int i = 0; i < 3; i++) {
		wrs[i] = request(&a, &b, i ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, &sges[i]);
		wrs[i].wr_id = i;
		wrs[i].next = i < 2 ? &wrs[i + 1] : NULL;
		wrs[i].send_flags |= i ? flags : 0;
		sges[i].length = length;
	}
	if (post(&a, wrs))
		die("post");
}

static void order(void)
{
	connect_anew();
	memset(b.buffer, 0x33, LONG);
	arm("status=%d qpn=%u skip=1", IBV_WC_REM_ACCESS_ERR, a.qp->qp_num);
	post_read_and_writes(LONG, 0);
	text_is("a WRITE fails after the READ before it has completed", "0 10 5", statuses(&a, 3));
	number_is("and that has its bytes", 0x33, a.buffer[LONG - 1]);
}

static void counting(void)
{
	connect_anew();
	arm("status=21 qpn=%u skip=5", a.qp->qp_num);
	sends_end("after five requests that are let pass, of a list", "0 0 0 0 0 21 5 5 5 5", &a, &b, SHORT);
	number_is("those arrive", 5, arrived(&b, 5));
	connect_again();
	sends_end("once", "0 0 0 0 0 0 0 0 0 0", &a, &b, SHORT);
	number_is("all arrive then", 10, arrived(&b, 10));

	arm("status=19 qpn=%u skip=3", a.qp->qp_num);
	sends_end("long messages: those before it", "0 0", &a, &b, LONG);
	sends_end("and the one that fails", "0 19 5", &a, &b, LONG);
	number_is("three arrive", 3, arrived(&b, 3));

	connect_again();
	arm("status=21 times=2 qpn=%u", a.qp->qp_num);
	sends_end("twice: the first time", "21 5 5", &a, &b, SHORT);
	connect_again();
	if (move(a.qp, IBV_QPS_ERR))
		die("ERR");
	sends_end("requests that are flushed", "5 5", &a, &b, SHORT);
	connect_again();
	sends_end("do not count: the second time", "21", &a, &b, SHORT);
	connect_again();
	sends_end("not a third time", "0 0", &a, &b, SHORT);

	connect_again();
	arm("status=12 qpn=%u", a.qp->qp_num);
	if (move(a.qp, IBV_QPS_SQD))
		die("SQD");
	post_sends(&a, &b, 1, SHORT);
	number_is("a request in SQD waits", -1, (int)wait_wc(&a, 100).status);
	if (move(a.qp, IBV_QPS_RTS))
		die("RTS");
	text_is("and fails when it begins", "12", statuses(&a, 1));
}

/* A READ whose retries are exhausted: those behind it are read to be flushed, in the run of the engine that finds that. */
static void exhausted(void)
{
	connect_anew();
	if (move(b.qp, IBV_QPS_RESET))
		die("reset");
	/* The second one waits for the READ, and the third one is not read from the ring. */
	post_read_and_writes(SHORT, IBV_SEND_FENCE);
	number_is("a READ that nobody answers", -1, (int)wait_wc(&a, 20).status);
	arm("status=21 qpn=%u", a.qp->qp_num);
	text_is("fails, and others are flushed", "12 5 5", statuses(&a, 3));
	connect_again();
	sends_end("which do not count", "21", &a, &b, SHORT);
}

static void whose(void)
{
	connect_anew();
	connect_two(&c, &d);
	arm("status=21 qpn=%#x", a.qp->qp_num);
	sends_end("another queue pair is untouched", "0 0 0", &c, &d, SHORT);
	sends_end("that of the fault is not", "21", &a, &b, SHORT);
	sends_end("nor the other one then", "0", &c, &d, SHORT);

	connect_again();
	arm("status=19 times=2");
	sends_end("without a number: any queue pair", "19", &c, &d, SHORT);
	sends_end("and any other one", "19", &a, &b, SHORT);
	connect_again();
	arm("status=19 qpn=0");
	if (own.context != peer.context) {
		sends_end("not of another device", "0", &b, &a, SHORT);
		arrived(&a, 1);
	}
	sends_end("the number 0 says the same", "19", &a, &b, SHORT);
}

static void setting(void)
{
	static const char *const bad[] = {
		"\n", "21", "=", "status", "status=", "status=22", "status=-1", "status=4294967317", "status=FATAL", "status=19 status=19",
		"times=2", "status=19 times=x", "status=19 qpn=0x1000000", "status=19 skip=4294967296", "status=19 colour=1", "status=19,times=1",
		"status=19 times =1", "status=0xg", "status=\xff",
	};
	char name[100];

	connect_anew();
	arm("status=13 qpn=%u skip=1", a.qp->qp_num);
	for (unsigned int i = 0; i < ARRAY_SIZE(bad); i++) {
		snprintf(name, sizeof(name), "no fault: '%.30s'", bad[i][0] == '\n' ? "newline" : strchr(bad[i], 0xff) ? "not ASCII" : bad[i]);
		number_is(name, EINVAL, put(&own, bad[i]));
	}
	sends_end("what was armed before is as it was", "0 13", &a, &b, SHORT);

	connect_again();
	arm("\tskip=0x1  times=1\tstatus=0x15 qpn=%#x\n", a.qp->qp_num);
	sends_end("words in any order, hexadecimal numbers", "0 21", &a, &b, SHORT);

	connect_again();
	arm("status=19 skip=7");
	arm("status=2");
	sends_end("a fault takes the place of another one", "2", &a, &b, SHORT);

	connect_again();
	arm("status=19");
	arm("status=0");
	sends_end("status 0 disarms", "0 0", &a, &b, SHORT);
	arm("status=19");
	arm("status=19 times=0");
	sends_end("and so does no request", "0 0", &a, &b, SHORT);
}

static void open_side(struct side *side, char **name_and_index)
{
	char *args[] = { "", name_and_index[0], name_and_index[1] };

	context = NULL;
	open_device(3, args);
	*side = (struct side){ args[1], context, pd, gid, gid_index };
}

int main(int argc, char **argv)
{
	struct ibv_ah_attr attr;

	if (argc != 5)
		die("usage: DEVICE GID_INDEX PEER_DEVICE PEER_GID_INDEX");
	open_side(&own, argv + 1);
	open_side(&peer, argv + 3);
	if (!strcmp(own.name, peer.name))
		peer = own;
	use(&own, &peer);
	attr = address();
	ah = ibv_create_ah(pd, &attr);
	if (!ah)
		die("an address handle");
	each_status(IBV_QPT_UD);
	each_status(IBV_QPT_UC);
	each_status(IBV_QPT_RC);
	operations();
	order();
	counting();
	exhausted();
	whose();
	setting();
	return all_done();
}
