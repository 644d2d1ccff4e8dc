#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The examples of the manual "RDMA Aware Networks Programming", as they are printed there: messages, reads and writes of a connection
# (rc.c), multicast (mc.c), four queue pairs on one shared receive queue (srq.c), path migration (apm.c). They are not in this repository:
# MANUAL=FOLDER of the environment says where they are.
# rows: 5.033 5.035 7.037 7.039 7.040 7.041
# timeout: 120
. "$(dirname "$0")/lib.sh"

here=$(dirname "$0")
[ -x "$here/manual_rc" ] || skip_all "the manual's examples are not there"

# pair SERVER -- CLIENT: two programs that find each other, the client once `ready` says so; what they print is in /run/manual.*.
pair() {
	local server=() server_pid status=0
	while [ "$1" != -- ]; do server+=("$1"); shift; done
	shift
	on_exec A timeout 30 stdbuf -oL "${server[@]}" > /run/manual.server 2>&1 &
	server_pid=$!
	retry 10 ready
	on B timeout 30 stdbuf -oL "$@" > /run/manual.client 2>&1 || status=$?
	wait $server_pid || status=$?
	cat /run/manual.server /run/manual.client
	return $status
}
said() { grep -q "$2" "/run/manual.$1" || { echo "the $1 has not said: $2"; return 1; }; }

# All of its messages are as long as the first one, 16 bytes.
connection() {
	ready() { _listens A 19875; }
	pair "$here/manual_rc" -d rxe0 -g "$(gid_index A)" -- "$here/manual_rc" -d rxe1 -g "$(gid_index B)" "$(addr A)" &&
		said server 'test result is 0' && said client 'test result is 0' && said client "Message is: 'SEND operation '" &&
		said client "Contents of server's buffer: 'RDMA read operat" && said server "Contents of server buffer: 'RDMA write opera"
}
# Not its four messages: the receiver's completion queue holds three, and nothing makes the sender wait for the receiver.
multicast() {
	ready() { grep -q 'waiting for messages' /run/manual.server; }
	pair "$here/manual_mc" -c 3 -m 239.1.2.5 -b "$(addr A)" -- "$here/manual_mc" -c 3 -s -m 239.1.2.5 -b "$(addr B)" &&
		said server 'received message 3' && said client 'sent message 3' && ! grep -q 'returned\|status [^0]' /run/manual.server /run/manual.client
}
shared_queue() {
	ready() { grep -q 'waiting for connection' /run/manual.server && sleep 0.5; }
	pair "$here/manual_srq" -s -a "$(addr A)" -- "$here/manual_srq" -a "$(addr A)" &&
		said server 'recv count: 100' && said client 'send count: 100' &&
		[ "$(sed -n 's/.*recv count.*qp_num: //p' /run/manual.server | sort -u | wc -l)" = 4 ] &&
		! grep -q 'returned\|work completion' /run/manual.server /run/manual.client
}
# Its client asks to migrate after the third message each way. With one port the alternate path has the addresses of the first.
path_migration() { # program
	ready() { grep -q 'rdma_get_request' /run/manual.server && sleep 0.5; }
	pair "$1" -s -c 6 -- "$1" -a "$(addr A)" -c 6 -m 2 &&
		said server 'recv: 6' && said client 'recv: 6' && said server 'QP path migrated' && said client 'QP path migrated' &&
		! grep -q 'returned\|migration error' /run/manual.server /run/manual.client
}
# Two ports, the other one of which it finds: its path there is the same but for the port, so both ports have the same addresses. The
# program is as it is printed, but that it gives the port in the path, too, which any kernel asks for.
two_ports() {
	link_down A && link_down B && ip link add vethA2 netns A type veth peer name vethB2 netns B || return
	for host in A B; do
		on $host ip link set "veth${host}2" mtu 4200 up && on $host ip addr add "$(addr $host)/24" dev "veth${host}2" &&
			on $host bash -c 'for file in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 > $file; done' &&
			on $host rdma link add "$(dev $host)" type rxe_port netdev "veth${host}2" && link_up $host || return
		retry 10 on $host grep -q 0a00:000 "/sys/class/infiniband/$(dev $host)/ports/2/gids/$(gid_index $host)" || return
	done
}
by_other_port() {
	path_migration "$here/manual_apm_ports" && said server 'alt path - local port: 2' && said client 'alt path - local port: 2'
}

hosts_up || exit
check "a connection: send, read, write" connection
check "multicast: three messages" multicast
check "a shared receive queue: 100 messages of four queue pairs" shared_queue
if our_driver && is_ours ib_core; then
	check "path migration: six messages each way, and a migration" path_migration "$here/manual_apm"
	check "two ports on each host" two_ports
	check "path migration: to the other port" by_other_port
else
	skip "path migration" "stock takes no alternate path on RoCE"
fi
check "nothing is left" retry 5 no_objects
finish
