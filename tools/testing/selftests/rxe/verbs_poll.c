// SPDX-License-Identifier: GPL-2.0
/*
 * Completion queues: polling without a system call, resizing with completions in it; the list of devices, again and again.
 *
 *   verbs_poll DEVICE GID_INDEX
 */
#define _GNU_SOURCE
#include "verbs.h"
#include <dirent.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static struct end a, b;

static int writes(int first, int count)
{
	for (int i = first; i < first + count; i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = request(&a, &b, IBV_WR_RDMA_WRITE, &sge);

		sge.length = 8;
		wr.wr_id = i;
		if (post(&a, &wr))
			return -1;
	}
	return 0;
}

/* A thread whose first system call but exit kills the process polls until `wanted` completions came. */
static volatile int polled;
static volatile bool polling;

static void *without_calls(void *cq)
{
	struct ibv_wc wc[4];

	polling = true;
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
	while (polled < 20) {
		int n = ibv_poll_cq(cq, 4, wc);

		for (int i = 0; i < n; i++)
			polled += !wc[i].status && wc[i].wr_id == (uint64_t)polled;
		if (n < 0)
			break;
	}
	syscall(SYS_exit, 0);
	return NULL;
}

static void *with_a_call(void *unused)
{
	(void)unused;
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
	syscall(SYS_getppid);
	polled = 99;
	syscall(SYS_exit, 0);
	return NULL;
}

static void poll_without_calls(void)
{
	long until = now_ms() + 10000;
	pthread_t thread;

	pthread_create(&thread, NULL, with_a_call, NULL); /* the watcher is awake: SIGKILL of this thread alone */
	usleep(200000);
	verdict("a system call would be seen", !polled, false, "it was not");
	pthread_create(&thread, NULL, without_calls, a.cq);
	while (!polling)
		usleep(1000);
	usleep(50000);
	writes(0, 20);
	while (polled < 20 && now_ms() < until)
		usleep(1000);
	verdict("poll_cq makes no system call", polled == 20, false, "killed, or not all completions in their order");
}

static void resize(void)
{
	struct ibv_device_attr device;
	struct ibv_wc wc;
	bool order = true;

	ibv_query_device(context, &device);
	writes(0, 10);
	usleep(300000);
	verdict("resize_cq: not below what is in it", ibv_resize_cq(a.cq, 5), false, "done");
	verdict("resize_cq: not beyond max_cqe", ibv_resize_cq(a.cq, device.max_cqe + 1), false, "done");
	verdict("resize_cq: not to 0", ibv_resize_cq(a.cq, 0), false, "done");
	verdict("resize_cq: larger", !ibv_resize_cq(a.cq, 1000) && a.cq->cqe >= 1000, false, "refused");
	writes(10, 40);
	for (int i = 0; i < 50; i++) {
		wc = wait_wc(&a, 2000);
		order = order && !wc.status && wc.wr_id == (uint64_t)i;
	}
	verdict("resize_cq: completions of before and after, in their order", order, false, "another order");
	verdict("resize_cq: smaller", !ibv_resize_cq(a.cq, 20) && a.cq->cqe >= 20 && a.cq->cqe < 1000, false, "refused");
	writes(50, 15);
	for (int i = 50; i < 65; i++) {
		wc = wait_wc(&a, 2000);
		order = order && !wc.status && wc.wr_id == (uint64_t)i;
	}
	verdict("resize_cq: completions in the smaller one", order, false, "not all");
	while (wait_event(0) != -1)
		;
	writes(65, 60);
	verdict("resize_cq: its new size is the limit", event_comes(IBV_EVENT_CQ_ERR, 2000), false, "no CQ_ERR");
}

/* A program with one thread may say so; the queue works. */
static void one_thread(void)
{
	static const struct setup usual;
	struct ibv_cq_init_attr_ex attr = { .cqe = 64, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &attr);

	verdict("create_cq_ex: SINGLE_THREADED", cq, false, strerror(errno));
	if (!cq)
		return;
	end_init(&b, &usual);
	a.channel = NULL;
	a.cq = ibv_cq_ex_to_cq(cq);
	end_on_cq(&a, &usual);
	pair_connect(&a, &b, &usual);
	writes(1, 1);
	verdict("SINGLE_THREADED: it completes", wait_wc(&a, 2000).wr_id == 1, false, "nothing");
	end_destroy(&a);
	end_destroy(&b);
}

static int open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	while (dir && readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static void lists(void)
{
	size_t before = 0, after;
	int files = 0, count = 0, counts = 0;
	char why[80];

	for (int i = 0; i < 200; i++) {
		struct ibv_device **list = ibv_get_device_list(&count);

		counts += count;
		ibv_free_device_list(list);
		if (i == 19)
			before = mallinfo2().uordblks, files = open_files();
	}
	after = mallinfo2().uordblks;
	snprintf(why, sizeof(why), "%zu bytes before, %zu after; %d devices", before, after, count);
	verdict("lists of devices leave no memory and no files", counts == 200 * count && count >= 1 && before == after && files == open_files(),
		false, why);
}

int main(int argc, char **argv)
{
	static const struct setup usual, small = { .cqe = 63 };

	open_device(argc, argv);
	lists();
	pair_init(&a, &b, &small);
	poll_without_calls();
	end_destroy(&a);
	end_destroy(&b);
	pair_init(&a, &b, &usual);
	resize();
	end_destroy(&a);
	end_destroy(&b);
	one_thread();
	return all_done();
}
