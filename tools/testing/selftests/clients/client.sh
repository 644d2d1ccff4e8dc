#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A client in the kernel, in Rust: it is added to devices registered before it and after it, and has traffic on each.
# kernels: stock debug kcsan uml
# rows: 1.019 1.054 9.026
# timeout: 120
. "$(dirname "$0")/lib.sh"

saw() { cat "/sys/module/hotplug_client/parameters/$1"; }
saw_at_least() { [ "$(saw "$1")" -ge "$2" ]; }
says() { check_equal "$1: $2" "$3" "$(saw "$2")"; }        # when, counter, what it says
load() { modprobe hotplug_client; }
unload() { rmmod hotplug_client; }
add_link() { rdma link add "$1" type rxe netdev "$2"; }
delete_link() { rdma link delete "$1"; }
# The last line that it has logged.
summary() { dmesg | grep -o 'hotplug_client: .*' | tail -1; }

modinfo hotplug_client > /dev/null 2>&1 || skip_all "hotplug_client is built with FERROBAND_TESTS=m"
modprobe -a rdma_rxe ib_uverbs
wire_up
traces=/sys/kernel/tracing
mountpoint -q $traces || mount -t tracefs none $traces

check "a device comes first" add_link rxe_left left
echo 1 > $traces/events/rdma_core/enable
check "then the client" load
says "with one device" added 1
says "with one device" connected 1
check "messages go from the device to itself" retry 20 saw_at_least messages 64
for kind in pd cq qp; do
	check "its $kind is listed as the client's" grep -q 'comm \[hotplug_client\]' <(rdma resource show $kind)
done
check "a device comes later" add_link rxe_right right
says "with two devices" added 2
check "messages go there too" retry 20 saw_at_least messages 128
# The API in Rust drains queue pairs by itself.
check "another client, which drains its queue pairs by ib_drain_qp()" eval 'modprobe client_c && rmmod client_c'
check "a device gets another name" rdma dev set rxe_right name rxe_other
says "with another name" renamed 1
check "a net device goes down" ip link set left down
check "the client is told" retry 10 saw_at_least events 1
check "a device goes" delete_link rxe_other
says "with one device less" removed 1
check "the flushed requests have come back" saw_at_least flushed 8
check "the module of the devices goes" rmmod rdma_rxe
says "without devices" removed 2
says "at the end" faults 0
check "the client goes" unload
echo 0 > $traces/events/rdma_core/enable
for event in cq_alloc cq_schedule cq_process cq_poll cq_drain_complete cq_free; do
	check "tracepoint rdma_core:$event" grep -q " $event: cq.id=" $traces/trace
done
check "what it says at the end" grep -q '128 messages.* 0 faults' <(summary)

modprobe rdma_rxe
ip link set left up
add_link rxe_left left
add_link rxe_right right
check "once more, with two devices" load
check "the client goes first" unload
check "the devices are there" rdma link show rxe_left/1
check "nobody is told of them" rmmod rdma_rxe
finish
