# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For test programs that run in the guest: results in KTAP, two hosts with an RDMA link each, faults, leak checks.
#
# A test program is an executable tools/testing/selftests/NAME.sh:
#
#	#!/bin/bash
#	# SPDX-License-Identifier: GPL-2.0
#	# What it proves, in a sentence.
#	# rows: 3.012 4.101        the rows of the feature list that it proves
#	# rows uml: 2.003          those that it proves on this kernel alone
#	# timeout: 60              seconds that it may take (60 where it says nothing)
#	# mix: ib_core             modules that must be ours for it to make sense
#	# mixes: all               runs in all mixes of our modules and stock ones (tools/ferroband/catalogue.py)
#	# kernels: stock debug     where it runs (stock where it says nothing); Documentation/testing.md has the other lines
#	# provokes: KASAN          kinds of complaints that the kernel must make in it
#	# cpus: 2                  processors of the guest (1 where it says nothing): it is about what happens at the same time
#	# guests: 2                runs in two guests, stock on one end and ours on the other (once each way round)
#	. "$(dirname "$0")/lib.sh"
#	hosts_up
#	check "RC ping-pong" pingpong ibv_rc_pingpong
#	finish
#
# There are two hosts, A (10.0.0.1, fd00::1, device rxe0) and B (10.0.0.2, fd00::2, device rxe1), MTU 4200: two network
# namespaces joined by a veth pair or, in tests for two guests, two machines. The helpers hide the difference.
# Whatever a test leaves behind (hosts, faults, background jobs) is removed when it ends.

# Results (Documentation/dev-tools/ktap.rst)
# ----------------------------------------------------------------------------------------------------------------------

_number=0 _passed=0 _failed=0 _skipped=0 _expected=0

_result() { # "ok" or "not ok", name
	_number=$((_number + 1))
	echo "$1 $_number $2"
}

pass() { _passed=$((_passed + 1)); _result ok "$1"; }                           # name
fail() { [ $_failed -gt 0 ] || _state; _failed=$((_failed + 1)); _result 'not ok' "$1"; } # name
skip() { _skipped=$((_skipped + 1)); _result ok "$1 # SKIP ${2:-}"; }           # name, reason
diagnose() { sed 's/^/# /'; }                                                   # reads text, prints it as comments

# The state of the machine, told with the first failure, which may not come again: load, queue pairs, counters, the kernel's last words.
_state() {
	local port
	{
		echo "load $(cut -d' ' -f1-3 /proc/loadavg), up for $(cut -d. -f1 /proc/uptime) s"
		timeout 5 rdma resource show qp | head -n 6
		for port in /sys/class/infiniband/*/ports/*; do
			[ ! -e "$port" ] || echo "${port#/sys/class/infiniband/}: $(grep -Hv '^0$' "$port"/hw_counters/* | sed 's|.*/||' | xargs)"
		done
		dmesg | tail -n 5
	} 2> /dev/null | cut -c 1-200 | diagnose
}

# check NAME COMMAND...: passes when the command does; what it prints is shown as comments.
check() {
	local name=$1 output status=0
	shift
	output=$(_whole "$@" 2>&1) || status=$?
	[ -z "$output" ] || diagnose <<< "$output"
	if [ $status = 0 ]; then pass "$name"; else echo "# exit status $status: $*"; fail "$name"; fi
}

# _whole COMMAND...: in a subshell of its own. A function that ends it by `exit` has left out the rest, whatever its status says. It has
# no input: a list that is read line by line around a check would lose its rest, and the checks of these lines would not be made.
_whole() {
	local status=0
	trap 'echo "it left by exit"; exit 125' EXIT
	"$@" < /dev/null || status=$?
	trap - EXIT
	return $status
}

# known_on_stock NAME COMMAND...: as check, but the stock driver is known to break the specification here and may fail.
known_on_stock() { known_on rdma_rxe "$@"; }

# known_on MODULE NAME COMMAND...: the same of another stock module.
known_on() {
	local _whose=$1
	shift
	if is_ours "$_whose"; then check "$@"; return; fi
	local output
	if output=$(_whole "${@:2}" 2>&1); then
		pass "$1"
	else
		[ -z "$output" ] || diagnose <<< "$output"
		_expected=$((_expected + 1))
		_result ok "$1 # XFAIL a fault of the stock $([ "$_whose" = rdma_rxe ] && echo driver || echo "$_whose")"
	fi
}

# check_fails NAME COMMAND...: passes when the command ends with an error (but not by a signal or a time-out).
check_fails() { check "$1" _fails "${@:2}"; }
_fails() { local status=0; "$@" || status=$?; [ $status != 0 ] && [ $status -lt 124 ]; }

# check_equal NAME WANTED GOT
check_equal() {
	[ "$2" = "$3" ] || printf 'wanted: %s\ngot:    %s\n' "$2" "$3" | diagnose
	if [ "$2" = "$3" ]; then pass "$1"; else fail "$1"; fi
}

# told NAME COMMAND...: makes results of the lines of a program (see verbs.h), and one of its end: its exit status, and the line
# "end|" that it prints when it has tried all that it had to (told.h).
told() {
	local _is_done=
	told_log "$@"
	[ -n "$_is_done" ] || fail "$1 is reached"
}
# told_log NAME COMMAND...: the same of a log, whose end others look for.
told_log() {
	local line kind name why
	while IFS= read -r line; do
		IFS='|' read -r kind name why <<< "$line"
		case $kind in
		pass) pass "$name" ;;
		known) known_on_stock "$name" eval "echo '$why'; false" ;;
		known\ *) known_on "${kind#known }" "$name" eval "echo '$why'; false" ;;
		fail) diagnose <<< "$why"; fail "$name" ;;
		skip) skip "$name" "$why" ;;
		end) _is_done=yes ;;
		status)
			# Where a program was when a signal ended it, as the kernel says it.
			[ "$name" -lt 128 ] || dmesg | grep -a "\[[0-9]*\]: segfault\|traps: \|Code: " | tail -2 | diagnose
			check_equal "$1" 0 "$name"
			;;
		*) diagnose <<< "$line" ;;
		esac
	done < <("${@:2}" 2>&1; echo "status|$?")
}

# to_its_end COMMAND...: the command does well, and the last that it prints is the line of all_done() (told.h).
to_its_end() {
	local output status=0
	output=$("$@") || status=$?
	echo "$output"
	[ $status = 0 ] && [ "${output##*$'\n'}" = 'end|' ]
}

# as_recorded FILE COMMAND...: the command prints what it printed on the stock modules, section by section: a section begins
# with a line "== NAME". With RECORD=yes it is only printed, to be recorded:
# tools/vm run --mix '' 'RECORD=yes /ferroband/selftests/NAME.sh' > tools/testing/selftests/NAME-expected.txt
# RECORD=rdma_rxe records the same with that module of ours, where drivers differ. FILE-7.3.txt has what kernels 7.3 answer, where
# that is something else than FILE.txt, which is of the usual kernel.
as_recorded() {
	local expected got section
	expected=$(of_this_kernel "$1")
	shift
	[ -z "${RECORD:-}" ] || _record "$@"
	got=$(mktemp)
	"$@" > "$got" 2>&1 || echo "exit status $?" >> "$got"
	while IFS= read -r section; do
		check "$section" diff -u --label stock --label here <(_section "$section" "$expected") <(_section "$section" "$got")
	done < <(sed -n 's/^== //p' "$expected" "$got" | sort -u)
	check "the program ends well" eval '! grep -A 20 "^Traceback" "$got" && ! grep "^exit status" "$got"'
}
# What is recorded is stock's, but for a module that is named.
_record() {
	[ "$(ours)" = "${RECORD/#yes/none}" ] || { echo "nothing is recorded: ours are $(ours)" >&2; trap - EXIT; exit 1; }
	"$@"
	trap - EXIT
	exit
}
_section() { awk -v wanted="== $1" '/^== / { on = $0 == wanted } on' "$2"; }

# recorded NAME: the file that has what was recorded with this rdma-core, where it prints or does something else than the usual one.
recorded() { _variant "$(dirname "$0")/$1-expected.txt" "$(dpkg-query -W -f '${Version}' rdma-core | cut -d . -f 1)"; }
# of_this_kernel FILE: the same for the kernel.
of_this_kernel() { _variant "$1" "$(uname -r | cut -d . -f 1-2)"; }
# _variant FILE.txt VERSION: FILE-VERSION.txt if it is there.
_variant() {
	local file=${1%.txt}-$2.txt
	[ -e "$file" ] && echo "$file" || echo "$1"
}

# finish: the plan and the totals; ends the program.
finish() {
	_all_found
	echo "1..$_number"
	echo "# Totals: pass:$_passed fail:$_failed xfail:$_expected xpass:0 skip:$_skipped error:0"
	_finished=yes
	[ $_failed = 0 ]
	exit
}

# A name that is no command is not a failure of bash's, wherever it stands; a check of this name would just not be made.
_missing=${TMPDIR:-/tmp}/ferroband-missing.$$
command_not_found_handle() {
	echo "$1: command not found" >&2
	echo "$1" >> "$_missing"
	return 127
}
_all_found() {
	local name
	[ -s "$_missing" ] || return 0
	while read -r name; do fail "$name is a command"; done < "$_missing"
	: > "$_missing"
}

# skip_all REASON: the whole program cannot run here.
skip_all() {
	echo "1..0 # SKIP $1"
	_finished=yes
	exit 4
}

# Attacks
# ----------------------------------------------------------------------------------------------------------------------

# together COMMAND...: all threads of a program on one processor in User Mode Linux, which tells no other processor when memory is
# mapped anew: a thread that maps and unmaps would go on with the old pages where it comes to next.
together() { if grep -q 'User Mode Linux' /proc/cpuinfo; then taskset -c 0 "$@"; else "$@"; fi; }

# without_xrc: what ibv_devinfo prints, without what only our driver has: the flag of XRC, and what of it may be paged on demand.
without_xrc() {
	our_driver || { cat; return; }
	sed -E '/^\s*XRC$/d; s/(device_cap_flags:\s*0x01)3/\12/; s/(device_cap_flags_ex:\s*0x1C001)3/\12/' |
		awk 'on && /SUPPORT_|Unknown flags/ { next } { on = /xrc_odp_caps:/; print } on { print "\t\t\t\t\tNO SUPPORT" }'
}

# fuzz_count FEW [MANY]: how many calls a fuzzer makes: COUNT, or many (40,000) where nothing is emulated, or the few.
fuzz_count() { echo "${COUNT:-$(grep -q 'User Mode Linux' /proc/cpuinfo && echo "${2:-40000}" || echo "$1")}"; }

# after_attack: the device works, nothing is left of who attacked, the modules can go; ends the program.
after_attack() {
	check "the device works" pingpong ibv_rc_pingpong -n 50 -c
	check "datagrams too" pingpong ibv_ud_pingpong -n 50 -c
	check "nothing is left" retry 10 no_objects
	hosts_down
	check "the module is not in use" retry 10 not_used rdma_rxe
	check "the kernel is well" eval '! said_since_boot | grep -E "BUG:|WARNING:|Oops|general protection"'
	finish
}

# Small things
# ----------------------------------------------------------------------------------------------------------------------

# A kernel that watches its locks, or its memory in User Mode Linux, needs so many times longer for everything.
kernel_slowness=1
[ ! -e /proc/lockdep_stats ] || kernel_slowness=10
! grep -q 'User Mode Linux' /proc/cpuinfo || kernel_slowness=5
# So many times longer are all time limits, that of `timeout` (slow/timeout) too: PACE is how slow the machine is besides.
export SLOWNESS=$((kernel_slowness * ${PACE:-1}))
if [ $SLOWNESS != 1 ]; then
	PATH=$(dirname "${BASH_SOURCE[0]}")/slow:$PATH
	# When the kernel complains that a net device that goes is still in use.
	echo $((10 * SLOWNESS)) > /proc/sys/net/core/netdev_unregister_timeout_secs
fi

# What the kernel has said since its boot: during a boot User Mode Linux with lockdep reports itself.
said_since_boot() { dmesg | tac | sed '/guest-init: the system is up/q' | tac; }

# rounds N: how often to do what would be done N times on the stock kernel.
rounds() { echo $(($1 > kernel_slowness ? $1 / kernel_slowness : 1)); }

# retry SECONDS COMMAND...: until it succeeds, at most that long (on the stock kernel and an idle machine).
retry() {
	local end=$((SECONDS + $1 * SLOWNESS))
	shift
	until "$@" > /dev/null 2>&1; do
		[ $SECONDS -lt $end ] || { "$@"; return; }
		sleep 0.1
	done
}

# Hosts
# ----------------------------------------------------------------------------------------------------------------------

dev() { [ "$1" = A ] && echo rxe0 || echo rxe1; }              # host: its RDMA device
netdev() { [ -n "${FERROBAND_HOST:-}" ] && echo eth0 || echo "veth$1"; }  # host: its network device
addr() { [ "$1" = A ] && echo 10.0.0.1 || echo 10.0.0.2; }     # host
addr6() { [ "$1" = A ] && echo fd00::1 || echo fd00::2; }      # host
peer() { [ "$1" = A ] && echo B || echo A; }                   # host: the other one

# on HOST COMMAND...: runs a program (no shell function) on a host.
on() { (on_exec "$@"); }

# on_exec HOST COMMAND...: the same in place of this shell. `on_exec HOST COMMAND... &` makes $! the program itself, so
# that it can be killed.
on_exec() {
	local host=$1
	shift
	case ${FERROBAND_HOST:-} in
	'') exec ip netns exec "$host" "$@" ;;
	"$host") exec "$@" ;;
	*) exec /ferroband/selftests/remote.py run "$@" ;;
	esac
}

# modules_load [NAME...]: the driver and what user space needs of it, or the named ones.
modules_load() {
	[ $# = 0 ] || { _both modprobe -a "$@"; return; }
	_both modprobe -a rdma_rxe ib_uverbs rdma_ucm
}

# modules_unload: everything of RDMA that is loaded, in an order that works; fails when something still holds one.
modules_unload() {
	_both modprobe -ra rdma_ucm rdma_rxe ib_umad ib_uverbs rdma_cm iw_cm ib_cm 2> /dev/null
	_both modprobe -ra ib_uverbs_support ib_core && return
	grep -E '^(ib|iw|rdma)_' /proc/modules
	# An open socket of RDMA's netlink (20) holds ib_core: the third column is the process.
	awk 'NR == 1 || $2 == 20' /proc/net/netlink
	return 1
}

# our_driver: the rdma_rxe that modprobe takes is ours.
our_driver() { is_ours rdma_rxe; }

# is_ours MODULE: the one that modprobe takes is ours.
is_ours() { modinfo -F filename "$1" | grep -q /updates/; }

# ours: the modules that modprobe takes from us, or "none".
ours() {
	local names
	names=$(cd "/lib/modules/$(uname -r)/updates" 2> /dev/null && find . -name '*.ko' | sed 's|./||; s|\.ko$||' |
		while read -r name; do [ -z "$(find ../kernel -name "$name.ko")" ] || echo "$name"; done | sort | xargs)
	echo "${names:-none}"
}

# On the one machine that there is, or on both.
_both() {
	if [ -z "${FERROBAND_HOST:-}" ]; then "$@"; else on A "$@" && on B "$@"; fi
}

# net_up [MTU]: the two hosts with addresses, without RDMA.
net_up() {
	[ -n "${FERROBAND_HOST:-}" ] || { ip netns add A && ip netns add B; } || return
	netdevs_up "$@"
}

# netdevs_up [MTU]: their network devices, and the addresses of these.
netdevs_up() {
	local mtu=${1:-4200} host
	[ -n "${FERROBAND_HOST:-}" ] || ip link add vethA netns A type veth peer name vethB netns B || return
	for host in A B; do
		on $host ip link set lo up
		on $host ip link set "$(netdev $host)" mtu "$mtu" up || return
		on $host ip addr replace "$(addr $host)/24" dev "$(netdev $host)"
		on $host ip addr replace "$(addr6 $host)/64" dev "$(netdev $host)" nodad
	done
	_net_is_up=yes
	# So that the neighbours know each other: the kernel gives modify_qp one second to find the peer's MAC address, which
	# the first solicitation of an IPv6 interface may not be answered in.
	retry 10 on A ping -q -c 1 -W 1 "$(addr B)" && retry 20 on A ping -q -c 1 -W 1 "$(addr6 B)" &&
		retry 20 on B ping -q -c 1 -W 1 "$(addr6 A)"
}

net_down() {
	[ -n "${_net_is_up:-}" ] || return 0
	_net_is_up=
	[ -n "${FERROBAND_HOST:-}" ] || { ip netns del A; ip netns del B; }
}

# link_up HOST, link_down HOST: its rxe link. Up means that the GIDs of its addresses are there.
link_up() {
	_forget_gids "$1"
	on "$1" rdma link add "$(dev "$1")" type rxe netdev "$(netdev "$1")" || return
	on "$1" rdma resource show "$(dev "$1")" > "/run/ferroband-objects-$1"
	retry 5 gid_index "$1" > /dev/null && retry 5 gid_index "$1" 6 > /dev/null
}
link_down() { _forget_gids "$1"; on "$1" rdma link del "$(dev "$1")"; }

# hosts_up [MTU]: modules, network and a link on each host.
hosts_up() { modules_load && net_up "${1:-4200}" && link_up A && link_up B; }

# One host with two ends of a wire, left and right, that have addresses and no RDMA: for what runs in the kernel.
wire_up() {
	ip link add left type veth peer name right
	ip addr add 10.1.0.1/24 dev left
	ip addr add 10.1.0.2/24 dev right
	ip link set left up
	ip link set right up
}

# What a module says, from a mark on. The log itself stays whole: others look for warnings in it.
mark() { echo "$1: mark" > /dev/kmsg; }                         # module
since_mark() { # module
	dmesg | sed -n "s/.*$1: //p" | awk '/^mark$/ { said = ""; next } { said = said $0 "\n" } END { printf "%s", said }'
}

# hosts_down: the links and the network go; the modules stay.
hosts_down() {
	local host
	for host in A B; do
		on $host test ! -e "/sys/class/infiniband/$(dev $host)" || link_down $host
	done 2> /dev/null
	net_down
}

# gid_index HOST [4|6]: index of the GID that stands for its IPv4 (or IPv6) address.
gid_index() {
	on "$1" bash -c '
		cd "/sys/class/infiniband/$1/ports/1" || exit
		for i in {0..31}; do
			read -r gid 2> /dev/null < "gids/$i" && read -r type 2> /dev/null < "gid_attrs/types/$i" || continue
			[ "$gid $type" != "$2 RoCE v2" ] || { echo "$i"; exit; }
		done
		exit 1' gid_index "$(dev "$1")" "$(_gid "$1" "${2:-4}")"
}
_gid() {
	local last
	last=$([ "$1" = A ] && echo 1 || echo 2)
	case $2 in
	4) echo "0000:0000:0000:0000:0000:ffff:0a00:000$last" ;;
	6) echo "fd00:0000:0000:0000:0000:0000:0000:000$last" ;;
	esac
}

# Traffic
# ----------------------------------------------------------------------------------------------------------------------

# _gid_of HOST 4|6: as gid_index, but it is looked for once: each program that the guest starts takes its time.
_gid_of() {
	local known=/run/ferroband-gid-$1-$2
	[ -s "$known" ] || gid_index "$1" "$2" > "$known" || return
	echo "$(< "$known")"
}
_forget_gids() { : > "/run/ferroband-gid-$1-4" > "/run/ferroband-gid-$1-6"; }

# pingpong PROGRAM [OPTION...]: an ibv_*_pingpong, server on A, client on B; V=6 uses the IPv6 GIDs, LIMIT is its time
# in seconds (30), LOOPBACK=yes keeps both ends on A. Wrong data (which -c finds, but only tells) is a failure.
pingpong() {
	local program=$1 client=B server_pid status=0 v=${V:-4} log=/run/pingpong options
	shift
	_fewer "$@"
	set -- "${options[@]}"
	[ -z "${LOOPBACK:-}" ] || client=A
	on_exec A timeout "${LIMIT:-30}" "$program" -d "$(dev A)" -g "$(_gid_of A "$v")" "$@" > $log.server 2>&1 &
	server_pid=$!
	if _listens A 18515; then
		on $client timeout "${LIMIT:-30}" "$program" -d "$(dev $client)" -g "$(_gid_of $client "$v")" "$@" "$(addr A)" \
			> $log.client 2>&1 || status=$?
	else
		kill $server_pid
		: > $log.client
	fi
	wait $server_pid || status=$?
	cat $log.server $log.client
	! grep -q 'invalid data' $log.server $log.client || return 1
	return $status
}

# _fewer OPTION...: sets `options`, for a slow kernel with fewer iterations than -n says.
_fewer() {
	local i
	options=("$@")
	[ $kernel_slowness -gt 1 ] || return 0
	for ((i = 0; i + 1 < $#; i++)); do
		[ "${options[i]}" != -n ] || [ "${options[i + 1]}" -le 50 ] || options[i + 1]=$((options[i + 1] / kernel_slowness + 5))
	done
}

# exchange PROGRAM [OPTION...]: a ping-pong of which one side may fail at its very end: nobody acknowledges its last message,
# for the other program has ended. The acknowledgement was lost; or it was never sent, for the stock driver completes a message
# before it acknowledges it. That is how these programs end and no fault of the transport.
exchange() {
	pingpong "$@" || { _ended_well server A || _ended_well client B; } && ! grep -q 'invalid data' /run/pingpong.*
}
# _ended_well SIDE HOST: this one has all iterations, and the other one lacks its last acknowledgement alone.
_ended_well() {
	local other=/run/pingpong.client
	[ "$1" = server ] || other=/run/pingpong.server
	grep -q 'iters in' "/run/pingpong.$1" && grep -q 'retry counter exceeded' $other && { [ -n "${_lossy:-}" ] || _is_stock_on "$2"; }
}
_is_stock_on() { ! on "$1" modinfo -F filename rdma_rxe | grep -q /updates/; }

# perftest PROGRAM [OPTION...]: an ib_*_bw or ib_*_lat, as pingpong.
perftest() {
	local program=$1 client=B server_pid status=0 v=${V:-4} options
	shift
	_fewer "$@"
	set -- "${options[@]}"
	[ -z "${LOOPBACK:-}" ] || client=A
	on_exec A timeout "${LIMIT:-60}" "$program" -F -d "$(dev A)" -x "$(_gid_of A "$v")" "$@" > /dev/null &
	server_pid=$!
	_listens A 18515 || { kill $server_pid; return 1; }
	on $client timeout "${LIMIT:-60}" "$program" -F -d "$(dev $client)" -x "$(_gid_of $client "$v")" "$@" "$(addr A)" || status=$?
	wait $server_pid || status=$?
	return $status
}

# cm_listens HOST: waits until a program of librdmacm listens there. An identifier is in this state a moment before its service is
# known; a client that connects before that is rejected.
cm_listens() {
	retry 5 on "$1" bash -c 'rdma resource show cm_id | grep -q LISTEN' 2> /dev/null
	sleep 1
}

# rdma_pair SERVER -- CLIENT: two commands of librdmacm; the client starts once the server listens.
rdma_pair() { _rdma_pair : "$@"; }

# rdma_pair_lossy SERVER -- CLIENT: the same over a network that loses packets. The client alone is asked how it went: a program that
# ends asks once for the end of its connection, and where that is lost, the server waits for ever.
rdma_pair_lossy() { _rdma_pair kill "$@"; }

_rdma_pair() { # what is done to the server once the client has ended, SERVER -- CLIENT
	local end=$1 server=() server_pid status=0
	shift
	while [ "$1" != -- ]; do server+=("$1"); shift; done
	shift
	on_exec A timeout "${LIMIT:-30}" "${server[@]}" > /run/pair.server 2>&1 &
	server_pid=$!
	cm_listens A
	on "$([ -n "${LOOPBACK:-}" ] && echo A || echo B)" timeout "${LIMIT:-30}" "$@" > /run/pair.client 2>&1 || status=$?
	! closed_early client /run/pair.client || status=0
	$end $server_pid 2> /dev/null
	wait $server_pid || [ "$end" = kill ] || closed_early server /run/pair.server || status=$?
	cat /run/pair.server /run/pair.client
	return $status
}

# closed_early client|server LOG: what an rping said that failed: it closed its event channel while a thread of its own went on to read
# it, which ends the process. It closes it when its connection has ended and all pings are done, and says what went wrong before.
closed_early() {
	grep -q '^rdma_get_cm_event: Bad file descriptor' "$2" && grep -q "^$1 DISCONNECT EVENT" "$2" &&
		! grep -v '^wait for RDMA_READ_ADV state 10' "$2" | grep -qiE 'mismatch|failed|error|wait for'
}

# pings HOST [OPTION...]: a client rping that validates, on that host; without hosts ("") here.
pings() {
	local host=$1 status=0
	shift
	${host:+on "$host"} timeout "${LIMIT:-30}" rping -c -V "$@" > /run/pings 2>&1 || status=$?
	! closed_early client /run/pings || status=0
	cat /run/pings
	return $status
}

# A TCP port of a host is listened on (state 0A; one grep is much quicker than an ss).
_listens() { retry 10 on "$1" grep -q "$(printf '^ *[0-9]*: [0-9A-F]*:%04X [0-9A-F]*:0000 0A' "$2")" /proc/net/tcp /proc/net/tcp6; }

# Faults
# ----------------------------------------------------------------------------------------------------------------------

# netem HOST RULE...: what leaves the host suffers, for example `netem B loss 1% delay 1ms reorder 25%`.
netem() { local host=$1; shift; _lossy=yes; on "$host" tc qdisc replace dev "$(netdev "$host")" root netem limit 10000 "$@"; }
netem_off() { _lossy=; on "$1" tc qdisc del dev "$(netdev "$1")" root 2> /dev/null; }    # host

# Leaks
# ----------------------------------------------------------------------------------------------------------------------

# no_objects: user programs' objects are all gone. A device has no more of any kind than right after link_up, the kernel's own GSI
# and clients; one that link_up has not made, no more than a GSI: a PD, a CQ and a QP.
no_objects() { # prints what is left
	local shown
	shown=$(_both rdma resource show) && grep -q . <<< "$shown" || { echo "no device is shown"; return 1; }
	cat /run/ferroband-objects-[AB] 2> /dev/null > /run/ferroband-objects
	! awk '{
		for (i = 3; i < NF; i += 2)
			if (before) { known[$2]; most[$2, $i] = $(i + 1) }
			else if ($(i + 1) > ($2 in known ? most[$2, $i] : $i ~ /^(pd|cq|qp)$/)) { print; next }
	}' before=1 /run/ferroband-objects before=0 - <<< "$shown" | grep .
}

# sends HOST: its device sends packets, now.
sends() { local before; before=$(_sent_packets "$1") && sleep 0.5 && [ "$(_sent_packets "$1")" -gt "$before" ]; }
# A network namespace's own picture of a device has no such counters.
_sent_packets() { ${FERROBAND_HOST:+on "$1"} cat "/sys/class/infiniband/$(dev "$1")/ports/1/hw_counters/sent_pkts"; }

# killed_by_us PID: a process in the background that was sent SIGKILL ran until then.
killed_by_us() {
	local status=0
	wait "$1" 2> /dev/null || status=$?
	[ $status = 137 ] || { echo "process $1 ended before: status $status"; return 1; }
}

# not_used MODULE: it is loaded and nothing holds it.
not_used() { awk -v m="$1" '$1 == m { found = 1; if ($3 != 0) { print; exit 1 } } END { exit !found }' /proc/modules; }

# Two machines
# ----------------------------------------------------------------------------------------------------------------------

# machine_up HOST: called once by the guest's init. eth0 is the network under test, eth1 carries `on`.
machine_up() {
	modprobe virtio_net
	retry 10 test -e /sys/class/net/eth1
	ip addr add "192.168.77.$([ "$1" = A ] && echo 1 || echo 2)/24" dev eth1
	ip link set eth1 up
	setsid /ferroband/selftests/remote.py serve < /dev/null > /run/remote.log 2>&1 &
}

# ----------------------------------------------------------------------------------------------------------------------

_clean_up() {
	local status=$? jobs
	jobs=$(jobs -p)
	# shellcheck disable=SC2086 # a list
	[ -z "$jobs" ] || kill $jobs 2> /dev/null
	wait
	hosts_down
	[ -n "${_finished:-}" ] || { echo "not ok $((_number + 1)) the program ended early, with status $status"; exit 1; }
}
_start() { # for test programs; others only use the functions
	[ -n "${RECORD:-}" ] || echo 'KTAP version 1'
	[ ! -e "$_missing" ] || : > "$_missing"
	trap _clean_up EXIT
	trap 'exit 143' TERM
}
case $0 in
*/selftests/*.sh) _start ;;
esac
