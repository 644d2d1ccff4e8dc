#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The client of the subnet administrator: queries as they are on the wire, byte by byte, and how they end; the subnet manager
# changes; the local service is asked before it (local_service.py). On a fake InfiniBand device with an administrator of its own;
# what is refused on RoCE.
# kernels: stock debug
# timeout: 120
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mad.bash"

modprobe rdma_rxe
wire_up
rdma link add rxe0 type rxe netdev left
mad_up roce=rxe0
for test in sa manager; do
	run $test
done
is_ours ib_core && strict=strict
told "the local service" "$(dirname "$0")/local_service.py" ${strict:-}
mad_down
rdma link delete rxe0
finish
