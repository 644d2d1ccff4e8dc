#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The samples for connections: the smallest listener and the smallest connector, in two network namespaces. Programs reach the listener too,
# by IPv4 and IPv6. Devices go under both.
# timeout: 120
# mixes: long
. "$(dirname "$0")/lib.sh"

modinfo listener_rust > /dev/null 2>&1 || skip_all "the samples are built with FERROBAND_TESTS=m"
hosts_up

said() { since_mark "$1" | grep -c "^$2"; }    # module, pattern
has_said() { [ "$(said "$1" "$2")" -ge "$3" ]; }    # module, pattern, count
objects() { rdma resource show "$1" | grep -c "comm \[$2\]"; }    # kind, module
listens_at() { rdma resource show cm_id | grep -F "comm [listener_rust]" | grep -qF "src-addr $1:7471"; }    # address
# A program connects; it does not get what it waits for.
program() { timeout -k 2 5 ip netns exec B rping -c -a "$1" -p 7471 -C 1; true; }    # address

mark listener_rust
check "the listener is loaded" modprobe listener_rust
for host in A B; do
	check "it listens on $host, by IPv4" listens_at "$(addr $host)"
	check "and by IPv6" listens_at "$(addr6 $host)"
done
mark connector_rust
check "the connector is loaded" modprobe connector_rust peer=0x0a000001
check "both hosts have sent a message" retry 10 has_said connector_rust "sent: Success" 2
check "the listener has received both" retry 10 has_said listener_rust "received: hello" 2
check_equal "each connector has a queue pair" 2 "$(objects qp connector_rust)"
check_equal "the listener has one for each" 2 "$(objects qp listener_rust)"
check "one host's device goes" link_down B
check "the listener sees it" retry 10 has_said listener_rust Disconnected 1
check_equal "the other one has its connection" 1 "$(objects qp connector_rust)"
link_up B
check "the device that comes again connects" retry 10 has_said connector_rust "sent: Success" 3
check "and is heard" retry 10 has_said listener_rust "received: hello" 3
check "the connector is unloaded" rmmod connector_rust
check "the listener sees it" retry 10 has_said listener_rust Disconnected 3

established=$(said listener_rust Established)
program "$(addr A)"
check "a program connects" retry 10 has_said listener_rust Established $((established + 1))
program "$(addr6 A)"
check "so it does by IPv6" retry 10 has_said listener_rust Established $((established + 2))
check "both are seen to go" retry 10 has_said listener_rust Disconnected 5

check "the connector is loaded again" modprobe connector_rust peer=0x0a000001
check "the listener goes under it" rmmod listener_rust
check_equal "it has nothing left" 0 "$(($(objects qp listener_rust) + $(objects cm_id listener_rust)))"
check "the connector is unloaded" rmmod connector_rust
check "it finds nobody" modprobe connector_rust peer=0x0a000001
check_equal "so it has nothing" 0 "$(objects qp connector_rust)"
check "it is unloaded" rmmod connector_rust
check_equal "nothing is left" 0 "$(rdma resource show cm_id | grep -c '_rust\]')"
hosts_down
finish
