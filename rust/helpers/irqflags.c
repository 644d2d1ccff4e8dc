// SPDX-License-Identifier: GPL-2.0
#include <linux/irqflags.h>

__rust_helper unsigned long rust_helper_local_irq_save(void)
{
	unsigned long flags;

	local_irq_save(flags);
	return flags;
}

__rust_helper void rust_helper_local_irq_restore(unsigned long flags)
{
	local_irq_restore(flags);
}
