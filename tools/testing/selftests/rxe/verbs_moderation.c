// SPDX-License-Identifier: GPL-2.0
/*
 * Moderation of completion events: after so many completions, or so long after the first one. The command goes to the kernel by
 * itself, for rdma-core's driver has no method for it.
 *
 *   verbs_moderation DEVICE GID_INDEX
 *
 * A period is 65 ms at most, and a busy machine may take longer: a case that has come too late to tell is tried again.
 */
#include "verbs.h"
#include "uverbs_raw.h"

#define MOST 65535
#define TRIES 50

static struct end a, b;
static long began;

static int moderate(int count, int period_us)
{
	struct ib_uverbs_ex_modify_cq command = { .cq_handle = a.cq->handle, .attr_mask = 1, .attr = { count, period_us } };

	return raw_write_ex(context->cmd_fd, IB_USER_VERBS_EX_CMD_MODIFY_CQ, &command, sizeof(command), NULL, 0);
}

/* Whether an event comes within so many milliseconds, which is then acknowledged. */
static bool told(int ms)
{
	struct pollfd fd = { .fd = a.channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *of;

	if (poll(&fd, 1, ms) != 1 || ibv_get_cq_event(a.channel, &cq, &of))
		return false;
	ibv_ack_cq_events(cq, 1);
	return true;
}

/* So many messages that complete one after the other. */
static bool completions(int count)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(&a, &b, IBV_WR_RDMA_WRITE, &sge);

	sge.length = 8;
	while (count-- > 0)
		if (post(&a, &wr) || wait_wc(&a, 3000).status)
			return false;
	return true;
}

static void arm(int solicited)
{
	while (told(0))
		;
	began = now_ms();
	ibv_req_notify_cq(a.cq, solicited);
}

/* Whether the longest period has not passed. */
static bool in_time(void) { return now_ms() - began < MOST / 1000 - 5; }

/* Each case: 0 if it is as it should be, 1 if not, -1 if the machine was too slow to tell. */
static int by_count(void)
{
	bool early, good;

	moderate(16, MOST);
	arm(0);
	good = completions(15);
	early = told(0);
	if (!in_time())
		return -1;
	good = good && completions(1) && told(1000);
	return in_time() ? !(good && !early) : -1;
}

static int by_period(void)
{
	bool good, early;

	moderate(1000, 20000);
	arm(0);
	good = completions(3) && told(3000);
	early = now_ms() - began < 20;
	return !(good && !early && !told(100));
}

static int by_error(void)
{
	bool good;

	move(a.qp, IBV_QPS_RESET);
	climb(a.qp, IBV_QPS_RTS, &(struct setup){}, b.qp->qp_num);
	moderate(1000, MOST);
	post_receive(&a, 1, 0, 64);
	arm(0);
	move(a.qp, IBV_QPS_ERR);
	good = told(1000);
	good = wait_wc(&a, 3000).status == IBV_WC_WR_FLUSH_ERR && good;
	return in_time() ? !good : -1;
}

/* A message that the peer has marked, for a queue that is armed for such ones. */
static int solicited(void)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(&b, &a, IBV_WR_SEND, &sge), *bad;
	bool good;

	move(a.qp, IBV_QPS_RESET);
	move(b.qp, IBV_QPS_RESET);
	pair_connect(&a, &b, &(struct setup){});
	moderate(1000, MOST);
	post_receive(&a, 1, 0, 64);
	sge.length = 8;
	wr.send_flags |= IBV_SEND_SOLICITED;
	arm(1);
	good = !ibv_post_send(b.qp, &wr, &bad) && told(1000);
	good = !wait_wc(&a, 3000).status && !wait_wc(&b, 3000).status && good;
	return in_time() ? !good : -1;
}

static int switched_off(void)
{
	bool good, early;

	moderate(1000, MOST);
	arm(0);
	good = completions(2);
	early = told(0);
	good = good && !moderate(0, 0) && told(1000);
	return in_time() ? !(good && !early) : -1;
}

static int armed_again(void)
{
	bool good;

	moderate(2, MOST);
	arm(0);
	good = completions(1);
	ibv_req_notify_cq(a.cq, 0);
	good = good && completions(1) && told(1000);
	return in_time() ? !good : -1;
}

/* Neither a count nor a period alone holds anything back. */
static int half(void)
{
	bool good;

	moderate(1000, 0);
	arm(0);
	good = completions(1) && told(3000);
	moderate(1, MOST);
	arm(0);
	good = good && completions(1) && told(1000);
	return in_time() ? !good : -1;
}

static void tried(const char *name, int (*one)(void))
{
	int result = -1;

	for (int i = 0; i < TRIES && result < 0; i++)
		result = one();
	verdict(name, !result, false, result < 0 ? "the machine is too slow" : "an event at another time, or none");
}

int main(int argc, char **argv)
{
	struct ibv_modify_cq_attr attr = { .attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = { 16, 100 } };
	struct ibv_device_attr_ex caps = {};
	int refused;

	open_device(argc, argv);
	pair_init(&a, &b, &(struct setup){});
	refused = moderate(16, 100);
	if (refused) {
		verdict("moderation", false, refused == EOPNOTSUPP, strerror(refused));
		return all_done();
	}
	verdict("the device tells the most", !ibv_query_device_ex(context, NULL, &caps) && caps.cq_mod_caps.max_cq_count == MOST &&
		caps.cq_mod_caps.max_cq_period == MOST, false, "other numbers");
	verdict("ibv_modify_cq: the library's driver has no such method", ibv_modify_cq(a.cq, &attr) == EOPNOTSUPP, false, "it has");
	tried("an event after 16 completions", by_count);
	tried("an event after the period", by_period);
	tried("what is held back is told when moderation is switched off", switched_off);
	tried("arming again forgets no completion", armed_again);
	tried("a count alone, and a period alone", half);
	tried("an error at once", by_error);
	tried("what a peer solicits at once", solicited);
	moderate(1000, MOST);
	move(a.qp, IBV_QPS_RESET);
	move(b.qp, IBV_QPS_RESET);
	pair_connect(&a, &b, &(struct setup){});
	arm(0);
	verdict("a queue may go that holds an event back", completions(1), false, "no completion");
	end_destroy(&a);
	end_destroy(&b);
	return all_done();
}
