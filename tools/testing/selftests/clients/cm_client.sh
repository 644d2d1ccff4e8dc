#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Connections of clients in Rust by rdma_cm, which runs on a core with management datagrams.
# smoke: yes
# timeout: 180
. "$(dirname "$0")/lib.sh"

modinfo cm_client > /dev/null 2>&1 || skip_all "cm_client is built with FERROBAND_TESTS=m"
modprobe rdma_rxe
wire_up
ip address add fd00:9::1/64 dev left nodad
rdma link add rxe0 type rxe netdev left

lines() { since_mark cm_client; }
objects() { rdma resource show "$1" | grep -c 'comm \[cm_client\]'; }    # kind

mark cm_client
check "the tests run" modprobe cm_client
told_log "all tests are run" lines
check "to the end" grep -q '^done$' <(lines)
check_equal "the connection that stays has two queue pairs" 2 "$(objects qp)"
check "nobody has the service of udaddy" grep -q '^peer|udaddy|refuses: 1$' <(lines)
check "the client goes" rmmod cm_client

own=$(ip -4 -o address show dev left | sed 's/.*inet \([0-9.]*\).*/\1/')
udaddy -b "$own" > /tmp/udaddy & udaddy=$!
stdbuf -oL mckey -b "$own" -m 239.1.2.4 > /tmp/mckey 2>&1 & mckey=$!
listens() { rdma resource show cm_id | grep -q "comm $1"; }    # program
check "udaddy listens" retry 20 listens udaddy
receives() { grep -q "receiving data" /tmp/mckey; }
check "mckey receives" retry 20 receives
mark cm_client
check "the tests run beside programs" modprobe cm_client
check "udaddy tells its queue pair" grep -q '^peer|udaddy|queue pair [1-9]' <(lines)
check "mckey gets all messages" wait $mckey
check "and says so" grep -q "data transfers complete" /tmp/mckey
kill $udaddy
wait $udaddy
check "the device goes under it" rdma link delete rxe0
for kind in pd cq qp cm_id; do
	check_equal "no $kind is left" 0 "$(objects $kind)"
done
check "the client goes" rmmod cm_client
finish
