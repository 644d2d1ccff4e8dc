#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The debug kernel reports memory that is overwritten, and goes on after an oops, and the reader of its log finds the reports
# (../modules/faulty.c): this test fails unless the runner has read a complaint of each kind that is provoked here. User Mode Linux
# ends with an oops; there kasan.sh provokes a wrong access.
# kernels: debug
# provokes: slab list oops
# timeout: 60
. "$(dirname "$0")/lib.sh"

modinfo faulty > /dev/null 2>&1 || skip_all "faulty is built with FERROBAND_TESTS=m"
[ "$(cat /sys/kernel/slab/kmalloc-32/red_zone 2> /dev/null)" = 1 ] || skip_all "this kernel has no red zones (make check KERNEL=debug)"

fault() { echo "$1" > /sys/module/faulty/parameters/fault; }

check "the module loads" modprobe faulty
check "slab" fault slab
# The thread that does it does not live to tell.
for name in list oops; do check_fails "$name" fault $name; done
finish
