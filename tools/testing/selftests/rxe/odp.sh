#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# On-demand paging (verbs_odp.c): capabilities, every operation on memory that is not there, memory that goes while it is used, advice;
# and with our driver, traffic while the memory is mapped anew, in one device by direct copies and in packets, and over the wire.
# rows: 4.118 4.122 8.060 8.062
# mixes: long
# timeout: 240
# long: 3600 CHANGES=100000
# cpus: 2
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")
# How often the memory is changed at least: seconds are enough for some thousands.
changes=${CHANGES:-0}
limit=$((60 + changes / 100))
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd

# Pages are moved to other places of the memory all the time.
compacts() { while sleep 0.05; do echo 1 > /proc/sys/vm/compact_memory; done; } 2> /dev/null

hosts_up || exit
told "operations: the end" on A timeout 100 "$here/verbs_odp" rxe0 "$(gid_index A)"
if our_driver; then
	compacts & compacter=$!
	told "memory is mapped anew: the end" on A timeout "$limit" "$here/verbs_odp" rxe0 "$(gid_index A)" 10 "$changes"
	kill $compacter
	check "rc, over the wire" pingpong ibv_rc_pingpong -o -n 20 -s 1000001 -c
	check "rc, over the wire, memory that is prefetched" pingpong ibv_rc_pingpong -o -P -n 20 -s 100001 -c
	check "rc, over the wire, small packets" pingpong ibv_rc_pingpong -o -n 20 -s 100001 -m 256 -c
	check "nothing is left" retry 5 no_objects
	hosts_down && modules_unload || fail "unloading"
	modprobe rdma_rxe direct_copy=0 && hosts_up || exit
	told "memory is mapped anew, in packets: the end" on A timeout "$limit" "$here/verbs_odp" rxe0 "$(gid_index A)" 5 "$changes"
fi
check "nothing is left" retry 5 no_objects
finish
