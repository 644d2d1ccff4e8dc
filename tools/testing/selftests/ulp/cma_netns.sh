#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# rdma_cm in network namespaces: listeners with one port in each, requests that reach the namespace of their address alone, devices that
# are of one namespace alone, namespaces that lose their name under connections of the kernel, and that end under those of programs;
# links and the driver's module that go under programs that connect in both. Nothing is left.
# mixes: long
# kernels: uml
# kernels long: stock
# timeout: 240
# long: 1800 ROUNDS=50
. "$(dirname "$0")/lib.sh"

module=cma_test rounds=${ROUNDS:-$(rounds 3)} log=/run/cma_netns
results() { since_mark $module | grep -E '^(pass|fail)\|'; }
# run TEST [HOST]: in the namespace of a host, or in the first.
run() {
	mark $module
	${2:+ip netns exec "$2"} bash -c "echo '$1' > /sys/module/$module/parameters/run"
	told_log "$1" results
}

gone() { [ ! -e "/sys/class/infiniband/$1" ]; }
# A namespace that ends takes its network devices with it, and those their links.
hosts_gone() { retry 30 gone rxe0 && retry 30 gone rxe1; }
dies() { kill -9 "$1" 2> /dev/null; wait "$1" 2> /dev/null; true; }
works() { rdma_pair rping -s -a "$(addr A)" -V -C 5 -- rping -c -a "$(addr A)" -V -C 5; }
# One port in each: nobody hears of another's requests.
both() {
	local server_a server_b status=0
	on_exec A rping -s -V -C 3 > $log.a 2>&1 &
	server_a=$!
	on_exec B rping -s -V -C 3 > $log.b 2>&1 &
	server_b=$!
	cm_listens A
	pings B -a "$(addr A)" -C 3 || status=1
	wait $server_a || closed_early server $log.a || status=1
	kill -0 $server_b || { echo "the other server has ended"; status=1; }
	pings A -a "$(addr B)" -C 3 || status=1
	wait $server_b || closed_early server $log.b || status=1
	return $status
}

# A client waits for an answer, and a neighbour of the same address changes in a third namespace, whose net device has the same index.
other_neighbour() {
	local device index client status=0
	device=$(netdev B)
	index=$(on B cat "/sys/class/net/$device/ifindex")
	on_exec B ucmatose -s 10.0.0.99 -c 1 > $log.other 2>&1 &
	client=$!
	on B ip neigh replace 10.0.0.99 lladdr 02:00:00:00:00:99 nud permanent dev "$device"
	retry 10 eval 'rdma resource show cm_id | grep -q "dst-addr 10.0.0.99"'
	ip netns add C && ip netns add D
	ip -n C link add "$device" index "$index" type veth peer name other netns D
	ip -n C link set "$device" up
	ip -n C neigh add 10.0.0.99 lladdr 02:00:00:00:00:98 nud permanent dev "$device"
	ip -n C neigh del 10.0.0.99 dev "$device"
	ip netns del C && ip netns del D
	sleep 1
	cat $log.other
	! grep UNREACHABLE $log.other && kill -0 $client || status=1
	on B ip neigh replace 10.0.0.99 lladdr 02:00:00:00:00:97 nud permanent dev "$device"
	retry 5 grep UNREACHABLE $log.other || status=1
	dies $client
	on B ip neigh del 10.0.0.99 dev "$device"
	return $status
}

# Programs connect without end in both directions, until they are killed.
traffic() {
	pids=()
	on_exec A rping -s -P > $log.a 2>&1 &
	pids+=($!)
	on_exec B rping -s -P > $log.b 2>&1 &
	pids+=($!)
	cm_listens A
	on_exec B bash -c 'while :; do timeout 5 rping -c -a '"$(addr A)"' -C 2; done' > $log.to_a 2>&1 &
	pids+=($!)
	on_exec A bash -c 'while :; do timeout 5 rping -c -a '"$(addr B)"' -C 2; done' > $log.to_b 2>&1 &
	pids+=($!)
	on_exec A ucmatose -s 10.0.0.99 > $log.silent 2>&1 &
	pids+=($!)
	sleep "1.$((RANDOM % 9))"
}
no_traffic() { local pid; for pid in "${pids[@]}"; do dies "$pid"; done; }

# The links go while all connect; the stock driver waits until they have closed their files.
links_down() {
	local host pid deleting=() status=0
	for host in A B; do
		on_exec $host timeout $((60 * SLOWNESS)) rdma link del "$(dev $host)" &
		deleting+=($!)
	done
	sleep 1
	no_traffic
	for pid in "${deleting[@]}"; do wait "$pid" || { echo "a link does not go"; status=1; }; done
	return $status
}

links_go() {
	local i status=0
	for ((i = 0; i < rounds && status == 0; i++)); do
		traffic
		links_down || status=1
		link_up A && link_up B || status=1
	done
	return $status
}

driver_goes() {
	local i status=0
	for ((i = 0; i < rounds && status == 0; i++)); do
		traffic
		links_down || status=1
		retry 20 modprobe -r rdma_rxe && modprobe rdma_rxe || status=1
		link_up A && link_up B || status=1
	done
	return $status
}

# With its last process a namespace ends, and with it its links.
namespaces_end() {
	local i status=0
	for ((i = 0; i < rounds && status == 0; i++)); do
		traffic
		net_down
		no_traffic
		hosts_gone || { echo "a link is left"; status=1; }
		net_up && link_up A && link_up B || status=1
	done
	return $status
}

modinfo $module > /dev/null 2>&1 || skip_all "$module is built with FERROBAND_TESTS=m"
check "no other test's modules are there" modules_unload
hosts_up || exit
strict=n
! is_ours rdma_cm || strict=y
modprobe $module strict=$strict || exit
run "host A" A
run "host none"
run "host B" B
check "the identifiers of the kernel are shown" eval 'rdma resource show cm_id | grep -q "comm \[cma_test\]"'
net_down
check "the links stay while there is a connection" eval '! gone rxe0 && ! gone rxe1'
run "host gone"
check "then they go" hosts_gone
mark $module
check "the tests go" modprobe -r $module
told_log "the end" results

check "devices of one namespace" retry 10 rdma system set netns exclusive
net_up
check "a device of the first namespace" on A rdma link add rxe0 type rxe netdev vethA
modprobe $module strict=$strict
run "host exclusive" A
net_down
retry 30 gone rxe0
check "devices of all namespaces" retry 30 rdma system set netns shared
net_up && link_up A && link_up B
run "host shared" A
check "the tests go" modprobe -r $module

check "one port in each namespace" both
known_on rdma_cm "a neighbour of another namespace changes" other_neighbour
check "links go under those who connect, $rounds times" links_go
check "connections work" works
check "the driver goes under them, $rounds times" driver_goes
check "connections work" works
check "namespaces end under them, $rounds times" namespaces_end
check "connections work" works
check "no identifier is left" retry 20 eval '[ -z "$(rdma resource show cm_id)" ]'
check "nothing is left" retry 10 no_objects
hosts_down
check "the modules go" retry 20 modules_unload
finish
