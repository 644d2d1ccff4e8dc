// SPDX-License-Identifier: GPL-2.0
/*
 * Atomicity among the queue pairs of a device: several of them add to one number at the same time. Half of their peers are of the
 * device itself and half of another one, for a driver may deliver what a device sends to itself in one place.
 *
 *   verbs_atomic DEVICE GID_INDEX PEER PEER_GID_INDEX COUNT      so many additions by each queue pair
 */
#include "verbs.h"

#define QPS 8
#define BATCH 16	/* requests for a completion */
#define BATCHES 2	/* under way, of each queue pair */
#define START 0xfffffff0ull	/* the sum carries into the upper half */

static struct end from[QPS], to[QPS];
static struct ibv_mr *mr;
static volatile uint64_t *number;
static unsigned char *seen;
static uint64_t total;

static const struct setup usual;

/* A device, and what verbs.h has of it. */
static struct side {
	struct ibv_context *context;
	struct ibv_pd *pd;
	union ibv_gid gid;
	int gid_index;
} near, far;

static struct side side_open(char *device, char *index)
{
	context = NULL;
	open_device(3, (char *[]){ "", device, index });
	return (struct side){ context, pd, gid, gid_index };
}

static void use(const struct side *side)
{
	context = side->context;
	pd = side->pd;
	gid = side->gid;
	gid_index = side->gid_index;
}

/* From RESET to RTS, with all the time that a loaded machine may need for an answer. */
static void patient(struct end *end, const struct side *side, struct end *peer, const struct side *peers)
{
	use(side);
	for (int state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++) {
		struct ibv_qp_attr attr;
		int mask = step(state, &usual, peer->qp->qp_num, &attr);

		attr.ah_attr.grh.dgid = peers->gid;
		attr.timeout = 17;	/* half a second */
		attr.retry_cnt = 7;
		if (ibv_modify_qp(end->qp, &attr, mask))
			die("connect two QPs");
	}
}

/* Posts a batch; the old values go to places of their own. */
static void post_batch(struct end *end, int slot)
{
	struct ibv_send_wr wr[BATCH];
	struct ibv_sge sge[BATCH];

	for (int i = 0; i < BATCH; i++) {
		wr[i] = request(end, end, IBV_WR_ATOMIC_FETCH_AND_ADD, &sge[i]);
		sge[i].addr += 8 * (slot * BATCH + i);
		sge[i].length = 8;
		wr[i].wr_id = slot;
		wr[i].send_flags = i == BATCH - 1 ? IBV_SEND_SIGNALED : 0;
		wr[i].next = i == BATCH - 1 ? NULL : &wr[i + 1];
		wr[i].wr.atomic.remote_addr = (uintptr_t)number;
		wr[i].wr.atomic.rkey = mr->rkey;
		wr[i].wr.atomic.compare_add = 1;
	}
	if (post(end, wr))
		die("post a batch");
}

/* How many of the old values of a batch make no sense: no two requests get the same, and one queue pair sees it grow. */
static int odd_values(struct end *end, int slot, uint64_t *last)
{
	const uint64_t *old = (const uint64_t *)end->buffer + slot * BATCH;
	int odd = 0;

	for (int i = 0; i < BATCH; i++) {
		uint64_t index = old[i] - START;

		if (index >= total || seen[index] || (*last && old[i] <= *last))
			odd++;
		else
			seen[index] = 1;
		*last = old[i];
	}
	return odd;
}

static void add(int count)
{
	int posted[QPS] = { 0 }, done[QPS] = { 0 }, batches = count / BATCH, left = QPS * batches, odd = 0;
	uint64_t last[QPS] = { 0 };
	long heard = now_ms();
	char why[100];

	for (int i = 0; i < QPS; i++)
		while (posted[i] < BATCHES && posted[i] < batches)
			post_batch(&from[i], posted[i]++ % BATCHES);
	while (left) {
		for (int i = 0; i < QPS; i++) {
			struct ibv_wc wc;
			int got = ibv_poll_cq(from[i].cq, 1, &wc);

			if (got < 0 || (got && (wc.status || wc.wr_id != (uint64_t)(done[i] % BATCHES)))) {
				verdict("each addition completes", false, false, ibv_wc_status_str(wc.status));
				exit(1);
			}
			if (!got)
				continue;
			heard = now_ms();
			odd += odd_values(&from[i], done[i]++ % BATCHES, &last[i]);
			left--;
			if (posted[i] < batches)
				post_batch(&from[i], posted[i]++ % BATCHES);
		}
		if (now_ms() - heard > 20000) {
			verdict("each addition completes", false, false, "none for 20 seconds");
			exit(1);
		}
	}
	verdict("each addition completes", true, false, "");
	snprintf(why, sizeof(why), "%llu, not %llu", (unsigned long long)(*number - START), (unsigned long long)total);
	verdict("the sum is exact", *number == START + total, false, why);
	snprintf(why, sizeof(why), "%d of them are wrong", odd);
	verdict("each old value was seen once, and each queue pair saw them grow", !odd, false, why);
}

int main(int argc, char **argv)
{
	struct ibv_device_attr limits;
	int count;

	if (argc < 6)
		die("usage: DEVICE GID_INDEX PEER PEER_GID_INDEX COUNT");
	near = side_open(argv[1], argv[2]);
	far = side_open(argv[3], argv[4]);
	use(&near);
	count = atoi(argv[5]) / BATCH * BATCH;
	total = (uint64_t)QPS * count;
	ibv_query_device(context, &limits);
	verdict("the device is atomic among its queue pairs", limits.atomic_cap == IBV_ATOMIC_HCA, false, "atomic_cap");
	seen = calloc(total, 1);
	number = aligned_alloc(4096, 4096);
	*number = START;
	mr = ibv_reg_mr(pd, (void *)number, 4096, ACCESS_ALL);
	if (!seen || !mr)
		die("memory");
	for (int i = 0; i < QPS; i++) {
		const struct side *side = i % 2 ? &far : &near;

		use(side);
		end_init(&from[i], &usual);
		use(&near);
		end_init(&to[i], &usual);
		patient(&from[i], side, &to[i], &near);
		patient(&to[i], &near, &from[i], side);
	}
	add(count);
	return all_done();
}
