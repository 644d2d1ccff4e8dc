# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Programs of librdmacm from one host to the other one: the wall-clock time of the client.

# shellcheck disable=SC2034 # lib.sh reads it
needs_connections="ib_core ib_uverbs_support ib_uverbs ib_cm iw_cm rdma_cm rdma_ucm rdma_rxe"

# timed MEASURE COUNT SERVER... -- CLIENT...: the time of one of COUNT.
timed() {
	local name=$1 count=$2 server=() pid begin end
	shift 2
	while [ "$1" != -- ]; do server+=("$1"); shift; done
	shift
	on_exec A timeout 300 "${server[@]}" > /dev/null 2>&1 &
	pid=$!
	retry 10 on A bash -c 'rdma resource show cm_id | grep -q LISTEN'
	sleep 1
	begin=$(date +%s%N)
	if on B timeout 300 "$@" > /tmp/connections.log 2>&1; then
		end=$(date +%s%N)
		measure "$name" $(((end - begin) / count))
	else
		failed "$name" "$(tail -n 3 /tmp/connections.log)"
		kill $pid
	fi
	wait $pid
}

round_connections() {
	local address pings=$((1000 * SCALE)) connections=$((1000 * SCALE))
	address=$(addr A)
	timed "rping round trip" $pings rping -s -a "$address" -C $pings -- rping -c -a "$address" -C $pings -v
	timed "cmtime connection" $connections cmtime -c $connections -- cmtime -c $connections -s "$address"
}
