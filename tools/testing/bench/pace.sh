# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# How packets, acknowledgements and events keep pace: a program with completion events (bench_verbs.c) between two hosts.

# shellcheck disable=SC2034 # lib.sh reads it
needs_pace="ib_core ib_uverbs_support ib_uverbs rdma_rxe"

# counters DEVICE NAME...: the sum of hardware counters.
counters() {
	local sum=0 value name
	for name in "${@:2}"; do
		read -r value < "/sys/class/infiniband/$1/ports/1/hw_counters/$name" || return
		sum=$((sum + value))
	done
	echo $sum
}

# NET_RX softirqs of all processors.
receive_softirqs() { awk '$1 == "NET_RX:" { for (i = 2; i <= NF; i++) sum += $i; print sum }' /proc/softirqs; }

# now_counted: sender's packets in, receiver's packets in, requests sent again or twice, softirqs.
now_counted() {
	echo "$(counters rxe0 rcvd_pkts) $(counters rxe1 rcvd_pkts)" \
		"$(($(counters rxe0 completer_retry_err) + $(counters rxe1 duplicate_request)))" "$(receive_softirqs)"
}

# per A B [FACTOR]: A * FACTOR / B; of nothing there is one.
per() { awk -v a="$1" -v b="$2" -v factor="${3:-1}" 'BEGIN { printf "%.3f\n", a * factor / (b > 0 ? b : 1) }'; }

# pace NAME BACK OPERATION SIZE DEPTH QPS COUNT: BACK is what the sender's packets in are.
pace() {
	local name=$1 back=$2 said before after messages time completions events
	shift 2
	messages=$(($4 * $5))
	read -ra before < <(now_counted)
	if ! said=$(on A timeout 120 /ferroband/selftests/bench_verbs events "$@" rxe0 "$gid_a" rxe1 "$gid_b" 2>&1); then
		failed "$name" "$said"
		return
	fi
	read -ra after < <(now_counted)
	read -r time completions events <<< "$said"
	measure "$name" "$time"
	measure "$name: completions per event" "$(per "$completions" "$events")" completions
	measure "$name: $back per message" "$(per $((after[0] - before[0])) $messages)" packets
	measure "$name: requests again, per 1,000 messages" "$(per $((after[2] - before[2])) $messages 1000)" requests
	measure "$name: packets per receive softirq" \
		"$(per $((after[0] - before[0] + after[1] - before[1])) $((after[3] - before[3])))" packets
}

round_pace() {
	local gid_a gid_b
	gid_a=$(gid_index A)
	gid_b=$(gid_index B)
	pace "send 64 B, 1 under way" ACKs send 64 1 1 $((500 * SCALE))
	pace "send 64 B, 32 under way" ACKs send 64 32 1 $((2000 * SCALE))
	pace "send 64 B, 16 QPs, 16 under way" ACKs send 64 16 16 $((125 * SCALE))
	pace "write 64 KiB, 8 under way" ACKs write 65536 8 1 $((100 * SCALE))
	pace "read 64 KiB, 8 under way" answers read 65536 8 1 $((100 * SCALE))
}
