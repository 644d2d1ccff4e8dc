#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# GIDs of a RoCE port follow the addresses of its net device, of VLANs, macvlans, bonds and bridges on it, through all
# changes; so do the caches of ports and the resolution of addresses. A C driver (gid_device.c) tells what the core gives
# it: the same as the stock core gave, call by call (gids-expected.txt).
# rows: 1.013 2.031
# mix: ib_core
# timeout: 180
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")
log=/run/gids.log

tell() { echo "$*" > /sys/module/gid_device/parameters/cmd; }
settle() { sleep 0.3; }
device() { modprobe gid_device "$@" || exit; }

# step NAME [COMMAND...]: a change, and all GIDs after it.
step() {
	tell "say == $1"
	shift
	"$@"
	settle
	tell gids
}

# ips COMMAND...: several commands of ip(8), between commas; "settle" waits: link-local addresses come by themselves, and
# the order of addresses is that of the GIDs.
ips() {
	local command
	while IFS= read -r command; do
		# shellcheck disable=SC2086 # words
		case $command in *settle*) settle ;; *) ip $command ;; esac
	done < <(tr ',' '\n' <<< "$*")
}

# Events come by a work queue: how many of each kind a step brings counts, not when. Where a step sets off several changes
# by itself (a bond), only what remains after it counts: the core may see one state in between more, or one less.
without_order() {
	awk '/^== / { settled = /what remains/ } settled && /^(add|del|event|added) / { next }
		function flush() { for (e in n) print e ": " n[e] | "sort"; close("sort"); split("", n) }
		/^== / { flush() } /^event / { n[$0]++; next } { print; fflush() } END { flush() }'
}

# A neighbour that answers a little late.
late() { (sleep 0.2; "$@") & }

stream() {
	dmesg -W > $log &
	local reader=$!
	sleep 0.5
	"$@" > $log.said 2>&1
	sleep 0.5
	kill $reader
	wait $reader 2> /dev/null
	echo "== registered"
	sed -n 's/^\(\[[^]]*\] \)\?gids: //p' $log | without_order
	echo "== what the programs said"
	cat $log.said
}

one_port() {
	ips link add d0 address 02:11:22:33:44:55 type dummy, link add d1 address 02:11:22:33:44:66 type dummy, \
		addr add 10.0.0.1/24 dev d0, link set d0 up, addr add fd00::1/64 dev d0
	settle
	device
	settle
	step "IPv4 and IPv6"
	for what in pkeys numbers vectors headers; do
		tell "say == $what"
		tell $what
	done
	step "more addresses" ips addr add 10.0.0.2/24 dev d0, addr add 10.0.9.1 peer 10.0.9.2 dev d0
	tell hold 3
	tell hold 5
	step "an address goes whose GID is held" ip addr del 10.0.0.1/24 dev d0
	step "another comes" ip addr add 10.0.0.7/24 dev d0
	tell put 3
	step "the GID was let go" ip addr add 10.0.0.8/24 dev d0
	tell put 5
	step "a VLAN" ips link add link d0 name d0.5 type vlan id 5, link set d0.5 up, settle, addr add 10.5.0.1/24 dev d0.5, \
		addr add fd05::1/64 dev d0.5
	step "a macvlan" ips link add link d0 name mv0 address 02:aa:bb:cc:dd:01 type macvlan mode bridge, link set mv0 up, \
		settle, addr add 10.6.0.1/24 dev mv0
	step "a macvlan on the VLAN" ips link add link d0.5 name mv1 address 02:aa:bb:cc:dd:02 type macvlan mode bridge, \
		link set mv1 up, settle, addr add 10.7.0.1/24 dev mv1
	step "another MAC address" ip link set d0 address 02:11:22:33:44:99
	step "down" ip link set d0 down
	step "up" ip link set d0 up
	addresses
	step "the macvlan on the VLAN goes" ip link del mv1
	step "the VLAN and the macvlan go" ips link del d0.5, link del mv0
}

addresses() {
	tell "say == addresses"
	ip neigh add 10.0.0.77 lladdr 02:00:00:00:00:77 dev d0
	ip route add 192.168.7.0/24 via 10.0.0.77
	for destination in 10.0.0.7 10.0.0.55 10.0.0.77 192.168.7.9 172.31.0.1 127.0.0.1 fd05::1 fd05::9; do
		tell "resolve $destination -1"
	done
	for gid in 0 1 2 3 4 5 6; do tell "resolve 10.0.0.77 $gid"; done
	tell resolve 10.0.0.7 3
	tell resolve fd00::1 4
	tell resolve 10.0.0.99 3
	late ip neigh replace 10.0.0.101 lladdr 02:00:00:00:01:01 dev d0
	tell resolve 10.0.0.101 3
	wait $!
	tell cancel 10.0.0.120
}

bond() {
	ips link add b0 type bond mode active-backup miimon 50, link set b0 address 02:b0:b0:b0:b0:01
	step "both down" ips link set d0 down, link set d1 down
	step "into a bond: what remains" ip link set d0 master b0
	step "the bond is up: what remains" ips link set d1 master b0, link set b0 up, settle, addr add 10.8.0.1/24 dev b0
	step "a VLAN of the bond: what remains" ips link add link b0 name b0.7 type vlan id 7, link set b0.7 up, settle, addr add 10.9.0.1/24 dev b0.7
	step "the other one is active: what remains" eval 'ip link set b0 type bond active_slave d1; sleep 0.7'
	step "the first is active again: what remains" eval 'ip link set b0 type bond active_slave d0; sleep 0.7'
	step "out of the bond: what remains" ip link set d0 nomaster
	step "up by itself" ip link set d0 up
	step "the bond goes: what remains" ips link del b0.7, link del b0
}

full() {
	step "asked to look again" tell rescan
	local i
	step "more addresses than room" ips "$(for i in {20..45}; do echo -n "addr add 10.0.1.$i/24 dev d0,"; done) link show lo" > /dev/null
	step "none" ip addr flush dev d0
	ips link add br0 address 02:b1:b1:b1:b1:01 type bridge, link set br0 up, settle, addr add 10.10.0.1/24 dev br0
	step "into a bridge: what remains" ip link set d0 master br0
	step "out of the bridge: what remains" ip link set d0 nomaster
	modprobe -r gid_device
	settle
	device gidops=0
	step "the core keeps them"
	modprobe -r gid_device
	ips link del br0, link del d0, link del d1
}

# The network device moves between namespaces; the neighbour answers in another one.
namespaces() {
	ip netns add G
	ip link add d0 address 02:11:22:33:44:55 type veth peer name p0 address 02:11:22:33:44:66 netns G
	ips addr add 10.0.0.1/24 dev d0, link set d0 up, settle, addr add fd00::1/64 dev d0
	ip -n G link set p0 up
	ip -n G addr add 10.0.0.2/24 dev p0
	ip -n G addr add fd00::2/64 dev p0
	sleep 1
	device
	settle
	step "a pair"
	tell "say == neighbours"
	for destination in 10.0.0.2 10.0.0.3 fd00::2 fd00::3; do tell "resolve $destination -1"; done
	for gid in 0 1 2 3 4 5; do
		tell "resolve 10.0.0.2 $gid"
		tell "resolve fd00::2 $gid"
	done
	tell resolve fe80::11:22ff:fe33:4466 0
	tell resolve ::1 4
	late ip -n G addr add 10.0.0.5/24 dev p0
	tell resolve 10.0.0.5 2
	wait $!
	step "into another namespace" ip link set d0 netns G
	step "and back" ip -n G link set d0 netns 1
	step "up, with an address" ips link set d0 up, addr add 10.0.0.1/24 dev d0
	step "a GID event" tell event 13
	modprobe -r gid_device
}

# Ports whose GIDs the device has, not the core.
own_gids() {
	local kind
	for name in ib iwarp; do
		device proto=$name len=6
		settle
		step "$name"
		tell own
		tell pkeys
		for kind in 11 17 18 9 10 3; do
			step "$name: event $kind" eval "tell event $kind; settle; tell own"
		done
		modprobe -r gid_device
	done
	ip link del d0
	ip netns del G
}

all() {
	one_port
	bond
	full
	namespaces
	own_gids
	! grep -q '^gid_device' /proc/modules
}

modinfo gid_device > /dev/null 2>&1 || skip_all "gid_device is built with FERROBAND_TESTS=m"
# The core's notifier for net devices is called in the order of registration: after that of VLANs, as recorded.
modules_unload
modprobe -a dummy 8021q macvlan veth bridge
modprobe bonding max_bonds=0
saved=$(sysctl net.ipv6.conf.{all,default}.accept_dad net.ipv6.conf.default.router_solicitations)
sysctl -q net.ipv6.conf.{all,default}.accept_dad=0 net.ipv6.conf.default.router_solicitations=0
modprobe ib_core
as_recorded "$here/gids-expected.txt" stream all
# A GID is refused; the handler of the next event asks for it again, and so causes an event itself. The stock core waits for
# itself then.
refused() {
	ips link add d0 address 02:11:22:33:44:55 type dummy, link set d0 up
	settle
	device
	settle
	mark gids
	tell refuse
	ip addr add 10.0.0.9/24 dev d0
}
added() { since_mark gids | grep -q "^add .* type $1 .*0a00:0009"; } # TYPE
refused
check "a GID is refused" retry 5 eval 'since_mark gids | grep -q "^refused type 1 "'
check "a handler may look again for a GID" retry 5 added 1
check "the other GID is there" added 2
check "the device goes" timeout 20 modprobe -r gid_device
ip link del d0
check "everything unloads" modules_unload
# shellcheck disable=SC2086 # a list
sysctl -q ${saved// = /=}
finish
