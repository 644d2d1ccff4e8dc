#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Packets that cannot be sent or do not arrive, and a peer that vanishes in the middle of a message: the QP fails in the time
# that its attributes say, everything behind the request is flushed, nothing hangs (faults_net.c). What only loses packets
# now and then is survived.
# rows: 3.090
# mixes: long
# timeout: 240
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")

# The hosts hang on a switch, so that one can go without the other's cable.
switch_up() {
	local host
	ip netns del S 2> /dev/null
	for host in A B S; do ip netns add $host || return; done
	_net_is_up=yes
	ip -n S link add switch type bridge
	ip -n S link set switch up
	for host in A B; do
		ip link add veth$host netns $host type veth peer name port$host netns S
		ip -n S link set port$host mtu 4200 master switch up
		ip -n $host link set lo up
		ip -n $host link set veth$host mtu 4200 up
		ip -n $host addr add "$(addr $host)/24" dev veth$host
		ip -n $host addr add "$(addr6 $host)/64" dev veth$host nodad
	done
	ip -n S link set switch mtu 4200
	retry 10 on A ping -q -c 1 -W 1 10.0.0.2 && retry 10 on B ping -q -c 1 -W 1 10.0.0.1
}

# broken NAME fails|goes_on BREAK MEND: what BREAK does in the middle of traffic from A to B; both are evaluated. $v is 6 for IPv6.
v=
broken() {
	local name=$1 how=$2 log=/run/faults_net program peer timeout=14
	# The kernel gives a QP one second to find its peer's MAC address: so it is known.
	retry 20 on A ping -q -c 1 -W 1 "$(addr$v B)" && retry 20 on B ping -q -c 1 -W 1 "$(addr$v A)" || fail "$name: a network"
	[[ $(uname -r) != *debug* ]] || timeout=16
	: > $log
	timeout 40 "$here/faults_net" rxe0 "$(gid_index A ${v:-4})" rxe1 "$(gid_index B ${v:-4})" $timeout "$name" "$how" > $log 2>&1 &
	program=$!
	retry 20 grep -q running $log || cat $log
	peer=$(sed -n 's/^peer|//p' $log)
	eval "$3"
	wait $program
	told "$name: the end" bash -c "grep -v '^running\|^peer' $log; exit $?"
	eval "${4:-}"
}
on_a() { ip netns exec A "$@"; }
drop() { on_a tc qdisc add dev vethA clsact && on_a tc filter add dev vethA egress matchall action drop; }
drop_off() { on_a tc qdisc del dev vethA clsact; }

modules_load && switch_up && link_up A && link_up B || exit
broken "everything is lost" fails 'netem A loss 100%' 'netem_off A'
broken "the answers are lost" fails 'netem B loss 100%' 'netem_off B'
if drop 2> /dev/null; then
	drop_off
	broken "sending drops" fails drop drop_off
else
	drop_off 2> /dev/null
	skip "sending drops" "this kernel has no matchall classifier"
fi
# With IPv4 the kernel takes whatever is not routed to be on the link.
v=6
broken "no route" fails 'on_a ip -6 route del fd00::/64 dev vethA' 'on_a ip -6 route add fd00::/64 dev vethA'
broken "a route that prohibits" fails 'on_a ip -6 route add prohibit fd00::2 metric 1' 'on_a ip -6 route del prohibit fd00::2'
v=
broken "no neighbour" fails 'ip -n B link set vethB arp off; on_a ip neigh flush all' \
	'ip -n B link set vethB arp on; on_a ip neigh flush all'
broken "another neighbour" fails 'on_a ip neigh replace 10.0.0.2 lladdr 02:00:00:00:00:99 dev vethA nud permanent' \
	'on_a ip neigh del 10.0.0.2 dev vethA'
broken "the switch forgets a port" fails 'ip -n S link set portB nomaster' 'ip -n S link set portB master switch'
broken "the cable is cut" fails 'ip -n S link set portA down' 'ip -n S link set portA up'
broken "the net device is shut" fails 'on_a ip link set vethA down' \
	'on_a ip link set vethA up; retry 10 gid_index A; retry 10 on_a ip addr replace fd00::1/64 dev vethA nodad'
broken "a queue for one packet" goes_on 'on_a tc qdisc replace dev vethA root pfifo limit 1' 'netem_off A'
broken "a queue for one packet, and slow" goes_on 'netem A limit 8 delay 1ms' 'netem_off A'
retry 10 on A ping -q -c 1 -W 1 10.0.0.2
check "all is well again" pingpong ibv_rc_pingpong -n 100 -c
broken "the peer is killed" fails 'kill -9 $peer'
broken "the peer's link is deleted" fails 'link_down B & link=$!' 'wait $link; retry 10 link_up B'
check "the peer's link is new" pingpong ibv_rc_pingpong -n 100 -c
broken "the peer's namespace is deleted" fails 'kill -9 $peer; ip netns del B'
check "the peer's device is gone" retry 20 test ! -e /sys/class/infiniband/rxe1
check "nothing is left" retry 10 no_objects
link_down A
check "the module is not in use" retry 10 not_used rdma_rxe
ip netns add B # what the end removes
ip netns del S
finish
