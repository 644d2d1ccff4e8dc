#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The active slave of a bond with a device of RDMA fails: programs of librdmacm are told that their hardware address has changed
# (cm_addr.c).
# rows: 5.077
# timeout: 60
. "$(dirname "$0")/lib.sh"

modules_load
modprobe bonding || exit
for side in one two; do
	ip link add $side type veth peer name peer_$side
	ip link set peer_$side up
done
# The bond has the address of the slave that is active.
ip link add bond0 type bond mode active-backup miimon 50 fail_over_mac active
ip link set one master bond0
ip link set two master bond0
ip addr add 10.3.0.1/24 dev bond0
ip link set bond0 up
check "the bond is up" retry 5 eval 'grep -q up /sys/class/net/bond0/operstate'
ip link set bond0 type bond active_slave one
rdma link add rxe_bond type rxe netdev bond0
check "it has a device" retry 10 grep -q 0a03:0001 /sys/class/infiniband/rxe_bond/ports/1/gids/1
told "the end" timeout 40 "$(dirname "$0")/cm_addr" 10.3.0.1 "ip link set bond0 type bond active_slave two"
check "nothing is left" retry 10 no_objects
rdma link del rxe_bond
ip link del bond0
ip link del one
ip link del two
finish
