#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The checkers of the debug kernel are awake, and the reader of its log sees what they say (../modules/faulty.c): this test
# fails unless the runner has read a complaint of each kind that is provoked here.
# kernels: debug
# provokes: lockdep WARN UBSAN refcount ODEBUG atomic-sleep kmemleak slab list oops
# timeout: 60
. "$(dirname "$0")/lib.sh"

modinfo faulty > /dev/null 2>&1 || skip_all "faulty is built with FERROBAND_TESTS=m"
[ -e /proc/lockdep_stats ] || skip_all "this kernel has no lockdep (make check KERNEL=debug)"

fault() { echo "$1" > /sys/module/faulty/parameters/fault; }

check "lockdep is on" grep -q 'debug_locks: *1' /proc/lockdep_stats
check "the module loads" modprobe faulty
# Lockdep first: it switches itself off after a report, and when a kernel is tainted by others.
for name in lock_order warn ubsan_shift refcount odebug atomic_sleep leak slab; do
	check "$name" fault $name
done
# The thread that does it does not live to tell.
for name in list oops; do check_fails "$name" fault $name; done
check "lockdep is off" grep -q 'debug_locks: *0' /proc/lockdep_stats
finish
