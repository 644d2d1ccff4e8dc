#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The connection manager asks the subnet administrator for routes, and tells how that ended (cm_route.c): on a fake InfiniBand device.
# rows: 5.066
# mixes: all
# timeout: 60
. "$(dirname "$0")/lib.sh"

modinfo fake_ib > /dev/null 2>&1 || skip_all "fake_ib is built with FERROBAND_TESTS=m"
# Of several devices with the prefix of an address, the connection manager takes the first one.
for device in /sys/class/infiniband/*; do
	[ ! -e "$device" ] || rdma link del "${device##*/}"
done
modprobe -a rdma_rxe rdma_ucm fake_ib
retry 5 test -c /dev/infiniband/rdma_cm
device=/sys/class/infiniband/fakeib0
check "its ports are up" retry 5 eval "grep -q ACTIVE $device/ports/1/state && grep -q ACTIVE $device/ports/2/state"
told "routes: the end" timeout 50 "$(dirname "$0")/cm_route" /sys/module/fake_ib/parameters/do "$(cat $device/ports/2/gids/0)"
check_equal "no identifier is left" 0 "$(rdma resource show cm_id | wc -l)"
check "the connection manager goes" modprobe -r rdma_ucm
check "the device goes" rmmod fake_ib
finish
