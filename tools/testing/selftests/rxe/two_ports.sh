#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Devices with two ports, each on a network device of its own (verbs_wire.c): how they are asked for, what is told of each port, traffic
# of the second one, other ports while a queue pair is drained, path migration between ports by a program and after a failure, network
# devices that lose their carrier and that go or leave their network namespace; exclusive namespaces.
# rows: 3.103 3.108 3.138 8.074 8.075 8.076 8.077 8.079
# timeout: 240
. "$(dirname "$0")/lib.sh"
our_driver && is_ours ib_core || skip_all "the stock driver has one port, and stock takes no alternate path on RoCE"

here=$(dirname "$0")
ports=/sys/class/infiniband/rxe0/ports
add() { on "$1" rdma link add "$2" type "${4:-rxe}" netdev "$3"; } # host, device, network device, link type
# wire: the second pair of network devices, with the addresses 10.0.1.1 and 10.0.1.2.
wire() {
	ip link add vethA2 netns A type veth peer name vethB2 netns B || return
	for host in A B; do
		on $host ip link set "veth${host}2" mtu 2200 up && on $host ip addr add "$(addr $host | sed 's/0\.\(.\)$/1.\1/')/24" dev "veth${host}2" || return
	done
	retry 10 on A ping -q -c 1 -W 1 10.0.1.2
}
# second_gid HOST: the index of the second address in the table of the second port.
second_gid() { on "$1" bash -c "cd /sys/class/infiniband/$(dev "$1")/ports/2/gids && grep -ls 0a00:010 {0..15} | head -1" | grep .; }
# devices: on each host one with two ports.
devices() {
	for host in A B; do
		add $host "$(dev $host)" "veth${host}2" rxe_port && link_up $host && retry 10 second_gid $host > /dev/null || return
	done
}
links() { on A rdma link show | sed -n 's/^link \(rxe0\/[0-9]*\) state \([A-Z]*\) .*netdev \(\S*\).*/\1 \2 \3/p' | xargs; }
info() { on A ibv_devinfo -v -d rxe0; }
counted() { on A rdma statistic show link "rxe0/$1" | grep -o "$2 [0-9]*" | cut -d' ' -f2; } # port, counter

[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
modules_unload
modprobe rdma_rxe pkeys=4 && modules_load && net_up && wire || exit
# A path that comes back by another one is not refused; and an address that nobody has.
for host in A B; do on $host bash -c 'for file in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 > $file; done'; done
on B ip neigh add 10.0.1.9 lladdr 02:00:00:de:ad:03 dev vethB2 nud permanent || exit

# How it is asked for.
on A ip link add link vethA name tagged type vlan id 5 && on A ip link add spare type dummy || exit
check_fails "a VLAN is no port" add A rxe0 tagged rxe_port
check "the second port of a link to come" add A rxe0 spare rxe_port
check_fails "its network device is not another link's second port" add A rxe7 spare rxe_port
check_fails "and not its first port" add A rxe0 spare
check "the network device has another name" eval 'on A ip link set spare name other && add A rxe0 vethA'
check_equal "which a device with two ports has then" "rxe0/1 ACTIVE vethA rxe0/2 DOWN other" "$(links)"
check_fails "a network device with a link is no second port" add A rxe7 other rxe_port
on A rdma link del rxe0
check "the device that comes after it" add A rxe0 vethA
check_equal "has one port, as any that nobody has asked another one for" "rxe0/1 ACTIVE vethA" "$(links)"
on A rdma link del rxe0
check "a network device that goes is no second port" eval 'add A rxe0 other rxe_port && on A ip link del other && add A rxe0 vethA'
check_equal "of the link that comes then" "rxe0/1 ACTIVE vethA" "$(links)"
on A rdma link del rxe0
on A ip link add leaver type dummy || exit
check "nor is one that leaves the namespace" eval 'add A rxe0 leaver rxe_port && on A ip link set leaver netns B && add A rxe0 vethA'
check_equal "where the link comes" "rxe0/1 ACTIVE vethA" "$(links)"
on A rdma link del rxe0
check "what is told in a namespace" eval 'add B rxe0 leaver rxe_port && add A rxe0 vethA'
check_equal "is for links there" "rxe0/1 ACTIVE vethA" "$(links)"
on A rdma link del rxe0 && on A ip link del tagged && on B ip link del leaver

# What is told of each port.
devices || exit
check_equal "two links with their network devices" "rxe0/1 ACTIVE vethA rxe0/2 ACTIVE vethA2" "$(links)"
check_equal "ibv_devinfo shows two ports" "2 PORT_ACTIVE PORT_ACTIVE" "$(info | awk '/phys_port_cnt/ { print $2 } /[ \t]state:/ { print $2 }' | xargs)"
check_equal "each with its MTU" "4096 2048" "$(info | awk '/active_mtu/ { print $2 }' | xargs)"
check_equal "and its GIDs" "::ffff:10.0.0.1 ::ffff:10.0.1.1" "$(info | awk '/GID\[.*::ffff:/ { sub(",", "", $3); print $3 }' | xargs)"
check_equal "and its P_Keys" "0x8002 0x8001" \
	"$(on A bash -c "echo 1 0x8002 > $ports/../set_pkey; echo 1 0x8001 2 > $ports/../set_pkey; cat $ports/{1,2}/pkeys/1" | xargs)"
check_fails "a third port has none" on A bash -c "echo 1 0x8001 3 > $ports/../set_pkey"

# Traffic of the second port.
rc_on_second() {
	local server status=0
	on_exec A timeout 30 ibv_rc_pingpong -d rxe0 -i 2 -g "$(second_gid A)" "$@" > /run/pingpong.server 2>&1 &
	server=$!
	retry 10 _listens A 18515 && on B timeout 30 ibv_rc_pingpong -d rxe1 -i 2 -g "$(second_gid B)" "$@" 10.0.1.1 || status=$?
	[ $status = 0 ] || kill $server
	wait $server || status=$?
	return $status
}
before=$(counted 1 sent_pkts)
check "RC over the second ports" rc_on_second -n 50 -c
check "connections by rdma_cm, by QP1 of the second ports" rdma_pair rping -s -a 10.0.1.1 -V -C 5 -- rping -c -a 10.0.1.1 -V -C 5
check_equal "the first port has sent nothing" "${before:?}" "$(counted 1 sent_pkts)"
check "the second one has, as rdma statistic says" eval '[ "$(counted 2 sent_pkts)" -gt 100 ]'
check "and its performance counters" eval '[ "$(cat $ports/2/counters/port_xmit_packets)" -gt 100 ]'
check "RC over the first ports" pingpong ibv_rc_pingpong -n 50 -c

# Path migration as within one port, the alternate path being by the other one; then what two ports alone have.
programs() { told "$1: the end" on A timeout 90 "$here/verbs_wire" "$1" rxe0 "$(gid_index A)" rxe1 "$(gid_index B)"; }
programs migration
for host in A B; do on $host bash -c "echo 1 0x8005 2 > /sys/class/infiniband/$(dev $host)/set_pkey" || exit; done
programs ports
check_equal "the second port stays, without a network device" "rxe0/1 ACTIVE vethA" "$(links)"
check_equal "it is down" "4: ACTIVE 1: DOWN" "$(on A cat $ports/{1,2}/state | xargs)"
check "RC over the first ports" pingpong ibv_rc_pingpong -n 50 -c
check "nothing is left" retry 5 no_objects

# Network devices that go under traffic: the second one, then the first one, with which the device goes.
link_down A && link_down B && wire && on B ip addr replace "$(addr6 B)/64" dev vethB nodad && devices || exit
on_exec A timeout 60 ibv_rc_pingpong -d rxe0 -i 2 -g "$(second_gid A)" -n 1000000 > /dev/null 2>&1 &
server=$!
retry 10 _listens A 18515
on_exec B timeout 60 ibv_rc_pingpong -d rxe1 -i 2 -g "$(second_gid B)" -n 1000000 10.0.1.1 > /dev/null 2>&1 &
client=$!
retry 10 eval '[ "$(counted 2 rcvd_pkts)" -gt 100 ]' || exit
on A ip link del vethA2
# Who has sent what nobody acknowledges hears of it; the other one would wait for ever.
check "traffic ends with its network device" retry 20 eval "! kill -0 $server || ! kill -0 $client"
kill $server $client
wait $server $client
check "the device stays" pingpong ibv_rc_pingpong -n 50 -c
on A ip link del vethA
check "it goes with its first network device" retry 10 eval '! rdma dev | grep .'
hosts_down

# Exclusive namespaces: a device is in the first one, whichever its net devices are in, until it is moved, with both ports.
check "exclusive namespaces" retry 30 rdma system set netns exclusive
net_up && wire || exit
for host in A B; do
	on $host bash -c 'for file in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 > $file; done'
	add $host "$(dev $host)" "veth${host}2" rxe_port && add $host "$(dev $host)" "veth$host" || exit
done
names() { rdma link show | sed -n 's/^link \(\S*\) .*/\1/p' | xargs; }
check_equal "new devices are in the first namespace" "rxe0/1 rxe0/2 rxe1/1 rxe1/2" "$(names)"
check_equal "and not in that of their network devices" "" "$(links)"
check "they are moved there" eval 'rdma dev set rxe0 netns A && rdma dev set rxe1 netns B'
check_equal "both ports of one" "rxe0/1 ACTIVE vethA rxe0/2 ACTIVE vethA2" "$(links)"
check_equal "and the first namespace has none" "" "$(names)"
check "RC over the first ports" pingpong ibv_rc_pingpong -n 50 -c
check "RC over the second ports" rc_on_second -n 50 -c
check "connections by rdma_cm, by QP1 of the second ports" rdma_pair rping -s -a 10.0.1.1 -V -C 5 -- rping -c -a 10.0.1.1 -V -C 5
ip netns add C || exit
check "a second network device leaves the namespace" on A ip link set vethA2 netns C
check_equal "its port is down, wherever it has gone" "rxe0/1 ACTIVE vethA" "$(links)"
check "RC over the first ports alone" pingpong ibv_rc_pingpong -n 50 -c
check "a first network device leaves the namespace" on A ip link set vethA netns C
check "and ends its device" retry 10 eval '! on A rdma dev | grep .'
ip netns del C
hosts_down
check "shared namespaces" retry 30 rdma system set netns shared
check "the modules go" modules_unload
modprobe rdma_rxe
finish
