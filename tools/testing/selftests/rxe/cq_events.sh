#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Events of completion queues: moderation (verbs_moderation.c), and a queue that overruns, with the queue pairs that use it
# (verbs_overrun.c).
# rows: 2.023 3.105 3.109 4.078 8.073
# kernels: stock debug
# timeout: 120
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
hosts_up || exit
told "moderation: the end" on A timeout 60 "$here/verbs_moderation" rxe0 "$(gid_index A)"
told "a queue that overruns: the end" on A timeout 40 "$here/verbs_overrun" rxe0 "$(gid_index A)"
check "nothing is left" retry 5 no_objects
hosts_down
check "the module is not in use" retry 10 not_used rdma_rxe
finish
