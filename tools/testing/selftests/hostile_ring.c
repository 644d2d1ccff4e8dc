// SPDX-License-Identifier: GPL-2.0
/*
 * A user that writes rubbish into the rings that it shares with the driver, and rings the doorbell meanwhile.
 * Each round is a child of its own: it may die, the kernel may not.
 *
 *   hostile_ring DEVICE GID_INDEX [ROUNDS]
 */
#include "verbs.h"

#include <pthread.h>
#include <rdma/ib_user_verbs.h>
#include <signal.h>
#include <sys/wait.h>

/* A mapping of the device: a queue. */
struct ring {
	uint32_t *words;
	size_t count;
};

static struct ring rings[16];
static size_t ring_count;
static volatile bool stop;

static void find_rings(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start, end;
	char line[512];

	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, "uverbs") && sscanf(line, "%lx-%lx", &start, &end) == 2 && ring_count < ARRAY_SIZE(rings))
			rings[ring_count++] = (struct ring){ (uint32_t *)start, (end - start) / 4 };
	if (maps)
		fclose(maps);
}

static uint32_t rubbish(unsigned int *seed)
{
	static const uint32_t liked[] = { 0, 1, 2, 7, 8, 31, 32, 33, 63, 0x7f, 0xff, 0xfff, 0xffff, 0x10000, 0x7fffffff, 0x80000000,
					  0xfffffff0, 0xffffffff };
	unsigned int n = rand_r(seed);

	return n % 3 ? liked[n / 3 % ARRAY_SIZE(liked)] : n * 2654435761u;
}

/* Anywhere in the rings; the words of the indices (bytes 128 and 256) and of the first slots more often. */
static void scribble(unsigned int *seed)
{
	struct ring *ring = &rings[rand_r(seed) % ring_count];
	unsigned int n = rand_r(seed);
	size_t at = n % 8 == 0 ? 32 : n % 8 == 1 ? 64 : n % 8 < 6 ? 96 + rand_r(seed) % 512 : rand_r(seed) % ring->count;

	if (at < ring->count)
		((volatile uint32_t *)ring->words)[at] = rubbish(seed);
}

static void *scribbler(void *seed)
{
	while (!stop)
		scribble(seed);
	return NULL;
}

static void doorbell(struct ibv_qp *qp)
{
	struct {
		struct ib_uverbs_cmd_hdr header;
		struct ib_uverbs_post_send send;
	} command = {
		.header = { IB_USER_VERBS_CMD_POST_SEND, sizeof(command) / 4, sizeof(struct ib_uverbs_post_send_resp) / 4 },
	};
	struct ib_uverbs_post_send_resp answer;

	command.send.response = (uintptr_t)&answer;
	command.send.qp_handle = qp->handle;
	command.send.wqe_size = sizeof(struct ib_uverbs_send_wr);
	if (write(context->cmd_fd, &command, sizeof(command)) < 0)
		return; /* an error is a good answer */
}

static void round_of(unsigned int seed, int argc, char **argv)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };
	struct setup setup = { .type = types[seed % 3] };
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	unsigned int other = seed * 31 + 1;
	struct end a, b;
	pthread_t thread;

	alarm(20);
	open_device(argc, argv);
	pair_init(&a, &b, &setup);
	find_rings();
	if (!ring_count)
		_exit(3);
	for (int i = 0; i < 16; i++) {
		post_receive(&b, i, 0, 4096);
		wr = request(&a, &b, i % 2 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE, &sge);
		if (setup.type != IBV_QPT_UD) {
			sge.length = 1000;
			post(&a, &wr);
		}
	}
	pthread_create(&thread, NULL, scribbler, &other);
	for (int i = 0; i < 400; i++) {
		scribble(&seed);
		doorbell(i % 2 ? a.qp : b.qp);
		if (i % 50 == 0)
			ibv_req_notify_cq(a.cq, 0);
		if (i % 100 == 50)
			ibv_query_qp(b.qp, &attr, IBV_QP_STATE, &init);
		if (i == 300) {
			move(a.qp, IBV_QPS_ERR);
			ibv_resize_cq(b.cq, 100);
		}
	}
	stop = true;
	pthread_join(thread, NULL);
	_exit(seed % 2 ? 0 : (end_destroy(&a), end_destroy(&b), 0));
}

int main(int argc, char **argv)
{
	int rounds = argc > 3 ? atoi(argv[3]) : 30, hung = 0, blind = 0, status;

	for (int i = 0; i < rounds; i++) {
		pid_t child = fork();

		if (!child)
			round_of(i, argc, argv);
		waitpid(child, &status, 0);
		hung += WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
		blind += WIFEXITED(status) && WEXITSTATUS(status) == 3;
	}
	verdict("rubbish in the rings: every round ends", !hung, false, "a round had to be stopped");
	verdict("rubbish in the rings: the rings were found", !blind, false, "nothing of the device is mapped");
	return 0;
}
