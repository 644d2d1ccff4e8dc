#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Packets of messages pass XDP programs at the receiver (xdp_pass.c), a generic one in one buffer, a native one one by one, because the
# sender's device cuts for it: XDP copies their memory, the data is right, and each packet comes back to the queue pair that it is from.
# timeout: 120
. "$(dirname "$0")/lib.sh"

here=$(dirname "$0")

# attached HOST: a program is on its net device.
attached() { on "$1" ip -d link show dev "$(netdev "$1")" | grep -q 'prog/xdp'; }

# datagrams: how many the UDP layers of both hosts have taken.
datagrams() {
	local host sum=0
	for host in A B; do
		sum=$((sum + $(on $host awk '$1 == "Udp:" && $2 ~ /^[0-9]/ { print $2 }' /proc/net/snmp)))
	done
	echo $sum
}

hosts_up || exit
for mode in generic native; do
	programs=()
	for host in A B; do
		on_exec $host "$here/xdp_pass" $mode "$(netdev $host)" sleep 100 &
		programs+=($!)
		check "$mode: a program on $host" retry 5 attached $host
	done
	before=$(datagrams)
	check "$mode: messages" pingpong ibv_rc_pingpong -n 50 -s 65536 -m 1024 -c
	used=$(($(datagrams) - before))
	[ $mode = native ] || ! our_driver || check "$mode: whole buffers for 6400 packets" test $used -lt 1000
	V=6 check "$mode: messages, IPv6" pingpong ibv_rc_pingpong -n 50 -s 100001 -m 4096 -c
	for operation in write send; do
		known_on_stock "$mode: $operation, 16 queue pairs" perftest ib_${operation}_bw -n 100 -s 65536 -q 16
	done
	# A native program has a ring of 256 packets in front of it, and responses are not throttled.
	check "$mode: read" perftest ib_read_bw -n 100 -s 65536 -q 4 -o 1
	check "$mode: nothing is left" retry 5 no_objects
	kill "${programs[@]}"
	wait "${programs[@]}" 2> /dev/null
done
check "messages without a program" pingpong ibv_rc_pingpong -n 20 -s 65536 -m 1024 -c
# They wait for all packets in flight.
hosts_down
check "the modules go" modules_unload
finish
