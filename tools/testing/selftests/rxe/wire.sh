#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Two machines, the stock driver in one and ours in the other, understand each other in every transport and operation.
# rows: 3.019
# timeout: 240
# guests: 2
. "$(dirname "$0")/lib.sh"
hosts_up || exit

# lossy COMMAND...: an exchange over a network that loses packets, where the stock driver at one end does not always come to the end: it
# waits for ever for the last acknowledge of a program that has ended, and, with its like at the other end too, in 2 of 50 exchanges
# on a busy machine both stand still with nothing under way. So there are three tries; each failed one is told.
lossy() {
	local try
	for try in 1 2 3; do
		LIMIT=25 exchange "$@" && return
		echo "try $try failed"
	done
	return 1
}

for type in rc uc ud; do
	check "$type, IPv4" exchange ibv_${type}_pingpong -e -n 200
	V=6 check "$type, IPv6" exchange ibv_${type}_pingpong -e -n 200
done
check "rc, 100 x 64 KiB with validated data" exchange ibv_rc_pingpong -e -n 100 -s 65536 -m 4096 -c
check "rc, odd size, MTU 256" exchange ibv_rc_pingpong -e -n 20 -s 20001 -m 256 -c
check "uc, odd size with validated data" pingpong ibv_uc_pingpong -e -n 20 -s 20001 -c

while IFS='|' read -r name program options; do
	# shellcheck disable=SC2086 # a list
	check "$name" perftest $program $options
done << 'END'
send|ib_send_bw|-n 200 -s 65536 -u 20
send, both ways|ib_send_bw|-n 200 -s 8192 -b -u 20
UD send|ib_send_bw|-n 200 -s 1024 -c UD
write|ib_write_bw|-n 200 -s 65536 -u 20
write, both ways, 4 QPs|ib_write_bw|-n 200 -s 8192 -b -q 4 -u 20
write with immediate|ib_write_bw|-n 200 -s 8192 --write_with_imm -u 20
read|ib_read_bw|-n 200 -s 65536 -u 20
read, both ways, 4 QPs|ib_read_bw|-n 200 -s 8192 -b -q 4 -u 20
END

check "rping, IPv4" rdma_pair rping -s -a "$(addr A)" -V -C 20 -- rping -c -a "$(addr A)" -V -C 20
check "rping, IPv6" rdma_pair rping -s -a "$(addr6 A)" -V -C 20 -- rping -c -a "$(addr6 A)" -V -C 20
check "ucmatose" rdma_pair ucmatose -b "$(addr A)" -c 3 -- ucmatose -s "$(addr A)" -c 3
check "udaddy" rdma_pair udaddy -b "$(addr A)" -- udaddy -s "$(addr A)"

netem A loss 1% && netem B loss 1%
check "1 % loss" lossy ibv_rc_pingpong -e -n 100 -s 65536 -m 4096 -c
netem_off A; netem_off B
check "nothing is left" retry 10 no_objects
finish
