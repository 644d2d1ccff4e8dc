// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/fake_pmem: ordinary memory that the kernel's list of resources calls persistent, for programs to map. To drivers it is persistent
 * memory; what becomes of it when the power goes, nobody can try.
 */
#include <linux/fs.h>
#include <linux/ioport.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>

MODULE_DESCRIPTION("memory that is called persistent, for tests");
MODULE_LICENSE("GPL");

#define ORDER 4

static struct page *pages;
static struct resource resource = { .name = "fake persistent memory", .flags = IORESOURCE_MEM, .desc = IORES_DESC_PERSISTENT_MEMORY };

static int map(struct file *file, struct vm_area_struct *vma)
{
	unsigned long at = vma->vm_start;
	int error = 0;

	if (vma->vm_pgoff || vma_pages(vma) > 1 << ORDER || !(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	for (unsigned long i = 0; !error && i < vma_pages(vma); i++, at += PAGE_SIZE)
		error = vm_insert_page(vma, at, pages + i);
	return error;
}

static const struct file_operations operations = { .owner = THIS_MODULE, .mmap = map };
static struct miscdevice device = { .minor = MISC_DYNAMIC_MINOR, .name = "fake_pmem", .fops = &operations };

static int __init fake_pmem_init(void)
{
	int error = -ENOMEM;

	/* One allocation, whose pages have counts of their own. */
	pages = alloc_pages(GFP_KERNEL | __GFP_ZERO, ORDER);
	if (!pages)
		return error;
	split_page(pages, ORDER);
	resource.start = page_to_phys(pages);
	resource.end = resource.start + (PAGE_SIZE << ORDER) - 1;
	error = insert_resource(&iomem_resource, &resource);
	if (error)
		goto free;
	error = misc_register(&device);
	if (!error)
		return 0;
	remove_resource(&resource);
free:
	for (int i = 0; i < 1 << ORDER; i++)
		__free_page(pages + i);
	return error;
}
module_init(fake_pmem_init);

static void __exit fake_pmem_exit(void)
{
	misc_deregister(&device);
	remove_resource(&resource);
	for (int i = 0; i < 1 << ORDER; i++)
		__free_page(pages + i);
}
module_exit(fake_pmem_exit);
