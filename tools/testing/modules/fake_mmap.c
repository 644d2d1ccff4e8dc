// SPDX-License-Identifier: GPL-2.0
/*
 * A driver of a device that does not exist, whose memory user space maps: what no software driver has. It is C, so that it
 * judges any ib_uverbs alike.
 *
 * Loading it makes the device fakem0. A file maps its memory at two offsets:
 *
 *   0          PAGES pages, of the device as such
 *   PAGES      as many, of an entry that the context has
 *
 * Each page begins with MAGIC and its number. Writing to the parameter "zap" takes all mappings away, as a driver does that
 * resets its device; writing to "unplug" unregisters the device. "entries" tells how many entries there are.
 */
#include <linux/module.h>
#include <linux/slab.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

MODULE_DESCRIPTION("a device that does not exist, for tests of mappings");
MODULE_LICENSE("GPL");

#define PAGES 4
#define MAGIC 0x46424d4d

struct fake_context {
	struct ib_ucontext ib;
	struct rdma_user_mmap_entry *entry;
};

static struct ib_device *device;
static unsigned long memory;
static atomic_t entries = ATOMIC_INIT(0);
static DEFINE_MUTEX(lock);

static int entries_get(char *buf, const struct kernel_param *kp)
{
	return sysfs_emit(buf, "%d\n", atomic_read(&entries));
}
static const struct kernel_param_ops entries_ops = { .get = entries_get };
module_param_cb(entries, &entries_ops, NULL, 0400);

/* The device */

static int query_device(struct ib_device *ib, struct ib_device_attr *attr, struct ib_udata *udata)
{
	return 0;
}

static int query_port(struct ib_device *ib, u32 port, struct ib_port_attr *attr)
{
	attr->state = IB_PORT_ACTIVE;
	return 0;
}

static int port_immutable(struct ib_device *ib, u32 port, struct ib_port_immutable *immutable)
{
	immutable->core_cap_flags = RDMA_CORE_CAP_PROT_RAW_PACKET;
	return 0;
}

/* Contexts and their memory */

static int alloc_ucontext(struct ib_ucontext *ib, struct ib_udata *udata)
{
	struct fake_context *context = container_of(ib, struct fake_context, ib);
	int ret;

	context->entry = kzalloc(sizeof(*context->entry), GFP_KERNEL);
	if (!context->entry)
		return -ENOMEM;
	ret = rdma_user_mmap_entry_insert_range(ib, context->entry, PAGES * PAGE_SIZE, PAGES, PAGES);
	if (ret)
		kfree(context->entry);
	else
		atomic_inc(&entries);
	return ret;
}

static void dealloc_ucontext(struct ib_ucontext *ib)
{
	rdma_user_mmap_entry_remove(container_of(ib, struct fake_context, ib)->entry);
}

static void disassociate_ucontext(struct ib_ucontext *ib) {}

static void mmap_free(struct rdma_user_mmap_entry *entry)
{
	atomic_dec(&entries);
	kfree(entry);
}

static int map(struct ib_ucontext *ib, struct vm_area_struct *vma)
{
	unsigned long pfn = virt_to_phys((void *)memory) >> PAGE_SHIFT, size = vma->vm_end - vma->vm_start;
	struct rdma_user_mmap_entry *entry = NULL;
	int ret;

	if (size > PAGES * PAGE_SIZE)
		return -EINVAL;
	if (vma->vm_pgoff) {
		entry = rdma_user_mmap_entry_get(ib, vma);
		if (!entry)
			return -EINVAL;
	}
	ret = rdma_user_mmap_io(ib, vma, pfn, size, vma->vm_page_prot, entry);
	if (entry)
		rdma_user_mmap_entry_put(entry);
	return ret;
}

static const struct ib_device_ops ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_UNKNOWN,
	.uverbs_abi_ver = 1,
	.query_device = query_device,
	.query_port = query_port,
	.get_port_immutable = port_immutable,
	.alloc_ucontext = alloc_ucontext,
	.dealloc_ucontext = dealloc_ucontext,
	.disassociate_ucontext = disassociate_ucontext,
	.mmap = map,
	.mmap_free = mmap_free,
	INIT_RDMA_OBJ_SIZE(ib_ucontext, fake_context, ib),
};

static void unplug(void)
{
	if (device) {
		ib_unregister_device(device);
		ib_dealloc_device(device);
		device = NULL;
	}
}

static int unplug_set(const char *text, const struct kernel_param *kp)
{
	mutex_lock(&lock);
	unplug();
	mutex_unlock(&lock);
	return 0;
}
static const struct kernel_param_ops unplug_ops = { .set = unplug_set };
module_param_cb(unplug, &unplug_ops, NULL, 0200);

static int zap_set(const char *text, const struct kernel_param *kp)
{
	mutex_lock(&lock);
	if (device)
		rdma_user_mmap_disassociate(device);
	mutex_unlock(&lock);
	return 0;
}
static const struct kernel_param_ops zap_ops = { .set = zap_set };
module_param_cb(zap, &zap_ops, NULL, 0200);

static int __init fake_init(void)
{
	int nth, ret = -ENOMEM;

	memory = __get_free_pages(GFP_KERNEL | __GFP_ZERO, order_base_2(PAGES));
	if (!memory)
		return -ENOMEM;
	for (nth = 0; nth < PAGES; nth++) {
		u32 *page = (u32 *)(memory + nth * PAGE_SIZE);

		page[0] = MAGIC;
		page[1] = nth;
	}
	device = _ib_alloc_device(sizeof(*device), &init_net);
	if (!device)
		goto pages;
	device->phys_port_cnt = 1;
	device->num_comp_vectors = 1;
	device->node_type = RDMA_NODE_IB_CA;
	ib_set_device_ops(device, &ops);
	ret = ib_register_device(device, "fakem%d", NULL);
	if (!ret)
		return 0;
	ib_dealloc_device(device);
pages:
	free_pages(memory, order_base_2(PAGES));
	return ret;
}

static void __exit fake_exit(void)
{
	unplug();
	free_pages(memory, order_base_2(PAGES));
}

module_init(fake_init);
module_exit(fake_exit);
