#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Programs that connect and disconnect without end, both ways between two hosts. On the way they are killed and stopped, network devices
# flap and go, RDMA devices are unplugged, and network namespaces end under them. What may go on does; all others end by themselves, no
# connection hangs, nothing is left.
# kernels: uml
# kernels long: stock
# timeout: 240
# long: 7200 CONNECTIONS=10000 ROUNDS=140
# cpus: 2
. "$(dirname "$0")/lib.sh"

kinds=(server_dies client_dies deaf flap unplug netdev_goes namespace_ends)
rounds=${ROUNDS:-${#kinds[@]}}
wanted=${CONNECTIONS:-280}
program=$(dirname "$0")/cm_churn log=/run/cm_churn counters=/run/cm_churn.counters
# The longest that a connection may wait for its next event (seconds): the connection manager asks again after 4 s, and 15 times.
limit=$((120 * ${PACE:-1}))

# What all programs together have counted up to now.
counted() { read -r asked connected ended refused failed removed <<< "$(od -A n -t u8 -w48 -v $counters)"; }
# so_many_more N: connections, from now on.
so_many_more() { "$program" wait "$1" $counters $limit; }
# as_many_as N: connections from the beginning on, and a few of them now.
as_many_as() {
	counted
	so_many_more $(($1 - connected > 5 ? $1 - connected : 5))
}
gone() { [ ! -e "/sys/class/infiniband/$1" ]; }
# A moment, at which anything may be under way.
moment() { sleep "0.$((RANDOM % 9))"; }

# start HOST ROLE ADDRESS: its process is pid_of[ROLE-HOST]; it is on its way, and knows what to do when it is told to end.
declare -A pid_of
start() {
	: > "$log.$2-$1"
	on_exec "$1" "$program" "$2" "$3" $counters $limit > "$log.$2-$1" 2>&1 &
	pid_of[$2-$1]=$!
	retry 30 has_begun "$2-$1" && ! ended "$2-$1" || { echo "$2-$1 does not begin: $(< "$log.$2-$1")"; return 1; }
}
has_begun() { local line; read -r line < "$log.$1" || ended "$1"; }
ended() { ! kill -0 "${pid_of[$1]}" 2> /dev/null; }
serves() { start "$1" serve "$2"; }
asks() { start "$1" ask "$(addr "$(peer "$1")")"; }
# dies ROLE-HOST: by us, and has run until then.
dies() {
	local status=0
	kill -9 "${pid_of[$1]}" 2> /dev/null
	wait "${pid_of[$1]}" 2> /dev/null || status=$?
	unset "pid_of[$1]"
	[ $status = 137 ] || { echo "$1 ended before, with $status: $(< "$log.$1")"; return 1; }
}
# It ends by itself. A program that the guest starts costs more than what is tested.
ends() {
	local status=0
	timeout $(((limit + 60) / SLOWNESS)) tail -f -s 0.1 --pid="${pid_of[$1]}" /dev/null
	ended "$1" || { echo "$1 does not end"; cat "/proc/${pid_of[$1]}/stack" 2> /dev/null; return 1; }
	wait "${pid_of[$1]}" || status=$?
	unset "pid_of[$1]"
	[ $status = 0 ] && [ "$(tail -n 1 "$log.$1")" = 'end|' ] || { echo "$1 ended with $status: $(< "$log.$1")"; return 1; }
}
all_begin() { serves A "$(addr A)" && serves B 0.0.0.0 && asks A && asks B; }
# Those who ask first: then all connections of the servers end.
all_end() {
	local role each
	for role in ask serve; do
		for each in "${!pid_of[@]}"; do [[ $each != "$role"-* ]] || kill "${pid_of[$each]}" 2> /dev/null; done
		for each in "${!pid_of[@]}"; do [[ $each != "$role"-* ]] || ends "$each" || return; done
	done
}
all_die() {
	local each status=0
	[ ${#pid_of[@]} = 0 ] || kill -9 "${pid_of[@]}"
	for each in "${!pid_of[@]}"; do dies "$each" || status=1; done
	return $status
}

server_dies() { dies serve-A && moment && serves A "$(addr A)" && so_many_more 5 && all_end; }
client_dies() { dies ask-B && moment && asks B && so_many_more 5 && all_end; }
# The requests that a server has not taken go with it.
deaf() {
	kill -STOP "${pid_of[serve-A]}" "${pid_of[serve-B]}"
	moment
	dies ask-B && moment && dies serve-A || return
	kill -CONT "${pid_of[serve-B]}"
	so_many_more 5 && all_end
}
# They go on when the network is back.
flap() {
	local host
	for host in A B; do
		on $host ip link set "$(netdev $host)" down
		moment
		on $host ip link set "$(netdev $host)" up
		on $host ip addr replace "$(addr6 $host)/64" dev "$(netdev $host)" nodad
		moment
	done
	so_many_more 5 && all_end
}
# A server that is bound to the device ends at once; all others can, once there is a network to ask their peers.
unplug() {
	timeout 60 ip netns exec A rdma link del rxe0 && ends serve-A && link_up A && all_end
}
links_gone() { retry 30 gone rxe0 && retry 30 gone rxe1 || { echo "a link is left"; return 1; }; }
netdev_goes() {
	on A ip link del "$(netdev A)"
	links_gone && ends serve-A && netdevs_up && link_up A && link_up B && all_end
}
# It ends with its last program.
namespace_ends() {
	net_down
	moment
	((RANDOM % 2)) || all_end || return
	all_die && links_gone && net_up && link_up A && link_up B
}

churn() { # from, to
	local i kind at=
	for ((i = $1; i < $2; i++)); do
		kind=${kinds[i % ${#kinds[@]}]} at+=" $SECONDS"
		all_begin && as_many_as $((wanted * (i + 1) / rounds)) && moment && $kind && continue
		echo "round $i, $kind"
		all_die
		return 1
	done
	counted
	echo "$i rounds: $asked asked, $connected connected, $ended ended well, $refused refused, $failed failed, $removed removed; they began at$at s"
}

ours_shown() { rdma resource show "$1" | grep cm_churn; }
nothing_shown() {
	local kind
	for kind in cm_id qp cq mr pd; do ! ours_shown $kind || return; done
	[ -z "$(rdma resource show cm_id)" ]
}
works() { rdma_pair rping -s -a "$(addr A)" -V -C 5 -- rping -c -a "$(addr A)" -V -C 5; }

head -c 48 /dev/zero > $counters
hosts_up || exit
for ((from = 0; from < rounds; from += ${#kinds[@]})); do
	churn $from $((from + ${#kinds[@]})) > $log 2>&1 && result=pass || result=fail
	diagnose < $log
	$result "rounds $from to $((from + ${#kinds[@]} - 1))"
	[ $result = pass ] || break
done
counted
check "$wanted connections were made" [ "$connected" -ge "$wanted" ]
check "most that were asked for" [ $((connected * 2)) -gt "$asked" ]
check "most of them ended by the word of both ends" [ $((ended * 2)) -gt "$connected" ]
check "devices went under connections" [ "$removed" -ge $((2 * rounds / ${#kinds[@]})) ]
check "connections work" works
check "nothing of the programs is shown" retry 30 nothing_shown
check "nothing is left" retry 30 no_objects
hosts_down
check "the modules go" retry 20 modules_unload
finish
