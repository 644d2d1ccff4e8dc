#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Forged packets by the thousand, or million (fuzz_packets.c), to QPs that are at work: nothing breaks, unregistered memory
# is neither written nor sent; an unrelated connection keeps working. SEED=… repeats a run, ROUND=… begins it later.
# kernels: uml
# kernels long: stock
# timeout: 300
# long: 7200 COUNT=1000000
. "$(dirname "$0")/lib.sh"
our_driver || skip_all "the stock driver crashes"
hosts_up 5000 || exit
for host in A B; do on $host ip route add 224.0.0.0/4 dev "$(netdev $host)"; done
told "the fuzzer ends well" together "$(dirname "$0")/fuzz_packets" rxe0 A vethA rxe1 B vethB "$(fuzz_count 12000)" "${SEED:-1}" "${ROUND:-0}"
after_attack
