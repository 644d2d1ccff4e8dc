#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The exported functions of rdma_cm on a fake device of InfiniBand with two ports: GIDs as addresses, paths and services of the subnet
# administrator, a connection between the ports, an administrator that knows neither, multicast groups that it lets a port join and that
# it refuses. Nothing is left.
# rows: 5.076
# mixes: all
# kernels: stock uml
# timeout: 120
. "$(dirname "$0")/lib.sh"

module=cma_test
run() { # TEST
	mark $module
	echo "$1" > /sys/module/$module/parameters/run
	told_log "$1" results
}
results() { since_mark $module | grep -E '^(pass|fail)\|'; }
subnet() { echo "$*" > /sys/module/fake_ib/parameters/do; }

modinfo $module > /dev/null 2>&1 || skip_all "$module is built with FERROBAND_TESTS=m"
check "no other test's modules are there" modules_unload
modprobe -a rdma_cm fake_ib || exit
device=/sys/class/infiniband/fakeib0
check "its ports are up" retry 5 eval "grep -q ACTIVE $device/ports/1/state && grep -q ACTIVE $device/ports/2/state"
modprobe $module gids="$(cat $device/ports/1/gids/0),$(cat $device/ports/2/gids/0)" || exit
run ib
subnet services 2
run services
subnet services 0
run "no services"
subnet sastatus 0x300
run "no paths"
subnet sastatus 0
run "IB net device"
check "its address" ip addr add 10.3.0.1/24 dev likeipoib
check "it is up" ip link set likeipoib up
run "IB groups"
subnet sastatus 0x200
run "no IB groups"
subnet sastatus 0
run "IB groups again"
mark $module
check "the tests go" modprobe -r $module
told_log "the end" results
check "the device goes" rmmod fake_ib
check "the modules go" modules_unload
finish
