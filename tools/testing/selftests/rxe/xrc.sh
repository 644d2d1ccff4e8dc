#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Extended reliable connections (XRC) by raw commands and rings (verbs_xrc.c): a domain and a target that two processes share, on one
# device, between two, and while packets are lost; and what their packets look like on the wire (xrc_wire.py).
# rows: 3.004 4.088 4.102 4.111 8.001 8.002 8.003 8.004
# timeout: 200
. "$(dirname "$0")/lib.sh"
our_driver || skip_all "the stock driver has no XRC"

here=$(dirname "$0")
file=/run/xrcd-$$
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
# xrc DEVICE GID_INDEX TARGET GID_INDEX [MESSAGES loses]
xrc() { on A timeout 80 "$here/verbs_xrc" "${@:1:4}" $file "${@:5}"; }

hosts_up || exit
told "one device: the end" xrc rxe0 "$(gid_index A)" rxe0 "$(gid_index A)"
# Packets that are sent together are cut before they are seen.
for host in A B; do on $host ip link set dev "$(netdev $host)" gso_max_segs 1 || exit; done
on_exec B python3 "$here/xrc_wire.py" "$(netdev B)" 4 > /run/xrc_seen 2> /run/xrc_said &
watcher=$!
retry 30 grep -q listening /run/xrc_said
told "two devices: the end" xrc rxe0 "$(gid_index A)" rxe1 "$(gid_index B)"
wrong=0
wait $watcher || wrong=$?
check_equal "on the wire: lengths, ICRCs, XRC headers" 0 $wrong
diagnose < /run/xrc_said
for name in 'SEND First' 'SEND Middle' 'SEND Last Immediate' 'SEND Only Immediate' 'RDMA WRITE First' 'RDMA WRITE Middle' 'RDMA WRITE Last' \
	'RDMA READ Request' 'RDMA READ response First' 'RDMA READ response Last' FetchAdd 'ATOMIC Acknowledge' Acknowledge; do
	check "on the wire: XRC $name" grep -qx "XRC $name" /run/xrc_seen
done
check_equal "on the wire: no other opcodes" "" "$(grep '0x' /run/xrc_seen)"
netem A loss 2% && netem B loss 2%
told "packets are lost: the end" xrc rxe0 "$(gid_index A)" rxe1 "$(gid_index B)" 200 loses
netem_off A
netem_off B
check "nothing is left" retry 5 no_objects
finish
