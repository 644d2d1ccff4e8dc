#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Messages between queue pairs of one device: copied from memory to memory, and in packets with direct_copy=0. A program sees the same
# results and the same counters; only buffers of the network are not used for a copy.
# timeout: 300
# cpus: 2
. "$(dirname "$0")/lib.sh"
our_driver || skip_all "the stock driver always sends packets"

here=$(dirname "$0")
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
tracing=/sys/kernel/tracing
mountpoint -q $tracing || mount -t tracefs none $tracing

# buffers COMMAND...: how many buffers of the network the driver has freed meanwhile. The command has to succeed.
buffers() {
	local events=$tracing/events/skb/consume_skb
	echo 'hist:keys=location.sym' > $events/trigger || return
	"$@" > /run/direct_copy 2>&1 || { cat /run/direct_copy; echo '!hist:keys=location.sym' > $events/trigger; return 1; }
	awk '/\[rdma_rxe\]/ { count += $NF } END { print count + 0 }' $events/hist
	echo '!hist:keys=location.sym' > $events/trigger
}

# count NAME: a counter of A's device.
count() { on A rdma statistic show link rxe0/1 | grep -o "$1 [0-9]*" | sed 's/.* //'; }

# 40 messages of 64 packets each way: a buffer of the network for each packet, or for fewer than half of them: a message
# whose receiver is locked by another thread goes in packets.
few() { echo "$1 buffers"; [ "$1" -lt 2560 ]; }
many() { echo "$1 buffers"; [ "$1" -ge 5120 ]; }
exchange() { pingpong ibv_rc_pingpong -n 40 -s 65536 -m 1024 -c; }
datagrams() { pingpong ibv_ud_pingpong -n 2560 -s 1000 -c; }

for copy in 1 0; do
	modprobe rdma_rxe direct_copy=$copy && hosts_up || exit
	export LOOPBACK=yes
	used=$(buffers exchange) || fail "direct_copy=$copy: messages"
	check "direct_copy=$copy: buffers of the network" "$([ $copy = 1 ] && echo few || echo many)" "$used"
	check "direct_copy=$copy: packets are counted in any case" test "$(count sent_pkts)" -ge 5120
	check_equal "direct_copy=$copy: what is sent is received" "$(count sent_pkts) $(count sent_bytes)" "$(count rcvd_pkts) $(count rcvd_bytes)"
	used=$(buffers datagrams) || fail "direct_copy=$copy: datagrams"
	check "direct_copy=$copy, datagrams: buffers of the network" "$([ $copy = 1 ] && echo few || echo many)" "$used"
	told "direct_copy=$copy, traffic: the end" on A timeout 100 "$here/verbs_traffic" rxe0 "$(gid_index A)" "$(netdev A)"
	told "direct_copy=$copy, memory windows: the end" on A timeout 60 "$here/verbs_mw" rxe0 "$(gid_index A)"
	told "direct_copy=$copy, messages into windows: the end" on A timeout 60 "$here/verbs_window" rxe0 "$(gid_index A)" 20
	for size in 1 1023 1024 1025 1048576; do
		check "direct_copy=$copy, rc, $size bytes" pingpong ibv_rc_pingpong -n 10 -c -s $size
	done
	check "direct_copy=$copy, uc" pingpong ibv_uc_pingpong -n 10 -c -s 65537
	check "direct_copy=$copy, srq" pingpong ibv_srq_pingpong -n 50 -s 20001 -c
	for operation in write read send; do
		check "direct_copy=$copy, $operation, 16 queue pairs" perftest ib_${operation}_bw -n 100 -s 20000 -q 16
	done
	check "direct_copy=$copy, atomics" perftest ib_atomic_bw -n 100 -q 4
	unset LOOPBACK
	check "direct_copy=$copy: nothing is left" retry 5 no_objects
	hosts_down && modules_unload || fail "direct_copy=$copy: unloading"
done
finish
