# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Messages of a program with completion events, and of one that polls (bench_verbs.c), on one device and from one host to the
# other one.

# shellcheck disable=SC2034 # lib.sh reads it
needs_verbs="ib_core ib_uverbs_support ib_uverbs rdma_rxe"

# bench_verbs MEASURE WORD...: the time of a message.
bench_verbs() {
	local name=$1 said
	shift
	if said=$(on A timeout 600 /ferroband/selftests/bench_verbs "$@" 2>&1); then
		measure "$name" "${said%% *}"
	else
		failed "$name" "$said"
	fi
}

# message NAME "WAY..." OPERATION SIZE DEPTH QPS COUNT: WAY is events or poll.
message() {
	local name=$1 ways=$2 way
	shift 2
	for way in $ways; do
		bench_verbs "$name, $way, one device" "$way" "$@" rxe0 "$gid_a" rxe0 "$gid_a"
		bench_verbs "$name, $way, veth" "$way" "$@" rxe0 "$gid_a" rxe1 "$gid_b"
	done
}

round_verbs() {
	local gid_a gid_b
	gid_a=$(gid_index A)
	gid_b=$(gid_index B)
	message "send 64 B, 1 under way" "events poll" send 64 1 1 $((300 * SCALE))
	message "send 64 B, 32 under way" "events poll" send 64 32 1 $((1000 * SCALE))
	message "write 4 KiB, 32 under way" events write 4096 32 1 $((500 * SCALE))
	message "write 64 KiB, 8 under way" "events poll" write 65536 8 1 $((60 * SCALE))
	message "read 64 KiB, 8 under way" events read 65536 8 1 $((60 * SCALE))
	message "write 1 MiB, 2 under way" events write 1048576 2 1 $((8 * SCALE))
	message "read 1 MiB, 2 under way" events read 1048576 2 1 $((8 * SCALE))
	message "send 64 B, 16 QPs, 16 under way" events send 64 16 16 $((60 * SCALE))
	message "send 64 B, 64 QPs, 4 under way" events send 64 4 64 $((16 * SCALE))
	message "send 64 B, 200 QPs, 2 under way" events send 64 2 200 $((6 * SCALE))
	message "write 64 KiB, 16 QPs, 4 under way" events write 65536 4 16 $((6 * SCALE))
}
