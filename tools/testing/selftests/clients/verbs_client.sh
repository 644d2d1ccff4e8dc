#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# All that clients in Rust have of a device: verbs_client drives it between two devices; and with a driver, fake_verbs, that
# calls handlers from the call chains of its methods, as none should.
# kernels: stock kcsan
# timeout: 240
# mixes: all
. "$(dirname "$0")/lib.sh"

modinfo verbs_client > /dev/null 2>&1 || skip_all "verbs_client is built with FERROBAND_TESTS=m"
hosts_up
modprobe fake_verbs

# The client uses the GIDs of the addresses of the link: each host finds the other's MAC address before, which may take a second.
link_address() { on "$1" ip -6 -o addr show dev "$(netdev "$1")" scope link | sed 's/.*inet6 //; s|/.*||'; }    # host
knows() { on "$1" ping -q -c 1 -W 1 "$(link_address "$2")%$(netdev "$1")"; }                                  # host, other host
retry 20 knows A B && retry 20 knows B A

lines() { since_mark verbs_client; }
objects() { local host; for host in A B; do on $host rdma resource show $1 | grep -c 'comm \[verbs_client\]'; done; }   # kind

mark verbs_client
# The lock of stock rdma_rxe's table of address handles is not safe for interrupts.
check "the tests run" modprobe verbs_client ah_in_interrupts="$(our_driver && echo Y || echo N)"
told_log "all tests are run" lines
check "to the end" grep -q '^done$' <(lines)
for kind in pd cq qp mr srq; do
	check_equal "no $kind is left" "0 0" "$(echo $(objects $kind))"
done
check "a device goes under the client" rdma link delete rxe0
check "the client goes" rmmod verbs_client
check_equal "nothing is left of it with the driver without a device" 0 "$(cat /sys/module/fake_verbs/parameters/live)"
check "that driver goes" rmmod fake_verbs
finish
