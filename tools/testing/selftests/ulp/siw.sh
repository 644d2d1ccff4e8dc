#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# siw, iWARP over TCP, on this ib_core: connections by this iw_cm and rdma_cm carry validated data, rsockets and perftest;
# a link goes under its users; iwpmd, the port mapper, hears of each port by netlink. The kernel's NVMe target reads what the host
# writes by READs that invalidate the region of the data (READ_WITH_INV).
# Debian does not build siw; it comes from the source of its kernel (tools/provision, LEFT_OUT).
# rows: 3.020 3.027 5.047 6.041
# mixes: long
# timeout: 480
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/nvme.bash"

siws_up() {
	on A rdma link add siwA type siw netdev "$(netdev A)" && on B rdma link add siwB type siw netdev "$(netdev B)" || return
	[ "$(cat /sys/class/infiniband/siwA/node_type)" = "4: RNIC" ]
}
siws_down() { rdma link del siwA && rdma link del siwB; }

# three_tries COMMAND...: for connections, for on a busy machine the stock siw drops what comes while the state of its queue pair is locked:
# the first message of a connection, or its end. With all modules of the stock kernel 2 of 60 connections carried no data.
three_tries() {
	local try
	for try in 1 2 3; do
		"$@" && return
		echo "try $try failed"
	done
	return 1
}

ping_verified() { LIMIT=15 rdma_pair rping -s -a "$1" -V -C 10 "${@:2}" -- rping -c -a "$1" -V -C 10 "${@:2}"; }
# Without an address the server would listen on each siw device, all in this network namespace and with the same TCP port.
bandwidth() { # program, option...
	rdma_pair "$1" -F -R --bind_source_ip "$a4" -d siwA "${@:2}" -- "$1" -F -R -d siwB "${@:2}" "$a4"
}

# The client ends when its link goes, in the middle of its transfers. The server does not always: the stock siw drops the end of the
# connection too, or does not flush what is posted, which the server waits for (3 of 24 rounds with all modules of the stock kernel).
link_goes() {
	local server client status=0
	on_exec A timeout 20 stdbuf -oL rping -s -a "$a4" -v > /run/siw.log 2>&1 &
	server=$!
	cm_listens A
	on_exec B timeout 20 rping -c -a "$a4" > /dev/null 2>&1 &
	client=$!
	retry 10 grep -q 'ping data' /run/siw.log || { echo "no data came"; status=1; }
	rdma link del siwB && [ ! -e /sys/class/infiniband/siwB ] || return
	wait $client; [ $? != 124 ] || { echo "the client did not end"; status=1; }
	kill $server 2> /dev/null
	wait $server
	on B rdma link add siwB type siw netdev "$(netdev B)" && return $status
}

# The port mapper serves the initial network namespace. On its netlink socket the kernel says hello (0x808), adds (0x801), queries (0x802) and
# removes (0x803) mappings, for the listener and for who connects.
mapped() {
	local kind status=0
	siw_up || return
	setsid strace -f -o /run/iwpmd.trace iwpmd > /dev/null 2>&1 < /dev/null &
	retry 30 grep -q 'recvfrom.*nlmsg_type=0x808 ' /run/iwpmd.trace || status=1
	three_tries ping_itself || status=1
	for kind in 0x801 0x802 0x803; do retry 5 mapper_knows $kind || { echo "no message $kind"; status=1; }; done
	kill "$(pidof iwpmd)" && retry 30 no_mapper || status=1
	rdma link del siwN && ip link del vethN && return $status
}
siw_up() {
	ip link add vethN type veth peer name vethM && ip addr add 10.0.9.1/24 dev vethN || return
	ip link set vethM up && ip link set vethN up && rdma link add siwN type siw netdev vethN
}
ping_itself() {
	local server
	timeout 20 rping -s -a 10.0.9.1 -V -C 10 > /run/itself 2>&1 &
	server=$!
	sleep 1
	LIMIT=15 pings "" -a 10.0.9.1 -C 10 || { wait $server; return 1; }
	wait $server || closed_early server /run/itself
}
mapper_knows() { grep -q "recvfrom.*nlmsg_type=$1 " /run/iwpmd.trace; }
no_mapper() { ! pidof iwpmd; }

# watched_posts: the kernel notes of each request that siw gets its opcode, whether there is another one in its list, and the opcode of
# that (a number without meaning if there is none: the kernel leaves what stood there).
trace=/sys/kernel/tracing
watched_posts() {
	mountpoint -q $trace || mount -t tracefs none $trace || return
	echo 'p:siw_post siw_post_send first=+28(%si):u32 next=+0(%si):x64 second=+28(+0(%si)):u32' > $trace/kprobe_events && : > $trace/trace &&
		echo 1 > $trace/events/kprobes/siw_post/enable
}
unwatched_posts() { echo 0 > $trace/events/kprobes/siw_post/enable && echo > $trace/kprobe_events; }
# posted OPCODE: the requests of that kind, a line each.
posted() { grep -E "first=$1 |next=0x[1-9a-f][0-9a-f]* second=$1\b" $trace/trace; }
# at_least COUNT: so many READ_WITH_INV were posted, and no other READ.
at_least() {
	local count
	count=$(posted 11 | wc -l)
	echo "$count of READ_WITH_INV, $(posted 4 | wc -l) of READ"
	[ "$count" -ge "$1" ] && ! posted 4 | head -5 | grep .
}

modprobe -qn siw || skip_all "there is no siw for this kernel"
modules_load && modprobe siw && net_up || exit
check "two iWARP links" siws_up
a4=$(addr A) a6=$(addr6 A)
check "rping, IPv4" three_tries ping_verified "$a4"
check "rping, IPv6" three_tries ping_verified "$a6"
check "rping, 60,000 bytes" three_tries ping_verified "$a4" -S 60000
check "ucmatose" three_tries rdma_pair ucmatose -b "$a4" -c 5 -C 10 -S 1000 -- ucmatose -s "$a4" -c 5 -C 10 -S 1000
check "rstream" three_tries rdma_pair rstream -b "$a4" -S 4096 -C 50 -T v -- rstream -s "$a4" -S 4096 -C 50 -T v
check "ucmatose, 10 connections, IPv6" three_tries rdma_pair ucmatose -f ipv6 -b "$a6" -c 10 -C 2 -- ucmatose -f ipv6 -s "$a6" -c 10 -C 2
for program in ib_send_bw ib_write_bw ib_read_bw; do
	check "$program" three_tries bandwidth $program -n 200 -s 65536
done
check "a link goes under its users" three_tries link_goes
check "nothing is left" retry 10 no_objects
check "the links go" siws_down
net_down
check "the port mapper" mapped
check "a link for the kernel's users" siw_up
disk_up
check "an NVMe target" target_up
check "its host connects" connect
check "requests are watched" watched_posts
check "the host writes 16 MiB" write_data
check "the target has read them by READs that invalidate" at_least 60
check "requests are watched no more" unwatched_posts
check "what lies on the target's disk is the same" same_data "$disk"
check "the host reads them back" read_data
check "disconnect" disconnect
check "the target goes" target_down
disk_down
check "the link goes" eval 'rdma link del siwN && ip link del vethN'
check "siw goes" modprobe -r siw
check "ib_core is in use no more" modules_unload
finish
