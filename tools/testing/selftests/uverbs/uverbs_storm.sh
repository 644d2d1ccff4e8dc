#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Users of a device that are killed, and a device that goes under its users; again and again. ROUNDS says how often.
# rows: 1.017 2.049 2.051 9.039
# kernels: stock kcsan
# mix: ib_uverbs
# mixes: all
# timeout: 400
# long: 7200 ROUNDS=1000
# cpus: 2
. "$(dirname "$0")/lib.sh"

user=$(dirname "$0")/uverbs_files
rounds=${ROUNDS:-$(rounds 10)}
log=/run/storm

# start LOG COMMAND...: on A; its process is $started.
start() {
	local log=$1
	shift
	on_exec A "$@" > "$log" 2>&1 &
	started=$!
}

# try NAME FUNCTION: as check, but in this shell, whose jobs the applications are.
try() { if "$2"; then pass "$1"; else fail "$1"; fi; }

# two_applications: a server and a client of one device, with completion events, for longer than the test.
two_applications() {
	start $log.server ibv_rc_pingpong -d rxe0 -g "$(gid_index A)" -e -n 1000000 -p 18600
	server=$started
	_listens A 18600 || return
	start $log.client ibv_rc_pingpong -d rxe0 -g "$(gid_index A)" -e -n 1000000 -p 18600 "$(addr A)"
	client=$started
	retry 10 sends A
}
alive() { kill -0 "$server" && kill -0 "$client" && sends A; }
ended() { ! kill -0 "$1" 2> /dev/null; }

# killed_at_random: a third application dies at some point between its start and its waiting with everything open.
killed_at_random() {
	local i pid
	for ((i = 0; i < 4 * rounds; i++)); do
		on_exec A "$user" rxe0 "$(gid_index A)" unplug > /dev/null 2>&1 &
		pid=$!
		sleep "0.$((RANDOM % 4))$((RANDOM % 10))"
		kill -9 $pid
		killed_by_us $pid || return
	done 2> /dev/null
}

# goes_under_users: the link is deleted while all three are at it; each must notice and end.
goes_under_users() {
	local i third pid
	for ((i = 0; i < rounds; i++)); do
		two_applications || return
		start $log.third "$user" rxe0 "$(gid_index A)" unplug
		third=$started
		retry 20 grep -q ready $log.third || return
		sleep "0.$((RANDOM % 3))$((RANDOM % 10))"
		timeout 30 ip netns exec A rdma link del rxe0 || return
		for pid in $server $client $third; do
			retry 20 ended $pid || { echo "# round $i: still there:"; ps -o pid,stat,wchan,args -p $pid | diagnose; return 1; }
		done
		if grep '^fail' $log.third | diagnose | grep .; then return 1; fi
		link_up A || return
	done
}

hosts_up || exit
try "two applications of a device" two_applications
try "a third is killed, $((4 * rounds)) times" killed_at_random
try "the two go on" alive
kill -9 "$server" "$client"
wait "$server" "$client" 2> /dev/null
check "nothing is left" retry 10 no_objects
if our_driver; then
	try "the device goes under three applications, $rounds times" goes_under_users
	check "it works" pingpong ibv_rc_pingpong -n 50
	check "nothing is left after that" retry 10 no_objects
else
	skip "the device goes under its users" "the stock driver waits until they have closed their files"
fi

# The code that its mappings need, and its files, stay as long as a user.
start $log.third "$user" rxe0 "$(gid_index A)" unplug
third=$started
check "a user" retry 20 grep -q ready $log.third
check_fails "ib_uverbs stays" rmmod ib_uverbs
check_fails "the driver stays" rmmod rdma_rxe
kill -9 "$third"
wait "$third" 2> /dev/null
hosts_down
check "the modules go" modules_unload
finish
