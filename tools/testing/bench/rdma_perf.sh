# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Runs of rdma_perf, on one device and from one host to the other one.

# shellcheck disable=SC2034 # lib.sh reads it
needs_rdma_perf="ib_core rdma_rxe rdma_perf"

perf_files=/sys/kernel/debug/rdma_perf

perf_value() { sed -n "s/^$1=//p" $perf_files/result; }
per_operation() { echo $(($(perf_value nanoseconds) / $(perf_value operations))); }
median() { perf_value latency_ns_median; }
less_clock() { echo $(($(perf_value "$1") - $(perf_value clock_ns))); }

# perf NAME "WORDS" FUNCTION...: a run, and the function that reads what it measured.
perf() {
	local name="kernel: $1, $place" said
	if said=$( (echo "$ends mtu=4096 $2" > $perf_files/run) 2>&1); then
		measure "$name" "$("${@:3}")"
	else
		failed "$name" "$said"
	fi
}

# perf_between PLACE SERVER
perf_between() {
	local place=$1 ends
	ends="client=rxe0 client_gid=$(gid_index A) server=$(dev "$2") server_gid=$(gid_index "$2")"
	perf "send 64 B, 32 under way" "op=send size=64 depth=32 iterations=$((2000 * SCALE)) post=handler" per_operation
	perf "write 4 KiB, 32 under way" "op=write size=4096 depth=32 iterations=$((1000 * SCALE)) post=handler" per_operation
	perf "read 64 KiB, 8 under way" "op=read size=65536 depth=8 iterations=$((50 * SCALE)) post=handler" per_operation
	perf "ping-pong 64 B" "pattern=pingpong size=64 iterations=$((500 * SCALE)) post=handler" median
	[ "$place" = veth ] || return 0
	perf "post_send" "op=send size=64 depth=32 iterations=$((1000 * SCALE)) post=interrupt" less_clock post_send_ns_median
	perf "poll_cq" "op=send size=64 depth=32 iterations=$((1000 * SCALE)) post=locked poll=direct" less_clock poll_cq_ns_median
}

round_rdma_perf() {
	perf_between "one device" A
	perf_between veth B
}
