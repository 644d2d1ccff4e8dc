#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# perftest: bandwidth and latency programs of every operation, transport, direction and depth.
# rows: 3.001 3.021 3.024 3.025 3.028 3.029
# With BRIEF=yes each operation and transport once.
# kernels: stock kcsan
# mixes: long
# timeout: 240
# cpus: 2
. "$(dirname "$0")/lib.sh"

# by_cm PROGRAM [OPTION...]: the same with a connection by rdma_cm.
by_cm() { rdma_pair "$1" -F -R "${@:2}" -- "$1" -F -R "${@:2}" "$(addr A)"; }

hosts_up || exit

if [ -n "${BRIEF:-}" ]; then
	sizes='-s 1048576 -n 5' sizes_name='1 MiB'
	left_out='QPs|both ways|one outstanding|on one device|IPv6|, inline'
else
	sizes='-a -n 5' sizes_name='all sizes'
	left_out='^$'
fi

# chosen NAME: it is run.
chosen() { ! [[ $1 =~ $left_out ]]; }

# name, program, options
while IFS='|' read -r name program options; do
	chosen "$name" || continue
	# shellcheck disable=SC2086 # a list
	check "${name/SIZES/$sizes_name}" perftest $program ${options/SIZES/$sizes}
done << 'END'
RC send, SIZES|ib_send_bw|SIZES
RC write, SIZES|ib_write_bw|SIZES
RC read, SIZES|ib_read_bw|SIZES
RC send|ib_send_bw|-n 200 -s 65536
RC send, both ways|ib_send_bw|-n 200 -s 8192 -b
RC send, 4 QPs|ib_send_bw|-n 200 -s 8192 -q 4
RC send by events|ib_send_bw|-n 200 -s 8192 -e
RC send, MTU 4096|ib_send_bw|-n 100 -s 65536 -m 4096
UC send|ib_send_bw|-n 200 -s 2048 -c UC
UD send|ib_send_bw|-n 200 -s 1024 -c UD
RC write, 4 QPs|ib_write_bw|-n 200 -s 8192 -q 4
RC write, both ways|ib_write_bw|-n 200 -s 8192 -b
RC write with immediate|ib_write_bw|-n 200 -s 8192 --write_with_imm
UC write|ib_write_bw|-n 200 -s 8192 -c UC
RC read, 4 QPs|ib_read_bw|-n 200 -s 8192 -q 4
RC read, both ways|ib_read_bw|-n 200 -s 8192 -b
RC read, one outstanding|ib_read_bw|-n 100 -s 65536 -o 1
compare and swap|ib_atomic_bw|-n 200 -A CMP_AND_SWAP
fetch and add|ib_atomic_bw|-n 200 -A FETCH_AND_ADD
fetch and add latency|ib_atomic_lat|-n 200 -A FETCH_AND_ADD
RC send latency|ib_send_lat|-n 200 -s 64
RC send latency, inline|ib_send_lat|-n 200 -s 64 -I 64
UC send latency|ib_send_lat|-n 200 -s 64 -c UC
UD send latency|ib_send_lat|-n 200 -s 64 -c UD
RC write latency|ib_write_lat|-n 200 -s 64
RC read latency|ib_read_lat|-n 200 -s 64
END

check "RC send, connection by rdma_cm" by_cm ib_send_bw -n 100 -s 8192
check "RC write, connection by rdma_cm" by_cm ib_write_bw -n 100 -s 8192
if chosen "over IPv6, on one device"; then
	V=6 check "RC write over IPv6" perftest ib_write_bw -n 200 -s 65536
	LOOPBACK=yes check "RC write on one device" perftest ib_write_bw -n 200 -s 65536
	LOOPBACK=yes check "RC read on one device" perftest ib_read_bw -n 200 -s 65536
	LOOPBACK=yes check "UD send on one device" perftest ib_send_bw -n 200 -s 1024 -c UD
fi
check "RC with validated data" pingpong ibv_rc_pingpong -c -n 20 -s 65536
check "nothing is left" no_objects
finish
