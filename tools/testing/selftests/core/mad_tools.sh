#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Management of InfiniBand ports by programs, over the stock ib_umad: files of subnet managers, infiniband-diags. On a fake
# InfiniBand device.
# rows: 6.001 6.002 6.005 6.016 6.020 6.021 6.039
# kernels: stock
# timeout: 120
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mad.bash"

port=/sys/class/infiniband/fakeib0/ports

# The field of a name in what a program prints, without dots: NAME COMMAND...
field() { "${@:2}" | sed -n "s/^[[:space:]]*$1:[.[:space:]]*//p"; }
is() { check_equal "$1" "$2" "$("${@:3}" 2>&1)"; } # name, output, command

# ends_with WORDS COMMAND...: it fails, and says why.
ends_with() { local output; ! output=$("${@:2}" 2>&1) && grep -q "$1" <<< "$output"; }

# issm PORT: whether somebody is its subnet manager, as the port tells it.
issm() { echo $(($(cat "$port/$1/cap_mask") >> 1 & 1)); }
# A program opens the file, and holds it until it ends.
hold() { sleep 1000 < "/dev/infiniband/issm$1" & holder=$!; }
let_go() { kill $holder; wait $holder 2> /dev/null; }
second_opener() {
	/usr/bin/python3 -c '
import errno, os
try:
    os.open("/dev/infiniband/issm0", os.O_RDONLY | os.O_NONBLOCK)
except OSError as why:
    print(errno.errorcode[why.errno])'
}
# Somebody waits for the file until it is let go.
waits() {
	head -c 0 /dev/infiniband/issm0 &
	waiter=$!
	sleep 0.5
	kill -0 $waiter
}

wait_for_it() { retry 5 eval '! kill -0 $waiter 2> /dev/null'; }

ping_between_ports() {
	local server status=0
	ibping -S -C fakeib0 -P 2 > /dev/null 2>&1 &
	server=$!
	sleep 1
	ibping -c 5 -C fakeib0 -P 1 32 || status=$?
	kill $server
	wait $server
	return $status
}

mad_up
modprobe -a ib_umad rdma_rxe || exit
wire_up
rdma link add rxe0 type rxe netdev left

for n in 0 1; do
	check "a file for MADs of port $((n + 1))" test -c /dev/infiniband/umad$n
	check "one for its subnet manager" test -c /dev/infiniband/issm$n
	is "its device" "fakeib0 fakeib0" eval "echo \$(cat /sys/class/infiniband_mad/{umad,issm}$n/ibdev)"
	is "its port" "$((n + 1)) $((n + 1))" eval "echo \$(cat /sys/class/infiniband_mad/{umad,issm}$n/port)"
done
check "a RoCE port has a file for MADs" test -c /dev/infiniband/umad2
is "and none for a subnet manager" "/dev/infiniband/issm0 /dev/infiniband/issm1" eval "echo /dev/infiniband/issm*"
is "ibstat -p" "0x0002c90300000011 0x0002c90300000012" eval "ibstat -p | head -2 | xargs"

is "nobody is subnet manager" 0 issm 1
hold 0
check "the port tells that somebody is" retry 5 eval '[ "$(issm 1)" = 1 ]'
is "the other one does not" 0 issm 2
is "a second one has to come again" EAGAIN second_opener
if waits; then pass "or waits"; else fail "or waits"; fi
let_go
check "until the first one has gone" wait_for_it
is "nobody is any more" 0 issm 1
check_fails "there is nothing to read" timeout 5 head -c 1 /dev/infiniband/issm1
is "who has gone is not" 0 issm 2

is "ibstat: states" "Active Active" eval "field State ibstat fakeib0 | xargs"
is "ibstat: LIDs" "16 32" eval "field 'Base lid' ibstat fakeib0 | xargs"
is "ibstat: subnet manager" "48 48" eval "field 'SM lid' ibstat fakeib0 | xargs"
is "NodeInfo of itself, by a directed route" 1 field LocalPort smpquery -C fakeib0 -P 1 -D nodeinfo 0
is "of its neighbour" 2 field LocalPort smpquery -C fakeib0 -P 1 -D nodeinfo 0,1
is "from the other port" 1 field LocalPort smpquery -C fakeib0 -P 2 -D nodeinfo 0,2
is "its GUID" 0x0002c90300000012 field PortGuid smpquery -C fakeib0 -P 1 -D nodeinfo 0,1
check "a channel adapter forwards nothing" ends_with "recv failed: Connection timed out" \
	smpquery -C fakeib0 -P 1 -t 100 -D nodeinfo 0,1,1
check "no other port is taken" ends_with "send failed; Invalid argument" smpquery -C fakeib0 -P 1 -t 100 -D nodeinfo 0,2
is "NodeInfo by LID" 2 field LocalPort smpquery -C fakeib0 -P 1 nodeinfo 32
is "PortInfo by LID" 32 field Lid smpquery -C fakeib0 -P 1 portinfo 32
is "NodeDescription" "an InfiniBand device that does not exist" field 'Node Description' smpquery -C fakeib0 -P 1 nodedesc 32
check "there is nobody at that LID" ends_with "recv failed: Connection timed out" smpquery -C fakeib0 -P 1 -t 100 nodeinfo 99
check "ibping from port to port" ping_between_ports
is "perfquery: packets sent" 1002 field PortXmitPkts perfquery -C fakeib0 -P 1 32 2
is "perfquery: packets received" 2002 field PortRcvPkts perfquery -C fakeib0 -P 1 32 2
device services 40
is "saquery: services in segments" 40 eval "saquery -C fakeib0 -P 1 -S | grep -c '^ServiceRecord dump'"
rmmod ib_umad
check "the files have gone" eval '! ls /dev/infiniband/umad* /dev/infiniband/issm* 2> /dev/null'
mad_down
rdma link delete rxe0
finish
