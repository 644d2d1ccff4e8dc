#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The ping-pong programs of libibverbs: both transports of IP, both ways of the wire, sizes, MTUs, events, privileges.
# smoke: yes
# rows: 2.053 3.046 3.048 3.065 3.078 4.002 4.050 4.137
# kernels: stock kcsan
# mixes: long
# timeout: 150
# cpus: 2
. "$(dirname "$0")/lib.sh"

# as_nobody PROGRAM: prints the name of a command that runs it without privileges, with 64 KiB of locked memory at most.
as_nobody() {
	local wrapper=/run/ferroband-nobody-$1
	printf '#!/bin/bash\nulimit -l 64\nexec setpriv --reuid=65534 --regid=65534 --clear-groups %s "$@"\n' "$1" > "$wrapper"
	chmod 755 "$wrapper"
	echo "$wrapper"
}

hosts_up || exit

for type in rc uc ud; do
	for v in 4 6; do
		V=$v check "$type, IPv$v, between hosts" pingpong ibv_${type}_pingpong -n 50
		V=$v LOOPBACK=yes check "$type, IPv$v, one device" pingpong ibv_${type}_pingpong -n 50
	done
	check "$type, completion events" pingpong ibv_${type}_pingpong -n 50 -e
done
check "rc, extended post and poll" pingpong ibv_rc_pingpong -n 50 -N

# The data is validated in these.
for size in 1 3 1023 1024 1025 65536 1048576; do
	check "rc, $size bytes" pingpong ibv_rc_pingpong -n 20 -c -s $size
done
for size in 1 1024 65537; do
	check "uc, $size bytes" pingpong ibv_uc_pingpong -n 20 -c -s $size
done
for size in 1 2048 4096; do
	check "ud, $size bytes" pingpong ibv_ud_pingpong -n 20 -c -s $size
done
for mtu in 256 512 1024 2048 4096; do
	check "rc, MTU $mtu" pingpong ibv_rc_pingpong -n 20 -c -s 20001 -m $mtu
	check "uc, MTU $mtu" pingpong ibv_uc_pingpong -n 20 -c -s 20001 -m $mtu
done

check "no privileges" pingpong "$(as_nobody ibv_rc_pingpong)" -n 20 -s 1000 -r 5
# says WORDS COMMAND...: it fails, with these words.
says() { local words=$1 output; shift; ! output=$("$@" 2>&1) && echo "$output" && grep -q "$words" <<< "$output"; }
check "locked memory is limited without privileges" says "register MR" on A timeout 20 "$(as_nobody ibv_rc_pingpong)" -d rxe0 -g 1 -s 1000000
check "and not limited with them" pingpong ibv_rc_pingpong -n 20 -s 1000000
check "the library warns about a low limit" \
	on A bash -c 'ulimit -l 32; setpriv --reuid=65534 --clear-groups ibv_devinfo 2>&1 | grep RLIMIT_MEMLOCK'
check "a device that is not there" says "nosuch not found" on A timeout 20 ibv_rc_pingpong -d nosuch
check "nothing is left" no_objects
finish
