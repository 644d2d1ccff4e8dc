#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# rdma link add and del, their errors, network devices and namespaces that vanish, the module's life, the UDP port.
# kernels: stock debug
# rows: 1.017 6.023 9.009 9.015
# mixes: long
# timeout: 300
. "$(dirname "$0")/lib.sh"

# refused MESSAGE COMMAND...: it fails, and says so.
refused() {
	local output
	output=$("${@:2}" 2>&1) && { echo "it succeeded"; return 1; }
	echo "$output"
	grep -q "$1" <<< "$output"
}
port_open() { on "$1" ss -Hlun 'sport = :4791' | grep .; }
port_shut() { ! port_open "$1"; }
present() { test -e "/sys/class/infiniband/$1"; }
absent() { ! present "$1"; }
repeat() { local i; for ((i = 0; i < $1; i++)); do "${@:2}" || return; done; }
add() { on A rdma link add "$1" type rxe netdev "$2"; }

# kernel_memory: KiB that the kernel holds and cannot take back.
kernel_memory() {
	sleep 1
	echo 3 > /proc/sys/vm/drop_caches
	awk '/^(SUnreclaim|Percpu|VmallocUsed|KernelStack):/ { sum += $2 } END { print sum }' /proc/meminfo
}

# steady COMMAND...: it holds no more memory when repeated (2 MiB are noise).
steady() {
	local before after
	"$@" || return
	before=$(kernel_memory)
	"$@" || return
	after=$(kernel_memory)
	echo "kernel memory: $before -> $after KiB"
	[ $((after - before)) -lt 2048 ]
}
cycle() { add rxe0 vethA && link_down A; }
traffic_cycle() { link_up A && link_up B && pingpong ibv_rc_pingpong -n 20 > /dev/null && link_down A && link_down B; }
module_cycle() { modules_load && link_up A && modules_unload; }

# cold: no module of RDMA is loaded.
cold() { ! grep -E '^(ib_|rdma_|iw_cm)' /proc/modules; }
loaded() { grep -q "^$1 " /proc/modules; }
rdma_depends() { modinfo -F depends "$1" | tr , '\n' | grep -E '^(ib|rdma|iw)_' | sort | xargs; } # a module

# watch_events: a program that has rxe0 open; its process is $watcher.
watch_events() {
	on_exec A stdbuf -oL ibv_asyncwatch -d rxe0 > /run/asyncwatch 2>&1 &
	watcher=$!
	retry 5 grep -q async /run/asyncwatch
}

# deleted_in_use: a link goes while a program has it open; at the latest when that ends, the device is gone.
deleted_in_use() {
	local watcher deleter
	watch_events
	kill -0 $watcher || return
	link_down A &
	deleter=$!
	sleep 1
	kill $watcher
	wait $watcher
	wait $deleter && absent rxe0
}

# deleted_under_traffic: the same in the middle of a transfer.
deleted_under_traffic() {
	local server client deleter
	on_exec A timeout 60 ib_write_bw -F -d rxe0 -x "$(gid_index A)" -D 30 > /dev/null 2>&1 &
	server=$!
	_listens A 18515 || return
	on_exec B timeout 60 ib_write_bw -F -d rxe1 -x "$(gid_index B)" -D 30 "$(addr A)" > /dev/null 2>&1 &
	client=$!
	retry 10 sends B && kill -0 $server $client || return
	link_down B &
	deleter=$!
	sleep 1
	kill $server $client 2> /dev/null
	wait $server $client
	wait $deleter && absent rxe1 && link_up B && pingpong ibv_rc_pingpong -n 20
}

modules_load rdma_rxe
net_up || exit
check "the module alone opens no port" eval 'port_shut A && port_shut B'
check "link add" link_up A
check "the port is open" port_open A
check "over IPv6 too" on A grep -q "^ *[0-9]*: 0*:$(printf %X 4791) " /proc/net/udp6
check "but not in the other namespace" port_shut B
check "add: the name is taken" refused 'Too many open files\|File exists' add rxe0 lo
check "add: the network device has a link" refused 'File exists' add other vethA
check "add: no such network device" refused 'No such device\|Invalid netdev\|does not exist' add other nosuch
check "add: an empty name" refused . add '' lo
check "add: a pattern for a name" refused 'Invalid argument' add 'rxe%d' lo
check "add: no such type" refused 'Invalid argument\|No such' on A rdma link add other type nosuch netdev lo
check "add: no privileges" refused 'not permitted' on A setpriv --reuid=65534 --clear-groups rdma link add other type rxe netdev lo
check "del: no such link" refused . on A rdma link del nosuch
check "del: no privileges" refused 'not permitted' on A setpriv --reuid=65534 --clear-groups rdma link del rxe0

on A ip link add dummy0 type dummy
on A ip addr add 10.1.0.1/24 dev dummy0
on A ip link set dummy0 up
check "a second link in the namespace" add rxe2 dummy0
check "del of the first" link_down A
check "the port stays open for the second" port_open A
check "the second still works" on A bash -c 'ibv_devinfo -d rxe2 | grep -q PORT_ACTIVE'
check "its network device goes" on A ip link del dummy0
check "and the link with it" retry 5 absent rxe2
known_on_stock "and the port" retry 5 port_shut A

check "20 times add and del" steady repeat "$(rounds 10)" cycle
check "with traffic" steady repeat "$(rounds 2)" traffic_cycle
modules_load
link_up A
link_up B
check "del while a program has it open" deleted_in_use
link_up A
check "del under traffic" deleted_under_traffic
link_down A
link_down B
check "the module is not in use" retry 5 not_used rdma_rxe

link_up A
link_up B
ip netns del A
check "a namespace is deleted with a link in it" retry 10 absent rxe0
check "the other link goes with its network device, the peer" retry 10 absent rxe1
hosts_down 2> /dev/null
check "network devices are released" eval '! dmesg | grep "waiting for .* to become free"'

check "unload" modules_unload
check "nothing of RDMA is loaded" cold
stock=/lib/modules/$(uname -r)/kernel/drivers/infiniband
check_equal "the modules of RDMA that the driver depends on" "$(rdma_depends $stock/sw/rxe/rdma_rxe.ko)" "$(rdma_depends rdma_rxe)"
check "modprobe of the driver alone" modprobe rdma_rxe
check "it has pulled in ib_core, which it uses" test -e /sys/module/ib_core/holders/rdma_rxe
net_up || exit
check "a link" link_up A
# ib_core maps the pages of programs, so no driver needs ib_uverbs: the kernel loads it when a program looks for a device file.
check "so far without ib_uverbs" eval '! loaded ib_uverbs'
check "the first program that looks for devices sees it" on A sh -c 'ibv_devices | grep rxe0'
check "for it has pulled in ib_uverbs" loaded ib_uverbs
check "and no connection manager" eval '! loaded rdma_ucm'
link_down A
net_down
check "unload again" modules_unload
net_up || exit
check "the link type loads the module" add rxe0 lo
check "unload with a link" modprobe -r rdma_rxe
check "the link is gone" absent rxe0
check "the port is shut" retry 5 port_shut A
modules_load
link_up A
watch_events
check "unload while a program has it open" refused 'in use' rmmod rdma_rxe
check "it has it open still" kill -0 $watcher
kill $watcher
wait $watcher 2> /dev/null
link_down A
check "6 times load, add and unload" steady repeat "$(rounds 3)" module_cycle
hosts_down

# The kernel's own scripts, unmodified.
selftests=/ferroband/kernel-selftests/rdma
modules_load
for script in "$selftests"/*.sh; do
	name="kernel selftest ${script##*/}"
	[ -e "$script" ] || { skip "the kernel's selftests" "they are not in the guest"; break; }
	modprobe tun # some of them unload what the next one takes for granted
	known_on_stock "$name" timeout 60 bash "$script"
done
finish
