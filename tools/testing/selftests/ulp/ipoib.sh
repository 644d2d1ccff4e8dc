#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The stock ib_ipoib loads and takes no port that is RoCE, neither of a device that is there nor of one that comes; and it goes.
# (What it does on an InfiniBand port cannot be seen here: there is none.)
# timeout: 120
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/ulp.bash"

# Its net devices are of the type InfiniBand, 32.
no_ipoib() { ! grep -lx 32 /sys/class/net/*/type && ! ls -d /sys/class/net/ib*; } 2> /dev/null
# The lines of the kernel's log that begin with its name, or that of the device that it would be on.
nothing_said() { ! dmesg | sed '1,/ib_ipoib: mark/d' | grep -iE 'ipoib|unknown symbol'; }
another_device() { rdma link add rxeM type rxe netdev vethM && retry 5 test -e /sys/class/infiniband/rxeM/ports/1/gids/0; }

has_modules ib_ipoib
check "a device" device_up
mark ib_ipoib
check "ib_ipoib loads" modprobe ib_ipoib
check "it takes no port of the device" no_ipoib
check "another device" another_device
check "it takes no port of that one" no_ipoib
check "the other device goes under it" rdma link del rxeM
check "ib_ipoib goes" modprobe -r ib_ipoib
check "it said nothing" nothing_said
check "the device goes" device_down
check "the driver is not used any more" retry 10 not_used rdma_rxe
finish
