// SPDX-License-Identifier: GPL-2.0
/* A client in the kernel that leaves a protection domain behind when its device goes, if the parameter "leaves" says so. */
#include <linux/module.h>
#include <linux/slab.h>
#include <rdma/ib_verbs.h>

MODULE_DESCRIPTION("a client that leaves an object behind, for tests");
MODULE_LICENSE("GPL");

static char *device = "rxe0";
module_param(device, charp, 0444);
static bool leaves;
module_param(leaves, bool, 0644);

static struct ib_client client;
/* What was left behind. Its device is gone, so nobody but the module has it. */
static struct ib_pd *left;

static int leaky_add(struct ib_device *dev)
{
	struct ib_pd *pd;

	if (strcmp(dev_name(&dev->dev), device))
		return -EOPNOTSUPP;
	pd = ib_alloc_pd(dev, 0);
	if (IS_ERR(pd))
		return PTR_ERR(pd);
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
