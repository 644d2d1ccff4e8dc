#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Each allocation of the kernel fails in turn, inside of each command of RDMA netlink (faults_netlink.c): queries, rename, link
# add and delete, namespaces; and when the net device gets another name. There is an error or an answer; no device is there by
# half, nothing is left behind.
# Only a kernel with fault injection can do it.
# kernels: debug uml
# mix: ib_core rdma_rxe
# mixes: all
# timeout: 100
# allows: faults_netlink: vmalloc error: size *
# allows: faults_netlink: page allocation failure: order:*
# allows: kobject: kobject_add_internal failed for * (error: -12 parent: *)
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")
. "$here/faults_lib.sh"

faults_on
modules_load
told "modes of namespaces: the end" timeout 300 "$here/faults_netlink" none
retry 10 rdma system set netns exclusive
# A new device belongs to the first namespace. Stock refuses to move it.
ip netns add S
ip link add mover type veth peer name revom
ip link set mover up
rdma link add rxe9 type rxe netdev mover
faults_in ib_core || exit
# Where that fails, the device's folder stays in one namespace and the link to it is in the other: nobody can mend it.
faults_not_in device_rename || exit
told "namespaces: the end" "$here/faults_netlink" rxe9 /run/netns/S
faults_in ib_core '3mad4port.*6Client3add$' || exit
told "namespaces, ports of MADs: the end" "$here/faults_netlink" rxe9 /run/netns/S
faults_everywhere
rdma link delete rxe9
ip link del mover
ip netns del S
check "the mode is as it was" retry 20 rdma system set netns shared

net_up && link_up A || exit
on A ip link add spare type veth peer name other
on A ip link set other up
on A ip link set spare up
on A ip addr add 10.2.0.1/24 dev spare
told "netlink: the end" on A "$here/faults_netlink" rxe0 queries
told "net device: the end" on A "$here/faults_netlink" rxe0 netdev "$(on A cat /sys/class/infiniband/rxe0/parent)"
faults_in rdma_rxe || exit
told "links: the end" on A "$here/faults_netlink" rxe0 link spare
faults_everywhere
link_up B
check "the devices work" pingpong ibv_rc_pingpong -n 50 -c
check "nothing is left" retry 10 no_objects
link_down A
link_down B
check "the modules go" modules_unload
finish
