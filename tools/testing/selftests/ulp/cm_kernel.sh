#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The exported functions of ib_cm, with clients in C on one device that connects to itself: what may be asked for in which state,
# events in order with what they tell, refusals, peers that are slow or do not answer, service ID resolution, identifiers that are
# destroyed in each state and by their handlers, messages with guessed numbers, more messages than an identifier takes, one that waits
# for an identifier that is destroyed, the removal of a device under them. On a fake device of InfiniBand alternate paths, of requests and
# loaded by a peer. The counters. Nothing is left.
# rows: 5.046 6.031 6.032 6.033 6.034
# mixes: long
# kernels: stock uml
# timeout: 300
. "$(dirname "$0")/lib.sh"

module=cm_test device=cm0
run() { # TEST
	mark $module
	echo "$1" > /sys/module/$module/parameters/run
	told_log "$1" results
}
results() { since_mark $module | grep -E '^(pass|fail)\|'; }

port=/sys/class/infiniband/$device/ports/1
counter() { cat "$port/cm_$1/$2"; } # GROUP MESSAGE
counters() { (cd $port && ls -d cm_*/* | sort | xargs); }
names="apr drep dreq lap mra rej rep req rtu sidr_rep sidr_req"
wanted() {
	local group name
	for group in rx_duplicates rx_msgs tx_msgs tx_retries; do
		for name in $names; do echo "cm_$group/$name"; done
	done | xargs
}
capable() { (($(cat $port/cap_mask) & 0x10000)); }
incapable() { ! capable; }

modinfo $module > /dev/null 2>&1 || skip_all "$module is built with FERROBAND_TESTS=m"
check "no other test's modules are there" modules_unload
wire_up
modprobe rdma_rxe && rdma link add $device type rxe netdev left || exit
modprobe ib_cm || exit
check "the port has a connection manager" capable
check_equal "the counters" "$(wanted)" "$(counters)"
check_equal "their mode" "444" "$(stat -c %a $port/cm_tx_msgs/req)"
check_equal "nothing was sent" 0 "$(counter tx_msgs req)"

strict=n
! is_ours ib_cm || strict=y
modprobe $module strict=$strict || exit
for test in calls listen connect refuse; do run $test; done
sent=$(counter tx_msgs req)
check "requests are counted" [ "$sent" -ge 10 ]
check_equal "where they are received too" "$sent" "$(counter rx_msgs req)"
check "others" [ "$(counter tx_msgs rej)" -ge 5 ] && check "DREQ" [ "$(counter rx_msgs dreq)" -ge 4 ]
retries=$(counter tx_retries req) duplicates=$(counter rx_duplicates req)
run time
check "requests are repeated" [ "$(counter tx_retries req)" -ge $((retries + 3)) ]
check "which is seen where they are received" [ "$(counter rx_duplicates req)" -ge $((duplicates + 3)) ]
check "MRA" [ "$(counter rx_msgs mra)" -ge 3 ]
run datagram
check "requests for datagrams are counted" [ "$(counter rx_msgs sidr_req)" -ge 6 ]
check "repeated ones too" [ "$(counter rx_duplicates sidr_req)" -ge 2 ]
for test in end storm early roce_paths; do run $test; done
# Of 100 messages 64 wait for a client that takes its time; those after the first one are duplicates, and so is that of the other end when
# it is destroyed. Stock lets all wait.
dropped=0
! is_ours ib_cm || dropped=36
received=$(counter rx_msgs dreq) duplicates=$(counter rx_duplicates dreq)
has_come() { [ "$(counter rx_msgs dreq)" -eq $((received + 100)) ]; }
repeated() { [ "$(counter rx_duplicates dreq)" -eq $((duplicates + 100 - dropped)) ]; }
run inbox
check "all messages are counted" retry 10 has_come
run inbox_end
retry 5 repeated
check_equal "as many wait as an identifier takes" $((100 - dropped)) $(($(counter rx_duplicates dreq) - duplicates))
answers=$(counter tx_msgs drep) requests=$(counter tx_retries dreq)
run waiting
run waiting_end
answered() { [ "$(counter tx_msgs drep)" -eq $((answers + 2)) ]; }
check "a DREQ that waits for an identifier that is destroyed is answered" retry 10 answered
check_equal "as it has come, not a later one" $requests "$(counter tx_retries dreq)"
run leave
mark $module
check "the device goes under identifiers" rdma link del $device
told_log removal results
check "it comes back" rdma link add $device type rxe netdev left
retry 5 test -d $port/cm_tx_msgs
run connect
check "the tests go" modprobe -r $module
check "ib_cm goes" modprobe -r ib_cm
check "the port has none" incapable
check "the counters have gone" eval "[ ! -e $port/cm_tx_msgs ]"
rdma link del $device
ip link del left

# A peer that loads a path: each test forges LAPs, four of them with numbers or paths that nobody has, and three APRs.
modprobe -a ib_cm fake_ib || exit
ports=/sys/class/infiniband/fakeib0/ports port=/sys/class/infiniband/fakeib0/ports/2
check "the ports are up" retry 5 eval "grep -q ACTIVE $ports/1/state && grep -q ACTIVE $ports/2/state"
modprobe $module strict=$strict ib=y || exit
run paths
run lap
check_equal "LAPs are counted" "6 0" "$(counter rx_msgs lap) $(counter rx_duplicates lap)"
run lap_again
check_equal "one that has come before" "11 1" "$(counter rx_msgs lap) $(counter rx_duplicates lap)"
check_equal "it is not answered" 0 "$(counter tx_msgs mra)"
run lap_delayed
check_equal "one that is put off" "16 2" "$(counter rx_msgs lap) $(counter rx_duplicates lap)"
check_equal "it is answered, like all that has come before" "2 1" "$(counter tx_msgs mra) $(counter tx_retries mra)"
check_equal "to where it came from" 1 "$(cat $ports/1/cm_rx_msgs/mra)"
run lap_end
check_equal "APRs are counted" "12 0" "$(counter rx_msgs apr) $(counter rx_duplicates apr)"
check_equal "nobody sends either" "0 0" "$(counter tx_msgs lap) $(counter tx_msgs apr)"
check "the tests go" modprobe -r $module
check "the device goes" rmmod fake_ib
check "ib_core is in use no more" modules_unload
finish
