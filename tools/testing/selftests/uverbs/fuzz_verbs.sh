#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Commands at random through both doors (hostile_verbs.c: ioctl and write; uverbs_fuzz.c: write), by several threads of an
# unprivileged user on one file, which is closed under them, while the device goes and comes again now and then: no complaint
# of the kernel, nothing is left, and programs of another user go on beside it. SEED=… begins another sequence; threads make it no
# repeatable one.
# rows uml: 2.038
# kernels: uml
# kernels long: stock
# mix: ib_uverbs
# timeout: 300
# long: 7200 COUNT=1000000
# cpus: 2
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")
count=$(fuzz_count 60000)
hosts_up || exit
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
user() { on_exec A setpriv --reuid=65534 --clear-groups "$@"; }

# replug PID: the device goes and comes again, as long as the process runs; in $came the number of times.
replug() {
	came=0
	sleep 0.1
	while kill -0 "$1"; do
		link_down A && link_up A && came=$((came + 1))
		sleep "$((1 + RANDOM % 2)).$((RANDOM % 10))"
	done 2> /dev/null
}

# went_well ONE OTHER: this side has all iterations, and so has the other one, or it lacks the acknowledgement of its last message alone:
# this program may have ended before its device sent it.
went_well() { grep -q 'iters in' "/run/beside.$1" && grep -q 'iters in\|retry counter exceeded' "/run/beside.$2"; }

# beside PID NAME: programs of another user exchange messages over the other device, as long as the process runs.
beside() {
	local times=0 failed='' server gid
	gid=$(gid_index B)
	while kill -0 "$1" 2> /dev/null; do
		on_exec B timeout 60 ibv_rc_pingpong -d rxe1 -g "$gid" -n 20 -e -p 18700 > /run/beside.server 2>&1 &
		server=$!
		_listens B 18700
		on B timeout 60 ibv_rc_pingpong -d rxe1 -g "$gid" -n 20 -e -p 18700 "$(addr B)" > /run/beside.client 2>&1
		wait $server
		went_well server client || went_well client server || { failed=$times; break; }
		times=$((times + 1))
		sleep 0.5
	done
	echo "$times times"
	[ -z "$failed" ] && [ $times -gt 0 ] && echo "pass|$2: programs beside it" || { cat /run/beside.*; echo "fail|$2: programs beside it|after $times"; }
}

# storm NAME COMMAND: runs it with a seed, and the device goes and comes again meanwhile. A fast machine may be at the end of the
# commands before the device goes: then it runs once more, with another seed.
storm() {
	local pid other status=0 nth
	for ((nth = 0, came = 0; nth < 10 && came == 0 && status == 0; nth++)); do
		"$2" $((${SEED:-1} + nth)) > /run/storm &
		pid=$!
		beside $pid "$1" > /run/beside &
		other=$!
		replug $pid
		wait $pid || status=$?
		wait $other
	done
	cat /run/storm /run/beside
	echo "the device came again $came times in run $nth"
	[ $came -gt 0 ] && echo "pass|$1: the device went and came" || echo "fail|$1: the device went and came|never"
	return $status
}

both_doors() { user "$here/hostile_verbs" rxe0 "$here/hostile_verbs-tables.txt" "$1" $((count / 2)) 4; }
write_door() { user "$here/uverbs_fuzz" rxe0 $((count / 2)) "$1" 4; }

told "ioctl and write: the end" storm "ioctl and write" both_doors
told "write: the end" storm write write_door
after_attack
