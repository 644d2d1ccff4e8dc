#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A hostile user calls ioctl() and write() at random (hostile_verbs.c): stock and ours give the same answer to each of these
# calls, and the kernel stays well.
# The answers were recorded on the stock core and the stock ib_uverbs, under the stock driver and under ours (MIX=rdma_rxe),
# for the drivers do not answer alike: see as_recorded in lib.sh.
# rows: 4.021 4.025 9.034
# mix: ib_uverbs
# timeout: 300
# cpus: 2
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")
modules_load && net_up || exit
# What the kernel tells of GIDs comes from these.
on A ip link set vethA address 02:00:00:00:00:0a
on B ip link set vethB address 02:00:00:00:00:0b
retry 20 on B ping -q -c 1 -W 1 "$(addr A)"
link_up A || exit
file=/dev/infiniband/$(on A bash -c 'cd /sys/class/infiniband_verbs && grep -lx rxe0 uverbs*/ibdev | cut -d/ -f1')
fuzz() { on_exec A setpriv --reuid=65534 --clear-groups "$here/hostile_verbs" "$file" "$here/hostile_verbs-tables.txt" "$@"; }

if our_driver; then driver=ours; else driver=stock; fi
expected=$(of_this_kernel "$here/hostile_verbs-expected-$driver.txt")
# Where our ib_uverbs refuses what stock lets pass (Documentation/differences.md), its sections stand in place of stock's.
if is_ours ib_uverbs; then
	merged=$(mktemp)
	awk 'FNR == 1 { other = 1 }
		/^== / { other = FILENAME == ARGV[2] && ($0 in differs) }
		FILENAME == ARGV[1] { if (/^== /) differs[$0]; print; next } !other' "$here/hostile_verbs-differs-$driver.txt" "$expected" > "$merged"
	expected=$merged
fi
as_recorded "$expected" eval "(fuzz 1 60000)"

contexts() { [ "$(rdma resource show ctx | wc -l)" = "$1" ]; }
# Two at once, killed when they are anywhere in what they do.
storm() {
	local pids=() pid round
	for round in $(seq 20); do
		(fuzz "$round" 1000000 > /dev/null) & pids+=($!)
		(fuzz "$((round + 100))" 1000000 > /dev/null) & pids+=($!)
		retry 10 contexts 2 || return
		sleep "0.$((RANDOM % 10))"
		kill -9 "${pids[@]}"
		for pid in "${pids[@]}"; do killed_by_us "$pid" || return; done
		pids=()
	done
}
check "40 of them die at once" storm
link_up B
after_attack
