#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The core warns when a device goes of which a client has left an object, and says what it is and whose; and a client that deallocates a
# protection domain that is in use is warned, and keeps it.
# rows: 1.020 2.012
# mixes: all
# allows: *restrack: BUG: PD * of rxe0 is left, which * has not freed in *7ib_core6device7dealloc()
# allows: WARNING: *restrack* in rdma_restrack_clean()
# allows: WARNING: *rxe_pool* in rxe_pool_cleanup()
# allows: WARNING: *ib_verbs.h* in leaky_busy()
# timeout: 60
. "$(dirname "$0")/lib.sh"

module=leaky_client
modinfo $module > /dev/null 2>&1 || skip_all "$module is built with FERROBAND_TESTS=m"
modprobe rdma_rxe
wire_up

# reports: what the kernel says from the last mark on.
reports() { dmesg | tac | sed "/$module: mark/q" | tac; }
# device_goes N: a device comes and goes, with the client there or not.
device_goes() {
	local name=rxe0
	mark $module
	rdma link add $name type rxe netdev left && retry 5 test -e /sys/class/infiniband/$name && "$@" && rdma link delete $name
}
warns() { reports | grep '^\S* *\[.*\] WARNING: .*restrack'; }
names() { reports | grep 'restrack: BUG: PD [0-9]* of rxe0 is left, which '"$1"' has not freed'; }
silent() { ! reports | grep -e WARNING -e 'restrack: BUG'; }

check "a client comes that frees its objects" modprobe $module
check "a device comes and goes" device_goes true
check "there is no warning" silent
echo Y > /sys/module/$module/parameters/leaves
check "the device goes again, and the client leaves a PD" device_goes true
check "the core warns" retry 5 warns
known_on ib_core "it says what was left, and by whom" names $module
echo N > /sys/module/$module/parameters/leaves
check "a device comes and goes once more" device_goes true
check "there is no more to warn of" silent
check "the client goes" modprobe -r $module

modprobe $module leaves=Y
check "the client goes before the device" device_goes modprobe -r $module
check "the core warns then too" retry 5 warns
known_on ib_core "the name has gone with the client" names '.*'

# Stock frees it under its users.
if is_ours ib_core; then
	check "a client that deallocates a domain in use" device_goes modprobe $module busy=Y
	check "is warned" eval 'reports | grep "WARNING: .*ib_verbs.h"'
	check "the domain has its user, until that goes" eval "reports | grep '$module: users: 1, then 0$'"
	check "without users it goes without a warning" eval "! reports | grep 'restrack: BUG'"
	check "so does the client" modprobe -r $module
fi
ip link delete left
finish
