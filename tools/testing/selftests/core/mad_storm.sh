#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Management datagrams under stress: the device goes with everything under way and comes again; agents, requests, transfers,
# queries, groups, events and forged packets all at once, over a bad network. On a fake InfiniBand device.
# kernels: stock debug uml kcsan
# timeout: 120
# long: 600 STORM_MS=300000
# cpus: 2
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mad.bash"

mad_up storm_ms="${STORM_MS:-2000}"
run removal
run storm
run removal
mad_down
finish
