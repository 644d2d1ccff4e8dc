#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# rdma_perf between two machines, the stock modules in one and ours in the other: kernel users on both ends, wired by hand and
# by rdma_cm; all operations with the right data, also where packets get lost.
# when: long
# timeout: 900
# guests: 2
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/rdma_perf_ends.bash"

modinfo rdma_perf > /dev/null 2>&1 || skip_all "there is no rdma_perf"
ends_up rdma_perf || exit
kinds by_hand
by_hand "iterations=$ITERATIONS"
results rdma_perf
netem A loss 1% && netem B loss 1%
check "by hand, 1 % loss" by_hand "op=write size=65536 iterations=40 depth=4"
netem_off A; netem_off B
check "rdma_perf_cm is loaded" _both modprobe rdma_perf_cm
kinds by_cm
by_cm "iterations=$ITERATIONS"
results rdma_perf_cm
netem A loss 1% && netem B loss 1%
check "by rdma_cm, 1 % loss" by_cm "op=read size=65536 iterations=40 depth=4"
netem_off A; netem_off B
_both rmmod rdma_perf_cm
check "the module is unloaded" _both rmmod rdma_perf
finish
