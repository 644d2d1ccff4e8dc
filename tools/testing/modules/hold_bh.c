// SPDX-License-Identifier: GPL-2.0
/*
 * Disables softirqs on the processor of whoever writes a number of milliseconds to the parameter "hold", for that long: what other
 * processors leave to this one, work items of queue pairs among it, is done afterwards.
 */
#include <linux/bottom_half.h>
#include <linux/delay.h>
#include <linux/module.h>

MODULE_DESCRIPTION("disables softirqs for a while, for tests");
MODULE_LICENSE("GPL");

#define LONGEST 1000

static int hold_set(const char *value, const struct kernel_param *param)
{
	unsigned int milliseconds;
	int error = kstrtouint(value, 0, &milliseconds);

	if (error || milliseconds > LONGEST)
		return error ?: -EINVAL;
	local_bh_disable();
	mdelay(milliseconds);
	local_bh_enable();
	return 0;
}

static const struct kernel_param_ops hold_ops = { .set = hold_set };
module_param_cb(hold, &hold_ops, NULL, 0200);
