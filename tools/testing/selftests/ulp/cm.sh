#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The stock ib_cm, rdma_cm and rdma_ucm over the driver's GSI QP: the programs of librdmacm, and rsockets.
# (udpong is not among them: librdmacm makes an address handle without a GRH for itself, which RoCE refuses.)
# rows: 3.009 4.126 5.003 5.004 5.006 5.009 5.011 5.013 5.014 5.016 5.021 5.024 5.025 5.026 5.040 5.041 5.048 5.051
# rows: 5.052 5.053 5.054 5.055 5.061 5.062 5.063 5.065 5.067 5.071 5.072 5.073 5.075 5.086 5.091 5.096 5.103
# rows: 5.070 5.104 5.105 6.031 6.033 7.049 9.019
# timeout: 900
. "$(dirname "$0")/lib.sh"

# A validating rping on an address.
ping_verified() { rdma_pair rping -s -a "$1" -V -C 10 "${@:2}" -- rping -c -a "$1" -V -C 10 "${@:2}"; }

# The client of a service that does not exist is rejected (reason 8: invalid service ID).
rejected() {
	local output
	output=$(on B timeout 20 rping -c -a "$(addr A)" -p 9999 -C 1 2>&1)
	echo "$output"
	grep -q 'cma event RDMA_CM_EVENT_REJECTED, error 8' <<< "$output"
}

# A client that dies by kill -9 takes its connection with it: the server sees DISCONNECTED and ends.
client_killed() {
	local server status=0
	on_exec A timeout 20 rping -s -a "$(addr A)" -v > /run/rping.log 2>&1 &
	server=$!
	sleep 1
	on B timeout -s KILL 2 rping -c -a "$(addr A)" > /dev/null 2>&1
	wait $server || status=$?
	tail -n 2 /run/rping.log
	[ $status != 124 ] && grep -q DISCONNECT /run/rping.log
}

# A file arrives; the server is there for the next one, until it is killed.
copied() {
	local server status=0
	head -c 3000001 /dev/urandom > /tmp/rcopy
	on_exec A timeout 60 rcopy > /run/rcopy.log 2>&1 &
	server=$!
	sleep 1
	on B timeout 60 rcopy /tmp/rcopy "$(addr A):/tmp/rcopy.copy" && on A cmp /tmp/rcopy /tmp/rcopy.copy || status=$?
	kill $server
	wait $server
	rm -f /tmp/rcopy /tmp/rcopy.copy
	return $status
}

# Four receivers on one device get what B sends, also if B joins to send only; the group is joined at the net device, and IGMP
# tells it. mckey does not wait for its sends to end, so its system calls are slowed down.
multicast() {
	local group=239.1.2.4 receivers=() pid watcher status=0
	on A rm -f /run/igmp.pcap # that of the call before
	on_exec A timeout 120 tcpdump -q -nUi "$(netdev A)" -w /run/igmp.pcap igmp 2> /dev/null &
	watcher=$!
	retry 10 on A test -s /run/igmp.pcap
	for _ in 1 2 3 4; do
		on_exec A timeout 90 mckey -m $group -b "$a4" -C 5 &
		receivers+=($!)
	done
	retry 10 joined $group 4
	on B timeout 90 strace -o /dev/null -e trace=write -e inject=write:delay_enter=100000 mckey -m $group -b "$(addr B)" -s -C 5 "$@" || status=$?
	for pid in "${receivers[@]}"; do wait "$pid" || status=$?; done
	retry 5 left $group || status=1
	kill $watcher
	wait $watcher
	on A tcpdump -nvr /run/igmp.pcap 2> /dev/null | grep "$a4 > 224.0.0.22.*" -A 1 | grep "$group to_ex" || status=1
	return $status
}
joined() { on A ip maddr show dev "$(netdev A)" | grep -q "inet *$1 users $2"; }
left() { ! on A ip maddr show dev "$(netdev A)" | grep "inet *$1"; }

# A connection ends where its peer's hardware address is not found within a second when the queue pair gets its path, so these are known
# while packets are lost.
knows_mac() { on "$1" ip neigh replace "$(addr "$2")" lladdr "$(on "$2" cat "/sys/class/net/$(netdev "$2")/address")" dev "$(netdev "$1")" nud permanent; }
forgets_mac() { on "$1" ip neigh del "$(addr "$2")" dev "$(netdev "$1")"; }

# Many connections at once. The connection manager gives a request up after 69 seconds, so the time and its counters tell a slow
# machine from messages that are lost.
many_connections() {
	local started=$SECONDS status=0
	rdma_pair ucmatose -b "$a4" -c 1000 -C 1 -- ucmatose -s "$a4" -c 1000 -C 1 || status=$?
	[ $status = 0 ] || counted
	echo "$((SECONDS - started)) s"
	return $status
}
counted() { (cd /sys/class/infiniband && grep . ./*/ports/1/cm_*/* ./*/ports/1/hw_counters/* | grep -v ':0$'); }

# A request that nobody answers: the connection manager repeats it for more than a minute before it tells so.
ask_nobody() {
	on A ip neigh replace 10.0.0.88 lladdr 02:00:00:00:00:88 nud permanent dev "$(netdev A)"
	on_exec A timeout 600 ucmatose -s 10.0.0.88 -c 1 > /run/nobody.log 2>&1 &
}
# It prints when it ends.
unreachable() { retry 120 test -s /run/nobody.log && cat /run/nobody.log && grep -q 'RDMA_CM_EVENT_UNREACHABLE, error: -110' /run/nobody.log; }

hosts_up || exit
a4=$(addr A) a6=$(addr6 A)

ask_nobody
check "rping, IPv4" ping_verified "$a4"
check "rping, IPv6" ping_verified "$a6"
check "rping, 64 KiB" ping_verified "$a4" -S 60000
check "rping, the program's own QP" ping_verified "$a4" -q
LOOPBACK=yes check "rping, one device" ping_verified "$a4"
check "ucmatose" rdma_pair ucmatose -b "$a4" -c 5 -C 10 -S 1000 -- ucmatose -s "$a4" -c 5 -C 10 -S 1000
check "ucmatose, IPv6" rdma_pair ucmatose -f ipv6 -b "$a6" -c 2 -- ucmatose -f ipv6 -s "$a6" -c 2
check "ucmatose, migrated IDs" rdma_pair ucmatose -b "$a4" -c 2 -m -- ucmatose -s "$a4" -c 2 -m
check "udaddy" rdma_pair udaddy -b "$a4" -c 3 -C 10 -- udaddy -s "$a4" -c 3 -C 10
check "udaddy, IPv6" rdma_pair udaddy -f ipv6 -b "$a6" -- udaddy -f ipv6 -s "$a6"
check "rdma_server and rdma_client" rdma_pair rdma_server -- rdma_client -s "$a4"
# That of a newer rdma-core synchronizes its two processes by a socket.
listens=() connects=(-s "$a4")
if cmtime -h 2>&1 | grep -q 'controller_address'; then
	listens=(-L -b "$a4" -C "$a4" -P 2) connects=(-b "$(addr B)" -C "$a4" -P 2)
fi
LIMIT=150 check "cmtime, 300 connections" rdma_pair cmtime -c 300 "${listens[@]}" -- cmtime -c 300 "${connects[@]}"
LIMIT=400 check "ucmatose, 1,000 connections" many_connections
check "rstream" rdma_pair rstream -b "$a4" -S 4096 -C 50 -T v -- rstream -s "$a4" -S 4096 -C 50 -T v
check "rstream, non-blocking" rdma_pair rstream -b "$a4" -S 65536 -C 20 -T n -- rstream -s "$a4" -S 65536 -C 20 -T n
check "riostream" rdma_pair riostream -b "$a4" -S 4096 -C 50 -- riostream -s "$a4" -S 4096 -C 50
check "rcopy" copied
check "mckey" multicast
check "mckey, joined only to send" multicast -o
check "no such service" rejected
check "killed client" client_killed
check "and another connection" ping_verified "$a4"
knows_mac A B; knows_mac B A
netem A loss 20% && netem B loss 20%
# A ping is six messages, one after the other, and the time-out of rdma_cm's queue pairs is 2 seconds. Messages of the connection
# manager are lost as well, and sent again.
LIMIT=120 check "every fifth packet is lost" rdma_pair_lossy rping -s -a "$a4" -V -C 2 -- rping -c -a "$a4" -V -C 2
netem_off A; netem_off B
forgets_mac A B; forgets_mac B A
check "UNREACHABLE" unreachable
check "nothing is left" retry 10 no_objects
finish
