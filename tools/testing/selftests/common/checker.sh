#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The kernel's checkers work, and the reader of its log finds their reports (../modules/faulty.c): this test fails unless the
# runner has read a complaint of each kind that is provoked here. Faults that User Mode Linux does not survive are in checker_deadly.sh.
# kernels: debug uml
# provokes: lockdep WARN UBSAN refcount ODEBUG atomic-sleep kmemleak
# timeout: 60
. "$(dirname "$0")/lib.sh"

modinfo faulty > /dev/null 2>&1 || skip_all "faulty is built with FERROBAND_TESTS=m"
[ -e /proc/lockdep_stats ] || skip_all "this kernel has no lockdep (make check KERNEL=uml)"

fault() { echo "$1" > /sys/module/faulty/parameters/fault; }

check "lockdep is on" grep -q 'debug_locks: *1' /proc/lockdep_stats
check "the module loads" modprobe faulty
# Lockdep first: it switches itself off after a report, and when a kernel is tainted by others.
for name in lock_order warn ubsan_shift refcount odebug atomic_sleep leak; do
	check "$name" fault $name
done
check "lockdep is off" grep -q 'debug_locks: *0' /proc/lockdep_stats
finish
