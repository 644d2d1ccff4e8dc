#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Each allocation of the kernel fails in turn, inside of each command of /dev/infiniband/rdma_cm (faults_ucm.c): an error comes out or the
# command succeeds nevertheless, nothing is left behind, and the same command works after that.
# Only a kernel with fault injection can do it.
# kernels: debug uml
# mix: rdma_ucm
# timeout: 240
# allows: faults_ucm: page allocation failure: order:*
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")
. "$here/faults_lib.sh"

faults_on
hosts_up || exit
told "commands: the end" on A "$here/faults_ucm" "$(addr A)"
check "connections work" rdma_pair rping -s -a "$(addr A)" -V -C 5 -- rping -c -a "$(addr A)" -V -C 5
check "nothing is left" retry 10 no_objects
hosts_down
check "the modules go" modules_unload
finish
