#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Packets of a message in one buffer of the network (UDP segmentation offload), and one by one with segmentation=0: a program sees the
# same results, and the same packets are counted; only buffers are fewer.
# timeout: 300
. "$(dirname "$0")/lib.sh"
our_driver || skip_all "the stock driver sends packets one by one"

here=$(dirname "$0")
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd

# datagrams: how many the UDP layers of both hosts have taken.
datagrams() {
	local host sum=0
	for host in A B; do
		sum=$((sum + $(on $host awk '$1 == "Udp:" && $2 ~ /^[0-9]/ { print $2 }' /proc/net/snmp)))
	done
	echo $sum
}

# count HOST NAME: a counter of its device.
count() { on "$1" rdma statistic show link "$(dev "$1")/1" | grep -o "$2 [0-9]*" | sed 's/.* //'; }

# 40 messages of 64 packets each way: few datagrams reach UDP, or one for each packet.
few() { [ "$1" -lt 1000 ] || { echo "$1 datagrams"; return 1; }; }
# As long as packets come while the last ones are handled, they are put together.
fewer() { [ "$1" -lt 4000 ] || { echo "$1 datagrams"; return 1; }; }
many() { [ "$1" -ge 5120 ] || { echo "$1 datagrams"; return 1; }; }

for together in 1 0; do
	modprobe rdma_rxe segmentation=$together && hosts_up || exit
	told "segmentation=$together, every byte: the end" on A timeout 50 "$here/verbs_bytes" rxe0 "$(gid_index A)" rxe1 "$(gid_index B)"
	before=$(datagrams)
	check "segmentation=$together: messages" pingpong ibv_rc_pingpong -n 40 -s 65536 -m 1024 -c
	used=$(($(datagrams) - before))
	check "segmentation=$together: datagrams of UDP" "$([ $together = 1 ] && echo few || echo many)" $used
	check "segmentation=$together: packets are counted in any case" test "$(count A sent_pkts)" -ge 2560
	check_equal "segmentation=$together: what is sent is received" "$(count A sent_pkts) $(count A sent_bytes)" "$(count B rcvd_pkts) $(count B rcvd_bytes)"
	for mtu in 256 512 1024 2048 4096; do
		V=6 check "segmentation=$together, MTU $mtu, IPv6" pingpong ibv_rc_pingpong -n 10 -c -s 100001 -m $mtu
		check "segmentation=$together, MTU $mtu, uc" pingpong ibv_uc_pingpong -n 10 -c -s 65537 -m $mtu
	done
	# The last packet of many messages has padding. Each that is lost would be sent again; some are, when a CPU is delayed.
	check "segmentation=$together: hardly any is sent again" test $(($(count A completer_retry_err) + $(count B completer_retry_err))) -lt 20
	for operation in write read send; do
		check "segmentation=$together, $operation, 16 queue pairs" perftest ib_${operation}_bw -n 100 -s 20000 -q 16
	done
	on A ip link set dev "$(netdev A)" gso_max_segs 5
	on B ip link set dev "$(netdev B)" gso_max_segs 1
	check "segmentation=$together, devices that take less" pingpong ibv_rc_pingpong -n 20 -s 65536 -m 1024 -c
	check "segmentation=$together, and reads" perftest ib_read_bw -n 100 -s 65536 -m 1024
	on A ip link set dev "$(netdev A)" gso_max_segs 1
	# A veth hands over to NAPI, which puts packets together, what comes from one that takes no large TCP buffers.
	for host in A B; do check "segmentation=$together: GRO" on $host ethtool -K "$(netdev $host)" gro on tso off; done
	before=$(datagrams)
	check "segmentation=$together, cut and put together" pingpong ibv_rc_pingpong -n 40 -s 65536 -m 1024 -c
	used=$(($(datagrams) - before))
	check "segmentation=$together: datagrams of UDP" "$([ $together = 1 ] && echo fewer || echo many)" $used
	check "segmentation=$together: nothing is left" retry 5 no_objects
	hosts_down && modules_unload || fail "segmentation=$together: unloading"
done
finish
