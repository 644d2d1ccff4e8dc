#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The law of callbacks: a client that holds a lock while it posts may take it in its handlers; one handler of a completion
# queue runs at a time; events come after the state that they announce. rules_test asks for that, in C.
# rows: 2.007
# rows uml: 2.006
# kernels: stock debug kcsan uml
# timeout: 300
# mixes: long
# cpus: 2
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
# object_event COMMAND: an event of an object is provoked, and its handler looks.
object_event() { run "$1" && ! since | grep '^fail|'; }
# What hears it, in Rust: events of devices that hotplug_client has counted.
heard() { cat /sys/module/hotplug_client/parameters/events; }
heard_more() { [ "$(heard)" -gt "$1" ]; }

rules_up
# Stock rdma_rxe calls the handler with its queue locked, so that it can neither poll nor ask for the next announcement.
check "clients with locks and slow handlers" run "callbacks$(our_driver || echo ' no-rearm')"
results "all ways to poll are tried"

known_on_stock "a queue pair is in error when its owner is told" object_event qp-events
! our_driver || results "its owner is told, and asks"
check "a send queue is drained when its owner is told" object_event drained
check "a queue pair that takes no more of an SRQ is in error when its owner is told" object_event last-wqe
check "the limit of an SRQ is disarmed when its owner is told" object_event srq-limit
# Stock rdma_rxe loses the completions, and lets the queue pairs go on.
known_on_stock "queue pairs of a CQ that overruns are in error when its owner is told" object_event cq-error
known_on_stock "a queue pair that has lost a completion is in error when its owner is told" object_event cq-error-qp

# A handler that asks for its port takes the lock of net devices, around which the stock core has the lock that it tells events
# with: lockdep says so, whoever has made the driver.
if ! is_ours ib_core && [ -e /proc/lockdep_stats ]; then
	skip "events of the device" "the stock core cannot be asked in them"
	rules_down
	finish
fi
check "a handler of the device's events" run listen
check "one more, in Rust" modprobe hotplug_client
before=$(heard)
check "the device says in an interrupt that it has failed" run "dispatch fatal"
results "all handlers are told, in process context"
finds "device-fatal of rxe0" "and told of which device"
check "in Rust too" heard_more "$before"
rmmod hotplug_client
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
