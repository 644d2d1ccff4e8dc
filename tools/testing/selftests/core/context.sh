#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# All methods for any context are called in each context: by a thread, under a spin lock with interrupts off, in softirqs, in
# a hard interrupt; and in all of them at once. rules_test does so, in C; a debug kernel watches it.
# kernels: stock debug kcsan uml
# rows: 2.002
# rows uml: 1.018 2.001 2.003
# timeout: 300
# mixes: all
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/rules.bash"

# Half of the atomic allocations fail, whoever asks for them: PERCENT.
atomic_memory_is_short() (
	cd /sys/kernel/debug/failslab && echo Y > ignore-gfp-wait && echo N > task-filter && echo -1 > times &&
		echo 1 > interval && echo 0 > verbose && echo "$1" > probability
)

rules_up
# The lock of stock rdma_rxe's table of address handles is not safe for interrupts: an interrupt in the middle of making one
# must not make another, and lockdep tells so as soon as one was made in both contexts.
how=
our_driver || how=" no-storm-ah"
our_driver || [ ! -e /proc/lockdep ] || how=" no-ah"
check "the test runs" run "contexts$how"
results "all contexts are tried"
[ "$how" != " no-ah" ] || skip "address handles in interrupts" "a fault of the stock driver"

check "events are dispatched in an interrupt" run dispatch
results "and come"
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
if [ -e /sys/kernel/debug/failslab ]; then
	atomic_memory_is_short 50
	check "events are dispatched where memory is short" run "dispatch lossy"
	atomic_memory_is_short 0
	results "some are lost, and that is all"
	check "events are dispatched again" run dispatch
	results "and come again"
else
	skip "events where memory is short" "this kernel cannot make allocations fail"
fi
rules_down
finish
