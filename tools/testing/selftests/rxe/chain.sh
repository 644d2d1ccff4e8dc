#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Direct copies do not nest: a chain of 128 queue pairs of one device, each with READs waiting, does not fill the kernel's stack
# (verbs_chain.c).
# kernels: stock
# timeout: 120
# cpus: 2
. "$(dirname "$0")/lib.sh"
our_driver || skip_all "the stock driver always sends packets"

here=$(dirname "$0")
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
modprobe hold_bh 2> /dev/null || skip "softirqs are held" "hold_bh is built with FERROBAND_TESTS=m"
for copy in 1 0; do
	modprobe rdma_rxe direct_copy=$copy && hosts_up || exit
	told "direct_copy=$copy: the end" on A timeout 50 "$here/verbs_chain" rxe0 A vethA "$(gid_index A 6)" B vethB "$(rounds 10)"
	check "direct_copy=$copy: the device works" pingpong ibv_rc_pingpong -n 50 -c
	check "direct_copy=$copy: nothing is left" retry 5 no_objects
	hosts_down && modules_unload || fail "direct_copy=$copy: unloading"
done
modprobe -rq hold_bh
finish
