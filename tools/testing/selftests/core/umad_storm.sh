#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Users of MADs that are killed with requests under way, and devices that go under them and under connections; again and again.
# kernels: uml
# kernels long: stock
# mixes: long
# timeout: 150
# long: 3600 ROUNDS=300
# cpus: 2
. "$(dirname "$0")/lib.sh"

user=$(dirname "$0")/umad_storm
rounds=${ROUNDS:-$(rounds 5)}
log=/run/umad_storm

# try NAME FUNCTION: as check, but in this shell, whose jobs the programs are.
try() { if "$2"; then pass "$1"; else fail "$1"; fi; }

# start LOG MODE...: its process is $started.
start() {
	"$user" "${@:2}" > "$1" 2>&1 &
	started=$!
	retry 20 grep -q ready "$1"
}
ends() { kill -9 "$1" 2> /dev/null; wait "$1" 2> /dev/null; true; }
ended() { ! kill -0 "$1" 2> /dev/null; }
dies() { kill -9 "$1"; killed_by_us "$1"; }

there() { a=$(gid_index A 6) b=$(gid_index B 6); }
serve() { there && start $log.server serve rxe1 "$b" && server=$started; }

killed() {
	local i
	for ((i = 0; i < 3 * rounds; i++)); do
		start $log.killed flight rxe0 "$a" rxe1 "$b" || return
		sleep "0.$((RANDOM % 3))$((RANDOM % 10))"
		dies "$started" || return
	done
}

# Several at once, and the server among them.
all_killed() {
	local i pids=()
	for ((i = 0; i < 4; i++)); do
		start "$log.$i" flight rxe0 "$a" rxe1 "$b" || return
		pids+=("$started")
	done
	dies "$server" || return
	for i in "${pids[@]}"; do dies "$i" || return; done
	serve
}

# gone COMMAND...: the device goes under a program, by a command; the program must notice and end, and complain of nothing.
gone() {
	local pid status=0
	start $log.unplug unplug rxe0 "$a" rxe1 "$b" || { cat $log.unplug; return 1; }
	pid=$started
	sleep "0.$((RANDOM % 3))$((RANDOM % 10))"
	timeout 30 "$@" || status=$?
	retry 20 ended $pid || { ps -o pid,stat,wchan,args -p $pid | diagnose; ends $pid; return 1; }
	wait $pid || status=$?
	if grep '^fail' $log.unplug | diagnose | grep .; then status=1; fi
	return $status
}

unplugged() {
	local i
	for ((i = 0; i < rounds; i++)); do
		gone ip netns exec A rdma link del rxe0 && link_up A && there || return
	done
}

# The driver may go while a MAD file is open: the file belongs to ib_umad.
unloaded() {
	ends "$server"
	gone modprobe -r rdma_rxe && modprobe rdma_rxe && link_up A && link_up B && serve
}

# The device of one end of a connection goes; both ends notice.
under_connection() {
	local i one other status=0
	for ((i = 0; i < rounds && status == 0; i++)); do
		on_exec A rping -s -a "$(addr A)" > /dev/null 2>&1 &
		one=$!
		retry 10 on A bash -c 'rdma resource show cm_id | grep -q LISTEN'
		sleep 0.5
		on_exec B rping -c -a "$(addr A)" > $log.rping 2>&1 &
		other=$!
		retry 10 on B bash -c 'rdma resource show cm_id | grep -q "^link rxe1.* state CONNECT "'
		sleep "0.$((RANDOM % 5))$((RANDOM % 10))"
		kill -0 $one $other || { echo "# one has ended before"; status=1; }
		timeout 30 ip netns exec B rdma link del rxe1 || status=1
		retry 20 ended $other || { echo "# the client does not end"; status=1; }
		retry 20 ended $one || { echo "# the server does not end"; status=1; }
		ends $one
		ends $other
		link_up B || status=1
	done
	return $status
}

hosts_up || exit
modprobe ib_umad || exit
try "a server" serve
try "$((3 * rounds)) programs are killed with requests under way" killed
told "the server goes on" timeout 30 "$user" ask rxe0 "$a" rxe1 "$b"
try "programs and their server are killed" all_killed
told "a new server" timeout 30 "$user" ask rxe0 "$a" rxe1 "$b"
try "the device goes under a program, $rounds times" unplugged
told "the last one saw it" cat $log.unplug
told "and comes again" timeout 30 "$user" ask rxe0 "$a" rxe1 "$b"
try "the driver goes under a program" unloaded
told "and comes again" timeout 30 "$user" ask rxe0 "$a" rxe1 "$b"
check_fails "ib_umad stays while it has a user" rmmod ib_umad
ends "$server"
try "the device goes under a connection, $rounds times" under_connection
check "connections work" rdma_pair rping -s -a "$(addr A)" -V -C 5 -- rping -c -a "$(addr A)" -V -C 5
check "nothing is left" retry 10 no_objects
hosts_down
check "the modules go" modules_unload
finish
