// SPDX-License-Identifier: GPL-2.0

#include <linux/slab.h>

/*
 * The kernel crate allocates, resizes and frees by this one function. That of vmlinux, which has the same name, always goes through
 * krealloc(), and so frees a null pointer after each allocation; here each goes to the function that is meant. The alignment is that
 * of kmalloc(): the crate rounds sizes up to it.
 */
__rust_helper void *__must_check __realloc_size(2)
rust_helper_krealloc_node_align(const void *objp, size_t new_size, unsigned long align,
				gfp_t flags, int node)
{
	if (!new_size) {
		kfree(objp);
		return ZERO_SIZE_PTR;
	}
	if (ZERO_OR_NULL_PTR(objp))
		return kmalloc_node_track_caller(new_size, flags, node);
	return krealloc_node_align(objp, new_size, align, flags, node);
}
