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

# complaints: about symbols, since the mark.
complaints() { dmesg | awk '/drivers: mark$/ { n = 0 } /Unknown symbol|disagrees about version/ { said[n++] = $0 } END { for (i = 0; i < n; i++) print said[i] }'; }

modules_load || exit
mark drivers
net_up || exit
check "rdma link add" link_up A
found=0
while read -r file; do
	module=$(basename "${file%.ko}" | tr - _)
	[ "$module" != rdma_rxe ] || continue
	check "$module" loads "$module"
	found=$((found + 1))
done < <(find "$folder/hw" "$folder/sw" -name '*.ko' | sort)
check "there are drivers" [ $found -gt 5 ]
check_equal "no symbol was missing" "" "$(complaints)"
check "the device is still there" eval '[ -e /sys/class/infiniband/rxe0 ]'
hosts_down
check "the modules go" modules_unload
finish
