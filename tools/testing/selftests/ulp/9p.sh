#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The stock client of 9p over RDMA (9pnet_rdma) over one device: a file of 16 MiB is written and read through it, and compared; where
# nobody listens a mount is refused. Debian has no server that speaks RDMA; p9_server.c is a small one of user space, for one file.
# timeout: 300
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/ulp.bash"

mnt=/run/p9
served=$ulp_work/served
data=$ulp_work/data
port=5640

options=trans=rdma,port=$port,msize=65536,version=9p2000.L,cache=none,access=any
refused() {
	modprobe 9pnet_rdma && mkdir -p $mnt || return
	! timeout 30 mount -t 9p -o $options $ulp_address $mnt 2> $ulp_work/refused && grep 'Transport endpoint is not connected' $ulp_work/refused
}
server_up() {
	truncate -s 16M $served
	daemon "$(dirname "$0")/p9_server" $ulp_address $port $served && retry 10 listening
}
listening() { rdma resource show cm_id | grep -q "LISTEN.*:$port"; }
mounted() { timeout 30 mount -t 9p -o $options $ulp_address $mnt && grep "$mnt 9p .*trans=rdma" /proc/mounts; }
# Blocks that fill a message, that are longer, and that are odd.
written() {
	over_rdma 15 dd if=$data of=$mnt/data bs=1M conv=notrunc,fsync status=none || return
	dd if=$data of=$mnt/data bs=10007 count=50 seek=3 skip=3 conv=notrunc status=none && cmp $data $served
}
read_back() { drop_caches && over_rdma 15 cmp $data $mnt/data && [ "$(ls $mnt)" = data ] && ! cat $mnt/other 2> /dev/null; }
unmounted() { umount $mnt && retry 10 server_ended && cat $ulp_work/p9_server.log && grep -q requests $ulp_work/p9_server.log; }
server_ended() { [ ! -e "/proc/$(cat $ulp_work/daemons)/exe" ]; }

has_modules 9p 9pnet_rdma
check "a device" device_up
check "where nobody listens a mount is refused" refused
check "a server" server_up
fresh_data $data 16
check "mount" mounted
check "write 16 MiB" written
check "read them back" read_back
check "unmount, and the server sees the client go" unmounted
check "nothing is left" retry 10 no_objects
check "9pnet_rdma goes" modprobe -r 9pnet_rdma
check "the device goes" device_down
check "the driver is not used any more" retry 10 not_used rdma_rxe
finish
