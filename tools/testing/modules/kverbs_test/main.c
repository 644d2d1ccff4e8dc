// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of what ib_core and a driver give to users in the kernel. It is C, so that it judges any of them alike.
 *
 * Loading it runs the tests on the device that the parameter "device" names, and logs a line for each result. Afterwards it
 * stays a client: the parameter "log" tells what its clients and handlers have seen. tools/testing/selftests/core/kverbs.sh
 * loads it.
 */
#include "kverbs.h"

MODULE_DESCRIPTION("tests of the verbs in the kernel");
MODULE_LICENSE("GPL");

static char *device = "rxe0";
module_param(device, charp, 0444);
MODULE_PARM_DESC(device, "The device to test");

static struct ib_device *found;

static int find(struct ib_device *dev)
{
	if (!strcmp(dev_name(&dev->dev), device) && ib_device_try_get(dev))
		found = dev;
	return 0;
}

static int __init kverbs_init(void)
{
	struct ib_client finder = { .name = "kverbs", .add = find };
	struct kv kv = {};
	int ret = ib_register_client(&finder);

	if (ret)
		return ret;
	ib_unregister_client(&finder);
	if (!found)
		return -ENODEV;
	ret = kv_open(&kv, found);
	CHECK_EQ("two queue pairs are connected", 0, ret);
	if (!ret) {
		kv_test_queries(&kv);
		kv_test_events(&kv);
		kv_test_states(&kv);
		kv_test_objects(&kv);
		kv_test_cq(&kv);
		kv_test_moderation(&kv);
		kv_test_qp(&kv);
		kv_test_srq(&kv);
		kv_test_xrc(&kv);
		kv_test_ah(&kv);
		kv_test_memory(&kv);
		kv_test_packing(&kv);
		kv_test_rules(&kv);
	}
	kv_close(&kv);
	ib_device_put(found);
	pr_info("done\n");
	return kv_clients_register();
}

static void __exit kverbs_exit(void)
{
	kv_clients_unregister();
}

module_init(kverbs_init);
module_exit(kverbs_exit);
