#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Queue pairs by concept: what each service and each state does (verbs_qp.c), requests of the extended interface (verbs_wr.c); what the
# samples of the manual's pages show (verbs_samples.c).
# rows: 3.010 3.015 3.026 3.036 3.047 3.049 3.050 3.055 3.059 3.061 3.099 4.064 4.145 4.148 4.155 4.156 4.160 4.161
# rows: 7.042 7.043 7.044 7.045 7.047
# mixes: long
# timeout: 150
. "$(dirname "$0")/lib.sh"

hosts_up || exit
here=$(dirname "$0")
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
told "queue pairs: the end" on A timeout 80 "$here/verbs_qp" rxe0 "$(gid_index A)"
told "extended requests: the end" on A timeout 60 "$here/verbs_wr" rxe0 "$(gid_index A)"
told "samples: the end" on A timeout 60 "$here/verbs_samples" rxe0 "$(gid_index A)"
check "WRITE with immediate" perftest ib_write_bw -n 20 -s 8192 --write_with_imm
check "READ" perftest ib_read_bw -n 20 -s 65536
check "nothing is left" retry 5 no_objects
finish
