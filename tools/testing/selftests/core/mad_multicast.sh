#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Multicast groups of the subnet administrator: members come and go, in several states; what they are refused; what happens to
# the port under them. On a fake InfiniBand device with an administrator of its own.
# kernels: stock debug
# timeout: 120
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mad.bash"

mad_up
run mcast
mad_down
finish
