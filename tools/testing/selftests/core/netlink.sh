#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# RDMA netlink: every command of nldev, with good and bad attributes, answers as on the stock modules (netlink_dump.py,
# netlink-expected.txt), attribute by attribute; and so do the notices that `rdma monitor` listens to.
# mix: ib_core
# mixes: long
# timeout: 240
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")

device_up() {
	ip link add vethS address 02:00:00:00:00:0a type veth peer name vethT
	ip link set vethT mtu 4200 up
	ip link set vethS mtu 4200 up
	ip addr add 10.0.3.1/24 dev vethS
	rdma link add rxe9 type rxe netdev vethS
	retry 5 grep -qs '0a00:0301' /sys/class/infiniband/rxe9/ports/1/gids/*
}

# Of the devices only ours is there, whether or not the MAD layer has QPs of its own.
modules_unload
modprobe -a rdma_rxe ib_uverbs
device_up || exit
# Our driver has XRC besides (Documentation/differences.md), which its capabilities say.
dump() (
	set -o pipefail
	"$here/netlink_dump.py" rxe9 | sed "$(our_driver && echo 's/^\( *CAP_FLAGS: 0x1c001\)3/\12/')"
)
as_recorded "$here/netlink-expected.txt" dump
rdma link del rxe9
ip link del vethS
finish
