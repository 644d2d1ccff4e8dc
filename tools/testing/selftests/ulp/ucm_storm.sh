#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Users of /dev/infiniband/rdma_cm that are killed while they connect, listen and are connected, and devices that go under them, again and
# again; the module goes and comes between.
# kernels: uml
# kernels long: stock
# timeout: 240
# long: 3600 ROUNDS=200
# cpus: 2
. "$(dirname "$0")/lib.sh"

rounds=${ROUNDS:-$(rounds 6)}
log=/run/ucm_storm

# try NAME FUNCTION: as check, but in this shell, whose jobs the programs are.
try() { if "$2"; then pass "$1"; else fail "$1"; fi; }

ended() { ! kill -0 "$1" 2> /dev/null; }
dies() { kill -9 "$1" 2> /dev/null; wait "$1" 2> /dev/null; true; }

# Many connections between two programs, one of which is killed at any time; the other one ends by itself, or is killed after it.
killed() {
	local i one other
	for ((i = 0; i < rounds; i++)); do
		on_exec A ucmatose -b "$(addr A)" -c 30 -C 20 > $log.server 2>&1 &
		one=$!
		cm_listens A
		on_exec B ucmatose -s "$(addr A)" -c 30 -C 20 > $log.client 2>&1 &
		other=$!
		sleep "0.$((RANDOM % 9))"
		if ((RANDOM % 2)); then dies $one; else dies $other; fi
		sleep "0.$((RANDOM % 3))"
		dies $one
		dies $other
	done
}

# A listener whose requests nobody takes is killed with them.
deaf() {
	local i one pids
	for ((i = 0; i < rounds; i++)); do
		on_exec A rping -s -P -a "$(addr A)" > $log.server 2>&1 &
		one=$!
		cm_listens A
		pids=()
		kill -STOP $one
		for _ in 1 2 3 4; do
			on_exec B rping -c -a "$(addr A)" -C 1 > $log.client 2>&1 &
			pids+=($!)
		done
		sleep "0.$((1 + RANDOM % 4))"
		dies $one
		for one in "${pids[@]}"; do dies "$one"; done
	done
}

# The device of a connection goes under both ends: they notice, and end.
unplugged() {
	local i one other status=0
	for ((i = 0; i < rounds && status == 0; i++)); do
		on_exec A rping -s -a "$(addr A)" > $log.server 2>&1 &
		one=$!
		cm_listens A
		on_exec B rping -c -a "$(addr A)" > $log.client 2>&1 &
		other=$!
		retry 10 on B bash -c 'rdma resource show cm_id | grep -q "^link rxe1.* state CONNECT "'
		sleep "0.$((RANDOM % 5))"
		timeout 60 ip netns exec A rdma link del rxe0 || status=1
		retry 20 ended $one || { echo "# the server does not end"; status=1; }
		retry 30 ended $other || { echo "# the client does not end"; status=1; }
		dies $one
		dies $other
		link_up A || status=1
	done
	return $status
}

# The device goes while one listens on it, connects, and resolves addresses that nobody has.
busy() {
	local i pids status=0 pid
	for ((i = 0; i < rounds && status == 0; i++)); do
		pids=()
		on_exec A ucmatose -b "$(addr A)" -c 100 > $log.server 2>&1 &
		pids+=($!)
		cm_listens A
		on_exec A ucmatose -s 10.0.0.99 -c 5 > $log.silent 2>&1 &
		pids+=($!)
		on_exec B ucmatose -s "$(addr A)" -c 100 > $log.client 2>&1 &
		pids+=($!)
		sleep "0.$((RANDOM % 9))"
		timeout 60 ip netns exec A rdma link del rxe0 || status=1
		for pid in "${pids[@]}"; do dies "$pid"; done
		link_up A || status=1
	done
	return $status
}

again() {
	local i
	for ((i = 0; i < rounds; i++)); do
		modprobe -r rdma_ucm && modprobe rdma_ucm || return
		retry 5 test -c /dev/infiniband/rdma_cm || return
	done
}

works() { rdma_pair rping -s -a "$(addr A)" -V -C 5 -- rping -c -a "$(addr A)" -V -C 5; }

hosts_up || exit
try "$rounds times one of two programs with 30 connections is killed" killed
check "connections work" works
try "$rounds times who listens is killed with its requests" deaf
check "connections work still" works
try "$rounds times the device goes under a connection" unplugged
try "$rounds times the device goes under programs that connect" busy
check "no identifier is left" retry 20 eval '[ -z "$(rdma resource show cm_id)" ]'
check "the module goes and comes" again
check "connections work then" works
check "nothing is left" retry 10 no_objects
hosts_down
check "the modules go" modules_unload
finish
