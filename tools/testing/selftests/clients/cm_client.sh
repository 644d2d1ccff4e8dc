#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Connections, lookups and groups of clients in Rust by rdma_cm, which runs on a core with management datagrams: of those who wait for
# events and of those who handle them, by IPv4 and IPv6, in the first network namespace and in others. Nothing is left when a device goes.
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
