#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A hostile user scribbles over the rings that it shares with the driver (hostile_ring.c): errors only, no crash.
# timeout: 120
. "$(dirname "$0")/lib.sh"
our_driver || skip_all "the stock driver may crash the kernel"
hosts_up || exit
while IFS='|' read -r kind name why; do
	if [ "$kind" = pass ]; then pass "$name"; else fail "$name: $why"; fi
done <<< "$(on A setpriv --reuid=65534 --clear-groups timeout 100 "$(dirname "$0")/hostile_ring" rxe0 "$(gid_index A)" 40)"
check "the device works" pingpong ibv_rc_pingpong -n 50 -c
check "nothing is left" retry 10 no_objects
link_down A
link_down B
check "the module is not in use" retry 10 not_used rdma_rxe
check "the kernel is well" eval '! dmesg | grep -E "BUG:|WARNING:|Oops|general protection"'
finish
