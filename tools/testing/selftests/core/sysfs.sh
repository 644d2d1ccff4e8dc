#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# /sys/class/infiniband and /sys/class/infiniband_verbs: names, modes and contents of all files of an rxe device are those
# that the stock modules show (sysfs-expected.txt), also in another network namespace, after changes and for bad writes.
# rows: 4.031
# mix: ib_core
# mixes: all
# timeout: 240
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")
class=/sys/class/infiniband

# What differs by whether ib_cm is loaded, and the counters that our driver has and stock has not (device.sh), are no matter of the
# core. 10 ms are three ticks of 250 Hz, and one of 100 Hz.
others='/cm_[rt]x_\|/hw_counters/\(rp_cnp_\|np_\)'
dump() { "$here/sysfs_dump.py" "$@" | grep -v "$others" | sed "s,lifespan: '10.n',lifespan: '12\\\\n',"; }
write() { echo "$(printf '%b' "$2" 2> /dev/null > "$1" || echo refused) $(cat "$1")"; } 2>&1

device_up() {
	ip link add vethS address 02:00:00:00:00:0a type veth peer name vethT
	ip link set vethT mtu 4200 up
	ip link set vethS mtu 4200 up
	ip addr add 10.0.3.1/24 dev vethS
	ip addr add fd03::1/64 dev vethS nodad
	rdma link add rxe9 type rxe netdev vethS
	retry 5 grep -qs 'fd03' $class/rxe9/ports/1/gids/*
}

all() {
	echo "== the device"
	dump $class/rxe9
	echo "== its uverbs device"
	dump /sys/class/infiniband_verbs/uverbs0 /sys/class/infiniband_verbs/abi_version
	echo "== in another namespace"
	ip netns add S
	ip netns exec S "$here/sysfs_dump.py" $class/rxe9 | grep -v "$others"
	ip netns del S
	echo "== in another namespace, exclusive"
	retry 10 rdma system set netns exclusive # not while a namespace goes
	ip netns add S
	ip netns exec S ls $class
	ip netns del S
	retry 10 rdma system set netns shared
	echo "== node_desc"
	for text in hello 'two words\n' "$(printf 'x%.0s' {1..63})" "$(printf 'x%.0s' {1..64})" "$(printf 'y%.0s' {1..80})" ''; do
		write $class/rxe9/node_desc "$text"
	done
	echo "== lifespan"
	for text in 20 0 10000 10001 -1 abc 99999999999 +40 '60\n' ''; do
		write $class/rxe9/ports/1/hw_counters/lifespan "$text"
	done
	echo "== another name"
	rdma dev set rxe9 name other
	ls $class
	cat $class/other/uevent /sys/class/infiniband_verbs/uverbs0/ibdev
	rdma dev set other name rxe9
	echo "== carrier lost"
	ip link set vethT down
	retry 5 grep -q DOWN $class/rxe9/ports/1/state
	dump $class/rxe9/ports/1
	echo "== without addresses"
	ip addr flush dev vethS
	retry 5 eval '! grep -qs fd03 $class/rxe9/ports/1/gids/*'
	dump $class/rxe9/ports/1/gids $class/rxe9/ports/1/gid_attrs
	echo "== gone"
	rdma link del rxe9
	ls $class /sys/class/infiniband_verbs
	ip link del vethS
}

# Stock refuses this, having no disassociate_ucontext. With the namespace the device comes back.
moved() {
	retry 10 rdma system set netns exclusive || return
	ip netns add S && rdma dev set rxe9 netns S && [ ! -e $class/rxe9 ] && ip netns exec S test -e $class/rxe9
	local status=$?
	ip netns del S
	retry 10 test -e $class/rxe9 && retry 10 rdma system set netns shared && return $status
}

# In exclusive mode a name is unique in its namespace alone, as of kernel 7.3. A device whose namespace goes gets another name where
# its own is in use; one request may move a device and rename it.
named_alike() {
	retry 10 rdma system set netns exclusive || return
	ip netns add S && ip link add dummyS type dummy && rdma link add rxe8 type rxe netdev dummyS && rdma dev set rxe8 netns S &&
		ip netns exec S rdma dev set rxe8 name rxe9 && ip netns exec S test -e $class/rxe9 && [ -e $class/rxe9 ] &&
		! ip netns exec S rdma dev set rxe9 netns 1
	local status=$?
	ip netns del S
	retry 10 eval 'ls $class | grep -q ^ibdev' && ip link del dummyS && retry 10 eval '! ls $class | grep -q ^ibdev' &&
		retry 10 rdma system set netns shared && return $status
}

modules_load
device_up || exit
# Folders of power management are there where the kernel has any.
expected=$(mktemp)
if [ -e /sys/class/net/lo/power ]; then cat; else grep -v '/power/$'; fi < "$here/sysfs-expected.txt" > "$expected"
as_recorded "$expected" all
if our_driver && device_up; then
	check "our device moves to another namespace, and back" moved
	! is_ours ib_core || check "two devices of one name in two namespaces" named_alike
	rdma link del rxe9
	ip link del vethS
fi
finish
