#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The exported functions of rdma_cm on a device of iWARP, siw: which identifiers may have it, connections by iw_cm with their private
# data, refusals, the names of their reasons, what there is for InfiniBand alone. Nothing is left.
# mixes: long
# timeout: 120
. "$(dirname "$0")/lib.sh"

module=cma_test
run() { # TEST
	mark $module
	echo "$1" > /sys/module/$module/parameters/run
	told_log "$1" results
}
results() { since_mark $module | grep -E '^(pass|fail)\|'; }

modinfo $module > /dev/null 2>&1 || skip_all "$module is built with FERROBAND_TESTS=m"
modprobe -qn siw || skip_all "there is no siw for this kernel"
check "no other test's modules are there" modules_unload
ip link add third type dummy
ip addr add 10.1.2.1/24 dev third
ip link set third up
modprobe siw && rdma link add cmi0 type siw netdev third || exit
modprobe $module || exit
run iwarp
check "the device goes" rdma link del cmi0
mark $module
check "the tests go" modprobe -r $module
told_log "the end" results
check "siw goes" modprobe -r siw
ip link del third
check "the modules go" modules_unload
finish
