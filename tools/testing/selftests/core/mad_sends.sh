#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Management datagrams that are sent: requests with their timeouts and retries, what is cancelled or modified in which state, more
# sends than the queue takes, flow control, sends that fail, agents that go. On a fake InfiniBand device, with mad_test, in C.
# rows: 3.094 6.017 6.018
# kernels: stock debug
# timeout: 120
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mad.bash"

mad_up
run sends
run queues
mad_down
finish
