#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The ioctl methods of objects, attribute by attribute (uverbs_ioctl.c).
# smoke: yes
# kernels: stock debug
# rows: 1.047 2.016 4.022
# mixes: all rdma_rxe ib_uverbs
# timeout: 60
. "$(dirname "$0")/lib.sh"

hosts_up || exit
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
node=/dev/infiniband/$(basename /sys/class/infiniband/rxe0/device/infiniband_verbs/uverbs* 2> /dev/null)
[ -c "$node" ] || node=/dev/infiniband/uverbs0
told "ioctl of objects: the end" on A timeout 50 "$(dirname "$0")/uverbs_ioctl" "$node" "$(gid_index A)" \
	"$(is_ours ib_uverbs && echo ours || echo stock)" "$(our_driver && echo ours || echo stock)"
check "nothing is left" retry 5 no_objects
check "the driver is not used any more" retry 5 not_used rdma_rxe
finish
