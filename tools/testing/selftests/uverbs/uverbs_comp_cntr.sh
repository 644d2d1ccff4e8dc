#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Completion counters, on kernels whose headers have them: on a device that does not exist (uverbs_comp_cntr.c,
# ../modules/fake_verbs.c), and how a device without them answers.
# smoke: yes
# kernels: stock
# mix: ib_uverbs
# mixes: all
# timeout: 60
. "$(dirname "$0")/lib.sh"

modinfo fake_verbs > /dev/null 2>&1 || skip_all "fake_verbs is built with FERROBAND_TESTS=m"
grep -q comp_cntr "$(modinfo -n fake_verbs)" || skip_all "the kernel has no completion counters"
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
live() { [ "$(cat /sys/module/fake_verbs/parameters/live)" = 0 ]; }
program=$(dirname "$0")/uverbs_comp_cntr

hosts_up || exit
node=/dev/infiniband/$(basename /sys/class/infiniband/rxe0/device/infiniband_verbs/uverbs* 2> /dev/null)
[ -c "$node" ] || node=/dev/infiniband/uverbs0
told "a device without completion counters" on A timeout 20 "$program" "$node" none
modprobe fake_verbs
fake_node() { grep -l fakev0 /sys/class/infiniband_verbs/uverbs*/ibdev; }
retry 5 fake_node
node=$(fake_node)
node=/dev/infiniband/$(basename "$(dirname "$node")")
retry 5 test -c "$node"
told "completion counters of a device that does not exist" timeout 20 "$program" "$node" fake
check "nothing is left" retry 5 live
check "the module can be removed" retry 5 modprobe -r fake_verbs
finish
