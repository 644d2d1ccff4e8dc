# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For tests of the kernel's own users of RDMA: server and client in one machine's initial network namespace (most of them
# know no other), over one device, rxeN with 10.0.9.1.

ulp_address=10.0.9.1
ulp_work=/tmp/ulp

# device_up, device_down: rxeN on one end of a veth pair whose other end is only up.
device_up() {
	modprobe -a rdma_rxe rdma_ucm && mkdir -p $ulp_work && ip link add vethN type veth peer name vethM || return
	ip addr add $ulp_address/24 dev vethN
	ip link set vethM mtu 4200 up
	ip link set vethN mtu 4200 up
	rdma link add rxeN type rxe netdev vethN && retry 5 grep -qs '0a00:0901' /sys/class/infiniband/rxeN/ports/1/gids/*
}
device_down() { rm -rf $ulp_work && rdma link del rxeN && ip link del vethN; }

# over_rdma MIB COMMAND...: it does well, and the device sends at least so much meanwhile.
over_rdma() {
	local before sent status=0
	before=$(_sent)
	"${@:2}" || status=$?
	sent=$((($(_sent) - before) >> 20))
	[ $sent -ge "$1" ] || { echo "the device sent $sent MiB, not $1"; return 1; }
	return $status
}
# The counters are refreshed when they are older than 10 ms.
_sent() { sleep 0.05; cat /sys/class/infiniband/rxeN/ports/1/hw_counters/sent_bytes; }

# fresh_data FILE MIB: random bytes, nothing that was there before.
fresh_data() { head -c "$2M" /dev/urandom > "$1"; }

drop_caches() { sync && echo 3 > /proc/sys/vm/drop_caches; }

# has_modules NAME...: skips the whole program where the kernel lacks one.
has_modules() {
	local name
	for name; do modprobe -qn "$name" || skip_all "this kernel has no $name"; done
}

# daemon COMMAND...: starts it, in a session of its own (some end all of their group), with its output in $ulp_work/NAME.log;
# daemons_down: ends those that were started.
daemon() {
	setsid "$@" > "$ulp_work/${1##*/}.log" 2>&1 < /dev/null &
	echo $! >> $ulp_work/daemons
}
daemons_down() {
	local pids pid
	mapfile -t pids < $ulp_work/daemons
	kill "${pids[@]}"
	for pid in "${pids[@]}"; do retry 10 test ! -e "/proc/$pid/exe" || return; done
}

# scsi_disk VENDOR: the name (sdX) of the disk that a target of the kernel presents.
scsi_disk() {
	local disk
	for disk in /sys/block/sd*; do
		[ "$(xargs < "$disk/device/vendor")" != "$1" ] || { echo "${disk##*/}"; return; }
	done 2> /dev/null
	return 1
}

# disk_exercised DEVICE: blocks of 512 bytes to 1 MiB, by one process and by four at once.
disk_exercised() {
	over_rdma 16 to_its_end "$(dirname "$0")/exercise" disk "$1" $((8 << 20)) 400 &&
		to_its_end "$(dirname "$0")/exercise" disks "$1" $((16 << 20)) 800
}

# lio_disk_up, lio_disk_down: the kernel's target (LIO) gets a disk of 32 MiB in memory, $lio_disk.
lio=/sys/kernel/config/target
lio_disk=$lio/core/rd_mcp_0/disk
lio_disk_up() {
	modprobe -a target_core_mod sd_mod || return
	mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config || return
	mkdir -p $lio_disk && echo rd_pages=8192 > $lio_disk/control && echo 1 > $lio_disk/enable
}
lio_disk_down() { rmdir $lio_disk ${lio_disk%/*}; }

# disk_keeps DEVICE: what is written to it is there.
disk_keeps() {
	fresh_data $ulp_work/data 16
	over_rdma 16 dd if=$ulp_work/data of="$1" bs=1M oflag=direct status=none &&
		over_rdma 16 dd if="$1" of=$ulp_work/read bs=256k count=64 iflag=direct status=none && cmp $ulp_work/data $ulp_work/read
}

# lost_under_load DEVICE COMMAND...: a command that removes the disk while it is read: the reader ends, with an error.
lost_under_load() {
	local reader status=0 ended=0
	timeout 60 sh -c 'while dd if="$1" of=/dev/null bs=64k iflag=direct status=none; do :; done' sh "$1" 2> /dev/null &
	reader=$!
	sleep 2
	"${@:2}" || status=$?
	wait $reader || ended=$?
	[ $ended != 124 ] || { echo "the reader hangs"; return 1; }
	return $status
}
