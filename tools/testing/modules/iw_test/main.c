// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of the exported functions of iw_cm, with a driver and clients of their own. It is C, so that it judges any iw_cm alike.
 *
 * Writing the name of a test to the parameter "run" runs it, and logs a line for each result: "pass|NAME" or "fail|NAME|got VALUE".
 * listen, connect, peer, end, many and end-many are no tests, but what a test of the port mapper needs: see ports.c.
 * "strict" says that iw_cm is to do what stock's does not, which is not asked for it: it would end the kernel.
 */
#include "iw_test.h"

MODULE_DESCRIPTION("tests of iw_cm");
MODULE_LICENSE("GPL");

bool it_strict;
module_param_named(strict, it_strict, bool, 0444);
static DEFINE_MUTEX(running);
static const char *test = "";

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
	{ "calls", it_test_calls },
	{ "events", it_test_events },
	{ "faults", it_test_faults },
	{ "storm", it_test_storm },
};

void it_result(bool ok, const char *what, long long got)
{
	if (ok)
		pr_info("pass|%s: %s\n", test, what);
	else
		pr_info("fail|%s: %s|got %lld\n", test, what, got);
}

static int run(const char *value, const struct kernel_param *param)
{
	int nth, ret = -EINVAL;

	mutex_lock(&running);
	if (it_ports(value)) {
		mutex_unlock(&running);
		return 0;
	}
	for (nth = 0; nth < ARRAY_SIZE(tests); nth++) {
		if (!sysfs_streq(value, tests[nth].name))
			continue;
		test = tests[nth].name;
		it_driver_reset();
		tests[nth].run();
		CHECK_EQ("no reference to a queue pair is left", 0, atomic_read(&it_driver.qp_refs));
		CHECK_EQ("the driver holds no identifier", 0, atomic_read(&it_driver.id_refs));
		ret = 0;
	}
	mutex_unlock(&running);
	return ret;
}

static const struct kernel_param_ops run_ops = { .set = run };
module_param_cb(run, &run_ops, NULL, 0200);
MODULE_PARM_DESC(run, "Runs a test");

static int __init it_init(void)
{
	return it_device_up();
}

static void __exit it_exit(void)
{
	it_device_down();
}

module_init(it_init);
module_exit(it_exit);
