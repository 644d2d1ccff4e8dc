# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# What the files of tools/bench share, which run in the guest: the same runs on several mixes of modules, in turn, in one boot.
#
# Prints lines "MIX<tab>MEASURE<tab>VALUE"; tools/bench sets ROUNDS, SCALE and MIXES before.
. /ferroband/selftests/lib.sh

modules=/lib/modules/$(uname -r)
ours="$modules/updates"

# file NAME MIX: the module that is to be loaded, ours or the stock one. A module that replaces none is always ours.
file() {
	local stock
	stock=$(find "$modules/kernel" -name "$1.ko*")
	case "|${2//+/|}|" in
	*"|$1|"*) echo "$ours/$1.ko" ;;
	*) echo "${stock:-$ours/$1.ko}" ;;
	esac
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

measure() { printf '%s\t%s\t%s\n' "$mix" "$1" "$2"; } # NAME VALUE

# rounds NAME...: `one_round` on each mix of these modules, as often as is wanted.
rounds() {
	local names=("$@") last=() name
	for name in "${names[@]}"; do last=("$name" "${last[@]}"); done
	modprobe -a veth 2> /dev/null
	net_up || return
	for ((round = 0; round < ROUNDS; round++)); do
		for mix in $MIXES; do
			load "$mix" "${names[@]}" || return
			one_round
			link_down A
			link_down B
			rmmod "${last[@]}" || return
		done
	done
}
