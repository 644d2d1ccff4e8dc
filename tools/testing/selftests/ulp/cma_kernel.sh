#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The exported functions of rdma_cm, with clients in C on a device that connects to itself: identifiers and their options, each call in
# each state, local addresses and ports, addresses and routes of peers, listeners and devices that come and go under them, connections,
# private data, refusals, the end; queue pairs, datagrams, multicast groups; what handlers do, who gives an identifier up in one;
# neighbours that move, devices that go under identifiers in each state. Nothing is left.
# rows: 5.043 5.045 5.063 5.064 5.065 5.067 5.068 5.069 5.070 5.071 5.072 5.073 5.074 5.075 5.078 6.035
# rows uml: 2.050
# mixes: rdma_cm
# kernels: stock uml
# timeout: 300
# cpus: 2
. "$(dirname "$0")/lib.sh"

module=cma_test
run() { # TEST
	mark $module
	echo "$1" > /sys/module/$module/parameters/run
	told_log "$1" results
}
results() { since_mark $module | grep -E '^(pass|fail)\|'; }

# What the addresses of the tests are: those of the device, of a network device without RDMA, of a neighbour, of nobody.
net_of_tests() {
	wire_up
	ip addr add fd01::1/64 dev left nodad
	ip addr add fe80::1/64 dev left nodad
	ip neigh replace 10.1.0.50 lladdr 02:00:00:00:00:50 dev left nud permanent
	ip link add plain type dummy
	ip addr add 10.2.0.1/24 dev plain
	ip link set plain up
	ip link add second type dummy
	ip addr add 10.1.1.1/24 dev second
	ip link set second up
	ip route add unreachable 10.9.0.0/24
}

modinfo $module > /dev/null 2>&1 || skip_all "$module is built with FERROBAND_TESTS=m"
check "no other test's modules are there" modules_unload
net_of_tests
modprobe rdma_rxe && rdma link add cma0 type rxe netdev left || exit
modprobe rdma_cm || exit

strict=n
! is_ours rdma_cm || strict=y
modprobe $module strict=$strict || exit
for test in names ids states bind resolve listen connect qp datagram groups handlers storm; do run $test; done
# Port 7490 is that of RT_PORT + 19.
is_shown() { rdma resource show cm_id link cma0 | grep '10\.1\.0\.1:7490\b' | grep -q 'comm \[cma_test\]'; }
run "bound later"
check "it is shown with its owner" is_shown
run "bound no more"
check "it is shown no more" eval '! is_shown'
run neighbour
check "a neighbour moves" ip neigh replace 10.1.0.50 lladdr 02:00:00:00:00:51 dev left nud permanent
run moved
run leave
check "the device goes under identifiers" rdma link del cma0
run left
check "it comes back" rdma link add cma0 type rxe netdev left
run back
run early
check "a second device" rdma link add cma1 type rxe netdev second
run second
check "it goes" rdma link del cma1
run only
run late
mark $module
check "the tests go" modprobe -r $module
told_log "the end" results
check "rdma_cm goes" modprobe -r rdma_cm
rdma link del cma0
for netdev in left plain second; do ip link del $netdev; done
ip route del unreachable 10.9.0.0/24
check "ib_core is in use no more" modules_unload
finish
