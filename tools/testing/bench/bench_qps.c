// SPDX-License-Identifier: GPL-2.0
/*
 * What an idle RC queue pair with 64 + 64 work requests costs: prints the bytes of memory that it takes, and the nanoseconds that
 * creating and destroying it take.
 *
 *   bench_qps DEVICE COUNT
 */
#include <infiniband/verbs.h>
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static long long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ll + time.tv_nsec;
}

/* Memory that the kernel has allocated, in bytes. What is free is no measure: processors keep free pages for themselves. */
static long long kernel_memory(void)
{
	FILE *file = fopen("/proc/meminfo", "r");
	long long kib, sum = 0;
	char line[128];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "SUnreclaim: %lld", &kib) == 1 || sscanf(line, "VmallocUsed: %lld", &kib) == 1)
			sum += kib;
	if (!file || !sum)
		err(1, "/proc/meminfo");
	fclose(file);
	return sum * 1024;
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int count = argc == 3 ? atoi(argv[2]) : 0;
	struct ibv_qp **qps = calloc(count, sizeof(*qps));
	long long begin, made, memory;
	struct ibv_context *device;
	struct ibv_pd *pd;
	struct ibv_cq *cq;

	if (count < 1 || !qps)
		errx(2, "see the head of bench_qps.c");
	for (; list && *list && strcmp(ibv_get_device_name(*list), argv[1]); list++)
		;
	device = list && *list ? ibv_open_device(*list) : NULL;
	pd = device ? ibv_alloc_pd(device) : NULL;
	cq = pd ? ibv_create_cq(device, 128, NULL, NULL, 0) : NULL;
	if (!cq)
		err(1, "%s", argv[1]);
	memory = kernel_memory();
	begin = now();
	for (int i = 0; i < count; i++) {
		struct ibv_qp_init_attr attr = {
			.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
			.cap = { .max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 1, .max_recv_sge = 1 },
		};

		qps[i] = ibv_create_qp(pd, &attr);
		if (!qps[i])
			err(1, "ibv_create_qp");
	}
	made = now();
	printf("%lld %lld ", (kernel_memory() - memory) / count, (made - begin) / count);
	begin = now();
	for (int i = 0; i < count; i++)
		if (ibv_destroy_qp(qps[i]))
			errx(1, "ibv_destroy_qp");
	printf("%lld\n", (now() - begin) / count);
	return 0;
}
