#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Connections, lookups and groups of clients in Rust by rdma_cm, which runs on a core with management datagrams: of those who wait for
# events and of those who handle them, by IPv4 and IPv6, in the first network namespace and in others; listeners on all devices, and routes
# that decide the device. An address that moves and a device that goes are told. Nothing is left when a device goes.
# smoke: yes
# timeout: 300
# mixes: long
. "$(dirname "$0")/lib.sh"

modinfo cm_client > /dev/null 2>&1 || skip_all "cm_client is built with FERROBAND_TESTS=m"
modprobe rdma_rxe
wire_up
ip address add fd00:9::1/64 dev left nodad
rdma link add rxe0 type rxe netdev left

lines() { since_mark cm_client; }
passes() { lines | grep -c "^pass|$1\$"; }    # pattern
objects() { rdma resource show "$1" | grep -c 'comm \[cm_client\]'; }    # kind
nothing_left() {
	for kind in pd cq qp cm_id; do
		check_equal "no $kind is left" 0 "$(objects $kind)"
	done
}

told_lines() { lines | sed -n "s/^told|$1|//p" | xargs; }    # who
was_told() { [[ "$(told_lines "$1")" == "$2" ]] || { lines | grep '^told'; return 1; }; }    # who, what

mark cm_client
check "the tests run" modprobe cm_client
told_log "all tests are run" lines
check "to the end" grep -q '^done$' <(lines)
check_equal "both connections that stay have two queue pairs" 4 "$(objects qp)"
check "nobody has the service of udaddy" grep -q '^peer|udaddy|refuses: 1$' <(lines)
check "the client goes" rmmod cm_client

own=$(ip -4 -o address show dev left | sed 's/.*inet \([0-9.]*\).*/\1/')
udaddy -b "$own" > /tmp/udaddy & udaddy=$!
stdbuf -oL mckey -b "$own" -m 239.1.2.4 > /tmp/mckey 2>&1 & mckey=$!
listens() { rdma resource show cm_id | grep -q "comm $1"; }    # program
check "udaddy listens" retry 20 listens udaddy
receives() { grep -q "receiving data" /tmp/mckey; }
check "mckey receives" retry 20 receives
mark cm_client
check "the tests run beside programs" modprobe cm_client
check "udaddy tells its queue pair" grep -q '^peer|udaddy|queue pair [1-9]' <(lines)
check "mckey gets all messages" wait $mckey
check "and says so" grep -q "data transfers complete" /tmp/mckey
kill $udaddy
wait $udaddy
check "the device goes under it" rdma link delete rxe0
check "a listener without a device is told" was_told "a listener without a device" DeviceRemoval
nothing_left
check "the client goes" rmmod cm_client

# Two devices, one namespace: the way to an address may begin at the other one.
rdma link add rxe0 type rxe netdev left
rdma link add rxe1 type rxe netdev right
ip address add fd00:9::2/64 dev right nodad
mark cm_client
check "the tests run on two devices" modprobe cm_client
told_log "all tests are run on both" lines
check_equal "each finds the other one's address elsewhere" 2 "$(passes 'handlers: another device')"
check "one device goes" rdma link delete rxe0
check_equal "the connections of the other one stay" 4 "$(objects qp)"
check "the client goes" rmmod cm_client
rdma link delete rxe1

# Two devices, each in a network namespace of its own.
# A bond, whose address moves to its other net device.
modprobe bonding
ip link add one type veth peer name one_peer
ip link add two type veth peer name two_peer
for netdev in one_peer two_peer; do ip link set $netdev up; done
ip link add bond0 type bond mode active-backup miimon 50 fail_over_mac active
ip link set one master bond0
ip link set two master bond0
ip address add 10.3.0.1/24 dev bond0
ip address add fd00:3::1/64 dev bond0 nodad
ip link set bond0 up
check "the bond is up" retry 5 eval 'grep -q up /sys/class/net/bond0/operstate'
ip link set bond0 type bond active_slave one
rdma link add rxe_bond type rxe netdev bond0
check "it has a device" retry 10 grep -q 0a03:0001 /sys/class/infiniband/rxe_bond/ports/1/gids/1
mark cm_client
check "the tests run on the bond" modprobe cm_client
check "the bond's address moves" ip link set bond0 type bond active_slave two
check "a handler is told" retry 5 was_told "a handler" AddrChange
check "so is a listener without a device" retry 5 was_told "a listener without a device" AddrChange
check "the device goes" rdma link delete rxe_bond
check "who waits for events has got it" was_told "who waits" AddrChange
check "the client goes" rmmod cm_client
for netdev in bond0 one two; do ip link del $netdev; done

hosts_up
mark cm_client
check "the tests run in namespaces" modprobe cm_client
told_log "all tests are run in both" lines
check_equal "nobody is somewhere else" 0 "$(passes 'handlers: another device')"
check_equal "connections stay in both" 8 "$(objects qp)"
check "a namespace's device goes" link_down A
check "so does the other one" link_down B
nothing_left
check "the client goes" rmmod cm_client
hosts_down
finish
