#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# KASAN, in a kernel that has it, sees wrong accesses of our Rust code: without that its silence would prove nothing.
# kernels: uml
# provokes: KASAN
. "$(dirname "$0")/lib.sh"

modinfo kasan_probe > /dev/null 2>&1 || skip_all "this kernel has no KASAN (make check KERNEL=uml), or FERROBAND_TESTS=m was not said"

# reported KIND FUNCTION: KASAN has told of a fault of this kind in this function.
reported() { dmesg | grep -A 1 "KASAN: $1 in" | grep -c "$2"; dmesg | grep -q "KASAN: $1 in .*$2"; }

check "the module loads" modprobe kasan_probe
check "a read beyond the end" reported slab-out-of-bounds reads_beyond_the_end
check "a write after free" reported slab-use-after-free writes_after_free
check "a copy of too much" reported slab-out-of-bounds copies_too_much
rmmod kasan_probe
finish
