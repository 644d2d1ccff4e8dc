#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The ground floor by itself: tables, timers, work, memory shared with user space, packets over the loopback device.
# smoke: yes
# rows: 9.030
# kernels: stock debug
# timeout: 120
. "$(dirname "$0")/lib.sh"

load() { modprobe kernel_ext_test && rmmod kernel_ext_test; }

ip link set lo up
if modinfo kernel_ext_test > /dev/null 2>&1; then
	check "kernel_ext's own tests, on loading" load
	check "once more" load
else
	skip "kernel_ext's own tests" "kernel_ext_test is built with FERROBAND_TESTS=m"
fi
finish
