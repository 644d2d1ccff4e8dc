// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/fake_dmabuf: each open file is a DMA buffer, which can be revoked.
 *
 *   read(), of an int: a file descriptor of the buffer
 *   write(): "revoke" revokes it, and fills its pages with 0xa5, as if they belonged to somebody else now;
 *            "check" fails with EIO if they have been written to since
 */
#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/fs.h>
#include <linux/iosys-map.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

MODULE_DESCRIPTION("DMA buffers that can be revoked, for tests");
MODULE_LICENSE("GPL");
MODULE_IMPORT_NS("DMA_BUF");

#define SIZE (64 * PAGE_SIZE)
#define STRANGE 0xa5

struct buffer {
	struct dma_buf *buf;
	char *memory;
	bool revoked;
};

static int pin(struct dma_buf_attachment *attach)
{
	struct buffer *buffer = attach->dmabuf->priv;

	return buffer->revoked ? -ENODEV : 0;
}

static void unpin(struct dma_buf_attachment *attach)
{
}

static struct sg_table *map(struct dma_buf_attachment *attach, enum dma_data_direction way)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static void unmap(struct dma_buf_attachment *attach, struct sg_table *table, enum dma_data_direction way)
{
}

static int map_kernel(struct dma_buf *buf, struct iosys_map *map)
{
	struct buffer *buffer = buf->priv;

	iosys_map_set_vaddr(map, buffer->memory);
	return 0;
}

static int map_user(struct dma_buf *buf, struct vm_area_struct *vma)
{
	struct buffer *buffer = buf->priv;

	return remap_vmalloc_range(vma, buffer->memory, vma->vm_pgoff);
}

static void release_buffer(struct dma_buf *buf)
{
	struct buffer *buffer = buf->priv;

	vfree(buffer->memory);
	kfree(buffer);
}

static const struct dma_buf_ops buffer_ops = {
	.pin = pin, .unpin = unpin, .map_dma_buf = map, .unmap_dma_buf = unmap, .vmap = map_kernel, .mmap = map_user,
	.release = release_buffer,
};

static int open(struct inode *inode, struct file *file)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct buffer *buffer = kzalloc(sizeof(*buffer), GFP_KERNEL);

	if (!buffer)
		return -ENOMEM;
	buffer->memory = vmalloc_user(SIZE);
	if (!buffer->memory) {
		kfree(buffer);
		return -ENOMEM;
	}
	info.ops = &buffer_ops;
	info.size = SIZE;
	info.flags = O_RDWR | O_CLOEXEC;
	info.priv = buffer;
	buffer->buf = dma_buf_export(&info);
	if (IS_ERR(buffer->buf)) {
		int error = PTR_ERR(buffer->buf);

		vfree(buffer->memory);
		kfree(buffer);
		return error;
	}
	file->private_data = buffer;
	return 0;
}

static int release(struct inode *inode, struct file *file)
{
	struct buffer *buffer = file->private_data;

	dma_buf_put(buffer->buf);
	return 0;
}

static ssize_t give(struct file *file, char __user *to, size_t length, loff_t *at)
{
	struct buffer *buffer = file->private_data;
	int fd;

	if (length != sizeof(fd))
		return -EINVAL;
	get_dma_buf(buffer->buf);
	fd = dma_buf_fd(buffer->buf, O_CLOEXEC);
	if (fd < 0) {
		dma_buf_put(buffer->buf);
		return fd;
	}
	return copy_to_user(to, &fd, sizeof(fd)) ? -EFAULT : sizeof(fd);
}

static ssize_t command(struct file *file, const char __user *from, size_t length, loff_t *at)
{
	struct buffer *buffer = file->private_data;
	char name[16] = "";
	ssize_t result = length;

	if (length >= sizeof(name) || copy_from_user(name, from, length))
		return -EFAULT;
	dma_resv_lock(buffer->buf->resv, NULL);
	if (!strcmp(name, "revoke")) {
		buffer->revoked = true;
		dma_buf_invalidate_mappings(buffer->buf);
		memset(buffer->memory, STRANGE, SIZE);
	} else if (strcmp(name, "check")) {
		result = -EINVAL;
	} else if (memchr_inv(buffer->memory, STRANGE, SIZE)) {
		result = -EIO;
	}
	dma_resv_unlock(buffer->buf->resv);
	return result;
}

static const struct file_operations operations = {
	.owner = THIS_MODULE, .open = open, .release = release, .read = give, .write = command,
};
static struct miscdevice device = { .minor = MISC_DYNAMIC_MINOR, .name = "fake_dmabuf", .fops = &operations };
module_misc_device(device);
