#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Forged, cut off and random packets to UDP port 4791 (hostile_wire.py): the device stays up and works afterwards.
# timeout: 120
. "$(dirname "$0")/lib.sh"
our_driver || skip_all "the stock driver may crash the kernel"
here=$(dirname "$0")

# proof: the packets that are forged here have right ICRCs, or nothing behind the ICRC is tested.
proof() {
	local listener
	on_exec A python3 "$here/hostile_wire.py" listen rxe0 "$(gid_index A)" > /run/qpn &
	listener=$!
	retry 30 test -s /run/qpn
	on B python3 "$here/hostile_wire.py" proof 10.0.0.2 10.0.0.1 "$(cat /run/qpn)" 0x11111111
	wait $listener
}
# qp_numbers PROGRAM...: the numbers of the queue pairs that these programs have; fails where one has none.
qp_numbers() {
	local program
	for program; do rdma resource show qp | grep "comm $program" | grep -o 'lqpn [0-9]*' | cut -d' ' -f2 | grep . || return; done
}
received() { on A cat "/sys/class/net/$(netdev A)/statistics/rx_packets"; }
# storm COUNT: hostile packets to a host whose QPs are at work, and go on.
storm() {
	local server client datagrams qpns before status=0
	on_exec A timeout 100 rping -s -a 10.0.0.1 > /dev/null 2>&1 &
	server=$!
	sleep 1
	on_exec B timeout 100 rping -c -a 10.0.0.1 > /dev/null 2>&1 &
	client=$!
	on_exec A timeout 100 ibv_ud_pingpong -d rxe0 -g "$(gid_index A)" > /dev/null 2>&1 &
	datagrams=$!
	retry 10 qp_numbers rping ibv_ud_pingpong && retry 10 sends B && kill -0 $server $client $datagrams || return
	qpns=$(qp_numbers rping ibv_ud_pingpong)
	before=$(received)
	# The number 1, which general services have, is among those that the storm guesses.
	# shellcheck disable=SC2086 # a list
	on B timeout 90 python3 "$here/hostile_wire.py" storm 10.0.0.2 10.0.0.1 "$1" $qpns || status=$?
	[ "$(($(received) - before))" -ge "$1" ] || { echo "fewer packets have arrived"; status=1; }
	kill -0 $server $client $datagrams && retry 10 sends B || status=1
	kill $server $client $datagrams 2> /dev/null
	wait $server $client $datagrams
	return $status
}

hosts_up || exit
check "the ICRC of forged packets is right" proof
check "10,000 hostile packets" storm 10000
check "the port is up" eval '[ "$(cat /sys/class/infiniband/rxe0/ports/1/state)" = "4: ACTIVE" ]'
check "connections work" rdma_pair rping -s -a 10.0.0.1 -V -C 5 -- rping -c -a 10.0.0.1 -V -C 5
after_attack
