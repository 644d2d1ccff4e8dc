#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Threads of a program that use the same objects at once (verbs_threads_tsan.c, under ThreadSanitizer), and a queue that hands out
# completions in the order in which they came, a million of them in a long run (verbs_order.c).
# rows: 2.048
# rows long: 2.022
# mixes: long
# timeout: 200
# long: 1800 COUNT=1000000
# cpus: 2
. "$(dirname "$0")/lib.sh"

hosts_up || exit
here=$(dirname "$0")
count=${COUNT:-40000}
told "order: the end" on A "$here/verbs_order" rxe0 "$(gid_index A)" "$count"
# ThreadSanitizer wants its shadow where the kernel may have put something by chance.
told "threads: the end" on A setarch -R "$here/verbs_threads_tsan" rxe0 "$(gid_index A)" $((count / 5))
check "nothing is left" retry 5 no_objects
finish
