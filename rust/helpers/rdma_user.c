// SPDX-License-Identifier: GPL-2.0
/* For objects of user space. */

/* The members of a zeroed context that are not zero. */
__rust_helper void rust_helper_ib_ucontext_init_members(struct ib_ucontext *context)
{
	xa_init_flags(&context->mmap_xa, XA_FLAGS_ALLOC);
}

__rust_helper bool rust_helper_user_access_ok(const void __user *at, size_t len)
{
	return access_ok(at, len);
}
