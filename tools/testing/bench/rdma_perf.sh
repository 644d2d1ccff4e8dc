# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Runs of rdma_perf from one host to the other one.

files=/sys/kernel/debug/rdma_perf

perf() { echo "client=rxe0 server=rxe1 client_gid=$(gid_index A) server_gid=$(gid_index B) mtu=4096 $*" > $files/run; } # WORDS
value() { sed -n "s/^$1=//p" $files/result; }
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

mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
rounds ib_core rdma_rxe rdma_perf
