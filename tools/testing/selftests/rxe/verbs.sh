#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# libibverbs call by call: operations, completion statuses, the QP state machine, errors, extended completions
# (verbs_traffic.c, verbs_state.c, verbs_cq_ex.c).
# smoke: yes
# kernels: stock debug kcsan uml
# rows: 2.034 3.003 3.038 3.039 3.040 3.042 3.043 3.044 3.051 3.054 3.056 3.057 3.058 3.060 3.066 3.068 3.073
# rows: 3.079 3.080 3.082 3.083 3.087 3.088 3.091 3.097 3.098 3.100 3.102 3.107 3.109 3.128 4.030 4.046 4.051 4.079 4.081
# rows: 4.058 4.060 4.061 4.062 4.063 4.065 4.066 4.067 4.068 4.069 4.070 4.141
# mixes: all rdma_rxe ib_uverbs
# timeout: 120
. "$(dirname "$0")/lib.sh"

hosts_up || exit
here=$(dirname "$0")
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
told "state machine: the end" on A timeout 60 "$here/verbs_state" rxe0 "$(gid_index A)"
told "traffic: the end" on A timeout 100 "$here/verbs_traffic" rxe0 "$(gid_index A)" "$(netdev A)"
told "extended completions: the end" on A timeout 60 "$here/verbs_cq_ex" rxe0 "$(gid_index A)"
check "inline latency" perftest ib_send_lat -n 100 -s 64 -I 64
check "UD ping-pong" pingpong ibv_ud_pingpong -n 100
check "udaddy" rdma_pair udaddy -b 10.0.0.1 -- udaddy -s 10.0.0.1
check "nothing is left" retry 5 no_objects
finish
