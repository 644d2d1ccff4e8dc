#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Connections of clients in Rust by rdma_cm, which runs on a core with management datagrams.
# smoke: yes
# timeout: 180
. "$(dirname "$0")/lib.sh"

modinfo cm_client > /dev/null 2>&1 || skip_all "cm_client is built with FERROBAND_TESTS=m"
modprobe rdma_rxe
wire_up
rdma link add rxe0 type rxe netdev left

lines() { since_mark cm_client; }
objects() { rdma resource show "$1" | grep -c 'comm \[cm_client\]'; }    # kind

mark cm_client
check "the tests run" modprobe cm_client
told_log "all tests are run" lines
check "to the end" grep -q '^done$' <(lines)
check_equal "the connection that stays has two queue pairs" 2 "$(objects qp)"
check "the device goes under it" rdma link delete rxe0
for kind in pd cq qp cm_id; do
	check_equal "no $kind is left" 0 "$(objects $kind)"
done
check "the client goes" rmmod cm_client
finish
