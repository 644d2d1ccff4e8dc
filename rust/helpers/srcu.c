// SPDX-License-Identifier: GPL-2.0
#include <linux/srcu.h>

__rust_helper int rust_helper_srcu_read_lock(struct srcu_struct *ssp)
{
	return srcu_read_lock(ssp);
}

__rust_helper void rust_helper_srcu_read_unlock(struct srcu_struct *ssp, int index)
{
	srcu_read_unlock(ssp, index);
}

/* A macro where lockdep is on. */
__rust_helper int rust_helper_srcu_struct_init(struct srcu_struct *ssp)
{
	return init_srcu_struct(ssp);
}
