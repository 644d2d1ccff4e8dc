#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# End-to-end flow control: acknowledgements carry the number of receives with flow_control=1, and in no other case (verbs_wire.c); a
# sender holds back messages that the peer has no receives for.
# timeout: 240
. "$(dirname "$0")/lib.sh"

here=$(dirname "$0")
# seen NAME [told]: each packet is seen.
seen() {
	local host
	for host in A B; do on $host ip link set dev "$(netdev $host)" gso_max_segs 1 || exit; done
	told "$1: the end" on A timeout 60 "$here/verbs_wire" credits rxe0 "$(gid_index A)" rxe1 "$(gid_index B)" "${@:2}"
}

[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
hosts_up || exit
seen "by default"
if our_driver; then
	hosts_down && modules_unload && modprobe rdma_rxe flow_control=1 && hosts_up || exit
	for receives in 1 2 500; do
		check "ping-pong with $receives receives" pingpong ibv_rc_pingpong -n 100 -r $receives -s 20000 -c
	done
	check "connections by rdma_cm" rdma_pair rping -s -a 10.0.0.1 -V -C 20 -- rping -c -a 10.0.0.1 -V -C 20
	check "many messages, few receives" perftest ib_send_bw -n 500 -s 4096 -t 64 -r 8
	check "many queue pairs" perftest ib_send_bw -n 100 -s 20000 -q 8 -r 16
	LOOPBACK=yes check "on one device" perftest ib_send_bw -n 200 -s 20000 -r 8
	netem A loss 3% && netem B loss 3%
	check "packets are lost" exchange ibv_rc_pingpong -n 50 -r 2 -s 20000 -c
	netem_off A; netem_off B
	seen "with flow control" told
	check "nothing is left" retry 5 no_objects
	hosts_down && modules_unload || fail "unloading"
fi
finish
