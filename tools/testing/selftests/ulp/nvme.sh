#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The stock NVMe target and host (nvmet-rdma, nvme-rdma) over one device: fast registration, SEND with invalidate,
# READ and WRITE by kernel consumers, data compared.
# rows: 1.049 3.032
# timeout: 90
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

modprobe -n nvmet-rdma || skip_all "this kernel has no nvmet-rdma"
disk_up
check "a device" device_up
check "a target with a disk in memory" target_up
check "the host connects" connect
check "write 16 MiB in blocks of 4 KiB to 1 MiB" write_data
check "what lies on the target's disk is the same" same_data "$disk"
check "read it back" read_data
check "disconnect" disconnect
check "the target goes" target_down
disk_down
check "the link goes" eval 'rdma link del rxeN && ip link del vethN'
check "the driver is not used any more" retry 10 not_used rdma_rxe
finish
