#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A storm: kernel clients (storm_client.c) register and leave while links come and go, programs send and are killed by
# kill -9, and devices are renamed; the modules refuse to go while they are in use, and go afterwards.
# The storm has 50 rounds; in make check-long 1,000.
# rows: 2.009
# rows uml: 9.014
# kernels: uml kcsan
# kernels long: stock
# mix: ib_core rdma_rxe
# timeout: 600
# long: 3600 ROUNDS=1000
# cpus: 2
. "$(dirname "$0")/lib.sh"
counters=/sys/module/storm_client/parameters
counter() { cat "$counters/$1"; }

# renamed COUNT: there and back so many times, as a client that has left in between is not told.
renamed() {
	local i
	for ((i = 0; i < $1; i++)); do rdma dev set rxeS name stormy && rdma dev set stormy name rxeS || return; done
}

# Links without users: on a net device of their own.
bare() {
	rdma link add rxeS type rxe netdev vethS || return
	case $(($1 % 4)) in
	0) renamed 6 && rdma link del rxeS ;;
	1) ip link set vethS down && rdma link del rxeS && ip link set vethS up ;;
	2) rdma link add rxeT type rxe netdev vethT && rdma link del rxeT && rdma link del rxeS ;;
	*) rdma link del rxeS ;;
	esac
}

# A program is killed, once timeout(1) has started it: before that the process has other children.
kill_program() { # process of timeout
	retry 10 pkill -9 -x -P "$1" ib_write_bw
}

# The link goes under two programs that exchange data; at the latest when the one there is killed, it has gone.
traffic() {
	local server client deleter
	link_up B || return
	on_exec A timeout 60 ib_write_bw -F -d rxe0 -x "$(gid_index A)" -D 30 > /dev/null 2>&1 &
	server=$!
	_listens A 18515 || return
	on_exec B timeout 60 ib_write_bw -F -d rxe1 -x "$(gid_index B)" -D 30 "$(addr A)" > /dev/null 2>&1 &
	client=$!
	retry 10 sends B && kill -0 $server $client || return
	link_down B &
	deleter=$!
	sleep 0.5
	# timeout's child is the program, if it has not ended already.
	pkill -9 -P $client
	wait $client
	wait $deleter || return
	kill $server 2> /dev/null
	wait $server
	[ ! -e /sys/class/infiniband/rxe1 ]
}

# The program dies with everything open, in the middle of what it does.
killed() {
	local pids=() i
	for ((i = 0; i < 4; i++)); do
		on_exec A timeout 60 ib_write_bw -F -d rxe0 -x "$(gid_index A)" -p $((19000 + i)) -D 30 > /dev/null 2>&1 &
		pids+=($!)
	done
	retry 10 contexts 4 || return
	for i in "${pids[@]}"; do kill_program "$i" || return; done
	for i in "${pids[@]}"; do killed_by_us "$i" || return; done
	retry 10 contexts 0
}
contexts() { [ "$(rdma resource show ctx | wc -l)" = "$1" ]; }

storm() { # from, to
	local i
	for ((i = $1; i < $2; i += step)); do
		if ((i % 50 == 25)); then traffic; elif ((i % 50 == 45)); then killed; else bare "$i"; fi || { echo "in round $i"; return 1; }
	done
}

refused_unload() {
	local module watcher status=0
	on_exec A ibv_asyncwatch -d rxe0 > /dev/null 2>&1 &
	watcher=$!
	retry 10 contexts 1 || return
	for module in rdma_rxe ib_uverbs ib_core; do ! rmmod $module || status=1; done
	kill $watcher || status=1
	wait $watcher 2> /dev/null
	return $status
}

modinfo storm_client > /dev/null 2>&1 || skip_all "storm_client is built with FERROBAND_TESTS=m"
hosts_up || exit
link_down B
ip link add vethS type veth peer name vethT
ip link set vethT up
ip link set vethS up
check "the clients begin" modprobe storm_client
check "a client of the kernel holds no module back" not_used rdma_rxe
# Each kind of round is in 50 of them, and in each fifth of these.
rounds=${ROUNDS:-50}
step=$((kernel_slowness > 1 ? 5 : 1))
for ((from = 0; from < rounds; from += 50)); do
	check "rounds $from to $((from + 49))" storm $from $((from + 50))
done
check "clients came and went" [ "$(counter rounds)" -gt $((rounds / step)) ]
check "and had devices" [ "$(counter added)" -gt $((rounds / step)) ]
check "names were told" [ "$(counter renamed)" -gt 0 ]
check "unload is refused while a program has the device" refused_unload
check "unload of the driver under the clients" modprobe -r rdma_rxe
check "its devices are gone" eval '[ -z "$(ls /sys/class/infiniband)" ]'
check "and back" eval 'modprobe rdma_rxe && link_up A && link_up B && pingpong ibv_rc_pingpong -n 50 -c'
check_fails "ib_core stays while clients are registered" rmmod ib_core
check_equal "no fault was seen by the clients" 0 "$(counter faults)"
check "the clients end" rmmod storm_client
ip link del vethS
hosts_down
check "everything unloads" modules_unload
check "no fault in the log" eval '! dmesg | grep "storm_client: line"'
finish
