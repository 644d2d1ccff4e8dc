#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Faults that are injected into send requests (verbs_inject.c): each status of a completion, on one device by copying from memory to
# memory and in packets, and between two devices; requests of the kernel. By default there is no such thing.
# rows: 3.093 3.095
# timeout: 300
. "$(dirname "$0")/lib.sh"
our_driver || skip_all "the stock driver injects no faults"

here=$(dirname "$0")
file() { echo "/sys/class/infiniband/$(dev "$1")/fault_inject"; } # host
arm() { on "$1" bash -c "echo $2 > $(file "$1")"; }               # host, words
inject() { on A timeout 80 "$here/verbs_inject" "$@"; }           # two devices with their GIDs' indices
# A user in the kernel: the status that its run ends with.
perf() {
	mark rdma_perf
	! echo "op=write iterations=200 client=rxe0" 2> /dev/null > /sys/kernel/debug/rdma_perf/run || echo "it ends well"
	since_mark rdma_perf
}
connects() { LIMIT=${1:-20} rdma_pair ucmatose -C 0 -- ucmatose -C 0 -s 10.0.0.1; } # [seconds]

[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
modprobe rdma_rxe && hosts_up || exit
check "as loaded by default: no such file" on A test ! -e "$(file A)"
check "the module tells of the parameter" eval 'modinfo -F parm rdma_rxe | grep "^fault_inject:.*(u8)$"'
for copy in 0 1; do
	hosts_down && modules_unload || fail "direct_copy=$copy: unloading"
	modprobe rdma_rxe fault_inject=1 direct_copy=$copy && hosts_up || exit
	told "direct_copy=$copy, one device: the end" inject rxe0 "$(gid_index A)" rxe0 "$(gid_index A)"
done
check_equal "the file is for root, and for writing" 200 "$(on A stat -c %a "$(file A)")"
told "two devices: the end" inject rxe0 "$(gid_index A)" rxe1 "$(gid_index B)"

mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
check "a user in the kernel" modprobe rdma_perf
for status in 19 21; do
	check "status $status" arm A "status=$status skip=50"
	check_equal "a request of it fails with it" "a request failed: status $status" "$(perf)"
done
check_equal "the next run is as without" "it ends well" "$(perf)"
check "it goes" modprobe -r rdma_perf

check "requests of any queue pair are to fail" arm B "status=21 times=1000000"
check "connections are made: those of QP1 do not" connects
check "unless it is named" arm B "status=21 times=1000000 qpn=1"
check "no connection is made" eval '! connects 3'
check "disarmed" arm B "status=0"
check "connections are made again" retry 10 connects
check "nothing is left" retry 10 no_objects
hosts_down
check "the module goes" modules_unload
modprobe rdma_rxe
finish
