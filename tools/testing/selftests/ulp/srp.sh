#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The stock SRP initiator (ib_srp) and target (ib_srpt under LIO) over one device, login by rdma_cm: an initiator that is not
# listed is rejected; data are read back as they were written, blocks of 512 bytes to 1 MiB, several at once; the port is removed under
# load, and the data are still there.
# rows: 7.021 7.022
# timeout: 300
# cpus: 2
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/ulp.bash"

initiator=/sys/class/infiniband_srp/srp-rxeN-1
ports=/sys/class/srp_remote_ports
port=5555

target_up() {
	modprobe ib_srpt && lio_disk_up && mkdir $lio/srpt && echo $port > $lio/srpt/discovery_auth/rdma_cm_port || return
	mkdir -p "$group/lun/lun_0" && ln -s $lio_disk "$group/lun/lun_0/disk" && echo 1 > "$group/enable"
}

login() {
	local id
	id=$(tr -d : <<< "$guid")
	timeout 60 sh -c 'echo "id_ext=$1,ioc_guid=$1,dest=$2" > $3/add_target' sh "$id" "$ulp_address:$port" $initiator || return
	retry 10 scsi_disk LIO-ORG
}
turned_away() { modprobe ib_srp && retry 5 test -e $initiator && ! login 2> /dev/null && [ -z "$(ls $ports)" ]; }
listed() { mkdir -p "$group/acls/$ulp_address/lun_0" && ln -s "$group/lun/lun_0" "$group/acls/$ulp_address/lun_0/disk"; }
logout() {
	timeout 60 sh -c 'for port in $1/*; do echo 1 > $port/delete; done' sh $ports && retry 10 no_host
}
no_host() { ! grep -s ib_srp /sys/class/scsi_host/*/proc_name; }
# A port that is still on its way out, without its host, would be taken for the same.
login_again() { retry 20 login; }

target_down() {
	local status=0
	echo 0 > "$group/enable"
	rm "$group/acls/$ulp_address/lun_0/disk" && rmdir "$group/acls/$ulp_address/lun_0" "$group/acls/$ulp_address" || status=1
	rm "$group/lun/lun_0/disk" && rmdir "$group/lun/lun_0" "$group" "${group%/*}" || status=1
	echo 0 > $lio/srpt/discovery_auth/rdma_cm_port
	rmdir $lio/srpt && lio_disk_down || status=1
	modprobe -r ib_srp && modprobe -r ib_srpt && return $status
}

has_modules ib_srp ib_srpt
check "a device" device_up
guid=$(cat /sys/class/infiniband/rxeN/node_guid)
group=$lio/srpt/$guid/$guid
check "a target" target_up
check "who is not listed is turned away" turned_away
check "who is listed" listed
check "login" login
disk=/dev/$(scsi_disk LIO-ORG)
check "random operations" disk_exercised "$disk"
check "write 16 MiB and read them back" disk_keeps "$disk"
check "the port goes under load" lost_under_load "$disk" logout
check "login once more" login_again
check "the data are there still" cmp -n 16M $ulp_work/data "/dev/$(scsi_disk LIO-ORG)"
check "logout" logout
check "the target goes" target_down
check "the device goes" device_down
check "the driver is not used any more" retry 10 not_used rdma_rxe
finish
