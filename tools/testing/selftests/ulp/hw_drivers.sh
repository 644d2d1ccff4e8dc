#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# All drivers of RDMA hardware in the kernel's source, and siw, load on this ib_core: each symbol that they import resolves. There is no
# hardware: a driver that ends its initialization with ENODEV for that has resolved its symbols before.
# Those that Debian does not build come from the same source (tools/provision, LEFT_OUT).
# rows: 7.030 4.034 9.010
# timeout: 300
. "$(dirname "$0")/lib.sh"

drivers="bng_re bnxt_re efa erdma hfi1 hns_roce_hw_v2 ib_mthca ionic_rdma irdma iw_cxgb4 mana_ib mlx4_ib mlx5_ib ocrdma qedr
	usnic_verbs vmw_pvrdma"

# Every driver in the folders of the kernel's modules is in the list.
all_named() {
	local file driver
	find "/lib/modules/$(uname -r)/kernel/drivers/infiniband/hw" -name '*.ko*' | while read -r file; do
		driver=$(basename "${file%.ko*}" | tr - _)
		grep -qw "$driver" <<< "$drivers" || { echo "$driver is not in the list"; exit 1; }
	done
}

loads() {
	local said status=0
	mark "$1"
	said=$(timeout 60 modprobe "$1" 2>&1) || status=$?
	! dmesg | sed "1,/$1: mark/d" | grep -E 'Unknown symbol|disagrees about|Invalid module|Unable to load' || return
	if [ $status = 0 ]; then
		grep -q "^$1 " /proc/modules
	else
		echo "$said"
		grep -q 'No such device' <<< "$said"
	fi
}
uses_core() { modinfo -F depends "$1" | tr , '\n' | grep -qx ib_core; }
goes() { ! grep -q "^$1 " /proc/modules || modprobe -r "$1"; }

check "the list is complete" all_named
check_equal "it has 17 drivers" 17 "$(wc -w <<< "$drivers")"
for driver in $drivers siw; do
	check "$driver imports from ib_core" uses_core "$driver"
	check "$driver loads" loads "$driver"
	check "$driver goes" goes "$driver"
done
check "ib_core is in use no more" modules_unload
finish
