#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Memory windows, call by call (verbs_mw.c), and messages of 64 KiB into them (verbs_window.c).
# kernels: stock debug kcsan uml
# rows: 3.023 3.031 3.033 3.084 4.009 4.123 4.128 4.129 4.130 8.047 8.048 8.049 8.050 8.051 8.052 9.023
# mixes: long
# timeout: 110
. "$(dirname "$0")/lib.sh"

hosts_up || exit
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
told "windows: the end" on A timeout 50 "$(dirname "$0")/verbs_mw" rxe0 "$(gid_index A)"
told "messages into windows: the end" on A timeout 50 "$(dirname "$0")/verbs_window" rxe0 "$(gid_index A)" "$(rounds 40)"
check "nothing is left" retry 5 no_objects
finish
