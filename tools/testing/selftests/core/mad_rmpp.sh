#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Transfers in segments (RMPP): a sender and a receiver by themselves, whose peer is played by the test, and both together over a
# network that loses, doubles and reorders. On a fake InfiniBand device.
# rows: 6.017
# kernels: stock debug
# timeout: 120
# long: 180 TIMEOUT=yes
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mad.bash"

mad_up
run rmpp
[ -z "${TIMEOUT:-}" ] || run rmpp-timeout
mad_down
finish
