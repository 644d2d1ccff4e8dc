// SPDX-License-Identifier: GPL-2.0
/*
 * What drivers use of ib_uverbs_support beside objects: capabilities of user space, and the resources of flow steering rules.
 * It is C: it judges any ib_uverbs_support alike. Loading fails where something is not as it should be.
 *
 * While it is loaded there is a node for a capability.
 */
#include <linux/module.h>
#include <rdma/ib_ucaps.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_std_types.h>

#define CHECK(good) do { if (!(good)) { pr_err("%s: not so: %s\n", KBUILD_MODNAME, #good); return -EINVAL; } } while (0)

static struct ib_counters counters;
static struct ib_flow_action action;

static int check_flow_resources(void)
{
	struct ib_uflow_resources *resources = flow_resources_alloc(3);

	CHECK(resources && resources->max == 3 && !resources->num);
	flow_resources_add(resources, IB_FLOW_SPEC_ACTION_COUNT, &counters);
	flow_resources_add(resources, IB_FLOW_SPEC_ACTION_HANDLE, &action);
	flow_resources_add(resources, IB_FLOW_SPEC_ACTION_HANDLE, &action);
	CHECK(resources->num == 3 && resources->counters_num == 1 && resources->collection_num == 2);
	CHECK(resources->counters[0] == &counters && resources->collection[1] == &action);
	CHECK(atomic_read(&counters.usecnt) == 1 && atomic_read(&action.usecnt) == 2);
	ib_uverbs_flow_resources_free(resources);
	CHECK(!atomic_read(&counters.usecnt) && !atomic_read(&action.usecnt));

	resources = flow_resources_alloc(0);
	CHECK(resources && !resources->max);
	ib_uverbs_flow_resources_free(resources);
	ib_uverbs_flow_resources_free(NULL);
	return 0;
}

static int check_object_locks(void)
{
	struct ib_uobject object = { .usecnt = ATOMIC_INIT(0) };

	CHECK(!uverbs_try_lock_object(&object, UVERBS_LOOKUP_READ));
	CHECK(!uverbs_try_lock_object(&object, UVERBS_LOOKUP_READ));
	CHECK(uverbs_try_lock_object(&object, UVERBS_LOOKUP_WRITE) == -EBUSY);
	CHECK(!uverbs_try_lock_object(&object, UVERBS_LOOKUP_DESTROY));
	CHECK(atomic_read(&object.usecnt) == 2);
	atomic_set(&object.usecnt, 0);
	CHECK(!uverbs_try_lock_object(&object, UVERBS_LOOKUP_WRITE));
	CHECK(atomic_read(&object.usecnt) == -1);
	CHECK(uverbs_try_lock_object(&object, UVERBS_LOOKUP_READ) == -EBUSY);
	CHECK(uverbs_try_lock_object(&object, UVERBS_LOOKUP_WRITE) == -EBUSY);
	return 0;
}

static int __init uverbs_support_test_init(void)
{
	int ret = check_flow_resources() ?: check_object_locks();

	if (ret)
		return ret;
	CHECK(ib_create_ucap(RDMA_UCAP_MAX) == -EINVAL);
	ret = ib_create_ucap(RDMA_UCAP_MLX5_CTRL_OTHER_VHCA);
	if (ret)
		return ret;
	/* Twice is as once, but that it is to be removed twice. */
	ret = ib_create_ucap(RDMA_UCAP_MLX5_CTRL_OTHER_VHCA);
	if (ret)
		ib_remove_ucap(RDMA_UCAP_MLX5_CTRL_OTHER_VHCA);
	return ret;
}

static void __exit uverbs_support_test_exit(void)
{
	ib_remove_ucap(RDMA_UCAP_MLX5_CTRL_OTHER_VHCA);
	ib_remove_ucap(RDMA_UCAP_MLX5_CTRL_OTHER_VHCA);
}

module_init(uverbs_support_test_init);
module_exit(uverbs_support_test_exit);
MODULE_DESCRIPTION("Test of what drivers use of ib_uverbs_support");
MODULE_LICENSE("GPL");
