#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# /dev/infiniband/rdma_cm without librdmacm: what each command answers, as it was recorded on the stock rdma_ucm (ucm_contract.c); the
# node, its files in sysfs, what netlink tells of it, and the limit of backlogs.
# rows: 5.001 5.006 5.008 5.039 5.068
# mixes: rdma_ucm
# timeout: 120
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")

chardev() { "$here/nldev.py" GET_CHARDEV "$@" | grep -E 'CHARDEV|error' | xargs; }
limit=/proc/sys/net/rdma_ucm/max_backlog
# sets VALUE: the limit takes it.
sets() { echo "$1" > $limit 2> /dev/null && [ "$(cat $limit)" = "$1" ]; }
answers() { on A timeout 100 "$here/ucm_contract" "$(addr A)"; }

hosts_up || exit
check_equal "the node is everybody's" "666 root root" "$(stat -c '%a %U %G' /dev/infiniband/rdma_cm)"
check_equal "the version of the ABI" 4 "$(cat /sys/class/misc/rdma_cm/abi_version)"
check_equal "which nobody changes" 444 "$(stat -c %a /sys/class/misc/rdma_cm/abi_version)"
check "netlink tells the node" eval 'chardev CHARDEV_TYPE=rdma_cm | grep -q "CHARDEV_ABI=*.*4.*rdma_cm"'
check_equal "the limit of backlogs" 1024 "$(cat $limit)"
check "it can be changed" sets 3
check "to the largest number" sets 2147483647
check_fails "to no larger one" sets 2147483648
check_fails "to no negative one" sets -1
check "and back" sets 1024
check_equal "root alone changes it" 644 "$(stat -c %a $limit)"
as_recorded "$here/ucm_contract-expected.txt" answers
check_fails "the module stays while a file is open" bash -c 'exec 3<> /dev/infiniband/rdma_cm; rmmod rdma_ucm'
check "nothing is left" retry 10 no_objects
hosts_down
check "the modules go" modules_unload
check "and the limit with them" test ! -e $limit
finish
