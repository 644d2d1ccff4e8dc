#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The stock NFS server and client (rpcrdma) over one device, versions 3, 4.1 and 4.2: 16 MiB come back as they were written;
# random reads, writes, mappings, holes and truncations (exercise.c, after the manner of fsx) and a tree of files are right.
# rows: 1.035 1.036 7.024
# timeout: 400
# cpus: 2
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/ulp.bash"

export=/run/nfs/export
mnt=/run/nfs/mnt
pipefs=/run/rpc_pipefs
data=$ulp_work/data
tree=/opt/rdma-core

# With nfsdcld the server knows that there are no clients of an earlier life whom it must wait for.
server_up() {
	modprobe -a nfsd rpcrdma && mkdir -p $export $mnt $pipefs $ulp_work/nfsdcld || return
	mount -t tmpfs none $export && mount -t rpc_pipefs none $pipefs || return
	mountpoint -q /proc/fs/nfsd || mount -t nfsd none /proc/fs/nfsd || return
	daemon rpcbind -f && daemon rpc.mountd --foreground --no-udp && daemon nfsdcld -F -s $ulp_work/nfsdcld
	retry 10 mountd_listens || return
	exportfs -o rw,fsid=0,no_root_squash,insecure "$ulp_address:$export" || return
	rpc.nfsd --rdma=20049 4 && grep -q 'rdma 20049' /proc/fs/nfsd/portlist
}
mountd_listens() { rpcinfo -p | grep -q mountd; }

# mounted VERSION: version 3 has no root of all exports.
mounted() {
	local path=/
	[ "$1" != 3 ] || path=$export
	timeout 60 mount -t nfs -o "vers=$1,rdma,port=20049,nolock,retry=0" "$ulp_address:$path" $mnt || return
	grep " $mnt nfs.*vers=$1,.*proto=rdma" /proc/mounts
}
unmounted() { timeout 60 umount $mnt; }

written() { over_rdma 16 dd if=$data of=$mnt/data bs=1M conv=fsync status=none && cmp $data $export/data; }
read_back() { drop_caches && over_rdma 16 cmp $data $mnt/data; }
exercised() { to_its_end timeout 120 "$(dirname "$0")/exercise" file $mnt/exercised $((2 << 20)) "$1" && drop_caches && rm $mnt/exercised; }

# A tree is copied, renamed, linked to and removed.
tree_kept() {
	cp -r $tree $mnt/tree && mv $mnt/tree $mnt/moved && drop_caches || return
	diff -r $tree $mnt/moved && diff -r $tree $export/moved || return
	ln $mnt/data $mnt/link && ln -s data $mnt/symlink && chmod 640 $mnt/link || return
	[ "$(stat -c '%a %h %s' $export/data)" = "640 2 16777216" ] && cmp $data $mnt/symlink || return
	rm -r $mnt/moved $mnt/link $mnt/symlink && [ "$(ls $export)" = data ]
}

server_down() {
	local status=0
	rpc.nfsd 0 || status=1
	exportfs -f
	daemons_down || status=1
	umount /proc/fs/nfsd $pipefs $export || status=1
	modprobe -r rpcrdma || status=1
	modprobe -r nfsd
	return $status
}

has_modules nfsd rpcrdma nfsv3 nfsv4
check "a device" device_up
check "a server" server_up
fresh_data $data 16
for version in 4.2 4.1 3; do
	check "version $version: mount" mounted $version
	check "version $version: write 16 MiB" written
	check "version $version: read them back" read_back
	check "version $version: random operations" exercised "$([ $version = 4.2 ] && echo 150 || echo 60)"
	[ $version = 4.1 ] || check "version $version: a tree of files" tree_kept
	check "version $version: unmount" unmounted
	rm -f $export/data
done
check "the server goes" server_down
check "the device goes" device_down
check "the driver is not used any more" retry 10 not_used rdma_rxe
finish
