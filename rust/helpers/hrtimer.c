// SPDX-License-Identifier: GPL-2.0

__rust_helper bool rust_helper_hrtimer_is_queued(struct hrtimer *timer)
{
	return hrtimer_is_queued(timer);
}
