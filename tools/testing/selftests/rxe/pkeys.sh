#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The P_Key table of a device with more than one entry (verbs_wire.c): its entries and their change, which members of partitions may
# communicate, and packets of other partitions.
# rows: 2.032
# timeout: 240
. "$(dirname "$0")/lib.sh"
our_driver || skip_all "the stock driver has one P_Key"

here=$(dirname "$0")
port=/sys/class/infiniband/rxe0/ports/1
entries() { on A bash -c "ls $port/pkeys | wc -l"; }

[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
modprobe rdma_rxe && hosts_up || exit
check_equal "as loaded by default: one entry" "1 0xffff" "$(entries) $(on A cat $port/pkeys/0)"
check "and no file to set it" on A test ! -e /sys/class/infiniband/rxe0/set_pkey
hosts_down && modules_unload || exit
for length in 0 65; do
	check_fails "no table of $length entries" modprobe rdma_rxe pkeys=$length
done

modprobe rdma_rxe pkeys=64 && hosts_up || exit
WHOLE=yes told "P_Keys of packets in one buffer: the end" on A timeout 60 "$here/verbs_wire" pkeys rxe0 "$(gid_index A)" rxe1 "$(gid_index B)"
# Many packets in a buffer are cut before they are seen.
for host in A B; do on $host ip link set dev "$(netdev $host)" gso_max_segs 1 || exit; done
check_equal "64 entries" "64 0xffff 0x0000" "$(entries) $(on A cat $port/pkeys/0 $port/pkeys/63 | xargs)"
check_equal "the file is for root, and for writing" 200 "$(on A stat -c %a /sys/class/infiniband/rxe0/set_pkey)"
told "P_Keys: the end" on A timeout 150 "$here/verbs_wire" pkeys rxe0 "$(gid_index A)" rxe1 "$(gid_index B)"
check "connections by rdma_cm, over the default partition" rdma_pair rping -s -a 10.0.0.1 -V -C 5 -- rping -c -a 10.0.0.1 -V -C 5
check "the cache has what is set" eval 'on A bash -c "echo 7 0x8007 > /sys/class/infiniband/rxe0/set_pkey" && retry 5 on A grep 0x8007 $port/pkeys/7'

# Entries change while a connection is at work and while the device goes.
on A bash -c 'for ((i = 0; ; i++)); do echo "$((i % 63 + 1)) $(printf 0x%04x $((i % 65536)))" > /sys/class/infiniband/rxe0/set_pkey || exit; done' 2> /dev/null &
writer=$!
check "entries change all the time" pingpong ibv_rc_pingpong -n 500 -c
check "they still do" kill -0 $writer
link_down A
check "until the device goes" retry 10 eval "! kill -0 $writer"
link_down B
check "nothing is left" retry 10 eval '! rdma dev | grep .'
hosts_down && modules_unload || fail "unloading"
modprobe rdma_rxe
finish
