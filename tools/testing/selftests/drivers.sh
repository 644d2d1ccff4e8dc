#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The stock drivers of RDMA devices load on the core, without any hardware, and go again.
# rows: 9.010
# mixes: all
# timeout: 120
. "$(dirname "$0")/lib.sh"

folder=/lib/modules/$(uname -r)/kernel/drivers/infiniband

# loads MODULE: with all that it needs, so that each symbol of it is found; then it goes, and what was loaded for it.
loads() {
	modprobe "$1" && grep -q "^$1 " /proc/modules && modprobe -r "$1" && ! grep -q "^$1 " /proc/modules
}

needs_mad
modules_load || exit
check "rdma link add" eval 'net_up && link_up A'
found=0
while read -r file; do
	module=$(basename "${file%.ko}" | tr - _)
	[ "$module" != rdma_rxe ] || continue
	check "$module" loads "$module"
	found=$((found + 1))
done < <(find "$folder/hw" "$folder/sw" -name '*.ko' | sort)
check "there are drivers" [ $found -gt 5 ]
check "no symbol was missing" eval '! dmesg | grep -E "Unknown symbol|disagrees about version"'
check "the device is still there" eval '[ -e /sys/class/infiniband/rxe0 ]'
hosts_down
check "the modules go" modules_unload
finish
