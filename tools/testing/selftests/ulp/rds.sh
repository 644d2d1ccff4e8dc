#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# RDS over RDMA (the stock rds_rdma) between two devices: the kernel's own test of it, then messages of many sizes, requests and
# answers of several processes, RDMA reads and writes, and a receiver that is full (rds.c; Debian has no rds-tools).
# Its atomics are not: they are masked ones, which software RoCE has not, and RDS asks nobody whether the device has them.
# rows: 7.023
# timeout: 400
# cpus: 2
. "$(dirname "$0")/lib.sh"

a=10.0.7.1
b=10.0.7.2

# The kernel's test wants to lie in a kernel's tree; of its library it needs these files, and not the others that come with them.
# It sends a fifth of its 50,000 messages.
kselftest() {
	local tree=/tmp/rds-tree tests=/tmp/rds-tree/tools/testing/selftests status=0
	mkdir -p $tests/net/lib/py $tree/net/rds || return
	cp "/lib/modules/$(uname -r)/config" $tree/.config 2> /dev/null || zcat /proc/config.gz > $tree/.config || return
	cp -r /ferroband/kernel-selftests/net/rds $tests/net/ && touch $tests/net/lib/py/__init__.py || return
	cp /ferroband/kernel-selftests/net/lib/py/{utils,ksft,consts}.py $tests/net/lib/py/ || return
	sed -i 's/num_packets = 50000/num_packets = 10000/' $tests/net/rds/test.py
	$tests/net/rds/rds_run.sh -T rdma -t 240 > /tmp/rds.log 2>&1 || status=$?
	grep -v -e sending -e receiving /tmp/rds.log
	rm -rf $tree
	[ $status = 0 ] && grep -q 'done 10000 10000' /tmp/rds.log && grep -q '^ok 1 rds selftest rdma' /tmp/rds.log
}

# Two devices of one host: the packets take the wire between them because the neighbours are said to be there.
devices_up() {
	local end
	ip link add vethP type veth peer name vethQ || return
	for end in vethP vethQ; do
		sysctl -q net.ipv4.conf.$end.accept_local=1 net.ipv4.conf.$end.rp_filter=0
		ip link set $end mtu 4200 up || return
	done
	ip addr add $a/32 dev vethP && ip addr add $b/32 dev vethQ && routes_up || return
	neighbour $b vethP vethQ && neighbour $a vethQ vethP || return
	rdma link add rxeP type rxe netdev vethP && rdma link add rxeQ type rxe netdev vethQ || return
	retry 5 grep -qs '0a00:0701' /sys/class/infiniband/rxeP/ports/1/gids/* && retry 5 grep -qs '0a00:0702' /sys/class/infiniband/rxeQ/ports/1/gids/*
}
neighbour() { ip neigh replace "$1" lladdr "$(cat "/sys/class/net/$3/address")" dev "$2" nud permanent; }
routes_up() { ip route add $b/32 dev vethP && ip route add $a/32 dev vethQ; }
routes_down() { ip route del $b/32 dev vethP && ip route del $a/32 dev vethQ; }
devices_down() { routes_down && rdma link del rxeP && rdma link del rxeQ && ip link del vethP; }

over_both() {
	local before after
	before=$(cat /sys/class/infiniband/rxe[PQ]/ports/1/hw_counters/rcvd_pkts | paste -sd ' ')
	to_its_end timeout 60 "$(dirname "$0")/rds" "$1" $a $b || return
	sleep 0.05
	after=$(cat /sys/class/infiniband/rxe[PQ]/ports/1/hw_counters/rcvd_pkts | paste -sd ' ')
	[ "${before% *}" -lt "${after% *}" ] && [ "${before#* }" -lt "${after#* }" ]
}

# A link goes under a connection; with the link back, RDS connects again. The routes go first: RDS tries again at once, and while an id
# resolves its route, the stock rdma_cm cannot have both the device removed and the id destroyed (cma_cancel_route() finds no device).
reconnects() {
	routes_down && rdma link del rxeQ && rdma link add rxeQ type rxe netdev vethQ && routes_up || return
	retry 5 grep -qs '0a00:0702' /sys/class/infiniband/rxeQ/ports/1/gids/* && retry 30 over_both messages
}

modprobe -qn rds_rdma || skip_all "this kernel has no rds_rdma"
check "modules" modules_load rdma_rxe rds_rdma
check "the kernel's own test" kselftest
check "two devices" devices_up
for part in messages stress rdma congestion; do check "$part" over_both $part; done
check "a link goes and comes back" reconnects
check "the links go" devices_down
check "RDS goes" modprobe -r rds_rdma
modprobe -rq rds_tcp
check "the driver is not used any more" retry 10 not_used rdma_rxe
finish
