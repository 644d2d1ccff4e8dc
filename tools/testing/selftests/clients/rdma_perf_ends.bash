# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For tests of rdma_perf with a client's and a server's end that know nothing of each other: the server on host A, the client
# on host B, in one kernel or in two.

files=/sys/kernel/debug
# How many messages most runs have: fewer between two emulated machines.
ITERATIONS=$([ -z "${FERROBAND_HOST:-}" ] && echo 200 || echo 60)

# at HOST COMMAND...: in the kernel of a host. Which namespace that is in does not matter: devices are named.
at() { if [ -z "${FERROBAND_HOST:-}" ]; then (exec "${@:2}"); else on "$@"; fi; }
at_exec() { if [ -z "${FERROBAND_HOST:-}" ]; then exec "${@:2}"; else on_exec "$@"; fi; }

# put HOST FILE TEXT: by one write, which lines of the shell's own would not be.
put() { at_exec "$1" timeout "${LIMIT:-20}" bash -c 'exec cat <<< "$1" > "$2"' put "$3" "$files/$2"; }
# value HOST FOLDER KEY: of the last result.
value() { at "$1" sed -n "s/^$3=//p" "$files/$2/result"; }
# said HOST FOLDER: what an end says; fails until it does.
said() { at "$1" grep . "$files/$2/local"; }

# ends_up MODULE...: hosts with devices, and the modules in their kernels.
ends_up() {
	hosts_up && _both modprobe -a "$@" || return
	_both bash -c 'mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug'
}

# end_of HOST ROLE [4|6]: the words for the device and the GID.
end_of() { echo "$2=$(dev "$1") $2_gid=$(gid_index "$1" "${3:-4}")"; }

# by_hand CLIENT_WORDS [SERVER_WORDS]: each end gets the output of the other one, as soon as that listens.
by_hand() {
	local client server text status=0
	(put A rdma_perf/server/run "$(end_of A server "${V:-4}") ${2:-}") & server=$!
	(put B rdma_perf/client/run "$(end_of B client "${V:-4}") verify=1 $1") & client=$!
	text=$(retry 20 said B rdma_perf/client && said B rdma_perf/client) &&
		retry 20 put_here A rdma_perf/server/remote "$text" &&
		text=$(retry 20 said A rdma_perf/server && said A rdma_perf/server) &&
		retry 20 put_here B rdma_perf/client/remote "$text" || status=$?
	[ $status = 0 ] || kill $client $server
	wait $client || status=$?
	wait $server || status=$?
	return $status
}
put_here() { (put "$@"); }

# by_cm CLIENT_WORDS [SERVER_WORDS]: the client connects to where the server listens.
by_cm() {
	local server status=0 address
	address=$([ "${V:-4}" = 4 ] && addr A || addr6 A)
	(put A rdma_perf_cm/server/run "$(end_of A server "${V:-4}") ${2:-}") & server=$!
	retry 10 at A bash -c 'rdma resource show cm_id | grep -q LISTEN'
	sleep 0.5
	(put B rdma_perf_cm/client/run "$(end_of B client "${V:-4}") verify=1 address=$address $1") || status=$?
	[ $status = 0 ] || kill $server
	wait $server || status=$?
	return $status
}

# kinds WIRING: what both ends do.
kinds() {
	local op size
	for op in send write read fetch_add cmp_swap; do
		check "$1, $op" "$1" "op=$op iterations=$ITERATIONS"
	done
	for size in 1 65537; do
		for op in send write read; do
			check "$1, $op of $size bytes" "$1" "op=$op size=$size depth=4 iterations=20"
		done
	done
	check "$1, ping-pong" "$1" "pattern=pingpong iterations=$ITERATIONS"
	check "$1, 8 queue pairs" "$1" "op=cmp_swap qps=8 iterations=400"
	V=6 check "$1, IPv6" "$1" "op=write iterations=100"
	check "$1, posting in an interrupt, a server that polls" "$1" "post=interrupt iterations=100" "poll=direct post=softirq"
	check "$1, for a second" "$1" "seconds=1 op=write"
}

# results FOLDER: of a run of so many messages.
results() {
	check_equal "the client's result" "$ITERATIONS $ITERATIONS send" \
		"$(value B "$1/client" operations) $(value B "$1/client" latency_count) $(value B "$1/client" op)"
	check_equal "the server's result" "$ITERATIONS send 1" "$(value A "$1/server" operations) $(value A "$1/server" op) $(value A "$1/server" qps)"
	check_equal "the client names no server" "" "$(value B "$1/client" server)"
}
