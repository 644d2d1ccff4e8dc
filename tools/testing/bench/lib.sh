# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# What the files of tools/testing/bench share, which run in the guest: the same runs on several mixes of modules, in turn, in
# one boot.
#
# A run is a file NAME.sh with the function `round_NAME`, which measures once, and with `needs_NAME`, the modules that it wants.
# tools/bench sets ROUNDS, SCALE, MIXES and LIMIT before this file, and puts `rounds NAME...` after the runs. Printed are lines
# "MIX<tab>NAME<tab>MEASURE<tab>UNIT<tab>VALUE", and "round<tab>NUMBER<tab>MIX" where one begins.
. /ferroband/selftests/lib.sh

modules=/lib/modules/$(uname -r)
ours="$modules/updates"
# What modules need comes before them.
order="ib_core ib_uverbs_support ib_uverbs ib_cm iw_cm rdma_cm rdma_ucm rdma_rxe rdma_perf"

# file NAME MIX: the module that is to be loaded, ours or the stock one. A module that replaces none is always ours, and one that
# we have none for is always stock.
file() {
	local stock
	stock=$(find "$modules/kernel" -name "$1.ko*")
	case "|${2//+/|}|" in
	*"|$1|"* | "|all|") [ ! -e "$ours/$1.ko" ] || stock= ;;
	esac
	echo "${stock:-$ours/$1.ko}"
}

# load MIX NAME...: our modules of the mix, stock ones for the rest, and a link on each host.
load() {
	local mix=$1 name path dependency
	shift
	for name; do
		path=$(file "$name" "$mix")
		for dependency in $(modinfo -F depends "$path" | tr , ' '); do
			grep -q "^$dependency " /proc/modules || modprobe "$dependency" || return
		done
		insmod "$path" || return
	done
	link_up A && link_up B
}

# unload NAME...: in the order of loading.
unload() {
	local last=() name
	for name; do last=("$name" "${last[@]}"); done
	link_down A
	link_down B
	rmmod "${last[@]}"
}

# driver_again [PARAMETER=VALUE]: the driver of this mix is unloaded and loaded with a parameter, if it has that; and the links.
driver_again() {
	local path parameter=${1:-}
	path=$(file rdma_rxe "$mix")
	modinfo -F parm "$path" | grep -q "^${parameter%=*}:" || parameter=
	link_down A
	link_down B
	# shellcheck disable=SC2086 # none, or one
	rmmod rdma_rxe && insmod "$path" $parameter && link_up A && link_up B
}

# measure NAME VALUE [UNIT]: without a unit it is time, or the number of instructions where these are counted.
measure() { printf '%s\t%s\t%s\t%s\t%s\n' "$mix" "$run" "$1" "${3:-}" "$2"; }

# failed NAME WHY [UNIT]: in place of `measure`.
failed() { measure "$1" "failed: $(echo "$2" | tr '\t\n' '  ' | tail -c 200)" "${3:-}"; }

# needed NAME...: the modules that these runs want, in the order of loading.
needed() {
	local name needs wanted=
	for name; do
		needs=needs_$name
		wanted+=" ${!needs} "
	done
	for name in $order; do
		case $wanted in *" $name "*) echo "$name" ;; esac
	done
}

# time_is_up ROUND: this one would not end within LIMIT seconds, if it took as long as those before it. The first is always made.
time_is_up() { [ "$1" -gt 1 ] && [ -n "$LIMIT" ] && [ $((SECONDS * $1 / ($1 - 1))) -gt "$LIMIT" ]; }

# rounds RUN...: these on each mix, as often as is wanted.
rounds() {
	local names round mix run
	mapfile -t names < <(needed "$@")
	modprobe -a veth 2> /dev/null
	mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
	net_up || return
	SECONDS=0
	for ((round = 1; round <= ROUNDS; round++)); do
		! time_is_up "$round" || return 0
		for mix in $MIXES; do
			printf 'round\t%s\t%s\n' "$round" "$mix"
			load "$mix" "${names[@]}" || return
			for run; do "round_$run"; done
			unload "${names[@]}" || return
		done
	done
}
