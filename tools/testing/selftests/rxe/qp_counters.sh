#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Counters that queue pairs of rdma_rxe are bound to, with the program `rdma`: by type and by process, by hand; what they count of
# traffic of a known size, on one device and on the wire; what stays of it when a queue pair, a counter or the device goes.
# rows: 8.056
# kernels: stock debug
# mixes: rdma_rxe
# timeout: 240
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")
sys=/sys/class/infiniband/rxe0/ports/1

# Queue pairs of a process of a host, which is named by a letter, too.
users() { # name, host, the host that it talks to
	mkfifo "/run/in.$1" "/run/out.$1" || return
	on_exec "$2" "$here/verbs_counters" "$(dev "$2")" "$(gid_index "$2")" "$(addr "$3")" < "/run/in.$1" > "/run/out.$1" &
	eval "pid_$1=$!"
	eval "exec {to_$1}> /run/in.$1 {from_$1}< /run/out.$1"
	rm "/run/in.$1" "/run/out.$1"
}
ask() { local to=to_$1; echo "${*:2}" >&"${!to}"; }         # name, command
answer() { local from=from_$1 line; read -r -t 60 -u "${!from}" line && echo "$line"; }
qp() { ask "$@" && answer "$1"; }
killed() { local pid=pid_$1; kill -9 "${!pid}"; wait "${!pid}" 2> /dev/null; }
ends() { local pid=pid_$1; ask "$1" quit; wait "${!pid}"; } # name: it ends, and its queue pairs with it
connected() { # name, nth, name, nth, and their numbers
	[ "$(qp "$1" connect "$2" "$6") $(qp "$3" connect "$4" "$5")" = "0 0" ]
}

# What rdma says, without the values that are 0 and the name of a process.
flat() { "$@" 2>&1 | xargs | sed -E ':a; s/ [a-z_]+ 0( |$)/\1/; ta; s/ comm [^ ]*//g; s/ pid 0//g'; }
says() { check_equal "$1" "$2" "$(flat "${@:3}")"; }        # name, output, command
bound() { on "$1" rdma stat qp show link "$(dev "$1")/1"; }  # host: its counters
counters() { says "$1" "$2" bound A; }                      # name, all of A's
of_port() { on "${2:-A}" rdma stat show link "$(dev "${2:-A}")/1" | grep -o "\b$1 [0-9]*" | sed 's/.* //'; } # counter, host
value() { bound "$2" | grep -o "\b$1 [0-9]*" | sed 's/.* //'; }      # counter, host with one counter of queue pairs
above() { [ "$("${@:2}")" -gt "$1" ]; }
set_auto() { on A rdma stat qp set link rxe0/1 auto "$@"; }
bind() { on A rdma stat qp bind link rxe0/1 "$@"; }
unbind() { on A rdma stat qp unbind link rxe0/1 "$@"; }

# bytes N SIZE: what N packets of a SEND count, with the headers of IPv4, UDP and the BTH, and the ICRC.
bytes() { echo $(($1 * (20 + 8 + 12 + $2 + 4))); }
sent() { echo "sent_pkts $1${3:+ rdma_sends $3} sent_bytes $(bytes "$1" "$2")"; }       # packets, size, messages
received() { echo "rcvd_pkts $1${3:+ rdma_recvs $3} rcvd_bytes $(bytes "$1" "$2")"; }

[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
hosts_up || exit

# The stock driver has none, and our core answers as the stock one does.
if ! our_driver; then
	check "without counters: auto mode" set_auto type on
	check "without counters: queue pairs work in it" pingpong ibv_rc_pingpong -n 10
	counters "without counters: none is there" ""
	check "without counters: off" set_auto off
	users a A A
	number=$(qp a create rc)
	says "without counters: by hand" "error: Cannot allocate memory" bind lqpn "$number"
	ends a
	finish
fi

# By type, on one device: what is sent is received by the same counter.
check "by type" set_auto type on
users a A A
rc=("$(qp a create rc)" "$(qp a create rc)") uc=("$(qp a create uc)" "$(qp a create uc)") ud=$(qp a create ud)
is_rc="link rxe0/1 cntn 1 qp-type RC" is_uc="link rxe0/1 cntn 2 qp-type UC" is_ud="link rxe0/1 cntn 3 qp-type UD LQPN: <$ud>"
of_rc="LQPN: <${rc[0]},${rc[1]}>" of_uc="LQPN: <${uc[0]},${uc[1]}>"
check "connected" eval 'connected a 0 a 1 "${rc[@]}" && connected a 2 a 3 "${uc[@]}"'
counters "a counter for each type" "$is_rc $of_rc $is_uc $of_uc $is_ud"
before=$(of_port sent_pkts)
check_equal "messages of UC" "0 0 0" "$(qp a receive 3 10) $(qp a send 2 10 1000) $(qp a wait 3 10)"
count_uc="sent_pkts 10 rcvd_pkts 10 rdma_sends 10 rdma_recvs 10 sent_bytes $(bytes 10 1000) rcvd_bytes $(bytes 10 1000)"
counters "they are counted once" "$is_rc $of_rc $is_uc $count_uc $of_uc $is_ud"
check_equal "a message that nobody receives" 13 "$(qp a send 0 1 100)"
# The answer is an acknowledgement with an AETH of four bytes.
more=$(($(bytes 1 100) + $(bytes 1 4)))
count_rc="sent_pkts 2 rcvd_pkts 2 rcvd_rnr_err 1 send_rnr_err 1 retry_rnr_exceeded_err 1 sent_bytes $more rcvd_bytes $more"
counters "is counted at both ends" "$is_rc $count_rc $of_rc $is_uc $count_uc $of_uc $is_ud"
told_by_port() { # name
	check_equal "$1: the port's" $((before + 12)) "$(of_port sent_pkts)"
	check_equal "$1: in sysfs" $((before + 12)) "$(cat $sys/hw_counters/sent_pkts)"
	check_equal "$1: of the performance management agent" $((before + 12)) "$(cat $sys/counters/port_xmit_packets)"
}
told_by_port "all of it"
says "another rule while counters are bound" \
	"Error: Modifying auto mode is not allowed when there is a bound QP. error: Device or resource busy" set_auto pid on
check_equal "two of them go" "0 0" "$(qp a destroy 2) $(qp a destroy 3)"
counters "and their counter with them" "$is_rc $count_rc $of_rc $is_ud"
killed a
check "the others go with their process" retry 5 eval '[ -z "$(on A rdma stat qp)" ]'
told_by_port "what they have counted"

# By type and process
check "by type and process" set_auto type,pid on
users a A A
users b A A
uc=("$(qp a create uc)" "$(qp a create uc)" "$(qp b create uc)") rc=("$(qp b create rc)")
check "connected to the other process" connected a 0 b 0 "${uc[0]}" "${uc[2]}"
check_equal "messages from one to the other" "0 0 0" "$(qp b receive 0 5) $(qp a send 0 5 500) $(qp b wait 0 5)"
of_b="link rxe0/1 cntn 5 qp-type UC pid $pid_b" is_rc="link rxe0/1 cntn 6 qp-type RC pid $pid_b LQPN: <${rc[0]}>"
counters "a counter for each type of each process" \
	"link rxe0/1 cntn 4 qp-type UC pid $pid_a $(sent 5 500 5) LQPN: <${uc[0]},${uc[1]}> $of_b $(received 5 500 5) LQPN: <${uc[2]}> $is_rc"
ends a
check_equal "a message to nobody" 0 "$(qp b send 0 1 500)"
counters "the other process counts on" "$of_b sent_pkts 1 rcvd_pkts 5 rdma_sends 1 rdma_recvs 5 \
sent_bytes $(bytes 1 500) rcvd_bytes $(bytes 5 500) LQPN: <${uc[2]}> $is_rc"
ends b
check "off" set_auto off

# By hand, from RESET on
users a A A
uc=("$(qp a new uc)" "$(qp a create uc)")
check "by hand: one in RESET" bind lqpn "${uc[0]}"
counters "a new counter" "link rxe0/1 cntn 7 LQPN: <${uc[0]}>"
says "one that is bound" "error: Cannot allocate memory" bind lqpn "${uc[0]}"
check "connected" connected a 0 a 1 "${uc[@]}"
check "by hand: another one, to the same" bind lqpn "${uc[1]}" cntn 7
check "and it leaves" unbind cntn 7 lqpn "${uc[1]}"
before=$(of_port rcvd_pkts)
check_equal "messages" "0 0 0" "$(qp a receive 1 7) $(qp a send 0 7 8) $(qp a wait 1 7)"
counters "the one that is bound counts" "link rxe0/1 cntn 7 $(sent 7 8 7) LQPN: <${uc[0]}>"
check_equal "and the port has what the other one counts" $((before + 7)) "$(of_port rcvd_pkts)"
check "the first one leaves" unbind cntn 7 lqpn "${uc[0]}"
counters "and the counter goes" ""
before=$(of_port sent_pkts)
check_equal "more messages" "0 0 0" "$(qp a receive 1 7) $(qp a send 0 7 8) $(qp a wait 1 7)"
check_equal "are the port's" $((before + 7)) "$(of_port sent_pkts)"

# Nothing is lost or counted twice while queue pairs at work are bound and unbound.
rc=("$(qp a create rc)" "$(qp a create rc)")
check "connected" connected a 2 a 3 "${rc[@]}"
names=(sent_pkts rcvd_pkts rdma_sends rdma_recvs sent_bytes rcvd_bytes)
all_of_port() { for name in "${names[@]}"; do of_port "$name"; done | xargs; }
turn() { # queue pair
	local counter
	bind lqpn "$1" && counter=$(bound A | sed -n 's/.*cntn \([0-9]*\).*/\1/p' | head -1) &&
		unbind cntn "$counter" lqpn "$1" && turns=$((turns + 1))
}
read -r -a before <<< "$(all_of_port)"
turns=0 failed=0 messages=0
# On a slow machine a round may have no turn.
for ((round = 0; failed == 0 && round < 20 && (round < $(rounds 5) || turns < 3); round++)); do
	qp a receive 3 60 > /dev/null
	ask a send 2 60 200000
	until read -r -t 0 -u "$from_a"; do
		turn "${rc[0]}" && turn "${rc[1]}" || { failed=$((failed + 1)); break; }
	done
	ended="$(answer a) $(qp a wait 3 60)"
	[ "$ended" = "0 0" ] || failed=$((failed + 1))
	messages=$((messages + 60))
done
read -r -a after <<< "$(all_of_port)"
check "bound and unbound at work" test "$turns" -gt 2 -a $failed = 0
for i in "${!names[@]}"; do after[i]=$((after[i] - before[i])); done
check_equal "messages sent and received" "$messages $messages" "${after[2]} ${after[3]}"
check_equal "what is sent is received" "${after[0]} ${after[4]}" "${after[1]} ${after[5]}"
check "packets of all messages" test "${after[0]}" -ge $((messages * 196))
ends a

# On the wire, in buffers of several packets
check "by type, at both ends" eval 'set_auto type on && on B rdma stat qp set link rxe1/1 auto type on'
users a A B
users b B A
uc=("$(qp a create uc)" "$(qp b create uc)")
check "connected" connected a 0 b 0 "${uc[@]}"
check_equal "messages of four packets" "0 0 0" "$(qp b receive 0 60) $(qp a send 0 60 4000) $(qp b wait 0 60)"
count=$((60 * 4000 + $(bytes 240 0)))
check_equal "what is sent" "240 60 $count" "$(value sent_pkts A) $(value rdma_sends A) $(value sent_bytes A)"
check_equal "what is received" "240 60 $count" "$(value rcvd_pkts B) $(value rdma_recvs B) $(value rcvd_bytes B)"
check_equal "they go" "0 0" "$(qp a destroy 0) $(qp b destroy 0)"

# A network that loses packets
rc=("$(qp a create rc)" "$(qp b create rc)")
check "connected" connected a 1 b 1 "${rc[@]}"
qp b receive 1 60 > /dev/null
netem B loss 100%
ask a send 1 1 100
check "an acknowledgement is lost: retries" retry 2 above 0 value completer_retry_err A
netem_off B
check_equal "the message is acknowledged" 0 "$(answer a)"
check "it has come twice" retry 2 above 0 value duplicate_request B
gap() { # a packet is lost, and the next one arrives
	netem A loss 100%
	qp a post 1 1 100
	netem_off A
	qp a send 1 1 100
	qp a wait 1 1
	above 0 value out_of_seq_request B
}
check "a packet is lost: the next one is out of sequence" retry 10 gap
check "and the sender is told" above 0 value rcvd_seq_err A
netem A loss 100%
retries=$(value completer_retry_err A)
check_equal "nothing arrives any more" 12 "$(qp a send 1 1 100)"
check_equal "three retries, and no more" "$((retries + 3)) 1" "$(value completer_retry_err A) $(value retry_exceeded_err A)"
netem_off A
ends a

# What is bound goes with its device.
users a A A
rc=("$(qp a create rc)" "$(qp a create rc)")
check "connected" connected a 0 a 1 "${rc[@]}"
qp a receive 1 60 > /dev/null
ask a post 0 60 200000
check "the device goes" link_down A
killed a
check "it comes back" link_up A
counters "without counters" ""
check_equal "nothing is counted yet" 0 "$(of_port rdma_sends)"
ends b
hosts_down
check "the module is not in use" retry 10 not_used rdma_rxe
finish
