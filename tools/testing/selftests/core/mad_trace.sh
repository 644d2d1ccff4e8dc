#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The events of ib_mad for tracing: their names and formats are those of the stock module (mad_trace-expected.txt), and each
# happens as often as there, with the same fields.
# timeout: 120
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mad.bash"

tracing=/sys/kernel/tracing
events=$tracing/events/ib_mad

# What differs from one time to the next: who, when, which device, addresses, transactions, times.
traced() {
	sed -n 's/^.*: \(ib_mad_[a-z_]*: \)/\1/p' $tracing/trace | sed -E 's/agent (0x)?[0-9a-f]+/agent A/; s/hi_tid 0x[0-9a-f]+/hi_tid T/
		s/tid 0x[0-9a-f]+/tid T/g; s/timeout [0-9]+/timeout J/; s/: [0-9]+:([0-9]+) (QP|mad)/: D:\1 \2/; s/retries\([01]\)/retries(R)/'
}
all() {
	local event
	echo "== events"
	(cd $events && printf '%s\n' */)
	for event in "$events"/*/; do
		echo "== format of $(basename "$event")"
		grep -v '^ID:' "$event/format"
	done
	echo "== what happens"
	echo > $tracing/trace
	echo 1 > $events/enable
	echo trace > /sys/module/$module/parameters/run
	echo 0 > $events/enable
	traced | LC_ALL=C sort | uniq -c
}

mountpoint -q $tracing || mount -t tracefs none $tracing
mad_up
mark $module
as_recorded "$(dirname "$0")/mad_trace-expected.txt" all
told_log "trace" _results
mad_down
finish
