#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The stock iSER initiator (ib_iser, by iscsiadm) and target (ib_isert under LIO) over one device: login; data that comes back
# as it was written, blocks of 512 bytes to 1 MiB, several at once; a logout under load, and the data are there still.
# rows: 7.019 7.020
# timeout: 300
# cpus: 2
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/ulp.bash"

target=iqn.2026-01.org.ferroband:disk
portal=$ulp_address:3260
# For discovery, by TCP: iscsiadm, which is the initiator of a discovery session itself, does not see a response that comes before the
# kernel has answered the call that sends the request. By iSER this happens in one of some 50 sessions, on the stock modules too.
discovery_portal=$ulp_address:3261
group=$lio/iscsi/$target/tpgt_1

# What `enable_iser true` of targetcli does, and what it does before.
target_up() {
	local setting
	modprobe -a iscsi_target_mod ib_isert && lio_disk_up && mkdir -p "$group"/np/{$portal,$discovery_portal} "$group/lun/lun_0" || return
	echo 1 > "$group/np/$portal/iser" && ln -s $lio_disk "$group/lun/lun_0/disk" || return
	for setting in authentication=0 generate_node_acls=1 demo_mode_write_protect=0 cache_dynamic_acls=1; do
		echo "${setting#*=}" > "$group/attrib/${setting%=*}" || return
	done
	echo 1 > "$group/enable"
}

discovered() {
	modprobe ib_iser && daemon iscsid -f && retry 10 iscsiadm -m iface > /dev/null || return
	iscsiadm -m discovery -t sendtargets -p $discovery_portal | grep "$portal,1 $target" && iscsiadm -m node -T $target -o delete
}

node() { timeout 60 iscsiadm -m node -T $target -p $portal "$@"; }
new_node() { node -o new && node -o update -n iface.transport_name -v iser; }
login() {
	node --login || return
	iscsiadm -m session -P 1 | grep 'Iface Transport: iser' && retry 10 scsi_disk LIO-ORG
}
logout() { node --logout && retry 10 no_disk; }
no_disk() { ! scsi_disk LIO-ORG; }

target_down() {
	local status=0
	node -o delete
	daemons_down || status=1
	echo 0 > "$group/enable"
	rm "$group/lun/lun_0/disk" && rmdir "$group/lun/lun_0" "$group"/np/* "$group" "${group%/*}" $lio/iscsi || status=1
	lio_disk_down || status=1
	modprobe -r ib_iser && modprobe -r ib_isert && return $status
}

has_modules ib_iser ib_isert
check "a device" device_up
check "a target" target_up
check "discovery" discovered
check "a node, by iSER" new_node
check "login" login
disk=/dev/$(scsi_disk LIO-ORG)
check "random operations" disk_exercised "$disk"
check "write 16 MiB and read them back" disk_keeps "$disk"
check "logout under load" lost_under_load "$disk" logout
check "login once more" login
check "the data are there still" cmp -n 16M $ulp_work/data "/dev/$(scsi_disk LIO-ORG)"
check "logout" logout
check "the target goes" target_down
check "the device goes" device_down
check "the driver is not used any more" retry 10 not_used rdma_rxe
finish
