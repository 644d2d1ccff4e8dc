#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A driver refuses calls by which a client in Rust ends its objects (failing_ops): what the driver still knows stays, and goes
# when the client does; each request is handled once. And queue pairs wait for what has come from a shared receive queue.
# kernels: stock uml
# timeout: 120
. "$(dirname "$0")/lib.sh"

modinfo verbs_client > /dev/null 2>&1 || skip_all "verbs_client is built with FERROBAND_TESTS=m"
hosts_up

link_address() { on "$1" ip -6 -o addr show dev "$(netdev "$1")" scope link | sed 's/.*inet6 //; s|/.*||'; }    # host
knows() { on "$1" ping -q -c 1 -W 1 "$(link_address "$2")%$(netdev "$1")"; }                                  # host, other host
retry 20 knows A B && retry 20 knows B A

parameters=/sys/module/failing_ops/parameters
lines() { since_mark verbs_client; }
# objects: how many of the client there are.
objects() { local host kind; for host in A B; do for kind in pd cq qp mr srq; do on $host rdma resource show $kind; done; done |
	grep -c 'comm \[verbs_client\]'; }

# refused METHOD: the driver refuses it three times.
refused() {
	echo 3 > "$parameters/$1"
	mark verbs_client
	check "$1 is refused" modprobe verbs_client part=2
	told "with $1 refused, all tests are run" lines
	check "with $1 refused, something is kept" [ "$(objects)" -gt 0 ]
	check "with $1 refused, the client goes" rmmod verbs_client
	check_equal "with $1 refused, nothing is left" 0 "$(objects)"
	check_equal "with $1 refused, each request is handled" 4 "$(lines | grep -c '^  handled')"
	check_equal "$1 was refused" 0 "$(cat "$parameters/$1")"
	echo 0 > "$parameters/$1"
}

mark verbs_client
check "shared receive queues" modprobe verbs_client part=1
told "all tests are run" lines
check "the client goes" rmmod verbs_client
check "methods can fail" modprobe failing_ops
for method in modify_qp post_send post_recv destroy_qp destroy_cq destroy_srq dereg_mr; do
	refused $method
done
rmmod failing_ops
check "the last event comes late" modprobe failing_ops last_wqe_delay=500
mark verbs_client
check "it is waited for" modprobe verbs_client part=2
told "all tests are run" lines
check "the client goes" rmmod verbs_client
check "methods are as they were" rmmod failing_ops
finish
