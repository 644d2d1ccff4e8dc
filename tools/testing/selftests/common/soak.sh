#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Soak: mixed traffic of several processes for HOURS (fractions allowed), in cycles of three phases: calm (every transport, what
# fails is a fault), loss (packets are lost and reordered: reliable traffic must not fail), and chaos (links flap, programs are
# killed, devices go under their users: programs may fail but must end, and all works again afterwards). Meanwhile other links
# and clients of the kernel come and go. Counters every minute and at the end. By hand: make soak HOURS=0.1
# kernels: stock debug
# when: long
# mix: ib_core ib_uverbs ib_uverbs_support rdma_rxe
# timeout: 1200
. "$(dirname "$0")/lib.sh"

dir=/run/soak
workers=${WORKERS:-3}
phase_seconds=${PHASE_SECONDS:-20}
seconds=$(awk -v h="${HOURS:-0.1}" 'BEGIN { printf "%d", h * 3600 }')
mkdir -p $dir

# Counting: a line each in a file of each process, so that no lock is wanted.
# ----------------------------------------------------------------------------------------------------------------------

count() { echo "$2 ${3:-1}" >> "$dir/count.$1"; }               # who, what, how much
total() { cat $dir/count.* 2> /dev/null | awk -v what="$1" '$1 == what { sum += $2 } END { printf "%d", sum }'; }
# The hardware counters of a device go with it: noted before that, and not read in between.
packets_of() { cat "/sys/class/infiniband/$1/ports/1/hw_counters/"{sent_pkts,rcvd_pkts} 2> /dev/null | awk '{ sum += $1 } END { printf "%d", sum }'; }
link_del() { # host
	(
		flock 9
		count "packets.$1" packets "$(packets_of "$(dev "$1")")"
		timeout 60 ip netns exec "$1" rdma link del "$(dev "$1")"
	) 9> $dir/lock
}
slab() { awk '/^SUnreclaim/ { print $2 }' /proc/meminfo; }

report() {
	local packets
	{ packets=$(flock 9; echo $(($(total packets) + $(packets_of rxe0) + $(packets_of rxe1)))); } 9> $dir/lock
	echo "# $((SECONDS / 60)) min: $(total messages) messages, $(total bytes) bytes, $packets packets; $(total done) programs," \
		"$(total cut) cut off, $(total fault) faults; $(total kill) kills, $(total flap) flaps, $(total gone) devices gone," \
		"$(total hotplug) hotplugs, $(total client) clients in and out; slab $(slab) KiB ($(($(slab) - slab_began)) more)"
}

# Traffic
# ----------------------------------------------------------------------------------------------------------------------

# What is sent reliably: program, options, messages, size.
reliable=(
	"ib_send_bw||200|64" "ib_send_bw||100|8192" "ib_send_bw|-m 4096|50|65536" "ib_send_bw|-e|100|1024" "ib_send_bw|-q 2|100|4096"
	"ib_send_bw|-b|50|8192" "ib_write_bw||200|64" "ib_write_bw||100|8192" "ib_write_bw|-q 4|100|4096" "ib_write_bw||10|1048576"
	"ib_write_bw|--write_with_imm|100|2048" "ib_read_bw||100|8192" "ib_read_bw|-o 1|50|65536" "ib_read_bw||10|1048576"
	"ib_atomic_bw|-A CMP_AND_SWAP|100|8" "ib_atomic_bw|-A FETCH_AND_ADD|100|8" "ibv_rc_pingpong|-c -e|100|4096"
	"ibv_rc_pingpong|-c|20|65536"
)
# And what is lost if a packet is.
unreliable=(
	"ib_send_bw|-c UC|100|2048" "ib_write_bw|-c UC|100|8192" "ib_send_bw|-c UD|100|1024" "ibv_uc_pingpong|-c -e|100|2048"
	"ibv_ud_pingpong|-c -e|100|1024" "ibv_srq_pingpong|-c -e -q 4|100|2048"
)

# side HOST PORT PROGRAM OPTIONS MESSAGES SIZE [PEER]: one end of an exchange.
side() {
	local host=$1 port=$2 program=$3 options=$4 messages=$5 size=$6 gid
	read -r gid < "$dir/gid.$host" || return
	case $program in
	ibv_*) set -- -g "$gid" -n "$messages" -s "$size" -p "$port" ${7:+"$7"} ;;
	ib_atomic*) set -- -F -x "$gid" -n "$messages" -p "$port" ${7:+"$7"} ;;
	*) set -- -F -x "$gid" -n "$messages" -s "$size" -p "$port" ${7:+"$7"} ;;
	esac
	# shellcheck disable=SC2086 # a list
	on_exec "$host" timeout -k 5 $((100 * SLOWNESS)) "$program" -d "$(dev "$host")" $options "$@"
}

# exchange_one WORKER PHASE PORT SPEC: between A and B, in either direction; 0 if it went well.
exchange_one() {
	local log=$dir/log.$1 phase=$2 port=$3 program options messages size server=A client=B pid status=0
	IFS='|' read -r program options messages size <<< "$4"
	[ $((RANDOM % 2)) = 0 ] || { server=B; client=A; }
	{
		(side $server "$port" "$program" "$options" "$messages" "$size") > "$log.server" 2>&1 &
		pid=$!
		_listens $server "$port" && (side $client "$port" "$program" "$options" "$messages" "$size" "$(addr $server)") > "$log.client" 2>&1 ||
			status=$?
		[ $status = 0 ] || kill $pid
		wait $pid || status=$?
	} 2> /dev/null
	! grep -q 'invalid data' "$log.server" "$log.client" || { count "$1" fault; return 1; }
	# The last acknowledgement of a ping-pong may be lost when nobody answers any more: see exchange in lib.sh.
	[ "$phase" != loss ] || ! grep -q 'iters in' "$log.server" "$log.client" || status=0
	[ $status = 0 ] || return 1
	count "$1" messages "$messages"
	count "$1" bytes $((messages * size))
}

worker() {
	local me=$1 phase spec round=0
	while [ -e $dir/go ]; do
		read -r phase < $dir/phase
		[ "$phase" != pause ] || { touch "$dir/idle.$me"; sleep 0.2; continue; }
		rm -f "$dir/idle.$me"
		spec=${reliable[RANDOM % ${#reliable[@]}]}
		[ "$phase" != calm ] || [ $((RANDOM % 3)) != 0 ] || spec=${unreliable[RANDOM % ${#unreliable[@]}]}
		round=$((round + 1))
		if exchange_one "$me" "$phase" $((20000 + 1000 * me + round % 900)) "$spec"; then
			count "$me" done
		elif [ "$phase" = chaos ]; then
			count "$me" cut
		else
			count "$me" fault
			{ echo "failed in phase $phase: $spec"; tail -n 5 "$dir/log.$me.server" "$dir/log.$me.client"; } >> $dir/faults
		fi
	done
}

# Links and clients that come and go beside all that
# ----------------------------------------------------------------------------------------------------------------------

hotplug() {
	local round=0
	while [ -e $dir/go ]; do
		round=$((round + 1))
		rdma link add rxeS type rxe netdev vethS || count hot fault
		case $((round % 3)) in
		0) rdma dev set rxeS name stormy && rdma link del stormy ;;
		1) ip link set vethS down && rdma link del rxeS && ip link set vethS up ;;
		2) rdma link del rxeS ;;
		esac || count hot fault
		count hot hotplug
		if [ $((round % 5)) = 0 ] && [ -n "$client_module" ]; then
			modprobe storm_client && sleep 1 && [ "$(cat /sys/module/storm_client/parameters/faults)" = 0 ] &&
				rmmod storm_client && count hot client || count hot fault
		fi
		sleep 0.3
	done 2>> $dir/faults
}

# Phases
# ----------------------------------------------------------------------------------------------------------------------

all_idle() { [ "$(find $dir -name 'idle.*' | wc -l)" = "$workers" ]; }
# pause: programs end what they do; all of them.
pause() { echo pause > $dir/phase; retry 150 all_idle; }
note_gids() { gid_index A > $dir/gid.A && gid_index B > $dir/gid.B; }

chaos() {
	local end=$((SECONDS + phase_seconds))
	echo chaos > $dir/phase
	while [ $SECONDS -lt $end ]; do
		sleep $((1 + RANDOM % 3))
		case $((RANDOM % 3)) in
		0)
			on A ip link set vethA down
			sleep 0.$((RANDOM % 9))
			on A ip link set vethA up
			on A ip addr replace "$(addr6 A)/64" dev vethA nodad
			count chaos flap
			;;
		1) ! pkill -9 -x "ib_[a-z]*_bw|ibv_.*_pingpon.?" || count chaos kill ;;
		2)
			link_del B || return
			count chaos gone
			link_up B && note_gids || return
			;;
		esac
	done
	pause
}

cycle() {
	rm -f $dir/faults
	local before
	before=$(total fault)
	echo calm > $dir/phase
	sleep "$phase_seconds"
	pause || { echo "somebody hangs after calm"; return 1; }
	netem A loss 1% delay 100us reorder 95% && netem B loss 1% delay 100us reorder 95%
	echo loss > $dir/phase
	sleep "$phase_seconds"
	pause || { echo "somebody hangs after loss"; return 1; }
	netem_off A
	netem_off B
	chaos || { echo "somebody hangs in chaos"; return 1; }
	note_gids || return
	retry 20 no_objects_but_clients || { echo "something is left"; rdma resource show; return 1; }
	[ ! -s $dir/faults ] || cat $dir/faults
	[ "$(total fault)" = "$before" ]
}
no_objects_but_clients() { [ -z "$(rdma resource show ctx 2> /dev/null)" ]; }

# ----------------------------------------------------------------------------------------------------------------------

modinfo storm_client > /dev/null 2>&1 && client_module=yes || client_module=
hosts_up || exit
ip link add vethS type veth peer name vethT
ip link set vethT up
ip link set vethS up
check "it works before" pingpong ibv_rc_pingpong -n 50 -c
note_gids
rm -f $dir/count.*
slab_began=$(slab)
SECONDS=0
echo pause > $dir/phase
touch $dir/go
pids=()
for ((i = 0; i < workers; i++)); do worker $i & pids+=($!); done
hotplug &
pids+=($!)
(
	next=60
	while [ -e $dir/go ]; do
		sleep 1
		[ $SECONDS -lt $next ] || { report; next=$((next + 60)); }
	done
) &
pids+=($!)
for ((n = 1; SECONDS < seconds; n++)); do check "cycle $n" cycle; done
rm $dir/go
wait "${pids[@]}"
report
check_equal "no fault" 0 "$(total fault)"
check "it works afterwards" pingpong ibv_rc_pingpong -n 50 -c
check "nothing is left" retry 20 no_objects
ip link del vethS
hosts_down
check "everything unloads" modules_unload
check "memory was given back (16 MiB)" eval 'echo "$(($(slab) - slab_began)) KiB more"; [ $(($(slab) - slab_began)) -lt 16384 ]'
finish
