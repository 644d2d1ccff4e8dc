#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# User MADs over the stock ib_umad: files and folders, agents (umad_register.c), requests and answers (umad_send.c), more of
# them than there is room for (umad_many.c), messages of many segments (umad_rmpp.c), and all of it by libibumad (umad_library.c).
# rows: 6.001 6.004 6.005 6.006 6.007 6.008 6.009 6.010 6.011 6.012 6.013 6.014 6.015
# mixes: long
# timeout: 200
# long: 400 EVERY_PATH=yes
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")

# The files of both ports, and what sysfs tells of them.
files() {
	local device n
	[ "$(cat /sys/class/infiniband_mad/abi_version)" = 5 ] || return
	for device in rxe0 rxe1; do
		n=$(basename "$(dirname "$(grep -lx "$device" /sys/class/infiniband_mad/umad*/ibdev)")")
		echo "$device: $n"
		[ "$(cat "/sys/class/infiniband_mad/$n/port")" = 1 ] && [ -c "/dev/infiniband/$n" ] || return
	done
}
no_files() { ! compgen -G '/dev/infiniband/umad*' && ! compgen -G '/sys/class/infiniband_mad/umad*'; }

hosts_up || exit
modprobe ib_umad || exit
on A ip neigh replace fd00::99 lladdr 02:00:00:00:00:99 dev vethA nud permanent
a=$(gid_index A 6) b=$(gid_index B 6)

check "a file for each port" files
check "RoCE has no subnet manager's file" eval '! ls /dev/infiniband/issm* /sys/class/infiniband_mad/issm* 2> /dev/null'
check "ibstat -p" eval '[ "$(ibstat -p | wc -l)" = 2 ]'
told "agents: the end" timeout 50 "$here/umad_register" rxe0
told "libibumad: the end" timeout 50 "$here/umad_library" rxe0 "$a" rxe1 "$b"
told "between two devices: the end" timeout 100 "$here/umad_send" rxe0 "$a" rxe1 "$b"
if [ "${EVERY_PATH:-}" ]; then
	told "IPv4: the end" timeout 50 "$here/umad_send" rxe0 "$(gid_index A)" rxe1 "$(gid_index B)"
	told "messages, one device: the end" timeout 50 "$here/umad_rmpp" rxe0 "$a" rxe0 "$a"
fi
told "one device: the end" timeout 100 "$here/umad_send" rxe0 "$a" rxe0 "$a"
told "messages: the end" timeout 100 "$here/umad_rmpp" rxe0 "$a" rxe1 "$b" "$(gid_index A)" "$(gid_index B)"
netem A loss 2% delay 1ms 1ms
netem B loss 2% delay 1ms 1ms
told "messages, a bad wire: the end" timeout 100 "$here/umad_rmpp" rxe0 "$a" rxe1 "$b"
netem_off B
netem A delay 200ms
told "many: the end" timeout 100 "$here/umad_many" rxe0 "$a" rxe1 "$b"
netem_off A
link_down B
check "the file goes with its device" eval '[ "$(compgen -G "/dev/infiniband/umad*" | wc -l)" = 1 ]'
hosts_down
check "both" no_files
check "the modules go" modules_unload
finish
