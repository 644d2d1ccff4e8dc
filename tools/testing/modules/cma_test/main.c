// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of the exported functions of rdma_cm, with clients of their own on a device that connects to itself. It is C, so that it judges
 * any rdma_cm alike.
 *
 * Writing the name of a test to the parameter "run" runs it, in the network namespace of the writer, and logs a line for each result:
 * "pass|NAME" or "fail|NAME|got VALUE". "strict" says that rdma_cm is to do what stock's does not, which is not asked for it.
 */
#include "cma_test.h"

MODULE_DESCRIPTION("tests of rdma_cm");
MODULE_LICENSE("GPL");

bool rt_strict;
module_param_named(strict, rt_strict, bool, 0444);
static DEFINE_MUTEX(running);
static const char *test = "";
atomic_t rt_qpn = ATOMIC_INIT(0x200000);

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
	{ "names", rt_test_names },
	{ "ids", rt_test_ids },
	{ "states", rt_test_states },
	{ "bind", rt_test_bind },
	{ "bound later", rt_test_bound_later },
	{ "bound no more", rt_test_bound_no_more },
	{ "resolve", rt_test_resolve },
	{ "listen", rt_test_listen },
	{ "connect", rt_test_connect },
	{ "qp", rt_test_qp },
	{ "datagram", rt_test_datagram },
	{ "groups", rt_test_groups },
	{ "handlers", rt_test_handlers },
	{ "storm", rt_test_storm },
	{ "neighbour", rt_test_neighbour },
	{ "moved", rt_test_moved },
	{ "leave", rt_test_leave },
	{ "left", rt_test_left },
	{ "back", rt_test_back },
	{ "early", rt_test_early },
	{ "second", rt_test_second },
	{ "only", rt_test_only },
	{ "late", rt_test_late },
	{ "iwarp", rt_test_iwarp },
	{ "ib", rt_test_ib },
	{ "services", rt_test_services },
	{ "no services", rt_test_no_services },
	{ "no paths", rt_test_no_paths },
	{ "IB net device", rt_test_ib_net_device },
	{ "IB groups", rt_test_ib_groups },
	{ "no IB groups", rt_test_no_ib_groups },
	{ "IB groups again", rt_test_ib_groups_again },
	{ "host A", rt_test_host_a },
	{ "host none", rt_test_host_none },
	{ "host B", rt_test_host_b },
	{ "host exclusive", rt_test_host_exclusive },
	{ "host shared", rt_test_host_shared },
	{ "host gone", rt_test_host_gone },
};

void rt_result(bool ok, const char *what, long long got)
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

static int __init rt_init(void)
{
	return 0;
}

static void __exit rt_exit(void)
{
	test = "the end";
	CHECK("no identifier is left", !rt_destroy_rest());
}

module_init(rt_init);
module_exit(rt_exit);
