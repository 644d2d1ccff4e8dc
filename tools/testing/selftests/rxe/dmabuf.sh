#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Memory regions in DMA buffers (verbs_dmabuf.c), of udmabuf and of an exporter that revokes them under traffic: on one device by copying
# from memory to memory, and in packets. A region that outlives its revocation is one that KASAN or the exporter's pattern sees.
# timeout: 240
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")
our_driver || skip_all "the stock driver has no regions in DMA buffers"
modinfo fake_dmabuf > /dev/null 2>&1 || skip_all "fake_dmabuf is built with FERROBAND_TESTS=m"

modprobe fake_dmabuf
for copy in 1 0; do
	modprobe rdma_rxe direct_copy=$copy && hosts_up || exit
	[ -e /dev/udmabuf ] || skip_all "the kernel has no udmabuf"
	told "direct_copy=$copy, DMA buffers: the end" on A timeout 60 "$here/verbs_dmabuf" rxe0 "$(gid_index A)"
	check "direct_copy=$copy: nothing is left" retry 5 no_objects
	hosts_down && modules_unload || fail "direct_copy=$copy: unloading"
done
# Nobody holds a buffer any more.
check "the exporter goes" modprobe -r fake_dmabuf
finish
