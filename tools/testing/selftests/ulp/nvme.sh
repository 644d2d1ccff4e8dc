#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The stock NVMe target and host (nvmet-rdma, nvme-rdma) over one device: fast registration, SEND with invalidate,
# READ and WRITE by kernel consumers, data compared. Then the device goes under them, and under rping and perftest.
# rows: 1.049 2.014 3.032
# timeout: 150
# cpus: 2
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/nvme.bash"

# The kernel's target and host live in the initial namespace.
device_up() {
	modprobe -a rdma_rxe rdma_ucm && ip link add vethN type veth peer name vethM || return
	ip addr add 10.0.9.1/24 dev vethN
	ip link set vethM mtu 4200 up
	ip link set vethN mtu 4200 up
	rdma link add rxeN type rxe netdev vethN && retry 5 grep -qs '0a00:0901' /sys/class/infiniband/rxeN/ports/1/gids/*
}

# all_begin: programs with connections and with queue pairs of their own, and a reader of the disk; their processes are in $programs
# and $reader.
all_begin() {
	local index
	index=$(grep -ls ':ffff:0a00:0901' /sys/class/infiniband/rxeN/ports/1/gids/* | head -1)
	timeout 60 rping -s -a 10.0.9.1 > /dev/null 2>&1 &
	programs=($!)
	timeout 60 ib_write_bw -F -d rxeN -x "${index##*/}" -D 50 > /dev/null 2>&1 &
	programs+=($!)
	retry 10 eval 'ss -Hltn "sport = :18515" | grep -q .' || return
	timeout 60 ib_write_bw -F -d rxeN -x "${index##*/}" -D 50 10.0.9.1 > /dev/null 2>&1 &
	programs+=($!)
	timeout 60 rping -c -a 10.0.9.1 > /dev/null 2>&1 &
	programs+=($!)
	timeout 60 sh -c 'while dd if=/dev/nvme0n1 of=/dev/null bs=64k iflag=direct status=none; do :; done' 2> /dev/null &
	reader=$!
}
# all_at_work: each program has its queue pair, none has ended, and the disk is read.
reads() { awk '{ print $1 }' /sys/block/nvme0n1/stat; }
all_at_work() {
	local before
	[ "$(rdma resource show qp | grep -c "link rxeN.*comm rping")" = 2 ] && [ "$(rdma resource show qp | grep -c "link rxeN.*comm ib_write_bw")" = 2 ] &&
		kill -0 "${programs[@]}" $reader && before=$(reads) && sleep 0.5 && [ "$(reads)" -gt "$before" ]
}
# goes_under_all: the stock driver waits until programs have closed their files: they end soon after.
goes_under_all() {
	local deleter status=0
	timeout 60 rdma link del rxeN &
	deleter=$!
	sleep 2
	kill "${programs[@]}" 2> /dev/null
	wait "${programs[@]}"
	wait $deleter || return
	wait $reader || status=$?
	[ ! -e /sys/class/infiniband/rxeN ] && [ ! -e /sys/class/nvme/nvme0 ] && [ $status != 124 ]
}

modprobe -n nvmet-rdma || skip_all "this kernel has no nvmet-rdma"
disk_up
check "a device" device_up
check "a target with a disk in memory" target_up
check "the host connects" connect
check "write 16 MiB in blocks of 4 KiB to 1 MiB" write_data
check "what lies on the target's disk is the same" same_data "$disk"
check "read it back" read_data
check "disconnect" disconnect
check "the host connects again" connect
all_begin
check "the disk is read, and programs use the device" retry 10 all_at_work
if goes_under_all; then pass "the device goes under all of them"; else fail "the device goes under all of them"; fi
check "the target goes" target_down
disk_down
ip link del vethN
check "the driver is not used any more" retry 10 not_used rdma_rxe
finish
