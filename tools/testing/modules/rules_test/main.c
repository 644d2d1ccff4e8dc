// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of the midlayer's law, Documentation/infiniband/core_locking.rst: methods for any context, callbacks, events. It is
 * C, so that it judges any ib_core and any driver alike.
 *
 * The parameter "device" names the device. Writing the name of a test to the parameter "run" runs it, and logs a line for
 * each result: "pass|NAME" or "fail|NAME|got VALUE". tools/testing/selftests/core/{context,callbacks}.sh do so.
 *
 *	contexts [no-ah] [no-storm-ah]	all methods for any context, in each context; see context.c
 *	dispatch [lossy] [fatal]	events from an interrupt, where memory is short, or of a device that fails
 *	callbacks [no-rearm]		locks and completion handlers; see callbacks.c
 *	listen, unlisten		events of the device are logged, with the state that a handler finds; see events.c
 *	qp-events, drained, last-wqe, srq-limit, cq-error, cq-error-qp
 *					the same for events of objects, each provoked
 */
#include "rules.h"

MODULE_DESCRIPTION("tests of the midlayer's law");
MODULE_LICENSE("GPL");

static char *device = "rxe0";
module_param(device, charp, 0444);
MODULE_PARM_DESC(device, "The device to test");

static struct rules_device tested;

static int find(struct ib_device *dev)
{
	if (!strcmp(dev_name(&dev->dev), device) && ib_device_try_get(dev))
		tested.device = dev;
	return 0;
}

static int open_device(struct rules_device *on)
{
	const struct ib_gid_attr *gid = rdma_get_gid_attr(on->device, RULES_PORT, 0);
	int ret;

	if (IS_ERR(gid))
		return PTR_ERR(gid);
	on->gid = gid->gid;
	ret = rdma_read_gid_l2_fields(gid, NULL, on->mac);
	rdma_put_gid_attr(gid);
	if (ret)
		return ret;
	on->pd = ib_alloc_pd(on->device, 0);
	if (IS_ERR(on->pd))
		return PTR_ERR(on->pd);
	on->memory = kzalloc(2 * RULES_SIZE, GFP_KERNEL);
	if (!on->memory) {
		ib_dealloc_pd(on->pd);
		return -ENOMEM;
	}
	on->dma = ib_dma_map_single(on->device, on->memory, 2 * RULES_SIZE, DMA_BIDIRECTIONAL);
	return 0;
}

static int run(const char *value, const struct kernel_param *param)
{
	if (!tested.pd)
		return -ENODEV;
	if (strstarts(value, "contexts"))
		rules_contexts(&tested, value);
	else if (strstarts(value, "dispatch"))
		rules_dispatch(&tested, value);
	else if (strstarts(value, "callbacks"))
		rules_callbacks(&tested, value);
	else if (sysfs_streq(value, "listen"))
		return rules_events_begin(&tested);
	else if (sysfs_streq(value, "unlisten"))
		rules_events_end();
	else if (!rules_object_event(&tested, value))
		return -EINVAL;
	return 0;
}

static const struct kernel_param_ops run_ops = { .set = run };
module_param_cb(run, &run_ops, NULL, 0200);
MODULE_PARM_DESC(run, "Runs a test");

static int __init rules_init(void)
{
	struct ib_client finder = { .name = "rules_test", .add = find };
	int ret = ib_register_client(&finder);

	if (ret)
		return ret;
	ib_unregister_client(&finder);
	if (!tested.device)
		return -ENODEV;
	ret = open_device(&tested);
	if (ret)
		ib_device_put(tested.device);
	return ret;
}

static void __exit rules_exit(void)
{
	rules_events_end();
	ib_dma_unmap_single(tested.device, tested.dma, 2 * RULES_SIZE, DMA_BIDIRECTIONAL);
	kfree(tested.memory);
	CHECK_EQ("end", "nobody uses the PD", 0, atomic_read(&tested.pd->usecnt));
	ib_dealloc_pd(tested.pd);
	ib_device_put(tested.device);
}

module_init(rules_init);
module_exit(rules_exit);
