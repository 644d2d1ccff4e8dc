#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# rdma-core's own tests (pyverbs), unmodified: every one ends as it does on the stock modules (pyverbs-expected.txt, and
# pyverbs-expected-65.txt for those of rdma-core 65). They are recorded with RECORD=yes.
# smoke: yes
# images: rdma-core-65
# rows: 1.051 1.052 1.053 1.063 2.020 3.018 3.022 3.023 3.031 3.045 3.110 4.006 4.019 4.035 4.041 4.043 4.044
# rows: 4.045 4.047 4.052 4.053 4.056 4.057 4.059
# rows: 4.080 4.100 4.104 4.105 4.106 4.108 4.109 4.110 4.117 4.124 4.127 4.128 4.129 4.130 4.136
# rows: 4.139 4.140 4.143 4.144 4.146 4.147 4.149 4.150 4.151 4.152 4.153 4.154 4.157 4.159 5.002 5.012 5.020
# rows: 5.023 5.037 5.038 5.044 5.049 5.050 5.056 5.057 5.058 5.059 5.060 5.068 9.020
# mixes: all
# timeout: 600
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")
hosts_up || exit
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
[ -z "${RECORD:-}" ] || _record on A python3 "$here/pyverbs_run.py" rxe0 "$(gid_index A)"

# What is not there yet in our driver counts as missing, not as failed.
missing=/run/pyverbs-missing
: > $missing
! our_driver || cat "$here/pyverbs-missing.txt" >> $missing
expected=$(recorded pyverbs)
status= told=0
while IFS='|' read -r kind name why; do
	case $kind in
	pass) pass "$name" ;;
	skip) skip "$name" "$why" ;;
	fail) diagnose <<< "$why"; fail "$name" ;;
	status) status=$name; continue ;;
	*) diagnose <<< "$kind $name $why" ;;
	esac
	[[ ! $kind =~ ^(pass|skip|fail)$ ]] || told=$((told + 1))
done < <(on A python3 "$here/pyverbs_run.py" rxe0 "$(gid_index A)" "$expected" $missing 2>&1; echo "status|$?")
check_equal "the tests were run to their end" 0 "$status"
check_equal "each of them has a result" "$(grep -c '^[^#]' "$expected")" "$told"
check "nothing is left" retry 10 no_objects
finish
