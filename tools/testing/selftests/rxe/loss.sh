#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Reliable transport over a network that loses, reorders, duplicates and corrupts packets on both ends.
# rows: 3.016 3.074 3.075
# kernels: stock kcsan
# timeout: 240
# cpus: 2
. "$(dirname "$0")/lib.sh"
export LIMIT=100

# faults RULE...: what leaves either host suffers.
faults() { netem A "$@" && netem B "$@"; }
faults_off() { netem_off A; netem_off B; }

# counter HOST NAME: a hardware counter of its device (which is only shown in the first network namespace).
counter() { cat "/sys/class/infiniband/$(dev "$1")/ports/1/hw_counters/$2"; }

# moved NAME: the counter of either host went up since `note` was called.
note() { noted="$(counter A "$1") $(counter B "$1")"; }
moved() { echo "$1: $noted -> $(counter A "$1") $(counter B "$1")"; [ "$noted" != "$(counter A "$1") $(counter B "$1")" ]; }

hosts_up || exit

# Neighbours are known before the faults begin: what the kernel loses of its own discovery is no matter of this test.
check "neighbours" eval 'on B ping -q -c 1 "$(addr6 A)" && on A ping -q -c 1 "$(addr6 B)"'
faults loss 1% delay 100us reorder 95%
note out_of_seq_request
check "1,000 x 64 KiB, 1 % loss and reordering" exchange ibv_rc_pingpong -n 1000 -s 65536 -m 4096 -c
check "sequence errors were counted" moved out_of_seq_request
note duplicate_request
faults duplicate 5%
check "duplication" exchange ibv_rc_pingpong -n 200 -s 16384 -c
check "duplicates were counted" moved duplicate_request
faults corrupt 1%
check "corruption" exchange ibv_rc_pingpong -n 200 -s 16384 -c
faults loss 1% duplicate 1% delay 100us reorder 95%
check "writes under all of it" perftest ib_write_bw -n 100 -s 65536 -m 4096
check "reads under all of it" perftest ib_read_bw -n 50 -s 65536 -m 4096
check "validated rping under all of it" rdma_pair_lossy rping -s -a 10.0.0.1 -V -C 40 -S 10000 -- \
	rping -c -a 10.0.0.1 -V -C 40 -S 10000
faults loss 5%
V=6 check "5 % loss, IPv6" exchange ibv_rc_pingpong -n 100 -s 16384 -c
check "connections under 5 % loss" rdma_pair ucmatose -b 10.0.0.1 -c 5 -C 5 -- ucmatose -s 10.0.0.1 -c 5 -C 5
faults_off
check "clean again" pingpong ibv_rc_pingpong -n 100 -s 16384 -c
check "nothing is left" retry 10 no_objects
finish
