#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A driver refuses calls by which a client in Rust ends its objects (failing_ops): what the driver still knows stays, and goes
# when the client does, and the log says so; each request is handled once. An allocation fails meanwhile, where the kernel can do
# that. A completion queue that the core polls stays if it is refused. And queue pairs wait for what has come from a shared receive
# queue.
# kernels: uml
# kernels long: stock
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

# log: what the kernel has said since the mark.
log() { dmesg | awk '/verbs_client: mark$/ { said = ""; next } { said = said $0 "\n" } END { printf "%s", said }'; }
# stays ERROR: the log says that an object has not gone, once for a device.
stays() { log | grep "rxe[01]: .* of verbs_client is not destroyed, and stays: $1\$"; }

# refused METHOD ERRNO: the driver refuses it three times, with that error.
refused() {
	local with="with $1 refused ($2)"
	echo 3 > "$parameters/$1"
	echo "$2" > $parameters/error
	mark verbs_client
	check "$with, it runs" modprobe verbs_client part=2
	told_log "$with, all tests are run" lines
	check "$with, something is kept" [ "$(objects)" -gt 0 ]
	check "$with, the log says so" stays "-$2"
	check "$with, the client goes" rmmod verbs_client
	check_equal "$with, nothing is left" 0 "$(objects)"
	check_equal "$with, each request is handled" 4 "$(lines | grep -c '^  handled')"
	check_equal "$1 was refused ($2)" 0 "$(cat "$parameters/$1")"
	echo 0 > "$parameters/$1"
}

mark verbs_client
check "shared receive queues" modprobe verbs_client part=1
told_log "all tests are run" lines
check "the client goes" rmmod verbs_client
check "methods can fail" modprobe failing_ops
for method in modify_qp post_send post_recv destroy_qp destroy_cq destroy_srq dereg_mr; do
	refused $method 5
done
# A driver is short of memory while a queue pair is drained, and it or its queue destroyed.
for method in modify_qp post_send post_recv destroy_qp destroy_cq; do
	refused $method 12
done

# A queue that the core polls is given up by its client even so: its memory stays, since the driver still has it.
if is_ours ib_core && [ -e /sys/kernel/debug/kmemleak ]; then
	skip "queues that the core polls stay" "kmemleak reports their memory"
elif is_ours ib_core; then
	echo 2 > $parameters/destroy_polled_cq
	mark verbs_client
	check "queues that the core polls stay" modprobe verbs_client part=2
	told_log "with such queues, all tests are run" lines
	check "the client goes" rmmod verbs_client
	check_equal "nothing is left of it" 0 "$(objects)"
	check_equal "two queues were refused" 0 "$(cat $parameters/destroy_polled_cq)"
	check_equal "the log says so of both" 2 "$(log | grep -c 'a completion queue of the kernel cannot be destroyed')"
	check "the driver destroys them later" rmmod failing_ops
	modprobe failing_ops
fi

# in_need PARAMETER N [SKIP]: the N-th allocation fails while the client ends its objects: they go at once, or with the client. False if
# there are fewer allocations.
in_need() {
	local name="allocation $2 of $1, after ${3:-0}"
	echo "${3:-0}" > $parameters/skip
	echo "$2" > "$parameters/$1"
	mark verbs_client
	check "$name: it runs" modprobe verbs_client part=2
	told_log "$name: all tests are run" lines
	check "$name: the client goes" rmmod verbs_client
	check_equal "$name: nothing is left" 0 "$(objects)"
	check_equal "$name: each request is handled" 4 "$(lines | grep -c '^  handled')"
	[ "$(cat "$parameters/$1")" = 0 ]
}
# The stock driver does not recover.
if our_driver && [ -e /proc/self/fail-nth ]; then
	. "$(dirname "$0")/faults_lib.sh"
	faults_on
	for after in 0 1 2; do
		nth=1
		while in_need fail_qp $nth $after; do nth=$((nth + 1)); done
	done
	nth=1
	while in_need fail_cq $nth; do nth=$((nth + 1)); done
	echo 0 > $parameters/fail_qp
	echo 0 > $parameters/fail_cq
fi

rmmod failing_ops
check "the last event comes late" modprobe failing_ops last_wqe_delay=500
mark verbs_client
check "it is waited for" modprobe verbs_client part=2
told_log "all tests are run" lines
check "the client goes" rmmod verbs_client
check "methods are as they were" rmmod failing_ops
finish
