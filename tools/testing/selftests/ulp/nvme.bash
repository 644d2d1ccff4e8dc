# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For tests of the kernel's NVMe target and host over RDMA, both in the initial network namespace, with 10.0.9.1: a target with one
# disk ($disk) in memory, and what the host writes to it and reads back.

target=/sys/kernel/config/nvmet
subsystem=$target/subsystems/ferroband
data=/tmp/nvme-data

# disk_up: a RAM disk, or a file where the kernel has none; disk_down.
disk_up() {
	disk=/dev/ram0
	if ! modprobe brd rd_nr=1 rd_size=32768 2> /dev/null; then
		disk=/tmp/nvme-disk
		truncate -s 32M $disk
	fi
}
disk_down() {
	[ $disk != /dev/ram0 ] || modprobe -r brd
	rm -f $data $data.read /tmp/nvme-disk
}

target_up() {
	modprobe nvmet-rdma || return
	mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config || return
	mkdir "$subsystem" "$subsystem/namespaces/1" "$target/ports/1" || return
	echo 1 > "$subsystem/attr_allow_any_host"
	echo -n $disk > "$subsystem/namespaces/1/device_path"
	[ $disk = /dev/ram0 ] || echo 1 > "$subsystem/namespaces/1/buffered_io"
	echo 1 > "$subsystem/namespaces/1/enable" || return
	cd "$target/ports/1" || return
	echo rdma > addr_trtype
	echo ipv4 > addr_adrfam
	echo 10.0.9.1 > addr_traddr
	echo 4420 > addr_trsvcid
	ln -s "$subsystem" subsystems/ferroband
	cd /
}

connect() {
	modprobe nvme-rdma || return
	echo "transport=rdma,traddr=10.0.9.1,trsvcid=4420,nqn=ferroband,nr_io_queues=2" > /dev/nvme-fabrics || return
	retry 10 test -b /dev/nvme0n1
}

# Blocks of several sizes: one page, a few, many.
write_data() {
	test -b /dev/nvme0n1 || return
	head -c 16M /dev/urandom > $data
	dd if=$data of=/dev/nvme0n1 bs=4k count=256 oflag=direct status=none &&
		dd if=$data of=/dev/nvme0n1 bs=64k skip=16 seek=16 count=48 oflag=direct status=none &&
		dd if=$data of=/dev/nvme0n1 bs=1M skip=4 seek=4 count=12 oflag=direct status=none
}

same_data() { cmp -n 16M $data "$1"; }
read_data() { test -b /dev/nvme0n1 && dd if=/dev/nvme0n1 of=$data.read bs=512k count=32 iflag=direct status=none && same_data $data.read; }

disconnect() { echo 1 > /sys/class/nvme/nvme0/delete_controller && retry 10 test ! -e /sys/class/nvme/nvme0; }

target_down() {
	rm "$target/ports/1/subsystems/ferroband" && rmdir "$target/ports/1" "$subsystem/namespaces/1" "$subsystem" || return
	modprobe -r nvme-rdma nvmet-rdma
}
