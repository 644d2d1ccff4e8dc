#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The samples: the smallest client and one that plays ping-pong with itself, in Rust and in C, and the smallest driver.
# smoke: yes
# rows: 2.011 7.046
# timeout: 90
# mixes: all
. "$(dirname "$0")/lib.sh"

modinfo client_rust > /dev/null 2>&1 || skip_all "the samples are built with FERROBAND_TESTS=m"
modprobe rdma_rxe
wire_up
rdma link add rxe0 type rxe netdev left

hello() { dmesg | grep -q "$1: received: hello$"; }        # module
objects() { rdma resource show qp link rxe0/1 | grep -c "comm \[$1\]"; }    # module

for sample in client_rust client_c; do
	check "$sample is loaded" modprobe $sample
	check "$sample has received its message" retry 10 hello $sample
	check_equal "$sample has a queue pair" 1 "$(objects $sample)"
	check "$sample is unloaded" rmmod $sample
	check_equal "$sample has none any more" 0 "$(objects $sample)"
done
says() { dmesg | grep -q "$1: $2\$"; }    # module, text
for sample in pingpong_rust pingpong_c; do
	check "$sample is loaded" modprobe $sample
	check "$sample is connected" says $sample connected
	check_equal "$sample has two queue pairs" 2 "$(objects $sample)"
	check "$sample has played to the end" retry 20 says $sample 'ping, 200 times'
	check "$sample was told that few receives are left" says $sample 'few receives are left'
	check "$sample is unloaded" rmmod $sample
done
for sample in client_rust client_c; do
	check "$sample is loaded again" modprobe $sample
done
check "the device goes under both" rdma link delete rxe0
check "both are unloaded" modprobe -r client_rust client_c

info() { ibv_devinfo -v -d rxe_sample | sed -n "s/^[[:space:]]*$1:[[:space:]]*//p"; }
modprobe -r rdma_rxe
modprobe ib_uverbs
check "the driver is loaded" modprobe driver_rust
check "libibverbs opens its device" retry 5 ibv_devinfo -d rxe_sample
check_equal "its GUID" 0200:00ff:fe00:0001 "$(info node_guid)"
check_equal "what it can" 16 "$(info max_pd)"
check_equal "the state of its port" "PORT_ACTIVE (4)" "$(info state)"
check_equal "its MTU" "1024 (3)" "$(info active_mtu)"
check_equal "its LID" 7 "$(info port_lid)"
check_equal "its link" InfiniBand "$(info link_layer)"
check_equal "its GID" fe80:0000:0000:0000:0200:00ff:fe00:0001 "$(cat /sys/class/infiniband/rxe_sample/ports/1/gids/0)"
check_equal "its P_Key" 0xffff "$(cat /sys/class/infiniband/rxe_sample/ports/1/pkeys/0)"
check "clients do not take it for what it is not" modprobe client_rust
check_equal "so they have nothing of it" 0 "$(rdma resource show pd dev rxe_sample | grep -c client_rust)"
modprobe -r client_rust
check "the driver is unloaded" rmmod driver_rust
check_fails "its device is gone" test -e /sys/class/infiniband/rxe_sample
finish
