#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# KCSAN, in a kernel that has it, sees races of our Rust code and keeps silent of what is none: without that its silence
# would prove nothing.
# kernels: kcsan
# timeout: 100
# provokes: KCSAN
. "$(dirname "$0")/lib.sh"

modinfo race_probe > /dev/null 2>&1 || skip_all "this kernel has no KCSAN (make check KERNEL=kcsan), or FERROBAND_TESTS=m was not said"

# How many accesses go by before one is watched: chance has a say in what is seen, so it gets more of them here.
SKIP=/sys/module/kcsan/parameters/skip_watch
ROUNDS=5

titles() { dmesg | grep 'BUG: KCSAN: data-race in' | grep race_probe; }

# reported A B: KCSAN has told of a race of these two functions; reported A: of one with somebody that it does not know.
reported() { titles | grep "$1" | grep -q "${2:-race_probe_clock_reads}"; }
all_reported() { reported plain_reads plain_writes && reported atomic_reads plain_writes && reported takes early_passes && reported clock_reads; }

# The reports of which a stack has this access by this function.
accesses() { dmesg | grep -A 1 "] $1 to 0x" | grep -q "$2"; }
silent() { ! titles | grep "$1"; }

load() {
	local round
	for ((round = 0; round < ROUNDS; round++)); do
		modprobe race_probe && rmmod race_probe || return 1
		! all_reported || return 0
	done
}

before=$(cat $SKIP)
echo 3 > $SKIP
check "the module loads" load
echo "$before" > $SKIP
titles | sed 's/.*BUG: //' | sort | uniq -c | diagnose
check "a plain read and a plain write" reported plain_reads plain_writes
check "an atomic read and a plain write" reported atomic_reads plain_writes
check "an atomic access is told as marked" accesses "read (marked)" atomic_reads
check "a value that is handed over without release" reported takes early_passes
check "a write by who is not watched" reported clock_reads
check "no race of atomic and volatile accesses" silent race_probe_good_loads
check "no race of a value that is handed over with release" silent race_probe_good_passes
finish
