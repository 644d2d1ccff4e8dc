#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What drivers use of ib_uverbs_support beside objects (../modules/uverbs_support_test.c), and who they are: the stock mlx5_ib
# finds what it imports.
# mix: ib_uverbs
# smoke: yes
# mixes: all
# timeout: 60
. "$(dirname "$0")/lib.sh"

modinfo uverbs_support_test > /dev/null 2>&1 || skip_all "uverbs_support_test is built with FERROBAND_TESTS=m"
hosts_up || exit
ucap=/dev/infiniband/mlx5_perm_ctrl_other_vhca
node=/dev/infiniband/$(basename "$(dirname "$(grep -lx rxe0 /sys/class/infiniband_verbs/uverbs*/ibdev)")")

check "flow resources, locks of objects, capabilities" modprobe uverbs_support_test
retry 5 test -c $ucap
check_equal "only root may open a capability" "600 root" "$(stat -c '%a %U' $ucap)"
check_equal "its class" "$(basename $ucap)" "$(ls /sys/class/infiniband_ucaps)"
told "contexts with capabilities: the end" timeout 30 "$(dirname "$0")/uverbs_support" "$node" $ucap uverbs_support_test
if modinfo mlx5_ib > /dev/null 2>&1; then
	check "mlx5_ib loads" modprobe mlx5_ib
	check "mlx5_ib can be removed" modprobe -r mlx5_ib
else
	skip "mlx5_ib loads" "this kernel was built without it"
fi
finish
