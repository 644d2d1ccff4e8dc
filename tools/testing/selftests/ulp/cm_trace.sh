#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The events of ib_cm and rdma_cm for tracing: their names and formats are those of the stock modules (cm_trace-expected.txt), and while a
# device comes, peers connect, disconnect and are refused, the device goes, and clients in the kernel are refused, each happens as often
# as there, with the same fields.
# mixes: ib_cm rdma_cm
# timeout: 180
. "$(dirname "$0")/lib.sh"

tracing=/sys/kernel/tracing
events=$tracing/events

# rping disconnects and destroys its identifier at once, which may be before the reply comes.
unsure='cm_event_\(handler\|done\): cm.id=0 .* DISCONNECTED '

# What differs from one time to the next: who, when, numbers that are not 0, ports that were not asked for.
traced() {
	sed -nE 's/^.*: ((icm|cm)_[a-z_]+: )/\1/p' $tracing/trace | grep -v "$unsure" | sed -E 's/\b(cm\.id|pd\.id|qp_num|local_id|remote_id)=[1-9][0-9]*/\1=N/g
		s/(10\.0\.0\.[12]):(7174|7175)\b/\1:=\2/g; s/(10\.0\.0\.[12]):[1-9][0-9]*/\1:P/g; s/:=/:/g'
}
formats() {
	local event
	for event in "$events"/{ib_cma,rdma_cma}/*/; do
		echo "== format of $(basename "$event")"
		grep -v '^ID:' "$event/format"
	done
}
happens() { # COMMAND...
	echo > $tracing/trace
	echo 1 > $events/ib_cma/enable
	echo 1 > $events/rdma_cma/enable
	"$@" > /dev/null 2>&1
	echo 0 > $events/ib_cma/enable
	echo 0 > $events/rdma_cma/enable
	traced | LC_ALL=C sort | uniq -c
}
devices() { link_down A; link_up A; }
# Refusals of all kinds, by clients in the kernel.
refuses() { local test; for test in refuse roce_paths; do echo $test > /sys/module/cm_test/parameters/run; done; }
connects() { rdma_pair rping -s -a "$(addr A)" -p 7174 -C 1 -- rping -c -a "$(addr A)" -p 7174 -C 1; }
is_refused() { on B rping -c -a "$(addr A)" -p 7175 -C 1; }
datagrams() { rdma_pair udaddy -b "$(addr A)" -c 1 -C 1 -- udaddy -s "$(addr A)" -c 1 -C 1; }
all() {
	echo "== events"
	(cd $events && printf '%s\n' ib_cma/*/ rdma_cma/*/)
	formats
	local what
	for what in devices connects is_refused datagrams; do
		echo "== $what"
		happens $what
	done
	hosts_down
	wire_up
	rdma link add cm0 type rxe netdev left
	modprobe cm_test
	echo "== refuses"
	happens refuses
	modprobe -r cm_test
	rdma link del cm0
	ip link del left
}

modinfo cm_test > /dev/null 2>&1 || skip_all "cm_test is built with FERROBAND_TESTS=m"
mountpoint -q $tracing || mount -t tracefs none $tracing
hosts_up || exit
modprobe rdma_ucm
as_recorded "$(dirname "$0")/cm_trace-expected.txt" all
check "nothing is left" modules_unload
finish
