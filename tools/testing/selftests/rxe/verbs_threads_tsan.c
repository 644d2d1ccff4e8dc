// SPDX-License-Identifier: GPL-2.0
/*
 * Eight threads share two connected queue pairs, their completion queue and their protection domain: each posts, polls, queries, and
 * registers memory, at the same time. Built with ThreadSanitizer: what the libraries do for one thread must be visible to the others.
 *
 *   verbs_threads_tsan DEVICE GID_INDEX MESSAGES
 */
#include "verbs.h"
#include <arpa/inet.h>
#include <pthread.h>

enum { THREADS = 8, AHEAD = 6, MAX_MESSAGES = 1 << 20, RECEIVES = 64, SLOT = 64 };

/* What one thread sends, and what became of it. */
struct sender {
	pthread_t thread;
	uint32_t number, posted;
	uint32_t completed, arrived;	/* counted by whoever polls */
	uint8_t *sent, *received;	/* a byte for each message: how often */
};

static struct sender senders[THREADS];
static struct end ends[2];
static uint32_t messages;
static uint32_t wrong;			/* completions that must not be */
static uint32_t queries, regions, notified;

static void count(uint32_t *what) { __atomic_add_fetch(what, 1, __ATOMIC_RELAXED); }
static uint32_t now(const uint32_t *what) { return __atomic_load_n(what, __ATOMIC_ACQUIRE); }

/* A message says whose it is and which one, in its immediate data and in its bytes. */
static uint32_t label(uint32_t sender, uint32_t message) { return sender << 24 | message; }

static void sent(const struct ibv_wc *wc)
{
	uint32_t sender = wc->wr_id >> 32, message = wc->wr_id;

	if (sender >= THREADS || message >= messages || __atomic_fetch_add(&senders[sender].sent[message], 1, __ATOMIC_RELAXED)) {
		count(&wrong);
		return;
	}
	count(&senders[sender].completed);
}

static void arrived(const struct ibv_wc *wc)
{
	uint32_t said = ntohl(wc->imm_data), sender = said >> 24, message = said & 0xffffff, bytes;

	memcpy(&bytes, ends[1].buffer + (wc->wr_id & 0xffff) * SLOT, sizeof(bytes));
	if (sender >= THREADS || message >= messages || bytes != said || wc->byte_len != SLOT ||
	    __atomic_fetch_add(&senders[sender].received[message], 1, __ATOMIC_RELAXED)) {
		count(&wrong);
		return;
	}
	count(&senders[sender].arrived);
	if (post_receive(&ends[1], wc->wr_id, (wc->wr_id & 0xffff) * SLOT, SLOT))
		count(&wrong);
}

static void poll_some(void)
{
	struct ibv_wc wcs[4];
	int count_of = ibv_poll_cq(ends[0].cq, 4, wcs);

	for (int i = 0; i < count_of; i++)
		if (wcs[i].status != IBV_WC_SUCCESS)
			count(&wrong);
		else if (wcs[i].opcode & IBV_WC_RECV)
			arrived(&wcs[i]);
		else
			sent(&wcs[i]);
	if (count_of < 0)
		count(&wrong);
}

static bool send_one(struct sender *sender, const struct ibv_mr *mr, uint8_t *memory)
{
	uint32_t message = sender->posted, said = label(sender->number, message);
	struct ibv_sge sge = { (uintptr_t)memory + message % (AHEAD + 1) * SLOT, SLOT, mr->lkey };
	struct ibv_send_wr wr = { .wr_id = (uint64_t)sender->number << 32 | message, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM,
				  .send_flags = IBV_SEND_SIGNALED, .imm_data = htonl(said) };

	memcpy((void *)sge.addr, &said, sizeof(said));
	sender->posted++;
	return !post(&ends[0], &wr);
}

static void ask_something(void)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	if (ibv_query_qp(ends[0].qp, &attr, IBV_QP_STATE, &init) || attr.qp_state != IBV_QPS_RTS)
		count(&wrong);
	count(&queries);
	if (ibv_req_notify_cq(ends[0].cq, 0))
		count(&wrong);
	count(&notified);
}

static void *sends_all(void *data)
{
	struct sender *sender = data;
	uint8_t *memory = aligned_alloc(4096, 4096);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE);
	long until = now_ms() + 600000;
	uint32_t renewed = 0;

	while (mr && now(&sender->completed) < messages && !now(&wrong) && now_ms() < until) {
		bool renew = sender->posted % 256 == 255 && renewed != sender->posted;

		if (!renew && sender->posted < messages && sender->posted - now(&sender->completed) < AHEAD && !send_one(sender, mr, memory))
			count(&wrong);
		poll_some();
		if (sender->posted % 64 == sender->number)
			ask_something();
		/* Its memory has another key now and then, when nothing is under way. */
		if (renew && now(&sender->completed) == sender->posted) {
			renewed = sender->posted;
			ibv_dereg_mr(mr);
			mr = ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE);
			count(&regions);
		}
	}
	/* The last ones may arrive where nobody else polls. */
	while (now(&sender->arrived) < messages && !now(&wrong) && now_ms() < until)
		poll_some();
	if (!mr || ibv_dereg_mr(mr))
		count(&wrong);
	free(memory);
	return NULL;
}

static void connect_both(void)
{
	static const struct setup setup = { 0 };
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 64, RECEIVES, 1, 1, 0 } };

	for (int i = 0; i < 2; i++) {
		ends[i].cq = i ? ends[0].cq : ibv_create_cq(context, 512, NULL, NULL, 0);
		ends[i].buffer = aligned_alloc(4096, RECEIVES * SLOT);
		memset(ends[i].buffer, 0, RECEIVES * SLOT);
		ends[i].mr = ibv_reg_mr(pd, ends[i].buffer, RECEIVES * SLOT, IBV_ACCESS_LOCAL_WRITE);
		init.send_cq = init.recv_cq = ends[i].cq;
		ends[i].qp = ends[i].cq ? ibv_create_qp(pd, &init) : NULL;
		if (!ends[i].mr || !ends[i].qp)
			die("make the queue pairs");
	}
	pair_connect(&ends[0], &ends[1], &setup);
	for (int i = 0; i < RECEIVES; i++)
		if (post_receive(&ends[1], i, i * SLOT, SLOT))
			die("post a receive");
}

int main(int argc, char **argv)
{
	uint32_t completed = 0, came = 0;

	open_device(argc, argv);
	messages = argc > 3 ? strtoul(argv[3], NULL, 0) / THREADS : 1000;
	if (!messages || messages > MAX_MESSAGES)
		die("MESSAGES are 8 to 8 million");
	connect_both();
	for (uint32_t i = 0; i < THREADS; i++) {
		senders[i].number = i;
		senders[i].sent = calloc(messages, 1);
		senders[i].received = calloc(messages, 1);
	}
	for (uint32_t i = 0; i < THREADS; i++)
		if (pthread_create(&senders[i].thread, NULL, sends_all, &senders[i]))
			die("begin a thread");
	for (uint32_t i = 0; i < THREADS; i++)
		pthread_join(senders[i].thread, NULL);
	/* Each thread counts what it polls, also of the others. */
	for (uint32_t i = 0; i < THREADS; i++) {
		completed += senders[i].completed == messages;
		came += senders[i].arrived == messages;
	}
	printf("%u messages of each of %u threads; %u queries, %u regions, armed %u times\n", messages, THREADS, queries, regions, notified);
	verdict("threads: every send completes, once", completed == THREADS && !wrong, false, "too few, or one twice, or with an error");
	verdict("threads: every message arrives, once, as it was sent", came == THREADS && !wrong, false, "too few, or one twice, or wrong");
	verdict("threads: they query, arm and register at the same time", queries > THREADS && notified > THREADS && regions >= THREADS * (messages / 256),
		false, "too seldom");
	if (ibv_destroy_qp(ends[0].qp) || ibv_destroy_qp(ends[1].qp) || ibv_destroy_cq(ends[0].cq))
		die("destroy what they have shared");
	return all_done();
}
