#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What users in the kernel get of ib_core and of a driver: kverbs_test asks for all of it, in C.
# kernels: stock debug uml
# rows: 1.001 1.003 1.004 1.005 1.006 1.007 1.008 1.009 1.010 1.011 1.012 1.014 1.015 1.019 1.021 1.022 1.023 1.024 1.025
# rows: 1.026 1.027 1.028 1.029 1.030 1.033 1.034 1.037 1.038 1.041 1.042 1.045 1.046 1.048 1.050 1.054 1.056 1.058 1.060
# rows: 1.061 1.062 1.064 1.065 1.066 1.067 1.068 1.069 1.070 1.071 1.072 2.002 2.005 2.013 2.015 2.021 2.028 3.027 9.001 9.002
# rows: 9.003 9.011 9.012 9.013 9.017 9.018 9.021
# rows stock: 2.025
# rows uml: 1.002 2.027
# timeout: 300
. "$(dirname "$0")/lib.sh"

module=kverbs_test
modinfo $module > /dev/null 2>&1 || skip_all "$module is built with FERROBAND_TESTS=m"
modprobe -a rdma_rxe ib_uverbs
wire_up
rdma link add rxe0 type rxe netdev left

log() { cat /sys/module/$module/parameters/log; }
# lines: what the module has logged.
lines() { since_mark $module; }
results() { lines | grep -E '^(pass|fail|known|known ib_core)\|'; }
# value NAME: what it has logged of the device.
value() { lines | sed -n "s/^value|$1 //p"; }
# devinfo NAME: what libibverbs says of the device.
devinfo() { ibv_devinfo -v -d rxe0 | awk -v name="$1:" '$1 == name { print $2 }'; }
# logged WORDS: the clients have seen that, and nothing else.
logged() { local got; got=$(log) || return; [ "${got# }" = "$1" ] || { echo "seen: $got"; return 1; }; }
# sees EVENT: they will soon have seen that; GIDs come and go with the port, before or after it.
sees() { local i got=; for i in {1..50}; do got+=$(log); [[ $got == *$1* ]] && return; sleep 0.1; done; echo "seen: $got"; return 1; }

# sample: the queue pairs that there are, again and again.
sample() { while [ ! -e /run/kverbs-done ]; do rdma resource show qp; sleep 0.1; done > /run/kverbs-qps; }
# ud_pingpong: between two programs on rxe0, by its IPv4 address.
ud_pingpong() {
	local server status=0
	timeout 30 ibv_ud_pingpong -d rxe0 -g 1 -n 50 > /dev/null &
	server=$!
	retry 10 eval 'ss -Hltn "sport = :18515" | grep -q .'
	timeout 30 ibv_ud_pingpong -d rxe0 -g 1 -n 50 127.0.0.1 || status=$?
	wait $server && return $status
}

# eui64 MAC: the identifier that it makes.
eui64() { local m; IFS=: read -ra m <<< "$1"; printf '%02x%s%sfffe%s%s%s' $((0x${m[0]} ^ 2)) "${m[@]:1}"; }

rm -f /run/kverbs-done
sample &
mark $module
if our_driver; then rearm=1; else rearm=0; fi
check "the tests run" modprobe $module device=rxe0 rearm=$rearm queue_pairs=$(rounds 100000)
touch /run/kverbs-done
wait $!
for type in RC UD; do
	check "its $type queue pairs were listed as the module's" grep -m 1 "link rxe0.* type $type .*comm \[$module\]" /run/kverbs-qps
done
ip link set lo up
check "address handles of a program: ibv_ud_pingpong" ud_pingpong
check "ib_core has what the headers call for devices that take addresses of the kernel" \
	grep -q ' ib_dma_virt_map_sg\s\[ib_core\]' /proc/kallsyms
told_log "all tests are run" results
check "to the end" grep -q '^done$' <(lines)
for name in max_qp max_qp_wr max_cq max_cqe max_mr max_pd max_srq max_ah; do
	check_equal "$name is what libibverbs says" "$(devinfo $name)" "$(value $name)"
done
check_equal "which transitions of states there are, with which attributes: as in the stock core" f17974a9:3908 "$(value states)"
check_equal "the GUID is made of the MAC address" "$(eui64 "$(cat /sys/class/net/left/address)")" "$(value node_guid)"
check_equal "the GID is that in sysfs" "$(cat /sys/class/infiniband/rxe0/ports/1/gids/0)" "$(value gid0)"

check "clients are told of the device that is there, in order" logged '+1rxe0 +2rxe0 +3rxe0'
if modprobe -qna nvme_rdma ib_srpt; then
	check "stock clients, too: ib_srpt has a PD of the device" modprobe -a nvme_rdma ib_srpt
	check "which is the module's" retry 5 eval 'rdma resource show pd dev rxe0 | grep -q "comm \[ib_srpt\]"'
	check "and goes with it" modprobe -ra ib_srpt nvme_rdma
else
	skip "stock clients" "this kernel has none"
fi
rdma link add rxe1 type rxe netdev right
check "and of one that comes, in order" logged '+1rxe1 +2rxe1 +3rxe1'
mark $module
check "queue pairs of what two devices have" eval "echo two devices > /sys/module/$module/parameters/do"
told_log "all were tried" results
check "to the end, too" grep -q '^done$' <(lines)
ip link set left down
check "a handler is told that the port goes down" sees 'rxe0:port error'
ip link set left up
check "and that it comes up" sees 'rxe0:port active'
set_dim() { rdma dev set rxe0 adaptive-moderation "$1" && rdma -d dev show rxe0 | grep "adaptive-moderation $1"; }
for switch in on off; do
	check "adaptive moderation is switched $switch" set_dim $switch
	mark $module
	check "queues made then" eval "echo adaptive > /sys/module/$module/parameters/do"
	told_log "adaptive moderation $switch" results
	check "to the end again" grep -q '^done$' <(lines)
done
echo unlisten > /sys/module/$module/parameters/do
log > /dev/null
ip link set left down
ip link set left up
sleep 1
check "and of nothing, once it is unregistered" logged ''
rdma dev set rxe1 name other
check "who wants to know it is told of a new name" logged '=other'
rdma link delete other
check "clients are told in reverse order of a device that goes" logged '-3other -2other -1other'

ip link add far type veth peer name near
ip link set far up
ip link set near up
log > /dev/null
# at_once COMMAND [NEW]: for two devices at the same time, while a client sleeps.
at_once() { rdma link "$1" rxe2 ${2:+type rxe netdev right} & rdma link "$1" rxe3 ${2:+type rxe netdev near} & wait; log; }
check "two devices come while a client sleeps" grep -q '+3rxe2.*+3rxe3\|+3rxe3.*+3rxe2' <(at_once add new)
check "and go" grep -q -- '-1rxe2.*-1rxe3\|-1rxe3.*-1rxe2' <(at_once delete)
# set_pkeys FIRST SECOND: both entries of the table, and the cache has them.
set_pkeys() {
	local dir=/sys/class/infiniband/rxe0
	echo "1 $2" > $dir/set_pkey && echo "0 $1" > $dir/set_pkey && retry 5 eval '[ "$(cat '$dir'/ports/1/pkeys/{0,1} | xargs)" = "'"$1 $2"'" ]'
}
# members FIRST SECOND INDEX: where members of the default partition are found in such a table.
members() {
	check "a table with $1 and $2" set_pkeys "$1" "$2"
	mark $module
	check "members of the default partition are looked for" eval "echo P_Keys $3 > /sys/module/$module/parameters/do"
	told_log "all of them" results
	check "to their end" grep -q '^done$' <(lines)
}
if our_driver; then
	# A device has its table from the beginning.
	rdma link delete rxe0
	modprobe -r rdma_rxe
	check "a device with two P_Keys" eval 'modprobe rdma_rxe pkeys=2 && rdma link add rxe0 type rxe netdev left'
	echo unlisten > /sys/module/$module/parameters/do
	members 0x7fff 0xffff 1
	members 0x7fff 0x8005 0
	log > /dev/null
fi
mark $module
check "the clients go" rmmod $module
check "they have been told that the device goes, once" grep -q 'log| -1rxe0 -2rxe0 -3rxe0$' <(lines)
check "the device goes" rdma link delete rxe0
! our_driver || { modprobe -r rdma_rxe && modprobe rdma_rxe; }
finish
