#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# FLUSH to persistent memory (verbs_flush.c): capability, rights, and the bytes that the processors write back, which a probe of
# arch_wb_cache_pmem shows. That they survive a loss of power is not tried: the memory is ordinary (../modules/fake_pmem.c).
# mixes: long
# timeout: 90
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0") tracing=/run/tracing

modinfo fake_pmem > /dev/null 2>&1 || skip_all "fake_pmem is built with FERROBAND_TESTS=m"
# Where a program in a network namespace sees it, which has a /sys of its own.
mkdir -p $tracing && mount -t tracefs none $tracing
[ -e $tracing/kprobe_events ] && grep -qw arch_wb_cache_pmem /proc/kallsyms || skip_all "the kernel has no probes, or writes nothing back"
modprobe fake_pmem
echo 'p:ferroband/written_back arch_wb_cache_pmem address=%di length=%si:u64' > $tracing/kprobe_events
echo 1 > $tracing/events/ferroband/written_back/enable
hosts_up || exit
told "flushes: the end" on A timeout 60 "$here/verbs_flush" rxe0 "$(gid_index A)"
check "nothing is left" retry 5 no_objects
echo 0 > $tracing/events/ferroband/written_back/enable
echo > $tracing/kprobe_events
hosts_down
check "the persistent memory goes" modprobe -r fake_pmem
umount $tracing
finish
