// SPDX-License-Identifier: GPL-2.0
/*
 * Threads that make, use and destroy objects of one file at once, by handles that they guess, on a device that does not
 * exist (../modules/fake_verbs.c). Whatever they get for it, nothing may break, nothing may be left, and none may wait for ever.
 *
 *   uverbs_guess NODE SECONDS		or until SIGTERM
 */
#include "uverbs.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#define THREADS 6
/* Handles are the lowest that are free, so that so many are guessed rightly often enough. */
#define GUESSES 48

static atomic_ulong calls, done, gone;
static atomic_bool stop;

static uint32_t any(uint32_t *state, uint32_t limit)
{
	*state = *state * 1664525 + 1013904223;
	return (*state >> 8) % limit;
}

static int make_queue(uint32_t *state)
{
	uint32_t pd = any(state, GUESSES), cq = any(state, GUESSES), answers[3];
	struct ib_uverbs_qp_cap cap = { 4, 0, 1, 0, 0 };
	struct ib_uverbs_attr make_cq[] = {
		handle(UVERBS_ATTR_CREATE_CQ_HANDLE, 0), u32_in(UVERBS_ATTR_CREATE_CQ_CQE, 8),
		u64_in(UVERBS_ATTR_CREATE_CQ_USER_HANDLE, cq), u32_in(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, 0),
		data_out(UVERBS_ATTR_CREATE_CQ_RESP_CQE, answers, 4),
	};
	struct ib_uverbs_attr make_srq[] = {
		handle(UVERBS_ATTR_CREATE_SRQ_HANDLE, 0), handle(UVERBS_ATTR_CREATE_SRQ_PD_HANDLE, pd),
		u64_in(UVERBS_ATTR_CREATE_SRQ_TYPE, IB_UVERBS_SRQT_BASIC), u64_in(UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, 0),
		u32_in(UVERBS_ATTR_CREATE_SRQ_MAX_WR, 1), u32_in(UVERBS_ATTR_CREATE_SRQ_MAX_SGE, 1),
		u32_in(UVERBS_ATTR_CREATE_SRQ_LIMIT, 0), data_out(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, answers, 4),
		data_out(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, answers, 4),
	};
	struct ib_uverbs_attr make_qp[] = {
		handle(UVERBS_ATTR_CREATE_QP_HANDLE, 0), handle(UVERBS_ATTR_CREATE_QP_PD_HANDLE, pd),
		handle(UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, cq), handle(UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, cq),
		u64_in(UVERBS_ATTR_CREATE_QP_TYPE, IB_UVERBS_QPT_RC), u64_in(UVERBS_ATTR_CREATE_QP_USER_HANDLE, 0),
		data_in(UVERBS_ATTR_CREATE_QP_CAP, &cap, sizeof(cap)), data_out(UVERBS_ATTR_CREATE_QP_RESP_CAP, &cap, sizeof(cap)),
		data_out(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, answers, 4),
	};
	struct ib_uverbs_attr make_wq[] = {
		handle(UVERBS_ATTR_CREATE_WQ_HANDLE, 0), handle(UVERBS_ATTR_CREATE_WQ_PD_HANDLE, pd),
		handle(UVERBS_ATTR_CREATE_WQ_CQ_HANDLE, cq), u64_in(UVERBS_ATTR_CREATE_WQ_USER_HANDLE, 0),
		u64_in(UVERBS_ATTR_CREATE_WQ_TYPE, 0), u32_in(UVERBS_ATTR_CREATE_WQ_MAX_WR, 1),
		u32_in(UVERBS_ATTR_CREATE_WQ_MAX_SGE, 1), u32_in(UVERBS_ATTR_CREATE_WQ_FLAGS, 0),
		data_out(UVERBS_ATTR_CREATE_WQ_RESP_MAX_WR, answers, 4), data_out(UVERBS_ATTR_CREATE_WQ_RESP_MAX_SGE, answers + 1, 4),
		data_out(UVERBS_ATTR_CREATE_WQ_RESP_WQ_NUM, answers + 2, 4),
	};

	switch (any(state, 4)) {
	case 0: return CALL(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE, make_cq);
	case 1: return CALL(UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_CREATE, make_srq);
	case 2: return CALL(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE, make_qp);
	default: return CALL(UVERBS_OBJECT_WQ, UVERBS_METHOD_WQ_CREATE, make_wq);
	}
}

static int make_memory(uint32_t *state)
{
	uint32_t pd = any(state, GUESSES), other = any(state, GUESSES), keys[2];
	struct ib_uverbs_alloc_pd request = { 0 };
	struct ib_uverbs_alloc_pd_resp response;
	struct ib_uverbs_attr make_dm[] = {
		handle(UVERBS_ATTR_ALLOC_DM_HANDLE, 0), u64_in(UVERBS_ATTR_ALLOC_DM_LENGTH, 100),
		u32_in(UVERBS_ATTR_ALLOC_DM_ALIGNMENT, 6),
	};
	struct ib_uverbs_attr reg_dm[] = {
		handle(UVERBS_ATTR_REG_DM_MR_HANDLE, 0), handle(UVERBS_ATTR_REG_DM_MR_PD_HANDLE, pd),
		handle(UVERBS_ATTR_REG_DM_MR_DM_HANDLE, other), u64_in(UVERBS_ATTR_REG_DM_MR_OFFSET, 0),
		u64_in(UVERBS_ATTR_REG_DM_MR_LENGTH, 100), u32_in(UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS, IB_UVERBS_ACCESS_ZERO_BASED),
		data_out(UVERBS_ATTR_REG_DM_MR_RESP_LKEY, keys, 4), data_out(UVERBS_ATTR_REG_DM_MR_RESP_RKEY, keys + 1, 4),
	};
	struct ib_uverbs_attr reg[] = {
		handle(REG_MR_HANDLE, 0), handle(REG_MR_PD, pd), u64_in(REG_MR_IOVA, 0), u64_in(REG_MR_LENGTH, PAGE),
		u32_in(REG_MR_ACCESS, 1), u64_in(REG_MR_ADDR, 0), data_out(REG_MR_LKEY, keys, 4), data_out(REG_MR_RKEY, keys + 1, 4),
		handle(REG_MR_DMAH, other),
	};
	struct ib_uverbs_attr make_dmah[] = { handle(0, 0) };
	struct ib_uverbs_attr make_counters[] = { handle(UVERBS_ATTR_CREATE_COUNTERS_HANDLE, 0) };

	switch (any(state, 7)) {
	case 0: return CALL(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC, make_dm);
	case 1: return CALL(UVERBS_OBJECT_MR, UVERBS_METHOD_DM_MR_REG, reg_dm);
	case 2: return CALL(UVERBS_OBJECT_MR, METHOD_REG_MR, reg);
	case 3: return call(UVERBS_OBJECT_MR, METHOD_REG_MR, reg, 8);
	case 4: return CALL(OBJECT_DMAH, 0, make_dmah);
	case 5: return CALL(UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_CREATE, make_counters);
	default: return invoke(IB_USER_VERBS_CMD_ALLOC_PD, &request, sizeof(request), &response, sizeof(response));
	}
}

static int unmake(uint32_t *state)
{
	static const struct { uint16_t object, method, response; } methods[] = {
		{ UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY, 0 }, { UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY, 8 },
		{ UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY, 4 }, { UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_DESTROY, 4 },
		{ UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, 0 }, { UVERBS_OBJECT_WQ, UVERBS_METHOD_WQ_DESTROY, 4 },
		{ UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE, 0 }, { OBJECT_DMAH, 1, 0 },
		{ UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_DESTROY, 0 },
	};
	uint32_t which = any(state, sizeof(methods) / sizeof(methods[0])), counts[2];
	struct ib_uverbs_attr attrs[] = { handle(0, any(state, GUESSES)), data_out(1, counts, methods[which].response) };

	return call(methods[which].object, methods[which].method, attrs, methods[which].response ? 2 : 1);
}

/* Events, a file that comes and goes, a buffer. */
static int use(uint32_t *state)
{
	struct ib_uverbs_req_notify_cq request = { any(state, GUESSES), 1 };
	struct ib_uverbs_modify_qp modify = { .qp_handle = any(state, GUESSES), .attr_mask = 1, .qp_state = 1 };
	struct ib_uverbs_attr make_file[] = { handle(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, 0) };
	struct ib_uverbs_attr make_buffer[] = { handle(0, 0), u64_in(1, 0) };
	struct ib_uverbs_async_event_desc event;
	int ret;

	switch (any(state, 4)) {
	case 0: return invoke(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, &request, sizeof(request), NULL, 0);
	case 1: return invoke(IB_USER_VERBS_CMD_MODIFY_QP, &modify, sizeof(modify), NULL, 0);
	case 2:
		ret = CALL(UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC, make_file);
		if (ret)
			return ret;
		fcntl(make_file[0].data, F_SETFL, O_NONBLOCK);
		while (read(make_file[0].data, &event, sizeof(event)) > 0)
			;
		close(make_file[0].data);
		return 0;
	default:
		ret = CALL(OBJECT_DMABUF, 0, make_buffer);
		if (!ret)
			close(make_buffer[0].data);
		return ret;
	}
}

static void *storm(void *seed)
{
	uint32_t state = (uintptr_t)seed;

	while (!stop) {
		int ret;

		switch (any(&state, 6)) {
		case 0: case 1: ret = make_queue(&state); break;
		case 2: ret = make_memory(&state); break;
		case 3: ret = use(&state); break;
		default: ret = unmake(&state);
		}
		calls++;
		done += !ret;
		gone += ret == EIO;
		if (ret == EIO)
			usleep(1000);
	}
	return NULL;
}

static void on_signal(int number) { (void)number; }

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];

	if (argc != 3)
		return 2;
	signal(SIGTERM, on_signal);
	open_context(argv[1]);
	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(threads + i, NULL, storm, (void *)(i + time(NULL))))
			die("thread", errno);
	/* A signal ends it. */
	sleep(atoi(argv[2]));
	stop = true;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%lu calls, of which %lu did something, and %lu found no device\n", calls, done, gone);
	verdict("guesses: they have done something", done > 100, "nearly all calls failed");
	return all_done();
}
