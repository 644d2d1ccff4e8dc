#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Connections over siw whose programs are killed, on either side, links that go under them, and peers that break the protocol
# (iw_peer.py): they have asked to be the first to send, and go away, or send what is no message; the stock iw_cm ends the kernel then, so
# that this is for ours alone. Nothing is left, and iw_cm can be unloaded.
# timeout: 300
# long: 1800 ROUNDS=200
# cpus: 2
. "$(dirname "$0")/lib.sh"

here=$(dirname "$0")
siws_up() { on A rdma link add siwA type siw netdev "$(netdev A)" && siw_b_up; }
siw_b_up() { on B rdma link add siwB type siw netdev "$(netdev B)"; }
# one ROUND: a server and a client, of which one is killed, or both; in each fifth round the link of the client goes before. Not while
# they connect: siw takes the end of a connection that it has not accepted for that of its listener, which it uses after it is freed.
one() {
	local server client
	on_exec A stdbuf -oL rping -s -v -a "$a4" > /run/rping.log 2>&1 &
	server=$!
	cm_listens A
	on_exec B rping -c -a "$a4" -S 4000 > /dev/null 2>&1 &
	client=$!
	# A connection may carry nothing: see siw.sh.
	retry 3 grep -q 'ping data' /run/rping.log
	sleep 0.$((RANDOM % 10))
	if [ $(($1 % 5)) = 4 ]; then
		rdma link del siwB && siw_b_up || return
	fi
	case $((RANDOM % 3)) in
	0) kill -9 $server ;;
	1) kill -9 $client ;;
	2) kill -9 $client $server ;;
	esac
	# Whoever is left hears of it, or waits.
	sleep 0.$((RANDOM % 10))
	kill -9 $client $server
	wait $client $server
	return 0
}
storm() {
	local round
	for ((round = 0; round < ${ROUNDS:-8}; round++)); do one $round || return; done 2> /dev/null
	echo "$round rounds"
}
# peer KIND: a server has a peer that breaks the protocol, and hears that it has gone.
peer() {
	local server status=0
	on_exec A rping -s -a "$a4" > /run/rping.log 2>&1 &
	server=$!
	cm_listens A && on B timeout 20 python3 "$here/iw_peer.py" "$1" "$a4" && retry 15 grep 'DISCONNECT EVENT' /run/rping.log || status=1
	kill $server
	wait $server
	return $status
}

modprobe -qn siw || skip_all "there is no siw for this kernel"
modules_load && modprobe siw && net_up || exit
a4=$(addr A)
check "two iWARP links" siws_up
check "connections are killed" storm
check "nothing is left" retry 20 no_objects
if is_ours iw_cm; then
	check "a peer goes before the connection is there" peer first-and-gone
	check "a peer sends what is none of its protocol" peer first-and-garbage
fi
check "nothing is left" retry 20 no_objects
check "the links go" eval 'rdma link del siwA && rdma link del siwB'
net_down
check "siw goes" modprobe -r siw
check "ib_core is in use no more" modules_unload
finish
