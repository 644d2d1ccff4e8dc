# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# What context.sh and callbacks.sh share: a device on one end of a wire, and rules_test.

module=rules_test

# since: what it has said since it was run.
since() { since_mark $module; }
# run COMMAND: see rules_test/main.c.
run() { mark $module; echo "$1" > /sys/module/$module/parameters/run; }
results() { told_log "$1" _results; } # NAME
_results() { since | grep -E '^(pass|fail)\|'; }

rules_up() {
	modinfo $module > /dev/null 2>&1 || skip_all "$module is built with FERROBAND_TESTS=m"
	modprobe rdma_rxe
	wire_up
	rdma link add rxe0 type rxe netdev left
	retry 10 modprobe $module device=rxe0 || diagnose <<< "$(dmesg | tail)"
}

rules_down() {
	check "nothing is left" rmmod $module
	check "the device goes" rdma link delete rxe0
	ip link delete left
}
