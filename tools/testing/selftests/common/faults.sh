#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Each allocation of the kernel fails in turn, inside of each verb of a program (faults_verbs.c; faults_fake.c for what no
# software device has): an error comes out or the call succeeds nevertheless, nothing is left behind, and the same call works
# after that.
# Only a kernel with fault injection can do it.
# kernels: debug uml
# mix: ib_uverbs rdma_rxe
# mixes: all
# timeout: 240
# allows: faults_verbs: vmalloc error: size *
# allows: faults_verbs: page allocation failure: order:*
# allows: faults_fake: vmalloc error: size *
# allows: faults_fake: page allocation failure: order:*
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")
. "$here/faults_lib.sh"

faults_on
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
hosts_up || exit
told "verbs: the end" on A "$here/faults_verbs" rxe0 "$(gid_index A)" "$(gid_index A 6)"
check "the device works" pingpong ibv_rc_pingpong -n 50 -c

if modinfo fake_verbs > /dev/null 2>&1; then
	modprobe fake_verbs
	node=$(grep -l fakev0 /sys/class/infiniband_verbs/uverbs*/ibdev)
	told "a device that does not exist: the end" "$here/faults_fake" "/dev/infiniband/$(basename "$(dirname "$node")")"
	check_equal "no object of it is left" 0 "$(cat /sys/module/fake_verbs/parameters/live)"
	check "it can be removed" retry 5 modprobe -r fake_verbs
fi
check "nothing is left" retry 10 no_objects
link_down A
link_down B
check "the modules go" modules_unload
finish
