#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Forged MADs by the thousand, or million, from the wire and from programs (fuzz_mads.c): nothing breaks, memory does not run
# out, others are served all the while. SEED=… repeats a run.
# kernels: uml
# kernels long: stock
# timeout: 300
# long: 7200 COUNT=1000000
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")

# The forged senders are found where the peer is.
neighbours() {
	local mac i
	mac=$(on B cat /sys/class/net/vethB/address)
	for i in {0..63}; do
		printf 'neigh replace 10.0.0.%d lladdr %s dev vethA nud permanent\n' $((64 + i)) "$mac"
		printf 'neigh replace fd00::10%02x lladdr %s dev vethA nud permanent\n' "$i" "$mac"
	done | on A ip -batch -
}

hosts_up || exit
modprobe ib_umad || exit
check "neighbours" neighbours
a4=$(gid_index A) a6=$(gid_index A 6) b4=$(gid_index B) b6=$(gid_index B 6)
# Somebody whom the CM's MADs may find.
on_exec A rping -s -a "$(addr A)" > /dev/null 2>&1 &
listener=$!
told "the fuzzer ends well" "$here/fuzz_mads" rxe0 A vethA "$a4" "$a6" rxe1 B vethB "$b4" "$b6" "$(fuzz_count 6000 4000)" "${SEED:-1}"
kill $listener 2> /dev/null
wait $listener 2> /dev/null
"$here/umad_storm" serve rxe1 "$b6" > /run/fuzz_mads.server 2>&1 &
server=$!
check "a server" retry 20 grep -q ready /run/fuzz_mads.server
told "a new program has its requests answered" timeout 30 "$here/umad_storm" ask rxe0 "$a6" rxe1 "$b6"
kill $server
wait $server 2> /dev/null
check "connections work" rdma_pair rping -s -a "$(addr A)" -V -C 5 -- rping -c -a "$(addr A)" -V -C 5
after_attack
