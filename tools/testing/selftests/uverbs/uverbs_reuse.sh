#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Protection domains, completion queues and queue pairs that are destroyed leave everything to the next ones (uverbs_reuse.c): after
# thousands of rounds, a million in make check-long, the kernel has no more objects and no more memory than before.
# rows long: 9.029
# timeout: 120
# long: 7200 ROUNDS=1100000
# cpus: 2
. "$(dirname "$0")/lib.sh"
hosts_up || exit
# A million rounds make more queue pairs than the device has numbers.
told "the end" on A "$(dirname "$0")/uverbs_reuse" rxe0 "$(gid_index A)" "${ROUNDS:-20000}"
check "nothing is left" retry 5 no_objects
finish
