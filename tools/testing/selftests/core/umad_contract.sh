#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The files of ib_umad by themselves (umad_contract.c): nodes and their numbers as netlink tells them, network namespaces, files that
# several processes have, 32-bit programs, ioctls of any kind, the place of a subnet manager, devices that go while files are opened.
# rows: 6.008
# mixes: long
# timeout: 150
# long: 3600 COUNT=1000000
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mad.bash"
here=$(dirname "$0")
user=$here/umad_contract

chardev() { "$here/nldev.py" GET_CHARDEV "$@" | grep -E 'CHARDEV|error' | xargs; } # ATTRIBUTE=VALUE...

# number FILE: its device number, as netlink tells it.
number() { echo $(($(printf '0x%s << 8 | 0x%s' $(stat -c '%t %T' "$1")))); }
# as_netlink DEVICE PORT TYPE NAME
as_netlink() {
	local got
	got=$(chardev "dev=$1" "PORT_INDEX=$2" "CHARDEV_TYPE=$3")
	[[ "$got" == *"$4"* && "$got" == *"$(number "/dev/infiniband/$4")"* ]] || { echo "$got"; return 1; }
}

opens_from() { python3 -c 'import os, sys
try:
    os.close(os.open(sys.argv[1], os.O_RDWR | os.O_NONBLOCK))
except OSError as why:
    print(why.errno)
else:
    print(0)' "$1"; }

# One namespace alone has the device.
namespaces() {
	local here there
	retry 10 rdma system set netns exclusive || return
	ip netns add other
	here=$(opens_from "$1")
	there=$(ip netns exec other bash -c "$(declare -f opens_from); opens_from $1")
	ip netns del other
	retry 10 rdma system set netns shared
	echo "here $here, there $there"
	[ "$here $there" = "0 1" ]
}

# The tracepoints' names and fields.
tracing=/sys/kernel/tracing
events() {
	local event
	for event in $tracing/events/ib_umad/*/; do
		echo "== $(basename "$event")"
		grep -v '^ID:' "$event/format"
	done
}
# What the trace has of MADs that were written, and read, and of requests that were not answered.
traced() {
	grep -q 'ib_umad_write: .* id 0x0000000[0-9a-f] status 0x00000000 ms 77 ' $tracing/trace &&
		grep -q 'ib_umad_read_recv: .* id 0x00000000 status 0x00000000 .* class 0x30 ' $tracing/trace &&
		grep -q 'ib_umad_read_send: .* status 0x0000006e ms 77 ' $tracing/trace || { tail -5 $tracing/trace; return 1; }
}

there() { a=$(gid_index A 6) b=$(gid_index B 6); }

# goes_under COMMAND...: what programs open goes and comes by these commands.
goes_under() {
	local i pids=() status=0 paths=(/dev/infiniband/umad{0,1})
	for i in 1 2; do
		"$user" opens "${paths[@]}" > /dev/null 2>&1 &
		pids+=($!)
	done
	for ((i = 0; i < $(rounds 4); i++)); do
		sleep "0.$((RANDOM % 4))"
		"$@" || status=1
	done
	kill "${pids[@]}"
	wait "${pids[@]}" 2> /dev/null
	return $status
}
link_again() { link_down A && link_up A; }
device_again() { device remove && device add && retry 10 test -c /dev/infiniband/issm1; }

# Whoever waits for a place that goes ends; whoever has it may keep the file.
waits_in_vain() {
	local holder waiter status=0
	sleep 1000 < /dev/infiniband/issm0 &
	holder=$!
	sleep 0.3
	head -c 0 /dev/infiniband/issm0 2> /run/umad_contract.waiter &
	waiter=$!
	sleep 0.3
	kill -0 $waiter || status=1
	timeout 30 bash -c "echo remove > $parameters/do" || status=1
	retry 10 eval "! kill -0 $waiter 2> /dev/null" || status=1
	kill $holder
	wait $holder $waiter 2> /dev/null
	device add
	grep -q 'No such device' /run/umad_contract.waiter || { cat /run/umad_contract.waiter; status=1; }
	return $status
}

hosts_up || exit
modprobe ib_umad || exit
there
check "files of root alone" eval '[ "$(stat -c %a%u%g /dev/infiniband/umad0)" = 60000 ]'
check "the device number of umad0" eval '[ "$(number /dev/infiniband/umad0)" = $((231 << 8)) ]'
check "netlink tells the file of rxe0" as_netlink rxe0 1 umad "$(basename "$(dirname "$(grep -lx rxe0 /sys/class/infiniband_mad/umad*/ibdev)")")"
check "and the version of the ABI" eval 'chardev dev=rxe0 PORT_INDEX=1 CHARDEV_TYPE=umad | grep -q "CHARDEV_ABI.*5"'
check_equal "no port" "error EINVAL" "$(chardev dev=rxe0 CHARDEV_TYPE=umad)"
check_equal "a port that there is not" "error EINVAL" "$(chardev dev=rxe0 PORT_INDEX=2 CHARDEV_TYPE=umad)"
check_equal "RoCE has no subnet manager's file" "error ENOTSUP" "$(chardev dev=rxe0 PORT_INDEX=1 CHARDEV_TYPE=issm)"
mountpoint -q $tracing || mount -t tracefs none $tracing
as_recorded "$here/umad_contract-expected.txt" events
echo 1 > $tracing/events/ib_umad/enable
told "files: the end" timeout 60 "$user" files rxe0 "$a" rxe1 "$b"
echo 0 > $tracing/events/ib_umad/enable
check "it was traced" traced
told "ioctls: the end" timeout 600 "$user" ioctls rxe0 "${COUNT:-10000}" "${SEED:-1}"
check "a device goes while its file is opened" goes_under link_again
there
told "the next one is good" timeout 60 "$user" ioctls rxe0 1000 2
hosts_down
check "the modules go" modules_unload

mad_up
modprobe ib_umad || exit
check "a device of another namespace cannot be opened" namespaces /dev/infiniband/umad0
check "nor its subnet manager's file" namespaces /dev/infiniband/issm0
told "a subnet manager's place: the end" timeout 60 "$user" seat /dev/infiniband/issm0
check "the numbers of issm1" eval '[ "$(number /dev/infiniband/issm1)" = $((231 << 8 | 65)) ]'
# Stock does not say, for its client has no data of a device.
known_on ib_umad "netlink tells the subnet manager's file" as_netlink fakeib0 2 issm issm1
check "an InfiniBand device goes while its files are opened" goes_under device_again
# Stock uses a device that has gone: the kernel dies.
if is_ours ib_umad; then check "a place goes while somebody waits for it" waits_in_vain; fi
rmmod ib_umad
mad_down
finish
