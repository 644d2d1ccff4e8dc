#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The attributes of a device in libibverbs, sysfs and rdma(8), its events, and how it follows its network device.
# smoke: yes
# rows: 1.016 3.005 3.112 3.113 3.118 3.124 3.125 3.127 3.134 4.001 4.029 4.031 4.032 4.036 4.038 4.039 4.040 4.048 9.007
# mixes: all
# timeout: 180
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")

sys=/sys/class/infiniband/rxe0
read_sys() { cat "$sys/$1"; }
value() { check_equal "$1" "$2" "$(read_sys "$1")"; }      # file of the device, what it says
devinfo() { on A ibv_devinfo -v -d rxe0 | awk -F: -v key="$1" '{ name = $1; gsub(/[ \t]/, "", name) }
	name == key { sub(/^[^:]*:[ \t]*/, ""); print; exit }'; }
says() { check_equal "ibv_devinfo: $1" "$2" "$(devinfo "$1")"; }

# eui64 MAC: the interface identifier that it makes, as a GUID is printed in sysfs.
eui64() { local m; IFS=: read -ra m <<< "$1"
	printf '%02x%s:%sff:fe%s:%s%s\n' $((0x${m[0]} ^ 2)) "${m[@]:1:2}" "${m[@]:3}"; }

# tree: names of all files of the device; entries of a table count as one.
tree() { (cd "$sys/" && find . -type f ! -path '*/power/*' | sed -E 's,/[0-9]+$,/N,' | sort -u); }

# files: stock's, and those of our driver's own counters.
files() {
	{
		cat "$here/sysfs-tree.txt"
		! our_driver || printf './ports/1/hw_counters/%s\n' np_cnp_sent np_ecn_marked_roce_packets rp_cnp_handled rp_cnp_ignored
	} | sort -u
}

# gids: the addresses in the table, one a line, without type.
gids() { cat "$sys"/ports/1/gids/* 2> /dev/null | grep -v '^\(fe80\|0000\):0000:0000:0000:0000:0000:0000:0000$' | sort -u; }

# event TEXT COMMAND...: the command makes ibv_asyncwatch tell that event.
event() {
	local watcher status=0
	on_exec A stdbuf -oL ibv_asyncwatch -d rxe0 > /run/watch.log 2>&1 &
	watcher=$!
	sleep 0.7
	"${@:2}" || status=$?
	retry 5 grep -q "$1" /run/watch.log || status=1
	kill $watcher
	wait $watcher 2> /dev/null
	cat /run/watch.log
	return $status
}

# mtu BYTES ENUM: the device's MTU follows the network device's.
mtu() { on A ip link set vethA mtu "$1" && retry 3 eval '[ "$(devinfo active_mtu)" = '"'$2'"' ]'; }
state() { retry 5 eval '[ "$(cat $sys/ports/1/state)" = "'"$1"'" ]'; }

# announced add|remove: a link is added or deleted, and udev gets events of the device and of its character devices.
announced() {
	local watcher status=0
	on A modprobe ib_umad
	"$here/uevents.py" > /run/uevents &
	watcher=$!
	retry 5 grep -q listening /run/uevents
	case $1 in
	add) on A ip link add spare type veth peer name other && on A rdma link add rxe7 type rxe netdev spare ;;
	remove) on A rdma link delete rxe7 ;;
	esac || status=1
	retry 5 grep -q "$1 infiniband rxe7" /run/uevents
	kill $watcher
	wait $watcher
	cat /run/uevents
	[ "$(sed -E "/^$1 /!d; s/(umad|uverbs)[0-9]+\$/\1/" /run/uevents | sort | xargs)" = \
		"$1 infiniband rxe7 $1 infiniband_mad umad $1 infiniband_verbs uverbs" ] || status=1
	# The event of the device itself is the last one: all of it exists then.
	[ "$(sed -n '$p' /run/uevents)" = "$1 infiniband rxe7" ] || status=1
	return $status
}

hosts_up || exit
mac=$(on A cat /sys/class/net/vethA/address)

# Character devices
check_equal "uverbs0: type, mode and major" "character special file 666 e7" "$(stat -c '%F %a %t' /dev/infiniband/uverbs0)"
check_equal "uverbs0 belongs to the device" rxe0 "$(cat /sys/class/infiniband_verbs/uverbs0/ibdev)"
check_equal "ABI of the driver" 2 "$(cat /sys/class/infiniband_verbs/uverbs0/abi_version)"
check "rdma_cm" test -c /dev/infiniband/rdma_cm
check_equal "ibv_devices" "$(printf 'rxe0\nrxe1')" "$(on A ibv_devices | awk 'NR > 2 { print $1 }' | sort)"
check_equal "the GUID is made of the MAC address" "$(eui64 "$mac" | tr -d :)" "$(on A ibv_devices | awk '$1 == "rxe0" { print $2 }')"

# sysfs
check_equal "files in sysfs" "$(files)" "$(tree)"
value node_type "1: CA"
value node_guid "$(eui64 "$mac")"
value sys_image_guid "$(eui64 "$mac")"
value parent vethA
value ports/1/link_layer Ethernet
value ports/1/state "4: ACTIVE"
value ports/1/phys_state "5: LinkUp"
value ports/1/lid 0x0
value ports/1/lid_mask_count 0
value ports/1/sm_lid 0x0
value ports/1/sm_sl 0
value ports/1/pkeys/0 0xffff
check "ports/1/rate" eval "read_sys ports/1/rate | tee /dev/stderr | grep -Eq '^[0-9.]+ Gb/sec \([0-9]+X [A-Z0-9]+\)$'"
check "ports/1/cap_mask has CM_SUP" eval '[ $(($(read_sys ports/1/cap_mask) >> 16 & 1)) = 1 ]'
check "node_desc can be written" eval 'echo hello > $sys/node_desc && [ "$(read_sys node_desc)" = hello ]'
check "every counter can be read" bash -c 'cat '$sys'/ports/1/{counters,hw_counters}/* > /dev/null'

# libibverbs
check "ibv_devinfo -v" on A ibv_devinfo -v -d rxe0
says transport "InfiniBand (0)"
says state "PORT_ACTIVE (4)"
says max_mtu "4096 (5)"
says link_layer Ethernet
says phys_port_cnt 1
says max_ee 0
says max_rdd 0
says atomic_cap "ATOMIC_HCA (1)"
check "ibstat" on A ibstat rxe0
check "ibstatus" on A ibstatus rxe0

# rdma(8)
check "rdma link" eval 'on A rdma -d link show rxe0/1 | tee /dev/stderr | grep "state ACTIVE physical_state LINK_UP netdev vethA"'
check "rdma dev" eval 'on A rdma -d dev show rxe0 | tee /dev/stderr | grep "node_guid $(eui64 "$mac")"'
check "rdma res" eval 'on A rdma res show | tee /dev/stderr | grep "rxe0: "'
check "rdma res qp: the GSI QP" eval 'on A rdma res show qp link rxe0/1 | tee /dev/stderr | grep "type GSI state RTS"'
check "rdma stat" eval 'on A rdma -p stat show link rxe0/1 | tee /dev/stderr | grep sent_pkts'

# GIDs are the addresses
link_local=$(eui64 "$mac")
check_equal "a GID for each address" "$(printf '%s\n' "fe80:0000:0000:0000:$link_local" "$(_gid A 4)" "$(_gid A 6)" | sort)" "$(gids)"
check_equal "GID 0 is the link-local address" "fe80:0000:0000:0000:$link_local" "$(read_sys ports/1/gids/0)"
check "GIDs are of RoCE v2" eval '! cat $sys/ports/1/gid_attrs/types/* 2> /dev/null | grep -v "RoCE v2"'
check "GIDs are of the network device" eval '! cat $sys/ports/1/gid_attrs/ndevs/* 2> /dev/null | grep -v vethA'
check "event: an address comes" event GID_CHANGE on A ip addr add 10.0.7.1/24 dev vethA
check "and is a GID" eval 'gids | grep 0a00:0701'
check "event: an address goes" event GID_CHANGE on A ip addr del 10.0.7.1/24 dev vethA
check "and its GID" eval '! gids | grep 0a00:0701'

# The port follows the carrier
check "event: carrier lost" event PORT_ERR on B ip link set vethB down
check "the port is down" state "1: DOWN"
check "event: carrier back" event PORT_ACTIVE on B ip link set vethB up
check "the port is active" state "4: ACTIVE"
check "event: switched off" event PORT_ERR on A ip link set vethA down
check "switched on" on A ip link set vethA up
check "the port is active again" state "4: ACTIVE"

# An MTU below 1280 takes the IPv6 addresses away: not before the GIDs were seen.
for ((i = 0; i < 5; i++)); do
	IFS=' ' read -r bytes enum <<< "$(sed -n "$((i + 1))p" <<< "600 512 (2)
1500 1024 (3)
2200 2048 (4)
9000 4096 (5)
4200 4096 (5)")"
	check "network device's MTU $bytes" mtu "$bytes" "$enum"
done

# Counters
on A ip addr replace fd00::1/64 dev vethA nodad # went with the device
on B ip addr replace fd00::2/64 dev vethB nodad
retry 5 gid_index A 6 > /dev/null
before=$(read_sys ports/1/hw_counters/sent_pkts)
check "ping-pong" pingpong ibv_rc_pingpong -n 50
check "sent_pkts counts" [ $(($(read_sys ports/1/hw_counters/sent_pkts) - before)) -ge 200 ]
check "udev is told of a device when all of it is there" announced add
check "and when it goes" announced remove

# A device is known by its GUID, whatever its name is.
guid=$(eui64 "$mac")
is_known() { # NAME
	[ "$(cat "/sys/class/infiniband/$1/node_guid")" = "$guid" ] && on A rdma -d dev show "$1" | grep "node_guid $guid" &&
		on A ibv_devices | awk -v name="$1" -v guid="${guid//:/}" '$1 == name && $2 == guid { found = 1 } END { exit !found }'
}
check "another name" eval 'on A rdma dev set rxe0 name first && is_known first && test ! -e $sys'
# udev's program renames a device that its driver has named, and none that a user has.
rename=/usr/lib/udev/rdma_rename
check "udev's rule NAME_GUID: it leaves a name that a user gave" eval 'on A $rename first NAME_GUID && is_known first'
check "the first name" eval 'on A rdma dev set first name rxe0 && is_known rxe0'
if modinfo fake_ib > /dev/null 2>&1; then
	by_guid=/sys/class/infiniband/ibx0002c90300000010
	check "another device is named by its GUID" eval 'modprobe fake_ib && $rename fakeib0 NAME_GUID && grep 0002:c903:0000:0010 $by_guid/sys_image_guid'
	check "and goes by that name" eval 'modprobe -r fake_ib && test ! -e $by_guid'
else
	skip "another device is named by its GUID" "fake_ib is built with FERROBAND_TESTS=m"
fi
finish
