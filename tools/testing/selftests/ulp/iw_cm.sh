#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The exported functions of iw_cm, with a driver and clients in C: what may be asked for in which state, events in order and in atomic
# context, handlers that give an identifier up, who waits for whom; a driver that tells events in states in which none is expected, of
# which the stock iw_cm dies, is for ours alone. The sysctl. Nothing is left.
# mixes: all iw_cm
# kernels: stock uml
# timeout: 120
. "$(dirname "$0")/lib.sh"

module=iw_test
run() { # TEST
	mark $module
	echo "$1" > /sys/module/$module/parameters/run
	told_log "$1" results
}
results() { since_mark $module | grep -E '^(pass|fail)\|'; }

backlog=/proc/sys/net/iw_cm/default_backlog
refused() { ! echo "$1" > $backlog; } 2> /dev/null
kept() { echo "$1" > $backlog && [ "$(cat $backlog)" = "$1" ]; }

modinfo $module > /dev/null 2>&1 || skip_all "$module is built with FERROBAND_TESTS=m"
check "no other test's modules are there" modules_unload
modprobe iw_cm || exit
check_equal "the default backlog" 256 "$(cat $backlog)"
check_equal "who may set it" "644 0" "$(stat -c '%a %u' $backlog)"
check "it is set to 0" kept 0
check "it is set to the most" kept 2147483647
check "not to more" refused 2147483648
check "not to less than 0" refused -1
check "nor to text" refused many
check "it is set back" kept 256
check_equal "alias of the netlink client" rdma-netlink-subsys-2 "$(modinfo -F alias iw_cm)"

strict=n
! is_ours iw_cm || strict=y
modprobe $module strict=$strict || exit
for test in calls events storm; do run $test; done
[ $strict = n ] || run faults
check "the tests go" modprobe -r $module
check "iw_cm goes" modprobe -r iw_cm
check "the file has gone" eval "[ ! -e $backlog ]"
check "ib_core is in use no more" modules_unload
finish
