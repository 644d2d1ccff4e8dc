#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Commands at random to /dev/infiniband/rdma_cm, by several threads of an unprivileged user on the same files, which are closed under
# them, while the device goes and comes again now and then (ucm_fuzz.c): no complaint of the kernel, nothing is left, and connections of
# others come about beside it. SEED=… begins another sequence; threads make it no repeatable one.
# kernels: uml
# kernels long: stock
# mix: rdma_ucm
# timeout: 300
# long: 7200 COUNT=1000000
# The stock ib_cm shifts by the ACK timeout that a program has set, of which the stock rdma_cm takes any.
# allows: UBSAN: shift-out-of-bounds in *cm.c:* in ib_send_cm_req()
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")
count=$(fuzz_count 20000 30000)
hosts_up || exit

# replug PID: the device goes and comes again, as long as the process runs.
replug() {
	local times=0
	sleep "0.$((2 + RANDOM % 8))"
	while kill -0 "$1"; do
		link_down A && link_up A && times=$((times + 1))
		sleep "$((1 + RANDOM % 2)).$((RANDOM % 10))"
	done 2> /dev/null
	echo "the device came again $times times"
	[ $times -gt 0 ] && echo "pass|the device went and came" || echo "fail|the device went and came|never"
}

# beside PID: others connect over the other device, as long as the process runs.
beside() {
	local times=0 failed='' server
	while kill -0 "$1" 2> /dev/null; do
		on_exec B timeout 60 rping -s -a "$(addr B)" -V -C 2 > /run/beside.server 2>&1 &
		server=$!
		retry 10 on B bash -c 'rdma resource show cm_id link rxe1 | grep -q LISTEN'
		# An identifier is in this state a moment before its service is known.
		sleep 1
		LIMIT=60 pings B -a "$(addr B)" -C 2 > /run/beside.client || failed=$times
		[ -z "$failed" ] || kill $server
		wait $server || closed_early server /run/beside.server || failed=$times
		[ -z "$failed" ] || break
		times=$((times + 1))
		sleep 0.5
	done
	echo "$times times"
	[ -z "$failed" ] && [ $times -gt 0 ] && echo "pass|connections beside it" || { cat /run/beside.*; echo "fail|connections beside it|after $times"; }
}

storm() {
	local pid other status=0
	on_exec A setpriv --reuid=65534 --clear-groups "$here/ucm_fuzz" "$(addr A)" "$count" "${SEED:-1}" 4 &
	pid=$!
	beside $pid > /run/beside &
	other=$!
	replug $pid
	wait $pid || status=$?
	wait $other
	cat /run/beside
	return $status
}

told "commands: the end" storm
check "no identifier is left" retry 10 eval '[ -z "$(rdma resource show cm_id)" ]'
check "connections work" rdma_pair rping -s -a "$(addr A)" -V -C 5 -- rping -c -a "$(addr A)" -V -C 5
after_attack
