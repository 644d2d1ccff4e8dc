// SPDX-License-Identifier: GPL-2.0
/*
 * A domain, a completion queue and a queue pair are made and destroyed, again and again: what they had is free for the next ones.
 *
 *   uverbs_reuse DEVICE GID_INDEX ROUNDS
 *
 * The kernel's memory is measured after a tenth of the rounds, and again after all of them, while the program has its context.
 */
#include "verbs.h"

#define WARM_UP 10	/* one of so many rounds comes before the first measure */
#define MOST_HANDLES 16	/* there are not many objects at a time */
#define CACHES 1024
/* What others take meanwhile. */
#define NOISE_KIB 4096
#define NOISE_OBJECTS 1000
/* Addresses that were given back are collected by the thousand, later; what they mapped is in VmallocUsed. */
#define LAZY "vmap_area"

struct cache {
	char name[64];
	long objects;
};

struct memory {
	long kib;	/* that the kernel cannot take back */
	size_t count;
	struct cache caches[CACHES];
};

/* The largest handle of each kind of object, and the largest QP number. */
static uint32_t pd_handles, cq_handles, qp_handles, numbers;

static void larger(uint32_t *than, uint32_t value)
{
	if (*than < value)
		*than = value;
}

static void rounds(long count)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 } };

	while (count-- > 0) {
		struct ibv_pd *own = ibv_alloc_pd(context);
		struct ibv_cq *cq = ibv_create_cq(context, 8, NULL, NULL, 0);
		struct ibv_qp *qp;

		init.send_cq = init.recv_cq = cq;
		qp = own && cq ? ibv_create_qp(own, &init) : NULL;
		if (!qp)
			die("each round has its objects");
		larger(&pd_handles, own->handle);
		larger(&cq_handles, cq->handle);
		larger(&qp_handles, qp->handle);
		larger(&numbers, qp->qp_num);
		if ((errno = ibv_destroy_qp(qp)) || (errno = ibv_destroy_cq(cq)) || (errno = ibv_dealloc_pd(own)))
			die("each round ends without them");
	}
}

static FILE *must_open(const char *path, const char *mode)
{
	FILE *file = fopen(path, mode);

	if (!file)
		die(path);
	return file;
}

static void measure(struct memory *memory)
{
	static const char *const kinds[] = { "SUnreclaim:", "Percpu:", "VmallocUsed:", "KernelStack:", "PageTables:" };
	char line[512], name[64];
	FILE *file = must_open("/proc/sys/vm/drop_caches", "w");
	long value;

	fputs("3", file);
	fclose(file);
	*memory = (struct memory){};
	file = must_open("/proc/meminfo", "r");
	while (fgets(line, sizeof(line), file))
		for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
			if (sscanf(line, "%63s %ld", name, &value) == 2 && !strcmp(name, kinds[i]))
				memory->kib += value;
	fclose(file);
	file = must_open("/proc/slabinfo", "r");
	while (memory->count < CACHES && fgets(line, sizeof(line), file)) {
		struct cache *cache = &memory->caches[memory->count];

		memory->count += sscanf(line, "%63s %ld", cache->name, &cache->objects) == 2;
	}
	fclose(file);
}

static long objects_before(const struct memory *before, const char *name)
{
	for (size_t i = 0; i < before->count; i++)
		if (!strcmp(before->caches[i].name, name))
			return before->caches[i].objects;
	return 0;
}

/* The cache whose number of objects has grown most. */
static const char *most_grown(const struct memory *before, const struct memory *after, long *by)
{
	const char *name = "none";

	*by = 0;
	for (size_t i = 0; i < after->count; i++) {
		long growth = after->caches[i].objects - objects_before(before, after->caches[i].name);

		if (growth <= *by || !strcmp(after->caches[i].name, LAZY))
			continue;
		*by = growth;
		name = after->caches[i].name;
	}
	return name;
}

int main(int argc, char **argv)
{
	static struct memory before, after;
	long count = argc > 3 ? atol(argv[3]) : 0, growth = 0;
	const char *cache = "none";
	char why[160];

	open_device(argc, argv);
	rounds(count / WARM_UP);
	sleep(1);
	measure(&before);
	rounds(count);
	/* What has been given back comes later, after a grace period. */
	for (int i = 0; i < 20; i++) {
		usleep(500000);
		measure(&after);
		cache = most_grown(&before, &after, &growth);
		if (growth < NOISE_OBJECTS && after.kib - before.kib < NOISE_KIB)
			break;
	}
	printf("%ld rounds: memory %ld to %ld KiB; %s grew most, by %ld objects; QP numbers up to %u\n", count, before.kib, after.kib, cache, growth,
	       numbers);
	verdict("the rounds are made", count > 10 * NOISE_OBJECTS && before.count > 10, false, "too few to see a leak");
	snprintf(why, sizeof(why), "%s has %ld objects more", cache, growth);
	verdict("no cache of the kernel grows", growth < NOISE_OBJECTS, false, why);
	snprintf(why, sizeof(why), "by %ld KiB", after.kib - before.kib);
	verdict("nor does its other memory", after.kib - before.kib < NOISE_KIB, false, why);
	snprintf(why, sizeof(why), "up to %u, %u and %u", pd_handles, cq_handles, qp_handles);
	verdict("handles are used again", pd_handles < MOST_HANDLES && cq_handles < MOST_HANDLES && qp_handles < MOST_HANDLES, false, why);
	return all_done();
}
