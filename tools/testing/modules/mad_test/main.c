// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of management datagrams in the kernel: agents, sends, RMPP, directed routes, the client of the subnet administrator,
 * multicast. They run on the device of fake_ib.c. It is C, so that it judges any ib_core alike.
 *
 * Writing the name of a test to the parameter "run" runs it, and logs a line for each case: "pass|NAME", or
 * "fail|NAME|got VALUE" for each check that fails; with "verbose" also "good|NAME" for each single check. The parameter "roce"
 * names a RoCE device for what is to be refused there, "slowness" says how much slower the kernel is, "strict" that the core is
 * to keep to the specification where the stock one does not.
 */
#include "mad_test.h"

MODULE_DESCRIPTION("tests of management datagrams");
MODULE_LICENSE("GPL");

static char *roce = "";
module_param(roce, charp, 0444);
static DEFINE_MUTEX(running);

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
	{ "agents", mt_test_agents },
	{ "tables", mt_test_tables },
	{ "dispatch", mt_test_dispatch },
	{ "sends", mt_test_sends },
	{ "queues", mt_test_queues },
	{ "smi", mt_test_smi },
	{ "sa", mt_test_sa },
	{ "manager", mt_test_manager },
	{ "mcast", mt_test_mcast },
	{ "trace", mt_test_trace },
	{ "rmpp", mt_test_rmpp },
	{ "removal", mt_test_removal },
	{ "storm", mt_test_storm },
	{ "rmpp-timeout", mt_test_rmpp_timeout },
};

/* What the last test has received may just have been done with. */
static bool has_receives(u32 port)
{
	unsigned long end = jiffies + HZ * mt_slowness;

	while (fake_ib_receives(port, 0) != 512 || fake_ib_receives(port, 1) != 512) {
		if (time_after(jiffies, end))
			return false;
		usleep_range(500, 1000);
	}
	return true;
}

static int run_test(const char *name)
{
	int nth;

	for (nth = 0; nth < ARRAY_SIZE(tests); nth++) {
		if (!sysfs_streq(name, tests[nth].name))
			continue;
		mt_begin(tests[nth].name);
		mt_wire_begin(NULL);
		CHECK(has_receives(1) && has_receives(2), "all queue pairs have their receive requests");
		tests[nth].run();
		mt_case("");
		mt_wire_end();
		fake_ib_settle();
		return 0;
	}
	return -EINVAL;
}

static int run(const char *value, const struct kernel_param *param)
{
	int ret;

	mutex_lock(&running);
	if (!mt_device)
		ret = -ENODEV;
	else if (strstarts(value, "path "))
		ret = mt_order_path(value + 5);
	else
		ret = run_test(value);
	mutex_unlock(&running);
	return ret;
}

static const struct kernel_param_ops run_ops = { .set = run };
module_param_cb(run, &run_ops, NULL, 0200);
MODULE_PARM_DESC(run, "Runs a test");

static int add(struct ib_device *device)
{
	if (device == fake_ib_device)
		mt_device = device;
	else if (*roce && !strcmp(dev_name(&device->dev), roce))
		mt_roce = device;
	return 0;
}

static void remove(struct ib_device *device, void *unused)
{
	if (device == mt_roce)
		mt_roce = NULL;
	if (device != mt_device)
		return;
	if (mt_on_remove)
		mt_on_remove();
	mt_drop_ahs();
	mt_device = NULL;
}

static struct ib_client client = { .name = "mad_test", .add = add, .remove = remove };

static int __init mad_test_init(void)
{
	int ret;

	spin_lock_init(&mt_wire.lock);
	mt_wire.packets = kvcalloc(MT_PACKETS, sizeof(*mt_wire.packets), GFP_KERNEL);
	if (!mt_wire.packets)
		return -ENOMEM;
	ret = ib_register_client(&client);
	if (ret)
		kvfree(mt_wire.packets);
	return ret;
}

static void __exit mad_test_exit(void)
{
	ib_unregister_client(&client);
	kvfree(mt_wire.packets);
}

module_init(mad_test_init);
module_exit(mad_test_exit);
