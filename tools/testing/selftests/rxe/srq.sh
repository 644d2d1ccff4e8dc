#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Shared receive queues: call by call (verbs_srq.c), and under load.
# rows: 1.065 2.026 3.104 3.110 3.111 4.049 4.098 4.099 4.100 4.101 4.103 4.138
# kernels: stock kcsan uml
# mixes: long
# timeout: 120
# cpus: 2
. "$(dirname "$0")/lib.sh"

hosts_up || exit
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
told "call by call: the end" on A timeout 60 "$(dirname "$0")/verbs_srq" rxe0 "$(gid_index A)"
for v in 4 6; do
	V=$v check "ping-pong of 16 QPs, IPv$v" pingpong ibv_srq_pingpong -n 500 -c
done
check "ping-pong, completion events" pingpong ibv_srq_pingpong -n 200 -e
LOOPBACK=yes check "ping-pong, one device" pingpong ibv_srq_pingpong -n 200
for type in RC UD; do
	check "latency, $type" perftest ib_send_lat -c $type -n 200 --use-srq -s 1000
	check "bandwidth, $type" perftest ib_send_bw -c $type -n 500 --use-srq -s 1000
done
check "bandwidth of 4 QPs" perftest ib_send_bw -n 500 --use-srq -q 4
check "nothing is left" retry 5 no_objects
finish
