#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What the device says of itself to a program: ibv_devinfo -v as it was recorded on the stock modules, names of states and events
# (verbs_names.c), what a program says that has the driver linked to it (devinfo_static.c), and what the tools say without a driver.
# rows: 2.028 3.077 3.081 3.092 3.126 3.129 3.130 3.132 3.135 4.004 4.033 4.042 4.166 4.167 4.168 4.169 8.053
# mixes: all
# timeout: 90
# cpus: 2
. "$(dirname "$0")/lib.sh"

# What rests on chance or on the rdma-core is left out, and so is what ours alone has (Documentation/differences.md): moderation of
# completion events, and XRC.
normal() {
	without_moderation | without_xrc | sed -E 's/^(\s*(node_guid|sys_image_guid):\s*).*/\1X/; s/(GID\[ *[0-9]+\]:\s*)fe80:.*(, RoCE)/\1fe80::X\2/'
}
# Nor the empty lines around it.
without_moderation() {
	awk '/^$/ { empty++; next }
		/cq moderation caps|max_cq_(count|period)/ { empty = 0; left_out = 1; next }
		{ for (empty *= !left_out; empty > 0; empty--) print ""; left_out = 0; print }
		END { for (; empty > 0; empty--) print "" }'
}

# eui64: the identifier that A's MAC address makes.
eui64() {
	local m
	IFS=: read -ra m <<< "$(on A cat /sys/class/net/vethA/address)"
	printf '%02x%s:%sff:fe%s:%s%s\n' $((0x${m[0]} ^ 2)) "${m[@]:1}"
}
devinfo() { on A ibv_devinfo -v -d rxe0 2>&1 | normal; }

sections() {
	echo "== a port that is up"
	devinfo
	echo "== the capabilities of the port in sysfs"
	cat /sys/class/infiniband/rxe0/ports/1/cap_mask
	on A ip link set vethA down
	retry 5 eval 'on A ibv_devinfo -d rxe0 | grep -q PORT_DOWN'
	echo "== a port that is down"
	devinfo
	on A ip link set vethA up
	retry 5 eval 'on A ibv_devinfo -d rxe0 | grep -q PORT_ACTIVE'
	echo "== one line a device"
	on A ibv_devices 2>&1 | sed -E 's/[0-9a-f]{16}/X/'
}

# watched: what ibv_asyncwatch prints while the link of the interface goes down and comes back.
watched() {
	local watcher
	on_exec A timeout 20 stdbuf -oL ibv_asyncwatch -d rxe0 > /run/asyncwatch 2>&1 &
	watcher=$!
	retry 5 grep -q async /run/asyncwatch
	on A ip link set vethA down
	retry 5 grep -q PORT_ERR /run/asyncwatch
	on A ip link set vethA up
	retry 5 grep -q PORT_ACTIVE /run/asyncwatch
	kill $watcher
	wait $watcher
	cat /run/asyncwatch
	grep -q 'event_type IBV_EVENT_PORT_ERR (10), port 1' /run/asyncwatch && grep -q 'event_type IBV_EVENT_PORT_ACTIVE (9), port 1' /run/asyncwatch
}

# refuses WORDS COMMAND...: the command ends with an error and says so.
refuses() {
	local output status=0
	output=$("${@:2}" 2>&1) || status=$?
	echo "status $status: $output"
	[ $status != 0 ] && grep -q "$1" <<< "$output"
}

# The library finds its drivers by the files in /etc/libibverbs.d: a command for which there are none, or another one.
undriven() { on A unshare -m bash -c 'mount -t tmpfs none /etc/libibverbs.d && "$@"' undriven "$@"; }
misdriven() { undriven bash -c 'echo "driver nosuch" > /etc/libibverbs.d/nosuch.driver && "$@"' misdriven "$@"; }
# The lines of ibv_devinfo without their indents.
plain() { sed -E 's/^\s*//; s/:\s+/: /; /^$/d'; }

hosts_up || exit
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
as_recorded "$(recorded devinfo)" sections
check_equal "moderation is there in ours alone" "$(our_driver && echo 65535 65535)" \
	"$(on A ibv_devinfo -v -d rxe0 | awk '/max_cq_(count|period)/ { print $2 }' | xargs)"
check_equal "so is XRC" "$(our_driver && echo XRC)" "$(on A ibv_devinfo -v -d rxe0 | grep -ow XRC)"
for name in node_guid sys_image_guid; do
	check_equal "$name is made of the MAC address" "$(eui64)" "$(on A ibv_devinfo -v -d rxe0 | awk -v name="$name:" '$1 == name { print $2 }')"
done
check "rdma(8) says the same" eval 'on A rdma -d dev show rxe0 | tee /dev/stderr | grep "node_guid $(eui64) sys_image_guid $(eui64)"'
told "names: the end" on A timeout 30 "$(dirname "$0")/verbs_names" rxe0 "$(gid_index A)"
check "events by their names" watched
static=$(dirname "$0")/devinfo_static
check "a program with the driver in it loads no library" eval '! ldd "$static" 2> /dev/null | grep "=>"'
check_equal "what it says of the device" "$(on A ibv_devinfo -d rxe0 | plain)" "$(on A "$static" rxe0 2>&1)"
check "the library alone knows no device without its driver" refuses 'No IB devices found' undriven ibv_devinfo
check "and warns of it" refuses 'Warning: no userspace device-specific driver found for rxe0' undriven env IBV_SHOW_WARNINGS=1 ibv_devinfo
check "and of a driver that is not there" refuses "Warning: couldn't load driver 'libnosuch-" misdriven ibv_devinfo
check_equal "the program with the driver in it needs none" "$(on A ibv_devinfo -d rxe0 | plain)" "$(undriven "$static" rxe0 2>&1)"
check "nothing is left" retry 5 no_objects

hosts_down
check "without ib_uverbs" modprobe -r rdma_ucm rdma_rxe ib_uverbs
check "the tools say that there is nothing" refuses 'No IB devices found' ibv_devinfo
finish
