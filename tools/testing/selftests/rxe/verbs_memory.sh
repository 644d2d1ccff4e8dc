#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Memory regions and what they pin (verbs_memory.c), completion queues (verbs_poll.c), datagrams (verbs_ud.c).
# rows: 2.042 3.012 3.086 3.089 3.131 4.037 4.054 4.077 4.113 4.114 4.125 4.142 9.037 2.043
# mixes: all
# timeout: 180
. "$(dirname "$0")/lib.sh"

# limited COMMAND...: without privileges, with 64 KiB of locked memory at most.
limited() { on A bash -c 'ulimit -l 64; exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"' limited "$@" 2>&1; }

hosts_up || exit
here=$(dirname "$0")
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
told "regions: the end" on A timeout 80 "$here/verbs_memory" rxe0 "$(gid_index A)"
told "completion queues: the end" on A timeout 60 "$here/verbs_poll" rxe0 "$(gid_index A)"
told "datagrams: the end" on A timeout 30 "$here/verbs_ud" rxe0 "$(gid_index A)"
check "1,000,000 bytes are too much for who may lock 64 KiB" grep "Couldn't register MR" <(limited ibv_rc_pingpong -d rxe0 -g 1 -s 1000000)
check "and not for who may lock all" pingpong ibv_rc_pingpong -n 5 -s 1000000
check "nothing is left" retry 5 no_objects
finish
