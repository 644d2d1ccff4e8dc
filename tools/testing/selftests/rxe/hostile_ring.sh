#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A hostile user writes into the rings that it shares with the driver (hostile_ring.c): errors only, no crash.
# SEED=… repeats a run, ROUND=… begins it later.
# kernels: uml kcsan
# kernels long: stock
# timeout: 300
# long: 7200 COUNT=1000000
# cpus: 2
. "$(dirname "$0")/lib.sh"
our_driver || skip_all "the stock driver may crash the kernel"
hosts_up || exit
told "the program ends well" on A setpriv --reuid=65534 --clear-groups "$(dirname "$0")/hostile_ring" rxe0 "$(gid_index A)" \
	"$(fuzz_count 30000)" "${SEED:-1}" "${ROUND:-0}"
after_attack
