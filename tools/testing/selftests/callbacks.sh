#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The law of callbacks: a client that holds a lock while it posts may take it in its handlers; one handler of a completion
# queue runs at a time; events come after the state that they announce. rules_test asks for that, in C.
# rows: 2.006 2.007
# timeout: 300
# mixes: all
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/rules.bash"

# seen: what the handler of events has found.
seen() { since | sed -n 's/^event|//p'; }
# finds WORDS NAME: events like the first word tell what the handler has found; that is these words, once or several times.
finds() {
	retry 5 told_of "${1%% *}"
	sleep 0.3
	check_equal "$2" "$1" "$(seen | grep "^${1%% *} " | sort -u)"
	mark $module
}
told_of() { seen | grep -q "^$1 "; }
qp_events() { run qp-events && ! since | grep '^fail|'; }

rules_up
# Stock rdma_rxe calls the handler with its queue locked, so that it can neither poll nor ask for the next announcement.
check "clients with locks and slow handlers" run "callbacks$(our_driver || echo ' no-rearm')"
results "all ways to poll are tried"

known_on_stock "a queue pair is in error when its owner is told" qp_events
! our_driver || results "its owner is told, and asks"

check "a handler of the device's events" run listen
ip link set left down
finds "port-error not-active" "told of an error, it finds the port down"
ip link set left up
finds "port-active active" "told that it is active, it finds it active"
sleep 2
mark $module
echo ::ffff:10.7.0.1 > /sys/module/$module/parameters/gid
ip addr add 10.7.0.1/24 dev left
finds "gid present" "told that the table has changed, it finds the new GID"
ip addr del 10.7.0.1/24 dev left
finds "gid absent" "and finds that it is gone"
check "it is told no more" run unlisten
rules_down
finish
