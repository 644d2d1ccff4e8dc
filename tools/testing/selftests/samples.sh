#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The samples: the smallest client, in Rust and in C.
# timeout: 90
. "$(dirname "$0")/lib.sh"

modinfo client_rust > /dev/null 2>&1 || skip_all "the samples are built with FERROBAND_TESTS=m"
modprobe rdma_rxe
wire_up
rdma link add rxe0 type rxe netdev left

hello() { dmesg | grep -q "$1: received: hello$"; }        # module
objects() { rdma resource show qp link rxe0/1 | grep -c "comm \[$1\]"; }    # module

for sample in client_rust client_c; do
	check "$sample is loaded" modprobe $sample
	check "$sample has received its message" retry 10 hello $sample
	check_equal "$sample has a queue pair" 1 "$(objects $sample)"
	check "$sample is unloaded" rmmod $sample
	check_equal "$sample has none any more" 0 "$(objects $sample)"
done
for sample in client_rust client_c; do
	check "$sample is loaded again" modprobe $sample
done
check "the device goes under both" rdma link delete rxe0
check "both are unloaded" modprobe -r client_rust client_c
finish
