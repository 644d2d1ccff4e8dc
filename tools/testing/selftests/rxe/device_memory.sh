#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Memory of a device and regions in it (verbs_dm.c): none by default, as on the stock driver; with it, on one device by copying from memory
# to memory and in packets, and between two devices. What goes while it is used is what KASAN sees.
# timeout: 240
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")
dm() { on A timeout 60 "$here/verbs_dm" "${@:1:4}" "$5"; } # two devices with their GIDs' indices, KiB

hosts_up || exit
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
told "by default: the end" dm rxe0 "$(gid_index A)" rxe1 "$(gid_index B)" 0
if our_driver; then
	for copy in 1 0; do
		hosts_down && modules_unload || fail "direct_copy=$copy: unloading"
		modprobe rdma_rxe device_memory=1023 direct_copy=$copy && hosts_up || exit
		# Whole pages of 1023 KiB.
		told "direct_copy=$copy, one device: the end" dm rxe0 "$(gid_index A)" rxe0 "$(gid_index A)" 1020
	done
	told "two devices: the end" dm rxe0 "$(gid_index A)" rxe1 "$(gid_index B)" 1020
	check "nothing is left" retry 5 no_objects
	hosts_down
	check "the module goes" modules_unload
	modprobe rdma_rxe
fi
finish
