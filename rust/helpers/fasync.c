// SPDX-License-Identifier: GPL-2.0
#include <linux/fs.h>

/* There is something to read. */
__rust_helper void rust_helper_kill_fasync_input(struct fasync_struct **list)
{
	kill_fasync(list, SIGIO, POLL_IN);
}
