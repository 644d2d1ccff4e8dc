// SPDX-License-Identifier: GPL-2.0
/*
 * A client in the kernel that leaves a protection domain behind when its device goes, if the parameter "leaves" says so; with "busy" it
 * deallocates one too early.
 */
#include <linux/module.h>
#include <linux/slab.h>
#include <rdma/ib_verbs.h>

MODULE_DESCRIPTION("a client that leaves an object behind, for tests");
MODULE_LICENSE("GPL");

static char *device = "rxe0";
module_param(device, charp, 0444);
static bool leaves;
module_param(leaves, bool, 0644);

static bool busy;
module_param(busy, bool, 0644);

static struct ib_client client;
/* What was left behind. Its device is gone, so nobody but the module has it. */
static struct ib_pd *left;

/* Deallocates a domain while a region is in it, and logs how many users it has then and without the region. */
static noinline void leaky_busy(struct ib_pd *pd)
{
	struct ib_mr *mr = ib_alloc_mr(pd, IB_MR_TYPE_MEM_REG, 1);
	int with;

	if (IS_ERR(mr))
		return;
	ib_dealloc_pd(pd);
	with = atomic_read(&pd->usecnt);
	ib_dereg_mr(mr);
	pr_info("leaky_client: users: %d, then %d\n", with, atomic_read(&pd->usecnt));
}

static int leaky_add(struct ib_device *dev)
{
	struct ib_pd *pd;

	if (strcmp(dev_name(&dev->dev), device))
		return -EOPNOTSUPP;
	pd = ib_alloc_pd(dev, 0);
	if (IS_ERR(pd))
		return PTR_ERR(pd);
	if (busy)
		leaky_busy(pd);
	ib_set_client_data(dev, &client, pd);
	return 0;
}

static void leaky_remove(struct ib_device *dev, void *data)
{
	if (!leaves || left)
		ib_dealloc_pd(data);
	else
		left = data;
}

static struct ib_client client = { .name = "leaky_client", .add = leaky_add, .remove = leaky_remove };

static int __init leaky_init(void) { return ib_register_client(&client); }
module_init(leaky_init);

static void __exit leaky_exit(void)
{
	struct ib_pd *before = left;

	/* What is left behind now has a device, which still knows it. */
	ib_unregister_client(&client);
	kfree(before);
}
module_exit(leaky_exit);
