# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# What an idle queue pair costs (bench_qps.c).

# shellcheck disable=SC2034 # lib.sh reads it
needs_queue_pairs="ib_core ib_uverbs_support ib_uverbs rdma_rxe"

round_queue_pairs() {
	local memory create destroy cache
	# Slabs that the last round left would be taken first.
	for cache in /sys/kernel/slab/*/shrink; do echo 1 > "$cache"; done
	read -r memory create destroy < <(on A timeout 300 /ferroband/selftests/bench_qps rxe0 $((1000 * SCALE))) || return
	measure "memory of a queue pair" "$memory" bytes
	measure "ibv_create_qp" "$create"
	measure "ibv_destroy_qp" "$destroy"
}
