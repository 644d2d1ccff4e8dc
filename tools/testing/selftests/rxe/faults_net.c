// SPDX-License-Identifier: GPL-2.0
/*
 * What becomes of a QP whose packets do not arrive any more, or whose peer is gone: the request that nobody answers fails in
 * the time that the QP's attributes say, all behind it are flushed, nothing hangs.
 *
 *	faults_net DEVICE GID_INDEX PEER_DEVICE PEER_GID_INDEX TIMEOUT NAME fails|goes_on
 *
 * The peer is a process of its own, whose number is printed ("peer|PID"). Then RDMA WRITEs run without end; once "running"
 * is printed, the caller breaks something. With `goes_on` the QP must survive that, for five seconds.
 */
#include "verbs.h"
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define DEPTH 8
#define LENGTH (16 * 1024)
#define RETRIES 3
#define PACE 500	/* microseconds between polls */

struct contact {
	uint32_t qpn, ud_qpn, rkey;
	uint64_t address;
	union ibv_gid gid;
};

static struct setup rc = { .type = IBV_QPT_RC }, ud = { .type = IBV_QPT_UD };
static struct end end, datagrams;
static struct contact peer;
static int timeout;
static const char *scenario;
static long last_answer;
static unsigned int outstanding, succeeded, flushed, others;

/* What the stock driver is known to get wrong is `known`; that nothing hangs is not. */
static void tell(const char *what, bool good, bool known, const char *why)
{
	char name[200];

	snprintf(name, sizeof(name), "%s: %s", scenario, what);
	verdict(name, good, known, why);
}

/* Both ends open their device, and tell each other where they are. */
static void meet(int line, char **argv)
{
	struct contact mine;

	open_device(3, argv);
	end_init(&end, &rc);
	end_init(&datagrams, &ud);
	mine = (struct contact){ end.qp->qp_num, datagrams.qp->qp_num, end.mr->rkey, (uintptr_t)end.buffer, gid };
	if (write(line, &mine, sizeof(mine)) != sizeof(mine) || read(line, &peer, sizeof(peer)) != sizeof(peer))
		die("the other end");
	gid = peer.gid;
	for (int state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++) {
		struct ibv_qp_attr attr;
		int mask = step(state, &rc, peer.qpn, &attr);

		attr.timeout = timeout;
		attr.retry_cnt = RETRIES;
		if (ibv_modify_qp(end.qp, &attr, mask))
			die("connect");
	}
	if (climb(datagrams.qp, IBV_QPS_RTS, &ud, 0))
		die("a QP for datagrams");
	/* The peer is ready when it says so. */
	if (write(line, "", 1) != 1 || read(line, &mine, 1) != 1)
		die("the other end");
}

static int post_write(void)
{
	struct ibv_sge sge = { (uintptr_t)end.buffer, LENGTH, end.mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED, .sg_list = &sge, .num_sge = 1 };

	wr.wr.rdma.remote_addr = peer.address;
	wr.wr.rdma.rkey = peer.rkey;
	outstanding++;
	return post(&end, &wr);
}

/* Takes completions and posts anew for at most so long; returns the first bad status, else 0. */
static int run(long ms)
{
	struct ibv_wc wc;
	long until = now_ms() + ms;

	while (now_ms() < until) {
		if (!ibv_poll_cq(end.cq, 1, &wc)) {
			usleep(PACE);
			continue;
		}
		outstanding--;
		if (wc.status)
			return wc.status;
		last_answer = now_ms();
		if (++succeeded == 4)
			printf("running\n");
		if (post_write())
			die("post");
	}
	return 0;
}

static void drain(void)
{
	struct ibv_wc wc;

	while (outstanding) {
		wc = wait_wc(&end, 3000);
		if ((int)wc.status == -1)
			return;
		outstanding--;
		flushed += wc.status == IBV_WC_WR_FLUSH_ERR;
		others += wc.status != IBV_WC_WR_FLUSH_ERR && wc.status != IBV_WC_SUCCESS;
	}
}

/* Nobody acknowledges datagrams: to send them is to be done, wherever they end. */
static void send_datagrams(void)
{
	struct ibv_ah_attr to = address();
	struct ibv_sge sge = { (uintptr_t)datagrams.buffer, 512, datagrams.mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED, .sg_list = &sge, .num_sge = 1 };
	struct ibv_ah *ah = wr.wr.ud.ah = ibv_create_ah(pd, &to);
	unsigned int completed = 0;

	if (!ah)
		return;	/* there is no way to the peer, and the call says so */
	wr.wr.ud.remote_qpn = peer.ud_qpn;
	wr.wr.ud.remote_qkey = QKEY;
	for (int i = 0; i < DEPTH; i++)
		if (post(&datagrams, &wr))
			die("post a datagram");
	while (completed < DEPTH && (int)wait_wc(&datagrams, 5000).status != -1)
		completed++;
	tell("datagrams complete", completed == DEPTH, true, "not all of them");
	ibv_destroy_ah(ah);
}

static void fails(void)
{
	/* The specification's interval for a timer is from one to four times its nominal value; the rest is for a slow machine. */
	const char *slowness = getenv("SLOWNESS");
	long limit = (RETRIES + 1) * 4 * ((4096L << timeout) / 1000000) + 4000 * (slowness ? atol(slowness) : 1), took;
	struct ibv_qp_attr attr = { 0 };
	struct ibv_qp_init_attr init;
	char why[100];
	int status = run(20000);

	took = now_ms() - last_answer;
	snprintf(why, sizeof(why), "status %d", status);
	tell("the request that nobody answers fails with RETRY_EXC", status == IBV_WC_RETRY_EXC_ERR, true, why);
	printf("%u writes, then nothing for %ld ms\n", succeeded, took);
	snprintf(why, sizeof(why), "%ld ms, not %ld", took, limit);
	tell("in time", took <= limit, true, why);
	last_answer = now_ms();
	drain();
	took = now_ms() - last_answer;
	snprintf(why, sizeof(why), "%u flushed, %u with another status, %u have not completed, after %ld ms", flushed, others,
		 outstanding, took);
	tell("all behind it are completed", !outstanding, false, why);
	tell("and flushed, at once", flushed == DEPTH - 1 && !others && took < 1000, true, why);
	ibv_query_qp(end.qp, &attr, IBV_QP_STATE, &init);
	tell("the QP is in the error state", attr.qp_state == IBV_QPS_ERR, true, "it is not");
	flushed = 0;
	tell("what is posted afterwards is flushed", !post_write() && (drain(), flushed == 1), true, "it is not");
	send_datagrams();
}

static void goes_on(void)
{
	char why[50];
	int status = run(5000);

	snprintf(why, sizeof(why), "status %d after %u writes", status, succeeded);
	tell("the QP survives", !status, true, why);
	send_datagrams();
}

int main(int argc, char **argv)
{
	int line[2], status;
	pid_t child;

	if (argc != 8 || socketpair(AF_UNIX, SOCK_STREAM, 0, line))
		return 2;
	timeout = atoi(argv[5]);
	scenario = argv[6];
	setvbuf(stdout, NULL, _IOLBF, 4096);
	child = fork();
	if (!child) {
		argv[1] = argv[3];
		argv[2] = argv[4];
		meet(line[1], argv);
		pause();
	}
	printf("peer|%d\n", child);
	meet(line[0], argv);
	last_answer = now_ms();
	for (int i = 0; i < DEPTH; i++)
		if (post_write())
			die("post");
	if (!strcmp(argv[7], "fails"))
		fails();
	else
		goes_on();
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	return all_done();
}
