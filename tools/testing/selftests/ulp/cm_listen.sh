#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# rdma_listen over the stock rdma_cm and rdma_ucm (cm_listen.c): its backlog, and the wildcard, which is all devices.
# rows: 5.018
# timeout: 120
. "$(dirname "$0")/lib.sh"

wildcard() {
	local server status=0
	timeout 20 rping -s -a 0.0.0.0 -C 2 > /run/wildcard 2>&1 &
	server=$!
	sleep 1
	LIMIT=10 pings "" -a 10.1.0.2 -C 2 || status=1
	wait $server || closed_early server /run/wildcard || status=1
	return $status
}

modules_load
wire_up
ip link set lo up
ip link add far type veth peer name near
ip addr add 10.2.0.1/24 dev far
ip link set far up
ip link set near up
rdma link add rxe_left type rxe netdev left
rdma link add rxe_right type rxe netdev right
retry 10 grep -q 0a01:0001 /sys/class/infiniband/rxe_left/ports/1/gids/1
retry 10 grep -q 0a01:0002 /sys/class/infiniband/rxe_right/ports/1/gids/1

told "the end" timeout 90 "$(dirname "$0")/cm_listen" 10.1.0.1 rxe_left 10.1.0.2 rxe_right 10.2.0.1 rxe_far
check "rping listens at the wildcard" wildcard
check "nothing is left" retry 10 no_objects
for device in rxe_left rxe_right rxe_far; do rdma link del $device 2> /dev/null; done
ip link del left
ip link del far
finish
