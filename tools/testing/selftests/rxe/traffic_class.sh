#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Traffic class and service level of address handles and connections: the type of service of the packets, and their priority for the
# queueing disciplines of the net device.
# timeout: 180
. "$(dirname "$0")/lib.sh"

# Sixteen bands, one for each priority, count what A sends; filters count what comes to B by its type of service.
counters_reset() { # version of IP, type of service
	local protocol=$([ "$1" = 4 ] && echo ip || echo ipv6) field=$([ "$1" = 4 ] && echo 'ip dsfield' || echo 'ip6 priority')
	on A tc qdisc del dev "$(netdev A)" root 2> /dev/null
	on A tc qdisc add dev "$(netdev A)" root handle 1: prio bands 16 priomap 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 || return
	on B tc qdisc del dev "$(netdev B)" clsact 2> /dev/null
	on B tc qdisc add dev "$(netdev B)" clsact || return
	# shellcheck disable=SC2086 # two words
	on B tc filter add dev "$(netdev B)" ingress pref 1 protocol $protocol u32 match ${field% *} dport 4791 0xffff \
		match $field "$2" 0xff action pass || return
	on B tc filter add dev "$(netdev B)" ingress pref 2 protocol $protocol u32 match "${field% *}" dport 4791 0xffff action pass || return
	sent_before=$(sent)
}
sent() { on A rdma statistic show link rxe0/1 | grep -o 'sent_pkts [0-9]*' | sed 's/.* //'; }
of_priority() { # priority: how many packets of it A has sent
	on A tc -s class show dev "$(netdev A)" | awk -v class="1:$(printf %x $(($1 + 1)))" '$1 == "class" { on = $3 == class } on && $1 == "Sent" { print $4 }'
}
of_filter() { # 1: of the type of service, 2: of another one
	on B tc -s filter show dev "$(netdev B)" ingress pref "$1" | awk '$1 == "Sent" { print $4 }' | tail -1
}
all_have() { # priority: it is that of all packets of the device
	local seen wanted
	seen=$(of_priority "$1") wanted=$(($(sent) - sent_before))
	echo "$seen of $wanted"
	[ "$wanted" -ge 10 ] && [ "$seen" = "$wanted" ]
}
some_have() { [ "$(of_priority "$1")" -ge 4 ]; }
tos_seen() {
	echo "$(of_filter 1) packets, $(of_filter 2) others"
	[ "$(of_filter 1)" -ge 10 ] && [ "$(of_filter 2)" = 0 ]
}

# flow NAME TOS PRIORITY COMMAND...: of all packets of the command.
flow() {
	local name=$1 tos=$2 priority=$3
	shift 3
	counters_reset "${V:-4}" "$tos" || { fail "$name: count packets"; return; }
	check "$name" "$@"
	check "$name: type of service $tos" tos_seen
	if [ "$priority" = 0 ]; then return; fi
	known_on_stock "$name: priority $priority" all_have "$priority"
}

hosts_up || exit
flow "no class" 0 0 pingpong ibv_rc_pingpong -n 20
# 7 is that of the packets by which neighbours are found.
check_equal "no class: no packet has a priority" 0 "$(($(for priority in {1..6}; do echo "$(of_priority $priority) +"; done) 0))"

# The table of rt_tos2priority().
flow "RC, many packets in a buffer" 0xb8 4 perftest ib_write_bw -b -n 20 -s 65536 --tclass=184
flow "RC, the responses to READs" 0x10 6 perftest ib_read_bw -n 20 -s 65536 --tclass=16
flow "RC, one packet" 0x08 2 perftest ib_send_lat -n 20 -s 8 --tclass=8
flow "UC" 0x28 2 perftest ib_send_lat -c UC -n 20 -s 8192 --tclass=40
flow "UD" 0x10 6 perftest ib_send_lat -c UD -n 20 -s 512 --tclass=16
V=6 flow "RC, IPv6" 0xb8 4 perftest ib_write_bw -b -n 20 -s 65536 --tclass=184
V=6 flow "UD, IPv6" 0x10 6 perftest ib_send_lat -c UD -n 20 -s 512 --tclass=16

# A class without a priority, and none: the service level.
for type in rc uc ud; do
	flow "$type, service level 5" 0 5 pingpong ibv_${type}_pingpong -n 20 -l 5
done
flow "a service level and a class of best effort" 0x20 3 perftest ib_send_lat -n 20 -s 8 --tclass=32 -S 3
flow "a service level and a class with a priority" 0x10 6 perftest ib_send_lat -n 20 -s 8 --tclass=16 -S 3

# rdma_set_option(RDMA_OPTION_ID_TOS). The messages of the connection manager itself go beside.
a4=$(addr A)
counters_reset 4 0x10
check "rdma_cm" rdma_pair ucmatose -b "$a4" -t 0x10 -c 2 -C 10 -S 10000 -- ucmatose -s "$a4" -t 0x10 -c 2 -C 10 -S 10000
check "rdma_cm: type of service 0x10" eval '[ "$(of_filter 1)" -ge 10 ]'
known_on_stock "rdma_cm: priority 6" some_have 6
check "nothing is left" no_objects
finish
