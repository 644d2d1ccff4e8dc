#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Management datagrams: which agents may be registered, which agent gets a datagram, and the answer if there is none; directed
# routes. On QP0 and QP1 of a fake InfiniBand device, with mad_test, in C.
# smoke: yes
# rows: 6.017
# kernels: stock debug uml
# timeout: 120
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mad.bash"

modprobe rdma_rxe
wire_up
rdma link add rxe0 type rxe netdev left
mad_up roce=rxe0

check_equal "the queue pairs" "create qp 0 port 1 sends 128 receives 512
create qp 1 port 1 sends 128 receives 512
qp 0 port 1 0 to 1 mask 0x51 qkey 0x0 pkey 0
qp 0 port 1 1 to 2 mask 0x1
qp 0 port 1 2 to 3 mask 0x10001
qp 1 port 1 0 to 1 mask 0x51 qkey 0x80010000 pkey 0
qp 1 port 1 1 to 2 mask 0x1
qp 1 port 1 2 to 3 mask 0x10001" "$(grep 'port 1' $parameters/asked)"
for test in agents tables dispatch smi; do
	run $test
done
mad_down
rdma link delete rxe0
finish
