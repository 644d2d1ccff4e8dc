// SPDX-License-Identifier: GPL-2.0
/* Connections that clients end while the driver tells events, on all processors. */
#include <linux/random.h>
#include "iw_test.h"

#define THREADS 4
static int rounds = 500;
module_param(rounds, int, 0644);

struct storm {
	struct iw_cm_id *id;
	struct completion called, emitted;
	atomic_t told;
	int failed;
};

static int handler(struct iw_cm_id *id, struct iw_cm_event *event)
{
	struct storm *storm = id->context;

	atomic_inc(&storm->told);
	complete(&storm->called);
	return 0;
}

/* The driver tells what a connection has, from another thread. */
static int emit_all(void *data)
{
	struct storm *storm = data;
	struct iw_cm_id *id = storm->id;
	bool connects = get_random_u32_below(4);

	if (it_emit(id, IW_CM_EVENT_CONNECT_REPLY, connects ? 0 : -ECONNREFUSED, "data"))
		storm->failed++;
	if (connects && get_random_u32_below(2) && it_emit(id, IW_CM_EVENT_DISCONNECT, 0, NULL))
		storm->failed++;
	if (connects && it_emit(id, IW_CM_EVENT_CLOSE, 0, NULL))
		storm->failed++;
	it_put(id);
	complete(&storm->emitted);
	return 0;
}

static int one(void *data)
{
	struct iw_cm_conn_param param = { .qpn = IT_QPN };
	struct completion *done = data;
	struct storm storm = {};
	int nth, failed = 0;

	for (nth = 0; nth < rounds; nth++) {
		init_completion(&storm.called);
		init_completion(&storm.emitted);
		atomic_set(&storm.told, 0);
		storm.id = iw_create_cm_id(it_driver.device, handler, &storm);
		if (IS_ERR(storm.id) || iw_cm_connect(storm.id, &param)) {
			failed++;
			break;
		}
		kthread_run(emit_all, &storm, "iw_emit");
		if (get_random_u32_below(2))
			wait_for_completion(&storm.called);
		if (get_random_u32_below(2))
			iw_cm_disconnect(storm.id, get_random_u32_below(2));
		iw_destroy_cm_id(storm.id);
		failed += atomic_read(&storm.told) > 2;
		wait_for_completion(&storm.emitted);
		cond_resched();
	}
	it_result(!failed && !storm.failed, "connections come and go", failed + storm.failed);
	complete(done);
	return 0;
}

void it_test_storm(void)
{
	struct completion done[THREADS];
	int nth;

	for (nth = 0; nth < THREADS; nth++) {
		init_completion(&done[nth]);
		kthread_run(one, &done[nth], "iw_storm");
	}
	for (nth = 0; nth < THREADS; nth++)
		wait_for_completion(&done[nth]);
	CHECK_EQ("the driver was asked for all", THREADS * rounds, atomic_read(&it_driver.connects));
}
