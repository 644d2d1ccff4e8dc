#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What a peer sees of packets that are sent in one buffer, when the network stack has segmented it: byte for byte that of packets sent one
# by one, but for the IPv4 identification and the UDP checksum. And what is changed on the way is found by the ICRC.
# timeout: 300
. "$(dirname "$0")/lib.sh"
our_driver || skip_all "the stock driver sends packets one by one"

here=$(dirname "$0")
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
modprobe -a sch_ingress cls_matchall act_pedit 2> /dev/null

# seen FILE: what passes the net device of B while each byte of many messages is sent from A.
seen() {
	local watcher
	on_exec B python3 "$here/wire_bytes.py" "$(netdev B)" 10.0.0.1 5 > "$1" 2> "$1.said" &
	watcher=$!
	retry 30 grep -q listening "$1.said"
	on A timeout 60 "$here/verbs_bytes" rxe0 "$(gid_index A)" rxe1 "$(gid_index B)" || return
	wait $watcher || { cat "$1.said"; return 1; }
}
retries() { on A rdma statistic show link "$(dev A)/1" | grep -o 'completer_retry_err [0-9]*' | cut -d' ' -f2; }
sums() { grep -o '[0-9]* with a UDP checksum' "$1" | cut -d' ' -f1; }
ids() { grep -o '[0-9]* with an identification' "$1" | cut -d' ' -f1; }

for together in 1 0; do
	modprobe rdma_rxe segmentation=$together && hosts_up || exit
	for host in A B; do
		check "segmentation=$together, $host: the stack segments" on $host ethtool -K "$(netdev $host)" tx off tx-udp-segmentation off gro off
	done
	check "segmentation=$together: every byte, and each ICRC and UDP checksum" seen /run/seen$together
	if [ $together = 0 ]; then
		check "segmentation=$together: packets one by one have no UDP checksum" test "$(sums /run/seen0.said)" = 0
		check "segmentation=$together: nor an identification" test "$(ids /run/seen0.said)" = 0
	else
		check "segmentation=$together: packets of one buffer have a UDP checksum" test "$(sums /run/seen1.said)" -ge 3000
		check "segmentation=$together: and are numbered" test "$(ids /run/seen1.said)" -ge 2000
		for host in A B; do on $host ethtool -K "$(netdev $host)" tx on tx-udp-segmentation on; done
		on B tc qdisc add dev "$(netdev B)" clsact
		# On the way from A to B, behind the first packet of a buffer.
		on B tc filter add dev "$(netdev B)" ingress matchall action pedit munge offset 6000 u8 invert
		before=$(retries)
		# What is sent again is sent packet by packet, and arrives.
		check "segmentation=$together: a byte that is changed in a buffer is not taken" pingpong ibv_rc_pingpong -n 5 -s 65536 -m 4096 -c
		check "segmentation=$together: but sent again" test $(($(retries) - before)) -ge 5
		on B tc qdisc del dev "$(netdev B)" clsact
		check "segmentation=$together: and unchanged ones arrive" pingpong ibv_rc_pingpong -n 5 -s 65536 -m 4096 -c
	fi
	hosts_down && modules_unload || fail "segmentation=$together: unloading"
done
check "the same packets in one buffer and one by one" diff /run/seen1 /run/seen0
check "thousands of packets" test "$(wc -l < /run/seen0)" -gt 5000
finish
