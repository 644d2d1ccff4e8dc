# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Messages over TCP on the same pair of devices (bench_tcp.c). No module of RDMA is in their way: that mixes differ is noise.

# shellcheck disable=SC2034 # lib.sh reads it
needs_tcp="ib_core rdma_rxe"

# tcp NAME stream|pingpong SIZE COUNT
tcp() {
	local name=$1 said
	shift
	if said=$(timeout 300 /ferroband/selftests/bench_tcp "$@" A B "$(addr B)" 2>&1); then
		measure "$name" "$said"
	else
		failed "$name" "$said"
	fi
}

round_tcp() {
	tcp "TCP 64 B, in turn, veth" pingpong 64 $((600 * SCALE))
	tcp "TCP 64 B, stream, veth" stream 64 $((2000 * SCALE))
	tcp "TCP 64 KiB, stream, veth" stream 65536 $((100 * SCALE))
}
