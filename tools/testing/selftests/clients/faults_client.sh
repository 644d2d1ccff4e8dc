#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Each allocation fails in turn, inside of each verb that a client in the kernel calls (faults_client.c, failing_client): an
# error comes out or the call succeeds nevertheless, nothing is left behind, and the same call works after that.
# Only a kernel with fault injection can do it.
# kernels: debug uml
# mix: rdma_rxe
# mixes: all
# timeout: 120
# allows: faults_client: vmalloc error: size *
# allows: faults_client: page allocation failure: order:*
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")
. "$here/faults_lib.sh"

faults_on
modinfo failing_client > /dev/null 2>&1 || skip_all "failing_client is built with FERROBAND_TESTS=m"
modprobe rdma_rxe
wire_up
rdma link add rxe0 type rxe netdev left
check "a client" retry 10 modprobe failing_client device=rxe0
told "kernel verbs: the end" "$here/faults_client"
check "it goes" rmmod failing_client
check "nothing is left" retry 10 no_objects
check "the device goes" rdma link delete rxe0
ip link delete left
check "the modules go" modules_unload
finish
