#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# librdmacm call by call over the stock rdma_cm and rdma_ucm (cm_calls.c), the commands of /dev/infiniband/rdma_cm (cm_file.c), and
# the messages of the connection manager on the wire.
# rows: 3.101 5.001 5.005 5.007 5.010 5.015 5.017 5.019 5.022 5.027 5.028 5.029 5.030 5.031 5.032 5.042 5.043
# rows: 5.045 5.046 5.064 5.069 5.074 5.078 6.019
# mixes: ib_cm
# timeout: 240
. "$(dirname "$0")/lib.sh"

# Nobody has it, on the hosts' network.
silent=10.0.0.77
# A packet's fields, for tcpdump, behind 20 bytes of IP and 8 of UDP: BTH, DETH, and of a MAD the class and the attribute.
not_mad='(ip[32:4] & 0xffffff > 1)'
cm_message='ip[28] = 0x64 and (ip[32:4] & 0xffffff = 1) and ip[49] = 7'

of_qp1='ip[30:2] = 0xffff and ip[40:4] = 0x80010000 and (ip[44:4] & 0xffffff = 1)'

packets() { on A tcpdump -nr /run/cm.pcap "udp dst port 4791 and $1" 2> /dev/null | wc -l; }
seen() { check "on the wire: $1" [ "$(packets "$2")" -ge "${3:-1}" ]; }
never() { check_equal "on the wire: never $1" 0 "$(packets "$2")"; }
traffic() {
	check "ucmatose, with a type of service" rdma_pair ucmatose -b "$a4" -t 0x28 -c 2 -C 4 -- ucmatose -s "$a4" -t 0x28 -c 2 -C 4
	check "udaddy" rdma_pair udaddy -b "$a4" -C 4 -- udaddy -s "$a4" -C 4
	check "rping" rdma_pair rping -s -a "$a4" -V -C 2 -- rping -c -a "$a4" -V -C 2
	check "no such service" grep REJECTED <(on B timeout 20 rping -c -a "$a4" -p 9999 -C 1 2>&1)
}

hosts_up || exit
here=$(dirname "$0")
a4=$(addr A)
on_exec A tcpdump -nUi "$(netdev A)" -w /run/cm.pcap udp port 4791 2> /dev/null &
watcher=$!
retry 10 on A test -s /run/cm.pcap
traffic
sleep 1
kill $watcher
wait $watcher
seen "REQ" "$cm_message and ip[64:2] = 0x10" 3
seen "REP" "$cm_message and ip[64:2] = 0x13" 2
seen "RTU" "$cm_message and ip[64:2] = 0x14" 2
seen "DREQ" "$cm_message and ip[64:2] = 0x15" 2
seen "DREP" "$cm_message and ip[64:2] = 0x16" 2
seen "REJ, for there is no such service" "$cm_message and ip[64:2] = 0x12 and ip[82:2] = 8"
seen "SIDR_REQ" "$cm_message and ip[64:2] = 0x17"
seen "SIDR_REP" "$cm_message and ip[64:2] = 0x18"
seen "all of them from QP1 to QP1, with the default P_Key and the Q_Key of QP1" "$cm_message and $of_qp1" 11
never "another way" "ip[28] = 0x64 and (ip[32:4] & 0xffffff = 1) and not ($of_qp1)"
seen "datagrams with the default Q_Key" "ip[28] & 0xfe = 0x64 and $not_mad and ip[40:4] = 0x01234567" 4
never "another Q_Key" "ip[28] & 0xfe = 0x64 and $not_mad and ip[40:4] != 0x01234567"
seen "the type of service of connections" "ip[28] < 0x20 and ip[1] & 0xfc = 0x28" 4

told "the file: the end" on A timeout 30 "$here/cm_file" rxe0 "$(gid_index A)" "$a4"
told "calls: the end" on A timeout 150 "$here/cm_calls" rxe0 "$a4" $silent
check "the device goes" retry 10 on A test ! -e /sys/class/infiniband/rxe0
check "nothing is left" retry 10 no_objects
finish
