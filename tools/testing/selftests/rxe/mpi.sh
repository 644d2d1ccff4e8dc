#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Open MPI over UCX: two processes on one device and on two hosts, over IPv4 and IPv6, by RC and by UD, check the data of each other
# (mpi_exchange.c, NetPIPE); UCX's own benchmark. UCX finds its peers by datagrams, and drops those that are not for a GID of its
# device: before version 1.19 it takes the version of the IP header from the service level of the completion, which stock leaves 0.
# rows: 7.027
# image: mpi
# timeout: 180
# long: 600 ALL=yes
# cpus: 2
. "$(dirname "$0")/lib.sh"

ls /usr/lib/*/ucx/libuct_ib.so* > /dev/null 2>&1 || skip_all "UCX of this Debian is built without verbs"
here=$(dirname "$0")
# Time without an answer after which UCX gives up a peer.
export UCX_UD_TIMEOUT=$((10 * SLOWNESS))s

# ucx TRANSPORT VERSION: the variables of UCX that are the same on both hosts.
ucx() { echo "UCX_TLS=$1,self" "UCX_IB_GID_INDEX=$(_gid_of A "$2")"; }

# mpirun_on HOSTS COMMAND...: with two processes.
mpirun_on() {
	local hosts=$1
	shift
	timeout 60 "$here/mpi_agent" hostA mpirun --allow-run-as-root -np 2 --host "$hosts" --prtemca plm_ssh_agent "$here/mpi_agent" \
		--mca pml ucx -x UCX_TLS -x UCX_IB_GID_INDEX -x UCX_UD_TIMEOUT "$@" 2>&1
}

# exchange_on HOSTS DEVICES TRANSPORT VERSION: the two processes find all data right, and use these devices.
exchange_on() {
	local output
	output=$(export $(ucx "$3" "$4"); mpirun_on "$1" "$here/mpi_exchange")
	echo "$output" | tail -n 20
	[ "$(sed -n 's/^rank [01], \(.*\):1: all is right$/\1/p' <<< "$output" | sort | xargs)" = "$2" ]
}

# netpipe VERSION: NetPIPE finds all data right.
netpipe() {
	local output
	output=$(export $(ucx rc,ud "$1"); mpirun_on hostA,hostB NPopenmpi -i -u 262144)
	echo "$output" | tail -n 40
	[ "$(grep -c 'Integrity check passed' <<< "$output")" -ge 30 ]
}

# benchmark VERSION OPTION...: ucx_perftest, which Debian builds for MPI.
benchmark() { (export $(ucx rc,ud "$1"); mpirun_on hostA,hostB ucx_perftest "${@:2}"); }

hosts_up || exit
check_equal "both hosts have the same GID indices" "$(gid_index A) $(gid_index A 6)" "$(gid_index B) $(gid_index B 6)"
check "IPv6: two hosts" exchange_on hostA,hostB "rxe0 rxe1" rc,ud 6
# With IPv4 the stock driver gets to no connection.
known_on_stock "IPv4: two hosts" exchange_on hostA,hostB "rxe0 rxe1" rc,ud 4
known_on_stock "IPv4: two hosts, all by datagrams" exchange_on hostA,hostB "rxe0 rxe1" ud 4
known_on_stock "IPv4: two processes on one device" exchange_on hostA:2 "rxe0 rxe0" rc,ud 4
if [ -n "${ALL:-}" ]; then
	check "IPv6: two hosts, all by datagrams" exchange_on hostA,hostB "rxe0 rxe1" ud 6
	check "IPv6: two processes on one device" exchange_on hostA:2 "rxe0 rxe0" rc,ud 6
	known_on_stock "NetPIPE" netpipe 4
fi
known_on_stock "ucx_perftest: latency" benchmark 4 -t tag_lat -n 100 -w 10
known_on_stock "ucx_perftest: bandwidth" benchmark 4 -t tag_bw -s 65536 -n 100 -w 10
check "nothing is left" retry 5 no_objects
hosts_down
check "the modules go" modules_unload
finish
