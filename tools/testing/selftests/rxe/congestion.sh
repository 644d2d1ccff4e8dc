#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Congestion control (congestion_control=1): packets that queues mark instead of dropping them, a notification for the marks, a sender
# that slows down; queue pairs that share a bottleneck lose less; forged notifications (congestion.py) harm nobody. By default nothing
# of it happens.
# timeout: 400
# cpus: 2
. "$(dirname "$0")/lib.sh"
our_driver || skip_all "the stock driver has no congestion control"

here=$(dirname "$0")
counters="rp_cnp_ignored rp_cnp_handled np_ecn_marked_roce_packets np_cnp_sent"

# count HOST NAME: a counter of its device, which sysfs refreshes when it is older than 10 ms.
count() { cat "/sys/class/infiniband/$(dev "$1")/ports/1/hw_counters/$2"; }
counted() { sleep 0.1; for name in $counters; do count "$1" "$name"; done | xargs; }
ignored() { count A rp_cnp_ignored; }
handled() { count A rp_cnp_handled; }

# marks HOST PERCENT: so many of the RoCE packets that leave the host are marked if they may be, else lost.
marks() {
	local dev
	dev=$(netdev "$1")
	_lossy=yes
	on "$1" tc qdisc replace dev "$dev" root handle 1: prio || return
	on "$1" tc qdisc replace dev "$dev" parent 1:3 handle 30: netem limit 10000 loss "$2" ecn || return
	on "$1" tc filter replace dev "$dev" parent 1: pref 1 protocol ip u32 match ip dport 4791 0xffff flowid 1:3 || return
	on "$1" tc filter replace dev "$dev" parent 1: pref 2 protocol ipv6 u32 match ip6 dport 4791 0xffff flowid 1:3
}
unmarked() { _lossy=; for host in A B; do on $host tc qdisc del dev "$(netdev $host)" root 2> /dev/null; done; }
# lost SENDER RECEIVER: the packets of the one that the other one did not get.
lost() { echo $(($(count "$1" sent_pkts) - $(count "$2" rcvd_pkts))); }
# What was lost is sent again, and what a slow machine acknowledges late.
again() { echo $(($(count A completer_retry_err) + $(count B completer_retry_err))); }

# notified NAME SENDER COMMAND...: the sender's packets with data are marked, the peer notifies it, and it heeds that; nothing is lost.
notified() {
	local name=$1 sender=$2 receiver before
	receiver=$(peer "$2")
	shift 2
	before="$(count "$receiver" np_ecn_marked_roce_packets) $(count "$receiver" np_cnp_sent) $(count "$sender" rp_cnp_handled) $(lost "$sender" "$receiver")"
	marks "$sender" 5% || { fail "$name: a queue that marks"; return; }
	check "$name" "$@"
	unmarked
	sleep 0.1
	# shellcheck disable=SC2086 # four numbers
	set -- $before
	check "$name: marks are seen" test "$(count "$receiver" np_ecn_marked_roce_packets)" -gt "$1"
	check "$name: notifications are sent" test "$(count "$receiver" np_cnp_sent)" -gt "$2"
	check "$name: and heeded" test "$(count "$sender" rp_cnp_handled)" -gt "$3"
	check_equal "$name: nothing is lost" "$4" "$(lost "$sender" "$receiver")"
}

# Nobody has asked for these; the sender of all of them is the peer, unless SOURCE says another one.
forged() { on B python3 "$here/congestion.py" "${SOURCE:-10.0.0.2}" 10.0.0.1 "$@"; } # count, queue pair, kind
# qp_of PROGRAM: the number of its queue pair on A.
qp_of() { on A rdma resource show qp | grep "link rxe0/1.*comm $1" | grep -o 'lqpn [0-9]*' | cut -d' ' -f2 | head -1 | grep .; }

# is_ignored NAME COUNT QPN [KIND]: that many are ignored, or none of those that are no packets of RoCE.
is_ignored() {
	local before_ignored before_handled
	before_ignored=$(ignored) before_handled=$(handled)
	forged 50 "$3" "${4:-}" || { fail "$1: forge"; return; }
	check "$1" retry 5 eval '[ $(($(ignored) - '"$before_ignored"')) = '"$2"' ]'
	check_equal "$1: nothing is slowed down" "$before_handled" "$(handled)"
}

# flood: notifications for the queue pair of a program that sends, and goes on. Of those that come within 50 us one is heeded.
flood() {
	local server client qpn heeded ignored began microseconds status=0
	on_exec A timeout 60 rping -s -a 10.0.0.1 > /dev/null 2>&1 &
	server=$!
	sleep 1
	on_exec B timeout 60 rping -c -a 10.0.0.1 > /dev/null 2>&1 &
	client=$!
	retry 10 qp_of rping > /dev/null && retry 10 sends A && qpn=$(qp_of rping) || status=1
	heeded=$(handled) ignored=$(ignored) began=${EPOCHREALTIME//[.,]/}
	forged 20000 "$qpn" full || status=1
	retry 5 eval '[ $(($(handled) + $(ignored) - '"$heeded - $ignored"')) = 20000 ]' || status=1
	microseconds=$((${EPOCHREALTIME//[.,]/} - began))
	heeded=$(($(handled) - heeded)) ignored=$(($(ignored) - ignored))
	echo "$heeded heeded, $ignored ignored in $microseconds us"
	[ "$heeded" -gt 0 ] && [ "$heeded" -le $((microseconds / 50 + 1)) ] && [ "$ignored" -gt 0 ] || status=1
	kill -0 $server $client && retry 10 sends A || status=1
	kill $server $client 2> /dev/null
	wait $server $client
	return $status
}

# A switch between the hosts, whose queue to A has room for 256 KiB and 100 Mbit/s, and marks from 32 KiB on.
through_switch() {
	local host
	net_up 4200 || return
	for host in A B; do on $host ip link show "veth$host" > /dev/null || return; done
	ip netns add R && on A ip link del vethA || return
	ip netns exec R ip link add switch type bridge
	for host in A B; do
		ip link add veth$host netns $host type veth peer name to$host netns R || return
		ip netns exec R ip link set to$host mtu 4200 master switch up
		on $host ip link set veth$host mtu 4200 up
		on $host ip addr add "$(addr $host)/24" dev veth$host
		on $host ip addr add "$(addr6 $host)/64" dev veth$host nodad
	done
	ip netns exec R ip link set switch mtu 4200 up
	ip netns exec R tc qdisc add dev toA root handle 1: tbf rate 100mbit burst 20kb limit 10mb || return
	ip netns exec R tc qdisc add dev toA parent 1:1 handle 10: red limit 256kb min 32kb max 96kb avpkt 1100 burst 40 \
		probability 0.1 bandwidth 100mbit ecn || return
	retry 10 on A ping -q -c 1 -W 1 10.0.0.2 && retry 20 on B ping -q -c 1 -W 1 fd00::1
}
dropped() { ip netns exec R tc -s qdisc show dev toA | sed -n '/qdisc red/,$ s/.*(dropped \([0-9]*\),.*/\1/p' | head -1; }

# bottleneck: prints what four queue pairs lose on their way through the switch; MEASURE=yes: and their throughput.
bottleneck() {
	local said
	said=$(LIMIT=150 perftest ib_write_bw -n "${MESSAGES:-60}" -q 4 -s 65536 -m 1024 --report_gbits) || { echo "$said" | diagnose >&2; return 1; }
	[ -z "${MEASURE:-}" ] || echo "# congestion_control=$1: $(echo "$said" | awk '/^ 65536/ { print $4 }') Gbit/s, $(dropped) dropped, $(again) times sent again" >&2
	dropped
}

[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
if [ -z "${MEASURE:-}" ]; then
	modprobe rdma_rxe && hosts_up || exit
	marks B 5% || exit
	check "by default: messages over a queue that marks" exchange ibv_rc_pingpong -n 50 -s 20000 -c
	unmarked
	check "by default: packets cannot be marked, and are lost" test "$(again)" -gt 0
	check_equal "by default: nothing is counted" "0 0 0 0 0 0 0 0" "$(counted A) $(counted B)"
	forged 50 17
	check "by default: a notification is ignored" retry 5 eval '[ $(ignored) = 50 ]'
	hosts_down && modules_unload || fail "by default: unloading"

	modprobe rdma_rxe congestion_control=1 && hosts_up || exit
	notified "WRITE" B perftest ib_write_bw -n 50 -s 65536 -m 1024
	V=6 notified "SEND, IPv6" B perftest ib_send_bw -n 50 -s 65536 -m 1024
	notified "the responses to READs" A perftest ib_read_bw -n 50 -s 65536 -m 1024
	notified "UC" B perftest ib_write_bw -c UC -n 50 -s 65536 -m 1024
	notified "many queue pairs" B perftest ib_write_bw -n 50 -s 20000 -q 8
	on B ip link set dev "$(netdev B)" gso_max_segs 1
	notified "packets one by one" B perftest ib_write_bw -n 50 -s 65536 -m 1024
	check "datagrams" pingpong ibv_ud_pingpong -n 50 -c
	LOOPBACK=yes check "on one device" perftest ib_write_bw -n 50 -s 65536

	# Notifications cannot be marked: a queue that marks everything else drops them.
	before="$(count A np_cnp_sent) $(count B rp_cnp_handled)"
	marks A 100% && marks B 100% || exit
	check "everything is marked" pingpong ibv_rc_pingpong -n 50 -s 20000 -c
	unmarked
	sleep 0.1
	check "notifications are sent then" test "$(count A np_cnp_sent)" -gt "${before% *}"
	check_equal "and lost" "${before#* }" "$(count B rp_cnp_handled)"

	check "a flood of notifications" flood
	on_exec A timeout 100 rping -s -a 10.0.0.1 > /dev/null 2>&1 &
	server=$!
	sleep 1
	on_exec B timeout 100 rping -c -a 10.0.0.1 > /dev/null 2>&1 &
	client=$!
	on_exec A timeout 100 ibv_ud_pingpong -d rxe0 -g "$(gid_index A)" > /dev/null 2>&1 &
	datagrams=$!
	retry 10 qp_of rping > /dev/null && retry 10 qp_of ibv_ud_pingpong > /dev/null || exit
	qpn=$(qp_of rping)
	on A ip addr add 10.0.0.9/24 dev "$(netdev A)"
	SOURCE=10.0.0.7 is_ignored "from somebody else" 50 "$qpn"
	is_ignored "for a queue pair of datagrams" 50 "$(qp_of ibv_ud_pingpong)"
	is_ignored "for a queue pair that is not there" 50 0xabcde
	for kind in icrc short long pkey; do is_ignored "with a wrong $kind" 0 "$qpn" $kind; done
	check "they still work" eval "kill -0 $server $client $datagrams && retry 10 sends A"
	kill $server $client $datagrams
	wait $server $client $datagrams
	check "nothing is left" retry 5 no_objects
	hosts_down && modules_unload || fail "unloading"
fi

for value in 0 1; do
	modprobe rdma_rxe congestion_control=$value && modules_load && through_switch && link_up A && link_up B || exit
	lost[value]=$(bottleneck $value) && pass "a bottleneck, congestion_control=$value" || fail "a bottleneck, congestion_control=$value"
	echo "# ${lost[value]} packets dropped with congestion_control=$value"
	[ $value = 0 ] || check "marks at the bottleneck are seen" test "$(count A np_cnp_sent)" -gt 0
	hosts_down
	ip netns del R
	modules_unload || fail "unloading"
done
check "it loses less than half with congestion control" test $((2 * lost[1])) -lt "${lost[0]}"
modprobe rdma_rxe
finish
