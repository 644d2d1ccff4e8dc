#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# rdma_perf's ends by themselves, in one kernel and on devices of two network namespaces, wired by hand and by rdma_cm: all
# operations with the right data; what is not understood, a peer that goes, and signals end a run in order.
# timeout: 900
# mixes: long
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/rdma_perf_ends.bash"

modinfo rdma_perf > /dev/null 2>&1 || skip_all "there is no rdma_perf"
ends_up rdma_perf || exit
hand=$files/rdma_perf cm=$files/rdma_perf_cm
refused() { ! cat <<< "$2" 2> /dev/null > "$1"; }
# starts FILE WORDS: in the background, `run` is its process.
starts() { put A "$@" & run=$!; }

kinds by_hand
by_hand "iterations=$ITERATIONS"
results rdma_perf

for words in 'server=rxe1' 'port=5' 'address=10.0.0.1' 'op=steal' 'size=0'; do
	check "no client with $words" refused $hand/client/run "$words"
done
for words in 'op=send' 'iterations=5' 'client=rxe0' 'mtu=1024'; do
	check "no server with $words" refused $hand/server/run "$words"
done
check "nobody waits for a peer" refused $hand/client/remote "gid=:: mac=02:00:00:00:00:01 qpn=1"
starts rdma_perf/client/run "client=rxe0 qps=2"
check "a client speaks" retry 10 said A rdma_perf/client
check "one run at a time" refused $hand/client/run "iterations=1"
for words in '' 'qpn=1' 'gid=:: mac=02:00:00:00:00:01 qpn=1' 'gid=:: mac=02:00:00:00:00:01 qpn=1 qpn=2 op=send qps=2' \
	'gid=:: mac=02:00:00:00:00:01 qpn=16777216 qpn=1' "$(printf '%9000s')"; do
	check "it does not listen to: ${words:0:60}" refused $hand/client/remote "$words"
done
kill $run
wait $run
check_equal "a signal ends the wait" 143 $?
check_equal "nothing more is said" "" "$(cat $hand/client/local)"
starts rdma_perf/client/run "client=rxe0 op=write iterations=1"
retry 10 said A rdma_perf/client
check "a peer that is not there" put_here A rdma_perf/client/remote "gid=::ffff:10.0.0.9 mac=02:00:00:00:00:01 qpn=77 psn=1 rkey=1"
wait $run
check_equal "is an error" 1 $?

if check "rdma_perf_cm is loaded" modprobe rdma_perf_cm; then
	kinds by_cm
	by_cm "iterations=$ITERATIONS"
	results rdma_perf_cm
	# What confirms a connection (RTU: attribute 0x14 of the MAD) is lost, so that its end is the next that the server hears.
	on B tc qdisc add dev "$(netdev B)" clsact
	on B tc filter add dev "$(netdev B)" egress protocol ip u32 match u16 0x14 0xffff at 64 action drop
	check "no confirmation arrives" by_cm "op=read iterations=20"
	check "one was sent" eval 'on B tc -s filter show dev "$(netdev B)" egress | grep "dropped [1-9]"'
	on B tc qdisc del dev "$(netdev B)" clsact
	gids="client=rxe0 server=rxe1 client_gid=$(gid_index A) server_gid=$(gid_index B)"
	for op in send write read fetch_add cmp_swap; do
		check "both ends, $op" put_here A rdma_perf_cm/run "$gids verify=1 op=$op iterations=100 qps=4"
	done
	check "both ends, ping-pong" put_here A rdma_perf_cm/run "$gids verify=1 pattern=pingpong iterations=100"
	check "one device" put_here A rdma_perf_cm/run "client=rxe0 client_gid=$(gid_index A) server_gid=$(gid_index A) verify=1"
	check "no MTU" refused $cm/run "$gids mtu=1024"
	check "nobody listens" refused $cm/client/run "$(end_of B client) address=10.0.0.1 port=7"
	check "no address" refused $cm/client/run "$(end_of B client)"

	starts rdma_perf_cm/server/run "$(end_of A server)"
	retry 10 bash -c 'rdma resource show cm_id | grep -q LISTEN'
	sleep 0.5
	put B rdma_perf_cm/client/run "$(end_of B client) address=10.0.0.1 seconds=60" & client=$!
	sleep 1
	check "a server serves one client" refused $cm/server/run "$(end_of A server) port=9"
	kill $client
	wait $client
	wait $run
	check_equal "the server ends with its client" 1 $?

	starts rdma_perf_cm/server/run "$(end_of A server)"
	sleep 1
	kill $run
	wait $run
	check_equal "a signal ends a server" 143 $?
	starts rdma_perf_cm/server/run "$(end_of A server)"
	sleep 1
	check "the device goes under a server" link_down A
	wait $run
	check_equal "which is an error" 1 $?
	check "the module is unloaded" rmmod rdma_perf_cm
else
	check "the device goes" link_down A
fi
check "rdma_perf is unloaded" rmmod rdma_perf
check "nothing is left of them" bash -c "! rdma resource show qp | grep rdma_perf"
link_down B
finish
