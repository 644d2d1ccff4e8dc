#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# rdma_perf and rdma_perf_cm, a few operations of each with the right data: rdma_perf.sh and rdma_perf_ends.sh have the rest.
# smoke: yes
# timeout: 60
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/rdma_perf_ends.bash"

modinfo rdma_perf > /dev/null 2>&1 || skip_all "there is no rdma_perf"
ITERATIONS=50
ends_up rdma_perf rdma_perf_cm || exit
check "one device" put_here A rdma_perf/run "verify=1 op=read iterations=$ITERATIONS"
check_equal "all were done" $ITERATIONS "$(value A rdma_perf operations)"
check "two ends, wired by hand" by_hand "iterations=$ITERATIONS"
results rdma_perf
check "two ends, wired by rdma_cm" by_cm "iterations=$ITERATIONS"
results rdma_perf_cm
check "the modules go" rmmod rdma_perf_cm rdma_perf
finish
