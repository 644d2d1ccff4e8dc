#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The files of user verbs: nodes and their numbers, sysfs, device files, completion channels, asynchronous events, and what
# their users see when the device goes.
# rows: 2.044 2.046 2.049 3.119 4.001 4.002 4.003 4.010 4.024 4.025 4.028 4.029 9.027
# kernels: stock kcsan
# mix: ib_uverbs
# mixes: all
# timeout: 300
# cpus: 2
. "$(dirname "$0")/lib.sh"

class=/sys/class/infiniband_verbs
program=$(dirname "$0")/uverbs_files

# nodes COUNT: devices on so many net devices of a namespace.
nodes() {
	local i
	for ((i = 0; i < $1; i++)); do
		on A ip link add "n$i" type dummy && on A ip link set "n$i" up &&
			on A rdma link add "many$i" type rxe netdev "n$i" || return
	done
}
nodes_go() {
	local i
	for ((i = 0; i < $1; i++)); do on A ip link del "n$i"; done
	retry 10 eval '! ls -d /sys/class/infiniband_verbs/uverbs2'
}
number() { stat -c '%Hr %Lr' "/dev/infiniband/$1"; } # the node's device number, in decimal

hosts_up || exit
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd

check_equal "the version of the commands" 6 "$(cat $class/abi_version)"
check_equal "which device a node is of" "rxe0 rxe1" "$(cat $class/uverbs0/ibdev $class/uverbs1/ibdev | xargs)"
check_equal "the version of the driver's part" 2 "$(cat $class/uverbs0/abi_version)"
check_equal "device numbers in sysfs" "231:192 231:193" "$(cat $class/uverbs0/dev $class/uverbs1/dev | xargs)"
check_equal "device numbers of the nodes" "231 192 231 193" "$(number uverbs0) $(number uverbs1)"
check_equal "mode" "666 666" "$(stat -c %a /dev/infiniband/uverbs0 /dev/infiniband/uverbs1 | xargs)"
check_equal "the name in uevents" "DEVNAME=infiniband/uverbs0 DEVMODE=0666" \
	"$(grep -h '^DEVNAME\|^DEVMODE' $class/uverbs0/uevent | xargs)"
check_equal "the major number has a name" "231 infiniband_verbs" "$(awk '$1 == 231 && $2 != "infiniband_mad" { print $1, $2 }' /proc/devices)"

check "34 devices" nodes 32
check_equal "the last of the fixed numbers" "231 223" "$(number uverbs31)"
dynamic=$(awk '$2 == "infiniband_verbs" && $1 != 231 { print $1 }' /proc/devices)
check_equal "then numbers from the kernel" "$dynamic 0 $dynamic 1" "$(number uverbs32) $(number uverbs33)"
link_down A
check "a device goes, and its node" test ! -e $class/uverbs0 -a ! -e /dev/infiniband/uverbs0
link_up A
check_equal "the lowest number that is free" rxe0 "$(cat $class/uverbs0/ibdev)"
check "the devices go" nodes_go 32

told "files: the end" on A timeout 120 "$program" rxe0 "$(gid_index A)" "$(netdev A)"
check "nothing is left" retry 5 no_objects
on A ip address replace "$(addr6 A)/64" dev "$(netdev A)" nodad # it went when the port went down

# Killed with everything open, events unread and unacknowledged.
killed() {
	local i pid
	for i in 1 2 3 4 5; do
		on_exec A "$program" rxe0 "$(gid_index A)" unplug > /run/killed 2>&1 &
		pid=$!
		retry 20 grep -q ready /run/killed
		kill -9 $pid
		wait $pid 2> /dev/null
	done
	retry 5 no_objects
}
check "killed" killed

# user LOG: a user of the device that is about to go.
user() { on_exec A timeout 60 "$program" rxe0 "$(gid_index A)" unplug > "$1" 2>&1; }
user_ends() { # log
	retry 60 grep -q '^end|' "$1"
	grep -v ready "$1"
}
# A driver that cannot do without its users waits for them instead: the stock rxe.
if our_driver; then
	user /run/unplug.1 &
	user /run/unplug.2 &
	check "two users of a device" retry 20 eval 'grep -q ready /run/unplug.1 && grep -q ready /run/unplug.2'
	check "the device goes" timeout 20 ip netns exec A rdma link del rxe0
	told "the first user: the end" user_ends /run/unplug.1
	told "the second user: the end" user_ends /run/unplug.2
	check "they have closed their files" retry 5 no_objects
	check "the device comes back" link_up A
	check_equal "with its number" rxe0 "$(cat $class/uverbs0/ibdev)"
	check "and works" pingpong ibv_rc_pingpong -n 50
else
	skip "the device goes under two users" "the stock driver waits until they have closed their files"
fi
hosts_down
check "the modules go" modules_unload
finish
