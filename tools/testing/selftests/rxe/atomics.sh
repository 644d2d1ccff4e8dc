#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Eight queue pairs add to one number at the same time, 100,000 times each, four from the other host: the sum is exact
# (verbs_atomic.c); and the device says that it is atomic among its queue pairs.
# rows: 3.030
# mixes: long
# timeout: 600
# cpus: 2
. "$(dirname "$0")/lib.sh"

hosts_up || exit
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
check_equal "ibv_devinfo" "ATOMIC_HCA (1)" "$(on A ibv_devinfo -v -d rxe0 | sed -n 's/^\s*atomic_cap:\s*//p')"
told "additions: the end" on A timeout 580 "$(dirname "$0")/verbs_atomic" rxe0 "$(gid_index A)" rxe1 "$(gid_index B)" \
	"$(rounds 100000)"
check "nothing is left" retry 5 no_objects
finish
