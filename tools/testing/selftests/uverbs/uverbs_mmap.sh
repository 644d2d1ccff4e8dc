#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Mappings of a device's memory: in a process and its children, and how they are taken away when the device is reset or goes.
# rows: 2.049 4.027
# mix: ib_uverbs
# mixes: all
# cpus: 2
. "$(dirname "$0")/lib.sh"

modinfo fake_mmap > /dev/null 2>&1 || skip_all "fake_mmap is built with FERROBAND_TESTS=m"
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
for round in first second; do
	check "a device whose memory can be mapped, the $round time" modprobe -a ib_uverbs fake_mmap
	node=$(grep -lx fakem0 /sys/class/infiniband_verbs/*/ibdev | cut -d/ -f5)
	told "mappings: the end" timeout 30 "$(dirname "$0")/uverbs_mmap" "/dev/infiniband/$node"
	check "nobody holds the driver" retry 5 not_used fake_mmap
	check "the driver goes" modprobe -r fake_mmap
done
check "the modules go" modules_unload
finish
