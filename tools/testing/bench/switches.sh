# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Messages of 64 KiB with what our driver does for them switched on and off: packets in one buffer between two hosts, copies without
# packets on one device. The stock driver has no such parameters; it is measured beside each.

# shellcheck disable=SC2034 # lib.sh reads it
needs_switches="ib_core ib_uverbs_support ib_uverbs rdma_rxe"

# switched MEASURE PARAMETER VALUE PEER OPERATION
switched() {
	local name=$1 said peer
	peer=$(dev "$4")
	driver_again "$2=$3" || return
	if said=$(on A timeout 600 /ferroband/selftests/bench_verbs events "$5" 65536 8 1 $((60 * SCALE)) rxe0 "$(gid_index A)" \
		"$peer" "$(gid_index "$4")" 2>&1); then
		measure "$name, $2=$3" "${said%% *}"
	else
		failed "$name, $2=$3" "$said"
	fi
}

round_switches() {
	local operation value
	for operation in write read; do
		for value in 1 0; do switched "$operation 64 KiB, 8 under way, veth" segmentation $value B $operation; done
		for value in 1 0; do switched "$operation 64 KiB, 8 under way, one device" direct_copy $value A $operation; done
	done
	driver_again
}
