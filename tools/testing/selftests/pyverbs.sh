#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# rdma-core's own tests (pyverbs), unmodified: every one ends as it does on the stock driver (pyverbs-expected.txt).
# rows: 3.028 3.029 4.006 4.035 4.041 4.043 4.044 4.045 4.046 4.047 4.052 4.080 4.104 4.106 4.108 4.109 4.124 4.127
# timeout: 600
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")
hosts_up || exit

# What is not there yet in our driver counts as missing, not as failed.
missing=/dev/null
! our_driver || missing=$here/pyverbs-missing.txt
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
while IFS='|' read -r kind name why; do
	case $kind in
	pass) pass "$name" ;;
	skip) skip "$name" "$why" ;;
	fail) diagnose <<< "$why"; fail "$name" ;;
	*) diagnose <<< "$kind $name $why" ;;
	esac
done < <(on A python3 "$here/pyverbs_run.py" rxe0 "$(gid_index A)" "$here/pyverbs-expected.txt" "$missing" 2>&1)
check "nothing is left" retry 10 no_objects
finish
