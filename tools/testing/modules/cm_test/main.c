// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of the exported functions of ib_cm, with clients of their own on one device, which connects to itself: one of RoCE, or of
 * InfiniBand ("ib"). It is C, so that it judges any ib_cm alike. No queue pair is needed: ib_cm has to do with their numbers alone.
 *
 * Writing the name of a test to the parameter "run" runs it, and logs a line for each result: "pass|NAME" or "fail|NAME|got VALUE".
 * "strict" says that ib_cm is to do what stock's does not, which is not asked for it: it would warn.
 */
#include "cm_test.h"

MODULE_DESCRIPTION("tests of ib_cm");
MODULE_LICENSE("GPL");

bool ct_strict;
module_param_named(strict, ct_strict, bool, 0444);
bool ct_ib;
module_param_named(ib, ct_ib, bool, 0444);
static DEFINE_MUTEX(running);
static const char *test = "";
struct ib_device *ct_device;
u32 ct_qpn = 0x100;

/* Ends that are there when the device goes. */
static struct ct_end left_listener, left_active, left_passive, left_asking, left_asked;
static bool are_left;

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
	{ "calls", ct_test_calls },
	{ "listen", ct_test_listen },
	{ "connect", ct_test_connect },
	{ "refuse", ct_test_refuse },
	{ "time", ct_test_time },
	{ "datagram", ct_test_datagram },
	{ "end", ct_test_end },
	{ "storm", ct_test_storm },
	{ "early", ct_test_early },
	{ "inbox", ct_test_inbox },
	{ "inbox_end", ct_test_inbox_end },
	{ "waiting", ct_test_waiting },
	{ "waiting_end", ct_test_waiting_end },
	{ "paths", ct_test_paths },
	{ "lap", ct_test_lap },
	{ "lap_again", ct_test_lap_again },
	{ "lap_delayed", ct_test_lap_delayed },
	{ "lap_end", ct_test_lap_end },
	{ "roce_paths", ct_test_roce_paths },
};

void ct_result(bool ok, const char *what, long long got)
{
	if (ok)
		pr_info("pass|%s: %s\n", test, what);
	else
		pr_info("fail|%s: %s|got %lld\n", test, what, got);
}

/* What the removal of the device finds: a listener, a connection, and a request that waits. */
static void leave(void)
{
	struct ct_req patient = { .life_time = 18, .response = 20, .retries = 15 };

	CHECK_EQ("a listener", 0, ct_listen(&left_listener, &left_passive));
	CHECK("a connection", ct_connect(&left_listener, &left_active, &left_passive));
	left_listener.for_child = &left_asked;
	ct_up(&left_asking);
	CHECK_EQ("a request", 0, ct_req(&left_asking, &patient));
	CHECK("which waits", ct_is_next(&left_asked, IB_CM_REQ_RECEIVED));
	are_left = true;
}

static void remove_left(void)
{
	if (!are_left)
		return;
	are_left = false;
	ct_down(&left_asking);
	ct_down(&left_asked);
	ct_down(&left_active);
	ct_down(&left_passive);
	ct_down(&left_listener);
	pr_info("pass|removal: identifiers are destroyed when the device goes\n");
}

static int run(const char *value, const struct kernel_param *param)
{
	int nth, ret = -EINVAL;

	mutex_lock(&running);
	if (!ct_device) {
		mutex_unlock(&running);
		return -ENODEV;
	}
	if (sysfs_streq(value, "leave")) {
		test = "leave";
		leave();
		ret = 0;
	}
	for (nth = 0; nth < ARRAY_SIZE(tests); nth++) {
		if (!sysfs_streq(value, tests[nth].name))
			continue;
		test = tests[nth].name;
		tests[nth].run();
		ret = 0;
	}
	mutex_unlock(&running);
	return ret;
}

static const struct kernel_param_ops run_ops = { .set = run };
module_param_cb(run, &run_ops, NULL, 0200);
MODULE_PARM_DESC(run, "Runs a test");

static int add(struct ib_device *device)
{
	if (ct_device || !(ct_ib ? rdma_protocol_ib(device, 1) : rdma_protocol_roce(device, 1)))
		return -EOPNOTSUPP;
	ct_device = device;
	return 0;
}

static void remove(struct ib_device *device, void *data)
{
	if (device != ct_device)
		return;
	mutex_lock(&running);
	remove_left();
	ct_device = NULL;
	mutex_unlock(&running);
}

static struct ib_client client = { .name = "cm_test", .add = add, .remove = remove };

static int __init ct_init(void)
{
	return ib_register_client(&client);
}

static void __exit ct_exit(void)
{
	ib_unregister_client(&client);
}

module_init(ct_init);
module_exit(ct_exit);
