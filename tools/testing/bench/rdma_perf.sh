# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# What tools/bench runs in the guest: the same runs of rdma_perf on several mixes of modules, in turn, in one boot.
#
# Prints lines "MIX<tab>MEASURE<tab>VALUE"; tools/bench sets ROUNDS, SCALE and MIXES before.
. /ferroband/selftests/lib.sh

modules=/lib/modules/$(uname -r)
files=/sys/kernel/debug/rdma_perf
ours="$modules/updates"

# file NAME MIX: the module that is to be loaded, ours or the stock one.
file() {
	case "|${2//+/|}|rdma_perf|" in
	*"|$1|"*) echo "$ours/$1.ko" ;;
	*) find "$modules/kernel" -name "$1.ko*" ;;
	esac
}

# load MIX: our modules of the mix, stock ones for the rest, and a link on each host.
load() {
	local name path dependency
	for name in ib_core rdma_rxe rdma_perf; do
		path=$(file "$name" "$1")
		for dependency in $(modinfo -F depends "$path" | tr , ' '); do
			grep -q "^$dependency " /proc/modules || modprobe "$dependency" || return
		done
		insmod "$path" || return
	done
	link_up A && link_up B
}

unload() { link_down A; link_down B; rmmod rdma_perf rdma_rxe ib_core; }

# perf WORDS: a run from one host to the other one.
perf() { echo "client=rxe0 server=rxe1 client_gid=$(gid_index A) server_gid=$(gid_index B) mtu=4096 $*" > $files/run; }
value() { sed -n "s/^$1=//p" $files/result; }
measure() { printf '%s\t%s\t%s\n' "$mix" "$1" "$2"; } # NAME VALUE
per_operation() { measure "$1" $(($(value nanoseconds) / $(value operations))); }
less_clock() { measure "$1" $(($(value "$2") - $(value clock_ns))); }

one_round() {
	perf "op=send size=64 depth=32 iterations=$((2000 * SCALE)) post=handler" && per_operation "send 64 B"
	perf "op=write size=4096 depth=32 iterations=$((1000 * SCALE)) post=handler" && per_operation "write 4 KiB"
	perf "op=read size=65536 depth=8 iterations=$((50 * SCALE)) post=handler" && per_operation "read 64 KiB"
	perf "pattern=pingpong size=64 iterations=$((500 * SCALE)) post=handler" && measure "ping-pong 64 B" "$(value latency_ns_median)"
	perf "op=send size=64 depth=32 iterations=$((1000 * SCALE)) post=interrupt" && less_clock "post_send" post_send_ns_median
	perf "op=send size=64 depth=32 iterations=$((1000 * SCALE)) post=locked poll=direct" && less_clock "poll_cq" poll_cq_ns_median
}

modprobe -a veth 2> /dev/null
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
net_up || exit
for ((round = 0; round < ROUNDS; round++)); do
	for mix in $MIXES; do
		load "$mix" || exit
		one_round
		unload || exit
	done
done
