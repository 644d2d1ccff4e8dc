#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# libibverbs call by call: operations, completion statuses, the QP state machine, errors (verbs_traffic.c, verbs_state.c).
# rows: 3.015 3.022 3.024 3.025 3.026 3.028 3.029 3.037 3.038 3.039 3.040 3.042 3.044 3.054 3.056 3.057 3.058
# rows: 3.060 3.064 3.066 3.073 3.080 3.082 3.083 3.088 3.091 3.097 3.098 3.109 3.128 4.030 4.051 4.079 4.081 4.110 4.141
# timeout: 120
. "$(dirname "$0")/lib.sh"

# told NAME COMMAND...: makes results of the lines of a program (see verbs.h), and one of its exit status.
told() {
	local line kind name why
	while IFS= read -r line; do
		IFS='|' read -r kind name why <<< "$line"
		case $kind in
		pass) pass "$name" ;;
		known) known_on_stock "$name" eval "echo '$why'; false" ;;
		fail) diagnose <<< "$why"; fail "$name" ;;
		status) check_equal "$1" 0 "$name" ;;
		*) diagnose <<< "$line" ;;
		esac
	done < <("${@:2}" 2>&1; echo "status|$?")
}

hosts_up || exit
here=$(dirname "$0")
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
told "state machine: the end" on A timeout 60 "$here/verbs_state" rxe0 "$(gid_index A)"
told "traffic: the end" on A timeout 100 "$here/verbs_traffic" rxe0 "$(gid_index A)"
check "nothing is left" retry 5 no_objects
finish
